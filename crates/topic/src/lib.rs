//! Topics: the messages of TapeDB through a ring in shared memory, from many publishers to many subscribers on one machine,
//! with no server in between.
//!
//! A [`Topic`] is a file in memory that everybody maps ([`Folder`] says where); its layout is `docs/format/topic.md`.
//! A [`Publisher`] writes messages where subscribers read them; a [`Subscriber`] sees every message, in the one order. What
//! happens when a subscriber is too slow is the topic's [`Delivery`]. A process that is killed or stopped at any instruction
//! keeps nobody waiting for longer than the topic's stall time, and leaves nothing to be cleaned up: `ring` says what is
//! always true, `shared` how it is kept.
//!
//! Beside them, on the same memory: a [`Pipe`] carries the bytes of one connection between a client and its server
//! (`docs/format/pipe.md`), and [`Awake`] keeps processors from halting.
//!
//! Everything that others can change is read as atomics, copied, and checked before it is believed.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "topics need Linux: open-file-description locks, futexes and memory barriers on other processors"
);

mod alone;
mod atomics;
#[cfg(not(loom))]
mod awake;
#[cfg(not(loom))]
mod batch;
#[cfg(not(loom))]
mod body;
mod error;
#[cfg(not(loom))]
mod folder;
mod format;
#[cfg_attr(loom, allow(dead_code))]
mod lane;
mod limit;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod page;
#[cfg(not(loom))]
mod pipe;
#[cfg(not(loom))]
mod publisher;
mod reader;
mod ring;
mod shared;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod subscriber;
#[cfg(not(loom))]
mod symbols;
#[cfg(not(loom))]
mod system;
#[cfg(all(test, not(loom)))]
mod threads;
#[cfg(not(loom))]
mod topic;
mod view;
#[cfg(not(loom))]
mod waits;
mod words;

#[cfg(not(loom))]
pub use awake::Awake;
#[cfg(not(loom))]
pub use batch::Batch;
pub use error::{BadFile, TopicError};
#[cfg(not(loom))]
pub use folder::{Folder, TOPIC_NAME_BYTES_MAX};
pub use format::{
    Delivery, PUBLISHERS_MAX, RING_BYTES_MAX, RING_BYTES_MIN, SUBSCRIBERS_MAX, SYMBOL_BYTES_MAX,
};
pub use limit::Slowest;
#[cfg(not(loom))]
pub use pipe::{NoPipe, PIPE_MAGIC, Pipe};
#[cfg(not(loom))]
pub use publisher::{Publisher, Sent, TopicSymbol};
pub use reader::Start;
#[cfg(not(loom))]
pub use stats::{PublisherStats, SubscriberStats, TopicStats};
#[cfg(not(loom))]
pub use subscriber::{Subscriber, SubscriberBuilder, TopicMessage, Waiting};
#[cfg(not(loom))]
pub use symbols::SYMBOL_NAME_BYTES_MAX;
#[cfg(not(loom))]
pub use system::{pin_to_core, ticks};
#[cfg(not(loom))]
pub use topic::{Topic, TopicOptions, TopicPosition};
