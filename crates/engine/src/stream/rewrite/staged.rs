//! New messages on their way into a segment: taken in any order, given in order of time, in bounded memory.
//!
//! Always true: what is in memory is at most a run ([`RUN_BYTES`]) and a message; full runs are sorted and lie in files of
//! their own, which go with what was staged. (A killed process leaves drafts, which the next one to open the space removes.)

use crate::error::Error;
use crate::maintenance::part::Out;
use crate::space::Space;
use crate::space::catalog::{DRAFT_EXTENSION, SEGMENT_EXTENSION};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use tapedb_log::{Storage, StorageFile};

/// Messages beyond so many bytes are put into a file. A rewrite of [`REWRITE_BYTES_MAX`](super::REWRITE_BYTES_MAX) has 128 such
/// files.
const RUN_BYTES: usize = 32 << 20;
/// What is read from each run at once.
const READ_BYTES: usize = 256 << 10;
/// What stands before a body in a run: time, number, symbol, type, length.
const HEAD_BYTES: usize = 8 + 8 + 4 + 2 + 4;

/// A new message, and where its body is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// In nanoseconds since the Unix epoch.
    pub time: i64,
    /// How many were added before it.
    pub nth: u64,
    pub symbol: u32,
    pub type_id: u16,
    start: usize,
    end: usize,
}

/// What a message takes in memory beside its body.
const ROW_BYTES: usize = size_of::<Row>();

/// The messages that have been added.
pub(super) struct Staged {
    rows: Vec<Row>,
    bodies: Vec<u8>,
    runs: Vec<Run>,
    run_bytes: usize,
    len: u64,
    /// Bytes of all messages, with what they take beside their bodies.
    bytes: u64,
    times: Option<(i64, i64)>,
}

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staged")
            .field("len", &self.len)
            .field("runs", &self.runs.len())
            .finish_non_exhaustive()
    }
}

impl Default for Staged {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            bodies: Vec::new(),
            runs: Vec::new(),
            run_bytes: RUN_BYTES,
            len: 0,
            bytes: 0,
            times: None,
        }
    }
}

impl Staged {
    /// Messages.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of all messages, with what they take beside their bodies.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Times of the earliest and the latest message.
    pub fn times(&self) -> Option<(i64, i64)> {
        self.times
    }

    /// Adds a message whose body `encode` appends to the bytes it is given; returns its error, or that of writing a full run.
    /// The message is then not added.
    pub fn push(
        &mut self,
        space: &Space,
        (time, symbol, type_id): (i64, u32, u16),
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.spill_if_full(space)?;
        let start = self.bodies.len();
        if let Err(error) = encode(&mut self.bodies) {
            self.bodies.truncate(start);
            return Err(error);
        }
        let end = self.bodies.len();
        self.rows.push(Row { time, nth: self.len, symbol, type_id, start, end });
        self.len += 1;
        self.bytes += (end - start + ROW_BYTES) as u64;
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
        Ok(())
    }

    /// Whether what is in memory is a run.
    fn is_full(&self) -> bool {
        self.bodies.len() + self.rows.len() * ROW_BYTES >= self.run_bytes
    }

    /// Sorts what is in memory: to be called before [`Staged::each`].
    pub fn sort(&mut self) {
        self.rows.sort_by_key(|row| row.time);
    }

