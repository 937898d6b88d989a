//! Record batches out and in.

use crate::batch::Batch;
use crate::cursor::{SLICE, timeout_of};
use crate::failure::Failure;
use crate::held::{Held, check_signals, for_library, has_raised};
use crate::query::Rows;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader, TimestampNanosecondArray,
};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule};
use pyo3_arrow::input::AnyRecordBatch;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tapedb_arrow::{BATCH_ROWS_MAX, BatchReader, Decimals, ReadOptions};
use tapedb_engine::{CursorBuilder, Position, Stream};
use tapedb_schema::Timestamp;

/// What to read of messages as record batches.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Reading {
    record: String,
    fields: Option<Vec<String>>,
    decimals: Decimal,
    /// By field.
    decimals_of: BTreeMap<String, Decimal>,
    sequences: bool,
    in_time_order: bool,
    /// The most rows of a batch.
    rows: Option<usize>,
    /// Seconds that a live batch waits for more messages after its first one.
    every: f64,
}

/// What becomes of decimals: `"float"`, `"raw"`, or digits and scale.
#[derive(FromPyObject)]
enum Decimal {
    Named(String),
    Digits(u8, u8),
}

impl Decimal {
    fn option(&self) -> Result<Decimals, Failure> {
        match self {
            Self::Named(name) if name == "float" => Ok(Decimals::Float64),
            Self::Named(name) if name == "raw" => Ok(Decimals::Raw),
            Self::Named(name) => Err(Failure::Argument(format!(
                "decimals={name:?} is not possible; give \"float\", \"raw\", a scale, or digits and scale"
            ))),
            Self::Digits(precision, scale) => {
                Ok(Decimals::Decimal128 { precision: *precision, scale: *scale })
            }
        }
    }
}

impl Reading {
    fn options(self) -> Result<(String, ReadOptions), Failure> {
        let batch_rows = match self.rows {
            Some(rows) if !(1..=BATCH_ROWS_MAX).contains(&rows) => {
                let what = format!("rows={rows} is not possible; give 1 to {BATCH_ROWS_MAX}, or None");
                return Err(Failure::Argument(what));
            }
            rows => rows,
        };
        let every = self.every;
        let linger = Duration::try_from_secs_f64(every).map_err(|_| {
            Failure::Argument(format!("every={every} is not possible; give seconds, 0 or more"))
        })?;
        let of = self.decimals_of.iter().map(|(field, decimal)| Ok((field.clone(), decimal.option()?)));
        let options = ReadOptions {
            decimals: self.decimals.option()?,
            decimals_of: of.collect::<Result<_, Failure>>()?,
            fields: self.fields,
            sequences: self.sequences,
            in_time_order: self.in_time_order,
            batch_rows,
            linger,
            ..ReadOptions::default()
        };
        Ok((self.record, options))
    }
}

/// Where record batches come from.
pub enum Source {
    /// Messages of streams.
    Streams(Box<BatchReader>),
    /// Rows of a query.
    Query(Box<Rows>),
    /// Batches that are in memory.
    Memory(std::vec::IntoIter<RecordBatch>),
}

impl Source {
    /// The next batch; of a live reader and of a query within that time.
    fn next(&mut self, wait: Duration) -> Result<Option<RecordBatch>, Failure> {
        match self {
            Self::Streams(reader) if reader.follows() => Ok(reader.next_batch_within(wait)?),
            Self::Streams(reader) => Ok(reader.next_batch()?),
            Self::Query(rows) => rows.next(wait),
            Self::Memory(batches) => Ok(batches.next()),
        }
    }

    /// Whether a batch may come, though there was none when one was asked for.
    fn may_follow(&self) -> bool {
        match self {
            Self::Streams(reader) => reader.follows(),
            Self::Query(rows) => !rows.is_over(),
            Self::Memory(_) => false,
        }
    }

    /// The position behind the batch that was returned last.
    fn position(&self) -> Option<Position> {
        match self {
            Self::Streams(reader) => BatchReader::position(reader),
            Self::Query(_) | Self::Memory(_) => None,
        }
    }
}

/// A source, and what was read ahead of it.
struct State {
    source: Source,
    /// What the next call returns, and the position before it.
    ahead: Option<(Result<RecordBatch, Failure>, Option<Position>)>,
    /// There is no batch left.
    is_over: bool,
}

impl State {
    /// Takes what was read ahead, or reads.
    fn next(&mut self, wait: Duration) -> Result<Option<RecordBatch>, Failure> {
        match self.ahead.take() {
            Some((batch, _)) => batch.map(Some),
            None => self.read(wait),
        }
    }

    fn read(&mut self, wait: Duration) -> Result<Option<RecordBatch>, Failure> {
        let batch = self.source.next(wait)?;
        self.is_over = batch.is_none() && !self.source.may_follow();
        Ok(batch)
    }

