//! The symbol file of a stream: append-only names, whose order gives their ids.

use crate::dictionary::Dictionary;
use crate::error::LogError;
use crate::format::{FILE_HEADER_BYTES, FileHeader, FileKind, VERSION, crc, take, u32_at};
use crate::storage::{Storage, StorageFile, read_into};
use crate::writer::Durability;
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

/// Longest symbol, in bytes.
pub const MAX_SYMBOL_BYTES: usize = 255;
/// Most symbols in one stream: 16 Mi.
pub const MAX_SYMBOLS: usize = 16 << 20;

/// Bytes of an entry before the name: checksum and length.
const ENTRY_HEAD: usize = 6;
/// Damaged entries in a row after which the names that follow cannot be given their ids any more.
const LOST_MAX: u32 = 64;

/// What opening a symbol file found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SymbolRecovery {
    /// Symbols, the damaged ones included.
    pub symbols: u32,
    /// Bytes of an unfinished append taken off the end (writers only).
    pub cut_bytes: u64,
    /// Ids whose names are damaged; they are called `?<id>`.
    pub damaged: Vec<u32>,
}

impl fmt::Display for SymbolRecovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} symbols", self.symbols)?;
        if self.cut_bytes > 0 {
            write!(f, "; cut {} bytes of an unfinished append", self.cut_bytes)?;
        }
        if !self.damaged.is_empty() {
            write!(f, "; the names of ids {:?} are damaged and read as ?id", self.damaged)?;
        }
        Ok(())
    }
}

/// The symbol file of a stream, open for writing or reading, and the dictionary it fills.
///
/// Always true: the dictionary holds the names of the bytes before `end`; a writer's file ends there.
pub struct SymbolFile {
    file: Arc<dyn StorageFile>,
    path: PathBuf,
    dictionary: Arc<Dictionary>,
    end: u64,
    /// `None` when open for reading.
    durability: Option<Durability>,
    poisoned: Option<String>,
}

impl fmt::Debug for SymbolFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SymbolFile({}, {} symbols)", self.path.display(), self.dictionary.len())
    }
}

impl SymbolFile {
    /// Opens the file for writing, making it when it is not there. An unfinished append at its end is cut
    /// off.
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
            make_header(storage, &*file, path, stream_id).map_err(|e| LogError::io("create", path, e))?;
            content = read_all(&*file, path, 0)?;
        }
        check_header(&content, path, stream_id)?;
        let mut symbols = Self::on(file, path, Some(durability));
        let mut recovery = symbols.take_in(&content[FILE_HEADER_BYTES as usize..]);
        recovery.cut_bytes = content.len() as u64 - symbols.end;
        if recovery.cut_bytes > 0 {
            let cut = symbols.file.truncate(symbols.end).and_then(|()| symbols.file.sync_data());
            cut.map_err(|e| LogError::io("cut", path, e))?;
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
            return Ok((symbols, SymbolRecovery::default()));
        }
        check_header(&content, path, stream_id)?;
        let recovery = symbols.take_in(&content[FILE_HEADER_BYTES as usize..]);
        Ok((symbols, recovery))
    }

    /// The symbols in memory, shared with whoever looks them up.
    pub fn dictionary(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }

    /// Adds new symbols in one write, as durable as the stream; call it before appending the batches that use
    /// them. Returns their ids. On error none of them is added.
    pub fn append(&mut self, names: &[&str]) -> Result<Range<u32>, LogError> {
        let Some(durability) = self.durability else {
            return Err(LogError::Unreadable {
                path: self.path.clone(),
                what: "the file is open for reading only",
            });
        };
        if let Some(cause) = &self.poisoned {
            return Err(LogError::Poisoned { cause: cause.clone() });
        }
        let first = self.check_new(names)?;
        let entries = encode(first, names);
        self.file.write_at(&entries, self.end).map_err(|e| self.take_back("write", e))?;
        if durability == Durability::Sync && !names.is_empty() {
            self.file.sync_data().map_err(|e| self.poison("sync", &e))?;
        }
        self.end += entries.len() as u64;
        self.dictionary.extend(names.iter().copied());
        Ok(first..first + names.len() as u32)
    }

    /// Takes in what a writer in another process has added. Returns whether there was anything.
    pub fn refresh(&mut self) -> Result<bool, LogError> {
        if self.durability.is_some() {
            return Ok(false);
        }
        let before = self.dictionary.len();
        let content = read_all(&*self.file, &self.path, self.end)?;
        self.take_in(&content);
        Ok(self.dictionary.len() > before)
    }

    fn on(file: Arc<dyn StorageFile>, path: &Path, durability: Option<Durability>) -> Self {
        let (path, dictionary) = (path.to_path_buf(), Arc::default());
        Self { file, path, dictionary, end: FILE_HEADER_BYTES, durability, poisoned: None }
    }

    /// Adds the entries in `content`, which begins at `end`, to the dictionary.
    fn take_in(&mut self, content: &[u8]) -> SymbolRecovery {
        let mut recovery = SymbolRecovery::default();
        let mut at = 0;
        while at < content.len() {
            let id = self.dictionary.len();
            let Some((start, found, name)) = next_entry(content, at, id) else { break };
            for lost in id..found {
                self.dictionary.extend([format!("?{lost}").as_str()]);
                recovery.damaged.push(lost);
            }
            self.dictionary.extend([name]);
            at = start + ENTRY_HEAD + name.len();
        }
        self.end += at as u64;
        recovery.symbols = self.dictionary.len();
        recovery
    }

    fn check_new(&self, names: &[&str]) -> Result<u32, LogError> {
        let first = self.dictionary.len();
        if first as usize + names.len() > MAX_SYMBOLS {
            return Err(LogError::TooManySymbols);
        }
        let mut seen = HashSet::new();
        for &name in names {
            if name.is_empty() || name.len() > MAX_SYMBOL_BYTES {
                return Err(LogError::SymbolLength { bytes: name.len() });
            }
            if self.dictionary.id(name).is_some() || !seen.insert(name) {
                return Err(LogError::SymbolExists { name: name.to_owned() });
            }
        }
        Ok(first)
    }

    fn take_back(&mut self, operation: &'static str, error: io::Error) -> LogError {
        match self.file.truncate(self.end) {
            Ok(()) => LogError::io(operation, &self.path, error),
            Err(_) => self.poison(operation, &error),
        }
    }

    fn poison(&mut self, operation: &'static str, error: &io::Error) -> LogError {
        let cause = format!("{operation} of {}: {error}", self.path.display());
        self.poisoned = Some(cause.clone());
        LogError::Poisoned { cause }
    }
}

