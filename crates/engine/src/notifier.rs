//! Wakes waiting cursors: a cursor over one stream waits for the stream's notifier, others for the database's.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Notified at every commit, and when a stream is deleted. A notification costs two atomic operations while no cursor waits.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    count: AtomicU64,
    waiters: AtomicUsize,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Notifier {
    /// Number of notifications so far: taken before looking for messages, passed to [`Notifier::wait`] when there were none.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    pub fn notify(&self) {
        // SeqCst pairs with `wait`: either the waiter sees this notification, or this sees the waiter.
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) > 0 {
            let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.woken.notify_all();
        }
    }

    /// Waits until the count differs from `seen`, or the timeout has passed.
    pub fn wait(&self, seen: u64, timeout: Duration) {
        // A timeout past the end of the clock means no timeout: the wait is then for an hour at a time.
        let deadline = Instant::now().checked_add(timeout);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiters.fetch_add(1, Ordering::SeqCst);
        while self.count() == seen {
            let left =
                deadline.map_or(Duration::from_secs(3600), |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            guard = self.woken.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The notifiers of one stream and of its database.
#[derive(Debug, Clone)]
pub(crate) struct Notifiers {
    pub stream: Arc<Notifier>,
    pub database: Arc<Notifier>,
}

impl Notifiers {
    /// Wakes the cursors that wait for messages of this stream.
    pub fn notify(&self) {
        self.stream.notify();
        self.database.notify();
    }
}
