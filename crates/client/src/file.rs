//! A file of a stream, read through a server.
//!
//! What reads from front to back finds the next bytes already there: some requests are always under way, so the server
//! reads, the network carries and the reader decodes at the same time. Segments never change, so that is safe for them;
//! a log file is read as it is asked for, because what lies behind its committed end may still become something else.

use crate::convert::io_error;
use crate::line::{Line, mistaken};
use crate::link::{Link, Lost};
use crate::signal::locked;
use crate::slot::{Answer, Slot};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use tapedb_engine::{Error, StorageFile};
use tapedb_log::FileId;
use tapedb_wire::ToServer;

/// Bytes of a request that goes ahead of the reader.
const CHUNK_BYTES: u32 = 128 << 10;
/// No request asks for more.
const READ_BYTES_MAX: usize = 8 << 20;
/// Reads that follow one another before requests go ahead.
const STREAK: u32 = 2;
/// A reader may leave so many bytes out and still read from front to back.
const GAP_BYTES_MAX: u64 = 32 << 10;
/// Readers of a file that are told apart.
const RUNS_MAX: usize = 8;
/// How often a read begins anew because connections are lost before it is told.
const ATTEMPTS_MAX: u32 = 10_000;

/// An open file.
pub(crate) struct RemoteFile {
    line: Arc<Line>,
    stream_id: u64,
    name: String,
    /// Its bytes and which it is, when they never change.
    fixed: bool,
    identity: (u64, u64),
    len: u64,
    handle: Mutex<Option<Handle>>,
    runs: Mutex<VecDeque<Run>>,
    /// Buffers of chunks, to be used again.
    spare: Mutex<Vec<Vec<u8>>>,
}

/// What the file is called on a connection.
#[derive(Clone)]
struct Handle {
    link: Arc<Link>,
    file: u32,
}

/// A reader that goes from front to back.
struct Run {
    /// Where the last read ended.
    end: u64,
    /// Reads that followed one another.
    streak: u32,
    /// What lies ahead, without holes.
    chunks: VecDeque<Chunk>,
}

/// A part of the file that has been asked for.
struct Chunk {
    offset: u64,
    len: u32,
    state: ChunkState,
}

enum ChunkState {
    Asked(Arc<Link>, Arc<Slot>),
    Here(Vec<u8>),
}

impl RemoteFile {
    /// Opens a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when there is none; as [`Line::link`].
    pub fn open(line: Arc<Line>, stream_id: u64, name: &str) -> io::Result<Self> {
        let (handle, len, identity) = ask_to_open(&line, stream_id, name)?;
        Ok(Self {
            line,
            stream_id,
            name: name.into(),
            fixed: name.ends_with(".seg"),
            identity,
            len,
            handle: Mutex::new(Some(handle)),
            runs: Mutex::default(),
            spare: Mutex::default(),
        })
    }

    /// The file on the connection that there is now.
    fn handle(&self) -> io::Result<Handle> {
        let link = self.line.link().map_err(io_error)?;
        let mut known = locked(&self.handle);
        if let Some(handle) = known.as_ref().filter(|handle| Arc::ptr_eq(&handle.link, &link)) {
            return Ok(handle.clone());
        }
        let (handle, _, identity) = ask_to_open(&self.line, self.stream_id, &self.name)?;
        if self.fixed && identity != self.identity {
            // Another file has got its name: for whoever reads this one it is gone.
            close(&handle);
            return Err(io::ErrorKind::NotFound.into());
        }
        *known = Some(handle.clone());
        Ok(handle)
    }

    fn request(&self, handle: &Handle, offset: u64, len: u32) -> Result<Arc<Slot>, Lost> {
        let buffer = locked(&self.spare).pop().unwrap_or_default();
        handle.link.ask(&ToServer::ReadFile { file: handle.file, offset, len }, buffer)
    }

    /// Reads what is asked for and no more.
    fn read_once(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = buf.len().min(READ_BYTES_MAX);
        for _ in 0..ATTEMPTS_MAX {
            let handle = self.handle()?;
            let answer = self.request(&handle, offset, len as u32).and_then(|slot| handle.link.answer(&slot));
            if let Ok(answer) = answer {
                let bytes = bytes_of(answer)?;
                let read = bytes.len().min(len);
                buf[..read].copy_from_slice(&bytes[..read]);
                self.reuse(bytes);
                return Ok(read);
            }
        }
        Err(self.lost_too_often())
    }

    /// Reads from what lies ahead of a reader, and asks for more.
    fn read_ahead(&self, run: &mut Run, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        run.forget_before(offset, |bytes| self.reuse(bytes));
        let mut read = 0;
        while read < buf.len() && offset + (read as u64) < self.len {
            self.ask_ahead(run, offset + read as u64)?;
            let Some(chunk) = run.chunks.front_mut() else { break };
            let from = (offset + read as u64 - chunk.offset) as usize;
            let Some(bytes) = chunk.bytes()? else {
                // Its connection was lost, and with it all that was asked for.
                run.chunks.clear();
                continue;
            };
            let Some(there) = bytes.get(from..).filter(|there| !there.is_empty()) else {
                // The file is shorter than it was: a plain read tells.
                run.chunks.clear();
                return Ok(read);
            };
            let taken = there.len().min(buf.len() - read);
            buf[read..read + taken].copy_from_slice(&there[..taken]);
            read += taken;
            run.forget_before(offset + read as u64, |bytes| self.reuse(bytes));
        }
        Ok(read)
    }