    /// Reads ahead; `true`: the next call returns something at once.
    fn fetch(&mut self, wait: Duration) -> bool {
        if self.ahead.is_none() && !self.is_over {
            let before = self.source.position();
            // A signal's exception takes the place of the error that it ended the wait with.
            let batch = self.read(wait).transpose().filter(|batch| batch.is_ok() || !has_raised());
            self.ahead = batch.map(|batch| (batch, before));
        }
        self.ahead.is_some() || self.is_over
    }
}

/// Record batches, one after the other.
#[pyclass(frozen, weakref, module = "tapedb._tapedb")]
pub struct Batches {
    state: Held<State>,
    schema: SchemaRef,
    is_live: bool,
    rows: AtomicU64,
}

impl Batches {
    /// Reads messages of a record type.
    pub fn open(
        py: Python<'_>,
        streams: Vec<Stream>,
        cursor: CursorBuilder,
        reading: Reading,
    ) -> PyResult<Self> {
        let (record, options) = reading.options()?;
        let reader = crate::held::without_interpreter(py, || {
            Ok(BatchReader::open(&streams, cursor, &record, &options)?)
        })?;
        let (schema, is_live) = (reader.schema(), reader.follows());
        Ok(Self::of(Source::Streams(Box::new(reader)), schema, is_live))
    }

    /// The rows of a query.
    pub fn of_query(rows: Rows, schema: SchemaRef) -> Self {
        Self::of(Source::Query(Box::new(rows)), schema, false)
    }

    fn of(source: Source, schema: SchemaRef, is_live: bool) -> Self {
        let state = Held::new("reader of batches", State { source, ahead: None, is_over: false });
        Self { state, schema, is_live, rows: AtomicU64::new(0) }
    }

    fn in_memory(&self, batches: Vec<RecordBatch>) -> Self {
        Self::of(Source::Memory(batches.into_iter()), self.schema.clone(), false)
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next batch. `None`: there is none left.
    pub fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        self.next_within(py, None)
    }

    /// The next batch. `None`: there is none left, or none within the time.
    fn next_within(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Option<RecordBatch>> {
        let mut found = None;
        self.wait(py, timeout, |state, wait| {
            found = state.next(wait)?;
            Ok(found.is_some() || state.is_over)
        })?;
        if let Some(batch) = &found {
            self.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        }
        Ok(found)
    }

    /// Repeats a wait, in slices after which signals are looked for, until it is done or the time is over.
    fn wait(
        &self,
        py: Python<'_>,
        timeout: Option<Duration>,
        mut step: impl FnMut(&mut State, Duration) -> Result<bool, Failure> + Send,
    ) -> PyResult<bool> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            check_signals(py)?;
            let left = deadline.map_or(SLICE, |deadline| deadline.saturating_duration_since(Instant::now()));
            if self.state.run(py, |state| step(state, left.min(SLICE)))? {
                return Ok(true);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(false);
            }
        }
    }

    fn refuse_live(&self, what: &str) -> Result<(), Failure> {
        match self.is_live {
            true => Err(Failure::Argument(format!(
                "a live reader of batches has no end: {what}; iterate over it, or leave live=True out"
            ))),
            false => Ok(()),
        }
    }
}

/// The failure in Arrow's error.
pub fn of_arrow(error: ArrowError) -> Failure {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast::<tapedb_arrow::Error>() {
            Ok(error) => (*error).into(),
            Err(inner) => tapedb_arrow::Error::Arrow(ArrowError::ExternalError(inner)).into(),
        },
        error => tapedb_arrow::Error::Arrow(error).into(),
    }
}

