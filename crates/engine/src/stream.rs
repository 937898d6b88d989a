//! A stream: its definition, its symbols, its log.

use crate::bell::Bell;
use crate::binding::{self, Binding};
use crate::cursor::CursorBuilder;
use crate::definition::{Definition, Late, StreamOptions};
use crate::error::Error;
use crate::loader::Loader;
use crate::lost;
use std::any::TypeId;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tapedb_codec::Record;
use tapedb_codec::dynamic::Layouts;
use tapedb_log::{
    Dictionary, DiskStorage, Durability, Granule, Log, LogError, LogOptions, LogWriter, Recovery,
    SharedWriter, Span, SymbolFile, SymbolRecovery, TailPosition, Turn,
};
use tapedb_schema::{Schema, Timestamp};

/// The definition file in a stream's directory.
pub(crate) const DEFINITION_FILE: &str = "stream.tape";
pub(crate) const SYMBOLS_FILE: &str = "symbols";
/// The directory of a stream's only space.
pub(crate) const SPACE_DIRECTORY: &str = "0";
pub(crate) const SPACE: u32 = 0;

/// A stream of an open database. Cheap to clone; all clones are the same stream.
#[derive(Debug, Clone)]
pub struct Stream {
    pub(crate) inner: Arc<StreamInner>,
}

/// What a stream is and holds, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamStats {
    /// Messages that can be read.
    pub messages: u64,
    /// Number the next message gets.
    pub next_sequence: u64,
    /// Bytes of the stream's files.
    pub bytes: u64,
    /// Symbols.
    pub symbols: u32,
    /// Times of the earliest and the latest message; `None` while there is none.
    pub times: Option<(Timestamp, Timestamp)>,
}

/// What opening a stream found and mended.
#[derive(Debug, Clone, Default)]
pub struct StreamRecovery {
    /// The log's files.
    pub log: Recovery,
    /// The symbol file.
    pub symbols: SymbolRecovery,
    /// Symbol ids that messages use although the symbol file has lost them. They are called `?` and the id, so that no
    /// new symbol gets them. (Found by writers: in the last log file,
    /// or in all when the symbol file was cut, is damaged at its end or is empty.)
    pub symbols_lost: u32,
}

impl StreamRecovery {
    /// Whether everything was as a clean shutdown leaves it.
    pub fn is_clean(&self) -> bool {
        let symbols = &self.symbols;
        self.log.is_clean() && symbols.cut_bytes == 0 && symbols.damaged.is_empty() && self.symbols_lost == 0
    }
}

impl std::fmt::Display for StreamRecovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.log, self.symbols)?;
        match self.symbols_lost {
            0 => Ok(()),
            lost => write!(f, "; {lost} symbols of stored messages are lost and read as ?id"),
        }
    }
}

/// The state behind all handles of a stream.
#[derive(Debug)]
pub(crate) struct StreamInner {
    pub name: String,
    pub directory: PathBuf,
    pub definition: Definition,
    pub layouts: Layouts,
    pub log: Arc<Log>,
    pub dictionary: Arc<Dictionary>,
    /// The database's.
    pub bell: Arc<Bell>,
    /// This stream's.
    pub own_bell: Bell,
    /// Set when the stream is deleted, or found to be: see [`StreamInner::is_gone`].
    deleted: AtomicBool,
    /// Kept open: while it is, no other file gets its inode.
    definition_file: File,
    symbols: Mutex<SymbolFile>,
    /// `None` when the database is open for reading only.
    writer: Option<SharedWriter>,
    /// Time of the latest message; `i64::MIN` while there is none. Written under the writer's lock.
    pub last_time: AtomicI64,
    /// The database stays locked while one of its streams is in use.
    _lock: Option<Arc<File>>,
    /// What the Rust types are that loaders and cursors have asked for.
    bound: Mutex<HashMap<TypeId, Option<Binding>>>,
    recovery: StreamRecovery,
}

impl Stream {
    /// Name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The directory of the stream's files.
    pub fn path(&self) -> &Path {
        &self.inner.directory
    }

    /// Schema.
    pub fn schema(&self) -> &Schema {
        &self.inner.definition.schema
    }

    /// The schema prepared for the interpreted codec.
    pub fn layouts(&self) -> &Layouts {
        &self.inner.layouts
    }

    /// What the stream promises.
    pub fn options(&self) -> StreamOptions {
        self.inner.definition.options
    }

    /// When the stream was created.
    pub fn created(&self) -> Timestamp {
        self.inner.definition.created
    }

