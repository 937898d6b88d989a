//! What can be wrong with a schema.

use std::fmt;

/// Why a schema is refused. `place` is a type, `type.field` or `enum.symbol` as written in the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// The text does not follow the grammar. Lines and columns count from 1; columns count characters.
    Text {
        /// Line.
        line: u32,
        /// Column.
        column: u32,
        /// What was expected there.
        expected: String,
        /// What was found instead.
        found: String,
    },
    /// A name is not made of the allowed characters or is reserved.
    Name {
        /// Where.
        place: String,
        /// The name.
        name: String,
        /// What a name must be.
        rule: &'static str,
    },
    /// Two things in one scope have one name or number.
    Duplicate {
        /// The scope.
        place: String,
        /// What is there twice.
        what: &'static str,
        /// Its name or number.
        name: String,
    },
    /// A name refers to nothing.
    Unknown {
        /// Where.
        place: String,
        /// What the name should refer to: "enum" or "record".
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A count or size is outside its limits.
    Limit {
        /// Where.
        place: String,
        /// What is counted.
        what: &'static str,
        /// How many there are.
        have: usize,
        /// Fewest allowed.
        min: usize,
        /// Most allowed.
        max: usize,
    },
    /// The default does not fit the type of its field.
    Default {
        /// Where.
        place: String,
        /// What does not fit.
        why: String,
    },
    /// The documentation holds a character that the text form cannot carry.
    Doc {
        /// Where.
        place: String,
        /// The character.
        character: char,
    },
    /// A record holds itself through record fields that are neither nullable nor in an array: no value could end.
    Infinite {
        /// The records from one holding the next, the first and last being the same.
        cycle: Vec<String>,
    },
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { line, column, expected, found } => {
                write!(f, "schema text, line {line}, column {column}: expected {expected}, found {found}")
            }
            Self::Name { place, name, rule } => {
                write!(f, "{place}: the name {name:?} is not allowed: {rule}")
            }
            Self::Duplicate { place, what, name } => write!(f, "{place}: the {what} {name} is there twice"),
            Self::Unknown { place, what, name } => write!(f, "{place}: there is no {what} named {name}"),
            Self::Limit { place, what, have, min, max } => {
                write!(f, "{place}: {what}: {have}, allowed are {min} to {max}")
            }
            Self::Default { place, why } => write!(f, "{place}: the default does not fit: {why}"),
            Self::Doc { place, character } => {
                write!(f, "{place}: the documentation holds the control character {character:?}")
            }
            Self::Infinite { cycle } => write!(
                f,
                "{}: such a record could never end; make one of these fields nullable or an array",
                cycle.join(" holds ")
            ),
        }
    }
}

impl std::error::Error for SchemaError {}
