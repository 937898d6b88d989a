//! The bytes that may wait for all connections of a front together. Each has its own bound ([`Outbox`]), but many slow ones at the
//! same time would still fill the memory.
//!
//! Always true: `bytes` is the number of bytes that wait in all outboxes, with the pending rows of slow subscribers. If that
//! exceeds the limit, the connection with most waiting bytes is closed, whatever was chosen for slow subscribers.

use super::outbox::Outbox;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// See the module.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: AtomicUsize,
    bytes_max: usize,
    outboxes: Mutex<Vec<Weak<Outbox>>>,
    cut_off: AtomicU64,
}

impl Budget {
    pub fn new(bytes_max: usize) -> Arc<Self> {
        let (bytes, outboxes, cut_off) = Default::default();
        Arc::new(Self { bytes, bytes_max, outboxes, cut_off })
    }

    /// A new outbox whose bytes count.
    pub fn outbox(self: &Arc<Self>, bytes_max: usize) -> Arc<Outbox> {
        let outbox = Arc::new(Outbox::new(bytes_max, self.clone()));
        let mut outboxes = self.outboxes.lock().unwrap_or_else(PoisonError::into_inner);
        outboxes.retain(|outbox| outbox.strong_count() > 0);
        outboxes.push(Arc::downgrade(&outbox));
        outbox
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Connections that were closed to free memory.
    pub fn cut_off(&self) -> u64 {
        self.cut_off.load(Ordering::Relaxed)
    }

    pub fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn take(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Closes the connections with most waiting bytes until the limit is met. To be called without the lock of any outbox.
    #[inline]
    pub fn enforce(&self) {
        if self.bytes() > self.bytes_max {
            self.cut_off_slowest();
        }
    }

    #[cold]
    fn cut_off_slowest(&self) {
        let outboxes: Vec<Arc<Outbox>> = {
            let outboxes = self.outboxes.lock().unwrap_or_else(PoisonError::into_inner);
            outboxes.iter().filter_map(Weak::upgrade).collect()
        };
        // Bytes being written count until then, also of closed connections.
        let closed = outboxes.iter().filter(|outbox| outbox.is_closed());
        let ending: usize = closed.map(|outbox| outbox.waiting()).sum();
        let mut excess = self.bytes().saturating_sub(self.bytes_max).saturating_sub(ending);
        while excess > 0 {
            let open = outboxes.iter().filter(|outbox| !outbox.is_closed());
            let slowest = open.map(|outbox| (outbox.waiting(), outbox)).max_by_key(|(waiting, _)| *waiting);
            let Some((waiting @ 1.., slowest)) = slowest else { return };
            excess = excess.saturating_sub(waiting);
            slowest.cut_off();
            self.cut_off.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_being_written_close_no_other_connection() {
        let budget = Budget::new(100);
        let outboxes: Vec<_> = (0..3).map(|_| budget.outbox(1_000)).collect();
        let bytes = |len: usize| Arc::<[u8]>::from(vec![0; len]);
        outboxes[0].answer(bytes(90));
        // The writer has it, and the client does not read.
        let mut out = Vec::new();
        outboxes[0].take(&mut out, std::time::Duration::ZERO);
        for _ in 0..3 {
            outboxes[1].update(&bytes(5));
            outboxes[2].update(&bytes(5));
        }
        let closed: Vec<bool> = outboxes.iter().map(|outbox| outbox.is_closed()).collect();
        assert_eq!((closed, budget.cut_off()), (vec![true, false, false], 1));
    }

    #[test]
    fn the_slowest_is_closed_when_all_together_have_too_much() {
        let budget = Budget::new(100);
        let outboxes: Vec<_> = (0..4).map(|_| budget.outbox(60)).collect();
        let bytes = |len: usize| Arc::<[u8]>::from(vec![0; len]);
        assert!(
            outboxes[0].update(&bytes(20))
                && outboxes[1].update(&bytes(50))
                && outboxes[2].update(&bytes(20))
        );
        assert_eq!((budget.bytes(), budget.cut_off()), (90, 0));
        // Not the one that exceeds the limit is closed.
        assert!(outboxes[3].update(&bytes(15)));
        let closed: Vec<bool> = outboxes.iter().map(|outbox| outbox.is_closed()).collect();
        assert_eq!((closed, budget.bytes(), budget.cut_off()), (vec![false, true, false, false], 55, 1));
        // Answers count, and pending rows.
        outboxes[0].answer(bytes(40));
        assert_eq!((budget.bytes(), budget.cut_off()), (95, 1));
        outboxes[2].set_pending(30);
        assert_eq!((budget.bytes(), budget.cut_off()), (65, 2));
        // Written and dropped bytes do not.
        let mut out = Vec::new();
        outboxes[3].take(&mut out, std::time::Duration::ZERO);
        outboxes[3].written(out.len());
        assert_eq!(budget.bytes(), 50);
        drop(outboxes);
        assert_eq!(budget.bytes(), 0);
    }
}
