//! The stream of a view: its record type, and rows of the query as its messages.

use crate::error::Error;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::error::DataFusionError;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use tapedb_arrow::{AppendOptions, BatchAppender, EncodedRows, RowEncoder, schema_text};
use tapedb_engine::Stream;
use tapedb_schema::Timestamp;

/// Columns of the header, which rows have from the query.
const TIME: &str = "time";
const SYMBOL: &str = "symbol";

/// Where the columns of the query go.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Columns {
    /// The bucket.
    time: usize,
    /// `None`: the view has one symbol, without a name.
    symbol: Option<usize>,
    fields: Vec<usize>,
    /// The columns of the query.
    schema: Arc<Schema>,
}

impl Columns {
    /// The columns of a query whose bucket is in the column of that number.
    ///
    /// # Errors
    /// When there are two symbols, or nothing but the bucket and the symbol.
    pub fn of(schema: &Arc<Schema>, time: usize) -> Result<Self, Error> {
        let is_symbol = |index: &usize| schema.field(*index).name().eq_ignore_ascii_case(SYMBOL);
        let symbol = (0..schema.fields().len()).find(is_symbol);
        let fields: Vec<usize> =
            (0..schema.fields().len()).filter(|index| *index != time && Some(*index) != symbol).collect();
        for index in &fields {
            let name = schema.field(*index).name();
            if name == TIME || name == SYMBOL {
                return Err(Error::query(format!(
                    "the view's {name} is another column; name this one AS something else"
                )));
            }
        }
        if fields.is_empty() {
            return Err(Error::query("the view has no column but its bucket and symbol; add an aggregate"));
        }
        Ok(Self { time, symbol, fields, schema: schema.clone() })
    }

    /// The schema of a stream with such rows.
    ///
    /// # Errors
    /// When a column has no name that a field can have, or no type of fields.
    pub fn schema(&self, view: &str) -> Result<tapedb_schema::Schema, Error> {
        let parts = view.split(|letter: char| !letter.is_ascii_alphanumeric());
        let capital = |part: &str| {
            let mut letters = part.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        };
        let name = format!("View{}", parts.map(capital).collect::<String>());
        let fields: Vec<Field> = self.fields.iter().map(|index| self.schema.field(*index).clone()).collect();
        let text = schema_text(&Schema::new(fields), &name, &[])?;
        let schema: tapedb_schema::Schema = text.parse().map_err(|error| {
            Error::query(format!(
                "the columns of the view are fields of a stream: {error}; name them with AS"
            ))
        })?;
        schema.validate().map_err(|error| {
            Error::query(format!(
                "the columns of the view are fields of a stream: {error}; name them with AS"
            ))
        })?;
        Ok(schema)
    }

    /// Rows of the query with the columns of the stream.
    fn rename(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        let as_time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        let failed = |error| Error::from(DataFusionError::ArrowError(Box::new(error), None));
        let symbol: ArrayRef = match self.symbol {
            Some(index) => cast(batch.column(index), &DataType::Utf8).map_err(failed)?,
            None => Arc::new(StringArray::from(vec![""; batch.num_rows()])),
        };
        let mut fields =
            vec![Field::new(TIME, as_time.clone(), false), Field::new(SYMBOL, DataType::Utf8, true)];
        let mut columns = vec![cast(batch.column(self.time), &as_time).map_err(failed)?, symbol];
        for index in &self.fields {
            fields.push(batch.schema().field(*index).clone());
            columns.push(batch.column(*index).clone());
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(failed)
    }
}

/// Appends rows, which are there when it returns.
///
/// # Errors
/// When a row does not fit, or cannot be read or written.
pub(super) fn append(
    stream: &Stream,
    columns: &Columns,
    rows: impl Iterator<Item = Result<RecordBatch, Error>>,
) -> Result<(), Error> {
    let mut appender = BatchAppender::new(stream, stream.loader()?, AppendOptions::default())?;
    for batch in rows {
        appender.append(&columns.rename(&batch?)?)?;
    }
    appender.flush()?;
    Ok(())
}

/// Replaces the rows of a range of times, all at once.
///
/// # Errors
/// When a row does not fit, or cannot be read or written: the old rows are still there.
pub(super) fn replace(
    stream: &Stream,
    columns: &Columns,
    times: Range<i64>,
    rows: impl Iterator<Item = Result<RecordBatch, Error>>,
) -> Result<(), Error> {
    let encoder = RowEncoder::new(stream.name(), stream.layouts(), &AppendOptions::default())?;
    let mut rewriter = stream.rewrite(Timestamp(times.start)..Timestamp(times.end), None::<[&str; 0]>)?;
    let mut encoded = EncodedRows::default();
    for batch in rows {
        let found = encoder.columns(&columns.rename(&batch?)?)?;
        let mut next = 0;
        while next < found.len() {
            encoder.encode(&found, next, &mut encoded)?;
            for row in encoded.rows() {
                let (symbol, time) = (found.symbol(row)?, Timestamp(found.time(row)?));
                rewriter.append_body(symbol, time, encoder.type_id(), encoded.body(row))?;
            }
            next = encoded.rows().end;
        }
    }
    rewriter.commit()?;
    Ok(())
}

/// Replaces the rows of symbols by those of the query, all at once, where they are not older than the ones that are there: `times`
/// has the times of these, and of the new rows afterwards. There is one row for each symbol.
///
/// # Errors
/// When a row does not fit, or cannot be read or written: the old rows are still there.
pub(super) fn replace_older(
    stream: &Stream,
    columns: &Columns,
    times: &mut BTreeMap<String, i64>,
    rows: &[RecordBatch],
) -> Result<(), Error> {
    let encoder = RowEncoder::new(stream.name(), stream.layouts(), &AppendOptions::default())?;
    let mut batches = Vec::with_capacity(rows.len());
    let mut new = BTreeMap::new();
    for batch in rows {
        let found = encoder.columns(&columns.rename(batch)?)?;
        for row in 0..found.len() {
            let (symbol, time) = (found.symbol(row)?, found.time(row)?);
            if times.get(symbol).is_none_or(|old| *old <= time) {
                new.insert(symbol.to_string(), time);
            }
        }
        batches.push(found);
    }
    if new.is_empty() {
        return Ok(());
    }
    let mut rewriter = stream.rewrite(.., Some(new.keys()))?;
    let mut encoded = EncodedRows::default();
    for found in &batches {
        let mut next = 0;
        while next < found.len() {
            encoder.encode(found, next, &mut encoded)?;
            for row in encoded.rows() {
                let symbol = found.symbol(row)?;
                if let Some(time) = new.get(symbol) {
                    rewriter.append_body(symbol, Timestamp(*time), encoder.type_id(), encoded.body(row))?;
                }
            }
            next = encoded.rows().end;
        }
    }
    rewriter.commit()?;
    times.append(&mut new);
    Ok(())
}
