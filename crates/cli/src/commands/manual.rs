//! `tapedb completions` and `tapedb man`: shell completions and manual pages, generated from the command's definition.

use crate::program::Program;
use clap_complete::Shell;
use std::fs;
use std::path::PathBuf;
use tapedb_terminal::{Failure, Ui};

/// Print the completions of a shell.
///
/// Examples:
///   tapedb completions bash > /etc/bash_completion.d/tapedb
///   tapedb completions zsh > ~/.zfunc/_tapedb
///   tapedb completions fish > ~/.config/fish/completions/tapedb.fish
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Write the manual pages, one for each command, into a directory.
///
/// Example: tapedb man /usr/local/share/man/man1
#[derive(clap::Args, Debug)]
pub struct ManArgs {
    /// The directory; created if it does not exist. Existing pages are replaced.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints completions.
pub fn completions(args: CompletionsArgs, program: &Program, ui: &Ui) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut (program.definition)(), "tapedb", &mut script);
    ui.print(&String::from_utf8_lossy(&script))
}

/// Writes manual pages.
pub fn man(args: &ManArgs, program: &Program, ui: &Ui) -> Result<(), Failure> {
    let directory = &args.directory;
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to((program.definition)(), directory))
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", directory.display())))?;
    ui.note(&format!("wrote the manual pages into {}", directory.display()));
    Ok(())
}
