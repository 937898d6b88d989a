//! Opens streams, and creates them.

use crate::clock::random;
use crate::error::{ConnectionError, Error};
use crate::files::{SYMBOLS_FILE, check_there, space_directory, sync_dir};
use crate::lock::WriterLock;
use crate::notifier::{Notifier, Notifiers};
use crate::objects::tier::Objects;
use crate::options::{Settings, StreamOptions};
use crate::space::catalog::Catalog;
use crate::space::lost_symbols;
use crate::space::manifest::{self, Owner};
use crate::space::reader::SpaceReader;
use crate::space::{Opening, Space};
use crate::stream::definition::{self, Definition};
use crate::stream::edit;
use crate::stream::identity::Identity;
use crate::stream::observe::Observers;
use crate::stream::origin::{Followed, Origin};
use crate::stream::presence::Presence;
use crate::stream::reader::StreamReader;
use crate::stream::recovery::StreamRecovery;
use crate::stream::remote::{Described, Remote, definition_of};
use crate::stream::state::StreamState;
use crate::stream::versions::Versions;
use crate::stream::writer::{self, StreamWriter};
use crate::upstream::storage::UpstreamStorage;
use crate::upstream::{Upstream, WINDOW_BYTES};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tapedb_codec::dynamic::Layouts;
use tapedb_log::{LogOptions, MemoryStorage, Recovery, Storage, SymbolFile, SymbolRecovery};

/// What a stream uses of its database.
pub(crate) struct Opened {
    pub storage: Arc<dyn Storage>,
    pub objects: Arc<Objects>,
    pub notifier: Arc<Notifier>,
    /// If present, the stream is open for writing.
    pub lock: Option<Arc<WriterLock>>,
}

/// Opens a stream's files; the database's lock, if there is one, makes this process the writer, which also recovers them.
pub(crate) fn open(name: &str, directory: PathBuf, opened: Opened) -> Result<StreamState, Error> {
    let Opened { storage, objects, notifier, lock } = opened;
    let (identity, definition, copies) = Identity::open(storage.clone(), &directory)?;
    let layouts = Layouts::new(definition.schema.clone())?;
    // Opening repairs files.
    lock.as_ref().map_or(Ok(()), |lock| lock.check_now())?;
    let observers: Arc<Observers> = Arc::default();
    let notifiers = Notifiers { stream: Arc::default(), database: notifier };
    let (presence, name) = (Arc::<Presence>::default(), name.to_string());
    let mut position_id = definition.id;
    let (dictionary, spaces, mut recovery, origin) = match lock {
        None => {
            let (symbols, symbol_recovery) = open_symbols(&*storage, &directory, &definition, false)?;
            let (spaces, logs) = open_to_read(&storage, &directory, &definition)?;
            let recovery = StreamRecovery { logs, symbols: symbol_recovery, ..StreamRecovery::default() };
            let dictionary = symbols.dictionary().clone();
            (dictionary, spaces, recovery, Origin::Followed(Arc::new(Followed::new(identity, symbols))))
        }
        Some(lock) => {
            let contents = if definition.options.is_transient() {
                position_id = random();
                in_memory(&directory, &definition)?
            } else {
                storage.clone()
            };
            let (symbols, spaces, recovery) = open_to_write(&contents, &directory, &definition, &observers)?;
            if copies.is_uneven {
                identity.write(&definition)?;
            }
            let dictionary = symbols.dictionary().clone();
            let readers = spaces.iter().map(|space| space.reader().clone()).collect();
            let (name, presence) = (name.clone(), presence.clone());
            let (notifiers, observers) = (notifiers.clone(), observers.clone());
            let objects = objects.clone();
            let parts = writer::Parts {
                name,
                spaces,
                lock,
                identity,
                symbols,
                presence,
                notifiers,
                observers,
                objects,
            };
            (dictionary, readers, recovery, Origin::Written(Arc::new(StreamWriter::new(parts))))
        }
    };
    recovery.definition = copies.damage.map(|error| error.to_string());
    let settings = Arc::new(Settings::new(definition.options));
    spaces.iter().for_each(|space| space.use_objects(&objects, &settings));
    let reader = StreamReader {
        name,
        storage,
        directory,
        position_id,
        layouts,
        spaces,
        dictionary,
        settings,
        notifiers,
        current: Arc::new(Mutex::new(definition.clone())),
        presence,
        origin,
        definition,
        versions: Versions::default(),
        bound: Mutex::default(),
    };
    let state = StreamState { reader: Arc::new(reader), observers, run: random(), recovery };
    find_last_times(&state)?;
    Ok(state)
}

