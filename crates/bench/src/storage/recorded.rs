//! Recorded data: import, seal, read, size; again in the cold tier.

use super::cold;
use super::scratch::Scratch;
use super::steps::{rate, rows, seal, size};
use crate::fields::Fields;
use crate::pool::{Tally, plus};
use crate::report::Report;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Instant;
use tapedb_engine::{Stream, StreamOptions};
use tapedb_market::Package;
use tapedb_terminal::{Failure, Ui};
use tapedb_venue::{AnyRecord, Format, ImportError, ImportOptions, Merge, discover};

/// Recorded files that are imported together.
pub struct Set {
    /// Part of the names of cases.
    name: &'static str,
    format: Format,
    /// Selects files of the format.
    has: fn(&Path) -> bool,
}

/// The quotes that rivals get (`bench/rivals/storage/quotes.py`).
pub const QUOTES: Set = Set { name: "quotes", format: Format::UsEquityTicks, has: is_of_quotes };

/// Captures of order books.
pub const BOOK: Set = Set { name: "book", format: Format::BinanceRawWs, has: |_| true };

/// All sets; `ticks` are all quotes and trades.
pub const SETS: [Set; 3] =
    [QUOTES, Set { name: "ticks", format: Format::UsEquityTicks, has: |_| true }, BOOK];

/// Whether a file has the quotes of AIG or BAC.
fn is_of_quotes(path: &Path) -> bool {
    let is_named =
        |part: Option<&OsStr>, test: fn(&str) -> bool| part.and_then(OsStr::to_str).is_some_and(test);
    is_named(path.parent().and_then(Path::file_name), |folder| ["aig", "bac"].contains(&folder))
        && is_named(path.file_name(), |file| file.ends_with("_quote.zip"))
}

/// Imports one set, and reads it.
pub fn measure(
    scratch: &Scratch,
    set: &Set,
    data: &Path,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let Some((stream, expected)) = import(scratch, set, data, report, ui)? else { return Ok(()) };
    let name = set.name;
    rows::<Package>(&stream, &format!("read.{name}.1"), 1, expected, report)?;
    size(&stream, &format!("size.{name}"), report)?;
    cold::measure::<Package>(&stream, name, expected, report)?;
    scratch.db.delete_stream(name)?;
    Ok(())
}

/// Imports one set into a new stream until all is sealed; `None`: there are no such data.
pub fn import(
    scratch: &Scratch,
    Set { name, format, has }: &Set,
    data: &Path,
    report: &mut Report,
    ui: &Ui,
) -> Result<Option<(Stream, Tally)>, Failure> {
    let folder = data.join(format.to_string());
    if !folder.exists() {
        ui.note(&format!("{} does not exist: its cases are skipped", folder.display()));
        return Ok(None);
    }
    let failed = |error: ImportError| Failure::new(error.to_string());
    let stream = scratch.stream::<Package>(name, StreamOptions::default())?;
    let mut files = discover(*format, &[folder], &ImportOptions::default()).map_err(failed)?;
    files.retain(|file| has(file.path()));
    let (mut loader, mut record) = (stream.loader()?, AnyRecord::default());
    let mut expected = Tally::default();
    let started = Instant::now();
    let mut merge = Merge::new(files);
    while let Some(row) = merge.next(&mut record).map_err(failed)? {
        ui.check_interrupt()?;
        let Some(package) = record.as_package() else { continue };
        loader.append(row.symbol, row.time, package)?;
        expected.add(row.time, package.fold(plus));
    }
    loader.close()?;
    rate(report, &format!("import.{name}"), expected.messages, started);
    // The number of rows, for comparisons with the figures of rivals.
    report.add(&format!("messages.{name}"), "messages", "messages", expected.messages as f64);
    seal(&stream, &format!("import.{name}.sealed"), started, report)?;
    Ok(Some((stream, expected)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_those_that_rivals_get() {
        let is_in = |path: &str| is_of_quotes(Path::new(path));
        assert!(is_in("data/us-equity-ticks/aig/20131007_quote.zip"));
        assert!(is_in("data/us-equity-ticks/bac/20131009_quote.zip"));
        assert!(!is_in("data/us-equity-ticks/aig/20131007_trade.zip"));
        assert!(!is_in("data/us-equity-ticks/spy/20131007_quote.zip"));
    }
}
