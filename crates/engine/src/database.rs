//! A database: a directory of streams, open in one process for writing and in any number for reading.

use crate::bell::Bell;
use crate::cursor::CursorBuilder;
use crate::definition::{Definition, StreamOptions};
use crate::error::Error;
use crate::keeper::Keeper;
use crate::names;
use crate::stream::{Stream, StreamInner, sync};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tapedb_schema::{Schema, Timestamp};

/// Says what the directory is.
const MARKER_FILE: &str = "tapedb.database";
const MARKER: &str = "tapedb-database 1\n";
const LOCK_FILE: &str = "lock";
/// How often, and at what intervals, the lock is tried before the database counts as locked.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_INTERVAL: Duration = Duration::from_millis(10);
const STREAMS_DIRECTORY: &str = "streams";

/// An open database. Cheap to clone; all clones are the same database, which closes with the last of them and of the
/// streams, loaders and cursors that came from it.
///
/// ```
/// use tapedb_codec::{Record, SchemaBuilder};
/// use tapedb_engine::{Database, StreamOptions};
/// use tapedb_schema::{Decimal64, Timestamp};
///
/// #[derive(Record, Debug, Default, PartialEq)]
/// #[record(message)]
/// struct Tick { price: Decimal64 }
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("db");
/// let db = Database::open(&path)?;
/// let schema = SchemaBuilder::new().with::<Tick>().finish();
/// let ticks = db.create_stream("ticks", schema, StreamOptions::default())?;
///
/// let mut loader = ticks.loader()?;
/// loader.append("AIG", Timestamp(1), &Tick { price: "48.35".parse()? })?;
/// loader.flush()?; // acknowledged: it survives what the stream's durability says
///
/// let mut cursor = ticks.cursor().symbols(["AIG"]).open()?;
/// let message = cursor.next()?.expect("one message");
/// assert_eq!((message.symbol(), message.time()), ("AIG", Timestamp(1)));
/// assert_eq!(message.decode::<Tick>()?.price.to_string(), "48.35");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Database {
    inner: Arc<DatabaseInner>,
}

#[derive(Debug)]
struct DatabaseInner {
    path: PathBuf,
    /// Held while the database is open for writing; the system lets go of it when the process ends, however it ends.
    lock: Option<Arc<File>>,
    bell: Arc<Bell>,
    keeper: Arc<Keeper>,
    /// Whether log files are sealed in the background.
    upkeep: bool,
    /// Streams that have been opened.
    streams: Mutex<BTreeMap<String, Arc<StreamInner>>>,
}

