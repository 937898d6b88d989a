//! Deleting messages of a stream, and renaming its symbols.
//!
//! A deletion is a line in the manifest of each space: it takes effect at once and costs the same for one message and for
//! 10^9. Readers leave out the deleted messages; maintenance removes them from their files later. An open cursor leaves
//! them out from the next granule or block that it reads: it may still return messages that it has in memory (at most 64 Ki
//! messages).

use crate::error::Error;
use crate::read::block::Order;
use crate::read::filter::Filter;
use crate::read::history::History;
use crate::space::Space;
use crate::space::catalog::Catalog;
use crate::space::deletion::Deletion;
use crate::space::reader::end_of;
use crate::stream::Stream;
use crate::stream::reader::{ReadContext, StreamReader};
use crate::stream::writer::StreamWriter;
use crate::upstream::Command;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::Ordering;
use tapedb_log::Snapshot;
use tapedb_schema::Timestamp;

impl Stream {
    /// Renames a symbol in all its messages, including stored ones. No stored message is rewritten; it costs one entry in
    /// the symbol file, and is on the disk when it returns. From then on the old name is free: a message appended under it
    /// has a new symbol. A [`SymbolId`](crate::SymbolId) stays with its symbol.
    ///
    /// Readers see the new name at once, in other processes when they next poll the stream's files. A cursor over some
    /// symbols uses the new names from the next batch or block that it reads.
    ///
    /// ```
    /// # use tapedb_codec::{Record, SchemaBuilder};
    /// # use tapedb_engine::{Database, StreamOptions};
    /// # use tapedb_schema::Timestamp;
    /// # #[derive(Record, Debug, Default, PartialEq)]
    /// # #[record(message)]
    /// # struct Tick { price: f64 }
    /// # let directory = tempfile::tempdir()?;
    /// # let db = Database::open(directory.path().join("db"))?;
    /// # let ticks = db.create_stream("ticks", SchemaBuilder::new().with::<Tick>().finish(), StreamOptions::default())?;
    /// let mut loader = ticks.loader()?;
    /// loader.append("FB", Timestamp(1), &Tick { price: 1.0 })?;
    /// loader.flush()?;
    /// ticks.rename_symbol("FB", "META")?;
    ///
    /// let mut cursor = ticks.cursor().symbols(["META"]).open()?;
    /// assert_eq!(cursor.next()?.map(|message| message.symbol()), Some("META"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NotFound::Symbol`](crate::NotFound::Symbol); when another symbol has the new name, or it is empty or too long;
    /// when the database is open for reading only, the stream has been deleted, or the symbol file cannot be written: the
    /// symbol then has its old name.
    pub fn rename_symbol(&self, old: &str, new: &str) -> Result<(), Error> {
        self.state.rename_symbol(old, new)
    }

    /// Deletes all messages at or after a time that have been acknowledged.
    ///
    /// # Errors
    /// As [`Stream::delete`].
    pub fn truncate(&self, from: Timestamp) -> Result<(), Error> {
        self.delete(from.., None::<[&str; 0]>)
    }

    /// Deletes all messages before a time that have been acknowledged: exactly those, in any files.
    /// [`Retention`](crate::Retention) does it automatically, by whole segments.
    ///
    /// # Errors
    /// As [`Stream::delete`].
    pub fn purge(&self, before: Timestamp) -> Result<(), Error> {
        self.delete(..before, None::<[&str; 0]>)
    }

    /// Deletes all messages. The stream, its symbols and its sequence numbers continue.
    ///
    /// # Errors
    /// As [`Stream::delete`].
    pub fn clear(&self) -> Result<(), Error> {
        self.delete(.., None::<[&str; 0]>)
    }

    /// Deletes the acknowledged messages of a range of times, of all symbols or of some. When it returns, the deletion is
    /// on the disk.
    ///
    /// ```
    /// # use tapedb_codec::{Record, SchemaBuilder};
    /// # use tapedb_engine::{Database, StreamOptions};
    /// # use tapedb_schema::Timestamp;
    /// # #[derive(Record, Debug, Default, PartialEq)]
    /// # #[record(message)]
    /// # struct Tick { price: f64 }
    /// # let directory = tempfile::tempdir()?;
    /// # let db = Database::open(directory.path().join("db"))?;
    /// # let ticks = db.create_stream("ticks", SchemaBuilder::new().with::<Tick>().finish(), StreamOptions::default())?;
    /// let mut loader = ticks.loader()?;
    /// for (symbol, time) in [("AIG", 1), ("BAC", 2), ("AIG", 3)] {
    ///     loader.append(symbol, Timestamp(time), &Tick { price: 1.0 })?;
    /// }
    /// loader.flush()?;
    /// ticks.delete(Timestamp(2)..Timestamp(4), Some(["AIG"]))?;
    ///
    /// let mut cursor = ticks.cursor().open()?;
    /// assert_eq!(cursor.next()?.map(|message| message.time()), Some(Timestamp(1)));
    /// assert_eq!(cursor.next()?.map(|message| message.time()), Some(Timestamp(2)));
    /// assert!(cursor.next()?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the database is open for reading only or the stream has been deleted, or a manifest cannot be written: in a
    /// stream of several spaces some messages may then be deleted and others not; the same call can be made again.
    pub fn delete<S: AsRef<str>>(
        &self,
        times: impl RangeBounds<Timestamp>,
        symbols: Option<impl IntoIterator<Item = S>>,
    ) -> Result<(), Error> {
        let Some((from, last)) = bounds(&times) else { return Ok(()) };
        let symbols: Option<Vec<String>> =
            symbols.map(|symbols| symbols.into_iter().map(|symbol| symbol.as_ref().to_string()).collect());
        let command = |stream| Command::Delete { stream, from, last, symbols: symbols.clone() };
        if self.state.command(command)?.is_some() {
            return Ok(());
        }
        let symbols = symbols.map(|symbols| self.state.ids_of(symbols));
        if symbols.as_ref().is_some_and(Vec::is_empty) {
            return self.state.check_not_deleted();
        }
        let writer = self.state.writer()?;
        writer.spaces.iter().try_for_each(|space| {
            let sequences = 0..space.next_sequence();
            let deletion = Deletion { number: 0, from, last, sequences, symbols: symbols.clone() };
            delete_in(&self.state.reader, writer, space, deletion)
        })
    }
}