    /// Gives every message in order of time, of equal times in the order in which they were added.
    pub fn each<E: From<Error>>(&self, mut give: impl FnMut(&Row, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let in_memory = Reader::Memory { rows: &self.rows, bodies: &self.bodies, at: 0 };
        let mut readers: Vec<Reader<'_>> = self.runs.iter().map(Reader::of).collect::<Result<_, Error>>()?;
        readers.push(in_memory);
        let key = |(number, reader): (usize, &Reader<'_>)| {
            reader.row().map(|row| Reverse((row.time, row.nth, number)))
        };
        let mut next: BinaryHeap<_> = readers.iter().enumerate().filter_map(key).collect();
        while let Some(Reverse((.., number))) = next.pop() {
            let reader = &mut readers[number];
            if let Some(row) = reader.row() {
                give(&row, reader.body(&row))?;
            }
            reader.advance()?;
            next.extend(key((number, reader)));
        }
        Ok(())
    }

    fn spill_if_full(&mut self, space: &Space) -> Result<(), Error> {
        if !self.is_full() || self.rows.is_empty() {
            return Ok(());
        }
        self.sort();
        let run = Run::write(space, &self.rows, &self.bodies)?;
        self.runs.push(run);
        self.rows.clear();
        self.bodies.clear();
        Ok(())
    }
}

/// A sorted part of the messages in a file, which is removed with it.
struct Run {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    file: Arc<dyn StorageFile>,
    bytes: u64,
}

impl Run {
    fn write(space: &Space, rows: &[Row], bodies: &[u8]) -> Result<Self, Error> {
        let name = format!("rewrite-{}.{SEGMENT_EXTENSION}.{DRAFT_EXTENSION}", space.take_number());
        let path = space.directory.join(name);
        let storage = space.storage.clone();
        let file = storage.create_new(&path).map_err(Error::io("create", &path))?;
        let mut run = Self { storage, path, file, bytes: 0 };
        run.bytes = run.fill(rows, bodies).map_err(Error::io("write", &run.path))?;
        Ok(run)
    }

    fn fill(&self, rows: &[Row], bodies: &[u8]) -> io::Result<u64> {
        let mut out = BufWriter::with_capacity(READ_BYTES, Out::new(self.file.clone()));
        let mut bytes = 0;
        for row in rows {
            let body = &bodies[row.start..row.end];
            out.write_all(&head(row))?;
            out.write_all(body)?;
            bytes += (HEAD_BYTES + body.len()) as u64;
        }
        out.flush()?;
        Ok(bytes)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // What stays is removed when the database is opened next.
        let _ = self.storage.remove(&self.path);
    }
}

fn head(row: &Row) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&row.time.to_le_bytes());
    head[8..16].copy_from_slice(&row.nth.to_le_bytes());
    head[16..20].copy_from_slice(&row.symbol.to_le_bytes());
    head[20..22].copy_from_slice(&row.type_id.to_le_bytes());
    head[22..].copy_from_slice(&((row.end - row.start) as u32).to_le_bytes());
    head
}

/// Reads a run from front to back.
enum Reader<'a> {
    Memory { rows: &'a [Row], bodies: &'a [u8], at: usize },
    File(FileReader<'a>),
}

struct FileReader<'a> {
    run: &'a Run,
    /// What has been read; the message that comes next begins at `start`.
    buffer: Vec<u8>,
    start: usize,
    /// Where the file continues behind the buffer.
    offset: u64,
    row: Option<Row>,
}

impl<'a> Reader<'a> {
    fn of(run: &'a Run) -> Result<Self, Error> {
        let mut reader = FileReader { run, buffer: Vec::new(), start: 0, offset: 0, row: None };
        reader.advance()?;
        Ok(Self::File(reader))
    }

    /// The message that comes next.
    fn row(&self) -> Option<Row> {
        match self {
            Self::Memory { rows, at, .. } => rows.get(*at).copied(),
            Self::File(reader) => reader.row,
        }
    }

    fn body(&self, row: &Row) -> &[u8] {
        match self {
            Self::Memory { bodies, .. } => &bodies[row.start..row.end],
            Self::File(reader) => &reader.buffer[row.start..row.end],
        }
    }

    fn advance(&mut self) -> Result<(), Error> {
        match self {
            Self::Memory { at, .. } => *at += 1,
            Self::File(reader) => reader.advance()?,
        }
        Ok(())
    }
}

