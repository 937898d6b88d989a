//! Columns of NumPy arrays and lists as a record batch, without other packages.

use crate::batch::Batch;
use crate::failure::Failure;
use crate::held::check_signals;
use crate::time::time_of;
use crate::value::decimal_type;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, PrimitiveArray, RecordBatch,
    StringArray, TimestampNanosecondArray, UInt64Array, new_empty_array,
};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat;
use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString};
use pyo3_arrow::input::AnyArray;
use std::collections::HashMap;
use std::sync::Arc;

/// A record batch of columns, each `(name, kind, values)`: `kind` is a NumPy dtype whose bytes `values` has, `"list"`, or `"arrow"`.
#[pyfunction]
#[pyo3(signature = (columns: "list[tuple[str, str, Any]]"))]
pub fn batch_of_columns(py: Python<'_>, columns: Vec<(String, String, Bound<'_, PyAny>)>) -> PyResult<Batch> {
    let mut fields = Vec::with_capacity(columns.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for (name, kind, values) in columns {
        let mut metadata = HashMap::new();
        let array = match kind.as_str() {
            "list" => of_list(values.cast::<PyList>()?, &name)?,
            "arrow" => {
                let column = values.extract::<AnyArray>()?.into_chunked_array().map_err(PyErr::from)?;
                metadata = column.field().metadata().clone();
                let chunks: Vec<&dyn Array> = column.chunks().iter().map(|chunk| &**chunk).collect();
                match chunks.len() {
                    0 => new_empty_array(column.field().data_type()),
                    1 => column.chunks()[0].clone(),
                    _ => concat(&chunks).map_err(crate::reader::of_arrow)?,
                }
            }
            dtype => of_buffer(py, dtype, &values, &name)?,
        };
        if let Some(first) = arrays.first()
            && first.len() != array.len()
        {
            let what = format!(
                "has {} rows, and the first column {}; give columns of one length",
                array.len(),
                first.len()
            );
            return Err(Failure::mismatch(name, what).into());
        }
        fields.push(Field::new(name, array.data_type().clone(), true).with_metadata(metadata));
        arrays.push(array);
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
    Ok(Batch::new(batch.map_err(crate::reader::of_arrow)?))
}

fn of_buffer(py: Python<'_>, dtype: &str, values: &Bound<'_, PyAny>, name: &str) -> PyResult<ArrayRef> {
    Ok(match dtype {
        "i1" => numbers::<Int8Type>(py, values)?,
        "i2" => numbers::<Int16Type>(py, values)?,
        "i4" => numbers::<Int32Type>(py, values)?,
        "i8" => numbers::<Int64Type>(py, values)?,
        "u1" => numbers::<UInt8Type>(py, values)?,
        "u2" => numbers::<UInt16Type>(py, values)?,
        "u4" => numbers::<UInt32Type>(py, values)?,
        "u8" => numbers::<UInt64Type>(py, values)?,
        "f4" => numbers::<Float32Type>(py, values)?,
        "f8" => numbers::<Float64Type>(py, values)?,
        "ns" => {
            let times = PyBuffer::<i64>::get(values)?.to_vec(py)?;
            Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))
        }
        "b1" => {
            let bytes = PyBuffer::<u8>::get(values)?.to_vec(py)?;
            Arc::new(BooleanArray::from_iter(bytes.iter().map(|byte| Some(*byte != 0))))
        }
        other => {
            let what = format!("arrays of dtype {other} cannot be loaded; convert them first");
            return Err(Failure::mismatch(name, what).into());
        }
    })
}

/// The numbers of a buffer, which are copied once.
fn numbers<T: ArrowPrimitiveType>(py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<ArrayRef>
where
    T::Native: Element,
{
    let values = PyBuffer::<T::Native>::get(values)?.to_vec(py)?;
    Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), None)))
}

