//! Arguments of the benchmark.

use crate::remote::Transport;
use std::path::PathBuf;
use std::time::Duration;
use tapedb_terminal::quantity::{count, duration};

/// Where one server ends: live readers, parts, symbols, threads that seal
///
/// `scale.readers.N`: N live readers, each of one symbol and with a connection of its own, while one loader appends at --rate;
/// the latency of each message counts from when it was due until the reader has decoded it. `scale.writer.N`: messages that
/// the loader has appended a second beside them. Each reader must get exactly the messages of its symbol, in order.
/// `scale.parts.N`: a stream with N parts (made of one segment, with a manifest that names N): the time to open it (`open`), to seal a
/// message (`first seal` writes the manifest as a whole, `seal` a change), and for one live reader from a message that follows a seal until it has it (`told`).
/// `scale.symbol`: bytes that are read for one symbol of --symbols in a sealed stream, as a share of those of all.
/// `scale.seal.threads.N`: messages a second that N callers of `Stream::seal` seal together.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Live readers, such as 1,10,100,1000
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,10,100,1000", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub readers: Vec<u32>,
    /// Messages a second that the loader appends; 0: as many as it can
    #[arg(long, value_name = "N", default_value = "5M", value_parser = count)]
    pub rate: u64,
    /// How long the loader appends
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub time: Duration,
    /// Symbols of the messages
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub symbols: u32,
    /// Symbols of which each reader gets the messages; 0: all
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub wanted: u32,
    /// Connections that the readers share, each with a thread that reads for all of them in turn; 0: a connection and a thread for each
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub connections: u32,
    /// How readers and loader reach the server
    #[arg(long, value_name = "HOW", default_value = "uds")]
    pub transport: Transport,
    /// Parts of a stream, such as 1,100,10k
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,100,1k,10k,100k", value_parser = count)]
    pub parts: Vec<u64>,
    /// Messages of the cases that seal, such as 20M or 500k
    #[arg(long, value_name = "N", default_value = "20M", value_parser = count)]
    pub messages: u64,
    /// Threads that seal
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub seal_threads: Vec<u32>,
    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Cases to measure: readers, parts, symbol, seal
    #[arg(long, value_name = "GROUP,…", value_delimiter = ',')]
    pub only: Vec<Group>,
    /// Directory for the database, which is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "bench.tapedb", value_parser = tapedb_terminal::location::local)]
    pub db: PathBuf,
}

/// Cases that are measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Group {
    /// Live readers beside a loader.
    Readers,
    /// Many parts.
    Parts,
    /// One symbol of many.
    Symbol,
    /// Threads that seal.
    Seal,
}
