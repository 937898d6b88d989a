//! Memory that processes of one machine share: the words in it, the system calls around it, and pipes.
//!
//! Other processes can change this memory at any time. So every word is an atomic ([`Words`]), is copied before it is used,
//! and is checked before it is trusted. [`waiting`] is how a process waits for another one: it sleeps on a word, or
//! it gives up after a time. [`atomics`] has all atomic operations, so that loom can replace them (`make loom`). [`system`] has
//! the system calls.
//!
//! Two things are complete here: a [`Pipe`] carries the bytes of one connection between a client and its server
//! (`docs/format/pipe.md`), and [`Awake`] keeps processors from halting. Topics are a crate above this one.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "shared memory needs Linux: open-file-description locks, futexes and memory barriers on other processors"
);
#[cfg(not(target_endian = "little"))]
compile_error!("shared memory has the layout of its format pages, little-endian");

pub mod atomics;
#[cfg(not(loom))]
mod awake;
#[cfg_attr(loom, allow(dead_code))]
mod byte_ring;
#[cfg(not(loom))]
mod pipe;
#[cfg(not(loom))]
pub mod system;
pub mod waiting;
mod words;

#[cfg(not(loom))]
pub use awake::Awake;
#[cfg(loom)]
pub use loom;
#[cfg(not(loom))]
pub use pipe::{NoPipe, PIPE_MAGIC, Pipe};
#[cfg(not(loom))]
pub use system::{pin_to_core, ticks};
pub use words::{AllWords, WORD, Words};
