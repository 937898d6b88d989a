//! How a command fails: the message it prints, and its exit code.

use serde_json::json;
use std::process::ExitCode;
use std::{fmt, io};

/// Exit code of a failed command, and of a check that found damage.
const FAILED: u8 = 1;
/// Exit code for wrong usage, the same as for errors of the command-line parser.
const USAGE: u8 = 2;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// An error: its cause, and what to do about it.
    Failed(String),
    /// The arguments contradict each other or the data.
    Usage(String),
    /// The reader of the output closed it, as in `tapedb read … | head`. Exit code 0.
    OutputClosed,
    /// A signal ended the command, which shut down in order.
    Interrupted {
        /// 128 plus the signal's number.
        code: u8,
    },
}

impl Failure {
    /// A failure in the form `<what>; <what to do>`.
    pub fn new(what: impl Into<String>) -> Self {
        Self::Failed(what.into())
    }

    /// Wrong usage.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::Usage(what.into())
    }

    /// The same failure, with the line of the script that caused it.
    pub fn in_line(self, number: usize) -> Self {
        match self {
            Self::Failed(what) => Self::Failed(format!("line {number}: {what}")),
            Self::Usage(what) => Self::Usage(format!("line {number}: {what}")),
            other => other,
        }
    }

    /// The failure of writing the output.
    pub fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Failed(format!("cannot write the output: {error}; check where it is written to")),
        }
    }

    /// Prints the failure on standard error, as text or as a JSON object, and returns the exit code.
    pub fn report(&self, json: bool) -> ExitCode {
        match self {
            Self::OutputClosed | Self::Interrupted { .. } => {}
            failure if json => {
                eprintln!("{}", json!({ "error": failure.to_string(), "code": failure.code() }));
            }
            // Always one line: scripts read standard error by lines.
            failure => eprintln!("tapedb: {}", failure.to_string().replace('\n', "; ")),
        }
        ExitCode::from(self.code())
    }

    fn code(&self) -> u8 {
        match self {
            Self::Failed(_) => FAILED,
            Self::Usage(_) => USAGE,
            Self::OutputClosed => 0,
            Self::Interrupted { code } => *code,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(what) | Self::Usage(what) => f.write_str(what),
            Self::OutputClosed => f.write_str("the reader of the output closed it"),
            Self::Interrupted { .. } => f.write_str("interrupted"),
        }
    }
}

/// Errors whose message already says what to do.
macro_rules! failed_by {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Failed(error.to_string())
            }
        })*
    };
}

failed_by!(tapedb_engine::Error, tapedb_topic::TopicError, tapedb_topic_copy::CopyError);

/// An error of the command-line parser: its first paragraph in one line, without the prefix.
impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        let text = error.to_string();
        let paragraph: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        Self::Usage(paragraph.join(" ").trim_start_matches("error: ").to_string())
    }
}

impl From<tapedb_tick::TickError> for Failure {
    fn from(error: tapedb_tick::TickError) -> Self {
        use tapedb_tick::TickError::{Definition, NoColumn, NoTable};
        match error {
            Definition { .. } | NoTable { .. } | NoColumn { .. } => Self::Usage(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}
