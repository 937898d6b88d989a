//! The write side of a log.

use crate::end::{self, End, Noted};
use crate::error::LogError;
use crate::files::{LoadedFile, LogDir, split_stale};
use crate::format::{FILE_HEADER_BYTES, FileHeader, FileKind};
use crate::granule::{self, Granule};
use crate::log::Log;
use crate::marks::Marks;
use crate::producers::Producers;
use crate::report::{Cut, Reason, Recovery};
use crate::storage::{Storage, StorageFile, read_into};
use crate::symbols::SymbolFile;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};
use tapedb_codec::batch::{self, BatchError, BatchHeader};

/// Largest value of [`LogOptions::file_bytes_max`]: 1 GiB. Recovery reads the last file at once.
pub const FILE_BYTES_MAX: u64 = 1 << 30;
/// Default of [`LogOptions::file_bytes_max`]: 64 MiB.
pub const FILE_BYTES_MAX_DEFAULT: u64 = 64 << 20;

/// A file that is shorter has no room at its end.
const ROOM_BYTES_MIN: u64 = 256;

/// Room is asked for in steps of so many bytes at most, when less than half a step is left.
const ROOM_BYTES_MAX: u64 = 2 << 20;

/// So much is written anew at once.
const PIECE_BYTES: u64 = 1 << 20;

/// A log whose bytes are bounded has about this many files, so that what goes at once is a small part.
const BOUNDED_FILES: u64 = 8;

/// What an acknowledged append survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// In this process's memory, and lost with it: for logs in a [`MemoryStorage`](crate::MemoryStorage), which
    /// [`LogOptions::bytes_max`] keeps from growing.
    Transient,
    /// In the operating system's hands: survives a killed process, not a power cut.
    #[default]
    Async,
    /// On the disk: survives a power cut.
    Sync,
}

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The stream, written into every file.
    pub stream_id: u64,
    /// The space of the stream, written into every file.
    pub space: u32,
    /// What an acknowledged append survives.
    pub durability: Durability,
    /// A file that would grow past this many bytes is rolled; at most [`FILE_BYTES_MAX`]. A file holds one
    /// batch at least, whatever its size.
    pub file_bytes_max: u64,
    /// How much the log may hold: when complete files together have more bytes than this, the oldest are removed, at
    /// each roll and at opening. Files are then no larger than an eighth of it (or one batch), and the active one comes
    /// on top. Readers who are too slow get [`LogError::Trimmed`], which says where the log now begins. Where it begins
    /// is not known to the next opening, which takes the first file for the beginning.
    pub bytes_max: Option<u64>,
    /// Sequence number with which the log begins: messages below it are elsewhere. Opening removes files that hold no
    /// others, which an interrupted [`SharedWriter::trim`](crate::SharedWriter::trim) leaves. If the first file begins
    /// later, messages are missing, which is reported as damage. If there is no file with a message at or above it, one
    /// begins there.
    pub first_sequence: u64,
}

impl LogOptions {
    /// Asynchronous, files of 64 MiB, from sequence number 0.
    pub fn new(stream_id: u64, space: u32) -> Self {
        Self {
            stream_id,
            space,
            durability: Durability::Async,
            file_bytes_max: FILE_BYTES_MAX_DEFAULT,
            bytes_max: None,
            first_sequence: 0,
        }
    }

    /// Where a file is rolled.
    fn file_limit(&self) -> u64 {
        let share = self.bytes_max.map_or(u64::MAX, |bytes| bytes / BOUNDED_FILES);
        self.file_bytes_max.min(FILE_BYTES_MAX).min(share)
    }
}

/// Appends batches. There must be one per directory at a time, which its owner sees to (the engine locks the
/// database).
///
/// Room stays at the end of the active file when this is dropped: another writer may have the file by then, of a stream that
/// was renamed, or in a process that has the lock already, and only opening and rolling know that nobody has.
///
/// Always true: what was appended to the active file ends at `end`, with room behind it; all bytes before it are whole
/// batches or reported damage, and `next_sequence` comes next; `staged` is what readers do not see yet and no `PendingSync`
/// holds. If any of that is in doubt the writer is poisoned and does nothing more. A file is rolled only when no sync is
/// pending.
pub struct LogWriter {
    log: Arc<Log>,
    options: LogOptions,
    active: Arc<dyn StorageFile>,
    file: u64,
    /// What the batches of the active file are marked with.
    marks: Marks,
    end: u64,
    /// Where the room ends that was asked for in the active file.
    room_end: u64,
    next_sequence: u64,
    staged: Vec<Granule>,
    /// A roll failed half-way: the active file must not grow any more, for the next file's name is taken.
    must_roll: bool,
    /// In every file of the log.
    salt: u64,
    /// What the log's directory says of its end.
    noted: Noted,
    /// By which batches that are sent again are known.
    producers: Producers,
    /// On the disk before a file is rolled.
    symbols: Option<(PathBuf, Arc<dyn StorageFile>)>,
    poisoned: Option<String>,
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { options, file, end, next_sequence, poisoned, .. } = self;
        write!(
            f,
            "LogWriter({options:?}, file {file}, end {end}, next {next_sequence}, poisoned {poisoned:?})"
        )
    }
}

