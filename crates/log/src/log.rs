//! The read side of a log.

use crate::batches::Batches;
use crate::directory::LogDir;
use crate::end::EndRecord;
use crate::error::LogError;
use crate::files::LoadedFile;
use crate::format::FILE_HEADER_BYTES;
use crate::granule::{Granule, Span};
use crate::report::{Damage, Reason, Recovery};
use crate::storage::{StorageFile, read_into};
use crate::window::Window;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Log files held open for reading by one [`Log`].
const OPEN_FILES_MAX: usize = 64;

/// The committed messages of one space. Shared by any number of readers.
///
/// Always true: `end` and the granules agree under the lock. Offsets and sequence numbers only grow, and files
/// leave the index (`trim.rs`) whole, the oldest first.
#[derive(Debug)]
pub struct Log {
    pub(crate) dir: LogDir,
    state: RwLock<State>,
    /// Sequence number after the last message that readers may see; follows the index.
    pub(crate) end: AtomicU64,
    pub(crate) open_files: Mutex<Vec<(u64, Handle)>>,
    /// Held while reading what another process wrote. `true` when a writer in this process updates the index.
    pub(crate) refreshing: Mutex<bool>,
    /// The last pushed bytes of a remote log (`remote.rs`).
    pub(crate) window: Option<Mutex<Window>>,
}

pub(crate) struct Handle(Arc<dyn StorageFile>);

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}

/// The index: granules of older files, granules of the active file, and the one that still grows.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) sealed: Arc<Vec<Granule>>,
    pub(crate) active: Arc<Vec<Granule>>,
    /// The last granule, which still grows.
    pub(crate) open: Option<Granule>,
    pub(crate) files: Vec<FileEnd>,
    pub(crate) first_sequence: u64,
    pub(crate) next_sequence: u64,
    /// Of a remote log: see [`Log::agreed`].
    pub(crate) agreed: u64,
}

/// Where the readable part of a log file ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileEnd {
    pub(crate) file: u64,
    pub(crate) end: u64,
    /// Sequence number after its last message, or after those that are missing after it.
    pub(crate) next_sequence: u64,
}

/// The granules of a log at one moment, up to the committed end then. Cheap to take and to hold.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    sealed: Arc<Vec<Granule>>,
    active: Arc<Vec<Granule>>,
    open: Option<Granule>,
    first_sequence: u64,
    next_sequence: u64,
}

/// The location of a sequence number.
pub(crate) enum Located {
    /// In this granule.
    Within(Span),
    /// Out of reach; reading continues at the second number.
    Missing(Damage, u64),
    /// It is the next one to be written.
    End,
}

impl Log {
    /// Sequence number after the last message readers may see.
    pub fn next_sequence(&self) -> u64 {
        // Pairs with the Release in `publish`: a reader that sees the number finds its messages in the index.
        self.end.load(Ordering::Acquire)
    }

