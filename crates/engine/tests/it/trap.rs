//! A disk in memory on which a test decides what happens when a segment is written: nothing, an error, a panic, or a wait.

use std::io;
use std::path::Path;
use std::sync::{Arc, RwLock};
use tapedb_log::{Entry, FileId, Kind, MemoryStorage, Storage, StorageFile, StorageLock};

/// What is about to be done with the file of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is created, under its temporary name.
    Begin,
    /// Bytes are written into it.
    Write,
    /// It is read back.
    ReadBack,
    /// It is synced.
    Sync,
    /// It gets its name.
    Name,
    /// The manifest that names it is put in place.
    Commit,
}

type Decide = dyn Fn(Step) -> io::Result<()> + Send + Sync;

/// The disk. Clones are the same disk.
#[derive(Clone, Default)]
pub struct Trap {
    memory: Arc<MemoryStorage>,
    decide: Arc<RwLock<Option<Arc<Decide>>>>,
}

struct TrapFile {
    file: Arc<dyn StorageFile>,
    trap: Trap,
    is_draft: bool,
}

impl Trap {
    /// From now on `decide` is asked before each step, in the thread that makes it.
    pub fn set(&self, decide: impl Fn(Step) -> io::Result<()> + Send + Sync + 'static) {
        *self.decide.write().unwrap() = Some(Arc::new(decide));
    }

    /// All steps succeed from now on.
    pub fn clear(&self) {
        *self.decide.write().unwrap() = None;
    }

    /// Names of the files in a directory that have this extension.
    pub fn files(&self, directory: &str, extension: &str) -> Vec<String> {
        let mut names = self.memory.list(Path::new(directory)).unwrap_or_default();
        names.retain(|name| is(Path::new(name), extension));
        names.sort();
        names
    }

    /// The content of a file.
    pub fn text(&self, path: &str) -> String {
        String::from_utf8(self.memory.read(Path::new(path), 1 << 20).unwrap()).unwrap()
    }

    fn ask(&self, step: Step) -> io::Result<()> {
        let decide = self.decide.read().unwrap().clone();
        decide.map_or(Ok(()), |decide| decide(step))
    }

    fn file(&self, path: &Path, file: io::Result<Arc<dyn StorageFile>>) -> io::Result<Arc<dyn StorageFile>> {
        let is_draft = is(path, "tmp") && is(Path::new(path.file_stem().unwrap()), "seg");
        Ok(Arc::new(TrapFile { file: file?, trap: self.clone(), is_draft }))
    }
}

fn is(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

impl Storage for Trap {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        if is(path, "tmp") && is(Path::new(path.file_stem().unwrap()), "seg") {
            self.ask(Step::Begin)?;
        }
        self.file(path, self.memory.create_new(path))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.file(path, self.memory.open_read(path))
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.file(path, self.memory.open_write(path))
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.memory.entries(dir)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.memory.kind(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if is(to, "seg") {
            self.ask(Step::Name)?;
        } else if to.file_name().is_some_and(|name| name == "manifest") {
            self.ask(Step::Commit)?;
        }
        self.memory.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.memory.remove(path)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.memory.create_dir(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.memory.create_dir_all(dir)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.memory.remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.memory.sync_dir(dir)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<StorageLock>> {
        self.memory.try_lock(path)
    }
}

impl TrapFile {
    fn ask(&self, step: Step) -> io::Result<()> {
        if self.is_draft { self.trap.ask(step) } else { Ok(()) }
    }
}

impl StorageFile for TrapFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.ask(Step::ReadBack)?;
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.ask(Step::Write)?;
        self.file.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn identity(&self) -> io::Result<FileId> {
        self.file.identity()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.ask(Step::Sync)?;
        self.file.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }
}
