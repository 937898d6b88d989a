//! The write side of a log.

use crate::directory::{LogDir, logs_among, split_stale};
use crate::end::{End, EndRecord};
use crate::error::LogError;
use crate::format::FILE_HEADER_BYTES;
use crate::granule::{self, Granule};
use crate::log::Log;
use crate::marks::Marks;
use crate::options::{Durability, LogOptions};
use crate::producers::Producers;
use crate::recover::{OpenFile, create_file, make_dir, open_first, recover_last, recover_older};
use crate::report::Recovery;
use crate::salt::random_salt;
use crate::storage::{Storage, StorageFile};
use crate::symbols::{SymbolFile, SymbolSync};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};
use tapedb_codec::batch::{self, BatchError, BatchHeader};

/// A shorter file gets no preallocation.
const PREALLOCATION_BYTES_MIN: u64 = 256;

/// Largest step of preallocation; the next step is requested when less than half a step is left.
const PREALLOCATION_BYTES_MAX: u64 = 2 << 20;

/// Appends batches. There must be one per directory at a time, which the caller ensures (the engine locks the database).
///
/// Dropping it leaves preallocated space at the end of the active file: another writer may have the file already (of a
/// renamed stream, or in the process that has the lock now), and only opening and rolling exclude that.
///
/// Always true: the appended bytes of the active file end at `end`, followed by preallocated space; all bytes before are
/// whole batches or reported damage, and `next_sequence` comes next; `staged` has the batches that are not visible to
/// readers and not in a `PendingSync`. If any of that is in doubt, the writer is poisoned and does nothing more. A file is
/// rolled only when no sync is pending.
pub struct LogWriter {
    log: Arc<Log>,
    options: LogOptions,
    active: Arc<dyn StorageFile>,
    file: u64,
    /// The marks of the batches of the active file.
    marks: Marks,
    end: u64,
    /// End of the requested preallocation of the active file.
    preallocated_end: u64,
    next_sequence: u64,
    staged: Vec<Granule>,
    /// A roll failed half-way: the active file must not grow, because the next file may exist.
    must_roll: bool,
    /// The salt of all files of the log.
    salt: u64,
    /// The end record in the log's directory.
    recorded: EndRecord,
    /// The last batch of each producer.
    producers: Producers,
    /// The symbol file, which is synced before a log file is rolled.
    symbols: Option<Arc<SymbolSync>>,
    /// Whether a sync has failed: then no sync that ran at the same time proves anything.
    sync_failed: bool,
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
    /// Opens the log in `dir` for writing, creates it if it does not exist, and recovers it: an unfinished
    /// append at the end is cut off, damage in the middle stays and is reported.
    pub fn open(
        storage: Arc<dyn Storage>,
        dir: &Path,
        options: LogOptions,
    ) -> Result<(Self, Recovery), LogError> {
        let sync = options.durability == Durability::Sync;
        make_dir(&*storage, dir, sync).map_err(|e| LogError::io("create", dir, e))?;
        let LogOptions { stream_id, space, .. } = options;
        let dir = LogDir { storage, path: dir.to_path_buf(), stream_id, space };
        let names = dir.names()?;
        Self::open_in(dir, options, &names)
    }

    /// [`LogWriter::open`] in a directory that exists and whose files are known: it is not read again. Files of others, of which
    /// there may be very many, may be left out.
    ///
    /// # Errors
    /// When a file cannot be read or repaired, or is another stream's.
    pub fn open_among(
        storage: Arc<dyn Storage>,
        dir: &Path,
        options: LogOptions,
        names: &[String],
    ) -> Result<(Self, Recovery), LogError> {
        let LogOptions { stream_id, space, .. } = options;
        Self::open_in(LogDir { storage, path: dir.to_path_buf(), stream_id, space }, options, names)
    }