/// The array of a list: its first value that is not `None` states the type.
fn of_list(list: &Bound<'_, PyList>, name: &str) -> PyResult<ArrayRef> {
    let py = list.py();
    let Some(first) = list.iter().find(|value| !value.is_none()) else {
        return Ok(arrow_array::new_null_array(&DataType::Utf8, list.len()));
    };
    let refused = |row: usize, value: &Bound<'_, PyAny>| {
        let what = format!("{value} is of another type than the first value, {first}");
        PyErr::from(Failure::Mismatch { field: name.into(), row: Some(row as u64), what })
    };
    /// The values with `None` as null.
    macro_rules! values {
        ($convert:expr) => {{
            let convert = $convert;
            let value = |(row, value): (usize, Bound<'_, PyAny>)| {
                look_for_signals(py, row)?;
                match value.is_none() {
                    true => Ok(None),
                    false => convert(&value).map(Some).ok_or_else(|| refused(row, &value)),
                }
            };
            list.iter().enumerate().map(value).collect::<PyResult<Vec<_>>>()?
        }};
    }
    let not_bool = |value: &Bound<'_, PyAny>| !value.is_instance_of::<PyBool>();
    if first.is_instance_of::<PyBool>() {
        return Ok(Arc::new(BooleanArray::from(values!(|value: &Bound<'_, PyAny>| value
            .extract::<bool>()
            .ok()))));
    }
    if first.is_instance_of::<PyString>() {
        let texts = values!(|value: &Bound<'_, PyAny>| value.extract::<String>().ok());
        return Ok(Arc::new(StringArray::from(texts)));
    }
    if first.is_instance_of::<PyBytes>() {
        let bytes = values!(|value: &Bound<'_, PyAny>| value.extract::<Vec<u8>>().ok());
        return Ok(Arc::new(bytes.iter().map(Option::as_deref).collect::<BinaryArray>()));
    }
    if first.is_instance(decimal_type(py)?)? {
        return of_decimals(list, name);
    }
    let is_float = |value: &Bound<'_, PyAny>| value.is_instance_of::<PyFloat>();
    if is_float(&first) || first.is_instance_of::<PyInt>() && list.iter().any(|value| is_float(&value)) {
        let numbers =
            values!(|value: &Bound<'_, PyAny>| value.extract::<f64>().ok().filter(|_| not_bool(value)));
        return Ok(Arc::new(Float64Array::from(numbers)));
    }
    if first.is_instance_of::<PyInt>() {
        let beyond =
            list.iter().any(|value| value.extract::<i64>().is_err() && value.extract::<u64>().is_ok());
        if beyond {
            let numbers =
                values!(|value: &Bound<'_, PyAny>| value.extract::<u64>().ok().filter(|_| not_bool(value)));
            return Ok(Arc::new(UInt64Array::from(numbers)));
        }
        let numbers =
            values!(|value: &Bound<'_, PyAny>| value.extract::<i64>().ok().filter(|_| not_bool(value)));
        return Ok(Arc::new(Int64Array::from(numbers)));
    }
    let mut times = Vec::with_capacity(list.len());
    for (row, value) in list.iter().enumerate() {
        look_for_signals(py, row)?;
        times.push(match value.is_none() {
            true => None,
            false => Some(time_of(&value).map_err(|failure| match failure {
                Failure::Argument(what) => {
                    Failure::Mismatch { field: name.into(), row: Some(row as u64), what }
                }
                other => other,
            })?),
        });
    }
    Ok(Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC")))
}

/// Looks for signals, now and then while the values of a long list are converted.
fn look_for_signals(py: Python<'_>, row: usize) -> PyResult<()> {
    if row.is_multiple_of(1 << 16) { check_signals(py) } else { Ok(()) }
}

/// Decimals with the scale of the one that has most digits after the point.
fn of_decimals(list: &Bound<'_, PyList>, name: &str) -> PyResult<ArrayRef> {
    let refused = |row: usize, value: &Bound<'_, PyAny>| {
        let what = format!("{value} cannot be loaded as a decimal of 38 digits");
        PyErr::from(Failure::Mismatch { field: name.into(), row: Some(row as u64), what })
    };
    let mut scale = 0;
    for (row, value) in list.iter().enumerate().filter(|(_, value)| !value.is_none()) {
        look_for_signals(list.py(), row)?;
        let exponent = value.call_method0("as_tuple").and_then(|parts| parts.getattr("exponent"));
        let exponent =
            exponent.and_then(|exponent| exponent.extract::<i32>()).map_err(|_| refused(row, &value))?;
        scale = scale.max(-exponent);
    }
    let scale = i8::try_from(scale).ok().filter(|scale| *scale <= 38);
    let mut units = Vec::with_capacity(list.len());
    for (row, value) in list.iter().enumerate() {
        look_for_signals(list.py(), row)?;
        if value.is_none() {
            units.push(None);
            continue;
        }
        let scaled = || -> Option<i128> {
            let context = value.py().import("decimal").ok()?.getattr("Context").ok()?.call1((60,)).ok()?;
            let scaled = value.call_method("scaleb", (scale?, context), None).ok()?;
            value.py().get_type::<PyInt>().call1((scaled,)).ok()?.extract().ok()
        };
        units.push(Some(scaled().ok_or_else(|| refused(row, &value))?));
    }
    let array: PrimitiveArray<Decimal128Type> = units.into_iter().collect();
    let array = array.with_precision_and_scale(38, scale.unwrap_or_default());
    Ok(Arc::new(array.map_err(crate::reader::of_arrow)?))
}
