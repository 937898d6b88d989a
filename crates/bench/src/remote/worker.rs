//! A process of a benchmark: told on its command line what to do, and by a line of input when to begin. It answers in lines
//! of JSON.

use super::serving::{connect, connected};
use crate::content::Content;
use crate::pool::Tally;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tapedb_client::Client;
use tapedb_engine::Cursor;
use tapedb_server::{Config, Endpoint, Server};
use tapedb_terminal::{Failure, Ui};

/// A consumer that waits so long in vain gives up, and the benchmark fails.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What a process shall do.
#[derive(Debug, Serialize, Deserialize)]
pub enum Task {
    /// Serve a database until input ends.
    Serve {
        /// Its directory.
        db: PathBuf,
        /// The Unix socket to listen on.
        socket: PathBuf,
        /// How long its connections spin, in microseconds.
        spin_us: u64,
    },
    /// Load so many messages.
    Load(Loading),
    /// Read all messages that are there.
    Read(Work),
    /// Read so many messages as they come.
    Follow(Work),
    /// Append at a given rate.
    Pace(super::latency::Pacing),
    /// Have live cursors that read nothing.
    Idle(super::latency::Idling),
    /// Measure how late messages come.
    Listen(super::latency::Listening),
    /// Be part of a relay.
    Floor(super::floor::Role),
    /// Be part of a tick installation.
    Tick(crate::tick::roles::Process),
    /// Read a topic until it is killed.
    Subscribe(crate::topic::killed::Listening),
}

/// Messages of a stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    /// The server.
    pub url: String,
    /// The stream.
    pub stream: String,
    /// How many messages.
    pub messages: u64,
    /// Which.
    pub content: Content,
}

/// Messages to be loaded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Loading {
    /// Which, and into what.
    pub work: Work,
    /// Loaders, each in a thread, that load a share each.
    pub loaders: u32,
    /// Connections that they share.
    pub connections: u32,
}

/// Where a server can be reached.
#[derive(Debug, Serialize, Deserialize)]
pub struct Addresses {
    /// By TCP.
    pub tcp: String,
    /// By its Unix socket.
    pub uds: String,
    /// Through memory that is asked for there.
    pub shm: String,
}

/// What a process did.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Done {
    /// Messages.
    pub messages: u64,
    /// Sum of all their fields and times.
    pub sum: u64,
    /// When it began, in nanoseconds since the Unix epoch.
    pub began_ns: u64,
    /// When it was done.
    pub ended_ns: u64,
}

impl Done {
    fn new(tally: Tally, began_ns: u64) -> Self {
        Self { messages: tally.messages, sum: tally.sum, began_ns, ended_ns: now_ns() }
    }

    /// Fails unless what a consumer got is what was sent.
    pub fn check(&self, sent: &Self) -> Result<(), Failure> {
        if (self.messages, self.sum) == (sent.messages, sent.sum) {
            return Ok(());
        }
        Err(Failure::new(format!("sent {sent:?}, received {self:?}; please report this")))
    }
}

impl Task {
    /// Does it, in the process that was started for it.
    pub fn run(self, ui: &Ui) -> Result<(), Failure> {
        match self {
            Self::Serve { db, socket, spin_us } => serve(db, socket, spin_us),
            Self::Load(Loading { work, loaders, connections }) => {
                let client = Client::at(&work.url).connections(connections as usize);
                let stream = connected(client)?.stream(&work.stream)?;
                let pool = work.content.pool(work.messages)?;
                let began = ready()?;
                let tally = pool.load(&stream, work.messages, loaders, ui)?;
                say(&Done::new(tally, began))
            }
            Self::Read(work) => {
                let stream = connect(&work.url)?.stream(&work.stream)?;
                let began = ready()?;
                let mut cursor = stream.cursor().open()?;
                // More than were sent would be as wrong as less.
                let tally = work.content.tally(&mut cursor, u64::MAX, Cursor::next)?;
                say(&Done::new(tally, began))
            }
            Self::Follow(work) => {
                let stream = connect(&work.url)?.stream(&work.stream)?;
                let mut cursor = stream.cursor().live().open()?;
                let began = ready()?;
                let tally = follow(&mut cursor, &work)?;
                say(&Done::new(tally, began))
            }
            Self::Pace(pacing) => pacing.run(),
            Self::Idle(idling) => idling.run(),
            Self::Listen(listening) => listening.run(),
            Self::Floor(role) => role.run(),
            Self::Tick(process) => process.run(),
            Self::Subscribe(listening) => listening.run(),
        }
    }
}

