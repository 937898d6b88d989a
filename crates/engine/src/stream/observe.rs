//! Telling others what happens to a stream, as it happens: for those who pass it on.

use crate::stream::Stream;
use crate::stream::order::Slot;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tapedb_codec::batch::BatchHeader;
use tapedb_log::{Committed, Span};

/// Is told what happens to a stream: [`Stream::observe`]. Calls come in the thread of whoever made it happen, who waits
/// for them to return; they must be short, and must not call the stream.
pub trait Observer: Send + Sync {
    /// A batch has been committed: readers see it. Batches of several threads may come out of order, and of one batch
    /// that is seen others may still be to come; the span says where each belongs. `batch` is all of it, as it lies in
    /// the log. Symbols that it uses are in the dictionary.
    fn committed(&self, space: u32, span: Span, batch: &[u8]);
    /// Batches have been committed of which nobody was told, as [`Stream::hold_back`] asked: they are in the log.
    fn grown(&self) {}
    /// A manifest or the definition is another.
    fn changed(&self);
    /// The stream has been deleted, or has another name. Nothing follows.
    fn gone(&self, renamed: Option<&str>);
}

/// Keeps an observer told until it is dropped.
#[derive(Debug)]
pub struct Observing {
    observers: Arc<Observers>,
    number: usize,
}

impl Stream {
    /// Tells an observer what happens to the stream from now on, until what is returned is dropped. It costs those who
    /// append nothing while there is none.
    pub fn observe(&self, observer: Arc<dyn Observer>) -> Observing {
        self.inner.observers.add(observer)
    }

    /// From now on live cursors are not shown what is appended as it comes, but when [`Stream::publish`] is called: all at
    /// once, which costs less where subscribers are many and messages come one by one. `false`: as it comes, again. It holds in
    /// the process that has the database open for writing, for as long as it has; a cursor that looks for other reasons may
    /// see messages earlier.
    pub fn hold_back(&self, hold: bool) {
        self.inner.observers.held.store(hold, Ordering::SeqCst);
        if !hold {
            self.publish();
        }
    }

    /// Shows live cursors what has been appended and was [held back](Stream::hold_back).
    pub fn publish(&self) {
        if self.inner.observers.has_held.swap(false, Ordering::SeqCst) {
            self.inner.ring();
            self.inner.observers.each(|observer| observer.grown());
        }
    }
}

/// Who is told what happens to a stream.
#[derive(Default)]
pub(crate) struct Observers {
    /// How many there are: asked at each commit.
    count: AtomicUsize,
    /// Whether batches are not told of as they come.
    held: AtomicBool,
    /// Whether there are some that were not.
    has_held: AtomicBool,
    /// Who decides when batches are written.
    pub(super) order: Slot,
    list: RwLock<List>,
}

#[derive(Default)]
struct List {
    next_number: usize,
    observers: Vec<(usize, Arc<dyn Observer>)>,
}

impl Debug for Observers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observers").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Observers {
    fn add(self: &Arc<Self>, observer: Arc<dyn Observer>) -> Observing {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let number = list.next_number;
        list.next_number += 1;
        list.observers.push((number, observer));
        self.count.store(list.observers.len(), Ordering::SeqCst);
        Observing { observers: self.clone(), number }
    }

    fn remove(&self, number: usize) {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        list.observers.retain(|(known, _)| *known != number);
        self.count.store(list.observers.len(), Ordering::SeqCst);
    }

    /// Whether nobody shall be told of a batch now; it is remembered that there was one.
    #[inline]
    pub fn holds_back(&self) -> bool {
        let held = self.held.load(Ordering::SeqCst);
        if held {
            self.has_held.store(true, Ordering::SeqCst);
        }
        held
    }

    /// Tells of a batch.
    #[inline]
    pub fn committed(&self, space: u32, committed: &Committed, batch: &[u8]) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.tell_committed(space, committed, batch);
        }
    }

    #[cold]
    fn tell_committed(&self, space: u32, committed: &Committed, batch: &[u8]) {
        let Ok(header) = BatchHeader::parse_stored(batch) else { return };
        let Committed { sequences, file, offset, .. } = committed;
        let span = Span {
            file: *file,
            offset: *offset,
            len: header.batch_bytes() as u32,
            first_sequence: sequences.start,
            count: sequences.end - sequences.start,
        };
        self.each(|observer| observer.committed(space, span, batch));
    }

    /// Tells that a manifest or the definition is another.
    pub fn changed(&self) {
        self.each(|observer| observer.changed());
    }

    /// Tells that the stream is no longer there, or has another name.
    pub fn gone(&self, renamed: Option<&str>) {
        self.each(|observer| observer.gone(renamed));
    }

    fn each(&self, tell: impl Fn(&dyn Observer)) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        list.observers.iter().for_each(|(_, observer)| tell(&**observer));
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        self.observers.remove(self.number);
    }
}
