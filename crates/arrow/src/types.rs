//! The table of types: which Arrow type a field has. `docs/ARROW.md` has it for people; a test compares both.

use arrow_array::{ArrayRef, StringArray};
use arrow_schema::{DataType, TimeUnit};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tapedb_schema::{FieldType, Scalar, Schema};

/// Key of a field's metadata that names the TapeDB type, where the Arrow type alone would be read as something else.
pub const TYPE_KEY: &str = "tapedb.type";

/// [`TYPE_KEY`] of a `decimal64` as its 64 bits.
pub(crate) const DECIMAL64_BITS: &str = "decimal64";

/// [`TYPE_KEY`] of records and arrays that are not taken apart, as their bytes in a message.
pub(crate) const CONTENT: &str = "content";

/// Time zone of times.
pub(crate) const ZONE: &str = "UTC";

/// Digits of a `decimal(18,s)`.
const DIGITS: u8 = 18;

/// Digits that every `i64` has at most.
const DIGITS_I64: u8 = 19;

/// What becomes of decimals. A `decimal64` has no fixed scale, so that no Arrow decimal is right for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decimals {
    /// `decimal64` as the nearest `Float64`.
    #[default]
    Float64,
    /// `decimal64` as `Decimal128`; a value that is not exact in it is an error.
    Decimal128 {
        /// Digits, 1 to 38.
        precision: u8,
        /// Digits after the point, 0 to `precision`.
        scale: u8,
    },
    /// Lossless: `decimal64` as its 64 bits in `UInt64`, marked by [`TYPE_KEY`], and `decimal(18,s)` with the 19 digits that an
    /// `i64` may have.
    Raw,
}

impl fmt::Display for Decimals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float64 => f.write_str("float"),
            Self::Decimal128 { precision, scale } => write!(f, "{precision},{scale}"),
            Self::Raw => f.write_str("raw"),
        }
    }
}

impl FromStr for Decimals {
    type Err = String;

    /// `float`, `raw`, or digits and scale such as `18,4`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is none of float, raw, and digits and scale such as 18,4");
        match text {
            "float" => Ok(Self::Float64),
            "raw" => Ok(Self::Raw),
            _ => {
                let (precision, scale) = text.split_once(',').ok_or_else(wrong)?;
                let number = |text: &str| text.trim().parse::<u8>().map_err(|_| wrong());
                Ok(Self::Decimal128 { precision: number(precision)?, scale: number(scale)? })
            }
        }
    }
}

/// A type without parts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Leaf {
    Scalar(Scalar),
    String,
    Binary,
    Enum(Arc<Symbols>),
}

/// The symbols of an enum.
#[derive(Debug)]
pub(crate) struct Symbols {
    pub name: String,
    pub values: ArrayRef,
    pub ordinals: HashMap<String, u16>,
}

impl PartialEq for Symbols {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.ordinals == other.ordinals
    }
}

impl Leaf {
    /// The leaf of a field type; `None`: it is an array or a record.
    pub fn of(ty: &FieldType, schema: &Schema) -> Option<Self> {
        Some(match ty {
            FieldType::Scalar(scalar) => Self::Scalar(*scalar),
            FieldType::String => Self::String,
            FieldType::Binary => Self::Binary,
            FieldType::Enum(name) => {
                let names = schema.enumeration(name).into_iter().flat_map(|found| &found.symbols);
                let names: Vec<&str> = names.map(|(symbol, _)| symbol.as_str()).collect();
                let ordinals = names.iter().zip(0..).map(|(symbol, ordinal)| (symbol.to_string(), ordinal));
                Self::Enum(Arc::new(Symbols {
                    name: name.clone(),
                    ordinals: ordinals.collect(),
                    values: Arc::new(StringArray::from_iter_values(names)),
                }))
            }
            FieldType::Array(_) | FieldType::Record(_) => return None,
        })
    }

