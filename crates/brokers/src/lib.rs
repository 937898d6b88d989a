//! Kafka and NATS JetStream as sources and sinks of streams, each message once (`docs/BROKERS.md`).
//!
//! [`Intake`] takes records of a broker into a stream: each partition is a producer of the stream, and a record's offset its number, so
//! that the stream itself has how far each partition was read. [`Encoder`] makes records of messages; how far a sink is, the topic itself
//! has. [`nats`] and `kafka` (a feature) are the two brokers.
//!
//! Works on open databases, with threads and blocking calls: no server, no client of a server, no asynchronous runtime.

#![deny(missing_docs)]

mod dead_letters;
mod decoder;
mod encoder;
mod error;
mod headers;
mod intake;
#[cfg(any(feature = "kafka", test))]
pub mod kafka;
pub mod nats;
mod progress;

pub use decoder::{Decoder, Incoming, Mapping};
pub use encoder::{Encoder, Encoding, Outgoing};
pub use error::Error;
pub use headers::Marks;
pub use intake::{BadRecords, Intake, IntakeOptions, LostRecords};
pub use progress::{Counts, LaneStatus, Observer, Unwatched};
