//! The two kinds of databases: a directory that this process opens, and a database behind a server.

pub(crate) mod directory;
pub(crate) mod local;
pub(crate) mod remote;

use crate::error::{Error, NotFound};
use crate::names;
use crate::objects::tier::Objects;
use crate::options::StreamOptions;
use crate::stream::reader::InUse;
use crate::stream::state::StreamState;
use crate::upstream::{Query, QueryRows};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_log::Storage;
use tapedb_schema::Schema;

/// Name of the directory of all streams.
const STREAMS_DIRECTORY: &str = "streams";
/// Maximum number of streams that an error lists.
const STREAMS_LISTED: usize = 10;

/// Streams that have been opened, by name.
type OpenStreams = BTreeMap<String, Arc<StreamState>>;

/// The operations of a [`Database`](crate::Database). The caller has checked that the database can be written, and the names,
/// options and schemas of new streams.
pub(crate) trait Backend: Send + Sync {
    /// The directory; of a remote database, the address of its server.
    fn path(&self) -> &Path;

    /// The storage that has the files.
    fn storage(&self) -> &Arc<dyn Storage>;

    /// The object stores of a local database.
    fn objects(&self) -> Option<&Arc<Objects>> {
        None
    }

    /// The database's use: while a handle of a stream holds it, maintenance runs.
    fn in_use(&self) -> InUse;

    /// Whether streams can only be read.
    fn is_read_only(&self) -> bool;

    /// Whether this process has the directory open for writing.
    fn is_writer(&self) -> bool;

    /// Writes the URL of the server that has the database open into the directory, or removes it.
    fn announce(&self, url: Option<&str>);

    /// The state of the server; `None`: there is no server.
    fn server_status(&self) -> Result<Option<String>, Error>;

    /// Begins a query on the server; `None`: there is no server, or it runs no queries.
    fn query(&self, query: &Query) -> Result<Option<Box<dyn QueryRows>>, Error>;

    /// Names of all streams, sorted.
    fn streams(&self) -> Result<Vec<String>, Error>;

    /// The current name of the stream of an id; `None`: there is no such stream.
    fn name_of_id(&self, stream_id: u64) -> Result<Option<String>, Error>;

    /// Opens a stream, or returns it if it is open and current.
    fn stream(&self, name: &str) -> Result<Arc<StreamState>, Error>;

    /// Creates and opens a stream.
    fn create_stream(
        &self,
        name: &str,
        schema: Schema,
        options: StreamOptions,
    ) -> Result<Arc<StreamState>, Error>;

    /// Changes the schema of a stream that is open and current; returns it with the new schema.
    fn change_schema(&self, stream: &StreamState, schema: Schema) -> Result<Arc<StreamState>, Error>;

    /// Renames a stream, and opens it under its new name.
    fn rename_stream(&self, name: &str, new: &str) -> Result<Arc<StreamState>, Error>;

    /// Deletes a stream.
    fn delete_stream(&self, name: &str) -> Result<(), Error>;

    /// The directory of all streams.
    fn streams_directory(&self) -> PathBuf {
        self.path().join(STREAMS_DIRECTORY)
    }

    /// The directory of a stream, whether it exists or not.
    fn directory_of(&self, name: &str) -> PathBuf {
        self.streams_directory().join(names::directory_of(name))
    }

    /// The error for a stream that does not exist.
    fn no_stream(&self, name: &str) -> Error {
        let known = self.streams().unwrap_or_default().into_iter().take(STREAMS_LISTED).collect();
        Error::NotFound(NotFound::Stream { name: name.into(), known })
    }
}
