//! Reads messages: history, then live, of one stream or of many merged by time.

use crate::error::Error;
use crate::read::block::{Block, Key, LAST, Order};
use crate::read::columns::ColumnBuilder;
use crate::read::filter::Filter;
use crate::read::last::{self, KeyFields};
use crate::read::merge_budget::MergeBudget;
use crate::read::position::{InStream, Place, Position};
use crate::read::source::{ReadAs, Source};
use crate::read::start::Start;
use crate::space::reader::SpaceReader;
use crate::stream::reader::{InUse, StreamReader};
use crate::stream::remote::Watch;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tapedb_codec::dynamic::{RecordLayout, RecordRef};
use tapedb_codec::evolve::EvolveError;
use tapedb_codec::{DecodeError, Record};
use tapedb_schema::Timestamp;

/// How often a cursor looks at what another process writes, while it waits.
const POLL_INTERVAL: Duration = Duration::from_micros(500);

const HOUR: Duration = Duration::from_secs(3600);

/// Fields that an error names.
const FIELDS_TOLD: usize = 10;

/// While some streams have messages, the idle ones are looked at once in so many messages.
const IDLE_CHECK_INTERVAL: u32 = 64;

/// What a cursor shall read. Without any call: all messages of its streams, from the earliest to the last.
#[derive(Debug, Clone)]
pub struct CursorBuilder {
    streams: Vec<Arc<StreamReader>>,
    /// Of the streams' database.
    _in_use: InUse,
    from: Timestamp,
    to: Option<Timestamp>,
    symbols: Option<HashSet<String>>,
    types: Option<HashSet<String>>,
    reversed: bool,
    live: bool,
    start: Start,
    /// Of history only the last messages, by the fields that make a key.
    last: Option<KeyFields>,
}

impl CursorBuilder {
    pub(crate) fn new(streams: Vec<Arc<StreamReader>>, in_use: InUse) -> Self {
        Self {
            streams,
            _in_use: in_use,
            from: Timestamp(i64::MIN),
            to: None,
            symbols: None,
            types: None,
            reversed: false,
            live: false,
            start: Start::First,
            last: None,
        }
    }

    /// Only messages at or after this time.
    pub fn from(mut self, time: Timestamp) -> Self {
        self.from = time;
        self
    }

    /// Only messages before this time.
    pub fn to(mut self, time: Timestamp) -> Self {
        self.to = Some(time);
        self
    }

    /// Only messages of these symbols. Symbols that no stream has yet may come later.
    pub fn symbols<S: Into<String>>(mut self, symbols: impl IntoIterator<Item = S>) -> Self {
        self.symbols = Some(symbols.into_iter().map(Into::into).collect());
        self
    }

    /// Only messages of these record types.
    pub fn types<S: Into<String>>(mut self, types: impl IntoIterator<Item = S>) -> Self {
        self.types = Some(types.into_iter().map(Into::into).collect());
        self
    }

    /// From the latest message to the earliest.
    pub fn reverse(mut self) -> Self {
        self.reversed = true;
        self
    }

    /// After history go on with new messages, in the order in which they arrive: none missing, none twice.
    pub fn live(mut self) -> Self {
        self.live = true;
        self
    }

    /// Live messages only: none that are there already.
    pub fn skip_history(mut self) -> Self {
        (self.live, self.start) = (true, Start::End);
        self
    }

    /// Begins with the last `count` messages of all streams together, of those that the filters want; in time order. They are
    /// looked for backwards when the cursor is opened.
    pub fn last(mut self, count: u64) -> Self {
        self.start = Start::Last(count);
        self
    }

    /// Begins with the message of this sequence number, of a stream of one space, and gives messages in order of arrival.
    pub fn from_sequence(self, sequence: u64) -> Self {
        self.from_sequences([sequence])
    }

    /// [`CursorBuilder::from_sequence`] for several streams and spaces: a number for each space of each stream, in their
    /// order.
    pub fn from_sequences(mut self, sequences: impl IntoIterator<Item = u64>) -> Self {
        self.start = Start::Sequences(sequences.into_iter().collect());
        self
    }

