//! Replaces messages of a range of times by others.
//!
//! The log is sealed to its end, the new messages become a segment after it, and one change of the manifest both adds that
//! segment and deletes the old messages. Only then the log continues, after the numbers of the new messages. So after a
//! power failure at any time either the old or the new messages are there, and no reader sees only part of the change.
//!
//! An open cursor may still return old messages that it has in memory, as after a deletion. The new messages come after its
//! history; a live cursor gets them like all later messages, in order of arrival, with their times.
//!
//! A stream behind a server sends the new messages there in batches, and the server makes the change with the same code.

mod staged;

use crate::batches::BatchLoader;
use crate::clock::random;
use crate::error::{Error, Invalid, Rejected, Stale};
use crate::loader::{check_message, refused};
use crate::maintenance::context::MaintenanceContext;
use crate::maintenance::part::{FillError, FilledSegment, Out, commit_with, write_segment};
use crate::maintenance::retention::tier_for;
use crate::maintenance::seal::seal_complete;
use crate::space::Space;
use crate::space::catalog::{Catalog, Content};
use crate::space::deletion::Deletion;
use crate::stream::Stream;
use crate::stream::binding::Binding;
use crate::stream::edit::{bounds, delete, find_last_time};
use crate::stream::origin::Origin;
use crate::stream::reader::{InUse, StreamReader};
use crate::stream::remote::Remote;
use crate::stream::writer::StreamWriter;
use crate::upstream::{Replacement, Replacing, Target};
use staged::Staged;
use std::collections::HashSet;
use std::ops::{Range, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tapedb_codec::Record;
use tapedb_codec::batch::{BatchBuilder, MAX_MESSAGE_BYTES, PushError, Rows};
use tapedb_codec::dynamic::RecordValue;
use tapedb_log::Hold;
use tapedb_schema::Timestamp;
use tapedb_segment::{BlockOptions, Plan, RowHeader, SegmentError, SegmentHeader, SegmentWriter};

/// Most bytes of new messages, including about 50 for each message beside its body. At most 32 MiB of them are in memory.
pub const REWRITE_BYTES_MAX: u64 = 4 << 30;

/// Bytes of a batch that is sent elsewhere: each needs a round trip.
const SENT_BYTES: usize = 1 << 20;
/// Most messages in such a batch.
const SENT_MESSAGES_MAX: usize = 1 << 16;

/// Collects the messages that replace others: [`Stream::rewrite`]. The stream stays unchanged before [`Rewriter::commit`],
/// and if it is dropped.
#[derive(Debug)]
pub struct Rewriter {
    stream: Arc<StreamReader>,
    _in_use: InUse,
    /// First and last time; `None`: the range is empty.
    times: Option<(i64, i64)>,
    symbols: Option<HashSet<String>>,
    to: To,
}

/// Where the new messages are collected.
#[derive(Debug)]
enum To {
    /// In this process, which writes the stream.
    Here {
        writer: Arc<StreamWriter>,
        space: Arc<Space>,
        staged: Staged,
    },
    Server(Sending),
}

/// Sends them to the stream's server.
#[derive(Debug)]
struct Sending {
    remote: Arc<Remote>,
    replacing: Box<dyn Replacing>,
    batch: BatchBuilder,
    buffer: Vec<u8>,
    /// The number of added messages.
    len: u64,
}

impl Stream {
    /// Replaces the messages of a range of times, of all symbols or of some, by those that are appended to the rewriter:
    /// all at once, at [`Rewriter::commit`]. For streams of one space.
    ///
    /// ```
    /// # use tapedb_codec::{Record, SchemaBuilder};
    /// # use tapedb_engine::{Database, StreamOptions};
    /// # use tapedb_schema::Timestamp;
    /// # #[derive(Record, Debug, Default, PartialEq)]
    /// # #[record(message)]
    /// # struct Tick { price: f64 }
    /// # let directory = tempfile::tempdir()?;
    /// # let db = Database::open(directory.path().join("db"))?;
    /// # let ticks = db.create_stream("ticks", SchemaBuilder::new().with::<Tick>().finish(), StreamOptions::default())?;
    /// let mut loader = ticks.loader()?;
    /// for time in 1..=3 {
    ///     loader.append("AIG", Timestamp(time), &Tick { price: 1.0 })?;
    /// }
    /// loader.flush()?;
    /// let mut rewriter = ticks.rewrite(Timestamp(2)..Timestamp(3), None::<[&str; 0]>)?;
    /// rewriter.append("AIG", Timestamp(2), &Tick { price: 2.0 })?;
    /// rewriter.commit()?;
    ///
    /// let mut cursor = ticks.cursor().open()?;
    /// let mut prices = Vec::new();
    /// while let Some(message) = cursor.next()? {
    ///     prices.push(message.decode::<Tick>()?.price);
    /// }
    /// assert_eq!(prices, [1.0, 2.0, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Stream::rewrite_in`]; [`Invalid::Options`] for a stream of several spaces.
    pub fn rewrite<S: Into<String>>(
        &self,
        times: impl RangeBounds<Timestamp>,
        symbols: Option<impl IntoIterator<Item = S>>,
    ) -> Result<Rewriter, Error> {
        if self.spaces() > 1 {
            let what = "the stream has several spaces, and a rewrite changes one; use `rewrite_in`";
            return Err(Error::Invalid(Invalid::Options { what }));
        }
        self.rewrite_in(0, times, symbols)
    }

    /// [`Stream::rewrite`], for the messages of one space.
    ///
    /// # Errors
    /// [`NotFound::Space`](crate::NotFound::Space); [`Invalid::Options`] for a transient stream; when the database is open for
    /// reading only, or the stream has been deleted.
    pub fn rewrite_in<S: Into<String>>(
        &self,
        space: u32,
        times: impl RangeBounds<Timestamp>,
        symbols: Option<impl IntoIterator<Item = S>>,
    ) -> Result<Rewriter, Error> {
        let state = &self.state;
        state.space(space)?;
        if state.is_followed() {
            return Err(Error::ReadOnly);
        }
        if state.definition.options.is_transient() {
            let what = "a transient stream has no files to rewrite; delete its messages and append others";
            return Err(Error::Invalid(Invalid::Options { what }));
        }
        state.check_not_deleted()?;
        let times = bounds(&times);
        let symbols: Option<Vec<String>> =
            symbols.map(|symbols| symbols.into_iter().map(Into::into).collect());
        let to = match state.origin() {
            Origin::Written(writer) => {
                let space = writer.spaces[space as usize].clone();
                To::Here { writer: writer.clone(), space, staged: Staged::default() }
            }
            Origin::Followed(_) => return Err(Error::ReadOnly),
            Origin::Remote(remote) => {
                To::Server(Sending::begin(self.name(), remote, space, (times, symbols.clone()))?)
            }
        };
        let symbols = symbols.map(|symbols| symbols.into_iter().collect());
        Ok(Rewriter { stream: state.reader.clone(), _in_use: self.in_use.clone(), times, symbols, to })
    }
}

impl Rewriter {
    /// Adds a record of a Rust type. Times may come in any order; equal times stay in the order of the calls.
    ///
    /// # Errors
    /// [`Rejected::Outside`] for a time or symbol that is not being rewritten; when the stream has no such record type, or the
    /// message is too large or nested too deep; [`Invalid::Options`] when there are more than [`REWRITE_BYTES_MAX`] bytes. The
    /// message is then not added.
    pub fn append<T: Record + 'static>(
        &mut self,
        symbol: &str,
        time: Timestamp,
        record: &T,
    ) -> Result<(), Error> {
        let stream = self.stream.clone();
        let Binding { type_id, may_be_too_deep } = stream.binding_of::<T>()?;
        self.add(symbol, time, type_id, |bodies| {
            let start = bodies.len();
            tapedb_codec::encode(record, bodies);
            match may_be_too_deep {
                true => tapedb_codec::view::<T>(&bodies[start..]).map(drop).map_err(|e| refused(&stream, e)),
                false => Ok(()),
            }
        })
    }

    /// Adds a record of any type of the stream.
    ///
    /// # Errors
    /// When a value does not fit its field; else as [`Rewriter::append`].
    pub fn append_value(&mut self, symbol: &str, time: Timestamp, record: &RecordValue) -> Result<(), Error> {
        let stream = self.stream.clone();
        self.add(symbol, time, record.type_id, |bodies| Ok(stream.layouts.encode(record, bodies)?))
    }

    /// Adds a body that is encoded already; it is validated.
    ///
    /// # Errors
    /// When the bytes are not such a record; else as [`Rewriter::append`].
    pub fn append_body(
        &mut self,
        symbol: &str,
        time: Timestamp,
        type_id: u16,
        body: &[u8],
    ) -> Result<(), Error> {
        let stream = self.stream.clone();
        self.add(symbol, time, type_id, |bodies| {
            stream.layouts.check(type_id, body).map_err(|error| refused(&stream, error))?;
            bodies.extend_from_slice(body);
            Ok(())
        })
    }

    /// The number of added messages.
    pub fn len(&self) -> u64 {
        match &self.to {
            To::Here { staged, .. } => staged.len(),
            To::Server(sending) => sending.len,
        }
    }

    /// Whether no message has been added: a commit then only deletes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Replaces the messages that have been acknowledged; the change is on the disk when it returns. Returns the sequence
    /// numbers of the new ones, in the order in which they were added. Loaders of the space wait while they are written.
    ///
    /// # Errors
    /// When the stream has been deleted or has another schema, or a file cannot be read or written: the stream is then
    /// unchanged. If that cannot be ensured, the space accepts no messages until the database is opened again
    /// ([`LogError::Poisoned`](crate::LogError::Poisoned)).
    pub fn commit(self) -> Result<Range<u64>, Error> {
        let Self { stream, times, symbols, to, .. } = self;
        match to {
            To::Here { writer, space, staged } => {
                let context = MaintenanceContext { stream: &stream, writer: &writer, space: &space };
                Change { context, times, symbols, staged }.make()
            }
            To::Server(sending) => {
                stream.check_not_deleted()?;
                sending.commit(stream.definition.schema_version)
            }
        }
    }

    /// Adds the messages of a batch that was encoded elsewhere; they are validated.
    ///
    /// # Errors
    /// If a message is outside the range or the batch does not fit the stream's schema, none of them is added; else as
    /// [`Rewriter::append`], and some may have been added.
    pub(crate) fn append_batch(&mut self, loader: &mut BatchLoader, batch: &[u8]) -> Result<(), Error> {
        loader.check_rows_of(batch, |rows, bytes| self.append_rows(rows, bytes))
    }

    /// Adds rows whose bodies are in `bytes`, and which have been validated.
    fn append_rows(&mut self, rows: &Rows, bytes: &[u8]) -> Result<(), Error> {
        if rows.header().schema_version != self.stream.definition.schema_version {
            return Err(Error::Stale(Stale::Outdated { stream: (*self.stream.name).into() }));
        }
        let name = |row: usize| self.stream.dictionary.name(rows.symbols()[row]).unwrap_or("?");
        for (row, time) in rows.times().iter().enumerate() {
            self.check_inside(name(row), Timestamp(*time))?;
        }
        for row in 0..rows.len() {
            let (time, symbol, type_id) = (rows.times()[row], rows.symbols()[row], rows.types()[row]);
            self.push(symbol, time, type_id, |bodies| {
                bodies.extend_from_slice(&bytes[rows.body(row)]);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        symbol: &str,
        time: Timestamp,
        type_id: u16,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        check_message(&self.stream, type_id)?;
        self.check_inside(symbol, time)?;
        let symbol = match &self.to {
            To::Here { writer, .. } => writer.symbol_id(symbol)?,
            To::Server(sending) => sending.remote.symbol_id(symbol)?,
        };
        self.push(symbol, time.0, type_id, encode)
    }

    fn push(
        &mut self,
        symbol: u32,
        time: i64,
        type_id: u16,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match &mut self.to {
            To::Here { staged, .. } if staged.bytes() >= REWRITE_BYTES_MAX => {
                let what = "the new messages have more than 4 GiB; rewrite shorter ranges of times, one after the other";
                Err(Error::Invalid(Invalid::Options { what }))
            }
            To::Here { space, staged, .. } => {
                staged.push(space, (time, symbol, type_id), |bodies| sized(bodies, encode))
            }
            To::Server(sending) => {
                let version = self.stream.definition.schema_version;
                sending.push(version, (time, symbol, type_id), encode)
            }
        }
    }

    fn check_inside(&self, symbol: &str, time: Timestamp) -> Result<(), Error> {
        let in_time = self.times.is_some_and(|(from, last)| (from..=last).contains(&time.0));
        let is_wanted = self.symbols.as_ref().is_none_or(|symbols| symbols.contains(symbol));
        if in_time && is_wanted {
            return Ok(());
        }
        Err(Error::Rejected(Rejected::Outside {
            stream: (*self.stream.name).into(),
            time,
            symbol: symbol.into(),
        }))
    }
}

/// Appends a body that is not too large for a message.
fn sized(bodies: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>) -> Result<(), Error> {
    let start = bodies.len();
    encode(bodies)?;
    match bodies.len() - start {
        bytes if bytes > MAX_MESSAGE_BYTES => {
            Err(Error::Rejected(Rejected::Size(PushError::MessageTooLarge { bytes })))
        }
        _ => Ok(()),
    }
}

impl Sending {
    fn begin(
        stream: &str,
        remote: &Arc<Remote>,
        space: u32,
        (times, symbols): (Option<(i64, i64)>, Option<Vec<String>>),
    ) -> Result<Self, Error> {
        let (from, last) = times.unwrap_or((0, -1));
        let target = Target { stream_id: remote.stream_id, name: stream.into() };
        let replacement = Replacement { stream: target, rewrite: random(), space, from, last, symbols };
        let replacing = remote.named(remote.upstream.replace(&replacement))?;
        let (batch, buffer) = (BatchBuilder::new(), Vec::new());
        Ok(Self { remote: remote.clone(), replacing, batch, buffer, len: 0 })
    }

    fn push(
        &mut self,
        schema_version: u16,
        (time, symbol, type_id): (i64, u32, u16),
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.batch.payload_bytes() >= SENT_BYTES || self.batch.len() >= SENT_MESSAGES_MAX {
            self.send(schema_version)?;
        }
        self.batch.try_push(time, symbol, type_id, encode)?;
        self.len += 1;
        Ok(())
    }

    fn send(&mut self, schema_version: u16) -> Result<(), Error> {
        self.buffer.clear();
        if self.batch.finish(schema_version, &mut self.buffer) > 0 {
            self.remote.named(self.replacing.append(&self.buffer))?;
        }
        Ok(())
    }

    fn commit(mut self, schema_version: u16) -> Result<Range<u64>, Error> {
        self.send(schema_version)?;
        let replaced = self.remote.named(self.replacing.commit())?;
        // The change is complete; readers see it after this.
        let _ = self.remote.refresh();
        Ok(replaced)
    }
}

/// Makes the change.
struct Change<'a> {
    context: MaintenanceContext<'a>,
    times: Option<(i64, i64)>,
    symbols: Option<HashSet<String>>,
    staged: Staged,
}

impl Change<'_> {
    fn make(mut self) -> Result<Range<u64>, Error> {
        let MaintenanceContext { stream, space, .. } = self.context;
        let _maintenance = space.hold_maintenance();
        stream.check_not_deleted()?;
        stream.check_not_outdated()?;
        // Most of it while loaders continue.
        if space.writer.roll()? {
            stream.notify();
        }
        seal_complete(self.context)?;
        let mut hold = space.writer.hold_idle();
        hold.roll()?;
        seal_complete(self.context)?;
        self.staged.sort();
        let replaced = self.replace(&mut hold)?;
        if find_last_time(stream, space).is_err() {
            // The change was made nevertheless. No message after the last new one is late.
            let last = self.staged.times().map_or(i64::MIN, |(_, last)| last);
            space.last_time.fetch_max(last, Ordering::Relaxed);
        }
        drop(hold);
        stream.notify();
        // The log continues after the new messages only now.
        self.context.writer.note_skipped();
        Ok(replaced)
    }

    /// While no message is appended, and all messages are sealed.
    fn replace(&self, hold: &mut Hold<'_>) -> Result<Range<u64>, Error> {
        let MaintenanceContext { stream, space, .. } = self.context;
        let first = hold.next_sequence();
        let new = first..first + self.staged.len();
        let Some((from, last)) = self.times else { return Ok(new) };
        let symbols = self.symbols.as_ref().map(|symbols| stream.ids_of(symbols));
        if symbols.as_ref().is_some_and(Vec::is_empty) {
            // The stream has none of the symbols, so there are no new messages either.
            return Ok(new);
        }
        let deletion = Deletion { number: 0, from, last, sequences: 0..first, symbols };
        if new.is_empty() {
            delete(space, deletion)?;
            return Ok(new);
        }
        let part = write_segment(self.context, new.clone(), |out, header| self.fill(out, header).map(Some))?;
        let Some(part) = part else { return Ok(first..first) };
        let committed = commit_with(self.context, part, |catalog, part| {
            let number = space.number_in_change();
            catalog.rewritten(part, Deletion { number, ..deletion })
        });
        match committed {
            Ok(true) => hold.skip_to(new.end),
            Ok(false) => {
                // Nothing else changes sealed messages while maintenance is held.
                stream.check_not_deleted()?;
                return Err(Error::Stale(Stale::Outdated { stream: (*stream.name).into() }));
            }
            Err(error) => {
                if !is_as_before(space) {
                    hold.poison(format!("it is unknown whether a rewrite was committed: {error}"));
                }
                return Err(error);
            }
        }
        Ok(new)
    }

    /// Writes the new messages.
    fn fill(&self, out: Out, header: &SegmentHeader) -> Result<FilledSegment, FillError> {
        let (time_min, time_max) = self.staged.times().unwrap_or_default();
        let tier = tier_for(self.context, time_max);
        let options = BlockOptions { tier, ..BlockOptions::default() };
        let plan = Plan::new(self.context.stream.layouts.clone());
        let mut writer = SegmentWriter::new(out, plan, header, options)?;
        self.staged.each(|row, body| {
            let sequence = header.first_sequence + row.nth;
            let (time, symbol, type_id) = (row.time, row.symbol, row.type_id);
            writer.push(RowHeader { time, sequence, symbol, type_id }, body).map_err(FillError::from)
        })?;
        let (_, written, proof) = writer.finish_with_proof()?;
        let (messages, bytes) = (written.messages, written.bytes);
        if messages != self.staged.len() {
            return Err(SegmentError::Incomplete { need: self.staged.len(), have: messages }.into());
        }
        let content =
            Content { number: 0, messages, time_min, time_max, bytes, tier, deleted_before: 0, object: None };
        Ok(FilledSegment { content, lost: 0, written, proof })
    }
}

/// A manifest whose write failed may still be on the disk: writes the previous catalog again. `false`: it is unknown which
/// one is there.
fn is_as_before(space: &Space) -> bool {
    let restored =
        |catalog: &Catalog| Some(Catalog { generation: catalog.generation + 2, ..catalog.clone() });
    space.change_catalog(restored).is_ok()
}
