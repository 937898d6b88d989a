//! Objects of the engine as Python holds them.
//!
//! Always true: the interpreter is not held while a lock of [`Held`] is waited for or while the engine works; a closed object is
//! `None`; an object that was made before a fork is never touched in the child, for its threads and locks are those of the parent.

use crate::failure::Failure;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use tapedb_client::interruptible;

thread_local! {
    /// What a signal raised while the engine waited.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Pauses between two looks whether another thread still uses an object: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_micros(10);
const PAUSE_MAX: Duration = Duration::from_millis(1);

/// How often such a wait looks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Looks for signals: raises what one of them raises, also one that came during an earlier call that succeeded nevertheless.
pub fn check_signals(py: Python<'_>) -> PyResult<()> {
    match RAISED.take() {
        Some(error) => Err(error),
        None => py.check_signals(),
    }
}

/// Whether a signal has raised an exception on this thread, which comes with the next call.
pub fn has_raised() -> bool {
    RAISED.with_borrow(Option::is_some)
}

/// Whether the engine is to wait no longer: a signal was handled, and raised an exception.
fn is_signalled() -> bool {
    Python::try_attach(|py| {
        let raised = py.check_signals().err();
        let is_signalled = raised.is_some();
        if is_signalled {
            RAISED.set(raised);
        }
        is_signalled
    })
    .unwrap_or_default()
}

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
        without_interpreter(py, || {
            let mut value = self.lock_unless_signalled()?;
            let value = value.as_mut().ok_or(Failure::Closed(self.what))?;
            call(value).map_err(Into::into)
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

    /// [`Held::with`], unless another thread uses the object right now: then `None`.
    pub fn try_with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Result<Option<R>, Failure> {
        self.check()?;
        let mut value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        match value.as_mut() {
            Some(value) => Ok(Some(work(value))),
            None => Err(Failure::Closed(self.what)),
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

    /// Waits until no other thread uses the object, which may take as long as a wait for a server.
    fn lock_unless_signalled(&self) -> Result<MutexGuard<'_, Option<T>>, Failure> {
        let (mut pause, mut asked) = (PAUSE_MIN, Instant::now());
        loop {
            match self.value.try_lock() {
                Ok(value) => return Ok(value),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(PAUSE_MAX);
            if asked.elapsed() >= SIGNAL_INTERVAL {
                if is_signalled() {
                    return Err(Failure::Internal("a signal ended the wait for another thread".into()));
                }
                asked = Instant::now();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls the engine without the interpreter: a signal ends its waits for a server, and what the signal raised is the error.
pub fn without_interpreter<R: Send>(
    py: Python<'_>,
    call: impl FnOnce() -> Result<R, Failure> + Send,
) -> Result<R, Failure> {
    if let Some(error) = RAISED.take() {
        return Err(Failure::Python(error));
    }
    match py.detach(|| interruptible(is_signalled, || guarded(call))) {
        // A call that was finished all the same returns what it did; the exception comes with the next one.
        Ok(done) => Ok(done),
        Err(failure) => Err(RAISED.take().map_or(failure, Failure::Python)),
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
