//! Why kdb+'s files cannot be imported.

use super::format::Format;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use tapedb_kdb_ipc::KdbError;
use tapedb_kdb_ipc::file::log::Damage;

/// What is wrong with a file, where, and what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// A file or folder cannot be read.
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing of the format.
    Nothing {
        /// Where.
        path: PathBuf,
        /// What it should look like.
        looked_for: &'static str,
    },
    /// A file of another kind, or in an unsupported encoding.
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: KdbError,
    },
    /// A log is damaged. The rows before the damage were returned.
    Damaged {
        /// The log.
        path: PathBuf,
        /// Where, and why.
        damage: Damage,
    },
    /// A table without `time` or `sym`, or where they are of other types.
    NoColumn {
        /// Where.
        path: PathBuf,
        /// The table.
        table: String,
        /// Which column.
        column: &'static str,
    },
    /// A partition of a table has other columns than earlier ones.
    OtherColumns {
        /// Where.
        path: PathBuf,
        /// The table.
        table: String,
    },
    /// Times are times of day, and the day is not known.
    NoDate {
        /// Where.
        path: PathBuf,
    },
    /// What is in a file does not make a table.
    Content {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl ImportError {
    pub(super) fn nothing(path: &Path, format: Format) -> Self {
        let looked_for = match format {
            Format::Log => "a log of a tickerplant, or a folder with logs",
            Format::Splayed => {
                "the folder of a splayed table (with a file .d), or of a database with such folders"
            }
            Format::Hdb => "the folder of a database with a folder for each date, such as 2022.06.16",
        };
        Self::Nothing { path: path.into(), looked_for }
    }

    pub(super) fn open(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Open { path, source }
    }

    pub(super) fn file(path: &Path) -> impl FnOnce(KdbError) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { path, source }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { path, source } => {
                write!(f, "cannot read {}: {source}; check the path", path.display())
            }
            Self::Nothing { path, looked_for } => {
                write!(f, "{}: nothing to import; expected {looked_for}", path.display())
            }
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Damaged { path, damage } => write!(f, "{}: {damage}", path.display()),
            Self::NoColumn { path, table, column: "time" } => write!(
                f,
                "{}: table {table} has no column time of a type that is a time; messages need one",
                path.display()
            ),
            Self::NoColumn { path, table, column } => write!(
                f,
                "{}: table {table} has no column {column} of symbols; messages need one",
                path.display()
            ),
            Self::OtherColumns { path, table } => write!(
                f,
                "{}: table {table} has other columns or types here than in the files before it; import them into streams of their own",
                path.display()
            ),
            Self::NoDate { path } => {
                write!(
                    f,
                    "{}: its times are times of day, and its name has no date; name the date",
                    path.display()
                )
            }
            Self::Content { path, what } => write!(f, "{}: {what}", path.display()),
        }
    }
}

impl std::error::Error for ImportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open { source, .. } => Some(source),
            Self::File { source, .. } => Some(source),
            Self::Damaged { damage, .. } => Some(damage),
            _ => None,
        }
    }
}
