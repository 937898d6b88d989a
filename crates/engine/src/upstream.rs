//! A database elsewhere: what the engine requests from a connection, and how a database answers.
//!
//! A remote database is the same [`Database`](crate::Database), opened with
//! [`Database::open_upstream`](crate::Database::open_upstream) on an [`Upstream`] instead of on a directory. Readers run
//! here: the engine follows the stream's index (a [`Description`] when needed, pushes from a watch while a live cursor
//! waits) and reads ranges of the stream's files ([`Upstream::open_file`]), only the blocks and columns that are wanted.
//! Batches are built here and appended there ([`Loading`]); all other requests are a [`Command`]. On the other side
//! [`Database::describe`](crate::Database::describe), [`Database::execute`](crate::Database::execute) and the corresponding
//! methods of [`Stream`](crate::Stream) answer, on a database that is open there. This module does not depend on the
//! transport.
//!
//! All requests and answers are plain data. The connection defines how commands, outcomes and errors are encoded.

pub(crate) mod command;
pub(crate) mod query;
pub(crate) mod rewrites;
pub(crate) mod storage;

use crate::error::Error;
use crate::wanted::Wanted;
use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tapedb_log::{Granule, StorageFile};

pub use command::{Command, Outcome, Replacement, Target};
pub use query::{Query, QueryEngine, QueryRows, QueryStep, QueryUser};

/// Bytes of batches pushed by a watch that are cached for each space of a stream: reads of them need no request. Credit
/// that is no larger than this never evicts batches that have not been read.
pub const WINDOW_BYTES: usize = 4 << 20;

/// A database elsewhere, over any connection. Shared by all threads; calls may block until the answer arrives, and
/// reconnect where possible. Errors are those of the database there, or
/// [`ConnectionError::Unreachable`](crate::ConnectionError::Unreachable),
/// [`ConnectionError::Disconnected`](crate::ConnectionError::Disconnected),
/// [`ConnectionError::Refused`](crate::ConnectionError::Refused) and [`Error::Denied`].
pub trait Upstream: Send + Sync + Debug {
    /// The address, as in `tape://host:4650`: the beginning of paths in errors.
    fn place(&self) -> String;

    /// Whether its data is trusted. If not, readers check every message against the schema, and its symbol against the
    /// described ones, before they return it; invalid messages are left out with an error. Checksums are compared in both
    /// cases.
    fn is_trusted(&self) -> bool {
        true
    }

    /// Names of the streams that the user may see, sorted.
    ///
    /// # Errors
    /// As stated at the trait.
    fn streams(&self) -> Result<Vec<String>, Error>;

    /// The stream's present state, beyond what is `known` of it: answered by
    /// [`Database::describe`](crate::Database::describe).
    ///
    /// # Errors
    /// [`NotFound::Stream`](crate::NotFound::Stream); with `known`, [`Stale::Deleted`](crate::Stale::Deleted) or
    /// [`Stale::Renamed`](crate::Stale::Renamed) for that stream.
    fn describe(&self, name: &str, known: Option<&CachedStream>) -> Result<Description, Error>;

    /// Opens a file of a stream for reading: `0/00000000000000000012.log`, `0/00000000000000000000-3.seg` (the space before
    /// the slash), `schema-2`, `stream.tape`; answered by [`Stream::open_file`](crate::Stream::open_file). A file that the
    /// stream replaces or removes stays readable while it is open. Reads may extend beyond the end; only `read_at`, `len`
    /// and `identity` are called.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when there is no such file or stream (any more): the engine then requests a new
    /// description. The reader gets any other error. An error of the connection should be the database's:
    /// `io::Error::other(ConnectionError::Disconnected { … })`.
    fn open_file(&self, stream_id: u64, name: &str) -> io::Result<Arc<dyn StorageFile>>;

    /// Pushes appended data into `sink` until the returned watch or the sink is dropped: batches from these sequence
    /// numbers on, one for each space; symbols before the first batch that uses them; changes. After a reconnection it
    /// continues from the last push.
    ///
    /// # Errors
    /// [`Stale::Deleted`](crate::Stale::Deleted) when the stream no longer exists; as stated at the trait.
    fn watch(
        &self,
        stream_id: u64,
        from: &[u64],
        sink: Weak<dyn Watcher>,
    ) -> Result<Box<dyn Watching>, Error>;

    /// [`Upstream::watch`] of some of the messages: the others are left out, if the upstream can do so. [`Watcher::picked`] gets
    /// them, with what lies between them. `None`: the upstream cannot, and everything has to be watched.
    ///
    /// # Errors
    /// As [`Upstream::watch`].
    fn watch_some(
        &self,
        stream_id: u64,
        from: &[u64],
        wanted: &Wanted,
        sink: Weak<dyn Watcher>,
    ) -> Result<Option<Box<dyn Watching>>, Error> {
        let _ = (stream_id, from, wanted, sink);
        Ok(None)
    }

