//! The symbol file of a stream: append-only names, whose order gives their ids. A second entry with the same id renames
//! the symbol.

use crate::dictionary::{Dictionary, MAX_SYMBOL_BYTES, MAX_SYMBOLS};
use crate::error::LogError;
use crate::format::{FILE_HEADER_BYTES, FileHeader, FileKind};
use crate::options::Durability;
use crate::storage::{Storage, StorageFile, read_into};
use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};
use tapedb_codec::bytes::{crc32c, put, u16_at, u32_at};

/// The newest format version of symbol files.
const VERSION: u16 = 1;

/// Bytes of an entry before the name: checksum, id and length.
const ENTRY_HEAD: usize = 10;
/// Bytes of the shortest entry: it bounds how many names can be lost in damaged bytes.
const ENTRY_MIN: usize = ENTRY_HEAD + 1;
/// Most bytes of a symbol file.
const FILE_MAX: u64 = FILE_HEADER_BYTES + (MAX_SYMBOLS * (ENTRY_HEAD + MAX_SYMBOL_BYTES)) as u64;
/// Most ids that are reserved for the names in a damaged end.
const RESERVED_MAX: usize = 65_536;

/// What opening a symbol file found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SymbolRecovery {
    /// Symbols, the damaged ones included.
    pub symbols: u32,
    /// Bytes of an unfinished append cut off the end (writers only).
    pub cut_bytes: u64,
    /// Bytes at the end that are not an unfinished append but damage, left in place (writers only). Their names are lost:
    /// as many ids as they can have held, 65,536 at most, are in `damaged`.
    pub kept_bytes: u64,
    /// Ids whose names are damaged, rising; their names are now `?<id>`.
    pub damaged: Vec<u32>,
    /// Where the damage is, in order: one for each run of bad bytes before the last name that can be read.
    pub places: Vec<SymbolDamage>,
    /// Whether the file's own header is damaged. Each name after it has its own checksum.
    pub is_header_damaged: bool,
}

/// Bytes of a symbol file that are no entries, and the names lost with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolDamage {
    /// Where the damage begins in the file.
    pub offset: u64,
    /// Damaged bytes.
    pub bytes: u64,
    /// The ids whose names are lost; empty when none is.
    pub ids: Range<u32>,
}

/// Bytes at the end of a symbol file that are not an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolTail {
    /// Where they begin in the file.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// Whether they are the beginning of the next entry: an append that is under way, or was never finished and is cut
    /// by the next writer. Else they are damage.
    pub is_unfinished: bool,
}

impl fmt::Display for SymbolRecovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} symbols", self.symbols)?;
        if self.cut_bytes > 0 {
            write!(f, "; cut {} bytes of an unfinished append", self.cut_bytes)?;
        }
        if self.kept_bytes > 0 {
            write!(f, "; the last {} bytes are damaged and stay", self.kept_bytes)?;
        }
        if let (Some(first), Some(last)) = (self.damaged.first(), self.damaged.last()) {
            let names = self.damaged.len();
            write!(f, "; {names} names of ids {first} to {last} are damaged and read as ?id")?;
        }
        Ok(())
    }
}

/// The symbol file of a stream, open for writing or reading, and the dictionary it fills.
///
/// Always true: the dictionary holds the names of the bytes before `end`; a writer's file ends there. If that is in doubt, or a
/// sync has failed, the writer is poisoned.
pub struct SymbolFile {
    file: Arc<dyn StorageFile>,
    path: PathBuf,
    /// The syncs of the file.
    syncs: Arc<SymbolSync>,
    dictionary: Arc<Dictionary>,
    end: u64,
    /// How many names the damaged bytes before `end` may have held that no entry has proved lost.
    missing_max: usize,
    /// `None` when open for reading.
    durability: Option<Durability>,
}

/// The syncs of a symbol file, which the writers of all spaces ask for, too.
///
/// Always true: one sync runs at a time, and none after one that failed: the system reports an error once, and the next sync
/// succeeds without the bytes that it could not write.
pub(crate) struct SymbolSync {
    file: Arc<dyn StorageFile>,
    path: PathBuf,
    /// Why nothing more is written.
    poisoned: Mutex<Option<String>>,
}

