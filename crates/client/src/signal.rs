//! Wakes threads that wait for something that a connection brings.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

/// The threads that wait for one thing.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    threads: Mutex<Vec<Thread>>,
}

impl Signal {
    /// Has the calling thread woken from now on. Then it looks whether there is anything to wait for, and parks.
    pub fn join(&self) {
        locked(&self.threads).push(thread::current());
    }

    /// Undoes one [`Signal::join`] of the calling thread.
    pub fn leave(&self) {
        let mut threads = locked(&self.threads);
        let me = thread::current().id();
        if let Some(place) = threads.iter().position(|thread| thread.id() == me) {
            threads.swap_remove(place);
        }
    }

    /// Wakes all but the calling thread, which is awake.
    pub fn ring(&self) {
        let threads = locked(&self.threads);
        if threads.is_empty() {
            return;
        }
        let me = thread::current().id();
        threads.iter().filter(|thread| thread.id() != me).for_each(Thread::unpark);
    }

    /// Wakes one.
    pub fn ring_one(&self) {
        if let Some(thread) = locked(&self.threads).first() {
            thread.unpark();
        }
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        locked(&self.threads).is_empty()
    }
}

/// What a mutex keeps. A panic elsewhere has left it whole: nothing panics between changes that belong together.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