    /// Ids of symbols; new symbols get one: answered by [`Stream::symbol_ids`](crate::Stream::symbol_ids). As many ids as
    /// names.
    ///
    /// # Errors
    /// When a name is empty or too long, there are too many, or they cannot be written.
    fn add_symbols(&self, stream_id: u64, names: &[&str]) -> Result<Vec<u32>, Error>;

    /// Begins to append to a space of a stream: [`Stream::batches`](crate::Stream::batches) there.
    ///
    /// # Errors
    /// [`NotFound::Space`](crate::NotFound::Space), [`Error::ReadOnly`], [`Stale::Deleted`](crate::Stale::Deleted); as
    /// stated at the trait.
    fn load(&self, stream_id: u64, space: u32) -> Result<Box<dyn Loading>, Error>;

    /// Begins to replace messages by others: [`Command::BeginRewrite`], then batches ([`Database::stage`](crate::Database::stage)).
    ///
    /// # Errors
    /// Those of [`Stream::rewrite_in`](crate::Stream::rewrite_in); as stated at the trait.
    fn replace(&self, replacement: &Replacement) -> Result<Box<dyn Replacing>, Error>;

    /// Executes any other command: answered by [`Database::execute`](crate::Database::execute).
    ///
    /// # Errors
    /// Those of the command's method of [`Database`](crate::Database) or [`Stream`](crate::Stream).
    fn command(&self, command: &Command) -> Result<Outcome, Error>;

    /// Begins a query there, which a [`QueryEngine`] answers; `None`: nothing runs queries there.
    ///
    /// # Errors
    /// [`Error::Query`]; as stated at the trait.
    fn query(&self, query: &Query) -> Result<Option<Box<dyn QueryRows>>, Error> {
        let _ = query;
        Ok(None)
    }
}

/// What the client has of a stream already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedStream {
    /// The stream. Another stream with its name is not described.
    pub stream_id: u64,
    /// The last [`Description::run`].
    pub run: u64,
    /// The last [`Description::revision`].
    pub revision: u64,
    /// The number of symbols, from the first on.
    pub symbols: u32,
    /// For each space.
    pub spaces: Vec<CachedSpace>,
    /// Whether changes of a manifest may be sent in its place.
    pub takes_changes: bool,
}

/// What the client has of a space already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedSpace {
    /// The last [`SpaceDescription::generation`].
    pub generation: u64,
    /// The log's index is present up to this sequence number.
    pub next_sequence: u64,
}

/// What a stream is and holds at one moment, beyond what the client has.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// Its id.
    pub stream_id: u64,
    /// Distinguishes one opening of the stream for writing from another. When it changes, all that was described is
    /// invalid.
    pub run: u64,
    /// Counts the changes of the definition.
    pub revision: u64,
    /// The text of `stream.tape`; `None`: unchanged.
    pub definition: Option<Vec<u8>>,
    /// The stream's id in [`Position`](crate::Position)s.
    pub position_id: u64,
    /// Id of the first of `symbols`: the number that the client has.
    pub symbols_from: u32,
    /// Symbols in the order of their ids.
    pub symbols: Vec<String>,
    /// Spaces, in order: as many as in the definition.
    pub spaces: Vec<SpaceDescription>,
}

/// What a space holds at one moment: segments, and a log behind them.
#[derive(Debug, Clone, PartialEq)]
pub struct SpaceDescription {
    /// Counts the changes of the manifest.
    pub generation: u64,
    /// The manifest's text, or its changes ([`CachedStream::takes_changes`]); `None`: unchanged.
    pub manifest: Option<Vec<u8>>,
    /// The log, at the same moment: together they hold every message.
    pub log: LogDescription,
}

/// The index of a log at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct LogDescription {
    /// The log begins with this sequence number.
    pub first_sequence: u64,
    /// Sequence number after its last message that readers may see.
    pub next_sequence: u64,
    /// The granules that the client does not have completely: those that end after [`CachedSpace::next_sequence`], in order.
    pub granules: Vec<Granule>,
    /// All log files, by the sequence numbers in their names, in order; the last one grows.
    pub files: Vec<u64>,
}

/// Receives what a watch pushes. Implemented by the engine; the connection calls it from one thread at a time. Calls are
/// short, do not wait for answers and may be late: pushes from before a gap are dropped, and described again.
pub trait Watcher: Send + Sync {
    /// Batches that have been appended, whole, and where they are. In each space they are in order.
    fn grown(&self, space: u32, at: Grown, bytes: &[u8]);
    /// Rows that were picked for a watch of some messages ([`Upstream::watch_some`]): all that it wants in a range. In each space they
    /// are in order.
    fn picked(&self, space: u32, picked: Picked, rows: &[u8]) {
        let _ = (space, picked, rows);
        self.changed();
    }
    /// A watch continues with a later message: those between are in files, or were dropped.
    fn skipped(&self, space: u32, next_sequence: u64) {
        let _ = (space, next_sequence);
        self.changed();
    }
    /// The upstream has ended the watch, but the stream exists: it begins again after the next [`Watching::consumed`].
    fn lapsed(&self) {
        self.changed();
    }
    /// The watch begins again: where, for each space. What was pushed and not read is pushed again. `None`: after the last push.
    fn restart(&self) -> Option<Vec<u64>> {
        None
    }
    /// Symbols that are new; `from`: id of the first one.
    fn symbols(&self, from: u32, names: &[&str]);
    /// The manifest of a space or the definition has changed, or batches have been left out: the stream must be described
    /// again.
    fn changed(&self);
    /// The stream has been deleted, or has another name. Nothing follows.
    fn gone(&self, renamed: Option<&str>);
    /// The stream may no longer be read: the reason, as in [`Error::Denied`](crate::Error::Denied). Nothing follows.
    fn denied(&self, what: &str);
    /// The connection is lost; pushes continue after [`Watcher::resumed`].
    fn interrupted(&self);
    /// The connection is restored.
    fn resumed(&self);
}

