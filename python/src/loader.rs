//! Loaders: messages one by one, and record batches.
//!
//! Appending encodes into the engine's batch with the interpreter held: it takes less than giving the interpreter up. What may wait
//! (sending a batch, a new symbol, a flush) is done without it.

use crate::failure::Failure;
use crate::held::{Held, detached};
use crate::reader::{Columns, record_batches};
use crate::record::Record;
use crate::time::time_of;
use crate::types::Types;
use crate::value::{Misfit, fill_from_dict, fill_from_object};
use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::collections::HashSet;
use std::sync::Arc;
use tapedb_arrow::{AppendOptions, BatchAppender};
use tapedb_codec::dynamic::{RecordValue, Value};
use tapedb_engine::{BATCH_BYTES_DEFAULT, Error, Loader as Engine, Stream};
use tapedb_schema::Timestamp;

/// Rows of a table that one call of the engine checks or appends: signals are looked for between them.
const PIECE_ROWS: usize = 1 << 18;
/// Most messages of a batch of this loader; the engine's own limit is above it.
const BATCH_ROWS: usize = 60_000;
/// The engine sends a batch by itself at this size; this loader does so before, without the interpreter.
const ENGINE_BATCH_BYTES: usize = 8 << 20;
/// Most bytes of a batch that this loader can be set to.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// A loader of one stream.
#[pyclass(frozen, weakref, module = "tapedb._tapedb")]
pub struct Loader {
    state: Held<State>,
    types: Arc<Types>,
}

struct State {
    loader: Engine,
    stream: Stream,
    space: u32,
    record: RecordValue,
    /// Symbols that the engine's loader has an id for.
    symbols: HashSet<String>,
    batch_bytes: usize,
    /// Of the batch: about as many bytes, and messages.
    bytes: usize,
    rows: usize,
    /// Appends record batches of the record type, through a loader of its own.
    appender: Option<(Option<String>, bool, BatchAppender)>,
    appended: u64,
}

impl Loader {
    pub fn new(
        loader: Engine,
        stream: Stream,
        space: u32,
        batch_bytes: Option<usize>,
        types: Arc<Types>,
    ) -> Self {
        let mut loader = loader;
        loader.set_batch_bytes(ENGINE_BATCH_BYTES);
        let state = State {
            loader,
            stream,
            space,
            record: RecordValue::default(),
            symbols: HashSet::new(),
            batch_bytes: batch_bytes.unwrap_or(BATCH_BYTES_DEFAULT).clamp(1 << 10, BATCH_BYTES_MAX),
            bytes: 0,
            rows: 0,
            appender: None,
            appended: 0,
        };
        Self { state: Held::new("loader", state), types }
    }
}

impl State {
    /// Sends the batch; the engine keeps it when that fails.
    fn send(&mut self) -> Result<(), Failure> {
        self.loader.send()?;
        (self.bytes, self.rows) = (0, 0);
        Ok(())
    }

    /// Sends the record batches that were appended, so that rows appended after them come after them.
    fn send_tables(&mut self) -> Result<(), Failure> {
        if let Some((_, _, appender)) = &mut self.appender {
            appender.loader().send()?;
        }
        Ok(())
    }

    /// Whether a message of a symbol cannot be appended without what may wait.
    fn must_wait(&mut self, symbol: &str) -> bool {
        let has_tables =
            self.appender.as_mut().is_some_and(|(_, _, appender)| appender.loader().unsent() > 0);
        has_tables || self.is_full() || !self.symbols.contains(symbol)
    }

    fn is_full(&self) -> bool {
        self.bytes >= self.batch_bytes || self.rows >= BATCH_ROWS
    }

    /// Does what may wait before a message of a symbol is appended.
    fn prepare(&mut self, symbol: &str) -> Result<(), Failure> {
        if self.is_full() {
            self.send()?;
        }
        if !self.symbols.contains(symbol) {
            self.loader.symbol(symbol)?;
            self.symbols.insert(symbol.to_string());
        }
        self.send_tables()
    }

    fn flush(&mut self) -> Result<u64, Failure> {
        let next = match &mut self.appender {
            Some((_, _, appender)) => appender.flush()?,
            None => 0,
        };
        let next = next.max(self.loader.flush()?);
        (self.bytes, self.rows) = (0, 0);
        Ok(next)
    }

