//! Replacing messages of a range of times by others.
//!
//! The log is sealed to its end, the new messages become a segment behind it, and one change of the manifest both names that
//! segment and deletes the old messages. Only then the log goes on, behind the numbers of the new messages. So whenever the
//! power fails, the old or the new is there, never neither or both, and no reader sees a part of it.
//!
//! A cursor that is open finds the old messages as those that are deleted: what it has in memory it may still give. The new
//! ones are behind its history; a live one gets them as all that comes, in order of arrival, with the times they have.

use crate::error::Error;
use crate::loader::{check_message, refused};
use crate::space::catalog::{Catalog, Content};
use crate::space::deletion::Deletion;
use crate::space::{Lane, Space};
use crate::stream::Stream;
use crate::stream::binding::Binding;
use crate::stream::edit::{bounds, find_last_time, ids};
use crate::upkeep::retention::tier_for;
use crate::upkeep::seal::{FillError, Out, commit_with, seal_complete, write_segment};
use std::collections::HashSet;
use std::ops::{Range, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tapedb_codec::Record;
use tapedb_codec::batch::{MAX_MESSAGE_BYTES, PushError};
use tapedb_codec::dynamic::RecordValue;
use tapedb_log::Hold;
use tapedb_schema::Timestamp;
use tapedb_segment::{BlockOptions, Plan, RowHeader, SegmentHeader, SegmentWriter};

/// Most bytes of new messages, which are held in memory.
pub const REWRITE_BYTES_MAX: usize = 4 << 30;

/// What a message takes in memory beside its body.
const ROW_BYTES: usize = size_of::<Row>();

/// Collects the messages that take the place of others: [`Stream::rewrite`]. Nothing changes before [`Rewriter::commit`];
/// dropping it changes nothing.
#[derive(Debug)]
pub struct Rewriter {
    stream: Stream,
    space: Arc<Space>,
    /// First and last time; `None`: there is none.
    times: Option<(i64, i64)>,
    symbols: Option<HashSet<String>>,
    rows: Vec<Row>,
    bodies: Vec<u8>,
}

/// A new message, and where its body is.
#[derive(Debug, Clone, Copy)]
struct Row {
    time: i64,
    /// How many were added before it.
    nth: u64,
    symbol: u32,
    type_id: u16,
    start: usize,
    end: usize,
}

impl Stream {
    /// Replaces the messages of a range of times, of all symbols or of some, by those that are appended to the rewriter: all
    /// at once, at [`Rewriter::commit`]. For streams of one space.
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
    /// for time in 1..=3 {
    ///     loader.append("AIG", Timestamp(time), &Tick { price: 1.0 })?;
    /// }
    /// loader.flush()?;
    /// let mut rewriter = ticks.rewrite(Timestamp(2)..Timestamp(3), None::<[&str; 0]>)?;
    /// rewriter.append("AIG", Timestamp(2), &Tick { price: 2.0 })?;
    /// rewriter.commit()?;
    ///
    /// let mut cursor = ticks.cursor().open()?;
    /// let mut prices = Vec::new();
    /// while let Some(message) = cursor.next()? {
    ///     prices.push(message.decode::<Tick>()?.price);
    /// }
    /// assert_eq!(prices, [1.0, 2.0, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Stream::rewrite_in`]; [`Error::Options`] for a stream of several spaces.
    pub fn rewrite<S: Into<String>>(
        &self,
        times: impl RangeBounds<Timestamp>,
        symbols: Option<impl IntoIterator<Item = S>>,
    ) -> Result<Rewriter, Error> {
        if self.spaces() > 1 {
            let what =
                "the stream has several spaces, and messages are replaced in one at a time; use `rewrite_in`";
            return Err(Error::Options { what });
        }
        self.rewrite_in(0, times, symbols)
    }

    /// [`Stream::rewrite`], of the messages in one space.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::Options`] for a transient stream; when the database is open for reading only, or the
    /// stream has been deleted.
    pub fn rewrite_in<S: Into<String>>(
        &self,
        space: u32,
        times: impl RangeBounds<Timestamp>,
        symbols: Option<impl IntoIterator<Item = S>>,
    ) -> Result<Rewriter, Error> {
        let found = self.space(space)?.clone();
        self.inner.check_is_local()?;
        if !self.inner.is_writable {
            return Err(Error::ReadOnly);
        }
        if self.inner.definition.options.is_transient() {
            let what = "a transient stream is not rewritten, for it has no files; delete its messages and append others";
            return Err(Error::Options { what });
        }
        self.inner.check_not_deleted()?;
        Ok(Rewriter {
            stream: self.clone(),
            space: found,
            times: bounds(&times),
            symbols: symbols.map(|symbols| symbols.into_iter().map(Into::into).collect()),
            rows: Vec::new(),
            bodies: Vec::new(),
        })
    }
}

impl Rewriter {
    /// Adds a record of a Rust type. Times may come in any order; equal times stay in the order of the calls.
    ///
    /// # Errors
    /// [`Error::Outside`] for a time or symbol that is not being rewritten; when the stream has no such record type, or the
    /// message is too large or nested too deep; [`Error::Options`] when there are more than [`REWRITE_BYTES_MAX`] bytes. The
    /// message is then not added.
    pub fn append<T: Record + 'static>(
        &mut self,
        symbol: &str,
        time: Timestamp,
        record: &T,
    ) -> Result<(), Error> {
        let stream = self.stream.inner.clone();
        let Binding { type_id, may_be_too_deep } = stream.binding_of::<T>()?;
        self.add(symbol, time, type_id, |bodies| {
            let start = bodies.len();
            tapedb_codec::encode(record, bodies);
            match may_be_too_deep {
                true => tapedb_codec::view::<T>(&bodies[start..]).map(drop).map_err(|e| refused(&stream, e)),
                false => Ok(()),
            }
        })
    }

    /// Adds a record of any type of the stream.
    ///
    /// # Errors
    /// When a value does not fit its field; else as [`Rewriter::append`].
    pub fn append_value(&mut self, symbol: &str, time: Timestamp, record: &RecordValue) -> Result<(), Error> {
        let stream = self.stream.inner.clone();
        self.add(symbol, time, record.type_id, |bodies| Ok(stream.layouts.encode(record, bodies)?))
    }

    /// Adds a body that is encoded already; it is validated.
    ///
    /// # Errors
    /// When the bytes are not such a record; else as [`Rewriter::append`].
    pub fn append_body(
        &mut self,
        symbol: &str,
        time: Timestamp,
        type_id: u16,
        body: &[u8],
    ) -> Result<(), Error> {
        let stream = self.stream.inner.clone();
        self.add(symbol, time, type_id, |bodies| {
            stream.layouts.check(type_id, body).map_err(|error| refused(&stream, error))?;
            bodies.extend_from_slice(body);
            Ok(())
        })
    }

    /// How many messages have been added.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no message has been added: then committing deletes.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Replaces the messages, as far as they have been acknowledged by now; on the disk when it returns. Returns the sequence
    /// numbers of the new ones, in the order in which they were added. Loaders of the space wait while they are written.
    ///
    /// # Errors
    /// When the stream has been deleted or has got another schema, or a file cannot be read or written: all is then as before.
    /// Where it cannot be made sure that it is, the space takes no more messages until the database is opened anew
    /// ([`LogError::Poisoned`](crate::LogError::Poisoned)).
    pub fn commit(mut self) -> Result<Range<u64>, Error> {
        let lane = Lane { stream: &self.stream.inner, space: &self.space };
        let writer = lane.space.writer.as_ref().ok_or(Error::ReadOnly)?;
        let _upkeep = lane.space.hold_upkeep();
        lane.stream.check_not_deleted()?;
        if lane.stream.is_outdated() {
            return Err(Error::Outdated { stream: self.stream.name().into() });
        }
        // Most of it while loaders go on.
        if writer.roll()? {
            lane.stream.ring();
        }
        seal_complete(lane)?;
        let mut hold = writer.hold_still();
        hold.roll()?;
        seal_complete(lane)?;
        self.rows.sort_by_key(|row| row.time);
        let replaced = self.replace(lane, &mut hold)?;
        if find_last_time(lane).is_err() {
            // It has been made all the same: none that is later than the new ones is taken for late.
            let last = self.rows.last().map_or(i64::MIN, |row| row.time);
            lane.space.last_time.fetch_max(last, Ordering::Relaxed);
        }
        drop(hold);
        lane.stream.ring();
        Ok(replaced)
    }

    /// The change itself: nobody appends meanwhile, and all there is, is sealed.
    fn replace(&self, lane: Lane<'_>, hold: &mut Hold<'_>) -> Result<Range<u64>, Error> {
        let first = hold.next_sequence();
        let new = first..first + self.rows.len() as u64;
        let Some((from, last)) = self.times else { return Ok(new) };
        let symbols = self.symbols.as_ref().map(|symbols| ids(lane.stream, symbols));
        if symbols.as_ref().is_some_and(Vec::is_empty) {
            // Nobody has ever heard of them, so there are no new messages either.
            return Ok(new);
        }
        let deletion = Deletion { number: 0, from, last, sequences: 0..first, symbols };
        if new.is_empty() {
            lane.space.delete(deletion)?;
            return Ok(new);
        }
        let part = write_segment(lane, new.clone(), |out, header| self.fill(lane, out, header).map(Some))?;
        let Some(part) = part else { return Ok(first..first) };
        let committed = commit_with(lane, part, |catalog, part| {
            let number = lane.space.number_in_change();
            catalog.rewritten(part, Deletion { number, ..deletion })
        });
        match committed {
            Ok(true) => hold.skip_to(new.end),
            Ok(false) => {
                // Nobody else changes what is sealed while upkeep is held.
                lane.stream.check_not_deleted()?;
                return Err(Error::Outdated { stream: self.stream.name().into() });
            }
            Err(error) => {
                if !is_as_before(lane) {
                    hold.give_up(format!("a rewrite that may or may not have been made: {error}"));
                }
                return Err(error);
            }
        }
        Ok(new)
    }

    /// Writes the new messages.
    fn fill(&self, lane: Lane<'_>, out: Out, header: &SegmentHeader) -> Result<(Content, u64), FillError> {
        let (time_min, time_max) = (self.rows.first(), self.rows.last());
        let (time_min, time_max) = (time_min.map_or(0, |row| row.time), time_max.map_or(0, |row| row.time));
        let tier = tier_for(lane, time_max);
        let options = BlockOptions { tier, ..BlockOptions::default() };
        let mut writer = SegmentWriter::new(out, Plan::new(lane.stream.layouts.clone()), header, options)?;
        for row in &self.rows {
            let Row { time, nth, symbol, type_id, start, end } = *row;
            let sequence = header.first_sequence + nth;
            writer.push(RowHeader { time, sequence, symbol, type_id }, &self.bodies[start..end])?;
        }
        let (_, written) = writer.finish()?;
        let (messages, bytes) = (written.messages, written.bytes);
        Ok((Content { number: 0, messages, time_min, time_max, bytes, tier, deleted_before: 0 }, 0))
    }

    fn add(
        &mut self,
        symbol: &str,
        time: Timestamp,
        type_id: u16,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        check_message(&self.stream.inner, type_id)?;
        self.check_inside(symbol, time)?;
        let symbol = self.stream.inner.symbol_id(symbol)?;
        let start = self.bodies.len();
        let encoded = encode(&mut self.bodies).and_then(|()| self.check_size(start));
        if encoded.is_err() {
            self.bodies.truncate(start);
        }
        encoded?;
        let (nth, end) = (self.rows.len() as u64, self.bodies.len());
        self.rows.push(Row { time: time.0, nth, symbol, type_id, start, end });
        Ok(())
    }

    /// Checks the size of the body that begins at `start`, and of all.
    fn check_size(&self, start: usize) -> Result<(), Error> {
        let bytes = self.bodies.len() - start;
        if bytes > MAX_MESSAGE_BYTES {
            return Err(Error::Message(PushError::MessageTooLarge { bytes }));
        }
        if self.bodies.len() + (self.rows.len() + 1) * ROW_BYTES > REWRITE_BYTES_MAX {
            let what = "the new messages have more than 4 GiB; rewrite a shorter range of times, one after the other";
            return Err(Error::Options { what });
        }
        Ok(())
    }

    fn check_inside(&self, symbol: &str, time: Timestamp) -> Result<(), Error> {
        let in_time = self.times.is_some_and(|(from, last)| (from..=last).contains(&time.0));
        let is_wanted = self.symbols.as_ref().is_none_or(|symbols| symbols.contains(symbol));
        if in_time && is_wanted {
            return Ok(());
        }
        Err(Error::Outside { stream: self.stream.name().into(), time, symbol: symbol.into() })
    }
}

/// A manifest that could not be put on the disk for sure may yet be the one that is found there: makes sure that it is the one
/// of before. `false`: nobody knows.
fn is_as_before(lane: Lane<'_>) -> bool {
    let restored =
        |catalog: &Catalog| Some(Catalog { generation: catalog.generation + 2, ..catalog.clone() });
    lane.space.change_catalog(restored).is_ok()
}
