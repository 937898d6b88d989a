//! How a command ends when it does not end well: what is printed, and the exit code.

use serde_json::json;
use std::process::ExitCode;
use std::{fmt, io};

/// Exit code of a failed command, and of a check that found damage.
const FAILED: u8 = 1;
/// Exit code for wrong usage, as for what the parser of the command line refuses.
const USAGE: u8 = 2;

/// Why a command did not do all that it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// Something went wrong: what, and what to do about it.
    Failed(String),
    /// The arguments contradict each other or the data.
    Usage(String),
    /// Nobody reads the output any more, as in `tapedb read … | head`: no failure at all.
    OutputClosed,
    /// A signal ended the command, after it had put everything in order.
    Interrupted {
        /// 128 and the signal's number.
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

    /// The same, said of a line of a script.
    pub fn in_line(self, number: usize) -> Self {
        match self {
            Self::Failed(what) => Self::Failed(format!("line {number}: {what}")),
            Self::Usage(what) => Self::Usage(format!("line {number}: {what}")),
            other => other,
        }
    }

    /// What came of writing the output.
    pub fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Failed(format!("cannot write the output: {error}; see where it goes")),
        }
    }

    /// Prints what there is to say, for people or as an object, and gives the exit code.
    pub fn report(&self, json: bool) -> ExitCode {
        match self {
            Self::OutputClosed | Self::Interrupted { .. } => {}
            told if json => eprintln!("{}", json!({ "error": told.to_string(), "code": told.code() })),
            // One line, whatever the parts of the message are.
            told => eprintln!("tapedb: {}", told.to_string().replace('\n', "; ")),
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
            Self::OutputClosed => f.write_str("nobody reads the output"),
            Self::Interrupted { .. } => f.write_str("interrupted"),
        }
    }
}

impl From<tapedb_engine::Error> for Failure {
    fn from(error: tapedb_engine::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// What the parser of the command line refuses, in one line: its first, without what it begins with.
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
