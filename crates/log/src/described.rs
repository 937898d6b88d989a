//! The log of a database elsewhere: its index is described to us, its batches are pushed, and its files are read through a
//! [`Storage`] that asks for them.
//!
//! What is pushed lies in a window of bounded size, from which it is read; what has left that is read from files. Described
//! granules take the place of those that were made of pushed batches, for where granules end is the writer's choice: up to
//! `agreed` both sides have the same.

use crate::error::LogError;
use crate::files::LogDir;
use crate::format::FILE_HEADER_BYTES;
use crate::granule::{self, GRANULE_BYTES, Granule};
use crate::log::{FileEnd, Log, State};
use crate::storage::Storage;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use tapedb_codec::batch::{BatchError, BatchHeader};

/// The index of a log elsewhere, at one moment, from where it was known before.
#[derive(Clone, Copy, Debug)]
pub struct LogIndex<'a> {
    /// The log begins with this sequence number.
    pub first_sequence: u64,
    /// Sequence number after its last message.
    pub next_sequence: u64,
    /// The granules that end behind [`Log::agreed`], in order.
    pub granules: &'a [Granule],
    /// All its files, in order.
    pub files: &'a [u64],
}

/// What came of pushed batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// They are in the window, and in the index.
    Taken,
    /// Batches before them are not known: they are left out, and the log is to be described again.
    Gap,
}

/// Bytes of the end of a log. Always true: `bytes` is the sum of the chunks' bytes.
#[derive(Debug)]
pub(crate) struct Window {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Chunk {
    file: u64,
    offset: u64,
    bytes: Vec<u8>,
}

impl Log {
    /// A log elsewhere, of which nothing is known yet. `window_bytes`: so much of what is pushed is kept. [`Log::refresh`]
    /// does nothing on it.
    pub fn described(
        storage: Arc<dyn Storage>,
        dir: &Path,
        stream_id: u64,
        space: u32,
        window_bytes: usize,
    ) -> Arc<Self> {
        let dir = LogDir { storage, path: dir.to_path_buf(), stream_id, space };
        let mut log = Self::empty(dir, 0, true);
        let window = Window { chunks: VecDeque::new(), bytes: 0, bytes_max: window_bytes };
        log.window = Some(Mutex::new(window));
        Arc::new(log)
    }

    /// Up to this sequence number the index is as it was described: granules that end behind it are to be described next.
    pub fn agreed(&self) -> u64 {
        self.state().agreed
    }

    /// How many granules are behind [`Log::agreed`].
    pub fn granules_pushed(&self) -> usize {
        let snapshot = self.snapshot();
        snapshot.len() - snapshot.find(self.agreed())
    }

    /// Takes over a description: beyond what is known, or `anew`, when nothing that was known counts.
    ///
    /// # Errors
    /// [`LogError::Unreadable`] when it contradicts itself or does not go on where the index agrees; it is then as before.
    pub fn describe(&self, index: &LogIndex<'_>, anew: bool) -> Result<(), LogError> {
        let mut state = self.state_mut();
        if !is_whole(index) {
            let what = "its description contradicts itself";
            return Err(LogError::Unreadable { path: self.dir.path.clone(), what });
        }
        let next_sequence = if anew {
            *state = State::default();
            self.forget_window();
            state.take(index);
            index.next_sequence
        } else {
            if index.next_sequence >= state.next_sequence {
                state.take(index);
            }
            state.forget_before_files(index);
            state.next_sequence
        };
        drop(state);
        self.end.store(next_sequence, Ordering::Release);
        self.close_forgotten();
        Ok(())
    }

