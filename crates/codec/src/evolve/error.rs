//! Why a schema, or one message, cannot be read under another schema.

use crate::error::DecodeError;
use std::fmt;

/// Two schemas between which there is a field without a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncompatibleSchema {
    /// Where in the reading schema: a message, then names of fields, such as `Package.entries.price`.
    pub path: String,
    /// What the written schema has there.
    pub written: String,
    /// What the reading schema needs.
    pub read: String,
    /// What to do about it.
    pub advice: String,
}

impl fmt::Display for IncompatibleSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, written, read, advice } = self;
        write!(f, "{path}: written as {written}, read as {read}: {advice}")
    }
}

impl std::error::Error for IncompatibleSchema {}

/// Why one message cannot be read under the other schema. Other messages of the same type may well be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvolveError {
    /// The bytes are not a body of the written schema. Offsets count in the written body.
    Decode(DecodeError),
    /// The reading schema has no record type of that name: skip the message, or add the type.
    NoTarget {
        /// The record type in the written schema.
        record: String,
    },
    /// An enum symbol that the reading schema does not have, in a field that cannot be null.
    UnknownSymbol {
        /// Where, such as `Package.entries[3].side`.
        path: String,
        /// The symbol as the written schema calls it.
        symbol: String,
    },
    /// A record of a type that the reading schema does not have or does not accept there, in a field that cannot be null.
    UnknownRecord {
        /// Where, such as `Package.entries[3]`.
        path: String,
        /// The record type as the written schema calls it.
        record: String,
    },
    /// A number that the reading field's type cannot hold exactly.
    Inexact {
        /// Where, such as `Package.entries[3].price`.
        path: String,
        /// The number.
        number: String,
        /// The type that cannot hold it.
        read: String,
    },
    /// The body would be longer than this many bytes, [`EVOLVED_BYTES_MAX`](super::EVOLVED_BYTES_MAX).
    TooLong(usize),
}

impl EvolveError {
    /// The same error, seen from the record, field or item that holds the value.
    #[cold]
    pub(super) fn within(mut self, outer: impl fmt::Display) -> Self {
        if let Self::UnknownSymbol { path, .. }
        | Self::UnknownRecord { path, .. }
        | Self::Inexact { path, .. } = &mut self
        {
            let separator = if path.is_empty() || path.starts_with('[') { "" } else { "." };
            *path = format!("{outer}{separator}{path}");
        }
        self
    }
}

impl From<DecodeError> for EvolveError {
    #[cold]
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl fmt::Display for EvolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => error.fmt(f),
            Self::NoTarget { record } => {
                write!(
                    f,
                    "the reading schema has no record type {record}: skip such messages, or add the type"
                )
            }
            Self::UnknownSymbol { path, symbol } => write!(
                f,
                "{path}: the reading schema has no symbol {symbol}: add it to the enum, or make the field nullable"
            ),
            Self::UnknownRecord { path, record } => write!(
                f,
                "{path}: the reading schema takes no {record} there: add it to the alternatives, or make it nullable"
            ),
            Self::Inexact { path, number, read } => {
                write!(f, "{path}: {number} is not exact as {read}: read it as the type it was written as")
            }
            Self::TooLong(limit) => {
                write!(f, "the message would be longer than {limit} bytes in the reading schema")
            }
        }
    }
}

impl std::error::Error for EvolveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Decode(error) => Some(error),
            _ => None,
        }
    }
}