impl Database {
    /// Opens a database for writing; makes it if the directory is not there or is empty.
    ///
    /// # Errors
    /// [`Error::Locked`] while another writer has it open, [`Error::NotADatabase`] for a directory of other things.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_to_write(path.as_ref(), true)
    }

    /// [`Database::open`] without upkeep in the background: log files become segments only when [`Stream::seal`] is
    /// called. For programs that want to choose the moment.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_without_upkeep(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_to_write(path.as_ref(), false)
    }

    fn open_to_write(path: &Path, upkeep: bool) -> Result<Self, Error> {
        let streams = path.join(STREAMS_DIRECTORY);
        let is_new = !path.join(MARKER_FILE).exists();
        if is_new {
            refuse_foreign(path)?;
        } else {
            check_marker(path)?;
        }
        fs::create_dir_all(&streams).map_err(Error::io("create", &streams))?;
        let lock = lock(path)?;
        remove_leftovers(&streams)?;
        if is_new {
            make_marker(path)?;
        }
        Ok(Self::on(path, Some(Arc::new(lock)), upkeep))
    }

    /// Opens a database that exists for reading, beside any number of readers and one writer in other processes.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] when there is none.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        check_marker(path)?;
        Ok(Self::on(path, None, false))
    }

    fn on(path: &Path, lock: Option<Arc<File>>, upkeep: bool) -> Self {
        let inner = DatabaseInner {
            path: path.into(),
            lock,
            bell: Arc::default(),
            keeper: Arc::default(),
            upkeep,
            streams: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Whether this handle can only read.
    pub fn is_read_only(&self) -> bool {
        self.inner.lock.is_none()
    }

    /// Creates a stream.
    ///
    /// # Errors
    /// When the name is taken or not allowed, the schema is not valid or has no message type, or the database is open
    /// for reading only.
    pub fn create_stream(&self, name: &str, schema: Schema, options: StreamOptions) -> Result<Stream, Error> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        names::check(name)?;
        schema.validate()?;
        if !schema.records.iter().any(|record| record.message) {
            let why = "a stream needs a message type: write `message` instead of `record` for one at least";
            let record = schema.records.first().map(|record| record.name.clone()).unwrap_or_default();
            return Err(Error::Type { stream: name.into(), record: record.into(), why });
        }
        let mut open = self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.directory_of(name);
        if directory.exists() {
            return Err(Error::StreamExists { name: name.into() });
        }
        let definition = Definition { id: random(), created: now(), options, schema_version: 1, schema };
        StreamInner::create(&self.streams_directory(), &directory, &definition)?;
        self.open_stream(&mut open, name)
    }

    /// The stream of that name; created if it is not there.
    ///
    /// # Errors
    /// [`Error::Type`] when it is there with another schema; else as [`Database::create_stream`] and
    /// [`Database::stream`].
    pub fn open_or_create_stream(
        &self,
        name: &str,
        schema: Schema,
        options: StreamOptions,
    ) -> Result<Stream, Error> {
        let stream = match self.stream(name) {
            Err(Error::NoStream { .. }) => return self.create_stream(name, schema, options),
            found => found?,
        };
        if *stream.schema() == schema {
            return Ok(stream);
        }
        let record = schema.records.iter().find(|record| record.message).map(|record| record.name.clone());
        let why = "the stream is there with another schema; see `desc`, or name another stream";
        Err(Error::Type { stream: name.into(), record: record.unwrap_or_default().into(), why })
    }

    /// A stream that exists.
    ///
    /// # Errors
    /// [`Error::NoStream`], or what keeps its files from being opened.
    pub fn stream(&self, name: &str) -> Result<Stream, Error> {
        let mut open = self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inner) = open.get(name) {
            // The writer's process may have deleted it, or made it anew.
            if !inner.is_gone() {
                return Ok(Stream { inner: inner.clone(), keeper: self.inner.keeper.clone() });
            }
        }
        names::check(name)?;
        if !self.directory_of(name).exists() {
            open.remove(name);
            return Err(self.no_stream(name));
        }
        self.open_stream(&mut open, name)
    }

    fn open_stream(
        &self,
        open: &mut BTreeMap<String, Arc<StreamInner>>,
        name: &str,
    ) -> Result<Stream, Error> {
        let (bell, lock) = (self.inner.bell.clone(), self.inner.lock.clone());
        let inner = Arc::new(StreamInner::open(name, self.directory_of(name), bell, lock)?);
        open.insert(name.into(), inner.clone());
        if self.inner.upkeep {
            self.inner.keeper.take(&inner);
        }
        Ok(Stream { inner, keeper: self.inner.keeper.clone() })
    }

    /// The directory of a stream that exists.
    pub(crate) fn existing_directory_of(&self, name: &str) -> Result<PathBuf, Error> {
        names::check(name)?;
        let directory = self.directory_of(name);
        if directory.exists() { Ok(directory) } else { Err(self.no_stream(name)) }
    }

    fn no_stream(&self, name: &str) -> Error {
        let known = self.streams().unwrap_or_default().into_iter().take(10).collect();
        Error::NoStream { name: name.into(), known }
    }

    /// Names of all streams, sorted.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn streams(&self) -> Result<Vec<String>, Error> {
        let directory = self.streams_directory();
        let mut found = Vec::new();
        for entry in fs::read_dir(&directory).map_err(Error::io("list", &directory))? {
            let entry = entry.map_err(Error::io("list", &directory))?;
            found.extend(entry.file_name().to_str().and_then(names::name_of));
        }
        found.sort();
        Ok(found)
    }

    /// Deletes a stream with all its messages, also one whose files are damaged. Cursors that are reading it get
    /// [`Error::Deleted`] once, then go on with their other streams; loaders get it at every flush.
    ///
    /// # Errors
    /// [`Error::NoStream`], [`Error::ReadOnly`], or what keeps the files from being removed.
    pub fn delete_stream(&self, name: &str) -> Result<(), Error> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        names::check(name)?;
        let mut open = self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.directory_of(name);
        if !directory.exists() {
            return Err(self.no_stream(name));
        }
        let doomed = self.streams_directory().join(format!(".deleted-{:016x}", random()));
        let renamed = || fs::rename(&directory, &doomed).map_err(Error::io("delete", &directory));
        match open.get(name) {
            Some(stream) => stream.delete(renamed)?,
            None => renamed()?,
        }
        open.remove(name);
        sync(&self.streams_directory())?;
        fs::remove_dir_all(&doomed).map_err(Error::io("delete", &doomed))
    }

    /// A cursor over several streams, merged by time.
    ///
    /// # Errors
    /// When one of the streams cannot be opened.
    pub fn cursor<S: AsRef<str>>(
        &self,
        streams: impl IntoIterator<Item = S>,
    ) -> Result<CursorBuilder, Error> {
        let streams: Result<Vec<Stream>, Error> =
            streams.into_iter().map(|name| self.stream(name.as_ref())).collect();
        Ok(CursorBuilder::new(streams?))
    }

    fn streams_directory(&self) -> PathBuf {
        self.inner.path.join(STREAMS_DIRECTORY)
    }

    fn directory_of(&self, name: &str) -> PathBuf {
        self.streams_directory().join(names::directory_of(name))
    }
}