/// First and last time of a range; `None` if it is empty.
pub(crate) fn bounds(times: &impl RangeBounds<Timestamp>) -> Option<(i64, i64)> {
    let from = match times.start_bound() {
        Bound::Included(time) => time.0,
        Bound::Excluded(time) => time.0.checked_add(1)?,
        Bound::Unbounded => i64::MIN,
    };
    let last = match times.end_bound() {
        Bound::Included(time) => time.0,
        Bound::Excluded(time) => time.0.checked_sub(1)?,
        Bound::Unbounded => i64::MAX,
    };
    (from <= last).then_some((from, last))
}

fn delete_in(
    stream: &StreamReader,
    writer: &StreamWriter,
    space: &Space,
    deletion: Deletion,
) -> Result<(), Error> {
    writer.check_lock()?;
    // While no message is appended, so that the remaining messages decide what is late afterwards.
    let _hold = space.writer.hold();
    stream.check_not_deleted()?;
    delete(space, deletion)?;
    find_last_time(stream, space)
}

/// Deletes messages: readers that have not read them yet no longer find them.
pub(crate) fn delete(space: &Space, deletion: Deletion) -> Result<(), Error> {
    // Under the lock of changes: a segment that gets its number later is created with the deletion in the catalog.
    space.change_catalog(|catalog| {
        let number = space.number_in_change();
        let mut new = catalog.with_deletion(Deletion { number, ..deletion });
        if new.parts.is_empty() {
            // In a transient stream, messages that the log has dropped are gone, deleted or not.
            let first_sequence = space.log.first_sequence();
            new.deletions.retain(|deletion| deletion.sequences.end > first_sequence);
        }
        Some(new)
    })?;
    Ok(())
}

/// Finds the time of the latest remaining message: earlier ones are late.
pub(crate) fn find_last_time(stream: &StreamReader, space: &Space) -> Result<(), Error> {
    let last_time = loop {
        let (catalog, snapshot) = space.view();
        match last_time_of_all(ReadContext { stream, space }, (&catalog, &snapshot)) {
            // Maintenance has replaced those files by others.
            Err(error) if error.is_missing_file() && space.is_newer_than(&catalog)? => {}
            found => break found?,
        }
    };
    space.last_time.store(last_time, Ordering::Relaxed);
    Ok(())
}

/// The time of the latest remaining message, also of one that the newest version of the schema has no values for.
fn last_time_of_all(context: ReadContext<'_>, view: (&Catalog, &Snapshot)) -> Result<i64, Error> {
    let (mut last_time, is_exact) = last_time_in(context, view)?;
    if is_exact {
        return Ok(last_time);
    }
    // Each message has values in its own version.
    for version in 1..context.stream.definition.schema_version {
        match context.stream.as_of(version) {
            Ok(stream) => {
                let of_version = last_time_in(ReadContext { stream: &stream, ..context }, view)?.0;
                last_time = last_time.max(of_version);
            }
            // Readers of its messages get the error.
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(last_time)
}

/// The time of the latest remaining message that the stream's version of the schema has values for. `false`: there are others.
fn last_time_in(context: ReadContext<'_>, view: (&Catalog, &Snapshot)) -> Result<(i64, bool), Error> {
    let (mut filter, mut is_exact) = (Filter::all(), true);
    let end = end_of(view.0, view.1);
    let mut history = History::new(view, (context, &filter), Order::TimeReversed, None, end);
    loop {
        match history.advance(&mut filter, context) {
            Ok(true) => return Ok((history.current().map_or(i64::MIN, |block| block.time()), is_exact)),
            Ok(false) => return Ok((i64::MIN, is_exact)),
            Err(error) if error.is_conversion() => is_exact = false,
            // Readers of the damaged messages get the error.
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error),
        }
    }
}
