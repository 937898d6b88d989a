//! Tells the command which commit it is built of: `TAPEDB_COMMIT` is ` (1a2b3c4d5e6f)`, or empty where nothing tells.

#[path = "build/commit.rs"]
mod commit;

fn main() {
    println!("cargo:rerun-if-env-changed=TAPEDB_BUILD_COMMIT");
    println!("cargo:rerun-if-changed=build/commit.rs");
    println!("cargo:rerun-if-changed=build/archive.txt");
    let mut commit = commit::told();
    // What git has changes without a file of this package: releases look at it, and are built again for it. Other builds do not
    // know rather than being wrong.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        commit::git_files().iter().for_each(|file| println!("cargo:rerun-if-changed={file}"));
        commit = commit.or_else(commit::of_git);
    }
    let shown = commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
    println!("cargo:rustc-env=TAPEDB_COMMIT={shown}");
}
