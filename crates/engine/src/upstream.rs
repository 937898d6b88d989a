//! Where a database is that is not here: what the engine asks of a connection, and what a database answers.
//!
//! A remote database is the same [`Database`](crate::Database), opened with
//! [`Database::open_upstream`](crate::Database::open_upstream) on an [`Upstream`] instead of on a directory. Reading runs here:
//! the engine follows the stream's index (a [`Description`] now and then, pushes from a watch while a live cursor waits) and
//! reads the stream's files by ranges ([`Upstream::open_file`]), only the blocks and columns that are wanted. Batches are built
//! here and appended there ([`Loading`]); everything else is a [`Command`]. On the other side
//! [`Database::describe`](crate::Database::describe), [`Database::execute`](crate::Database::execute) and the methods of
//! [`Stream`](crate::Stream) beside them answer, on a database that is open there. Nothing here knows what lies between the
//! two.
//!
//! Everything that is sent is plain data. How commands, outcomes and errors become bytes is left to the connection.

pub(crate) mod command;
pub(crate) mod rewrites;
pub(crate) mod storage;

use crate::error::Error;
use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tapedb_log::{Granule, StorageFile};

pub use command::{Command, Outcome, Replacement, Target};

/// So many bytes of batches pushed by a watch are kept for each space of a stream: what is read from there is not asked for
/// again. Credit that is no larger than this never pushes out what has not been read.
pub const WINDOW_BYTES: usize = 4 << 20;

/// A database elsewhere, over whatever connects to it. Shared by all threads; calls may block for as long as an answer takes,
/// and reconnect by themselves where that is possible. Errors are those of the database there, or
/// [`ConnectionError::Unreachable`](crate::ConnectionError::Unreachable),
/// [`ConnectionError::Disconnected`](crate::ConnectionError::Disconnected),
/// [`ConnectionError::Refused`](crate::ConnectionError::Refused) and [`Error::Denied`].
pub trait Upstream: Send + Sync + Debug {
    /// What to call the place, as in `tape://host:4650`: the beginning of paths in errors.
    fn place(&self) -> String;

    /// Whether what comes from there is believed. Where it is not, readers check every message against the schema, and its
    /// symbol against those that were described, before they give it; what is wrong is left out with an error. Checksums are
    /// compared either way.
    fn is_trusted(&self) -> bool {
        true
    }

    /// Names of the streams that the user may see, sorted.
    ///
    /// # Errors
    /// As the trait says.
    fn streams(&self) -> Result<Vec<String>, Error>;

    /// What a stream is now, beyond what is `known` of it: answered by [`Database::describe`](crate::Database::describe).
    ///
    /// # Errors
    /// [`NotFound::Stream`](crate::NotFound::Stream); when something is known, [`Stale::Deleted`](crate::Stale::Deleted) or
    /// [`Stale::Renamed`](crate::Stale::Renamed) for that stream.
    fn describe(&self, name: &str, known: Option<&Known>) -> Result<Description, Error>;

    /// Opens a file of a stream for reading: `0/00000000000000000012.log`, `0/00000000000000000000-3.seg` (the space before the
    /// slash), `schema-2`, `stream.tape`; answered by [`Stream::open_file`](crate::Stream::open_file). What the stream replaces
    /// or removes stays readable while it is open. Reads may ask for more than there is; only `read_at`, `len` and `identity`
    /// are called.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when there is no such file or stream (by now): the engine then asks for a new
    /// description. Anything else is told to whoever reads. An error of the connection is best given as the database's:
    /// `io::Error::other(ConnectionError::Disconnected { … })`.
    fn open_file(&self, stream_id: u64, name: &str) -> io::Result<Arc<dyn StorageFile>>;

    /// Pushes what comes to a stream into `sink` until what is returned is dropped, or the sink is: batches from these
    /// sequence numbers on, one for each space; symbols before the first batch that uses them; changes. After a
    /// reconnection it goes on by itself from what was pushed last.
    ///
    /// # Errors
    /// [`Stale::Deleted`](crate::Stale::Deleted) when there is no such stream any more; as the trait says.
    fn watch(
        &self,
        stream_id: u64,
        from: &[u64],
        sink: Weak<dyn Watcher>,
    ) -> Result<Box<dyn Watching>, Error>;

