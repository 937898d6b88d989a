//! The read side of a log.

use crate::batches::Batches;
use crate::error::LogError;
use crate::files::{LoadedFile, LogDir};
use crate::format::FILE_HEADER_BYTES;
use crate::granule::{Granule, Span};
use crate::report::{Damage, Reason, Recovery};
use crate::storage::{Storage, StorageFile, read_into};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Log files kept open for reading by one [`Log`].
const OPEN_FILES_MAX: usize = 64;

/// The messages of one space as far as they are committed. Shared by any number of readers.
///
/// Always true: `end` and the granules agree under the lock; granules, offsets and sequence numbers only
/// grow.
#[derive(Debug)]
pub struct Log {
    pub(crate) dir: LogDir,
    state: RwLock<State>,
    /// Sequence number after the last message that readers may see; follows the index.
    end: AtomicU64,
    open_files: Mutex<Vec<(u64, Handle)>>,
    /// Held while looking for what another process wrote. `true` when a writer in this process keeps us
    /// current.
    refreshing: Mutex<bool>,
}

struct Handle(Arc<dyn StorageFile>);

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}

/// The index. Granules of older files, granules of the active file, and the one that still grows.
#[derive(Debug, Default)]
struct State {
    sealed: Arc<Vec<Granule>>,
    active: Arc<Vec<Granule>>,
    tail: Option<Granule>,
    files: Vec<FileEnd>,
    first_sequence: u64,
    next_sequence: u64,
}

/// Where the readable part of a log file ends.
#[derive(Clone, Copy, Debug)]
struct FileEnd {
    file: u64,
    end: u64,
}

/// The granules of a log at one moment, up to the committed end then. Cheap to take and to keep.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    sealed: Arc<Vec<Granule>>,
    active: Arc<Vec<Granule>>,
    tail: Option<Granule>,
    first_sequence: u64,
    next_sequence: u64,
}

/// Where a sequence number is.
pub(crate) enum Located {
    /// In this granule.
    Within(Span),
    /// Out of reach; reading goes on at the second number.
    Missing(Damage, u64),
    /// It is the next one to be written.
    End,
}

impl Log {
    /// Opens the log in `dir` for reading, while a writer in another process may be appending. Bytes at the
    /// end that are not a whole batch are not there yet; [`refresh`](Self::refresh) looks again.
    pub fn open(
        storage: Arc<dyn Storage>,
        dir: &Path,
        stream_id: u64,
        space: u32,
    ) -> Result<(Arc<Self>, Recovery), LogError> {
        let log = Self::empty(LogDir { storage, path: dir.to_path_buf(), stream_id, space }, 0, false);
        let mut recovery = Recovery::default();
        let files = log.dir.logs()?;
        for (i, &file) in files.iter().enumerate() {
            let is_last = i + 1 == files.len();
            let loaded = log.dir.load(file, log.next_expected(file), !is_last)?;
            log.take_file(&loaded, is_last, &mut recovery);
        }
        log.finish(&mut recovery);
        Ok((Arc::new(log), recovery))
    }

    /// Sequence number after the last message readers may see.
    pub fn next_sequence(&self) -> u64 {
        // Pairs with the Release in `publish`: who sees the number finds its messages in the index.
        self.end.load(Ordering::Acquire)
    }

    /// Sequence number of the first message this log was made to hold; older ones are elsewhere or gone.
    pub fn first_sequence(&self) -> u64 {
        self.state().first_sequence
    }

    /// The stream's id, as in the files.
    pub fn stream_id(&self) -> u64 {
        self.dir.stream_id
    }

    /// The space's number, as in the files.
    pub fn space(&self) -> u32 {
        self.dir.space
    }

    /// The directory of the files.
    pub fn path(&self) -> &Path {
        &self.dir.path
    }

