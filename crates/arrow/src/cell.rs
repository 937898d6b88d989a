//! Reads single values out of Arrow arrays of many types.

use crate::error::Error;
use crate::keys::keys_of;
use crate::types::{DECIMAL64_BITS, TYPE_KEY};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, BinaryViewArray, BooleanArray, StringViewArray};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use std::ops::Range;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A value of an array.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell<'a> {
    Null,
    Bool(bool),
    Int(i128),
    F32(f32),
    F64(f64),
    /// Units of `10^-scale`, and the scale.
    Decimal(i128, i8),
    /// The bits of a `decimal64`.
    Decimal64(u64),
    /// Nanoseconds since 1970.
    Timestamp(i64),
    /// Nanoseconds since midnight.
    TimeOfDay(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// Items of [`Reader::items`].
    Items(Range<usize>),
    /// A record, whose fields are those of [`Reader::children`] at this row.
    Record,
    /// A number that is too large for its meaning, such as seconds that are beyond the range of nanoseconds.
    Overflow,
}

/// An array with its type found out.
#[derive(Debug)]
pub(crate) struct Reader {
    array: ArrayRef,
    kind: Kind,
    /// Children of a struct by name; the values of a dictionary or the items of a list, without a name.
    pub children: Vec<(String, Reader)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Plain(DataType),
    Decimal64Bits,
    Dictionary(Vec<usize>),
    List,
    LargeList,
    /// Items of each list.
    FixedSizeList(usize),
    Struct,
    AllNull,
}

impl Reader {
    /// Prepares an array. `name` is that of the column, for errors; times without a zone are UTC if `naive_is_utc`.
    ///
    /// # Errors
    /// For types that are not supported, for times without a zone, and for keys without a value.
    pub fn new(array: &ArrayRef, field: &Field, name: &str, naive_is_utc: bool) -> Result<Self, Error> {
        let child = |array: &ArrayRef, field: &Field| Self::new(array, field, name, naive_is_utc);
        let (mut children, array) = (Vec::new(), array.clone());
        let kind = match array.data_type() {
            DataType::Null => Kind::AllNull,
            DataType::UInt64 if field.metadata().get(TYPE_KEY).is_some_and(|ty| ty == DECIMAL64_BITS) => {
                Kind::Decimal64Bits
            }
            DataType::Timestamp(_, None) if !naive_is_utc => {
                let what = "these times have no time zone; give them one, or state that they are UTC";
                return Err(Error::schema(name, what));
            }
            DataType::Dictionary(_, ty) => {
                let dictionary = array.as_any_dictionary();
                let values = dictionary.values();
                children.push((String::new(), child(values, &Field::new("", (**ty).clone(), true))?));
                let keys =
                    keys_of(dictionary.keys(), values.len()).map_err(|what| Error::schema(name, what))?;
                // Without values all rows are null.
                Kind::Dictionary(if values.is_empty() { Vec::new() } else { keys })
            }
            DataType::List(item) => {
                let list = array.as_list::<i32>();
                children.push((String::new(), child(list.values(), item)?));
                Kind::List
            }
            DataType::LargeList(item) => {
                let list = array.as_list::<i64>();
                children.push((String::new(), child(list.values(), item)?));
                Kind::LargeList
            }
            DataType::FixedSizeList(item, _) => {
                let list = array.as_fixed_size_list();
                children.push((String::new(), child(list.values(), item)?));
                Kind::FixedSizeList(list.value_length() as usize)
            }
            DataType::Struct(fields) => {
                children = struct_children(array.as_struct().columns(), fields, name, naive_is_utc)?;
                Kind::Struct
            }
            ty if is_plain(ty) => Kind::Plain(ty.clone()),
            ty => return Err(Error::schema(name, format!("values of type {ty} cannot be loaded"))),
        };
        Ok(Self { array, kind, children })
    }

    /// The child of that name.
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|(found, _)| found == name).map(|(_, child)| child)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.array.len()
    }

    /// Whether it is a struct.
    pub fn is_struct(&self) -> bool {
        self.kind == Kind::Struct
    }

    /// The items of a list.
    pub fn items(&self) -> Option<&Self> {
        let is_list = matches!(self.kind, Kind::List | Kind::LargeList | Kind::FixedSizeList(_));
        is_list.then(|| &self.children[0].1)
    }

    /// The value at a row.
    pub fn cell(&self, row: usize) -> Cell<'_> {
        if self.kind == Kind::AllNull || self.array.is_null(row) {
            return Cell::Null;
        }
        match &self.kind {
            Kind::AllNull => Cell::Null,
            Kind::Decimal64Bits => Cell::Decimal64(self.array.as_primitive::<UInt64Type>().value(row)),
            Kind::Dictionary(keys) => keys.get(row).map_or(Cell::Null, |key| self.children[0].1.cell(*key)),
            Kind::List => {
                let ends = self.array.as_list::<i32>().value_offsets();
                Cell::Items(ends[row] as usize..ends[row + 1] as usize)
            }
            Kind::LargeList => {
                let ends = self.array.as_list::<i64>().value_offsets();
                Cell::Items(ends[row] as usize..ends[row + 1] as usize)
            }
            // The values of a slice begin with its first row.
            Kind::FixedSizeList(width) => Cell::Items(row * width..(row + 1) * width),
            Kind::Struct => Cell::Record,
            Kind::Plain(ty) => plain(&self.array, ty, row),
        }
    }
}

