//! Memory of operators: each user has a share of what all queries may use.
//!
//! Always true: `taken` is the sum of what all pools have reserved through it, and beyond `most` only by growth that cannot fail.

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, TrackConsumersPool,
};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Consumers of memory that an error names.
pub(crate) const CONSUMERS_NAMED: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// Bytes that several pools share.
#[derive(Debug)]
pub(crate) struct SharedBytes {
    most: usize,
    taken: AtomicUsize,
}

impl SharedBytes {
    pub fn new(most: usize) -> Self {
        Self { most, taken: AtomicUsize::new(0) }
    }

    fn try_take(&self, bytes: usize) -> Result<()> {
        let take = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= self.most);
        match self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(()),
            Err(taken) => Err(DataFusionError::ResourcesExhausted(format!(
                "{bytes} bytes more than the {taken} of {} that the queries of all users have",
                self.most
            ))),
        }
    }

    fn take(&self, bytes: usize) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The memory of one user's queries.
#[derive(Debug)]
pub(crate) struct UserPool {
    own: TrackConsumersPool<FairSpillPool>,
    total: Arc<SharedBytes>,
}

impl UserPool {
    pub fn new(bytes: usize, total: Arc<SharedBytes>) -> Self {
        Self { own: TrackConsumersPool::new(FairSpillPool::new(bytes), CONSUMERS_NAMED), total }
    }
}

impl fmt::Display for UserPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.own.fmt(f)
    }
}

impl MemoryPool for UserPool {
    fn name(&self) -> &str {
        "user"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.own.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.own.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.total.take(additional);
        self.own.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.own.shrink(reservation, shrink);
        self.total.give_back(shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.total.try_take(additional)?;
        let grown = self.own.try_grow(reservation, additional);
        if grown.is_err() {
            self.total.give_back(additional);
        }
        grown
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.own.memory_limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_their_own_limit_and_share_one() {
        let total = Arc::new(SharedBytes::new(100));
        let pool = |bytes| -> Arc<dyn MemoryPool> { Arc::new(UserPool::new(bytes, total.clone())) };
        let (ann, bob) = (pool(80), pool(80));
        let of = |pool: &Arc<dyn MemoryPool>| MemoryConsumer::new("test").register(pool);
        let (a, b) = (of(&ann), of(&bob));
        a.try_grow(70).unwrap();
        assert!(a.try_grow(20).is_err(), "more than the user's");
        let error = b.try_grow(40).unwrap_err().to_string();
        assert!(error.contains("all users"), "{error}");
        b.try_grow(30).unwrap();
        drop(a);
        b.try_grow(40).unwrap();
        assert_eq!(total.taken.load(Ordering::Relaxed), 70);
        drop(b);
        assert_eq!(total.taken.load(Ordering::Relaxed), 0);
    }
}
