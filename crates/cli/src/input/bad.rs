//! Lines that are not messages: stop, skip, or store them in a file.

use super::lines::Piece;
use super::source::Source;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use tapedb_terminal::{Failure, Ui, ui::thousands};

/// Bad lines that are reported one by one; after them only the tenth, hundredth, … line is.
const REPORTED_MAX: u64 = 10;

/// What to do with a line that is not a message.
#[derive(clap::Args, Debug, Default)]
pub struct BadLineArgs {
    /// What to do with a line that is not a message of the schema: stop, skip it, or skip it and append it to FILE (a file that is not
    /// named stop or skip). Skipped lines are counted and do not end the command.
    #[arg(long, value_name = "stop|skip|FILE", default_value = "stop")]
    on_bad_line: OnBadLine,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum OnBadLine {
    #[default]
    Stop,
    Skip,
    Store(PathBuf),
}

impl FromStr for OnBadLine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "" => return Err("give one of: stop, skip, a file for bad lines".into()),
            "stop" => Self::Stop,
            "skip" => Self::Skip,
            path => Self::Store(path.into()),
        })
    }
}

impl BadLineArgs {
    /// Whether the first bad line ends the command.
    pub fn stops(&self) -> bool {
        self.on_bad_line == OnBadLine::Stop
    }

    /// Opens the file for bad lines, if there is one.
    pub fn open(&self) -> Result<BadLines, Failure> {
        let store = match &self.on_bad_line {
            OnBadLine::Store(path) => Some(Store::open(path.clone())?),
            _ => None,
        };
        Ok(BadLines { stops: self.stops(), store, count: 0 })
    }
}

/// Bad lines so far.
#[derive(Debug, Default)]
pub struct BadLines {
    stops: bool,
    store: Option<Store>,
    /// How many have been skipped.
    pub count: u64,
}

/// The file for bad lines.
#[derive(Debug)]
struct Store {
    path: PathBuf,
    file: File,
    /// Lines that could not be written.
    lost: u64,
    /// The last error.
    error: String,
}

impl BadLines {
    /// For input that stops at the first bad line.
    pub fn stopping() -> Self {
        Self { stops: true, ..Self::default() }
    }

    /// Refuses to read from the file for bad lines: it would grow while it is read.
    pub fn check_source(&self, source: &Source) -> Result<(), Failure> {
        match &self.store {
            Some(store) if source.is_same_file(&store.file) => Err(Failure::usage(format!(
                "{} is an input and the file for bad lines; name another file with --on-bad-line",
                store.path.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Notes a bad line.
    ///
    /// # Errors
    /// The cause, if bad lines are not skipped.
    pub fn note(&mut self, what: &str, line: &[u8], ui: &Ui) -> Result<(), Failure> {
        self.count(what, ui)?;
        self.store(Piece::Line(line), ui);
        Ok(())
    }

    /// Counts a bad line and reports it.
    ///
    /// # Errors
    /// As [`BadLines::note`].
    pub fn count(&mut self, what: &str, ui: &Ui) -> Result<(), Failure> {
        if self.stops {
            return Err(Failure::new(what));
        }
        self.count += 1;
        if self.count <= REPORTED_MAX {
            let more = if self.count == REPORTED_MAX { " (further ones are only counted)" } else { "" };
            ui.warn(&format!("skipped {what}{more}"));
        } else if is_power_of_ten(self.count) {
            ui.warn(&format!("{} lines skipped so far; the last one: {what}", thousands(self.count)));
        }
        Ok(())
    }

    /// Stores a bad line, or a fragment of it. An error is counted and does not end the command, which may be recording.
    pub fn store(&mut self, piece: Piece<'_>, ui: &Ui) {
        if let Some(store) = &mut self.store {
            store.write(piece, ui);
        }
    }

    /// A clause for the final message; empty if there were no bad lines.
    pub fn summary(&self) -> String {
        match (self.count, &self.store) {
            (0, _) => String::new(),
            (count, None) => format!("; {} bad lines were skipped", thousands(count)),
            (count, Some(store)) => {
                format!("; {} bad lines were skipped and are in {}", thousands(count), store.path.display())
            }
        }
    }

    /// Fails if bad lines could not be stored.
    pub fn finish(&self) -> Result<(), Failure> {
        match &self.store {
            Some(store) if store.lost > 0 => Err(Failure::new(format!(
                "{} of {} bad lines were not stored: cannot write {}: {}",
                thousands(store.lost),
                thousands(self.count),
                store.path.display(),
                store.error
            ))),
            _ => Ok(()),
        }
    }
}

impl Store {
    fn open(path: PathBuf) -> Result<Self, Failure> {
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(|error| {
            let path = path.display();
            Failure::new(format!("cannot open {path}, the file for bad lines: {error}"))
        })?;
        Ok(Self { path, file, lost: 0, error: String::new() })
    }

    fn write(&mut self, piece: Piece<'_>, ui: &Ui) {
        let (bytes, ends) = match piece {
            Piece::Line(bytes) | Piece::Rest(bytes) => (bytes, true),
            Piece::Beginning(bytes) | Piece::More(bytes) => (bytes, false),
        };
        // One call per line: other processes may append to the file.
        let line: Vec<u8> = if ends { [bytes, b"\n"].concat() } else { bytes.to_vec() };
        if let Err(error) = self.file.write_all(&line) {
            if self.lost == 0 {
                ui.warn(&format!(
                    "cannot write {}: {error}; bad lines are skipped and not stored",
                    self.path.display()
                ));
            }
            self.lost += u64::from(ends);
            self.error = error.to_string();
        }
    }
}

fn is_power_of_ten(count: u64) -> bool {
    count.checked_ilog10().is_some_and(|power| 10u64.pow(power) == count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_ten_are_reported() {
        let reported: Vec<u64> = (0..=10_000).filter(|count| is_power_of_ten(*count)).collect();
        assert_eq!(reported, [1, 10, 100, 1000, 10_000]);
    }

    #[test]
    fn the_option_is_a_word_or_a_file() {
        let of = |text: &str| text.parse::<OnBadLine>().unwrap();
        assert_eq!(
            [of("stop"), of("skip"), of("./skip")],
            [OnBadLine::Stop, OnBadLine::Skip, OnBadLine::Store("./skip".into())]
        );
        assert!("".parse::<OnBadLine>().is_err());
    }
}