    /// Takes batches in that have been appended, whole, at a place; `first_sequence`: of the first one.
    ///
    /// # Errors
    /// [`LogError::Batch`] for bytes that are not whole batches in order; nothing is taken then.
    pub fn extend(
        &self,
        (file, offset): (u64, u64),
        first_sequence: u64,
        bytes: &[u8],
    ) -> Result<Extended, LogError> {
        let known = self.next_sequence();
        let (mut granules, mut at, mut sequence) = (Vec::new(), 0, first_sequence);
        while at < bytes.len() {
            let header = whole_batch(&bytes[at..], sequence)?;
            if sequence >= known {
                granule::extend(&mut granules, Granule::of(file, offset + at as u64, &header));
            }
            (at, sequence) = (at + header.batch_bytes(), header.next_sequence());
        }
        let begins = granules.first().map_or(known, |granule| granule.first_sequence);
        if begins != known {
            return Ok(Extended::Gap);
        }
        if let Some(window) = &self.window {
            window.lock().unwrap_or_else(PoisonError::into_inner).push(file, offset, bytes);
        }
        if !granules.is_empty() {
            if self.active_end().is_none_or(|active| active.file < file) {
                self.start_file(file);
            }
            self.publish(&granules, offset + bytes.len() as u64, sequence);
        }
        Ok(Extended::Taken)
    }

    /// Bytes of a file from the window; `false`: not all of them are there.
    pub(crate) fn read_window(&self, (file, offset): (u64, u64), len: usize, buf: &mut Vec<u8>) -> bool {
        let Some(window) = &self.window else { return false };
        window.lock().unwrap_or_else(PoisonError::into_inner).read(file, offset, len, buf)
    }

    fn forget_window(&self) {
        if let Some(window) = &self.window {
            let mut window = window.lock().unwrap_or_else(PoisonError::into_inner);
            window.chunks.clear();
            window.bytes = 0;
        }
    }
}

/// The header of the whole batch at the start of `bytes`, which must have this sequence number.
fn whole_batch(bytes: &[u8], sequence: u64) -> Result<BatchHeader, LogError> {
    let header = BatchHeader::parse_stored(bytes).map_err(LogError::Batch)?;
    let (need, have) = (header.batch_bytes(), bytes.len());
    if have < need {
        return Err(LogError::Batch(BatchError::Truncated { offset: 0, need, have }));
    }
    if header.first_sequence != sequence {
        let (field, need, have) =
            ("first_sequence", "that of the place it was pushed for", header.first_sequence);
        return Err(LogError::Batch(BatchError::Field { offset: 16, field, need, have }));
    }
    Ok(header)
}

/// Whether granules and files follow each other.
fn is_whole(index: &LogIndex<'_>) -> bool {
    let LogIndex { next_sequence, granules, files, .. } = index;
    let follows = |a: &Granule, b: &Granule| {
        a.next_sequence() <= b.first_sequence
            && (a.file < b.file || (a.file == b.file && a.end() <= b.offset))
    };
    let is_sound = |granule: &Granule| {
        granule.count > 0
            && granule.first_sequence.checked_add(granule.count).is_some_and(|end| end <= *next_sequence)
            && granule.offset.checked_add(granule.len.into()).is_some()
            && granule.len <= granule::GRANULE_BYTES_MAX
            && granule.time_min <= granule.time_max
            && files.binary_search(&granule.file).is_ok()
    };
    files.is_sorted_by(|a, b| a < b) && granules.iter().all(is_sound) && granules.is_sorted_by(follows)
}

impl State {
    /// Replaces what is behind the agreed end by what is described.
    fn take(&mut self, index: &LogIndex<'_>) {
        let from = index.granules.first().map_or(u64::MAX, |granule| granule.first_sequence);
        let kept = |granule: &Granule| granule.first_sequence < from;
        self.tail = self.tail.take_if(|tail| kept(tail));
        for part in [&mut self.active, &mut self.sealed] {
            let len = part.partition_point(kept);
            if len < part.len() {
                Arc::make_mut(part).truncate(len);
            }
        }
        for &file in index.files {
            if self.files.last().is_none_or(|last| last.file < file) {
                self.files.push(FileEnd { file, end: FILE_HEADER_BYTES, next_sequence: file });
            }
        }
        // Of which file the granules of `active` are does not matter to who reads.
        for granule in index.granules {
            let full = self.tail.replace(*granule);
            Arc::make_mut(&mut self.active).extend(full);
        }
        if let (Some(last), Some(tail)) = (self.files.last_mut(), &self.tail) {
            last.end = last.end.max(if last.file == tail.file { tail.end() } else { FILE_HEADER_BYTES });
        }
        self.next_sequence = index.next_sequence;
        self.agreed = match &self.tail {
            Some(tail) if tail.len < GRANULE_BYTES => tail.first_sequence,
            _ => index.next_sequence,
        };
        self.first_sequence = self.first_sequence.max(index.first_sequence);
    }

