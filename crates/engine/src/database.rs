//! A database: a directory of streams, open in one process for writing and in any number for reading.

use crate::admin::identity::{self, DatabaseIdentity};
use crate::clock::{now, random};
use crate::error::{ConnectionError, Error, Invalid, NotFound};
use crate::files::{is_there, sync_dir};
use crate::ids::NamesById;
use crate::lock::WriterLock;
use crate::maintenance::thread::Maintenance;
use crate::names;
use crate::notifier::Notifier;
use crate::options::StreamOptions;
use crate::read::cursor_builder::CursorBuilder;
use crate::space::reserve;
use crate::stream::Stream;
use crate::stream::definition::Definition;
use crate::stream::open::{self, Opened};
use crate::stream::origin::Origin;
use crate::stream::state::StreamState;
use crate::upstream::rewrites::Rewrites;
use crate::upstream::storage::NoStorage;
use crate::upstream::{Command, Outcome, Upstream};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tapedb_log::{DiskStorage, Kind, Storage};
use tapedb_schema::Schema;

/// Says what the directory is.
const MARKER_FILE: &str = "tapedb.database";
const MARKER: &str = "tapedb-database 1\n";
/// No marker is longer, of whatever version.
const MARKER_BYTES_MAX: u64 = 1 << 10;
const LOCK_FILE: &str = "lock";
/// Says where the server is that has the database open, if one has.
const SERVER_FILE: &str = "server";
/// No URL is longer.
const URL_BYTES_MAX: u64 = 4 << 10;
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

struct DatabaseInner {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    /// Held while the database is open for writing.
    lock: Option<Arc<WriterLock>>,
    notifier: Arc<Notifier>,
    maintenance: Arc<Maintenance>,
    /// Whether log files are sealed in the background.
    runs_maintenance: bool,
    /// Names by id.
    ids: NamesById,
    /// Streams that have been opened.
    streams: Mutex<BTreeMap<String, Arc<StreamState>>>,
    /// Where the database is, if it is not here.
    upstream: Option<Arc<dyn Upstream>>,
    /// Those of clients elsewhere.
    rewrites: Rewrites,
}

impl fmt::Debug for DatabaseInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseInner").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What a database is opened for; see [`Database::open_on`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing, with upkeep in the background: as [`Database::open`].
    Write,
    /// Reading and writing: as [`Database::open_without_maintenance`].
    WriteWithoutMaintenance,
    /// Reading alone: as [`Database::open_read_only`].
    Read,
}

