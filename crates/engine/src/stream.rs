//! The handle of an open stream.

pub(crate) mod binding;
pub(crate) mod census;
pub(crate) mod copies;
pub(crate) mod definition;
pub(crate) mod edit;
pub(crate) mod events;
pub(crate) mod identity;
pub(crate) mod observe;
pub(crate) mod open;
pub(crate) mod order;
pub(crate) mod origin;
pub(crate) mod pick;
pub(crate) mod picked;
pub(crate) mod presence;
pub(crate) mod reader;
pub(crate) mod recovery;
pub(crate) mod remote;
pub(crate) mod rewrite;
pub(crate) mod serve;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod versions;
pub(crate) mod writer;

use crate::batches::BatchLoader;
use crate::error::Error;
use crate::files::bytes_of;
use crate::interrupt;
use crate::loader::Loader;
use crate::maintenance::context::MaintenanceContext;
use crate::maintenance::offload::{self, Offloaded};
use crate::maintenance::{retention, seal};
use crate::options::StreamOptions;
use crate::read::columns::ColumnBuilder;
use crate::read::cursor_builder::CursorBuilder;
use crate::space::reader::SpaceReader;
use crate::stream::reader::InUse;
use crate::stream::recovery::StreamRecovery;
use crate::stream::state::StreamState;
use crate::stream::stats::StreamStats;
use crate::upstream::{Command, Outcome};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tapedb_codec::Record;
use tapedb_codec::dynamic::Layouts;
use tapedb_codec::evolve::Change;
use tapedb_log::Storage;
use tapedb_schema::{Schema, Timestamp};

/// A stream of an open database. Cheap to clone; all clones are the same stream.
#[derive(Debug, Clone)]
pub struct Stream {
    pub(crate) state: Arc<StreamState>,
    /// Maintenance continues while a handle exists.
    pub(crate) in_use: InUse,
}

impl Stream {
    /// Name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The directory of the stream's files.
    pub fn path(&self) -> &Path {
        &self.state.directory
    }

    /// Schema.
    pub fn schema(&self) -> &Schema {
        &self.state.definition.schema
    }

    /// The schema prepared for the interpreted codec.
    pub fn layouts(&self) -> &Layouts {
        &self.state.layouts
    }

    /// The stream's present guarantees: another process's [`Stream::alter`] takes effect when its files are next read, as
    /// by [`Stream::stats`].
    pub fn options(&self) -> StreamOptions {
        self.state.settings.get()
    }

    /// Changes the stream's options, except durability and the number of spaces. On the disk when it returns; loaders,
    /// cursors and maintenance use them from then on, readers in other processes see them.
    ///
    /// ```
    /// # use tapedb_engine::{Database, Late, StreamOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let db = Database::open(directory.path().join("db"))?;
    /// # let ticks = db.create_stream("ticks", "message Tick { price: f64 }".parse()?, StreamOptions::default())?;
    /// ticks.alter(StreamOptions { late: Late::Refuse, ..ticks.options() })?;
    /// assert_eq!(ticks.options().late, Late::Refuse);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Invalid::Options`](crate::Invalid::Options) for options that are invalid or cannot be changed; when the database
    /// is open for reading only, the stream has been deleted, or its definition cannot be written: the options are then
    /// unchanged.
    pub fn alter(&self, options: StreamOptions) -> Result<(), Error> {
        let options_text = options.to_text();
        match self.state.command(|stream| Command::Alter { stream, options: options_text })? {
            Some(_) => Ok(()),
            None => self.state.alter(options),
        }
    }

    /// The effects of another schema ([`Database::change_schema`](crate::Database::change_schema)): types and fields that
    /// are added, dropped and converted, and stored data that could no longer be read. Empty: no effect on messages.
    /// Changes nothing.
    ///
    /// # Errors
    /// Those of [`Database::change_schema`](crate::Database::change_schema), which would fail too.
    pub fn compare_schema(&self, schema: &Schema) -> Result<Vec<Change>, Error> {
        self.state.compare_schema(schema)
    }

    /// When the stream was created.
    pub fn created(&self) -> Timestamp {
        self.state.definition.created
    }

