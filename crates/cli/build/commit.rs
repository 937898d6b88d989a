//! Which commit the sources are of: said by the environment (for packages), written by `git archive` (for tarballs), or what git
//! says.

use std::process::Command;

/// Digits of a commit that are shown.
const DIGITS: usize = 12;
/// `git archive` puts the commit into it.
const ARCHIVED: &str = include_str!("archive.txt");

/// The commit that the environment or the archive says.
pub fn told() -> Option<String> {
    let told = std::env::var("TAPEDB_BUILD_COMMIT").ok().and_then(|text| shortened(&text));
    told.or_else(|| shortened(ARCHIVED))
}

/// The first digits of a commit; `None` if the text is none.
pub fn shortened(text: &str) -> Option<String> {
    let text = text.trim();
    let is_commit = text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| text[..DIGITS].to_string())
}

/// The commit that git says; `+` behind it: with changes.
pub fn of_git() -> Option<String> {
    // Not of a repository that the sources of a package happen to lie in.
    git(&["ls-files", "--error-unmatch", "build/archive.txt"])?;
    let commit = shortened(&git(&["rev-parse", "HEAD"])?)?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit}+") })
}

/// Files that change with the commit.
pub fn git_files() -> Vec<String> {
    let of = |name: &str| git(&["rev-parse", "--git-path", name]).filter(|path| !path.is_empty());
    ["HEAD", "logs/HEAD"].into_iter().filter_map(of).collect()
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}
