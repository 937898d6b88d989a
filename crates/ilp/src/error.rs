//! What is wrong with a line.

use std::fmt;

/// Why a name or a value is not taken: a sentence without the place, which the parser adds.
pub type Refusal = Box<str>;

/// What is wrong with a line, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The line, from 1, as the protocol counts: a line break within a text or a binary value ends none.
    pub line: u64,
    /// The byte in its line, from 1.
    pub column: u64,
    /// Where the line begins in the bytes that were given.
    pub line_begins: usize,
    /// What is wrong.
    pub what: Refusal,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.what)
    }
}

impl std::error::Error for Error {}

/// A token as errors show it: the beginning of a long one.
pub(crate) fn shown(token: &[u8]) -> String {
    const SHOWN: usize = 40;
    let text = String::from_utf8_lossy(&token[..token.len().min(SHOWN)]);
    let more = if token.len() > SHOWN { "…" } else { "" };
    format!("{:?}{more}", &*text)
}
