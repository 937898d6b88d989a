//! Room at the end of files that grow: the file system sets it aside before it is needed, so that a sync need not write a new
//! size; and where a write need not be on the disk at once, the room is mapped, so that appending is copying, without a
//! call to the system.
//!
//! Room is a favour. It is made by a thread of its own, ahead of whoever appends. Until it is there, where there is none
//! (the disk is full, the file system cannot) and where a write goes past it, writes go through the system as ever, and it
//! is they that fail when the disk is full.
//!
//! Always true: a [`GrowingFile`] is cut only when no room is being made for it, and none that was asked for before is made
//! afterwards. A window lies within the file and its pages are in memory and may be written when it is handed out.

use crate::storage::{FileId, StorageFile};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use window::Window;

/// Who writes more than so many bytes a second writes large batches, and fills the memory of the machine: making pages for
/// them beforehand takes more of it than calls of the system do.
const MAPPED_BYTES_MAX: u64 = 100_000_000;

/// A file that is written, with room at its end if that is asked for.
pub(crate) struct GrowingFile(Arc<Inner>);

struct Inner {
    file: File,
    room: Mutex<Room>,
    /// Held while room is made, and while the file is cut.
    making: Mutex<()>,
}

/// What there is of a file's room.
#[derive(Default)]
struct Room {
    /// Where writes go now, and where they will when that is full.
    windows: [Option<Window>; 2],
    /// A window that is full. Unmapping it takes far longer than a write, so it is left to who makes room.
    full: Option<Window>,
    /// Where room was asked for last, and when.
    asked: Option<(u64, Instant)>,
    /// How often the file has been cut: what was asked for before is not made afterwards.
    cuts: u64,
}

/// Room that somebody asks for.
struct Request {
    file: Weak<Inner>,
    range: Range<u64>,
    is_mapped: bool,
    cuts: u64,
}

impl GrowingFile {
    pub fn new(file: File) -> Self {
        Self(Arc::new(Inner { file, room: Mutex::default(), making: Mutex::default() }))
    }
}

impl StorageFile for GrowingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        StorageFile::read_at(&self.0.file, buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if lock(&self.0.room).copy(bytes, offset) {
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
        let _making = lock(&self.0.making);
        {
            let mut room = lock(&self.0.room);
            room.cuts += 1;
            // Before the file is cut: writing to a page that is no longer there ends the process.
            (room.windows, room.full) = ([None, None], None);
        }
        StorageFile::truncate(&self.0.file, len)
    }

    fn reserve(&self, range: Range<u64>, is_mapped: bool) {
        static MAKER: OnceLock<Option<mpsc::Sender<Request>>> = OnceLock::new();
        let (cuts, took) = lock(&self.0.room).ask(range.start);
        let is_fast = took.is_some_and(|(bytes, took)| is_faster(bytes, took));
        let Some(maker) = MAKER.get_or_init(start).as_ref().filter(|_| !(is_mapped && is_fast)) else {
            return;
        };
        // Without the thread there is no room.
        let _ = maker.send(Request { file: Arc::downgrade(&self.0), range, is_mapped, cuts });
    }
}

/// Whether so many bytes in this time are too many to be copied to mapped pages.
fn is_faster(bytes: u64, took: Duration) -> bool {
    u128::from(bytes) * 1_000_000_000 > took.as_nanos() * u128::from(MAPPED_BYTES_MAX)
}

/// Starts the thread that makes room for all files of the process.
fn start() -> Option<mpsc::Sender<Request>> {
    let (sender, requests) = mpsc::channel::<Request>();
    let make = move || requests.iter().for_each(|request| request.make());
    thread::Builder::new().name("tapedb-room".into()).spawn(make).ok().map(|_| sender)
}

