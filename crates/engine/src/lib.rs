//! The embedded database: durable, time-ordered streams of typed messages, written by loaders and read by cursors.
//!
//! A [`Database`] is a directory, open in one process for writing and in any number for reading. A [`Stream`] holds
//! messages of one schema; a [`Loader`] appends to it; a [`Cursor`] reads history and then stays live, over one stream
//! or many merged by time. There are no sockets here. Files are those of the operating system, or of another
//! [`Storage`]: see [`Database::open_on`].

mod admin;
mod backend;
mod batches;
mod clock;
mod counts;
mod database;
mod error;
mod files;
mod ids;
pub mod interrupt;
mod loader;
mod lock;
mod maintenance;
mod names;
mod notifier;
mod objects;
mod options;
mod read;
mod rows;
mod secret;
mod space;
mod stream;
mod upstream;
mod wanted;

pub use admin::backup::{BackupReport, DeletedStreams};
pub use admin::finding::{CheckDepth, CheckEvent, CheckReport, Finding, Severity};
#[doc(hidden)]
pub use admin::from_store::read_hostile_object;
pub use admin::repair::Repair;
pub use admin::stored::{SharedFile, StoredObject, StoredPart, StoredSegment, StoredStream};
pub use batches::{BatchLoader, PendingBatch};
pub use counts::ReadCounts;
pub use database::{Access, Database};
pub use error::{
    ConnectionError, Error, Invalid, LostMessages, MissingColumn, NotFound, QueryFailure, Rejected,
    SegmentFailure, Stale, Unreadable,
};
pub use interrupt::interruptible;
pub use loader::{BATCH_BYTES_DEFAULT, Loader, MessageColumns, SymbolId, Symbols};
#[doc(hidden)]
pub use maintenance::forced;
pub use maintenance::offload::Offloaded;
pub use maintenance::strands::set_strands;
pub use maintenance::thread::set_maintenance_threads;
pub use maintenance::verify::seal_mismatches;
pub use names::MAX_STREAM_NAME_BYTES;
pub use objects::cache::set_object_cache_bytes;
pub use objects::counts::ObjectCounts;
pub use objects::store::{ObjectError, ObjectFault, ObjectStore, OpenObjectStore, register_object_store};
pub use objects::url::StoreUrl;
pub use options::{Late, Offload, Retention, SPACES_MAX, StreamOptions};
pub use read::chooser::{OfferedRows, RowChooser};
pub use read::columns::{Chunk, Column, ColumnBuilder, ColumnCursor, SpaceRun, Step};
pub use read::cursor::{Cursor, Message};
pub use read::cursor_builder::CursorBuilder;
pub use read::filled::SymbolRun;
pub use read::position::Position;
pub use read::value_range::{Number, NumberRange};
pub use stream::Stream;
pub use stream::census::Census;
pub use stream::events::Ordered;
pub use stream::observe::{Observer, Observing};
pub use stream::order::WriteOrder;
pub use stream::pick::{GroupId, Picker};
pub use stream::recovery::StreamRecovery;
pub use stream::rewrite::{REWRITE_BYTES_MAX, Rewriter};
pub use stream::stats::StreamStats;
pub use tapedb_codec::batch::{FieldValues, InputColumn, Misfit, Validity};
pub use tapedb_log::{Durability, Granule, LogError, Span, Storage, StorageFile, TailPosition};
pub use tapedb_segment::{ColumnKind, SegmentError, Values};
pub use upstream::{
    CachedSpace, CachedStream, Command, Description, Grown, Loading, LogDescription, Outcome, Picked, Query,
    QueryEngine, QueryRows, QueryStep, QueryUser, Replacement, Replacing, SpaceDescription, Target, Upstream,
    WINDOW_BYTES, Watcher, Watching,
};
pub use wanted::Wanted;

/// The README's program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
