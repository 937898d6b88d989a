//! Columns of rows that are copied in, value by value.

use crate::postgres::failure::Failure;
use crate::postgres::parameter;
use crate::postgres::types::{Column, Type};
use datafusion::arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Decimal128Builder, Float32Builder, Float64Builder, Int64Builder,
    StringBuilder, Time64NanosecondBuilder, TimestampNanosecondBuilder, UInt64Builder,
};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use std::sync::Arc;

/// Digits of the decimals that values become.
const DIGITS: u8 = 38;

/// A column of rows that are copied in.
pub(crate) struct LoadedColumn {
    name: String,
    oid: u32,
    values: Values,
}

enum Values {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    Unsigned(UInt64Builder),
    F32(Float32Builder),
    F64(Float64Builder),
    Decimal(Decimal128Builder, i8),
    Timestamp(TimestampNanosecondBuilder),
    Time(Time64NanosecondBuilder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
}

impl LoadedColumn {
    /// A column as queries have it.
    ///
    /// # Errors
    /// For a type whose values are not copied.
    pub fn of(field: &Arc<Field>) -> Result<Self, Failure> {
        let column = Column::of(field);
        let is_nanoseconds = column.name == "time_ns";
        let timestamps = || Values::Timestamp(TimestampNanosecondBuilder::new().with_timezone("UTC"));
        let values = match (&column.ty, field.data_type()) {
            _ if is_nanoseconds => timestamps(),
            (_, DataType::UInt64) => Values::Unsigned(UInt64Builder::new()),
            (Type::Bool, _) => Values::Bool(BooleanBuilder::new()),
            (Type::Int2 | Type::Int4 | Type::Int8, _) => Values::Int(Int64Builder::new()),
            (Type::Float4, _) => Values::F32(Float32Builder::new()),
            (Type::Float8, _) => Values::F64(Float64Builder::new()),
            (Type::Numeric(_), DataType::Decimal128(_, scale)) => {
                let ty = DataType::Decimal128(DIGITS, *scale);
                Values::Decimal(Decimal128Builder::new().with_data_type(ty), *scale)
            }
            (Type::Timestamp | Type::Timestamptz, _) => timestamps(),
            (Type::Time, _) => Values::Time(Time64NanosecondBuilder::new()),
            (Type::Bytea, _) => Values::Bytes(BinaryBuilder::new()),
            (Type::Text, _) => Values::Text(StringBuilder::new()),
            _ => {
                let text = format!(
                    "column {:?} has a type that COPY does not write; upload it over Flight SQL, or leave it out",
                    column.name
                );
                return Err(Failure::unsupported(text));
            }
        };
        let name = if is_nanoseconds { "time".into() } else { column.name };
        Ok(Self { name, oid: column.ty.oid(), values })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Appends a value; `None`: null.
    ///
    /// # Errors
    /// When it is none of the column's type.
    pub fn push(&mut self, is_binary: bool, bytes: Option<&[u8]>) -> Result<(), Failure> {
        let Some(bytes) = bytes else {
            self.push_null();
            return Ok(());
        };
        // Without a detour, for most columns are of this type.
        if let Values::Text(values) = &mut self.values {
            let text =
                std::str::from_utf8(bytes).map_err(|_| Failure::new("22021", "the value is not UTF-8"))?;
            values.append_value(text);
            return Ok(());
        }
        let value = parameter::value(self.oid, is_binary, Some(bytes))?;
        let unfit = || Failure::new("22003", format!("{value} does not fit the column"));
        match (&mut self.values, &value) {
            (Values::Bool(values), ScalarValue::Boolean(Some(value))) => values.append_value(*value),
            (Values::Int(values), ScalarValue::Int16(Some(value))) => values.append_value((*value).into()),
            (Values::Int(values), ScalarValue::Int32(Some(value))) => values.append_value((*value).into()),
            (Values::Int(values), ScalarValue::Int64(Some(value))) => values.append_value(*value),
            (Values::Unsigned(values), ScalarValue::Decimal128(Some(units), _, scale)) => {
                let whole = rescaled(*units, *scale, 0).and_then(|units| u64::try_from(units).ok());
                values.append_value(whole.ok_or_else(unfit)?);
            }
            (Values::F32(values), ScalarValue::Float32(Some(value))) => values.append_value(*value),
            (Values::F64(values), ScalarValue::Float64(Some(value))) => values.append_value(*value),
            (Values::Decimal(values, to), ScalarValue::Decimal128(Some(units), _, scale)) => {
                values.append_value(rescaled(*units, *scale, *to).ok_or_else(unfit)?);
            }
            (Values::Timestamp(values), ScalarValue::TimestampNanosecond(Some(value), _)) => {
                values.append_value(*value)
            }
            (Values::Timestamp(values), ScalarValue::Int64(Some(value))) => values.append_value(*value),
            (Values::Time(values), ScalarValue::Time64Nanosecond(Some(value))) => values.append_value(*value),
            (Values::Bytes(values), ScalarValue::Binary(Some(value))) => values.append_value(value),
            _ => return Err(unfit()),
        }
        Ok(())
    }

    fn push_null(&mut self) {
        match &mut self.values {
            Values::Bool(values) => values.append_null(),
            Values::Int(values) => values.append_null(),
            Values::Unsigned(values) => values.append_null(),
            Values::F32(values) => values.append_null(),
            Values::F64(values) => values.append_null(),
            Values::Decimal(values, _) => values.append_null(),
            Values::Timestamp(values) => values.append_null(),
            Values::Time(values) => values.append_null(),
            Values::Text(values) => values.append_null(),
            Values::Bytes(values) => values.append_null(),
        }
    }

    /// What was appended, as an array.
    pub fn finish(&mut self) -> ArrayRef {
        match &mut self.values {
            Values::Bool(values) => Arc::new(values.finish()),
            Values::Int(values) => Arc::new(values.finish()),
            Values::Unsigned(values) => Arc::new(values.finish()),
            Values::F32(values) => Arc::new(values.finish()),
            Values::F64(values) => Arc::new(values.finish()),
            Values::Decimal(values, _) => Arc::new(values.finish()),
            Values::Timestamp(values) => Arc::new(values.finish()),
            Values::Time(values) => Arc::new(values.finish()),
            Values::Text(values) => Arc::new(values.finish()),
            Values::Bytes(values) => Arc::new(values.finish()),
        }
    }
}

/// The same number with another number of decimals; `None`: it is not exact, or too large.
fn rescaled(units: i128, from: i8, to: i8) -> Option<i128> {
    match to.checked_sub(from)? {
        0 => Some(units),
        more @ 1.. => units.checked_mul(10i128.checked_pow(more as u32)?),
        fewer => {
            let divisor = 10i128.checked_pow(u32::from(fewer.unsigned_abs()))?;
            (units % divisor == 0).then(|| units / divisor)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rescaled_exactly_or_not_at_all() {
        for (units, from, to, expected) in [
            (150, 2, 2, Some(150)),
            (150, 2, 4, Some(15_000)),
            (150, 2, 1, Some(15)),
            (155, 2, 1, None),
            (-200, 2, 0, Some(-2)),
            (i128::MAX, 0, 1, None),
            (0, 37, 0, Some(0)),
        ] {
            assert_eq!(rescaled(units, from, to), expected, "{units} {from} {to}");
        }
    }
}
