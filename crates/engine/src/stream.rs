//! A stream: its definition, its symbols, its spaces.

pub(crate) mod binding;
pub(crate) mod census;
pub(crate) mod copies;
pub(crate) mod definition;
pub(crate) mod edit;
pub(crate) mod identity;
pub(crate) mod observe;
pub(crate) mod order;
pub(crate) mod rewrite;
pub(crate) mod serve;
pub(crate) mod versions;

use crate::bell::Bell;
use crate::database::random;
use crate::error::Error;
use crate::files::{bytes_of, check_there, sync_dir};
use crate::loader::Loader;
use crate::lock::WriterLock;
use crate::maintenance::retention;
use crate::maintenance::seal;
use crate::maintenance::thread::Maintenance;
use crate::options::{Settings, StreamOptions};
use crate::read::columns::ColumnBuilder;
use crate::read::cursor::CursorBuilder;
use crate::space::catalog::Catalog;
use crate::space::lost_symbols;
use crate::space::manifest::{self, Owner};
use crate::space::{Lane, Opening, Space};
use crate::stream::binding::Binding;
use crate::stream::definition::Definition;
use crate::stream::identity::{Identity, Seen};
use crate::stream::observe::Observers;
use crate::stream::versions::{Reading, Versions};
use crate::upstream::remote::{Remote, Shared, definition_of};
use crate::upstream::storage::UpstreamStorage;
use crate::upstream::{Command, Outcome, Target, Upstream};
use std::any::TypeId;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tapedb_codec::Record;
use tapedb_codec::dynamic::Layouts;
use tapedb_codec::evolve::{Change, Evolution};
use tapedb_log::{
    Committed, Damage, Dictionary, Hold, LogError, LogOptions, MemoryStorage, Recovery, Storage, SymbolFile,
    SymbolRecovery, Turn,
};
use tapedb_schema::{Schema, Timestamp};

/// The symbol file in a stream's directory.
pub(crate) const SYMBOLS_FILE: &str = "symbols";
/// So many new symbols are added at once; of more, others may add some in between.
const SYMBOLS_AT_ONCE: usize = 4096;

/// The directory of a space in the directory of its stream.
pub(crate) fn space_directory(space: u32) -> String {
    space.to_string()
}

/// A stream of an open database. Cheap to clone; all clones are the same stream.
#[derive(Debug, Clone)]
pub struct Stream {
    pub(crate) inner: Arc<StreamInner>,
    /// Upkeep goes on while somebody uses the database.
    pub(crate) maintenance: Arc<Maintenance>,
}

/// What a stream is and holds, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamStats {
    /// Messages in files. Those that have been deleted count until upkeep has taken them out.
    pub messages: u64,
    /// Messages ever appended: in a stream of one space, the number the next message gets.
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
    /// The logs' files, by space.
    pub logs: Vec<Recovery>,
    /// What is wrong with one of the two copies of the definition; the other one is good. (Writers have made it anew.)
    pub definition: Option<String>,
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
        self.logs.iter().all(Recovery::is_clean)
            && symbols.cut_bytes == 0
            && symbols.damaged.is_empty()
            && self.symbols_lost == 0
            && self.definition.is_none()
    }

    /// What was found damaged in the logs.
    pub fn damaged(&self) -> impl Iterator<Item = &Damage> {
        self.logs.iter().flat_map(|log| &log.damaged)
    }
}

impl std::fmt::Display for StreamRecovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(damage) = &self.definition {
            write!(f, "{damage}; ")?;
        }
        match &self.logs[..] {
            [log] => write!(f, "{log}; ")?,
            logs => {
                logs.iter().enumerate().try_for_each(|(space, log)| write!(f, "space {space}: {log}; "))?;
            }
        }
        write!(f, "{}", self.symbols)?;
        match self.symbols_lost {
            0 => Ok(()),
            lost => write!(f, "; {lost} symbols of stored messages are lost and read as ?id"),
        }
    }
}

