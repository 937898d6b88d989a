//! What becomes of lines that are no messages.

use super::lines::Piece;
use super::source::Source;
use crate::failure::Failure;
use crate::ui::{Ui, thousands};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

/// Bad lines that are told one by one; of the others every tenth, hundredth, … count is told.
const TOLD_MAX: u64 = 10;

/// What to do at a line that is no message.
#[derive(clap::Args, Debug, Default)]
pub struct BadLineArgs {
    /// What to do at a line that is no message of the schema: stop at it, skip it, or skip it and append it to a FILE (which is
    /// then not named stop or skip). Skipped lines are counted, and never end the command.
    #[arg(long, value_name = "stop|skip|FILE", default_value = "stop")]
    on_bad_line: OnBadLine,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum OnBadLine {
    #[default]
    Stop,
    Skip,
    Keep(PathBuf),
}

impl FromStr for OnBadLine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "" => return Err("name what to do: stop, skip, or a file that takes bad lines".into()),
            "stop" => Self::Stop,
            "skip" => Self::Skip,
            path => Self::Keep(path.into()),
        })
    }
}

impl BadLineArgs {
    /// Prepares for bad lines; opens the file that takes them.
    pub fn open(&self) -> Result<BadLines, Failure> {
        let keep = match &self.on_bad_line {
            OnBadLine::Keep(path) => Some(Kept::open(path.clone())?),
            _ => None,
        };
        Ok(BadLines { stops: self.on_bad_line == OnBadLine::Stop, keep, count: 0 })
    }
}

/// Bad lines so far.
#[derive(Debug, Default)]
pub struct BadLines {
    stops: bool,
    keep: Option<Kept>,
    /// How many have been skipped.
    pub count: u64,
}

/// The file that takes bad lines.
#[derive(Debug)]
struct Kept {
    path: PathBuf,
    file: File,
    /// Lines that it could not take, and why.
    lost: u64,
    why: String,
}

impl BadLines {
    /// Those of input that stops at the first.
    pub fn stopping() -> Self {
        Self { stops: true, ..Self::default() }
    }

    /// Refuses to read from the file that takes the bad lines: it would grow as it is read.
    pub fn check_source(&self, source: &Source) -> Result<(), Failure> {
        match &self.keep {
            Some(kept) if source.is_same_file(&kept.file) => Err(Failure::usage(format!(
                "{} is read and shall take the bad lines; name another file with --on-bad-line",
                kept.path.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Notes a bad line.
    ///
    /// # Errors
    /// What is wrong with it, where it is not to be skipped.
    pub fn note(&mut self, what: &str, line: &[u8], ui: &Ui) -> Result<(), Failure> {
        self.count(what, ui)?;
        self.keep(Piece::Line(line), ui);
        Ok(())
    }

    /// Counts a bad line, and tells of it.
    ///
    /// # Errors
    /// As [`BadLines::note`].
    pub fn count(&mut self, what: &str, ui: &Ui) -> Result<(), Failure> {
        if self.stops {
            return Err(Failure::new(what));
        }
        self.count += 1;
        if self.count <= TOLD_MAX {
            let more = if self.count == TOLD_MAX { " (further ones are counted)" } else { "" };
            ui.warn(&format!("skipped {what}{more}"));
        } else if is_power_of_ten(self.count) {
            ui.warn(&format!(
                "{} lines have been skipped so far; the last one: {what}",
                thousands(self.count)
            ));
        }
        Ok(())
    }

    /// Keeps a bad line, or a piece of it. What cannot be kept is counted: it does not end a recorder.
    pub fn keep(&mut self, piece: Piece<'_>, ui: &Ui) {
        if let Some(kept) = &mut self.keep {
            kept.take(piece, ui);
        }
    }

    /// What to say of them at the end; nothing if there were none.
    pub fn summary(&self) -> String {
        match (self.count, &self.keep) {
            (0, _) => String::new(),
            (count, None) => format!("; {} bad lines were skipped", thousands(count)),
            (count, Some(kept)) => {
                format!("; {} bad lines were skipped and are in {}", thousands(count), kept.path.display())
            }
        }
    }

    /// Fails when bad lines that should have been kept were not.
    pub fn finish(&self) -> Result<(), Failure> {
        match &self.keep {
            Some(kept) if kept.lost > 0 => Err(Failure::new(format!(
                "{} of {} bad lines were not kept: cannot write {}: {}",
                thousands(kept.lost),
                thousands(self.count),
                kept.path.display(),
                kept.why
            ))),
            _ => Ok(()),
        }
    }
}

impl Kept {
    fn open(path: PathBuf) -> Result<Self, Failure> {
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(|error| {
            let path = path.display();
            Failure::new(format!("cannot open {path}, which shall take the bad lines: {error}"))
        })?;
        Ok(Self { path, file, lost: 0, why: String::new() })
    }

    fn take(&mut self, piece: Piece<'_>, ui: &Ui) {
        let (bytes, ends) = match piece {
            Piece::Line(bytes) | Piece::Rest(bytes) => (bytes, true),
            Piece::Beginning(bytes) | Piece::More(bytes) => (bytes, false),
        };
        // One call for a line: others may append to the file too.
        let line: Vec<u8> = if ends { [bytes, b"\n"].concat() } else { bytes.to_vec() };
        if let Err(error) = self.file.write_all(&line) {
            if self.lost == 0 {
                ui.warn(&format!(
                    "cannot write {}: {error}; bad lines are skipped and not kept",
                    self.path.display()
                ));
            }
            self.lost += u64::from(ends);
            self.why = error.to_string();
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
    fn every_tenfold_is_told() {
        let told: Vec<u64> = (0..=10_000).filter(|count| is_power_of_ten(*count)).collect();
        assert_eq!(told, [1, 10, 100, 1000, 10_000]);
    }

    #[test]
    fn what_to_do_is_a_word_or_a_file() {
        let of = |text: &str| text.parse::<OnBadLine>().unwrap();
        assert_eq!(
            [of("stop"), of("skip"), of("./skip")],
            [OnBadLine::Stop, OnBadLine::Skip, OnBadLine::Keep("./skip".into())]
        );
        assert!("".parse::<OnBadLine>().is_err());
    }
}
