//! The reading side of a stream: its state for readers, updated on request. It changes no stored data, and gives no access
//! to the writing side.

use crate::error::{Error, Invalid, NotFound, Rejected, Stale, Unreadable};
use crate::notifier::Notifiers;
use crate::options::Settings;
use crate::space::reader::SpaceReader;
use crate::space::salvage::SchemaFiles;
use crate::stream::binding::{self, Binding};
use crate::stream::definition::Definition;
use crate::stream::identity::Seen;
use crate::stream::origin::Origin;
use crate::stream::picked::PickedWatch;
use crate::stream::presence::Presence;
use crate::stream::remote::Watch;
use crate::stream::versions::{self, Reading, Versions};
use crate::wanted::Wanted;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tapedb_codec::Record;
use tapedb_codec::dynamic::Layouts;
use tapedb_codec::evolve::Evolution;
use tapedb_log::{Dictionary, LogError, Storage};
use tapedb_schema::{Schema, Timestamp};

/// Held by all users of a database: while it is held, maintenance continues in the background.
pub(crate) type InUse = Arc<dyn Any + Send + Sync>;

/// A stream, opened with one version of its schema. State that it shares with readers of other versions is in an [`Arc`].
pub(crate) struct StreamReader {
    pub name: String,
    pub storage: Arc<dyn Storage>,
    pub directory: PathBuf,
    /// The definition at opening; of its options only those that never change are valid.
    pub definition: Definition,
    /// Identifies the stream in positions. It is the stream's id, except for a transient stream in the process that writes
    /// it: there it is random, because its messages are lost when it is closed.
    pub position_id: u64,
    pub layouts: Layouts,
    pub spaces: Vec<Arc<SpaceReader>>,
    pub dictionary: Arc<Dictionary>,
    /// The options, now.
    pub settings: Arc<Settings>,
    pub notifiers: Notifiers,
    /// The definition on the disk; held while it is changed.
    pub current: Arc<Mutex<Definition>>,
    pub presence: Arc<Presence>,
    /// Visible to `stream` alone: it contains the writing side.
    pub(super) origin: Origin,
    pub(super) versions: Versions,
    /// The bindings of Rust types that loaders and cursors have used.
    pub(super) bound: Mutex<HashMap<TypeId, Option<Binding>>>,
}

/// A stream and one of its spaces, as decoding needs them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadContext<'a> {
    pub stream: &'a StreamReader,
    pub space: &'a SpaceReader,
}

