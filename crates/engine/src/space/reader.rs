//! The reading side of a space: what it holds, kept up to date, and its files. Nothing here changes what is stored.

use crate::counts::note_bytes;
use crate::error::{Error, SegmentFailure, Unreadable};
use crate::objects::file::ObjectFile;
use crate::objects::tier::Objects;
use crate::options::Settings;
use crate::space::catalog::{Catalog, Part};
use crate::space::changes::Recent;
use crate::space::deletion::Deletion;
use crate::space::manifest::{self, Owner};
use crate::space::salvage::SchemaFiles;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use tapedb_log::{Log, LogError, Recovery, Snapshot, Storage, StorageFile};
use tapedb_segment::{Damage, ReadAt, Segment, SegmentError, SegmentHeader};

/// A space of an open stream, for reading.
pub(crate) struct SpaceReader {
    pub number: u32,
    pub directory: PathBuf,
    pub storage: Arc<dyn Storage>,
    pub owner: Owner,
    pub log: Arc<Log>,
    catalog: RwLock<Arc<Catalog>>,
    /// Held while the catalog is changed.
    changing: Mutex<()>,
    /// Segments that are being read, by number.
    open: Mutex<HashMap<u64, Weak<OpenSegment>>>,
    /// For segments that are objects: the database's stores, and the settings of the stream, which name its own.
    objects: OnceLock<(Arc<Objects>, Arc<Settings>)>,
    changes: Changes,
    /// The last changes of the catalog that this process has made.
    pub recent: Recent,
}

/// How changes of the space get here.
pub(crate) enum Changes {
    /// This process makes them.
    Own,
    /// Another process makes them: the files are polled.
    Polled,
    /// A server sends them.
    Described(OnceLock<Weak<dyn Describe>>),
}

/// Requests the state of a stream from a server, and updates its spaces.
pub(crate) trait Describe: Send + Sync {
    /// # Errors
    /// When the stream does not exist, or the server does not answer.
    fn refresh(&self) -> Result<(), Error>;

    /// Notes that messages of a space below a sequence number have been read: more may be pushed.
    fn consumed(&self, space: u32, sequence: u64);
}

/// A segment that is open for reading. Its file stays readable when it is replaced.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub segment: Segment<SegmentFile>,
    pub path: PathBuf,
    /// If it is in an object store.
    pub object: Option<Arc<ObjectFile>>,
    sequences: Range<u64>,
    /// Damage to header and index, and how many messages it makes unreadable.
    damaged: Option<(Damage, u64)>,
}

impl OpenSegment {
    /// The error for a reader that begins with the segment.
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

impl std::fmt::Debug for SpaceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpaceReader").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl ReadAt for SegmentFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.0.read_at(buf, offset)?;
        note_bytes(count);
        Ok(count)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.len()
    }
}

impl SpaceReader {
    /// Opens the files of a space that another process may write.
    pub fn open(
        storage: Arc<dyn Storage>,
        directory: &Path,
        owner: Owner,
    ) -> Result<(Self, Recovery), Error> {
        let (catalog, log, recovery) = open_to_read(&storage, directory, owner)?;
        Ok((Self::new((storage, directory), owner, (catalog, log), Changes::Polled), recovery))
    }

    /// A space of a remote stream, without any state yet. `window_bytes`: limit of the pushed batches that are held for readers.
    pub fn described(storage: Arc<dyn Storage>, directory: &Path, owner: Owner, window_bytes: usize) -> Self {
        let Owner { stream_id, space } = owner;
        let log = Log::remote(storage.clone(), directory, stream_id, space, window_bytes);
        let changes = Changes::Described(OnceLock::new());
        Self::new((storage, directory), owner, (Catalog::default(), log), changes)
    }

    pub(super) fn new(
        (storage, directory): (Arc<dyn Storage>, &Path),
        owner: Owner,
        (catalog, log): (Catalog, Arc<Log>),
        changes: Changes,
    ) -> Self {
        Self {
            number: owner.space,
            directory: directory.into(),
            storage,
            owner,
            log,
            catalog: RwLock::new(Arc::new(catalog)),
            changing: Mutex::new(()),
            open: Mutex::default(),
            objects: OnceLock::new(),
            changes,
            recent: Recent::default(),
        }
    }

    /// Sets where segments are that are objects.
    pub fn use_objects(&self, objects: &Arc<Objects>, settings: &Arc<Settings>) {
        // Once, when the stream is opened.
        let _ = self.objects.set((objects.clone(), settings.clone()));
    }