    /// Forgets the files that are no longer there.
    fn forget_before_files(&mut self, index: &LogIndex<'_>) {
        let Some(&first) = index.files.first() else { return };
        self.files.retain(|known| known.file >= first);
        for part in [&mut self.sealed, &mut self.active] {
            let gone = part.partition_point(|granule| granule.file < first);
            if gone > 0 {
                Arc::make_mut(part).drain(..gone);
            }
        }
        self.tail = self.tail.take_if(|tail| tail.file >= first);
        self.first_sequence = self.first_sequence.max(index.first_sequence);
    }
}

/// So large chunks grow.
const CHUNK_BYTES: usize = 256 << 10;

impl Window {
    fn push(&mut self, file: u64, offset: u64, bytes: &[u8]) {
        let follows = |chunk: &&mut Chunk| {
            chunk.file == file && chunk.end() == offset && chunk.bytes.len() + bytes.len() <= CHUNK_BYTES
        };
        match self.chunks.back_mut().filter(follows) {
            Some(chunk) => chunk.bytes.extend_from_slice(bytes),
            None => {
                let mut grown = Vec::with_capacity(bytes.len().max(CHUNK_BYTES));
                grown.extend_from_slice(bytes);
                self.chunks.push_back(Chunk { file, offset, bytes: grown });
            }
        }
        self.bytes += bytes.len();
        while self.bytes > self.bytes_max
            && let Some(oldest) = self.chunks.pop_front()
        {
            self.bytes -= oldest.bytes.len();
        }
    }

    fn read(&self, file: u64, offset: u64, len: usize, buf: &mut Vec<u8>) -> bool {
        let holds = |chunk: &Chunk, at: u64| chunk.file == file && (chunk.offset..chunk.end()).contains(&at);
        // From the newest on: that is where live readers are.
        let Some(first) = self.chunks.iter().rposition(|chunk| holds(chunk, offset)) else { return false };
        buf.clear();
        for chunk in self.chunks.range(first..) {
            let at = offset + buf.len() as u64;
            if !holds(chunk, at) {
                return false;
            }
            let rest = &chunk.bytes[(at - chunk.offset) as usize..];
            buf.extend_from_slice(&rest[..rest.len().min(len - buf.len())]);
            if buf.len() == len {
                return true;
            }
        }
        false
    }
}

impl Chunk {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStorage;
    use crate::tail::TailPosition;
    use crate::writer::{LogOptions, LogWriter};
    use tapedb_codec::batch::BatchBuilder;

    fn batch(bytes: usize) -> Vec<u8> {
        let (mut builder, mut out) = (BatchBuilder::new(), Vec::new());
        builder.push_bytes(5, 0, 0, &vec![7; bytes]).unwrap();
        builder.finish(1, &mut out);
        out
    }

    /// A log that is written, and one that follows it, over files of their own storage.
    fn pair(window_bytes: usize) -> (LogWriter, Arc<Log>) {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let dir = Path::new("/log");
        let options = LogOptions { file_bytes_max: 40 << 10, ..LogOptions::new(7, 0) };
        let (writer, _) = LogWriter::open(storage.clone(), dir, options).unwrap();
        (writer, Log::described(storage, dir, 7, 0, window_bytes))
    }