    /// The stream as people write it down: options, then the schema in the form that parses back.
    pub fn describe(&self) -> String {
        let options = self.options();
        let durability = crate::definition::durability_name(options.durability);
        let late = crate::definition::late_name(options.late);
        format!(
            "// stream {:?}: durability {durability}, late messages {late}\n{}",
            self.name(),
            self.schema()
        )
    }

    /// Symbols in the order in which they came.
    pub fn symbols(&self) -> Vec<String> {
        self.inner.dictionary.names_from(0).map(str::to_string).collect()
    }

    /// What opening the stream found and mended.
    pub fn recovery(&self) -> &StreamRecovery {
        &self.inner.recovery
    }

    /// Counts and sizes, now.
    ///
    /// # Errors
    /// When the files cannot be looked at.
    pub fn stats(&self) -> Result<StreamStats, Error> {
        self.inner.refresh()?;
        let snapshot = self.inner.log.snapshot();
        let earliest = snapshot.iter().map(|granule| granule.time_min).min();
        let latest = snapshot.iter().map(|granule| granule.time_max).max();
        Ok(StreamStats {
            messages: snapshot.iter().map(|granule| granule.count).sum(),
            next_sequence: snapshot.next_sequence(),
            bytes: bytes_of(&self.inner.directory)?,
            symbols: self.inner.dictionary.len(),
            times: earliest.zip(latest).map(|(a, b)| (Timestamp(a), Timestamp(b))),
        })
    }

    /// A loader for this stream. Several may write at once, from any thread.
    ///
    /// # Errors
    /// When the database is open for reading only.
    pub fn loader(&self) -> Result<Loader, Error> {
        Loader::new(self.inner.clone())
    }

    /// A cursor over this stream alone.
    pub fn cursor(&self) -> CursorBuilder {
        CursorBuilder::new(vec![self.clone()])
    }

    /// Type id of the Rust type `T` in this stream.
    ///
    /// # Errors
    /// When the stream has no such record type, or one with other fields.
    pub fn type_id_of<T: Record + 'static>(&self) -> Result<u16, Error> {
        Ok(self.inner.binding_of::<T>()?.type_id)
    }
}

impl StreamInner {
    /// Opens a stream's files; the database's lock, if there is one, makes it the writer, which also recovers them.
    pub fn open(
        name: &str,
        directory: PathBuf,
        bell: Arc<Bell>,
        lock: Option<Arc<File>>,
    ) -> Result<Self, Error> {
        let (definition_file, definition) = read_definition(&directory)?;
        let layouts = Layouts::new(definition.schema.clone())?;
        let writing = lock.is_some();
        let Files { symbols, log, writer, recovery } = Files::open(&directory, &definition, writing)?;
        let last_time = log.snapshot().iter().map(|granule| granule.time_max).max();
        Ok(Self {
            name: name.into(),
            directory,
            layouts,
            log,
            dictionary: symbols.dictionary().clone(),
            bell,
            own_bell: Bell::default(),
            deleted: AtomicBool::new(false),
            definition_file,
            symbols: Mutex::new(symbols),
            writer: writer.map(SharedWriter::new),
            last_time: AtomicI64::new(last_time.unwrap_or(i64::MIN)),
            _lock: lock,
            bound: Mutex::default(),
            recovery,
            definition,
        })
    }

    /// Makes the directory of a new stream, whole or not at all.
    pub fn create(streams: &Path, directory: &Path, definition: &Definition) -> Result<(), Error> {
        if definition.options.durability == Durability::Transient {
            let what = "a database keeps no transient streams; choose async or sync";
            return Err(Error::io("create", directory)(io::Error::new(io::ErrorKind::Unsupported, what)));
        }
        let draft = streams.join(format!(".new-{:016x}", definition.id));
        let created = Self::create_in(&draft, definition)
            .and_then(|()| fs::rename(&draft, directory).map_err(Error::io("create", directory)));
        if created.is_err() {
            // What stays is removed when the database is opened next.
            let _ = fs::remove_dir_all(&draft);
        }
        created?;
        sync(streams)
    }

    fn create_in(draft: &Path, definition: &Definition) -> Result<(), Error> {
        let file = draft.join(DEFINITION_FILE);
        let space = draft.join(SPACE_DIRECTORY);
        fs::create_dir_all(&space).map_err(Error::io("create", &space))?;
        fs::write(&file, definition.to_text()).map_err(Error::io("write", &file))?;
        // The symbol file exists from the start, so that readers in other processes need not wait for a writer.
        let durability = definition.options.durability;
        SymbolFile::open_rw(&DiskStorage, &draft.join(SYMBOLS_FILE), definition.id, durability)?;
        sync(&file)?;
        sync(draft)
    }