/// The state behind all handles of a stream that were opened with one version of its schema. What it shares with those of
/// other versions is in an [`Arc`].
pub(crate) struct StreamInner {
    pub name: String,
    pub storage: Arc<dyn Storage>,
    pub directory: PathBuf,
    /// As it was when the stream was opened; of its options only those that never change are to be used.
    pub definition: Definition,
    /// Names the stream in positions: its id; of a transient one that is being written another each time it is opened, for
    /// then its messages are others.
    pub position_id: u64,
    /// Tells this opening from others: a number made up when the stream was opened.
    run: u64,
    /// Who is told of what happens.
    pub observers: Arc<Observers>,
    /// The options, now.
    pub settings: Arc<Settings>,
    pub layouts: Layouts,
    versions: Versions,
    pub spaces: Vec<Arc<Space>>,
    pub dictionary: Arc<Dictionary>,
    /// The database's.
    pub bell: Arc<Bell>,
    /// This stream's.
    pub own_bell: Arc<Bell>,
    /// Set when the stream is deleted or renamed, or found to be: see [`StreamInner::is_gone`].
    deleted: Arc<AtomicBool>,
    /// Its new name, if it has one.
    renamed: Arc<Mutex<Option<String>>>,
    /// `None`: the stream is elsewhere.
    identity: Option<Arc<Identity>>,
    /// The definition on the disk; held while it is changed.
    current: Arc<Mutex<Definition>>,
    /// `None`: the stream is elsewhere.
    symbols: Option<Arc<Mutex<SymbolFile>>>,
    /// What is known of the stream, if it is elsewhere.
    pub remote: Option<Arc<Remote>>,
    /// Whether batches can be appended through this handle's database.
    pub is_writable: bool,
    /// The database stays locked while one of its streams is in use.
    lock: Option<Arc<WriterLock>>,
    /// What the Rust types are that loaders and cursors have asked for.
    bound: Mutex<HashMap<TypeId, Option<Binding>>>,
    recovery: StreamRecovery,
}

impl std::fmt::Debug for StreamInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamInner").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// What a stream has of its database.
pub(crate) struct Opened {
    pub storage: Arc<dyn Storage>,
    pub bell: Arc<Bell>,
    /// If there is one, the stream is open for writing.
    pub lock: Option<Arc<WriterLock>>,
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

    /// What the stream promises, now: another process's [`Stream::alter`] is seen when its files are looked at next, as by
    /// [`Stream::stats`].
    pub fn options(&self) -> StreamOptions {
        self.inner.settings.get()
    }

    /// Changes the stream's options, but for durability and the number of spaces. On the disk when it returns; loaders,
    /// cursors and upkeep heed them from then on, readers in other processes see them.
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
    /// [`Error::Options`] for what cannot be chosen or changed; when the database is open for reading only, the stream
    /// has been deleted, or its definition cannot be written: all is then as before.
    pub fn alter(&self, options: StreamOptions) -> Result<(), Error> {
        let options_text = options.to_text();
        match self.inner.command(|stream| Command::Alter { stream, options: options_text })? {
            Some(_) => Ok(()),
            None => self.inner.alter(options),
        }
    }

    /// What would change if the stream got another schema ([`Database::change_schema`](crate::Database::change_schema)): types and
    /// fields that are added, dropped and converted, and what of stored messages cannot be read any more then. Empty: nothing
    /// that matters to messages. Changes nothing.
    ///
    /// # Errors
    /// Those of [`Database::change_schema`](crate::Database::change_schema), which would fail too.
    pub fn compare_schema(&self, schema: &Schema) -> Result<Vec<Change>, Error> {
        self.inner.compare_schema(schema)
    }

    /// When the stream was created.
    pub fn created(&self) -> Timestamp {
        self.inner.definition.created
    }

    /// The stream as people write it down: options, then the schema in the form that parses back.
    pub fn describe(&self) -> String {
        format!("// stream {:?}: {}\n{}", self.name(), self.options(), self.schema())
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
        match self.inner.command(|stream| Command::Stats { stream })? {
            Some(Outcome::Stats(stats)) => return Ok(stats),
            Some(other) => return Err(other.unexpected()),
            None => self.inner.refresh()?,
        }
        let spaces = &self.inner.spaces;
        let times = spaces.iter().filter_map(|space| space.times());
        let times = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        Ok(StreamStats {
            messages: spaces.iter().map(|space| space.messages()).sum(),
            next_sequence: spaces.iter().map(|space| space.next_sequence()).sum(),
            bytes: self.bytes()?,
            symbols: self.inner.dictionary.len(),
            times: times.map(|(first, last)| (Timestamp(first), Timestamp(last))),
        })
    }

    /// Bytes of the stream's files, without room for what has not been written.
    fn bytes(&self) -> Result<u64, Error> {
        let room = |space: &Arc<Space>| space.log.preallocated_bytes();
        let room: u64 = self.inner.spaces.iter().map(room).sum::<Result<_, _>>()?;
        Ok(bytes_of(self.inner.contents(), &self.inner.directory)?.saturating_sub(room))
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
        match self.inner.spaces.get(space as usize) {
            Some(space) => Loader::new(self.clone(), space.clone()),
            None => Err(Error::NoSpace {
                stream: self.name().into(),
                space,
                spaces: self.inner.spaces.len() as u32,
            }),
        }
    }