impl FileReader<'_> {
    fn advance(&mut self) -> Result<(), Error> {
        self.start = self.row.take().map_or(self.start, |row| row.end);
        if self.start == self.buffer.len() && self.offset == self.run.bytes {
            return Ok(());
        }
        self.need(HEAD_BYTES)?;
        let head = &self.buffer[self.start..self.start + HEAD_BYTES];
        let number = |range: std::ops::Range<usize>| {
            head[range].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let (time, nth) = (number(0..8).cast_signed(), number(8..16));
        let (symbol, type_id, length) =
            (number(16..20) as u32, number(20..22) as u16, number(22..26) as usize);
        self.need(HEAD_BYTES + length)?;
        let start = self.start + HEAD_BYTES;
        self.row = Some(Row { time, nth, symbol, type_id, start, end: start + length });
        Ok(())
    }

    /// Reads on until so many bytes are there from `start` on.
    fn need(&mut self, bytes: usize) -> Result<(), Error> {
        if self.buffer.len() - self.start >= bytes {
            return Ok(());
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        while self.buffer.len() < bytes {
            self.read_more(bytes).map_err(Error::io("read", &self.run.path))?;
        }
        Ok(())
    }

    fn read_more(&mut self, bytes: usize) -> io::Result<()> {
        let have = self.buffer.len();
        let left = self.run.bytes - self.offset;
        let wanted = (bytes.max(READ_BYTES) - have).min(left.try_into().unwrap_or(usize::MAX));
        self.buffer.resize(have + wanted, 0);
        let read = self.run.file.read_at(&mut self.buffer[have..], self.offset)?;
        self.buffer.truncate(have + read);
        self.offset += read as u64;
        if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{Access, Database};
    use crate::options::StreamOptions;
    use tapedb_log::sim::SimStorage;

    /// A number that looks random, from another.
    fn mixed(number: u64) -> u64 {
        (number ^ 0x5bd1_e995)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn they_come_in_order_of_time_whatever_has_been_put_into_files() {
        let disk = SimStorage::new(1);
        let db = Database::open_on(Arc::new(disk.clone()), "/db", Access::WriteWithoutMaintenance).unwrap();
        let stream = db.create_stream("s", "message M { x: i64 }".parse().unwrap(), StreamOptions::default());
        let stream = stream.unwrap();
        let space = &stream.state.writer().unwrap().spaces[0];
        let files =
            || disk.list(&space.directory).unwrap().iter().filter(|name| name.contains("rewrite-")).count();
        for (run_bytes, body_bytes_max) in
            [(1, 10), (500, 100), (4000, 3 * READ_BYTES as u64), (RUN_BYTES, 40)]
        {
            let mut staged = Staged { run_bytes, ..Staged::default() };
            let mut expected = Vec::new();
            for nth in 0..150_u64 {
                let (time, symbol, type_id) =
                    ((mixed(nth) % 20) as i64 - 10, (nth % 7) as u32, (nth % 3) as u16);
                let body = vec![nth as u8; (mixed(nth + 1000) % body_bytes_max) as usize];
                staged
                    .push(space, (time, symbol, type_id), |bodies| {
                        bodies.extend_from_slice(&body);
                        Ok(())
                    })
                    .unwrap();
                expected.push((time, nth, symbol, type_id, body));
            }
            let refused = staged.push(space, (99, 0, 0), |bodies| {
                bodies.push(1);
                Err(Error::ReadOnly)
            });
            assert!(refused.is_err());
            expected.sort_by_key(|(time, ..)| *time);
            staged.sort();
            let mut found = Vec::new();
            let given = staged.each(|row, body| {
                found.push((row.time, row.nth, row.symbol, row.type_id, body.to_vec()));
                Ok::<(), Error>(())
            });
            given.unwrap();
            assert!(found == expected, "runs of {run_bytes} bytes");
            assert_eq!(staged.len(), 150);
            assert_eq!(staged.times(), Some((expected[0].0, expected[149].0)));
            assert_eq!(files(), staged.runs.len());
            assert_eq!(staged.runs.is_empty(), run_bytes == RUN_BYTES);
            drop(staged);
            assert_eq!(files(), 0, "files go with what was staged");
        }
    }
}
