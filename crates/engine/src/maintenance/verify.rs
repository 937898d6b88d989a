//! Handling of blocks that are not decoded to the rows from which they were encoded.
//!
//! The writer of segments decodes each block before it writes it and compares it with its messages; a block that differs is
//! written in a plain encoding. Blocks that are read to be merged or rewritten are compared with the checksum of their content,
//! whole, before deleted messages are left out; merging copies those that are about full. This module counts a mismatch, stores a
//! dump for a report, and logs it; and it reads a finished file back.
//!
//! Always true: a block that is decoded wrongly replaces nothing. A log file whose messages cannot be sealed stays, and so does
//! every segment that a faulty one was to replace.

use crate::error::{Error, SegmentFailure, Unreadable};
use crate::maintenance::context::MaintenanceContext;
use crate::space::reader::SegmentFile;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tapedb_log::StorageFile;
use tapedb_segment::{Mismatch, Proof, Segment, SegmentError};

/// Maximum number of dumps of a space; later mismatches are counted and logged without one.
pub(crate) const DUMPS_MAX: usize = 4;
/// Extension of a dump, after the name of the segment that was being written.
pub(crate) const DUMP_EXTENSION: &str = "mismatch";

static MISMATCHES: AtomicU64 = AtomicU64::new(0);

/// Blocks that were not decoded to the rows from which they were encoded when they were sealed, merged, compressed or rewritten,
/// since the process began, of all databases. No message is lost, but each is a defect of TapeDB or of the machine's memory:
/// please report it.
pub fn seal_mismatches() -> u64 {
    MISMATCHES.load(Ordering::Relaxed)
}

/// Counts a block that was written in a plain encoding, or not at all, and stores a dump for a report. `of`: the number of such
/// blocks in the file; `segment`: the file, under its final name.
pub(crate) fn report(
    context: MaintenanceContext<'_>,
    segment: &Path,
    mismatch: &Mismatch,
    (of, became): (u64, &str),
) {
    MISMATCHES.fetch_add(of, Ordering::Relaxed);
    let dump = store_dump(context, segment, mismatch);
    let (path, space) = (context.stream.directory.display(), context.space.number);
    tracing::error!(
        "{path}, space {space}: {of} blocks were not decoded to the rows that were encoded: {mismatch}. {became} {dump}"
    );
}

/// Counts a segment that is not written because messages of its sources are missing, or are there twice.
pub(crate) fn report_incomplete(segment: &Path, error: &SegmentError) {
    MISMATCHES.fetch_add(1, Ordering::Relaxed);
    let path = segment.display();
    tracing::error!("{path}: {error}. Its sources stay, and are not tried again. Please report this.");
}

/// Counts a segment that cannot be rewritten because one of its blocks is not decoded to the rows from which it was encoded.
pub(crate) fn report_source(error: &Error) {
    MISMATCHES.fetch_add(1, Ordering::Relaxed);
    tracing::error!(
        "a segment is left as it is, and not merged or compressed, because it is not decoded to the rows that were encoded: \
         {error}; please report this, and run `tapedb check --thorough`"
    );
}

/// Stores a dump in the directory of the segments; returns a sentence that names it.
fn store_dump(context: MaintenanceContext<'_>, segment: &Path, mismatch: &Mismatch) -> String {
    match write_dump(context, segment, mismatch) {
        Ok(Some(path)) => format!("Please report this with {}, which has these messages.", path.display()),
        Ok(None) => format!("Please report this; there are {DUMPS_MAX} dumps already, which is the limit."),
        Err(error) => format!("Please report this; no dump could be written: {error}."),
    }
}

fn write_dump(
    context: MaintenanceContext<'_>,
    segment: &Path,
    mismatch: &Mismatch,
) -> io::Result<Option<PathBuf>> {
    let (storage, directory) = (&*context.space.storage, &context.space.directory);
    let path = PathBuf::from(format!("{}.{DUMP_EXTENSION}", segment.display()));
    if storage.list(directory)?.iter().filter(|name| is_dump(name)).count() >= DUMPS_MAX {
        return Ok(None);
    }
    let file = storage.create_new(&path)?;
    let written = file.write_at(&mismatch.dump, 0).and_then(|()| file.sync_data());
    if written.is_err() {
        let _ = storage.remove(&path);
    }
    written.map(|()| Some(path))
}