impl Request {
    fn make(self) {
        let Some(inner) = self.file.upgrade() else { return };
        let _making = lock(&inner.making);
        let (full, cuts) = {
            let mut room = lock(&inner.room);
            (room.full.take(), room.cuts)
        };
        drop(full);
        if cuts != self.cuts {
            return;
        }
        if system::set_aside(&inner.file, &self.range).is_err() || !self.is_mapped {
            return;
        }
        if let Ok(Some(window)) = Window::open(&inner.file, self.range) {
            lock(&inner.room).add(window);
        }
    }
}

impl Room {
    /// Copies bytes to their place in the file, if that lies within a window.
    fn copy(&mut self, bytes: &[u8], offset: u64) -> bool {
        let [now, next] = &mut self.windows;
        if next.as_ref().is_some_and(|next| next.holds(bytes, offset)) {
            self.full = std::mem::replace(now, next.take());
        }
        now.as_mut().is_some_and(|window| window.copy(bytes, offset))
    }

    /// Notes where room is asked for; how often the file has been cut, and how many bytes were written in what time since room was
    /// asked for last.
    fn ask(&mut self, offset: u64) -> (u64, Option<(u64, Duration)>) {
        let now = Instant::now();
        let before = self.asked.replace((offset, now));
        let since = before.map(|(at, when)| (offset.saturating_sub(at), now - when));
        (self.cuts, since)
    }

    fn add(&mut self, window: Window) {
        let [now, next] = &mut self.windows;
        let free = if now.is_none() { now } else { next };
        *free = Some(window);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(target_os = "linux", not(miri)))]
mod window {
    use super::system;
    use memmap2::{Advice, MmapOptions, MmapRaw};
    use std::fs::File;
    use std::io;
    use std::ops::Range;

    /// A piece of a file that is mapped, and whose pages are in memory.
    pub(super) struct Window {
        map: MmapRaw,
        start: u64,
    }

    impl Window {
        /// Maps the range, which is within the file; `None` where that is not safe.
        pub fn open(file: &File, range: Range<u64>) -> io::Result<Option<Self>> {
            if !system::keeps_what_is_set_aside(file)? {
                return Ok(None);
            }
            let len = (range.end - range.start) as usize;
            let map = MmapOptions::new().offset(range.start).len(len).map_raw(file)?;
            // What cannot be had is told now, and not by a signal when it is written.
            map.advise(Advice::PopulateWrite)?;
            Ok(Some(Self { map, start: range.start }))
        }

        /// Whether the place of the bytes lies within.
        pub fn holds(&self, bytes: &[u8], offset: u64) -> bool {
            self.place(bytes, offset).is_some()
        }