/// The range that rows were picked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picked {
    /// Sequence number of the first message that may be among them: where the push before has ended.
    pub first_sequence: u64,
    /// Sequence number after the last such message.
    pub next_sequence: u64,
}

/// The position of pushed batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grown {
    /// The log file: the sequence number in its name.
    pub file: u64,
    /// The offset of the first batch in it.
    pub offset: u64,
    /// Sequence number of the first message.
    pub first_sequence: u64,
}

/// A watch, until it is dropped.
pub trait Watching: Send + Sync + Debug {
    /// All of a space below a sequence number has been read, or is not wanted, including what has not been pushed yet:
    /// credit for as many bytes must be returned, or pushes end. Readers call it often; it must be cheap, and must not
    /// block.
    fn consumed(&self, space: u32, sequence: u64);

    /// Identifies a connection of the upstream: a thread that waits for one watch ([`Watching::wait`]) waits for all
    /// watches of the same connection.
    fn connection(&self) -> u64 {
        0
    }

    /// Waits until `is_there` is true, which pushes cause, or the time is over. The waiting thread may read the pushes
    /// itself, so no other thread has to wake it. `false`: waiting is not possible, as while the connection is lost. May
    /// return early.
    fn wait(&self, is_there: &dyn Fn() -> bool, timeout: Duration) -> bool {
        let _ = (is_there, timeout);
        false
    }
}

/// Appends to one space of a stream. One thread uses it at a time. Dropping it discards what has not been flushed.
///
/// Always true: an accepted batch that is not acknowledged stays here after any error: an error is returned once, and the
/// next call sends all such batches again, in order, under the same numbers. Only batches that are refused for good are
/// dropped: those that are too late for the stream ([`Rejected::Late`](crate::Rejected::Late)).
pub trait Loading: Send + Debug {
    /// Accepts a batch: whole, encoded, without sequence numbers; the connection fills in a producer and its number, which
    /// identify a batch that is sent again (`docs/format/batch.md`). Does not wait for the answer, unless too many batches
    /// wait for theirs. Leaves an empty buffer for the next batch.
    ///
    /// # Errors
    /// The batch is not accepted, and stays in the buffer. The error of an earlier batch that was refused
    /// ([`Stale::Deleted`](crate::Stale::Deleted), [`Error::Denied`], a full disk); with
    /// [`Rejected::Late`](crate::Rejected::Late) the batches sent after it are dropped too. A lost connection is an error
    /// only when the reconnect timeout ends before there is a new one.
    fn append(&mut self, batch: &mut Vec<u8>) -> Result<(), Error>;

    /// Returns the error of a refused batch; if it has been returned already, sends the batches again. Does not wait.
    ///
    /// # Errors
    /// As [`Loading::append`].
    fn go_on(&mut self) -> Result<(), Error>;

    /// Waits until all batches are acknowledged; returns the sequence number after the last message of this loader, 0 when
    /// it has sent none.
    ///
    /// # Errors
    /// As [`Loading::append`].
    fn flush(&mut self) -> Result<u64, Error>;

    /// Messages of accepted batches that are neither acknowledged nor dropped.
    fn unacknowledged(&self) -> usize;

    /// Messages of accepted batches that were dropped since the start.
    fn given_up(&self) -> u64 {
        0
    }
}

/// Sends the messages that replace others. One thread uses it at a time. Dropping it discards them, unless they have been
/// committed.
pub trait Replacing: Send + Debug {
    /// Sends a batch: whole, encoded, without sequence numbers and a producer.
    ///
    /// # Errors
    /// [`NotFound::Rewrite`](crate::NotFound::Rewrite) when the batches sent before are no longer there; when the messages
    /// are invalid or cannot be stored. The stream then stays unchanged.
    fn append(&mut self, batch: &[u8]) -> Result<(), Error>;

    /// Replaces the messages; the sequence numbers of the new ones.
    ///
    /// # Errors
    /// Those of [`Rewriter::commit`](crate::Rewriter::commit): the stream is unchanged.
    /// [`ConnectionError::Disconnected`](crate::ConnectionError::Disconnected) when it is unknown whether the change was
    /// made: completely, or not at all.
    fn commit(&mut self) -> Result<Range<u64>, Error>;
}
