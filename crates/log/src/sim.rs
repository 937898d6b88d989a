//! A simulated disk: files in memory with torn writes, errors, full disks, power cuts and read errors, all from one seed.
//!
//! Model: a write reaches the file at once and the disk at the next `sync_data`; a name reaches the directory
//! at once and the disk at the next `sync_dir` of that directory (a rename between two, when either is synced). A killed process loses nothing it has written. A power cut
//! leaves, of what was not synced, a random first part, with its last write torn at a random byte; so a directory removal
//! may be done in part, but a rename is atomic. A sync takes time: bytes written while it runs are left to the next one.
//! After a failed sync its bytes can still be read but never reach the disk, and the next sync succeeds, as on Linux.

use crate::storage::{Entry, FileId, Kind, Storage, StorageFile, StorageLock};
use crate::tree::{Link, NameChange, ROOT, Tree};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

/// Files in memory with faults. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimStorage {
    disk: Arc<Mutex<Disk>>,
    during_sync: Hook,
    after_list: Hook,
}

/// A function that is called during an operation of the disk.
#[derive(Clone, Default)]
struct Hook(Arc<Mutex<Option<Work>>>);

type Work = Arc<dyn Fn() + Send + Sync>;

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hook({})", self.lock().is_some())
    }
}

impl Hook {
    fn call(&self) {
        // The work may call the hook again.
        let work = self.lock().clone();
        work.inspect(|work| work());
    }

    fn lock(&self) -> MutexGuard<'_, Option<Work>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cause of a [`SimStorage::restart`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The process was killed: its writes are there.
    Kill,
    /// The power was cut: unsynced writes are there in part.
    Power,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Fail(io::ErrorKind),
    Crash,
}

/// A read error.
#[derive(Clone, Copy, Debug)]
struct ReadFault {
    /// The first read that fails.
    at: u64,
    kind: io::ErrorKind,
    lasts: bool,
    /// The file of that read.
    file: Option<usize>,
}

#[derive(Debug)]
struct Disk {
    random: u64,
    /// By number. A directory has a number too, and no content.
    files: Vec<FileData>,
    names: Tree,
    durable_names: Tree,
    name_changes: Vec<NameChange>,
    locked: BTreeSet<usize>,
    /// Number of restarts: a restart releases all locks.
    life: u64,
    operations: u64,
    fault: Option<(u64, Fault)>,
    reads: u64,
    read_fault: Option<ReadFault>,
    capacity: Option<u64>,
    fail_truncate: bool,
    down: bool,
}

#[derive(Clone, Debug, Default)]
struct FileData {
    now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    /// Number of changes that have left `unsynced`: numbers those in it.
    settled: usize,
}

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Truncate(u64),
}

impl SimStorage {
    /// An empty disk. The same seed gives the same faults.
    pub fn new(seed: u64) -> Self {
        let disk = Disk {
            random: seed,
            files: vec![FileData::default(); ROOT + 1],
            names: Tree::default(),
            durable_names: Tree::default(),
            name_changes: Vec::new(),
            locked: BTreeSet::new(),
            life: 0,
            operations: 0,
            fault: None,
            reads: 0,
            read_fault: None,
            capacity: None,
            fail_truncate: false,
            down: false,
        };
        let (during_sync, after_list) = (Hook::default(), Hook::default());
        Self { disk: Arc::new(Mutex::new(disk)), during_sync, after_list }
    }

    /// Number of operations that changed the disk, as counted by `fail_at` and `crash_at`.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Operation number `operation` fails with `kind`; a failing write leaves a random first part.
    pub fn fail_at(&self, operation: u64, kind: io::ErrorKind) {
        self.lock().fault = Some((operation, Fault::Fail(kind)));
    }

    /// The process is killed in operation number `operation`, after a random part of it; everything fails until
    /// [`restart`](Self::restart).
    pub fn crash_at(&self, operation: u64) {
        self.lock().fault = Some((operation, Fault::Crash));
    }

    /// Number of operations that only read (content, length, opening, listing), as counted by `fail_read_at`.
    pub fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// Read number `read` fails with `kind`; if it `lasts`, so does every later one of the same file, until
    /// [`make_readable`](Self::make_readable) or [`restart`](Self::restart).
    pub fn fail_read_at(&self, read: u64, kind: io::ErrorKind, lasts: bool) {
        self.lock().read_fault = Some(ReadFault { at: read, kind, lasts, file: None });
    }

