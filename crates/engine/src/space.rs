//! A space of a stream: an independent lane with a log, whose complete files become segments, and a catalog of those.
//!
//! Always true: a message below the catalog's `sealed` is in a segment or gone; one from there on is in the log. While a
//! segment takes the place of log files, they stay until the catalog on the disk says so, so a message may lie in both, but
//! is only read from one.

pub(crate) mod catalog;
pub(crate) mod deletion;
pub(crate) mod lost_messages;
pub(crate) mod lost_symbols;
pub(crate) mod manifest;
pub(crate) mod quarantine;
pub(crate) mod reserve;
pub(crate) mod salvage;

use crate::error::{Error, SegmentFailure};
use crate::files::sync_dir;
use crate::maintenance::verify::Refused;
use crate::space::catalog::{Catalog, DRAFT_EXTENSION, Part, SEGMENT_EXTENSION};
use crate::space::deletion::Deletion;
use crate::space::manifest::Owner;
use crate::space::quarantine::quarantine_damaged;
use crate::space::salvage::Origin;
use crate::stream::StreamInner;
use crate::stream::observe::Observers;
use crate::upstream::WINDOW_BYTES;
use crate::upstream::remote::Remote;
use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::Instant;
use tapedb_log::{
    Log, LogError, LogOptions, LogWriter, Recovery, SharedWriter, Snapshot, Storage, StorageFile, SymbolFile,
};
use tapedb_segment::{Damage, ReadAt, Segment, SegmentError, SegmentHeader};

/// A space of an open stream.
pub(crate) struct Space {
    pub number: u32,
    pub directory: PathBuf,
    pub storage: Arc<dyn Storage>,
    pub owner: Owner,
    pub log: Arc<Log>,
    /// `None` when the database is open for reading only.
    pub writer: Option<SharedWriter>,
    /// Time of the latest message; `i64::MIN` while there is none. Written under the writer's lock.
    pub last_time: AtomicI64,
    catalog: RwLock<Arc<Catalog>>,
    /// Held while the catalog is changed.
    changing: Mutex<()>,
    /// Held while files are being sealed or merged: one such work at a time.
    maintenance: Mutex<()>,
    /// Upkeep shall stop, for the stream is to be deleted.
    interrupted: AtomicBool,
    /// Why upkeep does not get on.
    failure: Mutex<Option<String>>,
    /// The next segment or deletion is called by this number.
    next_number: AtomicU64,
    /// First sequence number in the active log file, and when it was seen to have a message.
    active_since: Mutex<Option<(u64, Instant)>>,
    /// Segments that were found damaged, by number: upkeep leaves them as they are.
    left_alone: Mutex<HashSet<u64>>,
    /// The log file that cannot be sealed.
    pub refused: Refused,
    /// Segments that somebody reads, by number.
    open: Mutex<HashMap<u64, Weak<OpenSegment>>>,
    /// Who is told of changes.
    observers: Arc<Observers>,
    /// The stream that the space is of, if it is elsewhere.
    remote: OnceLock<Weak<Remote>>,
}

/// A stream, and one of its spaces: where a reader is at work.
#[derive(Clone, Copy)]
pub(crate) struct Lane<'a> {
    pub stream: &'a StreamInner,
    pub space: &'a Space,
}

/// A segment that is open for reading. Its file stays readable when another one takes its place.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub segment: Segment<SegmentFile>,
    pub path: PathBuf,
    sequences: Range<u64>,
    /// What is damaged of header and index, and how many messages are out of reach by it.
    damaged: Option<(Damage, u64)>,
}

impl OpenSegment {
    /// What to tell a reader who begins with the segment.
    pub fn failure(&self) -> Option<Error> {
        let (damage, messages) = self.damaged?;
        let (first_sequence, next_sequence) = (self.sequences.start, self.sequences.end);
        let (path, error) = (self.path.clone(), SegmentError::Damaged(damage));
        Some(SegmentFailure { path, first_sequence, next_sequence, messages, error }.into())
    }
}

/// A file of the storage, as segments are read from.
#[derive(Clone)]
pub(crate) struct SegmentFile(pub Arc<dyn StorageFile>);

impl std::fmt::Debug for SegmentFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SegmentFile")
    }
}

impl std::fmt::Debug for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Space").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl ReadAt for SegmentFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.len()
    }
}

