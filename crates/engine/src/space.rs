//! A space of a stream that this process writes: an independent log, whose complete files become segments, and a catalog of
//! those.
//!
//! Always true: a message below the catalog's `sealed` is in a segment or purged; one from there on is in the log. Log files that
//! a segment replaces stay until the catalog on the disk names the segment, so a message may be stored in both, but is only read
//! from one.

pub(crate) mod catalog;
pub(crate) mod changes;
pub(crate) mod deletion;
pub(crate) mod lines;
pub(crate) mod lost_messages;
pub(crate) mod lost_symbols;
pub(crate) mod manifest;
pub(crate) mod parts;
pub(crate) mod quarantine;
pub(crate) mod reader;
pub(crate) mod refused;
pub(crate) mod reserve;
pub(crate) mod salvage;
pub(crate) mod seal_queue;

use crate::error::Error;
use crate::files::sync_dir;
use crate::objects::keys::FOOT_EXTENSION;
use crate::space::catalog::{Catalog, DRAFT_EXTENSION, Part, SEGMENT_EXTENSION};
use crate::space::deletion::Deletion;
use crate::space::manifest::Owner;
use crate::space::quarantine::quarantine_damaged;
use crate::space::reader::{Changes, SpaceReader, no_catalog};
use crate::space::refused::Refused;
use crate::space::seal_queue::SealQueue;
use crate::stream::observe::Observers;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;
use tapedb_log::{LogOptions, LogWriter, Recovery, SharedWriter, Storage, SymbolFile};
use tapedb_segment::{Learned, Tier};

/// A space that this process writes. Its [`SpaceReader`] is the reading side.
pub(crate) struct Space {
    reader: Arc<SpaceReader>,
    pub writer: SharedWriter,
    /// Time of the latest message; `i64::MIN` while there is none. Written under the writer's lock.
    pub last_time: AtomicI64,
    /// Held while files are being sealed or merged: one such work at a time.
    maintenance: Mutex<()>,
    /// Maintenance is to stop, because the stream is to be deleted.
    interrupted: AtomicBool,
    /// Why maintenance fails.
    failure: Mutex<Option<String>>,
    /// Why segments do not get into the object store.
    offload_failure: Mutex<Option<String>>,
    /// The next segment or deletion gets this number.
    next_number: AtomicU64,
    /// First sequence number in the active log file, and when a message in it was first noticed.
    active_since: Mutex<Option<(u64, Instant)>>,
    /// Segments that maintenance cannot merge like all others, by number.
    apart: Mutex<HashMap<u64, Apart>>,
    /// The log file that cannot be sealed.
    pub refused: Refused,
    /// Log files that are being sealed.
    pub seal_queue: SealQueue,
    /// What the last writer of a segment has learned about columns, of which version of the schema and in which tier.
    learned: Mutex<Option<(u16, Tier, Learned)>>,
    /// A catalog of which there was nothing to merge.
    merged: Mutex<Option<(Merging, Arc<Catalog>)>>,
    /// Its files; used while the catalog is changed.
    manifest: Mutex<manifest::Writer>,
    /// Notified of changes.
    observers: Arc<Observers>,
}

impl std::fmt::Debug for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Space").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// What can be written can be read.
impl Deref for Space {
    type Target = SpaceReader;

    #[inline]
    fn deref(&self) -> &SpaceReader {
        &self.reader
    }
}

/// What decides which parts are merged, besides the catalog: limits of bytes and time, and how many segments are apart, and damaged.
pub(crate) type Merging = ((u64, u64), [usize; 2]);

/// Why maintenance cannot merge a segment like all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Apart {
    /// It is damaged: it is left as it is.
    Damaged,
    /// The newest version of the schema has no values for some of its messages: it keeps this version, and is merged with others that
    /// keep it.
    OfVersion(u16),
}

/// What opening a space takes.
pub(crate) struct Opening<'a> {
    pub storage: Arc<dyn Storage>,
    pub directory: &'a Path,
    pub options: LogOptions,
    pub symbols: &'a SymbolFile,
    pub observers: Arc<Observers>,
}

