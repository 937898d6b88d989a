//! What a cursor is to read, and how it is opened.

use crate::error::{Error, Invalid, MissingColumn, NotFound};
use crate::read::block::{Key, Order};
use crate::read::cursor::Cursor;
use crate::read::filter::Filter;
use crate::read::last::{self, KeyFields};
use crate::read::merge_budget::MergeBudget;
use crate::read::position::{Offset, Position, SpaceOffset};
use crate::read::source::Source;
use crate::read::start::{AFTER_ALL, Start, before};
use crate::space::reader::SpaceReader;
use crate::stream::picked::PickedWatch;
use crate::stream::reader::{InUse, StreamReader};
use crate::wanted::Wanted;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use tapedb_codec::dynamic::RecordLayout;
use tapedb_schema::Timestamp;

/// A server picks live messages of so many symbols at most; where more are wanted, it pushes all messages.
const PICKED_SYMBOLS_MAX: usize = 4096;

/// Maximum number of fields that an error lists.
const FIELDS_LISTED: usize = 10;

/// What a cursor is to read. Without any call: all messages of its streams, from the earliest to the last.
#[derive(Debug, Clone)]
pub struct CursorBuilder {
    streams: Vec<Arc<StreamReader>>,
    /// The use of the streams' database.
    in_use: InUse,
    from: Timestamp,
    to: Option<Timestamp>,
    symbols: Option<HashSet<String>>,
    types: Option<HashSet<String>>,
    reversed: bool,
    live: bool,
    start: Start,
    /// Of history only the last messages, by key fields.
    last: Option<KeyFields>,
    /// Sequence numbers that history ends before, one for each space of each stream, in their order.
    ends: Option<Arc<[u64]>>,
}

impl CursorBuilder {
    pub(crate) fn new(streams: Vec<Arc<StreamReader>>, in_use: InUse) -> Self {
        Self {
            streams,
            in_use,
            from: Timestamp(i64::MIN),
            to: None,
            symbols: None,
            types: None,
            reversed: false,
            live: false,
            start: Start::First,
            last: None,
            ends: None,
        }
    }

    /// The use of the streams' database, for what is opened with the builder.
    pub(crate) fn in_use(&self) -> InUse {
        self.in_use.clone()
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

    /// Only messages of these symbols. Symbols that no stream has yet may be added later.
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

    /// After history continues with new messages, in order of arrival, without gap or duplicate.
    pub fn live(mut self) -> Self {
        self.live = true;
        self
    }

    /// Live messages only: none that are stored already.
    pub fn skip_history(mut self) -> Self {
        (self.live, self.start) = (true, Start::End);
        self
    }

    /// Begins with the last `count` messages of all streams together that the filters want, in time order. They are searched
    /// for backwards when the cursor is opened.
    pub fn last(mut self, count: u64) -> Self {
        self.start = Start::Last(count);
        self
    }

    /// Begins with the message of this sequence number, of a stream of one space, and returns messages in order of arrival.
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
    /// that arrived last; of each stream, in time order. With [`CursorBuilder::live`] new messages follow them, as a late
    /// subscriber needs. They are found when the cursor is opened, and held in memory.
    ///
    /// The search reads the end of history, back to the last messages of every symbol, and the last blocks of symbols without
    /// later messages. For a symbol that has never had a message of one of the record types, it also reads the heads of all
    /// blocks that have the symbol: [`CursorBuilder::types`] avoids that, [`CursorBuilder::from`] bounds it.
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

    /// [`CursorBuilder::last_values`], where messages of one record type are distinguished by the values of these fields too:
    /// for example the last one of each order, by its number. The values are not known in advance, so this reads all messages of
    /// the record type, back to [`CursorBuilder::from`].
    pub fn last_values_by<S: Into<String>>(
        mut self,
        record: impl Into<String>,
        fields: impl IntoIterator<Item = S>,
    ) -> Self {
        let fields = fields.into_iter().map(Into::into).collect();
        self.last.get_or_insert_default().insert(record.into(), fields);
        self
    }

    /// Continues at the position of another cursor over the same streams, with the same filters and in the same direction. A
    /// cursor that is not live continues from a live position with the messages that arrived since, in order of arrival.
    pub fn resume(mut self, position: &Position) -> Self {
        self.start = Start::Position(position.clone());
        self
    }

    /// Only messages below these sequence numbers: one for each space of each stream, in their order, as
    /// [`Stream::next_sequences`](crate::Stream::next_sequences) returns them. Cursors with the same numbers return the same messages,
    /// whenever they are opened, but for those that are deleted later. For history only.
    ///
    /// ```
    /// # use tapedb_engine::Database;
    /// # use tapedb_schema::Timestamp;
    /// # let directory = tempfile::tempdir()?;
    /// # let db = Database::open(directory.path().join("db"))?;
    /// # let stream = db.create_stream("bars", "message Bar { close: f64 }".parse()?, Default::default())?;
    /// let mut loader = stream.loader()?;
    /// loader.append_body("A", Timestamp(1), 0, &[0; 8])?;
    /// loader.flush()?;
    /// let now = stream.next_sequences()?;
    /// loader.append_body("A", Timestamp(2), 0, &[0; 8])?;
    /// loader.flush()?;
    /// assert_eq!(stream.cursor().to_sequences(now).count()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_sequences(mut self, sequences: impl IntoIterator<Item = u64>) -> Self {
        self.ends = Some(sequences.into_iter().collect());
        self
    }