fn struct_children(
    columns: &[ArrayRef],
    fields: &Fields,
    name: &str,
    naive_is_utc: bool,
) -> Result<Vec<(String, Reader)>, Error> {
    let child = |(array, field): (&ArrayRef, &std::sync::Arc<Field>)| {
        let path = format!("{name}.{}", field.name());
        Ok((field.name().clone(), Reader::new(array, field, &path, naive_is_utc)?))
    };
    columns.iter().zip(fields).map(child).collect()
}

/// Whether [`plain`] reads the type.
fn is_plain(ty: &DataType) -> bool {
    use DataType as T;
    ty.is_integer()
        || matches!(
            ty,
            T::Boolean
                | T::Float32
                | T::Float64
                | T::Decimal32(..)
                | T::Decimal64(..)
                | T::Decimal128(..)
                | T::Timestamp(..)
                | T::Time32(TimeUnit::Second | TimeUnit::Millisecond)
                | T::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond)
                | T::Utf8
                | T::LargeUtf8
                | T::Utf8View
                | T::Binary
                | T::LargeBinary
                | T::BinaryView
                | T::FixedSizeBinary(_)
        )
}

fn plain<'a>(array: &'a ArrayRef, ty: &DataType, row: usize) -> Cell<'a> {
    macro_rules! value {
        ($type:ty) => {
            array.as_primitive::<$type>().value(row)
        };
    }
    use DataType as T;
    match ty {
        T::Boolean => Cell::Bool(boolean(array).value(row)),
        T::Int8 => Cell::Int(value!(Int8Type).into()),
        T::Int16 => Cell::Int(value!(Int16Type).into()),
        T::Int32 => Cell::Int(value!(Int32Type).into()),
        T::Int64 => Cell::Int(value!(Int64Type).into()),
        T::UInt8 => Cell::Int(value!(UInt8Type).into()),
        T::UInt16 => Cell::Int(value!(UInt16Type).into()),
        T::UInt32 => Cell::Int(value!(UInt32Type).into()),
        T::UInt64 => Cell::Int(value!(UInt64Type).into()),
        T::Float32 => Cell::F32(value!(Float32Type)),
        T::Float64 => Cell::F64(value!(Float64Type)),
        T::Decimal32(_, scale) => Cell::Decimal(value!(Decimal32Type).into(), *scale),
        T::Decimal64(_, scale) => Cell::Decimal(value!(Decimal64Type).into(), *scale),
        T::Decimal128(_, scale) => Cell::Decimal(value!(Decimal128Type), *scale),
        T::Timestamp(unit, _) => {
            let value = match unit {
                TimeUnit::Second => value!(TimestampSecondType),
                TimeUnit::Millisecond => value!(TimestampMillisecondType),
                TimeUnit::Microsecond => value!(TimestampMicrosecondType),
                TimeUnit::Nanosecond => value!(TimestampNanosecondType),
            };
            nanos(value, *unit).map_or(Cell::Overflow, Cell::Timestamp)
        }
        T::Time32(unit) => {
            let value = match unit {
                TimeUnit::Second => value!(Time32SecondType),
                _ => value!(Time32MillisecondType),
            };
            nanos(value.into(), *unit).map_or(Cell::Overflow, Cell::TimeOfDay)
        }
        T::Time64(unit) => {
            let value = match unit {
                TimeUnit::Nanosecond => value!(Time64NanosecondType),
                _ => value!(Time64MicrosecondType),
            };
            nanos(value, *unit).map_or(Cell::Overflow, Cell::TimeOfDay)
        }
        T::Utf8 => Cell::Text(array.as_string::<i32>().value(row)),
        T::LargeUtf8 => Cell::Text(array.as_string::<i64>().value(row)),
        T::Utf8View => Cell::Text(text_view(array).value(row)),
        T::Binary => Cell::Bytes(array.as_binary::<i32>().value(row)),
        T::LargeBinary => Cell::Bytes(array.as_binary::<i64>().value(row)),
        T::BinaryView => Cell::Bytes(binary_view(array).value(row)),
        T::FixedSizeBinary(_) => Cell::Bytes(array.as_fixed_size_binary().value(row)),
        _ => Cell::Null,
    }
}

fn boolean(array: &ArrayRef) -> &BooleanArray {
    array.as_boolean()
}

fn text_view(array: &ArrayRef) -> &StringViewArray {
    array.as_string_view()
}

fn binary_view(array: &ArrayRef) -> &BinaryViewArray {
    array.as_binary_view()
}

fn nanos(value: i64, unit: TimeUnit) -> Option<i64> {
    value.checked_mul(match unit {
        TimeUnit::Second => NANOS_PER_SECOND,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    })
}
