//! The handle of an open database.

use crate::backend::local::LocalBackend;
use crate::backend::remote::RemoteBackend;
use crate::backend::{Backend, directory};
use crate::error::{Error, Invalid, NotFound};
use crate::files::is_there;
use crate::names;
use crate::objects::tier::Objects;
use crate::options::StreamOptions;
use crate::read::cursor_builder::CursorBuilder;
use crate::stream::Stream;
use crate::stream::state::StreamState;
use crate::upstream::rewrites::Rewrites;
use crate::upstream::{Query, QueryRows, Upstream};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_log::{DiskStorage, Storage};
use tapedb_schema::Schema;

/// An open database. Cheap to clone; all clones are the same database. It closes when the last clone is dropped, and the last of
/// its streams, loaders and cursors.
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
    backend: Box<dyn Backend>,
    /// Rewrites that clients of this database's server have begun.
    rewrites: Rewrites,
}

impl fmt::Debug for DatabaseInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseInner").field("path", &self.backend.path()).finish_non_exhaustive()
    }
}

/// What a database is opened for; see [`Database::open_on`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing, with maintenance in the background: as [`Database::open`].
    Write,
    /// Reading and writing: as [`Database::open_without_maintenance`].
    WriteWithoutMaintenance,
    /// Reading only: as [`Database::open_read_only`].
    Read,
}