    /// The granules up to the committed end.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.state();
        Snapshot {
            sealed: Arc::clone(&state.sealed),
            active: Arc::clone(&state.active),
            tail: state.tail,
            first_sequence: state.first_sequence,
            next_sequence: state.next_sequence,
        }
    }

    /// Reads the bytes of a granule into `buf`, whose memory is reused. Walk them with
    /// [`batches`](Self::batches).
    pub fn read(&self, granule: &Granule, buf: &mut Vec<u8>) -> Result<(), LogError> {
        self.read_bytes(granule.file, granule.offset, granule.len as usize, buf)
    }

    /// The batches in the bytes of a span (of a [`Granule::span`], or from [`read_from`](Self::read_from)),
    /// each checked; what is damaged is an `Err` item, and the batches after it follow.
    pub fn batches<'a>(&'a self, span: &Span, bytes: &'a [u8]) -> Batches<'a> {
        Batches::new(&self.dir.path, *span, bytes)
    }

    /// Looks for what a writer in another process has appended: the growth of the active file, then new
    /// files. Scans only what is new. Returns whether there is more to read. Does nothing on the log of a
    /// writer in this process.
    pub fn refresh(&self) -> Result<bool, LogError> {
        let owned = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        if *owned {
            return Ok(false);
        }
        let before = self.next_sequence();
        // Listed first: once a newer file is there, the file before it has its final content.
        let files = self.dir.logs()?;
        if let Some(active) = self.active_end() {
            let grown = self.dir.load_from(active.file, active.end, self.next_expected(active.file))?;
            self.publish(&grown.scan.granules, grown.scan.end, grown.scan.next_sequence);
        }
        let known = self.active_end().map_or(0, |active| active.file + 1);
        for &file in files.iter().filter(|&&file| file >= known) {
            let loaded = self.dir.load(file, self.next_expected(file), false)?;
            self.start_file(file);
            self.publish(&loaded.scan.granules, loaded.scan.end, loaded.scan.next_sequence.max(file));
        }
        Ok(self.next_sequence() > before)
    }

    /// A log without files.
    pub(crate) fn empty(dir: LogDir, first_sequence: u64, owned: bool) -> Self {
        let state = State { first_sequence, next_sequence: first_sequence, ..State::default() };
        Self {
            dir,
            state: RwLock::new(state),
            end: AtomicU64::new(first_sequence),
            open_files: Mutex::default(),
            refreshing: Mutex::new(owned),
        }
    }

    /// The first sequence number that is new in `file`.
    pub(crate) fn next_expected(&self, file: u64) -> u64 {
        self.state().next_sequence.max(file)
    }

    /// Takes in a file found at opening and adds what it tells to the report.
    pub(crate) fn take_file(&self, loaded: &LoadedFile, is_last: bool, recovery: &mut Recovery) {
        let (file, scan) = (loaded.file, &loaded.scan);
        self.report_lost_before(file, recovery);
        if scan.header.is_none() && !(is_last && scan.granules.is_empty()) {
            let (bytes, count) = (loaded.bytes.min(FILE_HEADER_BYTES), Some(0));
            let reason = Reason::FileHeader;
            recovery.damaged.push(Damage { file, offset: 0, bytes, first_sequence: file, count, reason });
        }
        recovery.damaged.extend(&scan.damaged);
        if !is_last && loaded.bytes > scan.end {
            let reason = scan.tail.map_or(Reason::Unindexed, Reason::Batch);
            let (bytes, first_sequence) = (loaded.bytes - scan.end, scan.next_sequence);
            recovery.damaged.push(Damage {
                file,
                offset: scan.end,
                bytes,
                first_sequence,
                count: None,
                reason,
            });
        }
        if !is_last && !loaded.by_index {
            recovery.indexes_rebuilt.push(file);
        }
        recovery.batches_scanned += scan.batches;
        recovery.files += 1;
        self.start_file(file);
        self.publish(&scan.granules, scan.end, scan.next_sequence.max(file));
    }

    /// Adds the totals to the report.
    pub(crate) fn finish(&self, recovery: &mut Recovery) {
        let snapshot = self.snapshot();
        recovery.messages = snapshot.iter().map(|granule| granule.count).sum();
        recovery.first_sequence = snapshot.first_sequence;
        recovery.next_sequence = snapshot.next_sequence;
    }

    /// A new active file; the one before it is sealed.
    pub(crate) fn start_file(&self, file: u64) {
        let mut state = self.state_mut();
        if state.files.is_empty() {
            state.first_sequence = file;
        }
        let active = std::mem::take(&mut state.active);
        let tail = state.tail.take();
        Arc::make_mut(&mut state.sealed).extend(active.iter().copied().chain(tail));
        state.files.push(FileEnd { file, end: FILE_HEADER_BYTES });
    }

    /// Lets readers see more of the active file: its new granules, where it now ends, and the next sequence
    /// number.
    pub(crate) fn publish(&self, granules: &[Granule], end: u64, next_sequence: u64) {
        let mut state = self.state_mut();
        for granule in granules {
            state.add(*granule);
        }
        if let Some(last) = state.files.last_mut() {
            last.end = end;
        }
        state.next_sequence = next_sequence;
        drop(state);
        self.end.store(next_sequence, Ordering::Release);
    }

    /// The granules of the active file.
    pub(crate) fn active_granules(&self) -> Vec<Granule> {
        let state = self.state();
        state.active.iter().copied().chain(state.tail).collect()
    }

    /// Finds the granule with a sequence number.
    pub(crate) fn locate(&self, sequence: u64) -> Result<Located, LogError> {
        let state = self.state();
        let (first_sequence, next_sequence) = (state.first_sequence, state.next_sequence);
        if sequence > next_sequence {
            return Err(LogError::Ahead { sequence, next_sequence });
        }
        if sequence < first_sequence {
            return Err(LogError::Trimmed { sequence, first_sequence });
        }
        if sequence == next_sequence {
            return Ok(Located::End);
        }
        let (before, after) = state.around(sequence);
        match after {
            Some(granule) if granule.first_sequence <= sequence => Ok(Located::Within(granule.span())),
            _ => Ok(state.missing(sequence, before, after)),
        }
    }

    /// Reads bytes of a log file; fewer where it ends.
    pub(crate) fn read_bytes(
        &self,
        file: u64,
        offset: u64,
        len: usize,
        buf: &mut Vec<u8>,
    ) -> Result<(), LogError> {
        let handle = self.handle(file)?;
        read_into(&*handle, buf, offset, len).map_err(|e| LogError::io("read", &self.dir.log_path(file), e))
    }

    fn handle(&self, file: u64) -> Result<Arc<dyn StorageFile>, LogError> {
        let mut open = self.open_files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, handle)) = open.iter().rev().find(|(f, _)| *f == file) {
            return Ok(Arc::clone(&handle.0));
        }
        let handle = self.dir.open_read(file)?;
        if open.len() == OPEN_FILES_MAX {
            open.remove(0);
        }
        open.push((file, Handle(Arc::clone(&handle))));
        Ok(handle)
    }

    /// A file that begins past the end of the one before it: the messages between are lost. Damage at the end
    /// of the file before has said so already, but for how many.
    fn report_lost_before(&self, file: u64, recovery: &mut Recovery) {
        let state = self.state();
        let Some(before) = state.files.last() else { return };
        let first_sequence = state.next_sequence;
        let lost = Some(file.saturating_sub(first_sequence));
        match recovery.damaged.last_mut() {
            Some(open) if open.file == before.file && open.count.is_none() => open.count = lost,
            _ if file > first_sequence => recovery.damaged.push(Damage {
                file: before.file,
                offset: before.end,
                bytes: 0,
                first_sequence,
                count: lost,
                reason: Reason::Gap,
            }),
            _ => {}
        }
    }

    fn active_end(&self) -> Option<FileEnd> {
        self.state().files.last().copied()
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, granule: Granule) {
        if self.tail.as_mut().is_some_and(|tail| tail.absorb(&granule)) {
            return;
        }
        if let Some(full) = self.tail.replace(granule) {
            Arc::make_mut(&mut self.active).push(full);
        }
    }

    /// The last granule that ends at or before `sequence`, and the first that ends after it.
    fn around(&self, sequence: u64) -> (Option<Granule>, Option<Granule>) {
        let tail = self.tail.as_slice();
        // The tail first: that is where live readers are.
        let parts = [tail, &self.active, &self.sealed];
        let mut after = None;
        for part in parts {
            let at = part.partition_point(|granule| granule.next_sequence() <= sequence);
            after = part.get(at).or(after);
            match after {
                Some(found) if found.first_sequence <= sequence => return (None, after.copied()),
                _ if at > 0 => return (Some(part[at - 1]), after.copied()),
                _ => {}
            }
        }
        (None, after.copied())
    }

    /// Says what is missing at `sequence`, between the granules around it.
    fn missing(&self, sequence: u64, before: Option<Granule>, after: Option<Granule>) -> Located {
        let next = after.map_or(self.next_sequence, |granule| granule.first_sequence);
        let first_file = self.files.first().map_or(0, |f| f.file);
        let (file, offset) = before.map_or((first_file, FILE_HEADER_BYTES), |g| (g.file, g.end()));
        let bytes = after.filter(|g| g.file == file).map_or(0, |g| g.offset - offset);
        let (count, reason) = (Some(next - sequence), Reason::Unindexed);
        Located::Missing(Damage { file, offset, bytes, first_sequence: sequence, count, reason }, next)
    }
}

