//! Writes messages into a stream.

use crate::definition::Late;
use crate::error::Error;
use crate::stream::StreamInner;
use std::any::TypeId;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use tapedb_codec::Record;
use tapedb_codec::batch::{BatchBuilder, MAX_BATCH_BYTES};
use tapedb_codec::dynamic::RecordValue;
use tapedb_schema::Timestamp;

/// Default of [`Loader::set_batch_bytes`].
pub const BATCH_BYTES_DEFAULT: usize = 128 << 10;

/// Most messages in one batch of a loader.
const BATCH_MESSAGES_MAX: usize = 1 << 16;

/// A symbol of one stream, looked up once: appending by it saves the lookup by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SymbolId(u32);

/// Writes into one stream. Messages collect in a batch; a full batch is appended by itself, [`Loader::flush`] appends
/// what there is. What a flush has acknowledged survives as the stream's durability says; what has not been flushed
/// is lost with the process.
///
/// Always true: `unsent` is a whole batch that the log has not taken yet, or empty; it goes before `batch`.
#[derive(Debug)]
pub struct Loader {
    stream: Arc<StreamInner>,
    batch: BatchBuilder,
    batch_bytes: usize,
    unsent: Vec<u8>,
    symbols: HashMap<Box<str>, u32>,
    last_symbol: (Box<str>, u32),
    last_type: Option<(TypeId, u16)>,
    /// Latest time in `batch`.
    last_time: i64,
    next_sequence: u64,
}

impl Loader {
    pub(crate) fn new(stream: Arc<StreamInner>) -> Result<Self, Error> {
        if !stream.is_writable() {
            return Err(Error::ReadOnly);
        }
        Ok(Self {
            stream,
            batch: BatchBuilder::new(),
            batch_bytes: BATCH_BYTES_DEFAULT,
            unsent: Vec::new(),
            symbols: HashMap::new(),
            last_symbol: Default::default(),
            last_type: None,
            last_time: i64::MIN,
            next_sequence: 0,
        })
    }

    /// Sets how many bytes make a batch full, 1 KiB to 8 MiB. Larger batches load faster and are seen later.
    pub fn set_batch_bytes(&mut self, bytes: usize) {
        self.batch_bytes = bytes.clamp(1 << 10, MAX_BATCH_BYTES / 2);
    }

