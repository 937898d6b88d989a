//! Writes messages into a stream.

mod columns;
mod resume;

pub use columns::{MessageColumns, Symbols};

use crate::error::{Error, Invalid, Rejected};
use crate::space::Space;
use crate::stream::binding::Binding;
use crate::stream::origin::Origin;
use crate::stream::reader::{InUse, StreamReader};
use crate::stream::remote::Remote;
use crate::stream::state::StreamState;
use crate::stream::writer::StreamWriter;
use crate::upstream::Loading;
use std::any::TypeId;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tapedb_codec::batch::{BatchBuilder, BatchHeader, MAX_BATCH_BYTES};
use tapedb_codec::dynamic::RecordValue;
use tapedb_codec::{DecodeError, Record};
use tapedb_log::{Committed, LogError, Turn};
use tapedb_schema::Timestamp;

/// Default of [`Loader::set_batch_bytes`].
pub const BATCH_BYTES_DEFAULT: usize = 128 << 10;

/// Most messages in one batch of a loader.
const BATCH_MESSAGES_MAX: usize = 1 << 16;

/// Symbols a loader finds without hashing.
const RECENT_SYMBOLS: usize = 256;

/// A symbol of one stream, looked up once: appending by it saves the lookup by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SymbolId {
    id: u32,
    /// The low half of the stream's id: in another stream the id has another name.
    stream: u32,
}

/// Writes into one stream. Messages collect in a batch; a full batch is appended automatically, [`Loader::flush`] appends
/// the rest. Flushed messages survive as the stream's durability states; other messages are lost with the process.
///
/// Always true: `unsent` is a whole batch that the log has not accepted yet, or empty; `waiting` are whole batches too. They
/// are written in this order: `unsent`, `waiting`, `batch`.
/// `last_time` is not before any message in them.
#[derive(Debug)]
pub struct Loader {
    stream: Arc<StreamReader>,
    to: To,
    _in_use: InUse,
    batch: BatchBuilder,
    batch_bytes: usize,
    unsent: Vec<u8>,
    /// Batches of columns that could not be written when they were appended.
    waiting: VecDeque<Vec<u8>>,
    symbols: HashMap<Box<str>, u32>,
    /// Some of `symbols`, each in its [`recent_slot`]: found with one comparison. Empty names are empty slots.
    recent: Box<[(String, u32); RECENT_SYMBOLS]>,
    /// How many symbols of the stream had been renamed when these were looked up.
    renames: u64,
    last_type: Option<(TypeId, Binding)>,
    /// Latest time that this loader has accepted.
    last_time: i64,
    /// Messages of batches that were written, or given to a server.
    sent: u64,
    /// Messages that were too late for the stream.
    given_up: u64,
    /// Where it is in its source, if it resumes one.
    resumed: Option<resume::Resumed>,
    next_sequence: u64,
}

/// Where batches are written.
#[derive(Debug)]
enum To {
    /// Into a log that this process writes.
    Log { writer: Arc<StreamWriter>, space: Arc<Space> },
    /// To a server.
    Server { remote: Arc<Remote>, loading: Box<dyn Loading> },
}

impl Loader {
    pub(crate) fn open(state: &StreamState, space: u32, in_use: InUse) -> Result<Self, Error> {
        state.space(space)?;
        let to = match state.origin() {
            Origin::Written(writer) => {
                To::Log { writer: writer.clone(), space: writer.spaces[space as usize].clone() }
            }
            Origin::Followed(_) => return Err(Error::ReadOnly),
            Origin::Remote(remote) => {
                state.check_not_deleted()?;
                let loading = remote.named(remote.upstream.load(remote.stream_id, space))?;
                To::Server { remote: remote.clone(), loading }
            }
        };
        let renames = state.dictionary.renames();
        Ok(Self {
            stream: state.reader.clone(),
            to,
            _in_use: in_use,
            batch: BatchBuilder::new(),
            batch_bytes: BATCH_BYTES_DEFAULT,
            unsent: Vec::new(),
            waiting: VecDeque::new(),
            symbols: HashMap::new(),
            recent: Box::new(std::array::from_fn(|_| Default::default())),
            renames,
            last_type: None,
            last_time: i64::MIN,
            sent: 0,
            given_up: 0,
            resumed: None,
            next_sequence: 0,
        })
    }