    /// The stream as text: options, then the schema in the form that parses back.
    pub fn describe(&self) -> String {
        format!("// stream {:?}: {}\n{}", self.name(), self.options(), self.schema())
    }

    /// Symbols in the order in which they were added.
    pub fn symbols(&self) -> Vec<String> {
        self.state.dictionary.names_from(0).map(str::to_string).collect()
    }

    /// Faults that were found and repaired when the stream was opened.
    pub fn recovery(&self) -> &StreamRecovery {
        &self.state.recovery
    }

    /// Present counts and sizes.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub fn stats(&self) -> Result<StreamStats, Error> {
        match self.state.command(|stream| Command::Stats { stream })? {
            Some(Outcome::Stats(stats)) => return Ok(stats),
            Some(other) => return Err(other.unexpected()),
            None => self.state.refresh()?,
        }
        let spaces = &self.state.spaces;
        let times = spaces.iter().filter_map(|space| space.times());
        let times = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        Ok(StreamStats {
            messages: spaces.iter().map(|space| space.messages()).sum(),
            next_sequence: spaces.iter().map(|space| space.next_sequence()).sum(),
            bytes: self.bytes()?,
            symbols: self.state.dictionary.len(),
            times: times.map(|(first, last)| (Timestamp(first), Timestamp(last))),
        })
    }

    /// Bytes of the stream's files, without preallocated space.
    fn bytes(&self) -> Result<u64, Error> {
        let spare = |space: &Arc<SpaceReader>| space.log.preallocated_bytes();
        let spare: u64 = self.state.spaces.iter().map(spare).sum::<Result<_, _>>()?;
        // The symbols and messages of a transient stream are in memory, and its spaces count them.
        let storage: &dyn Storage =
            self.state.spaces.first().map_or(&*self.state.storage, |space| &*space.storage);
        Ok(bytes_of(storage, &self.state.directory)?.saturating_sub(spare))
    }

    /// A loader for this stream, in its first space. Several may write at once, from any thread; they take turns.
    ///
    /// # Errors
    /// When the database is open for reading only.
    pub fn loader(&self) -> Result<Loader, Error> {
        self.loader_in(0)
    }

    /// A loader in one of the stream's spaces, counted from 0. Loaders of different spaces do not wait for each other.
    ///
    /// # Errors
    /// When the stream has no such space, or the database is open for reading only.
    pub fn loader_in(&self, space: u32) -> Result<Loader, Error> {
        Loader::open(&self.state, space, self.in_use.clone())
    }

    /// How many messages of a request are stored in the first space: what [`Loader::resume_request`] would return.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub fn stored_of_request(&self, request: u64) -> Result<u64, Error> {
        let last = self.state.writer()?.spaces[0].writer.last_of_request(request);
        Ok(last.map_or(0, |(number, _)| number & !tapedb_log::REQUEST))
    }

    /// Appends batches that were encoded elsewhere to one of the stream's spaces.
    ///
    /// # Errors
    /// [`NotFound::Space`](crate::NotFound::Space), [`Error::ReadOnly`]; when the stream has been deleted.
    pub fn batches(&self, space: u32) -> Result<BatchLoader, Error> {
        BatchLoader::open(&self.state, space, self.in_use.clone())
    }

    /// Writes all messages of log files into segments, in this thread: smaller and faster to read. Maintenance in the
    /// background seals only log files that are full or old enough. Then applies the options to old segments: retention,
    /// the cold tier. Returns how many messages were sealed.
    ///
    /// # Errors
    /// When the database is open for reading only, or a file cannot be read or written: no message is then lost.
    pub fn seal(&self) -> Result<u64, Error> {
        if self.state.is_remote() {
            self.state.refresh()?;
            self.state.check_not_outdated()?;
        }
        match self.state.command(|stream| Command::Seal { stream })? {
            Some(Outcome::Messages(messages)) => return Ok(messages),
            Some(other) => return Err(other.unexpected()),
            None => {}
        }
        let (stream, writer) = (&*self.state.reader, &**self.state.writer()?);
        writer.check_lock()?;
        stream.check_not_outdated()?;
        if self.state.definition.options.is_transient() {
            // It has no segments.
            return Ok(0);
        }
        let contexts = writer.spaces.iter().map(|space| MaintenanceContext { stream, writer, space });
        let sealed = contexts.map(seal::seal_all).sum::<Result<u64, Error>>()?;
        retention::retire(stream, writer)?;
        Ok(sealed)
    }

    /// Moves sealed segments to the stream's object store now ([`Offload`](crate::Offload)), in this thread: those that are older than
    /// the age in the options, or than `older_than`. Brings the stream's record in the store up to date.
    ///
    /// # Errors
    /// When the database is remote or open for reading only, or the store refuses: nothing is lost, and the call can be made again.
    pub fn offload(&self, older_than: Option<Duration>) -> Result<Offloaded, Error> {
        self.offload_with(older_than, None)
    }

    /// [`Stream::offload`], which also removes objects that nothing has named for a time; in the background that is an hour.
    ///
    /// # Errors
    /// As [`Stream::offload`].
    pub fn offload_and_sweep(
        &self,
        older_than: Option<Duration>,
        grace: Duration,
    ) -> Result<Offloaded, Error> {
        self.offload_with(older_than, Some(grace))
    }

    fn offload_with(
        &self,
        older_than: Option<Duration>,
        grace: Option<Duration>,
    ) -> Result<Offloaded, Error> {
        let (stream, writer) = (&*self.state.reader, &**self.state.writer()?);
        stream.check_not_outdated()?;
        let proceed = || !interrupt::is_interrupted();
        let moved =
            offload::offload(stream, writer, &offload::Work { older_than, grace, proceed: &proceed })?;
        interrupt::check()?;
        Ok(moved)
    }

    /// From now on [`Stream::offload`] goes on where another copy of the database has written to the store, which must be gone for good: after the
    /// database was restored from a backup.
    ///
    /// # Errors
    /// When the database is remote or open for reading only.
    pub fn take_over_objects(&self) -> Result<(), Error> {
        offload::lock(self.state.writer()?).takes_over = true;
        Ok(())
    }

    /// Segments of the stream that are in its object store, and their bytes. A remote reader counts none.
    pub fn offloaded(&self) -> Offloaded {
        let mut all = Offloaded::default();
        for space in &self.state.spaces {
            let totals = space.catalog().parts.totals();
            all =
                Offloaded { segments: all.segments + totals.objects, bytes: all.bytes + totals.object_bytes };
        }
        all
    }

    /// Why full log files are not being sealed, or segments not merged: for example a full disk. `None` without a failure.
    /// Messages can be written and read nevertheless.
    pub fn maintenance_failure(&self) -> Option<String> {
        match self.state.command(|stream| Command::MaintenanceFailure { stream }) {
            Ok(Some(Outcome::Text(failure))) => return failure,
            Ok(Some(_)) => return None,
            Err(error) => return Some(error.to_string()),
            Ok(None) => {}
        }
        self.state.writer().ok()?.spaces.iter().find_map(|space| space.maintenance_failure())
    }

    /// How many spaces the stream has.
    pub fn spaces(&self) -> u32 {
        self.state.spaces.len() as u32
    }

    /// The sequence numbers of the next messages, one for each space: history now ends before them
    /// ([`CursorBuilder::to_sequences`]).
    ///
    /// # Errors
    /// When the stream has been deleted, or its files cannot be read.
    pub fn next_sequences(&self) -> Result<Vec<u64>, Error> {
        self.state.check_is_here()?;
        self.state.refresh()?;
        Ok(self.state.spaces.iter().map(|space| space.next_sequence()).collect())
    }

    /// A cursor over this stream alone.
    pub fn cursor(&self) -> CursorBuilder {
        CursorBuilder::new(vec![self.state.reader.clone()], self.in_use.clone())
    }

    /// Columns of this stream alone: [`CursorBuilder::columns`].
    pub fn columns<S: Into<String>>(
        &self,
        record: &str,
        fields: impl IntoIterator<Item = S>,
    ) -> ColumnBuilder {
        self.cursor().columns(record, fields)
    }

    /// Type id of the Rust type `T` in this stream.
    ///
    /// # Errors
    /// When the stream has no such record type, or one with other fields.
    pub fn type_id_of<T: Record + 'static>(&self) -> Result<u16, Error> {
        Ok(self.state.binding_of::<T>()?.type_id)
    }
}
