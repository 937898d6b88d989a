//! The layers: a crate depends only on crates in lower rows of the map in `docs/ARCHITECTURE.md`. A crate in parentheses belongs
//! to the one before it, which alone in its row may depend on it. What tests depend on is not restricted.

use std::collections::{BTreeMap, BTreeSet};

/// A crate's place on the map.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// The row, from the top.
    pub row: usize,
    /// The crate that this one belongs to, when it stands in parentheses.
    pub owner: Option<String>,
}

/// The crates on the map: the first block of code behind the heading `## The map`, one layer a row, its name first.
pub fn map(page: &str, crates: &[String]) -> BTreeMap<String, Place> {
    let block =
        page.split("## The map").nth(1).and_then(|behind| behind.split("```").nth(1)).unwrap_or_default();
    let mut places = BTreeMap::new();
    for (row, line) in block.lines().enumerate() {
        let mut before: Option<String> = None;
        for word in line.split_whitespace().skip(1) {
            let name = word.trim_matches(['(', ')', ',']);
            if crates.iter().any(|known| known == name) && !places.contains_key(name) {
                let owner = word.starts_with('(').then(|| before.clone()).flatten();
                places.insert(name.to_string(), Place { row, owner });
                before = Some(name.to_string());
            }
        }
    }
    places
}

/// The crates of the workspace that a manifest names as dependencies, those of tests left out.
pub fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut counts = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            counts = section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
        } else if counts && let Some(name) = line.strip_prefix("tapedb-") {
            found.insert(name.split(['.', ' ', '=']).next().unwrap_or_default().to_string());
        }
    }
    found
}

/// What is wrong with a crate's dependencies, one line each.
pub fn faults(name: &str, dependencies: &BTreeSet<String>, map: &BTreeMap<String, Place>) -> Vec<String> {
    let Some(here) = map.get(name) else { return vec![format!("{name} is not on the map")] };
    let wrong = dependencies.iter().filter(|dependency| {
        !map.get(*dependency).is_some_and(|there| {
            there.row > here.row || there.row == here.row && there.owner.as_deref() == Some(name)
        })
    });
    wrong
        .map(|dependency| format!("{name} depends on {dependency}, which is not below it on the map"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    const PAGE: &str =
        "## The map\n```\nfaces  cli (bench)\nbytes  codec (derive)  wire\nfacts  schema  codec\n```";

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_string()).collect()
    }

    #[test]
    fn rows_and_owners_of_the_map() {
        let map = map(PAGE, &names(&["bench", "cli", "codec", "derive", "schema", "wire"]));
        assert_eq!(map["codec"], Place { row: 2, owner: None });
        assert_eq!(map["derive"], Place { row: 2, owner: Some("codec".to_string()) });
        assert_eq!(map["schema"].row, 3);
    }

    #[test]
    fn dependencies_of_tests_do_not_count() {
        let manifest = "[dependencies]\ntapedb-schema.workspace = true\ntapedb-log = { path = \"\" }\nlibc = \"1\"\n\
            [dev-dependencies]\ntapedb-market.workspace = true\n[target.'cfg(unix)'.dependencies]\ntapedb-shm.workspace = true";
        assert_eq!(dependencies(manifest), names(&["log", "schema", "shm"]).into_iter().collect());
    }

    #[test]
    fn up_and_sideways_are_faults() {
        let map = map(PAGE, &names(&["bench", "cli", "codec", "derive", "schema", "wire"]));
        let faults = |name: &str, on: &[&str]| faults(name, &names(on).into_iter().collect(), &map).len();
        assert_eq!(faults("codec", &["schema", "derive"]), 0);
        assert_eq!(faults("codec", &["wire"]), 1);
        assert_eq!(faults("wire", &["derive"]), 1);
        assert_eq!(faults("derive", &["codec"]), 1);
        assert_eq!(faults("schema", &["wire"]), 1);
        assert_eq!(faults("cli", &["bench", "schema"]), 0);
        assert_eq!(faults("cli", &["unknown"]), 1);
    }

    #[test]
    fn crates_depend_downwards_only() {
        let root = tree::root();
        let folder =
            |name: &str| if name == "python" { root.join(name) } else { root.join("crates").join(name) };
        let mut crates = tree::crates(&root);
        crates.push("python".to_string());
        let map = map(&tree::read(&root.join("docs/ARCHITECTURE.md")), &crates);
        let wrong: Vec<_> = crates
            .iter()
            .flat_map(|name| {
                let manifest = tree::read(&folder(name).join("Cargo.toml"));
                faults(name, &dependencies(&manifest), &map)
            })
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn every_dependency_has_its_reason() {
        let root = tree::root();
        let reasons = tree::read(&root.join("docs/DECISIONS.md"));
        let manifest = tree::read(&root.join("Cargo.toml"));
        let (_, dependencies) =
            manifest.split_once("[workspace.dependencies]\n").expect("the workspace's dependencies");
        let names = dependencies
            .lines()
            .take_while(|line| !line.starts_with('['))
            .filter_map(|line| line.split_once(" = "));
        let names: Vec<_> = names.map(|(name, _)| name).filter(|name| !name.starts_with("tapedb-")).collect();
        assert!(names.len() > 20, "only {names:?}");
        let without: Vec<_> = names.iter().filter(|name| !reasons.contains(&format!("`{name}`"))).collect();
        assert!(without.is_empty(), "docs/DECISIONS.md gives no reason for {without:?}");
    }
}