impl Space {
    /// Opens the files of a space for writing, which also recovers them.
    pub fn open(opening: Opening<'_>) -> Result<(Self, Recovery), Error> {
        let Opening { storage, directory, options, symbols, observers } = opening;
        let owner = Owner { stream_id: options.stream_id, space: options.space };
        // A killed writer may not have synced the manifest's name; files are removed because of its content.
        sync_dir(&*storage, directory)?;
        // Copies are rewritten before files are removed that an older one names.
        let found = manifest::read_to_write(&*storage, directory, owner)?;
        let catalog = found.ok_or_else(|| no_catalog(directory))?;
        quarantine_damaged(&*storage, directory, &catalog)?;
        let names = other_files(&*storage, directory, &catalog)?;
        remove_leftovers(&*storage, directory, &names)?;
        let options = LogOptions { first_sequence: catalog.sealed, ..options };
        let (mut writer, recovery) = LogWriter::open_among(storage.clone(), directory, options, &names)?;
        writer.sync_symbols(symbols);
        let catalog = end_deletions(&*storage, directory, owner, catalog, writer.next_sequence())?;
        let next_number = AtomicU64::new(catalog.next_number);
        let log = writer.log().clone();
        let reader = SpaceReader::new((storage, directory), owner, (catalog, log), Changes::Own);
        let last_time = reader.times().map_or(i64::MIN, |(_, last)| last);
        let space = Self {
            reader: Arc::new(reader),
            writer: SharedWriter::new(writer),
            last_time: AtomicI64::new(last_time),
            maintenance: Mutex::new(()),
            interrupted: AtomicBool::new(false),
            failure: Mutex::default(),
            offload_failure: Mutex::default(),
            next_number,
            active_since: Mutex::default(),
            apart: Mutex::default(),
            refused: Refused::default(),
            seal_queue: SealQueue::default(),
            learned: Mutex::default(),
            merged: Mutex::default(),
            manifest: Mutex::default(),
            observers,
        };
        Ok((space, recovery))
    }

    /// The reading side.
    pub fn reader(&self) -> &Arc<SpaceReader> {
        &self.reader
    }

