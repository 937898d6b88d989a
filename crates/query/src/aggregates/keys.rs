//! Values that rows are compared by. NaN is greater than all other numbers, as in the rest of a query.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use datafusion::common::exec_err;
use datafusion::error::Result;

/// A value as far as its order goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    #[default]
    None,
    Number(i128),
    Bytes(Box<[u8]>),
}

impl Key {
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::None => Vec::new(),
            Self::Number(number) => [&[1], &number.to_le_bytes()[..]].concat(),
            Self::Bytes(bytes) => [&[2], &bytes[..]].concat(),
        }
    }

    pub fn of_bytes(bytes: &[u8]) -> Self {
        match bytes.split_first() {
            Some((1, number)) => Self::Number(number.try_into().map_or(0, i128::from_le_bytes)),
            Some((_, bytes)) => Self::Bytes(bytes.into()),
            None => Self::None,
        }
    }

    pub fn heap_bytes(&self) -> usize {
        if let Self::Bytes(bytes) = self { bytes.len() } else { 0 }
    }
}

/// The keys of a column.
#[derive(Debug)]
pub(super) struct Keys {
    values: Values,
    nulls: Option<NullBuffer>,
}

#[derive(Debug)]
enum Values {
    Numbers(Vec<i128>),
    Texts(ArrayRef),
}

/// The types that values can be compared by.
pub(super) fn is_key(ty: &DataType) -> bool {
    matches!(ty, DataType::Boolean | DataType::Timestamp(..) | DataType::Decimal128(..))
        || matches!(ty, DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_))
        || matches!(ty, DataType::Duration(_) | DataType::Binary | DataType::BinaryView | DataType::Null)
        || ty.is_integer()
        || ty.is_floating()
        || ty.is_string()
}

impl Keys {
    /// # Errors
    /// When values of this type have no order.
    pub fn new(column: &ArrayRef) -> Result<Self> {
        let nulls = column.logical_nulls();
        let values = match column.data_type() {
            DataType::Decimal128(..) => {
                Values::Numbers(column.as_primitive::<Decimal128Type>().values().to_vec())
            }
            DataType::UInt64 => numbers(column.as_primitive::<UInt64Type>().values(), |value| value.into()),
            float if float.is_floating() => {
                let floats = cast(column, &DataType::Float64)?;
                numbers(floats.as_primitive::<Float64Type>().values(), of_float)
            }
            text if text.is_string() => Values::Texts(cast(column, &DataType::BinaryView)?),
            DataType::Binary | DataType::BinaryView => Values::Texts(cast(column, &DataType::BinaryView)?),
            ty if is_key(ty) => {
                let narrow = match ty {
                    DataType::Date32 | DataType::Time32(_) => cast(column, &DataType::Int32)?,
                    _ => column.clone(),
                };
                let integers = cast(&narrow, &DataType::Int64)?;
                numbers(integers.as_primitive::<Int64Type>().values(), |value| value.into())
            }
            other => return exec_err!("rows cannot be compared by values of type {other}"),
        };
        Ok(Self { values, nulls })
    }

    pub fn is_valid(&self, row: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }

    /// Whether the value of a row is less than that of another one, or greater.
    pub fn is_before(&self, row: usize, other: usize, greatest: bool) -> bool {
        let (row, other) = if greatest { (other, row) } else { (row, other) };
        match &self.values {
            Values::Numbers(numbers) => numbers[row] < numbers[other],
            Values::Texts(texts) => {
                let texts = texts.as_binary_view();
                texts.value(row) < texts.value(other)
            }
        }
    }

    pub fn key(&self, row: usize) -> Key {
        match &self.values {
            Values::Numbers(numbers) => Key::Number(numbers[row]),
            Values::Texts(texts) => Key::Bytes(texts.as_binary_view().value(row).into()),
        }
    }
}

fn numbers<T: Copy>(values: &[T], number: impl Fn(T) -> i128) -> Values {
    Values::Numbers(values.iter().map(|value| number(*value)).collect())
}

/// A number in the order of floats: both zeros are equal, and NaN is the greatest.
pub(super) fn of_float(float: f64) -> i128 {
    if float.is_nan() {
        return i128::MAX;
    }
    let bits = (float + 0.0).to_bits() as i64;
    // Of negative floats the larger ones have smaller bits.
    (bits ^ (((bits >> 63) as u64) >> 1) as i64).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_keep_their_order() {
        let floats = [f64::NEG_INFINITY, -1e300, -1.5, -1e-300, 0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN];
        assert!(floats.windows(2).all(|pair| of_float(pair[0]) < of_float(pair[1])));
        assert_eq!(of_float(-0.0), of_float(0.0));
        assert_eq!(of_float(-f64::NAN), of_float(f64::NAN));
    }

    #[test]
    fn keys_are_bytes_and_back() {
        for key in [Key::None, Key::Number(-5), Key::Number(i128::MAX), Key::Bytes(b"abc"[..].into())] {
            assert_eq!(Key::of_bytes(&key.to_bytes()), key);
        }
    }
}