/// Whether a file in a space's directory is a dump.
pub(crate) fn is_dump(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == DUMP_EXTENSION)
}

/// Reads a finished file back and compares it with the proof from before it was written. That costs a read of bytes that the
/// system still has in memory, and their checksums; nothing is decoded again, for the bytes are the same.
///
/// # Errors
/// [`Error::Io`]: the file does not hold what was written.
pub(crate) fn confirm(file: &Arc<dyn StorageFile>, draft: &Path, proof: &Proof) -> Result<(), Error> {
    let segment = Segment::open(SegmentFile(file.clone()));
    segment.and_then(|segment| proof.confirm(&segment)).map_err(|error| {
        MISMATCHES.fetch_add(1, Ordering::Relaxed);
        let path = draft.display();
        tracing::error!("{path} differs from what was written when it is read back, and is removed: {error}");
        match error {
            SegmentError::Io { source, .. } => Error::io("read back", draft)(source),
            error => Error::io("read back", draft)(io::Error::other(error.to_string())),
        }
    })
}

/// Whether an error is about a block that is not decoded to the rows from which it was encoded.
pub(crate) fn is_wrong_content(error: &Error) -> bool {
    use tapedb_segment::Flaw;
    let Error::Unreadable(Unreadable::Segment(failure)) = error else { return false };
    let SegmentFailure { error: SegmentError::Damaged(damage), .. } = &**failure else { return false };
    matches!(damage.flaw, Flaw::Content { .. } | Flaw::Reference)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maintenance::part::{FilledSegment, write_segment};
    use crate::space::catalog::Content;
    use crate::{Access, Database, StreamOptions};
    use tapedb_log::MemoryStorage;
    use tapedb_segment::{BlockOptions, Plan, RowHeader, SegmentWriter, Tier};

    #[test]
    fn a_file_that_differs_when_read_back_gets_no_name() {
        let storage = Arc::new(MemoryStorage::new());
        let db = Database::open_on(storage, "db", Access::WriteWithoutMaintenance).unwrap();
        let schema = "message M { text: string }".parse().unwrap();
        let stream = db.create_stream("s", schema, StreamOptions::default()).unwrap();
        let (reader, writer) = (&*stream.state.reader, &**stream.state.writer().unwrap());
        let context = MaintenanceContext { stream: reader, writer, space: &writer.spaces[0] };
        for is_broken in [false, true] {
            let part = write_segment(context, 0..1, |out, header| {
                let file = out.file().clone();
                let plan = Plan::new(context.stream.layouts.clone());
                let mut writer = SegmentWriter::new(out, plan, header, BlockOptions::default())?;
                writer.push(RowHeader::default(), b"body")?;
                let (_, written, proof) = writer.finish_with_proof()?;
                if is_broken {
                    // The last byte of the block, before the footer of one entry and one symbol.
                    file.write_at(&[0xff], written.bytes - 40 - 8 - 56 - 5 - 1)
                        .map_err(Error::io("write", &context.space.directory))?;
                }
                let (messages, bytes, tier) = (written.messages, written.bytes, Tier::Hot);
                let content = Content {
                    number: 0,
                    messages,
                    time_min: 0,
                    time_max: 0,
                    bytes,
                    tier,
                    deleted_before: 0,
                    object: None,
                };
                Ok(Some(FilledSegment { content, lost: 0, written, proof }))
            });
            match part {
                Ok(part) => assert!(!is_broken && part.is_some()),
                Err(error) => {
                    assert!(is_broken && error.to_string().contains("read back"), "{error}");
                    let names = context.space.storage.list(&context.space.directory).unwrap();
                    assert!(!names.iter().any(|name| name.ends_with(".tmp")), "{names:?}");
                }
            }
        }
    }
}
