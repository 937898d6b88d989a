//! Ends calls early: a program states how a thread learns that it is not to go on, such as after Ctrl-C.
//!
//! Always true: a thread outside of [`interruptible`] asks nothing and goes on as ever; a call that was once interrupted waits for
//! nothing any more, until it has returned.
//!
//! Reading asks before each block and granule, sealing and merging while they write, and a client while it waits for a server.

use crate::error::Error;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How often a waiting thread asks.
const INTERVAL: Duration = Duration::from_millis(50);

thread_local! {
    static ASKING: Cell<Option<Asking>> = const { Cell::new(None) };
}

/// What a thread asks, and what it learned.
#[derive(Clone, Copy)]
struct Asking {
    ask: fn() -> bool,
    /// How often.
    interval: Duration,
    /// When it is to ask next.
    next: Instant,
    is_interrupted: bool,
}

/// Does work with databases on this thread. While it reads, seals, or waits for a server (for an answer, for the restoring of a lost
/// connection), it calls `ask` about every 50 ms; when that returns `true`, the call ends with [`Error::Interrupted`], or, where it waits,
/// with the error that a server which cannot be reached has. The cursors and loaders of the call can be used further: nothing is lost or
/// repeated.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use tapedb_engine::{Database, interruptible};
///
/// static IS_STOPPING: AtomicBool = AtomicBool::new(false);
///
/// # fn main() -> Result<(), tapedb_engine::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// let db = Database::open(directory.path().join("db"))?;
/// let streams = interruptible(|| IS_STOPPING.load(Ordering::Relaxed), || db.streams())?;
/// assert!(streams.is_empty());
/// # Ok(())
/// # }
/// ```
pub fn interruptible<R>(ask: fn() -> bool, work: impl FnOnce() -> R) -> R {
    interruptible_each(INTERVAL, ask, work)
}

/// [`interruptible`], asking at other intervals: for tests.
#[doc(hidden)]
pub fn interruptible_each<R>(interval: Duration, ask: fn() -> bool, work: impl FnOnce() -> R) -> R {
    /// Restores what the thread asked before, after a panic too.
    struct Restore(Option<Asking>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ASKING.set(self.0);
        }
    }
    let asking = Asking { ask, interval, next: Instant::now() + interval, is_interrupted: false };
    let _restore = Restore(ASKING.replace(Some(asking)));
    work()
}

/// Whether the calling thread is not to go on.
pub fn is_interrupted() -> bool {
    let Some(asking) = ASKING.get() else { return false };
    if asking.is_interrupted || Instant::now() < asking.next {
        return asking.is_interrupted;
    }
    let is_interrupted = (asking.ask)();
    ASKING.set(Some(Asking { next: Instant::now() + asking.interval, is_interrupted, ..asking }));
    is_interrupted
}

/// Fails when the calling thread is not to go on.
///
/// # Errors
/// [`Error::Interrupted`].
#[inline]
pub(crate) fn check() -> Result<(), Error> {
    if is_interrupted() { Err(Error::Interrupted) } else { Ok(()) }
}

/// The part of a wait until the thread is to ask again.
pub fn slice(wait: Duration) -> Duration {
    match ASKING.get() {
        Some(asking) => wait.min(asking.interval),
        None => wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    static ASKED: AtomicU32 = AtomicU32::new(0);

    /// Whether the wait ends that is asked about the second time.
    fn second() -> bool {
        ASKED.fetch_add(1, Ordering::Relaxed) == 1
    }

    #[test]
    fn an_interrupted_call_waits_no_more_and_the_next_one_does() {
        let long = Duration::from_secs(3600);
        assert!(!is_interrupted() && slice(long) == long);
        interruptible(second, || {
            assert!(slice(long) == INTERVAL && slice(Duration::ZERO).is_zero());
            while !is_interrupted() {
                std::thread::sleep(slice(long));
            }
            assert!(is_interrupted() && is_interrupted());
            assert_eq!(ASKED.load(Ordering::Relaxed), 2, "an interrupted call does not ask again");
            interruptible(|| false, || assert!(!is_interrupted()));
            assert!(is_interrupted());
        });
        assert!(!is_interrupted() && slice(long) == long);
        let _ = std::panic::catch_unwind(|| interruptible(|| true, || panic!("as a test")));
        assert!(slice(long) == long);
    }
}
