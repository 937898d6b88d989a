//! Worker processes of a benchmark: this program again, with a job in JSON on its command line. A worker answers in lines of
//! JSON on standard output, and starts when it reads a line.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};
use tapedb_terminal::{Failure, Ui};

/// What a worker does.
pub trait Job: Serialize + DeserializeOwned {
    /// Names the job on the command line.
    const NAME: &'static str;

    /// Runs in the worker.
    fn run(self, ui: &Ui) -> Result<(), Failure>;
}

/// Signals readiness, and waits for the start; returns its time.
pub fn ready() -> Result<u64, Failure> {
    send(&"ready")?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| Failure::new(error.to_string()))?;
    Ok(now_ns())
}

/// Sends a line to the process that started this worker.
pub fn send(what: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(what).map_err(|error| Failure::new(error.to_string()))?;
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| Failure::new(error.to_string()))
}

/// The time in nanoseconds since the Unix epoch, the same in all processes.
pub fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// A worker process; it is killed when this is dropped.
pub struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts a worker for a job, on the given cores (a list for `taskset`).
    pub fn start<J: Job>(job: &J, cores: Option<&str>) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = match cores {
            None => Command::new(program),
            Some(cores) => {
                let mut command = Command::new("taskset");
                command.args(["-c", cores]).arg(program);
                command
            }
        };
        let task = json!({ J::NAME: serde_json::to_value(job).map_err(failed)? }).to_string();
        command.args(["bench", "worker", &task]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        match (child.stdin.take(), child.stdout.take()) {
            (input, Some(output)) => Ok(Self { child, input, output: BufReader::new(output) }),
            _ => Err(failed("it has no output")),
        }
    }

    /// Starts a worker for each job, and waits until all are ready.
    pub fn start_all<J: Job>(jobs: impl IntoIterator<Item = J>) -> Result<Vec<Self>, Failure> {
        let mut workers =
            jobs.into_iter().map(|job| Self::start(&job, None)).collect::<Result<Vec<_>, _>>()?;
        workers.iter_mut().try_for_each(|worker| worker.receive::<String>().map(drop))?;
        Ok(workers)
    }

    /// Lets it start.
    pub fn go(&mut self) -> Result<(), Failure> {
        match &mut self.input {
            Some(input) => writeln!(input, "go").map_err(failed),
            None => Ok(()),
        }
    }

    /// The next line from the worker.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(failed)?;
        serde_json::from_str(&line).map_err(|_| failed(format!("unexpected answer {line:?}")))
    }

    /// Processor time of the worker so far, in milliseconds; 0 where the system does not report it.
    pub fn cpu_ms(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // After the name, which can have any characters: the state, ten more fields, then user and system time in hundredths.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let ticks = fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
        ticks.sum::<f64>() * 10.0
    }

    /// Resident memory of the worker in bytes; 0 where the system does not report it.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }

    /// Closes its input, and waits until it ends.
    pub fn end(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::new(format!("a worker of the benchmark: {why}; see its messages above"))
}
