//! Preallocation at the end of files that grow: the file system reserves blocks before they are needed, so that a sync need
//! not write a new file size. Where writes need not be on the disk at once, the range is also mapped, so that appending is
//! a copy without a system call.
//!
//! Preallocation is best effort. A thread of its own does it, ahead of the writer. Where it is not done yet or not possible
//! (full disk, file system without support), and beyond its end, writes are ordinary system calls, which report a full
//! disk.
//!
//! Always true: a [`GrowingFile`] is cut only while nothing is preallocated for it, and requests made before a cut are not
//! executed after it. A mapped range lies within the file, and its pages are in memory and writable.

use crate::storage::{FileId, StorageFile};
use mapped::MappedRange;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes a second above which nothing is mapped. Such writers use large batches: populating pages in advance then costs
/// more than system calls.
const MAPPED_BYTES_MAX: u64 = 100_000_000;

/// A file that is written, with preallocated space at its end on request.
pub(crate) struct GrowingFile(Arc<Inner>);

struct Inner {
    file: File,
    space: Mutex<Space>,
    /// Held while space is preallocated, and while the file is cut.
    allocating: Mutex<()>,
}

/// The preallocated space of a file.
#[derive(Default)]
struct Space {
    /// Where writes go now, and where they go when that is full.
    mapped: [Option<MappedRange>; 2],
    /// A full range. Unmapping takes far longer than a write, so the preallocating thread does it.
    full: Option<MappedRange>,
    /// Offset and time of the last request.
    requested: Option<(u64, Instant)>,
    /// How often the file has been cut: a request from before a cut is dropped.
    cuts: u64,
}

/// A request for preallocation.
struct Request {
    file: Weak<Inner>,
    range: Range<u64>,
    is_mapped: bool,
    cuts: u64,
}

impl GrowingFile {
    pub fn new(file: File) -> Self {
        Self(Arc::new(Inner { file, space: Mutex::default(), allocating: Mutex::default() }))
    }
}

impl StorageFile for GrowingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        StorageFile::read_at(&self.0.file, buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if lock(&self.0.space).copy(bytes, offset) {
            return Ok(());
        }
        StorageFile::write_at(&self.0.file, bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        StorageFile::len(&self.0.file)
    }

    fn identity(&self) -> io::Result<FileId> {
        StorageFile::identity(&self.0.file)
    }

    fn sync_data(&self) -> io::Result<()> {
        StorageFile::sync_data(&self.0.file)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let _allocating = lock(&self.0.allocating);
        {
            let mut space = lock(&self.0.space);
            space.cuts += 1;
            // Before the file is cut: writing to a page that no longer exists ends the process.
            (space.mapped, space.full) = ([None, None], None);
        }
        StorageFile::truncate(&self.0.file, len)
    }

    fn reserve(&self, range: Range<u64>, is_mapped: bool) {
        static ALLOCATOR: OnceLock<Option<mpsc::Sender<Request>>> = OnceLock::new();
        let (cuts, took) = lock(&self.0.space).request(range.start);
        let is_fast = took.is_some_and(|(bytes, took)| is_faster(bytes, took));
        let Some(allocator) = ALLOCATOR.get_or_init(start).as_ref().filter(|_| !(is_mapped && is_fast))
        else {
            return;
        };
        // Without the thread nothing is preallocated.
        let _ = allocator.send(Request { file: Arc::downgrade(&self.0), range, is_mapped, cuts });
    }
}

/// Whether bytes are written too fast for mapped pages to pay off.
fn is_faster(bytes: u64, took: Duration) -> bool {
    u128::from(bytes) * 1_000_000_000 > took.as_nanos() * u128::from(MAPPED_BYTES_MAX)
}

/// Starts the thread that preallocates for all files of the process.
fn start() -> Option<mpsc::Sender<Request>> {
    let (sender, requests) = mpsc::channel::<Request>();
    let allocate = move || requests.iter().for_each(|request| request.execute());
    thread::Builder::new().name("tapedb-prealloc".into()).spawn(allocate).ok().map(|_| sender)
}

impl Request {
    fn execute(self) {
        let Some(inner) = self.file.upgrade() else { return };
        let _allocating = lock(&inner.allocating);
        let (full, cuts) = {
            let mut space = lock(&inner.space);
            (space.full.take(), space.cuts)
        };
        drop(full);
        if cuts != self.cuts {
            return;
        }
        if system::allocate(&inner.file, &self.range).is_err() || !self.is_mapped {
            return;
        }
        if let Ok(Some(range)) = MappedRange::open(&inner.file, self.range) {
            lock(&inner.space).add(range);
        }
    }
}

