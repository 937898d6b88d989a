//! Messages generated in advance: a load repeats them with later times, so that their generation is not measured.

use crate::fields::Fields;
use serde::{Deserialize, Serialize};
use tapedb_engine::{Error, Loader, Stream, SymbolId};
use tapedb_market::bars::{Bars, BarsConfig};
use tapedb_market::feed::{Feed, FeedConfig};
use tapedb_market::{Bar, Package};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui};

/// Distinct messages.
const POOL: usize = 200_000;
/// Distinct messages of a mixed pool, which are longer; several processes hold one at the same time.
const MIXED_POOL: usize = 100_000;
/// In a mixed pool, one of this many messages is a bar.
const BAR_EVERY: usize = 10;
/// Contracts per exchange of a mixed pool, and exchanges.
const MIXED_CONTRACTS: u32 = 50;
const MIXED_EXCHANGES: u32 = 10;

/// Messages to load repeatedly.
pub struct Pool<T> {
    pub messages: Vec<(Timestamp, String, T)>,
    /// Time span of the pool: each round starts this much later.
    span_ns: i64,
}

impl<T> Pool<T> {
    /// How much later each round of the pool is.
    pub fn span_ns(&self) -> i64 {
        self.span_ns
    }
}

/// What a reader found, or must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    pub messages: u64,
    /// Sum of all fields and times.
    pub sum: u64,
}

impl Tally {
    /// Adds a message.
    #[inline]
    pub fn add(&mut self, time: Timestamp, fields: u64) {
        self.messages += 1;
        self.sum = self.sum.wrapping_add(fields).wrapping_add(time.0 as u64);
    }

    /// The sum of both.
    pub fn and(self, other: Self) -> Self {
        Self { messages: self.messages + other.messages, sum: self.sum.wrapping_add(other.sum) }
    }
}

/// A message of a pool.
pub trait Loadable {
    /// Appends the message.
    fn append(&self, loader: &mut Loader, symbol: SymbolId, time: Timestamp) -> Result<(), Error>;
    /// The sum of its fields.
    fn sum(&self) -> u64;
}

impl<T: Fields> Loadable for T {
    #[inline]
    fn append(&self, loader: &mut Loader, symbol: SymbolId, time: Timestamp) -> Result<(), Error> {
        loader.append_by_id(symbol, time, self)
    }

    fn sum(&self) -> u64 {
        self.fold(plus)
    }
}

/// A message of one of two types.
#[derive(Debug, Clone)]
pub enum Mixed {
    Package(Package),
    Bar(Bar),
}

impl Loadable for Mixed {
    #[inline]
    fn append(&self, loader: &mut Loader, symbol: SymbolId, time: Timestamp) -> Result<(), Error> {
        match self {
            Self::Package(package) => loader.append_by_id(symbol, time, package),
            Self::Bar(bar) => loader.append_by_id(symbol, time, bar),
        }
    }

    fn sum(&self) -> u64 {
        match self {
            Self::Package(package) => package.fold(plus),
            Self::Bar(bar) => bar.fold(plus),
        }
    }
}

/// Fails unless the messages received, with all fields, are those sent.
pub fn compare(sent: Tally, received: Tally) -> Result<(), Failure> {
    if sent == received {
        return Ok(());
    }
    Err(Failure::new(format!("sent {sent:?}, received {received:?}; please report this")))
}

/// Adds a word to a sum.
#[inline]
pub fn plus(sum: u64, word: u64) -> u64 {
    sum.wrapping_add(word)
}