    /// Of history only the last messages: for each symbol and record type the one of the greatest time, of equal times the one
    /// that came last; of each stream, in time order. With [`CursorBuilder::live`] all that comes goes on behind them: what a
    /// late subscriber wants. They are found when the cursor is opened, and held in memory.
    ///
    /// Read is the end of history, back to where every symbol of the stream has its last messages, and of symbols that were
    /// silent since, their last blocks. For a symbol that has never had a message of one of the record types, the heads of all
    /// blocks that have the symbol are looked at as well: [`CursorBuilder::types`] spares that, [`CursorBuilder::from`]
    /// bounds it.
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
    /// # let mut loader = ticks.loader()?;
    /// for (symbol, time) in [("AIG", 1), ("BAC", 2), ("AIG", 3)] {
    ///     loader.append(symbol, Timestamp(time), &Tick { price: time as f64 })?;
    /// }
    /// loader.flush()?;
    /// let mut cursor = ticks.cursor().last_values().live().open()?;
    /// loader.append("BAC", Timestamp(4), &Tick { price: 4.0 })?;
    /// loader.flush()?;
    /// let mut seen = Vec::new();
    /// while let Some(message) = cursor.next()? {
    ///     seen.push((message.symbol().to_string(), message.time().0));
    /// }
    /// assert_eq!(seen, [("BAC".into(), 2), ("AIG".into(), 3), ("BAC".into(), 4)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn last_values(mut self) -> Self {
        self.last.get_or_insert_default();
        self
    }

    /// [`CursorBuilder::last_values`], where messages of one record type are told apart by the values of these fields too: the
    /// last one of each order, say, by its number. Nobody knows beforehand which values there are, so this reads all messages
    /// of the record type, back to [`CursorBuilder::from`].
    pub fn last_values_by<S: Into<String>>(
        mut self,
        record: impl Into<String>,
        fields: impl IntoIterator<Item = S>,
    ) -> Self {
        let fields = fields.into_iter().map(Into::into).collect();
        self.last.get_or_insert_default().insert(record.into(), fields);
        self
    }

    /// Goes on where another cursor over the same streams, with the same filters and in the same direction, was. A
    /// cursor that is not live goes on from a live position with what has come since, in order of arrival.
    pub fn resume(mut self, position: &Position) -> Self {
        self.start = Start::Position(position.clone());
        self
    }

    /// Opens the cursor. Its history is what has been committed by now.
    ///
    /// # Errors
    /// For a type that no stream has, for what does not go together, as live and in reverse, for a sequence number that has
    /// not been given yet, and for a position that does not fit, as one in a stream that has been deleted does not fit a new
    /// one of its name.
    pub fn open(self) -> Result<Cursor, Error> {
        self.open_with(&Arc::default())
    }

    /// [`CursorBuilder::open`], keeping to the bounds of `tools`.
    pub(crate) fn open_with(mut self, budget: &Arc<Mutex<MergeBudget>>) -> Result<Cursor, Error> {
        self.check()?;
        if let Some(position) = self.position_of_start(budget)? {
            self.start = Start::Position(position);
        }
        self.check_position()?;
        let (mut sources, mut watches) = (Vec::new(), Vec::new());
        let expected = self.streams.iter().map(|stream| stream.spaces.len()).sum();
        budget.lock().unwrap_or_else(PoisonError::into_inner).expect(expected);
        for stream in &self.streams {
            stream.check_is_here()?;
            stream.refresh()?;
            if self.live {
                watches.extend(stream.watch()?);
            }
            let first = sources.len();
            for space in &stream.spaces {
                sources.push(self.source(stream, space, budget)?);
            }
            self.find_last(stream, &mut sources[first..], budget)?;
        }
        Ok(Cursor {
            unstepped: (0..sources.len()).rev().collect(),
            sources,
            block: Box::new(Block::new(Order::Arrival)),
            lead: None,
            waiting: BinaryHeap::new(),
            reversed: self.reversed,
            idle: Vec::new(),
            until_idle_check: IDLE_CHECK_INTERVAL,
            given: false,
            live: self.live,
            reads_only: self.streams.iter().any(|stream| stream.is_followed()),
            is_remote: self.streams.iter().any(|stream| stream.is_remote()),
            next_poll: Instant::now() + POLL_INTERVAL,
            watches,
            budget: budget.clone(),
            builder: Box::new(self),
        })
    }

    /// Reads columns instead of messages: of one record type those at these paths, such as `close`, or `entries.Trade.price`
    /// within arrays and alternatives; times and symbols come with them. [`ColumnBuilder`](crate::ColumnBuilder) has an
    /// example.
    pub fn columns<S: Into<String>>(
        self,
        record: &str,
        fields: impl IntoIterator<Item = S>,
    ) -> ColumnBuilder {
        ColumnBuilder::new(self, record.into(), fields.into_iter().map(Into::into).collect())
    }

    pub(crate) fn streams(&self) -> &[Arc<StreamReader>] {
        &self.streams
    }

    pub(crate) fn start(&self) -> &Start {
        &self.start
    }

    /// The same messages from the last one back.
    pub(crate) fn backwards(self) -> Self {
        Self { reversed: true, live: false, start: Start::First, ..self }
    }

    fn order(&self) -> Order {
        if self.reversed { Order::TimeReversed } else { Order::Time }
    }

    /// Columns are read from history, forwards.
    pub(crate) fn check_columns(&self) -> Result<(), Error> {
        if self.live || self.reversed || !matches!(self.start, Start::First) || self.last.is_some() {
            let what = "columns are read from history, forwards and from its beginning; leave out what says otherwise";
            return Err(Error::Position { what: what.into() });
        }
        self.check()
    }

    pub(crate) fn filter_of(&self, stream: &StreamReader) -> Filter {
        let (from, last) = self.times();
        Filter::new(from, last, self.symbols.as_ref(), self.types.as_ref(), stream)
    }

    fn source(
        &self,
        stream: &Arc<StreamReader>,
        space: &Arc<SpaceReader>,
        budget: &Arc<Mutex<MergeBudget>>,
    ) -> Result<Source, Error> {
        let filter = self.filter_of(stream);
        let order = self.order();
        let place = self.place(stream, space)?;
        let sources = self.streams.iter().map(|stream| stream.spaces.len()).sum();
        Ok(Source::new(
            (stream.clone(), space.clone()),
            filter,
            order,
            self.live,
            place,
            (budget.clone(), sources),
        ))
    }

    /// Lets the sources of a stream give the last messages in place of history.
    fn find_last(
        &self,
        stream: &StreamReader,
        sources: &mut [Source],
        budget: &Mutex<MergeBudget>,
    ) -> Result<(), Error> {
        let (Some(fields), Some(first)) = (&self.last, sources.first()) else { return Ok(()) };
        let filter = first.whole_filter();
        let ends: Vec<u64> = sources.iter().map(Source::end).collect();
        // Messages may have symbols that another process has just written.
        stream.refresh_symbols()?;
        let found = {
            let mut budget = budget.lock().unwrap_or_else(PoisonError::into_inner);
            last::find(stream, filter, fields, &ends, &mut budget)?
        };
        for (source, found) in sources.iter_mut().zip(found) {
            source.give_last(found);
        }
        Ok(())
    }

    /// First and last time wanted.
    fn times(&self) -> (i64, i64) {
        match self.to.map(|to| to.0.checked_sub(1)) {
            None => (self.from.0, i64::MAX),
            Some(Some(last)) => (self.from.0, last),
            // Nothing is before the first time there is.
            Some(None) => (i64::MAX, i64::MIN),
        }
    }

    fn check(&self) -> Result<(), Error> {
        if self.live && self.reversed {
            return Err(Error::Position { what: "a cursor that reads backwards cannot be live".into() });
        }
        let begins_at_first = matches!(self.start, Start::First | Start::Position(_));
        if self.last.is_some() && !begins_at_first {
            let what =
                "last values take the place of history; begin with them, or skip history or a part of it";
            return Err(Error::Position { what: what.into() });
        }
        if self.reversed && matches!(self.start, Start::Last(_)) {
            let what =
                "backwards a cursor begins with the last message; leave out `last`, and stop after so many";
            return Err(Error::Position { what: what.into() });
        }
        self.check_keys()?;
        for name in self.types.iter().flatten() {
            let has = |stream: &Arc<StreamReader>| {
                stream.schema().record(name).is_some_and(|(_, record)| record.message)
            };
            if !self.streams.iter().any(has) {
                return Err(self.no_type(name));
            }
        }
        Ok(())
    }

    /// What shall make a key must be there, in each stream that has the record type.
    fn check_keys(&self) -> Result<(), Error> {
        for (record, fields) in self.last.iter().flatten() {
            let mut layouts = self
                .streams
                .iter()
                .filter_map(|stream| Some((stream, message_layout(stream, record)?)))
                .peekable();
            if layouts.peek().is_none() {
                return Err(self.no_type(record));
            }
            for (stream, layout) in layouts {
                if let Some(missing) = fields.iter().find(|field| layout.field(field).is_none()) {
                    let known = layout.fields.iter().take(FIELDS_TOLD).map(|field| field.name.to_string());
                    let field = format!("{record}.{missing}").into();
                    let (stream, known) = ((*stream.name).into(), known.collect());
                    return Err(Error::Field { stream, field, known });
                }
            }
        }
        Ok(())
    }

    fn no_type(&self, record: &str) -> Error {
        let stream = self.streams.first().map(|stream| stream.name.clone()).unwrap_or_default();
        let why = "there is no such message type; see `desc` for those there are";
        Error::Type { stream: stream.into(), record: record.into(), why }
    }

    /// The position, if there is one, must say where to go on in all spaces of the cursor's streams, in their order.
    fn check_position(&self) -> Result<(), Error> {
        let Start::Position(position) = &self.start else { return Ok(()) };
        let needed = self.streams.iter().flat_map(|stream| {
            let spaces = stream.spaces.iter().map(|space| space.number);
            spaces.map(move |space| (stream, space))
        });
        for (i, (stream, space)) in needed.enumerate() {
            let (name, id) = (&*stream.name, stream.position_id);
            let found = position.streams.get(i);
            let what = match found {
                None if space == 0 => format!("the position says nothing of stream {name:?}"),
                None => format!("the position says nothing of space {space} of stream {name:?}"),
                Some(found) if found.name != name && !found.is_in(id, name) => {
                    format!("the position's stream {i} is {:?}, the cursor's {name:?}", found.name)
                }
                Some(found) if found.space != space => {
                    format!("the position says nothing of space {space} of stream {name:?}")
                }
                Some(_) => continue,
            };
            return Err(Error::Position { what });
        }
        Ok(())
    }

    fn place(&self, stream: &StreamReader, space: &SpaceReader) -> Result<Option<Place>, Error> {
        // Not `Log::next_sequence`, which a snapshot may be ahead of for a moment.
        let end = space.next_sequence();
        let Start::Position(position) = &self.start else { return Ok(self.start.place(self.order(), end)) };
        let (name, id) = (&*stream.name, stream.position_id);
        let in_space = || position.streams.iter().filter(|found| found.space == space.number);
        let named = || in_space().find(|found| found.name == name);
        let found = in_space().find(|found| found.is_in(id, name)).or_else(named);
        let Some(found) = found else { return Ok(None) };
        let place = &found.place;
        let what = if !found.is_in(id, name) {
            format!("the position is in another stream {name:?}, which was deleted; begin anew in this one")
        } else if place.reached() > end {
            format!("stream {name:?} has {end} messages, the position is after {}", place.reached())
        } else if self.reversed && matches!(place, Place::Live { .. }) {
            format!("the position in stream {name:?} is live, from where there is no way back")
        } else {
            return Ok(Some(*place));
        };
        Err(Error::Position { what })
    }
}

