//! What streams of market data contain, beyond their messages: books at any time, with checkpoints that make this quick; live books; gaps.
//!
//! Everything here works on open databases, local or remote, and writes nothing but streams: the checkpoints of `STREAM` are the stream
//! `STREAM.books`.

mod at;
mod checkpoints;
mod error;
mod gap_list;
mod gap_scan;
mod gap_summary;
mod live;
mod replay;
mod writer;

pub use at::{BookAt, BookStart, StreamBooks};
pub use checkpoints::checkpoints_of;
pub use error::BookError;
pub use gap_scan::GapScan;
pub use gap_summary::{FoundGap, GapSummary, Verdict, cause_name};
pub use live::LiveBook;
pub use replay::BookReplay;
pub use writer::{CheckpointWriter, Every, Pass};
