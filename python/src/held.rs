//! Objects of the engine as Python holds them.
//!
//! Always true: the interpreter is not held while a lock of [`Held`] is waited for or while the engine works; a closed object is
//! `None`; an object that was made before a fork is never touched in the child, for its threads and locks are those of the parent.

use crate::failure::Failure;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts the forks that this process is the child of.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Called in each child after a fork.
#[pyfunction]
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// An object of the engine, with what Python may do to it: close it, use it from several threads, fork.
pub struct Held<T: Send + 'static> {
    what: &'static str,
    forks: u32,
    is_closed: AtomicBool,
    value: ManuallyDrop<Mutex<Option<T>>>,
}

impl<T: Send + 'static> Held<T> {
    /// `what` names the object in errors, such as `cursor`.
    pub fn new(what: &'static str, value: T) -> Self {
        Self {
            what,
            forks: FORKS.load(Ordering::Relaxed),
            is_closed: AtomicBool::new(false),
            value: ManuallyDrop::new(Mutex::new(Some(value))),
        }
    }

    /// Fails in a child of the process that made the object, and after it was closed.
    pub fn check(&self) -> Result<(), Failure> {
        if self.forks != FORKS.load(Ordering::Relaxed) {
            return Err(Failure::Forked(self.what));
        }
        if self.is_closed() {
            return Err(Failure::Closed(self.what));
        }
        Ok(())
    }

    /// Whether there is nothing to close: it was closed, or is that of the parent of this process.
    pub fn is_over(&self) -> bool {
        self.is_closed() || self.forks != FORKS.load(Ordering::Relaxed)
    }

    /// Whether it was closed, or is being closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Calls the engine, without the interpreter.
    pub fn run<R: Send, E: Into<Failure>>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut T) -> Result<R, E> + Send,
    ) -> Result<R, Failure> {
        self.check()?;
        py.detach(|| {
            let mut value = self.lock();
            let value = value.as_mut().ok_or(Failure::Closed(self.what))?;
            guarded(|| call(value).map_err(Into::into))
        })
    }

    /// Works on the object with the interpreter held: for what neither waits nor reads files.
    pub fn with<R>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> PyResult<R>) -> PyResult<R> {
        self.check().map_err(|failure| failure.raised(py))?;
        let mut value = self.value.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        match value.as_mut() {
            Some(value) => work(value),
            None => Err(Failure::Closed(self.what).raised(py)),
        }
    }

    /// Takes the object out; `None` if it was closed before. Calls that wait inside it end first.
    pub fn take(&self, py: Python<'_>) -> Result<Option<T>, Failure> {
        if self.forks != FORKS.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.is_closed.store(true, Ordering::Relaxed);
        Ok(py.detach(|| self.lock().take()))
    }

    /// Closes the object: drops it without the interpreter.
    pub fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        let value = self.take(py)?;
        py.detach(|| {
            guarded(|| {
                drop(value);
                Ok(())
            })
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls the engine: a panic in it becomes an error.
pub fn guarded<R>(call: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Failure::Internal(text.unwrap_or_default()))
    })
}

impl<T: Send + 'static> Drop for Held<T> {
    fn drop(&mut self) {
        if self.forks != FORKS.load(Ordering::Relaxed) {
            return;
        }
        let value = self.value.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if value.is_some() {
            // The last handle of a database joins its threads, and a loader flushes: other threads of Python go on.
            let mut value = Some(value);
            let dropped = Python::try_attach(|py| py.detach(|| drop(value.take())));
            drop((dropped, value));
        }
    }
}