/// The layout of a message type; `None` if the stream has none of the name.
fn message_layout<'s>(stream: &'s StreamReader, record: &str) -> Option<&'s RecordLayout> {
    let (id, found) = stream.schema().record(record)?;
    if found.message { stream.layouts.record(id).ok() } else { None }
}

/// Reads messages of one or several streams, merged by time; equal times come in the order of the streams, and backwards
/// in exactly the reverse order.
///
/// Memory is bounded, however many streams there are and however much late messages make their files overlap: 128 MiB, and
/// for each stream and for each file that waits to be merged about 2 KiB (or a message, if that is longer). Of files that
/// wait no more than 256 are open.
///
/// History is in time order and ends with what had been committed when the cursor was opened. A live cursor goes on
/// with every later message in order of arrival; streams that are silent do not hold the others back.
///
/// Always true: while `given` is set, `block` is the one of the lead that stands on the message given last, and the lead has
/// an empty one in its place; else it is the other way around. So the next message of the same run is one step in memory at
/// hand, which knows nothing of sources.
#[derive(Debug)]
pub struct Cursor {
    block: Box<Block>,
    sources: Vec<Source>,
    /// The source whose current message was given last, or comes next.
    lead: Option<usize>,
    /// Other sources that stand on a message.
    waiting: BinaryHeap<Reverse<Turn>>,
    reversed: bool,
    /// Sources that have not been looked at, or whose last look ended in an error.
    unstepped: Vec<usize>,
    /// Live sources that had nothing when last looked at.
    idle: Vec<usize>,
    until_idle_check: u32,
    /// Whether the lead's current message has been given.
    given: bool,
    live: bool,
    /// Whether streams are written by another process, which cannot wake us.
    reads_only: bool,
    /// Whether streams are elsewhere.
    is_remote: bool,
    /// What comes to them is pushed.
    watches: Vec<Arc<Watch>>,
    /// When to look next at what that process has written.
    next_poll: Instant,
    budget: Arc<Mutex<MergeBudget>>,
    /// What it was opened with.
    builder: Box<CursorBuilder>,
}

