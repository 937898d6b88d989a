//! Reads messages: history, then live, of one stream or of many merged by time.

use crate::error::{Error, Invalid, Unreadable};
use crate::read::block::{Block, Key, LAST, Order, RunRows};
use crate::read::cursor_builder::CursorBuilder;
use crate::read::fields::Fields;
use crate::read::merge_budget::MergeBudget;
use crate::read::position::{Offset, Position, SpaceOffset};
use crate::read::source::{ReadAs, Source};
use crate::stream::remote::Watch;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tapedb_codec::dynamic::{Layouts, RecordRef};
use tapedb_codec::evolve::EvolveError;
use tapedb_codec::{DecodeError, Record};
use tapedb_schema::Timestamp;

/// Interval at which a waiting cursor checks what another process writes.
const POLL_INTERVAL: Duration = Duration::from_micros(500);

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// While some streams have messages, the idle ones are checked once per this many messages.
const IDLE_CHECK_INTERVAL: u32 = 64;

/// Reads messages of one or several streams, merged by time; equal times are in the order of the streams, and backwards
/// in exactly the reverse order.
///
/// Memory is bounded, however many streams there are and however much late messages make their files overlap: 128 MiB, and
/// for each stream and for each file that waits to be merged about 2 KiB (or a message, if that is longer). At most 256
/// waiting files are open.
///
/// History is in time order and ends with what had been committed when the cursor was opened. A live cursor continues
/// with every later message in order of arrival; silent streams do not delay the others.
///
/// Always true: while `given` is set, `block` is the lead's block with the message returned last, and the lead has an empty
/// one instead; otherwise it is the other way around. So the next message of the same run is one step in `block`, without
/// access to sources.
#[derive(Debug)]
pub struct Cursor {
    block: Box<Block>,
    sources: Vec<Source>,
    /// The source whose current message was returned last, or is next.
    lead: Option<usize>,
    /// Other sources that have a current message.
    waiting: BinaryHeap<Reverse<Turn>>,
    reversed: bool,
    /// Sources that have not been advanced, or whose last advance failed.
    unstepped: Vec<usize>,
    /// Live sources that had no message at the last check.
    idle: Vec<usize>,
    until_idle_check: u32,
    /// Whether the lead's current message has been returned.
    given: bool,
    live: bool,
    /// Whether streams are written by another process, which cannot notify this one.
    reads_only: bool,
    /// Whether streams are remote.
    is_remote: bool,
    /// Subscriptions to appends to remote streams.
    watches: Vec<Arc<Watch>>,
    /// Time of the next check of what that process has written.
    next_poll: Instant,
    budget: Arc<Mutex<MergeBudget>>,
    /// The builder that opened the cursor.
    builder: Box<CursorBuilder>,
}

impl Cursor {
    /// Begins to read: none of the sources has been advanced.
    pub(crate) fn new(
        builder: CursorBuilder,
        sources: Vec<Source>,
        watches: Vec<Arc<Watch>>,
        budget: Arc<Mutex<MergeBudget>>,
    ) -> Self {
        let streams = builder.streams();
        Self {
            unstepped: (0..sources.len()).rev().collect(),
            sources,
            block: Box::new(Block::new(Order::Arrival)),
            lead: None,
            waiting: BinaryHeap::new(),
            reversed: builder.is_reversed(),
            idle: Vec::new(),
            until_idle_check: IDLE_CHECK_INTERVAL,
            given: false,
            live: builder.is_live(),
            reads_only: streams.iter().any(|stream| stream.is_followed()),
            is_remote: streams.iter().any(|stream| stream.is_remote()),
            next_poll: Instant::now() + POLL_INTERVAL,
            watches,
            budget,
            builder: Box::new(builder),
        }
    }

