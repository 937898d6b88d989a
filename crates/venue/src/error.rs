//! What can go wrong with a file: where, what was expected, what stood there.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Most bytes of a bad line that an error shows.
pub const MAX_EXCERPT_BYTES: usize = 80;

/// Where in which file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineLocation {
    /// The file.
    pub path: PathBuf,
    /// The member of the zip file.
    pub member: Option<String>,
    /// Line, from 1.
    pub line: u64,
    /// Byte of the line, from 1, if known.
    pub column: Option<usize>,
}

/// Why files could not be imported.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// A file or folder could not be opened or listed.
    Open {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A folder holds no file of the format.
    NothingFound {
        /// The folder.
        path: PathBuf,
        /// What was searched for.
        looked_for: &'static str,
    },
    /// A file is not of the format.
    WrongFormat {
        /// The file.
        path: PathBuf,
        /// What is wrong and what was expected.
        reason: String,
    },
    /// The file does not contain a necessary fact; an option gives it.
    NeedsOption {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
        /// The field of [`ImportOptions`](super::ImportOptions) that gives it.
        option: &'static str,
    },
    /// The bytes could not be read or unpacked, for instance because the file was cut short.
    Read {
        /// The last line that was whole, and its file.
        place: LineLocation,
        /// The reason.
        source: io::Error,
    },
    /// The bytes of a binary file could not be read or unpacked, or are no records.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The record, from 1; 0 is what stands before the records.
        record: u64,
        /// Its place among the unpacked bytes.
        offset: u64,
        /// The reason.
        source: io::Error,
    },
    /// A record of a binary file is not what it should be.
    Record {
        /// The file.
        path: PathBuf,
        /// The record, from 1.
        record: u64,
        /// The place of the wrong bytes among the unpacked bytes.
        offset: u64,
        /// What was expected there.
        expected: String,
    },
    /// A line is not what it should be.
    Line {
        /// Where.
        place: LineLocation,
        /// What was expected there.
        expected: String,
        /// The text there, at most [`MAX_EXCERPT_BYTES`], with escapes for what cannot be shown.
        excerpt: String,
    },
}

/// Why a record of a binary file cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadRecord {
    /// Byte of the record, from 0.
    pub(super) offset: usize,
    /// What was expected there.
    pub(super) expected: &'static str,
}

impl ImportError {
    /// The file that the error is about.
    pub fn path(&self) -> &Path {
        match self {
            Self::Open { path, .. }
            | Self::NothingFound { path, .. }
            | Self::WrongFormat { path, .. }
            | Self::NeedsOption { path, .. }
            | Self::Damaged { path, .. }
            | Self::Record { path, .. } => path,
            Self::Read { place, .. } | Self::Line { place, .. } => &place.path,
        }
    }
}

impl fmt::Display for LineLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(member) = &self.member {
            write!(f, " ({})", member.escape_debug())?;
        }
        write!(f, ", line {}", self.line)?;
        self.column.map_or(Ok(()), |column| write!(f, ", column {column}"))
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { path, source } => write!(f, "{}: cannot open: {source}", path.display()),
            Self::NothingFound { path, looked_for } => {
                write!(f, "{}: nothing to import; searched for {looked_for}", path.display())
            }
            Self::WrongFormat { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::NeedsOption { path, what, option } => {
                write!(
                    f,
                    "{}: the file does not contain its {what}; set the option `{option}`",
                    path.display()
                )
            }
            Self::Read { place, source } => {
                write!(f, "{place}: cannot read on: {source}; the file is cut short or damaged")
            }
            Self::Damaged { path, record, offset, source } => {
                let path = path.display();
                write!(f, "{path}, record {record} at byte {offset}: cannot read on: {source}; ")?;
                f.write_str("the file is cut short or damaged")
            }
            Self::Record { path, record, offset, expected } => {
                write!(f, "{}, record {record}: expected {expected} at byte {offset}", path.display())
            }
            Self::Line { place, expected, excerpt } => {
                write!(f, "{place}: expected {expected}, found `{excerpt}`")
            }
        }
    }
}

impl std::error::Error for ImportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open { source, .. } | Self::Read { source, .. } | Self::Damaged { source, .. } => {
                Some(source)
            }
            _ => None,
        }
    }
}

/// The part of a bad line around `column` (from 0) that an error shows.
pub(super) fn excerpt(line: &[u8], column: usize) -> String {
    let from = column.saturating_sub(MAX_EXCERPT_BYTES / 4).min(line.len());
    let from = if line.len() <= MAX_EXCERPT_BYTES { 0 } else { from };
    let mut shown = String::new();
    for byte in &line[from..] {
        let next = byte.escape_ascii().to_string();
        if shown.len() + next.len() > MAX_EXCERPT_BYTES {
            break;
        }
        shown.push_str(&next);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_short_and_show_the_place() {
        assert_eq!(excerpt(b"1,2,\xFF", 4), "1,2,\\xff");
        let long = [b'a'; 500];
        assert_eq!(excerpt(&long, 0).len(), MAX_EXCERPT_BYTES);
        assert_eq!(excerpt(&long, 499).len(), 21);
        assert_eq!(excerpt(b"", 9), "");
    }
}
