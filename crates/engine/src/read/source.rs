//! One space of a stream as a cursor reads it: history, then the tail.

use crate::error::{Error, Invalid, Unreadable};
use crate::read::block::{Block, Key, Order};
use crate::read::fields::Fields;
use crate::read::filter::Filter;
use crate::read::history::History;
use crate::read::last::{LastMessages, LastOfSpace};
use crate::read::merge_budget::MergeBudget;
use crate::read::position::Offset;
use crate::read::tail::Tail;
use crate::space::reader::{SpaceReader, end_of};
use crate::stream::binding::Binding;
use crate::stream::picked::PickedWatch;
use crate::stream::reader::{ReadContext, StreamReader};
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tapedb_codec::evolve::{EvolveError, IncompatibleSchema, Reader};
use tapedb_codec::{DecodeError, DecodeErrorKind, Record, decode_into};

/// A space of a stream being read. History ends where the log ended when the cursor was opened; the tail begins there.
#[derive(Debug)]
pub(crate) struct Source {
    pub stream: Arc<StreamReader>,
    pub space: Arc<SpaceReader>,
    filter: Filter,
    phase: Phase,
    /// End of history.
    end: u64,
    order: Order,
    /// Generation of the catalog that the history was planned with.
    generation: u64,
    /// Messages below `end` that were lost before they were sealed, as reported.
    lost: u64,
    /// Whether the tail is wanted after history.
    live: bool,
    /// Pushes of the messages that are wanted, if a server picks them.
    picked: Option<Arc<PickedWatch>>,
    budget: Arc<Mutex<MergeBudget>>,
    /// Number of sources of the cursor.
    sources: usize,
    /// Key of the last message returned from history, as far as noted.
    given: Option<Key>,
    /// The Rust type of the last call, and what it reads.
    last_type: Cell<Option<(TypeId, ReadAs)>>,
    /// For each Rust type with another version of the stream's record type. Comparing schemas is slow compared with reading a
    /// message, so it is done once, also if it fails.
    plans: RefCell<HashMap<TypeId, Plan>>,
}

/// A [`Reader`] for a Rust type and what it reads, or why there is none.
type Plan = Result<(ReadAs, Box<dyn Any + Send>), IncompatibleSchema>;

/// What a Rust type reads in a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadAs {
    /// Type id in the stream.
    pub type_id: u16,
    /// Whether bodies are the Rust type's as they are; else a reader converts them.
    pub is_same: bool,
}

#[derive(Debug)]
enum Phase {
    History(Box<History>),
    /// The last messages, instead of history.
    Last(Box<LastMessages>),
    Tail(Box<Tail>),
    /// The stream has been deleted, which has been reported.
    Gone(Offset),
}

impl Source {
    pub fn new(
        (stream, space): (Arc<StreamReader>, Arc<SpaceReader>),
        mut filter: Filter,
        (order, end_max): (Order, u64),
        (live, picked): (bool, Option<Arc<PickedWatch>>),
        offset: Option<Offset>,
        (budget, sources): (Arc<Mutex<MergeBudget>>, usize),
    ) -> Self {
        let (catalog, snapshot) = space.view();
        let (view, context) = ((&*catalog, &snapshot), ReadContext { stream: &stream, space: &space });
        let now = Offset::History { end: end_of(&catalog, &snapshot).min(end_max), after: None };
        let (end, phase, given) = match offset.unwrap_or(now) {
            Offset::History { end, after } => {
                if let Some((time, _)) = after {
                    filter.narrow_to_after(time, order == Order::TimeReversed);
                }
                let history =
                    History::new(view, (context, &filter), order, after, end).sharing(budget.clone());
                (end, Phase::History(Box::new(history)), after)
            }
            Offset::Live { next } => {
                let end = if live { u64::MAX } else { end_of(&catalog, &snapshot) };
                let tail = Tail::new(next, end).one_of(sources).picked_by(picked.as_ref(), space.number);
                (next, Phase::Tail(Box::new(tail)), None)
            }
        };
        Self {
            stream,
            filter,
            phase,
            end,
            order,
            generation: catalog.generation,
            lost: catalog.lost_below(end),
            live,
            picked,
            budget,
            sources,
            given,
            last_type: Cell::new(None),
            plans: RefCell::default(),
            space,
        }
    }