    /// The next message. `None`: history has ended; for a live cursor, there is nothing new right now.
    ///
    /// # Errors
    /// Damage in the files, once for each damaged location; the next call continues after it. Losses that were known when the
    /// cursor was opened are reported before the first message, whatever the filters. A deleted stream, once. Errors of the
    /// system are returned by every call until their cause is removed.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "messages borrow from the cursor, which an iterator does not allow"
    )]
    pub fn next(&mut self) -> Result<Option<Message<'_>>, Error> {
        if self.block.advance_plainly() || self.step()? {
            return Ok(Some(Message { cursor: self }));
        }
        Ok(None)
    }

    /// The message that was returned last; `None` before the first, and when the last call returned none.
    #[inline]
    pub fn current(&self) -> Option<Message<'_>> {
        (self.given && self.lead.is_some()).then_some(Message { cursor: self })
    }

    /// Continues with the first message at or after `time`, or, where the cursor reads backwards, with the last one at or before
    /// it: from any position, in history as it is now, with the filters of the cursor. A live cursor then goes live. Costs as
    /// much as opening a cursor: the amount read does not grow with history.
    ///
    /// # Errors
    /// As [`CursorBuilder::open`]: the cursor then stays at its position.
    pub fn seek(&mut self, time: Timestamp) -> Result<(), Error> {
        *self = (*self.builder).clone().at_time(time).open_with(&self.budget.clone())?;
        Ok(())
    }

    pub(crate) fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The next message, and the index of its source.
    pub(crate) fn next_of(&mut self) -> Result<Option<(Message<'_>, usize)>, Error> {
        let lead = if self.block.advance_plainly() || self.step()? { self.lead } else { None };
        Ok(lead.map(|lead| (Message { cursor: self }, lead)))
    }

    /// Reads columns: see [`Filter::want_columns`](crate::read::filter::Filter::want_columns). Nothing has been read yet;
    /// `fields` are those of each source.
    pub(crate) fn want_columns(&mut self, fields: impl Fn(usize) -> Fields) {
        self.sources.iter_mut().enumerate().for_each(|(index, source)| source.want_columns(fields(index)));
    }

    /// The next message and those that follow it in the same run, at most `most`, if `fits` accepts the source. `is_held`: the
    /// current message was not accepted before, and is the next one.
    pub(crate) fn next_run(
        &mut self,
        is_held: bool,
        most: usize,
        fits: impl Fn(usize) -> bool,
    ) -> Result<NextRun<'_>, Error> {
        if !is_held && !self.block.advance_plainly() && !self.step()? {
            return Ok(NextRun::None);
        }
        let Some(lead) = self.lead else { return Ok(NextRun::None) };
        if !fits(lead) {
            return Ok(NextRun::Other);
        }
        let run = self.block.take_run(most);
        Ok(NextRun::Run(lead, self.block.rows_of(run)))
    }

    /// The position before the message that was returned last, which is the first of its run.
    pub(crate) fn position_before(&self) -> Position {
        self.position_with(|index, source| match self.lead {
            Some(lead) if lead == index && self.given => source.offset_before(&self.block),
            _ => source.offset(None),
        })
    }

    /// The next message, waiting at most `timeout`. `None`: the time is over, or history ended and the cursor is not live.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<Message<'_>>, Error> {
        // An available message is returned without reading the clock.
        if self.block.advance_plainly() || self.step()? {
            return Ok(Some(Message { cursor: self }));
        }
        // A timeout past the end of the clock means no timeout: waits of one hour are repeated.
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
    /// When the files of another process's stream cannot be read.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), Error> {
        let Some(source) = self.sources.first() else {
            std::thread::sleep(timeout);
            return Ok(());
        };
        let notifiers = &source.stream.notifiers;
        // A cursor over one stream is not notified of messages of others.
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

    /// Whether there may be a message that has not been returned.
    fn has_more(&self) -> bool {
        self.lead.is_some() || !self.unstepped.is_empty() || self.sources.iter().any(Source::has_more)
    }

    /// Waits at the connection of the subscriptions, if they all have the same one: `false` if not.
    fn wait_at_connection(&self, is_notified: &dyn Fn() -> bool, timeout: Duration) -> bool {
        let Some((watch, others)) = self.watches.split_first() else { return false };
        let connection = watch.connection();
        others.iter().all(|other| other.connection() == connection) && watch.wait(is_notified, timeout)
    }

    /// Checks what another process has written.
    fn poll(&mut self) -> Result<(), Error> {
        self.next_poll = Instant::now() + POLL_INTERVAL;
        let followed = self.sources.iter().map(|source| &source.stream).filter(|stream| stream.is_followed());
        followed.into_iter().try_for_each(|stream| unless_gone(stream.refresh()))
    }

    /// Asks the server about remote streams that are known to have changed.
    fn refresh_stale(&self) -> Result<(), Error> {
        self.sources.iter().try_for_each(|source| unless_gone(source.stream.refresh_stale()))
    }

    fn is_stale(&self) -> bool {
        self.is_remote && self.sources.iter().any(|source| source.stream.is_stale())
    }

    /// Whether the cursor was opened [`live`](CursorBuilder::live): it then has no end.
    pub fn follows(&self) -> bool {
        self.live
    }

    /// Whether all streams have reached the end of their history.
    pub fn is_live(&self) -> bool {
        self.live && self.sources.iter().all(Source::is_live)
    }

    /// The position after the last returned message.
    pub fn position(&self) -> Position {
        let given = |index: usize| Some(&*self.block).filter(|_| self.lead == Some(index) && self.given);
        self.position_with(|index, source| source.offset(given(index)))
    }

    fn position_with(&self, offset: impl Fn(usize, &Source) -> Offset) -> Position {
        let offset_in = |(index, source): (usize, &Source)| SpaceOffset {
            name: source.stream.name.clone(),
            id: Some(source.stream.position_id),
            space: source.space.number,
            offset: offset(index, source),
        };
        Position { streams: self.sources.iter().enumerate().map(offset_in).collect() }
    }

    /// Names of the streams, in the order of the cursor.
    pub fn streams(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().filter(|source| source.space.number == 0).map(|source| &*source.stream.name)
    }

    /// Moves to the next message, where that is not a plain step of `block`.
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

    /// Moves the lead, whose current message has been returned, to its next one.
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
                // The next call continues with it.
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
            // On an error the source stays unstepped: the next call continues with it.
            let found = self.sources[index].advance()?;
            self.unstepped.pop();
            self.add(index, found);
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
            // Plain steps must not delay the check of live sources.
            self.until_idle_check = self.until_idle_check.saturating_sub(plain_steps as u32).max(1);
        }
    }

    /// The turn of a source that has a current message.
    fn turn_of(&self, source: usize) -> Turn {
        let index = if self.reversed { !source } else { source };
        Turn { rank: self.sources[source].rank(), index }
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
            // On an error the source stays idle: the next call continues with it.
            if self.sources[index].has_more() && self.sources[index].advance()? {
                self.idle.swap_remove(at);
                self.add(index, true);
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    fn add(&mut self, index: usize, found: bool) {
        if found {
            self.waiting.push(Reverse(self.turn_of(index)));
        } else {
            self.idle.push(index);
        }
    }
}

/// Ignores that a stream is gone: its source reports it when it is advanced.
fn unless_gone(refreshed: Result<(), Error>) -> Result<(), Error> {
    match refreshed {
        Err(error) if error.is_gone() => Ok(()),
        refreshed => refreshed,
    }
}

/// The answer of [`Cursor::next_run`].
pub(crate) enum NextRun<'a> {
    /// There is no message, or none yet.
    None,
    /// The message is of a source that was not accepted.
    Other,
    /// The source, and its messages.
    Run(usize, RunRows<'a>),
}

/// Order of sources: by the rank of the current message, then by the index of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    rank: i64,
    /// The source's index; its complement where reading goes backwards.
    index: usize,
}

