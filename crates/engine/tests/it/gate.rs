//! A disk that stops maintenance where it is about to remove files, and continues it in the middle of a reader's work: at an
//! operation of the reader that the test chooses.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, ThreadId};
use tapedb_log::{Entry, FileId, Kind, MemoryStorage, Storage, StorageFile, StorageLock};

/// A point at which maintenance can be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It begins a segment.
    Begin,
    /// It has written one, and is about to rename it.
    Name,
    /// It is about to replace other files by it.
    Commit,
    /// It has replaced them, and is about to remove the first of them.
    Remove,
}

/// The disk. Clones are the same disk.
#[derive(Clone, Default)]
pub struct Gate {
    memory: Arc<MemoryStorage>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    maintenance: Option<ThreadId>,
    /// Where maintenance stops next.
    until: Vec<Stop>,
    /// Where it waits now.
    at: Option<Stop>,
    is_over: bool,
    /// The thread that reads, while it does, and the number of its operations.
    reader: Option<ThreadId>,
    operations: usize,
    /// Maintenance continues in these operations of the reader, to `then` at last.
    continue_at: Vec<usize>,
    then: Option<Stop>,
    /// How often it continued.
    continued: usize,
}

impl Gate {
    /// Runs maintenance on its own thread, which waits before it begins; in these operations of the reader it continues to
    /// `then`.
    pub fn start(
        &self,
        continue_at: Vec<usize>,
        then: Stop,
        work: impl FnOnce() + Send + 'static,
    ) -> MaintenanceRun {
        *self.shared.lock() =
            State { continue_at, then: Some(then), at: Some(Stop::Begin), ..State::default() };
        let shared = self.shared.clone();
        let thread = thread::spawn(move || {
            let over = Over(shared.clone());
            shared.lock().maintenance = Some(thread::current().id());
            shared.wait_for_turn();
            work();
            drop(over);
        });
        MaintenanceRun { shared: self.shared.clone(), thread: Some(thread) }
    }

    /// Counts the operations of what `read` does.
    pub fn reading<T>(&self, read: impl FnOnce() -> T) -> T {
        self.shared.lock().reader = Some(thread::current().id());
        let found = read();
        self.shared.lock().reader = None;
        found
    }

    /// Number of operations of the reader.
    pub fn operations(&self) -> usize {
        self.shared.lock().operations
    }
}

/// Maintenance in progress.
pub struct MaintenanceRun {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

impl MaintenanceRun {
    /// Makes it write the next segment, if it has not; the reader must hold no lock that it needs.
    pub fn prepare(&self) {
        if self.shared.lock().at != Some(Stop::Commit) {
            self.go_to(Stop::Commit);
        }
    }

    /// Runs it to the next stop of this kind, or to its end. `false`: it has ended.
    pub fn go_to(&self, stop: Stop) -> bool {
        !self.shared.run_to(self.shared.lock(), &[stop]).is_over
    }

    /// How often it continued in the middle of an operation of the reader.
    pub fn continued(&self) -> usize {
        self.shared.lock().continued
    }
}

impl Drop for MaintenanceRun {
    fn drop(&mut self) {
        drop(self.shared.run_to(self.shared.lock(), &[]));
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || thread::panicking(), "maintenance failed");
    }
}

/// Marks maintenance as over, in whatever way it ends.
struct Over(Arc<Shared>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Runs maintenance to one of these stops, or to its end.
    fn run_to<'a>(&'a self, mut state: MutexGuard<'a, State>, until: &[Stop]) -> MutexGuard<'a, State> {
        (state.until, state.at) = (until.to_vec(), None);
        self.changed.notify_all();
        self.changed.wait_while(state, |state| state.at.is_none() && !state.is_over).unwrap()
    }

    fn wait_for_turn(&self) {
        drop(self.changed.wait_while(self.lock(), |state| state.at.is_some()).unwrap());
    }

    /// Stops here, if the caller is maintenance.
    fn stop(&self, stop: Stop) {
        let mut state = self.lock();
        if state.maintenance == Some(thread::current().id()) && state.until.contains(&stop) {
            state.at = Some(stop);
            self.changed.notify_all();
            drop(state);
            self.wait_for_turn();
        }
    }

    /// Counts an operation, if it is one of the reader.
    fn operation(&self) {
        let mut state = self.lock();
        if state.reader != Some(thread::current().id()) {
            return;
        }
        state.operations += 1;
        if state.continue_at.contains(&state.operations) && state.at == Some(Stop::Commit) {
            state.continued += 1;
            let until = [Stop::Begin].into_iter().chain(state.then).collect::<Vec<_>>();
            drop(self.run_to(state, &until));
        }
    }
}

struct GateFile {
    file: Arc<dyn StorageFile>,
    shared: Arc<Shared>,
}

impl Gate {
    fn file(&self, file: io::Result<Arc<dyn StorageFile>>) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(GateFile { file: file?, shared: self.shared.clone() }))
    }
}

fn is(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

impl Storage for Gate {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        if is(path, "tmp") && is(Path::new(path.file_stem().unwrap()), "seg") {
            self.shared.stop(Stop::Begin);
        }
        self.file(self.memory.create_new(path))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        // A log opens its files under a lock that dropping them takes too.
        if is(path, "seg") {
            self.shared.operation();
        }
        self.file(self.memory.open_read(path))
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.file(self.memory.open_write(path))
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.memory.entries(dir)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.memory.kind(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if is(to, "seg") {
            self.shared.stop(Stop::Name);
        } else if to.file_name().is_some_and(|name| name == "manifest") {
            self.shared.stop(Stop::Commit);
        }
        self.memory.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if is(path, "seg") || is(path, "log") {
            self.shared.stop(Stop::Remove);
        }
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

impl StorageFile for GateFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.shared.operation();
        let read = self.file.read_at(buf, offset);
        self.shared.operation();
        read
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn identity(&self) -> io::Result<FileId> {
        self.file.identity()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }
}
