//! Appends batches that other programs encoded. They are not trusted: sealing decodes what is in the log, so a batch is
//! appended only if encoding would have produced it.

use crate::error::{Error, Rejected};
use crate::rows::{are_plainly_right, check_columns, check_rows};
use crate::space::Space;
use crate::stream::reader::{InUse, StreamReader};
use crate::stream::state::StreamState;
use crate::stream::versions;
use crate::stream::writer::StreamWriter;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tapedb_codec::batch::{self, BatchError, BatchHeader, Rows};
use tapedb_codec::dynamic::Layouts;
use tapedb_log::{LogError, Ticket};

/// Appends whole batches to one space of a stream: [`Stream::batches`](crate::Stream::batches). Several can be written
/// before the first is committed, so that one sync covers all. Each thread that writes needs its own loader.
#[derive(Debug)]
pub struct BatchLoader {
    stream: Arc<StreamReader>,
    writer: Arc<StreamWriter>,
    space: Arc<Space>,
    _in_use: InUse,
    /// Other versions of the schema than the one that the stream was opened with.
    versions: HashMap<u16, Layouts>,
    rows: Rows,
}

/// A batch that is written and not acknowledged.
#[derive(Debug)]
#[must_use = "it is acknowledged, and shown to readers, by BatchLoader::commit"]
pub struct PendingBatch {
    ticket: Ticket,
    is_new: bool,
}

impl PendingBatch {
    /// The sequence numbers of its messages.
    pub fn sequences(&self) -> Range<u64> {
        self.ticket.sequences()
    }

    /// Whether the batch was stored now; `false`: its producer has sent it before.
    pub fn is_new(&self) -> bool {
        self.is_new
    }
}

impl BatchLoader {
    /// A loader for one of the stream's spaces.
    ///
    /// # Errors
    /// [`NotFound::Space`](crate::NotFound::Space), [`Error::ReadOnly`]; when the stream has been deleted.
    pub(crate) fn open(state: &StreamState, space: u32, in_use: InUse) -> Result<Self, Error> {
        state.space(space)?;
        let writer = state.writer()?.clone();
        writer.check_not_deleted()?;
        let space = writer.spaces[space as usize].clone();
        let (versions, rows) = (HashMap::new(), Rows::default());
        Ok(Self { stream: state.reader.clone(), writer, space, _in_use: in_use, versions, rows })
    }

    /// Number and sequence numbers of the last batch of a producer that is stored in this space: earlier ones need not be
    /// sent again. `None`: none is recorded. The newest 65,536 producers are.
    pub fn last_of(&self, producer: u64) -> Option<(u64, Range<u64>)> {
        self.space.writer.last_of(producer)
    }

    /// Checks a batch and writes it: one whole batch, as [`BatchBuilder`](tapedb_codec::batch::BatchBuilder) makes them.
    /// Its first sequence number is filled in. A batch that its producer has sent before is not stored again.
    ///
    /// # Errors
    /// No byte is written then. [`Error::Log`] with [`LogError::Batch`] for bytes that are no batch; [`Rejected::Body`] for
    /// a message that is not of the stream's schema, of a symbol that the stream does not have, or not canonical;
    /// [`Rejected::Late`] in a stream that refuses late messages; [`Stale::Deleted`](crate::Stale::Deleted); when the log
    /// cannot be written.
    pub fn write(&mut self, batch: &mut [u8]) -> Result<PendingBatch, Error> {
        let header = self.check(batch)?;
        self.write_checked(&header, batch)
    }

    /// [`BatchLoader::write`] for a batch from a client that is not trusted: producer and number replace those in the
    /// batch. Producer 0 means no producer: its batches are always new.
    ///
    /// # Errors
    /// As [`BatchLoader::write`].
    pub fn write_from(
        &mut self,
        batch: &mut [u8],
        producer: u64,
        number: u64,
    ) -> Result<PendingBatch, Error> {
        let header = self.check(batch)?;
        let number = if producer == 0 { 0 } else { number };
        if (header.producer, header.producer_number) != (producer, number) {
            batch::assign_producer(batch, producer, number).map_err(LogError::Batch)?;
        }
        self.write_checked(&header, batch)
    }

    /// Writes a batch whose bytes have been checked; its producer and number are those in the bytes.
    fn write_checked(&mut self, header: &BatchHeader, batch: &mut [u8]) -> Result<PendingBatch, Error> {
        let Self { stream, writer, space, .. } = self;
        let turn = writer.turn(space, batch)?;
        if let Some(ticket) = turn.sent_before()? {
            return Ok(PendingBatch { ticket, is_new: false });
        }
        stream.refuse_late(header.time_min, space.last_time.load(Ordering::Relaxed))?;
        let written = writer.write(turn).inspect_err(|_| writer.notify())?;
        // While still under the lock, so that the next batch is compared with it, even before this one is acknowledged.
        space.last_time.fetch_max(header.time_max, Ordering::Relaxed);
        Ok(PendingBatch { ticket: written.unlock(), is_new: true })
    }

