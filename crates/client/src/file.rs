//! A file of a stream, read through a server.
//!
//! A sequential reader finds the next bytes already received: some requests are always in flight, so the server reads,
//! the network transfers and the reader decodes at the same time. Segments never change, so this is safe for them; a
//! log file is read on request only, because bytes after its committed end may still change.

use crate::answer::{Answer, PendingAnswer};
use crate::connection::{Connection, Lost};
use crate::convert::io_error;
use crate::notifier::locked;
use crate::read_ahead::{CHUNK_BYTES, Held, ReadAhead};
use crate::reconnector::{Reconnector, mismatched_answer};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use tapedb_engine::{ConnectionError, Error, StorageFile};
use tapedb_log::FileId;
use tapedb_wire::ToServer;

/// The most bytes of a request.
const READ_BYTES_MAX: usize = 8 << 20;
/// Sequential reads before read-ahead begins.
const STREAK: u32 = 2;
/// A reader may skip this many bytes and still count as sequential.
const GAP_BYTES_MAX: u64 = 32 << 10;
/// Sequential readers of a file that are tracked.
const READERS_MAX: usize = 8;
/// How often a read is repeated after lost connections before it fails.
const ATTEMPTS_MAX: u32 = 10_000;

/// An open file.
pub(crate) struct RemoteFile {
    reconnector: Arc<Reconnector>,
    stream_id: u64,
    name: String,
    /// Whether its content and length never change.
    fixed: bool,
    identity: (u64, u64),
    len: u64,
    handle: Mutex<Option<FileHandle>>,
    readers: Mutex<VecDeque<SequentialReader>>,
    ahead: Arc<ReadAhead>,
}

/// The file's number on a connection.
#[derive(Clone)]
struct FileHandle {
    connection: Arc<Connection>,
    file: u32,
}

/// A sequential reader.
struct SequentialReader {
    /// The end of its last read.
    end: u64,
    /// Sequential reads so far.
    streak: u32,
    /// Read-ahead chunks, without gaps.
    chunks: VecDeque<Chunk>,
}

/// A requested range of the file.
struct Chunk {
    offset: u64,
    len: u32,
    state: ChunkState,
    _held: Held,
}

enum ChunkState {
    Requested(Arc<Connection>, Arc<PendingAnswer>),
    Received(Vec<u8>),
}

impl RemoteFile {
    /// Opens a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when the file does not exist; as [`Reconnector::connection`].
    pub fn open(reconnector: Arc<Reconnector>, stream_id: u64, name: &str) -> io::Result<Self> {
        let (handle, len, identity) = request_open(&reconnector, stream_id, name)?;
        let ahead = reconnector.read_ahead().clone();
        Ok(Self {
            reconnector,
            stream_id,
            name: name.into(),
            fixed: name.ends_with(".seg"),
            identity,
            len,
            handle: Mutex::new(Some(handle)),
            readers: Mutex::default(),
            ahead,
        })
    }

    /// The file's handle on the current connection.
    fn handle(&self) -> io::Result<FileHandle> {
        let connection = self.reconnector.connection().map_err(io_error)?;
        let mut known = locked(&self.handle);
        if let Some(handle) = known.as_ref().filter(|handle| Arc::ptr_eq(&handle.connection, &connection)) {
            return Ok(handle.clone());
        }
        let (handle, _, identity) = request_open(&self.reconnector, self.stream_id, &self.name)?;
        if self.fixed && identity != self.identity {
            // Another file has its name now: this one does not exist any more.
            close(&handle);
            return Err(io::ErrorKind::NotFound.into());
        }
        *known = Some(handle.clone());
        Ok(handle)
    }

    fn request(&self, handle: &FileHandle, offset: u64, len: u32) -> Result<Arc<PendingAnswer>, Lost> {
        let request = ToServer::ReadFile { file: handle.file, offset, len };
        handle.connection.ask(&request, self.ahead.buffer())
    }

