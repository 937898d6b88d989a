//! A database behind a server: each change is a command to the server.

use crate::backend::{Backend, OpenStreams};
use crate::error::{ConnectionError, Error};
use crate::names;
use crate::notifier::Notifier;
use crate::options::StreamOptions;
use crate::stream::open;
use crate::stream::reader::InUse;
use crate::stream::state::StreamState;
use crate::upstream::storage::NoStorage;
use crate::upstream::{Command, Outcome, Query, QueryRows, Upstream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tapedb_log::Storage;
use tapedb_schema::Schema;

/// A server's database.
///
/// `streams` is locked only between commands: no thread waits for the answer to another thread's command.
pub(crate) struct RemoteBackend {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    notifier: Arc<Notifier>,
    streams: Mutex<OpenStreams>,
    upstream: Arc<dyn Upstream>,
}

impl RemoteBackend {
    pub fn new(upstream: Arc<dyn Upstream>) -> Self {
        Self {
            storage: Arc::new(NoStorage),
            path: upstream.place().into(),
            notifier: Arc::default(),
            streams: Mutex::default(),
            upstream,
        }
    }

    fn open_streams(&self) -> MutexGuard<'_, OpenStreams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a stream under its name.
    fn put(&self, name: &str, state: StreamState) -> Arc<StreamState> {
        let state = Arc::new(state);
        self.open_streams().insert(name.into(), state.clone());
        state
    }

    /// Runs a command that deletes or renames a stream; `new`: its new name.
    fn end_stream(&self, command: &Command, new: Option<&str>) -> Result<(), Error> {
        self.upstream.command(command)?;
        let mut open = self.open_streams();
        let ended = open.remove(command.stream());
        if let Some(remote) = ended.as_ref().and_then(|state| state.remote()) {
            remote.note_gone(new);
        }
        Ok(())
    }
}

impl Backend for RemoteBackend {
    fn path(&self) -> &Path {
        &self.path
    }

    fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    fn in_use(&self) -> InUse {
        // The server runs maintenance.
        Arc::new(())
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn is_writer(&self) -> bool {
        false
    }

    fn announce(&self, _url: Option<&str>) {}

    fn server_status(&self) -> Result<Option<String>, Error> {
        match self.upstream.command(&Command::ServerStatus)? {
            Outcome::Text(status) => Ok(status),
            other => Err(other.unexpected()),
        }
    }

    fn query(&self, query: &Query) -> Result<Option<Box<dyn QueryRows>>, Error> {
        self.upstream.query(query)
    }

    fn streams(&self) -> Result<Vec<String>, Error> {
        self.upstream.streams()
    }

    fn name_of_id(&self, _stream_id: u64) -> Result<Option<String>, Error> {
        // The server does not send ids with the names. A lost connection is an error all the same.
        self.upstream.streams().map(|_| None)
    }

    fn stream(&self, name: &str) -> Result<Arc<StreamState>, Error> {
        names::check(name)?;
        let found = self.open_streams().get(name).cloned();
        if let Some(state) = found {
            match state.refresh() {
                Ok(()) if !state.is_outdated() => return Ok(state),
                Ok(()) => {
                    let renewed = state.renewed()?;
                    return Ok(self.put(name, renewed));
                }
                Err(error) if error.is_gone() => drop(self.open_streams().remove(name)),
                Err(error) => return Err(error),
            }
        }
        let state = open::open_remote(name, self.directory_of(name), &self.upstream, self.notifier.clone())?;
        Ok(self.put(name, state))
    }

    fn create_stream(
        &self,
        name: &str,
        schema: Schema,
        options: StreamOptions,
    ) -> Result<Arc<StreamState>, Error> {
        self.upstream.command(&Command::CreateStream {
            name: name.into(),
            schema: schema.to_string(),
            options: options.to_text(),
        })?;
        self.stream(name)
    }

    fn change_schema(&self, stream: &StreamState, schema: Schema) -> Result<Arc<StreamState>, Error> {
        schema.validate()?;
        let name = &*stream.name;
        let command = Command::ChangeSchema { name: name.into(), schema: schema.to_string() };
        let before = &stream.definition.schema;
        settled(
            || self.upstream.command(&command).map(drop),
            || match self.stream(name)? {
                now if now.definition.schema == schema => Ok(Settled::Done),
                now if now.definition.schema == *before => Ok(Settled::NotDone),
                _ => Ok(Settled::Unknown),
            },
        )?;
        self.stream(name)
    }

    fn rename_stream(&self, name: &str, new: &str) -> Result<Arc<StreamState>, Error> {
        let command = Command::RenameStream { name: name.into(), new: new.into() };
        let id = self.stream(name).map(|stream| stream.definition.id).ok();
        let has_it = |name: &str| match self.stream(name) {
            Err(
                error @ Error::Connection(
                    ConnectionError::Unreachable { .. } | ConnectionError::Refused { .. },
                ),
            ) => Err(error),
            found => Ok(id.is_some() && found.map(|stream| stream.definition.id).ok() == id),
        };
        settled(
            || self.end_stream(&command, Some(new)),
            || match (has_it(new)?, has_it(name)?) {
                (true, _) => Ok(Settled::Done),
                (false, true) => Ok(Settled::NotDone),
                (false, false) => Ok(Settled::Unknown),
            },
        )?;
        self.stream(new)
    }

    fn delete_stream(&self, name: &str) -> Result<(), Error> {
        self.end_stream(&Command::DeleteStream { name: name.into() }, None)
    }
}

/// The result of a change whose answer was lost with the connection.
enum Settled {
    Done,
    NotDone,
    Unknown,
}

/// Makes a change on the server. When the connection ends before the answer arrives, `check` finds out whether the change was
/// made; if it was not, the command is sent again.
fn settled(
    change: impl Fn() -> Result<(), Error>,
    check: impl Fn() -> Result<Settled, Error>,
) -> Result<(), Error> {
    loop {
        let lost = match change() {
            Err(lost @ Error::Connection(ConnectionError::Disconnected { .. })) => lost,
            done => return done,
        };
        match check() {
            Ok(Settled::Done) => return Ok(()),
            Ok(Settled::NotDone) => {}
            Ok(Settled::Unknown) | Err(_) => return Err(lost),
        }
    }
}
