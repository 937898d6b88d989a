//! The queries, and what each of them must find.

use super::found::{self, Rows, check};
use super::history::History;
use super::market::Market;
use crate::report::Report;
use std::time::Duration;
use tapedb_query::arrow::array::{AsArray, RecordBatch};
use tapedb_query::arrow::datatypes::Float64Type;
use tapedb_terminal::Failure;

/// What sums of floats may differ by, since they are added in another order.
const MARGIN: f64 = 1e-9;

/// A second.
const SECOND_NS: i64 = 1_000_000_000;

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Recorded trades with the last quote before them.
    #[value(name = "asof.real")]
    AsofReal,
    /// Generated trades with the last quote before them.
    #[value(name = "asof.100")]
    Asof100,
    /// Bars of a minute.
    Ohlcv,
    /// The last quote of each symbol.
    Last,
    /// The sum of all columns.
    Sum,
    /// An hour of one symbol.
    Hour,
    /// Generated trades with the quotes around them.
    Window,
    /// Buckets of a stream that is being written.
    Live,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::AsofReal => "sql.asof.real",
            Self::Asof100 => "sql.asof.100",
            Self::Ohlcv => "sql.ohlcv",
            Self::Last => "sql.last",
            Self::Sum => "sql.sum",
            Self::Hour => "sql.hour",
            Self::Window => "sql.window",
            Self::Live => "sql.live",
        }
    }
}

/// A query.
pub struct Case {
    pub kind: Kind,
    pub query: String,
    expected: Expected,
    /// Messages that it reads, where a rate says more than a time.
    messages: Option<u64>,
}

enum Expected {
    /// These rows.
    Rows(Rows),
    /// These rows, and numbers in one column more behind them.
    And(Rows, Vec<f64>),
    /// One row of numbers.
    Numbers(Vec<f64>),
}

impl Case {
    /// Trades with the last quote of their symbol that is not later.
    pub fn asof(kind: Kind, market: &Market, suffix: &str) -> Self {
        let query = format!(
            "SELECT t.time, t.price, q.bid, q.ask FROM trades{suffix} t \
             ASOF JOIN quotes{suffix} q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol"
        );
        Self { kind, query, expected: Expected::Rows(found::asof(market)), messages: None }
    }

    /// Bars of a minute of the bids.
    pub fn ohlcv(market: &Market) -> Self {
        let query = "SELECT symbol, date_bin(INTERVAL '1 minute', time) AS minute, \
            first_value(bid ORDER BY time) AS open, max(bid) AS high, min(bid) AS low, last_value(bid ORDER BY time) AS close, \
            sum(bid_size) AS volume, sum(bid * bid_size) / sum(bid_size) AS vwap \
            FROM quotes GROUP BY symbol, minute ORDER BY symbol, minute";
        let (rows, vwaps) = found::ohlcv(market);
        let expected = Expected::And(rows, vwaps);
        Self { kind: Kind::Ohlcv, query: query.into(), expected, messages: None }
    }

    /// The last quote of each symbol.
    pub fn last(market: &Market) -> Self {
        let query =
            "SELECT DISTINCT ON (symbol) symbol, time, bid, ask FROM quotes ORDER BY symbol, time DESC";
        let expected = Expected::Rows(found::last(market));
        Self { kind: Kind::Last, query: query.into(), expected, messages: None }
    }

    /// Trades with what the quotes of a second before and after them show.
    pub fn window(market: &Market) -> Self {
        let query = "SELECT t.time, t.price, count(*), min(q.bid), max(q.ask), sum(q.bid_size) FROM trades t WINDOW JOIN quotes q \
            MATCH_CONDITION (q.time BETWEEN t.time - INTERVAL '1 second' AND t.time + INTERVAL '1 second') ON t.symbol = q.symbol";
        let expected = Expected::Rows(found::window(market, SECOND_NS));
        Self { kind: Kind::Window, query: query.into(), expected, messages: None }
    }

    /// The sums of all columns of so many bars.
    pub fn sum(bars: &History, messages: u64) -> Self {
        let query = "SELECT sum(open), sum(high), sum(low), sum(close), sum(volume) FROM bars";
        let expected = Expected::Numbers(bars.sums(messages).to_vec());
        Self { kind: Kind::Sum, query: query.into(), expected, messages: Some(messages) }
    }

    /// An hour of one symbol.
    pub fn hour(history: &History, messages: u64) -> Self {
        let (symbol, from, end) = history.hour(messages);
        let query = format!(
            "SELECT time, open, high, low, close, volume FROM history \
             WHERE symbol = '{symbol}' AND time >= '{from}' AND time < '{end}' ORDER BY time"
        );
        let expected = Expected::Rows(history.rows_of_hour(messages));
        Self { kind: Kind::Hour, query, expected, messages: None }
    }

    /// Fails unless the query found what it must find.
    pub fn check(&self, batches: &[RecordBatch]) -> Result<(), Failure> {
        let case = self.kind.name();
        match &self.expected {
            Expected::Rows(rows) => check(case, rows, &Rows::of(batches)?),
            Expected::Numbers(numbers) => {
                let columns = batches.first().map_or(0, RecordBatch::num_columns);
                let found: Vec<f64> = (0..columns).flat_map(|column| floats(batches, column)).collect();
                near(case, numbers, &found)
            }
            Expected::And(rows, numbers) => {
                let last = batches.first().map_or(0, |batch| batch.num_columns() - 1);
                let columns: Vec<usize> = (0..last).collect();
                let others: Vec<RecordBatch> = batches
                    .iter()
                    .map(|batch| batch.project(&columns))
                    .collect::<Result<_, _>>()
                    .map_err(|error| Failure::new(error.to_string()))?;
                check(case, rows, &Rows::of(&others)?)?;
                near(case, numbers, &floats(batches, last))
            }
        }
    }

    /// Adds a run to the report.
    pub fn report(&self, suffix: &str, time: Duration, report: &mut Report) {
        let case = format!("{}{suffix}", self.kind.name());
        match self.messages {
            Some(messages) => {
                report.add(&case, "rate", "messages/s", messages as f64 / time.as_secs_f64());
            }
            None => report.add(&case, "time", "ms", time.as_secs_f64() * 1e3),
        }
    }
}

fn floats(batches: &[RecordBatch], column: usize) -> Vec<f64> {
    let values = |batch: &RecordBatch| -> Vec<f64> {
        let column = batch.column(column).as_primitive_opt::<Float64Type>();
        column.map_or(Vec::new(), |column| column.iter().map(|value| value.unwrap_or(f64::NAN)).collect())
    };
    batches.iter().flat_map(values).collect()
}

/// Fails unless all numbers are those that are expected, but for their last digits.
fn near(case: &str, expected: &[f64], found: &[f64]) -> Result<(), Failure> {
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= MARGIN * a.abs().max(1.0);
    if expected.len() == found.len() && expected.iter().zip(found).all(is_near) {
        return Ok(());
    }
    let first = |numbers: &[f64]| numbers.iter().take(5).copied().collect::<Vec<_>>();
    check(case, &(expected.len(), first(expected)), &(found.len(), first(found)))
}

/// The failure of a query.
pub fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}
