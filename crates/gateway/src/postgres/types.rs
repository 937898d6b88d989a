//! Types of Arrow as types of PostgreSQL.

use tapedb_query::arrow::datatypes::{DataType, Field, FieldRef};

/// Key of the metadata with which a column of the catalogue states its type.
pub(crate) const TYPE: &str = "postgres.type";
/// Separates a name from what makes it unique.
pub(crate) const UNIQUE: char = '\u{1}';

/// A type of PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    Bytea,
    Int8,
    Int2,
    Int4,
    Text,
    Oid,
    Json,
    Float4,
    Float8,
    /// Name of an object.
    Name,
    /// One byte of the catalogue.
    Char,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    /// Digits and scale, where they are known.
    Numeric(Option<(u8, u8)>),
    Array(Box<Type>),
}

/// A column of rows.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub name: String,
    pub ty: Type,
}

impl Column {
    pub fn of(field: &FieldRef) -> Self {
        let name = field.name().split(UNIQUE).next().unwrap_or_default().into();
        Self { name, ty: Type::of(field) }
    }
}

impl Type {
    /// The type of a column.
    pub fn of(field: &Field) -> Self {
        match field.metadata().get(TYPE).map(String::as_str) {
            Some("oid") => Self::Oid,
            Some("name") => Self::Name,
            Some("char") => Self::Char,
            _ => Self::of_data(field.data_type()),
        }
    }

    /// The type of values of Arrow.
    pub fn of_data(ty: &DataType) -> Self {
        match ty {
            DataType::Boolean => Self::Bool,
            DataType::Int8 | DataType::UInt8 | DataType::Int16 => Self::Int2,
            DataType::Int32 | DataType::UInt16 => Self::Int4,
            DataType::Int64 | DataType::UInt32 => Self::Int8,
            DataType::UInt64 => Self::Numeric(None),
            DataType::Float16 | DataType::Float32 => Self::Float4,
            DataType::Float64 => Self::Float8,
            DataType::Decimal32(digits, scale)
            | DataType::Decimal64(digits, scale)
            | DataType::Decimal128(digits, scale)
            | DataType::Decimal256(digits, scale) => {
                Self::Numeric(u8::try_from(*scale).ok().map(|scale| (*digits, scale)))
            }
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Self::Bytea,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Time32(_) | DataType::Time64(_) => Self::Time,
            DataType::Timestamp(_, None) => Self::Timestamp,
            DataType::Timestamp(_, Some(_)) => Self::Timestamptz,
            DataType::Interval(_) | DataType::Duration(_) => Self::Interval,
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _) => match Self::of_data(item.data_type()) {
                // Of arrays, whose lengths may differ, and of structs.
                Self::Array(_) | Self::Json => Self::Json,
                item => Self::Array(Box::new(item)),
            },
            DataType::Struct(_) | DataType::Map(..) => Self::Json,
            DataType::Dictionary(_, value) => Self::of_data(value),
            _ => Self::Text,
        }
    }

    /// The type with a number of PostgreSQL, of those that parameters may have.
    pub fn of_oid(oid: u32) -> Option<Self> {
        Some(match oid {
            16 => Self::Bool,
            17 => Self::Bytea,
            18 => Self::Char,
            19 => Self::Name,
            20 => Self::Int8,
            21 => Self::Int2,
            23 => Self::Int4,
            25 | 705 | 1042 | 1043 => Self::Text,
            26 => Self::Oid,
            114 | 3802 => Self::Json,
            700 => Self::Float4,
            701 => Self::Float8,
            1082 => Self::Date,
            1083 => Self::Time,
            1114 => Self::Timestamp,
            1184 => Self::Timestamptz,
            1186 => Self::Interval,
            1700 => Self::Numeric(None),
            _ => return Self::item_of(oid).map(|item| Self::Array(Box::new(item))),
        })
    }

    /// The type of the items of an array, by the array's number.
    fn item_of(oid: u32) -> Option<Self> {
        Some(match oid {
            1000 => Self::Bool,
            1001 => Self::Bytea,
            1002 => Self::Char,
            1003 => Self::Name,
            1005 => Self::Int2,
            1007 => Self::Int4,
            1009 | 1014 | 1015 => Self::Text,
            1016 => Self::Int8,
            1021 => Self::Float4,
            1022 => Self::Float8,
            1028 => Self::Oid,
            1115 => Self::Timestamp,
            1182 => Self::Date,
            1183 => Self::Time,
            1185 => Self::Timestamptz,
            1187 => Self::Interval,
            1231 => Self::Numeric(None),
            _ => return None,
        })
    }

    /// Its number.
    pub fn oid(&self) -> u32 {
        match self {
            Self::Bool => 16,
            Self::Bytea => 17,
            Self::Char => 18,
            Self::Name => 19,
            Self::Int8 => 20,
            Self::Int2 => 21,
            Self::Int4 => 23,
            Self::Text => 25,
            Self::Oid => 26,
            Self::Json => 114,
            Self::Float4 => 700,
            Self::Float8 => 701,
            Self::Date => 1082,
            Self::Time => 1083,
            Self::Timestamp => 1114,
            Self::Timestamptz => 1184,
            Self::Interval => 1186,
            Self::Numeric(_) => 1700,
            Self::Array(item) => match **item {
                Self::Bool => 1000,
                Self::Bytea => 1001,
                Self::Char => 1002,
                Self::Name => 1003,
                Self::Int2 => 1005,
                Self::Int4 => 1007,
                Self::Text => 1009,
                Self::Int8 => 1016,
                Self::Float4 => 1021,
                Self::Float8 => 1022,
                Self::Oid => 1028,
                Self::Timestamp => 1115,
                Self::Date => 1182,
                Self::Time => 1183,
                Self::Timestamptz => 1185,
                Self::Interval => 1187,
                Self::Numeric(_) => 1231,
                Self::Json | Self::Array(_) => 199,
            },
        }
    }

    /// Bytes of its values; -1: they differ.
    pub fn size(&self) -> i16 {
        match self {
            Self::Bool | Self::Char => 1,
            Self::Int2 => 2,
            Self::Int4 | Self::Oid | Self::Float4 | Self::Date => 4,
            Self::Int8 | Self::Float8 | Self::Time | Self::Timestamp | Self::Timestamptz => 8,
            Self::Interval => 16,
            Self::Name => 64,
            _ => -1,
        }
    }

    /// Digits and scale as PostgreSQL states them; -1: none.
    pub fn modifier(&self) -> i32 {
        match self {
            Self::Numeric(Some((digits, scale))) => ((i32::from(*digits) << 16) | i32::from(*scale)) + 4,
            _ => -1,
        }
    }
}