    /// Where history ends.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The filter with all requested times.
    pub fn whole_filter(&self) -> Filter {
        let mut filter = self.filter.clone();
        filter.widen();
        filter
    }

    /// Reads columns: see [`Filter::want_columns`].
    pub fn want_columns(&mut self, fields: Fields) {
        self.filter.want_columns(fields);
    }

    /// Returns these messages instead of history; known losses in history are reported nevertheless.
    pub fn give_last(&mut self, found: LastOfSpace) {
        if let Phase::History(history) = &mut self.phase {
            let errors = history.take_errors().into_iter().chain(found.errors);
            self.phase = Phase::Last(Box::new(LastMessages::new(found.rows, self.order, self.given, errors)));
        }
    }

    /// Moves to the next wanted message. `false`: there is none, or none yet.
    #[inline]
    pub fn advance(&mut self) -> Result<bool, Error> {
        while let Phase::History(history) = &mut self.phase {
            let context = ReadContext { stream: &self.stream, space: &self.space };
            match history.advance(&mut self.filter, context) {
                Ok(true) => return Ok(true),
                Ok(false) if !self.live => return Ok(false),
                Ok(false) => self.begin_tail(),
                Err(error) if error.is_missing_file() => match self.replan() {
                    Ok(true) => {}
                    Ok(false) => {
                        self.skip_dropped()?;
                        self.skip_missing(&error);
                        return Err(error);
                    }
                    Err(error) => return Err(self.note_gone(error)),
                },
                Err(error) => return Err(self.note_gone(error)),
            }
        }
        if let Phase::Last(last) = &mut self.phase {
            if last.advance()? {
                return Ok(true);
            } else if !self.live {
                return Ok(false);
            }
            self.begin_tail();
        }
        self.advance_tail()
    }

    /// Files of history have been replaced: continues with the new ones after the last returned message. `false`: the files are
    /// the same.
    #[cold]
    fn replan(&mut self) -> Result<bool, Error> {
        self.stream.check_not_gone()?;
        self.space.refresh_catalog()?;
        let (catalog, snapshot) = self.space.view();
        if catalog.generation == self.generation {
            return Ok(false);
        }
        self.generation = catalog.generation;
        let Phase::History(before) = &mut self.phase else { return Ok(false) };
        let mut errors = before.take_errors();
        if let Some((time, _)) = self.given {
            self.filter.narrow_to_after(time, self.order == Order::TimeReversed);
        }
        let context = ReadContext { stream: &self.stream, space: &self.space };
        let mut history =
            History::new((&catalog, &snapshot), (context, &self.filter), self.order, self.given, self.end);
        // Holes in the log were reported before. Parts that were sealed with losses since were not.
        let lost = catalog.lost_below(self.end);
        let is_new =
            |error: &Error| lost != self.lost && matches!(error, Error::Unreadable(Unreadable::Lost(_)));
        errors.extend(history.take_errors().into_iter().filter(is_new));
        self.lost = lost;
        history.report_first(errors);
        self.phase = Phase::History(Box::new(history.sharing(self.budget.clone())));
        Ok(true)
    }

    /// Skips what a transient stream has dropped before it was read, and reports it.
    #[cold]
    fn skip_dropped(&mut self) -> Result<(), Error> {
        let first_sequence = self.space.log.first_sequence();
        match &mut self.phase {
            Phase::History(history) if self.stream.definition.options.is_transient() => {
                match history.skip_before(first_sequence) {
                    0 => Ok(()),
                    messages => Err(self.stream.dropped(messages, first_sequence)),
                }
            }
            _ => Ok(()),
        }
    }

