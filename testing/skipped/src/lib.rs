//! Notes tests that could not run. A test that prints why it returns early passes, and its output is not shown: so
//! it calls [`skipped`], and `make test` and `make check` end with the list (`testing/skipped/report`). What tests look for on
//! the machine is here too: [`recorded_data`], [`python`].

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// Environment variable with the path of the file that gets a line for each skipped test; without it there is no list.
pub const FILE: &str = "TAPEDB_SKIPPED";

/// Environment variable with the folder of recorded market data.
pub const DATA: &str = "TAPEDB_DATA";

/// Environment variable with the Python that tests run; without it they run `python3`. `make test` names the one with pyarrow, Polars,
/// pandas and DuckDB that `make python` installs, where it is there.
pub const PYTHON: &str = "TAPEDB_PYTHON";

/// Notes that the calling test, or a part of it, does not run, and why: a short phrase, such as `"node is not installed"`.
/// The test returns afterwards.
///
/// # Panics
/// When the file that [`FILE`] names cannot be written: then the list would be wrong.
#[track_caller]
pub fn skipped(why: impl Display) {
    let line = line(Location::caller(), thread::current().name(), &why.to_string());
    println!("SKIPPED: {line}");
    if let Some(path) = std::env::var_os(FILE) {
        let noted = note(Path::new(&path), &line);
        noted.unwrap_or_else(|error| panic!("cannot note a skipped test in {}: {error}", path.display()));
    }
}

/// The folder of recorded market data; `None` where there is none, which is noted.
#[track_caller]
pub fn recorded_data() -> Option<PathBuf> {
    let data = std::env::var_os(DATA).map(PathBuf::from);
    if data.is_none() {
        skipped(format_args!("{DATA} does not name a folder of recorded market data"));
    }
    data
}

/// Python, which need not be there. Given by name, not by the search path: a build of the Python package depends on that path.
pub fn python() -> Command {
    Command::new(std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into()))
}

/// Whether Python imports a module; that it does not is noted.
#[track_caller]
pub fn python_has(module: &str) -> bool {
    let found = python().args(["-c", &format!("import {module}")]).output();
    let has_module = found.is_ok_and(|found| found.status.success());
    if !has_module {
        skipped(format_args!("Python has no {module}; `make python` installs it below target/"));
    }
    has_module
}

/// Tests run in threads of their names, but for `--test-threads 1`; the place in the source is always known.
fn line(place: &Location<'_>, thread: Option<&str>, why: &str) -> String {
    let test = thread.filter(|name| *name != "main").unwrap_or("a test");
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{test} ({}:{}): {why}", place.file(), place.line())
}

/// One write at the end of the file: the lines of tests that run at once do not mix.
fn note(path: &Path, line: &str) -> std::io::Result<()> {
    OpenOptions::new().create(true).append(true).open(path)?.write_all(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_test_place_and_reason() {
        let place = Location::caller();
        let line = line(place, Some("module::a_test"), "no\n  node");
        assert_eq!(line, format!("module::a_test ({}:{}): no node", place.file(), place.line()));
        assert!(super::line(place, Some("main"), "").starts_with("a test ("));
    }

    #[test]
    fn lines_are_added_to_those_that_are_there() {
        let path = std::env::temp_dir().join(format!("tapedb-skipped-{}", std::process::id()));
        note(&path, "one").and_then(|()| note(&path, "two")).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        std::fs::remove_file(&path).unwrap();
    }
}
