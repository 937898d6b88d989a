//! What queries must find, and what they found.

use super::market::{Market, Quote, Row};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use tapedb_query::arrow::array::{Array, AsArray, RecordBatch};
use tapedb_query::arrow::datatypes::{
    DataType, Float64Type, Int64Type, TimestampNanosecondType, UInt32Type, UInt64Type,
};
use tapedb_terminal::Failure;

/// Rows, and a sum of their values that depends on where each of them is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rows {
    pub rows: u64,
    sum: u64,
}

/// The word of a null.
const NULL: u64 = 0x6E75_6C6C;

impl Rows {
    /// Adds a row.
    pub fn add(&mut self, words: &[Option<u64>]) {
        self.rows += 1;
        for word in words {
            self.sum = self.sum.rotate_left(7).wrapping_add(word.unwrap_or(NULL)).wrapping_mul(31);
        }
    }

    /// All rows of a query.
    pub fn of(batches: &[RecordBatch]) -> Result<Self, Failure> {
        let mut rows = Self::default();
        each_row(batches, |row| rows.add(row))?;
        Ok(rows)
    }

    /// All rows of a query that may come in any order, sorted by their words.
    pub fn sorted(batches: &[RecordBatch]) -> Result<Self, Failure> {
        let mut all = Vec::new();
        each_row(batches, |row| all.push(row.to_vec()))?;
        all.sort_unstable();
        let mut rows = Self::default();
        all.iter().for_each(|row| rows.add(row));
        Ok(rows)
    }
}

/// Calls `take` with the words of each row.
fn each_row(batches: &[RecordBatch], mut take: impl FnMut(&[Option<u64>])) -> Result<(), Failure> {
    for batch in batches {
        let columns: Vec<Vec<Option<u64>>> =
            batch.columns().iter().map(|column| words(&**column)).collect::<Result<_, _>>()?;
        let mut row = Vec::with_capacity(columns.len());
        for at in 0..batch.num_rows() {
            row.clear();
            row.extend(columns.iter().map(|column| column[at]));
            take(&row);
        }
    }
    Ok(())
}

