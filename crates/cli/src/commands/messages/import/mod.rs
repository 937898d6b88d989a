//! `tapedb import`: import files of venues, vendors and other databases into streams.

mod args;
#[cfg(feature = "parquet")]
mod batches;
mod bookkeeper;
mod home;
mod identity;
mod kdb;
mod ledger;
mod packages;
mod plan;
mod report;
mod table;
mod transfer;

use args::AnyFormat;
pub use args::Args;
use home::Home;
pub use ledger::{LEDGER_FILE, Ledger};
use tapedb_terminal::{Failure, Ui};

/// Runs `tapedb import`.
pub fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    Home::check(args)?;
    match format_of(args)? {
        AnyFormat::Market(format) => packages::run(args, format, ui),
        AnyFormat::Kdb(format) => kdb::run(args, format, ui),
        #[cfg(feature = "parquet")]
        AnyFormat::Parquet => batches::run(args, batches::Format::Parquet, ui),
        #[cfg(feature = "parquet")]
        AnyFormat::Arrow => batches::run(args, batches::Format::Arrow, ui),
        AnyFormat::Table => table::run(args, ui),
        #[cfg(not(feature = "parquet"))]
        AnyFormat::Parquet | AnyFormat::Arrow => Err(crate::args::not_built("parquet")),
    }
}

fn format_of(args: &Args) -> Result<AnyFormat, Failure> {
    match args.format {
        Some(format) => Ok(format),
        None => packages::detect_format(args),
    }
}

/// Prints what an import would make of the files, and writes nothing.
#[cfg(feature = "web")]
pub fn preview(args: &Args, ui: &Ui) -> Result<(), Failure> {
    match format_of(args)? {
        AnyFormat::Market(format) => {
            ui.print(&format!("format {format}; its messages are\n\n{}", format.schema()))
        }
        AnyFormat::Parquet | AnyFormat::Arrow => ui.print("the stream has the schema of the files\n"),
        AnyFormat::Kdb(format) => ui.print(&format!("format {}\n", format.name())),
        AnyFormat::Table => table::run(args, ui),
    }
}