impl SymbolSync {
    /// Syncs everything appended so far.
    ///
    /// # Errors
    /// Why this sync failed, or what has failed before it.
    pub(crate) fn run(&self) -> Result<(), String> {
        let mut poisoned = self.poisoned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cause) = &*poisoned {
            return Err(cause.clone());
        }
        self.file.sync_data().map_err(|error| poisoned.insert(self.cause("sync", &error)).clone())
    }

    fn check(&self) -> Result<(), LogError> {
        let poisoned = self.poisoned.lock().unwrap_or_else(PoisonError::into_inner);
        poisoned.clone().map_or(Ok(()), |cause| Err(LogError::Poisoned { cause }))
    }

    fn poison(&self, operation: &str, error: &io::Error) -> LogError {
        let cause = self.cause(operation, error);
        let mut poisoned = self.poisoned.lock().unwrap_or_else(PoisonError::into_inner);
        poisoned.get_or_insert_with(|| cause.clone());
        LogError::Poisoned { cause }
    }

    fn cause(&self, operation: &str, error: &io::Error) -> String {
        format!("{operation} of {}: {error}", self.path.display())
    }
}

impl fmt::Debug for SymbolSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SymbolSync({})", self.path.display())
    }
}

impl fmt::Debug for SymbolFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SymbolFile({}, {} symbols)", self.path.display(), self.dictionary.len())
    }
}

impl SymbolFile {
    /// Opens the file for writing; creates it if it does not exist. An unfinished append at its end is cut off; any other
    /// bad end is damage, which stays, and new names come after it.
    pub fn open_rw(
        storage: &dyn Storage,
        path: &Path,
        stream_id: u64,
        durability: Durability,
    ) -> Result<(Self, SymbolRecovery), LogError> {
        let file = match storage.open_write(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => storage.create_new(path),
            opened => opened,
        };
        let file = file.map_err(|e| LogError::io("open", path, e))?;
        let mut content = read_all(&*file, path, 0)?;
        if is_unfinished_header(&content) {
            write_header(storage, &*file, path, stream_id).map_err(|e| LogError::io("create", path, e))?;
            content = read_all(&*file, path, 0)?;
        }
        check_header(&content, path, stream_id)?;
        let mut symbols = Self::on(file, path, Some(durability));
        let mut recovery = symbols.add_entries(&content[FILE_HEADER_BYTES as usize..]);
        recovery.is_header_damaged = FileHeader::parse(FileKind::Symbols, &content).is_none();
        let tail = &content[symbols.end as usize..];
        if is_unfinished(tail, symbols.dictionary.len()) {
            recovery.cut_bytes = tail.len() as u64;
            let cut = symbols.file.truncate(symbols.end).and_then(|()| symbols.file.sync_data());
            cut.map_err(|e| LogError::io("cut", path, e))?;
        } else {
            symbols.skip_damaged_end(tail.len(), &mut recovery);
        }
        if durability == Durability::Sync || symbols.dictionary.renames() > 0 {
            // The names must be on the disk before the batches that use them. A new name whose sync has not returned is read from now
            // on: a power cut must not bring the old one back.
            let names = &content[..symbols.end as usize];
            rewrite(&*symbols.file, names).map_err(|e| LogError::io("write", path, e))?;
            sync_all(storage, &*symbols.file, path).map_err(|e| LogError::io("sync", path, e))?;
        }
        Ok((symbols, recovery))
    }

    /// Opens the file for reading, while a writer in another process may be appending.
    pub fn open_read(
        storage: &dyn Storage,
        path: &Path,
        stream_id: u64,
    ) -> Result<(Self, SymbolRecovery), LogError> {
        let file = storage.open_read(path).map_err(|e| LogError::io("open", path, e))?;
        let content = read_all(&*file, path, 0)?;
        let mut symbols = Self::on(file, path, None);
        if is_unfinished_header(&content) {
            // It is not being created either: it is whole before its stream gets its name.
            return Ok((symbols, SymbolRecovery { is_header_damaged: true, ..SymbolRecovery::default() }));
        }
        check_header(&content, path, stream_id)?;
        let mut recovery = symbols.add_entries(&content[FILE_HEADER_BYTES as usize..]);
        recovery.is_header_damaged = FileHeader::parse(FileKind::Symbols, &content).is_none();
        Ok((symbols, recovery))
    }

