//! Runs the command, and makes files for it to import.

use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// Output of a run of the command, and its exit code.
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    pub fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// A run of the command that needs no database.
    pub fn plain(line: &str) -> Self {
        Self::of(Self::command(line).output().expect("the command runs"))
    }

    /// The command without a database.
    pub fn command(line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
        command.args(line.split_whitespace()).stdin(Stdio::null());
        command
    }

    /// Standard output of a run that succeeded without warnings.
    #[track_caller]
    pub fn good(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// The error of a run that failed with `code` and printed only that error, in one line, or with `--json` in an object.
    #[track_caller]
    pub fn bad(self, code: i32) -> String {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{}", self.err);
        if self.err.starts_with('{') {
            let object: Value = serde_json::from_str(&self.err).expect(&self.err);
            assert_eq!(object["code"], code);
            return object["error"].as_str().expect("a text").into();
        }
        assert!(self.err.starts_with("tapedb: ") && self.err.lines().count() == 1, "{}", self.err);
        self.err
    }

    /// The objects of a good run with `--json`.
    #[track_caller]
    pub fn json(self) -> Vec<Value> {
        self.good().lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }
}

/// A directory with a database, removed at the end.
pub struct Place {
    directory: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn db(&self) -> PathBuf {
        self.path("db")
    }

    /// The command: the words of `line`, then the database, which is created by commands that can create one.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
        command.args(line.split_whitespace()).arg("--db").arg(self.db()).stdin(Stdio::null());
        let makes_one = ["generate ", "import ", "topic copy "].iter().any(|name| line.starts_with(name));
        command.args(makes_one.then_some("--create"));
        command
    }

    pub fn run(&self, line: &str) -> Run {
        Run::of(self.command(line).output().expect("the command runs"))
    }

    /// `tapedb import` into stream `s`, with these files.
    pub fn import(&self, options: &str, files: &[&Path]) -> Run {
        let mut command = self.command(&format!("import --stream s {options}"));
        Run::of(command.args(files).output().expect("the command runs"))
    }

    pub fn start(&self, command: &mut Command) -> Child {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts")
    }

    /// Counts and checksum of all messages of streams.
    pub fn totals(&self, streams: &str) -> Value {
        let mut totals = self.run(&format!("read {streams} --output none --json")).json().remove(0);
        for key in ["seconds", "messages_per_second"] {
            totals.as_object_mut().expect("an object").remove(key);
        }
        totals
    }

    /// Messages of a stream; 0 before it exists.
    pub fn messages(&self, stream: &str) -> u64 {
        let run = self.run("streams --json");
        let objects = run.out.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
        objects
            .filter(|object| object["name"] == stream)
            .filter_map(|object| object["messages"].as_u64())
            .sum()
    }

    /// A zip with trades of a symbol, one a millisecond.
    pub fn trades(&self, symbol: &str, rows: u64) -> PathBuf {
        let mut csv = String::new();
        for row in 0..rows {
            let (time, price) = (34_200_000 + row / 20, 500_000 + row % 977);
            writeln!(csv, "{time},{price},{},Q,0,0", 1 + row % 7).expect("memory");
        }
        self.zip(&format!("20131007_{symbol}_trade.zip"), &format!("20131007_{symbol}_Trade_Tick.csv"), &csv)
    }

    /// A zip with one member.
    pub fn zip(&self, name: &str, member: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).expect("a file"));
        zip.start_file(member, zip::write::SimpleFileOptions::default()).expect("a member");
        zip.write_all(text.as_bytes()).expect("it fits");
        zip.finish().expect("it fits");
        path
    }

    /// A gzip file.
    pub fn gzip(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        let file = std::fs::File::create(&path).expect("a file");
        let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).expect("it fits");
        gzip.finish().expect("it fits");
        path
    }
}

/// Sends a signal by its name.
pub fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(status.expect("kill runs").success());
}

/// Waits for a child to end.
pub fn end(child: Child) -> Run {
    Run::of(child.wait_with_output().expect("the command ends"))
}
