//! Loading bars as columns: until they are acknowledged, and until all are sealed, with maintenance beside the loader.

use super::scratch::Scratch;
use super::sealed::STREAM;
use super::steps::{check, rate, read_all, seal};
use crate::pool::{Loadable, Pool, Tally};
use crate::report::Report;
use std::time::Instant;
use tapedb_engine::{MessageColumns, Stream, StreamOptions, SymbolId, Symbols};
use tapedb_market::Bar;
use tapedb_schema::Decimal64;
use tapedb_terminal::{Failure, Ui};

/// Rows of a call, as a record batch has at most.
const CALL: usize = 65_536;

/// Loads bars into a new stream, seals them, and compares what is read: `load.columns` and `load.columns.sealed`.
pub fn measure(
    scratch: &Scratch,
    pool: &Pool<Bar>,
    messages: u64,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let stream = scratch.stream::<Bar>(STREAM, StreamOptions::default())?;
    let (columns, ids) = (Fields::of(pool), ids(&stream, pool)?);
    let started = Instant::now();
    let mut loader = stream.loader()?;
    let (mut left, mut shift, mut times) = (messages as usize, 0, Vec::new());
    while left > 0 {
        ui.check_interrupt()?;
        let rows = left.min(pool.messages.len());
        for start in (0..rows).step_by(CALL) {
            let rows = start..rows.min(start + CALL);
            times.clear();
            times.extend(columns.times[rows.clone()].iter().map(|time| time + shift));
            let bars = MessageColumns::of::<Bar>(&times, Symbols::Ids(&ids[rows.clone()]))
                .field("open", &columns.open[rows.clone()])
                .field("high", &columns.high[rows.clone()])
                .field("low", &columns.low[rows.clone()])
                .field("close", &columns.close[rows.clone()])
                .field("volume", &columns.volume[rows]);
            loader.append_columns(&bars)?;
        }
        (left, shift) = (left - rows, shift + pool.span_ns());
    }
    loader.close()?;
    rate(report, "load.columns", messages, started);
    seal(&stream, "load.columns.sealed", started, report)?;
    check(&stream, expected(pool, messages), read_all::<Bar>(&stream)?)?;
    scratch.db.delete_stream(STREAM)?;
    Ok(())
}

/// The bars of a pool as columns.
struct Fields {
    times: Vec<i64>,
    open: Vec<Decimal64>,
    high: Vec<Decimal64>,
    low: Vec<Decimal64>,
    close: Vec<Decimal64>,
    volume: Vec<Decimal64>,
}

impl Fields {
    fn of(pool: &Pool<Bar>) -> Self {
        let column =
            |field: fn(&Bar) -> Decimal64| pool.messages.iter().map(|(_, _, bar)| field(bar)).collect();
        Self {
            times: pool.messages.iter().map(|(time, _, _)| time.0).collect(),
            open: column(|bar| bar.open),
            high: column(|bar| bar.high),
            low: column(|bar| bar.low),
            close: column(|bar| bar.close),
            volume: column(|bar| bar.volume),
        }
    }
}

fn ids(stream: &Stream, pool: &Pool<Bar>) -> Result<Vec<SymbolId>, Failure> {
    let mut loader = stream.loader()?;
    Ok(pool.messages.iter().map(|(_, symbol, _)| loader.symbol(symbol)).collect::<Result<_, _>>()?)
}

/// What readers must find.
fn expected(pool: &Pool<Bar>, messages: u64) -> Tally {
    let (mut expected, mut shift) = (Tally::default(), 0);
    let sums: Vec<u64> = pool.messages.iter().map(|(_, _, bar)| bar.sum()).collect();
    while expected.messages < messages {
        let left = (messages - expected.messages) as usize;
        for ((time, _, _), sum) in pool.messages.iter().zip(&sums).take(left) {
            expected.add(tapedb_schema::Timestamp(time.0 + shift), *sum);
        }
        shift += pool.span_ns();
    }
    expected
}
