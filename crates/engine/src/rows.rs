//! Checks the messages of encoded batches against a schema.

use tapedb_codec::batch::{Alike, BatchColumns, BatchHeader, Rows};
use tapedb_codec::dynamic::Layouts;

/// Checks the messages of a batch whose bytes have been checked; the first row that is wrong, and what is wrong with it. `rows`:
/// memory that is reused.
pub(crate) fn check_batch_rows(
    header: &BatchHeader,
    batch: &[u8],
    rows: &mut Rows,
    layouts: &Layouts,
    symbols: u32,
) -> Result<(), (usize, String)> {
    if header.is_columnar() {
        return check_columns(header, batch, layouts, symbols);
    }
    if are_plainly_right(header, batch, layouts, symbols) {
        return Ok(());
    }
    rows.load_parsed(header, batch).map_err(|error| (0, error.to_string()))?;
    check_rows(rows, batch, layouts, symbols)
}

/// Whether all rows are right, where they are so alike that this can be decided without finding each.
pub(crate) fn are_plainly_right(header: &BatchHeader, batch: &[u8], layouts: &Layouts, symbols: u32) -> bool {
    let alike = Alike::of(header, batch).filter(|_| !header.is_columnar());
    let Some(Alike { symbol_max, bodies_start }) = alike else { return false };
    let record = layouts.record(header.type_const).ok().filter(|record| record.message);
    symbol_max < symbols
        && record.is_some_and(|record| record.fixed == header.length_const as usize)
        && layouts.are_right(header.type_const, &batch[bodies_start..])
}

/// Checks times, symbols and fields of a batch of columns; the first row that is wrong, and what is wrong with it.
pub(crate) fn check_columns(
    header: &BatchHeader,
    batch: &[u8],
    layouts: &Layouts,
    symbols: u32,
) -> Result<(), (usize, String)> {
    if Alike::of(header, batch).is_none_or(|alike| alike.symbol_max >= symbols) {
        let mut rows = Rows::default();
        rows.load_places(header, batch).map_err(|error| (0, error.to_string()))?;
        check_symbols(&rows, symbols)?;
    }
    let record = layouts.record(header.type_const).map_err(|error| (0, error.to_string()))?;
    if !record.message {
        return Err((0, format!("{} is only nested in others", record.name)));
    }
    let columns = BatchColumns::parse(header, batch, layouts).map_err(|error| (0, error.to_string()))?;
    columns.check()
}

/// Checks types, symbols and bodies; the first row that is wrong, and what is wrong with it.
pub(crate) fn check_rows(
    rows: &Rows,
    batch: &[u8],
    layouts: &Layouts,
    symbols: u32,
) -> Result<(), (usize, String)> {
    check_symbols(rows, symbols)?;
    let mut last_type = None;
    for (row, &type_id) in rows.types().iter().enumerate() {
        if last_type != Some(type_id) {
            let record = layouts.record(type_id).map_err(|error| (row, error.to_string()))?;
            if !record.message {
                return Err((row, format!("{} is only nested in others", record.name)));
            }
            last_type = Some(type_id);
        }
        layouts.check(type_id, &batch[rows.body(row)]).map_err(|error| (row, error.to_string()))?;
    }
    Ok(())
}

fn check_symbols(rows: &Rows, symbols: u32) -> Result<(), (usize, String)> {
    let last = rows.symbols().iter().copied().max();
    if last.is_some_and(|last| last >= symbols)
        && let Some(row) = rows.symbols().iter().position(|symbol| *symbol >= symbols)
    {
        return Err((
            row,
            format!("the stream has {symbols} symbols, and the message's is number {}", rows.symbols()[row]),
        ));
    }
    Ok(())
}
