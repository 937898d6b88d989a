//! The log of a remote database: its index is sent to us, its batches are pushed, and its files are read through a
//! [`Storage`] that requests them.
//!
//! Pushed batches are stored in a window of bounded size and read from there; older ones are read from files. Granules of
//! the index replace those that were made of pushed batches, because the writer decides where granules end: up to `agreed`
//! both sides have the same granules.
//!
//! Pushes and indexes arrive on different threads. A thread that changes the index holds the lock of the window from the
//! moment it compares with the index until it has changed it: otherwise a push that is compared before an index and added
//! after it would add messages twice.

use crate::directory::LogDir;
use crate::error::LogError;

use crate::format::FILE_HEADER_BYTES;
use crate::granule::{self, GRANULE_BYTES, Granule};
use crate::log::{FileEnd, Log, State};
use crate::storage::Storage;
use crate::window::Window;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tapedb_codec::batch::{BatchError, BatchHeader};

/// The index of a remote log at one moment, from [`Log::agreed`] on.
#[derive(Clone, Copy, Debug)]
pub struct LogIndex<'a> {
    /// First sequence number of the log.
    pub first_sequence: u64,
    /// Sequence number after its last message.
    pub next_sequence: u64,
    /// The granules that end after [`Log::agreed`], in order.
    pub granules: &'a [Granule],
    /// All its files, in order.
    pub files: &'a [u64],
}

/// The result of [`Log::push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The batches are in the window and in the index.
    Added,
    /// Batches before them are missing: they were not added, and the index must be requested again.
    Gap,
}

impl Log {
    /// A remote log, with an empty index. `window_bytes`: how many pushed bytes are stored. [`Log::refresh`] does nothing
    /// on it.
    pub fn remote(
        storage: Arc<dyn Storage>,
        dir: &Path,
        stream_id: u64,
        space: u32,
        window_bytes: usize,
    ) -> Arc<Self> {
        let dir = LogDir { storage, path: dir.to_path_buf(), stream_id, space };
        let mut log = Self::empty(dir, 0, true);
        log.window = Some(Mutex::new(Window::new(window_bytes)));
        Arc::new(log)
    }

    /// Up to this sequence number the index has the writer's granules: the next index has those that end after it.
    pub fn agreed(&self) -> u64 {
        self.state().agreed
    }

    /// Number of granules after [`Log::agreed`].
    pub fn granules_pushed(&self) -> usize {
        let snapshot = self.snapshot();
        snapshot.len() - snapshot.find(self.agreed())
    }

    /// Applies a received index: adds it to the present one, or replaces that (`replace`).
    ///
    /// # Errors
    /// [`LogError::Unreadable`] when it contradicts itself or does not continue at `agreed`; nothing is changed then.
    pub fn apply_index(&self, index: &LogIndex<'_>, replace: bool) -> Result<(), LogError> {
        if !is_consistent(index) {
            let what = "its index contradicts itself";
            return Err(LogError::Unreadable { path: self.dir.path.clone(), what });
        }
        let mut window = self.changing();
        let mut state = self.state_mut();
        let next_sequence = if replace {
            *state = State::default();
            window.iter_mut().for_each(|window| window.clear());
            state.take(index);
            index.next_sequence
        } else {
            if index.next_sequence >= state.next_sequence {
                state.take(index);
            }
            state.drop_before(index);
            state.next_sequence
        };
        drop(state);
        self.end.store(next_sequence, Ordering::Release);
        drop(window);
        self.close_dropped();
        Ok(())
    }