    fn open_in(dir: LogDir, options: LogOptions, names: &[String]) -> Result<(Self, Recovery), LogError> {
        let mut first_sequence = options.first_sequence;
        let recorded = EndRecord::read(&dir)?;
        let files = logs_among(names);
        let salt = recorded.end().map(|end| end.salt).or_else(|| dir.salt_among(&files));
        let salt = salt.unwrap_or_else(random_salt);
        if options.bytes_max.is_some() {
            first_sequence = files.first().map_or(first_sequence, |&file| file.max(first_sequence));
        }
        let log = Log::empty(dir, first_sequence, true);
        let mut recovery = Recovery::default();
        let (_, files) = split_stale(&files, first_sequence);
        log.dir.remove_left_over(files.first().copied().unwrap_or(first_sequence), names)?;
        let mut producers = Producers::read(&log.dir);
        let opened = match files.split_last() {
            None => {
                log.report_lost_end(recorded, &mut recovery);
                open_first(&log, &options, salt)?
            }
            Some((&last, older)) => {
                recover_older(&log, older, &options, (&mut recovery, &mut producers))?;
                recover_last(&log, last, (&options, salt, recorded), (&mut recovery, &mut producers))?
            }
        };
        producers.end_at(log.next_sequence());
        if let Some(bytes) = options.bytes_max {
            log.trim_to(bytes)?;
        }
        log.finish(&mut recovery);
        Ok((Self::on(log, options, opened, (producers, recorded, salt)), recovery))
    }

    /// The read side, updated by this writer.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Sequence number the next message gets.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// The last batch of each producer.
    pub(crate) fn producers(&self) -> &Producers {
        &self.producers
    }

