//! The atomic operations of this crate, from one place, so that loom can put its own under the same code.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Between a commit and the look whether somebody is parked. The other side of the pair has every publisher's processor
/// pass a barrier (`System::barrier`), so that here the compiler alone has to be kept from turning the two around.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn light_barrier() {
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// loom knows no barrier on other processors: here both sides have one.
#[cfg(loom)]
pub(crate) fn light_barrier() {
    fence(Ordering::SeqCst);
}

/// What waiting does between two looks.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn pause() {
    std::hint::spin_loop();
}

/// loom has to be told that nothing happens until another thread goes on.
#[cfg(loom)]
pub(crate) fn pause() {
    loom::thread::yield_now();
}
