//! Whole columns of a table: batch by batch, so that the memory is that of the result and one batch.

use crate::batch::{Buffer, Shape, bit_bytes, null_bytes, objects, plain_bytes, shape_of};
use crate::failure::Failure;
use crate::held::detached;
use crate::reader::Batches;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer as ArrowBuffer;
use arrow_schema::DataType;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// A column that grows. Its bytes grow by doubling: for long ones the system moves pages, and copies nothing.
enum Column {
    Bytes { dtype: &'static str, values: Vec<u8> },
    Codes { codes: Codes, categories: Option<ArrayRef> },
    Objects(Py<PyList>),
}

/// Keys of a dictionary, as narrow as pandas has them: it would make a copy of wider ones.
enum Codes {
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
}

impl Codes {
    /// Makes the codes wide enough for so many categories, and for their number itself, which stands for null.
    fn widen(&mut self, categories: usize) {
        match self {
            Self::I8(codes) if categories > i8::MAX as usize => {
                *self = Self::I16(codes.iter().map(|code| (*code).into()).collect());
                self.widen(categories);
            }
            Self::I16(codes) if categories > i16::MAX as usize => {
                *self = Self::I32(codes.iter().map(|code| (*code).into()).collect());
            }
            _ => {}
        }
    }

    /// Adds keys, which [`Codes::widen`] has made fit.
    fn extend(&mut self, keys: &[i32]) {
        match self {
            Self::I8(codes) => codes.extend(keys.iter().map(|key| *key as i8)),
            Self::I16(codes) => codes.extend(keys.iter().map(|key| *key as i16)),
            Self::I32(codes) => codes.extend_from_slice(keys),
        }
    }

    /// The dtype of the column, and its bytes.
    fn finish(self) -> (&'static str, ArrowBuffer) {
        match self {
            Self::I8(codes) => ("category <i1", ArrowBuffer::from_vec(codes)),
            Self::I16(codes) => ("category <i2", ArrowBuffer::from_vec(codes)),
            Self::I32(codes) => ("category <i4", ArrowBuffer::from_vec(codes)),
        }
    }
}

/// A column, and which of its rows are null.
struct Growing {
    column: Column,
    nulls: Option<Vec<u8>>,
    rows: usize,
}

impl Growing {
    fn new(py: Python<'_>, data_type: &DataType) -> Self {
        let column = match shape_of(data_type) {
            Shape::Plain(dtype) => Column::Bytes { dtype, values: Vec::new() },
            Shape::Bits => Column::Bytes { dtype: "?", values: Vec::new() },
            Shape::Codes => Column::Codes { codes: Codes::I8(Vec::new()), categories: None },
            Shape::Objects => Column::Objects(PyList::empty(py).unbind()),
        };
        Self { column, nulls: None, rows: 0 }
    }

    /// Adds an array whose values are bytes; `false`: they are objects.
    fn push(&mut self, array: &ArrayRef) -> Result<bool, Failure> {
        let width = || Failure::Internal("a column without width".into());
        match &mut self.column {
            Column::Bytes { dtype: "?", values } => values.extend_from_slice(&bit_bytes(array)),
            Column::Bytes { values, .. } => values.extend_from_slice(&plain_bytes(array).ok_or_else(width)?),
            Column::Codes { codes, categories } => {
                let keys = array.as_dictionary::<Int32Type>();
                // Keys keep their meaning from batch to batch: the longest dictionary has all of them.
                if categories.as_ref().is_none_or(|known| known.len() < keys.values().len()) {
                    *categories = Some(keys.values().clone());
                    codes.widen(keys.values().len());
                }
                codes.extend(keys.keys().values());
            }
            Column::Objects(_) => return Ok(false),
        }
        Ok(true)
    }

    fn push_nulls(&mut self, array: &ArrayRef) {
        let found = null_bytes(array);
        if found.is_some() || self.nulls.is_some() {
            let nulls = self.nulls.get_or_insert_with(|| vec![0; self.rows]);
            nulls.extend(found.unwrap_or_else(|| vec![0; array.len()]));
        }
        self.rows += array.len();
    }

    fn finish<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let buffer = |bytes: ArrowBuffer| Py::new(py, Buffer::new(bytes));
        let nulls = self.nulls.map(|nulls| buffer(nulls.into())).transpose()?;
        match self.column {
            Column::Bytes { dtype, values } => {
                (dtype, buffer(values.into())?, nulls, py.None()).into_pyobject(py)
            }
            Column::Codes { codes, categories } => {
                let (dtype, codes) = codes.finish();
                let categories = match categories {
                    Some(categories) => objects(py, &categories)?,
                    None => PyList::empty(py),
                };
                (dtype, buffer(codes)?, nulls, categories).into_pyobject(py)
            }
            Column::Objects(list) => ("object", list, nulls, py.None()).into_pyobject(py),
        }
    }
}

/// Reads all batches into columns: for each its name, then as `Batch.parts`.
#[pyfunction]
#[pyo3(signature = (batches, progress: "Callable[[int], None] | None") -> "list[tuple[str, tuple[Any, ...]]]")]
pub fn collect<'py>(
    py: Python<'py>,
    batches: &Batches,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<(String, Bound<'py, PyTuple>)>> {
    let schema = batches.schema();
    let mut columns: Vec<Growing> =
        schema.fields().iter().map(|field| Growing::new(py, field.data_type())).collect();
    while let Some(batch) = batches.next(py)? {
        let arrays = batch.columns();
        let pushed = detached(py, || {
            let pushed = columns.iter_mut().zip(arrays).map(|(column, array)| {
                let pushed = column.push(array)?;
                column.push_nulls(array);
                Ok(pushed)
            });
            pushed.collect::<Result<Vec<bool>, Failure>>()
        })?;
        for ((column, array), pushed) in columns.iter().zip(arrays).zip(pushed) {
            if let (Column::Objects(list), false) = (&column.column, pushed) {
                list.call_method1(py, "extend", (objects(py, array)?,))?;
            }
        }
        if let (Some(progress), Some(column)) = (&progress, columns.first()) {
            progress.call1(py, (column.rows,))?;
        }
    }
    let names = schema.fields().iter().map(|field| field.name().clone());
    names.zip(columns).map(|(name, column)| Ok((name, column.finish(py)?))).collect()
}
