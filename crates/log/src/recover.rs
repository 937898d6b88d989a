//! Opening a log for writing: its files are indexed, and an unfinished append is cut off.

use crate::directory::LogDir;
use crate::end::EndRecord;
use crate::error::LogError;
use crate::files::LoadedFile;
use crate::format::{FILE_HEADER_BYTES, FileHeader, FileKind};
use crate::log::Log;
use crate::marks::Marks;
use crate::options::{Durability, LogOptions};
use crate::producers::Producers;
use crate::report::{Cut, Reason, Recovery};
use crate::storage::{Storage, StorageFile, read_into};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes that are rewritten at once.
const REWRITE_BYTES: u64 = 1 << 20;

/// The file to append to.
pub(crate) struct OpenFile {
    pub handle: Arc<dyn StorageFile>,
    pub file: u64,
    pub marks: Marks,
    pub end: u64,
    /// No more batches fit: the next one goes into a new file.
    pub is_full: bool,
}

/// Creates the directory if it does not exist; synced, so that it survives a power cut.
pub(crate) fn make_dir(storage: &dyn Storage, dir: &Path, sync: bool) -> io::Result<()> {
    let mut missing = Vec::new();
    for path in dir.ancestors().filter(|path| !path.as_os_str().is_empty()) {
        if storage.kind(path)?.is_some() {
            break;
        }
        missing.push(path);
    }
    storage.create_dir_all(dir)?;
    let parents = missing.iter().rev().filter(|_| sync).filter_map(|made| made.parent());
    parents.into_iter().try_for_each(|parent| {
        let is_here = parent.as_os_str().is_empty();
        storage.sync_dir(if is_here { Path::new(".") } else { parent })
    })
}

pub(crate) fn open_first(log: &Log, options: &LogOptions, salt: u64) -> Result<OpenFile, LogError> {
    let opened = create_file(&log.dir, (log.next_sequence(), salt), options.durability == Durability::Sync)?;
    log.start_file(opened.file);
    Ok(opened)
}

/// Creates a log file with its header. An existing file of that name has no batch: an earlier attempt left it.
pub(crate) fn create_file(dir: &LogDir, (file, salt): (u64, u64), sync: bool) -> Result<OpenFile, LogError> {
    let path = dir.log_path(file);
    let created = match dir.storage.create_new(&path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => dir.storage.open_write(&path),
        created => created,
    };
    let handle = created.map_err(|e| LogError::io("create", &path, e))?;
    let made = write_header(dir, &*handle, (file, salt))
        .and_then(|()| if sync { sync_new(dir, &*handle) } else { Ok(()) });
    if let Err(error) = made {
        // If this fails too, it is a file without batches.
        let _ = dir.storage.remove(&path);
        return Err(LogError::io("create", &path, error));
    }
    let marks = Marks::salted(salt, file);
    Ok(OpenFile { handle, file, marks, end: FILE_HEADER_BYTES, is_full: false })
}

fn write_header(dir: &LogDir, handle: &dyn StorageFile, (file, salt): (u64, u64)) -> io::Result<()> {
    // See `Storage::write`: closing the file would make the next append wait for the disk.
    if handle.len()? > 0 {
        handle.truncate(0)?;
    }
    let header = FileHeader::new(dir.stream_id, dir.space, file).salted(salt);
    handle.write_at(&header.bytes(FileKind::Log), 0)
}

fn sync_new(dir: &LogDir, handle: &dyn StorageFile) -> io::Result<()> {
    handle.sync_data()?;
    dir.storage.sync_dir(&dir.path)
}

/// Indexes all files but the last; writes missing index files.
pub(crate) fn recover_older(
    log: &Log,
    older: &[u64],
    options: &LogOptions,
    (recovery, producers): (&mut Recovery, &mut Producers),
) -> Result<(), LogError> {
    for &file in older {
        let mut loaded = log.dir.load(file, log.next_expected(file), true)?;
        cut_preallocated(log, &mut loaded);
        log.add_file(&loaded, false, recovery);
        producers.extend(&loaded.scan.producers);
        if !loaded.by_index {
            // Without it the next opening scans again; nothing else is lost.
            let sync = options.durability == Durability::Sync;
            let salt = loaded.scan.header.filter(FileHeader::is_salted).map(|header| header.salt);
            let _ = log.dir.write_index((file, salt), loaded.bytes, &loaded.scan.granules, sync);
        }
    }
    Ok(())
}

