//! What streams of market data contain, beyond their messages: books at any time, with checkpoints that make this quick.
//!
//! Everything here works on open databases, local or remote, and writes nothing but streams: the checkpoints of `STREAM` are the stream
//! `STREAM.books`.

mod at;
mod checkpoints;
mod error;
mod gap_list;
mod replay;
mod writer;

pub use at::{BookAt, BookStart, StreamBooks};
pub use checkpoints::checkpoints_of;
pub use error::BookError;
pub use replay::BookReplay;
pub use writer::{CheckpointWriter, Every, Pass};
