//! Streams.

use crate::cursor::Cursor;
use crate::failure::Failure;
use crate::held::Held;
use crate::loader::Loader;
use crate::options::{Selection, to_dict, with};
use crate::reader::{Batches, Reading};
use crate::time::time_of;
use crate::types::Types;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ops::Bound as End;
use std::sync::Arc;
use tapedb_engine::{Error, Stream as Engine};
use tapedb_schema::{Schema, Timestamp};

/// A stream of an open database.
#[pyclass(frozen, weakref, module = "tapedb._tapedb")]
pub struct Stream {
    stream: Held<Engine>,
    types: Arc<Types>,
    name: String,
}

impl Stream {
    pub fn new(py: Python<'_>, stream: Engine, known: Py<PyDict>) -> Self {
        let types = Arc::new(Types::new(py, stream.layouts().clone(), known));
        Self { name: stream.name().into(), stream: Held::new("stream", stream), types }
    }
}

#[pymethods]
impl Stream {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The schema's text.
    #[getter]
    fn schema(&self) -> String {
        self.types.layouts.schema().to_string()
    }

    /// Names of the message types.
    #[getter]
    fn messages(&self) -> Vec<&str> {
        let messages = self.types.layouts.records().iter().filter(|record| record.message);
        messages.map(|record| record.name.as_str()).collect()
    }

    /// The class of a record type's messages.
    #[pyo3(signature = (record) -> "type[Any] | None")]
    fn class_<'py>(&self, py: Python<'py>, record: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(id) = self.types.type_id(record) else { return Ok(None) };
        let is_message = self.types.layouts.records()[usize::from(id)].message;
        Ok(Some(self.types.class(py, id, is_message)?.clone().into_any()))
    }

    /// Fields of a record type: name, type, documentation, whether it may be null.
    fn fields(&self, record: &str) -> Option<Vec<(String, String, String, bool)>> {
        let (_, record) = self.types.layouts.schema().record(record)?;
        let fields = record.fields.iter();
        Some(
            fields
                .map(|field| (field.name.clone(), field.ty.to_string(), field.doc.clone(), field.nullable))
                .collect(),
        )
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.stream.close(py)?)
    }

    fn symbols(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        // What another process has added since is found by the statistics.
        Ok(self.stream.run(py, |stream| stream.stats().map(|_| stream.symbols()))?)
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.stream.run(py, |stream| stream.stats())?;
        let found = PyDict::new(py);
        found.set_item("messages", stats.messages)?;
        found.set_item("next_sequence", stats.next_sequence)?;
        found.set_item("bytes", stats.bytes)?;
        found.set_item("symbols", stats.symbols)?;
        found.set_item("first_time", stats.times.map(|(first, _)| first.0))?;
        found.set_item("last_time", stats.times.map(|(_, last)| last.0))?;
        Ok(found)
    }

    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        to_dict(py, &self.stream.run(py, |stream| Ok::<_, Failure>(stream.options()))?)
    }

    #[getter]
    fn created(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.stream.run(py, |stream| Ok::<_, Failure>(stream.created().0))?)
    }

    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.stream.run(py, |stream| Ok::<_, Failure>(stream.describe()))?)
    }

    fn alter(&self, py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<()> {
        let before = self.stream.run(py, |stream| Ok::<_, Failure>(stream.options()))?;
        let options = with(before, Some(options))?;
        Ok(self.stream.run(py, |stream| stream.alter(options))?)
    }

    /// The effects of another schema, as sentences.
    fn compare_schema(&self, py: Python<'_>, schema: &str) -> PyResult<Vec<String>> {
        let schema: Schema = schema.parse().map_err(Error::from).map_err(Failure::from)?;
        let changes = self.stream.run(py, |stream| stream.compare_schema(&schema))?;
        Ok(changes.iter().map(ToString::to_string).collect())
    }

    #[pyo3(signature = (start, end, symbols))]
    fn delete(
        &self,
        py: Python<'_>,
        start: Option<Bound<'_, PyAny>>,
        end: Option<Bound<'_, PyAny>>,
        symbols: Option<Vec<String>>,
    ) -> PyResult<()> {
        let time =
            |time: Option<Bound<'_, PyAny>>| time.map(|time| time_of(&time).map(Timestamp)).transpose();
        let start = time(start)?.map_or(End::Unbounded, End::Included);
        let end = time(end)?.map_or(End::Unbounded, End::Excluded);
        Ok(self.stream.run(py, |stream| stream.delete((start, end), symbols))?)
    }

    fn rename_symbol(&self, py: Python<'_>, old: String, new: String) -> PyResult<()> {
        Ok(self.stream.run(py, |stream| stream.rename_symbol(&old, &new))?)
    }

    fn seal(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.stream.run(py, |stream| stream.seal())?)
    }

    fn maintenance_failure(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.stream.run(py, |stream| Ok::<_, Failure>(stream.maintenance_failure()))?)
    }

    fn loader(&self, py: Python<'_>, space: u32, batch_bytes: Option<usize>) -> PyResult<Loader> {
        let (loader, stream) =
            self.stream.run(py, |stream| Ok::<_, Error>((stream.loader_in(space)?, stream.clone())))?;
        Ok(Loader::new(loader, stream, space, batch_bytes, self.types.clone()))
    }

    #[pyo3(signature = (selection: "dict[str, Any]"))]
    fn cursor(&self, py: Python<'_>, selection: Selection<'_>) -> PyResult<Cursor> {
        let builder = self.stream.run(py, |stream| Ok::<_, Failure>(stream.cursor()))?;
        let builder = selection.apply(builder)?;
        let cursor = self.stream.run(py, |_| builder.open())?;
        Ok(Cursor::new(cursor, vec![(self.name.clone(), self.types.clone())]))
    }

    /// Number of messages of one record type: of sealed history little is read.
    #[pyo3(signature = (selection: "dict[str, Any]", record))]
    fn count(&self, py: Python<'_>, selection: Selection<'_>, record: &str) -> PyResult<u64> {
        let builder = self.stream.run(py, |stream| Ok::<_, Failure>(stream.cursor()))?;
        let columns = selection.apply(builder)?.columns::<String>(record, []);
        Ok(self.stream.run(py, |_| columns.count())?)
    }

    /// Record batches of one record type.
    #[pyo3(signature = (selection: "dict[str, Any]", reading: "dict[str, Any]"))]
    fn batches(&self, py: Python<'_>, selection: Selection<'_>, reading: Reading) -> PyResult<Batches> {
        let (builder, stream) =
            self.stream.run(py, |stream| Ok::<_, Failure>((stream.cursor(), stream.clone())))?;
        Batches::open(py, vec![stream], selection.apply(builder)?, reading)
    }
}