    /// Opens the cursor. Its history is what has been committed so far.
    ///
    /// # Errors
    /// For a type that no stream has, for settings that contradict each other, such as live and in reverse, for a sequence
    /// number that has not been assigned yet, and for a position that does not fit: one in a deleted stream does not fit a new
    /// stream of its name.
    pub fn open(self) -> Result<Cursor, Error> {
        self.open_with(&Arc::default())
    }

    /// [`CursorBuilder::open`], within the limits of `budget`.
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
            let picked = self.watch_some(stream)?;
            match &picked {
                Some(picked) => watches.push(picked.watch().clone()),
                None if self.live => watches.extend(stream.watch()?),
                None => {}
            }
            let first = sources.len();
            for space in &stream.spaces {
                let end = self.end_of(sources.len());
                sources.push(self.source((stream, space), end, picked.clone(), budget)?);
            }
            self.find_last(stream, &mut sources[first..], budget)?;
        }
        Ok(Cursor::new(self, sources, watches, budget.clone()))
    }

    pub(crate) fn streams(&self) -> &[Arc<StreamReader>] {
        &self.streams
    }

    /// The same messages of one of the streams, by its index.
    pub(crate) fn of_stream(self, index: usize) -> Self {
        let before: usize = self.streams[..index].iter().map(|stream| stream.spaces.len()).sum();
        let stream = self.streams[index].clone();
        let ends = self.ends.as_ref().map(|ends| ends.iter().copied().skip(before).take(stream.spaces.len()));
        let ends = ends.map(Iterator::collect);
        Self { streams: vec![stream], ends, ..self }
    }

    /// Sequence number that history ends before in a space, counted over all streams; the largest one where none is asked for.
    pub(crate) fn end_of(&self, space: usize) -> u64 {
        self.ends.as_ref().and_then(|ends| ends.get(space).copied()).unwrap_or(u64::MAX)
    }

    pub(crate) fn is_reversed(&self) -> bool {
        self.reversed
    }

    /// Whether messages of all symbols and record types are wanted.
    pub(crate) fn selects_all(&self) -> bool {
        self.symbols.is_none() && self.types.is_none()
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// The same messages from a time on, all of them.
    pub(crate) fn at_time(self, time: Timestamp) -> Self {
        Self { start: Start::Time(time), last: None, ..self }
    }

    /// The same messages from the last one back.
    fn backwards(self) -> Self {
        Self { reversed: true, live: false, start: Start::First, ..self }
    }

    fn order(&self) -> Order {
        if self.reversed { Order::TimeReversed } else { Order::Time }
    }

    /// Checks that messages are read forwards from their beginning: only so are columns read by symbol.
    pub(crate) fn check_by_symbol(&self) -> Result<(), Error> {
        if self.reversed || !matches!(self.start, Start::First) || self.last.is_some() {
            let what = "columns by symbol are read from the beginning of history, forwards; for other settings ask for time order";
            return Err(Error::Invalid(Invalid::Cursor { what: what.into() }));
        }
        self.check()
    }

    /// Whether only live messages are wanted.
    pub(crate) fn skips_history(&self) -> bool {
        matches!(self.start, Start::End)
    }

    pub(crate) fn filter_of(&self, stream: &StreamReader) -> Filter {
        let (from, last) = self.times();
        Filter::new(from, last, self.symbols.as_ref(), self.types.as_ref(), stream)
    }

    fn source(
        &self,
        (stream, space): (&Arc<StreamReader>, &Arc<SpaceReader>),
        end: u64,
        picked: Option<Arc<PickedWatch>>,
        budget: &Arc<Mutex<MergeBudget>>,
    ) -> Result<Source, Error> {
        let filter = self.filter_of(stream);
        let order = self.order();
        let offset = self.offset(stream, space, end)?;
        let sources = self.streams.iter().map(|stream| stream.spaces.len()).sum();
        Ok(Source::new(
            (stream.clone(), space.clone()),
            filter,
            (order, end),
            (self.live, picked),
            offset,
            (budget.clone(), sources),
        ))
    }

    /// Lets a server pick live messages, where the cursor does not want all and the stream is behind one.
    fn watch_some(&self, stream: &StreamReader) -> Result<Option<Arc<PickedWatch>>, Error> {
        let few = self.symbols.as_ref().is_none_or(|symbols| symbols.len() <= PICKED_SYMBOLS_MAX);
        if !self.live || self.selects_all() || !few || !stream.is_remote() {
            return Ok(None);
        }
        let symbols = self.symbols.as_ref().map(|symbols| {
            let mut symbols: Vec<String> = symbols.iter().cloned().collect();
            symbols.sort_unstable();
            symbols
        });
        let records = (0u16..).zip(stream.layouts.records());
        let types = self.types.as_ref().map(|wanted| {
            records.filter(|(_, record)| wanted.contains(&record.name)).map(|(id, _)| id).collect()
        });
        let schema_version = stream.definition.schema_version;
        let watch = stream.watch_some(&Wanted { symbols, schema_version, types })?;
        Ok(watch.map(Arc::new))
    }

    /// Makes the sources of a stream return the last messages instead of history.
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
            // No message is before the first possible time.
            Some(None) => (i64::MAX, i64::MIN),
        }
    }

    fn check(&self) -> Result<(), Error> {
        if self.live && self.reversed {
            return Err(Error::Invalid(Invalid::Cursor {
                what: "a cursor that reads backwards cannot be live".into(),
            }));
        }
        if let Some(ends) = &self.ends {
            self.check_ends(ends)?;
        }
        let begins_at_first = matches!(self.start, Start::First | Start::Position(_));
        if self.last.is_some() && !begins_at_first {
            let what = "last values replace history; begin with them, or skip history or a part of it";
            return Err(Error::Invalid(Invalid::Cursor { what: what.into() }));
        }
        if self.reversed && matches!(self.start, Start::Last(_)) {
            let what = "a cursor that reads backwards begins with the last message; leave out `last`, and stop reading after that many messages";
            return Err(Error::Invalid(Invalid::Cursor { what: what.into() }));
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

    /// Checks that there is a number for each space, and that the cursor reads history.
    fn check_ends(&self, ends: &[u64]) -> Result<(), Error> {
        let spaces: usize = self.streams.iter().map(|stream| stream.spaces.len()).sum();
        let what = if self.live {
            "a live cursor has no end; leave out `live`, or the sequence numbers that history ends before"
                .into()
        } else if spaces != ends.len() {
            let count = ends.len();
            format!(
                "the streams have {spaces} spaces, and there are {count} sequence numbers; pass one for each space"
            )
        } else if !matches!(self.start, Start::First | Start::Time(_)) {
            "sequence numbers that history ends before are for a cursor that begins with the first message"
                .into()
        } else {
            return Ok(());
        };
        Err(Error::Invalid(Invalid::Cursor { what }))
    }

    /// Checks that key fields exist in each stream that has the record type.
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
                    let known = layout.fields.iter().take(FIELDS_LISTED).map(|field| field.name.to_string());
                    let field = format!("{record}.{missing}");
                    let (stream, known) = (stream.name.to_string(), known.collect());
                    let column = Box::new(MissingColumn { stream, field, known });
                    return Err(Error::NotFound(NotFound::Column(column)));
                }
            }
        }
        Ok(())
    }

    fn no_type(&self, record: &str) -> Error {
        let stream = self.streams.first().map(|stream| stream.name.clone()).unwrap_or_default();
        let why = "there is no such message type; `desc` lists the existing ones";
        Error::Invalid(Invalid::Type { stream: stream.into(), record: record.into(), why })
    }

    /// Checks that the position, if there is one, has all spaces of the cursor's streams, in their order.
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
                None if space == 0 => format!("the position lacks stream {name:?}"),
                None => format!("the position lacks space {space} of stream {name:?}"),
                Some(found) if found.name != name && !found.is_in(id, name) => {
                    format!("the position's stream {i} is {:?}, the cursor's {name:?}", found.name)
                }
                Some(found) if found.space != space => {
                    format!("the position lacks space {space} of stream {name:?}")
                }
                Some(_) => continue,
            };
            return Err(Error::Invalid(Invalid::Position { what }));
        }
        Ok(())
    }

    fn offset(
        &self,
        stream: &StreamReader,
        space: &SpaceReader,
        end_max: u64,
    ) -> Result<Option<Offset>, Error> {
        // Not `Log::next_sequence`, which a snapshot may be ahead of for a moment.
        let end = space.next_sequence().min(end_max);
        let Start::Position(position) = &self.start else { return Ok(self.start.offset(self.order(), end)) };
        let (name, id) = (&*stream.name, stream.position_id);
        let in_space = || position.streams.iter().filter(|found| found.space == space.number);
        let named = || in_space().find(|found| found.name == name);
        let found = in_space().find(|found| found.is_in(id, name)).or_else(named);
        let Some(found) = found else { return Ok(None) };
        let offset = &found.offset;
        let what = if !found.is_in(id, name) {
            format!(
                "the position is in another stream {name:?}, which was deleted; begin from the start of this one"
            )
        } else if offset.reached() > end {
            format!("stream {name:?} has {end} messages, the position is after {}", offset.reached())
        } else if self.reversed && matches!(offset, Offset::Live { .. }) {
            format!("the position in stream {name:?} is live, and reading backwards cannot begin there")
        } else {
            return Ok(Some(*offset));
        };
        Err(Error::Invalid(Invalid::Position { what }))
    }

    /// The position that is equivalent to the start; `None` where none is needed.
    ///
    /// # Errors
    /// When there is no such position, or the search fails.
    fn position_of_start(&self, budget: &Arc<Mutex<MergeBudget>>) -> Result<Option<Position>, Error> {
        match &self.start {
            Start::Last(count) => self.position_of_last(*count, budget).map(Some),
            Start::Sequences(sequences) => self.position_of_sequences(sequences).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads backwards to find the first of the last messages.
    fn position_of_last(&self, count: u64, budget: &Arc<Mutex<MergeBudget>>) -> Result<Position, Error> {
        let mut backwards = self.clone().backwards().open_with(budget)?;
        let mut firsts: Vec<Option<Key>> = vec![None; backwards.sources().len()];
        let mut found = 0;
        while found < count {
            match backwards.next_of() {
                Ok(Some((message, source))) => {
                    firsts[source] = Some((message.time().0, message.sequence()));
                    found += 1;
                }
                Ok(None) => break,
                // Reading these messages reports it.
                Err(error) if error.is_reported_once() => {}
                Err(error) => return Err(error),
            }
        }
        let places = backwards.sources().iter().zip(firsts).map(|(source, first)| {
            let after = first.map_or(Some(AFTER_ALL), before);
            offset_in(&source.stream, &source.space, Offset::History { end: source.end(), after })
        });
        Ok(Position { streams: places.collect() })
    }

    fn position_of_sequences(&self, sequences: &[u64]) -> Result<Position, Error> {
        let spaces = || {
            let of = |stream| move |space| (stream, space);
            self.streams().iter().flat_map(move |stream| stream.spaces.iter().map(of(stream)))
        };
        let (need, have) = (spaces().count(), sequences.len());
        if need != have {
            let what = format!(
                "the streams have {need} spaces, and there are {have} sequence numbers; pass one for each space"
            );
            return Err(Error::Invalid(Invalid::Cursor { what }));
        }
        let places = spaces().zip(sequences);
        let places =
            places.map(|((stream, space), next)| offset_in(stream, space, Offset::Live { next: *next }));
        Ok(Position { streams: places.collect() })
    }
}

/// The entry of a space in a position.
fn offset_in(stream: &StreamReader, space: &SpaceReader, offset: Offset) -> SpaceOffset {
    SpaceOffset { name: stream.name.clone(), id: Some(stream.position_id), space: space.number, offset }
}

/// The layout of a message type; `None` if the stream has none of the name.
fn message_layout<'s>(stream: &'s StreamReader, record: &str) -> Option<&'s RecordLayout> {
    let (id, found) = stream.schema().record(record)?;
    if found.message { stream.layouts.record(id).ok() } else { None }
}