    /// Sets how many bytes make a batch full, 1 KiB to 8 MiB. Larger batches load faster and reach readers later.
    pub fn set_batch_bytes(&mut self, bytes: usize) {
        self.batch_bytes = bytes.clamp(1 << 10, MAX_BATCH_BYTES / 2);
    }

    /// Appends a record of a Rust type. `symbol` is 1 to 255 bytes.
    ///
    /// # Errors
    /// When the stream has no such record type, the message is too large, nested too deep or, where refused, too old; when
    /// a full batch cannot be written. The message is then not appended, and all before it stay in the loader (but see
    /// [`Loader::flush`]): after a full disk the same call can be made again.
    #[inline]
    pub fn append<T: Record + 'static>(
        &mut self,
        symbol: &str,
        time: Timestamp,
        record: &T,
    ) -> Result<(), Error> {
        let symbol = self.symbol(symbol)?;
        self.append_by_id(symbol, time, record)
    }

    /// Appends a record of a Rust type to a symbol that was looked up before.
    ///
    /// # Errors
    /// As [`Loader::append`].
    #[inline]
    pub fn append_by_id<T: Record + 'static>(
        &mut self,
        symbol: SymbolId,
        time: Timestamp,
        record: &T,
    ) -> Result<(), Error> {
        let Binding { type_id, may_be_too_deep } = self.binding_of::<T>()?;
        let symbol = self.own(symbol)?;
        if self.stored_ahead(1) > 0 {
            self.pass_over(1);
            return Ok(());
        }
        self.admit(time)?;
        if may_be_too_deep {
            self.push_checked(time, symbol, type_id, record)?;
        } else {
            self.batch.push(time.0, symbol, type_id, |body| tapedb_codec::encode(record, body))?;
        }
        self.last_time = self.last_time.max(time.0);
        Ok(())
    }

    /// Adds a record to the batch if readers can decode it.
    fn push_checked<T: Record>(
        &mut self,
        time: Timestamp,
        symbol: u32,
        type_id: u16,
        record: &T,
    ) -> Result<(), Error> {
        let stream = &self.stream;
        self.batch.try_push(time.0, symbol, type_id, |bodies| {
            let start = bodies.len();
            tapedb_codec::encode(record, bodies);
            tapedb_codec::view::<T>(&bodies[start..]).map_err(|error| refused(stream, error)).map(drop)
        })
    }

    /// Appends a record of any type of the stream.
    ///
    /// # Errors
    /// When a value does not fit its field; else as [`Loader::append`].
    pub fn append_value(&mut self, symbol: &str, time: Timestamp, record: &RecordValue) -> Result<(), Error> {
        check_message(&self.stream, record.type_id)?;
        let symbol = self.symbol(symbol)?;
        if self.stored_ahead(1) > 0 {
            self.pass_over(1);
            return Ok(());
        }
        self.admit(time)?;
        let layouts = &self.stream.layouts;
        self.batch.try_push(time.0, symbol.id, record.type_id, |body| {
            layouts.encode(record, body).map_err(Error::from)
        })?;
        self.last_time = self.last_time.max(time.0);
        Ok(())
    }

    /// Appends a body that is encoded already; it is validated.
    ///
    /// # Errors
    /// When the bytes are not such a record; else as [`Loader::append`].
    pub fn append_body(
        &mut self,
        symbol: &str,
        time: Timestamp,
        type_id: u16,
        body: &[u8],
    ) -> Result<(), Error> {
        let symbol = self.symbol(symbol)?;
        self.append_body_by_id(symbol, time, type_id, body)
    }

    /// [`Loader::append_body`] to a symbol that was looked up before.
    ///
    /// # Errors
    /// As [`Loader::append_body`].
    pub fn append_body_by_id(
        &mut self,
        symbol: SymbolId,
        time: Timestamp,
        type_id: u16,
        body: &[u8],
    ) -> Result<(), Error> {
        check_message(&self.stream, type_id)?;
        self.stream.layouts.check(type_id, body).map_err(|error| refused(&self.stream, error))?;
        let symbol = self.own(symbol)?;
        if self.stored_ahead(1) > 0 {
            self.pass_over(1);
            return Ok(());
        }
        self.admit(time)?;
        self.batch.push_bytes(time.0, symbol, type_id, body)?;
        self.last_time = self.last_time.max(time.0);
        Ok(())
    }

    /// Looks many symbols up at once, and gives ids to those that are new to the stream. Behind a server this needs one
    /// round trip instead of one for each.
    ///
    /// # Errors
    /// As [`Loader::symbol`].
    pub fn symbol_ids<S: AsRef<str>>(&mut self, symbols: &[S]) -> Result<Vec<SymbolId>, Error> {
        let names: Vec<&str> = symbols.iter().map(AsRef::as_ref).collect();
        let ids = match &self.to {
            To::Log { writer, .. } => writer.symbol_ids(&names)?,
            To::Server { remote, .. } => remote.symbol_ids(&names)?,
        };
        self.symbols.extend(names.iter().zip(&ids).map(|(name, id)| (Box::from(*name), *id)));
        Ok(ids.into_iter().map(|id| self.symbol_id(id)).collect())
    }

    /// Looks a symbol up, and gives it an id if it is new to the stream.
    ///
    /// # Errors
    /// When it is empty or too long, the stream has too many, or it cannot be written.
    #[inline]
    pub fn symbol(&mut self, symbol: &str) -> Result<SymbolId, Error> {
        if self.renames != self.stream.dictionary.renames() {
            self.forget_symbols();
        }
        let (name, id) = &self.recent[recent_slot(symbol)];
        if name == symbol && !symbol.is_empty() {
            return Ok(self.symbol_id(*id));
        }
        self.look_up(symbol)
    }

    /// After a rename, a cached name may belong to another symbol.
    #[cold]
    fn forget_symbols(&mut self) {
        self.renames = self.stream.dictionary.renames();
        self.symbols.clear();
        self.recent.iter_mut().for_each(|(name, _)| name.clear());
    }

    fn look_up(&mut self, symbol: &str) -> Result<SymbolId, Error> {
        let id = match self.symbols.get(symbol) {
            Some(&id) => id,
            None => {
                let id = match &self.to {
                    To::Log { writer, .. } => writer.symbol_id(symbol)?,
                    To::Server { remote, .. } => remote.symbol_id(symbol)?,
                };
                self.symbols.insert(symbol.into(), id);
                id
            }
        };
        let (name, recent_id) = &mut self.recent[recent_slot(symbol)];
        name.clear();
        name.push_str(symbol);
        *recent_id = id;
        Ok(self.symbol_id(id))
    }

    #[inline]
    fn symbol_id(&self, id: u32) -> SymbolId {
        SymbolId { id, stream: self.stream.definition.id as u32 }
    }

    #[inline]
    fn own(&self, symbol: SymbolId) -> Result<u32, Error> {
        if symbol == self.symbol_id(symbol.id) { Ok(symbol.id) } else { Err(self.foreign(symbol)) }
    }

    #[cold]
    fn foreign(&self, symbol: SymbolId) -> Error {
        let why = "the symbol was looked up in another stream; look it up with this loader";
        Error::Invalid(Invalid::Type {
            stream: (*self.stream.name).into(),
            record: format!("symbol {}", symbol.id).into(),
            why,
        })
    }

    /// Appends all messages to the log. On success they are acknowledged: they survive as the stream's durability states,
    /// and readers see them. Returns the sequence number after the last message appended by this loader.
    ///
    /// # Errors
    /// When the log cannot be written; no message is lost, and the call can be made again once the cause is removed. Behind
    /// a server too: after a full disk, revoked rights or a lost server the loader still has the messages, the next call
    /// sends them again, and each is stored once. In a stream that refuses late messages, [`Rejected::Late`] when another
    /// loader has appended later ones: the waiting messages of this loader are then dropped.
    pub fn flush(&mut self) -> Result<u64, Error> {
        self.send()?;
        if let To::Server { loading, .. } = &mut self.to {
            let flushed = loading.flush();
            self.next_sequence = self.answered(flushed)?;
        }
        Ok(self.next_sequence)
    }

    /// Sends the current batch without waiting for its acknowledgement, which [`Loader::flush`] does. For a feed whose
    /// messages must reach readers at once through a server that answers more slowly than messages arrive. (Where the
    /// database is open in this process, what has been sent is acknowledged.)
    ///
    /// # Errors
    /// As [`Loader::flush`]; also for messages that were sent before and have been refused since.
    pub fn send(&mut self) -> Result<(), Error> {
        // What could not be sent before is sent first.
        self.send_batch()?;
        while let Some(batch) = self.waiting.pop_front() {
            self.unsent = batch;
            self.send_batch()?;
        }
        let count = self.batch.len();
        if self.batch.finish(self.stream.definition.schema_version, &mut self.unsent) > 0 {
            if let Some(resumed) = &mut self.resumed {
                resumed.assign(&mut self.unsent, count)?;
            }
            return self.send_batch();
        }
        let To::Server { loading, .. } = &mut self.to else { return Ok(()) };
        let went_on = loading.go_on();
        self.answered(went_on)
    }

    /// Messages that have not been acknowledged: those that a flush would wait for.
    pub fn pending(&self) -> usize {
        self.unsent()
            + match &self.to {
                To::Log { .. } => 0,
                To::Server { loading, .. } => loading.unacknowledged(),
            }
    }

    /// Messages of this loader that are acknowledged: after a flush that failed, what is stored of those before it.
    pub fn stored(&self) -> u64 {
        match &self.to {
            To::Log { .. } => self.sent,
            To::Server { loading, .. } => {
                self.sent.saturating_sub(loading.unacknowledged() as u64 + loading.given_up())
            }
        }
    }

    /// Messages that were dropped since the loader was created: those that waited when a stream refused them as late. They
    /// are not stored.
    pub fn given_up(&self) -> u64 {
        self.given_up
            + match &self.to {
                To::Log { .. } => 0,
                To::Server { loading, .. } => loading.given_up(),
            }
    }

    /// Messages that have not been sent: those of the current batch. Where the database is open in this process, what is
    /// sent is acknowledged, and this is [`Loader::pending`].
    pub fn unsent(&self) -> usize {
        let waiting = std::iter::once(&self.unsent).chain(&self.waiting);
        let count = |batch: &Vec<u8>| BatchHeader::parse(batch).map_or(0, |header| header.count as usize);
        waiting.map(count).sum::<usize>() + self.batch.len()
    }

    /// Drops the messages that wait for a flush, as after one that failed: they are not appended later. Returns how many.
    /// (Through a server, messages that were sent are not among them.)
    pub fn discard(&mut self) -> usize {
        let pending = self.pending();
        self.unsent.clear();
        self.waiting.clear();
        self.batch.clear();
        self.forget_positions();
        pending
    }

    /// Flushes and ends the loader. (Dropping it flushes too, but cannot return an error.)
    ///
    /// # Errors
    /// As [`Loader::flush`].
    pub fn close(mut self) -> Result<u64, Error> {
        self.flush()
    }

    /// Appends `unsent` to the log.
    fn send_batch(&mut self) -> Result<(), Error> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        let header = BatchHeader::parse(&self.unsent).map_err(LogError::Batch)?;
        let (writer, space) = match &mut self.to {
            To::Log { writer, space } => (&**writer, &**space),
            To::Server { loading, .. } => {
                self.stream.check_not_deleted()?;
                let sent = loading.append(&mut self.unsent);
                self.sent += if sent.is_ok() { u64::from(header.count) } else { 0 };
                return self.answered(sent);
            }
        };
        let turn = writer.turn(space, &mut self.unsent)?;
        if header.producer != 0 && turn.sent_before()?.is_some() {
            let what = "another loader has appended messages of this source; begin again with resume".into();
            return Err(Error::Invalid(Invalid::Position { what }));
        }
        // Again, now that no other loader can append in between.
        let last = space.last_time.load(Ordering::Relaxed);
        if let Err(error) = self.stream.refuse_late(header.time_min, last) {
            drop(turn);
            self.give_up();
            return Err(error);
        }
        let committed = write(writer, space, turn, header.time_max);
        let committed = committed.inspect_err(|_| writer.notify())?;
        writer.announce(space.number, &committed, Some(&self.unsent));
        self.unsent.clear();
        self.sent += u64::from(header.count);
        self.next_sequence = committed.sequences.end;
        Ok(())
    }

    /// A server's answer, with the stream's name in errors. Late messages stay too late: they are dropped.
    fn answered<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::Rejected(Rejected::Late { .. })) = result {
            self.give_up();
        }
        match &self.to {
            To::Log { .. } => result,
            To::Server { remote, .. } => remote.named(result),
        }
    }

    fn give_up(&mut self) {
        self.given_up += self.unsent() as u64;
        self.unsent.clear();
        self.waiting.clear();
        self.batch.clear();
    }

    /// Makes space for one more message at `time`, and checks that the stream accepts it.
    #[inline]
    fn admit(&mut self, time: Timestamp) -> Result<(), Error> {
        if self.batch.payload_bytes() >= self.batch_bytes || self.batch.len() >= BATCH_MESSAGES_MAX {
            self.send()?;
        }
        if self.stream.settings.refuses_late() {
            self.refuse_late(time)?;
        }
        Ok(())
    }

    fn refuse_late(&self, time: Timestamp) -> Result<(), Error> {
        if time.0 < self.last_time {
            let last = Timestamp(self.last_time);
            return Err(Error::Rejected(Rejected::Late { stream: self.stream.name.clone(), time, last }));
        }
        match &self.to {
            To::Log { space, .. } => self.stream.refuse_late(time.0, space.last_time.load(Ordering::Relaxed)),
            // The server compares it with the messages that it has.
            To::Server { .. } => Ok(()),
        }
    }

    #[inline]
    fn binding_of<T: Record + 'static>(&mut self) -> Result<Binding, Error> {
        let key = TypeId::of::<T>();
        match self.last_type {
            Some((last, binding)) if last == key => Ok(binding),
            _ => {
                let binding = self.stream.binding_of::<T>()?;
                check_message(&self.stream, binding.type_id)?;
                self.last_type = Some((key, binding));
                Ok(binding)
            }
        }
    }
}

