//! `tapedb kafka` in a program that was built without Kafka: how to get it.

use std::ffi::OsString;
use tapedb_terminal::{Failure, Ui};

/// Topics of Kafka as sources and sinks; this program was built without it.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// What the command would take.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

/// Runs the command: an error.
pub fn run(args: Args, _: &Ui) -> Result<(), Failure> {
    let _ = args.words;
    Err(Failure::usage(
        "this program was built without Kafka; take it from a release package, or build it with \
         `cargo build --release -p tapedb-cli --features kafka` (it needs a C compiler and make)",
    ))
}