impl Cursor {
    /// The next message. `None`: history has ended; for a live cursor, there is nothing new right now.
    ///
    /// # Errors
    /// Damage in the files, once for each damaged place, naming it; the next call goes on after it. What was known to be
    /// out of reach when the cursor was opened comes before the first message, whatever the filters. A deleted stream,
    /// once. What the system refuses comes again with every call until it is mended.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it lends its messages, which an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<Message<'_>>, Error> {
        if self.block.advance_plainly() || self.step()? {
            return Ok(Some(Message { cursor: self }));
        }
        Ok(None)
    }

    /// The message that was given last; `None` before the first, and when the last call gave none.
    #[inline]
    pub fn current(&self) -> Option<Message<'_>> {
        (self.given && self.lead.is_some()).then_some(Message { cursor: self })
    }

    /// Goes on with the first message at or after `time`, and where the cursor reads backwards with the last one at or before
    /// it: wherever the cursor is, in history as it is now, with the filters that the cursor was opened with. A live cursor
    /// goes on live behind it. Costs what opening a cursor costs: what is read does not grow with history.
    ///
    /// # Errors
    /// As [`CursorBuilder::open`]: the cursor is then where it was.
    pub fn seek(&mut self, time: Timestamp) -> Result<(), Error> {
        let builder = CursorBuilder { start: Start::Time(time), last: None, ..(*self.builder).clone() };
        *self = builder.open_with(&self.budget.clone())?;
        Ok(())
    }

    pub(crate) fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The next message, and which of the spaces of all streams it is from.
    pub(crate) fn next_of(&mut self) -> Result<Option<(Message<'_>, usize)>, Error> {
        let lead = if self.block.advance_plainly() || self.step()? { self.lead } else { None };
        Ok(lead.map(|lead| (Message { cursor: self }, lead)))
    }

    /// The next message, waited for at most `timeout`. `None`: the time is over, or history ended and the cursor is
    /// not live.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<Message<'_>>, Error> {
        // What is there is given without a look at the clock.
        if self.block.advance_plainly() || self.step()? {
            return Ok(Some(Message { cursor: self }));
        }
        // A timeout past the end of the clock means for ever, which an hour at a time comes to.
        let deadline = Instant::now().checked_add(timeout);
        while !self.step()? {
            let left = deadline.map_or(HOUR, |deadline| deadline.saturating_duration_since(Instant::now()));
            if !self.live || left.is_zero() {
                return Ok(None);
            }
            self.wait(left)?;
        }
        Ok(Some(Message { cursor: self }))
    }

    /// Waits until there may be a new message, or the time is over.
    ///
    /// # Errors
    /// When the files of another process's stream cannot be looked at.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), Error> {
        let Some(source) = self.sources.first() else {
            std::thread::sleep(timeout);
            return Ok(());
        };
        let notifiers = &source.stream.notifiers;
        // A cursor over one stream is not woken by messages of others.
        let notifier = if self.sources.len() == 1 { &notifiers.stream } else { &notifiers.database };
        let seen = notifier.count();
        if self.has_more() {
            return Ok(());
        }
        if self.is_stale() {
            return self.refresh_stale();
        }
        if self.reads_only {
            std::thread::sleep(timeout.min(POLL_INTERVAL));
            return self.poll();
        }
        if !self.wait_at_connection(&|| notifier.count() != seen, timeout) {
            notifier.wait(seen, timeout);
        }
        Ok(())
    }

    /// [`Cursor::wait`] for the first of several live cursors of one database.
    ///
    /// # Errors
    /// As [`Cursor::wait`].
    pub fn wait_for_any(cursors: &mut [&mut Self], timeout: Duration) -> Result<(), Error> {
        let Some(source) = cursors.iter().find_map(|cursor| cursor.sources.first()) else {
            std::thread::sleep(timeout);
            return Ok(());
        };
        let notifier = source.stream.notifiers.database.clone();
        let seen = notifier.count();
        if cursors.iter().any(|cursor| cursor.has_more()) {
            return Ok(());
        }
        if let Some(stale) = cursors.iter().find(|cursor| cursor.is_stale()) {
            return stale.refresh_stale();
        }
        if cursors.iter().any(|cursor| cursor.reads_only) {
            std::thread::sleep(timeout.min(POLL_INTERVAL));
            return cursors.iter_mut().try_for_each(|cursor| cursor.poll());
        }
        // Pushes of all streams come over one connection, and notify the database's notifier.
        let at_connection = cursors.iter().find(|cursor| !cursor.watches.is_empty());
        let waited =
            at_connection.is_some_and(|at| at.wait_at_connection(&|| notifier.count() != seen, timeout));
        if !waited {
            notifier.wait(seen, timeout);
        }
        Ok(())
    }

    /// Whether there may be a message that has not been given.
    fn has_more(&self) -> bool {
        self.lead.is_some() || !self.unstepped.is_empty() || self.sources.iter().any(Source::has_more)
    }

    /// Waits where pushes come in, if all of them come over one connection: `false` if not.
    fn wait_at_connection(&self, is_notified: &dyn Fn() -> bool, timeout: Duration) -> bool {
        let Some((watch, others)) = self.watches.split_first() else { return false };
        let connection = watch.connection();
        others.iter().all(|other| other.connection() == connection) && watch.wait(is_notified, timeout)
    }

    /// Looks at what another process has written.
    fn poll(&mut self) -> Result<(), Error> {
        self.next_poll = Instant::now() + POLL_INTERVAL;
        let followed = self.sources.iter().map(|source| &source.stream).filter(|stream| stream.is_followed());
        followed.into_iter().try_for_each(|stream| told_later(stream.refresh()))
    }

    /// Asks what has become of streams elsewhere that are known to have changed.
    fn refresh_stale(&self) -> Result<(), Error> {
        self.sources.iter().try_for_each(|source| told_later(source.stream.refresh_stale()))
    }

    fn is_stale(&self) -> bool {
        self.is_remote && self.sources.iter().any(|source| source.stream.is_stale())
    }

    /// Whether the cursor was opened [`live`](CursorBuilder::live): it then has no end.
    pub fn follows(&self) -> bool {
        self.live
    }

    /// Whether all streams have come to the end of their history.
    pub fn is_live(&self) -> bool {
        self.live && self.sources.iter().all(Source::is_live)
    }

    /// Where the cursor is: after the last message it gave.
    pub fn position(&self) -> Position {
        let given = |index: usize| Some(&*self.block).filter(|_| self.lead == Some(index) && self.given);
        let in_stream = |(index, source): (usize, &Source)| InStream {
            name: source.stream.name.clone(),
            id: Some(source.stream.position_id),
            space: source.space.number,
            place: source.place(given(index)),
        };
        Position { streams: self.sources.iter().enumerate().map(in_stream).collect() }
    }

    /// Names of the streams, in the order of the cursor.
    pub fn streams(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().filter(|source| source.space.number == 0).map(|source| &*source.stream.name)
    }

    /// Moves to the next message, where that is more than a plain step of the block at hand.
    #[inline(never)]
    fn step(&mut self) -> Result<bool, Error> {
        if let Some(lead) = self.lead.filter(|_| self.given) {
            self.leave(lead)?;
        }
        // One stream alone needs no merging.
        if self.lead.is_none() || self.sources.len() > 1 {
            self.merge()?;
        }
        self.given = self.lead.is_some_and(|lead| self.sources[lead].lend(&mut self.block));
        Ok(self.given)
    }

    /// Moves the lead, whose current message has been given, to its next one.
    fn leave(&mut self, lead: usize) -> Result<(), Error> {
        let source = &mut self.sources[lead];
        source.take_back(&mut self.block);
        source.note_given();
        self.given = false;
        match source.advance() {
            Ok(true) => {}
            Ok(false) => {
                self.lead = None;
                self.idle.push(lead);
            }
            Err(error) => {
                // The next call goes on with it.
                self.lead = None;
                self.unstepped.push(lead);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes the source with the earliest message the lead.
    fn merge(&mut self) -> Result<(), Error> {
        while let Some(&index) = self.unstepped.last() {
            // On an error the source stays unstepped: the next call goes on with it.
            let found = self.sources[index].advance()?;
            self.unstepped.pop();
            self.place(index, found);
        }
        self.until_idle_check -= 1;
        if self.lead.is_none() || self.until_idle_check == 0 {
            self.until_idle_check = IDLE_CHECK_INTERVAL;
            self.check_idle()?;
        }
        self.choose_lead();
        Ok(())
    }

    fn choose_lead(&mut self) {
        let lead = self.lead.map(|lead| self.turn_of(lead));
        if let Some(mut nearest) = self.waiting.peek_mut()
            && lead.is_none_or(|lead| nearest.0 < lead)
        {
            let next = match lead {
                Some(lead) => std::mem::replace(&mut *nearest, Reverse(lead)).0,
                None => PeekMut::pop(nearest).0,
            };
            self.lead = Some(next.source(self.reversed));
        }
        if let Some(lead) = self.lead {
            let turn = self.turn_of(lead);
            let limit = self.waiting.peek().map_or(LAST, |Reverse(nearest)| turn.limit(nearest));
            let watched = self.live && !self.idle.is_empty();
            let rows = if watched { IDLE_CHECK_INTERVAL as usize } else { usize::MAX };
            let plain_steps = self.sources[lead].set_limit(limit, rows);
            // What comes live is to be looked for as often as without them.
            self.until_idle_check = self.until_idle_check.saturating_sub(plain_steps as u32).max(1);
        }
    }

    /// When it is the turn of a source that stands on a message.
    fn turn_of(&self, source: usize) -> Turn {
        let place = if self.reversed { !source } else { source };
        Turn { rank: self.sources[source].rank(), place }
    }

    fn check_idle(&mut self) -> Result<(), Error> {
        if !self.live || self.idle.is_empty() {
            return Ok(());
        }
        if self.is_stale() {
            self.refresh_stale()?;
        }
        if self.reads_only && Instant::now() >= self.next_poll {
            self.poll()?;
        }
        let mut at = 0;
        while at < self.idle.len() {
            let index = self.idle[at];
            // On an error the source stays here: the next call goes on with it.
            if self.sources[index].has_more() && self.sources[index].advance()? {
                self.idle.swap_remove(at);
                self.place(index, true);
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    fn place(&mut self, index: usize, found: bool) {
        if found {
            self.waiting.push(Reverse(self.turn_of(index)));
        } else {
            self.idle.push(index);
        }
    }
}

/// That a stream is gone its source tells when it is asked for a message.
fn told_later(refreshed: Result<(), Error>) -> Result<(), Error> {
    match refreshed {
        Err(error) if error.is_gone() => Ok(()),
        refreshed => refreshed,
    }
}

/// When it is a source's turn: by the rank of its current message, then by its place among the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    rank: i64,
    /// The source's number; its complement where reading goes backwards.
    place: usize,
}

impl Turn {
    fn source(self, reversed: bool) -> usize {
        if reversed { !self.place } else { self.place }
    }

    /// Messages of this source below this rank come before the message of `other`.
    fn limit(self, other: &Self) -> Key {
        (other.rank, if self.place < other.place { u64::MAX } else { 0 })
    }
}

/// A message as it lies in the cursor's memory: valid until the cursor moves on.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    cursor: &'a Cursor,
}

impl<'a> Message<'a> {
    #[inline]
    fn block(&self) -> &'a Block {
        &self.cursor.block
    }

    /// The source it is from: there is a lead wherever there is a message.
    #[inline]
    fn source(&self) -> &'a Source {
        &self.cursor.sources[self.cursor.lead.unwrap_or_default()]
    }

    /// Time.
    #[inline]
    pub fn time(&self) -> Timestamp {
        Timestamp(self.block().time())
    }

    /// Symbol.
    #[inline]
    pub fn symbol(&self) -> &'a str {
        self.source().stream.symbol(self.block().symbol())
    }

    /// Number of the symbol in the stream's dictionary.
    #[inline]
    pub fn symbol_id(&self) -> u32 {
        self.block().symbol()
    }

    /// Sequence number in its space.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.block().sequence()
    }

    /// The space of the stream that the message was loaded into.
    #[inline]
    pub fn space(&self) -> u32 {
        self.source().space.number
    }

    /// Index of the record type in the stream's schema.
    #[inline]
    pub fn type_id(&self) -> u16 {
        self.block().type_id()
    }

    /// Name of the record type.
    pub fn type_name(&self) -> &'a str {
        let record = self.source().stream.layouts.record(self.block().type_id());
        record.map_or("?", |record| &record.name)
    }

    /// Name of the stream.
    #[inline]
    pub fn stream_name(&self) -> &'a str {
        &self.source().stream.name
    }

    /// The body in its bytes, as `docs/format/message.md` draws them. Not validated.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.block().body()
    }

    /// The record, if it is a `T`. The stream may have an older or newer version of the record type, from which `T` is
    /// then converted: see "Versions" in `docs/format/schema.md`.
    ///
    /// # Errors
    /// [`Error::Type`] when the message is not a `T` or the stream has none, [`Error::Version`] when the stream's version
    /// cannot become a `T`, [`Error::Convert`] when this message cannot, [`Error::Decode`] for damaged bytes.
    #[inline]
    pub fn decode<T: Record + 'static>(&self) -> Result<T, Error> {
        let mut value = T::default();
        self.decode_into(&mut value)?;
        Ok(value)
    }

    /// Replaces `value` by the record, if it is a `T`, reusing what `value` has allocated.
    ///
    /// # Errors
    /// As [`Message::decode`].
    #[inline]
    pub fn decode_into<T: Record + 'static>(&self, value: &mut T) -> Result<(), Error> {
        let read_as = self.read_as::<T>()?;
        self.source().decode_into(read_as, self.body(), value).map_err(|error| self.not_read(error))
    }

    /// Validates the record, if it is a `T`, and reads it in place.
    ///
    /// # Errors
    /// As [`Message::decode`]; [`Error::Type`] also when it would have to be converted.
    #[inline]
    pub fn view<T: Record + 'static>(&self) -> Result<T::View<'a>, Error> {
        if !self.read_as::<T>()?.is_same {
            let why =
                "the stream has another version of the type, which cannot be read in place; use `decode`";
            return Err(Error::Type { stream: self.stream_name().into(), record: T::NAME.into(), why });
        }
        tapedb_codec::view::<T>(self.body()).map_err(|error| self.damaged(error))
    }

    /// Validates the record, of whatever type it is, and reads it in place.
    ///
    /// # Errors
    /// [`Error::Decode`] for damaged bytes.
    pub fn record(&self) -> Result<RecordRef<'a>, Error> {
        let layouts = &self.source().stream.layouts;
        layouts.view(self.block().type_id(), self.body()).map_err(|error| self.damaged(error))
    }

    #[inline]
    fn read_as<T: Record + 'static>(&self) -> Result<ReadAs, Error> {
        let read_as = self.source().read_as::<T>()?;
        if read_as.type_id == self.block().type_id() {
            return Ok(read_as);
        }
        let why =
            "the message is of another type; ask `type_name` first, or let the cursor give only this type";
        Err(Error::Type { stream: self.stream_name().into(), record: T::NAME.into(), why })
    }

    #[cold]
    fn not_read(&self, error: EvolveError) -> Error {
        match error {
            EvolveError::Decode(error) => self.damaged(error),
            error => Error::Convert {
                stream: self.stream_name().into(),
                sequence: self.sequence(),
                error: Box::new(error),
            },
        }
    }

    #[cold]
    fn damaged(&self, error: DecodeError) -> Error {
        let error = Box::new(error);
        Error::Decode { stream: self.stream_name().into(), sequence: Some(self.sequence()), error }
    }
}
