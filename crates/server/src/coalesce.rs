//! Coalesces pushes: all pushes of a connection's thread while it appends received batches go out in one write per
//! client. Under load a batch then costs less.
//!
//! Always true: a send buffer with coalesced pushes is flushed by the thread that set its `is_coalescing`, after it has
//! cleared the flag: so pushes added by other threads in between go out too.

use crate::handle::ConnectionHandle;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Larger pushes are sent at once: a copy would cost more than a second write.
const HELD_BYTES_MAX: usize = 16 << 10;
/// The most bytes that are coalesced for one client.
const WAITING_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// Clients with coalesced pushes of this thread; `None`: this thread does not coalesce.
    static PUSHED_TO: RefCell<Option<Vec<Arc<ConnectionHandle>>>> = const { RefCell::new(None) };
    /// Whether this thread has pushed anything since it began to coalesce.
    static HAS_PUSHED: Cell<bool> = const { Cell::new(false) };
}

/// Coalesces the pushes of this thread until it is dropped.
#[derive(Debug)]
pub(crate) struct Coalescing(());

impl Coalescing {
    pub fn begin() -> Self {
        PUSHED_TO.with_borrow_mut(|handles| handles.get_or_insert_default().clear());
        HAS_PUSHED.set(false);
        Self(())
    }

    /// Flushes; whether anything was pushed.
    pub fn end(self) -> bool {
        drop(self);
        HAS_PUSHED.get()
    }
}

impl Drop for Coalescing {
    fn drop(&mut self) {
        let handles = PUSHED_TO.take().unwrap_or_default();
        handles.iter().for_each(|handle| flush(handle));
    }
}

/// Sends the pieces, or queues them if this thread coalesces.
pub(crate) fn push(handle: &Arc<ConnectionHandle>, parts: &[&[u8]]) {
    HAS_PUSHED.set(true);
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let is_held =
        bytes <= HELD_BYTES_MAX && PUSHED_TO.with_borrow_mut(|handles| hold(handle, parts, handles));
    if !is_held {
        handle.send(parts);
    }
}

fn hold(
    handle: &Arc<ConnectionHandle>,
    parts: &[&[u8]],
    handles: &mut Option<Vec<Arc<ConnectionHandle>>>,
) -> bool {
    let Some(handles) = handles else { return false };
    handle.send_buffer.hold(parts);
    if handle.send_buffer.waiting() > WAITING_BYTES_MAX {
        flush(handle);
    } else if !handle.is_coalescing.swap(true, Ordering::AcqRel) {
        handles.push(handle.clone());
    }
    true
}

fn flush(handle: &ConnectionHandle) {
    handle.is_coalescing.store(false, Ordering::Release);
    handle.send_buffer.flush();
    if handle.send_buffer.waiting() > 0 {
        handle.wake();
    }
}
