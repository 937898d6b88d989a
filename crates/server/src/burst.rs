//! What a connection's thread pushes while it appends the batches that have arrived together goes out together, in one write
//! for each client: when there is more to do than time, a batch costs less.
//!
//! Always true: what is held in an outbox is flushed by whoever has set its `in_burst`, after having reset it: so what others
//! add meanwhile goes out too.

use crate::shared::Handle;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Larger pushes go out by themselves: copying them would cost more than writing twice.
const HELD_BYTES_MAX: usize = 16 << 10;
/// So much is held for a client at most.
const WAITING_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// To whom this thread has pushed since its burst began; `None`: there is none.
    static PUSHED_TO: RefCell<Option<Vec<Arc<Handle>>>> = const { RefCell::new(None) };
    /// Whether this thread has pushed anything since its burst began.
    static HAS_PUSHED: Cell<bool> = const { Cell::new(false) };
}

/// A burst of this thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct Burst(());

impl Burst {
    pub fn begin() -> Self {
        PUSHED_TO.with_borrow_mut(|handles| handles.get_or_insert_default().clear());
        HAS_PUSHED.set(false);
        Self(())
    }

    /// Ends it; whether anything was pushed.
    pub fn end(self) -> bool {
        drop(self);
        HAS_PUSHED.get()
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        let handles = PUSHED_TO.take().unwrap_or_default();
        handles.iter().for_each(|handle| flush(handle));
    }
}

/// Sends the parts, at the end of the burst if there is one.
pub(crate) fn push(handle: &Arc<Handle>, parts: &[&[u8]]) {
    HAS_PUSHED.set(true);
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let is_held =
        bytes <= HELD_BYTES_MAX && PUSHED_TO.with_borrow_mut(|handles| hold(handle, parts, handles));
    if !is_held {
        handle.send(parts);
    }
}

fn hold(handle: &Arc<Handle>, parts: &[&[u8]], handles: &mut Option<Vec<Arc<Handle>>>) -> bool {
    let Some(handles) = handles else { return false };
    handle.outbox.hold(parts);
    if handle.outbox.waiting() > WAITING_BYTES_MAX {
        flush(handle);
    } else if !handle.in_burst.swap(true, Ordering::AcqRel) {
        handles.push(handle.clone());
    }
    true
}

fn flush(handle: &Handle) {
    handle.in_burst.store(false, Ordering::Release);
    handle.outbox.flush();
    if handle.outbox.waiting() > 0 {
        handle.wake();
    }
}
