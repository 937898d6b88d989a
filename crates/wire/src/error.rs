//! Errors that end a connection.

use std::fmt;

/// Bytes that violate the protocol. The connection cannot be used any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireError {
    /// The first bytes are not the protocol's preface.
    Preface {
        /// What the bytes look like.
        looks_like: &'static str,
    },
    /// A frame longer than the limit.
    TooLong {
        /// Bytes of its payload.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// A frame of a kind that this side does not support.
    UnknownKind(u8),
    /// A frame whose payload is too short.
    Truncated {
        /// The frame's kind.
        kind: u8,
        /// Offset in the payload.
        offset: usize,
        /// Bytes needed there.
        need: usize,
        /// Bytes present there.
        have: usize,
    },
    /// A frame whose payload is invalid.
    Invalid {
        /// The frame's kind.
        kind: u8,
        /// Offset in the payload.
        offset: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A frame that is not allowed in this state.
    Unexpected {
        /// The frame's kind.
        kind: u8,
        /// Its channel.
        channel: u32,
        /// The reason.
        why: &'static str,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preface { looks_like } => {
                write!(
                    f,
                    "the other side does not speak TapeDB's protocol: what it sent looks like {looks_like}"
                )
            }
            Self::TooLong { bytes, bytes_max } => {
                write!(f, "a frame of {bytes} bytes was announced, where at most {bytes_max} are allowed")
            }
            Self::UnknownKind(kind) => {
                write!(f, "a frame of unknown kind {kind}; the other side may be newer")
            }
            Self::Truncated { kind, offset, need, have } => {
                write!(
                    f,
                    "a frame of kind {kind} ends too early: byte {offset} needs {need} bytes, has {have}"
                )
            }
            Self::Invalid { kind, offset, what } => {
                write!(f, "a frame of kind {kind}, byte {offset}: {what}")
            }
            Self::Unexpected { kind, channel, why } => {
                write!(f, "a frame of kind {kind} on channel {channel}: {why}")
            }
        }
    }
}

impl std::error::Error for WireError {}
