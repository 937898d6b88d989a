//! A table whose definition has got columns: its stream gets them too. Rows that are there have nulls in them.

use crate::error::TickError;
use crate::table::Table;
use tapedb_engine::{Database, Error, Stream, StreamOptions};
use tapedb_schema::{Decimal64, Field, FieldType, Literal, Scalar, Schema};

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
    check(name, &Table::of_schema(stream.schema())?, table)?;
    // Of what is there nothing changes, so that a stream whose columns are all there stays as it is.
    Ok(db.change_schema(name, widened(stream.schema(), table.schema()))?)
}

/// Checks that nothing of a table would be lost.
fn check(stream: &str, there: &Table, wanted: &Table) -> Result<(), TickError> {
    for column in there.columns() {
        let found = wanted.columns().iter().find(|other| other.name == column.name);
        let what = match found {
            None => format!("the definition has no column {}", column.name),
            Some(found) if found.ty != column.ty || found.kind != column.kind => {
                let (is, defined) = (column.kind.name(), found.kind.name());
                format!("column {} is a {is}, and defined as a {defined}", column.name)
            }
            Some(_) => continue,
        };
        return Err(TickError::Columns { stream: stream.into(), what });
    }
    Ok(())
}

/// The columns of `wanted`, in its order; those that are there as they are.
fn widened(there: &Schema, wanted: Schema) -> Schema {
    let (mut schema, known) = (there.clone(), there.enums.iter().map(|e| e.name.clone()).collect::<Vec<_>>());
    schema.enums.extend(wanted.enums.into_iter().filter(|e| !known.contains(&e.name)));
    let record = schema.records.iter_mut().find(|record| record.message);
    if let (Some(record), Some(wanted)) = (record, wanted.records.into_iter().find(|record| record.message)) {
        let there = std::mem::take(&mut record.fields);
        let field = |field: Field| match there.iter().find(|known| known.name == field.name) {
            Some(known) => known.clone(),
            None => with_null(field),
        };
        record.fields = wanted.fields.into_iter().map(field).collect();
    }
    schema
}

/// A field that has a value for messages from before it: null, or what stands for it in kdb+.
fn with_null(field: Field) -> Field {
    if field.nullable || field.default.is_some() {
        return field;
    }
    match field.ty {
        FieldType::String => Field { default: Some(Literal::Text(String::new())), ..field },
        FieldType::Scalar(Scalar::Bool) => Field { default: Some(Literal::Bool(false)), ..field },
        FieldType::Scalar(Scalar::U8) => Field { default: Some(Literal::Number(Decimal64::ZERO)), ..field },
        _ => Field { nullable: true, ..field },
    }
}