    /// Makes segments of everything that is in log files now, in this thread: smaller and faster to read. Upkeep in the
    /// background does it for log files that are full or old enough only. Then does what the options say of old segments:
    /// retention, the cold tier. Returns how many messages were sealed.
    ///
    /// # Errors
    /// When the database is open for reading only, or a file cannot be read or written: nothing is lost by it.
    pub fn seal(&self) -> Result<u64, Error> {
        if self.inner.remote.is_some() {
            self.inner.refresh()?;
            self.check_not_outdated()?;
        }
        match self.inner.command(|stream| Command::Seal { stream })? {
            Some(Outcome::Messages(messages)) => return Ok(messages),
            Some(other) => return Err(other.unexpected()),
            None => {}
        }
        if !self.inner.is_writable {
            return Err(Error::ReadOnly);
        }
        self.inner.check_lock()?;
        self.check_not_outdated()?;
        if self.inner.definition.options.is_transient() {
            // It has no segments.
            return Ok(0);
        }
        let lanes = self.inner.spaces.iter().map(|space| Lane { stream: &self.inner, space });
        let sealed = lanes.map(seal::seal_all).sum::<Result<u64, Error>>()?;
        retention::retire(&self.inner)?;
        Ok(sealed)
    }

    fn check_not_outdated(&self) -> Result<(), Error> {
        match self.inner.is_outdated() {
            true => Err(Error::Outdated { stream: self.name().into() }),
            false => Ok(()),
        }
    }

    /// Why full log files are not being sealed, or segments not merged: a full disk, say. `None` while all goes well.
    /// Messages can be written and read all the same.
    pub fn maintenance_failure(&self) -> Option<String> {
        match self.inner.command(|stream| Command::MaintenanceFailure { stream }) {
            Ok(Some(Outcome::Text(failure))) => return failure,
            Ok(Some(_)) => return None,
            Err(error) => return Some(error.to_string()),
            Ok(None) => {}
        }
        self.inner.spaces.iter().find_map(|space| space.maintenance_failure())
    }

    /// How many spaces the stream has.
    pub fn spaces(&self) -> u32 {
        self.inner.spaces.len() as u32
    }

    /// A cursor over this stream alone.
    pub fn cursor(&self) -> CursorBuilder {
        CursorBuilder::new(vec![self.clone()])
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
        Ok(self.inner.binding_of::<T>()?.type_id)
    }
}

impl Drop for StreamInner {
    /// Notes where the logs end, while the database is locked still. A stream that is gone has other files, or none.
    fn drop(&mut self) {
        let holds = self.lock.as_ref().is_some_and(|lock| lock.look().is_ok());
        if !self.is_writable || !holds || self.is_gone() {
            return;
        }
        // Other handles of the stream have the same spaces.
        let last = self.spaces.iter().filter(|space| Arc::strong_count(space) == 1);
        for writer in last.filter_map(|space| space.writer.as_ref()) {
            // Without it damage to the end is taken for an append that was not finished, as after a crash.
            let _ = writer.close();
        }
    }
}

impl StreamInner {
    /// Opens a stream's files; the database's lock, if there is one, makes it the writer, which also recovers them.
    pub fn open(name: &str, directory: PathBuf, opened: Opened) -> Result<Self, Error> {
        let Opened { storage, bell, lock } = opened;
        let (identity, definition, copies) = Identity::open(storage.clone(), &directory)?;
        let layouts = Layouts::new(definition.schema.clone())?;
        let writing = lock.is_some();
        // Opening mends files.
        lock.as_ref().map_or(Ok(()), |lock| lock.look())?;
        let observers: Arc<Observers> = Arc::default();
        let Files { symbols, spaces, mut recovery } =
            Files::open(&storage, &directory, &definition, (writing, &observers))?;
        recovery.definition = copies.damage.map(|error| error.to_string());
        if writing && copies.is_uneven {
            identity.write(&definition)?;
        }
        let stream = Self {
            name: name.into(),
            storage,
            directory,
            layouts,
            spaces: spaces.into_iter().map(Arc::new).collect(),
            dictionary: symbols.dictionary().clone(),
            bell,
            own_bell: Arc::default(),
            deleted: Arc::default(),
            renamed: Arc::default(),
            identity: Some(Arc::new(identity)),
            remote: None,
            settings: Arc::new(Settings::new(definition.options)),
            current: Arc::new(Mutex::new(definition.clone())),
            symbols: Some(Arc::new(Mutex::new(symbols))),
            versions: Versions::default(),
            is_writable: writing,
            lock,
            bound: Mutex::default(),
            recovery,
            run: random(),
            observers,
            position_id: match is_in_memory(&definition, writing) {
                true => random(),
                false => definition.id,
            },
            definition,
        };
        stream.find_last_times()?;
        Ok(stream)
    }