    /// Numbers of the segments that are being read.
    pub fn open_numbers(&self) -> Vec<u64> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().filter(|(_, segment)| segment.strong_count() > 0).map(|(number, _)| *number).collect()
    }

    /// Opens the file of a part that is an object.
    fn open_object(&self, part: &Part) -> io::Result<Option<Arc<ObjectFile>>> {
        let Owner { stream_id, space } = self.owner;
        let Some(key) = part.object_key(stream_id, space) else { return Ok(None) };
        let (Some((objects, settings)), Some(content)) = (self.objects.get(), &part.content) else {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "segments of this stream are not read from object stores",
            ));
        };
        let url = settings.get().offload.map(|offload| offload.url);
        let foot = part.local_path(&self.directory).unwrap_or_default();
        let named = (&*key, content.bytes, content.object.unwrap_or_default());
        objects.open_segment(url.as_ref().map(|url| url.as_str()), &foot, named).map(Some)
    }

    /// Opens the file of a segment by its name, wherever it is: as servers do for their clients.
    ///
    /// # Errors
    /// What the system or the store refuses.
    pub fn open_file(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let path = self.directory.join(name);
        match self.storage.open_read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let catalog = self.catalog();
                let part =
                    catalog.parts.iter().find(|part| part.path(&self.directory).as_ref() == Some(&path));
                match part.map(|part| self.open_object(part)).transpose()?.flatten() {
                    Some(file) => Ok(file),
                    None => Err(error),
                }
            }
            opened => opened,
        }
    }

    /// Updates the space from a server from now on.
    pub fn follow(&self, describe: Weak<dyn Describe>) {
        if let Changes::Described(slot) = &self.changes {
            // Once, when the stream is opened.
            let _ = slot.set(describe);
        }
    }

    /// Notes that messages below a sequence number have been read from the log: more may be pushed.
    #[inline]
    pub fn note_consumed(&self, sequence: u64) {
        if let Changes::Described(slot) = &self.changes
            && let Some(describe) = slot.get().and_then(Weak::upgrade)
        {
            describe.consumed(self.number, sequence);
        }
    }

    /// Replaces the catalog.
    pub fn set_catalog(&self, catalog: impl Into<Arc<Catalog>>) {
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog.into();
    }

    /// The current catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Held while the catalog is changed.
    pub(super) fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The catalog and the log at one moment: together they hold all messages.
    pub fn view(&self) -> (Arc<Catalog>, Snapshot) {
        loop {
            let catalog = self.catalog();
            let snapshot = self.log.snapshot();
            if snapshot.first_sequence() <= catalog.sealed && begins_by(&snapshot, catalog.sealed) {
                return (catalog, snapshot);
            }
            // Log files that were sealed in between are gone from the snapshot, and what was rewritten was never in it.
            // Where another process writes, its manifest states that.
            let _ = self.refresh_catalog();
            if Arc::ptr_eq(&catalog, &self.catalog()) {
                return (catalog, snapshot);
            }
        }
    }

    /// Times of the earliest and the latest message in the catalog and the index.
    pub fn times(&self) -> Option<(i64, i64)> {
        let (catalog, snapshot) = self.view();
        let log = snapshot.iter().filter(|granule| granule.next_sequence() > catalog.sealed);
        let times = log.map(|granule| (granule.time_min, granule.time_max));
        times.chain(catalog.times()).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Number of messages, including deleted ones that are still in files.
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

    /// Checks for changes by a writer in another process.
    pub fn refresh(&self) -> Result<(), Error> {
        if !matches!(self.changes, Changes::Own) {
            self.refresh_catalog()?;
            self.log.refresh()?;
        }
        Ok(())
    }

    /// Checks for segments that a writer in another process has written; whether the catalog has changed.
    pub fn refresh_catalog(&self) -> Result<bool, Error> {
        match &self.changes {
            Changes::Own => return Ok(false),
            Changes::Described(slot) => {
                // Without a server's answer there is nothing to compare.
                let Some(describe) = slot.get().and_then(Weak::upgrade) else { return Ok(false) };
                let before = self.catalog().generation;
                describe.refresh()?;
                return Ok(self.catalog().generation != before);
            }
            Changes::Polled => {}
        }
        let _changing = self.change();
        let found = read_catalog(&*self.storage, &self.directory, self.owner)?;
        if found.generation <= self.catalog().generation {
            return Ok(false);
        }
        self.log.drop_before(found.sealed);
        self.set_catalog(found);
        Ok(true)
    }

    /// Whether the catalog has changed.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn is_newer_than(&self, catalog: &Catalog) -> Result<bool, Error> {
        self.refresh_catalog()?;
        Ok(self.catalog().generation != catalog.generation)
    }

    /// Deletions that are not yet carried out in a part.
    ///
    /// # Errors
    /// [`Error::is_missing_file`], although an open file can be read: the part has been replaced, and deletions that are carried
    /// out in the new part are no longer listed.
    pub fn deletions_of_part(&self, part: &Part) -> Result<Vec<Arc<Deletion>>, Error> {
        let catalog = self.catalog();
        if !catalog.has(part) {
            let path = part.path(&self.directory).unwrap_or_default();
            let error = SegmentError::Io { offset: 0, source: io::ErrorKind::NotFound.into() };
            return Err(SegmentFailure::of_part(path, part, error));
        }
        Ok(catalog.deletions.iter().filter(|deletion| part.is_affected_by(deletion)).cloned().collect())
    }

    /// Deletions that may cover messages of the log with such sequence numbers and times.
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

    /// Opens a part's segment, unless it is open already; its blocks are read when they are needed. Where header or index are
    /// damaged, their content is derived from the stream and the blocks.
    ///
    /// # Errors
    /// [`Unreadable::Segment`]; [`Error::is_missing_file`] if the file may have been replaced.
    pub fn open_segment(
        &self,
        part: &Part,
        schemas: SchemaFiles<'_>,
    ) -> Result<Option<Arc<OpenSegment>>, Error> {
        let (Some(content), Some(path)) = (&part.content, part.path(&self.directory)) else {
            return Ok(None);
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = open.get(&content.number).and_then(Weak::upgrade) {
            return Ok(Some(found));
        }
        let failed = |error| SegmentFailure::of_part(path.clone(), part, error);
        let failed_to_open = |source| failed(SegmentError::Io { offset: 0, source });
        let object = self.open_object(part).map_err(failed_to_open)?;
        let file: Arc<dyn StorageFile> = match &object {
            Some(object) => object.clone(),
            None => self.storage.open_read(&path).map_err(failed_to_open)?,
        };
        let known = segment_header(self.owner, &part.sequences, schemas.version);
        let (segment, damaged) = schemas.open_segment(SegmentFile(file), &known).map_err(failed)?;
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
            return Err(Error::Unreadable(Unreadable::Definition { path, what }));
        }
        let found =
            Arc::new(OpenSegment { segment, path, object, sequences: part.sequences.clone(), damaged });
        open.retain(|_, segment| segment.strong_count() > 0);
        open.insert(content.number, Arc::downgrade(&found));
        Ok(Some(found))
    }
}

