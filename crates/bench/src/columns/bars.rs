//! Bars: columns, record batches and rows, by symbol and in time order; and their size.

use super::batches::BatchSums;
use super::sum::ColumnSums;
use super::{batches, sum};
use crate::pool::{Pool, Tally};
use crate::report::Report;
use crate::storage::{self, Scratch, steps};
use tapedb_codec::view_trusted;
use tapedb_engine::Stream;
use tapedb_market::Bar;
use tapedb_terminal::{Failure, Ui};

/// The fields of a bar.
const FIELDS: [&str; 5] = ["open", "high", "low", "close", "volume"];

/// Measures all cases of bars. What they must find is summed up from rows.
pub fn measure(
    scratch: &Scratch,
    pool: &Pool<Bar>,
    messages: u64,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let (stream, expected) = storage::sealed::bars(scratch, pool, messages, "", report, ui)?;
    steps::size(&stream, "size.bars", report)?;
    steps::rows::<Bar>(&stream, "rows.read", 1, expected, report)?;
    let expected = Expected::of(&stream, expected)?;
    for (case, in_time_order) in [("columns.sum.symbol", false), ("columns.sum.time", true)] {
        let columns = stream.columns("Bar", FIELDS);
        let columns = if in_time_order { columns.in_time_order() } else { columns };
        sum::check(case, &expected.columns, &sum::measure(columns, FIELDS.len(), case, report)?)?;
    }
    for (case, in_time_order) in [("arrow.bars.symbol", false), ("arrow.bars.time", true)] {
        let found = batches::measure(&stream, "Bar", in_time_order, case, report)?;
        batches::check(case, &expected.batches, &found)?;
    }
    storage::cold::measure::<Bar>(&stream, "bars", expected.rows, report)?;
    scratch.db.delete_stream(storage::sealed::STREAM)?;
    storage::columns::measure(scratch, pool, messages, report, ui)
}

/// What readers must find.
pub struct Expected {
    rows: Tally,
    columns: ColumnSums,
    /// The sums of record batches.
    pub batches: BatchSums,
}

impl Expected {
    /// Reads rows, whose sum is known.
    pub fn of(stream: &Stream, rows: Tally) -> Result<Self, Failure> {
        let mut columns = ColumnSums { columns: vec![0; FIELDS.len()], ..ColumnSums::default() };
        let mut batches = BatchSums::default();
        let mut cursor = stream.cursor().open()?;
        while let Some(message) = cursor.next()? {
            let bar = view_trusted::<Bar>(message.body());
            let fields = [bar.open(), bar.high(), bar.low(), bar.close(), bar.volume()];
            columns.messages += 1;
            columns.times = columns.times.wrapping_add(message.time().0 as u64);
            for (sum, field) in columns.columns.iter_mut().zip(fields) {
                *sum = sum.wrapping_add(field.to_bits());
                batches.numbers = batches.numbers.wrapping_add(field.to_f64().to_bits());
            }
        }
        (batches.messages, batches.times) = (columns.messages, columns.times);
        Ok(Self { rows, columns, batches })
    }
}
