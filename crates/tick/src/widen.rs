//! Adds the new columns of a table's definition to its stream. Existing rows have nulls in them.

use crate::error::TickError;
use crate::table::Table;
use tapedb_engine::{Database, Error, NotFound, Stream, StreamOptions};
use tapedb_schema::{Decimal64, Field, FieldType, Literal, Scalar, Schema};

/// Opens the stream of a table, creates it if necessary, and adds the columns that it does not have.
///
/// # Errors
/// [`TickError::Columns`] for a stream with columns that the table does not have, or has of another type: nothing is changed
/// then. When the stream cannot be opened or changed.
pub(crate) fn open(
    db: &Database,
    name: &str,
    table: &Table,
    options: StreamOptions,
) -> Result<Stream, TickError> {
    let stream = match db.stream(name) {
        Err(Error::NotFound(NotFound::Stream { .. })) => {
            return Ok(db.create_stream(name, table.schema(), options)?);
        }
        found => found?,
    };
    check(name, &Table::of_schema(stream.schema())?, table)?;
    // Existing columns do not change, so a stream that has all columns stays as it is.
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

/// The columns of `wanted`, in its order; existing ones unchanged.
fn widened(there: &Schema, wanted: Schema) -> Schema {
    let (mut schema, existing) =
        (there.clone(), there.enums.iter().map(|e| e.name.clone()).collect::<Vec<_>>());
    schema.enums.extend(wanted.enums.into_iter().filter(|e| !existing.contains(&e.name)));
    let record = schema.records.iter_mut().find(|record| record.message);
    if let (Some(record), Some(wanted)) = (record, wanted.records.into_iter().find(|record| record.message)) {
        let there = std::mem::take(&mut record.fields);
        let field = |field: Field| match there.iter().find(|other| other.name == field.name) {
            Some(other) => other.clone(),
            None => with_null(field),
        };
        record.fields = wanted.fields.into_iter().map(field).collect();
    }
    schema
}

/// A field with a value for older messages: null, or kdb+'s value for it.
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