impl Database {
    /// Opens a database for writing; makes it if the directory is not there or is empty.
    ///
    /// # Errors
    /// [`Error::Locked`] while another writer has it open, [`NotFound::Database`] for a directory of other things.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_on(Arc::new(DiskStorage), path, Access::Write)
    }

    /// [`Database::open`] without upkeep in the background: log files become segments only when [`Stream::seal`] is
    /// called. For programs that want to choose the moment.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_without_maintenance(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_on(Arc::new(DiskStorage), path, Access::WriteWithoutMaintenance)
    }

    /// Opens a database that exists for reading, beside any number of readers and one writer in other processes.
    ///
    /// # Errors
    /// [`NotFound::Database`] when there is none.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_on(Arc::new(DiskStorage), path, Access::Read)
    }

    /// Opens a database on a storage other than the file system: for tests, which break it
    /// ([`SimStorage`](tapedb_log::sim::SimStorage)), and for places that are special. The database reaches nothing but
    /// through it, and trusts that it keeps what it promises: names and locks as on Unix, and what was synced.
    ///
    /// # Errors
    /// As [`Database::open`] and [`Database::open_read_only`].
    pub fn open_on(storage: Arc<dyn Storage>, path: impl AsRef<Path>, access: Access) -> Result<Self, Error> {
        let path = path.as_ref();
        let lock = match access {
            Access::Read => {
                check_marker(&*storage, path)?;
                None
            }
            Access::Write | Access::WriteWithoutMaintenance => Some(Arc::new(prepare(&*storage, path)?)),
        };
        let inner = DatabaseInner {
            storage,
            path: path.into(),
            lock,
            notifier: Arc::default(),
            maintenance: Arc::default(),
            runs_maintenance: access == Access::Write,
            ids: NamesById::default(),
            streams: Mutex::default(),
            upstream: None,
            rewrites: Rewrites::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// A database elsewhere, over whatever connects to it. It has streams, loaders and cursors as one here has; what looks
    /// after files (checking, repair, backup) is done where they are.
    ///
    /// Loaders send batches while earlier ones are still on their way; a flush waits for all of them, and what was
    /// refused since the flush before is its error. A live cursor has what comes pushed; every other look costs a round trip.
    pub fn open_upstream(upstream: Arc<dyn Upstream>) -> Self {
        let inner = DatabaseInner {
            storage: Arc::new(NoStorage),
            path: upstream.place().into(),
            lock: None,
            notifier: Arc::default(),
            maintenance: Arc::default(),
            runs_maintenance: false,
            ids: NamesById::default(),
            streams: Mutex::default(),
            upstream: Some(upstream),
            rewrites: Rewrites::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The directory; of a database elsewhere, what the place is called.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Whether this handle can only read.
    pub fn is_read_only(&self) -> bool {
        self.inner.lock.is_none() && self.inner.upstream.is_none()
    }

    /// Whether this process has its directory open for writing.
    pub(crate) fn is_writer(&self) -> bool {
        self.inner.lock.is_some()
    }

    /// Says in the directory at which URL a server has this database open, for who tries to open it too; `None`: at none any
    /// more. For people alone: where it cannot be written, [`Error::Locked`] says less.
    pub fn announce(&self, url: Option<&str>) {
        if self.is_writer() {
            let path = self.path().join(SERVER_FILE);
            let _ = match url {
                Some(url) => self.storage().write(&path, format!("{url}\n").as_bytes()),
                None => self.storage().remove(&path),
            };
        }
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
        options.check()?;
        schema.validate()?;
        if !schema.records.iter().any(|record| record.message) {
            let why = "a stream needs a message type: write `message` instead of `record` for one at least";
            let record = schema.records.first().map(|record| record.name.clone()).unwrap_or_default();
            return Err(Error::Invalid(Invalid::Type { stream: name.into(), record: record.into(), why }));
        }
        if let Some(upstream) = &self.inner.upstream {
            let (name, schema) = (name.to_string(), schema.to_string());
            upstream.command(&Command::CreateStream {
                name: name.clone(),
                schema,
                options: options.to_text(),
            })?;
            return self.stream(&name);
        }
        let mut open = self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner);
        self.look_at_lock()?;
        let directory = self.directory_of(name);
        if is_there(&**self.storage(), &directory)? {
            return Err(Error::Invalid(Invalid::StreamExists { name: name.into() }));
        }
        let definition =
            Definition { id: random(), created: now(), revision: 0, options, schema_version: 1, schema };
        open::create(&**self.storage(), &self.streams_directory(), &directory, &definition)?;
        self.inner.ids.forget();
        self.open_stream(&mut open, name)
    }

    /// The stream of that name; created if it is not there.
    ///
    /// # Errors
    /// [`Invalid::Type`] when it is there with another schema; else as [`Database::create_stream`] and
    /// [`Database::stream`].
    pub fn open_or_create_stream(
        &self,
        name: &str,
        schema: Schema,
        options: StreamOptions,
    ) -> Result<Stream, Error> {
        let stream = match self.stream(name) {
            Err(Error::NotFound(NotFound::Stream { .. })) => {
                return self.create_stream(name, schema, options);
            }
            found => found?,
        };
        if *stream.schema() == schema {
            return Ok(stream);
        }
        let record = schema.records.iter().find(|record| record.message).map(|record| record.name.clone());
        let why =
            "the stream is there with another schema; see `desc`, change its schema, or name another stream";
        Err(Error::Invalid(Invalid::Type {
            stream: name.into(),
            record: record.unwrap_or_default().into(),
            why,
        }))
    }

    /// A stream that exists.
    ///
    /// # Errors
    /// [`NotFound::Stream`], or what keeps its files from being opened.
    pub fn stream(&self, name: &str) -> Result<Stream, Error> {
        if let Some(upstream) = &self.inner.upstream {
            return self.remote_stream(upstream, name);
        }
        let mut open = self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inner) = open.get(name) {
            // The writer's process may have deleted it, made it anew, or changed its schema.
            if !inner.is_gone() && !inner.is_outdated() {
                return Ok(self.handle(inner.clone()));
            }
            if !inner.is_gone() {
                let renewed = inner.renewed()?;
                return Ok(self.put(&mut open, name, renewed));
            }
        }
        names::check(name)?;
        if !is_there(&**self.storage(), &self.directory_of(name))? {
            open.remove(name);
            return Err(self.no_stream(name));
        }
        self.open_stream(&mut open, name)
    }

    /// A stream elsewhere, as it is now.
    fn remote_stream(&self, upstream: &Arc<dyn Upstream>, name: &str) -> Result<Stream, Error> {
        names::check(name)?;
        let open = || self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody waits for another's answer.
        let found = open().get(name).cloned();
        if let Some(inner) = found {
            match inner.refresh() {
                Ok(()) if !inner.is_outdated() => {
                    return Ok(self.handle(inner));
                }
                Ok(()) => {
                    let renewed = inner.renewed()?;
                    return Ok(self.put(&mut open(), name, renewed));
                }
                Err(error) if error.is_gone() => drop(open().remove(name)),
                Err(error) => return Err(error),
            }
        }
        let notifier = self.inner.notifier.clone();
        let state = open::open_remote(name, self.directory_of(name), upstream, notifier)?;
        Ok(self.put(&mut open(), name, state))
    }

    /// Does something to a stream elsewhere after which it is not there under its name.
    fn end_remote(
        &self,
        upstream: &Arc<dyn Upstream>,
        command: &Command,
        new: Option<&str>,
    ) -> Result<(), Error> {
        upstream.command(command)?;
        let mut open = self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = open.remove(command.stream());
        if let Some(remote) = ended.as_ref().and_then(|state| state.remote()) {
            remote.note_gone(new);
        }
        Ok(())
    }

    fn open_stream(
        &self,
        open: &mut BTreeMap<String, Arc<StreamState>>,
        name: &str,
    ) -> Result<Stream, Error> {
        let DatabaseInner { storage, notifier, lock, .. } = &*self.inner;
        let opened = Opened { storage: storage.clone(), notifier: notifier.clone(), lock: lock.clone() };
        let state = open::open(name, self.directory_of(name), opened)?;
        Ok(self.put(open, name, state))
    }

    /// Makes a stream known under its name, and has it maintained.
    fn put(&self, open: &mut BTreeMap<String, Arc<StreamState>>, name: &str, state: StreamState) -> Stream {
        let state = Arc::new(state);
        open.insert(name.into(), state.clone());
        if let Origin::Written(writer) = state.origin()
            && self.inner.runs_maintenance
            && !state.definition.options.is_transient()
        {
            self.inner.maintenance.add(&state.reader, writer);
        }
        self.handle(state)
    }

    fn handle(&self, state: Arc<StreamState>) -> Stream {
        Stream { state, in_use: self.inner.maintenance.clone() }
    }

    /// Gives a stream another schema, without touching what is stored: messages that were written before are converted
    /// when they are read ("Versions" in `docs/format/schema.md`), with defaults where they lack fields. Returns the
    /// stream as it is now. Handles, loaders and cursors that were opened before go on with the schema they know.
    ///
    /// ```
    /// # use tapedb_engine::{Database, StreamOptions};
    /// # use tapedb_schema::Timestamp;
    /// # let directory = tempfile::tempdir()?;
    /// # let db = Database::open(directory.path().join("db"))?;
    /// let ticks = db.create_stream("ticks", "message Tick { price: f64 }".parse()?, StreamOptions::default())?;
    /// let mut loader = ticks.loader()?;
    /// loader.append_value("AIG", Timestamp(1), &ticks.layouts().from_json(r#"{"$type": "Tick", "price": 48.5}"#)?)?;
    /// loader.flush()?;
    ///
    /// let ticks = db.change_schema("ticks", "message Tick { price: f64, size: u32 = 100 }".parse()?)?;
    /// let mut cursor = ticks.cursor().open()?;
    /// let message = cursor.next()?.expect("one message");
    /// assert_eq!(message.record()?.get("size").unwrap().to_string(), "100");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Invalid::Version`] names the first field for which there is no rule, [`Invalid::Type`] a message type that would be
    /// gone; the stream is as before. What keeps files from being written.
    pub fn change_schema(&self, name: &str, schema: Schema) -> Result<Stream, Error> {
        let stream = self.stream(name)?;
        if *stream.schema() == schema {
            return Ok(stream);
        }
        if let Some(upstream) = &self.inner.upstream {
            schema.validate()?;
            let command = Command::ChangeSchema { name: name.into(), schema: schema.to_string() };
            let before = stream.schema();
            settled(
                || upstream.command(&command).map(drop),
                || match self.stream(name)? {
                    now if *now.schema() == schema => Ok(Settled::Done),
                    now if now.schema() == before => Ok(Settled::NotDone),
                    _ => Ok(Settled::Unknown),
                },
            )?;
            return self.stream(name);
        }
        let mut open = self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = stream.state.change_schema(schema)?;
        Ok(self.put(&mut open, name, changed))
    }

    /// Checks that no other writer can have been let in.
    fn look_at_lock(&self) -> Result<(), Error> {
        self.inner.lock.as_ref().map_or(Ok(()), |lock| lock.check_now())
    }

    /// The directory of a stream that exists.
    pub(crate) fn existing_directory_of(&self, name: &str) -> Result<PathBuf, Error> {
        names::check(name)?;
        let directory = self.directory_of(name);
        if is_there(&**self.storage(), &directory)? { Ok(directory) } else { Err(self.no_stream(name)) }
    }

    /// The rewrites that clients elsewhere have under way.
    pub(crate) fn rewrites(&self) -> &Rewrites {
        &self.inner.rewrites
    }

    /// The names of streams, by their ids, as far as they are known.
    pub(crate) fn names_by_id(&self) -> &NamesById {
        &self.inner.ids
    }

    /// Where the database is.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.inner.storage
    }

    fn no_stream(&self, name: &str) -> Error {
        let known = self.streams().unwrap_or_default().into_iter().take(10).collect();
        Error::NotFound(NotFound::Stream { name: name.into(), known })
    }

    /// How the server is that the database is behind: one JSON object, as `docs/SERVER.md` describes it. `None`: there is no
    /// server.
    ///
    /// # Errors
    /// Those of the connection; what a server says that is older than this question.
    pub fn server_status(&self) -> Result<Option<String>, Error> {
        let Some(upstream) = &self.inner.upstream else { return Ok(None) };
        match upstream.command(&Command::ServerStatus)? {
            Outcome::Text(status) => Ok(status),
            other => Err(other.unexpected()),
        }
    }

    /// Names of all streams, sorted.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn streams(&self) -> Result<Vec<String>, Error> {
        if let Some(upstream) = &self.inner.upstream {
            return upstream.streams();
        }
        let directory = self.streams_directory();
        let entries = self.storage().entries(&directory).map_err(Error::io("list", &directory))?;
        let mut found: Vec<_> = entries.iter().filter_map(|entry| names::name_of(&entry.name)).collect();
        found.sort();
        Ok(found)
    }

    /// Deletes a stream with all its messages, also one whose files are damaged. Cursors that are reading it get
    /// [`Stale::Deleted`](crate::Stale::Deleted) once, then go on with their other streams; loaders get it at every flush.
    ///
    /// # Errors
    /// [`NotFound::Stream`], [`Error::ReadOnly`], or what keeps the files from being removed.
    pub fn delete_stream(&self, name: &str) -> Result<(), Error> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        names::check(name)?;
        if let Some(upstream) = &self.inner.upstream {
            return self.end_remote(upstream, &Command::DeleteStream { name: name.into() }, None);
        }
        let mut open = self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner);
        self.look_at_lock()?;
        let (storage, directory) = (self.storage(), self.directory_of(name));
        if !is_there(&**storage, &directory)? {
            return Err(self.no_stream(name));
        }
        let doomed = self.streams_directory().join(format!(".deleted-{:016x}", random()));
        let renamed = || storage.rename(&directory, &doomed).map_err(Error::io("delete", &directory));
        match open.get(name) {
            Some(stream) => stream.delete(renamed)?,
            None => renamed()?,
        }
        open.remove(name);
        self.inner.ids.forget();
        sync_dir(&**storage, &self.streams_directory())?;
        storage.remove_dir_all(&doomed).map_err(Error::io("delete", &doomed))
    }

    /// Gives a stream another name, and opens it under that. What is open of it under the old name is at its end: cursors get
    /// [`Stale::Renamed`](crate::Stale::Renamed) once, loaders at every flush, so flush them before. Positions stay good, for
    /// they name the stream by its id too.
    ///
    /// # Errors
    /// [`NotFound::Stream`], [`Invalid::StreamExists`], [`Invalid::StreamName`], [`Error::ReadOnly`], or what keeps the
    /// directory from being renamed, or the stream from being opened.
    pub fn rename_stream(&self, name: &str, new: &str) -> Result<Stream, Error> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        names::check(name)?;
        names::check(new)?;
        if let Some(upstream) = &self.inner.upstream {
            let command = Command::RenameStream { name: name.into(), new: new.into() };
            let id = self.stream(name).map(|stream| stream.id()).ok();
            let has_it = |name: &str| match self.stream(name) {
                Err(
                    error @ (Error::Connection(ConnectionError::Unreachable { .. })
                    | Error::Connection(ConnectionError::Refused { .. })),
                ) => Err(error),
                found => Ok(id.is_some() && found.map(|stream| stream.id()).ok() == id),
            };
            settled(
                || self.end_remote(upstream, &command, Some(new)),
                || match (has_it(new)?, has_it(name)?) {
                    (true, _) => Ok(Settled::Done),
                    (false, true) => Ok(Settled::NotDone),
                    (false, false) => Ok(Settled::Unknown),
                },
            )?;
            return self.stream(new);
        }
        let mut open = self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner);
        self.look_at_lock()?;
        let (storage, directory, to) = (self.storage(), self.directory_of(name), self.directory_of(new));
        if !is_there(&**storage, &directory)? {
            return Err(self.no_stream(name));
        }
        if is_there(&**storage, &to)? {
            return Err(Error::Invalid(Invalid::StreamExists { name: new.into() }));
        }
        if open.get(name).is_some_and(|stream| stream.has_messages_in_memory()) {
            let what = "a transient stream that has messages would lose them by being renamed; rename it before it is loaded";
            return Err(Error::Invalid(Invalid::Options { what }));
        }
        let rename = || storage.rename(&directory, &to).map_err(Error::io("rename", &directory));
        match open.get(name) {
            Some(stream) => stream.rename(new, rename)?,
            None => rename()?,
        }
        open.remove(name);
        self.inner.ids.forget();
        sync_dir(&**storage, &self.streams_directory())?;
        self.open_stream(&mut open, new)
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
        let readers = streams?.iter().map(|stream| stream.state.reader.clone()).collect();
        Ok(CursorBuilder::new(readers, self.inner.maintenance.clone()))
    }

    /// The directory of all streams.
    pub(crate) fn streams_directory(&self) -> PathBuf {
        self.inner.path.join(STREAMS_DIRECTORY)
    }

    /// The directory of a stream, whether it exists or not.
    pub(crate) fn directory_of(&self, name: &str) -> PathBuf {
        self.streams_directory().join(names::directory_of(name))
    }
}