    /// Sequence number with which the log begins: older messages are stored elsewhere or deleted, and reading them is
    /// [`LogError::Trimmed`]. (The first file may begin earlier; see [`Snapshot::between`].)
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
            open: state.open,
            first_sequence: state.first_sequence,
            next_sequence: state.next_sequence,
        }
    }

    /// The files of the log, in order, as the sequence numbers in their names; the last one grows.
    pub fn files(&self) -> Vec<u64> {
        self.state().files.iter().map(|file| file.file).collect()
    }

    /// Bytes of the active file after the committed end: preallocated ones, and those of an append in progress.
    ///
    /// # Errors
    /// When the size of the file cannot be read.
    pub fn preallocated_bytes(&self) -> Result<u64, LogError> {
        let Some(active) = self.active_end() else { return Ok(0) };
        let bytes = self.dir.size(&*self.handle(active.file)?, active.file)?;
        Ok(bytes.saturating_sub(active.end))
    }

    /// Reads the bytes of a granule into `buf`, whose memory is reused. Walk them with
    /// [`batches`](Self::batches).
    pub fn read(&self, granule: &Granule, buf: &mut Vec<u8>) -> Result<(), LogError> {
        let read = self.read_bytes(granule.file, granule.offset, granule.len as usize, buf);
        read.map_err(|error| self.trimmed_or(error, granule.first_sequence))
    }

    /// The batches in the bytes of a span (of a [`Granule::span`], or from [`read_from`](Self::read_from)),
    /// each checked; what is damaged is an `Err` item, and the batches after it follow.
    pub fn batches<'a>(&'a self, span: &Span, bytes: &'a [u8]) -> Batches<'a> {
        Batches::new(&self.dir, *span, bytes)
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
            window: None,
        }
    }

    /// The first sequence number that is new in `file`. The first file may begin before the log does.
    pub(crate) fn next_expected(&self, file: u64) -> u64 {
        let state = self.state();
        if state.files.is_empty() { file } else { state.next_sequence.max(file) }
    }

    /// Whether a file that begins before the log does holds nothing of it.
    pub(crate) fn is_before_start(&self, loaded: &LoadedFile) -> bool {
        let first_sequence = self.first_sequence();
        loaded.file < first_sequence && loaded.scan.next_sequence <= first_sequence
    }

    /// Adds a file found at opening to the index, and its damage to the report.
    pub(crate) fn add_file(&self, loaded: &LoadedFile, is_last: bool, recovery: &mut Recovery) {
        let (file, scan) = (loaded.file, &loaded.scan);
        self.report_lost_before(file, recovery);
        if scan.header.is_none() && !(is_last && scan.granules.is_empty()) {
            let (bytes, count) = (loaded.bytes.min(FILE_HEADER_BYTES), Some(0));
            let reason = Reason::FileHeader;
            recovery.damaged.push(Damage { file, offset: 0, bytes, first_sequence: file, count, reason });
        }
        recovery.damaged.extend(&scan.damaged);
        if !is_last && loaded.bytes - scan.preallocated > scan.end {
            let reason = scan.end_error.map_or(Reason::Unindexed, Reason::Batch);
            let (bytes, first_sequence) = (loaded.bytes - scan.preallocated - scan.end, scan.next_sequence);
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
        self.add_loaded(loaded);
    }

    /// Reports messages that the log had when it was closed and that are not in its files; returns whether there are any.
    /// The next message gets a number after theirs.
    pub(crate) fn report_lost_end(&self, record: EndRecord, recovery: &mut Recovery) -> bool {
        let first_sequence = self.next_sequence();
        let Some(end) = record.end().filter(|end| end.next_sequence > first_sequence) else { return false };
        let active = self.active_end();
        let (file, offset) = active.map_or((end.file, end.offset), |active| (active.file, active.end));
        let bytes = if file == end.file { end.offset.saturating_sub(offset) } else { 0 };
        let (count, reason) = (Some(end.next_sequence - first_sequence), Reason::Gone);
        recovery.damaged.push(Damage { file, offset, bytes, first_sequence, count, reason });
        self.publish(&[], offset, end.next_sequence);
        true
    }

    /// Adds a file to the index.
    pub(crate) fn add_loaded(&self, loaded: &LoadedFile) {
        let (file, scan) = (loaded.file, &loaded.scan);
        self.start_file(file);
        let next_sequence = scan.next_sequence.max(file).max(self.next_sequence());
        self.publish(&scan.granules, scan.end, next_sequence);
    }

    /// Adds the totals to the report.
    pub(crate) fn finish(&self, recovery: &mut Recovery) {
        let snapshot = self.snapshot();
        recovery.messages = snapshot.iter().map(|granule| granule.count).sum();
        recovery.first_sequence = snapshot.first_sequence;
        recovery.next_sequence = snapshot.next_sequence;
    }

    /// Begins a new active file; the one before it is complete.
    pub(crate) fn start_file(&self, file: u64) {
        let mut state = self.state_mut();
        if let Some(before) = state.files.last_mut() {
            before.next_sequence = before.next_sequence.max(file);
        }
        let active = std::mem::take(&mut state.active);
        let open = state.open.take();
        Arc::make_mut(&mut state.sealed).extend(active.iter().copied().chain(open));
        state.files.push(FileEnd { file, end: FILE_HEADER_BYTES, next_sequence: file });
    }

    /// Makes more of the active file visible to readers: new granules, its end, and the next sequence number.
    pub(crate) fn publish(&self, granules: &[Granule], end: u64, next_sequence: u64) {
        let mut state = self.state_mut();
        for granule in granules {
            state.add(*granule);
        }
        if let Some(last) = state.files.last_mut() {
            (last.end, last.next_sequence) = (end, next_sequence);
        }
        state.next_sequence = next_sequence;
        drop(state);
        self.end.store(next_sequence, Ordering::Release);
    }

    /// The granules of the active file.
    pub(crate) fn active_granules(&self) -> Vec<Granule> {
        let state = self.state();
        state.active.iter().copied().chain(state.open).collect()
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
        if self.window.is_some() && self.read_window((file, offset), len, buf) {
            return Ok(());
        }
        let handle = self.handle(file)?;
        read_into(&*handle, buf, offset, len).map_err(|e| LogError::io("read", &self.dir.log_path(file), e))
    }

    fn handle(&self, file: u64) -> Result<Arc<dyn StorageFile>, LogError> {
        let mut open = self.open_files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, handle)) = open.iter().rev().find(|(f, _)| *f == file) {
            return Ok(Arc::clone(&handle.0));
        }
        let handle = self.dir.open_read(file)?;
        // The handle of a file that was trimmed in the meantime would hold its disk space.
        if self.has_file(file) {
            if open.len() == OPEN_FILES_MAX {
                open.remove(0);
            }
            open.push((file, Handle(Arc::clone(&handle))));
        }
        Ok(handle)
    }

    fn has_file(&self, file: u64) -> bool {
        self.state().files.binary_search_by_key(&file, |file| file.file).is_ok()
    }

    /// The error for a file that does not exist because its messages, from `sequence` on, were trimmed.
    pub(crate) fn trimmed_or(&self, error: LogError, sequence: u64) -> LogError {
        let first_sequence = self.first_sequence();
        if error.is_not_found() && sequence < first_sequence {
            return LogError::Trimmed { sequence, first_sequence };
        }
        error
    }

    /// A file that begins after the end of the one before it, or after the beginning of the log: the messages between are
    /// lost. Damage at the end of the file before is reported already, without the count.
    fn report_lost_before(&self, file: u64, recovery: &mut Recovery) {
        let state = self.state();
        let first_sequence = state.next_sequence;
        let (in_file, offset) = state.files.last().map_or((file, 0), |before| (before.file, before.end));
        match recovery.damaged.last_mut() {
            Some(open) if open.file == in_file && open.count.is_none() => {
                open.count = Some(file.saturating_sub(open.first_sequence));
            }
            _ if file > first_sequence => recovery.damaged.push(Damage {
                file: in_file,
                offset,
                bytes: 0,
                first_sequence,
                count: Some(file - first_sequence),
                reason: Reason::Gap,
            }),
            _ => {}
        }
    }

    pub(crate) fn active_end(&self) -> Option<FileEnd> {
        self.state().files.last().copied()
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, granule: Granule) {
        if self.open.as_mut().is_some_and(|open| open.absorb(&granule)) {
            return;
        }
        if let Some(full) = self.open.replace(granule) {
            Arc::make_mut(&mut self.active).push(full);
        }
    }

    /// The last granule that ends at or before `sequence`, and the first that ends after it.
    fn around(&self, sequence: u64) -> (Option<Granule>, Option<Granule>) {
        let open = self.open.as_slice();
        // The open granule first: live readers are there.
        let parts = [open, &self.active, &self.sealed];
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

    /// The damage at `sequence`, between the granules around it.
    fn missing(&self, sequence: u64, before: Option<Granule>, after: Option<Granule>) -> Located {
        let next = after.map_or(self.next_sequence, |granule| granule.first_sequence);
        let first_file = self.files.first().map_or(0, |f| f.file);
        let (file, offset) = before.map_or((first_file, FILE_HEADER_BYTES), |g| (g.file, g.end()));
        let bytes = after.filter(|g| g.file == file).map_or(0, |g| g.offset - offset);
        let reason = if bytes > 0 { Reason::Unindexed } else { Reason::Gap };
        let count = Some(next - sequence);
        Located::Missing(Damage { file, offset, bytes, first_sequence: sequence, count, reason }, next)
    }
}

