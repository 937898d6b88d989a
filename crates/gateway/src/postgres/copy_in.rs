//! Rows of `COPY … FROM STDIN`: parsed as they arrive, and stored as messages of one stream.
//!
//! Always true: rows of at most [`PIECE_BYTES`] are stored whole or not at all; more of them in pieces of that, each checked before any of
//! it is stored. An error names the line, and states how many rows are stored.

use crate::postgres::copy_rows::{CopyRows, Fields, Row};
use crate::postgres::failure::Failure;
use crate::postgres::loaded::LoadedColumn;
use crate::postgres::statement::CopyOptions;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use std::sync::Arc;
use tapedb_arrow::{AppendOptions, BatchAppender};
use tapedb_engine::Stream;

/// Bytes of rows that are checked before any of them is stored.
const PIECE_BYTES: usize = 64 << 20;
/// Rows, and bytes of values, that become one batch.
const BATCH_ROWS: usize = 16 << 10;
const BATCH_BYTES: usize = 8 << 20;

/// A copy into a stream.
pub(crate) struct CopyIn {
    rows: CopyRows,
    columns: Vec<LoadedColumn>,
    appender: BatchAppender,
    /// Bytes of values in `columns`, and the line of each of their rows.
    bytes: usize,
    lines: Vec<u64>,
    /// Batches that are checked and not stored.
    waiting: Vec<RecordBatch>,
    waiting_bytes: usize,
    /// Latest time of the checked batches.
    last: Option<i64>,
}

impl CopyIn {
    /// A copy into columns of a stream, which queries describe.
    ///
    /// # Errors
    /// For columns that cannot be copied.
    pub fn new(
        stream: &Stream,
        record: Option<String>,
        schema: &SchemaRef,
        options: CopyOptions,
    ) -> Result<Self, Failure> {
        let columns: Vec<LoadedColumn> =
            schema.fields().iter().map(LoadedColumn::of).collect::<Result<_, _>>()?;
        let has = |name: &str| columns.iter().any(|column| column.name() == name);
        if !has("time") || !has("symbol") {
            return Err(Failure::new("42601", "COPY needs the columns time, or time_ns, and symbol"));
        }
        let loader = stream.loader().map_err(|error| Failure::new("58000", error.to_string()))?;
        let appender = BatchAppender::new(stream, loader, AppendOptions { record, naive_is_utc: true });
        Ok(Self {
            rows: CopyRows::new(options, columns.len()),
            columns,
            appender: appender.map_err(|error| of_rows(&error, &[]))?,
            bytes: 0,
            lines: Vec::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            last: None,
        })
    }

    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    pub fn is_binary(&self) -> bool {
        self.rows.is_binary()
    }

    /// Takes bytes of rows.
    ///
    /// # Errors
    /// When they are none; the copy has ended then.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.rows.add(bytes)?;
        self.parse(false)
    }

    /// The end of the rows: their number, when all are stored.
    ///
    /// # Errors
    /// As [`CopyIn::take`].
    pub fn finish(&mut self) -> Result<u64, Failure> {
        self.parse(true)?;
        self.check()?;
        self.append()?;
        Ok(self.appender.loader().stored())
    }

    /// An error with how many rows are stored.
    pub fn failed(&mut self, failure: Failure) -> Failure {
        // On a full disk, the first rows of a piece are stored, and the others wait.
        let loader = self.appender.loader();
        loader.discard();
        let text = match loader.stored() {
            0 => format!("{}; no row was stored", failure.text),
            stored => format!("{}; {stored} rows before it are stored", failure.text),
        };
        Failure { text, ..failure }
    }

    fn parse(&mut self, is_end: bool) -> Result<(), Failure> {
        loop {
            if self.rows.next(is_end)? != Row::Fields {
                return Ok(());
            }
            let Fields { line, is_binary, values } = self.rows.fields();
            for (column, value) in self.columns.iter_mut().zip(values) {
                self.bytes += value.map_or(0, <[u8]>::len) + 8;
                column.push(is_binary, value).map_err(|what| {
                    let text = format!("line {line}: column {:?}: {}", column.name(), what.text);
                    Failure::new(what.state, text)
                })?;
            }
            self.lines.push(line);
            if self.lines.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES {
                self.check()?;
                if self.waiting_bytes >= PIECE_BYTES {
                    self.append()?;
                }
            }
        }
    }

    /// Makes a batch of what was parsed, and checks it.
    fn check(&mut self) -> Result<(), Failure> {
        let lines = std::mem::take(&mut self.lines);
        if lines.is_empty() {
            return Ok(());
        }
        self.bytes = 0;
        let arrays: Vec<ArrayRef> = self.columns.iter_mut().map(LoadedColumn::finish).collect();
        let fields = self.columns.iter().zip(&arrays);
        let fields = fields.map(|(column, array)| Field::new(column.name(), array.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch =
            RecordBatch::try_new(schema, arrays).map_err(|error| Failure::new("XX000", error.to_string()))?;
        self.last = self.appender.check(&batch, self.last).map_err(|error| of_rows(&error, &lines))?;
        self.waiting_bytes += batch.get_array_memory_size();
        self.waiting.push(batch);
        Ok(())
    }

    fn append(&mut self) -> Result<(), Failure> {
        for batch in self.waiting.drain(..) {
            self.appender.append(&batch).map_err(|error| of_rows(&error, &[]))?;
        }
        self.appender.flush().map_err(|error| of_rows(&error, &[]))?;
        self.waiting_bytes = 0;
        Ok(())
    }
}

/// An error of a batch, with the line of its row.
fn of_rows(error: &tapedb_arrow::Error, lines: &[u64]) -> Failure {
    use tapedb_arrow::Error;
    match error {
        Error::Value { column, row, what } => match lines.get(*row as usize) {
            Some(line) => Failure::new("22000", format!("line {line}: column {column:?}: {what}")),
            None => Failure::new("22000", error.to_string()),
        },
        Error::Schema { .. } => Failure::new("42601", error.to_string()),
        Error::Engine(_) | Error::Arrow(_) => Failure::new("58000", error.to_string()),
    }
}