/// What has become of a change whose answer was lost with the connection.
enum Settled {
    Done,
    NotDone,
    Unknown,
}

/// Makes a change elsewhere. When the connection is lost before the answer comes, it is looked what became of it, and the change
/// is asked for again if it was not made.
fn settled(
    change: impl Fn() -> Result<(), Error>,
    look: impl Fn() -> Result<Settled, Error>,
) -> Result<(), Error> {
    loop {
        let lost = match change() {
            Err(lost @ Error::Connection(ConnectionError::Disconnected { .. })) => lost,
            done => return done,
        };
        match look() {
            Ok(Settled::Done) => return Ok(()),
            Ok(Settled::NotDone) => {}
            Ok(Settled::Unknown) | Err(_) => return Err(lost),
        }
    }
}

/// Makes a directory a database that can be written, if it is none yet; returns the lock.
fn prepare(storage: &dyn Storage, path: &Path) -> Result<WriterLock, Error> {
    let streams = path.join(STREAMS_DIRECTORY);
    let is_new = !is_there(storage, &path.join(MARKER_FILE))?;
    if is_new {
        refuse_foreign(storage, path)?;
    } else {
        check_marker(storage, path)?;
    }
    storage.create_dir_all(&streams).map_err(Error::io("create", &streams))?;
    let lock = WriterLock::take(storage, path, LOCK_FILE).map_err(|error| with_server(storage, error))?;
    let lock = if is_new { lock } else { lock.with_marker(storage, MARKER_FILE)? };
    // A server that was killed is not there any more.
    let _ = storage.remove(&path.join(SERVER_FILE));
    // Names that an earlier writer made or removed, and died before it had put them on the disk: what is acknowledged
    // from now on stands on them.
    sync_dir(storage, &streams)?;
    remove_leftovers(storage, &streams)?;
    if is_new {
        make_marker(storage, path)?;
        let lock = lock.with_marker(storage, MARKER_FILE)?;
        DatabaseIdentity::read_or_create(storage, path)?;
        reserve::create(storage, path);
        return Ok(lock);
    }
    sync_dir(storage, path)?;
    reserve::create(storage, path);
    // A damaged one is no reason not to write; who copies the database is told.
    match DatabaseIdentity::read_or_create(storage, path) {
        // Nor is a full disk: the next writer makes it.
        Err(Error::Io { source, .. }) if reserve::is_full(&source) => Ok(lock),
        Err(error @ Error::Io { .. }) => Err(error),
        _ => Ok(lock),
    }
}

