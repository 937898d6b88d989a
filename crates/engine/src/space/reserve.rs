//! Room for a manifest on a full disk: what frees room says so in a manifest first.
//!
//! A database keeps the file `reserve`, of zeros, which is given back when a manifest finds no room. The next writer that opens the
//! database makes it anew, as soon as there is room.

use std::io;
use std::path::Path;
use tapedb_log::Storage;

/// Name of the file in the directory of a database.
pub(crate) const FILE: &str = "reserve";
/// Bytes of the file: manifests of several hundred parts.
const BYTES: usize = 64 << 10;
/// Directories from a space up to its database: streams, the stream, the space.
const DEPTH: usize = 3;

/// Makes the file if it is not there, and if there is room.
pub(crate) fn make(storage: &dyn Storage, database: &Path) {
    let path = database.join(FILE);
    if storage.size(&path).is_ok_and(|bytes| bytes == BYTES as u64) {
        return;
    }
    let made = storage.write(&path, &[0; BYTES]).and_then(|()| storage.sync_file(&path));
    if made.is_err() {
        // What there is of it is as good as nothing.
        let _ = storage.remove(&path);
    }
}

/// Gives the room back to who writes in the directory of a space; `false`: there is none.
pub(crate) fn release(storage: &dyn Storage, space: &Path) -> bool {
    let database = space.ancestors().nth(DEPTH);
    database.is_some_and(|database| storage.remove(&database.join(FILE)).is_ok())
}

/// Whether an error says that there is no room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
