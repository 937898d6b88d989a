//! The files that pages name: each `file.rs` in backticks exists, under the whole path that the page gives. A page may leave out
//! folders at the front, and `src`. And the tests that `docs/TESTING.md` names: each `name_of_a_test` is a function, a module or a file.

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

/// The names of several words in a page's code spans, with their lines: on a page about tests these are tests, or targets of fuzzing.
pub fn tests_named(page: &str) -> Vec<(usize, &str)> {
    let is_name = |span: &str| {
        span.contains('_') && span.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let lines = page.lines().enumerate();
    let spans =
        lines.flat_map(|(index, line)| line.split('`').skip(1).step_by(2).map(move |span| (index + 1, span)));
    spans.filter(|(_, span)| is_name(span)).collect()
}

/// Whether a function or a module of this name is defined in a file.
pub fn defines(content: &str, name: &str) -> bool {
    content.match_indices(name).any(|(at, _)| {
        let is_end = !content[at + name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        is_end && ["fn ", "mod "].iter().any(|keyword| content[..at].ends_with(keyword))
    })
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
    fn names_of_tests_are_found_where_they_are_defined() {
        let page = "`a_test`, `file.rs` `Sums::fits`\n`two_b`";
        assert_eq!(tests_named(page), [(1, "a_test"), (2, "two_b")]);
        assert!(defines("fn a_test() {", "a_test") && defines("pub mod a_test;", "a_test"));
        assert!(!defines("fn a_test_of() {} // a_test", "a_test"));
    }

    #[test]
    fn the_page_about_tests_names_tests_that_exist() {
        let root = tree::root();
        let page = tree::read(&root.join("docs/TESTING.md"));
        let files: Vec<_> = tree::files(&root, "rs").iter().map(|path| tree::read(path)).collect();
        let named = tests_named(&page);
        assert!(named.len() > 40, "{named:?}");
        let missing =
            named.into_iter().filter(|(_, name)| !files.iter().any(|content| defines(content, name)));
        let missing: Vec<_> =
            missing.map(|(line, name)| format!("line {line}: there is no {name}")).collect();
        assert!(missing.is_empty(), "{}", missing.join("\n"));
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