    /// Reads only the requested range.
    fn read_once(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = buf.len().min(READ_BYTES_MAX);
        for _ in 0..ATTEMPTS_MAX {
            let handle = self.handle()?;
            let answer = self
                .request(&handle, offset, len as u32)
                .and_then(|pending| handle.connection.answer(&pending));
            if let Ok(answer) = answer {
                let bytes = bytes_of(answer)?;
                let read = bytes.len().min(len);
                buf[..read].copy_from_slice(&bytes[..read]);
                self.ahead.reuse(bytes);
                return Ok(read);
            }
        }
        Err(self.lost_too_often())
    }

    /// Reads from the read-ahead chunks of a reader, and requests more.
    fn read_ahead(&self, reader: &mut SequentialReader, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        reader.drop_before(offset, |bytes| self.ahead.reuse(bytes));
        let mut read = 0;
        while read < buf.len() && offset + (read as u64) < self.len {
            self.request_ahead(reader, offset + read as u64)?;
            let Some(chunk) = reader.chunks.front_mut() else { break };
            let from = (offset + read as u64 - chunk.offset) as usize;
            let Some(bytes) = chunk.bytes()? else {
                // Its connection was lost, and all requests with it.
                reader.chunks.clear();
                continue;
            };
            let Some(there) = bytes.get(from..).filter(|there| !there.is_empty()) else {
                // The file is shorter than it was: a plain read reports it.
                reader.chunks.clear();
                return Ok(read);
            };
            let taken = there.len().min(buf.len() - read);
            buf[read..read + taken].copy_from_slice(&there[..taken]);
            read += taken;
            reader.drop_before(offset + read as u64, |bytes| self.ahead.reuse(bytes));
        }
        Ok(read)
    }

    /// Requests the next chunks, up to the limits of read-ahead.
    fn request_ahead(&self, reader: &mut SequentialReader, offset: u64) -> io::Result<()> {
        let ahead = self.ahead.reader_bytes_max() as u64;
        let mut handle = None;
        loop {
            let next = reader.chunks.back().map_or(offset, |chunk| chunk.offset + u64::from(chunk.len));
            let is_full = next + CHUNK_BYTES as u64 > offset + ahead || !self.ahead.has_capacity();
            if next >= self.len || is_full && !reader.chunks.is_empty() {
                return Ok(());
            }
            let len = (self.len - next).min(CHUNK_BYTES as u64) as u32;
            let handle = match &handle {
                Some(handle) => handle,
                None => handle.insert(self.handle()?),
            };
            match self.request(handle, next, len) {
                Ok(pending) => {
                    let state = ChunkState::Requested(handle.connection.clone(), pending);
                    let _held = self.ahead.hold(len as usize);
                    reader.chunks.push_back(Chunk { offset: next, len, state, _held });
                }
                // Earlier requests are lost too; the reader notices when it waits for the first chunk.
                Err(Lost(_)) if !reader.chunks.is_empty() => return Ok(()),
                Err(Lost(_)) => return self.request_ahead(reader, offset),
            }
        }
    }

    /// The reader that continues at an offset, or a new one. The caller owns it until it gives it back.
    fn take_reader(&self, offset: u64) -> SequentialReader {
        let mut readers = locked(&self.readers);
        let goes_on =
            |reader: &SequentialReader| reader.end <= offset && offset - reader.end <= GAP_BYTES_MAX;
        match readers.iter().position(goes_on).and_then(|index| readers.remove(index)) {
            Some(reader) => SequentialReader { streak: reader.streak.saturating_add(1), ..reader },
            None => SequentialReader { end: offset, streak: 0, chunks: VecDeque::new() },
        }
    }

    fn give_back(&self, reader: SequentialReader) {
        let mut readers = locked(&self.readers);
        readers.push_front(reader);
        readers.truncate(READERS_MAX);
    }

    #[cold]
    fn lost_too_often(&self) -> io::Error {
        let why = format!("the connection was lost {ATTEMPTS_MAX} times while {} was read", self.name);
        io_error(Error::Connection(ConnectionError::Disconnected {
            place: self.reconnector.address().to_string().into(),
            why,
        }))
    }
}

