//! The state of a stream, shared by all handles that were opened with one version of its schema, and the changes that they
//! can make.

use crate::error::{Error, Invalid};
use crate::maintenance::offload;
use crate::objects::record::Offloading;
use crate::options::{Offload, StreamOptions};
use crate::space::Apart;
use crate::stream::definition::Definition;
use crate::stream::observe::Observers;
use crate::stream::origin::Origin;
use crate::stream::reader::StreamReader;
use crate::stream::recovery::StreamRecovery;
use crate::stream::remote::Remote;
use crate::stream::versions;
use crate::stream::writer::StreamWriter;
use crate::upstream::{Command, Outcome, Target};
use std::ops::Deref;
use std::sync::{Arc, PoisonError};
use tapedb_codec::dynamic::Layouts;
use tapedb_codec::evolve::{Change, Evolution};
use tapedb_schema::Schema;

/// An open stream.
pub(crate) struct StreamState {
    pub reader: Arc<StreamReader>,
    /// Notified of events.
    pub observers: Arc<Observers>,
    /// Differs between openings: a random number chosen when the stream is opened.
    pub run: u64,
    pub recovery: StreamRecovery,
}

impl std::fmt::Debug for StreamState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamState").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// Every stream can be read.
impl Deref for StreamState {
    type Target = StreamReader;

    #[inline]
    fn deref(&self) -> &StreamReader {
        &self.reader
    }
}

impl StreamState {
    /// Where the stream is written.
    pub fn origin(&self) -> &Origin {
        &self.reader.origin
    }

    /// The writing side.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] when this process does not write the stream.
    pub fn writer(&self) -> Result<&Arc<StreamWriter>, Error> {
        match self.origin() {
            Origin::Written(writer) => Ok(writer),
            Origin::Followed(_) | Origin::Remote(_) => Err(Error::ReadOnly),
        }
    }

    /// The stream behind a server, if it is one.
    pub fn remote(&self) -> Option<&Arc<Remote>> {
        match self.origin() {
            Origin::Remote(remote) => Some(remote),
            Origin::Written(_) | Origin::Followed(_) => None,
        }
    }

    /// Sends a command to the stream's server. `None`: there is no server. Afterwards the stream's description is up to
    /// date.
    pub fn command(&self, command: impl FnOnce(Target) -> Command) -> Result<Option<Outcome>, Error> {
        let Some(remote) = self.remote() else { return Ok(None) };
        self.check_not_deleted()?;
        let target = Target { stream_id: remote.stream_id, name: self.name.clone() };
        let outcome = remote.upstream.command(&command(target))?;
        remote.refresh()?;
        Ok(Some(outcome))
    }

    /// Whether closing the stream loses messages.
    pub fn has_messages_in_memory(&self) -> bool {
        self.is_written()
            && self.definition.options.is_transient()
            && self.spaces.iter().any(|space| space.next_sequence() > 0)
    }

    /// Stops use of the stream while `remove` removes its files: no batch is written at that time. (A running sync has its
    /// files open and is not affected.)
    pub fn delete(&self, remove: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let writer = self.writer()?;
        let _maintenance = writer.stop_maintenance();
        let _hold = writer.hold()?;
        self.check_not_deleted()?;
        // Before the files are removed, so that a reader that finds new files of the same names detects that they are
        // another stream's.
        self.presence.set_gone(true);
        let removed = remove().inspect_err(|_| self.presence.set_gone(false));
        self.notify();
        if removed.is_ok() {
            self.observers.gone(self.presence.renamed().as_deref());
        }
        removed
    }

    /// [`StreamState::delete`], for files that are renamed.
    pub fn rename(&self, new: &str, rename: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        // Before all else: a reader that finds the stream gone needs its new name.
        let before = self.presence.set_renamed(Some(new.into()));
        self.delete(rename).inspect_err(|_| drop(self.presence.set_renamed(before)))
    }

    /// Changes the options; the disk comes first.
    pub fn alter(&self, options: StreamOptions) -> Result<(), Error> {
        let options = self.with_offload(options)?;
        self.settings.get().check_change(&options)?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = self.writer()?;
        // While writers are held no batch is checked against both, and the stream is not deleted.
        let hold = writer.hold()?;
        self.check_not_deleted()?;
        let altered = Definition { revision: current.revision + 1, options, ..current.clone() };
        writer.write_definition(&altered)?;
        *current = altered;
        self.settings.set(options);
        drop(hold);
        for space in &writer.spaces {
            space.writer.set_file_bytes_max(options.file_bytes_max);
        }
        drop(current);
        self.observers.changed();
        Ok(())
    }

