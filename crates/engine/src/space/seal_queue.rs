//! The complete log files of a space, from which threads take the next one each, to seal them side by side.
//!
//! One thread leads: it holds the space's maintenance, opens the queue, and puts what all have written into the manifest, in
//! order. Others take files while the queue is open: a thread that the leader has started, and callers that wait for the leader.
//!
//! Where several large files wait, a thread takes some of them at once and makes one segment of them: there are fewer segments to be synced
//! and merged.
//!
//! Always true: files are taken in order and without holes, from where the log was sealed when the queue was opened. A file that
//! was taken is being written, or what was written is here until the leader takes it. After a file that was not sealed no other is
//! taken: nothing behind it can be put into the manifest. When the leader is done, or panics, the queue is closed and empty.

use crate::error::Error;
use crate::interrupt;
use crate::maintenance::forced;
use crate::space::catalog::Part;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tapedb_log::CompleteFile;

/// A wait that is only ended by an event is repeated.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SealQueue {
    state: Mutex<State>,
    /// Something was written.
    changed: Condvar,
    /// Callers that wait until everything is sealed.
    callers: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// While files may be taken: the version of the schema that segments are written with.
    open_for: Option<u16>,
    /// First sequence number that has not been taken.
    next: u64,
    /// Threads that write.
    writing: usize,
    /// What was written and is not in the manifest, by first sequence number.
    written: BTreeMap<u64, Written>,
}

/// What became of a file.
#[derive(Debug)]
pub(crate) struct Written {
    pub sequences: Range<u64>,
    /// The segments, one after the other, which are not in the manifest; `None`: the work was stopped.
    pub parts: Result<Option<Vec<Part>>, Error>,
    /// Where a caller that waits for the leader, and wrote it, counts its messages once they are committed.
    pub helper: Option<Arc<AtomicU64>>,
}

/// Files that are at most sealed into one segment: reading them again, after a crash and where one of them is damaged, must not cost much.
pub(crate) const FILES_TOGETHER: usize = 4;

/// Files of fewer bytes stay alone: small segments are merged soon, and cost little.
const TOGETHER_BYTES_MIN: u64 = 1 << 20;

/// Files that a thread has taken. Dropped without [`Taken::finish`] it counts as stopped.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    queue: &'a SealQueue,
    /// Neighbours, at least one.
    pub files: Vec<CompleteFile>,
    /// Their messages that are not sealed.
    pub sequences: Range<u64>,
    parts: Result<Option<Vec<Part>>, Error>,
    helper: Option<Arc<AtomicU64>>,
}

/// Closes the queue when it is dropped.
#[derive(Debug)]
pub(crate) struct Closing<'a>(&'a SealQueue);

/// Counts a caller that waits, until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'a>(&'a SealQueue);

impl SealQueue {
    /// Lets threads take files from `sealed` on. Only the leader calls it.
    pub fn open(&self, schema_version: u16, sealed: u64) {
        let mut state = self.lock();
        (state.open_for, state.next) = (Some(schema_version), sealed);
    }

