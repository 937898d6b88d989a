//! Append-only files of checksummed batches: the log of one space of a stream, and the stream's symbol
//! dictionary.
//!
//! One [`LogWriter`] appends, which threads share as a [`SharedWriter`]; any number of readers share a [`Log`], in the
//! writing process (which see an append at once) and in others (by [`Log::refresh`]). All input and output goes
//! through [`Storage`] (the disk, memory, or a simulation that fails on purpose). `docs/format/log.md` draws the files to the byte.
//!
//! What is always true:
//!
//! * A batch on disk is whole or it is not there: header and payload carry checksums, and readers check both.
//! * Sequence numbers rise through the files; where they jump, messages are missing and the jump is reported.
//! * Bytes before the committed end never change; a failed append is taken back before the next one.
//! * Zeros after the last batch of the last file are preallocated space, not lost data.
//! * Files are removed whole, the oldest first; a read of removed messages is [`LogError::Trimmed`].
//! * A batch in a log file begins with the mark of its offset, which a body can contain only by chance.
//! * Messages that were there when a log was closed are there when it is opened, or are reported.
//! * An index file repeats what its log file contains, and is used only if its checksum is right.

mod batches;
mod dictionary;
mod directory;
mod disk;
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
mod options;
mod preallocation;
mod producers;
mod recover;
mod remote;
mod report;
mod salt;
mod scan;
mod search;
mod shared;
pub mod sim;
mod storage;
mod symbols;
mod tail;
#[cfg(test)]
mod test_batches;
mod tree;
mod trim;
mod walk;
mod window;
mod writer;

pub use batches::{BatchSlice, Batches};
pub use dictionary::{Dictionary, MAX_SYMBOL_BYTES, MAX_SYMBOLS};
pub use disk::DiskStorage;
pub use error::LogError;
pub use format::{END_FILE, FILE_HEADER_BYTES, FileHeader, PRODUCERS_FILE, log_of_name};
pub use granule::{GRANULE_BYTES, Granule, Span};
pub use log::{Log, Snapshot};
pub use memory::MemoryStorage;
pub use options::{Durability, FILE_BYTES_MAX, FILE_BYTES_MAX_DEFAULT, LogOptions};
pub use producers::{PRODUCERS_MAX, REQUEST, REQUESTS_MAX};
pub use remote::{LogIndex, Pushed};
pub use report::{Cut, Damage, Reason, Recovery};
pub use scan::{Scan, scan_bytes};
pub use shared::{Committed, Hold, SharedWriter, Ticket, Turn, Written};
pub use storage::{Entry, FileId, Kind, Storage, StorageFile, StorageLock, read_all};
pub use symbols::{SymbolDamage, SymbolFile, SymbolRecovery, SymbolTail};
pub use tail::TailPosition;
pub use trim::CompleteFile;
pub use walk::{Found, IndexFault, Walk};
pub use writer::{LogWriter, record_end};
