//! Circles: files of a crate of which each uses the next. Two or three that stand together are one idea in several files; more
//! cannot be read, tested or moved one by one.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{Graph, ModulePath};

/// The largest circle that needs no exception.
pub const FILES_MAX: usize = 3;

/// The circles of more than one file, the largest first.
pub fn circles(graph: &Graph) -> Vec<Vec<ModulePath>> {
    let reachable: BTreeMap<_, _> = graph.keys().map(|from| (from, reachable(graph, from))).collect();
    let mut seen = BTreeSet::new();
    let mut circles = Vec::new();
    for file in graph.keys() {
        if !seen.contains(file) {
            let circle = graph
                .keys()
                .filter(|other| reachable[file].contains(*other) && reachable[other].contains(file));
            let circle: Vec<_> = circle.cloned().collect();
            seen.extend(circle.iter().cloned());
            if circle.len() > 1 {
                circles.push(circle);
            }
        }
    }
    circles.sort_by_key(|circle| usize::MAX - circle.len());
    circles
}

fn reachable(graph: &Graph, from: &ModulePath) -> BTreeSet<ModulePath> {
    let mut found = BTreeSet::new();
    let mut open: Vec<_> = graph[from].iter().collect();
    while let Some(next) = open.pop() {
        if found.insert(next.clone()) {
            open.extend(&graph[next]);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules;
    use crate::tree;

    fn graph(uses: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in uses {
            graph.entry(vec![(*to).to_string()]).or_default();
            graph.entry(vec![(*from).to_string()]).or_default().insert(vec![(*to).to_string()]);
        }
        graph
    }

    #[test]
    fn a_circle_is_found_and_what_hangs_from_it_is_not_in_it() {
        let found = circles(&graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("x", "a")]));
        assert_eq!(found, [[vec!["a".to_string()], vec!["b".to_string()], vec!["c".to_string()]]]);
    }

    #[test]
    fn two_circles_through_one_file_are_one() {
        let found =
            circles(&graph(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("d", "e"), ("e", "d")]));
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2]);
    }

    #[test]
    fn no_circle_in_a_tree() {
        assert!(circles(&graph(&[("a", "b"), ("a", "c"), ("b", "c")])).is_empty());
    }

    /// The exceptions: a crate, the size of its largest circle, since when, why. A crate that needs none has none.
    fn exceptions() -> BTreeMap<String, usize> {
        let lines =
            include_str!("../circles.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let parsed = lines.map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().expect("a crate");
            (name.to_string(), words.next().and_then(|size| size.parse().ok()).expect("a number of files"))
        });
        parsed.collect()
    }

    #[test]
    fn no_crate_has_a_circle_of_more_than_three_files() {
        let root = tree::root();
        let exceptions = exceptions();
        let names = tree::crates(&root);
        let stale: Vec<_> = exceptions.keys().filter(|name| !names.contains(name)).collect();
        assert!(stale.is_empty(), "testing/tidy/circles.txt: no such crates: {stale:?}");
        let mut wrong = Vec::new();
        for name in names {
            let graph = modules::graph(&root.join("crates").join(&name));
            assert!(!graph.is_empty(), "{name} has no files");
            let allowed = exceptions.get(&name).copied().unwrap_or(FILES_MAX);
            for circle in circles(&graph) {
                let files: Vec<_> = circle.iter().map(|path| path.join("::")).collect();
                let line = format!("{name}: {} files: {}", files.len(), files.join(", "));
                println!("{line}");
                if files.len() > allowed {
                    wrong.push(line);
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "circles of more files than {FILES_MAX}, or than testing/tidy/circles.txt excepts (the root of a crate has no name):\n{}",
            wrong.join("\n")
        );
    }
}
