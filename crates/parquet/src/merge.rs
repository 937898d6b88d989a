//! The rows of several files in time order, as encoded messages.

use crate::batch_file::{BatchFile, OpenFile};
use crate::error::Error;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use tapedb_arrow::{BatchColumns, EncodedRows, RowEncoder};

/// Names of the columns of a message's header.
const TIME: &str = "time";
const SYMBOL: &str = "symbol";
const SEQUENCE: &str = "sequence";

/// A file, and what its rows are.
#[derive(Debug)]
pub struct Source {
    /// The file.
    pub file: BatchFile,
    /// Encodes its rows.
    pub encoder: RowEncoder,
    /// The column that is the time.
    pub time: String,
    /// The column that is the symbol.
    pub symbol: String,
}

/// The rows of several files: by time, then by sequence number where files have them, then in the order of the files. A file that
/// is not in time order itself keeps its order.
///
/// A file is opened when its earliest row is due, where it states that time, and closed after its last one.
#[derive(Debug)]
pub struct Merge {
    sources: Vec<Source>,
    readings: Vec<Option<Reading>>,
    due: BinaryHeap<Reverse<Due>>,
    /// The source of the row that was given last.
    current: Option<usize>,
    advance: u64,
}

/// When a source has its next row: its time and sequence number, and the source.
type Due = (i64, u64, usize);

/// A row.
#[derive(Debug, Clone, Copy)]
pub struct MergedRow<'a> {
    /// The file, as a number in the order in which they were given.
    pub source: usize,
    /// Time in nanoseconds since 1970.
    pub time: i64,
    /// Symbol.
    pub symbol: &'a str,
    /// Id of the record type.
    pub type_id: u16,
    /// Body of the message.
    pub body: &'a [u8],
}

/// A file that is open.
#[derive(Debug)]
struct Reading {
    batches: OpenFile,
    columns: BatchColumns,
    sequences: Option<UInt64Array>,
    encoded: EncodedRows,
    row: usize,
    /// Rows of batches before this one.
    rows_before: u64,
}

impl Merge {
    /// A merge of these files.
    pub fn new(sources: Vec<Source>) -> Self {
        let is_only = sources.len() == 1;
        let due = |(index, source): (usize, &Source)| {
            let first = if is_only { None } else { source.earliest() };
            Reverse((first.unwrap_or(i64::MIN), 0, index))
        };
        let due = sources.iter().enumerate().map(due).collect();
        Self { readings: sources.iter().map(|_| None).collect(), sources, due, current: None, advance: 0 }
    }

    /// How much of all files is read, as [`BatchFile::length`] states it for each.
    pub fn advance(&self) -> u64 {
        self.advance
    }

    /// The next row; `None`: that was all.
    ///
    /// # Errors
    /// For a file that is damaged, and for a value that does not fit, with its column and row.
    #[expect(
        clippy::should_implement_trait,
        reason = "rows borrow from the merge, which an iterator does not allow"
    )]
    pub fn next(&mut self) -> Result<Option<MergedRow<'_>>, Error> {
        if let Some(current) = self.current.take() {
            self.go_on(current)?;
        }
        let Some((index, time)) = self.next_due()? else { return Ok(None) };
        self.current = Some(index);
        let source = &self.sources[index];
        let Some(reading) = &self.readings[index] else { return Ok(None) };
        let symbol = reading.columns.symbol(reading.row).map_err(|error| reading.error(source, &error))?;
        let (type_id, body) = (source.encoder.type_id(), reading.encoded.body(reading.row));
        Ok(Some(MergedRow { source: index, time, symbol, type_id, body }))
    }

    /// The source whose row is next, and its time. Files that are due are opened.
    fn next_due(&mut self) -> Result<Option<(usize, i64)>, Error> {
        while let Some(Reverse((time, _, index))) = self.due.pop() {
            if self.readings[index].is_some() {
                return Ok(Some((index, time)));
            }
            self.open(index)?;
        }
        Ok(None)
    }

    fn open(&mut self, index: usize) -> Result<(), Error> {
        let source = &self.sources[index];
        let mut batches = source.file.open_rows()?;
        let Some((batch, read)) = batches.next()? else { return Ok(()) };
        self.advance += read;
        let reading = Reading::of(source, batches, &batch, 0)?;
        self.due.push(Reverse(reading.due(source, index)?));
        self.readings[index] = Some(reading);
        Ok(())
    }

    /// Goes to a source's next row.
    fn go_on(&mut self, index: usize) -> Result<(), Error> {
        let source = &self.sources[index];
        let Some(mut reading) = self.readings[index].take() else { return Ok(()) };
        reading.row += 1;
        if reading.row == reading.columns.len() {
            let rows = reading.rows_before + reading.row as u64;
            let Some((batch, read)) = reading.batches.next()? else { return Ok(()) };
            self.advance += read;
            reading = Reading::of(source, reading.batches, &batch, rows)?;
        } else if reading.row == reading.encoded.rows().end {
            let encoded = source.encoder.encode(&reading.columns, reading.row, &mut reading.encoded);
            encoded.map_err(|error| reading.error(source, &error))?;
        }
        self.due.push(Reverse(reading.due(source, index)?));
        self.readings[index] = Some(reading);
        Ok(())
    }
}