#[pymethods]
impl Batches {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        Ok(self.next(py)?.map(Batch::new))
    }

    /// The next batch, waiting at most that many seconds.
    #[pyo3(name = "next", signature = (timeout=None))]
    fn next_batch(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Batch>> {
        Ok(self.next_within(py, timeout_of(timeout)?)?.map(Batch::new))
    }

    /// Reads ahead, waiting at most that many seconds; `true` when the next call has something at once.
    #[pyo3(signature = (timeout=None))]
    fn _fetch(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.wait(py, timeout_of(timeout)?, |state, wait| Ok(state.fetch(wait)))
    }

    /// A batch that was read ahead; `None`: there is none, or another thread is reading it.
    fn _pop(&self) -> PyResult<Option<Batch>> {
        let batch = self.state.try_with(|state| state.ahead.take())?.flatten();
        let batch = batch.map(|(batch, _)| batch).transpose()?;
        self.rows.fetch_add(batch.as_ref().map_or(0, |batch| batch.num_rows() as u64), Ordering::Relaxed);
        Ok(batch.map(Batch::new))
    }

    /// Whether it is known that there is no batch left.
    #[getter]
    fn is_over(&self) -> PyResult<bool> {
        Ok(self.state.try_with(|state| state.is_over && state.ahead.is_none())? == Some(true))
    }

    /// Whether new messages follow, so that there is no last batch.
    #[getter]
    fn live(&self) -> bool {
        self.is_live
    }

    /// Whether all of history has been returned.
    fn is_at_live(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.state.run(py, |state| {
            let is_at_live = matches!(&state.source, Source::Streams(reader) if reader.is_live());
            Ok::<_, Failure>(is_at_live && state.ahead.is_none())
        })?)
    }

    /// Rows returned so far.
    #[getter]
    fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// The position behind the batch that was returned last; `None`: there is none while history is read by symbol.
    fn position(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.state.run(py, |state| {
            let position = match &state.ahead {
                Some((_, before)) => before.clone(),
                None => state.source.position(),
            };
            Ok::<_, Failure>(position.map(|position| position.to_string()))
        })?)
    }

    /// Reads all batches into memory. Ctrl-C ends it.
    #[pyo3(signature = (progress: "Callable[[int], None] | None"))]
    fn read_all(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Self> {
        self.refuse_live("it cannot be read to its end")?;
        let mut batches = Vec::new();
        let mut rows = 0;
        while let Some(batch) = self.next(py)? {
            rows += batch.num_rows();
            if let Some(progress) = &progress {
                progress.call1(py, (rows,))?;
            }
            batches.push(batch);
        }
        Ok(self.in_memory(batches))
    }

    /// Arrow's C stream, once: the batches are read as the consumer asks for them.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.refuse_live("a library would wait for it forever")?;
        if self.state.with(py, |state| Ok(state.ahead.is_some()))? {
            let what = "a batch was read ahead; take it first".to_string();
            return Err(Failure::Argument(what).into());
        }
        let state = self.state.take(py)?.ok_or(Failure::Closed("reader of batches"))?;
        let reader: Reader = match state.source {
            source @ (Source::Streams(_) | Source::Query(_)) => {
                Box::new(Handed { source, schema: self.schema.clone(), asked: Instant::now() })
            }
            Source::Memory(batches) => {
                Box::new(RecordBatchIterator::new(batches.map(Ok), self.schema.clone()))
            }
        };
        stream_capsule(py, reader, requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.schema.as_ref())?)
    }

    /// The same columns without rows.
    fn empty(&self) -> Self {
        self.in_memory(Vec::new())
    }

    /// Names and Arrow types of the columns.
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        self.schema
            .fields()
            .iter()
            .map(|field| (field.name().clone(), field.data_type().to_string()))
            .collect()
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.state.is_closed()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.state.close(py)?)
    }
}

/// A reader of messages, or the rows of a query, in the hands of a library.
struct Handed {
    source: Source,
    schema: SchemaRef,
    /// When signals were last looked for.
    asked: Instant,
}

impl Iterator for Handed {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self { source, asked, .. } = self;
        let next = loop {
            match for_library(asked, || source.next(SLICE)) {
                Ok(None) if source.may_follow() => {}
                next => break next,
            }
        };
        next.map_err(|failure| ArrowError::ExternalError(failure.text().into())).transpose()
    }
}

impl RecordBatchReader for Handed {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// A boxed reader of record batches.
type Reader = Box<dyn RecordBatchReader + Send>;

/// The capsule of a stream of record batches.
pub fn stream_capsule<'py>(
    py: Python<'py>,
    reader: Reader,
    requested_schema: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let field = Field::new_struct("", reader.schema().fields().clone(), false);
    let field = field.with_metadata(reader.schema().metadata().clone());
    let arrays = reader.map(|batch| {
        let batch = batch?;
        let array: ArrayRef = Arc::new(arrow_array::StructArray::from(batch));
        Ok(array)
    });
    Ok(to_stream_pycapsule(py, Box::new(ArrayIterator::new(arrays, field.into())), requested_schema)?)
}

/// The capsules of one array.
pub fn array_capsules<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Bound<'py, PyTuple>> {
    let array = arrow_array::StructArray::from(batch.clone());
    let field = Field::new_struct("", batch.schema().fields().clone(), false);
    Ok(pyo3_arrow::ffi::to_array_pycapsules(py, field.into(), &array, None)?)
}

/// What the columns of a table are.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Columns {
    /// The record type of the rows.
    pub record: Option<String>,
    /// The column of times.
    time: String,
    /// The column of symbols.
    symbol: String,
    /// The zone of times that have none; `None`: they are refused.
    zone: Option<String>,
}