/// What opening a space takes.
pub(crate) struct Opening<'a> {
    pub storage: Arc<dyn Storage>,
    pub directory: &'a Path,
    pub options: LogOptions,
    /// For writing, which also recovers.
    pub writing: bool,
    pub symbols: &'a SymbolFile,
    pub observers: Arc<Observers>,
}

impl Space {
    /// Opens the files of a space.
    pub fn open(opening: Opening<'_>) -> Result<(Self, Recovery), Error> {
        let Opening { storage, directory, options, writing, symbols, observers } = opening;
        let owner = Owner { stream_id: options.stream_id, space: options.space };
        let (catalog, log, writer, recovery) = if writing {
            // A writer that died may not have put the manifest's name on the disk; files are removed because of what it says.
            sync_dir(&*storage, directory)?;
            let catalog = read_catalog(&*storage, directory, owner)?;
            // Before files go that an older copy names.
            manifest::renew(&*storage, directory, owner, &catalog);
            remove_leftovers(&*storage, directory, &catalog)?;
            quarantine_damaged(&*storage, directory, &catalog)?;
            let options = LogOptions { first_sequence: catalog.sealed, ..options };
            let (mut writer, recovery) = LogWriter::open(storage.clone(), directory, options)?;
            writer.sync_symbols(symbols);
            let catalog = end_deletions(&*storage, directory, owner, catalog, writer.next_sequence())?;
            (catalog, writer.log().clone(), Some(writer), recovery)
        } else {
            let (catalog, log, recovery) = open_to_read(&storage, directory, owner)?;
            (catalog, log, None, recovery)
        };
        let mut space = Self::of((storage, directory), owner, (catalog, log), observers);
        space.writer = writer.map(SharedWriter::new);
        let last_time = space.times().map_or(i64::MIN, |(_, last)| last);
        space.last_time.store(last_time, Ordering::Relaxed);
        Ok((space, recovery))
    }

    /// A space of a stream elsewhere, of which nothing is known yet.
    pub fn described(storage: Arc<dyn Storage>, directory: &Path, owner: Owner) -> Self {
        let Owner { stream_id, space } = owner;
        let log = Log::remote(storage.clone(), directory, stream_id, space, WINDOW_BYTES);
        Self::of((storage, directory), owner, (Catalog::default(), log), Arc::default())
    }

    /// A space that nobody writes.
    fn of(
        (storage, directory): (Arc<dyn Storage>, &Path),
        owner: Owner,
        (catalog, log): (Catalog, Arc<Log>),
        observers: Arc<Observers>,
    ) -> Self {
        Self {
            number: owner.space,
            directory: directory.into(),
            storage,
            owner,
            log,
            writer: None,
            last_time: AtomicI64::new(i64::MIN),
            next_number: AtomicU64::new(catalog.next_number),
            catalog: RwLock::new(Arc::new(catalog)),
            changing: Mutex::new(()),
            maintenance: Mutex::new(()),
            interrupted: AtomicBool::new(false),
            failure: Mutex::default(),
            active_since: Mutex::default(),
            left_alone: Mutex::default(),
            refused: Refused::default(),
            open: Mutex::default(),
            observers,
            remote: OnceLock::new(),
        }
    }

    /// From now on the space is kept up to date by what is known of its stream elsewhere.
    pub fn follow(&self, remote: Weak<Remote>) {
        // Once, when the stream is opened.
        let _ = self.remote.set(remote);
    }

    /// The stream elsewhere.
    fn remote(&self) -> Option<Arc<Remote>> {
        self.remote.get().and_then(Weak::upgrade)
    }

    /// Notes that messages below a sequence number have been read from the log by somebody: more may be pushed.
    #[inline]
    pub fn note_consumed(&self, sequence: u64) {
        if let Some(remote) = self.remote() {
            remote.consumed(self.number, sequence);
        }
    }

    /// Another catalog counts, as it was described. One older than that there is would come of a description that was
    /// overtaken.
    pub fn set_catalog(&self, catalog: Catalog) {
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(catalog);
    }