/// A directory becomes a database only if there is nothing in it but what a half-made database has.
fn refuse_foreign(storage: &dyn Storage, path: &Path) -> Result<(), Error> {
    create_directories(storage, path)?;
    for entry in storage.entries(path).map_err(Error::io("list", path))? {
        // The marker: another process may be making the same database. What comes after it: the marker has been lost.
        let ours = [STREAMS_DIRECTORY, LOCK_FILE, MARKER_FILE, identity::FILE, reserve::FILE];
        if !ours.contains(&&*entry.name) {
            let why = "it holds other files; name an empty or new directory to make a database there";
            return Err(Error::NotFound(NotFound::Database { path: path.into(), why }));
        }
    }
    Ok(())
}

/// Creates a directory, and those above it that are not there, so that a power cut leaves their names.
fn create_directories(storage: &dyn Storage, path: &Path) -> Result<(), Error> {
    let changed = above_missing(storage, path)?;
    storage.create_dir_all(above(path)).map_err(Error::io("create", path))?;
    match storage.create_private_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => created.map_err(Error::io("create", path))?,
    }
    for directory in path.ancestors().filter(|path| !path.as_os_str().is_empty()).map(above) {
        let synced = sync_dir(storage, directory);
        if changed.contains(&directory) {
            synced?;
        }
        // Others may be the work of an earlier attempt, and may be closed to us.
    }
    Ok(())
}

