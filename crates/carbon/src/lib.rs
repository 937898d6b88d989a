//! Between topics and streams.
//!
//! A [`CarbonCopy`] subscribes to a topic and keeps a durable stream of it. A [`Feed`] reads a stream, a topic, or one after
//! the other ([`Joined`]: history from the copy, then the topic, without a gap), so that a strategy runs unchanged on all of
//! them.
//!
//! A [`Copier`] keeps such a copy on a thread of its own, whatever becomes of topic and stream meanwhile.
//!
//! Which message of the topic is which of the stream is written down in a second stream, `STREAM.carbon`: see `marks`.

mod copier;
mod copy;
mod error;
mod feed;
mod joined;
mod marks;

pub use copier::{Copier, CopierEvent, CopierOptions, CopierState, CopierStatus};
pub use copy::{CarbonCopy, CopyOptions, CopyProgress};
pub use error::FeedError;
pub use feed::{Feed, FeedMessage};
pub use joined::Joined;
pub use marks::marks_of;

/// The examples of the page about topics are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/TOPICS.md")]
struct TopicsPage;
