//! The writing side of a stream, present only in the process that has its database open for writing.
//!
//! Always true: while a [`StreamWriter`] exists, the database is locked.

use crate::error::Error;
use crate::lock::WriterLock;
use crate::notifier::{Notifier, Notifiers};
use crate::objects::record::Offloading;
use crate::objects::tier::Objects;
use crate::space::Space;
use crate::stream::definition::Definition;
use crate::stream::identity::Identity;
use crate::stream::observe::Observers;
use crate::stream::presence::Presence;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tapedb_log::{Committed, Dictionary, Hold, SymbolFile, Turn, Written};

/// Most new symbols that are added at once. Between two such groups other loaders may add symbols.
const SYMBOLS_AT_ONCE: usize = 4096;

/// The writing side of a stream. All versions of its schema share it.
pub(crate) struct StreamWriter {
    pub name: String,
    pub spaces: Vec<Arc<Space>>,
    lock: Arc<WriterLock>,
    identity: Identity,
    symbols: Mutex<SymbolFile>,
    dictionary: Arc<Dictionary>,
    presence: Arc<Presence>,
    notifiers: Notifiers,
    /// Notified when a log file becomes complete, if maintenance runs in the background.
    files: OnceLock<Arc<Notifier>>,
    observers: Arc<Observers>,
    /// The object stores of the database.
    pub objects: Arc<Objects>,
    /// Held while segments go to an object store: what is known of it there.
    pub offloading: Mutex<Offloading>,
}

impl std::fmt::Debug for StreamWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamWriter").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The components of a [`StreamWriter`].
pub(super) struct Parts {
    pub name: String,
    pub spaces: Vec<Arc<Space>>,
    pub lock: Arc<WriterLock>,
    pub identity: Identity,
    pub symbols: SymbolFile,
    pub presence: Arc<Presence>,
    pub notifiers: Notifiers,
    pub observers: Arc<Observers>,
    pub objects: Arc<Objects>,
}

impl Drop for StreamWriter {
    /// Records the ends of the logs, while the database is still locked. A deleted or renamed stream has other files, or
    /// none.
    fn drop(&mut self) {
        if self.lock.check_now().is_err() || self.presence.is_gone() {
            return;
        }
        for space in &self.spaces {
            // Without it, damage to the end is like an unfinished append after a crash.
            let _ = space.writer.close();
        }
    }
}

