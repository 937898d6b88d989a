//! Between topics and streams.
//!
//! A [`CarbonCopy`] subscribes to a topic and keeps a durable stream of it. A [`Feed`] reads a stream, a topic, or one after
//! the other ([`Joined`]: history from the copy, then the topic, without a gap), so that a strategy runs unchanged on all of
//! them.
//!
//! Which message of the topic is which of the stream is written down in a second stream, `STREAM.carbon`: see `marks`.

mod copy;
mod error;
mod feed;
mod joined;
mod marks;

pub use copy::{CarbonCopy, CopyOptions, CopyProgress};
pub use error::FeedError;
pub use feed::{Feed, FeedMessage};
pub use joined::Joined;
pub use marks::marks_of;