impl SequentialReader {
    /// Drops chunks that end before an offset.
    fn drop_before(&mut self, offset: u64, mut reuse: impl FnMut(Vec<u8>)) {
        while self.chunks.front().is_some_and(|chunk| chunk.offset + u64::from(chunk.len) <= offset) {
            if let Some(Chunk { state: ChunkState::Received(bytes), .. }) = self.chunks.pop_front() {
                reuse(bytes);
            }
        }
        // A reader that skips over the chunks starts again.
        if self.chunks.front().is_some_and(|chunk| chunk.offset > offset) {
            self.chunks.clear();
        }
    }
}

impl Chunk {
    /// Waits for the bytes; `None` when the connection was lost.
    fn bytes(&mut self) -> io::Result<Option<&[u8]>> {
        if let ChunkState::Requested(connection, pending) = &self.state {
            match connection.answer(pending) {
                Ok(answer) => self.state = ChunkState::Received(bytes_of(answer)?),
                Err(Lost(_)) => return Ok(None),
            }
        }
        match &self.state {
            ChunkState::Received(bytes) => Ok(Some(bytes)),
            ChunkState::Requested(..) => Ok(None),
        }
    }
}

impl StorageFile for RemoteFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if buf.is_empty() || self.fixed && offset >= self.len {
            return Ok(0);
        }
        if !self.fixed {
            return self.read_once(buf, offset);
        }
        let mut reader = self.take_reader(offset);
        let read = match reader.streak >= STREAK {
            true => self.read_ahead(&mut reader, buf, offset),
            false => Ok(0),
        };
        let read = match read {
            Ok(0) => self.read_once(buf, offset),
            read => read,
        };
        if let Ok(read) = &read {
            reader.end = offset + *read as u64;
            self.give_back(reader);
        }
        read
    }

    fn len(&self) -> io::Result<u64> {
        if self.fixed {
            return Ok(self.len);
        }
        for _ in 0..ATTEMPTS_MAX {
            let handle = self.handle()?;
            let pending = handle.connection.ask(&ToServer::FileLen { file: handle.file }, Vec::new());
            match pending.and_then(|pending| handle.connection.answer(&pending)) {
                Ok(Answer::Len(len)) => return Ok(len),
                Ok(Answer::Failed(error)) => return Err(io_error(error)),
                Ok(_) => return Err(io_error(mismatched_answer())),
                Err(Lost(_)) => {}
            }
        }
        Err(self.lost_too_often())
    }

    fn identity(&self) -> io::Result<FileId> {
        Ok(FileId::new(self.identity.0, self.identity.1))
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

impl Drop for RemoteFile {
    fn drop(&mut self) {
        if let Some(handle) = locked(&self.handle).take() {
            close(&handle);
        }
    }
}

fn request_open(
    reconnector: &Reconnector,
    stream_id: u64,
    name: &str,
) -> io::Result<(FileHandle, u64, (u64, u64))> {
    loop {
        let connection = reconnector.connection().map_err(io_error)?;
        let pending = connection.ask(&ToServer::OpenFile { stream_id, name }, Vec::new());
        match pending.and_then(|pending| connection.answer(&pending)) {
            Ok(Answer::Opened { file, len, identity }) => {
                return Ok((FileHandle { connection, file }, len, identity));
            }
            Ok(Answer::Failed(error)) => return Err(io_error(error)),
            Ok(_) => return Err(io_error(mismatched_answer())),
            Err(Lost(_)) => {}
        }
    }
}

fn close(handle: &FileHandle) {
    if !handle.connection.is_broken() {
        handle.connection.post(0, &ToServer::CloseFile { file: handle.file });
    }
}

fn bytes_of(answer: Answer) -> io::Result<Vec<u8>> {
    match answer {
        Answer::Bytes(bytes) => Ok(bytes),
        Answer::Failed(error) => Err(io_error(error)),
        _ => Err(io_error(mismatched_answer())),
    }
}