    fn appender(
        &mut self,
        record: Option<String>,
        naive_is_utc: bool,
    ) -> Result<&mut BatchAppender, Failure> {
        let fits = |(known, naive, _): &(Option<String>, bool, BatchAppender)| {
            *known == record && *naive == naive_is_utc
        };
        if !self.appender.as_ref().is_some_and(fits) {
            if let Some((_, _, mut before)) = self.appender.take() {
                before.flush()?;
            }
            let options = AppendOptions { record: record.clone(), naive_is_utc };
            let appender = BatchAppender::new(&self.stream, self.stream.loader_in(self.space)?, options)?;
            self.appender = Some((record, naive_is_utc, appender));
        }
        match &mut self.appender {
            Some((_, _, appender)) => Ok(appender),
            None => Err(Failure::Internal("no appender".into())),
        }
    }
}

/// About as many bytes as a value takes beyond its slot.
fn variable_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Binary(bytes) => bytes.len(),
        Value::Array(items) => items.iter().map(|item| 8 + variable_bytes(item)).sum(),
        Value::Record(record) => record.fields.iter().map(|field| 8 + variable_bytes(field)).sum(),
        _ => 0,
    }
}

#[pymethods]
impl Loader {
    /// Appends one message.
    #[pyo3(signature = (symbol, time, record=None, /, *, r#type=None, **fields: "Any"))]
    fn append(
        &self,
        py: Python<'_>,
        symbol: &Bound<'_, PyString>,
        time: &Bound<'_, PyAny>,
        record: Option<&Bound<'_, PyAny>>,
        r#type: Option<&str>,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let time = time_of(time)?;
        let symbol = symbol.to_str()?;
        // Values may run code of Python, which may use this loader: it is not locked while they run.
        let (waits, mut value) =
            self.state.with(py, |state| Ok((state.must_wait(symbol), std::mem::take(&mut state.record))))?;
        if waits {
            self.state.run(py, |state| state.prepare(symbol))?;
        }
        let filled = self.fill(&mut value, record, r#type, fields);
        self.state.with(py, |state| {
            filled?;
            let slots = self.types.layouts.records()[usize::from(value.type_id)].fixed;
            let bytes = 16 + slots + value.fields.iter().map(variable_bytes).sum::<usize>();
            let appended = state.loader.append_value(symbol, Timestamp(time), &value);
            state.record = value;
            appended.map_err(Failure::from)?;
            state.bytes += bytes;
            state.rows += 1;
            state.appended += 1;
            Ok(())
        })
    }

    /// Appends all rows of whatever has Arrow's stream interface, or of columns that were made of other things. Returns how many.
    ///
    /// `whole`: all rows are checked before the first of them is appended. A table's batches are in memory, and a reader's are kept
    /// until they are appended. Otherwise a batch is checked, appended and dropped before the next one is read.
    #[pyo3(signature = (table, columns: "dict[str, Any]", whole, progress: "Callable[[int], None] | None"))]
    fn append_batches(
        &self,
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        columns: Columns,
        whole: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<u64> {
        let mut batches = record_batches(table, &columns)?.flat_map(pieces);
        self.state.run(py, State::send)?;
        let mut rows = 0;
        if !whole {
            while let Some(batch) = detached(py, || batches.next()) {
                let batch = self.state.run(py, |_| columns.prepared(batch?));
                let batch = batch.map_err(|failure| in_table(failure, rows))?;
                rows += self.append_batch(py, &columns, &batch, rows, progress.as_ref())?;
            }
            return Ok(rows);
        }
        let batches = self.checked(py, batches, &columns)?;
        let all = batches.iter().map(|(batch, _)| batch.num_rows() as u64).sum::<u64>();
        for batch in batches {
            let appended = self.append_batch(py, &columns, &batch, rows, progress.as_ref());
            // What was appended before it stays: only values are checked, not disks, servers and people.
            rows += appended.map_err(|error| with_note(py, error, rows, all))?;
        }
        Ok(rows)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.state.run(py, State::flush)?)
    }

    fn send(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.state.run(py, |state| {
            state.send_tables()?;
            state.send()
        })?)
    }

