//! The documents tell the truth about the tree: links lead somewhere, and the map names every crate.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All Markdown files of the repository.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
            documents(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Targets of `[text](target)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

#[test]
fn every_link_leads_somewhere() {
    let mut found = Vec::new();
    documents(&root(), &mut found);
    assert!(found.len() > 5, "{found:?}");
    for document in found {
        let text = fs::read_to_string(&document).expect("UTF-8");
        for target in links(&text).filter(|target| !target.starts_with("http") && !target.starts_with('#')) {
            let file = target.split('#').next().unwrap_or_default();
            let path = document.parent().expect("a folder").join(file);
            assert!(path.exists(), "{}: link to {target}", document.display());
        }
    }
}

#[test]
fn the_map_names_every_crate_and_dependency() {
    let map = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("the map");
    for folder in fs::read_dir(root().join("crates")).expect("crates").flatten() {
        let name = folder.file_name().into_string().expect("UTF-8");
        assert!(
            map.contains(&format!("**`crates/{name}`**")),
            "docs/ARCHITECTURE.md does not describe crates/{name}"
        );
    }
    let reasons = fs::read_to_string(root().join("docs/DECISIONS.md")).expect("the decisions");
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let (_, dependencies) = manifest.split_once("[workspace.dependencies]\n").expect("dependencies");
    for line in dependencies.lines().take_while(|line| !line.starts_with('[')) {
        if let Some((name, _)) = line.split_once(" = ").filter(|(name, _)| !name.starts_with("tapedb-")) {
            assert!(reasons.contains(&format!("`{name}`")), "docs/DECISIONS.md gives no reason for {name}");
        }
    }
}
