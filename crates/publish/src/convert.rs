//! Values of the stream's columns as values of the table's.

use crate::columns::{Column, Columns, How, Type};
use crate::error::Error;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int8Type, Int16Type, Int64Type, Time64NanosecondType, TimestampNanosecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Int32Array, Int64Array, ListArray, PrimitiveArray,
    RecordBatch, StructArray, TimestampMicrosecondArray,
};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, SchemaRef};
use std::sync::Arc;

/// Nanoseconds in a microsecond.
const MICRO: i64 = 1000;

/// The rows of a table from rows of the stream, whose columns are `source`; of a flattened table the entries are made rows before.
///
/// # Errors
/// When the stream's columns are others than those that the table's were made for.
pub(crate) fn convert(
    columns: &Columns,
    source: &[ArrayRef],
    schema: &SchemaRef,
) -> Result<RecordBatch, Error> {
    let arrays = columns.columns.iter().zip(schema.fields()).map(|(column, field)| {
        let array = source.get(column.source).ok_or_else(|| changed(column))?;
        array_of(column, array, field.data_type())
    });
    Ok(RecordBatch::try_new(schema.clone(), arrays.collect::<Result<_, Error>>()?)?)
}

fn changed(column: &Column) -> Error {
    Error::Rows(format!("column {:?} has another type than before; publish again", column.name))
}

/// A column's values.
pub(crate) fn array_of(column: &Column, array: &ArrayRef, ty: &DataType) -> Result<ArrayRef, Error> {
    Ok(match (column.how, &column.ty) {
        (How::Same, Type::List(item)) => {
            let (Some(list), DataType::List(field)) = (array.as_list_opt::<i32>(), ty) else {
                return Err(changed(column));
            };
            let values = array_of(item, list.values(), field.data_type())?;
            Arc::new(ListArray::try_new(
                field.clone(),
                list.offsets().clone(),
                values,
                list.nulls().cloned(),
            )?)
        }
        (How::Same, Type::Struct(parts)) => {
            let (Some(record), DataType::Struct(fields)) = (array.as_struct_opt(), ty) else {
                return Err(changed(column));
            };
            let arrays = parts.iter().zip(fields).map(|(part, field)| {
                let array = record.columns().get(part.source).ok_or_else(|| changed(part))?;
                array_of(part, array, field.data_type())
            });
            let arrays = arrays.collect::<Result<Vec<_>, Error>>()?;
            Arc::new(StructArray::try_new(fields.clone(), arrays, record.nulls().cloned())?)
        }
        (How::Same, _) => array.clone(),
        (How::Widened, _) => widened(array).ok_or_else(|| changed(column))?,
        (How::Unsigned, Type::Decimal(precision, scale)) => {
            let numbers = array.as_primitive_opt::<UInt64Type>().ok_or_else(|| changed(column))?;
            let decimals: Decimal128Array = numbers.unary(i128::from);
            Arc::new(decimals.with_precision_and_scale(*precision, *scale as i8)?)
        }
        (How::Micros, _) => {
            let times = array.as_primitive_opt::<TimestampNanosecondType>().ok_or_else(|| changed(column))?;
            let micros: TimestampMicrosecondArray = times.unary(|time| time.div_euclid(MICRO));
            Arc::new(micros.with_timezone("UTC"))
        }
        (How::Nanos, _) => {
            let times =
                array.as_primitive_opt::<TimestampNanosecondType>().map(PrimitiveArray::reinterpret_cast);
            let times = times.or_else(|| {
                array.as_primitive_opt::<Time64NanosecondType>().map(PrimitiveArray::reinterpret_cast)
            });
            let nanos: Int64Array = times.ok_or_else(|| changed(column))?;
            Arc::new(nanos)
        }
        (How::Present, _) => {
            let all = BooleanBuffer::new_set(array.len());
            Arc::new(BooleanArray::new(all, array.nulls().cloned()))
        }
        (How::Unsigned, _) => return Err(changed(column)),
    })
}

/// Integers as the next type that tables have.
fn widened(array: &ArrayRef) -> Option<ArrayRef> {
    fn ints<T: arrow_array::ArrowPrimitiveType<Native: Into<i32>>>(array: &ArrayRef) -> Option<ArrayRef> {
        let ints: Int32Array = array.as_primitive_opt::<T>()?.unary(Into::into);
        Some(Arc::new(ints))
    }
    match array.data_type() {
        DataType::Int8 => ints::<Int8Type>(array),
        DataType::Int16 => ints::<Int16Type>(array),
        DataType::UInt8 => ints::<UInt8Type>(array),
        DataType::UInt16 => ints::<UInt16Type>(array),
        DataType::UInt32 => {
            let longs: Int64Array = array.as_primitive_opt::<UInt32Type>()?.unary(i64::from);
            Some(Arc::new(longs))
        }
        // Sequence numbers, which never reach 2^63.
        DataType::UInt64 => {
            let longs: Int64Array = array.as_primitive_opt::<UInt64Type>()?.unary(|number| number as i64);
            Some(Arc::new(longs))
        }
        DataType::Int64 => Some(Arc::new(array.as_primitive_opt::<Int64Type>()?.clone())),
        _ => None,
    }
}
