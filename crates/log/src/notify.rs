//! Wakes readers that wait for new messages. Costs the writer one atomic load when nobody waits.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The committed end of a log, and those who wait for it to move.
///
/// Store of `end` before load of `waiting` in the writer, and the reverse in the reader, all sequentially
/// consistent: at least one of them sees the other, so no wake-up is lost.
#[derive(Debug, Default)]
pub(crate) struct CommittedEnd {
    end: AtomicU64,
    waiting: AtomicUsize,
    lock: Mutex<()>,
    moved: Condvar,
}

impl CommittedEnd {
    /// Sequence number after the last message readers may see.
    pub(crate) fn get(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Moves the end and wakes whoever waits.
    pub(crate) fn set(&self, end: u64) {
        self.end.store(end, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.moved.notify_all();
        }
    }

    /// Returns the end as soon as it is past `sequence`, or as it is when the time is over.
    pub(crate) fn wait(&self, sequence: u64, timeout: Duration) -> u64 {
        let end = self.get();
        if end > sequence {
            return end;
        }
        // A timeout past the end of the clock means for ever, which an hour at a time comes to.
        let deadline = Instant::now().checked_add(timeout);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let end = self.wait_until(sequence, deadline);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        end
    }

    fn wait_until(&self, sequence: u64, deadline: Option<Instant>) -> u64 {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let end = self.end.load(Ordering::SeqCst);
            let left = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => Duration::from_secs(3600),
            };
            if end > sequence || left.is_zero() {
                return end;
            }
            let waited = self.moved.wait_timeout(guard, left);
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_waiting_reader_is_woken() {
        let end = Arc::new(CommittedEnd::default());
        let reader = std::thread::spawn({
            let end = Arc::clone(&end);
            move || (0..1000).fold(0, |seen, _| end.wait(seen, Duration::from_secs(60)))
        });
        let mut next = 0;
        while !reader.is_finished() {
            next += 1;
            end.set(next);
        }
        assert!(reader.join().is_ok_and(|seen| seen >= 1000));
    }

    #[test]
    fn a_wait_ends_when_its_time_is_over() {
        assert_eq!(CommittedEnd::default().wait(0, Duration::ZERO), 0);
        assert_eq!(CommittedEnd::default().wait(0, Duration::from_millis(1)), 0);
    }
}
