//! The error for values that do not fit the schema.

use super::layouts::TypeLayout;
use std::fmt;
use tapedb_schema::Scalar;

/// A value that does not fit the schema. Nothing of it has been written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodeError {
    /// Where: the record type, then field names and item numbers, such as `Package.entries[3].price`.
    pub path: String,
    /// What the schema needs there.
    pub need: String,
    /// What the value is.
    pub have: String,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}needs {}, has {}", self.path, self.need, self.have)
    }
}

impl std::error::Error for EncodeError {}

impl EncodeError {
    #[cold]
    pub(super) fn new(need: impl Into<String>, have: impl Into<String>) -> Self {
        Self { path: String::new(), need: need.into(), have: have.into() }
    }

    /// The same error, seen from the field or item that holds the value.
    #[cold]
    pub(super) fn within(mut self, outer: impl fmt::Display) -> Self {
        let separator = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{outer}{separator}{}", self.path);
        self
    }
}

/// What a type needs, for error messages.
pub(super) fn need(ty: &TypeLayout) -> String {
    match ty {
        TypeLayout::Scalar(scalar) => match scalar {
            Scalar::Decimal64 => "a decimal64 in canonical form".into(),
            Scalar::TimeOfDay => "a time of day".into(),
            Scalar::Ascii(width) => format!("at most {width} ASCII characters"),
            Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 | Scalar::F32 | Scalar::F64 => {
                format!("an {scalar}")
            }
            _ => format!("a {scalar}"),
        },
        TypeLayout::String => "a string".into(),
        TypeLayout::Binary => "binary".into(),
        TypeLayout::Enum { symbols, .. } => format!("one of {symbols} enum symbols"),
        TypeLayout::Array(_) => "an array".into(),
        TypeLayout::Record(_) => "a record".into(),
    }
}
