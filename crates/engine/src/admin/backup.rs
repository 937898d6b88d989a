//! Backups: copies of a database that are updated again and again.
//!
//! A backup is a database like any other and can be opened at any moment, also during an update and after one that was
//! interrupted. For each space the order is: segments, then the manifest that names them, then the log after it; then files
//! that are no longer needed are removed. So at every moment the backup holds all that it held before. Segments never change
//! and are copied once; of a log file that has grown, only the new bytes are copied.
//!
//! The source may be written during the backup: a space is copied as one manifest states it, and the log up to the last whole
//! batch. When a writer has removed files, its new manifest is read and the rest is copied according to it.

use crate::admin::identity::DatabaseIdentity;
use crate::admin::stored::{StoredPart, StoredStream};
use crate::clock::random;
use crate::database::{Access, Database};
use crate::error::{Error, Invalid, NotFound};
use crate::files::{SYMBOLS_FILE, is_there, space_directory};
use crate::objects::keys::FOOT_EXTENSION;
use crate::space::catalog::{Catalog, DRAFT_EXTENSION, SEGMENT_EXTENSION};
use crate::space::manifest::{self, FILES};
use crate::space::quarantine::DAMAGED_EXTENSION;
use crate::stream::definition;
use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tapedb_log::{
    Cut, END_FILE, FILE_HEADER_BYTES, Found, PRODUCERS_FILE, Storage, StorageFile, Walk, record_end,
};
use tapedb_segment::Block;

/// Bytes per read while copying.
const COPY_BYTES: usize = 1 << 20;
/// Bytes at the end of a copied log file that are compared with the source before the rest is appended.
const COMPARED_BYTES: u64 = 64 << 10;
/// A space whose files are removed while it is copied is copied again, at most this often.
const ATTEMPTS_MAX: u32 = 1_000;
/// Damage to a log counts as damage after this many attempts found it.
const ATTEMPTS_FOR_DAMAGE: u32 = 3;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(5);
/// Limit of files of a stream other than symbols and spaces: they are small, and replaced whole.
const SMALL_BYTES_MAX: u64 = 1 << 30;

/// What a backup does about streams that have been deleted since the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeletedStreams {
    /// They are deleted in the backup too, after all others have been copied; but if none of the streams in the backup would
    /// remain, the backup fails with [`Invalid::Backup`] and changes nothing.
    #[default]
    Delete,
    /// They are deleted in the backup too, also when none would remain.
    DeleteAll,
    /// They stay. If another stream has the name, the old one is renamed to its name, a dot and its id.
    Keep,
}

/// The result of a backup.
#[derive(Debug, Default)]
pub struct BackupReport {
    /// Streams that are up to date.
    pub streams: u64,
    /// Segments copied.
    pub segments: u64,
    /// Bytes copied, of files of every kind.
    pub bytes: u64,
    /// Damaged locations in the copied files; the backup has the same damage.
    pub damaged: u64,
    /// Streams that were deleted or renamed because the source no longer has them.
    pub removed: Vec<String>,
    /// Streams that could not be copied completely, and why. The backup still has what it had of them.
    pub failed: Vec<(String, Error)>,
}