impl std::fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamReader").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl StreamReader {
    /// The same stream with another version of its schema.
    pub(super) fn with(&self, definition: Definition, layouts: Layouts) -> Self {
        Self {
            name: self.name.clone(),
            storage: self.storage.clone(),
            directory: self.directory.clone(),
            definition,
            position_id: self.position_id,
            layouts,
            spaces: self.spaces.clone(),
            dictionary: self.dictionary.clone(),
            settings: self.settings.clone(),
            notifiers: self.notifiers.clone(),
            current: self.current.clone(),
            presence: self.presence.clone(),
            origin: self.origin.clone(),
            versions: Versions::default(),
            bound: Mutex::default(),
        }
    }

    /// The same stream as if it was opened with another version of its schema.
    ///
    /// # Errors
    /// When no file contains that version.
    pub fn as_of(&self, version: u16) -> Result<Self, Error> {
        let schema = versions::read(&*self.storage, &self.directory, version)?;
        let layouts = Layouts::new(schema.clone())?;
        Ok(self.with(Definition { schema_version: version, schema, ..self.definition.clone() }, layouts))
    }

    /// The schema that the stream was opened with.
    pub fn schema(&self) -> &Schema {
        &self.definition.schema
    }

    /// A space, counted from 0.
    ///
    /// # Errors
    /// [`NotFound::Space`].
    pub fn space(&self, space: u32) -> Result<&Arc<SpaceReader>, Error> {
        let spaces = self.spaces.len() as u32;
        let missing = || Error::NotFound(NotFound::Space { stream: (*self.name).into(), space, spaces });
        self.spaces.get(space as usize).ok_or_else(missing)
    }

    /// The definition, now.
    pub fn current(&self) -> Definition {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the schema has changed since the stream was opened.
    pub fn is_outdated(&self) -> bool {
        self.newest_version() != self.definition.schema_version
    }

    /// The version of the schema that the stream has now.
    pub fn newest_version(&self) -> u16 {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).schema_version
    }

    /// # Errors
    /// [`Stale::Outdated`].
    pub fn check_not_outdated(&self) -> Result<(), Error> {
        if self.is_outdated() {
            Err(Error::Stale(Stale::Outdated { stream: (*self.name).into() }))
        } else {
            Ok(())
        }
    }

    /// The files with old versions of the schema.
    pub fn schema_files(&self) -> SchemaFiles<'_> {
        let version = self.definition.schema_version;
        SchemaFiles { storage: &*self.storage, directory: &self.directory, version }
    }

    /// How messages written with another version of the schema are converted to this one.
    pub fn evolution(&self, version: u16) -> Result<Arc<Evolution>, Error> {
        let Self { storage, directory, name, layouts, .. } = self;
        self.versions.from(version, &Reading { storage: &**storage, directory, name, layouts })
    }

    /// The binding of a Rust type to this stream; its layout must be the stream's.
    pub fn binding_of<T: Record + 'static>(&self) -> Result<Binding, Error> {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        let found = *bound.entry(TypeId::of::<T>()).or_insert_with(|| Binding::of::<T>(&self.layouts));
        found.ok_or_else(|| binding::unbound::<T>(&self.name, &self.layouts))
    }

    /// Wakes the cursors that wait for messages of this stream.
    pub fn notify(&self) {
        self.notifiers.notify();
    }

    /// Whether this process writes the stream.
    pub fn is_written(&self) -> bool {
        matches!(self.origin, Origin::Written(_))
    }

    /// Whether another process writes the files, which are polled.
    pub fn is_followed(&self) -> bool {
        matches!(self.origin, Origin::Followed(_))
    }

    /// Whether the stream is behind a server.
    pub fn is_remote(&self) -> bool {
        matches!(self.origin, Origin::Remote(_))
    }

    /// Whether messages must be checked before readers get them.
    #[inline]
    pub fn is_untrusted(&self) -> bool {
        matches!(&self.origin, Origin::Remote(remote) if !remote.is_trusted())
    }

    /// Starts pushes of all messages that are appended from now on, if the stream is behind a server.
    ///
    /// # Errors
    /// When the server does not allow it or does not answer.
    pub fn watch(&self) -> Result<Option<Arc<Watch>>, Error> {
        match &self.origin {
            Origin::Remote(remote) => remote.named(remote.watch()).map(Some),
            Origin::Written(_) | Origin::Followed(_) => Ok(None),
        }
    }

    /// [`StreamReader::watch`] for the messages that one cursor wants, if the server can leave the others out.
    ///
    /// # Errors
    /// As [`StreamReader::watch`].
    pub fn watch_some(&self, wanted: &Wanted) -> Result<Option<PickedWatch>, Error> {
        match &self.origin {
            Origin::Remote(remote) => remote.named(remote.watch_some(wanted)),
            Origin::Written(_) | Origin::Followed(_) => Ok(None),
        }
    }

    /// Whether a server has pushed a change that has not been described yet.
    pub fn is_stale(&self) -> bool {
        matches!(&self.origin, Origin::Remote(remote) if remote.is_stale())
    }

    /// [`StreamReader::refresh`], if a server has pushed a change.
    ///
    /// # Errors
    /// As [`StreamReader::refresh`].
    pub fn refresh_stale(&self) -> Result<(), Error> {
        match &self.origin {
            Origin::Remote(remote) => remote.refresh_stale(),
            Origin::Written(_) | Origin::Followed(_) => Ok(()),
        }
    }

    /// Whether the stream is known to be deleted or renamed.
    #[inline]
    pub fn is_deleted(&self) -> bool {
        self.presence.is_gone()
    }

    /// Whether the stream has been deleted or renamed, or another one has its name. If another process writes it, checks
    /// the files.
    pub fn is_gone(&self) -> bool {
        if let Origin::Followed(followed) = &self.origin
            && !self.is_deleted()
        {
            match followed.identity.look() {
                Seen::Same => {}
                Seen::Altered(definition) => {
                    self.settings.set(definition.options);
                    *self.current.lock().unwrap_or_else(PoisonError::into_inner) = *definition;
                }
                Seen::Gone => self.presence.note_gone(followed.identity.name_now()),
            }
        }
        self.is_deleted()
    }

    /// The result of reading files, or an error if they now belong to another stream.
    pub fn unless_gone<T>(&self, read: Result<T, LogError>) -> Result<T, Error> {
        if self.is_gone() { Err(self.presence.error(&self.name)) } else { Ok(read?) }
    }

    /// [`StreamReader::check_not_deleted`], after files were missing: it checks the directory, or asks the server.
    pub fn check_not_gone(&self) -> Result<(), Error> {
        match &self.origin {
            Origin::Remote(_) => self.refresh(),
            Origin::Written(_) | Origin::Followed(_) if self.is_gone() => {
                Err(self.presence.error(&self.name))
            }
            Origin::Written(_) | Origin::Followed(_) => Ok(()),
        }
    }

    /// # Errors
    /// [`Stale::Deleted`] and [`Stale::Renamed`], if it is known.
    pub fn check_not_deleted(&self) -> Result<(), Error> {
        self.presence.check(&self.name)
    }

    /// Checks that messages can be read in this process.
    pub fn check_is_here(&self) -> Result<(), Error> {
        if self.is_followed() && self.definition.options.is_transient() {
            return Err(Error::Invalid(Invalid::Elsewhere { stream: (*self.name).into() }));
        }
        Ok(())
    }

    /// The error for a reader that was too slow.
    pub fn dropped(&self, messages: u64, first_sequence: u64) -> Error {
        Error::Unreadable(Unreadable::Dropped { stream: (*self.name).into(), messages, first_sequence })
    }

    /// Name of a symbol id. If another process has just added it, its name is read from the file.
    pub fn symbol(&self, id: u32) -> &str {
        match self.dictionary.name(id) {
            Some(name) => name,
            None => {
                let _ = self.refresh_symbols();
                self.dictionary.name(id).unwrap_or("?")
            }
        }
    }

    /// Ids of those of these symbols that the stream has, ascending.
    pub fn ids_of<S: AsRef<str>>(&self, symbols: impl IntoIterator<Item = S>) -> Vec<u32> {
        let mut ids: Vec<u32> =
            symbols.into_iter().filter_map(|symbol| self.dictionary.id(symbol.as_ref())).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    #[cold]
    pub fn no_symbol(&self, symbol: &str) -> Error {
        Error::NotFound(NotFound::Symbol { stream: (*self.name).into(), symbol: symbol.into() })
    }

    /// Checks for symbols that another process has added.
    pub fn refresh_symbols(&self) -> Result<(), Error> {
        match &self.origin {
            Origin::Written(writer) => writer.refresh_symbols(),
            Origin::Followed(followed) => followed.refresh_symbols(),
            Origin::Remote(remote) => remote.refresh(),
        }
    }

    /// Checks for messages that another process has appended. Symbols are written before the batches that use them;
    /// [`StreamReader::symbol`] finds one that is added between the two checks.
    ///
    /// # Errors
    /// [`Stale::Deleted`] and [`Stale::Renamed`]; when files cannot be read, or the server does not answer.
    pub fn refresh(&self) -> Result<(), Error> {
        match &self.origin {
            Origin::Written(_) => self.check_not_deleted(),
            Origin::Remote(remote) => {
                self.check_not_deleted()?;
                remote.refresh()
            }
            Origin::Followed(followed) => {
                let symbols = followed.refresh_symbols();
                let refreshed =
                    symbols.and_then(|()| self.spaces.iter().try_for_each(|space| space.refresh()));
                if self.is_gone() { Err(self.presence.error(&self.name)) } else { refreshed }
            }
        }
    }

    /// Checks that a message at `time` is not before `last`, in a stream that refuses late messages.
    pub fn refuse_late(&self, time: i64, last: i64) -> Result<(), Error> {
        if !self.settings.refuses_late() || time >= last {
            return Ok(());
        }
        let (time, last) = (Timestamp(time), Timestamp(last));
        Err(Error::Rejected(Rejected::Late { stream: self.name.clone(), time, last }))
    }
}
