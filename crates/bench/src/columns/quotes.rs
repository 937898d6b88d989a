//! Recorded quotes and order books: imported until sealed, their sizes, read as rows, columns and record batches.

use super::{batches, feed, sum};
use crate::report::Report;
use crate::storage::{Scratch, cold, recorded, steps};
use std::path::Path;
use std::time::Instant;
use tapedb_engine::Stream;
use tapedb_market::Package;
use tapedb_terminal::{Failure, Ui};

/// The fields that quotes have: nine columns with time and symbol.
const FIELDS: [&str; 7] = [
    "kind",
    "entries.Level1.side",
    "entries.Level1.price",
    "entries.Level1.size",
    "entries.Level1.exchange",
    "entries.Level1.condition",
    "entries.Level1.suspicious",
];

/// The quotes that rivals get.
pub fn measure(scratch: &Scratch, data: &Path, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    let Some((stream, expected)) = recorded::import(scratch, &recorded::QUOTES, data, report, ui)? else {
        return Ok(());
    };
    steps::size(&stream, "size.quotes", report)?;
    steps::rows::<Package>(&stream, "read.quotes", 1, expected, report)?;
    let found = sum::measure(stream.columns("Package", FIELDS), FIELDS.len(), "columns.sum.quotes", report)?;
    let in_order = sum::read(stream.columns("Package", FIELDS).in_time_order(), FIELDS.len())?;
    sum::check("columns.sum.quotes", &in_order, &found)?;
    let batches = batches::measure(&stream, "Package", false, "arrow.quotes", report)?;
    // A quote is one entry.
    if (batches.messages, batches.times) != (found.messages, found.times) || batches.items < found.messages {
        return Err(Failure::new(format!("arrow.quotes: {found:?} are expected, {batches:?} were read")));
    }
    cold::measure::<Package>(&stream, "quotes", expected, report)?;
    scratch.db.delete_stream(stream.name())?;
    Ok(())
}

/// Captures of order books.
pub fn book(scratch: &Scratch, data: &Path, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    let Some((stream, expected)) = recorded::import(scratch, &recorded::BOOK, data, report, ui)? else {
        return Ok(());
    };
    steps::size(&stream, "size.book", report)?;
    steps::rows::<Package>(&stream, "read.book", 1, expected, report)?;
    book_columns(&stream, report)?;
    cold::measure::<Package>(&stream, "book", expected, report)?;
    scratch.db.delete_stream(stream.name())?;
    Ok(())
}

/// Messages, and the entries in them, as columns.
fn book_columns(stream: &Stream, report: &mut Report) -> Result<(), Failure> {
    let started = Instant::now();
    let found = sum::read(stream.columns("Package", feed::FIELDS), feed::FIELDS.len())?;
    steps::rate(report, "read.book.columns", found.messages, started);
    let in_order = sum::read(stream.columns("Package", feed::FIELDS).in_time_order(), feed::FIELDS.len())?;
    sum::check("read.book.columns", &in_order, &found)
}