    /// The Arrow type.
    pub fn data_type(&self, decimals: Decimals) -> DataType {
        match self {
            Self::Scalar(scalar) => scalar_type(*scalar, decimals),
            Self::String => DataType::Utf8View,
            Self::Binary => DataType::BinaryView,
            Self::Enum(_) => dictionary(),
        }
    }

    /// [`TYPE_KEY`], where the field has one.
    pub fn metadata(&self, decimals: Decimals) -> Option<&'static str> {
        (*self == Self::Scalar(Scalar::Decimal64) && decimals == Decimals::Raw).then_some(DECIMAL64_BITS)
    }
}

fn scalar_type(scalar: Scalar, decimals: Decimals) -> DataType {
    match scalar {
        Scalar::Bool => DataType::Boolean,
        Scalar::I8 => DataType::Int8,
        Scalar::I16 => DataType::Int16,
        Scalar::I32 => DataType::Int32,
        Scalar::I64 => DataType::Int64,
        Scalar::U8 => DataType::UInt8,
        Scalar::U16 => DataType::UInt16,
        Scalar::U32 => DataType::UInt32,
        Scalar::U64 => DataType::UInt64,
        Scalar::F32 => DataType::Float32,
        Scalar::F64 => DataType::Float64,
        Scalar::Decimal64 => match decimals {
            Decimals::Float64 => DataType::Float64,
            Decimals::Decimal128 { precision, scale } => DataType::Decimal128(precision, scale as i8),
            Decimals::Raw => DataType::UInt64,
        },
        Scalar::Decimal(scale) => DataType::Decimal128(digits_of(decimals), scale as i8),
        Scalar::Timestamp => timestamp(),
        Scalar::TimeOfDay => DataType::Time64(TimeUnit::Nanosecond),
        Scalar::Char | Scalar::Ascii(_) => DataType::Utf8View,
    }
}

/// Digits of the Arrow type of `decimal(18,s)`.
pub(crate) fn digits_of(decimals: Decimals) -> u8 {
    if decimals == Decimals::Raw { DIGITS_I64 } else { DIGITS }
}

/// Type of symbols and enums.
pub(crate) fn dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Type of times.
pub(crate) fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some(ZONE.into()))
}

#[cfg(test)]
mod tests {
    use crate::Decimals;
    use crate::tree::Tree;
    use tapedb_codec::dynamic::Layouts;

    /// A type as the page names it: `decimal(18,s)` and `ascii(n)` with numbers in place of letters.
    fn arrow_type(ty: &str, decimals: Decimals) -> String {
        let ty = ty.replace(",s)", ",4)").replace("(n)", "(6)");
        let schema =
            format!("enum E {{ X = 1 }} record A {{ x: i8 }} record B {{ y: i8 }} message M {{ f: {ty} }}");
        let layouts = Layouts::new(schema.parse().unwrap()).unwrap();
        let tree = Tree::new(&layouts, "M", None).unwrap();
        tree.nodes[0].field(decimals).data_type().to_string()
    }

    #[test]
    fn the_page_has_the_types() {
        let page = include_str!("../../../docs/ARROW.md");
        let rows: Vec<Vec<String>> = page
            .lines()
            .filter(|line| line.starts_with("| `") && line.matches(" | ").count() >= 2)
            .map(|line| {
                line.split(" | ").map(|cell| cell.trim_matches(['|', ' ', '`']).replace("\\|", "|")).collect()
            })
            .collect();
        assert!(rows.len() >= 22, "{rows:?}");
        for row in rows {
            let cell = |index: usize| row[index].replace(", s)", ", 4)");
            assert_eq!(cell(1), arrow_type(&row[0], Decimals::Float64), "{row:?}");
            assert_eq!(cell(2), arrow_type(&row[0], Decimals::Raw), "{row:?}");
        }
        let exact = Decimals::Decimal128 { precision: 20, scale: 4 };
        assert_eq!(arrow_type("decimal64", exact), "Decimal128(20, 4)");
    }
}
