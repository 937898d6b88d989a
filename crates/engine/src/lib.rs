//! The embedded database: durable, time-ordered streams of typed messages, written by loaders and read by cursors.
//!
//! A [`Database`] is a directory, open in one process for writing and in any number for reading. A [`Stream`] holds
//! messages of one schema; a [`Loader`] appends to it; a [`Cursor`] reads history and then stays live, over one stream
//! or many merged by time. There are no sockets here. Files are those of the operating system, or of another
//! [`Storage`]: see [`Database::open_on`].

mod aside;
mod backup;
mod bell;
mod binding;
mod block;
mod catalog;
mod check;
mod check_segments;
mod chunks;
mod columns;
mod copies;
mod cursor;
mod database;
mod definition;
mod deletion;
mod edit;
mod error;
mod fields;
mod files;
mod filter;
mod history;
mod identity;
mod keeper;
mod loader;
mod lost;
mod manifest;
mod missing;
mod names;
mod options;
mod pace;
mod position;
mod repair;
mod retention;
mod salvage;
mod seal;
mod source;
mod space;
mod stored;
mod stream;
mod tail;
mod tools;
mod translate;
mod versions;

pub use backup::{BackedUp, Deleted};
pub use check::{Checked, Checking, Finding, Severity};
pub use chunks::SymbolRun;
pub use columns::{Chunk, Column, ColumnBuilder, ColumnCursor, Step};
pub use cursor::{Cursor, CursorBuilder, Message};
pub use database::{Access, Database};
pub use error::{Error, LostMessages, SegmentFailure};
pub use loader::{BATCH_BYTES_DEFAULT, Loader, SymbolId};
pub use names::MAX_STREAM_NAME_BYTES;
pub use options::{Late, Retention, SPACES_MAX, StreamOptions};
pub use position::Position;
pub use repair::Repair;
pub use stored::{SharedFile, StoredPart, StoredSegment, StoredStream};
pub use stream::{Stream, StreamRecovery, StreamStats};
pub use tapedb_log::{Durability, LogError, Storage};
pub use tapedb_segment::{ColumnKind, SegmentError, Values};

/// The README's program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
