//! Runs this binary as a child of a test, in a role.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const ROLE: &str = "TAPEDB_TEST_ROLE";
const PATH: &str = "TAPEDB_TEST_PATH";

/// This binary, to be run as a child with a role on a database.
pub fn child(role: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child::child_of_another_test", "--nocapture"]);
    command.env(ROLE, role).env(PATH, path).stdout(Stdio::piped());
    command
}

/// Reports a line to the parent.
pub fn report(line: &str) {
    let mut out = std::io::stdout().lock();
    // The parent may have ended.
    let _ = out.write_all(format!("\n@{line}\n").as_bytes()).and_then(|()| out.flush());
}

/// The report of a child, from a line of its output.
pub fn reported(line: &str) -> Option<&str> {
    line.strip_prefix('@')
}

/// Does nothing except in a child.
#[test]
fn child_of_another_test() {
    let (Ok(role), Some(path)) = (std::env::var(ROLE), std::env::var_os(PATH)) else { return };
    let path = Path::new(&path);
    match role.as_str() {
        "lock" => crate::files::child(path),
        "write" => crate::process::child_writer(path),
        "read" => crate::process::child_reader(path),
        "acknowledge" => crate::kill::child(path),
        "churn" => crate::backup::child(path),
        "append columns" => crate::killed_columns::child(path),
        "storm" => crate::storm::child(path),
        "seal" => crate::process::child_sealer(path),
        "fill" => crate::full::child(path),
        "read all" => crate::memory::child_reader(path),
        other => panic!("no role {other}"),
    }
}
