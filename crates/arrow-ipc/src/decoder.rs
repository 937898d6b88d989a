//! Cuts bytes into messages, checks them, and has `arrow-ipc` decode them.
//!
//! Invariant: `message` holds bytes of one message, from its first one on, and never more than the limits allow.

use crate::guard::guarded;
use crate::{Limits, check};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{Message, MessageHeader};
use arrow_schema::{ArrowError, SchemaRef};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// What an IPC file begins with, and ends with.
const MAGIC: &[u8; 6] = b"ARROW1";

/// A file goes on as a stream behind its magic and padding, which some writers extend to this.
const MAGIC_BYTES_MAX: u64 = 64;

/// What stands before the length of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Bytes before a message's description: continuation and length.
const PREFIX_BYTES: usize = 8;

/// Why bytes are not batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Bytes before the message.
    pub offset: u64,
    /// Batches before it.
    pub batches: u64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, batches, what } = self;
        write!(f, "the message at byte {offset}, after {batches} batches, is damaged: {what}")
    }
}

impl std::error::Error for Error {}

/// Decodes an IPC stream, or an IPC file from its beginning on.
#[derive(Debug, Default)]
pub struct Decoder {
    limits: Limits,
    schema: Option<SchemaRef>,
    /// Values of dictionaries by their ids.
    dictionaries: HashMap<i64, ArrayRef>,
    /// Bytes of the message that arrives.
    message: Vec<u8>,
    state: State,
    is_file: bool,
    /// Bytes before `message`.
    offset: u64,
    batches: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first message; or the magic of a file.
    #[default]
    Beginning,
    /// Continuation and length of a message.
    Prefix,
    /// So many bytes of prefix and description.
    Description(usize),
    /// A message whose description has that many bytes with its prefix, and so many with its body.
    Body(usize, usize),
    /// After the end of the stream: the rest of a file, whose last bytes are kept.
    Ended,
    /// After an error.
    Failed,
}

