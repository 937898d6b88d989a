//! Files of columns: Parquet and Arrow IPC, as a stream: its dictionary of symbols may grow.

use super::Advance;
use super::part::Part;
use crate::output::Damage;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{RecordBatch, RecordBatchReader};
use std::fmt::Display;
use std::path::Path;
use tapedb_arrow::{BatchReader, Error};
use tapedb_parquet::{FileWriter, Origin, WriteOptions, Written};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui};

/// Writes a Parquet file.
pub fn parquet(
    (reader, origin): (BatchReader, &Origin),
    path: &Path,
    options: &WriteOptions,
    advance: Advance,
    damage: &mut Damage,
    ui: &Ui,
) -> Result<Written, Failure> {
    let failed = |error: tapedb_parquet::Error| Failure::new(error.to_string());
    let schema = reader.schema();
    let mut writer = FileWriter::create(path, &schema, origin, options).map_err(failed)?;
    each(reader, path, advance, damage, ui, |batch| writer.write(batch).map_err(failed))?;
    writer.finish().map_err(failed)
}

/// Writes an Arrow IPC stream; its messages and bytes.
pub fn arrow(
    (reader, origin): (BatchReader, &Origin),
    path: &Path,
    advance: Advance,
    damage: &mut Damage,
    ui: &Ui,
) -> Result<(u64, u64), Failure> {
    let failed = |error: &dyn Display| Failure::new(format!("{}: {error}", path.display()));
    let schema = origin.with_columns(&reader.schema());
    let writer = arrow_ipc::writer::StreamWriter::try_new(Part::create(path)?, &schema);
    let mut writer = writer.map_err(|error| failed(&error))?;
    let mut messages = 0;
    each(reader, path, advance, damage, ui, |batch| {
        messages += batch.num_rows() as u64;
        writer.write(batch).map_err(|error| failed(&error))
    })?;
    let part = writer.into_inner().map_err(|error| failed(&error))?;
    Ok((messages, part.finish()?))
}

/// Each batch to the end of history.
fn each(
    mut reader: BatchReader,
    path: &Path,
    mut advance: Advance,
    damage: &mut Damage,
    ui: &Ui,
    mut write: impl FnMut(&RecordBatch) -> Result<(), Failure>,
) -> Result<(), Failure> {
    loop {
        ui.check_interrupt()?;
        match reader.next_batch() {
            Ok(Some(batch)) => {
                write(&batch)?;
                let times = batch.column(0).as_primitive::<TimestampNanosecondType>().values();
                if let Some(last) = times.last() {
                    advance.note(batch.num_rows() as u64, Timestamp(*last));
                }
            }
            Ok(None) => return Ok(()),
            Err(Error::Engine(error)) => damage.note(&error, ui)?,
            Err(error) => return Err(Failure::new(format!("{}: {error}", path.display()))),
        }
    }
}
