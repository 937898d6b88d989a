//! Worker processes that are killed, or whose memory is measured.

use super::args::Stage;
use super::merge;
use super::steps::{BATCH, read_all};
use crate::pool::{Tally, bars_pool, load};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_market::Bar;
use tapedb_terminal::{Failure, Ui};

/// The stream of bars.
pub const STREAM: &str = "bars";

/// Runs a stage.
pub fn run(stage: Stage, db: &Path, messages: u64, ui: &Ui) -> Result<(), Failure> {
    match stage {
        Stage::Load => {
            let db = Database::open(db)?;
            let Tally { messages, sum } = load(&bars(&db)?, &bars_pool(10), messages, BATCH, ui)?;
            report(&format!("{messages} {sum}"))?;
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
        Stage::Seal => {
            let sealed = Database::open_without_maintenance(db)?.stream(STREAM)?.seal()?;
            report(&sealed.to_string())
        }
        Stage::Read => {
            let stream = Database::open_read_only(db)?.stream(STREAM)?;
            let Tally { messages, sum } = read_all::<Bar>(&stream)?;
            report(&format!("{messages} {sum} {}", memory_max_bytes()))
        }
        Stage::Merge => {
            let (Tally { messages, sum }, micros) = merge::read(db)?;
            report(&format!("{messages} {sum} {} {micros}", memory_max_bytes()))
        }
    }
}

/// The stream of bars, created if necessary.
pub fn bars(db: &Database) -> Result<Stream, Failure> {
    let schema = SchemaBuilder::new().with::<Bar>().finish();
    Ok(db.open_or_create_stream(STREAM, schema, StreamOptions::default())?)
}

fn report(line: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| Failure::new(error.to_string()))
}

/// Peak memory of this process, as Linux reports it; 0 on other systems.
fn memory_max_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// A worker process.
pub struct Worker {
    child: Child,
}

impl Worker {
    /// Starts it, and waits for its first answer.
    pub fn start(stage: &str, db: &Path, messages: u64) -> Result<(Self, Vec<u64>), Failure> {
        let failed = |what: String| Failure::new(format!("a worker of the benchmark: {what}; try again"));
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(program);
        command.args(["bench", "storage", "--stage", stage, "--messages", &messages.to_string(), "--db"]);
        let child = command.arg(db).stdout(Stdio::piped()).stdin(Stdio::null()).spawn();
        let mut process = Self { child: child.map_err(|error| failed(error.to_string()))? };
        let out = process.child.stdout.take().map(|out| out.take(1 << 10));
        let mut line = String::new();
        out.map(|out| BufReader::new(out).read_line(&mut line))
            .transpose()
            .map_err(|error| failed(error.to_string()))?;
        let answer: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        if answer.is_empty() {
            return Err(failed(format!("unexpected answer {line:?}")));
        }
        Ok((process, answer))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SIGKILL: the worker closes nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
