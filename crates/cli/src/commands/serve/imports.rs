//! Imports of files that were uploaded to the console: `tapedb import` on a thread of the server, with its database.

use crate::args::serve_to_commands;
use crate::commands::messages::import;
use clap::{Args as _, FromArgMatches};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_engine::Database;
use tapedb_terminal::{Apart, Done, Failure, Ui};
use tapedb_web::{ImportJob, ImportOptions, ImportProgress, Importer};

/// Runs imports with the server's database.
#[derive(Debug)]
pub struct Imports {
    db: Database,
    place: PathBuf,
}

impl Imports {
    /// For the database of a directory, which the server has open.
    pub fn new(place: &Path, db: &Database) -> Self {
        Self { db: db.clone(), place: place.into() }
    }
}

impl Importer for Imports {
    fn job(&self, file: &Path, stream: &str, options: &ImportOptions) -> Result<Arc<dyn ImportJob>, String> {
        let args = arguments(&self.place, file, stream, options)?;
        Ok(Arc::new(Job {
            args,
            is_preview: options.preview,
            db: self.db.clone(),
            place: self.place.clone(),
            apart: Arc::default(),
        }))
    }
}

/// One import.
#[derive(Debug)]
struct Job {
    args: import::Args,
    is_preview: bool,
    db: Database,
    place: PathBuf,
    apart: Arc<Apart>,
}

impl ImportJob for Job {
    fn run(&self) -> Result<(), String> {
        serve_to_commands(&self.place, &self.db);
        let ui = Ui::apart(self.apart.clone()).map_err(|failure| failure.to_string())?;
        let done =
            if self.is_preview { import::preview(&self.args, &ui) } else { import::run(&self.args, &ui) };
        match done {
            Ok(()) => Ok(()),
            Err(Failure::Interrupted { .. }) => {
                Err("cancelled: messages so far stay; the same file continues where it stopped".into())
            }
            Err(failure) => Err(failure.to_string()),
        }
    }

    fn cancel(&self) {
        self.apart.interrupt();
    }

    fn progress(&self) -> ImportProgress {
        let Done { done, total, messages } = self.apart.done();
        ImportProgress { done, total, messages, text: self.apart.text() }
    }
}

/// The arguments of the command: each value belongs to its option, whatever it begins with.
fn arguments(
    place: &Path,
    file: &Path,
    stream: &str,
    options: &ImportOptions,
) -> Result<import::Args, String> {
    let mut words = vec!["import".to_string(), "--yes".into()];
    let mut option = |name: &str, value: &str| words.push(format!("--{name}={value}"));
    let place = place.to_str().ok_or("the path of the database is not UTF-8")?;
    option("db", place);
    option("stream", stream);
    let named = [
        ("format", &options.format),
        ("time", &options.time),
        ("symbol", &options.symbol),
        ("symbol-is", &options.symbol_is),
        ("zone", &options.zone),
        ("date-column", &options.date_column),
        ("delimiter", &options.delimiter),
        ("type", &options.record_type),
        ("time-unit", &options.time_unit),
        ("fx-symbol", &options.fx_symbol),
        ("fx-provider", &options.fx_provider),
    ];
    for (name, value) in named {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            option(name, value);
        }
    }
    options.map.iter().for_each(|pair| option("map", pair));
    if options.skip_bad_lines {
        option("on-bad-line", "skip");
    }
    if options.again {
        option("again", "import");
    }
    words.push("--".into());
    words.push(file.to_str().ok_or("the path of the file is not UTF-8")?.into());
    let command = import::Args::augment_args(clap::Command::new("import").disable_help_flag(true));
    let matches = command.try_get_matches_from(words).map_err(|error| of_clap(&error))?;
    let mut args = import::Args::from_arg_matches(&matches).map_err(|error| of_clap(&error))?;
    if matches!(args.format, Some(format) if !format.is_file()) {
        return Err("this format is a folder, or needs a second file; import it with `tapedb import`".into());
    }
    args.table.dry_run = options.preview;
    Ok(args)
}

/// What is wrong, without the usage of a command line.
fn of_clap(error: &clap::Error) -> String {
    let text = error.to_string();
    let what = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    what.trim().replace("\n", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &ImportOptions) -> Result<import::Args, String> {
        arguments(Path::new("/db"), Path::new("/tmp/-x.csv"), "a", options)
    }

    #[test]
    fn values_are_no_options() {
        let hostile = |text: &str| ImportOptions { time: Some(text.into()), ..ImportOptions::default() };
        let args = parsed(&hostile("--db=/etc")).unwrap();
        assert_eq!((args.db.db.as_path(), args.parquet.time.as_str()), (Path::new("/db"), "--db=/etc"));
        assert_eq!(args.paths, [Path::new("/tmp/-x.csv")]);
        let options =
            ImportOptions { map: vec!["A=b".into(), "-=".into()], preview: true, ..ImportOptions::default() };
        let args = parsed(&options).unwrap();
        assert_eq!((args.table.map.len(), args.table.dry_run, args.parquet.yes), (2, true, true));
        let wrong = ImportOptions { format: Some("elf".into()), ..ImportOptions::default() };
        assert!(parsed(&wrong).unwrap_err().contains("elf"));
        for folder in ["kdb-hdb", "kdb-splayed", "kdb-log"] {
            let options = ImportOptions { format: Some(folder.into()), ..ImportOptions::default() };
            assert!(parsed(&options).unwrap_err().contains("tapedb import"), "{folder}");
        }
    }
}
