//! Lets tests do with small files what pays with large ones. Nothing else uses it.

use std::cell::Cell;
use std::thread::LocalKey;
use tapedb_segment::Strands;

thread_local! {
    static TWO_THREADS: Cell<bool> = const { Cell::new(false) };
    static TOGETHER: Cell<bool> = const { Cell::new(false) };
    static CHANGES: Cell<bool> = const { Cell::new(false) };
    static STRANDS: Cell<Option<Strands>> = const { Cell::new(None) };
}

/// Runs `work`, during which this thread writes segments in these strands, however small they are.
pub fn in_strands<T>(strands: Strands, work: impl FnOnce() -> T) -> T {
    STRANDS.set(Some(strands));
    let done = work();
    STRANDS.set(None);
    done
}

/// Runs `work`, during which this thread seals every two files with the help of another one.
pub fn two_threads<T>(work: impl FnOnce() -> T) -> T {
    force(&TWO_THREADS, work)
}

/// Runs `work`, during which this thread seals files together, however small they are.
pub fn together<T>(work: impl FnOnce() -> T) -> T {
    force(&TOGETHER, work)
}

/// Runs `work`, during which this thread appends changes to manifests, however small they are.
pub fn changes<T>(work: impl FnOnce() -> T) -> T {
    force(&CHANGES, work)
}

fn force<T>(what: &'static LocalKey<Cell<bool>>, work: impl FnOnce() -> T) -> T {
    what.set(true);
    let done = work();
    what.set(false);
    done
}

pub(crate) fn are_two_threads() -> bool {
    TWO_THREADS.get()
}

pub(crate) fn is_together() -> bool {
    TOGETHER.get()
}

pub(crate) fn are_changes_appended() -> bool {
    CHANGES.get()
}

pub(crate) fn strands() -> Option<Strands> {
    STRANDS.get()
}