/// Sequence number after the last message of a view.
pub(crate) fn end_of(catalog: &Catalog, snapshot: &Snapshot) -> u64 {
    // The last rewritten messages may be sealed before the log continues after them.
    snapshot.next_sequence().max(catalog.sealed)
}

/// Whether no message from `sequence` on is missing before the first existing one.
fn begins_by(snapshot: &Snapshot, sequence: u64) -> bool {
    let first = snapshot.get(snapshot.find(sequence)).map(|granule| granule.first_sequence);
    first.unwrap_or_else(|| snapshot.next_sequence()) <= sequence
}

/// The header of a segment.
pub(crate) fn segment_header(owner: Owner, sequences: &Range<u64>, schema_version: u16) -> SegmentHeader {
    let Owner { stream_id, space } = owner;
    let (first_sequence, next_sequence) = (sequences.start, sequences.end);
    SegmentHeader { stream_id, space, schema_version, first_sequence, next_sequence }
}

/// The catalog on the disk.
pub(crate) fn read_catalog(storage: &dyn Storage, directory: &Path, owner: Owner) -> Result<Catalog, Error> {
    manifest::read(storage, directory, owner)?.ok_or_else(|| no_catalog(directory))
}

/// The error where there is none.
pub(crate) fn no_catalog(directory: &Path) -> Error {
    Error::Unreadable(Unreadable::Definition {
        path: directory.join(manifest::FILES[0]),
        what: "is missing, and with it the list of all segments".into(),
    })
}

/// A consistent catalog and log, while a writer may be sealing.
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
