//! Appends record batches to a stream.

use crate::encode::{AppendOptions, BatchColumns, EncodedRows, RowEncoder};
use crate::error::Error;
use crate::header::TIME;
use arrow_array::RecordBatch;
use std::collections::HashMap;
use tapedb_engine::{Error as EngineError, Late, Loader, Rejected, Stream, SymbolId};
use tapedb_schema::Timestamp;

/// Appends the rows of record batches to a stream as messages of one record type.
///
/// A batch is checked as a whole before its first row is appended: if any value does not fit, nothing of the batch is in the
/// stream. [`BatchAppender::check`] does this for several batches of one table, before the first of them is appended. Values are
/// converted exactly or refused. `docs/ARROW.md` states which columns and types fit. Memory is bounded by the batch and a piece of its
/// rows, however many bytes the rows have together.
#[derive(Debug)]
pub struct BatchAppender {
    encoder: RowEncoder,
    loader: Loader,
    refuses_late: bool,
    /// Latest time appended.
    last_time: Option<i64>,
    rows: EncodedRows,
}

impl BatchAppender {
    /// An appender to a stream, through a loader of it.
    ///
    /// # Errors
    /// When the stream has no such message type, or several and none is named.
    pub fn new(stream: &Stream, loader: Loader, options: AppendOptions) -> Result<Self, Error> {
        let encoder = RowEncoder::new(stream.name(), stream.layouts(), &options)?;
        let refuses_late = stream.options().late == Late::Refuse;
        Ok(Self { encoder, loader, refuses_late, last_time: None, rows: EncodedRows::default() })
    }

    /// Appends all rows of a batch, or none. Returns how many.
    ///
    /// Rows wait in the loader until it is flushed: see [`Loader::flush`].
    ///
    /// # Errors
    /// For a column that is missing, unknown or of a type that cannot be loaded, and for a value that does not fit: nothing of
    /// the batch is appended. What keeps the log from being written is not such an error: rows before it are appended.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<usize, Error> {
        if let Some(count) = self.append_slices(batch)? {
            return Ok(count);
        }
        let columns = self.encoder.columns(batch)?;
        let count = columns.len();
        let times = (0..count).map(|row| columns.time(row)).collect::<Result<Vec<_>, _>>()?;
        self.check_order(&times, self.last_time)?;
        let symbols = (0..count).map(|row| columns.symbol(row)).collect::<Result<Vec<_>, _>>()?;
        self.check_rows(&columns)?;
        let ids = self.ids(&symbols)?;
        while self.rows.rows().start < count {
            for row in self.rows.rows() {
                let (symbol, time, body) = (ids[symbols[row]], Timestamp(times[row]), self.rows.body(row));
                self.loader.append_body_by_id(symbol, time, self.encoder.type_id(), body)?;
                self.last_time = self.last_time.max(Some(times[row]));
            }
            self.encoder.encode(&columns, self.rows.rows().end, &mut self.rows)?;
        }
        Ok(count)
    }

    /// Checks that all rows of a batch can be appended, and appends nothing: so several batches are appended all or not at all.
    /// `after` is the latest time of the batches before it, as this function returned it.
    ///
    /// # Errors
    /// Those of [`BatchAppender::append`] for columns and values.
    pub fn check(&mut self, batch: &RecordBatch, after: Option<i64>) -> Result<Option<i64>, Error> {
        let after = after.max(self.last_time);
        if let Some(latest) = self.check_slices(batch, after) {
            return Ok(after.max(latest));
        }
        let columns = self.encoder.columns(batch)?;
        let times = (0..columns.len()).map(|row| columns.time(row)).collect::<Result<Vec<_>, _>>()?;
        self.check_order(&times, after)?;
        (0..columns.len()).try_for_each(|row| columns.symbol(row).map(drop))?;
        self.check_rows(&columns)?;
        Ok(after.max(times.iter().copied().max()))
    }

    /// Checks a batch whose columns are slices as the loader takes them: its latest time. `None`: they are not, or something does not
    /// fit.
    fn check_slices(&self, batch: &RecordBatch, after: Option<i64>) -> Option<Option<i64>> {
        let slices = self.encoder.slices(batch)?;
        let is_ordered = !self.refuses_late || self.check_order(slices.times(), after).is_ok();
        let fits = is_ordered && self.loader.check_columns(&slices.columns(self.encoder.record())).is_ok();
        fits.then(|| slices.time_max())
    }

    /// Appends a batch whose columns are slices as the loader takes them. `None`: they are not, or something does not fit, which
    /// reading value by value names.
    fn append_slices(&mut self, batch: &RecordBatch) -> Result<Option<usize>, Error> {
        let Some(slices) = self.encoder.slices(batch) else { return Ok(None) };
        let given_up = self.loader.given_up();
        match self.loader.append_columns(&slices.columns(self.encoder.record())) {
            Ok(count) => {
                self.last_time = self.last_time.max(slices.time_max());
                Ok(Some(count))
            }
            Err(EngineError::Rejected(Rejected::Columns { .. })) => Ok(None),
            // Nothing of the batch has been dropped: a row is late, and is named.
            Err(EngineError::Rejected(Rejected::Late { .. })) if self.loader.given_up() == given_up => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes all rows visible to readers, with the durability of the stream.
    ///
    /// # Errors
    /// As [`Loader::flush`].
    pub fn flush(&mut self) -> Result<u64, Error> {
        Ok(self.loader.flush()?)
    }

    /// The loader.
    pub fn loader(&mut self) -> &mut Loader {
        &mut self.loader
    }

    /// Encodes all rows piece by piece, and leaves the first piece. A batch of usual size is one piece, encoded once.
    fn check_rows(&mut self, columns: &BatchColumns) -> Result<(), Error> {
        self.encoder.encode(columns, 0, &mut self.rows)?;
        if self.rows.rows().end == columns.len() {
            return Ok(());
        }
        while self.rows.rows().end < columns.len() {
            self.encoder.encode(columns, self.rows.rows().end, &mut self.rows)?;
        }
        self.encoder.encode(columns, 0, &mut self.rows)
    }

    /// Checks the order of times, behind those before them, in a stream that refuses late messages.
    fn check_order(&self, times: &[i64], after: Option<i64>) -> Result<(), Error> {
        let mut last = after.unwrap_or(i64::MIN);
        for (row, time) in times.iter().enumerate().filter(|_| self.refuses_late) {
            if *time < last {
                let (time, last) = (Timestamp(*time), Timestamp(last));
                let what = format!("{time} is before {last}, and the stream refuses late messages");
                return Err(Error::value(TIME, row, what));
            }
            last = *time;
        }
        Ok(())
    }

    /// Looks all symbols of a batch up at once.
    fn ids<'a>(&mut self, symbols: &[&'a str]) -> Result<HashMap<&'a str, SymbolId>, Error> {
        let mut distinct: Vec<&str> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for symbol in symbols {
            if seen.insert(*symbol) {
                distinct.push(symbol);
            }
        }
        let ids = self.loader.symbol_ids(&distinct)?;
        Ok(distinct.into_iter().zip(ids).collect())
    }
}