/// Opens a stream behind a server.
pub(crate) fn open_remote(
    name: &str,
    directory: PathBuf,
    upstream: &Arc<dyn Upstream>,
    notifier: Arc<Notifier>,
) -> Result<StreamState, Error> {
    let description = upstream.describe(name, None)?;
    let text = description.definition.as_deref();
    let missing = || {
        Error::Connection(ConnectionError::Protocol {
            what: "the first description of a stream lacks its definition".into(),
        })
    };
    let definition = definition_of(text.ok_or_else(missing)?, directory.join(definition::FILES[0]))?;
    let layouts = Layouts::new(definition.schema.clone())?;
    let stream_id = definition.id;
    let (from, to) = (upstream.clone(), directory.clone());
    let storage: Arc<dyn Storage> = Arc::new(UpstreamStorage { upstream: from, stream_id, directory: to });
    let of_space = |space: u32| {
        let directory = directory.join(space_directory(space));
        let owner = Owner { stream_id, space };
        Arc::new(SpaceReader::described(storage.clone(), &directory, owner, WINDOW_BYTES))
    };
    let spaces: Vec<_> = (0..definition.options.spaces).map(of_space).collect();
    let notifiers = Notifiers { stream: Arc::default(), database: notifier };
    let dictionary = Arc::default();
    let settings = Arc::new(Settings::new(definition.options));
    let current = Arc::new(Mutex::new(definition.clone()));
    let presence = Arc::<Presence>::default();
    let described = Described {
        spaces: spaces.clone(),
        dictionary: Arc::clone(&dictionary),
        settings: settings.clone(),
        current: current.clone(),
        presence: presence.clone(),
        notifiers: notifiers.clone(),
    };
    let remote = Remote::new(upstream.clone(), &description, described)?;
    let reader = StreamReader {
        name: name.into(),
        storage,
        directory,
        definition,
        position_id: description.position_id,
        layouts,
        spaces,
        dictionary,
        settings,
        notifiers,
        current,
        presence,
        origin: Origin::Remote(remote),
        versions: Versions::default(),
        bound: Mutex::default(),
    };
    Ok(StreamState {
        reader: Arc::new(reader),
        observers: Arc::default(),
        run: description.run,
        recovery: StreamRecovery::default(),
    })
}

/// Creates the directory of a new stream, whole or not at all.
pub(crate) fn create(
    storage: &dyn Storage,
    streams: &Path,
    directory: &Path,
    definition: &Definition,
) -> Result<(), Error> {
    let draft = streams.join(format!(".new-{:016x}", definition.id));
    let created = create_in(storage, &draft, definition)
        .and_then(|()| storage.rename(&draft, directory).map_err(Error::io("create", directory)));
    if created.is_err() {
        // What cannot be removed now is removed when the database is next opened.
        let _ = storage.remove_dir_all(&draft);
    }
    created?;
    sync_dir(storage, streams).inspect_err(|_| {
        // Else acknowledged messages could be lost with the stream's name.
        let _ = storage.rename(directory, &draft).and_then(|()| storage.remove_dir_all(&draft));
    })
}

fn create_in(storage: &dyn Storage, draft: &Path, definition: &Definition) -> Result<(), Error> {
    create_contents(storage, draft, definition)?;
    definition::write(storage, draft, definition)?;
    sync_dir(storage, draft)
}

/// Creates the files that a stream without messages has beside its definition.
fn create_contents(storage: &dyn Storage, directory: &Path, definition: &Definition) -> Result<(), Error> {
    for space in 0..definition.options.spaces {
        let directory = directory.join(space_directory(space));
        storage.create_dir_all(&directory).map_err(Error::io("create", &directory))?;
        // It must exist before the first segment.
        let owner = Owner { stream_id: definition.id, space };
        manifest::write(storage, &directory, owner, &Catalog::default())?;
    }
    // The symbol file exists from the start, so that readers in other processes need not wait for a writer.
    let durability = definition.options.durability;
    SymbolFile::open_rw(storage, &directory.join(SYMBOLS_FILE), definition.id, durability)?;
    Ok(())
}