fn serve(db: PathBuf, socket: PathBuf, spin_us: u64) -> Result<(), Failure> {
    let _ = std::fs::remove_file(&socket);
    let config = Config {
        database: db,
        listen: Endpoint::loopback(0),
        unix_socket: Some(socket.clone()),
        http: Endpoint::OFF,
        spin_us,
        ..Config::default()
    };
    let server = Server::start(config).map_err(|error| Failure::new(error.to_string()))?;
    let tcp = server.addresses().tcp.map(|address| format!("tape://{address}")).unwrap_or_default();
    let [uds, shm] = ["unix", "shm"].map(|how| format!("tape+{how}://{}", socket.display()));
    say(&Addresses { tcp, uds, shm })?;
    let _ = std::io::stdin().lines().count();
    server.shutdown();
    Ok(())
}

fn follow(cursor: &mut Cursor, work: &Work) -> Result<Tally, Failure> {
    let tally = work.content.tally(cursor, work.messages, |cursor| cursor.next_within(SILENCE_MAX))?;
    if tally.messages == work.messages {
        return Ok(tally);
    }
    let what = format!("nothing came for {SILENCE_MAX:?} after {} messages", tally.messages);
    Err(Failure::new(format!("{what}; please report this")))
}

/// Says that all is prepared, and waits for the word to begin; returns when that was.
pub fn ready() -> Result<u64, Failure> {
    say(&"ready")?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| Failure::new(error.to_string()))?;
    Ok(now_ns())
}

/// Says something to the process that started this one.
pub fn say(what: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(what).map_err(|error| Failure::new(error.to_string()))?;
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| Failure::new(error.to_string()))
}

/// The time, in nanoseconds since the Unix epoch: processes agree on it.
pub fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// A process that was started; it is killed when this is dropped.
pub struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts a process for a task, on the cores that `taskset` is told.
    pub fn start(task: &Task, cores: Option<&str>) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = match cores {
            None => Command::new(program),
            Some(cores) => {
                let mut command = Command::new("taskset");
                command.args(["-c", cores]).arg(program);
                command
            }
        };
        let task = serde_json::to_string(task).map_err(failed)?;
        command.args(["bench", "worker", &task]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        match (child.stdin.take(), child.stdout.take()) {
            (input, Some(output)) => Ok(Self { child, input, output: BufReader::new(output) }),
            _ => Err(failed("it has no output")),
        }
    }

    /// Starts a process for each task, and waits until all are ready.
    pub fn start_all(tasks: impl IntoIterator<Item = Task>) -> Result<Vec<Self>, Failure> {
        let mut workers =
            tasks.into_iter().map(|task| Self::start(&task, None)).collect::<Result<Vec<_>, _>>()?;
        workers.iter_mut().try_for_each(|worker| worker.hear::<String>().map(drop))?;
        Ok(workers)
    }

    /// Lets it begin.
    pub fn go(&mut self) -> Result<(), Failure> {
        match &mut self.input {
            Some(input) => writeln!(input, "go").map_err(failed),
            None => Ok(()),
        }
    }

    /// What it says next.
    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(failed)?;
        serde_json::from_str(&line).map_err(|_| failed(format!("it said {line:?}")))
    }

    /// Processor time that it has taken so far, in milliseconds; 0 where the system does not say.
    pub fn cpu_ms(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // Behind the name, which may hold anything: state, and eleven more, then user and system time in hundredths.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let ticks = fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
        ticks.sum::<f64>() * 10.0
    }

    /// Bytes of memory that it has; 0 where the system does not say.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }

    /// Ends its input, and waits until it has ended.
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

/// Lets all begin, and gathers what they did.
pub fn run_all(workers: &mut [Worker]) -> Result<Vec<Done>, Failure> {
    workers.iter_mut().try_for_each(Worker::go)?;
    workers.iter_mut().map(Worker::hear).collect()
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::new(format!("a process of the benchmark: {why}; its own words are above"))
}
