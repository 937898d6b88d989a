//! Errors with the codes that clients of PostgreSQL expect.

use tapedb_query::{Error, Reason};

/// An error as the client gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// SQLSTATE.
    pub state: &'static str,
    pub text: String,
    /// Whether the connection ends.
    pub is_fatal: bool,
}

impl Failure {
    pub fn new(state: &'static str, text: impl Into<String>) -> Self {
        Self { state, text: text.into(), is_fatal: false }
    }

    pub fn fatal(state: &'static str, text: impl Into<String>) -> Self {
        Self { state, text: text.into(), is_fatal: true }
    }

    /// Bytes that are not the protocol.
    pub fn protocol(text: impl std::fmt::Display) -> Self {
        Self::fatal("08P01", format!("{text}; the connection is closed"))
    }

    /// What is not supported.
    pub fn unsupported(text: impl Into<String>) -> Self {
        Self::new("0A000", text)
    }

    pub fn cancelled() -> Self {
        Self::new("57014", "the query was cancelled")
    }

    pub fn shutting_down() -> Self {
        Self::fatal("57P01", "the server is shutting down; connect again later")
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        let state = match error.reason() {
            Reason::Query => state_of(&text),
            Reason::Value => "22000",
            Reason::Limit if text.contains("ran longer") => "57014",
            Reason::Limit => "53400",
            Reason::Database => "58000",
            _ => "XX000",
        };
        Self::new(state, text)
    }
}

/// The code of a query that is wrong, by what the error states.
fn state_of(text: &str) -> &'static str {
    let is_about = |words: &[&str]| words.iter().any(|word| text.contains(word));
    match () {
        () if is_about(&["change nothing"]) => "25006",
        () if is_about(&["there is no stream", "there is no table", "has no message type", "table '"]) => {
            "42P01"
        }
        () if is_about(&["No field named", "Schema error"]) => "42703",
        () if is_about(&["Invalid function", "No function matches", "no function"]) => "42883",
        () if is_about(&["laceholder", "parameter"]) => "42P02",
        () => "42601",
    }
}