    /// The symbols in memory, shared with readers.
    pub fn dictionary(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }

    /// Syncs everything appended so far, at any durability.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] when it fails, and ever after.
    pub fn sync(&self) -> Result<(), LogError> {
        self.syncs.run().map_err(|cause| LogError::Poisoned { cause })
    }

    /// The syncs of the file, for the writers of the batches.
    pub(crate) fn sync_handle(&self) -> Arc<SymbolSync> {
        Arc::clone(&self.syncs)
    }

    /// Adds new symbols in one write, as durable as the stream; call it before appending the batches that use
    /// them. Returns their ids. On error none is added.
    pub fn append(&mut self, names: &[&str]) -> Result<Range<u32>, LogError> {
        let durability = self.check_writable()?;
        let first = self.check_new(names)?;
        let entries = encode(first, names);
        self.file.write_at(&entries, self.end).map_err(|e| self.undo_write("write", e))?;
        if durability == Durability::Sync && !names.is_empty() {
            self.sync()?;
        }
        self.end += entries.len() as u64;
        self.dictionary.extend(names.iter().copied());
        Ok(first..first + names.len() as u32)
    }

    /// Renames a symbol, in one write that is synced when this returns, at any durability. On error it has the old name,
    /// except for [`LogError::Poisoned`]: then it may have either at the next opening, and keeps that one.
    ///
    /// # Errors
    /// When the name is empty, too long, or another symbol's; there is no such symbol; what the system refuses.
    pub fn rename(&mut self, id: u32, name: &str) -> Result<(), LogError> {
        self.check_writable()?;
        if id >= self.dictionary.len() {
            let (path, what) = (self.path.clone(), "it has no symbol of that id");
            return Err(LogError::Unreadable { path, what });
        }
        self.check_names(&[name])?;
        let entry = encode(id, &[name]);
        if self.end + entry.len() as u64 > FILE_MAX {
            return Err(LogError::TooManySymbols);
        }
        self.file.write_at(&entry, self.end).map_err(|e| self.undo_write("write", e))?;
        self.sync()?;
        self.end += entry.len() as u64;
        self.dictionary.rename(id, name);
        Ok(())
    }

    /// Reads what a writer in another process has added. Returns whether there was anything.
    pub fn refresh(&mut self) -> Result<bool, LogError> {
        if self.durability.is_some() {
            return Ok(false);
        }
        let before = self.end;
        let content = read_all(&*self.file, &self.path, self.end)?;
        self.add_entries(&content);
        Ok(self.end > before)
    }

    /// Reads what a writer in another process has added, and returns the bytes after the last entry, if there are any; for
    /// files open for reading.
    pub fn tail(&mut self) -> Result<Option<SymbolTail>, LogError> {
        let content = read_all(&*self.file, &self.path, self.end)?;
        let start = self.end;
        self.add_entries(&content);
        let tail = &content[(self.end - start) as usize..];
        let is_unfinished = is_unfinished(tail, self.dictionary.len());
        let (offset, bytes) = (self.end, tail.len() as u64);
        Ok((bytes > 0).then_some(SymbolTail { offset, bytes, is_unfinished }))
    }

    fn on(file: Arc<dyn StorageFile>, path: &Path, durability: Option<Durability>) -> Self {
        let path = path.to_path_buf();
        let syncs =
            Arc::new(SymbolSync { file: Arc::clone(&file), path: path.clone(), poisoned: Mutex::default() });
        let (dictionary, end) = (Arc::default(), FILE_HEADER_BYTES);
        Self { file, path, syncs, dictionary, end, missing_max: 0, durability }
    }

