//! Messages made in advance: a load repeats them, moved on in time, so that making them costs nothing.

use crate::bench::fields::Fields;
use crate::failure::Failure;
use crate::ui::Ui;
use tapedb_engine::{Stream, SymbolId};
use tapedb_market::bars::{Bars, BarsConfig};
use tapedb_market::feed::{Feed, FeedConfig};
use tapedb_market::{Bar, Package};
use tapedb_schema::Timestamp;

/// Distinct messages.
const POOL: usize = 200_000;

/// Messages to load again and again.
pub struct Pool<T> {
    pub messages: Vec<(Timestamp, String, T)>,
    /// Virtual time that the pool spans: the next round begins so much later.
    span_ns: i64,
}

/// What a reader found, or should find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub messages: u64,
    /// Sum of all fields and times.
    pub sum: u64,
}

impl Tally {
    /// Counts a message in.
    #[inline]
    pub fn add(&mut self, time: Timestamp, fields: u64) {
        self.messages += 1;
        self.sum = self.sum.wrapping_add(fields).wrapping_add(time.0 as u64);
    }
}

/// Joins fields to their sum.
#[inline]
pub fn plus(sum: u64, word: u64) -> u64 {
    sum.wrapping_add(word)
}

/// Loads the pool as often as it takes, so many messages at a time; returns what readers should find.
pub fn load<T: Fields>(
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
    let sums: Vec<u64> = pool.messages.iter().map(|(_, _, record)| record.fold(plus)).collect();
    let (mut expected, mut shift) = (Tally::default(), 0);
    while expected.messages < messages {
        ui.check_interrupt()?;
        let left = messages - expected.messages;
        for (((time, _, record), symbol), sum) in
            pool.messages.iter().zip(&symbols).zip(&sums).take(left as usize)
        {
            let time = Timestamp(time.0 + shift);
            loader.append_by_id(*symbol, time, record)?;
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

/// Bars of so many symbols, interleaved.
pub fn bars_pool(symbols: u32) -> Pool<Bar> {
    let mut bars = Bars::new(BarsConfig { symbols, ..BarsConfig::default() });
    let mut next = || {
        let message = bars.next();
        (message.time, message.symbol.to_string(), *message.bar)
    };
    pool((0..POOL).map(|_| next()).collect(), BarsConfig::default().interval_ns)
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

fn pool<T>(messages: Vec<(Timestamp, String, T)>, step_ns: i64) -> Pool<T> {
    let span_ns = match (messages.first(), messages.last()) {
        (Some(first), Some(last)) => last.0.0 - first.0.0 + step_ns,
        _ => 0,
    };
    Pool { messages, span_ns }
}
