//! A stream: its definition, its symbols, its log.

use crate::bell::Bell;
use crate::cursor::CursorBuilder;
use crate::definition::{Definition, StreamOptions};
use crate::error::Error;
use crate::loader::Loader;
use std::any::TypeId;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tapedb_codec::dynamic::Layouts;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_log::{
    Dictionary, DiskStorage, Log, LogOptions, LogWriter, Recovery, Storage, SymbolFile, SymbolRecovery,
};
use tapedb_schema::{Schema, Timestamp};

/// The definition file in a stream's directory.
pub(crate) const DEFINITION_FILE: &str = "stream.tape";
const SYMBOLS_FILE: &str = "symbols";
/// The directory of a stream's only space.
const SPACE_DIRECTORY: &str = "0";
const SPACE: u32 = 0;

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
}

impl StreamRecovery {
    /// Whether everything was as a clean shutdown leaves it.
    pub fn is_clean(&self) -> bool {
        self.log.is_clean() && self.symbols.cut_bytes == 0 && self.symbols.damaged.is_empty()
    }
}

impl std::fmt::Display for StreamRecovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.log, self.symbols)
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
    pub bell: Arc<Bell>,
    pub deleted: AtomicBool,
    symbols: Mutex<SymbolFile>,
    /// `None` when the database is open for reading only.
    writer: Option<Mutex<Writer>>,
    /// Type ids of Rust types that loaders and cursors have asked for.
    bound: Mutex<HashMap<TypeId, Option<u16>>>,
    recovery: StreamRecovery,
}

/// The one place where batches are appended.
#[derive(Debug)]
pub(crate) struct Writer {
    pub log: LogWriter,
    /// Time of the latest message; `i64::MIN` while there is none.
    pub last_time: i64,
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
        self.inner.type_id_of::<T>()
    }
}

impl StreamInner {
    /// Opens a stream's files; `writing` also recovers them.
    pub fn open(name: &str, directory: PathBuf, bell: Arc<Bell>, writing: bool) -> Result<Self, Error> {
        let definition = read_definition(&directory)?;
        let layouts = Layouts::new(definition.schema.clone())?;
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let (symbols_path, space) = (directory.join(SYMBOLS_FILE), directory.join(SPACE_DIRECTORY));
        let id = definition.id;
        let (symbols, symbol_recovery, log, writer, log_recovery);
        if writing {
            let durability = definition.options.durability;
            (symbols, symbol_recovery) = SymbolFile::open_rw(&*storage, &symbols_path, id, durability)?;
            let options = LogOptions { durability, ..LogOptions::new(id, SPACE) };
            let (opened, recovery) = LogWriter::open(storage, &space, options)?;
            log = opened.log().clone();
            let last_time = log.snapshot().iter().map(|granule| granule.time_max).max();
            writer = Some(Mutex::new(Writer { log: opened, last_time: last_time.unwrap_or(i64::MIN) }));
            log_recovery = recovery;
        } else {
            (symbols, symbol_recovery) = SymbolFile::open_read(&*storage, &symbols_path, id)?;
            (log, log_recovery) = Log::open(storage, &space, id, SPACE)?;
            writer = None;
        }
        Ok(Self {
            name: name.into(),
            directory,
            layouts,
            log,
            dictionary: symbols.dictionary().clone(),
            bell,
            deleted: AtomicBool::new(false),
            symbols: Mutex::new(symbols),
            writer,
            bound: Mutex::default(),
            recovery: StreamRecovery { log: log_recovery, symbols: symbol_recovery },
            definition,
        })
    }

    /// Makes the directory of a new stream, whole or not at all.
    pub fn create(streams: &Path, directory: &Path, definition: &Definition) -> Result<(), Error> {
        let draft = streams.join(format!(".new-{:016x}", definition.id));
        let file = draft.join(DEFINITION_FILE);
        let space = draft.join(SPACE_DIRECTORY);
        fs::create_dir_all(&space).map_err(Error::io("create", &space))?;
        fs::write(&file, definition.to_text()).map_err(Error::io("write", &file))?;
        // The symbol file exists from the start, so that readers in other processes need not wait for a writer.
        let durability = definition.options.durability;
        SymbolFile::open_rw(&DiskStorage, &draft.join(SYMBOLS_FILE), definition.id, durability)?;
        sync(&file)?;
        sync(&draft)?;
        fs::rename(&draft, directory).map_err(Error::io("create", directory))?;
        sync(streams)
    }

    /// The writer, locked.
    pub fn writer(&self) -> Result<MutexGuard<'_, Writer>, Error> {
        if self.deleted.load(Ordering::Acquire) {
            return Err(Error::NoStream { name: self.name.clone(), known: Vec::new() });
        }
        let writer = self.writer.as_ref().ok_or(Error::ReadOnly)?;
        Ok(writer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether batches can be appended through this handle's database.
    pub fn is_writable(&self) -> bool {
        self.writer.is_some()
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

    /// Looks for what a writer in another process has appended.
    pub fn refresh(&self) -> Result<(), Error> {
        if self.writer.is_none() {
            self.symbols.lock().unwrap_or_else(PoisonError::into_inner).refresh()?;
            self.log.refresh()?;
        }
        Ok(())
    }

    /// Type id of a Rust type, whose layout must be the stream's.
    pub fn type_id_of<T: Record + 'static>(&self) -> Result<u16, Error> {
        let key = TypeId::of::<T>();
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        let found = *bound.entry(key).or_insert_with(|| self.bind::<T>());
        found.ok_or_else(|| {
            let why = match self.layouts.schema().record(T::NAME) {
                None => "the stream has no such record type; see `desc` for those it has",
                Some(_) => "the stream's record type of that name has other fields than the program's",
            };
            Error::Type { stream: self.name.clone(), record: T::NAME.into(), why }
        })
    }

    fn bind<T: Record>(&self) -> Option<u16> {
        let (id, _) = self.layouts.schema().record(T::NAME)?;
        let compiled = Layouts::new(SchemaBuilder::new().with::<T>().finish()).ok()?;
        let (compiled_id, _) = compiled.schema().record(T::NAME)?;
        self.layouts.same_layout(id, &compiled, compiled_id).then_some(id)
    }
}

fn read_definition(directory: &Path) -> Result<Definition, Error> {
    let path = directory.join(DEFINITION_FILE);
    let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::Definition { path: path.clone(), what: "is damaged: not UTF-8".into() })?;
    Definition::parse(&text, &path)
}

/// Makes a file, or the names in a directory, survive a power cut.
pub(crate) fn sync(path: &Path) -> Result<(), Error> {
    fs::File::open(path).and_then(|file| file.sync_all()).map_err(Error::io("sync", path))
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
