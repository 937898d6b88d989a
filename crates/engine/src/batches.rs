//! Appends batches that were encoded elsewhere, by programs that nobody has to trust: sealing decodes what is in the log,
//! so what gets there is what encoding would have written.

use crate::error::Error;
use crate::maintenance::thread::Maintenance;
use crate::space::Space;
use crate::stream::versions;
use crate::stream::{Stream, StreamInner};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tapedb_codec::batch::{self, Alike, BatchError, BatchHeader, Rows};
use tapedb_codec::dynamic::Layouts;
use tapedb_log::{LogError, Ticket};

/// Appends whole batches to one space of a stream: [`Stream::batches`]. Several can be written before the first is
/// committed, so that one sync answers all; whoever writes from several threads has a loader in each.
#[derive(Debug)]
pub struct BatchLoader {
    stream: Arc<StreamInner>,
    space: Arc<Space>,
    /// Upkeep goes on while somebody uses the database.
    _maintenance: Arc<Maintenance>,
    /// Other versions of the schema than the one that the stream was opened with.
    versions: HashMap<u16, Layouts>,
    rows: Rows,
}

/// A batch that is written and not acknowledged.
#[derive(Debug)]
#[must_use = "it is acknowledged, and shown to those who watch, by BatchLoader::commit"]
pub struct PendingBatch {
    ticket: Ticket,
    is_new: bool,
}

impl PendingBatch {
    /// The sequence numbers that its messages get.
    pub fn sequences(&self) -> Range<u64> {
        self.ticket.sequences()
    }

    /// Whether the batch was stored now; else it was there already, for its producer has sent it before.
    pub fn is_new(&self) -> bool {
        self.is_new
    }
}

impl Stream {
    /// Appends batches that were encoded elsewhere to one of the stream's spaces.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::ReadOnly`]; when the stream has been deleted.
    pub fn batches(&self, space: u32) -> Result<BatchLoader, Error> {
        let space = self.space(space)?.clone();
        if !self.inner.is_writable {
            return Err(Error::ReadOnly);
        }
        self.inner.check_not_deleted()?;
        let (stream, _maintenance) = (self.inner.clone(), self.maintenance.clone());
        Ok(BatchLoader { stream, space, _maintenance, versions: HashMap::new(), rows: Rows::default() })
    }
}

impl BatchLoader {
    /// Number and sequence numbers of the last batch of a producer that is stored in this space: what was sent before it
    /// need not be sent again. `None`: none is known. The newest 4,096 producers are.
    pub fn last_of(&self, producer: u64) -> Option<(u64, Range<u64>)> {
        self.space.writer.as_ref()?.last_of(producer)
    }

    /// Checks a batch and writes it: one whole batch, as [`BatchBuilder`](tapedb_codec::batch::BatchBuilder) makes them.
    /// Its first sequence number is filled in. A batch that its producer has sent before is not stored again.
    ///
    /// # Errors
    /// Nothing is written then. [`Error::Log`] with [`LogError::Batch`] for bytes that are no batch; [`Error::Body`] for a
    /// message that is not of the stream's schema, of a symbol that the stream does not have, or not canonical;
    /// [`Error::Late`] in a stream that refuses late messages; [`Error::Deleted`]; what keeps the log from being written.
    pub fn write(&mut self, batch: &mut [u8]) -> Result<PendingBatch, Error> {
        let header = self.check(batch)?;
        self.write_checked(&header, batch)
    }

