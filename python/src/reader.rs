//! Record batches out and in.

use crate::batch::Batch;
use crate::failure::Failure;
use crate::held::Held;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader, TimestampNanosecondArray,
};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule};
use pyo3_arrow::input::AnyRecordBatch;
use std::collections::BTreeMap;
use std::sync::Arc;
use tapedb_arrow::{BatchReader, Decimals, ReadOptions};
use tapedb_engine::{CursorBuilder, Stream};
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
        let of = self.decimals_of.iter().map(|(field, decimal)| Ok((field.clone(), decimal.option()?)));
        let options = ReadOptions {
            decimals: self.decimals.option()?,
            decimals_of: of.collect::<Result<_, Failure>>()?,
            fields: self.fields,
            sequences: self.sequences,
            in_time_order: self.in_time_order,
            ..ReadOptions::default()
        };
        Ok((self.record, options))
    }
}

/// A boxed reader of record batches.
type Reader = Box<dyn RecordBatchReader + Send>;

/// Record batches, one after the other.
#[pyclass(frozen, weakref, module = "tapedb._tapedb")]
pub struct Batches {
    reader: Held<Reader>,
    schema: SchemaRef,
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
        let reader = py.detach(|| {
            crate::held::guarded(|| Ok(BatchReader::open(&streams, cursor, &record, &options)?))
        })?;
        Ok(Self::of(Box::new(reader)))
    }

    pub fn of(reader: Reader) -> Self {
        Self { schema: reader.schema(), reader: Held::new("reader of batches", reader) }
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next batch.
    pub fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        py.check_signals()?;
        Ok(self.reader.run(py, |reader| reader.next().transpose().map_err(of_arrow))?)
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

    /// Reads all batches into memory. Ctrl-C ends it.
    fn read_all(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Self> {
        let mut batches = Vec::new();
        let mut rows = 0;
        while let Some(batch) = self.next(py)? {
            rows += batch.num_rows();
            if let Some(progress) = &progress {
                progress.call1(py, (rows,))?;
            }
            batches.push(Ok(batch));
        }
        Ok(Self::of(Box::new(RecordBatchIterator::new(batches, self.schema.clone()))))
    }

    /// Arrow's C stream, once: the batches are read as the consumer asks for them.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let reader = self.reader.take(py)?.ok_or(Failure::Closed("reader of batches"))?;
        stream_capsule(py, reader, requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.schema.as_ref())?)
    }

    /// The same columns without rows.
    fn empty(&self) -> Self {
        Self::of(Box::new(RecordBatchIterator::new([], self.schema.clone())))
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

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.reader.close(py)?)
    }
}

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
) -> PyResult<impl Iterator<Item = Result<RecordBatch, Failure>> + use<>> {
    let reader = table.extract::<AnyRecordBatch>()?.into_reader()?;
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