impl Database {
    /// Updates a backup of this database: a database in the directory `to`, which is created if it does not exist. A writer of
    /// this database, in this process or another, may be running. The backup must not be written during the update; it can be
    /// read.
    ///
    /// The copy is verified: checksums of every batch and every column. `on_copied` gets the number of bytes of each write, and
    /// ends the work with a break; what has been copied remains, and the next call continues.
    ///
    /// # Errors
    /// [`Invalid::Backup`] when `to` is the backup of another database ([`Database::adopt_backup`]), or would lose all its
    /// streams. When `to` is neither a database nor an empty or new directory, or is open for writing. Failures of single
    /// streams are in [`BackupReport::failed`].
    pub fn backup(
        &self,
        to: impl AsRef<Path>,
        deleted: DeletedStreams,
        mut on_copied: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<BackupReport, Error> {
        let target = Self::open_on(self.storage().clone(), to, Access::WriteWithoutMaintenance)?;
        let mut done = BackupReport::default();
        let names = self.streams()?;
        self.check_is_backup(&target)?;
        if deleted == DeletedStreams::Delete {
            check_keeps_some(&names, &target)?;
        }
        for name in &names {
            let mut copier = Copier {
                storage: self.storage().clone(),
                done: &mut done,
                on_copied: &mut on_copied,
                is_stopped: false,
            };
            let copied = copier.stream(self, &target, name, deleted);
            let is_stopped = copier.is_stopped;
            match copied {
                Ok(()) => done.streams += 1,
                Err(error) if is_stopped => return Err(error),
                // Deleted during the backup.
                Err(Error::NotFound(NotFound::Stream { .. })) => {}
                Err(_) if self.stored(name).is_ok_and(|stream| stream.is_gone()) => {}
                Err(error) => done.failed.push((name.clone(), error)),
            }
        }
        if deleted != DeletedStreams::Keep && done.failed.is_empty() {
            let now = self.streams()?;
            for name in target.streams()?.into_iter().filter(|name| !now.contains(name)) {
                target.delete_stream(&name)?;
                done.removed.push(name);
            }
        }
        Ok(done)
    }
}

impl Database {
    /// Makes a database in the directory `to` the backup of this one, whatever it was before: the next [`Database::backup`]
    /// updates it, and deletes streams that this database does not have.
    ///
    /// # Errors
    /// When `to` is no database, or is open for writing, or its identity cannot be written.
    pub fn adopt_backup(&self, to: impl AsRef<Path>) -> Result<(), Error> {
        let target = Self::open_on(self.storage().clone(), to, Access::WriteWithoutMaintenance)?;
        target.set_original(self.identity()?.id)
    }

    /// Gives the database in `to`, a restored copy of this backup, the identity of the backup's original: its backups can be
    /// updated from the restored database.
    ///
    /// # Errors
    /// When `to` is no database, or is open for writing, or its identity cannot be written.
    pub fn restore_identity(&self, to: impl AsRef<Path>) -> Result<(), Error> {
        let target = Self::open_on(self.storage().clone(), to, Access::WriteWithoutMaintenance)?;
        let original = DatabaseIdentity::read(&**self.storage(), self.path()).ok().flatten();
        let id = original.and_then(|identity| identity.backup_of).unwrap_or_else(random);
        DatabaseIdentity { id, backup_of: None }.write(&**self.storage(), target.path())
    }

    fn identity(&self) -> Result<DatabaseIdentity, Error> {
        DatabaseIdentity::read_or_create(&**self.storage(), self.path())
    }

    fn set_original(&self, original: u64) -> Result<(), Error> {
        let id = self.identity().map_or_else(|_| random(), |identity| identity.id);
        DatabaseIdentity { id, backup_of: Some(original) }.write(&**self.storage(), self.path())
    }

    /// Checks that a database is a backup of this one, or is empty and becomes one.
    fn check_is_backup(&self, target: &Self) -> Result<(), Error> {
        let theirs = target.stream_ids()?;
        let id = match self.identity() {
            Ok(identity) => identity.id,
            // A restore from an old backup on a read-only medium.
            Err(Error::Io { .. }) if theirs.is_empty() => return Ok(()),
            Err(error) => return Err(error),
        };
        let there = target.identity()?;
        let refuse = |what: &str| {
            Err(Error::Invalid(Invalid::Backup { path: target.path().into(), what: what.into() }))
        };
        match there.backup_of {
            Some(original) if original == id => return Ok(()),
            Some(_) => return refuse("it is the backup of another database"),
            None => {}
        }
        // A new directory, or a backup of an earlier version, which has streams of this database.
        if theirs.is_empty() || !theirs.is_disjoint(&self.stream_ids()?) {
            return target.set_original(id);
        }
        refuse("it is an independent database, with other streams")
    }

    /// The ids of all streams whose definition can be read.
    fn stream_ids(&self) -> Result<HashSet<u64>, Error> {
        let names = self.streams()?;
        Ok(names.iter().filter_map(|name| Some(self.stored(name).ok()?.id())).collect())
    }
}

/// Refuses to delete all streams of a backup: the source is probably not the original.
fn check_keeps_some(names: &[String], target: &Database) -> Result<(), Error> {
    let there = target.streams()?;
    if there.is_empty() || there.iter().any(|name| names.contains(name)) {
        return Ok(());
    }
    let what =
        format!("it would lose all of its {} streams, because the database has none of them", there.len());
    Err(Error::Invalid(Invalid::Backup { path: target.path().into(), what }))
}

/// Copies files of one stream.
struct Copier<'a, T> {
    storage: Arc<dyn Storage>,
    done: &'a mut BackupReport,
    on_copied: &'a mut T,
    is_stopped: bool,
}

