//! Loops as wide as the processor that runs them.
//!
//! Binaries are built for the least that processors of a kind have, which on x86-64 are registers of 128 bits that cannot
//! even extend a sign or take a maximum of 32 bits. What is compiled inside [`widest`] is compiled once more for each of the
//! wider kinds, and the one that is there is chosen at run time.

use fearless_simd::{Level, dispatch};

/// Does `work` with the widest registers that there are. Only what is inlined into it becomes wider: closures have to be
/// `#[inline(always)]`. Choosing takes some five cycles, so it should be at least a hundred numbers.
#[inline(always)]
pub(crate) fn widest<R>(work: impl FnOnce() -> R) -> R {
    dispatch!(Level::new(), _simd => work())
}
