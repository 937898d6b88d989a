//! Between topics and streams.
//!
//! A [`TopicCopy`] subscribes to a topic and stores its messages in a durable stream. An [`AnyCursor`] reads a stream, a topic,
//! or one after the other ([`Joined`]: history from the copy, then the topic, without a gap), so that a strategy runs unchanged
//! on all of them.
//!
//! A [`Copier`] runs such a copy on its own thread, whatever happens to topic and stream.
//!
//! A second stream, `STREAM.carbon`, stores which message of the topic is which of the stream: see `marks`.

mod any;
mod copier;
mod copy;
mod error;
mod joined;
mod marks;
mod message;

pub use any::AnyCursor;
pub use copier::{Copier, CopierEvent, CopierIntervals, CopierOptions, CopierState, CopierStatus};
pub use copy::{CopyOptions, CopyProgress, TopicCopy};
pub use error::CopyError;
pub use joined::Joined;
pub use marks::marks_of;
pub use message::AnyMessage;

/// The examples of the page about topics are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/TOPICS.md")]
struct TopicsPage;