    /// The turn to write a batch, under the writer's lock.
    pub fn turn<'s, 'b>(&'s self, batch: &'b mut [u8]) -> Result<Turn<'s, 'b>, Error> {
        let turn = self.writer.as_ref().ok_or(Error::ReadOnly)?.turn(batch);
        // Looked at under the lock, which whoever deletes holds too.
        self.check_not_deleted()?;
        Ok(turn)
    }

    /// Takes the stream out of use while `remove` takes its files away: nothing is written meanwhile. (A sync that is
    /// under way has its files open and does not mind.)
    pub fn delete(&self, remove: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let _hold = self.writer.as_ref().ok_or(Error::ReadOnly)?.hold();
        self.check_not_deleted()?;
        // Before the files go: a reader that then looks at new files of the old names knows.
        self.deleted.store(true, Ordering::SeqCst);
        let removed = remove().inspect_err(|_| self.deleted.store(false, Ordering::SeqCst));
        self.ring();
        removed
    }

    /// Wakes the cursors that wait for something of this stream.
    pub fn ring(&self) {
        self.own_bell.ring();
        self.bell.ring();
    }

    /// Whether the stream is known to be deleted.
    #[inline]
    pub fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::SeqCst)
    }

    /// Whether the stream has been deleted, or replaced by another of its name; for readers this asks the system.
    pub fn is_gone(&self) -> bool {
        if self.writer.is_none()
            && !self.is_deleted()
            && is_replaced(&self.directory.join(DEFINITION_FILE), &self.definition_file)
        {
            self.deleted.store(true, Ordering::SeqCst);
        }
        self.is_deleted()
    }

    fn deleted_error(&self) -> Error {
        Error::Deleted { name: self.name.clone() }
    }

    /// What came of looking at the files, which says nothing if they are those of another stream by now.
    fn unless_gone<T>(&self, looked: Result<T, LogError>) -> Result<T, Error> {
        if self.is_gone() { Err(self.deleted_error()) } else { Ok(looked?) }
    }

    /// Reads the bytes of a granule.
    pub fn read(&self, granule: &Granule, bytes: &mut Vec<u8>) -> Result<(), Error> {
        self.unless_gone(self.log.read(granule, bytes))
    }

    /// Reads the next whole batches, `max_bytes` at most but always one.
    pub fn read_from(
        &self,
        position: &mut TailPosition,
        max_bytes: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<Span, Error> {
        self.unless_gone(self.log.read_from(position, max_bytes, bytes))
    }

    /// The error a reader gets from a stream that is deleted.
    pub fn check_not_deleted(&self) -> Result<(), Error> {
        if self.is_deleted() { Err(self.deleted_error()) } else { Ok(()) }
    }

    /// Whether batches can be appended through this handle's database.
    pub fn is_writable(&self) -> bool {
        self.writer.is_some()
    }

    /// Checks that the stream takes a message at `time`. Only under the writer's lock the answer lasts.
    pub fn refuse_late(&self, time: i64) -> Result<(), Error> {
        let last = self.last_time.load(Ordering::Relaxed);
        if self.definition.options.late == Late::Accept || time >= last {
            return Ok(());
        }
        let (time, last) = (Timestamp(time), Timestamp(last));
        Err(Error::Late { stream: self.name.clone(), time, last })
    }

    /// Id of a symbol, given one if it is new.
    pub fn symbol_id(&self, symbol: &str) -> Result<u32, Error> {
        if let Some(id) = self.dictionary.id(symbol) {
            return Ok(id);
        }
        let mut symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        // Another loader may have come first.
        match self.dictionary.id(symbol) {
            Some(id) => Ok(id),
            None => Ok(symbols.append(&[symbol])?.start),
        }
    }

    /// Name of a symbol id; one that another process has just added is looked up in its file.
    pub fn symbol(&self, id: u32) -> &str {
        match self.dictionary.name(id) {
            Some(name) => name,
            None => {
                let mut symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = symbols.refresh();
                self.dictionary.name(id).unwrap_or("?")
            }
        }
    }

    /// Looks for what a writer in another process has appended. Symbols are written before the batches that use them;
    /// one that comes between the two looks is found by [`StreamInner::symbol`].
    pub fn refresh(&self) -> Result<(), Error> {
        if self.writer.is_some() {
            return self.check_not_deleted();
        }
        let symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner).refresh();
        self.unless_gone(symbols.and_then(|_| self.log.refresh()))?;
        Ok(())
    }

    /// What a Rust type is in this stream; its layout must be the stream's.
    pub fn binding_of<T: Record + 'static>(&self) -> Result<Binding, Error> {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        let found = *bound.entry(TypeId::of::<T>()).or_insert_with(|| Binding::of::<T>(&self.layouts));
        found.ok_or_else(|| binding::unbound::<T>(self))
    }
}