    /// Ids of symbols, which get one if they are new: answered by [`Stream::symbol_ids`](crate::Stream::symbol_ids). As many
    /// ids as names.
    ///
    /// # Errors
    /// When a name is empty or too long, there are too many, or they cannot be written.
    fn add_symbols(&self, stream_id: u64, names: &[&str]) -> Result<Vec<u32>, Error>;

    /// Begins to append to a space of a stream: [`Stream::batches`](crate::Stream::batches) there.
    ///
    /// # Errors
    /// [`NotFound::Space`](crate::NotFound::Space), [`Error::ReadOnly`], [`Stale::Deleted`](crate::Stale::Deleted); as the
    /// trait says.
    fn load(&self, stream_id: u64, space: u32) -> Result<Box<dyn Loading>, Error>;

    /// Begins to replace messages by others: [`Command::BeginRewrite`], then batches ([`Database::stage`](crate::Database::stage)).
    ///
    /// # Errors
    /// Those of [`Stream::rewrite_in`](crate::Stream::rewrite_in); as the trait says.
    fn replace(&self, replacement: &Replacement) -> Result<Box<dyn Replacing>, Error>;

    /// Does something else: answered by [`Database::execute`](crate::Database::execute).
    ///
    /// # Errors
    /// Those of the method of [`Database`](crate::Database) or [`Stream`](crate::Stream) that the command is.
    fn command(&self, command: &Command) -> Result<Outcome, Error>;
}

/// What is known of a stream already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The stream. Another one that has got its name is not described.
    pub stream_id: u64,
    /// [`Description::run`], as it was.
    pub run: u64,
    /// [`Description::revision`], as it was.
    pub revision: u64,
    /// How many symbols, from the first on.
    pub symbols: u32,
    /// For each space.
    pub spaces: Vec<KnownSpace>,
}

/// What is known of a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownSpace {
    /// [`SpaceDescription::generation`], as it was.
    pub generation: u64,
    /// The log's index is known up to this sequence number.
    pub next_sequence: u64,
}

/// What a stream is and holds at one moment, beyond what was known.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// Its id.
    pub stream_id: u64,
    /// Tells one opening of the stream for writing from another. When it changes, nothing that was known counts.
    pub run: u64,
    /// Counts the changes of the definition.
    pub revision: u64,
    /// The text of `stream.tape`; `None`: as it was known.
    pub definition: Option<Vec<u8>>,
    /// What the stream is called in [`Position`](crate::Position)s.
    pub position_id: u64,
    /// Id of the first of `symbols`: how many were known.
    pub symbols_from: u32,
    /// Symbols in the order of their ids.
    pub symbols: Vec<String>,
    /// Spaces, in order: as many as the definition says.
    pub spaces: Vec<SpaceDescription>,
}

/// What a space holds at one moment: segments, and a log behind them.
#[derive(Debug, Clone, PartialEq)]
pub struct SpaceDescription {
    /// Counts the changes of the manifest.
    pub generation: u64,
    /// The manifest's text; `None`: as it was known.
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
    /// The granules that were not wholly known: those that end behind [`KnownSpace::next_sequence`], in order.
    pub granules: Vec<Granule>,
    /// All log files, by the sequence numbers in their names, in order; the last one grows.
    pub files: Vec<u64>,
}

/// Takes what a watch pushes. Implemented by the engine; called by the connection from one thread at a time. Calls are
/// short, block on no answer and may come late: what was pushed before a gap is dropped, and described again.
pub trait Watcher: Send + Sync {
    /// Batches that have been appended, whole, and where they lie. In each space they come in order.
    fn grown(&self, space: u32, at: Grown, bytes: &[u8]);
    /// Symbols that are new; `from`: id of the first one.
    fn symbols(&self, from: u32, names: &[&str]);
    /// The manifest of a space or the definition is another, or batches have been left out: the stream is to be described
    /// again.
    fn changed(&self);
    /// The stream has been deleted, or has another name. Nothing follows.
    fn gone(&self, renamed: Option<&str>);
    /// The stream may not be read any more: what [`Error::Denied`](crate::Error::Denied) says. Nothing follows.
    fn denied(&self, what: &str);
    /// The connection is lost; pushes come again after [`Watcher::resumed`].
    fn interrupted(&self);
    /// The connection is there again.
    fn resumed(&self);
}

