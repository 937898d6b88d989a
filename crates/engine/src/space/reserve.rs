//! Reserved space for a manifest on a full disk: a change that frees space must first be written to a manifest.
//!
//! A database holds the file `reserve`, of zeros, which is removed when a manifest cannot be written for lack of space. The next
//! writer that opens the database creates it again, as soon as there is free space.

use std::io;
use std::path::Path;
use tapedb_log::Storage;

/// Name of the file in the directory of a database.
pub(crate) const FILE: &str = "reserve";
/// Bytes of the file: manifests of several hundred parts.
const BYTES: usize = 64 << 10;
/// Directories from a space up to its database: streams, the stream, the space.
const DEPTH: usize = 3;

/// Creates the file if it does not exist, and if there is free space.
pub(crate) fn create(storage: &dyn Storage, database: &Path) {
    let path = database.join(FILE);
    if storage.size(&path).is_ok_and(|bytes| bytes == BYTES as u64) {
        return;
    }
    let created = storage.write(&path, &[0; BYTES]).and_then(|()| storage.sync_file(&path));
    if created.is_err() {
        // An incomplete file is of no use.
        let _ = storage.remove(&path);
    }
}

/// Frees the reserve for a write in the directory of a space; `false`: there is none.
pub(crate) fn release(storage: &dyn Storage, space: &Path) -> bool {
    let database = space.ancestors().nth(DEPTH);
    database.is_some_and(|database| storage.remove(&database.join(FILE)).is_ok())
}

/// Whether an error means that the disk or a quota is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
