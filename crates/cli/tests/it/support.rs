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
        command.args(line.split_whitespace()).stdin(no_input());
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
        command.args(line.split_whitespace()).arg("--db").arg(self.db()).stdin(no_input());
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

    /// A capture of CME with as many packets of a volume, each on both lines.
    pub fn capture(&self, packets: u32) -> PathBuf {
        let mut bytes = vec![0x4D, 0x3C, 0xB2, 0xA1, 2, 0, 4, 0];
        bytes.extend([0u32, 0, 65_535, 1].map(u32::to_le_bytes).concat());
        for line in 0..2 * packets {
            let number = line / 2 + 1;
            let nanos = 1_700_000_000_000_000_000 + u64::from(number) * 1_000;
            let mut payload = number.to_le_bytes().to_vec();
            payload.extend(nanos.to_le_bytes());
            payload.extend([40u16, 11, 37, 1, 9].map(u16::to_le_bytes).concat());
            payload.extend(nanos.to_le_bytes());
            payload.extend([0x80, 0, 0, 16, 0, 1]);
            payload.extend([number % 97, number % 50, number].map(u32::to_le_bytes).concat());
            payload.extend([0; 4]);
            let length = payload.len() as u16;
            let mut frame = vec![0; 12];
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((28 + length).to_be_bytes());
            frame.extend([0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 224, 0, 31, 64, 0x38, 4]);
            frame.extend((14_340 + (line % 2) as u16).to_be_bytes());
            frame.extend((8 + length).to_be_bytes());
            frame.extend([0, 0]);
            frame.extend(payload);
            let time = [(nanos / 1_000_000_000) as u32, (nanos % 1_000_000_000) as u32 + line % 2 * 300];
            bytes.extend(
                [time, [frame.len() as u32; 2]].as_flattened().iter().flat_map(|part| part.to_le_bytes()),
            );
            bytes.extend(frame);
        }
        let path = self.path("cme.pcap");
        std::fs::write(&path, bytes).expect("a file");
        path
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

/// Standard input without a byte: a pipe that has no writer. There are machines on which `/dev/null` is a file with content.
pub fn no_input() -> Stdio {
    std::io::pipe().expect("a pipe").0.into()
}
