//! A record batch, and its columns for NumPy.

use crate::failure::Failure;
use crate::reader::{array_capsules, stream_capsule};
use crate::value::{decimal, scaled_text};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_buffer::Buffer as ArrowBuffer;
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyTuple};
use pyo3_arrow::ffi::to_schema_pycapsule;

/// Up to 65,536 rows of one record type.
#[pyclass(frozen, module = "tapedb._tapedb")]
pub struct Batch {
    batch: RecordBatch,
}

impl Batch {
    pub fn new(batch: RecordBatch) -> Self {
        Self { batch }
    }

    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }
}

#[pymethods]
impl Batch {
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Arrow types of the columns.
    #[getter]
    fn types(&self) -> Vec<String> {
        self.batch.schema_ref().fields().iter().map(|field| field.data_type().to_string()).collect()
    }

    /// The parts of a column: see [`parts`].
    fn parts<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyTuple>> {
        match self.batch.columns().get(index) {
            Some(array) => parts(py, array),
            None => Err(Failure::Argument(format!("the batch has no column {index}")).into()),
        }
    }

    fn slice(&self, offset: usize, length: usize) -> Self {
        let offset = offset.min(self.batch.num_rows());
        Self::new(self.batch.slice(offset, length.min(self.batch.num_rows() - offset)))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema;
        array_capsules(py, &self.batch)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.batch.schema_ref().as_ref())?)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let reader = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        stream_capsule(py, Box::new(reader), requested_schema)
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }
}

/// Bytes that NumPy reads in place.
#[pyclass(frozen, module = "tapedb._tapedb")]
pub struct Buffer {
    bytes: ArrowBuffer,
}

impl Buffer {
    pub fn new(bytes: ArrowBuffer) -> Self {
        Self { bytes }
    }
}

#[pymethods]
#[allow(unsafe_code)]
impl Buffer {
    fn __len__(&self) -> usize {
        self.bytes.len()
    }

    /// # Safety
    /// As for every buffer: Python passes a view that can be written.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: std::ffi::c_int,
    ) -> PyResult<()> {
        let bytes = &slf.get().bytes;
        // SAFETY: the view gets a reference to this object, which is frozen and holds the bytes as long as it lives; the view is
        // read-only, so that the pointer is never written through.
        let filled = unsafe {
            let pointer = bytes.as_ptr().cast_mut().cast();
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), pointer, bytes.len() as ffi::Py_ssize_t, 1, flags)
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// How NumPy has a column.
pub enum Shape {
    /// Values of a fixed width, as this dtype.
    Plain(&'static str),
    /// Bits that become bytes.
    Bits,
    /// Keys of a dictionary.
    Codes,
    /// Objects of Python.
    Objects,
}

/// How NumPy has an Arrow type.
pub fn shape_of(data_type: &DataType) -> Shape {
    use DataType as T;
    Shape::Plain(match data_type {
        T::Int8 => "<i1",
        T::Int16 => "<i2",
        T::Int32 => "<i4",
        T::Int64 => "<i8",
        T::UInt8 => "<u1",
        T::UInt16 => "<u2",
        T::UInt32 => "<u4",
        T::UInt64 => "<u8",
        T::Float32 => "<f4",
        T::Float64 => "<f8",
        T::Timestamp(TimeUnit::Nanosecond, _) => "<M8[ns]",
        T::Time64(TimeUnit::Nanosecond) | T::Duration(TimeUnit::Nanosecond) => "<m8[ns]",
        T::Boolean => return Shape::Bits,
        T::Dictionary(key, value) if **key == T::Int32 && **value == T::Utf8 => return Shape::Codes,
        _ => return Shape::Objects,
    })
}

/// The bytes of a column of fixed width.
pub fn plain_bytes(array: &dyn Array) -> Option<ArrowBuffer> {
    let data = array.to_data();
    let width = data.data_type().primitive_width()?;
    Some(data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width))
}

/// One byte for each row: 1 where it is null.
pub fn null_bytes(array: &dyn Array) -> Option<Vec<u8>> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0)?;
    Some(nulls.iter().map(|is_valid| u8::from(!is_valid)).collect())
}