    /// Adds the entries in `content`, which begins at `end`, to the dictionary.
    fn add_entries(&mut self, content: &[u8]) -> SymbolRecovery {
        let mut recovery = SymbolRecovery::default();
        let mut at = 0;
        while at < content.len() {
            let id = self.dictionary.len();
            let Some((start, found, name)) = next_entry(content, at, id, self.missing_max) else { break };
            if start > at {
                let (offset, bytes) = (self.end + at as u64, (start - at) as u64);
                recovery.places.push(SymbolDamage { offset, bytes, ids: id..id });
                self.missing_max += (start - at).div_ceil(ENTRY_MIN);
            }
            at = start + ENTRY_HEAD + name.len();
            if found < id {
                self.dictionary.rename(found, name);
                continue;
            }
            if found > id {
                self.missing_max -= (found - id) as usize;
                // The names before this id are lost with the last damaged bytes.
                if let Some(place) = recovery.places.last_mut() {
                    place.ids = if place.ids.is_empty() { id..found } else { place.ids.start..found };
                }
            }
            self.lose(id..found, &mut recovery);
            self.dictionary.extend([name]);
        }
        self.end += at as u64;
        recovery.symbols = self.dictionary.len();
        recovery
    }

    /// Continues after a damaged end. No new name may get an id of a name in it.
    fn skip_damaged_end(&mut self, bytes: usize, recovery: &mut SymbolRecovery) {
        let first = self.dictionary.len();
        let reserved = bytes.div_ceil(ENTRY_MIN).min(RESERVED_MAX).min(MAX_SYMBOLS - first as usize);
        self.lose(first..first + reserved as u32, recovery);
        self.end += bytes as u64;
        recovery.kept_bytes = bytes as u64;
        recovery.symbols = self.dictionary.len();
    }

    /// Names the ids whose names are lost.
    fn lose(&self, ids: Range<u32>, recovery: &mut SymbolRecovery) {
        for id in ids {
            self.dictionary.extend([format!("?{id}").as_str()]);
            recovery.damaged.push(id);
        }
    }

    fn check_writable(&self) -> Result<Durability, LogError> {
        let Some(durability) = self.durability else {
            let (path, what) = (self.path.clone(), "the file is open for reading only");
            return Err(LogError::Unreadable { path, what });
        };
        self.syncs.check().map(|()| durability)
    }

    fn check_new(&self, names: &[&str]) -> Result<u32, LogError> {
        let first = self.dictionary.len();
        if first as usize + names.len() > MAX_SYMBOLS {
            return Err(LogError::TooManySymbols);
        }
        self.check_names(names)?;
        Ok(first)
    }

    fn check_names(&self, names: &[&str]) -> Result<(), LogError> {
        let mut seen = HashSet::new();
        for &name in names {
            if name.is_empty() || name.len() > MAX_SYMBOL_BYTES {
                return Err(LogError::SymbolLength { bytes: name.len() });
            }
            if self.dictionary.id(name).is_some() || !seen.insert(name) {
                return Err(LogError::SymbolExists { name: name.to_owned() });
            }
        }
        Ok(())
    }

    /// Undoes a failed write, on the disk too: a power cut must not give an id to a name that was refused, for another name
    /// may get it.
    fn undo_write(&self, operation: &'static str, error: io::Error) -> LogError {
        if self.file.truncate(self.end).is_err() {
            return self.syncs.poison(operation, &error);
        }
        self.sync().err().unwrap_or_else(|| LogError::io(operation, &self.path, error))
    }
}

fn encode(first: u32, names: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for (id, name) in (first..).zip(names) {
        let mut entry = [0; ENTRY_HEAD].to_vec();
        put(&mut entry, 4, &id.to_le_bytes());
        put(&mut entry, 8, &(name.len() as u16).to_le_bytes());
        entry.extend_from_slice(name.as_bytes());
        let checksum = crc32c(&entry[4..]);
        put(&mut entry, 0, &checksum.to_le_bytes());
        out.extend_from_slice(&entry);
    }
    out
}

/// The entry at `at`, or the next readable one: its offset, id and name. The id is at most `id`, the next new one, plus the
/// number of names that may be missing.
fn next_entry(content: &[u8], at: usize, id: u32, missing_max: usize) -> Option<(usize, u32, &str)> {
    (at..content.len()).find_map(|start| {
        let lost_max = missing_max + (start - at).div_ceil(ENTRY_MIN);
        let ids = 0..=(id as usize + lost_max).min(MAX_SYMBOLS - 1);
        let (found, name) = entry_at(content, start, &ids)?;
        Some((start, found, name))
    })
}

