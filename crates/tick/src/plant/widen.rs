//! A table whose definition has got columns: its stream gets them too. Rows that are there have nulls in them.

use crate::error::TickError;
use crate::table::Table;
use tapedb_engine::{Database, Error, Stream, StreamOptions};
use tapedb_schema::Schema;

/// Opens the stream of a table, which is made if it is not there, and gets the columns that it does not have.
///
/// # Errors
/// [`TickError::Columns`] for a stream with columns that the table does not have, or has of another type: nothing is changed
/// then. What keeps the stream from being opened or changed.
pub(crate) fn open(
    db: &Database,
    name: &str,
    table: &Table,
    options: StreamOptions,
) -> Result<Stream, TickError> {
    let stream = match db.stream(name) {
        Err(Error::NoStream { .. }) => return Ok(db.create_stream(name, table.schema(), options)?),
        found => found?,
    };
    if *stream.schema() == table.schema() {
        return Ok(stream);
    }
    let there = Table::of_schema(stream.schema())?;
    check(name, &there, table)?;
    Ok(db.change_schema(name, renamed(table.schema(), there.record_name()))?)
}

/// Checks that nothing of a table would be lost.
fn check(stream: &str, there: &Table, wanted: &Table) -> Result<(), TickError> {
    for column in there.columns() {
        let found = wanted.columns().iter().find(|other| other.name == column.name);
        let what = match found {
            None => format!("the definition has no column {}", column.name),
            Some(found) if found.ty != column.ty || found.nullable != column.nullable || found.kind != column.kind => {
                format!("column {} is a {}, and defined as a {}", column.name, column.kind.name(), found.kind.name())
            }
            Some(_) => continue,
        };
        return Err(TickError::Columns { stream: stream.into(), what });
    }
    Ok(())
}

/// A stream keeps the name of its message type.
fn renamed(mut schema: Schema, record: &str) -> Schema {
    schema.records.iter_mut().filter(|other| other.message).for_each(|other| other.name = record.into());
    schema
}