    /// Adds whole batches that the writer has appended at (file, offset); `first_sequence` is that of the first one.
    ///
    /// # Errors
    /// [`LogError::Batch`] for bytes that are not whole batches in order; nothing is added then.
    pub fn push(
        &self,
        (file, offset): (u64, u64),
        first_sequence: u64,
        bytes: &[u8],
    ) -> Result<Pushed, LogError> {
        let mut window = self.changing();
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
            return Ok(Pushed::Gap);
        }
        window.iter_mut().for_each(|window| window.push(file, offset, bytes));
        if !granules.is_empty() {
            if self.active_end().is_none_or(|active| active.file < file) {
                self.start_file(file);
            }
            self.publish(&granules, offset + bytes.len() as u64, sequence);
        }
        Ok(Pushed::Added)
    }

    /// Bytes of a file from the window; `false`: not all of them are there.
    pub(crate) fn read_window(&self, (file, offset): (u64, u64), len: usize, buf: &mut Vec<u8>) -> bool {
        let Some(window) = &self.window else { return false };
        window.lock().unwrap_or_else(PoisonError::into_inner).read(file, offset, len, buf)
    }

    /// The window, locked: held while the index of a remote log is compared and changed.
    fn changing(&self) -> Option<MutexGuard<'_, Window>> {
        Some(self.window.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
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
        let (field, need, have) = ("first_sequence", "that of the push", header.first_sequence);
        return Err(LogError::Batch(BatchError::Field { offset: 16, field, need, have }));
    }
    Ok(header)
}

