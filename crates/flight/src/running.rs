//! The queries that run, by the numbers of their tickets: what cancels them.

use crate::ticket::Id;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The queries that run. One ticket may be used several times.
#[derive(Debug, Default, Clone)]
pub(crate) struct RunningQueries(Arc<Mutex<HashMap<Id, Vec<Arc<AtomicBool>>>>>);

/// A query that runs, until this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    all: RunningQueries,
    id: Id,
    is_cancelled: Arc<AtomicBool>,
}

impl RunningQueries {
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Vec<Arc<AtomicBool>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A query begins.
    pub fn begin(&self, id: Id) -> Running {
        let is_cancelled = Arc::<AtomicBool>::default();
        self.lock().entry(id).or_default().push(is_cancelled.clone());
        Running { all: self.clone(), id, is_cancelled }
    }

    /// Cancels the queries of a ticket. Returns whether there is one.
    pub fn cancel(&self, id: &Id) -> bool {
        let all = self.lock();
        let Some(running) = all.get(id) else { return false };
        running.iter().for_each(|is_cancelled| is_cancelled.store(true, Ordering::Release));
        true
    }

    /// Queries that run.
    pub fn count(&self) -> usize {
        self.lock().values().map(Vec::len).sum()
    }
}

impl Running {
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(running) = all.get_mut(&self.id) {
            running.retain(|other| !Arc::ptr_eq(other, &self.is_cancelled));
            if running.is_empty() {
                all.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_cancels_its_queries_alone() {
        let all = RunningQueries::default();
        let (first, second, other) = (all.begin([1; 16]), all.begin([1; 16]), all.begin([2; 16]));
        assert!(all.cancel(&[1; 16]) && !all.cancel(&[3; 16]));
        assert!(first.is_cancelled() && second.is_cancelled() && !other.is_cancelled());
        drop((first, second));
        assert!(!all.cancel(&[1; 16]));
        assert_eq!(all.count(), 1);
    }
}
