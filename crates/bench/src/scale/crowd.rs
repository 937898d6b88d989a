//! Processes of the live case: a loader, and many readers in threads.

use crate::pool::Tally;
use crate::remote::jobs::connected;
use crate::remote::{Latencies, histogram, latencies, wait_until};
use crate::worker::{Job, now_ns, ready, send};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;
use tapedb_client::Client;
use tapedb_codec::Record;
use tapedb_engine::{Cursor, Database, Message, SymbolId};
use tapedb_schema::Timestamp;
use tapedb_terminal::Failure;
use tapedb_terminal::Ui;

/// The stream.
pub const STREAM: &str = "crowd";

/// A message: its number among those of its symbol, and what follows from it.
#[derive(Record, Default, Debug, Clone, PartialEq)]
#[record(message)]
pub struct Tick {
    /// Its number among the messages of the symbol.
    pub number: i64,
    /// A price.
    pub price: f64,
    /// A size.
    pub size: i64,
}

impl Tick {
    /// The message of a number.
    pub fn of(number: u64) -> Self {
        Self {
            number: number as i64,
            price: 100.0 + (number % 512) as f64 / 64.0,
            size: (number % 97) as i64,
        }
    }
}

/// Name of a symbol.
pub fn symbol(number: u64) -> String {
    format!("S{number:06}")
}

/// A reader fails after this time without a message.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The loader appends this often.
const INTERVAL_NS: u64 = 1_000_000;

/// Live readers, each in a thread.
#[derive(Debug, Serialize, Deserialize)]
pub struct Crowd {
    /// URL of the server.
    pub url: String,
    /// Number of readers.
    pub readers: u32,
    /// Symbols of the stream.
    pub symbols: u32,
    /// Symbols that each reader wants; 0: all.
    pub wanted: u32,
    /// Connections that they share; 0: one for each.
    pub connections: u32,
    /// Messages of all symbols.
    pub messages: u64,
    /// First messages, which do not count.
    pub skipped: u64,
}

/// Appends at a rate.
#[derive(Debug, Serialize, Deserialize)]
pub struct Feeder {
    /// URL of the server.
    pub url: String,
    /// Symbols of the stream.
    pub symbols: u32,
    /// Messages.
    pub messages: u64,
    /// Messages a second; 0: as many as it can.
    pub rate: u64,
}

impl Job for Feeder {
    const NAME: &'static str = "Feeder";

    fn run(self, _: &Ui) -> Result<(), Failure> {
        let Self { url, symbols, messages, rate } = self;
        let stream = connected(Client::at(&url).connections(1))?.stream(STREAM)?;
        let mut loader = stream.loader()?;
        let names: Vec<String> = (0..u64::from(symbols)).map(symbol).collect();
        let ids: Vec<SymbolId> = loader.symbol_ids(&names)?;
        let began = ready()?;
        let each = if rate == 0 { 10_000 } else { (rate * INTERVAL_NS / 1_000_000_000).max(1) };
        let (mut number, mut round) = (0, 0);
        while number < messages {
            // The time at which they are due counts, also where the loader is late.
            let due = if rate > 0 { began + round * INTERVAL_NS } else { now_ns() };
            wait_until(due);
            round += 1;
            let time = Timestamp(due as i64);
            let end = messages.min(number + each);
            while number < end {
                let id = ids[(number % u64::from(symbols)) as usize];
                loader.append_by_id(id, time, &Tick::of(number / u64::from(symbols)))?;
                number += 1;
            }
            loader.send()?;
        }
        loader.flush()?;
        send(&(messages, now_ns() - began))
    }
}

impl Job for Crowd {
    const NAME: &'static str = "Crowd";

