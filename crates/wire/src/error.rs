//! What ends a connection.

use std::fmt;

/// Bytes that are not the protocol. The connection they came over is of no more use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireError {
    /// What came first is not the protocol's preface.
    Preface {
        /// What it looks like.
        looks_like: &'static str,
    },
    /// A frame longer than is allowed.
    TooLong {
        /// Bytes of its payload.
        bytes: u64,
        /// The most there may be.
        bytes_max: u64,
    },
    /// A frame of a kind that this side does not know.
    UnknownKind(u8),
    /// A frame whose payload ends before what should be in it.
    Truncated {
        /// The frame's kind.
        kind: u8,
        /// Where in the payload.
        offset: usize,
        /// Bytes that should follow there.
        need: usize,
        /// Bytes that do.
        have: usize,
    },
    /// A frame whose payload says something that cannot be.
    Invalid {
        /// The frame's kind.
        kind: u8,
        /// Where in the payload.
        offset: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A frame that may not come here and now.
    Unexpected {
        /// The frame's kind.
        kind: u8,
        /// Its channel.
        channel: u32,
        /// Why not.
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
                write!(f, "a frame of unknown kind {kind}; is the other side of a newer version?")
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
