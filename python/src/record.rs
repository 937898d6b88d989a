//! Messages and nested records as Python has them.
//!
//! A record holds its bytes, and decodes a field when it is asked for: programs read few fields of many messages. Its class is
//! made from the schema ([`Types::class`]), with a [`Field`] for each field.

use crate::failure::Failure;
use crate::time;
use crate::types::Types;
use crate::value::to_python;
use pyo3::exceptions::{PyAttributeError, PyKeyError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::cell::Cell;
use std::sync::Arc;
use tapedb_codec::dynamic::RecordRef;
use tapedb_schema::Timestamp;

thread_local! {
    /// What the next object of a record class is to hold: Python makes the object, for its class may be of Python.
    static NEXT: Cell<Option<(Record, Option<Header>)>> = const { Cell::new(None) };
}

/// A record: the base of the classes of nested records.
#[pyclass(frozen, subclass, module = "tapedb")]
pub struct Record {
    types: Arc<Types>,
    type_id: u16,
    /// Valid: checked when the message was read.
    body: Box<[u8]>,
}

/// What a message has besides its record.
pub struct Header {
    pub time: i64,
    pub sequence: u64,
    pub space: u32,
    pub symbol: Py<PyString>,
    pub stream: Py<PyString>,
}

/// A message: the base of the classes of messages.
///
/// Fields are attributes. `time` is in nanoseconds since 1970, UTC.
#[pyclass(frozen, subclass, extends = Record, module = "tapedb")]
pub struct Message {
    header: Header,
}

impl Record {
    /// Makes the Python object of a record in `body`, which is valid.
    pub fn object<'py>(
        py: Python<'py>,
        types: &Arc<Types>,
        type_id: u16,
        body: &[u8],
        header: Option<Header>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let class = types.class(py, type_id, header.is_some())?;
        let record = Self { types: types.clone(), type_id, body: body.into() };
        NEXT.set(Some((record, header)));
        class.call0()
    }

    /// The record in place.
    pub fn view(&self) -> PyResult<RecordRef<'_>> {
        let viewed = self.types.layouts.view_trusted(self.type_id, &self.body);
        viewed.map_err(|error| Failure::Internal(error.to_string()).into())
    }

    /// The bytes, if the record is one of this schema's type.
    pub fn body_as(&self, types: &Types, type_id: u16) -> Option<&[u8]> {
        let is_same = std::ptr::eq(&*self.types, types) && self.type_id == type_id
            || self.types.layouts.same_layout(self.type_id, &types.layouts, type_id);
        is_same.then_some(&*self.body)
    }

    /// Name of the record type.
    pub fn name(&self) -> &str {
        &self.types.layouts.records()[usize::from(self.type_id)].name
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.types.layouts.records()[usize::from(self.type_id)].field(name)
    }

    fn value<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let ty = &self.types.layouts.records()[usize::from(self.type_id)].fields[index].ty;
        to_python(py, &self.types, ty, self.view()?.at(index))
    }

    /// `price=1.5, size=100`.
    fn shown(&self, py: Python<'_>) -> PyResult<String> {
        let record = &self.types.layouts.records()[usize::from(self.type_id)];
        let show = |(index, field): (usize, &tapedb_codec::dynamic::FieldLayout)| {
            let value = self.value(py, index)?;
            let text = match value.get_type().name()?.to_str()? {
                "Decimal" => value.str()?,
                _ => value.repr()?,
            };
            Ok(format!("{}={}", field.name, text.to_str()?))
        };
        let fields = record.fields.iter().enumerate().map(show).collect::<PyResult<Vec<_>>>()?;
        Ok(fields.join(", "))
    }
}

fn next(is_message: bool) -> PyResult<(Record, Option<Header>)> {
    match NEXT.take() {
        Some(next) if next.1.is_some() == is_message => Ok(next),
        _ => Err(PyTypeError::new_err("messages and records are made by cursors and subscribers")),
    }
}

#[pymethods]
impl Record {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(next(false)?.0)
    }

    /// Name of the record type.
    #[getter]
    fn r#type(&self) -> &str {
        self.name()
    }

    /// The field of that name: for names that Python has for something else.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match self.index(name) {
            Some(index) => self.value(py, index),
            None => Err(PyKeyError::new_err(format!("record type {:?} has no field {name:?}", self.name()))),
        }
    }

    /// Names of the fields.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let record = &self.types.layouts.records()[usize::from(self.type_id)];
        PyTuple::new(py, record.fields.iter().map(|field| &field.name))
    }

    /// The record as a dictionary, nested records as well.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        let record = &self.types.layouts.records()[usize::from(self.type_id)];
        for (index, field) in record.fields.iter().enumerate() {
            fields.set_item(&field.name, plain(&self.value(py, index)?)?)?;
        }
        Ok(fields)
    }

    /// The record as canonical JSON.
    fn to_json(&self) -> PyResult<String> {
        let mut json = Vec::new();
        self.view()?.write_json(&mut json);
        Ok(String::from_utf8_lossy(&json).into_owned())
    }

    /// Records do not change: a copy is the record itself.
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> Py<PyAny> {
        match other.cast::<Self>() {
            Ok(other) if !other.is_instance_of::<Message>() => {
                let other = other.get();
                let equal = other.body == self.body
                    && self.types.layouts.same_layout(self.type_id, &other.types.layouts, other.type_id);
                equal.into_pyobject(py).map(|equal| equal.to_owned().into_any().unbind())
            }
            _ => Ok(py.NotImplemented()),
        }
        .unwrap_or_else(|_: std::convert::Infallible| py.NotImplemented())
    }

    fn __hash__(&self) -> u64 {
        hash(&self.body)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("{}({})", self.name(), self.shown(py)?))
    }
}