fn encode(first: u32, names: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for (id, name) in (first..).zip(names) {
        out.extend_from_slice(&entry_crc(id, name.as_bytes()).to_le_bytes());
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        out.extend_from_slice(name.as_bytes());
    }
    out
}

/// The checksum covers the id, though it is not stored: so an entry proves its place.
fn entry_crc(id: u32, name: &[u8]) -> u32 {
    let mut covered = Vec::with_capacity(ENTRY_HEAD + name.len());
    covered.extend_from_slice(&id.to_le_bytes());
    covered.extend_from_slice(&(name.len() as u16).to_le_bytes());
    covered.extend_from_slice(name);
    crc(&covered)
}

/// The entry of `id` at `at`, or the next one that can be read: where it is, its id, its name.
fn next_entry(content: &[u8], at: usize, id: u32) -> Option<(usize, u32, &str)> {
    if let Some(name) = entry_at(content, at, id) {
        return Some((at, id, name));
    }
    (at + 1..content.len()).find_map(|start| {
        let mut later = id.saturating_add(1)..id.saturating_add(LOST_MAX);
        later.find_map(|id| entry_at(content, start, id).map(|name| (start, id, name)))
    })
}

fn entry_at(content: &[u8], at: usize, id: u32) -> Option<&str> {
    let head: [u8; ENTRY_HEAD] = *content.get(at..)?.first_chunk()?;
    let len = usize::from(u16::from_le_bytes(take(&head, 4)));
    if len == 0 || len > MAX_SYMBOL_BYTES || id as usize >= MAX_SYMBOLS {
        return None;
    }
    let name = content.get(at + ENTRY_HEAD..at + ENTRY_HEAD + len)?;
    (entry_crc(id, name) == u32_at(&head, 0)).then(|| str::from_utf8(name).ok())?
}

fn read_all(file: &dyn StorageFile, path: &Path, from: u64) -> Result<Vec<u8>, LogError> {
    let mut content = Vec::new();
    let len = file.len().map_err(|e| LogError::io("size", path, e))?;
    let read = read_into(file, &mut content, from, len.saturating_sub(from) as usize);
    read.map_err(|e| LogError::io("read", path, e))?;
    Ok(content)
}

/// True when the file's maker died before its header was whole: then there are no names to lose.
fn is_unfinished_header(content: &[u8]) -> bool {
    let header = FileHeader::parse(FileKind::Symbols, content);
    header.is_none() && content.len() <= FILE_HEADER_BYTES as usize
}

fn make_header(storage: &dyn Storage, file: &dyn StorageFile, path: &Path, stream_id: u64) -> io::Result<()> {
    file.truncate(0)?;
    file.write_at(&FileHeader::new(stream_id, 0, 0).bytes(FileKind::Symbols), 0)?;
    file.sync_data()?;
    path.parent().map_or(Ok(()), |dir| storage.sync_dir(dir))
}

/// A damaged header is no reason to lose the names behind it, which prove themselves.
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