/// Memory for the symbols and messages of a transient stream, in the process that writes it. The files stay as created;
/// other processes read those.
fn in_memory(directory: &Path, definition: &Definition) -> Result<Arc<dyn Storage>, Error> {
    let memory = MemoryStorage::new();
    create_contents(&memory, directory, definition)?;
    Ok(Arc::new(memory))
}

fn open_symbols(
    storage: &dyn Storage,
    directory: &Path,
    definition: &Definition,
    writing: bool,
) -> Result<(SymbolFile, SymbolRecovery), Error> {
    let path = directory.join(SYMBOLS_FILE);
    // Created with the stream: a new one would give stored messages other symbols, or none.
    check_there(storage, &path, "is missing, and with it the names of all symbols")?;
    Ok(match writing {
        true => SymbolFile::open_rw(storage, &path, definition.id, definition.options.durability)?,
        false => SymbolFile::open_read(storage, &path, definition.id)?,
    })
}

/// The directory of a space, which must exist.
fn directory_of(storage: &dyn Storage, directory: &Path, space: u32) -> Result<PathBuf, Error> {
    let directory = directory.join(space_directory(space));
    check_there(storage, &directory, "is missing, and with it all messages")?;
    Ok(directory)
}

fn open_to_read(
    storage: &Arc<dyn Storage>,
    directory: &Path,
    definition: &Definition,
) -> Result<(Vec<Arc<SpaceReader>>, Vec<Recovery>), Error> {
    let (mut spaces, mut logs) = (Vec::new(), Vec::new());
    for space in 0..definition.options.spaces {
        let directory = directory_of(&**storage, directory, space)?;
        let owner = Owner { stream_id: definition.id, space };
        let (space, recovery) = SpaceReader::open(storage.clone(), &directory, owner)?;
        spaces.push(Arc::new(space));
        logs.push(recovery);
    }
    Ok((spaces, logs))
}

fn open_to_write(
    storage: &Arc<dyn Storage>,
    directory: &Path,
    definition: &Definition,
    observers: &Arc<Observers>,
) -> Result<(SymbolFile, Vec<Arc<Space>>, StreamRecovery), Error> {
    let StreamOptions { durability, file_bytes_max, bytes_max, .. } = definition.options;
    let bytes_max = definition.options.is_transient().then_some(bytes_max);
    let (mut symbols, symbol_recovery) = open_symbols(&**storage, directory, definition, true)?;
    let mut recovery = StreamRecovery { symbols: symbol_recovery, ..StreamRecovery::default() };
    let mut spaces = Vec::new();
    for number in 0..definition.options.spaces {
        let directory = directory_of(&**storage, directory, number)?;
        let options =
            LogOptions { durability, file_bytes_max, bytes_max, ..LogOptions::new(definition.id, number) };
        let (storage, observers) = (storage.clone(), observers.clone());
        let opening = Opening { storage, directory: &directory, options, symbols: &symbols, observers };
        let (space, log_recovery) = Space::open(opening)?;
        recovery.logs.push(log_recovery);
        spaces.push(Arc::new(space));
    }
    let found = &recovery.symbols;
    let whole = found.cut_bytes > 0 || found.kept_bytes > 0 || symbols.dictionary().is_empty();
    for (space, log_recovery) in spaces.iter().zip(&mut recovery.logs) {
        recovery.symbols_lost += lost_symbols::name_used_ids(&mut symbols, &space.log, whole, log_recovery)?;
    }
    Ok((symbols, spaces, recovery))
}

/// After deletions, the index does not state which remaining message is the latest.
fn find_last_times(state: &StreamState) -> Result<(), Error> {
    let Ok(writer) = state.writer() else { return Ok(()) };
    let mut spaces = writer.spaces.iter().filter(|space| !space.catalog().deletions.is_empty());
    spaces.try_for_each(|space| edit::find_last_time(&state.reader, space))
}