impl Snapshot {
    /// Granules.
    pub fn len(&self) -> usize {
        self.sealed.len() + self.active.len() + usize::from(self.open.is_some())
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
            Some(i) => self.open.as_slice().get(i - self.active.len()),
        }
    }

    /// The granules in order of arrival. Where one does not begin with the sequence number at which the one
    /// before it ends, messages are missing.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Granule> {
        self.sealed.iter().chain(self.active.iter()).chain(self.open.iter())
    }

    /// The granules that hold messages from `first` up to but not including `end`, in order of arrival. The first and
    /// the last may hold others too.
    pub fn between(&self, first: u64, end: u64) -> impl DoubleEndedIterator<Item = &Granule> {
        let from = self.find(first);
        let to = if first < end { self.count_while(|granule| granule.first_sequence < end) } else { from };
        (from..to).filter_map(|i| self.get(i))
    }

    /// Index of the granule that holds `sequence`, or else of the first one after it; [`len`](Self::len) when
    /// none is.
    pub fn find(&self, sequence: u64) -> usize {
        self.count_while(|granule| granule.next_sequence() <= sequence)
    }

    /// How many granules from the first on satisfy `wanted`, which holds for a prefix of them.
    fn count_while(&self, wanted: impl Fn(&Granule) -> bool) -> usize {
        let sealed = self.sealed.partition_point(&wanted);
        if sealed < self.sealed.len() {
            return sealed;
        }
        let active = self.active.partition_point(&wanted);
        if active < self.active.len() {
            return sealed + active;
        }
        sealed + active + usize::from(self.open.as_ref().is_some_and(wanted))
    }

    /// Sequence number with which the log began: see [`Log::first_sequence`].
    pub fn first_sequence(&self) -> u64 {
        self.first_sequence
    }

    /// The committed end when the snapshot was taken.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }
}
