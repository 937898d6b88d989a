//! Backups: a database that holds what another one held, brought up to date again and again.
//!
//! A backup is a database like any other and can be opened at any moment, also while it is brought up to date and after that
//! was cut short. For each space the order is: segments, then the manifest that names them, then the log behind it, then what
//! is no longer needed goes. So at every moment all that the backup held before is in it. Segments never change and are
//! copied once; of a log file that has grown, only what is new.
//!
//! The source may be written meanwhile: a space is copied as one manifest says, and the log up to the last batch that was
//! whole. When a writer has taken files away, its new manifest is read and the rest is copied by that.

use crate::admin::identity::DatabaseIdentity;
use crate::admin::stored::{StoredPart, StoredStream};
use crate::clock::random;
use crate::database::{Access, Database};
use crate::error::Error;
use crate::files::{SYMBOLS_FILE, is_there, space_directory};
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

/// Bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;
/// So much of what a backup has of a log file is compared with the file before the rest is added.
const COMPARED_BYTES: u64 = 64 << 10;
/// A space whose files are taken away while it is copied is begun again, but not more often.
const ATTEMPTS_MAX: u32 = 1_000;
/// Damage to a log is believed when it has been seen so often.
const ATTEMPTS_FOR_DAMAGE: u32 = 3;
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(5);
/// Files of a stream but for its symbols and spaces are small, and replaced whole.
const SMALL_BYTES_MAX: u64 = 1 << 30;

/// What a backup does about streams that have been deleted since the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deleted {
    /// They are deleted in the backup too, when all others are in it; but where none of those in the backup would be left, nothing
    /// is done ([`Error::Backup`]).
    #[default]
    Delete,
    /// They are deleted in the backup too, also when none would be left.
    DeleteAll,
    /// They stay. If another stream has the name, the old one is called by its name, a dot and its id.
    Keep,
}

/// What bringing a backup up to date came to.
#[derive(Debug, Default)]
pub struct BackedUp {
    /// Streams that are up to date.
    pub streams: u64,
    /// Segments copied.
    pub segments: u64,
    /// Bytes copied, of files of every kind.
    pub bytes: u64,
    /// Damaged places among what was copied; they are in the backup as they were in the source.
    pub damaged: u64,
    /// Streams that were deleted or renamed, for the source no longer has them.
    pub removed: Vec<String>,
    /// Streams that could not be copied, or not all of them, and why. What the backup had of them is still there.
    pub failed: Vec<(String, Error)>,
}

