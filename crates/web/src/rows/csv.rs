//! Rows as comma-separated values, as in RFC 4180. A text that a spreadsheet would take for a formula gets an apostrophe before it.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use std::io::Write;

/// Appends the line with the names.
pub(crate) fn head(schema: &SchemaRef, out: &mut Vec<u8>) {
    for (index, field) in schema.fields().iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_cell(field.name(), true, out);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends rows.
///
/// # Errors
/// A type without a text.
pub(crate) fn rows(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    const OPTIONS: &FormatOptions<'static> = &FormatOptions::new();
    let columns: Vec<(ArrayFormatter<'_>, bool)> = batch
        .columns()
        .iter()
        .map(|column| Ok((ArrayFormatter::try_new(column.as_ref(), OPTIONS)?, is_text(column))))
        .collect::<Result<_, ArrowError>>()?;
    let mut cell = Vec::new();
    for row in 0..batch.num_rows() {
        for (index, (column, is_text)) in columns.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            cell.clear();
            // A vector takes every write; nulls are empty.
            let _ = write!(cell, "{}", column.value(row));
            write_cell(&String::from_utf8_lossy(&cell), *is_text, out);
        }
        out.extend_from_slice(b"\r\n");
    }
    Ok(())
}

/// Whether values contain texts, which others may have written.
fn is_text(column: &ArrayRef) -> bool {
    match column.data_type() {
        DataType::Dictionary(..) => is_text(column.as_any_dictionary().values()),
        ty => !(ty.is_numeric() || ty.is_temporal() || matches!(ty, DataType::Boolean | DataType::Null)),
    }
}

fn write_cell(text: &str, is_text: bool, out: &mut Vec<u8>) {
    let is_formula = is_text && text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    let is_quoted = text.contains(['"', ',', '\r', '\n']);
    if is_quoted {
        out.push(b'"');
    }
    if is_formula {
        out.push(b'\'');
    }
    if is_quoted {
        out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}