    /// Waits until a batch is as durable as the stream guarantees, and shows it to readers; `batch`: its bytes as
    /// [`BatchLoader::write`] left them. Returns its sequence numbers; the range is empty for a batch before its producer's
    /// last one, whose numbers are no longer recorded.
    ///
    /// # Errors
    /// When the log cannot be synced: it is then unknown whether the batch is stored.
    pub fn commit(&mut self, pending: PendingBatch, batch: &[u8]) -> Result<Range<u64>, Error> {
        let Self { writer, space, .. } = self;
        let PendingBatch { ticket, is_new } = pending;
        let committed = space.writer.commit(ticket).inspect_err(|_| writer.notify())?;
        writer.announce(space.number, &committed, is_new.then_some(batch));
        Ok(committed.sequences)
    }

    /// Checks all properties that the log, readers and sealing rely on.
    fn check(&mut self, batch: &[u8]) -> Result<BatchHeader, Error> {
        self.check_in_order(batch, self.stream.settings.refuses_late())
    }

    /// Checks a batch, whose rows may be in any order; calls `take` with its rows and the bytes that have their bodies.
    pub(crate) fn check_rows_of<T>(
        &mut self,
        batch: &[u8],
        take: impl FnOnce(&Rows, &[u8]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let header = self.check_in_order(batch, false)?;
        if !header.is_columnar() {
            self.rows.load_parsed(&header, batch).map_err(LogError::Batch)?;
            return take(&self.rows, batch);
        }
        let mut unfolded = Vec::new();
        let layouts = self.versions.get(&header.schema_version).unwrap_or(&self.stream.layouts);
        let header = batch::to_rows(&header, batch, layouts, &mut unfolded).map_err(LogError::Batch)?;
        self.rows.load_parsed(&header, &unfolded).map_err(LogError::Batch)?;
        take(&self.rows, &unfolded)
    }

    fn check_in_order(&mut self, batch: &[u8], must_be_sorted: bool) -> Result<BatchHeader, Error> {
        let header = batch::check(batch).map_err(LogError::Batch)?;
        let (end, have) = (header.batch_bytes(), batch.len());
        if have > end {
            return Err(LogError::Batch(BatchError::Trailing { offset: end, have: have - end }).into());
        }
        let is_refused = must_be_sorted && !header.sorted();
        let symbols = self.stream.dictionary.len();
        if !is_refused
            && let Some(layouts) = self.known_layouts(header.schema_version)
            && are_plainly_right(&header, batch, layouts, symbols)
        {
            return Ok(header);
        }
        match header.is_columnar() {
            false => self.rows.load_parsed(&header, batch).map_err(LogError::Batch)?,
            true => self.rows.load_places(&header, batch).map_err(LogError::Batch)?,
        }
        if is_refused {
            return Err(self.body(0, "the batch is not in time order, and the stream refuses late messages"));
        }
        if self.known_layouts(header.schema_version).is_none() {
            let layouts = self.layouts_of(header.schema_version)?;
            self.versions.insert(header.schema_version, layouts);
        }
        let layouts = self.versions.get(&header.schema_version).unwrap_or(&self.stream.layouts);
        let checked = match header.is_columnar() {
            false => check_rows(&self.rows, batch, layouts, symbols),
            true => check_columns(&header, batch, layouts, symbols),
        };
        checked.map_err(|(row, what)| self.body(row, &what))?;
        Ok(header)
    }

    fn known_layouts(&self, version: u16) -> Option<&Layouts> {
        let is_own = version == self.stream.definition.schema_version;
        if is_own { Some(&self.stream.layouts) } else { self.versions.get(&version) }
    }

    fn layouts_of(&self, version: u16) -> Result<Layouts, Error> {
        let StreamReader { storage, directory, .. } = &*self.stream;
        let newest = self.stream.newest_version();
        if !(1..=newest).contains(&version) {
            let what = format!("it has version {version} of the schema; the newest is {newest}");
            return Err(self.body(0, &what));
        }
        Ok(Layouts::new(versions::read(&**storage, directory, version)?)?)
    }

    #[cold]
    fn body(&self, row: usize, what: &str) -> Error {
        Error::Rejected(Rejected::Body {
            stream: (*self.stream.name).into(),
            row: row as u64,
            what: what.into(),
        })
    }
}