impl Columns {
    /// The batch with the columns' names as TapeDB has them, and times as timestamps with a zone; whether times without one are UTC.
    pub fn prepared(&self, batch: RecordBatch) -> Result<(RecordBatch, bool), Failure> {
        let is_utc = self.zone.as_deref().is_some_and(|zone| zone.eq_ignore_ascii_case("utc"));
        let schema = batch.schema();
        let mut fields = Vec::with_capacity(batch.num_columns());
        let mut arrays = Vec::with_capacity(batch.num_columns());
        for (field, array) in schema.fields().iter().zip(batch.columns()) {
            let (mut field, mut array) = (field.as_ref().clone(), array.clone());
            if *field.name() == self.time {
                array = times(&array, &self.time)?;
                if let (DataType::Timestamp(_, None), None) = (array.data_type(), &self.zone) {
                    let what = "these times have no time zone; state which one is meant: zone=\"UTC\", or a name such as \"Europe/Berlin\"";
                    return Err(Failure::mismatch(&self.time, what));
                }
                field = field.with_name("time").with_data_type(array.data_type().clone());
            } else if *field.name() == self.symbol {
                field = field.with_name("symbol");
            }
            if let (DataType::Timestamp(unit, None), Some(zone), false) =
                (array.data_type(), &self.zone, is_utc)
            {
                let aware = DataType::Timestamp(*unit, Some(zone.as_str().into()));
                array = cast(&array, &aware).map_err(|error| {
                    Failure::Argument(format!(
                        "zone={zone:?}: {error}; give a name such as \"Europe/Berlin\""
                    ))
                })?;
                field = field.with_data_type(aware);
            }
            fields.push(field);
            arrays.push(array);
        }
        let metadata = schema.metadata().clone();
        let batch = RecordBatch::try_new(Arc::new(Schema::new_with_metadata(fields, metadata)), arrays);
        Ok((batch.map_err(of_arrow)?, is_utc))
    }
}

/// A column of times as timestamps: from integers of nanoseconds, dates and texts too.
fn times(array: &ArrayRef, name: &str) -> Result<ArrayRef, Failure> {
    let utc = |values: TimestampNanosecondArray| Arc::new(values.with_timezone("UTC")) as ArrayRef;
    match array.data_type() {
        DataType::Int64 => Ok(utc(array.as_primitive::<Int64Type>().reinterpret_cast())),
        DataType::UInt64 => {
            let values = array.as_primitive::<UInt64Type>();
            if let Some(row) =
                values.iter().position(|value| value.is_some_and(|value| i64::try_from(value).is_err()))
            {
                let what = "the time is beyond the range of nanoseconds".into();
                return Err(Failure::Mismatch { field: name.into(), row: Some(row as u64), what });
            }
            Ok(utc(values.unary(|value| value as i64)))
        }
        DataType::Date32 | DataType::Date64 => {
            let nanos = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
            cast(array, &nanos).map_err(of_arrow)
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let texts = cast(array, &DataType::Utf8View).map_err(of_arrow)?;
            let parse = |(row, text): (usize, Option<&str>)| {
                let Some(text) = text else { return Ok(None) };
                let time: Result<Timestamp, _> = text.parse();
                time.map(|time| Some(time.0)).map_err(|error| {
                    let what = format!("{text:?}: {error}");
                    Failure::Mismatch { field: name.into(), row: Some(row as u64), what }
                })
            };
            let values =
                texts.as_string_view().iter().enumerate().map(parse).collect::<Result<Vec<_>, _>>()?;
            Ok(utc(TimestampNanosecondArray::from(values)))
        }
        _ => Ok(array.clone()),
    }
}

/// The batches of an object that has Arrow's interface.
pub fn record_batches(
    table: &Bound<'_, PyAny>,
    columns: &Columns,
) -> PyResult<impl Iterator<Item = Result<RecordBatch, Failure>> + use<> + Send> {
    let py = table.py();
    let reader = table.extract::<AnyRecordBatch>().and_then(|batches| batches.into_reader());
    let reader = reader.map_err(|error| match error.is_instance_of::<PyValueError>(py) {
        // One column, or an array: what Arrow says about it is for those who write such libraries.
        true => {
            PyTypeError::new_err(format!("{} is not a table: it has no columns with names", table.get_type()))
        }
        false => error,
    })?;
    let schema = reader.schema();
    for (column, role) in [(&columns.time, "time"), (&columns.symbol, "symbol")] {
        if schema.field_with_name(column).is_err() {
            let known: Vec<&str> =
                schema.fields().iter().take(20).map(|field| field.name().as_str()).collect();
            let what = format!(
                "the table has no such column; say with {role}=\"…\" which one it is: there is {}",
                known.join(", ")
            );
            return Err(Failure::mismatch(column, what).into());
        }
    }
    Ok(reader.map(|batch| batch.map_err(of_arrow)))
}