    /// Opens a stream of a database elsewhere.
    pub fn open_remote(
        name: &str,
        directory: PathBuf,
        upstream: &Arc<dyn Upstream>,
        bell: Arc<Bell>,
    ) -> Result<Self, Error> {
        let description = upstream.describe(name, None)?;
        let text = description.definition.as_deref();
        let missing =
            || Error::Protocol { what: "the first description of a stream lacks its definition".into() };
        let definition = definition_of(text.ok_or_else(missing)?, directory.join(definition::FILES[0]))?;
        let layouts = Layouts::new(definition.schema.clone())?;
        let stream_id = definition.id;
        let (from, to) = (upstream.clone(), directory.clone());
        let storage: Arc<dyn Storage> =
            Arc::new(UpstreamStorage { upstream: from, stream_id, directory: to });
        let of_space = |space: u32| {
            let directory = directory.join(space_directory(space));
            Arc::new(Space::described(storage.clone(), &directory, Owner { stream_id, space }))
        };
        let spaces: Vec<_> = (0..definition.options.spaces).map(of_space).collect();
        let own_bell: Arc<Bell> = Arc::default();
        let shared = Shared {
            spaces: spaces.clone(),
            dictionary: Arc::default(),
            settings: Arc::new(Settings::new(definition.options)),
            current: Arc::new(Mutex::new(definition.clone())),
            deleted: Arc::default(),
            renamed: Arc::default(),
            bells: [own_bell.clone(), bell.clone()],
        };
        let (dictionary, settings) = (shared.dictionary.clone(), shared.settings.clone());
        let (current, deleted, renamed) =
            (shared.current.clone(), shared.deleted.clone(), shared.renamed.clone());
        let remote = Remote::new(upstream.clone(), &description, shared)?;
        Ok(Self {
            name: name.into(),
            storage,
            directory,
            position_id: description.position_id,
            run: description.run,
            observers: Arc::default(),
            settings,
            layouts,
            versions: Versions::default(),
            spaces,
            dictionary,
            bell,
            own_bell,
            deleted,
            renamed,
            identity: None,
            current,
            symbols: None,
            remote: Some(remote),
            is_writable: false,
            lock: None,
            bound: Mutex::default(),
            recovery: StreamRecovery::default(),
            definition,
        })
    }

    /// What a command to the stream elsewhere gives; `None`: the stream is here. What is known of it is then up to date.
    pub fn command(&self, command: impl FnOnce(Target) -> Command) -> Result<Option<Outcome>, Error> {
        let Some(remote) = &self.remote else { return Ok(None) };
        self.check_not_deleted()?;
        let target = Target { stream_id: remote.stream_id, name: self.name.clone() };
        let outcome = remote.upstream.command(&command(target))?;
        remote.refresh()?;
        Ok(Some(outcome))
    }

    /// Where messages were deleted, the index does not know which is the latest that is left.
    fn find_last_times(&self) -> Result<(), Error> {
        let deleted = |space: &&Arc<Space>| self.is_writable && !space.catalog().deletions.is_empty();
        let mut spaces = self.spaces.iter().filter(deleted);
        spaces.try_for_each(|space| edit::find_last_time(Lane { stream: self, space }))
    }

    /// Makes the directory of a new stream, whole or not at all.
    pub fn create(
        storage: &dyn Storage,
        streams: &Path,
        directory: &Path,
        definition: &Definition,
    ) -> Result<(), Error> {
        let draft = streams.join(format!(".new-{:016x}", definition.id));
        let created = Self::create_in(storage, &draft, definition)
            .and_then(|()| storage.rename(&draft, directory).map_err(Error::io("create", directory)));
        if created.is_err() {
            // What stays is removed when the database is opened next.
            let _ = storage.remove_dir_all(&draft);
        }
        created?;
        sync_dir(storage, streams).inspect_err(|_| {
            // What is acknowledged in the stream must not go with its name.
            let _ = storage.rename(directory, &draft).and_then(|()| storage.remove_dir_all(&draft));
        })
    }

    fn create_in(storage: &dyn Storage, draft: &Path, definition: &Definition) -> Result<(), Error> {
        Self::create_contents(storage, draft, definition)?;
        definition::write(storage, draft, definition)?;
        sync_dir(storage, draft)
    }

    /// Makes what a stream without messages has beside its definition.
    fn create_contents(
        storage: &dyn Storage,
        directory: &Path,
        definition: &Definition,
    ) -> Result<(), Error> {
        for space in 0..definition.options.spaces {
            let directory = directory.join(space_directory(space));
            storage.create_dir_all(&directory).map_err(Error::io("create", &directory))?;
            // There before the first segment is.
            let owner = Owner { stream_id: definition.id, space };
            manifest::write(storage, &directory, owner, &Catalog::default())?;
        }
        // The symbol file exists from the start, so that readers in other processes need not wait for a writer.
        let durability = definition.options.durability;
        SymbolFile::open_rw(storage, &directory.join(SYMBOLS_FILE), definition.id, durability)?;
        Ok(())
    }

