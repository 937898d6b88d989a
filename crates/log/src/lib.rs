//! Append-only files of checksummed batches: the log of one space of a stream, and the stream's symbol
//! dictionary.
//!
//! One [`LogWriter`] appends, which threads share as a [`SharedWriter`]; any number of readers share a [`Log`], in the
//! writing process (which see an append at once) and in others (by [`Log::refresh`]). Everything goes to disk, or stays
//! in memory, through [`Storage`], so that a test can break it. `docs/format/log.md` draws the files to the byte.
//!
//! What is always true:
//!
//! * A batch on disk is whole or it is not there: header and payload carry checksums, and readers check both.
//! * Sequence numbers rise through the files; where they jump, messages are missing and the jump is reported.
//! * Bytes before the committed end never change; a failed append is taken back before the next one.
//! * Zeros behind the last batch of the last file are room for more, and nothing that was lost.
//! * What goes is whole files from the first on, and what a reader then asks for in vain it is told.
//! * A batch in a log file begins with the mark of its place, which no body can have but by chance.
//! * What was there when a log was closed is there, or reported.
//! * An index file only repeats what its log file says and is believed only with its checksum.

mod batches;
mod described;
mod dictionary;
mod end;
mod error;
mod files;
mod follow;
mod format;
mod granule;
mod lock;
mod log;
mod marks;
mod memory;
mod producers;
mod report;
mod room;
mod scan;
mod search;
mod shared;
pub mod sim;
mod storage;
mod symbols;
mod tail;
mod tree;
mod trim;
mod walk;
mod writer;

pub use batches::{BatchSlice, Batches};
pub use described::{Extended, LogIndex};
pub use dictionary::Dictionary;
pub use end::{END_FILE, note_end};
pub use error::LogError;
pub use format::{FILE_HEADER_BYTES, FileHeader, log_of_name};
pub use granule::{GRANULE_BYTES, Granule, Span};
pub use log::{Log, Snapshot};
pub use memory::MemoryStorage;
pub use producers::{PRODUCERS_FILE, PRODUCERS_MAX};
pub use report::{Cut, Damage, Reason, Recovery};
pub use scan::{Scan, scan_bytes};
pub use shared::{Committed, Hold, SharedWriter, Ticket, Turn, Written};
pub use storage::{DiskStorage, Entry, FileId, Kind, Storage, StorageFile, StorageLock, read_all};
pub use symbols::{MAX_SYMBOL_BYTES, MAX_SYMBOLS, SymbolDamage, SymbolFile, SymbolRecovery, SymbolTail};
pub use tail::TailPosition;
pub use trim::CompleteFile;
pub use walk::{Found, IndexFault, Walk};
pub use writer::{Durability, FILE_BYTES_MAX, FILE_BYTES_MAX_DEFAULT, LogOptions, LogWriter};