/// Cuts preallocated space off a complete file, whose writer was killed before it could. If that fails, the space stays
/// and costs a scan at each opening.
fn cut_preallocated(log: &Log, loaded: &mut LoadedFile) {
    let end = loaded.bytes - loaded.scan.preallocated;
    if loaded.scan.preallocated > 0
        && let Ok(handle) = log.dir.storage.open_write(&log.dir.log_path(loaded.file))
        && handle.truncate(end).is_ok()
    {
        (loaded.bytes, loaded.scan.preallocated) = (end, 0);
    }
}

/// Indexes the last file, cuts an unfinished append off, and opens it for appending. In a synced log the content and the
/// name of the file may not be on the disk yet: they are synced before readers see them.
pub(crate) fn recover_last(
    log: &Log,
    file: u64,
    (options, salt, record): (&LogOptions, u64, EndRecord),
    (recovery, producers): (&mut Recovery, &mut Producers),
) -> Result<OpenFile, LogError> {
    let path = log.dir.log_path(file);
    let mut loaded = log.dir.load(file, log.next_expected(file), false)?;
    producers.extend(&loaded.scan.producers);
    if log.is_before_start(&loaded) {
        // The new file first: for readers in other processes a log always has a file.
        log.report_lost_end(record, recovery);
        let opened = open_first(log, options, salt)?;
        log.dir.remove_log(file)?;
        return Ok(opened);
    }
    let handle = log.dir.storage.open_write(&path).map_err(|e| LogError::io("open", &path, e))?;
    let is_end_lost = record.end().is_some_and(|end| end.next_sequence > loaded.scan.next_sequence);
    if !is_end_lost {
        let cut = cut_tail(&log.dir, &*handle, (&mut loaded, salt), recovery);
        cut.map_err(|e| LogError::io("cut", &path, e))?;
    }
    if options.durability == Durability::Sync {
        let proven = record.end().filter(|end| end.file == file).map_or(0, |end| end.offset);
        rewrite(&*handle, proven..loaded.scan.end).map_err(|e| LogError::io("write", &path, e))?;
        sync_new(&log.dir, &*handle).map_err(|e| LogError::io("sync", &path, e))?;
    }
    log.add_file(&loaded, true, recovery);
    let end_lost = log.report_lost_end(record, recovery);
    // A damaged end and a file of an older version stay as they are: the next batch goes into a new file.
    let marks = Marks::salted(salt, file);
    let is_old = |header: FileHeader| Marks::of(&header) != marks || !header.takes_all_batches();
    let is_full = end_lost || loaded.scan.header.is_none_or(is_old);
    let end = if end_lost { loaded.bytes } else { loaded.scan.end };
    Ok(OpenFile { handle, file, marks, end, is_full })
}

/// Writes a range of a file again with the same content. After a failed sync the system may have dropped dirty pages that
/// still read back, and the next sync succeeds without them. Rewritten bytes are synced.
fn rewrite(handle: &dyn StorageFile, range: Range<u64>) -> io::Result<()> {
    let (mut at, mut bytes) = (range.start, Vec::new());
    while at < range.end {
        read_into(handle, &mut bytes, at, (range.end - at).min(REWRITE_BYTES) as usize)?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        handle.write_at(&bytes, at)?;
        at += bytes.len() as u64;
    }
    Ok(())
}

fn cut_tail(
    dir: &LogDir,
    handle: &dyn StorageFile,
    (loaded, salt): (&mut LoadedFile, u64),
    recovery: &mut Recovery,
) -> io::Result<()> {
    let (file, scan, bytes) = (loaded.file, &mut loaded.scan, loaded.bytes);
    let is_whole = scan.header.is_some_and(|header| header.is_salted());
    if !is_whole && scan.granules.is_empty() {
        // The writer was killed while it created the file, or it has version 1. There are no batches to lose.
        write_header(dir, handle, (file, salt))?;
        let was_whole = scan.header.is_some() && scan.end_error.is_none();
        scan.end = FILE_HEADER_BYTES;
        if bytes > 0 && !was_whole {
            let reason =
                scan.end_error.filter(|_| scan.header.is_some()).map_or(Reason::FileHeader, Reason::Batch);
            recovery.cut.push(Cut { file, offset: 0, bytes, reason });
        }
        scan.header = Some(FileHeader::new(dir.stream_id, dir.space, file).salted(salt));
    } else if let Some(error) = scan.end_error {
        handle.truncate(scan.end)?;
        recovery.cut.push(Cut {
            file,
            offset: scan.end,
            bytes: bytes - scan.preallocated - scan.end,
            reason: Reason::Batch(error),
        });
    } else {
        return if scan.preallocated > 0 { handle.truncate(scan.end) } else { Ok(()) };
    }
    handle.sync_data()
}