    /// Messages that are not acknowledged yet.
    #[getter]
    fn pending(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.state.run(py, |state| {
            let tables = state.appender.as_mut().map_or(0, |(_, _, appender)| appender.loader().pending());
            Ok::<_, Failure>(state.loader.pending() + tables)
        })?)
    }

    /// Messages appended so far.
    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        self.state.with(py, |state| Ok(state.appended))
    }

    /// Drops the messages that wait; returns how many.
    fn discard(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.state.run(py, |state| {
            (state.bytes, state.rows) = (0, 0);
            let tables = state.appender.as_mut().map_or(0, |(_, _, appender)| appender.loader().discard());
            Ok::<_, Failure>(state.loader.discard() + tables)
        })?)
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.state.is_closed()
    }

    /// Flushes and ends the loader. After an error it is still open.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.state.is_over() {
            return Ok(());
        }
        match self.state.run(py, State::flush) {
            // Another thread has closed it during this.
            Err(Failure::Closed(_)) => Ok(()),
            Err(failure) => Err(failure.into()),
            Ok(_) => Ok(self.state.close(py)?),
        }
    }

    /// Ends the loader without what waits.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        if self.state.is_over() {
            return Ok(());
        }
        self.discard(py)?;
        Ok(self.state.close(py)?)
    }
}

/// A long batch in pieces, which share its memory.
fn pieces(
    batch: Result<RecordBatch, Failure>,
) -> Box<dyn Iterator<Item = Result<RecordBatch, Failure>> + Send> {
    let batch = match batch {
        Ok(batch) if batch.num_rows() > PIECE_ROWS => batch,
        whole => return Box::new(std::iter::once(whole)),
    };
    let rows = batch.num_rows();
    let starts = (0..rows).step_by(PIECE_ROWS);
    Box::new(starts.map(move |start| Ok(batch.slice(start, PIECE_ROWS.min(rows - start)))))
}

/// A batch as the loader takes it, and whether times without a zone are UTC.
type Prepared = (RecordBatch, bool);

impl Loader {
    /// All batches of a table, after their rows were checked. A single one is not checked here: it is appended whole, or not at all.
    fn checked(
        &self,
        py: Python<'_>,
        mut batches: impl Iterator<Item = Result<RecordBatch, Failure>> + Send,
        columns: &Columns,
    ) -> PyResult<Vec<Prepared>> {
        let (mut checked, mut unchecked, mut rows, mut after) = (Vec::new(), None::<Prepared>, 0, None);
        loop {
            crate::held::check_signals(py)?;
            let next = detached(py, || batches.next());
            let next = self
                .state
                .run(py, |_| next.map(|batch| columns.prepared(batch?)).transpose())
                .map_err(|failure| {
                    in_table(
                        failure,
                        rows + unchecked.as_ref().map_or(0, |(batch, _)| batch.num_rows() as u64),
                    )
                })?;
            if next.is_none() && checked.is_empty() {
                return Ok(unchecked.into_iter().collect());
            }
            if let Some((batch, naive_is_utc)) = unchecked.take() {
                let found = self.state.run(py, |state| {
                    let appender = state.appender(columns.record.clone(), naive_is_utc)?;
                    Ok::<_, Failure>(appender.check(&batch, after)?)
                });
                after = found.map_err(|failure| in_table(failure, rows))?;
                rows += batch.num_rows() as u64;
                checked.push((batch, naive_is_utc));
            }
            match next {
                Some(next) => unchecked = Some(next),
                None => return Ok(checked),
            }
        }
    }

    /// Appends a batch, all of it or nothing, behind so many rows of its table.
    fn append_batch(
        &self,
        py: Python<'_>,
        columns: &Columns,
        (batch, naive_is_utc): &Prepared,
        rows_before: u64,
        progress: Option<&Py<PyAny>>,
    ) -> PyResult<u64> {
        crate::held::check_signals(py)?;
        let appended = self.state.run(py, |state| {
            let appended = state.appender(columns.record.clone(), *naive_is_utc)?.append(batch)? as u64;
            state.appended += appended;
            Ok::<_, Failure>(appended)
        });
        let appended = appended.map_err(|failure| in_table(failure, rows_before))?;
        if let Some(progress) = progress {
            progress.call1(py, (rows_before + appended,))?;
        }
        Ok(appended)
    }