impl Snapshot {
    /// Granules.
    pub fn len(&self) -> usize {
        self.sealed.len() + self.active.len() + usize::from(self.tail.is_some())
    }

    /// True when there are no granules.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Granule `i`, counted from 0 in order of arrival.
    pub fn get(&self, i: usize) -> Option<&Granule> {
        let active = i.checked_sub(self.sealed.len());
        match active {
            None => self.sealed.get(i),
            Some(i) if i < self.active.len() => self.active.get(i),
            Some(i) => self.tail.as_slice().get(i - self.active.len()),
        }
    }

    /// The granules in order of arrival. Where one does not begin with the sequence number at which the one
    /// before it ends, messages are missing.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Granule> {
        self.sealed.iter().chain(self.active.iter()).chain(self.tail.iter())
    }

    /// Index of the granule that holds `sequence`, or else of the first one after it; [`len`](Self::len) when
    /// none is.
    pub fn find(&self, sequence: u64) -> usize {
        let before = |granule: &Granule| granule.next_sequence() <= sequence;
        let sealed = self.sealed.partition_point(before);
        if sealed < self.sealed.len() {
            return sealed;
        }
        let active = self.active.partition_point(before);
        if active < self.active.len() {
            return sealed + active;
        }
        sealed + active + usize::from(self.tail.as_ref().is_some_and(before))
    }

    /// Sequence number of the first message the log was made to hold.
    pub fn first_sequence(&self) -> u64 {
        self.first_sequence
    }

    /// The committed end when the snapshot was taken.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }
}