impl StreamWriter {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { name, spaces, lock, identity, symbols, presence, notifiers, observers, objects } = parts;
        let dictionary = symbols.dictionary().clone();
        let symbols = Mutex::new(symbols);
        let files = OnceLock::new();
        Self {
            name,
            spaces,
            lock,
            identity,
            symbols,
            dictionary,
            presence,
            notifiers,
            files,
            observers,
            objects,
            offloading: Mutex::default(),
        }
    }

    /// Checks that no other process can be a writer: see [`WriterLock`].
    #[inline]
    pub fn check_lock(&self) -> Result<(), Error> {
        self.lock.check()
    }

    /// # Errors
    /// [`Stale::Deleted`](crate::Stale::Deleted) and [`Stale::Renamed`](crate::Stale::Renamed).
    pub fn check_not_deleted(&self) -> Result<(), Error> {
        self.presence.check(&self.name)
    }

    /// The turn to write a batch into a space, under its writer's lock.
    pub fn turn<'s, 'b>(&self, space: &'s Space, batch: &'b mut [u8]) -> Result<Turn<'s, 'b>, Error> {
        let turn = space.writer.turn(batch);
        // Checked under the lock, which deleting the stream takes too.
        self.check_not_deleted()?;
        self.check_lock()?;
        Ok(turn)
    }

    /// Writes a batch in its turn.
    #[inline]
    pub fn write<'w>(&self, turn: Turn<'w, '_>) -> Result<Written<'w>, Error> {
        self.observers.order.write(turn)
    }

    /// Shows observers that the log continues after messages that were never in it.
    pub fn note_skipped(&self) {
        self.observers.grown();
    }

    /// Shows committed messages to cursors and observers; `batch`: the new batch.
    pub fn announce(&self, space: u32, committed: &Committed, batch: Option<&[u8]>) {
        // The first batch of a file: the file before it is complete.
        if committed.sequences.start == committed.file
            && let Some(files) = self.files.get()
        {
            files.notify();
        }
        if self.observers.holds_back() {
            return;
        }
        if committed.shown {
            self.notify();
        }
        if let Some(batch) = batch {
            self.observers.committed(space, committed, batch);
        }
    }

    /// Has `notifier` notified whenever a log file becomes complete.
    pub fn notify_of_files(&self, notifier: &Arc<Notifier>) {
        // All schema versions of a stream have the maintenance of one database.
        _ = self.files.set(notifier.clone());
    }

    /// Wakes the cursors that wait for messages of this stream.
    pub fn notify(&self) {
        self.notifiers.notify();
    }

    /// Keeps all loaders from appending.
    pub fn hold(&self) -> Result<Vec<Hold<'_>>, Error> {
        self.check_lock()?;
        Ok(self.spaces.iter().map(|space| space.writer.hold()).collect())
    }

    /// Stops maintenance of all spaces, until the guards are dropped.
    pub fn stop_maintenance(&self) -> Vec<MutexGuard<'_, ()>> {
        self.spaces.iter().map(|space| space.stop_maintenance()).collect()
    }

    /// Writes both copies of the definition.
    pub fn write_definition(&self, definition: &Definition) -> Result<(), Error> {
        self.identity.write(definition)
    }

    fn symbol_file(&self) -> MutexGuard<'_, SymbolFile> {
        self.symbols.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ids of symbols; new symbols get one.
    pub fn symbol_ids(&self, names: &[&str]) -> Result<Vec<u32>, Error> {
        let id = |name: &&str| self.dictionary.id(name);
        if let Some(ids) = names.iter().map(id).collect() {
            return Ok(ids);
        }
        // In the order of their names in the call, and before the file is locked: other loaders add symbols at the same
        // time.
        let mut seen = HashSet::new();
        let new: Vec<&str> =
            names.iter().copied().filter(|name| id(name).is_none() && seen.insert(*name)).collect();
        new.chunks(SYMBOLS_AT_ONCE).try_for_each(|new| self.add_symbols(new))?;
        Ok(names.iter().filter_map(id).collect())
    }

    /// Gives ids to symbols that have none. Each is listed once.
    fn add_symbols(&self, names: &[&str]) -> Result<(), Error> {
        let mut symbols = self.symbol_file();
        // Another loader may have added some.
        let is_new = |name: &&str| self.dictionary.id(name).is_none();
        let new: Vec<&str> = names.iter().copied().filter(is_new).collect();
        symbols.append(&new)?;
        Ok(())
    }

    /// Id of a symbol; a new symbol gets one.
    pub fn symbol_id(&self, symbol: &str) -> Result<u32, Error> {
        if let Some(id) = self.dictionary.id(symbol) {
            return Ok(id);
        }
        let mut symbols = self.symbol_file();
        // Another loader may have added it.
        match self.dictionary.id(symbol) {
            Some(id) => Ok(id),
            None => Ok(symbols.append(&[symbol])?.start),
        }
    }

    /// Gives the symbol of an id a new name. Does nothing if the symbol already has it. `Ok(false)`: the symbol has neither the
    /// old name nor the new one.
    pub fn rename_symbol(&self, id: u32, old: &str, new: &str) -> Result<bool, Error> {
        // The stream is neither deleted nor renamed while writers are held.
        let hold = self.hold()?;
        self.check_not_deleted()?;
        let mut symbols = self.symbol_file();
        match self.dictionary.name(id) {
            Some(name) if name == new => return Ok(true),
            Some(name) if name == old => symbols.rename(id, new)?,
            _ => return Ok(false),
        }
        drop((symbols, hold));
        self.notify();
        self.observers.changed();
        Ok(true)
    }

    /// Puts the names of all symbols on the disk, before a file that uses them.
    pub fn sync_symbols(&self) -> Result<(), Error> {
        Ok(self.symbol_file().sync()?)
    }

    /// Reads symbols of the file that the dictionary lacks.
    pub fn refresh_symbols(&self) -> Result<(), Error> {
        Ok(self.symbol_file().refresh().map(drop)?)
    }
}