    /// Takes the next ones of `files`, at most `most`; `None`: there is none, or the queue is not open for segments of this version.
    pub fn take(
        &self,
        schema_version: u16,
        most: usize,
        files: impl FnOnce() -> Vec<CompleteFile>,
    ) -> Option<Taken<'_>> {
        let mut state = self.lock();
        if state.open_for != Some(schema_version) {
            return None;
        }
        let next = state.next;
        let mut files = files();
        files.retain(|file| file.next_sequence > next);
        if files.first()?.first_sequence > next {
            // Files are missing; the leader finds that when all before are sealed.
            return None;
        }
        files.truncate(together(&files, most));
        let end = files.last()?.next_sequence;
        state.next = end;
        state.writing += 1;
        Some(Taken { queue: self, files, sequences: next..end, parts: Ok(None), helper: None })
    }

    /// Whether other threads than the calling one, which writes nothing, have taken files.
    pub fn is_shared(&self) -> bool {
        let state = self.lock();
        state.writing > 0 || !state.written.is_empty()
    }

    /// What was written of the file that begins at `sealed`, as soon as it is there; `None`: no thread writes it, or the calling
    /// thread is interrupted.
    pub fn wait_for(&self, sealed: u64) -> Option<Written> {
        let mut state = self.lock();
        loop {
            if let Some(written) = state.written.remove(&sealed) {
                return Some(written);
            }
            if state.writing == 0 || interrupt::is_interrupted() {
                return None;
            }
            let slice = interrupt::slice(WAIT_MAX);
            state = self.changed.wait_timeout(state, slice).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// [`Self::wait_for`] without waiting.
    pub fn written_at(&self, sealed: u64) -> Option<Written> {
        self.lock().written.remove(&sealed)
    }

    /// No thread takes a file after it.
    pub fn close(&self) {
        self.lock().open_for = None;
    }

    /// Closes the queue when it is dropped, also where the leader panics: the others end then, instead of going on without it.
    pub fn closing(&self) -> Closing<'_> {
        Closing(self)
    }

    /// Closes the queue, waits for the threads that write, and gives what they have written.
    pub fn end(&self) -> Vec<Written> {
        let mut state = self.lock();
        state.open_for = None;
        while state.writing > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut state.written).into_values().collect()
    }

    /// Notes that a caller waits until everything is sealed.
    pub fn wait(&self) -> Waiting<'_> {
        self.callers.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }

    /// Whether a caller waits.
    pub fn is_waited_for(&self) -> bool {
        self.callers.load(Ordering::Relaxed) > 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many of the first of these files one thread takes: half of them are left to others.
fn together(files: &[CompleteFile], most: usize) -> usize {
    let most = files.len().div_ceil(2).min(most).max(1);
    let belong = |pair: &&[CompleteFile]| {
        pair[0].next_sequence == pair[1].first_sequence
            && (forced::is_together() || pair.iter().all(|file| file.bytes >= TOGETHER_BYTES_MIN))
    };
    1 + files[..most].windows(2).take_while(belong).count()
}

impl Taken<'_> {
    /// Leaves to the leader what was written.
    pub fn finish(mut self, parts: Result<Option<Vec<Part>>, Error>) {
        self.parts = parts;
    }

    /// The same by a caller that waits for the leader: what is committed of it is added to `count`, and the leader does not count it.
    pub fn finish_helped(mut self, parts: Result<Option<Vec<Part>>, Error>, count: &Arc<AtomicU64>) {
        (self.parts, self.helper) = (parts, Some(count.clone()));
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let parts = std::mem::replace(&mut self.parts, Ok(None));
        let mut state = self.queue.lock();
        state.writing -= 1;
        if !matches!(parts, Ok(Some(_))) {
            state.open_for = None;
        }
        let written = Written { sequences: self.sequences.clone(), parts, helper: self.helper.take() };
        state.written.insert(self.sequences.start, written);
        self.queue.changed.notify_all();
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.callers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn files() -> Vec<CompleteFile> {
        let file =
            |start| CompleteFile { file: start, first_sequence: start, next_sequence: start + 10, bytes: 1 };
        [0, 10, 20, 40].map(file).into()
    }

    fn part(sequences: Range<u64>) -> Result<Option<Vec<Part>>, Error> {
        Ok(Some(vec![Part { sequences, lost: 0, content: None }]))
    }

    #[test]
    fn files_are_taken_in_order_by_whoever_asks_first() {
        let queue = SealQueue::default();
        assert!(queue.take(1, 1, files).is_none(), "it is not open");
        queue.open(1, 3);
        assert!(queue.take(2, 1, files).is_none(), "segments of another version of the schema");
        let (first, second) = (queue.take(1, 1, files).unwrap(), queue.take(1, 1, files).unwrap());
        assert_eq!((first.sequences.clone(), second.sequences.clone()), (3..10, 10..20));
        second.finish(part(10..20));
        assert!(queue.written_at(3).is_none() && queue.is_shared());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.wait_for(3).unwrap().sequences);
            first.finish(part(3..10));
            assert_eq!(waiting.join().unwrap(), 3..10);
        });
        assert!(matches!(queue.wait_for(10), Some(Written { parts: Ok(Some(_)), .. })));
        assert!(!queue.is_shared() && queue.wait_for(20).is_none(), "no thread writes");
        assert_eq!(queue.take(1, 1, files).unwrap().sequences, 20..30);
        assert!(queue.take(1, 1, files).is_none(), "what is from 30 on is missing");
    }

    #[test]
    fn large_files_are_taken_together_and_half_of_them_left() {
        let bytes = [2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 2, 2, 2].map(|mib| mib << 20);
        let file = |(i, bytes): (usize, &u64)| {
            let start = i as u64 * 10;
            // The last two files are missing some messages between them.
            let next = if i == 11 { 115 } else { start + 10 };
            CompleteFile { file: start, first_sequence: start, next_sequence: next, bytes: *bytes }
        };
        let files: Vec<_> = bytes.iter().enumerate().map(file).collect();
        let queue = SealQueue::default();
        queue.open(1, 5);
        let mut taken = Vec::new();
        while let Some(next) = queue.take(1, FILES_TOGETHER, || files.clone()) {
            assert_eq!(next.sequences.end, next.files.last().unwrap().next_sequence);
            taken.push((next.sequences.start, next.files.len()));
            next.finish(part(0..0));
        }
        assert_eq!(taken, [(5, 4), (40, 4), (80, 1), (90, 1), (100, 2)]);
        let alone = |files: &[CompleteFile]| together(files, 1);
        assert_eq!((alone(&files), alone(&files[..1]), together(&files[..2], 4)), (1, 1, 1));
    }

    #[test]
    fn a_file_that_is_given_up_is_stopped_work() {
        let queue = SealQueue::default();
        queue.open(1, 0);
        let (first, second) = (queue.take(1, 1, files).unwrap(), queue.take(1, 1, files).unwrap());
        drop(first);
        second.finish(part(10..20));
        assert!(queue.take(1, 1, files).is_none(), "nothing behind it can be committed");
        let left = queue.end();
        assert!(matches!(left[0], Written { parts: Ok(None), .. }));
        assert_eq!((left.len(), left[1].sequences.clone()), (2, 10..20));
        assert!(queue.take(1, 1, files).is_none(), "it is closed");
        assert!(!queue.is_waited_for());
        let waiting = queue.wait();
        assert!(queue.is_waited_for());
        drop(waiting);
        assert!(!queue.is_waited_for());
    }

    #[test]
    fn a_leader_that_panics_closes_the_queue() {
        let queue = SealQueue::default();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _closing = queue.closing();
            queue.open(1, 0);
            drop(queue.take(1, 1, files).unwrap());
            std::panic::resume_unwind(Box::new("a defect"));
        }));
        assert!(panicked.is_err() && queue.take(1, 1, files).is_none());
        assert_eq!(queue.end().len(), 1);
    }
}
