//! The files that pages name: each `file.rs` in backticks exists, under the whole path that the page gives. A page may leave out
//! folders at the front, and `src`.

use std::collections::BTreeSet;
use std::path::Path;

use crate::tree;

/// Files with these extensions are looked for.
const EXTENSIONS: [&str; 2] = ["rs", "py"];

/// The names of files in a page's code spans, with their lines.
pub fn named(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in page.lines().enumerate() {
        let spans = line.split('`').skip(1).step_by(2);
        found.extend(spans.filter(|span| is_file(span)).map(|span| (index + 1, span)));
    }
    found
}

fn is_file(span: &str) -> bool {
    let extension = Path::new(span).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
        && span.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
}

/// All ends of the paths of files, with `src` and without: what a page may call them.
pub fn ends(paths: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in paths {
        for path in [path.replace("/src/", "/"), path] {
            let starts = path.match_indices('/').map(|(at, _)| at + 1);
            found.extend(std::iter::once(0).chain(starts).map(|at| path[at..].to_string()));
        }
    }
    found
}

/// The files that a page names and that do not exist, one line each.
pub fn faults(page: &str, ends: &BTreeSet<String>) -> Vec<String> {
    let missing = named(page).into_iter().filter(|(_, file)| !ends.contains(*file));
    missing.map(|(line, file)| format!("line {line}: there is no file {file}")).collect()
}

/// The ends of all files below the root that a page may name.
pub fn ends_of_tree(root: &Path) -> BTreeSet<String> {
    let files = EXTENSIONS.into_iter().flat_map(|extension| tree::files(root, extension));
    ends(files.map(|path| tree::below(root, &path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_the_ends_of_their_paths() {
        let ends = ends(["crates/log/src/tail.rs".to_string()]);
        assert_eq!(faults("see `tail.rs`, `log/tail.rs`\nand `crates/log/src/tail.rs`", &ends), [""; 0]);
        assert_eq!(faults("see\n`log/head.rs`", &ends), ["line 2: there is no file log/head.rs"]);
        assert_eq!(faults("`og/tail.rs`", &ends), ["line 1: there is no file og/tail.rs"]);
        assert_eq!(faults("`a.rs b.rs` `tail.md` tail2.rs", &ends), [""; 0]);
    }

    #[test]
    fn pages_name_files_that_exist() {
        let root = tree::root();
        let ends = ends_of_tree(&root);
        // The changelog names files as they were.
        let pages = tree::files(&root, "md").into_iter().filter(|page| !page.ends_with("CHANGELOG.md"));
        let faults: Vec<_> = pages
            .flat_map(|page| {
                let name = tree::below(&root, &page);
                faults(&tree::read(&page), &ends).into_iter().map(move |fault| format!("{name}, {fault}"))
            })
            .collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
