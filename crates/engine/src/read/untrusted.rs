//! Checks messages from an untrusted server ([`Upstream::is_trusted`](crate::Upstream::is_trusted)).
//!
//! Checksums prove that bytes are those that the server sent. They do not protect from a server that sends what TapeDB never
//! writes: bodies that do not match the schema, record types that are only nested, unknown symbols. Whole batches and blocks are
//! refused, each with one error; the reader continues after them.
//!
//! Where a sealed block is read as columns, the columns that are asked for are checked instead, and the symbols of its rows. A block in
//! which one of them is wrong, or cannot be checked by itself, is read as rows, and refused as these are. So a message of which
//! another field is wrong is refused as a row and returned as columns, which do not have that field.

use crate::error::{ConnectionError, Error};
use crate::rows::check_batch_rows;
use crate::stream::reader::ReadContext;
use tapedb_codec::batch::{BatchHeader, Rows};
use tapedb_segment::RowHeader;

/// Checks the messages of a whole batch, of the stream's version of its schema. `rows`: memory that is used again.
pub(crate) fn check_batch(
    header: &BatchHeader,
    batch: &[u8],
    rows: &mut Rows,
    context: ReadContext<'_>,
) -> Result<(), Error> {
    let symbols = context.stream.dictionary.len();
    check_batch_rows(header, batch, rows, &context.stream.layouts, symbols).map_err(|(row, what)| {
        refused(context, header.first_sequence + row as u64, u64::from(header.count), &what)
    })
}

/// Checks one message of a block that has so many, of the stream's version of its schema.
pub(crate) fn check_row(
    row: RowHeader,
    body: &[u8],
    count: usize,
    context: ReadContext<'_>,
) -> Result<(), Error> {
    let RowHeader { sequence, symbol, type_id, .. } = row;
    let refused = |what: &str| refused(context, sequence, count as u64, what);
    let symbols = context.stream.dictionary.len();
    if symbol >= symbols {
        return Err(refused(&format!("its symbol is number {symbol}, and the stream has {symbols}")));
    }
    let layouts = &context.stream.layouts;
    let record = layouts.record(type_id).map_err(|error| refused(&error.to_string()))?;
    if !record.message {
        return Err(refused(&format!("{} is only nested in others", record.name)));
    }
    layouts.check(type_id, body).map_err(|error| refused(&error.to_string()))
}

#[cold]
fn refused(context: ReadContext<'_>, sequence: u64, count: u64, what: &str) -> Error {
    Error::Connection(ConnectionError::Protocol {
        what: format!(
            "stream {:?}, message {sequence}: {what}; the {count} messages that the server sent with it are left out",
            context.stream.name
        ),
    })
}