/// A word of each value: numbers by their bits, texts by their bytes.
fn words(column: &dyn Array) -> Result<Vec<Option<u64>>, Failure> {
    Ok(match column.data_type() {
        DataType::Float64 => {
            column.as_primitive::<Float64Type>().iter().map(|v| v.map(f64::to_bits)).collect()
        }
        DataType::Timestamp(..) => {
            column.as_primitive::<TimestampNanosecondType>().iter().map(|v| v.map(|v| v as u64)).collect()
        }
        DataType::Int64 => column.as_primitive::<Int64Type>().iter().map(|v| v.map(|v| v as u64)).collect(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().iter().collect(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().iter().map(|v| v.map(u64::from)).collect(),
        DataType::Utf8View => column.as_string_view().iter().map(|text| text.map(word_of)).collect(),
        other => return Err(Failure::new(format!("the query has a column of {other}; please report this"))),
    })
}

/// The word of a text.
pub fn word_of(text: &str) -> u64 {
    text.bytes().fold(5381, |sum, byte| sum.wrapping_mul(33).wrapping_add(byte.into()))
}

/// Fails unless a query found what it must find.
pub fn check<T: PartialEq + Debug>(case: &str, expected: &T, found: &T) -> Result<(), Failure> {
    if expected == found {
        return Ok(());
    }
    Err(Failure::new(format!("{case}: {expected:?} are expected, {found:?} were found; please report this")))
}

/// Each trade with the last quote of its symbol that is not later: time, price, bid, ask.
pub fn asof(market: &Market) -> Rows {
    let mut last: HashMap<u32, (u64, u64)> = HashMap::new();
    let (mut quotes, mut rows) = (market.quotes.iter().peekable(), Rows::default());
    for (time, symbol, trade) in &market.trades {
        while let Some((_, symbol, quote)) = quotes.next_if(|(at, ..)| at <= time) {
            last.insert(*symbol, (quote.bid.to_f64().to_bits(), quote.ask.to_f64().to_bits()));
        }
        let found = last.get(symbol);
        let price = trade.price.to_f64().to_bits();
        rows.add(&[Some(*time as u64), Some(price), found.map(|q| q.0), found.map(|q| q.1)]);
    }
    rows
}

/// Each trade with the quotes of its symbol at most `width` nanoseconds away: time, price, quotes, lowest bid, highest ask, size.
pub fn window(market: &Market, width: i64) -> Rows {
    let mut quotes: Vec<Vec<(i64, &Quote)>> = vec![Vec::new(); market.symbols.len()];
    for (time, symbol, quote) in &market.quotes {
        quotes[*symbol as usize].push((*time, quote));
    }
    let mut bounds = vec![(0, 0); market.symbols.len()];
    let mut rows = Rows::default();
    for (time, symbol, trade) in &market.trades {
        let (quotes, (from, end)) = (&quotes[*symbol as usize], &mut bounds[*symbol as usize]);
        *from += quotes[*from..].iter().take_while(|(at, _)| *at < time - width).count();
        *end += quotes[*end..].iter().take_while(|(at, _)| *at <= time + width).count();
        let inside = &quotes[*from..*end];
        let low = inside.iter().map(|(_, quote)| quote.bid.to_f64()).reduce(f64::min);
        let high = inside.iter().map(|(_, quote)| quote.ask.to_f64()).reduce(f64::max);
        let size: u64 = inside.iter().map(|(_, quote)| u64::from(quote.bid_size)).sum();
        rows.add(&[
            Some(*time as u64),
            Some(trade.price.to_f64().to_bits()),
            Some(inside.len() as u64),
            low.map(f64::to_bits),
            high.map(f64::to_bits),
            (!inside.is_empty()).then_some(size),
        ]);
    }
    rows
}

/// The last quote of each symbol: symbol, time, bid, ask, in the order of symbols.
pub fn last(market: &Market) -> Rows {
    let last: BTreeMap<&str, &Row<_>> =
        market.quotes.iter().map(|row| (market.symbols[row.1 as usize].as_str(), row)).collect();
    let mut rows = Rows::default();
    for (symbol, (time, _, quote)) in last {
        let (bid, ask) = (quote.bid.to_f64().to_bits(), quote.ask.to_f64().to_bits());
        rows.add(&[Some(word_of(symbol)), Some(*time as u64), Some(bid), Some(ask)]);
    }
    rows
}

/// Bars of a minute of the bids: symbol, minute, open, high, low, close, size; and the volume-weighted price, which sums of floats
/// in another order may miss by their last digits.
pub fn ohlcv(market: &Market) -> (Rows, Vec<f64>) {
    const MINUTE: i64 = 60_000_000_000;
    type Bar = ([f64; 4], u64, f64);
    let mut bars: BTreeMap<(&str, i64), Bar> = BTreeMap::new();
    for (time, symbol, quote) in &market.quotes {
        let price = quote.bid.to_f64();
        let minute = time.div_euclid(MINUTE) * MINUTE;
        let empty = ([price; 4], 0, 0.0);
        let (prices, size, turnover) =
            bars.entry((&market.symbols[*symbol as usize], minute)).or_insert(empty);
        (prices[1], prices[2], prices[3]) = (prices[1].max(price), prices[2].min(price), price);
        *size += u64::from(quote.bid_size);
        *turnover += price * f64::from(quote.bid_size);
    }
    let mut rows = Rows::default();
    for ((symbol, minute), (prices, size, _)) in &bars {
        let [open, high, low, close] = prices.map(|price| Some(price.to_bits()));
        rows.add(&[Some(word_of(symbol)), Some(*minute as u64), open, high, low, close, Some(*size)]);
    }
    (rows, bars.values().map(|(_, size, turnover)| turnover / *size as f64).collect())
}