impl Space {
    /// Copies bytes to their offset in the file, if that lies within a mapped range.
    fn copy(&mut self, bytes: &[u8], offset: u64) -> bool {
        let [now, next] = &mut self.mapped;
        if next.as_ref().is_some_and(|next| next.holds(bytes, offset)) {
            self.full = std::mem::replace(now, next.take());
        }
        now.as_mut().is_some_and(|range| range.copy(bytes, offset))
    }

    /// Records a request. Returns how often the file has been cut, and the bytes and time since the request before.
    fn request(&mut self, offset: u64) -> (u64, Option<(u64, Duration)>) {
        let now = Instant::now();
        let before = self.requested.replace((offset, now));
        let since = before.map(|(at, when)| (offset.saturating_sub(at), now - when));
        (self.cuts, since)
    }

    fn add(&mut self, range: MappedRange) {
        let [now, next] = &mut self.mapped;
        let free = if now.is_none() { now } else { next };
        *free = Some(range);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(target_os = "linux", not(miri)))]
mod mapped {
    use super::system;
    use memmap2::{Advice, MmapOptions, MmapRaw};
    use std::fs::File;
    use std::io;
    use std::ops::Range;

    /// A mapped range of a file whose pages are in memory.
    pub(super) struct MappedRange {
        map: MmapRaw,
        start: u64,
    }

    impl MappedRange {
        /// Maps the range, which is within the file; `None` where that is not safe.
        pub fn open(file: &File, range: Range<u64>) -> io::Result<Option<Self>> {
            if !system::writes_in_place(file)? {
                return Ok(None);
            }
            let len = (range.end - range.start) as usize;
            let map = MmapOptions::new().offset(range.start).len(len).map_raw(file)?;
            // Fails here, instead of with a signal at the first write.
            map.advise(Advice::PopulateWrite)?;
            Ok(Some(Self { map, start: range.start }))
        }

        /// Whether the bytes at this offset lie within.
        pub fn holds(&self, bytes: &[u8], offset: u64) -> bool {
            self.index(bytes, offset).is_some()
        }