    /// The active file, and its end.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.file, self.end)
    }

    /// From now on the symbol file is synced before a log file is rolled, at any durability, so that a power cut can take
    /// only names that no message before the last log file uses.
    pub fn sync_symbols(&mut self, symbols: &SymbolFile) {
        self.symbols = Some(symbols.sync_handle());
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
    /// On [`LogError::Full`] and [`LogError::Io`] nothing was appended and the writer can continue; on
    /// [`LogError::Poisoned`] the log must be opened again.
    pub fn append(&mut self, batch: &mut [u8]) -> Result<Range<u64>, LogError> {
        let sequences = self.write(batch)?;
        match self.options.durability {
            Durability::Transient | Durability::Async => self.publish(),
            Durability::Sync => self.sync()?,
        }
        Ok(sequences)
    }

    /// [`append`](Self::append) without the last step: the batch is written, but neither durable nor visible to readers in
    /// this process until [`sync`](Self::sync). Several appends share one sync.
    pub fn append_no_sync(&mut self, batch: &mut [u8]) -> Result<Range<u64>, LogError> {
        self.write(batch)
    }

    /// Syncs everything written and makes it visible to readers. A failure poisons the writer: after a failed sync the
    /// system may have dropped bytes that it could not write.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.check_healthy()?;
        let sync = self.begin_sync();
        let synced = sync.run();
        self.end_sync(sync, synced)
    }

    /// Begins a sync of what is written so far; until it is ended the writer may write, but not roll.
    pub(crate) fn begin_sync(&mut self) -> PendingSync {
        PendingSync {
            file: Arc::clone(&self.active),
            granules: std::mem::take(&mut self.staged),
            end: self.end,
            next_sequence: self.next_sequence,
        }
    }

    /// Makes what the sync covered visible to readers, or poisons the writer. Of two syncs of a file that run at the same
    /// time the system reports an error to one: the failure of the other is the failure of this one.
    pub(crate) fn end_sync(&mut self, sync: PendingSync, synced: io::Result<()>) -> Result<(), LogError> {
        synced.map_err(|error| self.fail_sync(error))?;
        if self.sync_failed {
            self.check_healthy()?;
        }
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
    /// the log promises, and visible. No sync may be pending.
    pub(crate) fn begin_file(&mut self) -> Result<bool, LogError> {
        self.check_healthy()?;
        // The second: it had batches when the log was closed.
        let held_batches = self.end > FILE_HEADER_BYTES || self.next_sequence > self.file;
        if held_batches {
            self.roll()?;
        }
        Ok(held_batches)
    }

    /// Records the end of the log, so that the next opening can tell damage at the end from an unfinished append
    /// (`end.rs`), and cuts preallocated space off the active file. Call it when nothing more will be appended and no other
    /// writer has the directory. It does not sync the batches.
    ///
    /// # Errors
    /// What the system refuses. Nothing is lost.
    pub fn close(&mut self) -> Result<(), LogError> {
        if self.poisoned.is_none() && !self.staged.is_empty() {
            self.sync()?;
        }
        let is_known =
            self.options.durability != Durability::Transient && self.poisoned.is_none() && !self.must_roll;
        let (file, offset, next_sequence, salt) = (self.file, self.end, self.next_sequence, self.salt);
        let record = EndRecord::End(End { file, offset, next_sequence, salt });
        if !is_known {
            return Ok(());
        }
        self.cut_preallocated();
        if let EndRecord::End(end) = record
            && record != self.recorded
        {
            end.write(&self.log.dir)?;
            self.recorded = record;
        }
        Ok(())
    }

    /// Writes nothing more.
    pub(crate) fn stop(&mut self, cause: String) {
        self.poisoned.get_or_insert(cause);
    }

    /// Gives the next message a later number, in a new file; see [`Hold::skip_to`](crate::Hold::skip_to).
    pub(crate) fn skip_to(&mut self, next_sequence: u64) {
        debug_assert!(self.end == FILE_HEADER_BYTES && self.staged.is_empty());
        self.next_sequence = self.next_sequence.max(next_sequence);
        // If the file cannot be created, the next write rolls again.
        self.must_roll = true;
        if self.poisoned.is_none() && self.roll().is_ok() {
            // A file that cannot be removed is removed at the next opening.
            let _ = self.log.trim(self.next_sequence);
        }
        self.log.publish(&[], self.end, self.next_sequence);
    }

    fn on(
        log: Log,
        options: LogOptions,
        opened: OpenFile,
        (producers, recorded, salt): (Producers, EndRecord, u64),
    ) -> Self {
        let next_sequence = log.next_sequence();
        Self {
            log: Arc::new(log),
            options,
            active: opened.handle,
            file: opened.file,
            marks: opened.marks,
            end: opened.end,
            preallocated_end: opened.end,
            next_sequence,
            staged: Vec::new(),
            must_roll: opened.is_full,
            salt,
            recorded,
            producers,
            symbols: None,
            sync_failed: false,
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
        // The caller's batch has the magic again; the file has the mark.
        batch::assign_mark(batch, batch::MAGIC);
        if let Err(error) = written {
            return Err(self.undo_write(error));
        }
        granule::extend(&mut self.staged, Granule::of(self.file, self.end, &header));
        self.producers.record(&header);
        self.end += batch.len() as u64;
        self.next_sequence = header.next_sequence();
        self.preallocate();
        Ok(header.sequences())
    }

    /// Requests preallocation before the present one is used up: as many bytes as the file has, up to a limit, so that a
    /// file that hardly grows stays small.
    fn preallocate(&mut self) {
        let step = self.end.min(PREALLOCATION_BYTES_MAX);
        if step < PREALLOCATION_BYTES_MIN || self.preallocated_end > self.end + step / 2 {
            return;
        }
        let from = self.preallocated_end.max(self.end);
        let to = (from + step).min(self.options.file_limit());
        if to > from {
            self.active.reserve(from..to, self.options.durability == Durability::Async);
            self.preallocated_end = to;
        }
    }

    /// Cuts preallocated space off. If that fails, zeros stay at the end of the file, which is valid.
    fn cut_preallocated(&mut self) {
        if self.preallocated_end > self.end {
            let _ = self.active.truncate(self.end);
        }
        self.preallocated_end = self.end;
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

    /// Undoes a failed write, so that the file ends with the last whole batch again, after a power cut too: the write may
    /// have reached the disk, as a whole. The sync runs under the lock, at any durability but that of memory, and maybe
    /// beside another one: see [`end_sync`](Self::end_sync).
    fn undo_write(&mut self, error: io::Error) -> LogError {
        self.preallocated_end = self.end;
        if let Err(second) = self.active.truncate(self.end) {
            let error = io::Error::new(error.kind(), format!("{error}, and undoing it failed: {second}"));
            return self.poison("write", &self.active_path(), error);
        }
        match self.active.sync_data() {
            Ok(()) => LogError::io("write", &self.active_path(), error),
            Err(second) => self.fail_sync(second),
        }
    }

    /// Continues in a new file. It is created first: if that fails, the old one stays as it is.
    fn roll(&mut self) -> Result<(), LogError> {
        // Before the sync, so that the size of the file is synced too.
        self.cut_preallocated();
        if !self.staged.is_empty() || self.options.durability == Durability::Sync {
            self.sync()?;
        }
        let sync = self.options.durability == Durability::Sync;
        if let Some(symbols) = self.symbols.clone() {
            symbols.run().map_err(|cause| self.poison_with(cause))?;
        }
        if self.options.durability != Durability::Transient {
            self.producers.write(&self.log.dir)?;
        }
        self.must_roll = true;
        let opened = create_file(&self.log.dir, (self.next_sequence, self.salt), sync)?;
        self.must_roll = false;
        let granules = self.log.active_granules();
        let salt = (self.marks != Marks::Magic).then_some(self.salt);
        // If it cannot be written, the next opening rebuilds and reports it.
        let _ = self.log.dir.write_index((self.file, salt), self.end, &granules, sync);
        self.log.start_file(opened.file);
        (self.active, self.file, self.end) = (opened.handle, opened.file, opened.end);
        self.marks = opened.marks;
        self.preallocated_end = self.end;
        // A file that cannot be removed leaves the index, and is removed at the next opening.
        let _ = self.options.bytes_max.map(|bytes| self.log.trim_to(bytes));
        Ok(())
    }

    fn active_path(&self) -> PathBuf {
        self.log.dir.log_path(self.file)
    }

    fn fail_sync(&mut self, error: io::Error) -> LogError {
        self.sync_failed = true;
        self.poison("sync", &self.active_path(), error)
    }

    fn poison(&mut self, operation: &'static str, path: &Path, error: io::Error) -> LogError {
        self.poison_with(format!("{operation} of {}: {error}", path.display()))
    }

    fn poison_with(&mut self, cause: String) -> LogError {
        self.poisoned = Some(cause.clone());
        LogError::Poisoned { cause }
    }
}

/// A running sync: the file, and what becomes visible to readers when it is done.
pub(crate) struct PendingSync {
    file: Arc<dyn StorageFile>,
    granules: Vec<Granule>,
    end: u64,
    next_sequence: u64,
}

impl PendingSync {
    /// Syncs. Trying again after a failure proves nothing: the system may have dropped bytes that it could not write.
    pub(crate) fn run(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Records the end of a log without a writer: the end of its last file, and the sequence number there. For a copy of a log;
/// [`LogWriter::close`] does it for others. Does nothing if no file of the log has a salt.
///
/// # Errors
/// What the system refuses.
pub fn record_end(
    storage: Arc<dyn Storage>,
    dir: &Path,
    (stream_id, space): (u64, u32),
    (file, offset, next_sequence): (u64, u64, u64),
) -> Result<(), LogError> {
    let dir = LogDir { storage, path: dir.to_path_buf(), stream_id, space };
    match dir.salt() {
        Some(salt) => End { file, offset, next_sequence, salt }.write(&dir),
        None => Ok(()),
    }
}
