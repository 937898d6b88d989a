//! Streams as tables of other engines: rows a second by one thread, and bytes a row.

use crate::pool::{bars_pool, load};
use crate::report::Report;
use crate::storage::{Scratch, ScratchDir, recorded, steps};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;
use tapedb_arrow::Decimals;
use tapedb_engine::{Stream, StreamOptions};
use tapedb_market::Bar;
use tapedb_publish::{Options, Publisher, Target};
use tapedb_terminal::{Failure, Ui, quantity::count};

/// Sealed streams published as tables: rows a second, bytes a row
///
/// `publish.bars`: generated bars of one minute, with prices as decimal(18,4). `publish.quotes`: recorded quotes, each with a list of its entries; `publish.quotes.rows`: a row for
/// each entry. Left out without --data. Tables are Delta's in a folder: Iceberg's have the same files.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Bars, such as 20M or 500k
    #[arg(long, value_name = "N", default_value = "20M", value_parser = count)]
    messages: u64,
    /// Symbols of the bars
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    symbols: u32,
    /// Level of zstd
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=22), value_name = "N", default_value_t = Options::default().zstd_level)]
    zstd_level: i32,
    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Directory for the database, which is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "bench.tapedb", value_parser = tapedb_terminal::location::local)]
    db: PathBuf,
    /// Folder with recorded market data (us-equity-ticks); without it quotes are left out
    #[arg(long, value_name = "DIR", env = "TAPEDB_DATA")]
    data: Option<PathBuf>,
}

/// Decimals of all fields.
const DECIMALS: Decimals = Decimals::Decimal128 { precision: 18, scale: 4 };

/// Measures.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let mut report = Report::new("publish");
    let scratch = Scratch::new(&args.db)?;
    let options = Options {
        scales: BTreeMap::from([(String::new(), DECIMALS)]),
        zstd_level: args.zstd_level,
        ..Options::default()
    };
    let bars = scratch.stream::<Bar>("bars", StreamOptions::default())?;
    load(&bars, &bars_pool(args.symbols), args.messages, steps::BATCH, ui)?;
    bars.seal()?;
    let measured = (&bars, "Bar", args.messages);
    measure(args, &scratch, measured, ("publish.bars", &options), &mut report, ui)?;
    let Some(data) = &args.data else { return Ok(report) };
    // The rows of the import are those of other benchmarks.
    let mut imported = Report::new("import");
    let found = recorded::import(&scratch, &recorded::QUOTES, data, &mut imported, ui)?;
    let Some((quotes, expected)) = found else { return Ok(report) };
    let measured = (&quotes, "Package", expected.messages);
    measure(args, &scratch, measured, ("publish.quotes", &options), &mut report, ui)?;
    let options = Options { flatten: Some("entries".into()), ..options };
    measure(args, &scratch, measured, ("publish.quotes.rows", &options), &mut report, ui)?;
    Ok(report)
}

/// Publishes a stream again and again, each time to a new table.
fn measure(
    args: &Args,
    scratch: &Scratch,
    (stream, record, expected): (&Stream, &str, u64),
    (case, options): (&str, &Options),
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let failed = |error: tapedb_publish::Error| Failure::new(error.to_string());
    for _ in 0..args.runs {
        ui.check_interrupt()?;
        let table = ScratchDir::beside(&args.db, "table");
        let target = Target::delta(&table.0.to_string_lossy()).map_err(failed)?;
        let mut publisher = Publisher::open(&scratch.db, stream, record, &target, options).map_err(failed)?;
        let started = Instant::now();
        let (mut messages, mut rows, mut bytes) = (0, 0, 0);
        while let Some(published) = publisher.step().map_err(failed)? {
            messages += published.messages;
            rows += published.rows;
            bytes += published.bytes;
        }
        let seconds = started.elapsed().as_secs_f64();
        if messages != expected {
            let what =
                format!("{case}: {messages} of {expected} messages were published; please report this");
            return Err(Failure::new(what));
        }
        report.add(case, "rate", "rows/s", rows as f64 / seconds);
        report.add(case, "size", "bytes/row", bytes as f64 / rows.max(1) as f64);
    }
    Ok(())
}
