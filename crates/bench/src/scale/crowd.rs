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
use tapedb_engine::{Cursor, Database, SymbolId};
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

/// Readers that share a thread look for messages again after this time without one.
const PAUSE: Duration = Duration::from_micros(200);

/// The loader appends this often.
const INTERVAL_NS: u64 = 1_000_000;

/// Live readers.
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
    /// Connections that they share, each of which a thread reads for all its readers; 0: a connection and a thread for each.
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
        let threads = if self.connections == 0 { self.readers } else { self.connections };
        let opened = Barrier::new(threads as usize + 1);
        let follow = |thread: u32| {
            let readers = self.open_all((thread..self.readers).step_by(threads as usize));
            opened.wait();
            match readers?.as_mut_slice() {
                [reader] => reader.follow(),
                readers => poll(readers),
            }
        };
        let found = thread::scope(|scope| {
            let spawn = |number| {
                let named = thread::Builder::new().name(format!("reader-{number}")).stack_size(512 << 10);
                named
                    .spawn_scoped(scope, move || follow(number))
                    .map_err(|error| Failure::new(error.to_string()))
            };
            let threads = (0..threads).map(spawn).collect::<Result<Vec<_>, _>>()?;
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
    /// Opens readers over one connection.
    fn open_all(&self, readers: impl Iterator<Item = u32>) -> Result<Vec<Reader<'_>>, Failure> {
        let database = connected(Client::at(&self.url).connections(1))?;
        readers.map(|number| self.open(&database, number)).collect()
    }

    fn open(&self, database: &Database, number: u32) -> Result<Reader<'_>, Failure> {
        let symbols = u64::from(self.symbols);
        let wanted: Vec<u64> = match self.wanted {
            0 => (0..symbols).collect(),
            _ => (0..u64::from(self.wanted)).map(|more| (u64::from(number) + more) % symbols).collect(),
        };
        let cursor = database.stream(STREAM)?.cursor().live();
        let cursor = match self.wanted {
            0 => cursor.open()?,
            _ => cursor.symbols(wanted.iter().copied().map(symbol)).open()?,
        };
        let left = wanted.iter().map(|symbol| self.messages_of(*symbol)).sum();
        let next = wanted.into_iter().map(|number| (number, (symbol(number), 0))).collect();
        let histogram = Histogram::new_with_bounds(1, 60_000_000_000, 2)
            .map_err(|error| Failure::new(error.to_string()))?;
        Ok(Reader { crowd: self, number, cursor, next, left, received: 0, histogram })
    }

    /// Messages of a symbol.
    fn messages_of(&self, symbol: u64) -> u64 {
        let symbols = u64::from(self.symbols);
        self.messages / symbols + u64::from(symbol < self.messages % symbols)
    }
}

/// A reader, which checks that it gets the messages of its symbols, in order.
struct Reader<'a> {
    crowd: &'a Crowd,
    number: u32,
    cursor: Cursor,
    /// Name and next message of each symbol that it wants.
    next: HashMap<u64, (String, u64)>,
    /// Messages that are still to come.
    left: u64,
    received: u64,
    histogram: Histogram<u64>,
}

/// Reads with all readers in turn, in this thread, until each has all its messages.
fn poll(readers: &mut [Reader<'_>]) -> Result<(Histogram<u64>, u64), Failure> {
    let mut last = now_ns();
    while readers.iter().any(|reader| reader.left > 0) {
        let before: u64 = readers.iter().map(|reader| reader.left).sum();
        for reader in &mut *readers {
            while reader.left > 0 && reader.take(None)? {}
        }
        if readers.iter().map(|reader| reader.left).sum::<u64>() < before {
            last = now_ns();
        } else if now_ns() - last > SILENCE_MAX.as_nanos() as u64 {
            return Err(Failure::new(format!(
                "polled readers: no message for {SILENCE_MAX:?}, {before} are missing"
            )));
        } else {
            thread::sleep(PAUSE);
        }
    }
    let mut all =
        Histogram::new_with_bounds(1, 60_000_000_000, 2).map_err(|error| Failure::new(error.to_string()))?;
    let mut received = 0;
    for reader in readers {
        let (histogram, messages) = reader.ended()?;
        all.add(histogram).map_err(|error| Failure::new(error.to_string()))?;
        received += messages;
    }
    Ok((all, received))
}

impl Reader<'_> {
    /// Reads all messages of the reader's symbols.
    fn follow(&mut self) -> Result<(Histogram<u64>, u64), Failure> {
        while self.left > 0 {
            if !self.take(Some(SILENCE_MAX))? {
                return Err(self.wrong(&format!("no message for {SILENCE_MAX:?}, {} are missing", self.left)));
            }
        }
        self.ended()
    }

    /// Takes the next message, if there is one: at once, or within a time.
    fn take(&mut self, within: Option<Duration>) -> Result<bool, Failure> {
        let message = match within {
            Some(time) => self.cursor.next_within(time)?,
            None => self.cursor.next()?,
        };
        let Some(message) = message else { return Ok(false) };
        let (sequence, time) = (message.sequence(), message.time().0 as u64);
        let symbols = u64::from(self.crowd.symbols);
        let tick: Tick = message.decode()?;
        let next = self.next.get_mut(&(sequence % symbols)).filter(|(name, _)| message.symbol() == name);
        let Some((_, next)) = next.filter(|_| tick == Tick::of(sequence / symbols)) else {
            let what = format!("message {sequence} is {tick:?} of {}", message.symbol());
            return Err(self.wrong(&what));
        };
        if *next != sequence / symbols {
            let next = *next;
            return Err(self.wrong(&format!("message {sequence} where number {next} should follow")));
        }
        *next += 1;
        self.left -= 1;
        self.received += 1;
        if sequence >= self.crowd.skipped {
            self.histogram.saturating_record(now_ns().saturating_sub(time).max(1));
        }
        Ok(true)
    }

    /// What it has received, when nothing follows.
    fn ended(&mut self) -> Result<(Histogram<u64>, u64), Failure> {
        match self.cursor.next()? {
            Some(_) => Err(self.wrong("more messages than were sent")),
            None => Ok((self.histogram.clone(), self.received)),
        }
    }

    fn wrong(&self, what: &str) -> Failure {
        Failure::new(format!("reader {}: {what}; please report this", self.number))
    }
}