    /// The options, with a store that is usable: the place of segments that are there stays known.
    fn with_offload(&self, options: StreamOptions) -> Result<StreamOptions, Error> {
        options.check()?;
        let (writer, old) = (self.writer()?, self.settings.get().offload);
        let has_objects = self.spaces.iter().any(|space| space.catalog().parts.totals().objects > 0);
        match (old, options.offload) {
            (Some(old), None) if has_objects => {
                let offload = Some(Offload { after: None, ..old });
                return Ok(StreamOptions { offload, ..options });
            }
            (Some(old), Some(new)) if has_objects && old.url != new.url => {
                let what = "the stream has segments in its object tier; another URL needs a stream that has none there";
                return Err(Error::Invalid(Invalid::Options { what }));
            }
            (old, Some(new)) if old.is_none_or(|old| old.url != new.url) => {
                drop(writer.objects.own_tier(new.url.as_str())?);
                *offload::lock(writer) = Offloading::default();
            }
            _ => {}
        }
        Ok(options)
    }

    /// Changes the schema; the disk comes first. Open loaders and cursors stay with the version that they were opened with:
    /// loaders write it, and cursors convert newer messages to it.
    pub fn change_schema(&self, schema: Schema) -> Result<Self, Error> {
        schema.validate()?;
        let layouts = Layouts::new(schema.clone())?;
        let writer = self.writer()?;
        // Maintenance continues with the new version only. It checks the version while it holds its lock.
        let _maintenance = writer.stop_maintenance();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let version = current.schema_version.checked_add(1).ok_or(Error::Invalid(Invalid::Options {
            what: "the schema has 65,535 versions, which is the limit; create another stream",
        }))?;
        self.check_versions(&current, &layouts)?;
        let hold = writer.hold()?;
        self.check_not_deleted()?;
        versions::keep(&*self.storage, &self.directory, current.schema_version, &current.schema)?;
        let changed =
            Definition { revision: current.revision + 1, schema_version: version, schema, ..current.clone() };
        writer.write_definition(&changed)?;
        *current = changed.clone();
        // A newer version may have values for what the last one had none for.
        writer.spaces.iter().for_each(|space| space.apart().retain(|_, apart| *apart == Apart::Damaged));
        drop((current, hold));
        self.observers.changed();
        Ok(self.with(changed, layouts))
    }

    /// Checks that messages written under any version of the schema can be read under a new one.
    fn check_versions(&self, current: &Definition, layouts: &Layouts) -> Result<(), Error> {
        for older in 1..current.schema_version {
            let written = versions::read(&*self.storage, &self.directory, older)?;
            versions::check_change(&self.name, &Layouts::new(written)?, layouts)?;
        }
        versions::check_change(&self.name, &Layouts::new(current.schema.clone())?, layouts)
    }

    /// The effects of another schema.
    pub fn compare_schema(&self, schema: &Schema) -> Result<Vec<Change>, Error> {
        schema.validate()?;
        self.refresh()?;
        let layouts = Layouts::new(schema.clone())?;
        let current = self.current();
        self.check_versions(&current, &layouts)?;
        let changes = Evolution::changes(&Layouts::new(current.schema)?, &layouts);
        changes.map_err(|error| {
            Error::Invalid(Invalid::Version { stream: (*self.name).into(), error: Box::new(error) })
        })
    }

    /// The same stream, opened with its present schema.
    pub fn renewed(&self) -> Result<Self, Error> {
        let definition = self.current();
        let layouts = Layouts::new(definition.schema.clone())?;
        Ok(self.with(definition, layouts))
    }

    fn with(&self, definition: Definition, layouts: Layouts) -> Self {
        Self {
            reader: Arc::new(self.reader.with(definition, layouts)),
            observers: self.observers.clone(),
            run: self.run,
            recovery: self.recovery.clone(),
        }
    }

    /// Renames a symbol.
    pub fn rename_symbol(&self, old: &str, new: &str) -> Result<(), Error> {
        if self.is_remote() {
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

    /// Renames the symbol of an id, which must still have the old name. Does nothing if it already has the new one.
    pub fn rename_symbol_of(&self, id: u32, old: &str, new: &str) -> Result<(), Error> {
        if self.writer()?.rename_symbol(id, old, new)? { Ok(()) } else { Err(self.no_symbol(old)) }
    }
}