    /// From now on every read of this file fails with `kind`, until [`make_readable`](Self::make_readable) or
    /// [`restart`](Self::restart).
    ///
    /// # Panics
    /// When there is no such file: this is for tests.
    pub fn make_unreadable(&self, path: &Path, kind: io::ErrorKind) {
        let mut disk = self.lock();
        let file = Some(disk.names.file(path).expect("a file"));
        disk.read_fault = Some(ReadFault { at: disk.reads, kind, lasts: true, file });
    }

    /// Everything can be read again.
    pub fn make_readable(&self) {
        self.lock().read_fault = None;
    }

    /// The process is killed now: everything fails until [`restart`](Self::restart).
    pub fn stop(&self) {
        self.lock().down = true;
    }

    /// Whether the process was killed and not restarted.
    pub fn is_down(&self) -> bool {
        self.lock().down
    }

    /// Calls `work` during each sync of a file; the sync does not cover writes of `work`. So one thread can act as all
    /// writers, and the same seed gives the same order. `None` removes it.
    pub fn during_sync(&self, work: Option<Arc<dyn Fn() + Send + Sync>>) {
        *self.during_sync.lock() = work;
    }

    /// Calls `work` after each listing of a directory, before the caller gets it. `None` removes it.
    pub fn after_list(&self, work: Option<Arc<dyn Fn() + Send + Sync>>) {
        *self.after_list.lock() = work;
    }

    /// Limits the bytes of all files together; `None` for no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity = bytes;
    }

    /// Makes every `truncate` fail, or work again.
    pub fn fail_truncate(&self, fail: bool) {
        self.lock().fail_truncate = fail;
    }

    /// Brings the disk back after a kill or a power cut, without faults.
    pub fn restart(&self, stop: Stop) {
        let mut disk = self.lock();
        (disk.down, disk.fault, disk.fail_truncate, disk.read_fault) = (false, None, false, None);
        disk.life += 1;
        disk.locked.clear();
        if stop == Stop::Power {
            disk.cut_power();
        }
    }

    /// Names of all files, in order.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.lock().names.files().into_iter().map(|(path, _)| path).collect()
    }

    /// Content of a file.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.lock();
        let id = disk.names.file(path).ok()?;
        Some(disk.files[id].now.clone())
    }

    /// Creates or replaces a file with this content, and the directories above it, all synced.
    ///
    /// # Panics
    /// When the path cannot be a file: this is for tests.
    pub fn set_content(&self, path: &Path, content: &[u8]) {
        let mut disk = self.lock();
        let missing = disk.names.missing_down_to(path.parent().unwrap_or(path)).expect("a directory");
        for dir in missing {
            let id = disk.new_file(&[]);
            disk.set_durable(&dir, Link::Directory(id));
        }
        let id = disk.new_file(content);
        disk.set_durable(path, Link::File(id));
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let mut disk = self.lock();
        disk.check_up()?;
        let id = disk.names.file(path)?;
        disk.read(Some(id))?;
        Ok(Arc::new(SimFile { storage: self.clone(), id }))
    }
}

impl Storage for SimStorage {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let id = self.lock().create(path, Link::File)?;
        Ok(Arc::new(SimFile { storage: self.clone(), id }))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.open(path)
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.open(path)
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let listed = {
            let mut disk = self.lock();
            disk.read(None)?;
            disk.names.entries(dir)?
        };
        self.after_list.call();
        Ok(listed)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        let mut disk = self.lock();
        disk.read(None)?;
        disk.names.kind(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.lock();
        disk.step()?;
        let change = disk.names.rename(from, to)?;
        change.into_iter().for_each(|change| disk.change_name(change));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.lock();
        disk.step()?;
        let change = disk.names.remove_file(path)?;
        disk.change_name(change);
        Ok(())
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.lock().create(dir, Link::Directory).map(|_| ())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut disk = self.lock();
        disk.check_up()?;
        let missing = disk.names.missing_down_to(dir)?;
        missing.iter().try_for_each(|dir| disk.create(dir, Link::Directory).map(|_| ()))
    }