#[pymethods]
impl Message {
    #[new]
    fn new() -> PyResult<PyClassInitializer<Self>> {
        match next(true)? {
            (record, Some(header)) => Ok(PyClassInitializer::from(record).add_subclass(Self { header })),
            _ => Err(PyTypeError::new_err("messages are made by cursors and subscribers")),
        }
    }

    /// Nanoseconds since 1970, UTC.
    #[getter]
    fn time(&self) -> i64 {
        self.header.time
    }

    /// The time as an aware `datetime`, UTC. It has microseconds: nanoseconds are cut off.
    #[getter]
    fn datetime<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import(intern!(py, "tapedb._times"))?
            .getattr(intern!(py, "to_datetime"))?
            .call1((self.header.time,))
    }

    /// The symbol.
    #[getter]
    fn symbol<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        self.header.symbol.bind(py)
    }

    /// Number of the message in its space.
    #[getter]
    fn sequence(&self) -> u64 {
        self.header.sequence
    }

    /// The space that the message was loaded into.
    #[getter]
    fn space(&self) -> u32 {
        self.header.space
    }

    /// Name of the stream, or of the topic.
    #[getter]
    fn stream<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        self.header.stream.bind(py)
    }

    /// The message as a dictionary: type, time and symbol, then the fields.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let py = slf.py();
        let (header, record) = (&slf.get().header, slf.as_super().get());
        let all = PyDict::new(py);
        all.set_item("type", record.name())?;
        all.set_item("time", header.time)?;
        all.set_item("symbol", &header.symbol)?;
        all.update(record.to_dict(py)?.as_mapping())?;
        Ok(all)
    }

    /// The message as canonical JSON, as `tapedb read --output json` writes it.
    fn to_json(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (header, record) = (&slf.get().header, slf.as_super().get());
        let mut json = Vec::new();
        let symbol = header.symbol.bind(slf.py()).to_str()?;
        record.view()?.write_message_json(symbol, Timestamp(header.time), &mut json);
        Ok(String::from_utf8_lossy(&json).into_owned())
    }

    fn __eq__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented().into_bound(py)) };
        let (a, b) = (&slf.get().header, &other.get().header);
        let (left, right) = (slf.as_super().get(), other.as_super().get());
        let equal = (a.time, a.sequence, a.space) == (b.time, b.sequence, b.space)
            && a.symbol.bind(py).to_str()? == b.symbol.bind(py).to_str()?
            && a.stream.bind(py).to_str()? == b.stream.bind(py).to_str()?
            && left.body == right.body
            && left.types.layouts.same_layout(left.type_id, &right.types.layouts, right.type_id);
        Ok(equal.into_pyobject(py)?.to_owned().into_any())
    }

    fn __hash__(slf: &Bound<'_, Self>) -> u64 {
        let header = &slf.get().header;
        hash(&slf.as_super().get().body) ^ header.sequence.rotate_left(32) ^ header.time as u64
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (header, record) = (&slf.get().header, slf.as_super().get());
        let fields = record.shown(slf.py())?;
        let comma = if fields.is_empty() { "" } else { ", " };
        let symbol = header.symbol.bind(slf.py()).to_str()?;
        Ok(format!("{}({symbol} {}{comma}{fields})", record.name(), time::format_time(header.time)))
    }
}

/// FNV-1a, so that equal bytes have equal hashes in every process.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A value with dictionaries in place of nested records.
fn plain<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    if let Ok(record) = value.cast::<Record>() {
        let fields = PyDict::new(py);
        fields.set_item("type", record.get().name())?;
        fields.update(record.get().to_dict(py)?.as_mapping())?;
        return Ok(fields.into_any());
    }
    match value.cast::<pyo3::types::PyList>() {
        Ok(items) => {
            let items = items.iter().map(|item| plain(&item)).collect::<PyResult<Vec<_>>>()?;
            Ok(pyo3::types::PyList::new(py, items)?.into_any())
        }
        Err(_) => Ok(value.clone()),
    }
}

/// A field of a record class.
#[pyclass(frozen, module = "tapedb")]
pub struct Field {
    index: usize,
    /// The name.
    #[pyo3(get)]
    name: String,
    doc: String,
}

#[pymethods]
impl Field {
    #[new]
    fn new(index: usize, name: String, doc: String) -> Self {
        Self { index, name, doc }
    }

    #[getter]
    fn __doc__(&self) -> &str {
        &self.doc
    }

    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        object: Option<&Bound<'py, PyAny>>,
        _owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match object {
            None => Ok(slf.clone().into_any()),
            Some(object) => {
                let (record, field) = (object.cast::<Record>()?.get(), slf.get());
                // A program may take the field of another class.
                let fields = &record.types.layouts.records()[usize::from(record.type_id)].fields;
                match fields.get(field.index) {
                    Some(found) if found.name == field.name => record.value(slf.py(), field.index),
                    _ => Err(PyTypeError::new_err(format!(
                        "record type {:?} has no field {:?} at this place",
                        record.name(),
                        field.name
                    ))),
                }
            }
        }
    }

    fn __set__(&self, _object: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyAttributeError::new_err(format!("messages cannot be changed: field {:?}", self.name)))
    }

    fn __repr__(&self) -> String {
        format!("<field {:?}>", self.name)
    }
}
