//! A database in a directory: its lock, its files, and their maintenance.

use crate::backend::directory::SERVER_FILE;
use crate::backend::{Backend, OpenStreams};
use crate::clock::{now, random};
use crate::error::{Error, Invalid};
use crate::files::{is_there, sync_dir};
use crate::ids::NamesById;
use crate::lock::WriterLock;
use crate::maintenance::thread::Maintenance;
use crate::names;
use crate::notifier::Notifier;
use crate::objects::keys;
use crate::objects::tier::Objects;
use crate::objects::url::StoreUrl;
use crate::options::{Offload, StreamOptions};
use crate::stream::definition::{self, Definition};
use crate::stream::open::{self, Opened};
use crate::stream::origin::Origin;
use crate::stream::reader::InUse;
use crate::stream::state::StreamState;
use crate::upstream::{Query, QueryRows};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tapedb_log::Storage;
use tapedb_schema::Schema;

/// A directory that is open for reading, or for reading and writing.
///
/// Always true: streams are created, renamed and deleted while `streams` is locked.
pub(crate) struct LocalBackend {
    storage: Arc<dyn Storage>,
    objects: Arc<Objects>,
    path: PathBuf,
    /// Held while the database is open for writing.
    lock: Option<Arc<WriterLock>>,
    notifier: Arc<Notifier>,
    maintenance: Arc<Maintenance>,
    /// Whether log files are sealed in the background.
    runs_maintenance: bool,
    ids: NamesById,
    streams: Mutex<OpenStreams>,
}

impl LocalBackend {
    /// A database that is open for writing with `lock`, or for reading without.
    pub fn new(
        storage: Arc<dyn Storage>,
        path: &Path,
        lock: Option<WriterLock>,
        runs_maintenance: bool,
        has_cache: bool,
    ) -> Self {
        Self {
            objects: Arc::new(Objects::new(storage.clone(), path, has_cache)),
            storage,
            path: path.into(),
            lock: lock.map(Arc::new),
            notifier: Arc::default(),
            maintenance: Arc::default(),
            runs_maintenance,
            ids: NamesById::default(),
            streams: Mutex::default(),
        }
    }

    fn open_streams(&self) -> MutexGuard<'_, OpenStreams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that no other process can have the database open for writing.
    fn check_lock(&self) -> Result<(), Error> {
        self.lock.as_ref().map_or(Ok(()), |lock| lock.check_now())
    }

    fn open_stream(&self, open: &mut OpenStreams, name: &str) -> Result<Arc<StreamState>, Error> {
        let Self { storage, objects, notifier, lock, .. } = self;
        let (storage, objects) = (storage.clone(), objects.clone());
        let opened = Opened { storage, objects, notifier: notifier.clone(), lock: lock.clone() };
        let state = open::open(name, self.directory_of(name), opened)?;
        Ok(self.put(open, name, state))
    }

    /// Removes the objects of a deleted stream: its records first, so that no reader of the store begins with it.
    fn remove_objects(&self, id: u64, url: StoreUrl) -> Result<(), Error> {
        let tier = self.objects.own_tier(url.as_str())?;
        tier.delete(&keys::index(id))?;
        for prefix in [keys::records(id), keys::of_stream(id)] {
            tier.list(&prefix)?.iter().try_for_each(|key| tier.delete(key))?;
        }
        Ok(())
    }

    /// Enters a stream under its name, and starts its maintenance.
    fn put(&self, open: &mut OpenStreams, name: &str, state: StreamState) -> Arc<StreamState> {
        let state = Arc::new(state);
        open.insert(name.into(), state.clone());
        if let Origin::Written(writer) = state.origin()
            && self.runs_maintenance
            && !state.definition.options.is_transient()
        {
            self.maintenance.add(&state.reader, writer);
        }
        state
    }
}

impl Backend for LocalBackend {
    fn path(&self) -> &Path {
        &self.path
    }

    fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    fn objects(&self) -> Option<&Arc<Objects>> {
        Some(&self.objects)
    }

    fn in_use(&self) -> InUse {
        self.maintenance.clone()
    }

    fn is_read_only(&self) -> bool {
        self.lock.is_none()
    }

    fn is_writer(&self) -> bool {
        self.lock.is_some()
    }

    fn announce(&self, url: Option<&str>) {
        if self.is_writer() {
            let path = self.path.join(SERVER_FILE);
            let _ = match url {
                Some(url) => self.storage.write(&path, format!("{url}\n").as_bytes()),
                None => self.storage.remove(&path),
            };
        }
    }