    /// Each name is an operation of its own.
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut disk = self.lock();
        disk.check_up()?;
        disk.names.directory(dir)?;
        while disk.names.kind(dir)?.is_some() {
            disk.step()?;
            let change = disk.names.remove_step(dir)?;
            disk.change_name(change);
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut disk = self.lock();
        disk.step()?;
        let dir = disk.names.directory(dir)?;
        disk.settle_names(dir);
        Ok(())
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<StorageLock>> {
        let mut disk = self.lock();
        disk.check_up()?;
        let id = match disk.names.kind(path)? {
            None => disk.create(path, Link::File)?,
            Some(_) => disk.names.file(path)?,
        };
        let (free, life) = (disk.locked.insert(id), disk.life);
        Ok(free.then(|| StorageLock::new(Locked { storage: self.clone(), id, life })))
    }
}

/// Releases a lock when it is dropped, if the process was not restarted since.
struct Locked {
    storage: SimStorage,
    id: usize,
    life: u64,
}

impl Drop for Locked {
    fn drop(&mut self) {
        let mut disk = self.storage.lock();
        if disk.life == self.life {
            disk.locked.remove(&self.id);
        }
    }
}

struct SimFile {
    storage: SimStorage,
    id: usize,
}

impl StorageFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.storage.lock();
        disk.read(Some(self.id))?;
        let content = &disk.files[self.id].now;
        let rest = content.get(offset as usize..).unwrap_or_default();
        let read = rest.len().min(buf.len());
        buf[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut disk = self.storage.lock();
        disk.check_up()?;
        let free = disk.free_space(self.id, offset, bytes.len());
        let failed = disk.step().err();
        let written = match failed {
            Some(_) => disk.random_below(bytes.len() + 1),
            None => bytes.len().min(free),
        };
        disk.files[self.id].apply(Change::Write(offset, bytes[..written].to_vec()));
        match failed {
            Some(error) => Err(error),
            None if written < bytes.len() => Err(io::ErrorKind::StorageFull.into()),
            None => Ok(()),
        }
    }

    fn len(&self) -> io::Result<u64> {
        let mut disk = self.storage.lock();
        disk.read(Some(self.id))?;
        Ok(disk.files[self.id].now.len() as u64)
    }

    fn identity(&self) -> io::Result<FileId> {
        self.storage.lock().check_up()?;
        Ok(FileId::new(0, self.id as u64))
    }

    fn sync_data(&self) -> io::Result<()> {
        let covered = {
            let mut disk = self.storage.lock();
            let failed = disk.step();
            let is_down = disk.down;
            let file = &mut disk.files[self.id];
            let covered = file.settled + file.unsynced.len();
            if failed.is_err() && !is_down {
                file.settle(covered);
            }
            failed?;
            covered
        };
        self.storage.during_sync.call();
        let mut disk = self.storage.lock();
        disk.check_up()?;
        let file = &mut disk.files[self.id];
        for change in file.settle(covered) {
            change.apply(&mut file.durable);
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut disk = self.storage.lock();
        disk.step()?;
        if disk.fail_truncate {
            return Err(io::ErrorKind::Other.into());
        }
        disk.files[self.id].apply(Change::Truncate(len));
        Ok(())
    }

    /// Preallocates at once, if there is enough space.
    fn reserve(&self, range: Range<u64>, _: bool) {
        let mut disk = self.storage.lock();
        let own = disk.files.get(self.id).map_or(0, |file| file.now.len() as u64);
        let grows = range.end.saturating_sub(own);
        let fits = disk.free_space(self.id, own, grows as usize) as u64 >= grows;
        if disk.step().is_ok() && grows > 0 && fits {
            disk.files[self.id].apply(Change::Truncate(range.end));
        }
    }
}

impl Disk {
    /// Counts an operation, and fails it if a fault is set for it.
    fn step(&mut self) -> io::Result<()> {
        self.check_up()?;
        self.operations += 1;
        match self.fault {
            Some((at, Fault::Fail(kind))) if at == self.operations => Err(kind.into()),
            Some((at, Fault::Crash)) if at == self.operations => {
                self.down = true;
                Err(io::Error::other("crashed"))
            }
            _ => Ok(()),
        }
    }

    /// Counts a read, and fails it if a fault is set for it or for its file.
    fn read(&mut self, file: Option<usize>) -> io::Result<()> {
        self.check_up()?;
        self.reads += 1;
        match &mut self.read_fault {
            Some(ReadFault { at, kind, file: unreadable, .. }) if *at == self.reads => {
                *unreadable = file;
                Err((*kind).into())
            }
            Some(ReadFault { at, kind, lasts: true, file: Some(unreadable) })
                if *at < self.reads && file == Some(*unreadable) =>
            {
                Err((*kind).into())
            }
            _ => Ok(()),
        }
    }

