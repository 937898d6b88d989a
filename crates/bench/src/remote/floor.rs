//! The limit of the machine: the same schedule of messages through the simplest replacement of a server. A relay reads from one
//! socket, appends the bytes to a file and writes them to another socket, and all processes wait in system calls. There are no
//! checks, no index and no other clients: the latency is that of the operating system.

use super::percentiles::{Latencies, histogram, latencies, wait_until};
use super::serving::socket_of;
use super::transport::Transport;
use crate::pool::{Tally, compare};
use crate::worker::{Job, Worker, now_ns, ready, send};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui};

/// Bytes of a message: a batch with one bar, in its frame.
const MESSAGE_BYTES: usize = 128;
/// Bytes that the relay and the sink read at once.
const READ_BYTES: usize = 64 << 10;

/// A process of the relay.
#[derive(Debug, Serialize, Deserialize)]
pub enum Floor {
    /// Reads, appends, writes, until the source ends.
    Relay {
        /// How processes reach it.
        transport: Transport,
        /// Directory of its file and its socket.
        directory: PathBuf,
    },
    /// Sends messages by a schedule.
    Source {
        /// How it reaches the relay.
        transport: Transport,
        /// Address of the relay.
        address: String,
        /// Nanoseconds between two messages.
        interval_ns: u64,
        /// Number of messages.
        messages: u64,
    },
    /// Measures the latency.
    Sink {
        /// How it reaches the relay.
        transport: Transport,
        /// Address of the relay.
        address: String,
        /// Number of messages.
        messages: u64,
        /// First messages, which do not count.
        skipped: u64,
    },
}

/// Latency through a relay, of one message every `interval_ns`.
pub fn measure(
    directory: &Path,
    transport: Transport,
    interval_ns: u64,
    (messages, skipped): (u64, u64),
) -> Result<Latencies, Failure> {
    std::fs::create_dir(directory).map_err(failed)?;
    let _removed = Removed(directory);
    let mut relay = Worker::start(&Floor::Relay { transport, directory: directory.into() }, None)?;
    let address: String = relay.receive()?;
    let source = Floor::Source { transport, address: address.clone(), interval_ns, messages };
    let mut source = Worker::start_all([source])?;
    let sink = Floor::Sink { transport, address, messages, skipped };
    let mut sink = Worker::start_all([sink])?;
    sink[0].go()?;
    source[0].go()?;
    let sent: Tally = source[0].receive()?;
    let received: Latencies = sink[0].receive()?;
    compare(sent, received.tally)?;
    Ok(received)
}

/// A directory that is removed when this is dropped.
struct Removed<'p>(&'p Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}

impl Job for Floor {
    const NAME: &'static str = "Floor";

    fn run(self, _: &Ui) -> Result<(), Failure> {
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
                send(&sent)
            }
            Self::Sink { transport, address, messages, skipped } => {
                let relay = connect(transport, &address).map_err(failed)?;
                ready()?;
                send(&listen(relay, messages, skipped)?)
            }
        }
    }
}

/// A TCP or Unix socket.
trait Socket: Read + Write {}

impl<T: Read + Write> Socket for T {}

fn connect(transport: Transport, address: &str) -> std::io::Result<Box<dyn Socket>> {
    Ok(match transport {
        Transport::Tcp => {
            let socket = TcpStream::connect(address)?;
            socket.set_nodelay(true)?;
            Box::new(socket)
        }
        // There is no relay through shared memory: its wake-ups use a Unix socket.
        Transport::Uds | Transport::Shm => Box::new(UnixStream::connect(address)?),
    })
}

/// Accepts the source, then the sink, and forwards bytes.
fn relay(transport: Transport, directory: &Path) -> std::io::Result<()> {
    let report = |address: &str| send(&address).map_err(|error| std::io::Error::other(error.to_string()));
    let (mut source, mut sink): (Box<dyn Socket>, Box<dyn Socket>) = match transport {
        Transport::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            report(&listener.local_addr()?.to_string())?;
            let (source, sink) = (listener.accept()?.0, listener.accept()?.0);
            sink.set_nodelay(true)?;
            (Box::new(source), Box::new(sink))
        }
        Transport::Uds | Transport::Shm => {
            // The path of the directory can be too long for a socket.
            let path = socket_of(directory);
            let _ = std::fs::remove_file(&path);
            let listener = UnixListener::bind(&path)?;
            report(&path.to_string_lossy())?;
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
    let mut received = Tally::default();
    while received.messages < messages {
        let count = relay.read(&mut bytes[have..]).map_err(failed)?;
        if count == 0 {
            return Err(failed(format!("the relay ended after {} messages", received.messages)));
        }
        have += count;
        for message in bytes[..have].chunks_exact(MESSAGE_BYTES) {
            let (words, _) = message.as_chunks::<8>();
            let due = u64::from_le_bytes(words[0]);
            // Every word is added to the sum, then the time, as for a database; the words after the first are zero.
            let rest =
                words[1..].iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_le_bytes(*word)));
            let is_counted = received.messages >= skipped;
            received.add(Timestamp(due as i64), rest);
            let now = now_ns();
            if is_counted {
                late.saturating_record(now.saturating_sub(due));
            }
        }
        let rest = have % MESSAGE_BYTES;
        bytes.copy_within(have - rest..have, 0);
        have = rest;
    }
    Ok(latencies(&late, received))
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("the relay of the benchmark: {error}"))
}