/// Writes a batch and waits until it is as durable as the stream promises.
fn write(
    writer: &StreamWriter,
    space: &Space,
    turn: Turn<'_, '_>,
    time_max: i64,
) -> Result<Committed, Error> {
    let written = writer.write(turn)?;
    // While still under the lock, so that the next batch is compared with it, even before this one is acknowledged.
    space.last_time.fetch_max(time_max, Ordering::Relaxed);
    Ok(written.commit()?)
}

/// The slot of a symbol in [`Loader::recent`]: by its length and its last eight bytes, where symbols differ most.
#[inline]
fn recent_slot(symbol: &str) -> usize {
    let bytes = symbol.as_bytes();
    let mixed =
        bytes.iter().rev().take(8).fold(bytes.len() as u64, |mixed, &byte| mixed << 8 ^ u64::from(byte));
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % RECENT_SYMBOLS
}

impl Drop for Loader {
    fn drop(&mut self) {
        // A full disk or a deleted stream: `close` returns the error.
        let _ = self.flush();
    }
}

/// Checks that a record type is that of messages.
pub(crate) fn check_message(stream: &StreamReader, type_id: u16) -> Result<(), Error> {
    let record = stream.layouts.record(type_id);
    let record = record.map_err(|error| refused(stream, error))?;
    if record.message {
        return Ok(());
    }
    let why = "only nested in others; it is declared `record`, not `message`";
    Err(Error::Invalid(Invalid::Type { stream: (*stream.name).into(), record: (*record.name).into(), why }))
}

#[cold]
pub(crate) fn refused(stream: &StreamReader, error: DecodeError) -> Error {
    Error::Rejected(Rejected::Malformed { stream: stream.name.clone(), error: Box::new(error) })
}
