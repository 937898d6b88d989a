//! Topics: the messages of TapeDB through a ring in shared memory, from many publishers to many subscribers on one machine,
//! with no server in between.
//!
//! A [`Topic`] is a file in memory that all its users map ([`Folder`] is where); its layout is `docs/format/topic.md`.
//! A [`Publisher`] writes messages where subscribers read them; a [`Subscriber`] sees every message, in the one order. What
//! happens when a subscriber is too slow is the topic's [`Delivery`]. A process that is killed or stopped at any instruction
//! delays the others for at most the topic's stall time, and leaves nothing that must be cleaned up: `ring` states what is
//! always true, `claims` how.
//!
//! The memory is `tapedb_shm`'s: everything that other processes can change is read as atomics, copied, and checked before it is
//! used.

#[cfg(not(loom))]
mod batch;
#[cfg(all(test, not(loom)))]
mod between_threads;
#[cfg(not(loom))]
mod body;
mod claims;
mod error;
mod exclusive;
#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod folder;
mod format;
mod limit;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod page;
#[cfg(not(loom))]
mod position;
#[cfg(not(loom))]
mod publisher;
mod reader;
mod ring;
#[cfg(not(loom))]
mod space;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod subscriber;
#[cfg(not(loom))]
mod symbols;
#[cfg(not(loom))]
mod topic;
mod view;

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
pub use position::TopicPosition;
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
pub use topic::{Topic, TopicOptions};