/// The entry at `at`, if it is whole and its id is one of `ids`.
fn entry_at<'a>(content: &'a [u8], at: usize, ids: &RangeInclusive<usize>) -> Option<(u32, &'a str)> {
    let head: [u8; ENTRY_HEAD] = *content.get(at..)?.first_chunk()?;
    let (id, len) = id_and_len(&head);
    if !ids.contains(&(id as usize)) || len == 0 || len > MAX_SYMBOL_BYTES {
        return None;
    }
    let covered = content.get(at + 4..at + ENTRY_HEAD + len)?;
    let name = str::from_utf8(&covered[ENTRY_HEAD - 4..]).ok()?;
    (crc32c(covered) == u32_at(&head, 0)).then_some((id, name))
}

fn id_and_len(head: &[u8; ENTRY_HEAD]) -> (u32, usize) {
    (u32_at(head, 4), usize::from(u16_at(head, 8)))
}

/// Whether bytes after the last readable entry are the first part of an entry, for `id` or for an existing symbol. A torn
/// append leaves nothing else: its earlier entries are whole.
fn is_unfinished(tail: &[u8], id: u32) -> bool {
    let Some(head) = tail.first_chunk() else { return !tail.is_empty() };
    let (found, len) = id_and_len(head);
    found <= id && (1..=MAX_SYMBOL_BYTES).contains(&len) && tail.len() < ENTRY_HEAD + len
}

fn read_all(file: &dyn StorageFile, path: &Path, from: u64) -> Result<Vec<u8>, LogError> {
    let mut content = Vec::new();
    let len = file.len().map_err(|e| LogError::io("size", path, e))?;
    if len > FILE_MAX {
        let what = "it is longer than 16 Mi names can be";
        return Err(LogError::Unreadable { path: path.to_path_buf(), what });
    }
    let read = read_into(file, &mut content, from, len.saturating_sub(from) as usize);
    read.map_err(|e| LogError::io("read", path, e))?;
    Ok(content)
}

/// True when the writer was killed while it created the file: then there are no names to lose.
fn is_unfinished_header(content: &[u8]) -> bool {
    let header = FileHeader::parse(FileKind::Symbols, content);
    header.is_none() && content.len() <= FILE_HEADER_BYTES as usize
}

fn write_header(
    storage: &dyn Storage,
    file: &dyn StorageFile,
    path: &Path,
    stream_id: u64,
) -> io::Result<()> {
    file.truncate(0)?;
    file.write_at(&FileHeader::new(stream_id, 0, 0).bytes(FileKind::Symbols), 0)?;
    sync_all(storage, file, path)
}

fn sync_all(storage: &dyn Storage, file: &dyn StorageFile, path: &Path) -> io::Result<()> {
    file.sync_data()?;
    path.parent().map_or(Ok(()), |dir| storage.sync_dir(dir))
}

/// Writes names again that can be read: after a failed sync they may be in memory only, and the next sync succeeds without
/// them. A full disk is no reason to refuse to open the file, where the file system writes what exists to new blocks.
fn rewrite(file: &dyn StorageFile, content: &[u8]) -> io::Result<()> {
    if content.len() <= FILE_HEADER_BYTES as usize {
        return Ok(());
    }
    match file.write_at(content, 0) {
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            Ok(())
        }
        written => written,
    }
}

/// A damaged header is accepted: the names after it have checksums of their own.
fn check_header(content: &[u8], path: &Path, stream_id: u64) -> Result<(), LogError> {
    let Some(header) = FileHeader::parse(FileKind::Symbols, content) else { return Ok(()) };
    let path = path.to_path_buf();
    if header.version > VERSION {
        return Err(LogError::Version { path, need: VERSION, have: header.version });
    }
    if header.stream_id != stream_id {
        return Err(LogError::Foreign { path, need: (stream_id, 0), have: (header.stream_id, header.space) });
    }
    Ok(())
}