    /// Where the stream's symbols and messages are.
    fn contents(&self) -> &dyn Storage {
        self.spaces.first().map_or(&*self.storage, |space| &*space.storage)
    }

    /// Whether closing the stream loses messages.
    pub fn has_messages_in_memory(&self) -> bool {
        let has_some = || self.spaces.iter().any(|space| space.next_sequence() > 0);
        is_in_memory(&self.definition, self.is_writable) && has_some()
    }

    /// Checks that messages can be read in this process.
    pub fn check_is_here(&self) -> Result<(), Error> {
        if self.is_writable || self.remote.is_some() || !self.definition.options.is_transient() {
            return Ok(());
        }
        Err(Error::Elsewhere { stream: (*self.name).into() })
    }

    /// Whether another process writes the files, at which somebody has to look.
    pub fn is_followed(&self) -> bool {
        !self.is_writable && self.remote.is_none()
    }

    /// The error of a reader who was too slow.
    pub fn dropped(&self, messages: u64, first_sequence: u64) -> Error {
        Error::Dropped { stream: (*self.name).into(), messages, first_sequence }
    }

    /// The turn to write a batch into a space, under its writer's lock.
    pub fn turn<'s, 'b>(&self, space: &'s Space, batch: &'b mut [u8]) -> Result<Turn<'s, 'b>, Error> {
        let turn = space.writer.as_ref().ok_or(Error::ReadOnly)?.turn(batch);
        // Looked at under the lock, which whoever deletes holds too.
        self.check_not_deleted()?;
        self.check_lock()?;
        Ok(turn)
    }

    /// Checks that no other process can have been let in as a writer: see [`WriterLock`].
    #[inline]
    pub fn check_lock(&self) -> Result<(), Error> {
        self.lock.as_ref().map_or(Ok(()), |lock| lock.check())
    }

    /// Takes the stream out of use while `remove` takes its files away: nothing is written meanwhile. (A sync that is
    /// under way has its files open and does not mind.)
    pub fn delete(&self, remove: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let _maintenance: Vec<_> = self.spaces.iter().map(|space| space.stop_maintenance()).collect();
        let _hold = self.hold_writers()?;
        self.check_not_deleted()?;
        // Before the files go: a reader that then looks at new files of the old names knows.
        self.deleted.store(true, Ordering::SeqCst);
        let removed = remove().inspect_err(|_| self.deleted.store(false, Ordering::SeqCst));
        self.ring();
        if removed.is_ok() {
            let renamed = self.renamed.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.observers.gone(renamed.as_deref());
        }
        removed
    }

    /// [`StreamInner::delete`], where the files get another name.
    pub fn rename(&self, new: &str, rename: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let renamed = || self.renamed.lock().unwrap_or_else(PoisonError::into_inner);
        // First of all: who finds the stream gone is told why.
        let before = renamed().replace(new.into());
        self.delete(rename).inspect_err(|_| *renamed() = before)
    }

    /// Changes the options, on the disk first.
    pub fn alter(&self, options: StreamOptions) -> Result<(), Error> {
        self.settings.get().check_change(&options)?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing is written meanwhile, so that no batch is judged by both; nor is the stream deleted.
        let hold = self.hold_writers()?;
        self.check_not_deleted()?;
        let altered = Definition { revision: current.revision + 1, options, ..current.clone() };
        self.identity()?.write(&altered)?;
        *current = altered;
        self.settings.set(options);
        drop(hold);
        let writers = self.spaces.iter().filter_map(|space| space.writer.as_ref());
        writers.for_each(|writer| writer.set_file_bytes_max(options.file_bytes_max));
        drop(current);
        self.observers.changed();
        Ok(())
    }

    /// Changes the schema, on the disk first. Whoever has the stream open goes on with the version there was: loaders
    /// write it, and cursors make it out of newer messages.
    pub fn change_schema(&self, schema: Schema) -> Result<Self, Error> {
        schema.validate()?;
        let layouts = Layouts::new(schema.clone())?;
        // Upkeep goes on with the new version only; it looks at the definition while it is held.
        let _maintenance: Vec<_> = self.spaces.iter().map(|space| space.stop_maintenance()).collect();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let version = current.schema_version.checked_add(1).ok_or(Error::Options {
            what: "the schema has had 65,535 versions, which is the most; create another stream",
        })?;
        self.check_versions(&current, &layouts)?;
        let hold = self.hold_writers()?;
        self.check_not_deleted()?;
        versions::keep(&*self.storage, &self.directory, current.schema_version, &current.schema)?;
        let changed =
            Definition { revision: current.revision + 1, schema_version: version, schema, ..current.clone() };
        self.identity()?.write(&changed)?;
        *current = changed.clone();
        drop((current, hold));
        self.observers.changed();
        Ok(self.with(changed, layouts))
    }