/// The directories that get a new name in them when `path` is created.
fn above_missing<'p>(storage: &dyn Storage, path: &'p Path) -> Result<Vec<&'p Path>, Error> {
    let mut changed = Vec::new();
    for path in path.ancestors().take_while(|path| !path.as_os_str().is_empty()) {
        if is_there(storage, path)? {
            break;
        }
        changed.push(above(path));
    }
    Ok(changed)
}

/// The directory in which `path` is, or is to be.
fn above(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        parent => parent.unwrap_or(path),
    }
}

/// The marker comes last, so that a half-made database is made again.
fn make_marker(storage: &dyn Storage, path: &Path) -> Result<(), Error> {
    let marker = path.join(MARKER_FILE);
    let draft = path.join(STREAMS_DIRECTORY).join(".new-marker");
    storage.write(&draft, MARKER.as_bytes()).map_err(Error::io("write", &draft))?;
    storage.sync_file(&draft).map_err(Error::io("sync", &draft))?;
    storage.rename(&draft, &marker).map_err(Error::io("create", &marker))?;
    sync_dir(storage, path)
}

fn check_marker(storage: &dyn Storage, path: &Path) -> Result<(), Error> {
    let marker = path.join(MARKER_FILE);
    let damaged = "its marker file is damaged; it should say \"tapedb-database 1\"";
    let why = match storage.read(&marker, MARKER_BYTES_MAX) {
        Ok(text) if text == MARKER.as_bytes() => return Ok(()),
        Ok(text) if text.starts_with(b"tapedb-database ") => {
            "it was made by another version; use that version"
        }
        Ok(_) => damaged,
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => damaged,
        Err(_) if !is_there(storage, path)? => "there is no such directory",
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("read", &marker)(error));
        }
        Err(_) => "it has no marker file; check the path",
    };
    Err(Error::NotFound(NotFound::Database { path: path.into(), why }))
}