/// A directory becomes a database only if there is nothing in it but what a half-made database has.
fn refuse_foreign(path: &Path) -> Result<(), Error> {
    create_directories(path)?;
    for entry in fs::read_dir(path).map_err(Error::io("list", path))? {
        let name = entry.map_err(Error::io("list", path))?.file_name();
        // The marker: another process may be making the same database.
        if name != STREAMS_DIRECTORY && name != LOCK_FILE && name != MARKER_FILE {
            let why = "it holds other files; name an empty or new directory to make a database there";
            return Err(Error::NotADatabase { path: path.into(), why });
        }
    }
    Ok(())
}

/// Creates a directory, and those above it that are not there, so that a power cut leaves their names.
fn create_directories(path: &Path) -> Result<(), Error> {
    let changed = above_missing(path);
    fs::create_dir_all(path).map_err(Error::io("create", path))?;
    changed.into_iter().try_for_each(sync)
}

/// The directories that get a new name in them when `path` is created.
fn above_missing(path: &Path) -> Vec<&Path> {
    let missing = path.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
    missing.map(above).collect()
}

/// The directory in which `path` is, or is to be.
fn above(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        parent => parent.unwrap_or(path),
    }
}

/// The marker comes last, so that a half-made database is made again.
fn make_marker(path: &Path) -> Result<(), Error> {
    let marker = path.join(MARKER_FILE);
    let draft = path.join(STREAMS_DIRECTORY).join(".new-marker");
    fs::write(&draft, MARKER).map_err(Error::io("write", &draft))?;
    sync(&draft)?;
    fs::rename(&draft, &marker).map_err(Error::io("create", &marker))?;
    sync(path)
}

fn check_marker(path: &Path) -> Result<(), Error> {
    let why = match fs::read(path.join(MARKER_FILE)) {
        Ok(text) if text == MARKER.as_bytes() => return Ok(()),
        Ok(text) if text.starts_with(b"tapedb-database ") => {
            "it was made by another version; use that version"
        }
        Ok(_) => "its marker file is damaged; it should say \"tapedb-database 1\"",
        Err(_) if !path.exists() => "there is no such directory",
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("read", &path.join(MARKER_FILE))(error));
        }
        Err(_) => "it has no marker file; check the path",
    };
    Err(Error::NotADatabase { path: path.into(), why })
}

fn lock(path: &Path) -> Result<File, Error> {
    let file = path.join(LOCK_FILE);
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&file)
        .map_err(Error::io("open", &file))?;
    // A child process that is just being started holds a copy of a lock that this process has let go of.
    for attempt in 0..LOCK_ATTEMPTS {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", &file)(error)),
            Err(TryLockError::WouldBlock) if attempt + 1 < LOCK_ATTEMPTS => thread::sleep(LOCK_INTERVAL),
            Err(TryLockError::WouldBlock) => {}
        }
    }
    Err(Error::Locked { path: path.into() })
}

/// Removes what a killed process left of a stream that it was creating or deleting.
fn remove_leftovers(streams: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(streams).map_err(Error::io("list", streams))? {
        let path = entry.map_err(Error::io("list", streams))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(".new-") || name.starts_with(".deleted-") {
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(Error::io("remove", &path))?;
        }
    }
    Ok(())
}

/// A number that no other stream has: the standard library's hash keys are random per process and call.
fn random() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_i64(now().0);
    hasher.finish()
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_nanos() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_that_gets_a_new_name_is_synced() {
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path();
        let path = there.join("a/b/db");
        assert_eq!(above_missing(&path), [&there.join("a/b"), &there.join("a"), there]);
        create_directories(&path).unwrap();
        assert!(path.is_dir() && above_missing(&path).is_empty());
        create_directories(&path).unwrap();
        assert_eq!(above_missing(Path::new("no such directory")), [Path::new(".")]);
        assert!(above_missing(Path::new("/")).is_empty());
    }
}