    /// Prevents sealing and merging while the guard is held.
    pub fn hold_maintenance(&self) -> MutexGuard<'_, ()> {
        self.maintenance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Space::hold_maintenance`] without waiting; `None` while another thread holds it.
    pub fn try_hold_maintenance(&self) -> Option<MutexGuard<'_, ()>> {
        match self.maintenance.try_lock() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Stops maintenance in progress, and prevents it while the guard is held.
    pub fn stop_maintenance(&self) -> MutexGuard<'_, ()> {
        self.interrupted.store(true, Ordering::SeqCst);
        let held = self.hold_maintenance();
        self.interrupted.store(false, Ordering::SeqCst);
        held
    }

    /// Whether a caller waits in [`Space::stop_maintenance`].
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// First sequence number in the active log file, and when a message in it was first noticed.
    pub fn active_since(&self) -> MutexGuard<'_, Option<(u64, Instant)>> {
        self.active_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Segments that maintenance cannot merge like all others, by number.
    pub fn apart(&self) -> MutexGuard<'_, HashMap<u64, Apart>> {
        self.apart.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records whether maintenance works.
    pub fn note_maintenance(&self, failure: Option<&Error>) {
        let mut noted = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        *noted = failure.map(Error::to_string);
    }

    /// Records whether segments get into the object store.
    pub fn note_offloading(&self, failure: Option<&Error>) {
        let mut noted = self.offload_failure.lock().unwrap_or_else(PoisonError::into_inner);
        *noted = failure.map(Error::to_string);
    }

    /// Records that the maintenance thread panicked.
    pub fn note_panic(&self) {
        let what = "maintenance has ended by a panic, which is a defect: please report it. Messages can be written and read; when the \
                    database is opened again, maintenance continues";
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(what.into());
    }

    /// Why maintenance fails; `None` while it works.
    pub fn maintenance_failure(&self) -> Option<String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let failure =
            failure.or_else(|| self.refused.why(self.catalog().sealed).map(|error| error.to_string()));
        failure.or_else(|| self.offload_failure.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// The last catalog of which there was nothing to merge, if that was found under the same conditions.
    pub fn merged(&self, of: Merging) -> Option<Arc<Catalog>> {
        let merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        merged.as_ref().filter(|(known, _)| *known == of).map(|(_, catalog)| catalog.clone())
    }

    /// Notes that there is nothing to merge.
    pub fn note_merged(&self, of: Merging, catalog: &Arc<Catalog>) {
        *self.merged.lock().unwrap_or_else(PoisonError::into_inner) = Some((of, catalog.clone()));
    }

    /// What writers of segments have learned about the columns of a version of the schema, in a tier.
    pub fn learned(&self, schema_version: u16, tier: Tier) -> Learned {
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |learned: &&(u16, Tier, Learned)| (learned.0, learned.1) == (schema_version, tier);
        learned.as_ref().filter(is_same).map(|(_, _, learned)| learned.clone()).unwrap_or_default()
    }

    /// Replaces what is known about columns.
    pub fn note_learned(&self, schema_version: u16, tier: Tier, learned: &Learned) {
        let mut noted = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        *noted = Some((schema_version, tier, learned.clone()));
    }

    /// A number for a segment: deletions with smaller numbers are in the catalog.
    pub fn take_number(&self) -> u64 {
        let _changing = self.change();
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// [`Space::take_number`], within [`Space::change_catalog`].
    pub fn number_in_change(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Changes the catalog, on the disk first. `None` from `change`: the catalog has changed since the work began, and `false` is
    /// returned.
    pub fn change_catalog(&self, change: impl FnOnce(&Catalog) -> Option<Catalog>) -> Result<bool, Error> {
        let _changing = self.change();
        let old = self.catalog();
        let Some(new) = change(&old) else { return Ok(false) };
        let change = changes::between(&old, &new);
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        manifest.change(&*self.storage, &self.directory, self.owner, (&new, change.as_deref()))?;
        drop(manifest);
        let new = Arc::new(new);
        self.recent.note(new.generation, change.as_deref());
        self.set_catalog(new.clone());
        self.remove_replaced(&old, &new);
        // Deletions that were carried out are dropped; a new one is known to readers before.
        let is_known =
            |deletion: &Arc<Deletion>| old.deletions.iter().any(|known| Arc::ptr_eq(known, deletion));
        match new.deletions.iter().all(is_known) {
            true => self.observers.sealed(),
            false => self.observers.changed(),
        }
        Ok(true)
    }

    /// Whether a copy of the manifest names the segment of this number, or may do so as far as it can be read.
    pub fn is_named(&self, number: u64) -> bool {
        manifest::FILES.iter().any(|name| {
            match manifest::read_copy(&*self.storage, &self.directory.join(name), self.owner) {
                Ok(Some(catalog)) => catalog.contents().any(|content| content.number == number),
                Ok(None) => false,
                Err(_) => true,
            }
        })
    }

    /// Removes the files of parts that are in the old catalog alone. Readers have them open; what cannot be removed now
    /// is removed when the stream is opened next.
    fn remove_replaced(&self, old: &Catalog, new: &Catalog) {
        let (_, removed, added) = changes::replaced(old, new);
        let place = |part: &Arc<Part>| {
            part.content.as_ref().map(|content| (content.number, content.object.is_some()))
        };
        let kept: HashSet<(u64, bool)> = added.iter().filter_map(place).collect();
        for part in removed {
            if let (Some(place), Some(path)) = (place(&part), part.local_path(&self.directory))
                && !kept.contains(&place)
            {
                let _ = self.storage.remove(&path);
            }
        }
    }
}

/// Ends deletions at the messages that exist, on the disk first, so that they do not cover later ones.
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

/// The files of the directory but those that the catalog names, of which there may be very many: the directory is read once.
fn other_files(storage: &dyn Storage, directory: &Path, catalog: &Catalog) -> Result<Vec<String>, Error> {
    // By first sequence number, with the number, and whether only a foot is here: names are in no order, and a search in a sorted list would
    // miss the processor's caches at each step.
    let numbers = catalog
        .parts
        .iter()
        .filter_map(|part| Some((part.sequences.start, (part.content.as_ref()?.number, part.is_object()))));
    let mut kept =
        HashMap::with_capacity_and_hasher(catalog.parts.len(), BuildHasherDefault::<Mixed>::default());
    kept.extend(numbers);
    let is_kept = |name: &str| numbers_of(name).is_some_and(|(first, kind)| kept.get(&first) == Some(&kind));
    storage.list_where(directory, &mut |name| !is_kept(name)).map_err(Error::io("list", directory))
}

/// Hashes sequence numbers, which are those of this database: no adversary chooses them so that they collide.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // Both halves of the product: the lowest bits of numbers are often the same.
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

/// Removes files that an earlier writer did not complete, and files that it had replaced.
fn remove_leftovers(storage: &dyn Storage, directory: &Path, others: &[String]) -> Result<(), Error> {
    let is_draft = |name: &str| {
        let drafts = [SEGMENT_EXTENSION, FOOT_EXTENSION];
        drafts.iter().any(|extension| name.ends_with(&format!(".{extension}.{DRAFT_EXTENSION}")))
    };
    for name in others.iter().filter(|name| is_draft(name) || is_segment(name)) {
        let path = directory.join(name);
        storage.remove(&path).map_err(Error::io("remove", &path))?;
    }
    Ok(())
}

/// The numbers in the name of a segment, or of the foot of one, and whether it is a foot: see [`catalog::segment_name`].
fn numbers_of(name: &str) -> Option<(u64, (u64, bool))> {
    let (name, extension) = name.rsplit_once('.')?;
    let (first, number) = name.split_once('-')?;
    let is_plain =
        first.len() == 20 && (number == "0" || !number.starts_with(['0', '+'])) && !first.starts_with('+');
    let numbers = (first.parse().ok()?, (number.parse().ok()?, extension == FOOT_EXTENSION));
    Some(numbers).filter(|_| is_plain)
}

fn is_segment(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|extension| extension == SEGMENT_EXTENSION || extension == FOOT_EXTENSION)
}