    fn server_status(&self) -> Result<Option<String>, Error> {
        Ok(None)
    }

    fn query(&self, _query: &Query) -> Result<Option<Box<dyn QueryRows>>, Error> {
        Ok(None)
    }

    fn streams(&self) -> Result<Vec<String>, Error> {
        let directory = self.streams_directory();
        let entries = self.storage.entries(&directory).map_err(Error::io("list", &directory))?;
        let mut found: Vec<_> = entries.iter().filter_map(|entry| names::name_of(&entry.name)).collect();
        found.sort();
        Ok(found)
    }

    fn name_of_id(&self, stream_id: u64) -> Result<Option<String>, Error> {
        let read = |name: &str| definition::read(&*self.storage, &self.directory_of(name));
        self.ids.find(stream_id, self.is_writer(), || {
            let names = self.streams()?;
            let of_name =
                |name: String| (read(&name).map(|found| found.map(|found| found.definition.id)), name);
            Ok(names.into_iter().map(of_name).collect())
        })
    }

    fn stream(&self, name: &str) -> Result<Arc<StreamState>, Error> {
        let mut open = self.open_streams();
        if let Some(state) = open.get(name) {
            // The writer's process may have deleted it, created it again, or changed its schema.
            if !state.is_gone() && !state.is_outdated() {
                return Ok(state.clone());
            }
            if !state.is_gone() {
                let renewed = state.renewed()?;
                return Ok(self.put(&mut open, name, renewed));
            }
        }
        names::check(name)?;
        if !is_there(&*self.storage, &self.directory_of(name))? {
            open.remove(name);
            return Err(self.no_stream(name));
        }
        self.open_stream(&mut open, name)
    }

    fn create_stream(
        &self,
        name: &str,
        schema: Schema,
        options: StreamOptions,
    ) -> Result<Arc<StreamState>, Error> {
        let mut open = self.open_streams();
        self.check_lock()?;
        let directory = self.directory_of(name);
        if is_there(&*self.storage, &directory)? {
            return Err(Error::Invalid(Invalid::StreamExists { name: name.into() }));
        }
        let definition =
            Definition { id: random(), created: now(), revision: 0, options, schema_version: 1, schema };
        if let Some(Offload { url, .. }) = options.offload {
            drop(self.objects.own_tier(url.as_str())?);
        }
        open::create(&*self.storage, &self.streams_directory(), &directory, &definition)?;
        self.ids.forget();
        self.open_stream(&mut open, name)
    }

    fn change_schema(&self, stream: &StreamState, schema: Schema) -> Result<Arc<StreamState>, Error> {
        let mut open = self.open_streams();
        let changed = stream.change_schema(schema)?;
        Ok(self.put(&mut open, &stream.name, changed))
    }

    fn rename_stream(&self, name: &str, new: &str) -> Result<Arc<StreamState>, Error> {
        let mut open = self.open_streams();
        self.check_lock()?;
        let (storage, directory, to) = (&*self.storage, self.directory_of(name), self.directory_of(new));
        if !is_there(storage, &directory)? {
            return Err(self.no_stream(name));
        }
        if is_there(storage, &to)? {
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
        self.ids.forget();
        sync_dir(storage, &self.streams_directory())?;
        self.open_stream(&mut open, new)
    }

    fn delete_stream(&self, name: &str) -> Result<(), Error> {
        let mut open = self.open_streams();
        self.check_lock()?;
        let (storage, directory) = (&*self.storage, self.directory_of(name));
        if !is_there(storage, &directory)? {
            return Err(self.no_stream(name));
        }
        let doomed = self.streams_directory().join(format!(".deleted-{:016x}", random()));
        let objects = definition::read(storage, &directory).ok().flatten();
        let objects =
            objects.and_then(|found| Some((found.definition.id, found.definition.options.offload?.url)));
        let renamed = || storage.rename(&directory, &doomed).map_err(Error::io("delete", &directory));
        match open.get(name) {
            Some(stream) => stream.delete(renamed)?,
            None => renamed()?,
        }
        open.remove(name);
        self.ids.forget();
        sync_dir(storage, &self.streams_directory())?;
        storage.remove_dir_all(&doomed).map_err(Error::io("delete", &doomed))?;
        if let Some((id, url)) = objects
            && let Err(error) = self.remove_objects(id, url)
        {
            // The stream is deleted, and its id is never used again.
            tracing::warn!(
                "stream {name:?} is deleted, and objects below {url}/{} are left: {error}",
                keys::of_stream(id)
            );
        }
        Ok(())
    }
}