    /// [`BatchLoader::write`] for a batch from somebody who is not believed: producer and number are these, whatever the batch says.
    /// Producer 0 is none, whose batches are always new.
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
        let Self { stream, space, .. } = self;
        let turn = stream.turn(space, batch)?;
        if let Some(ticket) = turn.sent_before()? {
            return Ok(PendingBatch { ticket, is_new: false });
        }
        stream.refuse_late(space, header.time_min)?;
        let written = stream.write(turn).inspect_err(|_| stream.ring())?;
        // Under the lock still, so that the next batch is compared with it, even before this one is acknowledged.
        space.last_time.fetch_max(header.time_max, Ordering::Relaxed);
        Ok(PendingBatch { ticket: written.unlock(), is_new: true })
    }

    /// Waits until a batch is as durable as the stream promises, and shows it to those who watch; `batch`: its bytes as
    /// [`BatchLoader::write`] left them. Returns its sequence numbers; for one before its producer's last they are not known
    /// any more, and the range is empty.
    ///
    /// # Errors
    /// What keeps the log from being synced: nobody knows then whether it will be there.
    pub fn commit(&mut self, pending: PendingBatch, batch: &[u8]) -> Result<Range<u64>, Error> {
        let Self { stream, space, .. } = self;
        let PendingBatch { ticket, is_new } = pending;
        let writer = space.writer.as_ref().ok_or(Error::ReadOnly)?;
        let committed = writer.commit(ticket).inspect_err(|_| stream.ring())?;
        stream.announce(space.number, &committed, is_new.then_some(batch));
        Ok(committed.sequences)
    }

    /// Checks everything that the log, readers and sealing rely on.
    fn check(&mut self, batch: &[u8]) -> Result<BatchHeader, Error> {
        self.check_in_order(batch, self.stream.settings.refuses_late())
    }

    /// The rows of a batch that has been checked, whatever order they are in.
    pub(crate) fn check_rows_of(&mut self, batch: &[u8]) -> Result<&Rows, Error> {
        let header = self.check_in_order(batch, false)?;
        self.rows.load_parsed(&header, batch).map_err(LogError::Batch)?;
        Ok(&self.rows)
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
        self.rows.load_parsed(&header, batch).map_err(LogError::Batch)?;
        if is_refused {
            return Err(
                self.body(0, "the batch is not in order of time, and the stream refuses late messages")
            );
        }
        if self.known_layouts(header.schema_version).is_none() {
            let layouts = self.layouts_of(header.schema_version)?;
            self.versions.insert(header.schema_version, layouts);
        }
        let layouts = self.versions.get(&header.schema_version).unwrap_or(&self.stream.layouts);
        check_rows(&self.rows, batch, layouts, symbols).map_err(|(row, what)| self.body(row, &what))?;
        Ok(header)
    }

    fn known_layouts(&self, version: u16) -> Option<&Layouts> {
        let is_own = version == self.stream.definition.schema_version;
        if is_own { Some(&self.stream.layouts) } else { self.versions.get(&version) }
    }

    fn layouts_of(&self, version: u16) -> Result<Layouts, Error> {
        let StreamInner { storage, directory, .. } = &*self.stream;
        let newest = self.stream.newest_version();
        if !(1..=newest).contains(&version) {
            let what = format!("it has version {version} of the schema, of which there are {newest}");
            return Err(self.body(0, &what));
        }
        Ok(Layouts::new(versions::read(&**storage, directory, version)?)?)
    }

    #[cold]
    fn body(&self, row: usize, what: &str) -> Error {
        Error::Body { stream: (*self.stream.name).into(), row: row as u64, what: what.into() }
    }
}

/// Checks the messages of a batch whose bytes have been checked; the first row that is wrong, and what is wrong with it. `rows`:
/// memory that is used again.
pub(crate) fn check_batch_rows(
    header: &BatchHeader,
    batch: &[u8],
    rows: &mut Rows,
    layouts: &Layouts,
    symbols: u32,
) -> Result<(), (usize, String)> {
    if are_plainly_right(header, batch, layouts, symbols) {
        return Ok(());
    }
    rows.load_parsed(header, batch).map_err(|error| (0, error.to_string()))?;
    check_rows(rows, batch, layouts, symbols)
}

/// Whether all rows are right, where they are so alike that this can be told without finding each.
fn are_plainly_right(header: &BatchHeader, batch: &[u8], layouts: &Layouts, symbols: u32) -> bool {
    let Some(Alike { symbol_max, bodies_start }) = Alike::of(header, batch) else { return false };
    let record = layouts.record(header.type_const).ok().filter(|record| record.message);
    symbol_max < symbols
        && record.is_some_and(|record| record.fixed == header.length_const as usize)
        && layouts.are_right(header.type_const, &batch[bodies_start..])
}

/// Checks types, symbols and bodies; the first row that is wrong, and what is wrong with it.
fn check_rows(rows: &Rows, batch: &[u8], layouts: &Layouts, symbols: u32) -> Result<(), (usize, String)> {
    let last = rows.symbols().iter().copied().max();
    if last.is_some_and(|last| last >= symbols)
        && let Some(row) = rows.symbols().iter().position(|symbol| *symbol >= symbols)
    {
        return Err((
            row,
            format!("the stream has {symbols} symbols, and the message's is number {}", rows.symbols()[row]),
        ));
    }
    let mut last_type = None;
    for (row, &type_id) in rows.types().iter().enumerate() {
        if last_type != Some(type_id) {
            let record = layouts.record(type_id).map_err(|error| (row, error.to_string()))?;
            if !record.message {
                return Err((row, format!("{} is only nested in others", record.name)));
            }
            last_type = Some(type_id);
        }
        layouts.check(type_id, &batch[rows.body(row)]).map_err(|error| (row, error.to_string()))?;
    }
    Ok(())
}