/// A column as `(dtype, values, nulls, categories)`: values are a [`Buffer`], or a list where the dtype is `object`; nulls are bytes or
/// `None`; categories are those of a dictionary, whose dtype is `category` and that of its codes.
fn parts<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Bound<'py, PyTuple>> {
    let buffer = |bytes: ArrowBuffer| Py::new(py, Buffer::new(bytes));
    let nulls = null_bytes(array).map(|bytes| buffer(ArrowBuffer::from_vec(bytes))).transpose()?;
    let none = py.None();
    match shape_of(array.data_type()) {
        Shape::Plain(dtype) => match plain_bytes(array) {
            Some(bytes) => (dtype, buffer(bytes)?, nulls, none).into_pyobject(py),
            None => Err(Failure::Internal(format!("no width of {dtype}")).into()),
        },
        Shape::Bits => {
            let values = ArrowBuffer::from_vec(bit_bytes(array));
            ("?", buffer(values)?, nulls, none).into_pyobject(py)
        }
        Shape::Codes => {
            let keys = array.as_dictionary::<Int32Type>();
            let values = plain_bytes(keys.keys());
            let values = values.ok_or_else(|| Failure::Internal("keys without width".into()))?;
            ("category <i4", buffer(values)?, nulls, objects(py, keys.values())?).into_pyobject(py)
        }
        Shape::Objects => ("object", objects(py, array)?, nulls, none).into_pyobject(py),
    }
}

/// One byte for each bit.
pub fn bit_bytes(array: &dyn Array) -> Vec<u8> {
    array.as_boolean().values().iter().map(u8::from).collect()
}

/// The values of any array as a list of Python objects.
pub fn objects<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    let converted = |array: &ArrayRef, to: &DataType| cast(array, to).map_err(crate::reader::of_arrow);
    use DataType as T;
    let row = |row: usize, value: &dyn Fn(usize) -> PyResult<Py<PyAny>>| -> PyResult<Py<PyAny>> {
        if array.is_null(row) { Ok(py.None()) } else { value(row) }
    };
    let fill = |value: &dyn Fn(usize) -> PyResult<Py<PyAny>>| -> PyResult<()> {
        (0..array.len()).try_for_each(|index| list.append(row(index, value)?))
    };
    match array.data_type() {
        T::Null => (0..array.len()).try_for_each(|_| list.append(py.None()))?,
        T::Utf8 | T::LargeUtf8 | T::Utf8View => {
            let texts = converted(array, &T::Utf8View)?;
            let texts = texts.as_string_view();
            fill(&|row| Ok(texts.value(row).into_pyobject(py)?.into_any().unbind()))?;
        }
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => {
            let bytes = converted(array, &T::BinaryView)?;
            let bytes = bytes.as_binary_view();
            fill(&|row| Ok(PyBytes::new(py, bytes.value(row)).into_any().unbind()))?;
        }
        T::Boolean => {
            let bits = array.as_boolean();
            fill(&|row| Ok(bits.value(row).into_pyobject(py)?.to_owned().into_any().unbind()))?;
        }
        T::UInt64 => {
            let numbers = array.as_primitive::<UInt64Type>();
            fill(&|row| Ok(numbers.value(row).into_pyobject(py)?.into_any().unbind()))?;
        }
        T::Float16 | T::Float32 | T::Float64 => {
            let numbers = converted(array, &T::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            fill(&|row| Ok(numbers.value(row).into_pyobject(py)?.into_any().unbind()))?;
        }
        T::Decimal128(_, scale) => {
            let numbers = array.as_primitive::<Decimal128Type>();
            let scale = *scale;
            fill(&|row| {
                let units = numbers.value(row);
                let text = match (i64::try_from(units), u8::try_from(scale)) {
                    (Ok(units), Ok(scale)) => scaled_text(units, scale),
                    _ => format!("{units}e{}", -i32::from(scale)),
                };
                Ok(decimal(py, &text)?.unbind())
            })?;
        }
        T::Dictionary(_, value) => {
            let values = objects(py, &converted(array, value)?)?;
            return Ok(values);
        }
        T::List(_) | T::LargeList(_) | T::FixedSizeList(..) => {
            let lists = match array.data_type() {
                T::FixedSizeList(field, _) | T::LargeList(field) => {
                    converted(array, &T::List(field.clone()))?
                }
                _ => array.clone(),
            };
            let lists = lists.as_list::<i32>();
            fill(&|row| Ok(objects(py, &lists.value(row))?.into_any().unbind()))?;
        }
        T::Struct(fields) => {
            let record = array.as_struct();
            let columns =
                record.columns().iter().map(|column| objects(py, column)).collect::<PyResult<Vec<_>>>()?;
            fill(&|row| {
                let object = PyDict::new(py);
                for (field, column) in fields.iter().zip(&columns) {
                    object.set_item(field.name(), column.get_item(row)?)?;
                }
                Ok(object.into_any().unbind())
            })?;
        }
        // Integers, and what counts in them: times.
        _ => {
            let numbers = converted(array, &T::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>();
            fill(&|row| Ok(numbers.value(row).into_pyobject(py)?.into_any().unbind()))?;
        }
    }
    Ok(list)
}
