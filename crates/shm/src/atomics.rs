//! The atomic operations on shared memory, in one place, so that loom can replace them.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The barrier between a commit and the check whether a reader sleeps. The other side of the pair makes every publisher's
/// processor pass a barrier ([`heavy_barrier`]), so here only the compiler must not reorder the two.
#[cfg(not(loom))]
#[inline(always)]
pub fn light_barrier() {
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// loom has no barrier on other processors: here both sides have one.
#[cfg(loom)]
pub fn light_barrier() {
    fence(Ordering::SeqCst);
}

/// Makes every processor that runs a registered process pass a full barrier. `false` if the system cannot do this.
#[cfg(not(loom))]
pub fn heavy_barrier() -> bool {
    crate::system::barrier()
}

/// The other side of [`light_barrier`] under loom.
#[cfg(loom)]
pub fn heavy_barrier() -> bool {
    fence(Ordering::SeqCst);
    true
}

/// What a waiting thread does between two checks.
#[cfg(not(loom))]
#[inline(always)]
pub fn pause() {
    std::hint::spin_loop();
}

/// loom needs this call to know that nothing happens until another thread goes on.
#[cfg(loom)]
pub fn pause() {
    loom::thread::yield_now();
}
