//! Messages as an Arrow IPC stream.

use super::{Damage, Output};
use arrow_ipc::writer::StreamWriter;
use std::fmt::Display;
use tapedb_arrow::{BatchReader, Decimals, Error, ReadOptions};
use tapedb_engine::{CursorBuilder, Stream};
use tapedb_terminal::{Failure, Ui};

/// Writes the selected messages in time order, until history ends or `limit` is reached.
///
/// # Errors
/// When the selection has not exactly one record type, or a decimal is not exact in the type asked for.
pub fn write(
    streams: &[Stream],
    types: &[String],
    cursor: CursorBuilder,
    decimals: Decimals,
    limit: u64,
    out: &mut Output,
    ui: &Ui,
) -> Result<(), Failure> {
    let record = record_type(streams, types)?;
    let options = ReadOptions { decimals, in_time_order: true, ..ReadOptions::default() };
    let mut reader = BatchReader::open(streams, cursor, &record, &options).map_err(failure)?;
    let schema = arrow_array::RecordBatchReader::schema(&reader);
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).map_err(failure)?;
    let mut damage = Damage::default();
    let mut left = limit;
    while left > 0 && !ui.is_interrupted() {
        match reader.next_batch() {
            Ok(Some(batch)) => {
                let rows = batch.num_rows().min(usize::try_from(left).unwrap_or(usize::MAX));
                writer.write(&batch.slice(0, rows)).map_err(failure)?;
                left -= rows as u64;
            }
            Ok(None) => break,
            Err(Error::Engine(error)) => damage.note(&error, ui)?,
            Err(error) => return Err(failure(error)),
        }
        out.buffer.append(writer.get_mut());
        out.flush()?;
    }
    ui.check_interrupt()?;
    writer.finish().map_err(failure)?;
    out.buffer.append(writer.get_mut());
    out.flush()?;
    damage.finish()
}

/// The type of decimals that an argument names.
///
/// # Errors
/// When it names none.
pub fn decimals(text: &str) -> Result<Decimals, String> {
    text.parse()
}

fn failure(error: impl Display) -> Failure {
    Failure::new(error.to_string())
}

/// The one record type that is selected.
fn record_type(streams: &[Stream], types: &[String]) -> Result<String, Failure> {
    let mut names: Vec<String> = types.to_vec();
    if names.is_empty() {
        let records = streams.iter().flat_map(|stream| stream.layouts().records());
        names.extend(records.filter(|record| record.message).map(|record| record.name.clone()));
    }
    names.sort_unstable();
    names.dedup();
    match &names[..] {
        [only] => Ok(only.clone()),
        _ => Err(Failure::usage(format!(
            "arrow has the columns of one record type, and {} are selected; choose one with --types",
            names.join(", ")
        ))),
    }
}