impl Source {
    /// The time of the file's first row, or one before it; `None`: it is not known. A Parquet file states it, an Arrow file is read for it.
    fn earliest(&self) -> Option<i64> {
        match &self.file {
            BatchFile::Parquet(file) => file.earliest(&self.time),
            // What is wrong with it is named when it is due.
            BatchFile::Ipc(_) => {
                let (batch, _) = self.file.open_rows().ok()?.next().ok()??;
                self.encoder.columns(&renamed(&batch, self).ok()?).ok()?.time(0).ok()
            }
        }
    }
}

impl Reading {
    /// A file at the first row of a batch.
    fn of(source: &Source, batches: OpenFile, batch: &RecordBatch, rows_before: u64) -> Result<Self, Error> {
        let path = source.file.path();
        let batch = renamed(batch, source).map_err(|what| Error::new(path, what))?;
        let has_sequences = source.file.origin().is_some_and(|origin| origin.sequences);
        // Earlier versions wrote two columns of that name where a field has it: the first is the header's.
        let column = batch.column_by_name(&source.encoder.header_column(SEQUENCE));
        let sequences = column.or_else(|| batch.column_by_name(SEQUENCE)).filter(|column| {
            has_sequences && *column.data_type() == DataType::UInt64 && column.null_count() == 0
        });
        let sequences = sequences.map(|column| column.as_primitive::<UInt64Type>().clone());
        let columns = source.encoder.columns(&batch).map_err(|error| Error::new(path, error))?;
        let encoded = EncodedRows::default();
        let mut reading = Self { batches, columns, sequences, encoded, row: 0, rows_before };
        let encoded = source.encoder.encode(&reading.columns, 0, &mut reading.encoded);
        encoded.map_err(|error| reading.error(source, &error))?;
        Ok(reading)
    }

    fn due(&self, source: &Source, index: usize) -> Result<Due, Error> {
        let time = self.columns.time(self.row).map_err(|error| self.error(source, &error))?;
        let sequence = self.sequences.as_ref().map_or(0, |sequences| sequences.value(self.row));
        Ok((time, sequence, index))
    }

    /// An error with the row in the file.
    fn error(&self, source: &Source, error: &tapedb_arrow::Error) -> Error {
        let what = match error {
            tapedb_arrow::Error::Value { column, row, what } => {
                format!("column {column:?}, row {}: {what}", self.rows_before + row)
            }
            other => other.to_string(),
        };
        Error::new(source.file.path(), what)
    }
}

/// The batch with the columns of the header under their names, and before the others, which may have the same names.
fn renamed(batch: &RecordBatch, source: &Source) -> Result<RecordBatch, String> {
    if source.time == TIME && source.symbol == SYMBOL {
        return Ok(batch.clone());
    }
    let schema = batch.schema();
    let index = |name: &str| schema.index_of(name).map_err(|_| format!("there is no column {name:?}"));
    let (time, symbol) = (index(&source.time)?, index(&source.symbol)?);
    let others = (0..batch.num_columns()).filter(|index| ![time, symbol].contains(index));
    let order = [(time, Some(TIME)), (symbol, Some(SYMBOL))].into_iter().chain(others.map(|at| (at, None)));
    let (mut fields, mut columns): (Vec<Arc<Field>>, Vec<_>) = (Vec::new(), Vec::new());
    for (index, name) in order {
        let field = schema.field(index).clone();
        fields.push(Arc::new(match name {
            Some(name) => field.with_name(name),
            None => field,
        }));
        columns.push(batch.column(index).clone());
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|error| error.to_string())
}
