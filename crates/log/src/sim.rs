//! A test double for the disk: files in memory that tear, fail, fill up and forget, all from one seed.
//!
//! Model: a write reaches the file at once and the disk at the next `sync_data`; a name reaches the directory
//! at once and the disk at the next `sync_dir`. A killed process loses nothing it has written; a power cut
//! keeps, of what was not synced, a random first part, the last write of it torn at a random byte. A sync takes time:
//! what is written while it runs is left to the next one. After a failed sync what it should have put on the disk
//! is still read back but never reaches the disk, and the next sync succeeds: as Linux does it.

use crate::storage::{Storage, StorageFile};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

/// Files in memory that can be broken. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimStorage {
    disk: Arc<Mutex<Disk>>,
    during_sync: Hook,
    after_list: Hook,
}

/// What is called while the disk does something.
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
        // It may come here again.
        let work = self.lock().clone();
        work.inspect(|work| work());
    }

    fn lock(&self) -> MutexGuard<'_, Option<Work>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What [`SimStorage::restart`] follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The process was killed: what it wrote is there.
    Kill,
    /// The power was cut: what was not synced is there in part.
    Power,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Fail(io::ErrorKind),
    Crash,
}

#[derive(Debug)]
struct Disk {
    random: u64,
    files: Vec<FileData>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    name_changes: Vec<NameChange>,
    operations: u64,
    fault: Option<(u64, Fault)>,
    capacity: Option<u64>,
    fail_truncate: bool,
    down: bool,
}

#[derive(Debug, Default)]
struct FileData {
    now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    /// Changes that have left `unsynced`: what numbers those in it.
    settled: usize,
}

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Truncate(u64),
}

#[derive(Clone, Debug)]
enum NameChange {
    Set(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl SimStorage {
    /// An empty disk. The same seed breaks in the same places.
    pub fn new(seed: u64) -> Self {
        let disk = Disk {
            random: seed,
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            operations: 0,
            fault: None,
            capacity: None,
            fail_truncate: false,
            down: false,
        };
        let (during_sync, after_list) = (Hook::default(), Hook::default());
        Self { disk: Arc::new(Mutex::new(disk)), during_sync, after_list }
    }

    /// Operations that change the disk, so far: what `fail_at` and `crash_at` count.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Operation number `operation` fails with `kind`; a write leaves a random first part of itself behind.
    pub fn fail_at(&self, operation: u64, kind: io::ErrorKind) {
        self.lock().fault = Some((operation, Fault::Fail(kind)));
    }

    /// The process dies in operation number `operation`, after a random part of it; then everything fails
    /// until [`restart`](Self::restart).
    pub fn crash_at(&self, operation: u64) {
        self.lock().fault = Some((operation, Fault::Crash));
    }

    /// Calls `work` whenever a file is being synced: the sync has begun, and covers nothing that `work` does. So
    /// one thread can play all writers, and the same seed gives the same order. `None` for nothing.
    pub fn during_sync(&self, work: Option<Arc<dyn Fn() + Send + Sync>>) {
        *self.during_sync.lock() = work;
    }

    /// Calls `work` whenever a directory has been listed, before whoever asked sees the list. `None` for nothing.
    pub fn after_list(&self, work: Option<Arc<dyn Fn() + Send + Sync>>) {
        *self.after_list.lock() = work;
    }

    /// Room for this many bytes in all files together; `None` for no limit.
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
        (disk.down, disk.fault, disk.fail_truncate) = (false, None, false);
        if stop == Stop::Power {
            disk.forget();
        }
    }

    /// Names of all files.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.lock().names.keys().cloned().collect()
    }

    /// Content of a file.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.lock();
        disk.names.get(path).map(|&id| disk.files[id].now.clone())
    }

    /// Puts a file there with this content, on the disk for good.
    pub fn set_content(&self, path: &Path, content: &[u8]) {
        let mut disk = self.lock();
        let id = disk.files.len();
        let (now, durable) = (content.to_vec(), content.to_vec());
        disk.files.push(FileData { now, durable, ..FileData::default() });
        disk.names.insert(path.to_path_buf(), id);
        disk.durable_names.insert(path.to_path_buf(), id);
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let disk = self.lock();
        disk.check_up()?;
        let id = *disk.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(SimFile { storage: self.clone(), id }))
    }
}