    fn check_up(&self) -> io::Result<()> {
        if self.down { Err(io::Error::other("the machine is down")) } else { Ok(()) }
    }

    /// Bytes of a write that still fit.
    fn free_space(&self, id: usize, offset: u64, len: usize) -> usize {
        let Some(capacity) = self.capacity else { return len };
        // A file without a name takes no space.
        let used: u64 = self.names.files().iter().map(|&(_, id)| self.files[id].now.len() as u64).sum();
        let own = self.files[id].now.len() as u64;
        (own + capacity.saturating_sub(used)).saturating_sub(offset) as usize
    }

    fn new_file(&mut self, content: &[u8]) -> usize {
        let (now, durable) = (content.to_vec(), content.to_vec());
        self.files.push(FileData { now, durable, ..FileData::default() });
        self.files.len() - 1
    }

    /// An operation that creates a file or a directory.
    fn create(&mut self, path: &Path, link: impl Fn(usize) -> Link) -> io::Result<usize> {
        self.step()?;
        let change = self.names.create(path, link(self.files.len()))?;
        self.change_name(change);
        Ok(self.new_file(&[]))
    }

    fn change_name(&mut self, change: NameChange) {
        self.names.apply(&change);
        self.name_changes.push(change);
    }

    fn set_durable(&mut self, path: &Path, link: Link) {
        // No pending change of this name may apply later.
        self.durable_names = self.names.clone();
        self.name_changes.clear();
        if self.names.kind(path).is_ok_and(|kind| kind.is_some()) {
            let change = self.names.remove_file(path).expect("a file");
            self.names.apply(&change);
        }
        let change = self.names.create(path, link).expect("a place for it");
        self.names.apply(&change);
        self.durable_names = self.names.clone();
    }

    /// Syncs the names in a directory, and earlier changes in directories that renames connect with it.
    fn settle_names(&mut self, dir: usize) {
        let mut dirs = BTreeSet::from([dir]);
        let mut is_settled = vec![false; self.name_changes.len()];
        for (change, settled) in self.name_changes.iter().zip(&mut is_settled).rev() {
            if change.dirs().iter().any(|dir| dirs.contains(dir)) {
                *settled = true;
                dirs.extend(change.dirs());
            }
        }
        let mut is_settled = is_settled.into_iter();
        let durable = &mut self.durable_names;
        self.name_changes.retain(|change| {
            let settled = is_settled.next().unwrap_or(false);
            if settled {
                durable.apply(change);
            }
            !settled
        });
    }

    /// A power cut: a random first part of the unsynced changes stays.
    fn cut_power(&mut self) {
        let kept = self.random_below(self.name_changes.len() + 1);
        for change in self.name_changes.drain(..).take(kept) {
            self.durable_names.apply(&change);
        }
        self.names = self.durable_names.clone();
        for id in 0..self.files.len() {
            self.cut_content(id);
        }
    }

    fn cut_content(&mut self, id: usize) {
        let changes = self.files[id].settle(usize::MAX);
        let kept = self.random_below(changes.len() + 1);
        let mut content = self.files[id].durable.clone();
        for change in &changes[..kept] {
            change.apply(&mut content);
        }
        if let Some(Change::Write(offset, bytes)) = changes.get(kept) {
            let torn = self.random_below(bytes.len() + 1);
            Change::Write(*offset, bytes[..torn].to_vec()).apply(&mut content);
        }
        self.files[id].now = content.clone();
        self.files[id].durable = content;
    }

    /// SplitMix64: any seed is good.
    fn random_below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }
}

impl FileData {
    fn apply(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.unsynced.push(change);
    }

    /// Removes the changes before number `end`.
    fn settle(&mut self, end: usize) -> Vec<Change> {
        let count = end.saturating_sub(self.settled).min(self.unsynced.len());
        self.settled += count;
        self.unsynced.drain(..count).collect()
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Truncate(len) => content.resize(*len as usize, 0),
            Self::Write(_, bytes) if bytes.is_empty() => {}
            Self::Write(offset, bytes) => {
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                content.resize(content.len().max(end), 0);
                content[start..end].copy_from_slice(bytes);
            }
        }
    }
}