impl Turn {
    fn source(self, reversed: bool) -> usize {
        if reversed { !self.index } else { self.index }
    }

    /// Messages of this source below this rank are before the message of `other`.
    fn limit(self, other: &Self) -> Key {
        (other.rank, if self.index < other.index { u64::MAX } else { 0 })
    }
}

/// A message in the cursor's memory: valid until the cursor moves on.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    cursor: &'a Cursor,
}

impl<'a> Message<'a> {
    #[inline]
    fn block(&self) -> &'a Block {
        &self.cursor.block
    }

    /// The source of the message: there is a lead whenever there is a message.
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

    /// The record types of the stream, as this cursor reads them.
    #[inline]
    pub fn layouts(&self) -> &'a Layouts {
        &self.source().stream.layouts
    }

    /// Name of the stream.
    #[inline]
    pub fn stream_name(&self) -> &'a str {
        &self.source().stream.name
    }

    /// The bytes of the body, as `docs/format/message.md` defines them. Not validated.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.block().body()
    }

    /// The record, if it is a `T`. If the stream has an older or newer version of the record type, it is converted: see
    /// "Versions" in `docs/format/schema.md`.
    ///
    /// # Errors
    /// [`Invalid::Type`] when the message is not a `T` or the stream has none, [`Invalid::Version`] when the stream's version
    /// cannot become a `T`, [`Unreadable::Convert`] when this message cannot, [`Unreadable::Message`] for damaged bytes.
    #[inline]
    pub fn decode<T: Record + 'static>(&self) -> Result<T, Error> {
        let mut value = T::default();
        self.decode_into(&mut value)?;
        Ok(value)
    }

    /// Replaces `value` by the record, if it is a `T`, reusing the allocations of `value`.
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
    /// As [`Message::decode`]; [`Invalid::Type`] also when it would have to be converted.
    #[inline]
    pub fn view<T: Record + 'static>(&self) -> Result<T::View<'a>, Error> {
        if !self.read_as::<T>()?.is_same {
            let why =
                "the stream has another version of the type, which cannot be read in place; use `decode`";
            return Err(Error::Invalid(Invalid::Type {
                stream: self.stream_name().into(),
                record: T::NAME.into(),
                why,
            }));
        }
        tapedb_codec::view::<T>(self.body()).map_err(|error| self.damaged(error))
    }

    /// Validates the record, of whatever type it is, and reads it in place.
    ///
    /// # Errors
    /// [`Unreadable::Message`] for damaged bytes.
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
        let why = "the message is of another type; check `type_name` first, or let the cursor return only this type";
        Err(Error::Invalid(Invalid::Type { stream: self.stream_name().into(), record: T::NAME.into(), why }))
    }

    #[cold]
    fn not_read(&self, error: EvolveError) -> Error {
        match error {
            EvolveError::Decode(error) => self.damaged(error),
            error => Error::Unreadable(Unreadable::Convert {
                stream: self.stream_name().into(),
                sequence: self.sequence(),
                error: Box::new(error),
            }),
        }
    }

    #[cold]
    fn damaged(&self, error: DecodeError) -> Error {
        let error = Box::new(error);
        Error::Unreadable(Unreadable::Message {
            stream: self.stream_name().into(),
            sequence: self.sequence(),
            error,
        })
    }
}