impl Storage for SimStorage {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let mut disk = self.lock();
        disk.step()?;
        if disk.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let id = disk.files.len();
        disk.files.push(FileData::default());
        disk.change_name(NameChange::Set(path.to_path_buf(), id));
        Ok(Arc::new(SimFile { storage: self.clone(), id }))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.open(path)
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.open(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let listed = {
            let disk = self.lock();
            disk.check_up()?;
            let names = disk.names.keys().filter(|path| path.parent() == Some(dir));
            names.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect()
        };
        self.after_list.call();
        Ok(listed)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.lock();
        disk.step()?;
        if !disk.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        disk.change_name(NameChange::Rename(from.to_path_buf(), to.to_path_buf()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.lock();
        disk.step()?;
        if !disk.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        disk.change_name(NameChange::Remove(path.to_path_buf()));
        Ok(())
    }

    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        self.lock().check_up()
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        let mut disk = self.lock();
        disk.step()?;
        disk.durable_names = disk.names.clone();
        disk.name_changes.clear();
        Ok(())
    }
}

struct SimFile {
    storage: SimStorage,
    id: usize,
}

impl StorageFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = self.storage.lock();
        disk.check_up()?;
        let content = &disk.files[self.id].now;
        let rest = content.get(offset as usize..).unwrap_or_default();
        let read = rest.len().min(buf.len());
        buf[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut disk = self.storage.lock();
        disk.check_up()?;
        let room = disk.room(self.id, offset, bytes.len());
        let failed = disk.step().err();
        let written = match failed {
            Some(_) => disk.random_below(bytes.len() + 1),
            None => bytes.len().min(room),
        };
        disk.files[self.id].apply(Change::Write(offset, bytes[..written].to_vec()));
        match failed {
            Some(error) => Err(error),
            None if written < bytes.len() => Err(io::ErrorKind::StorageFull.into()),
            None => Ok(()),
        }
    }

    fn len(&self) -> io::Result<u64> {
        let disk = self.storage.lock();
        disk.check_up()?;
        Ok(disk.files[self.id].now.len() as u64)
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
}

impl Disk {
    /// Counts an operation and lets it fail when it is its turn.
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

    fn check_up(&self) -> io::Result<()> {
        if self.down { Err(io::Error::other("the machine is down")) } else { Ok(()) }
    }

    /// Bytes of a write that still fit.
    fn room(&self, id: usize, offset: u64, len: usize) -> usize {
        let Some(capacity) = self.capacity else { return len };
        let used: u64 = self.files.iter().map(|file| file.now.len() as u64).sum();
        let own = self.files[id].now.len() as u64;
        (own + capacity.saturating_sub(used)).saturating_sub(offset) as usize
    }

    fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.name_changes.push(change);
        // What lost its last name no longer takes room.
        for (id, file) in self.files.iter_mut().enumerate() {
            if !self.names.values().any(|&named| named == id) && self.capacity.is_some() {
                file.now.clear();
            }
        }
    }

    /// A power cut: of what was not synced a random first part is kept.
    fn forget(&mut self) {
        let kept = self.random_below(self.name_changes.len() + 1);
        let mut names = self.durable_names.clone();
        for change in &self.name_changes[..kept] {
            change.apply(&mut names);
        }
        (self.names, self.durable_names) = (names.clone(), names);
        self.name_changes.clear();
        for id in 0..self.files.len() {
            self.forget_content(id);
        }
    }

    fn forget_content(&mut self, id: usize) {
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

    /// SplitMix64: any seed will do.
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

    /// Takes out the changes before number `end`.
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

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Set(path, id) => {
                names.insert(path.clone(), *id);
            }
            Self::Rename(from, to) => {
                if let Some(id) = names.remove(from) {
                    names.insert(to.clone(), id);
                }
            }
            Self::Remove(path) => {
                names.remove(path);
            }
        }
    }
}
