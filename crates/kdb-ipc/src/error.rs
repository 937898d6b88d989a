//! Bytes that are not kdb+'s.

use std::fmt;

/// Why bytes cannot be read, or a value cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KdbError {
    /// The bytes end before what should be in them.
    Truncated {
        /// Where.
        offset: usize,
        /// Bytes that should follow there, at least.
        need: usize,
        /// Bytes that do.
        have: usize,
    },
    /// Bytes with an impossible value.
    Invalid {
        /// Where.
        offset: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A type that messages do not hold.
    UnknownType {
        /// Where.
        offset: usize,
        /// Its code.
        code: u8,
    },
    /// Parts that do not fit together.
    Shape(&'static str),
    /// More than a named limit allows.
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        count: u64,
        /// The most there may be.
        count_max: u64,
    },
    /// The first bytes of a connection are not kdb+'s greeting.
    NotKdb {
        /// What it looks like.
        looks_like: &'static str,
    },
    /// A file that is written in a way that is not read here.
    Unreadable {
        /// What it is.
        what: &'static str,
        /// What to do about it, in q.
        what_now: &'static str,
    },
}

impl fmt::Display for KdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { offset, need, have } => {
                write!(f, "the bytes end too early: byte {offset} needs {need} bytes, has {have}")
            }
            Self::Invalid { offset, what } => write!(f, "byte {offset}: {what}"),
            Self::UnknownType { offset, code } => {
                write!(f, "byte {offset}: type {} is not one that messages hold", *code as i8)
            }
            Self::Shape(what) => f.write_str(what),
            Self::TooMuch { what, count, count_max } => {
                write!(f, "{count} {what}, where at most {count_max} are allowed")
            }
            Self::NotKdb { looks_like } => {
                write!(f, "the peer does not speak kdb+ IPC: it sent what looks like {looks_like}")
            }
            Self::Unreadable { what, what_now } => write!(f, "{what}, which is not read here; {what_now}"),
        }
    }
}

impl std::error::Error for KdbError {}