impl LogWriter {
    /// Opens the log in `dir` for writing, creating it when it is not there, and recovers it: an unfinished
    /// append at the end is cut off, damage in the middle stays and is reported.
    pub fn open(
        storage: Arc<dyn Storage>,
        dir: &Path,
        options: LogOptions,
    ) -> Result<(Self, Recovery), LogError> {
        let sync = options.durability == Durability::Sync;
        make_dir(&*storage, dir, sync).map_err(|e| LogError::io("create", dir, e))?;
        let LogOptions { stream_id, space, mut first_sequence, .. } = options;
        let dir = LogDir { storage, path: dir.to_path_buf(), stream_id, space };
        let noted = Noted::read(&dir)?;
        let files = dir.logs()?;
        let salt = dir.salt().unwrap_or_else(end::random_salt);
        if options.bytes_max.is_some() {
            first_sequence = files.first().map_or(first_sequence, |&file| file.max(first_sequence));
        }
        let log = Log::empty(dir, first_sequence, true);
        let mut recovery = Recovery::default();
        let (_, files) = split_stale(&files, first_sequence);
        log.dir.remove_left_over(files.first().copied().unwrap_or(first_sequence))?;
        let mut producers = Producers::read(&log.dir);
        let opened = match files.split_last() {
            None => {
                log.miss(noted, &mut recovery);
                open_first(&log, &options, salt)?
            }
            Some((&last, older)) => {
                recover_older(&log, older, &options, (&mut recovery, &mut producers))?;
                recover_last(&log, last, (&options, salt, noted), (&mut recovery, &mut producers))?
            }
        };
        producers.end_at(log.next_sequence());
        if let Some(bytes) = options.bytes_max {
            log.trim_to(bytes)?;
        }
        log.finish(&mut recovery);
        Ok((Self::on(log, options, opened, (producers, noted, salt)), recovery))
    }

    /// The read side, kept current by this writer.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Sequence number the next message gets.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// By which batches that are sent again are known.
    pub(crate) fn producers(&self) -> &Producers {
        &self.producers
    }

    /// The active file, and where it ends.
    pub(crate) fn place(&self) -> (u64, u64) {
        (self.file, self.end)
    }

    /// From now on the symbol file is put on the disk before a log file is rolled, so that a power cut can take
    /// only names that none but the messages of the last log file use, whatever the durability.
    pub fn sync_symbols(&mut self, symbols: &SymbolFile) {
        self.symbols = Some(symbols.handle());
    }

    /// What the log was opened with.
    pub fn options(&self) -> &LogOptions {
        &self.options
    }

    /// Sets [`LogOptions::file_bytes_max`] for the batches to come.
    pub fn set_file_bytes_max(&mut self, bytes: u64) {
        self.options.file_bytes_max = bytes;
    }

    /// Numbers the messages of a batch, writes it, makes it as durable as the log promises and shows it to
    /// readers. Only `first_sequence` and the header's checksum change in `batch`. Returns the sequence
    /// numbers.
    ///
    /// On [`LogError::Full`] and [`LogError::Io`] nothing was appended and the writer can go on; on
    /// [`LogError::Poisoned`] it must be opened anew.
    pub fn append(&mut self, batch: &mut [u8]) -> Result<Range<u64>, LogError> {
        let sequences = self.write(batch)?;
        match self.options.durability {
            Durability::Transient | Durability::Async => self.publish(),
            Durability::Sync => self.sync()?,
        }
        Ok(sequences)
    }

    /// [`append`](Self::append) without the last step: the batch is written, but neither promised to survive
    /// nor visible to readers in this process until [`sync`](Self::sync). Several appends share one sync.
    pub fn append_no_sync(&mut self, batch: &mut [u8]) -> Result<Range<u64>, LogError> {
        self.write(batch)
    }