    fn describe(there: &Log, here: &Log) {
        let snapshot = there.snapshot();
        let granules: Vec<_> =
            snapshot.iter().filter(|g| g.next_sequence() > here.agreed()).copied().collect();
        let (first_sequence, next_sequence) = (snapshot.first_sequence(), snapshot.next_sequence());
        let files = &there.files()[..];
        here.describe(&LogIndex { first_sequence, next_sequence, granules: &granules, files }, false)
            .unwrap();
    }

    /// Appends a batch and pushes it.
    fn push(writer: &mut LogWriter, here: &Log, bytes: usize) -> Extended {
        let mut batch = batch(bytes);
        let sequences = writer.append(&mut batch).unwrap();
        let (file, end) = writer.place();
        here.extend((file, end - batch.len() as u64), sequences.start, &batch).unwrap()
    }

    fn read_all(log: &Log, from: u64) -> Vec<u64> {
        let (mut position, mut bytes, mut found) = (TailPosition::at(from), Vec::new(), Vec::new());
        loop {
            let span = log.read_from(&mut position, 4 << 10, &mut bytes).unwrap();
            if span.is_empty() {
                return found;
            }
            found.extend(log.batches(&span, &bytes).map(|batch| batch.unwrap().header.first_sequence));
        }
    }

    #[test]
    fn described_and_pushed_batches_are_read_in_order() {
        for window_bytes in [0, 3 << 10, 1 << 20] {
            let (mut writer, here) = pair(window_bytes);
            for round in 0..40u64 {
                for size in 0..10 {
                    // In some rounds nobody watches.
                    if round % 3 == 1 {
                        writer.append(&mut batch(size * 100)).unwrap();
                    } else {
                        let expected = if round % 3 == 2 { Extended::Gap } else { Extended::Taken };
                        assert_eq!(push(&mut writer, &here, size * 100), expected, "round {round}");
                    }
                }
                if round % 3 == 2 {
                    describe(writer.log(), &here);
                }
                let end = here.next_sequence();
                assert_eq!(read_all(&here, 0), (0..end).collect::<Vec<_>>(), "round {round}");
                assert_eq!(read_all(&here, end / 2), (end / 2..end).collect::<Vec<_>>());
            }
            describe(writer.log(), &here);
            assert_eq!(here.next_sequence(), 400);
            writer.log().trim(300).unwrap();
            describe(writer.log(), &here);
            let first = here.first_sequence();
            assert!(first > 200 && first == writer.log().first_sequence());
            assert_eq!(read_all(&here, first), (first..400).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_old_description_takes_nothing_back() {
        let (mut writer, here) = pair(1 << 20);
        push(&mut writer, &here, 10);
        let granules: Vec<_> = writer.log().snapshot().iter().copied().collect();
        push(&mut writer, &here, 10);
        let old = LogIndex { first_sequence: 0, next_sequence: 1, granules: &granules, files: &[0] };
        here.describe(&old, false).unwrap();
        assert_eq!(read_all(&here, 0), [0, 1]);
        here.describe(&old, true).unwrap();
        assert_eq!((here.next_sequence(), read_all(&here, 0)), (1, vec![0]));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let (mut writer, here) = pair(1 << 20);
        let mut whole = batch(10);
        writer.append(&mut whole).unwrap();
        assert!(here.extend((0, 64), 1, &whole).is_err());
        assert!(here.extend((0, 64), 0, &whole[..whole.len() - 1]).is_err());
        let granule = *writer.log().snapshot().get(0).unwrap();
        let bad = [
            LogIndex { first_sequence: 0, next_sequence: 0, granules: &[granule], files: &[0] },
            LogIndex { first_sequence: 0, next_sequence: 1, granules: &[granule], files: &[] },
            LogIndex { first_sequence: 0, next_sequence: 2, granules: &[granule, granule], files: &[0] },
            LogIndex { first_sequence: 0, next_sequence: 0, granules: &[], files: &[3, 3] },
        ];
        for index in bad {
            assert!(here.describe(&index, false).is_err(), "{index:?}");
        }
        assert_eq!(here.next_sequence(), 0);
    }
}
