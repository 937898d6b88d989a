//! Answers typed at a terminal, and scripts on standard input; Ctrl-C ends the wait.

use super::lines::{Lines, Piece};
use super::source::{Arrived, Source, wait_for};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use tapedb_terminal::{Failure, Ui};

/// Maximum bytes of a typed line; the rest stays in the input.
const LINE_BYTES_MAX: usize = 4096;

/// Standard input; a signal ends a read with an error: see [`Ui::check_interrupt`].
pub struct StandardInput<'a> {
    ui: &'a Ui,
}

impl<'a> StandardInput<'a> {
    /// Standard input of a command.
    pub fn new(ui: &'a Ui) -> Self {
        Self { ui }
    }
}

impl Read for StandardInput<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let stdin = io::stdin();
        let is_file = stdin.as_fd().try_clone_to_owned().map(std::fs::File::from)?.metadata()?.is_file();
        if !is_file && !wait_for(stdin.as_fd(), None, self.ui.signals())? {
            return Err(io::Error::other("interrupted"));
        }
        Ok(rustix::io::read(stdin.as_fd(), buffer)?)
    }
}

/// Asks a question on standard error; returns whether the answer is yes.
///
/// # Errors
/// As [`line()`].
pub fn is_yes(question: &str, ui: &Ui) -> Result<bool, Failure> {
    eprint!("{question}? [y/N] ");
    let _ = io::stderr().flush();
    Ok(means_yes(&line(ui)?))
}

/// Asks whether to go on.
///
/// # Errors
/// When standard input is not a terminal; as [`line()`] otherwise.
pub fn confirm(question: &str, subject: &str, ui: &Ui) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(format!(
            "{subject}: nothing was changed, because standard input is no terminal to ask on; add --yes to confirm"
        )));
    }
    is_yes(question, ui)
}

fn means_yes(answer: &str) -> bool {
    ["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes))
}

/// A line of standard input, without its newline; empty at the end of the input.
///
/// # Errors
/// Errors of the read; [`Failure::Interrupted`] after Ctrl-C.
pub fn line(ui: &Ui) -> Result<String, Failure> {
    let (mut input, mut line, mut byte) = (StandardInput::new(ui), Vec::new(), [0]);
    while line.len() < LINE_BYTES_MAX {
        let read = input.read(&mut byte);
        ui.check_interrupt()?;
        match read.map_err(|error| Failure::new(format!("cannot read standard input: {error}")))? {
            0 => break,
            _ if byte == *b"\n" => break,
            _ => line.push(byte[0]),
        }
    }
    let line = String::from_utf8(line).map_err(|_| Failure::new("standard input is not UTF-8"))?;
    Ok(line.trim_end_matches('\r').to_string())
}

/// The lines of a script on standard input, each as soon as it has arrived.
pub struct ScriptLines<'a> {
    source: Source,
    lines: Lines,
    ended: bool,
    ui: &'a Ui,
}

impl<'a> ScriptLines<'a> {
    /// The lines of the command's standard input.
    pub fn new(ui: &'a Ui) -> Result<Self, Failure> {
        Ok(Self { source: Source::stdin()?, lines: Lines::default(), ended: false, ui })
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        loop {
            let piece = if self.ended { self.lines.last() } else { self.lines.next() };
            match piece {
                Some(Piece::Line(line)) => return text(line).map(Some),
                Some(_) => return Err(io::Error::other("a line is too long")),
                None if self.ended => return Ok(None),
                None => self.fill()?,
            }
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        match self.source.read(self.lines.spare(), None, self.ui.signals())? {
            Arrived::Bytes(count) => self.lines.filled(count),
            Arrived::End => self.ended = true,
            Arrived::Signal => return Err(io::Error::other("interrupted")),
            Arrived::Nothing => {}
        }
        Ok(())
    }
}

impl Iterator for ScriptLines<'_> {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        self.line().transpose()
    }
}

fn text(line: &[u8]) -> io::Result<String> {
    let text = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line));
    text.map(str::to_string).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn y_and_yes_mean_yes() {
        assert!(["y", "Y", "yes", " YES ", "Yes"].into_iter().all(means_yes));
        assert!(["", "n", "no", "ye", "yess", "ja"].into_iter().all(|answer| !means_yes(answer)));
    }
}