    /// Appends a record of a Rust type. `symbol` is 1 to 255 bytes.
    ///
    /// # Errors
    /// When the stream has no such record type, the message is too large or, where refused, too old; and what keeps a
    /// full batch from being written. The message is then not appended, and all before it are kept: after a full disk
    /// the same call can be made again.
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
        let type_id = self.type_id_of::<T>()?;
        self.admit(time)?;
        self.batch.push(time.0, symbol.0, type_id, |body| record.write(body))?;
        Ok(())
    }

    /// Appends a record of any type of the stream.
    ///
    /// # Errors
    /// When a value does not fit its field; else as [`Loader::append`].
    pub fn append_value(&mut self, symbol: &str, time: Timestamp, record: &RecordValue) -> Result<(), Error> {
        let symbol = self.symbol(symbol)?;
        self.admit(time)?;
        let layouts = &self.stream.layouts;
        check_message(&self.stream, record.type_id)?;
        self.batch.try_push(time.0, symbol.0, record.type_id, |body| {
            layouts.encode(record, body).map_err(Error::from)
        })
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
        let check = self.stream.layouts.check(type_id, body);
        check.map_err(|error| Error::Decode { stream: self.stream.name.clone(), sequence: None, error })?;
        check_message(&self.stream, type_id)?;
        self.admit(time)?;
        self.batch.push_bytes(time.0, symbol.0, type_id, body)?;
        Ok(())
    }

    /// Looks a symbol up, and gives it an id if it is new to the stream.
    ///
    /// # Errors
    /// When it is empty, too long, one too many, or cannot be written.
    #[inline]
    pub fn symbol(&mut self, symbol: &str) -> Result<SymbolId, Error> {
        if *self.last_symbol.0 == *symbol && !symbol.is_empty() {
            return Ok(SymbolId(self.last_symbol.1));
        }
        self.look_up(symbol)
    }

    fn look_up(&mut self, symbol: &str) -> Result<SymbolId, Error> {
        let id = match self.symbols.get(symbol) {
            Some(&id) => id,
            None => {
                let id = self.stream.symbol_id(symbol)?;
                self.symbols.insert(symbol.into(), id);
                id
            }
        };
        self.last_symbol = (symbol.into(), id);
        Ok(SymbolId(id))
    }

    /// Appends everything to the log. On success it is acknowledged: it survives as the stream's durability says, and
    /// readers see it. Returns the sequence number after the last message appended by this loader.
    ///
    /// # Errors
    /// What keeps the log from being written; nothing is lost, and the call can be made again once that is mended.
    pub fn flush(&mut self) -> Result<u64, Error> {
        if !self.unsent.is_empty() {
            self.send()?;
        }
        if self.batch.finish(self.stream.definition.schema_version, &mut self.unsent) > 0 {
            self.last_time = i64::MIN;
            self.send()?;
        }
        Ok(self.next_sequence)
    }

    /// Messages that wait for a flush.
    pub fn pending(&self) -> usize {
        self.batch.len()
    }

    /// Flushes and ends the loader. (Dropping it flushes too, but cannot tell you of an error.)
    ///
    /// # Errors
    /// As [`Loader::flush`].
    pub fn close(mut self) -> Result<u64, Error> {
        self.flush()
    }

    fn send(&mut self) -> Result<Range<u64>, Error> {
        let mut writer = self.stream.writer()?;
        let sequences = writer.log.append(&mut self.unsent)?;
        let time_max = tapedb_codec::batch::BatchHeader::parse(&self.unsent).map(|header| header.time_max);
        writer.last_time = writer.last_time.max(time_max.unwrap_or(i64::MIN));
        drop(writer);
        self.unsent.clear();
        self.stream.bell.ring();
        self.next_sequence = sequences.end;
        Ok(sequences)
    }

    /// Makes room for one more message at `time`, and checks that the stream takes it.
    #[inline]
    fn admit(&mut self, time: Timestamp) -> Result<(), Error> {
        if self.batch.payload_bytes() >= self.batch_bytes || self.batch.len() >= BATCH_MESSAGES_MAX {
            self.flush()?;
        }
        if self.stream.definition.options.late == Late::Refuse {
            self.refuse_late(time)?;
        }
        self.last_time = self.last_time.max(time.0);
        Ok(())
    }

    fn refuse_late(&self, time: Timestamp) -> Result<(), Error> {
        let last = self.last_time.max(self.stream.writer()?.last_time);
        if time.0 < last {
            return Err(Error::Late { stream: self.stream.name.clone(), time, last: Timestamp(last) });
        }
        Ok(())
    }

    #[inline]
    fn type_id_of<T: Record + 'static>(&mut self) -> Result<u16, Error> {
        let key = TypeId::of::<T>();
        match self.last_type {
            Some((last, id)) if last == key => Ok(id),
            _ => {
                let id = self.stream.type_id_of::<T>()?;
                check_message(&self.stream, id)?;
                self.last_type = Some((key, id));
                Ok(id)
            }
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // A full disk or a deleted stream: whoever needs to know calls `close`.
        let _ = self.flush();
    }
}

fn check_message(stream: &StreamInner, type_id: u16) -> Result<(), Error> {
    let record = stream.layouts.record(type_id);
    let record =
        record.map_err(|error| Error::Decode { stream: stream.name.clone(), sequence: None, error })?;
    if record.message {
        return Ok(());
    }
    let why = "only nested in others; it is declared `record`, not `message`";
    Err(Error::Type { stream: stream.name.clone(), record: record.name.clone(), why })
}
