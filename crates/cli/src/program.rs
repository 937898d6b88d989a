//! The command line of this program, for the commands that work on it: shell, completions, manual pages.

use tapedb_terminal::{Failure, Ui};

/// The command line of this program.
#[derive(Debug)]
pub struct Program {
    /// Its definition.
    pub definition: fn() -> clap::Command,
    /// Parses and runs a command, given as words after the program's name.
    pub run: fn(Vec<String>, &Ui) -> Result<(), Failure>,
}