impl Database {
    /// Opens a database for writing; creates it if the directory does not exist or is empty.
    ///
    /// # Errors
    /// [`Error::Locked`] while another writer has it open, [`NotFound::Database`] for a directory that has other files.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_on(Arc::new(DiskStorage), path, Access::Write)
    }

    /// [`Database::open`] without maintenance in the background: log files become segments only when [`Stream::seal`] is
    /// called. For programs that choose the moment themselves.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_without_maintenance(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_on(Arc::new(DiskStorage), path, Access::WriteWithoutMaintenance)
    }

    /// Opens an existing database for reading. Any number of readers and one writer in other processes can have it open at the
    /// same time.
    ///
    /// # Errors
    /// [`NotFound::Database`] when the directory is not a database.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_on(Arc::new(DiskStorage), path, Access::Read)
    }

    /// Opens a database on a storage other than the file system: for tests that inject faults
    /// ([`SimStorage`](tapedb_log::sim::SimStorage)), and for other kinds of storage. The database accesses files only through
    /// it, and relies on its guarantees: names and locks as on Unix, and durability of what was synced.
    ///
    /// # Errors
    /// As [`Database::open`] and [`Database::open_read_only`].
    pub fn open_on(storage: Arc<dyn Storage>, path: impl AsRef<Path>, access: Access) -> Result<Self, Error> {
        let path = path.as_ref();
        let lock = match access {
            Access::Read => {
                directory::check_marker(&*storage, path)?;
                None
            }
            Access::Write | Access::WriteWithoutMaintenance => Some(directory::prepare(&*storage, path)?),
        };
        Ok(Self::on(LocalBackend::new(storage, path, lock, access == Access::Write, true)))
    }

    /// A remote database, over any kind of connection. It has streams, loaders and cursors as a local one has. The operations
    /// on files (check, repair, backup) run where the files are.
    ///
    /// Loaders send batches before earlier ones are acknowledged. A flush waits for all of them; if one of those since the
    /// last flush was refused, the flush returns that error. New messages are pushed to live cursors; every other read of the
    /// stream's state is a round trip.
    pub fn open_upstream(upstream: Arc<dyn Upstream>) -> Self {
        Self::on(RemoteBackend::new(upstream))
    }

    pub(crate) fn on(backend: impl Backend + 'static) -> Self {
        Self { inner: Arc::new(DatabaseInner { backend: Box::new(backend), rewrites: Rewrites::default() }) }
    }

    fn backend(&self) -> &dyn Backend {
        &*self.inner.backend
    }

    fn handle(&self, state: Arc<StreamState>) -> Stream {
        Stream { state, in_use: self.backend().in_use() }
    }

    /// The directory; of a remote database, the address of its server.
    pub fn path(&self) -> &Path {
        self.backend().path()
    }

    /// Whether this handle can only read.
    pub fn is_read_only(&self) -> bool {
        self.backend().is_read_only()
    }

    fn check_writable(&self) -> Result<(), Error> {
        if self.is_read_only() { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// Whether this process has its directory open for writing.
    pub(crate) fn is_writer(&self) -> bool {
        self.backend().is_writer()
    }

    /// Writes the URL of the server that has this database open into its directory, so that [`Error::Locked`] can name it to
    /// other processes; `None` removes it. Does nothing where the file cannot be written.
    pub fn announce(&self, url: Option<&str>) {
        self.backend().announce(url);
    }

    /// Creates a stream.
    ///
    /// # Errors
    /// When the name is taken or not allowed, the schema is not valid or has no message type, or the database is open
    /// for reading only.
    pub fn create_stream(&self, name: &str, schema: Schema, options: StreamOptions) -> Result<Stream, Error> {
        self.check_writable()?;
        names::check(name)?;
        options.check()?;
        schema.validate()?;
        if !schema.records.iter().any(|record| record.message) {
            let why = "a stream needs a message type: write `message` instead of `record` for one at least";
            let record = schema.records.first().map(|record| record.name.clone()).unwrap_or_default();
            return Err(Error::Invalid(Invalid::Type { stream: name.into(), record: record.into(), why }));
        }
        Ok(self.handle(self.backend().create_stream(name, schema, options)?))
    }

    /// The stream of that name; created if it does not exist.
    ///
    /// # Errors
    /// [`Invalid::Type`] when it exists with another schema; otherwise as [`Database::create_stream`] and [`Database::stream`].
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

    /// Opens an existing stream.
    ///
    /// # Errors
    /// [`NotFound::Stream`]; the error of its files when they cannot be opened.
    pub fn stream(&self, name: &str) -> Result<Stream, Error> {
        Ok(self.handle(self.backend().stream(name)?))
    }

    /// Changes the schema of a stream. Stored messages do not change: they are converted when they are read ("Versions" in
    /// `docs/format/schema.md`), with defaults for fields that they lack. Returns the stream with its new schema. Handles,
    /// loaders and cursors that are open continue with the old one.
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
    /// [`Invalid::Version`] for the first field that no rule converts, [`Invalid::Type`] for a message type that the new schema
    /// lacks; the error of a file that cannot be written. The stream has then not changed.
    pub fn change_schema(&self, name: &str, schema: Schema) -> Result<Stream, Error> {
        let stream = self.stream(name)?;
        if *stream.schema() == schema {
            return Ok(stream);
        }
        Ok(self.handle(self.backend().change_schema(&stream.state, schema)?))
    }

    /// The directory of a stream that exists.
    pub(crate) fn existing_directory_of(&self, name: &str) -> Result<PathBuf, Error> {
        names::check(name)?;
        let directory = self.directory_of(name);
        let found = is_there(&**self.storage(), &directory)?;
        if found { Ok(directory) } else { Err(self.backend().no_stream(name)) }
    }

    /// Rewrites that clients of this database's server have begun.
    pub(crate) fn rewrites(&self) -> &Rewrites {
        &self.inner.rewrites
    }

    /// The storage that has the files.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        self.backend().storage()
    }

    /// The present name of the stream with an id; `None` when there is no such stream. The writing process reads the
    /// definitions of all streams only after one has been created, deleted or renamed.
    ///
    /// # Errors
    /// When the streams cannot be listed.
    pub fn name_of_id(&self, stream_id: u64) -> Result<Option<String>, Error> {
        self.backend().name_of_id(stream_id)
    }

    /// The state of the server of a remote database: one JSON object, as `docs/SERVER.md` describes it. `None`: the database is
    /// local.
    ///
    /// # Errors
    /// Errors of the connection; the error of a server that is too old to have this command.
    pub fn server_status(&self) -> Result<Option<String>, Error> {
        self.backend().server_status()
    }

    /// Begins a query where the data of a remote database is; `None`: the database is local, or its server runs no queries.
    ///
    /// # Errors
    /// [`Error::Query`]; errors of the connection.
    pub fn query_upstream(&self, query: &Query) -> Result<Option<Box<dyn QueryRows>>, Error> {
        self.backend().query(query)
    }

    /// The object stores of a local database.
    pub(crate) fn objects(&self) -> Option<&Arc<Objects>> {
        self.backend().objects()
    }

    /// Names of all streams, sorted.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn streams(&self) -> Result<Vec<String>, Error> {
        self.backend().streams()
    }

    /// Deletes a stream with all its messages, even if its files are damaged. Open cursors return
    /// [`Stale::Deleted`](crate::Stale::Deleted) once, then continue with their other streams; loaders return it at every flush.
    ///
    /// # Errors
    /// [`NotFound::Stream`], [`Error::ReadOnly`]; the error of a file that cannot be removed.
    pub fn delete_stream(&self, name: &str) -> Result<(), Error> {
        self.check_writable()?;
        names::check(name)?;
        self.backend().delete_stream(name)
    }

    /// Renames a stream, and opens it under its new name. Handles of the old name cannot be used any more: cursors return
    /// [`Stale::Renamed`](crate::Stale::Renamed) once, loaders return it at every flush, so flush them before. Positions stay
    /// valid, because they contain the stream's id.
    ///
    /// # Errors
    /// [`NotFound::Stream`], [`Invalid::StreamExists`], [`Invalid::StreamName`], [`Error::ReadOnly`]; the error of the directory
    /// when it cannot be renamed, or of the stream when it cannot be opened.
    pub fn rename_stream(&self, name: &str, new: &str) -> Result<Stream, Error> {
        self.check_writable()?;
        names::check(name)?;
        names::check(new)?;
        Ok(self.handle(self.backend().rename_stream(name, new)?))
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
        Ok(CursorBuilder::new(readers, self.backend().in_use()))
    }

    /// The directory of all streams.
    pub(crate) fn streams_directory(&self) -> PathBuf {
        self.backend().streams_directory()
    }

    /// The directory of a stream, whether it exists or not.
    pub(crate) fn directory_of(&self, name: &str) -> PathBuf {
        self.backend().directory_of(name)
    }
}
