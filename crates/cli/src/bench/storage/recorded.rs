//! Recorded data: importing, sealing, reading, size; the same in the cold tier.

use super::cold;
use super::read::{rate, rows, seal, size};
use super::scratch::Scratch;
use crate::bench::fields::Fields;
use crate::bench::pool::{Tally, plus};
use crate::bench::report::Report;
use crate::failure::Failure;
use crate::ui::Ui;
use std::path::Path;
use std::time::Instant;
use tapedb_engine::StreamOptions;
use tapedb_market::Package;
use tapedb_market::import::{self, Format, ImportOptions, Merge};

/// Imports recorded data of one format, and reads it.
pub fn measure(
    scratch: &Scratch,
    (name, format): (&str, Format),
    data: &Path,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let folder = data.join(format.to_string());
    if !folder.exists() {
        ui.note(&format!("{} is not there: its cases are left out", folder.display()));
        return Ok(());
    }
    let failed = |error: import::ImportError| Failure::new(error.to_string());
    let stream = scratch.stream::<Package>(name, StreamOptions::default())?;
    let files = import::discover(format, &[folder], &ImportOptions::default()).map_err(failed)?;
    let (mut loader, mut package) = (stream.loader()?, Package::default());
    let mut expected = Tally::default();
    let started = Instant::now();
    let mut merge = Merge::new(files);
    while let Some(row) = merge.next(&mut package).map_err(failed)? {
        ui.check_interrupt()?;
        loader.append(row.symbol, row.time, &package)?;
        expected.add(row.time, package.fold(plus));
    }
    loader.close()?;
    rate(report, &format!("import.{name}"), expected.messages, started);
    seal(&stream, &format!("import.{name}.sealed"), started, report)?;
    rows::<Package>(&stream, &format!("read.{name}.1"), 1, expected, report)?;
    size(&stream, &format!("size.{name}"), report)?;
    cold::measure::<Package>(&stream, name, expected, report)?;
    scratch.db.delete_stream(name)?;
    Ok(())
}
