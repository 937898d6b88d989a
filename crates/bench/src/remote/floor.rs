//! What the machine allows: the same plan of messages through the least that could stand in the place of a server. A relay
//! reads from one socket, appends what it has read to a file and writes it to another socket, and all processes wait in calls of the
//! system. No batch is checked, nothing is found again, nobody else is served: what a message takes here is the system's.

use super::Transport;
use super::latency::{Latencies, histogram, latencies, wait_until};
use super::worker::{Task, Worker, now_ns, ready, say};
use crate::pool::{Tally, compare};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use tapedb_schema::Timestamp;
use tapedb_terminal::Failure;

/// Bytes of a message: those of a batch with one bar, in its frame.
const MESSAGE_BYTES: usize = 128;
/// What the relay and the sink read at once.
const READ_BYTES: usize = 64 << 10;

/// A process of the relay.
#[derive(Debug, Serialize, Deserialize)]
pub enum Role {
    /// Reads, appends, writes, until the source ends.
    Relay {
        /// How it is reached.
        transport: Transport,
        /// Where its file is, and its socket.
        directory: PathBuf,
    },
    /// Sends messages by a plan.
    Source {
        /// How it reaches the relay.
        transport: Transport,
        /// Where.
        address: String,
        /// Nanoseconds between two messages.
        interval_ns: u64,
        /// How many.
        messages: u64,
    },
    /// Measures how late they come.
    Sink {
        /// How it reaches the relay.
        transport: Transport,
        /// Where.
        address: String,
        /// How many come.
        messages: u64,
        /// So many at the beginning do not count.
        skipped: u64,
    },
}

/// How late messages come through a relay: one every `interval_ns`.
pub fn measure(
    directory: &Path,
    transport: Transport,
    interval_ns: u64,
    (messages, skipped): (u64, u64),
) -> Result<Latencies, Failure> {
    std::fs::create_dir(directory).map_err(failed)?;
    let _removed = Removed(directory);
    let mut relay =
        Worker::start(&Task::Floor(Role::Relay { transport, directory: directory.into() }), None)?;
    let address: String = relay.hear()?;
    let source = Role::Source { transport, address: address.clone(), interval_ns, messages };
    let mut source = Worker::start_all([Task::Floor(source)])?;
    let sink = Role::Sink { transport, address, messages, skipped };
    let mut sink = Worker::start_all([Task::Floor(sink)])?;
    sink[0].go()?;
    source[0].go()?;
    let sent: Tally = source[0].hear()?;
    let came: Latencies = sink[0].hear()?;
    compare(sent, came.tally)?;
    Ok(came)
}

/// A directory that is removed when this is dropped.
struct Removed<'p>(&'p Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}

impl Role {
    /// Does what the process was started for.
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Relay { transport, directory } => relay(transport, &directory).map_err(failed),
            Self::Source { transport, address, interval_ns, messages } => {
                let mut relay = connect(transport, &address).map_err(failed)?;
                let _ = std::fs::write("/proc/self/timerslack_ns", "1");
                let began = ready()? + 10_000_000;
                let (mut message, mut sent) = ([0; MESSAGE_BYTES], Tally::default());
                for number in 0..messages {
                    let due = began + number * interval_ns;
                    wait_until(due);
                    message[..8].copy_from_slice(&due.to_le_bytes());
                    relay.write_all(&message).map_err(failed)?;
                    sent.add(Timestamp(due as i64), 0);
                }
                say(&sent)
            }
            Self::Sink { transport, address, messages, skipped } => {
                let relay = connect(transport, &address).map_err(failed)?;
                ready()?;
                say(&listen(relay, messages, skipped)?)
            }
        }
    }
}

/// A socket of either kind.
trait Socket: Read + Write {}

impl<T: Read + Write> Socket for T {}

fn connect(transport: Transport, address: &str) -> std::io::Result<Box<dyn Socket>> {
    Ok(match transport {
        Transport::Tcp => {
            let socket = TcpStream::connect(address)?;
            socket.set_nodelay(true)?;
            Box::new(socket)
        }
        // There is no simplest relay through shared memory; who asks for it gets the socket that wakes there.
        Transport::Uds | Transport::Shm => Box::new(UnixStream::connect(address)?),
    })
}

/// Accepts the source, then the sink, and passes on what comes.
fn relay(transport: Transport, directory: &Path) -> std::io::Result<()> {
    let tell = |address: &str| say(&address).map_err(|error| std::io::Error::other(error.to_string()));
    let (mut source, mut sink): (Box<dyn Socket>, Box<dyn Socket>) = match transport {
        Transport::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            tell(&listener.local_addr()?.to_string())?;
            let (source, sink) = (listener.accept()?.0, listener.accept()?.0);
            sink.set_nodelay(true)?;
            (Box::new(source), Box::new(sink))
        }
        Transport::Uds | Transport::Shm => {
            // The folder's name may be too long for one.
            let path = super::socket_of(directory);
            let _ = std::fs::remove_file(&path);
            let listener = UnixListener::bind(&path)?;
            tell(&path.to_string_lossy())?;
            let accepted = (listener.accept()?.0, listener.accept()?.0);
            std::fs::remove_file(&path)?;
            (Box::new(accepted.0), Box::new(accepted.1))
        }
    };
    let mut file = File::create(directory.join("log"))?;
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let count = source.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        file.write_all(&bytes[..count])?;
        sink.write_all(&bytes[..count])?;
    }
}

fn listen(mut relay: Box<dyn Socket>, messages: u64, skipped: u64) -> Result<Latencies, Failure> {
    let (mut late, mut bytes, mut have) = (histogram()?, vec![0; READ_BYTES], 0);
    let mut came = Tally::default();
    while came.messages < messages {
        let count = relay.read(&mut bytes[have..]).map_err(failed)?;
        if count == 0 {
            return Err(failed(format!("the relay ended after {} messages", came.messages)));
        }
        have += count;
        for message in bytes[..have].chunks_exact(MESSAGE_BYTES) {
            let (words, _) = message.as_chunks::<8>();
            let due = u64::from_le_bytes(words[0]);
            // Every word into the sum, then the time, as of a database; the words behind the first are zero.
            let rest =
                words[1..].iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_le_bytes(*word)));
            let is_counted = came.messages >= skipped;
            came.add(Timestamp(due as i64), rest);
            let now = now_ns();
            if is_counted {
                late.saturating_record(now.saturating_sub(due));
            }
        }
        let rest = have % MESSAGE_BYTES;
        bytes.copy_within(have - rest..have, 0);
        have = rest;
    }
    Ok(latencies(&late, came))
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("the relay of the benchmark: {error}"))
}
