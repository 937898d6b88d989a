//! Wakes threads that wait for received messages.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

/// The threads that wait for one condition.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    threads: Mutex<Vec<Thread>>,
}

impl Notifier {
    /// Registers the calling thread. It then checks the condition and parks.
    pub fn register(&self) {
        locked(&self.threads).push(thread::current());
    }

    /// Undoes one [`Notifier::register`] of the calling thread.
    pub fn unregister(&self) {
        let mut threads = locked(&self.threads);
        let me = thread::current().id();
        if let Some(index) = threads.iter().position(|thread| thread.id() == me) {
            threads.swap_remove(index);
        }
    }

    /// Wakes all registered threads except the calling one.
    pub fn notify_all(&self) {
        let threads = locked(&self.threads);
        if threads.is_empty() {
            return;
        }
        let me = thread::current().id();
        threads.iter().filter(|thread| thread.id() != me).for_each(Thread::unpark);
    }

    /// Wakes one thread.
    pub fn notify_one(&self) {
        if let Some(thread) = locked(&self.threads).first() {
            thread.unpark();
        }
    }

    /// Whether no thread is registered.
    pub fn is_empty(&self) -> bool {
        locked(&self.threads).is_empty()
    }
}

/// Locks a mutex. A panic in another thread leaves its contents consistent: no code panics between related changes.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
