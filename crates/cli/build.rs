//! Sets `TAPEDB_COMMIT` to the commit of the sources, as ` (1a2b3c4d5e6f)`, or to nothing if it is unknown.

#[path = "build/commit.rs"]
mod commit;

fn main() {
    println!("cargo:rerun-if-env-changed=TAPEDB_BUILD_COMMIT");
    println!("cargo:rerun-if-changed=build/commit.rs");
    println!("cargo:rerun-if-changed=build/archive.txt");
    let mut commit = commit::given();
    // The commit changes without a change of this package: releases depend on git's files, and are rebuilt. Other builds show no
    // commit rather than a wrong one.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        commit::git_files().iter().for_each(|file| println!("cargo:rerun-if-changed={file}"));
        commit = commit.or_else(commit::of_git);
    }
    let shown = commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
    println!("cargo:rustc-env=TAPEDB_COMMIT={shown}");
}