/// Loads `messages` messages, repeating the pool, in batches of `batch`; returns what readers must find.
pub fn load<T: Loadable>(
    stream: &Stream,
    pool: &Pool<T>,
    messages: u64,
    batch: u64,
    ui: &Ui,
) -> Result<Tally, Failure> {
    let mut loader = stream.loader()?;
    let symbols: Result<Vec<SymbolId>, _> =
        pool.messages.iter().map(|(_, symbol, _)| loader.symbol(symbol)).collect();
    let symbols = symbols?;
    let sums: Vec<u64> = pool.messages.iter().map(|(_, _, record)| record.sum()).collect();
    let (mut expected, mut shift) = (Tally::default(), 0);
    while expected.messages < messages {
        ui.check_interrupt()?;
        let left = messages - expected.messages;
        for (((time, _, record), symbol), sum) in
            pool.messages.iter().zip(&symbols).zip(&sums).take(left as usize)
        {
            let time = Timestamp(time.0 + shift);
            record.append(&mut loader, *symbol, time)?;
            expected.add(time, *sum);
            if expected.messages.is_multiple_of(batch) {
                loader.flush()?;
            }
        }
        shift += pool.span_ns;
    }
    loader.close()?;
    Ok(expected)
}

/// Bars of several symbols, interleaved.
pub fn bars_pool(symbols: u32) -> Pool<Bar> {
    bars_pool_of(BarsConfig { symbols, ..BarsConfig::default() })
}

/// The bars of a generator.
pub fn bars_pool_of(config: BarsConfig) -> Pool<Bar> {
    let interval_ns = config.interval_ns;
    let mut bars = Bars::new(config);
    let mut next = || {
        let message = bars.next();
        (message.time, message.symbol.to_string(), *message.bar)
    };
    pool((0..POOL).map(|_| next()).collect(), interval_ns)
}

/// Packages of the generated feed.
pub fn feed_pool(messages: u64) -> Result<Pool<Package>, Failure> {
    let mut feed = Feed::new(FeedConfig::default()).map_err(|error| Failure::new(error.to_string()))?;
    let mut next = || {
        let message = feed.next();
        (message.time, message.symbol.to_string(), message.package.clone())
    };
    Ok(pool((0..POOL.min(messages as usize)).map(|_| next()).collect(), 1))
}

/// Packages of a feed of many contracts, with bars among them.
pub fn mixed_pool(messages: u64) -> Result<Pool<Mixed>, Failure> {
    let (exchanges, contracts_per_exchange) = (MIXED_EXCHANGES, MIXED_CONTRACTS);
    let config = FeedConfig { exchanges, contracts_per_exchange, ..FeedConfig::default() };
    let mut feed = Feed::new(config).map_err(|error| Failure::new(error.to_string()))?;
    let mut bars = Bars::new(BarsConfig::default());
    let mut next = |nth: usize| {
        let message = feed.next();
        let record = match nth % BAR_EVERY {
            0 => Mixed::Bar(*bars.next().bar),
            _ => Mixed::Package(message.package.clone()),
        };
        (message.time, message.symbol.to_string(), record)
    };
    Ok(pool((0..MIXED_POOL.min(messages as usize)).map(&mut next).collect(), 1))
}

/// What a reader of one symbol must find after `messages` messages of the pool were loaded.
pub fn tally_of_symbol<T: Loadable>(pool: &Pool<T>, messages: u64, wanted: &str) -> Tally {
    let own: Vec<(usize, Timestamp, u64)> = pool
        .messages
        .iter()
        .enumerate()
        .filter(|(_, (_, symbol, _))| symbol == wanted)
        .map(|(at, (time, _, record))| (at, *time, record.sum()))
        .collect();
    let (mut tally, mut loaded, mut shift) = (Tally::default(), 0, 0);
    while loaded < messages {
        let left = messages - loaded;
        for (_, time, sum) in own.iter().filter(|(at, ..)| (*at as u64) < left) {
            tally.add(Timestamp(time.0 + shift), *sum);
        }
        loaded += left.min(pool.messages.len() as u64);
        shift += pool.span_ns;
    }
    tally
}

fn pool<T>(messages: Vec<(Timestamp, String, T)>, step_ns: i64) -> Pool<T> {
    let span_ns = match (messages.first(), messages.last()) {
        (Some(first), Some(last)) => last.0.0 - first.0.0 + step_ns,
        _ => 0,
    };
    Pool { messages, span_ns }
}