    /// Skips a missing segment, which is reported once like other damage.
    #[cold]
    fn skip_missing(&mut self, error: &Error) {
        if let Phase::History(history) = &mut self.phase
            && matches!(error, Error::Unreadable(Unreadable::Segment(_)))
        {
            history.skip_next();
        }
    }

    #[cold]
    fn begin_tail(&mut self) {
        self.filter.widen();
        let tail = Tail::new(self.end, u64::MAX).one_of(self.sources);
        let tail = tail.picked_by(self.picked.as_ref(), self.space.number);
        self.phase = Phase::Tail(Box::new(tail));
    }

    fn advance_tail(&mut self) -> Result<bool, Error> {
        let Phase::Tail(tail) = &mut self.phase else { return Ok(false) };
        let context = ReadContext { stream: &self.stream, space: &self.space };
        tail.advance(&mut self.filter, context).map_err(|error| self.note_gone(error))
    }

    /// A deleted stream is reported once, then it has no more messages.
    #[cold]
    fn note_gone(&mut self, error: Error) -> Error {
        if error.is_gone() {
            self.phase = Phase::Gone(self.offset(None));
        }
        error
    }

    /// Exchanges the block with the current message for an empty one; `false`: there is no message. Until
    /// [`Source::take_back`] no other method that uses the block may be called.
    pub fn lend(&mut self, empty: &mut Box<Block>) -> bool {
        let (current, is_plain) = match &mut self.phase {
            Phase::History(history) => (history.current_mut(), true),
            Phase::Tail(tail) => {
                let is_plain = tail.is_plain();
                (tail.current_mut(), is_plain)
            }
            Phase::Last(last) => (last.current_mut(), false),
            Phase::Gone(_) => (None, false),
        };
        let Some(current) = current else { return false };
        if !is_plain {
            current.stop_plain_steps();
        }
        std::mem::swap(current, empty);
        true
    }

    /// Ends [`Source::lend`]: the block has made plain steps only.
    pub fn take_back(&mut self, lent: &mut Box<Block>) {
        let current = match &mut self.phase {
            Phase::History(history) => history.current_mut(),
            Phase::Tail(tail) => tail.current_mut(),
            Phase::Last(last) => last.current_mut(),
            Phase::Gone(_) => None,
        };
        if let Some(current) = current {
            std::mem::swap(current, lent);
        }
        if let Phase::Tail(tail) = &mut self.phase {
            tail.note_plain_steps();
        }
    }

    /// Limits plain steps to ranks below `limit` and to the next `rows`. Returns the number of plain steps in the tail.
    pub fn set_limit(&mut self, limit: Key, rows: usize) -> usize {
        match &mut self.phase {
            Phase::Tail(tail) => return tail.set_limit(limit, rows),
            Phase::History(history) => history.set_limit(limit, rows),
            _ => {}
        }
        0
    }

    /// The block with the source's current message.
    #[inline]
    pub fn current(&self) -> Option<&Block> {
        match &self.phase {
            Phase::History(history) => history.current(),
            Phase::Last(last) => last.current(),
            Phase::Tail(tail) => tail.current(),
            Phase::Gone(_) => None,
        }
    }

    /// Rank of the current message among sources.
    #[inline]
    pub fn rank(&self) -> i64 {
        let time = self.current().map_or(i64::MAX, Block::time);
        if self.order == Order::TimeReversed { !time } else { time }
    }

    /// Whether history has ended.
    pub fn is_live(&self) -> bool {
        !matches!(self.phase, Phase::History(_) | Phase::Last(_))
    }

    /// Whether a source without a message may have one now.
    #[inline]
    pub fn has_more(&self) -> bool {
        match &self.phase {
            Phase::History(_) | Phase::Last(_) => true,
            Phase::Tail(tail) => tail.has_more(ReadContext { stream: &self.stream, space: &self.space }),
            Phase::Gone(_) => false,
        }
    }

