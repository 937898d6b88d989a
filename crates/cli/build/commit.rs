//! The commit of the sources: from the environment (for packages), from `git archive` (for tarballs), or from git.

use std::process::Command;

/// Digits of a commit that are shown.
const DIGITS: usize = 12;
/// `git archive` writes the commit into it.
const ARCHIVED: &str = include_str!("archive.txt");

/// The commit from the environment or the archive.
pub fn given() -> Option<String> {
    let given = std::env::var("TAPEDB_BUILD_COMMIT").ok().and_then(|text| shortened(&text));
    given.or_else(|| shortened(ARCHIVED))
}

/// The first digits of a commit; `None` if the text is not a commit.
pub fn shortened(text: &str) -> Option<String> {
    let text = text.trim();
    let is_commit = text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| text[..DIGITS].to_string())
}

/// The commit from git, with a `+` if there are changes.
pub fn of_git() -> Option<String> {
    // Not the commit of another repository that contains an unpacked package.
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
