//! Deleting messages of a stream, and renaming its symbols.
//!
//! A deletion is a line in the manifest of each space: it takes effect at once and costs the same for one message and for a
//! thousand million. Readers leave out what it covers; upkeep takes the messages out of their files later. A cursor that is
//! open already leaves them out from the next piece on that it reads: what it has in memory (64 Ki messages at most) it may
//! still give.

use crate::error::Error;
use crate::read::block::Order;
use crate::read::filter::Filter;
use crate::read::history::History;
use crate::space::catalog::Catalog;
use crate::space::deletion::Deletion;
use crate::space::{Lane, end_of};
use crate::stream::{Stream, StreamInner};
use crate::upstream::Command;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::Ordering;
use tapedb_log::Snapshot;
use tapedb_schema::Timestamp;

impl Stream {
    /// Gives a symbol another name: that of all its messages, those that are stored included. Nothing stored is rewritten;
    /// it costs one entry in the symbol file, and is on the disk when it returns. From then on the old name is free: a message
    /// appended under it is of a new symbol. A [`SymbolId`](crate::SymbolId) stays that of the symbol.
    ///
    /// Readers see the new name at once, in other processes when they look at the stream's files next. A cursor that wants
    /// some symbols goes by the new names from the next batch or block on that it reads.
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
    /// [`Error::NoSymbol`]; when another symbol has the new name, or it is empty or too long; when the database is open for
    /// reading only, the stream has been deleted, or the symbol file cannot be written: the symbol then has its old name.
    pub fn rename_symbol(&self, old: &str, new: &str) -> Result<(), Error> {
        self.inner.rename_symbol(old, new)
    }

    /// Deletes all messages at or after a time, as far as they have been acknowledged by now.
    ///
    /// # Errors
    /// As [`Stream::delete`].
    pub fn truncate(&self, from: Timestamp) -> Result<(), Error> {
        self.delete(from.., None::<[&str; 0]>)
    }

    /// Deletes all messages before a time, as far as they have been acknowledged by now: exactly those, whatever files they
    /// are in. [`Retention`](crate::Retention) does it by itself, by whole segments.
    ///
    /// # Errors
    /// As [`Stream::delete`].
    pub fn purge(&self, before: Timestamp) -> Result<(), Error> {
        self.delete(..before, None::<[&str; 0]>)
    }

    /// Deletes all messages. The stream, its symbols and its sequence numbers go on.
    ///
    /// # Errors
    /// As [`Stream::delete`].
    pub fn clear(&self) -> Result<(), Error> {
        self.delete(.., None::<[&str; 0]>)
    }

    /// Deletes the messages of a range of times, of all symbols or of some, as far as they have been acknowledged by now.
    /// When it returns, it is on the disk.
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
        if self.inner.command(command)?.is_some() {
            return Ok(());
        }
        let symbols = symbols.map(|symbols| ids(&self.inner, symbols));
        if symbols.as_ref().is_some_and(Vec::is_empty) {
            return self.inner.check_not_deleted();
        }
        self.inner.spaces.iter().try_for_each(|space| {
            let lane = Lane { stream: &self.inner, space };
            let sequences = 0..space.next_sequence();
            delete_in(lane, Deletion { number: 0, from, last, sequences, symbols: symbols.clone() })
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

/// Ids of those symbols that the stream has, ascending.
pub(crate) fn ids<S: AsRef<str>>(stream: &StreamInner, symbols: impl IntoIterator<Item = S>) -> Vec<u32> {
    let mut ids: Vec<u32> =
        symbols.into_iter().filter_map(|symbol| stream.dictionary.id(symbol.as_ref())).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn delete_in(lane: Lane<'_>, deletion: Deletion) -> Result<(), Error> {
    lane.stream.check_lock()?;
    let writer = lane.space.writer.as_ref().ok_or(Error::ReadOnly)?;
    // Nobody appends meanwhile, so that what is late afterwards is decided by what is left.
    let _hold = writer.hold();
    lane.stream.check_not_deleted()?;
    lane.space.delete(deletion)?;
    find_last_time(lane)
}

/// Finds the time of the latest message that is left, by which late ones are told.
pub(crate) fn find_last_time(lane: Lane<'_>) -> Result<(), Error> {
    let last_time = loop {
        let (catalog, snapshot) = lane.space.view();
        match last_time_in(lane, (&catalog, &snapshot)) {
            // Upkeep has put other files in the place of those.
            Err(error) if error.is_missing_file() && lane.space.is_newer_than(&catalog)? => {}
            found => break found?,
        }
    };
    lane.space.last_time.store(last_time, Ordering::Relaxed);
    Ok(())
}

fn last_time_in(lane: Lane<'_>, view: (&Catalog, &Snapshot)) -> Result<i64, Error> {
    let mut filter = Filter::all();
    let end = end_of(view.0, view.1);
    let mut history = History::new(view, (lane, &filter), Order::TimeReversed, None, end);
    loop {
        match history.advance(&mut filter, lane) {
            Ok(true) => return Ok(history.current().map_or(i64::MIN, |block| block.time())),
            Ok(false) => return Ok(i64::MIN),
            // What is damaged has been told, or will be, to those who read it.
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error),
        }
    }
}