    /// Sets a record to what the arguments of `append` say.
    fn fill(
        &self,
        value: &mut RecordValue,
        record: Option<&Bound<'_, PyAny>>,
        name: Option<&str>,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> Result<(), Failure> {
        let types = &*self.types;
        let named = |name: &str| {
            let names = || {
                let messages = types.layouts.records().iter().filter(|record| record.message);
                messages.map(|record| record.name.as_str()).collect::<Vec<_>>().join(", ")
            };
            types.type_id(name).ok_or_else(|| {
                Failure::mismatch(
                    "type",
                    format!("the stream has no record type {name:?}; there is {}", names()),
                )
            })
        };
        let only = || {
            let text =
                "the stream has several message types; say which one: append(symbol, time, type=\"…\", …)";
            types.only_message().ok_or_else(|| Failure::mismatch("type", text))
        };
        let path = |misfit: Misfit, type_id: u16| {
            let record = &types.layouts.records()[usize::from(type_id)].name;
            let dot = if misfit.path.is_empty() { "" } else { "." };
            Failure::from(Misfit { path: format!("{record}{dot}{}", misfit.path), what: misfit.what })
        };
        if let Some(record) = record {
            if let Some(given) = fields.filter(|fields| !fields.is_empty()) {
                let names = given.keys();
                let what = format!("give a record or fields, not both: {names}");
                return Err(Failure::Argument(what));
            }
            let class = record.get_type().name()?;
            let class = class.to_str()?;
            value.type_id = match (name, types.type_id(class)) {
                (Some(name), _) => named(name)?,
                (None, Some(id)) => id,
                (None, None) => only()?,
            };
            if let Ok(message) = record.cast::<Record>() {
                let message = message.get();
                if let Some(id) = types.type_id(message.name()).filter(|_| name.is_none()) {
                    value.type_id = id;
                }
                if let Some(body) = message.body_as(types, value.type_id) {
                    let decoded = types.layouts.decode(value.type_id, body);
                    *value = decoded.map_err(|error| Failure::Internal(error.to_string()))?;
                    return Ok(());
                }
            }
            let type_id = value.type_id;
            if let Ok(fields) = record.cast::<PyDict>() {
                let ignored = ["type", "$type", "symbol", "time"];
                if let Some(name) = fields.get_item("type")?.filter(|_| name.is_none()) {
                    value.type_id = named(name.extract::<&str>()?)?;
                }
                let type_id = value.type_id;
                return fill_from_dict(types, value, fields, &ignored)
                    .map_err(|misfit| path(misfit, type_id));
            }
            return fill_from_object(types, value, record).map_err(|misfit| path(misfit, type_id));
        }
        value.type_id = match name {
            Some(name) => named(name)?,
            None => only()?,
        };
        let type_id = value.type_id;
        match fields {
            Some(fields) => fill_from_dict(types, value, fields, &[]),
            None => {
                let none = Python::attach(|py| PyDict::new(py).unbind());
                Python::attach(|py| fill_from_dict(types, value, none.bind(py), &[]))
            }
        }
        .map_err(|misfit| path(misfit, type_id))
    }
}

/// States how much of a table was appended before an error that is not one of its values.
fn with_note(py: Python<'_>, error: PyErr, rows: u64, all: u64) -> PyErr {
    if rows > 0 {
        let note = format!("{rows} of the table's {all} rows were appended before");
        // An exception that takes no note is raised without it.
        let _ = error.value(py).call_method1("add_note", (note,));
    }
    error
}

/// A row of a batch as a row of the whole table.
fn in_table(failure: Failure, rows_before: u64) -> Failure {
    match failure {
        Failure::Arrow(error) => match *error {
            tapedb_arrow::Error::Value { column, row, what } => {
                let row = Some(row + rows_before);
                Failure::Mismatch { field: column, row, what }
            }
            other => Failure::Arrow(Box::new(other)),
        },
        Failure::Engine(error) if matches!(error.first(), Error::Rejected(_)) => Failure::Engine(error),
        other => other,
    }
}
