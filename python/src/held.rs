//! Objects of the engine as Python holds them.
//!
//! Always true: the interpreter is not held while a lock of [`Held`] is waited for or while the engine works; a closed object is
//! `None`; an object that was made before a fork is never touched in the child, for its threads and locks are those of the parent; a
//! thread does not wait for a lock that it holds itself, also when a signal's handler uses the object that was interrupted; no thread but
//! the one that ends the interpreter comes back to it while it ends, for it would be ended in the middle of Rust's frames.

use crate::failure::Failure;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use tapedb_client::interruptible;

thread_local! {
    /// What a signal raised while the engine waited.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// The objects that calls of this thread are using, by their addresses.
    static IN_USE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
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
    // A thread that must not come back to the interpreter has nothing to wait for either.
    try_attached(|py| {
        let raised = py.check_signals().err();
        let is_signalled = raised.is_some();
        if is_signalled {
            RAISED.set(raised);
        }
        is_signalled
    })
    .unwrap_or(true)
}

/// Counts the forks that this process is the child of.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Called in each child after a fork.
#[pyfunction]
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    imported(true);
    // The threads that were coming back are in the parent.
    COMING_BACK.store(0, Ordering::SeqCst);
}

/// The thread that handlers of signals run on; `None`: it is not known.
static MAIN: Mutex<Option<ThreadId>> = Mutex::new(None);

/// Called when the package was imported, and in a child of a fork: whether the calling thread is Python's main thread.
#[pyfunction]
pub fn imported(is_main: bool) {
    *MAIN.lock().unwrap_or_else(PoisonError::into_inner) = is_main.then(|| thread::current().id());
}

/// Work for a library that is not in Python right now, such as a consumer of batches: as [`without_interpreter`]. Signals are looked
/// for on the main thread alone: on others they are not handled, and a library may hold the interpreter until its threads are done.
pub fn for_library<R>(asked: &mut Instant, work: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
    let main = *MAIN.lock().unwrap_or_else(PoisonError::into_inner);
    if main != Some(thread::current().id()) {
        return guarded(work);
    }
    let is_due = asked.elapsed() >= SIGNAL_INTERVAL;
    if is_due {
        *asked = Instant::now();
    }
    match if is_due && is_signalled() {
        Err(Failure::Internal(String::new()))
    } else {
        interruptible(is_signalled, || guarded(work))
    } {
        Err(_) if has_raised() => Err(Failure::Argument(handed_over())),
        done => done,
    }
}

/// What a signal raised, while a library has an error for what its call was: Ctrl-C comes again when the library has returned to
/// Python, anything else with the next call of this module.
fn handed_over() -> String {
    try_attached(|py| {
        let is_interrupt = RAISED.with_borrow(|raised| {
            raised.as_ref().is_some_and(|raised| raised.is_instance_of::<PyKeyboardInterrupt>(py))
        });
        if is_interrupt
            && py.import("_thread").and_then(|module| module.call_method0("interrupt_main")).is_ok()
        {
            RAISED.take();
        }
    });
    "a signal ended the reading".into()
}

/// The thread that ends the interpreter.
static ENDING: OnceLock<ThreadId> = OnceLock::new();

/// Threads that are about to hold the interpreter again.
static COMING_BACK: AtomicUsize = AtomicUsize::new(0);

/// How long the end of the interpreter waits for these.
const COMING_BACK_MAX: Duration = Duration::from_secs(1);

/// Called before the interpreter ends: daemon threads stay where they are, until the process has ended.
#[pyfunction]
pub fn ending(py: Python<'_>) {
    let _ = ENDING.set(thread::current().id());
    py.detach(|| {
        let until = Instant::now() + COMING_BACK_MAX;
        while COMING_BACK.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            thread::sleep(PAUSE_MAX);
        }
    });
}

/// A thread that is about to hold the interpreter again.
struct ComingBack;

impl ComingBack {
    /// `None`: another thread is ending the interpreter.
    fn begin() -> Option<Self> {
        COMING_BACK.fetch_add(1, Ordering::SeqCst);
        let coming = Self;
        ENDING.get().is_none_or(|ending| *ending == thread::current().id()).then_some(coming)
    }
}

impl Drop for ComingBack {
    fn drop(&mut self) {
        // After a fork there may be none.
        let _ = COMING_BACK.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
    }
}

