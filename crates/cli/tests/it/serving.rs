//! `tapedb server` and `tapedb user`.

use crate::support::Run;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server that is running, ended when dropped.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Served {
    /// Starts it, and waits until it says where it is.
    fn start(directory: &Path, more: &[&str]) -> (Self, Value) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
        command.args(["--json", "server", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--db"]);
        command.arg(directory.join("db")).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut served = Self(command.spawn().expect("the command runs"));
        let mut line = String::new();
        BufReader::new(served.0.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
        let ready = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        (served, ready)
    }

    /// Sends a signal, and waits for the end: its exit code, and what it wrote down.
    #[cfg(unix)]
    fn end(mut self, signal: &str) -> (i32, String) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
        let mut log = String::new();
        self.0.stderr.take().expect("piped").read_to_string(&mut log).expect("text");
        (self.0.wait().expect("it ends").code().unwrap_or(-1), log)
    }
}

fn page(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("it listens");
    write!(socket, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("it listens");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer");
    text
}

/// Runs `tapedb user` with a line of standard input.
fn user(users: &Path, line: &str, input: &str) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
    command.arg("user").args(line.split_whitespace()).arg("--users").arg(users);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command runs");
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
    (output.status.code().unwrap_or(-1), text)
}

#[cfg(unix)]
#[test]
fn a_server_says_where_it_is_and_ends_in_good_order() {
    let directory = tempfile::tempdir().unwrap();
    let (served, ready) = Served::start(directory.path(), &[]);
    assert!(ready["tcp"].as_str().unwrap().starts_with("127.0.0.1:"), "{ready}");
    let http = ready["http"].as_str().unwrap();
    assert!(page(http, "/health").contains(r#""status":"ok""#));
    assert!(page(http, "/metrics").contains("\ntapedb_connections 0\n"));
    let (code, log) = served.end("-TERM");
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("shut down"), "{log}");
    assert!(directory.path().join("db").exists());
}

#[test]
fn settings_come_from_file_environment_and_options() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("server.toml");
    std::fs::write(&file, "listen = '127.0.0.1:1'\nhttp = 'off'\n[limits]\nwatches_per_user_max = 7\n")
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
    command.args(["server", "--print-config", "--listen", "127.0.0.1:3", "--config"]).arg(&file);
    command.env("TAPEDB_SERVER_LISTEN", "127.0.0.1:2").env("TAPEDB_SERVER_DB", "elsewhere");
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    for line in
        ["listen = \"127.0.0.1:3\"", "http = \"off\"", "database = \"elsewhere\"", "watches_per_user_max = 7"]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    let error = Run::plain("server --listen 0.0.0.0:0 --print-config").bad(2);
    assert!(error.contains("tapedb user add"), "{error}");
}

#[test]
fn users_are_added_changed_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let users = directory.path().join("users.toml");
    assert_eq!(
        user(&users, "add ann --may read,write --streams us.*", "horse\n"),
        (0, "added user \"ann\"\n".into())
    );
    assert_eq!(user(&users, "add anonymous", ""), (0, "added user \"anonymous\"\n".into()));
    let (code, token) = user(&users, "token ann laptop", "");
    assert!(code == 0 && token.starts_with("tape_"), "{token}");
    let (_, list) = user(&users, "list", "");
    assert!(list.contains("ann") && list.contains("laptop") && list.contains("read,write us.*"), "{list}");
    let text = std::fs::read_to_string(&users).unwrap();
    assert!(text.contains("$argon2id$") && !text.contains("horse") && !text.contains(token.trim()), "{text}");
    assert_eq!(user(&users, "token ann laptop --remove", "").0, 0);
    assert_eq!(user(&users, "passwd ann", "\n").0, 2, "an empty password");
    assert_eq!(user(&users, "remove ann", "").0, 0);
    assert_eq!(user(&users, "passwd ann", "x\n").0, 2);
    assert_eq!(user(&users, "add bob --may fly", "x\n").0, 2);
}