    /// The catalog, now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The catalog and the log at one moment: together they hold every message there is.
    pub fn view(&self) -> (Arc<Catalog>, Snapshot) {
        loop {
            let catalog = self.catalog();
            let snapshot = self.log.snapshot();
            if snapshot.first_sequence() <= catalog.sealed && begins_by(&snapshot, catalog.sealed) {
                return (catalog, snapshot);
            }
            // Log files that were sealed in between are gone from the snapshot, and what was rewritten was never in it.
            // Where another process writes, its manifest tells.
            let _ = self.refresh_catalog();
            if Arc::ptr_eq(&catalog, &self.catalog()) {
                return (catalog, snapshot);
            }
        }
    }

    /// Times of the earliest and the latest message, as far as the catalog and the index know.
    pub fn times(&self) -> Option<(i64, i64)> {
        let (catalog, snapshot) = self.view();
        let log = snapshot.iter().filter(|granule| granule.next_sequence() > catalog.sealed);
        let times = log.map(|granule| (granule.time_min, granule.time_max));
        times.chain(catalog.times()).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Messages, those that were deleted but are still in files included.
    pub fn messages(&self) -> u64 {
        let (catalog, snapshot) = self.view();
        let log = snapshot.iter().filter(|granule| granule.next_sequence() > catalog.sealed);
        catalog.messages() + log.map(|granule| granule.count).sum::<u64>()
    }

    /// Sequence number after the last message that readers may see.
    pub fn next_sequence(&self) -> u64 {
        let (catalog, snapshot) = self.view();
        end_of(&catalog, &snapshot)
    }

    /// Looks for what a writer in another process has done.
    pub fn refresh(&self) -> Result<(), Error> {
        if self.writer.is_some() {
            return Ok(());
        }
        self.refresh_catalog()?;
        self.log.refresh()?;
        Ok(())
    }

    /// Looks for segments that a writer in another process has made; whether there is another catalog now.
    pub fn refresh_catalog(&self) -> Result<bool, Error> {
        if self.writer.is_some() {
            return Ok(false);
        }
        if let Some(remote) = self.remote() {
            let before = self.catalog().generation;
            remote.refresh()?;
            return Ok(self.catalog().generation != before);
        }
        let _changing = self.change();
        let found = read_catalog(&*self.storage, &self.directory, self.owner)?;
        if found.generation <= self.catalog().generation {
            return Ok(false);
        }
        self.log.drop_before(found.sealed);
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(found);
        Ok(true)
    }

    /// Whether another catalog than this one counts by now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn is_newer_than(&self, catalog: &Catalog) -> Result<bool, Error> {
        self.refresh_catalog()?;
        Ok(self.catalog().generation != catalog.generation)
    }

