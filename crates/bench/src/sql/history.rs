//! Bars that repeat a pool, and what queries must find of them.

use super::found::Rows;
use crate::pool::{Pool, bars_pool_of, load};
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Database, StreamOptions};
use tapedb_market::Bar;
use tapedb_market::bars::BarsConfig;
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui};

/// An hour.
const HOUR_NS: i64 = 3_600_000_000_000;

/// Bars of a pool, which is loaded again and again with later times.
pub struct History(Pool<Bar>);

impl History {
    /// Bars of a minute, of ten symbols.
    pub fn bars() -> Self {
        Self(bars_pool_of(BarsConfig::default()))
    }

    /// Bars of a second.
    pub fn seconds(symbols: u32) -> Self {
        Self(bars_pool_of(BarsConfig { symbols, interval_ns: 1_000_000_000, ..BarsConfig::default() }))
    }

    /// Loads so many into a new stream, and seals them.
    pub fn load(&self, db: &Database, name: &str, messages: u64, ui: &Ui) -> Result<(), Failure> {
        let schema = SchemaBuilder::new().with::<Bar>().finish();
        let stream = db.create_stream(name, schema, StreamOptions::default())?;
        load(&stream, &self.0, messages, u64::MAX, ui)?;
        stream.seal()?;
        Ok(())
    }

    /// The sums of all fields of so many bars.
    pub fn sums(&self, messages: u64) -> [f64; 5] {
        let messages = messages as usize;
        let (rounds, rest) = (messages / self.0.messages.len(), messages % self.0.messages.len());
        let sum = |bars: usize| {
            self.0.messages[..bars].iter().fold([0.0; 5], |sums, (_, _, bar)| {
                let fields = fields(bar);
                std::array::from_fn(|index| sums[index] + fields[index])
            })
        };
        let (all, rest) = (sum(self.0.messages.len()), sum(rest));
        std::array::from_fn(|index| all[index] * rounds as f64 + rest[index])
    }

    /// The symbol of one of the bars, and the first and the end time of an hour in the middle of so many.
    pub fn hour(&self, messages: u64) -> (&str, Timestamp, Timestamp) {
        let pool = &self.0.messages;
        let rounds = messages as i64 / pool.len() as i64;
        let from = pool[0].0.0 + rounds / 2 * self.0.span_ns();
        (&pool[pool.len() / 2].1, Timestamp(from), Timestamp(from + HOUR_NS))
    }

    /// The bars of that hour: time, and the fields.
    pub fn rows_of_hour(&self, messages: u64) -> Rows {
        let (symbol, from, end) = self.hour(messages);
        let (mut rows, mut left, mut shift) = (Rows::default(), messages as usize, 0);
        while left > 0 {
            let round = &self.0.messages[..left.min(self.0.messages.len())];
            left -= round.len();
            for (time, of, bar) in round {
                let time = time.0 + shift;
                if of == symbol && time >= from.0 && time < end.0 {
                    let mut words = vec![Some(time as u64)];
                    words.extend(fields(bar).map(|field| Some(field.to_bits())));
                    rows.add(&words);
                }
            }
            shift += self.0.span_ns();
            if self.0.messages[0].0.0 + shift >= end.0 {
                break;
            }
        }
        rows
    }
}

fn fields(bar: &Bar) -> [f64; 5] {
    [bar.open, bar.high, bar.low, bar.close, bar.volume].map(|field| field.to_f64())
}