    /// Checks that whatever was written under any version of the schema can be read under a new one.
    fn check_versions(&self, current: &Definition, layouts: &Layouts) -> Result<(), Error> {
        for older in 1..current.schema_version {
            let written = versions::read(&*self.storage, &self.directory, older)?;
            versions::check_change(&self.name, &Layouts::new(written)?, layouts)?;
        }
        versions::check_change(&self.name, &Layouts::new(current.schema.clone())?, layouts)
    }

    /// What would change with another schema.
    fn compare_schema(&self, schema: &Schema) -> Result<Vec<Change>, Error> {
        schema.validate()?;
        self.refresh()?;
        let layouts = Layouts::new(schema.clone())?;
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.check_versions(&current, &layouts)?;
        let changes = Evolution::changes(&Layouts::new(current.schema)?, &layouts);
        changes.map_err(|error| Error::Version { stream: (*self.name).into(), error: Box::new(error) })
    }

    /// Whether the stream has got another schema since it was opened.
    pub fn is_outdated(&self) -> bool {
        self.newest_version() != self.definition.schema_version
    }

    /// The version of the schema that the stream has now.
    pub fn newest_version(&self) -> u16 {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).schema_version
    }

    /// The same stream, opened with the schema that it has now.
    pub fn renewed(&self) -> Result<Self, Error> {
        let definition = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let layouts = Layouts::new(definition.schema.clone())?;
        Ok(self.with(definition, layouts))
    }

    fn with(&self, definition: Definition, layouts: Layouts) -> Self {
        Self {
            name: self.name.clone(),
            storage: self.storage.clone(),
            directory: self.directory.clone(),
            definition,
            position_id: self.position_id,
            run: self.run,
            observers: self.observers.clone(),
            settings: self.settings.clone(),
            layouts,
            versions: Versions::default(),
            spaces: self.spaces.clone(),
            dictionary: self.dictionary.clone(),
            bell: self.bell.clone(),
            own_bell: self.own_bell.clone(),
            deleted: self.deleted.clone(),
            renamed: self.renamed.clone(),
            identity: self.identity.clone(),
            current: self.current.clone(),
            symbols: self.symbols.clone(),
            remote: self.remote.clone(),
            is_writable: self.is_writable,
            lock: self.lock.clone(),
            bound: Mutex::default(),
            recovery: self.recovery.clone(),
        }
    }

    /// How messages written with another version of the schema become those of this one.
    pub fn evolution(&self, version: u16) -> Result<Arc<Evolution>, Error> {
        let Self { storage, directory, name, layouts, .. } = self;
        self.versions.from(version, &Reading { storage: &**storage, directory, name, layouts })
    }

    fn identity(&self) -> Result<&Identity, Error> {
        self.identity.as_deref().ok_or(Error::ReadOnly)
    }

    fn symbol_file(&self) -> Result<MutexGuard<'_, SymbolFile>, Error> {
        let symbols = self.symbols.as_ref().ok_or(Error::ReadOnly)?;
        Ok(symbols.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps everybody from appending.
    fn hold_writers(&self) -> Result<Vec<Hold<'_>>, Error> {
        self.check_lock()?;
        let writers = self.spaces.iter().map(|space| Some(space.writer.as_ref()?.hold()));
        writers.collect::<Option<_>>().ok_or(Error::ReadOnly)
    }

    /// Shows what has been committed to those who watch; `batch`: what is new.
    pub fn announce(&self, space: u32, committed: &Committed, batch: Option<&[u8]>) {
        if self.observers.holds_back() {
            return;
        }
        if committed.shown {
            self.ring();
        }
        if let Some(batch) = batch {
            self.observers.committed(space, committed, batch);
        }
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
        if let Some(identity) = self.identity.as_ref().filter(|_| !self.is_writable && !self.is_deleted()) {
            match identity.look() {
                Seen::Same => {}
                Seen::Altered(definition) => {
                    self.settings.set(definition.options);
                    *self.current.lock().unwrap_or_else(PoisonError::into_inner) = *definition;
                }
                Seen::Gone => self.note_gone(identity.name_now()),
            }
        }
        self.is_deleted()
    }

    /// Notes that another process has deleted or renamed the stream.
    #[cold]
    fn note_gone(&self, renamed: Option<String>) {
        *self.renamed.lock().unwrap_or_else(PoisonError::into_inner) = renamed;
        self.deleted.store(true, Ordering::SeqCst);
    }

    /// The error of a stream that is deleted, or has another name.
    fn deleted_error(&self) -> Error {
        let name = self.name.clone();
        let renamed = self.renamed.lock().unwrap_or_else(PoisonError::into_inner);
        match &*renamed {
            Some(new) => Error::Renamed { name, new: new.clone() },
            None => Error::Deleted { name },
        }
    }

    /// What came of looking at the files, which says nothing if they are those of another stream by now.
    pub fn unless_gone<T>(&self, looked: Result<T, LogError>) -> Result<T, Error> {
        if self.is_gone() { Err(self.deleted_error()) } else { Ok(looked?) }
    }

    /// [`StreamInner::check_not_deleted`] that asks the system, where files are missing.
    pub fn check_not_gone(&self) -> Result<(), Error> {
        if self.remote.is_some() {
            return self.refresh();
        }
        if self.is_gone() { Err(self.deleted_error()) } else { Ok(()) }
    }

    /// The error a reader gets from a stream that is deleted.
    pub fn check_not_deleted(&self) -> Result<(), Error> {
        if self.is_deleted() { Err(self.deleted_error()) } else { Ok(()) }
    }

    /// Checks that a space takes a message at `time`. Only under the writer's lock the answer lasts.
    pub fn refuse_late(&self, space: &Space, time: i64) -> Result<(), Error> {
        let last = space.last_time.load(Ordering::Relaxed);
        if !self.settings.refuses_late() || time >= last {
            return Ok(());
        }
        let (time, last) = (Timestamp(time), Timestamp(last));
        Err(Error::Late { stream: self.name.clone(), time, last })
    }

    /// Ids of symbols, given ones if they are new.
    pub fn symbol_ids(&self, names: &[&str]) -> Result<Vec<u32>, Error> {
        if let Some(remote) = &self.remote {
            return remote.symbol_ids(names);
        }
        let id = |name: &&str| self.dictionary.id(name);
        if let Some(ids) = names.iter().map(id).collect() {
            return Ok(ids);
        }
        // In the order in which they are named, and before the file is held: others add symbols meanwhile.
        let mut seen = HashSet::new();
        let new: Vec<&str> =
            names.iter().copied().filter(|name| id(name).is_none() && seen.insert(*name)).collect();
        new.chunks(SYMBOLS_AT_ONCE).try_for_each(|new| self.add_symbols(new))?;
        Ok(names.iter().filter_map(id).collect())
    }

    /// Gives ids to those symbols that have none, each of which is named once.
    fn add_symbols(&self, names: &[&str]) -> Result<(), Error> {
        let mut symbols = self.symbol_file()?;
        // Another loader may have come first.
        let is_new = |name: &&str| self.dictionary.id(name).is_none();
        let new: Vec<&str> = names.iter().copied().filter(is_new).collect();
        symbols.append(&new)?;
        Ok(())
    }

    /// Id of a symbol, given one if it is new.
    pub fn symbol_id(&self, symbol: &str) -> Result<u32, Error> {
        if let Some(id) = self.dictionary.id(symbol) {
            return Ok(id);
        }
        if let Some(remote) = &self.remote {
            return Ok(remote.symbol_ids(&[symbol])?[0]);
        }
        let mut symbols = self.symbol_file()?;
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
                let _ = self.refresh_symbols();
                self.dictionary.name(id).unwrap_or("?")
            }
        }
    }

    /// Gives a symbol another name.
    pub fn rename_symbol(&self, old: &str, new: &str) -> Result<(), Error> {
        if self.remote.is_some() {
            self.refresh()?;
        }
        let id = self.dictionary.id(old).ok_or_else(|| self.no_symbol(old))?;
        let (from, to) = (old.to_string(), new.to_string());
        let renamed = |stream| Command::RenameSymbol { stream, id, old: from, new: to };
        match self.command(renamed)? {
            Some(_) => Ok(()),
            None => self.rename_symbol_of(id, old, new),
        }
    }

    /// Gives the symbol of an id, which must have the old name still, another one. If it has that already, all is well.
    pub fn rename_symbol_of(&self, id: u32, old: &str, new: &str) -> Result<(), Error> {
        // The stream is neither deleted nor renamed meanwhile.
        let hold = self.hold_writers()?;
        self.check_not_deleted()?;
        let mut symbols = self.symbol_file()?;
        match self.dictionary.name(id) {
            Some(name) if name == new => return Ok(()),
            Some(name) if name == old => symbols.rename(id, new)?,
            _ => return Err(self.no_symbol(old)),
        }
        drop((symbols, hold));
        self.ring();
        self.observers.changed();
        Ok(())
    }

    #[cold]
    fn no_symbol(&self, symbol: &str) -> Error {
        Error::NoSymbol { stream: (*self.name).into(), symbol: symbol.into() }
    }

    /// Puts the names of all symbols on the disk, before something that uses them is put there for good.
    pub fn sync_symbols(&self) -> Result<(), Error> {
        Ok(self.symbol_file()?.sync()?)
    }

    /// Looks for symbols that have been added by a writer in another process, or elsewhere.
    pub fn refresh_symbols(&self) -> Result<(), Error> {
        match &self.remote {
            Some(remote) => remote.refresh(),
            None => Ok(self.symbol_file()?.refresh().map(drop)?),
        }
    }

    /// Looks for what a writer in another process has appended. Symbols are written before the batches that use them;
    /// one that comes between the two looks is found by [`StreamInner::symbol`].
    pub fn refresh(&self) -> Result<(), Error> {
        if self.is_writable {
            return self.check_not_deleted();
        }
        if let Some(remote) = &self.remote {
            self.check_not_deleted()?;
            return remote.refresh();
        }
        let refreshed =
            self.refresh_symbols().and_then(|_| self.spaces.iter().try_for_each(|space| space.refresh()));
        if self.is_gone() { Err(self.deleted_error()) } else { refreshed }
    }

    /// What a Rust type is in this stream; its layout must be the stream's.
    pub fn binding_of<T: Record + 'static>(&self) -> Result<Binding, Error> {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        let found = *bound.entry(TypeId::of::<T>()).or_insert_with(|| Binding::of::<T>(&self.layouts));
        found.ok_or_else(|| binding::unbound::<T>(self))
    }
}

