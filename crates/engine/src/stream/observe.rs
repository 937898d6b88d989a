//! Notifies observers of what happens to a stream, as it happens.

use crate::stream::order::Slot;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tapedb_codec::batch::BatchHeader;
use tapedb_log::{Committed, Span};

/// Notified of a stream's events: [`Stream::observe`](crate::Stream::observe). Calls run in the thread that caused the
/// event, which waits for them to return; they must be short, and must not call the stream.
pub trait Observer: Send + Sync {
    /// A batch has been committed: readers see it. Batches of several threads may arrive out of order, and earlier batches
    /// may follow later ones; the span states the position. `batch` is all of it, as stored in the log. Its symbols are in
    /// the dictionary.
    fn committed(&self, space: u32, span: Span, batch: &[u8]);
    /// Batches have been committed without a notification, as [`Stream::hold_back`](crate::Stream::hold_back) requires:
    /// they are in the log. Or the log continues after messages that are in segments alone, because they were rewritten.
    fn grown(&self) {}
    /// A manifest or the definition has changed.
    fn changed(&self);
    /// A manifest has changed: messages that readers have, or will find in the log, are in other files. Nothing was deleted.
    fn sealed(&self) {
        self.changed();
    }
    /// The stream has been deleted or renamed. Nothing follows.
    fn gone(&self, renamed: Option<&str>);
}

/// Holds an observer's registration until it is dropped.
#[derive(Debug)]
pub struct Observing {
    observers: Arc<Observers>,
    number: usize,
}

/// The observers of a stream.
#[derive(Default)]
pub(crate) struct Observers {
    /// The number of observers: read at each commit.
    count: AtomicUsize,
    /// Whether notifications of batches are held back.
    held: AtomicBool,
    /// Whether a batch was committed since without a notification.
    has_held: AtomicBool,
    /// Decides when batches are written.
    pub order: Slot,
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
    pub fn add(self: &Arc<Self>, observer: Arc<dyn Observer>) -> Observing {
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

    /// Begins or ends holding notifications of batches back.
    pub fn hold_back(&self, hold: bool) {
        self.held.store(hold, Ordering::SeqCst);
    }

    /// Whether there was a batch since the last call whose notification was held back.
    pub fn take_held(&self) -> bool {
        self.has_held.swap(false, Ordering::SeqCst)
    }

    /// Notifies that the log has grown by batches that were held back.
    pub fn grown(&self) {
        self.each(|observer| observer.grown());
    }

    /// Whether notifications are held back now; if so, records that there was a batch.
    #[inline]
    pub fn holds_back(&self) -> bool {
        let held = self.held.load(Ordering::SeqCst);
        if held {
            self.has_held.store(true, Ordering::SeqCst);
        }
        held
    }

    /// Notifies of a batch.
    #[inline]
    pub fn committed(&self, space: u32, committed: &Committed, batch: &[u8]) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.notify_committed(space, committed, batch);
        }
    }

    #[cold]
    fn notify_committed(&self, space: u32, committed: &Committed, batch: &[u8]) {
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

    /// Notifies that a manifest or the definition has changed.
    pub fn changed(&self) {
        self.each(|observer| observer.changed());
    }

    /// Notifies that messages are in other files.
    pub fn sealed(&self) {
        self.each(|observer| observer.sealed());
    }

    /// Notifies that the stream has been deleted or renamed.
    pub fn gone(&self, renamed: Option<&str>) {
        self.each(|observer| observer.gone(renamed));
    }

    fn each(&self, notify: impl Fn(&dyn Observer)) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        list.observers.iter().for_each(|(_, observer)| notify(&**observer));
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        self.observers.remove(self.number);
    }
}
