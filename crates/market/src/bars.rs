//! Endless, deterministic bars: symbols interleaved, one bar per symbol and interval, prices in cents.

use crate::Bar;
use crate::random::Random;
use tapedb_schema::{Decimal64, Timestamp};

/// Most symbols of one generator.
pub const MAX_SYMBOLS: u32 = 1_000_000;

/// What [`Bars`] makes. The same settings give the same bars, on every machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BarsConfig {
    /// Seed of all chance.
    pub seed: u64,
    /// Symbols, interleaved; at least 1, at most [`MAX_SYMBOLS`] (values outside are brought to the nearest).
    pub symbols: u32,
    /// Time of the first bar of every symbol.
    pub start: Timestamp,
    /// Length of an interval in nanoseconds.
    pub interval_ns: i64,
}

impl Default for BarsConfig {
    /// Ten symbols, one-minute bars from 2024-01-02 14:30 UTC.
    fn default() -> Self {
        let start = Timestamp(1_704_205_800_000_000_000);
        Self { seed: 1, symbols: 10, start, interval_ns: 60_000_000_000 }
    }
}

/// One bar with its header; borrowed from the generator until the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BarMessage<'a> {
    /// End of the interval.
    pub time: Timestamp,
    /// Symbol.
    pub symbol: &'a str,
    /// The bar.
    pub bar: &'a Bar,
}

/// The generator; see [`BarsConfig`].
///
/// ```
/// use tapedb_market::bars::{Bars, BarsConfig};
/// let mut bars = Bars::new(BarsConfig::default());
/// let first = bars.next();
/// assert_eq!(first.symbol, "S000000");
/// ```
#[derive(Debug, Clone)]
pub struct Bars {
    random: Random,
    symbols: Vec<(String, i64)>,
    at: usize,
    time: Timestamp,
    interval_ns: i64,
    bar: Bar,
}

impl Bars {
    /// A generator at its first bar.
    pub fn new(config: BarsConfig) -> Self {
        let mut random = Random::new(config.seed);
        let count = config.symbols.clamp(1, MAX_SYMBOLS);
        let symbols = (0..count).map(|i| (format!("S{i:06}"), 1_000 + random.below(50_000) as i64)).collect();
        let (time, interval_ns) = (config.start, config.interval_ns);
        Self { random, symbols, at: 0, time, interval_ns, bar: Bar::default() }
    }

    /// The next bar: all symbols in turn, then the next interval. There is always one.
    #[expect(clippy::should_implement_trait, reason = "the bar is borrowed, so this cannot be an iterator")]
    pub fn next(&mut self) -> BarMessage<'_> {
        if self.at == self.symbols.len() {
            self.at = 0;
            self.time = Timestamp(self.time.nanos().saturating_add(self.interval_ns));
        }
        let (symbol, last) = &mut self.symbols[self.at];
        self.at += 1;
        self.bar = next_bar(&mut self.random, last);
        BarMessage { time: self.time, symbol, bar: &self.bar }
    }
}

/// A bar that opens near the last close and walks a few cents; `last` becomes its close.
fn next_bar(random: &mut Random, last: &mut i64) -> Bar {
    let range = 2 + (*last as u64) / 2_000;
    let open = (*last + step(random, 1 + range / 8)).max(1);
    let close = (open + step(random, range)).max(1);
    let high = open.max(close) + random.below(range) as i64;
    let low = (open.min(close) - random.below(range) as i64).max(1);
    *last = close;
    let volume = 100 * (1 + random.exponential(200)) as i64;
    Bar {
        open: cents(open),
        high: cents(high),
        low: cents(low),
        close: cents(close),
        volume: decimal(volume, 0),
    }
}

fn step(random: &mut Random, range: u64) -> i64 {
    random.below(2 * range + 1) as i64 - range as i64
}

fn cents(price: i64) -> Decimal64 {
    decimal(price, -2)
}

/// Prices and volumes here stay far below sixteen digits: a walk of cents would need 10^13 bars to get there.
fn decimal(coefficient: i64, exponent: i32) -> Decimal64 {
    Decimal64::from_parts(coefficient, exponent).unwrap_or(Decimal64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    #[test]
    fn bars_are_whole_and_interleaved() {
        let mut bars = Bars::new(BarsConfig::default());
        for i in 0..10_000 {
            let message = bars.next();
            assert_eq!(message.symbol, format!("S{:06}", i % 10));
            assert_eq!(message.time.nanos(), 1_704_205_800_000_000_000 + (i / 10) * 60_000_000_000);
            for price in [message.bar.open, message.bar.close] {
                assert_ne!(price.numeric_cmp(&message.bar.high), Some(Ordering::Greater));
                assert_ne!(price.numeric_cmp(&message.bar.low), Some(Ordering::Less));
            }
            assert_eq!(message.bar.low.numeric_cmp(&Decimal64::ZERO), Some(Ordering::Greater));
        }
    }

    #[test]
    fn the_output_is_pinned() {
        let mut bars = Bars::new(BarsConfig::default());
        let last = (0..1_000).map(|_| *bars.next().bar).last().unwrap();
        let text = format!("{} {} {} {} {}", last.open, last.high, last.low, last.close, last.volume);
        assert_eq!(text, "286.08 286.16 285.81 285.92 51500");
    }
}