/// The opened files of a stream.
struct Files {
    symbols: SymbolFile,
    log: Arc<Log>,
    writer: Option<LogWriter>,
    recovery: StreamRecovery,
}

impl Files {
    fn open(directory: &Path, definition: &Definition, writing: bool) -> Result<Self, Error> {
        let (symbols, space) = (directory.join(SYMBOLS_FILE), directory.join(SPACE_DIRECTORY));
        // Made with the stream: made anew they would give stored messages other symbols, or none.
        check_there(&symbols, "is missing, and with it the names of all symbols")?;
        check_there(&space, "is missing, and with it all messages")?;
        if writing {
            Self::open_for_writing(&symbols, &space, definition)
        } else {
            let (symbols, symbol_recovery) = SymbolFile::open_read(&DiskStorage, &symbols, definition.id)?;
            let (log, log_recovery) = Log::open(Arc::new(DiskStorage), &space, definition.id, SPACE, 0)?;
            let recovery = StreamRecovery { log: log_recovery, symbols: symbol_recovery, symbols_lost: 0 };
            Ok(Self { symbols, log, writer: None, recovery })
        }
    }

    fn open_for_writing(symbols: &Path, space: &Path, definition: &Definition) -> Result<Self, Error> {
        let StreamOptions { durability, file_bytes_max, .. } = definition.options;
        let (mut symbols, symbol_recovery) =
            SymbolFile::open_rw(&DiskStorage, symbols, definition.id, durability)?;
        let options = LogOptions { durability, file_bytes_max, ..LogOptions::new(definition.id, SPACE) };
        let (mut writer, mut log_recovery) = LogWriter::open(Arc::new(DiskStorage), space, options)?;
        writer.sync_symbols(&symbols);
        let log = writer.log().clone();
        let end_in_doubt = symbol_recovery.cut_bytes > 0 || symbol_recovery.kept_bytes > 0;
        let whole = end_in_doubt || symbols.dictionary().is_empty();
        let symbols_lost = lost::keep_used_ids(&mut symbols, &log, whole, &mut log_recovery)?;
        let recovery = StreamRecovery { log: log_recovery, symbols: symbol_recovery, symbols_lost };
        Ok(Self { symbols, log, writer: Some(writer), recovery })
    }
}

pub(crate) fn check_there(path: &Path, what: &str) -> Result<(), Error> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Error::Definition { path: path.into(), what: what.into() })
        }
        Err(error) => Err(Error::io("open", path)(error)),
        Ok(_) => Ok(()),
    }
}

/// The definition, and its file, open.
pub(crate) fn read_definition(directory: &Path) -> Result<(File, Definition), Error> {
    let path = directory.join(DEFINITION_FILE);
    check_there(&path, "is missing, and with it the schema")?;
    let mut file = File::open(&path).map_err(Error::io("open", &path))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(Error::io("read", &path))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::Definition { path: path.clone(), what: "is damaged: not UTF-8".into() })?;
    let definition = Definition::parse(&text, &path)?;
    Ok((file, definition))
}

/// Whether the file at `path` is no longer the open one.
pub(crate) fn is_replaced(path: &Path, open: &File) -> bool {
    match (fs::metadata(path), open.metadata()) {
        (Ok(there), Ok(ours)) => (there.dev(), there.ino()) != (ours.dev(), ours.ino()),
        (Err(error), _) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Makes a file, or the names in a directory, survive a power cut.
pub(crate) fn sync(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|file| file.sync_all()).map_err(Error::io("sync", path))
}

fn bytes_of(directory: &Path) -> Result<u64, Error> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory).map_err(Error::io("list", directory))? {
        let entry = entry.map_err(Error::io("list", directory))?;
        let path = entry.path();
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes += bytes_of(&path)?,
            Ok(metadata) => bytes += metadata.len(),
            // A file that has gone meanwhile takes no room.
            Err(_) => {}
        }
    }
    Ok(bytes)
}