        /// Copies bytes to their place, if it lies within.
        pub fn copy(&mut self, bytes: &[u8], offset: u64) -> bool {
            let Some(place) = self.place(bytes, offset) else { return false };
            // SAFETY: `place + bytes.len()` is at most the length of the map, which is mapped for reading and writing
            // until it is dropped, and nothing else in this process has a pointer into it. Whether its pages exist is not a
            // matter of memory safety, for the system ends a process that writes to one that does not: they do as long as nobody
            // cuts the file but `GrowingFile::truncate`, which has dropped the map by then.
            #[expect(unsafe_code, reason = "writing to a mapped file")]
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.map.as_mut_ptr().add(place), bytes.len());
            }
            true
        }

        fn place(&self, bytes: &[u8], offset: u64) -> Option<usize> {
            let place = usize::try_from(offset.checked_sub(self.start)?).ok()?;
            (place.checked_add(bytes.len())? <= self.map.len()).then_some(place)
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod window {
    use std::fs::File;
    use std::io;
    use std::ops::Range;

    /// Elsewhere nothing is mapped.
    pub(super) enum Window {}

    impl Window {
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

    /// ext2 to ext4, and tmpfs, as `statfs(2)` numbers them. (XFS does, unless somebody has copied the file by sharing its
    /// blocks, as `cp` does.)
    const KEEPERS: [i64; 2] = [0xef53, 0x0102_1994];

    /// Sets blocks aside for a range of a file, which grows; what is new reads as zeros.
    pub(super) fn set_aside(file: &File, range: &Range<u64>) -> io::Result<()> {
        Ok(fallocate(file, FallocateFlags::empty(), range.start, range.end - range.start)?)
    }

    /// Whether blocks that were set aside are there when pages are written: other file systems write to other blocks, of
    /// which there may be none, and then a signal ends the process.
    pub(super) fn keeps_what_is_set_aside(file: &File) -> io::Result<bool> {
        let kind = fstatfs(file)?.f_type as i64;
        Ok(KEEPERS.contains(&kind))
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    use std::fs::File;
    use std::io;
    use std::ops::Range;

    /// Elsewhere no room is made.
    pub(super) fn set_aside(_: &File, _: &Range<u64>) -> io::Result<()> {
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

    /// Waits until the room that was asked for before is there, or was refused.
    fn wait(file: &GrowingFile, len: u64) {
        for _ in 0..10_000 {
            if StorageFile::len(file).unwrap() >= len {
                drop(lock(&file.0.making));
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("no room was made");
    }

    /// As if nothing had been asked for for long.
    fn forget_asking(file: &GrowingFile) {
        lock(&file.0.room).asked = None;
    }

    #[test]
    fn who_writes_too_much_gets_no_mapped_room() {
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

    fn windows(file: &GrowingFile) -> usize {
        lock(&file.0.room).windows.iter().flatten().count()
    }

    #[test]
    fn writes_are_the_same_in_front_of_within_and_behind_room() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        let mut expected = vec![1; 1000];
        file.write_at(&expected, 0).unwrap();
        for step in 0..40_u64 {
            if step % 3 == 0 {
                let end = expected.len() as u64;
                forget_asking(&file);
                file.reserve(end..end + 8192, step % 2 == 0);
                wait(&file, end + 8192);
            }
            let piece: Vec<u8> = (0..700 + 37 * step).map(|at| (at + step) as u8 | 1).collect();
            file.write_at(&piece, expected.len() as u64).unwrap();
            expected.extend_from_slice(&piece);
            assert_eq!(content(&file)[..expected.len()], expected);
        }
        assert!(content(&file)[expected.len()..].iter().all(|byte| *byte == 0), "room is zeros");
        file.sync_data().unwrap();
        file.truncate(expected.len() as u64).unwrap();
        assert_eq!(content(&file), expected);
    }

    #[test]
    fn room_is_mapped_where_it_is_asked_for_and_goes_when_the_file_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        file.write_at(&[7; 100], 0).unwrap();
        file.reserve(100..9000, false);
        wait(&file, 9000);
        assert_eq!(windows(&file), 0);
        forget_asking(&file);
        file.reserve(9000..20_000, true);
        wait(&file, 20_000);
        if !system::keeps_what_is_set_aside(&file.0.file).unwrap() {
            return tapedb_skipped::skipped(
                "the file system does not keep what is set aside; nothing is mapped",
            );
        }
        assert_eq!(windows(&file), 1);
        file.truncate(100).unwrap();
        assert_eq!((windows(&file), content(&file)), (0, vec![7; 100]));
        file.write_at(&[8; 50], 100).unwrap();
        assert_eq!(StorageFile::len(&file).unwrap(), 150);
    }

    #[test]
    fn what_was_asked_for_before_a_cut_is_not_made_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        file.write_at(&[7; 100], 0).unwrap();
        let held = lock(&file.0.making);
        file.reserve(100..9000, true);
        // The cut itself waits for whoever makes room: what it does before is what counts.
        lock(&file.0.room).cuts += 1;
        drop(held);
        file.reserve(100..200, false);
        wait(&file, 200);
        assert_eq!(StorageFile::len(&file).unwrap(), 200);
    }

    #[test]
    fn who_asks_for_more_room_than_there_can_be_goes_on_without() {
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
