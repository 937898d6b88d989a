//! What streams of market data contain, beyond their messages: books at any time, with checkpoints that make this quick; live books; gaps;
//! bars.
//!
//! Everything here works on open databases, local or remote, and writes nothing but streams: the checkpoints of `STREAM` are the stream
//! `STREAM.books`, its bars of a minute the stream `STREAM.bars.1m`.

mod at;
mod bar_writer;
mod bars;
mod checkpoints;
mod error;
mod gap_chain;
mod gap_list;
mod gap_scan;
mod gap_summary;
mod live;
mod prices;
mod recent;
mod replay;
mod writer;

pub use at::{BookAt, BookRequest, BookStart, StreamBooks};
pub use bar_writer::BarWriter;
pub use bars::{BarCounts, BarReader, SymbolBar};
pub use checkpoints::checkpoints_of;
pub use error::BookError;
pub use gap_scan::GapScan;
pub use gap_summary::{FoundGap, GapSummary, Verdict, cause_name};
pub use live::LiveBook;
pub use prices::BarInput;
pub use recent::RecentBooks;
pub use replay::BookReplay;
pub use writer::{CheckpointWriter, Every, Pass};