impl<T: FnMut(u64) -> ControlFlow<()>> Copier<'_, T> {
    fn stream(
        &mut self,
        source: &Database,
        target: &Database,
        name: &str,
        deleted: DeletedStreams,
    ) -> Result<(), Error> {
        let stream = source.stored(name)?;
        let to = self.directory_in(&stream, target, name, deleted)?;
        // Before the log: a ledger older than the log only lists finished imports as unfinished, a newer one lists messages
        // that are not in the backup.
        self.replace_small(stream.path(), &to)?;
        for space in 0..stream.spaces() {
            let mut attempts = 0..ATTEMPTS_MAX;
            loop {
                // Damage in the first attempts may be a file that a writer is creating.
                let accepts_damage = attempts.start >= ATTEMPTS_FOR_DAMAGE;
                match self.space(&stream, space, &to, accepts_damage) {
                    Err(error) if is_missing(&error) && attempts.next().is_some() && !stream.is_gone() => {
                        thread::sleep(PAUSE);
                    }
                    copied => break copied?,
                }
            }
        }
        Ok(())
    }

    /// The stream's directory in the backup, created if it does not exist.
    fn directory_in(
        &mut self,
        stream: &StoredStream,
        target: &Database,
        name: &str,
        deleted: DeletedStreams,
    ) -> Result<PathBuf, Error> {
        let to = target.directory_of(name);
        if is_there(&*self.storage, &to)? {
            match target.stored(name) {
                Ok(there) if there.id() == stream.id() => {
                    self.remove_drafts(&to, stream.spaces())?;
                    return Ok(to);
                }
                // Another stream had the name.
                Ok(there) if deleted == DeletedStreams::Keep => {
                    let kept = format!("{name}.{:016x}", there.id());
                    let kept_at = target.directory_of(&kept);
                    self.storage.rename(&to, &kept_at).map_err(Error::io("rename", &to))?;
                    self.done.removed.push(kept);
                }
                Ok(_) => {
                    target.delete_stream(name)?;
                    self.done.removed.push(name.into());
                }
                // Its definition is damaged or incomplete: it is replaced, and its other files stay.
                Err(_) => return Ok(to),
            }
        }
        let draft = target.streams_directory().join(format!(".new-{:016x}", random()));
        let io = |operation, path: &PathBuf| {
            let path = path.clone();
            move |source| Error::Io { operation, path, source }
        };
        self.storage.create_dir_all(&draft).map_err(io("create", &draft))?;
        for space in 0..stream.spaces() {
            let directory = draft.join(space_directory(space));
            self.storage.create_dir_all(&directory).map_err(io("create", &directory))?;
            manifest::write(&*self.storage, &directory, stream.owner(space), &Catalog::default())?;
        }
        self.replace_small(stream.path(), &draft)?;
        self.extend(&stream.path().join(SYMBOLS_FILE), &draft.join(SYMBOLS_FILE), u64::MAX)?;
        self.storage.rename(&draft, &to).map_err(io("rename", &draft))?;
        self.sync_parent(&to)?;
        Ok(to)
    }

    /// Removes the incomplete files of an interrupted backup.
    fn remove_drafts(&self, to: &Path, spaces: u32) -> Result<(), Error> {
        let directories = (0..spaces).map(|space| to.join(space_directory(space))).chain([to.to_path_buf()]);
        for directory in directories {
            if !is_there(&*self.storage, &directory)? {
                self.storage.create_dir_all(&directory).map_err(Error::io("create", &directory))?;
            }
            for name in self.list(&directory)? {
                if name.ends_with(&format!(".{DRAFT_EXTENSION}")) {
                    let path = directory.join(name);
                    self.storage.remove(&path).map_err(Error::io("remove", &path))?;
                }
            }
        }
        Ok(())
    }

    fn list(&self, directory: &Path) -> Result<Vec<String>, Error> {
        self.storage.list(directory).map_err(Error::io("list", directory))
    }

    /// Copies a space as its current manifest states it, and the log.
    fn space(
        &mut self,
        stream: &StoredStream,
        space: u32,
        to: &Path,
        accepts_damage: bool,
    ) -> Result<(), Error> {
        let (from, target) = (stream.space_path(space), to.join(space_directory(space)));
        let catalog = stream.catalog(space)?;
        // Read before the log: the log may be closed during the copy, with more messages than are copied.
        let noted = self.small(&from.join(END_FILE))?;
        let content = LogContent::of(stream.walk_from(space, catalog.sealed)?)?;
        if content.damaged > 0 && (!accepts_damage || stream.catalog(space)? != catalog) {
            // What is missing from the log may have been sealed since, or is about to be written: try again.
            return Err(Error::io("read", &from)(io::ErrorKind::NotFound.into()));
        }
        let ends = &content.ends;
        // Names are written before the messages that use them, so the names of all these messages are in the file now.
        self.extend(&stream.path().join(SYMBOLS_FILE), &to.join(SYMBOLS_FILE), u64::MAX)?;
        let mut needed: Vec<String> = FILES.iter().map(ToString::to_string).collect();
        let mut damaged = content.damaged;
        for part in &catalog.parts {
            let parts =
                [&from, &target].map(|directory| StoredPart::of(part, stream.owner(space), directory));
            damaged = damaged.saturating_add(self.segment(stream, &parts, &mut needed)?);
        }
        let there = manifest::read(&*self.storage, &target, stream.owner(space));
        if !matches!(there, Ok(Some(there)) if there == catalog) {
            manifest::write(&*self.storage, &target, stream.owner(space), &catalog)?;
        }
        // The old file describes the old log.
        self.remove(&target.join(END_FILE))?;
        self.replace(&from.join(PRODUCERS_FILE), &target.join(PRODUCERS_FILE))?;
        for (file, end) in ends {
            let log = crate::space::quarantine::log_name(*file);
            self.extend(&from.join(&log), &target.join(&log), *end)?;
            needed.push(log);
        }
        // All but the last are complete.
        for (file, _) in ends.iter().take(ends.len().saturating_sub(1)) {
            let index = crate::space::quarantine::log_name(*file).replace(".log", ".idx");
            self.replace(&from.join(&index), &target.join(&index))?;
            needed.push(index);
        }
        self.keep_damaged(&from, &target)?;
        self.remove_others(&target, &needed)?;
        if let Some(noted) = noted {
            self.put(&target.join(END_FILE), &noted)?;
        }
        let copied = Walk::open(self.storage.clone(), &target, stream.id(), space)?;
        let copied = LogContent::of(copied.beginning_with(catalog.sealed))?;
        if copied != content {
            return Err(differs(&target));
        }
        if content.damaged == 0
            && let Some((file, end)) = content.ends.last()
        {
            let end = (*file, *end, content.next_sequence);
            record_end(self.storage.clone(), &target, (stream.id(), space), end)?;
        }
        self.done.damaged = self.done.damaged.saturating_add(damaged);
        Ok(())
    }

    /// Copies a segment that the backup does not have, and verifies the copy; returns its number of damaged locations.
    fn segment(
        &mut self,
        stream: &StoredStream,
        [part, copy]: &[StoredPart; 2],
        needed: &mut Vec<String>,
    ) -> Result<u64, Error> {
        let (Some(from), Some(to)) = (&part.local_path, &copy.local_path) else { return Ok(0) };
        if part.object.is_some() {
            // The object is not copied, and its foot can be made again from it.
            needed.extend(to.file_name().and_then(|name| name.to_str()).map(String::from));
            match self.storage.size(from) {
                Ok(size) if self.storage.size(to).ok() != Some(size) => self.copy(from, to, u64::MAX)?,
                _ => {}
            }
            return Ok(0);
        }
        needed.extend(to.file_name().and_then(|name| name.to_str()).map(String::from));
        let size = self.storage.size(from).map_err(Error::io("open", from))?;
        if self.storage.size(to).ok() == Some(size) {
            return Ok(0);
        }
        self.copy(from, to, u64::MAX)?;
        self.done.segments += 1;
        match damage_count(stream, copy)? {
            0 => Ok(0),
            count if count == damage_count(stream, part)? => Ok(count),
            _ => {
                // The next backup copies it again.
                let _ = self.storage.remove(to);
                Err(differs(to))
            }
        }
    }

    /// Copies the damaged log files that the source keeps.
    fn keep_damaged(&mut self, from: &Path, target: &Path) -> Result<(), Error> {
        let there = self.list(target)?;
        for name in self.list(from)? {
            if name.ends_with(&format!(".{DAMAGED_EXTENSION}")) && !there.contains(&name) {
                self.copy(&from.join(&name), &target.join(&name), u64::MAX)?;
            }
        }
        Ok(())
    }

    /// Removes segments and log files that the new manifest does not need.
    fn remove_others(&self, target: &Path, needed: &[String]) -> Result<(), Error> {
        for name in self.list(target)? {
            let extension = Path::new(&name).extension().and_then(|extension| extension.to_str());
            let is_ours = matches!(extension, Some(SEGMENT_EXTENSION | FOOT_EXTENSION | "log" | "idx"));
            if is_ours && !needed.contains(&name) {
                let path = target.join(&name);
                self.storage.remove(&path).map_err(Error::io("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Replaces definition, older schemas and other small files, the definition last: it refers to the others.
    fn replace_small(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        let draft = format!(".{DRAFT_EXTENSION}");
        let mut names = self.list(from)?;
        names.retain(|name| name != SYMBOLS_FILE && !name.ends_with(&draft));
        names.sort_by_key(|name| definition::FILES.contains(&&**name));
        names.iter().try_for_each(|name| self.replace(&from.join(name), &to.join(name)))
    }

    /// Reads a small file; `None`: it does not exist.
    fn small(&self, path: &Path) -> Result<Option<Vec<u8>>, Error> {
        match self.storage.read(path, SMALL_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            bytes => bytes.map(Some).map_err(Error::io("read", path)),
        }
    }

    /// Writes a small file, whole or not at all.
    fn put(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let draft = draft_of(path);
        self.storage.write(&draft, bytes).map_err(Error::io("write", &draft))?;
        self.storage.sync_file(&draft).map_err(Error::io("sync", &draft))?;
        self.storage.rename(&draft, path).map_err(Error::io("rename", &draft))?;
        self.sync_parent(path)
    }

    /// Removes a file, which need not exist.
    fn remove(&self, path: &Path) -> Result<(), Error> {
        match self.storage.remove(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
            _ => Ok(()),
        }
    }

    /// Replaces a small file by that of the source; one that the source does not have is left as it is.
    fn replace(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        match (self.small(from)?, self.small(to)?) {
            (None, _) => Ok(()),
            (Some(bytes), Some(there)) if bytes == there => Ok(()),
            _ => self.copy(from, to, u64::MAX),
        }
    }

    /// Appends to a copy what its file has in addition, up to `end`; a copy that is no prefix of the file is replaced.
    fn extend(&mut self, from: &Path, to: &Path, end: u64) -> Result<(), Error> {
        let source = self.storage.open_read(from).map_err(Error::io("open", from))?;
        let end = end.min(source.len().map_err(Error::io("read", from))?);
        let copy = match self.storage.open_write(to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.copy(from, to, end),
            opened => opened.map_err(Error::io("open", to))?,
        };
        let have = copy.len().map_err(Error::io("read", to))?;
        if have > end || !is_same(&*source, &*copy, have).map_err(Error::io("compare", to))? {
            return self.copy(from, to, end);
        }
        if have < end {
            self.copy_range((&*source, from), (&*copy, to), have..end)?;
            copy.sync_data().map_err(Error::io("sync", to))?;
        }
        Ok(())
    }

    /// Copies a file up to `end`, whole or not at all.
    fn copy(&mut self, from: &Path, to: &Path, end: u64) -> Result<(), Error> {
        let source = self.storage.open_read(from).map_err(Error::io("open", from))?;
        let end = end.min(source.len().map_err(Error::io("read", from))?);
        let draft = draft_of(to);
        self.remove(&draft)?;
        let copy = self.storage.create_new(&draft).map_err(Error::io("create", &draft))?;
        self.copy_range((&*source, from), (&*copy, &draft), 0..end)?;
        copy.sync_data().map_err(Error::io("sync", &draft))?;
        self.storage.rename(&draft, to).map_err(Error::io("rename", &draft))?;
        self.sync_parent(to)
    }

    fn copy_range(
        &mut self,
        (source, from): (&dyn StorageFile, &Path),
        (copy, to): (&dyn StorageFile, &Path),
        range: std::ops::Range<u64>,
    ) -> Result<(), Error> {
        let mut bytes = vec![0; COPY_BYTES];
        let mut at = range.start;
        while at < range.end {
            let limit = (range.end - at).min(COPY_BYTES as u64) as usize;
            let count = source.read_at(&mut bytes[..limit], at).map_err(Error::io("read", from))?;
            if count == 0 {
                let error = io::Error::new(io::ErrorKind::UnexpectedEof, "the file has become shorter");
                return Err(Error::io("read", from)(error));
            }
            copy.write_at(&bytes[..count], at).map_err(Error::io("write", to))?;
            at += count as u64;
            self.done.bytes += count as u64;
            if (self.on_copied)(count as u64).is_break() {
                self.is_stopped = true;
                return Err(Error::io("copy", from)(io::ErrorKind::Interrupted.into()));
            }
        }
        Ok(())
    }

    fn sync_parent(&self, path: &Path) -> Result<(), Error> {
        let directory = path.parent().unwrap_or(path);
        self.storage.sync_dir(directory).map_err(Error::io("sync", directory))
    }
}

/// The log files of a space from what is sealed on.
#[derive(Debug, Default, PartialEq, Eq)]
struct LogContent {
    /// Each file, and how far it is to be copied: the last one to the end of its last whole batch.
    ends: Vec<(u64, u64)>,
    messages: u64,
    damaged: u64,
    next_sequence: u64,
}

impl LogContent {
    /// Verifies all batches.
    fn of(mut walk: Walk) -> Result<Self, Error> {
        let (mut content, mut reached, mut reached_before) = (Self::default(), 0, 0);
        while let Some(found) = walk.next_found() {
            match found {
                Found::File { file, bytes } => {
                    content.ends.push((file, bytes));
                    reached_before = std::mem::replace(&mut reached, FILE_HEADER_BYTES);
                }
                Found::Batch(batch) => {
                    content.messages += u64::from(batch.header.count);
                    reached = batch.offset + batch.bytes.len() as u64;
                }
                Found::Damage(damage) => {
                    content.damaged += 1;
                    reached = reached.max(damage.offset + damage.bytes);
                }
                Found::Unfinished(Cut { offset, .. }) | Found::Preallocated { offset, .. } => {
                    if let Some(last) = content.ends.last_mut() {
                        last.1 = last.1.min(offset);
                    }
                }
                Found::Unreadable { error, .. } => return Err((*error).into()),
                Found::Index { .. } | Found::Rejected { .. } => {}
            }
        }
        // A file without a header is being created, and holds nothing.
        if content.ends.last().is_some_and(|(_, end)| *end < FILE_HEADER_BYTES) {
            content.ends.pop();
            reached = reached_before;
        }
        // A writer may have cut off the spare capacity during the walk, which the walk does not report.
        if let Some(last) = content.ends.last_mut() {
            last.1 = last.1.min(reached);
        }
        content.next_sequence = walk.next_sequence();
        Ok(content)
    }
}

/// Number of damaged locations in a segment.
fn damage_count(stream: &StoredStream, part: &StoredPart) -> Result<u64, Error> {
    let (segment, damaged) = match stream.segment(part) {
        Ok(None) => return Ok(0),
        Ok(Some(opened)) => opened,
        // It cannot be read at all.
        Err(error) if error.is_damage() => return Ok(1),
        Err(error) => return Err(error),
    };
    let mut block = Block::new();
    let in_block = |index| {
        let read = segment.read_block(index, &mut block);
        read.map_or(1, |()| block.damaged_columns().len() as u64)
    };
    Ok(damaged.len() as u64 + (0..segment.blocks().len()).map(in_block).sum::<u64>())
}

/// The name of a file while it is incomplete.
fn draft_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{DRAFT_EXTENSION}"));
    path.with_file_name(name)
}

/// The error for a copy that differs from its source.
fn differs(path: &Path) -> Error {
    let what = "the copy differs from its source; check the disk, and back up again";
    Error::io("copy", path)(io::Error::new(io::ErrorKind::InvalidData, what))
}

/// Whether a copy is a prefix of a file, judged by its last bytes.
fn is_same(source: &dyn StorageFile, copy: &dyn StorageFile, have: u64) -> io::Result<bool> {
    let from = have.saturating_sub(COMPARED_BYTES);
    let (mut a, mut b) = (vec![0; (have - from) as usize], vec![0; (have - from) as usize]);
    read_exactly(source, &mut a, from)?;
    read_exactly(copy, &mut b, from)?;
    Ok(a == b)
}

fn read_exactly(file: &dyn StorageFile, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.read_at(bytes, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                bytes = &mut bytes[count..];
                at += count as u64;
            }
        }
    }
    Ok(())
}

/// Whether a writer may have removed the file.
fn is_missing(error: &Error) -> bool {
    let is_not_found = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    error.is_missing_file() || matches!(error, Error::Io { source, .. } if is_not_found(source))
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_of_kept_streams_are_names() {
        let kept = format!("us/quotes.{:016x}", u64::MAX);
        assert!(crate::names::check(&kept).is_ok());
    }
}