    /// Keeps files from being sealed or merged while it is held.
    pub fn hold_maintenance(&self) -> MutexGuard<'_, ()> {
        self.maintenance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops upkeep that is under way, and keeps it from going on while the guard is held.
    pub fn stop_maintenance(&self) -> MutexGuard<'_, ()> {
        self.interrupted.store(true, Ordering::SeqCst);
        let held = self.hold_maintenance();
        self.interrupted.store(false, Ordering::SeqCst);
        held
    }

    /// Whether somebody waits in [`Space::stop_maintenance`].
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// First sequence number in the active log file, and when it was seen to have a message.
    pub fn active_since(&self) -> MutexGuard<'_, Option<(u64, Instant)>> {
        self.active_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Segments that upkeep leaves as they are, by number.
    pub fn left_alone(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.left_alone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether upkeep gets on.
    pub fn note_maintenance(&self, failure: Option<&Error>) {
        let mut noted = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        *noted = failure.map(Error::to_string);
    }

    /// Why upkeep does not get on; `None` while it does.
    pub fn maintenance_failure(&self) -> Option<String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        failure.or_else(|| self.refused.why(self.catalog().sealed).map(|error| error.to_string()))
    }

    /// A number for a segment: deletions with smaller numbers are in the catalog by now.
    pub fn take_number(&self) -> u64 {
        let _changing = self.change();
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// [`Space::take_number`], within [`Space::change_catalog`].
    pub fn number_in_change(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Deletes messages: from now on nobody finds them who has not read them yet.
    pub fn delete(&self, deletion: Deletion) -> Result<(), Error> {
        // Under the lock of changes: who takes a number later finds it in the catalog.
        self.change_catalog(|catalog| {
            let number = self.number_in_change();
            let mut new = catalog.with_deletion(Deletion { number, ..deletion });
            if new.parts.is_empty() {
                // Of a transient stream: what the log has dropped is gone whether it was deleted or not.
                let first_sequence = self.log.first_sequence();
                new.deletions.retain(|deletion| deletion.sequences.end > first_sequence);
            }
            Some(new)
        })?;
        Ok(())
    }

    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the catalog, on the disk first. `None` from `change`: the work it comes from is overtaken, and `false` is
    /// returned.
    pub fn change_catalog(&self, change: impl FnOnce(&Catalog) -> Option<Catalog>) -> Result<bool, Error> {
        let _changing = self.change();
        let old = self.catalog();
        let Some(new) = change(&old) else { return Ok(false) };
        manifest::write(&*self.storage, &self.directory, self.owner, &new)?;
        let new = Arc::new(new);
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = new.clone();
        self.remove_replaced(&old, &new);
        self.observers.changed();
        Ok(true)
    }

    /// Whether a copy of the manifest names the segment of this number, or may do so for all we can read.
    pub fn is_named(&self, number: u64) -> bool {
        manifest::FILES.iter().any(|name| {
            match manifest::read_copy(&*self.storage, &self.directory.join(name), self.owner) {
                Ok(Some(catalog)) => catalog.contents().any(|content| content.number == number),
                Ok(None) => false,
                Err(_) => true,
            }
        })
    }

    /// Removes the files of parts that are in the old catalog alone. Who reads them has them open; what cannot be removed
    /// is when the stream is opened next.
    fn remove_replaced(&self, old: &Catalog, new: &Catalog) {
        let kept: Vec<u64> = new.contents().map(|content| content.number).collect();
        for part in &old.parts {
            if let (Some(content), Some(path)) = (&part.content, part.path(&self.directory))
                && !kept.contains(&content.number)
            {
                let _ = self.storage.remove(&path);
            }
        }
    }

    /// Deletions that have still to be carried out in a part.
    ///
    /// # Errors
    /// [`Error::is_missing_file`], though who has the file open can read it: another part has taken the place of this one,
    /// and deletions have been carried out there that nobody knows any more.
    pub fn deletions_of_part(&self, part: &Part) -> Result<Vec<Arc<Deletion>>, Error> {
        let catalog = self.catalog();
        if !catalog.has(part) {
            let path = part.path(&self.directory).unwrap_or_default();
            let error = SegmentError::Io { offset: 0, source: io::ErrorKind::NotFound.into() };
            return Err(SegmentFailure::of_part(path, part, error));
        }
        Ok(catalog.deletions.iter().filter(|deletion| part.is_touched_by(deletion)).cloned().collect())
    }

    /// Deletions that reach into messages of the log with such sequence numbers and times.
    ///
    /// # Errors
    /// [`Error::is_missing_file`]: they have been sealed, as in [`Space::deletions_of_part`].
    pub fn deletions_in_log(
        &self,
        sequences: &Range<u64>,
        times: (i64, i64),
    ) -> Result<Vec<Arc<Deletion>>, Error> {
        let catalog = self.catalog();
        if sequences.end <= catalog.sealed {
            let (sequence, first_sequence) = (sequences.start, catalog.sealed);
            return Err(LogError::Trimmed { sequence, first_sequence }.into());
        }
        let touches = |deletion: &&Arc<Deletion>| deletion.overlaps(sequences, times.0, times.1);
        Ok(catalog.deletions.iter().filter(touches).cloned().collect())
    }

    /// Opens a part's segment, unless somebody has it open; its blocks are read when they are needed. Where header or index
    /// are damaged, what they should say is found out from the stream and from the blocks.
    ///
    /// # Errors
    /// [`Error::Segment`]; [`Error::is_missing_file`] says whether another file has taken its place.
    pub fn open_segment(&self, part: &Part, stream: &StreamInner) -> Result<Option<Arc<OpenSegment>>, Error> {
        let (Some(content), Some(path)) = (&part.content, part.path(&self.directory)) else {
            return Ok(None);
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = open.get(&content.number).and_then(Weak::upgrade) {
            return Ok(Some(found));
        }
        let failed = |error| SegmentFailure::of_part(path.clone(), part, error);
        let file = self.storage.open_read(&path);
        let file = file.map_err(|source| failed(SegmentError::Io { offset: 0, source }))?;
        let schema_version = stream.definition.schema_version;
        let known = segment_header(self.owner, &part.sequences, schema_version);
        let origin = Origin { storage: &*self.storage, directory: &stream.directory, schema_version };
        let (segment, damaged) = origin.open(SegmentFile(file), &known).map_err(failed)?;
        let lost = content.messages.saturating_sub(segment.messages());
        let damaged = damaged.first().map(|damage| (*damage, lost));
        let header = segment.header();
        let is_ours = header.stream_id == self.owner.stream_id
            && header.space == self.owner.space
            && (header.first_sequence..header.next_sequence) == part.sequences;
        if !is_ours {
            let what = format!(
                "is a segment of other messages: of stream {:016x}, space {}, {} to {}",
                header.stream_id, header.space, header.first_sequence, header.next_sequence
            );
            return Err(Error::Definition { path, what });
        }
        let found = Arc::new(OpenSegment { segment, path, sequences: part.sequences.clone(), damaged });
        open.retain(|_, segment| segment.strong_count() > 0);
        open.insert(content.number, Arc::downgrade(&found));
        Ok(Some(found))
    }
}

/// Sequence number after the last message of a view.
pub(crate) fn end_of(catalog: &Catalog, snapshot: &Snapshot) -> u64 {
    // What was rewritten last may be sealed before the log goes on behind it.
    snapshot.next_sequence().max(catalog.sealed)
}

/// Whether no message from `sequence` on is missing before the first that is there.
fn begins_by(snapshot: &Snapshot, sequence: u64) -> bool {
    let first = snapshot.get(snapshot.find(sequence)).map(|granule| granule.first_sequence);
    first.unwrap_or_else(|| snapshot.next_sequence()) <= sequence
}

/// What the header of a segment says.
pub(crate) fn segment_header(owner: Owner, sequences: &Range<u64>, schema_version: u16) -> SegmentHeader {
    let Owner { stream_id, space } = owner;
    let (first_sequence, next_sequence) = (sequences.start, sequences.end);
    SegmentHeader { stream_id, space, schema_version, first_sequence, next_sequence }
}

/// The catalog on the disk.
pub(crate) fn read_catalog(storage: &dyn Storage, directory: &Path, owner: Owner) -> Result<Catalog, Error> {
    let path = || directory.join(manifest::FILES[0]);
    let missing = || Error::Definition {
        path: path(),
        what: "is missing, and with it the list of all segments".into(),
    };
    manifest::read(storage, directory, owner)?.ok_or_else(missing)
}

/// Keeps deletions from taking messages that are still to come, on the disk first.
fn end_deletions(
    storage: &dyn Storage,
    directory: &Path,
    owner: Owner,
    catalog: Catalog,
    next_sequence: u64,
) -> Result<Catalog, Error> {
    let Some(ended) = catalog.without_deletions_from(next_sequence) else { return Ok(catalog) };
    manifest::write(storage, directory, owner, &ended)?;
    Ok(ended)
}

/// A catalog and a log that go together, beside a writer who may be sealing.
fn open_to_read(
    storage: &Arc<dyn Storage>,
    directory: &Path,
    owner: Owner,
) -> Result<(Catalog, Arc<Log>, Recovery), Error> {
    let mut catalog = read_catalog(&**storage, directory, owner)?;
    loop {
        let Owner { stream_id, space } = owner;
        let (log, recovery) = Log::open(storage.clone(), directory, stream_id, space, catalog.sealed)?;
        let again = read_catalog(&**storage, directory, owner)?;
        if again.sealed == catalog.sealed {
            return Ok((again, log, recovery));
        }
        catalog = again;
    }
}

/// Removes what an earlier writer had not finished, and what it had replaced.
fn remove_leftovers(storage: &dyn Storage, directory: &Path, catalog: &Catalog) -> Result<(), Error> {
    let kept: Vec<PathBuf> = catalog.parts.iter().filter_map(|part| part.path(directory)).collect();
    for name in storage.list(directory).map_err(Error::io("list", directory))? {
        let path = directory.join(&name);
        let is_draft = name.ends_with(&format!(".{SEGMENT_EXTENSION}.{DRAFT_EXTENSION}"));
        if is_draft || (is_segment(&name) && !kept.contains(&path)) {
            storage.remove(&path).map_err(Error::io("remove", &path))?;
        }
    }
    Ok(())
}

fn is_segment(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == SEGMENT_EXTENSION)
}