/// Whether granules and files follow each other.
fn is_consistent(index: &LogIndex<'_>) -> bool {
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
    /// Replaces the granules after the agreed end by those of the index.
    fn take(&mut self, index: &LogIndex<'_>) {
        let from = index.granules.first().map_or(u64::MAX, |granule| granule.first_sequence);
        let kept = |granule: &Granule| granule.first_sequence < from;
        self.open = self.open.take_if(|open| kept(open));
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
        // Readers do not depend on which file the granules of `active` are of.
        for granule in index.granules {
            let full = self.open.replace(*granule);
            Arc::make_mut(&mut self.active).extend(full);
        }
        if let (Some(last), Some(open)) = (self.files.last_mut(), &self.open) {
            last.end = last.end.max(if last.file == open.file { open.end() } else { FILE_HEADER_BYTES });
        }
        self.next_sequence = index.next_sequence;
        self.agreed = match &self.open {
            Some(open) if open.len < GRANULE_BYTES => open.first_sequence,
            _ => index.next_sequence,
        };
        self.first_sequence = self.first_sequence.max(index.first_sequence);
    }

    /// Drops the files that no longer exist.
    fn drop_before(&mut self, index: &LogIndex<'_>) {
        let Some(&first) = index.files.first() else { return };
        self.files.retain(|file| file.file >= first);
        for part in [&mut self.sealed, &mut self.active] {
            let gone = part.partition_point(|granule| granule.file < first);
            if gone > 0 {
                Arc::make_mut(part).drain(..gone);
            }
        }
        self.open = self.open.take_if(|open| open.file >= first);
        self.first_sequence = self.first_sequence.max(index.first_sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStorage;
    use crate::options::LogOptions;
    use crate::tail::TailPosition;
    use crate::writer::LogWriter;
    use std::thread;
    use tapedb_codec::batch::BatchBuilder;

    fn batch(bytes: usize) -> Vec<u8> {
        let (mut builder, mut out) = (BatchBuilder::new(), Vec::new());
        builder.push_bytes(5, 0, 0, &vec![7; bytes]).unwrap();
        builder.finish(1, &mut out);
        out
    }

    /// A log that is written, and a remote view of it, over the same storage.
    fn pair(window_bytes: usize) -> (LogWriter, Arc<Log>) {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let dir = Path::new("/log");
        let options = LogOptions { file_bytes_max: 40 << 10, ..LogOptions::new(7, 0) };
        let (writer, _) = LogWriter::open(storage.clone(), dir, options).unwrap();
        (writer, Log::remote(storage, dir, 7, 0, window_bytes))
    }

    fn send_index(there: &Log, here: &Log) {
        let snapshot = there.snapshot();
        let granules: Vec<_> =
            snapshot.iter().filter(|g| g.next_sequence() > here.agreed()).copied().collect();
        let (first_sequence, next_sequence) = (snapshot.first_sequence(), snapshot.next_sequence());
        let files = &there.files()[..];
        here.apply_index(&LogIndex { first_sequence, next_sequence, granules: &granules, files }, false)
            .unwrap();
    }

    /// Appends a batch and pushes it.
    fn append_and_push(writer: &mut LogWriter, here: &Log, bytes: usize) -> Pushed {
        let mut batch = batch(bytes);
        let sequences = writer.append(&mut batch).unwrap();
        let (file, end) = writer.position();
        here.push((file, end - batch.len() as u64), sequences.start, &batch).unwrap()
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
    fn indexed_and_pushed_batches_are_read_in_order() {
        for window_bytes in [0, 3 << 10, 1 << 20] {
            let (mut writer, here) = pair(window_bytes);
            for round in 0..40u64 {
                for size in 0..10 {
                    // In some rounds nothing is pushed.
                    if round % 3 == 1 {
                        writer.append(&mut batch(size * 100)).unwrap();
                    } else {
                        let expected = if round % 3 == 2 { Pushed::Gap } else { Pushed::Added };
                        assert_eq!(
                            append_and_push(&mut writer, &here, size * 100),
                            expected,
                            "round {round}"
                        );
                    }
                }
                if round % 3 == 2 {
                    send_index(writer.log(), &here);
                }
                let end = here.next_sequence();
                assert_eq!(read_all(&here, 0), (0..end).collect::<Vec<_>>(), "round {round}");
                assert_eq!(read_all(&here, end / 2), (end / 2..end).collect::<Vec<_>>());
            }
            send_index(writer.log(), &here);
            assert_eq!(here.next_sequence(), 400);
            writer.log().trim(300).unwrap();
            send_index(writer.log(), &here);
            let first = here.first_sequence();
            assert!(first > 200 && first == writer.log().first_sequence());
            assert_eq!(read_all(&here, first), (first..400).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_push_beside_an_index_adds_no_message_twice() {
        const BATCHES: u64 = 100_000;
        let (mut writer, here) = pair(1 << 20);
        let there = writer.log().clone();
        let check = |before: u64| {
            let snapshot = here.snapshot();
            let mut next = snapshot.get(0).map_or(0, |first| first.first_sequence);
            for granule in snapshot.iter() {
                assert_eq!(granule.first_sequence, next, "{granule:?} in {snapshot:?}");
                next = granule.next_sequence();
            }
            assert_eq!(next, snapshot.next_sequence());
            assert!(next >= before, "the end was {before} and is {next}");
            next
        };
        thread::scope(|scope| {
            let pushing = scope.spawn(|| {
                for _ in 0..BATCHES {
                    append_and_push(&mut writer, &here, 100);
                }
            });
            let mut next_sequence = 0;
            while !pushing.is_finished() {
                send_index(&there, &here);
                next_sequence = check(next_sequence);
            }
        });
        send_index(&there, &here);
        assert_eq!((check(BATCHES), here.next_sequence()), (BATCHES, BATCHES));
    }

    #[test]
    fn an_old_index_removes_nothing() {
        let (mut writer, here) = pair(1 << 20);
        append_and_push(&mut writer, &here, 10);
        let granules: Vec<_> = writer.log().snapshot().iter().copied().collect();
        append_and_push(&mut writer, &here, 10);
        let old = LogIndex { first_sequence: 0, next_sequence: 1, granules: &granules, files: &[0] };
        here.apply_index(&old, false).unwrap();
        assert_eq!(read_all(&here, 0), [0, 1]);
        here.apply_index(&old, true).unwrap();
        assert_eq!((here.next_sequence(), read_all(&here, 0)), (1, vec![0]));
    }

    #[test]
    fn an_index_that_contradicts_itself_is_refused() {
        let (mut writer, here) = pair(1 << 20);
        let mut whole = batch(10);
        writer.append(&mut whole).unwrap();
        assert!(here.push((0, 64), 1, &whole).is_err());
        assert!(here.push((0, 64), 0, &whole[..whole.len() - 1]).is_err());
        let granule = *writer.log().snapshot().get(0).unwrap();
        let bad = [
            LogIndex { first_sequence: 0, next_sequence: 0, granules: &[granule], files: &[0] },
            LogIndex { first_sequence: 0, next_sequence: 1, granules: &[granule], files: &[] },
            LogIndex { first_sequence: 0, next_sequence: 2, granules: &[granule, granule], files: &[0] },
            LogIndex { first_sequence: 0, next_sequence: 0, granules: &[], files: &[3, 3] },
        ];
        for index in bad {
            assert!(here.apply_index(&index, false).is_err(), "{index:?}");
        }
        assert_eq!(here.next_sequence(), 0);
    }
}