/// Says of a database that is open elsewhere which server has it, as that has said.
fn with_server(storage: &dyn Storage, error: Error) -> Error {
    match error {
        Error::Locked { path, .. } => Error::Locked { server: served_at(storage, &path), path },
        error => error,
    }
}

/// The URL of the server that has a database open, as it has said.
fn served_at(storage: &dyn Storage, path: &Path) -> Option<String> {
    let text = String::from_utf8(storage.read(&path.join(SERVER_FILE), URL_BYTES_MAX).ok()?).ok()?;
    text.lines().next().filter(|url| url.contains("://")).map(str::to_string)
}

/// Removes what a killed process left of a stream that it was creating or deleting.
fn remove_leftovers(storage: &dyn Storage, streams: &Path) -> Result<(), Error> {
    for entry in storage.entries(streams).map_err(Error::io("list", streams))? {
        if entry.name.starts_with(".new-") || entry.name.starts_with(".deleted-") {
            let path = streams.join(&entry.name);
            let removed = match entry.kind {
                Kind::Directory => storage.remove_dir_all(&path),
                Kind::File => storage.remove(&path),
            };
            removed.map_err(Error::io("remove", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_that_gets_a_new_name_is_synced() {
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path();
        let path = there.join("a/b/db");
        let above_missing = |path| above_missing(&DiskStorage, path).unwrap();
        assert_eq!(above_missing(&path), [&there.join("a/b"), &there.join("a"), there]);
        create_directories(&DiskStorage, &path).unwrap();
        assert!(path.is_dir() && above_missing(&path).is_empty());
        create_directories(&DiskStorage, &path).unwrap();
        assert_eq!(above_missing(Path::new("no such directory")), [Path::new(".")]);
        assert!(above_missing(Path::new("/")).is_empty());
    }
}
