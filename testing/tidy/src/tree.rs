//! The files of the tree.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the workspace.
pub fn root() -> PathBuf {
    // Of the tree that it runs in: a program that was compiled may have been copied with its target folder.
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&here).join("../..").canonicalize().expect("the workspace's root")
}

/// The names of the folders in `crates/`, sorted.
pub fn crates(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.join("crates")).expect("crates/");
    let folders = entries.map(|entry| entry.expect("an entry of crates/").path());
    let with_manifest = folders.filter(|folder| folder.join("Cargo.toml").exists());
    let mut names: Vec<_> = with_manifest.map(|folder| name_of(&folder)).collect();
    names.sort();
    names
}

/// The files below `folder` with this extension, sorted; build outputs, packages of others and hidden folders are left out.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(folder, extension, &mut found);
    found.sort();
    found
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("an entry of a folder").path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            let name = name_of(&path);
            if !name.starts_with('.') && name != "target" && name != "node_modules" {
                collect(&path, extension, found);
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
}

/// The path below the root, with `/`.
pub fn below(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// The content of a text file.
///
/// # Panics
/// When the file cannot be read: it was listed just before.
pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_has_this_file() {
        let root = root();
        let names: Vec<_> = files(&root, "rs").iter().map(|path| below(&root, path)).collect();
        assert!(names.contains(&"testing/tidy/src/tree.rs".to_string()));
        assert!(names.iter().all(|name| !name.contains("target/")));
        assert!(crates(&root).contains(&"engine".to_string()));
    }
}