/// Whether a stream's symbols and messages are in memory: those of a transient one, in the process that writes it. On the disk
/// it is and stays as it was made, which is what others see.
fn is_in_memory(definition: &Definition, writing: bool) -> bool {
    writing && definition.options.is_transient()
}

/// Memory for the symbols and messages of a stream.
fn in_memory(directory: &Path, definition: &Definition) -> Result<Arc<dyn Storage>, Error> {
    let memory = MemoryStorage::new();
    StreamInner::create_contents(&memory, directory, definition)?;
    Ok(Arc::new(memory))
}

/// The opened files of a stream.
struct Files {
    symbols: SymbolFile,
    spaces: Vec<Space>,
    recovery: StreamRecovery,
}

impl Files {
    fn open(
        storage: &Arc<dyn Storage>,
        directory: &Path,
        definition: &Definition,
        (writing, observers): (bool, &Arc<Observers>),
    ) -> Result<Self, Error> {
        let contents = match is_in_memory(definition, writing) {
            true => in_memory(directory, definition)?,
            false => storage.clone(),
        };
        let storage = &contents;
        let path = directory.join(SYMBOLS_FILE);
        // Made with the stream: made anew they would give stored messages other symbols, or none.
        check_there(&**storage, &path, "is missing, and with it the names of all symbols")?;
        let StreamOptions { durability, file_bytes_max, spaces, bytes_max, .. } = definition.options;
        let bytes_max = definition.options.is_transient().then_some(bytes_max);
        let (mut symbols, symbol_recovery) = if writing {
            SymbolFile::open_rw(&**storage, &path, definition.id, durability)?
        } else {
            SymbolFile::open_read(&**storage, &path, definition.id)?
        };
        let mut recovery = StreamRecovery { symbols: symbol_recovery, ..StreamRecovery::default() };
        let mut opened = Vec::new();
        for number in 0..spaces {
            let directory = directory.join(space_directory(number));
            check_there(&**storage, &directory, "is missing, and with it all messages")?;
            let options = LogOptions {
                durability,
                file_bytes_max,
                bytes_max,
                ..LogOptions::new(definition.id, number)
            };
            let storage = storage.clone();
            let (symbols, observers) = (&symbols, observers.clone());
            let opening = Opening { storage, directory: &directory, options, writing, symbols, observers };
            let (space, log_recovery) = Space::open(opening)?;
            recovery.logs.push(log_recovery);
            opened.push(space);
        }
        if writing {
            let found = &recovery.symbols;
            let whole = found.cut_bytes > 0 || found.kept_bytes > 0 || symbols.dictionary().is_empty();
            for (space, log_recovery) in opened.iter().zip(&mut recovery.logs) {
                recovery.symbols_lost +=
                    lost_symbols::keep_used_ids(&mut symbols, &space.log, whole, log_recovery)?;
            }
        }
        Ok(Self { symbols, spaces: opened, recovery })
    }
}