    /// Notes that the current message has been returned to the user, before moving on.
    #[inline]
    pub fn note_given(&mut self) {
        if !self.is_live()
            && let Some(block) = self.current()
        {
            self.given = Some(block.key());
        }
    }

    /// The position to resume from; `given`: the lent block, whose current message has been returned.
    pub fn offset(&self, given: Option<&Block>) -> Offset {
        match (&self.phase, given) {
            (Phase::History(_) | Phase::Last(_), given) => {
                Offset::History { end: self.end, after: given.map(Block::key).or(self.given) }
            }
            (Phase::Tail(_), Some(given)) => Offset::Live { next: given.sequence() + 1 },
            (Phase::Tail(tail), None) => {
                Offset::Live { next: tail.current().map_or(tail.next_sequence(), Block::sequence) }
            }
            (Phase::Gone(offset), _) => *offset,
        }
    }

    /// The position before the current message of the lent block, which no message before it in the block was returned with.
    pub fn offset_before(&self, lent: &Block) -> Offset {
        match &self.phase {
            Phase::Tail(_) => Offset::Live { next: lent.sequence() },
            _ => self.offset(None),
        }
    }

    /// What a Rust type reads in this stream, cached.
    #[inline]
    pub fn read_as<T: Record + 'static>(&self) -> Result<ReadAs, Error> {
        match self.last_type.get() {
            Some((last, read_as)) if last == TypeId::of::<T>() => Ok(read_as),
            _ => self.find::<T>(),
        }
    }

    /// Replaces `value` by the record in `body`, which is of the stream's version of `T`.
    #[inline]
    pub fn decode_into<T: Record + 'static>(
        &self,
        read_as: ReadAs,
        body: &[u8],
        value: &mut T,
    ) -> Result<(), EvolveError> {
        if read_as.is_same { Ok(decode_into(body, value)?) } else { self.convert_into(body, value) }
    }

    #[cold]
    fn find<T: Record + 'static>(&self) -> Result<ReadAs, Error> {
        let read_as = match self.stream.binding_of::<T>() {
            Ok(Binding { type_id, .. }) => ReadAs { type_id, is_same: true },
            Err(error) if self.stream.schema().record(T::NAME).is_none() => return Err(error),
            Err(_) => self.plan::<T>()?,
        };
        self.last_type.set(Some((TypeId::of::<T>(), read_as)));
        Ok(read_as)
    }

    /// Plans a conversion: the program has another version of the record type than the stream.
    fn plan<T: Record + 'static>(&self) -> Result<ReadAs, Error> {
        let mut plans = self.plans.borrow_mut();
        match plans.entry(TypeId::of::<T>()).or_insert_with(|| planned::<T>(&self.stream)) {
            Ok((read_as, _)) => Ok(*read_as),
            Err(error) => {
                let error = Box::new(error.clone());
                Err(Error::Invalid(Invalid::Version { stream: (*self.stream.name).into(), error }))
            }
        }
    }

    fn convert_into<T: Record + 'static>(&self, body: &[u8], value: &mut T) -> Result<(), EvolveError> {
        let mut plans = self.plans.borrow_mut();
        let reader = match plans.get_mut(&TypeId::of::<T>()) {
            Some(Ok((_, reader))) => reader.downcast_mut::<Reader<T>>(),
            _ => None,
        };
        match reader {
            Some(reader) => reader.decode_into(body, value),
            // The type was planned before; without a plan the body is not that of a `T`.
            None => Err(DecodeError::new(DecodeErrorKind::UnknownType, 0, 0, 0).into()),
        }
    }
}

fn planned<T: Record + 'static>(stream: &StreamReader) -> Plan {
    let reader = Reader::<T>::new(&stream.layouts)?;
    Ok((ReadAs { type_id: reader.type_id(), is_same: reader.is_identity() }, Box::new(reader)))
}