impl Database {
    /// Brings a backup of this database up to date: a database in the directory `to`, which is made if it is not there. Works
    /// beside a writer, in this process or another. Nobody may write to the backup meanwhile; it can be read.
    ///
    /// What is copied is verified: checksums of every batch and every column. `tell` gets the bytes of each piece copied, and
    /// ends the work by breaking; what is done by then stays, and the next call goes on.
    ///
    /// # Errors
    /// [`Error::Backup`] when `to` is the backup of another database ([`Database::adopt_backup`]), or would lose all its streams.
    /// When `to` is no database and not one to be made, or is open for writing. What keeps single streams from being copied is
    /// in [`BackedUp::failed`].
    pub fn backup(
        &self,
        to: impl AsRef<Path>,
        deleted: Deleted,
        mut tell: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<BackedUp, Error> {
        let target = Self::open_on(self.storage().clone(), to, Access::WriteWithoutMaintenance)?;
        let mut done = BackedUp::default();
        let names = self.streams()?;
        self.check_is_backup(&target)?;
        if deleted == Deleted::Delete {
            check_keeps_some(&names, &target)?;
        }
        for name in &names {
            let mut copier = Copier {
                storage: self.storage().clone(),
                done: &mut done,
                tell: &mut tell,
                is_stopped: false,
            };
            let copied = copier.stream(self, &target, name, deleted);
            let is_stopped = copier.is_stopped;
            match copied {
                Ok(()) => done.streams += 1,
                Err(error) if is_stopped => return Err(error),
                // Deleted meanwhile.
                Err(Error::NoStream { .. }) => {}
                Err(_) if self.stored(name).is_ok_and(|stream| stream.is_gone()) => {}
                Err(error) => done.failed.push((name.clone(), error)),
            }
        }
        if deleted != Deleted::Keep && done.failed.is_empty() {
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
    /// Makes a database in the directory `to` the backup of this one, whatever it was before: the next [`Database::backup`] brings it up to
    /// date, and deletes what is not here.
    ///
    /// # Errors
    /// When `to` is no database, or is open for writing; what keeps the file from being written that says so.
    pub fn adopt_backup(&self, to: impl AsRef<Path>) -> Result<(), Error> {
        let target = Self::open_on(self.storage().clone(), to, Access::WriteWithoutMaintenance)?;
        target.belong_to(self.identity()?.id)
    }

    /// Gives the database in `to`, to which this backup has been copied, the identity that the database had of which this is a
    /// backup: the same backups go on with it.
    ///
    /// # Errors
    /// When `to` is no database, or is open for writing; what keeps the file from being written that says so.
    pub fn restore_identity(&self, to: impl AsRef<Path>) -> Result<(), Error> {
        let target = Self::open_on(self.storage().clone(), to, Access::WriteWithoutMaintenance)?;
        let original = DatabaseIdentity::read(&**self.storage(), self.path()).ok().flatten();
        let id = original.and_then(|belonging| belonging.backup_of).unwrap_or_else(random);
        DatabaseIdentity { id, backup_of: None }.write(&**self.storage(), target.path())
    }

    fn identity(&self) -> Result<DatabaseIdentity, Error> {
        DatabaseIdentity::read_or_make(&**self.storage(), self.path())
    }

    fn belong_to(&self, original: u64) -> Result<(), Error> {
        let id = self.identity().map_or_else(|_| random(), |identity| identity.id);
        DatabaseIdentity { id, backup_of: Some(original) }.write(&**self.storage(), self.path())
    }

    /// Checks that a database is a backup of this one, or holds nothing; and makes it one.
    fn check_is_backup(&self, target: &Self) -> Result<(), Error> {
        let theirs = target.stream_ids()?;
        let id = match self.identity() {
            Ok(belonging) => belonging.id,
            // An old backup on a medium that cannot be written is restored.
            Err(Error::Io { .. }) if theirs.is_empty() => return Ok(()),
            Err(error) => return Err(error),
        };
        let there = target.identity()?;
        let refuse = |what: &str| Err(Error::Backup { path: target.path().into(), what: what.into() });
        match there.backup_of {
            Some(original) if original == id => return Ok(()),
            Some(_) => return refuse("it is the backup of another database"),
            None => {}
        }
        // Made just now, or a backup of an earlier version, which has streams of this database.
        if theirs.is_empty() || !theirs.is_disjoint(&self.stream_ids()?) {
            return target.belong_to(id);
        }
        refuse("it is a database of its own, with other streams")
    }

    /// The ids of all streams whose definition can be read.
    fn stream_ids(&self) -> Result<HashSet<u64>, Error> {
        let names = self.streams()?;
        Ok(names.iter().filter_map(|name| Some(self.stored(name).ok()?.id())).collect())
    }
}

/// Refuses to take all streams that a backup has: their database is not what it was.
fn check_keeps_some(names: &[String], target: &Database) -> Result<(), Error> {
    let there = target.streams()?;
    if there.is_empty() || there.iter().any(|name| names.contains(name)) {
        return Ok(());
    }
    let what = format!("it would lose all of its {} streams, for the database has none of them", there.len());
    Err(Error::Backup { path: target.path().into(), what })
}

/// Copies files of one stream.
struct Copier<'a, T> {
    storage: Arc<dyn Storage>,
    done: &'a mut BackedUp,
    tell: &'a mut T,
    is_stopped: bool,
}

impl<T: FnMut(u64) -> ControlFlow<()>> Copier<'_, T> {
    fn stream(
        &mut self,
        source: &Database,
        target: &Database,
        name: &str,
        deleted: Deleted,
    ) -> Result<(), Error> {
        let stream = source.stored(name)?;
        let to = self.place_of(&stream, target, name, deleted)?;
        // Before the log: a ledger that is older than the log knows of unfinished imports, a newer one of messages that are
        // not in the backup.
        self.replace_small(stream.path(), &to)?;
        for space in 0..stream.spaces() {
            let mut attempts = 0..ATTEMPTS_MAX;
            loop {
                // At first damage may be a file that a writer is just making.
                let takes_damage = attempts.start >= ATTEMPTS_FOR_DAMAGE;
                match self.space(&stream, space, &to, takes_damage) {
                    Err(error) if is_missing(&error) && attempts.next().is_some() && !stream.is_gone() => {
                        thread::sleep(PAUSE);
                    }
                    copied => break copied?,
                }
            }
        }
        Ok(())
    }

    /// The stream's directory in the backup, made if it is not there.
    fn place_of(
        &mut self,
        stream: &StoredStream,
        target: &Database,
        name: &str,
        deleted: Deleted,
    ) -> Result<PathBuf, Error> {
        let to = target.directory_of(name);
        if is_there(&*self.storage, &to)? {
            match target.stored(name) {
                Ok(there) if there.id() == stream.id() => {
                    self.remove_drafts(&to, stream.spaces())?;
                    return Ok(to);
                }
                // Another one had the name.
                Ok(there) if deleted == Deleted::Keep => {
                    let kept = format!("{name}.{:016x}", there.id());
                    let kept_at = target.directory_of(&kept);
                    self.storage.rename(&to, &kept_at).map_err(Error::io("rename", &to))?;
                    self.done.removed.push(kept);
                }
                Ok(_) => {
                    target.delete_stream(name)?;
                    self.done.removed.push(name.into());
                }
                // Its definition is damaged or was never whole: it is made anew, and what else it has stays.
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
        self.sync_above(&to)?;
        Ok(to)
    }

    /// Removes what an interrupted backup was just writing.
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

    /// Copies a space as its manifest says now, and the log.
    fn space(
        &mut self,
        stream: &StoredStream,
        space: u32,
        to: &Path,
        takes_damage: bool,
    ) -> Result<(), Error> {
        let (from, target) = (stream.space_path(space), to.join(space_directory(space)));
        let catalog = stream.catalog(space)?;
        // Before the log is looked at: it may be closed meanwhile, and have more by then than is copied.
        let noted = self.small(&from.join(END_FILE))?;
        let seen = Seen::of(stream.walk_from(space, catalog.sealed)?)?;
        if seen.damaged > 0 && (!takes_damage || stream.catalog(space)? != catalog) {
            // What is missing from the log may have been sealed meanwhile, or be about to be written: it is to be looked at again.
            return Err(Error::io("read", &from)(io::ErrorKind::NotFound.into()));
        }
        let ends = &seen.ends;
        // Names come before what uses them: so those of all that was just seen are there.
        self.extend(&stream.path().join(SYMBOLS_FILE), &to.join(SYMBOLS_FILE), u64::MAX)?;
        let mut needed: Vec<String> = FILES.iter().map(ToString::to_string).collect();
        let mut damaged = seen.damaged;
        for part in &catalog.parts {
            let parts = [&from, &target].map(|directory| StoredPart::of(part, space, directory));
            damaged = damaged.saturating_add(self.segment(stream, &parts, &mut needed)?);
        }
        let there = manifest::read(&*self.storage, &target, stream.owner(space));
        if !matches!(there, Ok(Some(there)) if there == catalog) {
            manifest::write(&*self.storage, &target, stream.owner(space), &catalog)?;
        }
        // What it says holds for what is there, and not for what is being put there.
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
        let copied = Seen::of(copied.beginning_with(catalog.sealed))?;
        if copied != seen {
            return Err(differs(&target));
        }
        if seen.damaged == 0
            && let Some((file, end)) = seen.ends.last()
        {
            let end = (*file, *end, seen.next_sequence);
            record_end(self.storage.clone(), &target, (stream.id(), space), end)?;
        }
        self.done.damaged = self.done.damaged.saturating_add(damaged);
        Ok(())
    }

    /// Copies a segment that is not there yet, and verifies the copy; returns how many damaged places it has.
    fn segment(
        &mut self,
        stream: &StoredStream,
        [part, copy]: &[StoredPart; 2],
        needed: &mut Vec<String>,
    ) -> Result<u64, Error> {
        let (Some(from), Some(to)) = (&part.path, &copy.path) else { return Ok(0) };
        needed.extend(to.file_name().and_then(|name| name.to_str()).map(String::from));
        let size = self.storage.size(from).map_err(Error::io("open", from))?;
        if self.storage.size(to).ok() == Some(size) {
            return Ok(0);
        }
        self.copy(from, to, u64::MAX)?;
        self.done.segments += 1;
        match damaged_places(stream, copy)? {
            0 => Ok(0),
            places if places == damaged_places(stream, part)? => Ok(places),
            _ => {
                // The next backup copies it again.
                let _ = self.storage.remove(to);
                Err(differs(to))
            }
        }
    }

    /// Copies damaged log files that the source keeps.
    fn keep_damaged(&mut self, from: &Path, target: &Path) -> Result<(), Error> {
        let there = self.list(target)?;
        for name in self.list(from)? {
            if name.ends_with(&format!(".{DAMAGED_EXTENSION}")) && !there.contains(&name) {
                self.copy(&from.join(&name), &target.join(&name), u64::MAX)?;
            }
        }
        Ok(())
    }

    /// Removes segments and log files that the new manifest has made superfluous.
    fn remove_others(&self, target: &Path, needed: &[String]) -> Result<(), Error> {
        for name in self.list(target)? {
            let extension = Path::new(&name).extension().and_then(|extension| extension.to_str());
            let is_ours = matches!(extension, Some(SEGMENT_EXTENSION | "log" | "idx"));
            if is_ours && !needed.contains(&name) {
                let path = target.join(&name);
                self.storage.remove(&path).map_err(Error::io("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Replaces definition, older schemas and what else there is, the definition last: it names what must be there.
    fn replace_small(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        let draft = format!(".{DRAFT_EXTENSION}");
        let mut names = self.list(from)?;
        names.retain(|name| name != SYMBOLS_FILE && !name.ends_with(&draft));
        names.sort_by_key(|name| definition::FILES.contains(&&**name));
        names.iter().try_for_each(|name| self.replace(&from.join(name), &to.join(name)))
    }

    /// A small file; `None`: it is not there.
    fn small(&self, path: &Path) -> Result<Option<Vec<u8>>, Error> {
        match self.storage.read(path, SMALL_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            bytes => bytes.map(Some).map_err(Error::io("read", path)),
        }
    }

    /// Makes a small file of bytes, whole or not at all.
    fn put(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let draft = draft_of(path);
        self.storage.write(&draft, bytes).map_err(Error::io("write", &draft))?;
        self.storage.sync_file(&draft).map_err(Error::io("sync", &draft))?;
        self.storage.rename(&draft, path).map_err(Error::io("rename", &draft))?;
        self.sync_above(path)
    }

    /// Removes a file, which need not be there.
    fn remove(&self, path: &Path) -> Result<(), Error> {
        match self.storage.remove(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
            _ => Ok(()),
        }
    }

    /// Makes a small file what it is in the source; one that the source does not have is left as it is.
    fn replace(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        match (self.small(from)?, self.small(to)?) {
            (None, _) => Ok(()),
            (Some(bytes), Some(there)) if bytes == there => Ok(()),
            _ => self.copy(from, to, u64::MAX),
        }
    }

    /// Adds what a file has more than its copy, up to `end`; a copy that is no front of it is made anew.
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
            self.pour((&*source, from), (&*copy, to), have..end)?;
            copy.sync_data().map_err(Error::io("sync", to))?;
        }
        Ok(())
    }

    /// Copies a file up to `end`: the copy is there whole, or not at all.
    fn copy(&mut self, from: &Path, to: &Path, end: u64) -> Result<(), Error> {
        let source = self.storage.open_read(from).map_err(Error::io("open", from))?;
        let end = end.min(source.len().map_err(Error::io("read", from))?);
        let draft = draft_of(to);
        self.remove(&draft)?;
        let copy = self.storage.create_new(&draft).map_err(Error::io("create", &draft))?;
        self.pour((&*source, from), (&*copy, &draft), 0..end)?;
        copy.sync_data().map_err(Error::io("sync", &draft))?;
        self.storage.rename(&draft, to).map_err(Error::io("rename", &draft))?;
        self.sync_above(to)
    }

    fn pour(
        &mut self,
        (source, from): (&dyn StorageFile, &Path),
        (copy, to): (&dyn StorageFile, &Path),
        range: std::ops::Range<u64>,
    ) -> Result<(), Error> {
        let mut bytes = vec![0; COPY_BYTES];
        let mut at = range.start;
        while at < range.end {
            let most = (range.end - at).min(COPY_BYTES as u64) as usize;
            let count = source.read_at(&mut bytes[..most], at).map_err(Error::io("read", from))?;
            if count == 0 {
                let error = io::Error::new(io::ErrorKind::UnexpectedEof, "it has become shorter");
                return Err(Error::io("read", from)(error));
            }
            copy.write_at(&bytes[..count], at).map_err(Error::io("write", to))?;
            at += count as u64;
            self.done.bytes += count as u64;
            if (self.tell)(count as u64).is_break() {
                self.is_stopped = true;
                return Err(Error::io("copy", from)(io::ErrorKind::Interrupted.into()));
            }
        }
        Ok(())
    }

    fn sync_above(&self, path: &Path) -> Result<(), Error> {
        let directory = path.parent().unwrap_or(path);
        self.storage.sync_dir(directory).map_err(Error::io("sync", directory))
    }
}

/// The log files of a space from what is sealed on.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// How far each is to be copied: the last one to the end of its last whole batch.
    ends: Vec<(u64, u64)>,
    messages: u64,
    damaged: u64,
    next_sequence: u64,
}

impl Seen {
    /// Verifies all batches.
    fn of(mut walk: Walk) -> Result<Self, Error> {
        let (mut seen, mut reached, mut reached_before) = (Self::default(), 0, 0);
        while let Some(found) = walk.next_found() {
            match found {
                Found::File { file, bytes } => {
                    seen.ends.push((file, bytes));
                    reached_before = std::mem::replace(&mut reached, FILE_HEADER_BYTES);
                }
                Found::Batch(batch) => {
                    seen.messages += u64::from(batch.header.count);
                    reached = batch.offset + batch.bytes.len() as u64;
                }
                Found::Damage(damage) => {
                    seen.damaged += 1;
                    reached = reached.max(damage.offset + damage.bytes);
                }
                Found::Unfinished(Cut { offset, .. }) | Found::Preallocated { offset, .. } => {
                    if let Some(last) = seen.ends.last_mut() {
                        last.1 = last.1.min(offset);
                    }
                }
                Found::Unreadable { error, .. } => return Err((*error).into()),
                Found::Index { .. } | Found::Rejected { .. } => {}
            }
        }
        // A file without a header is just being made, and holds nothing.
        if seen.ends.last().is_some_and(|(_, end)| *end < FILE_HEADER_BYTES) {
            seen.ends.pop();
            reached = reached_before;
        }
        // A writer may have cut the spare capacity off while it was looked at, and then nothing tells of it.
        if let Some(last) = seen.ends.last_mut() {
            last.1 = last.1.min(reached);
        }
        seen.next_sequence = walk.next_sequence();
        Ok(seen)
    }
}

/// How many places of a segment are damaged.
fn damaged_places(stream: &StoredStream, part: &StoredPart) -> Result<u64, Error> {
    let (segment, damaged) = match stream.segment(part) {
        Ok(None) => return Ok(0),
        Ok(Some(opened)) => opened,
        // Nothing of it can be read.
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

/// The name under which a file is written before it is whole.
fn draft_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{DRAFT_EXTENSION}"));
    path.with_file_name(name)
}

/// A copy is not what was copied.
fn differs(path: &Path) -> Error {
    let what = "the copy is not what was copied; see to the disk, and back up again";
    Error::io("copy", path)(io::Error::new(io::ErrorKind::InvalidData, what))
}

/// Whether a copy is the front of a file, by its last bytes.
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

/// Whether a writer may have taken the file away.
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