/// Where pushed batches lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grown {
    /// The log file: the sequence number in its name.
    pub file: u64,
    /// Where the first batch begins in it.
    pub offset: u64,
    /// Sequence number of the first message.
    pub first_sequence: u64,
}

/// A watch, until it is dropped.
pub trait Watching: Send + Sync + Debug {
    /// Everything of a space below a sequence number has been read, or is not wanted, what is still to be pushed of it too:
    /// credit for as many bytes is to be given back, or pushes end. Called by readers, often; must be cheap, and must not
    /// block.
    fn consumed(&self, space: u32, sequence: u64);

    /// Tells the connections of an upstream apart: who waits for one watch ([`Watching::wait`]) waits for all those of the
    /// same connection.
    fn connection(&self) -> u64 {
        0
    }

    /// Waits until `is_there` is true, which pushes make it, or the time is over. The thread that wants them may take them
    /// in itself, and need not be woken by another. `false`: they cannot be waited for here, as while the connection is
    /// lost. May return early.
    fn wait(&self, is_there: &dyn Fn() -> bool, timeout: Duration) -> bool {
        let _ = (is_there, timeout);
        false
    }
}

/// Appends to one space of a stream. One thread uses it at a time. Dropping it gives up what has not been flushed.
///
/// Always true: a batch that was taken and not acknowledged is kept, whatever goes wrong: an error is told once, and the call after
/// it sends all that is kept again, in order, under the numbers that it had. Only what is refused for good is given up:
/// batches that are too late for the stream ([`Rejected::Late`](crate::Rejected::Late)).
pub trait Loading: Send + Debug {
    /// Takes a batch: whole, encoded, without sequence numbers; a producer and its number, by which a batch that is sent
    /// again is known, are the connection's to fill in (`docs/format/batch.md`). Does not wait for the answer, unless too
    /// many batches wait for theirs. Leaves an empty buffer to build the next batch in.
    ///
    /// # Errors
    /// The batch is not taken, and stays where it is. That of an earlier batch which was refused
    /// ([`Stale::Deleted`](crate::Stale::Deleted), [`Error::Denied`], a full disk); with
    /// [`Rejected::Late`](crate::Rejected::Late) those sent behind it are given up as well. A lost connection is an error only
    /// when patience ends before there is another.
    fn append(&mut self, batch: &mut Vec<u8>) -> Result<(), Error>;

    /// Tells of a batch that has been refused; where that has been told, sends again what is kept. Does not wait.
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

    /// Messages of batches that were taken, and are neither acknowledged nor given up.
    fn unacknowledged(&self) -> usize;

    /// Messages of batches that were taken and given up, since it began.
    fn given_up(&self) -> u64 {
        0
    }
}

/// Sends the messages that take the place of others. One thread uses it at a time. Dropping it gives them up, unless they have
/// been committed.
pub trait Replacing: Send + Debug {
    /// Sends a batch: whole, encoded, without sequence numbers and a producer.
    ///
    /// # Errors
    /// [`NotFound::Rewrite`](crate::NotFound::Rewrite) when what was sent before is there no more; what is wrong with the
    /// messages, or keeps them from being kept. Nothing will be changed then.
    fn append(&mut self, batch: &[u8]) -> Result<(), Error>;

    /// Replaces the messages; the sequence numbers of the new ones.
    ///
    /// # Errors
    /// Those of [`Rewriter::commit`](crate::Rewriter::commit): all is as before.
    /// [`ConnectionError::Disconnected`](crate::ConnectionError::Disconnected) when nobody knows any more whether it has been
    /// done: wholly, or not at all.
    fn commit(&mut self) -> Result<Range<u64>, Error>;
}