        /// Copies bytes to their offset, if they lie within.
        pub fn copy(&mut self, bytes: &[u8], offset: u64) -> bool {
            let Some(index) = self.index(bytes, offset) else { return false };
            // SAFETY: `index + bytes.len()` is at most the length of the map, which is mapped for reading and writing
            // until it is dropped, and nothing else in this process has a pointer into it. A write to a page that does not
            // exist ends the process, which is no matter of memory safety: only `GrowingFile::truncate` cuts the file, and
            // it drops the map first.
            #[expect(unsafe_code, reason = "writing to a mapped file")]
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.map.as_mut_ptr().add(index), bytes.len());
            }
            true
        }

        fn index(&self, bytes: &[u8], offset: u64) -> Option<usize> {
            let index = usize::try_from(offset.checked_sub(self.start)?).ok()?;
            (index.checked_add(bytes.len())? <= self.map.len()).then_some(index)
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod mapped {
    use std::fs::File;
    use std::io;
    use std::ops::Range;

    /// On other systems nothing is mapped.
    pub(super) enum MappedRange {}

    impl MappedRange {
        pub fn open(_: &File, _: Range<u64>) -> io::Result<Option<Self>> {
            Ok(None)
        }

        pub fn holds(&self, _: &[u8], _: u64) -> bool {
            match *self {}
        }

        pub fn copy(&mut self, _: &[u8], _: u64) -> bool {
            match *self {}
        }
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use rustix::fs::{FallocateFlags, fallocate, fstatfs};
    use std::fs::File;
    use std::io;
    use std::ops::Range;

    /// ext2 to ext4, and tmpfs, as `statfs(2)` numbers them. (XFS qualifies only for files without shared blocks, as `cp`
    /// makes them.)
    const IN_PLACE: [i64; 2] = [0xef53, 0x0102_1994];

    /// Allocates blocks for a range of a file, which grows; new bytes read as zeros.
    pub(super) fn allocate(file: &File, range: &Range<u64>) -> io::Result<()> {
        Ok(fallocate(file, FallocateFlags::empty(), range.start, range.end - range.start)?)
    }

    /// Whether pages are written to the allocated blocks. Other file systems write to new blocks, and if none is free a
    /// signal ends the process.
    pub(super) fn writes_in_place(file: &File) -> io::Result<bool> {
        let kind = fstatfs(file)?.f_type as i64;
        Ok(IN_PLACE.contains(&kind))
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    use std::fs::File;
    use std::io;
    use std::ops::Range;

    /// On other systems nothing is preallocated.
    pub(super) fn allocate(_: &File, _: &Range<u64>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;
    use std::time::Duration;

    fn file(dir: &tempfile::TempDir) -> GrowingFile {
        let path = dir.path().join("file");
        GrowingFile::new(File::options().read(true).write(true).create_new(true).open(path).unwrap())
    }

    fn content(file: &GrowingFile) -> Vec<u8> {
        crate::storage::read_all(file, 1 << 30).unwrap()
    }

    /// Waits until the requested space is there, or was refused.
    fn wait(file: &GrowingFile, len: u64) {
        for _ in 0..10_000 {
            if StorageFile::len(file).unwrap() >= len {
                drop(lock(&file.0.allocating));
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("nothing was preallocated");
    }

    /// As if the last request was long ago.
    fn clear_requests(file: &GrowingFile) {
        lock(&file.0.space).requested = None;
    }

    #[test]
    fn fast_writers_get_no_mapped_space() {
        assert!(is_faster(2 << 20, Duration::from_millis(10)) && is_faster(1, Duration::ZERO));
        assert!(!is_faster(2 << 20, Duration::from_millis(30)));
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        file.write_at(&[7; 100], 0).unwrap();
        file.reserve(100..200, true);
        wait(&file, 200);
        file.reserve(1 << 30..2 << 30, true);
        file.reserve(200..300, false);
        wait(&file, 300);
        assert_eq!(StorageFile::len(&file).unwrap(), 300);
    }

    fn mapped_count(file: &GrowingFile) -> usize {
        lock(&file.0.space).mapped.iter().flatten().count()
    }

    #[test]
    fn writes_are_the_same_before_within_and_after_preallocated_space() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        let mut expected = vec![1; 1000];
        file.write_at(&expected, 0).unwrap();
        for step in 0..40_u64 {
            if step % 3 == 0 {
                let end = expected.len() as u64;
                clear_requests(&file);
                file.reserve(end..end + 8192, step % 2 == 0);
                wait(&file, end + 8192);
            }
            let piece: Vec<u8> = (0..700 + 37 * step).map(|at| (at + step) as u8 | 1).collect();
            file.write_at(&piece, expected.len() as u64).unwrap();
            expected.extend_from_slice(&piece);
            assert_eq!(content(&file)[..expected.len()], expected);
        }
        assert!(
            content(&file)[expected.len()..].iter().all(|byte| *byte == 0),
            "preallocated space is zeros"
        );
        file.sync_data().unwrap();
        file.truncate(expected.len() as u64).unwrap();
        assert_eq!(content(&file), expected);
    }

    #[test]
    fn space_is_mapped_on_request_and_unmapped_when_the_file_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        file.write_at(&[7; 100], 0).unwrap();
        file.reserve(100..9000, false);
        wait(&file, 9000);
        assert_eq!(mapped_count(&file), 0);
        clear_requests(&file);
        file.reserve(9000..20_000, true);
        wait(&file, 20_000);
        if !system::writes_in_place(&file.0.file).unwrap() {
            return tapedb_skipped::skipped(
                "the file system does not write to allocated blocks in place; nothing is mapped",
            );
        }
        assert_eq!(mapped_count(&file), 1);
        file.truncate(100).unwrap();
        assert_eq!((mapped_count(&file), content(&file)), (0, vec![7; 100]));
        file.write_at(&[8; 50], 100).unwrap();
        assert_eq!(StorageFile::len(&file).unwrap(), 150);
    }

    #[test]
    fn a_request_from_before_a_cut_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        file.write_at(&[7; 100], 0).unwrap();
        let held = lock(&file.0.allocating);
        file.reserve(100..9000, true);
        // The cut itself waits for the preallocation: this is what it does before.
        lock(&file.0.space).cuts += 1;
        drop(held);
        file.reserve(100..200, false);
        wait(&file, 200);
        assert_eq!(StorageFile::len(&file).unwrap(), 200);
    }

    #[test]
    fn a_request_for_too_much_space_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        file.write_at(&[7; 100], 0).unwrap();
        file.reserve(100..1 << 62, true);
        file.reserve(100..200, false);
        wait(&file, 200);
        file.write_at(&[8; 500], 100).unwrap();
        assert_eq!(content(&file).len(), 600);
    }
}