    fn run(self, _: &Ui) -> Result<(), Failure> {
        let shared: Vec<Database> =
            (0..self.connections).map(|_| self.connect()).collect::<Result<_, _>>()?;
        let opened = Barrier::new(self.readers as usize + 1);
        let follow = |reader: u32| {
            let cursor = self.open(&shared, reader);
            opened.wait();
            self.follow(reader, cursor?)
        };
        let found = thread::scope(|scope| {
            let spawn = |reader| {
                let named = thread::Builder::new().name(format!("reader-{reader}")).stack_size(512 << 10);
                named
                    .spawn_scoped(scope, move || follow(reader))
                    .map_err(|error| Failure::new(error.to_string()))
            };
            let threads = (0..self.readers).map(spawn).collect::<Result<Vec<_>, _>>()?;
            opened.wait();
            ready()?;
            let ended = |_| Err(Failure::new("a thread of the benchmark panicked; see its message above"));
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(ended))
                .collect::<Result<Vec<_>, _>>()
        })?;
        let (mut all, mut tally) = (histogram()?, Tally::default());
        for (histogram, messages) in found {
            all.add(histogram).map_err(|error| Failure::new(error.to_string()))?;
            tally.messages += messages;
        }
        let all: Latencies = latencies(&all, tally);
        send(&all)
    }
}

impl Crowd {
    fn connect(&self) -> Result<Database, Failure> {
        connected(Client::at(&self.url).connections(1))
    }

    /// Numbers of the symbols that a reader wants.
    fn wanted(&self, reader: u32) -> impl Iterator<Item = u64> {
        let symbols = u64::from(self.symbols);
        (0..u64::from(self.wanted)).map(move |more| (u64::from(reader) + more) % symbols)
    }

    fn open(&self, shared: &[Database], reader: u32) -> Result<Cursor, Failure> {
        let stream = match shared.is_empty() {
            true => self.connect()?.stream(STREAM)?,
            false => shared[reader as usize % shared.len()].stream(STREAM)?,
        };
        let cursor = stream.cursor().live();
        Ok(match self.wanted {
            0 => cursor.open()?,
            _ => cursor.symbols(self.wanted(reader).map(symbol)).open()?,
        })
    }

    /// Messages of a symbol.
    fn messages_of(&self, symbol: u64) -> u64 {
        let symbols = u64::from(self.symbols);
        self.messages / symbols + u64::from(symbol < self.messages % symbols)
    }

    /// Reads all messages of the reader's symbols, and checks that they are these, in order.
    fn follow(&self, reader: u32, mut cursor: Cursor) -> Result<(Histogram<u64>, u64), Failure> {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 2)
            .map_err(|error| Failure::new(error.to_string()))?;
        let expected = match self.wanted {
            0 => self.messages,
            _ => self.wanted(reader).map(|symbol| self.messages_of(symbol)).sum(),
        };
        let wanted: HashMap<u64, String> = match self.wanted {
            0 => (0..u64::from(self.symbols)).map(|number| (number, symbol(number))).collect(),
            _ => self.wanted(reader).map(|number| (number, symbol(number))).collect(),
        };
        let mut next = vec![0_u64; self.symbols as usize];
        for number in 0..expected {
            let Some(message) = cursor.next_within(SILENCE_MAX)? else {
                return Err(wrong(
                    reader,
                    &format!("no message for {SILENCE_MAX:?} after {number} of {expected}"),
                ));
            };
            let (sequence, time) = (message.sequence(), message.time().0 as u64);
            self.check(reader, &message, &wanted, &mut next)?;
            if sequence >= self.skipped {
                histogram.saturating_record(now_ns().saturating_sub(time).max(1));
            }
        }
        match cursor.next()? {
            Some(_) => Err(wrong(reader, "more messages than were sent")),
            None => Ok((histogram, expected)),
        }
    }

    fn check(
        &self,
        reader: u32,
        message: &Message<'_>,
        wanted: &HashMap<u64, String>,
        next: &mut [u64],
    ) -> Result<(), Failure> {
        let (sequence, symbols) = (message.sequence(), u64::from(self.symbols));
        let number = sequence % symbols;
        let tick: Tick = message.decode()?;
        let is_wanted = wanted.get(&number).is_some_and(|name| message.symbol() == name);
        if !is_wanted || tick != Tick::of(sequence / symbols) {
            return Err(wrong(reader, &format!("message {sequence} is {tick:?} of {}", message.symbol())));
        }
        let next = &mut next[number as usize];
        if *next != sequence / symbols {
            return Err(wrong(reader, &format!("message {sequence} where number {next} should follow")));
        }
        *next += 1;
        Ok(())
    }
}

fn wrong(reader: u32, what: &str) -> Failure {
    Failure::new(format!("reader {reader}: {what}; please report this"))
}