    /// Puts everything written on the disk and shows it to readers. A failure poisons the writer: after a
    /// failed sync the system may have dropped what it could not write.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.check_healthy()?;
        let sync = self.begin_sync();
        let synced = sync.run();
        self.end_sync(sync, synced)
    }

    /// Begins a sync of what is written by now; the writer may go on writing, but not roll, until it is ended.
    pub(crate) fn begin_sync(&mut self) -> PendingSync {
        PendingSync {
            file: Arc::clone(&self.active),
            granules: std::mem::take(&mut self.staged),
            end: self.end,
            next_sequence: self.next_sequence,
        }
    }

    /// Shows what the sync covered to readers, or gives up writing.
    pub(crate) fn end_sync(&mut self, sync: PendingSync, synced: io::Result<()>) -> Result<(), LogError> {
        synced.map_err(|error| self.poison("sync", &self.active_path(), error))?;
        self.log.publish(&sync.granules, sync.end, sync.next_sequence);
        Ok(())
    }

    /// Whether a batch of so many bytes goes into a new file.
    pub(crate) fn must_roll_for(&self, batch_bytes: usize) -> bool {
        let holds_batches = self.end > FILE_HEADER_BYTES;
        self.must_roll || (holds_batches && self.end + batch_bytes as u64 > self.options.file_limit())
    }

    pub(crate) fn check_healthy(&self) -> Result<(), LogError> {
        match &self.poisoned {
            Some(cause) => Err(LogError::Poisoned { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Begins a new file if the active one has batches; returns whether it has. What was written is then as durable as
    /// the log promises, and readers see it. No sync may be pending.
    pub(crate) fn begin_file(&mut self) -> Result<bool, LogError> {
        self.check_healthy()?;
        // Or had some when the log was closed.
        let held_batches = self.end > FILE_HEADER_BYTES || self.next_sequence > self.file;
        if held_batches {
            self.roll()?;
        }
        Ok(held_batches)
    }

    /// Puts down where the log ends, so that damage to its end is known for what it is when it is opened next
    /// (`end.rs`), and takes the room away that is left at the end of the active file. To be called when nothing more will be
    /// appended, by who knows that no other writer has the directory; what was written is not synced by it.
    ///
    /// # Errors
    /// What the system refuses. Nothing is lost by it.
    pub fn close(&mut self) -> Result<(), LogError> {
        if self.poisoned.is_none() && !self.staged.is_empty() {
            self.sync()?;
        }
        let is_known =
            self.options.durability != Durability::Transient && self.poisoned.is_none() && !self.must_roll;
        let (file, offset, next_sequence, salt) = (self.file, self.end, self.next_sequence, self.salt);
        let noted = Noted::End(End { file, offset, next_sequence, salt });
        if !is_known {
            return Ok(());
        }
        self.give_room_back();
        if let Noted::End(end) = noted
            && noted != self.noted
        {
            end.write(&self.log.dir)?;
            self.noted = noted;
        }
        Ok(())
    }

    /// Writes nothing more.
    pub(crate) fn give_up(&mut self, cause: String) {
        self.poisoned.get_or_insert(cause);
    }

    /// Gives the next message a later number, in a new file; see [`Hold::skip_to`](crate::Hold::skip_to).
    pub(crate) fn skip_to(&mut self, next_sequence: u64) {
        debug_assert!(self.end == FILE_HEADER_BYTES && self.staged.is_empty());
        self.next_sequence = self.next_sequence.max(next_sequence);
        // What cannot be made is made when the next batch is written, for a file must be rolled until it is.
        self.must_roll = true;
        if self.poisoned.is_none() && self.roll().is_ok() {
            // One that cannot be removed is when the log is opened next.
            let _ = self.log.trim(self.next_sequence);
        }
        self.log.publish(&[], self.end, self.next_sequence);
    }

    fn on(
        log: Log,
        options: LogOptions,
        opened: OpenFile,
        (producers, noted, salt): (Producers, Noted, u64),
    ) -> Self {
        let next_sequence = log.next_sequence();
        Self {
            log: Arc::new(log),
            options,
            active: opened.handle,
            file: opened.file,
            marks: opened.marks,
            end: opened.end,
            room_end: opened.end,
            next_sequence,
            staged: Vec::new(),
            must_roll: opened.is_full,
            salt,
            noted,
            producers,
            symbols: None,
            poisoned: None,
        }
    }

    /// Writes a batch and stages it for readers.
    fn write(&mut self, batch: &mut [u8]) -> Result<Range<u64>, LogError> {
        self.check_healthy()?;
        let header = self.numbered(batch)?;
        if self.must_roll_for(batch.len()) {
            self.roll()?;
        }
        batch::assign_mark(batch, self.marks.at(self.end).unwrap_or(batch::MAGIC));
        let written = self.active.write_at(batch, self.end);
        // The caller's batch has its magic, whatever lies in the file.
        batch::assign_mark(batch, batch::MAGIC);
        if let Err(error) = written {
            return Err(self.take_back(error));
        }
        granule::extend(&mut self.staged, Granule::of(self.file, self.end, &header));
        self.producers.note(&header);
        self.end += batch.len() as u64;
        self.next_sequence = header.next_sequence();
        self.keep_room();
        Ok(header.sequences())
    }

    /// Asks for room before what there is runs out: as much as the file has already, up to a limit, so that one that
    /// hardly grows stays small.
    fn keep_room(&mut self) {
        let step = self.end.min(ROOM_BYTES_MAX);
        if step < ROOM_BYTES_MIN || self.room_end > self.end + step / 2 {
            return;
        }
        let from = self.room_end.max(self.end);
        let to = (from + step).min(self.options.file_limit());
        if to > from {
            self.active.reserve(from..to, self.options.durability == Durability::Async);
            self.room_end = to;
        }
    }

    /// Takes the room away that was asked for. If that fails, the file keeps zeros at its end, which are known for what they
    /// are.
    fn give_room_back(&mut self) {
        if self.room_end > self.end {
            let _ = self.active.truncate(self.end);
        }
        self.room_end = self.end;
    }

    /// Checks the batch's header and gives it its sequence numbers.
    fn numbered(&self, batch: &mut [u8]) -> Result<BatchHeader, LogError> {
        let mut header = BatchHeader::parse(batch).map_err(LogError::Batch)?;
        let (need, have) = (header.batch_bytes(), batch.len());
        if have < need {
            return Err(LogError::Batch(BatchError::Truncated { offset: 0, need, have }));
        }
        if have > need {
            return Err(LogError::Batch(BatchError::Trailing { offset: need, have: have - need }));
        }
        if self.next_sequence.checked_add(header.count.into()).is_none() {
            return Err(LogError::SequencesExhausted);
        }
        header.first_sequence = self.next_sequence;
        batch::assign_sequence(batch, self.next_sequence).map_err(LogError::Batch)?;
        Ok(header)
    }

    fn publish(&mut self) {
        self.log.publish(&self.staged, self.end, self.next_sequence);
        self.staged.clear();
    }

    /// Takes a failed write back, so that the file ends with the last whole batch again.
    fn take_back(&mut self, error: io::Error) -> LogError {
        self.room_end = self.end;
        match self.active.truncate(self.end) {
            Ok(()) => LogError::io("write", &self.log.dir.log_path(self.file), error),
            Err(second) => {
                let error =
                    io::Error::new(error.kind(), format!("{error}, and taking it back failed: {second}"));
                self.poison("write", &self.active_path(), error)
            }
        }
    }

    /// Goes on in a new file. The new file comes first: if it cannot be made, the old one stays as it is.
    fn roll(&mut self) -> Result<(), LogError> {
        // Before it is synced: the file stays as it is then.
        self.give_room_back();
        if !self.staged.is_empty() || self.options.durability == Durability::Sync {
            self.sync()?;
        }
        let sync = self.options.durability == Durability::Sync;
        if let Some((path, symbols)) = self.symbols.clone() {
            symbols.sync_data().map_err(|error| self.poison("sync", &path, error))?;
        }
        if self.options.durability != Durability::Transient {
            self.producers.write(&self.log.dir)?;
        }
        self.must_roll = true;
        let opened = create_file(&self.log.dir, (self.next_sequence, self.salt), sync)?;
        self.must_roll = false;
        let granules = self.log.active_granules();
        let salt = (self.marks != Marks::Magic).then_some(self.salt);
        // One that cannot be written is made anew when the log is opened next, which says so.
        let _ = self.log.dir.write_index((self.file, salt), self.end, &granules, sync);
        self.log.start_file(opened.file);
        (self.active, self.file, self.end) = (opened.handle, opened.file, opened.end);
        self.marks = opened.marks;
        self.room_end = self.end;
        // A file that cannot be removed is forgotten, and tried again when the log is opened next.
        let _ = self.options.bytes_max.map(|bytes| self.log.trim_to(bytes));
        Ok(())
    }

    fn active_path(&self) -> PathBuf {
        self.log.dir.log_path(self.file)
    }

    fn poison(&mut self, operation: &'static str, path: &Path, error: io::Error) -> LogError {
        let cause = format!("{operation} of {}: {error}", path.display());
        self.poisoned = Some(cause.clone());
        LogError::Poisoned { cause }
    }
}

/// A sync under way: the file, and what readers may see once it is on the disk.
pub(crate) struct PendingSync {
    file: Arc<dyn StorageFile>,
    granules: Vec<Granule>,
    end: u64,
    next_sequence: u64,
}

impl PendingSync {
    /// Syncs. After a failure another try would prove nothing: the system may have dropped what it could not write.
    pub(crate) fn run(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// The file to append to.
struct OpenFile {
    handle: Arc<dyn StorageFile>,
    file: u64,
    marks: Marks,
    end: u64,
    /// It takes no more batches: the next one goes into a new file.
    is_full: bool,
}

/// Makes the directory if it is not there; synced, so that a power cut does not take it with all that is in it.
fn make_dir(storage: &dyn Storage, dir: &Path, sync: bool) -> io::Result<()> {
    let mut missing = Vec::new();
    for path in dir.ancestors().filter(|path| !path.as_os_str().is_empty()) {
        if storage.kind(path)?.is_some() {
            break;
        }
        missing.push(path);
    }
    storage.create_dir_all(dir)?;
    let parents = missing.iter().rev().filter(|_| sync).filter_map(|made| made.parent());
    parents.into_iter().try_for_each(|parent| {
        let is_here = parent.as_os_str().is_empty();
        storage.sync_dir(if is_here { Path::new(".") } else { parent })
    })
}

fn open_first(log: &Log, options: &LogOptions, salt: u64) -> Result<OpenFile, LogError> {
    let opened = create_file(&log.dir, (log.next_sequence(), salt), options.durability == Durability::Sync)?;
    log.start_file(opened.file);
    Ok(opened)
}

/// Makes a log file with its header. One of that name holds no batch: an earlier attempt left it.
fn create_file(dir: &LogDir, (file, salt): (u64, u64), sync: bool) -> Result<OpenFile, LogError> {
    let path = dir.log_path(file);
    let created = match dir.storage.create_new(&path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => dir.storage.open_write(&path),
        created => created,
    };
    let handle = created.map_err(|e| LogError::io("create", &path, e))?;
    let made = write_header(dir, &*handle, (file, salt))
        .and_then(|()| if sync { sync_new(dir, &*handle) } else { Ok(()) });
    if let Err(error) = made {
        // Left over it is taken for what it is: a file without batches.
        let _ = dir.storage.remove(&path);
        return Err(LogError::io("create", &path, error));
    }
    let marks = Marks::salted(salt, file);
    Ok(OpenFile { handle, file, marks, end: FILE_HEADER_BYTES, is_full: false })
}

fn write_header(dir: &LogDir, handle: &dyn StorageFile, (file, salt): (u64, u64)) -> io::Result<()> {
    // See `Storage::write`: closing the file would keep whoever appends waiting for the disk.
    if handle.len()? > 0 {
        handle.truncate(0)?;
    }
    let header = FileHeader::new(dir.stream_id, dir.space, file).salted(salt);
    handle.write_at(&header.bytes(FileKind::Log), 0)
}

fn sync_new(dir: &LogDir, handle: &dyn StorageFile) -> io::Result<()> {
    handle.sync_data()?;
    dir.storage.sync_dir(&dir.path)
}

/// Takes in all files but the last; writes the indexes they lack.
fn recover_older(
    log: &Log,
    older: &[u64],
    options: &LogOptions,
    (recovery, producers): (&mut Recovery, &mut Producers),
) -> Result<(), LogError> {
    for &file in older {
        let mut loaded = log.dir.load(file, log.next_expected(file), true)?;
        take_room_away(log, &mut loaded);
        log.take_file(&loaded, false, recovery);
        producers.extend(&loaded.scan.producers);
        if !loaded.by_index {
            // Without it the next open scans again; nothing else is lost.
            let sync = options.durability == Durability::Sync;
            let salt = loaded.scan.header.filter(FileHeader::is_salted).map(|header| header.salt);
            let _ = log.dir.write_index((file, salt), loaded.bytes, &loaded.scan.granules, sync);
        }
    }
    Ok(())
}

/// Cuts the room off a file that nobody appends to any more: its writer has died before it could. If that fails, it stays
/// and costs a scan whenever the log is opened.
fn take_room_away(log: &Log, loaded: &mut LoadedFile) {
    let end = loaded.bytes - loaded.scan.room;
    if loaded.scan.room > 0
        && let Ok(handle) = log.dir.storage.open_write(&log.dir.log_path(loaded.file))
        && handle.truncate(end).is_ok()
    {
        (loaded.bytes, loaded.scan.room) = (end, 0);
    }
}

/// Takes in the last file, cuts what was not finished at its end, and opens it for appending. In a synced log what
/// the file holds, and its name, may be in the system's hands alone: readers are shown it only from the disk.
fn recover_last(
    log: &Log,
    file: u64,
    (options, salt, noted): (&LogOptions, u64, Noted),
    (recovery, producers): (&mut Recovery, &mut Producers),
) -> Result<OpenFile, LogError> {
    let path = log.dir.log_path(file);
    let mut loaded = log.dir.load(file, log.next_expected(file), false)?;
    producers.extend(&loaded.scan.producers);
    if log.is_before_start(&loaded) {
        // The new one first: for readers in other processes a log is never without files.
        log.miss(noted, recovery);
        let opened = open_first(log, options, salt)?;
        log.dir.remove_log(file)?;
        return Ok(opened);
    }
    let handle = log.dir.storage.open_write(&path).map_err(|e| LogError::io("open", &path, e))?;
    let is_missed = noted.end().is_some_and(|end| end.next_sequence > loaded.scan.next_sequence);
    if !is_missed {
        let cut = cut_tail(&log.dir, &*handle, (&mut loaded, salt), recovery);
        cut.map_err(|e| LogError::io("cut", &path, e))?;
    }
    if options.durability == Durability::Sync {
        let proven = noted.end().filter(|end| end.file == file).map_or(0, |end| end.offset);
        write_anew(&*handle, proven..loaded.scan.end).map_err(|e| LogError::io("write", &path, e))?;
        sync_new(&log.dir, &*handle).map_err(|e| LogError::io("sync", &path, e))?;
    }
    log.take_file(&loaded, true, recovery);
    let missed = log.miss(noted, recovery);
    // What is damaged at the end stays, and so does a file of version 1: what comes next is in a new file.
    let marks = Marks::salted(salt, file);
    let is_full = missed || loaded.scan.header.is_none_or(|header| Marks::of(&header) != marks);
    let end = if missed { loaded.bytes } else { loaded.scan.end };
    Ok(OpenFile { handle, file, marks, end, is_full })
}

/// Writes a part of a file once more, as it is. After a failed sync the system may have given up what it could not write: it is read
/// back, and another sync says that all is well. What is written again is synced.
fn write_anew(handle: &dyn StorageFile, range: Range<u64>) -> io::Result<()> {
    let (mut at, mut piece) = (range.start, Vec::new());
    while at < range.end {
        read_into(handle, &mut piece, at, (range.end - at).min(PIECE_BYTES) as usize)?;
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        handle.write_at(&piece, at)?;
        at += piece.len() as u64;
    }
    Ok(())
}

fn cut_tail(
    dir: &LogDir,
    handle: &dyn StorageFile,
    (loaded, salt): (&mut LoadedFile, u64),
    recovery: &mut Recovery,
) -> io::Result<()> {
    let (file, scan, bytes) = (loaded.file, &mut loaded.scan, loaded.bytes);
    let is_whole = scan.header.is_some_and(|header| header.is_salted());
    if !is_whole && scan.granules.is_empty() {
        // Died while making the file, or of version 1. There is nothing in it to lose.
        write_header(dir, handle, (file, salt))?;
        let was_whole = scan.header.is_some() && scan.tail.is_none();
        scan.end = FILE_HEADER_BYTES;
        if bytes > 0 && !was_whole {
            let reason =
                scan.tail.filter(|_| scan.header.is_some()).map_or(Reason::FileHeader, Reason::Batch);
            recovery.cut.push(Cut { file, offset: 0, bytes, reason });
        }
        scan.header = Some(FileHeader::new(dir.stream_id, dir.space, file).salted(salt));
    } else if let Some(error) = scan.tail {
        handle.truncate(scan.end)?;
        recovery.cut.push(Cut {
            file,
            offset: scan.end,
            bytes: bytes - scan.room - scan.end,
            reason: Reason::Batch(error),
        });
    } else {
        return if scan.room > 0 { handle.truncate(scan.end) } else { Ok(()) };
    }
    handle.sync_data()
}