/// Works without the interpreter.
pub fn detached<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> R {
    let (done, _coming) = py.detach(|| {
        let done = work();
        match ComingBack::begin() {
            Some(coming) => (done, coming),
            None => loop {
                thread::park();
            },
        }
    });
    done
}

/// Works with the interpreter on a thread that may not hold it; `None`: there is none, or it is ending.
pub fn try_attached<R>(work: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    let _coming = ComingBack::begin()?;
    Python::try_attach(work)
}

/// An object of the engine, with what Python may do to it: close it, use it from several threads, fork.
pub struct Held<T: Send + 'static> {
    what: &'static str,
    forks: u32,
    is_closed: AtomicBool,
    /// It is to be dropped by the call that uses it: that call's own thread has closed it during the call.
    is_leaving: AtomicBool,
    value: ManuallyDrop<Mutex<Option<T>>>,
}

/// An object in use by a call of this thread.
struct InUse<'a, T: Send + 'static> {
    held: &'a Held<T>,
    value: MutexGuard<'a, Option<T>>,
}

impl<'a, T: Send + 'static> InUse<'a, T> {
    fn new(held: &'a Held<T>, value: MutexGuard<'a, Option<T>>) -> Self {
        IN_USE.with_borrow_mut(|all| all.push(held.address()));
        Self { held, value }
    }
}

impl<T: Send + 'static> Drop for InUse<'_, T> {
    fn drop(&mut self) {
        IN_USE.with_borrow_mut(|all| all.pop());
        if self.held.is_leaving.load(Ordering::Relaxed) {
            *self.value = None;
        }
    }
}

impl<T: Send + 'static> Deref for InUse<'_, T> {
    type Target = Option<T>;

    fn deref(&self) -> &Option<T> {
        &self.value
    }
}

impl<T: Send + 'static> DerefMut for InUse<'_, T> {
    fn deref_mut(&mut self) -> &mut Option<T> {
        &mut self.value
    }
}

impl<T: Send + 'static> Held<T> {
    /// `what` names the object in errors, such as `cursor`.
    pub fn new(what: &'static str, value: T) -> Self {
        Self {
            what,
            forks: FORKS.load(Ordering::Relaxed),
            is_closed: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
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

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether a call of this thread is using it: then this one was made by a signal's handler, or while an object was collected.
    fn is_in_use_here(&self) -> bool {
        IN_USE.with_borrow(|all| all.contains(&self.address()))
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
            let mut value = InUse::new(self, self.lock_unless_signalled()?);
            let value = value.as_mut().ok_or(Failure::Closed(self.what))?;
            call(value).map_err(Into::into)
        })
    }

    /// Works on the object with the interpreter held: for what neither waits nor reads files.
    pub fn with<R>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> PyResult<R>) -> PyResult<R> {
        self.check().map_err(|failure| failure.raised(py))?;
        if self.is_in_use_here() {
            return Err(Failure::InUse(self.what).raised(py));
        }
        let value = self.value.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let mut value = InUse::new(self, value);
        match value.as_mut() {
            Some(value) => guarded(|| Ok(work(value)?)).map_err(|failure| failure.raised(py)),
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

    /// Takes the object out; `None` if it was closed before. Calls that wait inside it end first; one of this thread drops it at its end.
    pub fn take(&self, py: Python<'_>) -> Result<Option<T>, Failure> {
        if self.forks != FORKS.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.is_closed.store(true, Ordering::Relaxed);
        if self.is_in_use_here() {
            self.is_leaving.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        Ok(detached(py, || self.lock().take()))
    }

    /// Closes the object: drops it without the interpreter.
    pub fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        let value = self.take(py)?;
        detached(py, || {
            guarded(|| {
                drop(value);
                Ok(())
            })
        })
    }

    /// Waits until no other thread uses the object, which may take as long as a wait for a server.
    fn lock_unless_signalled(&self) -> Result<MutexGuard<'_, Option<T>>, Failure> {
        if self.is_in_use_here() {
            return Err(Failure::InUse(self.what));
        }
        let (mut pause, mut asked) = (PAUSE_MIN, Instant::now());
        loop {
            match self.value.try_lock() {
                Ok(value) => return Ok(value),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => thread::sleep(pause),
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
    match detached(py, || interruptible(is_signalled, || guarded(call))) {
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
            let dropped = Python::try_attach(|py| detached(py, || drop(value.take())));
            drop((dropped, value));
        }
    }
}