impl Decoder {
    /// A decoder with other limits than the usual ones.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The schema, once it has arrived.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.schema.clone()
    }

    /// Batches decoded so far.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// Bytes of a message that has not arrived whole.
    pub fn pending(&self) -> usize {
        if matches!(self.state, State::Ended | State::Failed) { 0 } else { self.message.len() }
    }

    /// Takes the first bytes, as many as it needs for a batch, and gives that batch; `None`: all bytes are taken, and more are
    /// needed. `bytes` becomes what is left.
    ///
    /// # Errors
    /// When the bytes are no batches, or larger than the limits. After an error there are only errors.
    pub fn decode(&mut self, bytes: &mut &[u8]) -> Result<Option<RecordBatch>, Error> {
        loop {
            let wanted = match self.state {
                State::Beginning | State::Prefix => PREFIX_BYTES,
                State::Description(wanted) | State::Body(_, wanted) => wanted,
                State::Ended => return self.rest(bytes),
                State::Failed => return Err(self.error("an error came before")),
            };
            let count = bytes.len().min(wanted - self.message.len());
            self.message.extend_from_slice(&bytes[..count]);
            *bytes = &bytes[count..];
            if self.message.len() < wanted {
                return Ok(None);
            }
            match self.step() {
                Ok(None) => {}
                Ok(batch) => return Ok(batch),
                Err(what) => {
                    let error = self.error(&what);
                    self.state = State::Failed;
                    return Err(error);
                }
            }
        }
    }

    /// The end of the bytes.
    ///
    /// # Errors
    /// When they end inside a message, or inside a file.
    pub fn finish(&self) -> Result<(), Error> {
        match self.state {
            State::Ended if self.is_file && !self.message.ends_with(MAGIC) => {
                Err(self.error("the file ends before its footer; it is truncated"))
            }
            State::Ended => Ok(()),
            // Some writers end a stream without a message that states it.
            State::Prefix if self.message.is_empty() && !self.is_file => Ok(()),
            State::Beginning if self.message.is_empty() => Err(self.error("there is no schema: no bytes")),
            State::Failed => Err(self.error("an error came before")),
            _ => {
                let bytes = self.message.len();
                Err(self.error(&format!("the input ends {bytes} bytes after its beginning; it is truncated")))
            }
        }
    }

    fn error(&self, what: &str) -> Error {
        Error { offset: self.offset, batches: self.batches, what: what.into() }
    }

    /// Handles what has arrived whole.
    fn step(&mut self) -> Result<Option<RecordBatch>, String> {
        match self.state {
            State::Beginning if self.message.starts_with(MAGIC) => {
                self.is_file = true;
                self.next_message();
            }
            State::Beginning | State::Prefix => self.prefix()?,
            State::Description(bytes) => self.description(bytes)?,
            State::Body(bytes, _) => return self.body(bytes),
            State::Ended | State::Failed => {}
        }
        Ok(None)
    }

    fn next_message(&mut self) {
        self.offset += self.message.len() as u64;
        self.message.clear();
        self.state = State::Prefix;
    }

    fn prefix(&mut self) -> Result<(), String> {
        let is_padding = self.is_file && self.offset < MAGIC_BYTES_MAX && self.schema.is_none();
        if is_padding && self.message.iter().all(|byte| *byte == 0) {
            self.next_message();
            return Ok(());
        }
        let (continuation, length) = self.message.split_at(4);
        if continuation != CONTINUATION {
            return Err("this is not Arrow's IPC format (or one from before 2020)".into());
        }
        let bytes = length.first_chunk().map_or(0, |length| u32::from_le_bytes(*length)) as usize;
        let max = self.limits.metadata_bytes_max;
        if bytes > max {
            return Err(format!("its description has {bytes} bytes; the limit is {max}"));
        }
        if bytes == 0 {
            self.next_message();
            self.state = State::Ended;
        } else {
            self.state = State::Description(PREFIX_BYTES + bytes);
        }
        Ok(())
    }

    fn description(&mut self, bytes: usize) -> Result<(), String> {
        let message = arrow_ipc::root_as_message(&self.message[PREFIX_BYTES..]);
        let message = message.map_err(|error| format!("its description: {error}"))?;
        let max = self.limits.body_bytes_max;
        let body = usize::try_from(message.bodyLength()).ok().filter(|body| *body <= max);
        let body =
            body.ok_or_else(|| format!("its body has {} bytes; the limit is {max}", message.bodyLength()))?;
        self.state = State::Body(bytes, bytes + body);
        Ok(())
    }

    fn body(&mut self, bytes: usize) -> Result<Option<RecordBatch>, String> {
        let whole = Buffer::from_vec(std::mem::take(&mut self.message));
        let message = arrow_ipc::root_as_message(&whole[PREFIX_BYTES..bytes]);
        let message = message.map_err(|error| format!("its description: {error}"))?;
        let body = whole.slice(bytes);
        if let Some(batch) = check::batch(message) {
            check::buffers(batch, &body, &self.limits)?;
        }
        let batch = guarded(|| self.message_of(message, &body))?.map_err(|error| error.to_string())?;
        self.check_dictionaries()?;
        self.offset += whole.len() as u64;
        self.batches += u64::from(batch.is_some());
        self.state = State::Prefix;
        Ok(batch)
    }

    /// Decodes a message whose buffers lie in its body.
    fn message_of(&mut self, message: Message<'_>, body: &Buffer) -> Result<Option<RecordBatch>, ArrowError> {
        let wrong = |what: &str| Err(ArrowError::IpcError(what.into()));
        if let Some(schema) = message.header_as_schema() {
            if self.schema.is_some() {
                return wrong("it is a second schema");
            }
            self.schema = Some(Arc::new(fb_to_schema(schema)));
            return Ok(None);
        }
        let Some(schema) = &self.schema else { return wrong("it comes before the schema") };
        let (dictionaries, version) = (&mut self.dictionaries, message.version());
        if let Some(dictionary) = message.header_as_dictionary_batch() {
            read_dictionary(body, dictionary, schema, dictionaries, &version)?;
            return Ok(None);
        }
        match message.header_as_record_batch() {
            Some(batch) => {
                let batch = read_record_batch(body, batch, schema.clone(), dictionaries, None, &version)?;
                Ok(Some(batch))
            }
            None if message.header_type() == MessageHeader::NONE => Ok(None),
            None => wrong("it is neither a schema nor a batch"),
        }
    }

    /// Dictionaries stay in memory to the end.
    fn check_dictionaries(&self) -> Result<(), String> {
        let bytes: usize = self.dictionaries.values().map(|values| values.get_buffer_memory_size()).sum();
        let max = self.limits.expanded_bytes_max;
        if bytes > max {
            return Err(format!("the dictionaries have {bytes} bytes; the limit is {max}"));
        }
        Ok(())
    }

    /// Takes what comes after the end: of a file its footer, of a stream nothing.
    fn rest(&mut self, bytes: &mut &[u8]) -> Result<Option<RecordBatch>, Error> {
        if !self.is_file && !bytes.is_empty() {
            self.state = State::Failed;
            return Err(self.error("there are more bytes after the end of the stream"));
        }
        self.message.extend_from_slice(&bytes[bytes.len().saturating_sub(MAGIC.len())..]);
        let more = self.message.len().saturating_sub(MAGIC.len());
        self.message.drain(..more);
        *bytes = &[];
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::{DictionaryArray, Int64Array, StringArray};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};

    /// A column of numbers and a dictionary that grows from batch to batch.
    fn batches() -> Vec<RecordBatch> {
        let names = |names: &[&str], keys: Vec<i32>| {
            let values = Arc::new(StringArray::from(names.to_vec()));
            Arc::new(DictionaryArray::<Int32Type>::new(keys.into(), values)) as ArrayRef
        };
        let numbers = |first: i64| Arc::new(Int64Array::from_iter_values(first..first + 3)) as ArrayRef;
        let batch = |first, symbols| {
            RecordBatch::try_from_iter([("number", numbers(first)), ("symbol", symbols)]).unwrap()
        };
        vec![batch(0, names(&["A", "B"], vec![0, 1, 0])), batch(3, names(&["A", "B", "C"], vec![2, 1, 0]))]
    }

    fn stream(compression: Option<CompressionType>) -> Vec<u8> {
        let options = IpcWriteOptions::default()
            .try_with_compression(compression)
            .unwrap()
            .with_dictionary_handling(DictionaryHandling::Delta);
        let mut writer =
            StreamWriter::try_new_with_options(Vec::new(), &batches()[0].schema(), options).unwrap();
        batches().iter().for_each(|batch| writer.write(batch).unwrap());
        writer.into_inner().unwrap()
    }

    fn file() -> Vec<u8> {
        let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
        let mut writer =
            FileWriter::try_new_with_options(Vec::new(), &batches()[0].schema(), options).unwrap();
        batches().iter().for_each(|batch| writer.write(batch).unwrap());
        writer.into_inner().unwrap()
    }

    /// Decodes bytes that arrive in pieces of that size.
    fn decode(bytes: &[u8], piece: usize) -> Result<Vec<RecordBatch>, Error> {
        let mut decoder = Decoder::default();
        let mut found = Vec::new();
        for mut piece in bytes.chunks(piece) {
            while let Some(batch) = decoder.decode(&mut piece)? {
                found.push(batch);
            }
            assert!(piece.is_empty());
        }
        decoder.finish()?;
        Ok(found)
    }

    #[test]
    fn streams_and_files_in_pieces_of_any_size() {
        for bytes in [stream(None), stream(Some(CompressionType::LZ4_FRAME)), file()] {
            for piece in [1, 3, 64, 1 << 20] {
                assert_eq!(decode(&bytes, piece).unwrap(), batches());
            }
        }
    }

    #[test]
    #[cfg(feature = "zstd")]
    fn buffers_compressed_with_zstd() {
        assert_eq!(decode(&stream(Some(CompressionType::ZSTD)), 100).unwrap(), batches());
    }

    #[test]
    fn a_stream_may_end_without_a_message_that_says_so() {
        let bytes = stream(None);
        assert_eq!(decode(&bytes[..bytes.len() - 8], 64).unwrap(), batches());
    }

    #[test]
    fn every_other_truncation_is_an_error() {
        for (bytes, is_file) in [(stream(None), false), (file(), true)] {
            let mut ends = 0;
            for length in 0..bytes.len() {
                match decode(&bytes[..length], 1 << 20) {
                    Ok(found) => {
                        assert!(!is_file && found.len() <= 2, "{length}");
                        ends += 1;
                    }
                    Err(error) => assert!(!error.what.is_empty()),
                }
            }
            // After the schema, the first dictionary, the first batch, the second dictionary, the second batch.
            assert_eq!(ends, if is_file { 0 } else { 5 });
        }
    }

    #[test]
    fn what_is_not_arrow_is_an_error() {
        let error = decode(b"symbol,time,price\n", 1 << 20).unwrap_err();
        assert_eq!((error.offset, error.batches), (0, 0));
        assert!(error.to_string().contains("not Arrow's IPC format"), "{error}");
        assert!(decode(b"", 1).unwrap_err().to_string().contains("no bytes"));
        let more = [stream(None), b"more".to_vec()].concat();
        assert!(decode(&more, 1 << 20).unwrap_err().to_string().contains("after the end"));
    }

    #[test]
    fn lengths_that_lie_are_errors_before_memory_is_taken() {
        let mut bytes = stream(None);
        bytes[4..8].copy_from_slice(&0x7fff_fff0u32.to_le_bytes());
        assert!(decode(&bytes, 7).unwrap_err().to_string().contains("its description has"));
        let bytes = stream(Some(CompressionType::LZ4_FRAME));
        let limits = Limits { body_bytes_max: 16, ..Limits::default() };
        let error = Decoder::new(limits).decode(&mut &bytes[..]).unwrap_err();
        assert!(error.to_string().contains("its body has"), "{error}");
        let limits = Limits { expanded_bytes_max: 16, ..Limits::default() };
        let error = Decoder::new(limits).decode(&mut &bytes[..]).unwrap_err();
        assert!(error.to_string().contains("the limit is 16"), "{error}");
        // The first batch has three rows; its dictionary, which comes before it, has two values.
        let limits = Limits { rows_max: 2, ..Limits::default() };
        let error = Decoder::new(limits).decode(&mut &bytes[..]).unwrap_err();
        assert!(error.to_string().contains("a batch has 3 rows"), "{error}");
    }

    /// 64 MiB of zeros, which the buffer states to be 24 bytes.
    #[test]
    fn a_buffer_that_expands_to_more_than_it_states_is_not_expanded() {
        let zeros = Arc::new(Int64Array::from(vec![0; 8 << 20])) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("number", zeros)]).unwrap();
        let options =
            IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        let mut bytes = writer.into_inner().unwrap();
        assert_eq!(decode(&bytes, 1 << 20).unwrap(), [batch]);
        let stated = (64u64 << 20).to_le_bytes();
        // Behind the lengths in the description, the frame follows this one.
        let at =
            bytes.windows(12).position(|found| found[..8] == stated && found[8..] == [4, 0x22, 0x4d, 0x18]);
        bytes[at.unwrap()..][..8].copy_from_slice(&24u64.to_le_bytes());
        let error = decode(&bytes, 1 << 20).unwrap_err();
        assert!(
            error.to_string().contains("more bytes when it is expanded than the 24 it states"),
            "{error}"
        );
    }

    #[test]
    fn changed_bytes_are_errors_or_other_batches() {
        for bytes in [stream(None), stream(Some(CompressionType::LZ4_FRAME)), file()] {
            for at in 0..bytes.len() {
                for value in [0, 0x7f, 0x80, 0xff] {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    let _ = decode(&changed, 1 << 20);
                }
            }
        }
    }
}
