//! The schema model: what a stream may hold.
//!
//! A [`Schema`] is a list of enums and a list of record types. Types refer to each other by name; [`Schema::validate`]
//! proves that every name resolves, that every limit holds and that every default fits its field, so that
//! lookups of names in a validated schema cannot fail.

use crate::{Decimal64, Scalar, SchemaError};

/// Most enums or record types in one schema. A type id is the record's index and fits a `u16`.
pub const MAX_TYPES: usize = 1024;
/// Most fields in one record type.
pub const MAX_FIELDS: usize = 1024;
/// Most symbols in one enum.
pub const MAX_ENUM_SYMBOLS: usize = 65_536;
/// Most alternatives of a polymorphic record field: the tag is one byte.
pub const MAX_ALTERNATIVES: usize = 255;
/// Longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// Deepest nesting of `array<…>` in one field's type.
pub const MAX_ARRAY_DEPTH: usize = 8;

/// What a field holds, without its nullability.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FieldType {
    /// A type whose values have a fixed width.
    Scalar(Scalar),
    /// `string`: UTF-8 of any length.
    String,
    /// `binary`: bytes of any length.
    Binary,
    /// The named enum.
    Enum(String),
    /// `array<T>` or `array<T?>`.
    Array(Box<ElementType>),
    /// `record<A>` or, polymorphic, `record<A|B|…>`: a nested record of one of the named types.
    Record(Vec<String>),
}

/// What an array holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ElementType {
    /// Type of every element.
    pub ty: FieldType,
    /// Whether an element may be null.
    pub nullable: bool,
}

/// A literal in the schema text: the default of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, exact as written.
    Number(Decimal64),
    /// An integer outside decimal64's sixteen digits.
    Integer(i128),
    /// A quoted text: for strings, chars, `ascii(n)` and timestamps.
    Text(String),
    /// A bare word: an enum symbol.
    Symbol(String),
}

impl Literal {
    /// The value of a whole number, also of one written as `1.00`; `None` for everything else.
    pub fn integer(&self) -> Option<i128> {
        match self {
            Self::Number(number) => number.to_integer(),
            Self::Integer(integer) => Some(*integer),
            _ => None,
        }
    }

    /// The nearest `f64` of a number; `None` for everything else.
    pub fn float(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(number.to_f64()),
            Self::Integer(integer) => Some(*integer as f64),
            _ => None,
        }
    }

    /// The number times `10^scale`: what a `decimal(18,scale)` holds.
    ///
    /// # Errors
    /// A sentence: why it is not a number of that type.
    pub fn scaled(&self, scale: u8) -> Result<i64, String> {
        match self {
            Self::Number(number) => number.to_scaled(scale).map_err(|e| e.to_string()),
            Self::Integer(integer) => 10i128
                .checked_pow(scale.into())
                .and_then(|unit| integer.checked_mul(unit))
                .and_then(|units| i64::try_from(units).ok())
                .ok_or_else(|| format!("{integer} does not fit decimal(18,{scale})")),
            _ => Err(format!("{self} is no number")),
        }
    }
}

/// One field of a record type.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Name, unique in the record.
    pub name: String,
    /// Type.
    pub ty: FieldType,
    /// Whether the field may be null.
    pub nullable: bool,
    /// Value for messages written before the field existed, and for nulls where the field once was nullable; `None`:
    /// null if nullable, else such messages cannot be read.
    pub default: Option<Literal>,
    /// Former names, for reading messages written under them.
    pub aliases: Vec<String>,
    /// Text for people: unit, range, meaning.
    pub doc: String,
}

/// A named set of fields.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordType {
    /// Name, unique in the schema among records and enums; may have dots.
    pub name: String,
    /// Whether a record of this type can stand alone as a message (`message` in the text), or only be nested (`record`).
    pub message: bool,
    /// The fields in layout order.
    pub fields: Vec<Field>,
    /// Text for people.
    pub doc: String,
}

/// A named list of symbols. In a row a value is its ordinal, the index in `symbols`, in [`EnumType::width`] bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnumType {
    /// Name, unique in the schema among records and enums.
    pub name: String,
    /// Symbols with their numbers in other systems; both unique.
    pub symbols: Vec<(String, i64)>,
    /// Text for people.
    pub doc: String,
}

impl EnumType {
    /// Bytes of an ordinal in a row: 1 up to 256 symbols, else 2.
    pub fn width(&self) -> usize {
        if self.symbols.len() <= 256 { 1 } else { 2 }
    }

    /// Ordinal of a symbol.
    pub fn ordinal(&self, symbol: &str) -> Option<u16> {
        self.symbols.iter().position(|(name, _)| name == symbol).map(|i| i as u16)
    }
}

/// What a stream may hold: enums and record types in order. A type id is a record's index in `records`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schema {
    /// The enums.
    pub enums: Vec<EnumType>,
    /// The record types; the index is the type id.
    pub records: Vec<RecordType>,
}

impl Schema {
    /// The record type of that name with its type id.
    pub fn record(&self, name: &str) -> Option<(u16, &RecordType)> {
        self.records.iter().position(|r| r.name == name).map(|i| (i as u16, &self.records[i]))
    }

    /// The enum of that name.
    pub fn enumeration(&self, name: &str) -> Option<&EnumType> {
        self.enums.iter().find(|e| e.name == name)
    }

    /// Checks names, references, limits and defaults.
    ///
    /// # Errors
    /// The first fault, with the names of its record and field.
    pub fn validate(&self) -> Result<(), SchemaError> {
        crate::check::check(self)
    }
}
