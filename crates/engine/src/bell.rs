//! Wakes cursors that wait: on one stream by the stream's bell, on several at once by the database's.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Rung at every commit, and when a stream is deleted. Ringing costs two atomic operations while nobody waits.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rings: AtomicU64,
    waiters: AtomicUsize,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Bell {
    /// Number of rings so far: taken before looking for work, given to [`Bell::wait`] after finding none.
    pub fn rings(&self) -> u64 {
        self.rings.load(Ordering::SeqCst)
    }

    pub fn ring(&self) {
        // SeqCst pairs with `wait`: either the waiter sees this ring, or this sees the waiter.
        self.rings.fetch_add(1, Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) > 0 {
            let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.woken.notify_all();
        }
    }

    /// Waits for a ring after `seen`, or until the time is over.
    pub fn wait(&self, seen: u64, timeout: Duration) {
        // A timeout past the end of the clock means for ever, which an hour at a time comes to.
        let deadline = Instant::now().checked_add(timeout);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiters.fetch_add(1, Ordering::SeqCst);
        while self.rings() == seen {
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
