//! The README's shell blocks, run unchanged one after another by one shell in an empty directory.
//!
//! Blocks that begin with `sh no-run` need a network, recorded data, or a terminal. Ports and topics belong to the whole
//! machine: here they are replaced.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum time of all blocks.
const PATIENCE: Duration = Duration::from_secs(600);

/// The blocks of a page that are to be run.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in page.lines() {
        match (&mut block, line) {
            (None, "```sh") => block = Some(String::new()),
            (Some(_), "```") => blocks.extend(block.take()),
            (Some(block), line) => writeln!(block, "{line}").expect("memory"),
            (None, _) => {}
        }
    }
    blocks
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port()
}

/// A process group, killed when dropped, with servers that a block started.
struct Group(u32);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .args(["-KILL", "--", &format!("-{}", self.0)])
            .stderr(Stdio::null())
            .status();
    }
}

/// A topic of a block, removed when dropped.
struct Left(String);

impl Drop for Left {
    fn drop(&mut self) {
        let _ = tapedb_topic::Topic::delete(&tapedb_topic::Folder::shared(), &self.0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_shell_blocks_of_the_readme_run_as_they_stand() {
    let page = include_str!("../../../../README.md");
    let blocks = blocks(page);
    assert!(blocks.len() >= 4, "{}", blocks.len());
    let directory = tempfile::tempdir().unwrap();
    let topic = format!("quotes-{}", std::process::id());
    let left = Left(topic.clone());
    let mut script = "set -e\n".to_string();
    for (number, block) in blocks.iter().enumerate() {
        let block = block.replace("quotes", &topic);
        writeln!(script, "echo 'block {number}' >&2\n{block}").unwrap();
    }
    for port in ["7847", "7848", "7850", "7851", "7852"] {
        script = script.replace(port, &free_port().to_string());
    }
    let (status, out) = run(&script, directory.path());
    drop(left);
    assert!(status, "{out}\n--- of\n{script}");
    // The results that the blocks show.
    for shown in ["loaded 1 messages", "AAPL", "rows sent and acknowledged"] {
        assert!(out.contains(shown), "{shown}: {out}");
    }
}

/// Runs a script; whether it succeeded, and its output.
fn run(script: &str, directory: &Path) -> (bool, String) {
    let (file, log) = (directory.join("readme.sh"), directory.join("readme.log"));
    // Default addresses that the text does not show are replaced too.
    let listen = script.lines().find_map(|line| line.split("localhost:").nth(1)).unwrap_or_default();
    let listen: String = listen.chars().take_while(char::is_ascii_digit).collect();
    std::fs::write(&file, script).unwrap();
    let out = std::fs::File::create(&log).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_tapedb")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("bash");
    command.arg(&file).current_dir(directory).env("PATH", path).process_group(0);
    command.env("TAPEDB_SERVER_LISTEN", format!("127.0.0.1:{listen}"));
    command.env("TAPEDB_SERVER_HTTP", "127.0.0.1:0").stdin(crate::support::no_input());
    command.stdout(out.try_clone().unwrap()).stderr(out);
    let mut child = command.spawn().expect("bash runs");
    let group = Group(child.id());
    let began = Instant::now();
    let status = loop {
        match child.try_wait().expect("it can be looked at") {
            Some(status) => break status.success(),
            None if began.elapsed() > PATIENCE => break false,
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    drop(group);
    (status, std::fs::read_to_string(&log).unwrap())
}
