//! The links of pages: every relative one leads to a file, and to a heading in it where it names one.

use std::collections::BTreeSet;
use std::path::Path;

use crate::tree;

/// A link of a page.
#[derive(Debug, Eq, PartialEq)]
pub struct Link {
    /// The line it is on, from 1.
    pub line: usize,
    /// Where it leads, as written.
    pub target: String,
}

/// The links of a page, but for those in code and those to the network.
pub fn links(page: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (line, text) in prose(page) {
        let text = without_code(text);
        for (at, _) in text.match_indices("](") {
            let rest = &text[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push(Link { line, target: target.to_string() });
            }
        }
    }
    found
}

/// The names of a page's headings, as links have them.
pub fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(page).filter(|(_, line)| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let name: String =
            heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c)).collect();
        let name = name.replace(' ', "-");
        let again = (1..).map(|count| format!("{name}-{count}"));
        let free = std::iter::once(name.clone()).chain(again).find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

/// The lines outside blocks of code, with their numbers.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!in_code && !is_fence).then_some((index + 1, line))
    })
}

fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// What is wrong with the links of the page at `path`, one line each.
pub fn faults(path: &Path, page: &str) -> Vec<String> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let wrong = links(page).into_iter().filter(|link| {
        let (file, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
        if file.is_empty() {
            return !anchors(page).contains(anchor);
        }
        let file = folder.join(file);
        let is_page = file.extension().is_some_and(|extension| extension == "md");
        !file.exists() || is_page && !anchor.is_empty() && !anchors(&tree::read(&file)).contains(anchor)
    });
    wrong.map(|link| format!("line {}: {} leads nowhere", link.line, link.target)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_but_for_code_and_network() {
        let page = "[a](b.md#c) `[x](y)` [d](https://e)\n```\n[f](g)\n```\n![h](i.svg)";
        let found: Vec<_> = links(page).into_iter().map(|link| (link.line, link.target)).collect();
        assert_eq!(found, [(1, "b.md#c".to_string()), (5, "i.svg".to_string())]);
    }

    #[test]
    fn headings_are_named_as_on_the_forges() {
        let page = "# The `map`: A-b\n## Twice\n## Twice\n```\n# not this\n```";
        assert_eq!(anchors(page), ["the-map-a-b", "twice", "twice-1"].map(String::from).into());
    }

    #[test]
    fn a_link_to_no_file_and_one_to_no_heading_are_faults() {
        let path = tree::root().join("README.md");
        assert_eq!(faults(&path, "[a](docs/no.md)").len(), 1);
        assert_eq!(faults(&path, "[a](docs/TESTING.md#no-such-heading)").len(), 1);
        assert_eq!(faults(&path, "# Here\n[a](docs/TESTING.md) [b](#here)").len(), 0);
    }

    #[test]
    fn every_link_of_every_page_leads_somewhere() {
        let root = tree::root();
        let pages = tree::files(&root, "md");
        assert!(pages.len() > 15, "only {} pages found", pages.len());
        let wrong = pages.iter().flat_map(|path| {
            let faults = faults(path, &tree::read(path));
            faults.into_iter().map(|fault| format!("{}: {fault}", tree::below(&root, path)))
        });
        let wrong: Vec<_> = wrong.collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