    /// Asks for what comes next, as far ahead as is allowed.
    fn ask_ahead(&self, run: &mut Run, offset: u64) -> io::Result<()> {
        let ahead = self.line.options().read_ahead_bytes.max(CHUNK_BYTES as usize) as u64;
        let mut handle = None;
        loop {
            let next = run.chunks.back().map_or(offset, |chunk| chunk.offset + u64::from(chunk.len));
            if next >= self.len || next + u64::from(CHUNK_BYTES) > offset + ahead && !run.chunks.is_empty() {
                return Ok(());
            }
            let len = (self.len - next).min(CHUNK_BYTES.into()) as u32;
            let handle = match &handle {
                Some(handle) => handle,
                None => handle.insert(self.handle()?),
            };
            match self.request(handle, next, len) {
                Ok(slot) => {
                    let state = ChunkState::Asked(handle.link.clone(), slot);
                    run.chunks.push_back(Chunk { offset: next, len, state });
                }
                // What was asked for is lost as well; who waits for the first chunk finds out.
                Err(Lost(_)) if !run.chunks.is_empty() => return Ok(()),
                Err(Lost(_)) => return self.ask_ahead(run, offset),
            }
        }
    }

    /// The reader that would go on here; a new one otherwise. It is the caller's until it is given back.
    fn take_run(&self, offset: u64) -> Run {
        let mut runs = locked(&self.runs);
        let goes_on = |run: &Run| run.end <= offset && offset - run.end <= GAP_BYTES_MAX;
        match runs.iter().position(goes_on).and_then(|place| runs.remove(place)) {
            Some(run) => Run { streak: run.streak.saturating_add(1), ..run },
            None => Run { end: offset, streak: 0, chunks: VecDeque::new() },
        }
    }

    fn give_back(&self, run: Run) {
        let mut runs = locked(&self.runs);
        runs.push_front(run);
        runs.truncate(RUNS_MAX);
    }

    fn reuse(&self, bytes: Vec<u8>) {
        let mut spare = locked(&self.spare);
        let fits = bytes.capacity() <= 2 * CHUNK_BYTES as usize;
        if fits && spare.len() * (CHUNK_BYTES as usize) < self.line.options().read_ahead_bytes {
            spare.push(bytes);
        }
    }

    #[cold]
    fn lost_too_often(&self) -> io::Error {
        let why = format!("it was lost {ATTEMPTS_MAX} times while {} was read", self.name);
        io_error(Error::Disconnected { place: self.line.address().to_string(), why })
    }
}

impl Run {
    /// Lets go of chunks that end before a place.
    fn forget_before(&mut self, offset: u64, mut reuse: impl FnMut(Vec<u8>)) {
        while self.chunks.front().is_some_and(|chunk| chunk.offset + u64::from(chunk.len) <= offset) {
            if let Some(Chunk { state: ChunkState::Here(bytes), .. }) = self.chunks.pop_front() {
                reuse(bytes);
            }
        }
        // Whoever jumps over what lies ahead begins anew.
        if self.chunks.front().is_some_and(|chunk| chunk.offset > offset) {
            self.chunks.clear();
        }
    }
}

impl Chunk {
    /// Waits for the bytes; `None` when they are lost.
    fn bytes(&mut self) -> io::Result<Option<&[u8]>> {
        if let ChunkState::Asked(link, slot) = &self.state {
            match link.answer(slot) {
                Ok(answer) => self.state = ChunkState::Here(bytes_of(answer)?),
                Err(Lost(_)) => return Ok(None),
            }
        }
        match &self.state {
            ChunkState::Here(bytes) => Ok(Some(bytes)),
            ChunkState::Asked(..) => Ok(None),
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
        let mut run = self.take_run(offset);
        let read = match run.streak >= STREAK {
            true => self.read_ahead(&mut run, buf, offset),
            false => Ok(0),
        };
        let read = match read {
            Ok(0) => self.read_once(buf, offset),
            read => read,
        };
        if let Ok(read) = &read {
            run.end = offset + *read as u64;
            self.give_back(run);
        }
        read
    }

    fn len(&self) -> io::Result<u64> {
        if self.fixed {
            return Ok(self.len);
        }
        for _ in 0..ATTEMPTS_MAX {
            let handle = self.handle()?;
            let slot = handle.link.ask(&ToServer::FileLen { file: handle.file }, Vec::new());
            match slot.and_then(|slot| handle.link.answer(&slot)) {
                Ok(Answer::Len(len)) => return Ok(len),
                Ok(Answer::Failed(error)) => return Err(io_error(error)),
                Ok(_) => return Err(io_error(mistaken())),
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

fn ask_to_open(line: &Line, stream_id: u64, name: &str) -> io::Result<(Handle, u64, (u64, u64))> {
    loop {
        let link = line.link().map_err(io_error)?;
        let slot = link.ask(&ToServer::OpenFile { stream_id, name }, Vec::new());
        match slot.and_then(|slot| link.answer(&slot)) {
            Ok(Answer::Opened { file, len, identity }) => return Ok((Handle { link, file }, len, identity)),
            Ok(Answer::Failed(error)) => return Err(io_error(error)),
            Ok(_) => return Err(io_error(mistaken())),
            Err(Lost(_)) => {}
        }
    }
}

fn close(handle: &Handle) {
    if !handle.link.is_broken() {
        handle.link.post(0, &ToServer::CloseFile { file: handle.file });
    }
}

fn bytes_of(answer: Answer) -> io::Result<Vec<u8>> {
    match answer {
        Answer::Bytes(bytes) => Ok(bytes),
        Answer::Failed(error) => Err(io_error(error)),
        _ => Err(io_error(mistaken())),
    }
}
