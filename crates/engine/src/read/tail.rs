//! A space's committed messages from a sequence number on, in order of arrival.

use crate::error::Error;
use crate::interrupt;
use crate::read::block::{Block, Bounds, Key, Order};
use crate::read::filter::Filter;
use crate::read::history::History;
use crate::space::lost_messages;
use crate::stream::picked::{Item, PickedWatch};
use crate::stream::reader::ReadContext;
use std::collections::VecDeque;
use std::sync::Arc;
use tapedb_log::TailPosition;

/// Maximum bytes of one read, which is at least one batch; the sum for all tails of a cursor; and the minimum per tail.
const READ_BYTES: usize = 256 << 10;
const READ_BYTES_ALL: usize = 16 << 20;
const READ_BYTES_MIN: usize = 1 << 10;

/// Messages in order of arrival: from the log or, for a reader far behind, from segments.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Sequence number after the last wanted message.
    end: u64,
    position: TailPosition,
    /// Messages before this one have been returned: its batch may begin before it.
    next_sequence: u64,
    block: Box<Block>,
    read_bytes: usize,
    /// A part that is read from its segment, and its end.
    sealed: Option<(Box<History>, u64)>,
    positioned: bool,
    /// Whether all messages that have been read were returned.
    drained: bool,
    errors: VecDeque<Error>,
    /// Pushes of the messages that are wanted, where a server picks them; and the sequence number before which messages are read
    /// from files nevertheless.
    picked: Option<(Arc<PickedWatch>, u64)>,
}

impl Tail {
    /// Continues with `next_sequence`, up to `end`.
    pub fn new(next_sequence: u64, end: u64) -> Self {
        Self {
            end,
            position: TailPosition::at(next_sequence),
            next_sequence,
            block: Box::new(Block::new(Order::Arrival)),
            read_bytes: READ_BYTES,
            sealed: None,
            positioned: false,
            drained: true,
            errors: VecDeque::new(),
            picked: None,
        }
    }

    /// Gets live messages from a watch of those that are wanted. Messages before it began are read from files.
    pub fn picked_by(mut self, watch: Option<&Arc<PickedWatch>>, space: u32) -> Self {
        self.picked = watch.map(|watch| (watch.clone(), watch.covered(space)));
        self
    }

    /// Limits memory to the share of one of so many tails.
    pub fn one_of(mut self, tails: usize) -> Self {
        self.read_bytes = (READ_BYTES_ALL / tails.max(1)).clamp(READ_BYTES_MIN, READ_BYTES);
        self
    }

    /// Sequence number of the first message that has not been returned.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Whether there may be a message that has not been returned.
    #[inline]
    pub fn has_more(&self, context: ReadContext<'_>) -> bool {
        if let Some((watch, files_end)) = &self.picked
            && *files_end <= self.covered()
        {
            return !self.drained || watch.has_items(context.space.number) || context.stream.is_deleted();
        }
        self.has_more_in_files(context)
    }

    fn has_more_in_files(&self, context: ReadContext<'_>) -> bool {
        let end = context.space.log.next_sequence().min(self.end);
        !self.drained || end > self.position.sequence() || context.stream.is_deleted()
    }

    #[inline]
    pub fn current(&self) -> Option<&Block> {
        match &self.sealed {
            _ if !self.positioned => None,
            Some((history, _)) => history.current(),
            None => Some(&self.block),
        }
    }

    /// The block with the current message.
    pub fn current_mut(&mut self) -> Option<&mut Box<Block>> {
        match &mut self.sealed {
            _ if !self.positioned => None,
            Some((history, _)) => history.current_mut(),
            None => Some(&mut self.block),
        }
    }

    /// Whether the next messages may be plain steps of the current block: those of a part that reaches beyond the end may be
    /// after it.
    pub fn is_plain(&self) -> bool {
        self.sealed.as_ref().is_none_or(|(_, end)| *end <= self.end)
    }

    /// Limits plain steps to those before the first message whose key is not below `limit`, and to the next `rows`. Returns how
    /// many there are.
    pub fn set_limit(&mut self, limit: Key, rows: usize) -> usize {
        let is_plain = self.is_plain();
        match self.current_mut() {
            Some(block) if is_plain => block.limit_arrivals(limit, rows),
            _ => 0,
        }
    }

    /// Updates the position after plain steps of the current block.
    pub fn note_plain_steps(&mut self) {
        if let Some(block) = self.current() {
            self.next_sequence = block.sequence() + 1;
        }
    }

    /// Moves to the next wanted message. `false`: there is none yet.
    ///
    /// # Errors
    /// Damage, once each; the next call continues after it.
    #[inline]
    pub fn advance(&mut self, filter: &mut Filter, context: ReadContext<'_>) -> Result<bool, Error> {
        loop {
            if let Some(error) = self.errors.pop_front() {
                self.positioned = false;
                return Err(error);
            }
            if self.sealed.is_some() {
                if self.advance_sealed(filter, context)? {
                    return Ok(true);
                }
                continue;
            }
            if self.block.advance(filter, context, &mut self.errors) {
                self.next_sequence = self.block.sequence() + 1;
                self.positioned = true;
                return Ok(true);
            }
            (self.positioned, self.drained) = (false, self.errors.is_empty());
            if self.picked.is_some() && self.drained {
                match self.read_picked(filter, context)? {
                    FromPicked::Loaded => continue,
                    FromPicked::None => return Ok(false),
                    FromPicked::InFiles => {}
                }
            }
            if !self.has_more_in_files(context) {
                self.next_sequence = self.next_sequence.max(self.position.sequence());
                // A server pushes no more while the pushed messages count as unread, also where this tail begins after them.
                context.space.note_consumed(self.next_sequence);
                return Ok(false);
            }
            if self.drained {
                self.read(filter, context)?;
            }
        }
    }

    /// All wanted messages below this have been loaded.
    fn covered(&self) -> u64 {
        self.position.sequence().max(self.next_sequence)
    }

    /// Takes the next push of picked messages, unless what is before it has to be read from files first.
    fn read_picked(&mut self, filter: &mut Filter, context: ReadContext<'_>) -> Result<FromPicked, Error> {
        let covered = self.covered();
        let Some((watch, files_end)) = &mut self.picked else { return Ok(FromPicked::InFiles) };
        let space = context.space.number;
        if *files_end > covered {
            if context.space.log.next_sequence() <= covered {
                context.stream.refresh()?;
                // A server that was started again may have fewer messages than before.
                *files_end =
                    (*files_end).min(context.space.log.next_sequence().max(context.space.catalog().sealed));
            }
            if *files_end > covered {
                return Ok(FromPicked::InFiles);
            }
        }
        if *files_end > 0 {
            watch.note_read(space, covered);
            *files_end = 0;
        }
        self.next_sequence = covered;
        interrupt::check()?;
        // Only messages that were pushed say that it is gone.
        if context.stream.is_deleted() && !watch.has_items(space) {
            return context.stream.check_not_deleted().map(|()| FromPicked::None);
        }
        let Some(item) = watch.take(space) else { return Ok(FromPicked::None) };
        let watch = watch.clone();
        self.load_item(item, &watch, filter, context)
    }

    fn load_item(
        &mut self,
        item: Item,
        watch: &Arc<PickedWatch>,
        filter: &mut Filter,
        context: ReadContext<'_>,
    ) -> Result<FromPicked, Error> {
        let sequences = match &item {
            Item::Rows { first_sequence, next_sequence, .. } => *first_sequence..*next_sequence,
            Item::Batches { span, .. } => span.first_sequence..span.next_sequence(),
            Item::Skip { next_sequence } => return Ok(self.read_files_to(*next_sequence, watch)),
            Item::Lapsed => {
                context.stream.refresh()?;
                return Ok(self.read_files_to(context.space.log.next_sequence(), watch));
            }
        };
        let deletions = match context.space.deletions_in_log(&sequences, (i64::MIN, i64::MAX)) {
            Ok(deletions) => deletions,
            // What was deleted of sealed messages is known from their segments.
            Err(error) if is_sealed(&error) => return Ok(self.read_files_to(sequences.end, watch)),
            Err(error) => return Err(error),
        };
        let after = self.next_sequence.checked_sub(1).map(|before| (i64::MAX, before));
        let bounds = Bounds { after, end: self.end, deletions, removed: None };
        match item {
            Item::Batches { span, bytes } => {
                *self.block.bytes_mut() = bytes;
                self.block.load(&span, true, bounds, (filter, context), &mut self.errors);
            }
            Item::Rows { rows, .. } => {
                self.block.load_picked(&rows, bounds, (filter, context), &mut self.errors)
            }
            Item::Skip { .. } | Item::Lapsed => {}
        }
        self.position = TailPosition::at(sequences.end.max(self.position.sequence()));
        self.drained = false;
        Ok(FromPicked::Loaded)
    }

    /// Reads messages before a sequence number from files.
    fn read_files_to(&mut self, sequence: u64, watch: &Arc<PickedWatch>) -> FromPicked {
        self.position = TailPosition::at(self.covered());
        // At least one, so that the watch is notified when it is read.
        self.picked = Some((watch.clone(), sequence.max(1)));
        FromPicked::Loaded
    }

    /// Reads the next messages: in the log, or in a segment if they have been sealed.
    fn read(&mut self, filter: &mut Filter, context: ReadContext<'_>) -> Result<(), Error> {
        interrupt::check()?;
        let mut position = self.position;
        let read = context.space.log.read_from(&mut position, self.read_bytes, self.block.bytes_mut());
        let read = context.stream.unless_gone(read).and_then(|span| {
            let sequences = span.first_sequence..span.next_sequence();
            Ok((span, context.space.deletions_in_log(&sequences, (i64::MIN, i64::MAX))?))
        });
        let (span, deletions) = match read {
            Ok(read) => read,
            Err(error) if is_sealed(&error) && self.read_sealed(context)? => return Ok(()),
            // Rewritten messages have never been in the log.
            Err(error) if error.is_damage() && self.read_sealed(context)? => return Ok(()),
            Err(error) if is_sealed(&error) && self.is_dropped(context) => return Err(self.skip(context)),
            Err(error) => {
                // The next read begins after the damage.
                self.position = position;
                return Err(error);
            }
        };
        (self.position, self.drained) = (position, false);
        context.space.note_consumed(position.sequence());
        // A batch that begins before the position has rows that have been returned.
        let after = self.next_sequence.checked_sub(1).map(|before| (i64::MAX, before));
        let bounds = Bounds { after, end: self.end, deletions, removed: None };
        self.block.load(&span, true, bounds, (filter, context), &mut self.errors);
        Ok(())
    }

    /// Whether the next message was dropped from memory.
    #[cold]
    fn is_dropped(&self, context: ReadContext<'_>) -> bool {
        let next = self.position.sequence().max(self.next_sequence);
        context.stream.definition.options.is_transient() && next < context.space.log.first_sequence()
    }

    /// Continues with the oldest message that is left; the error states how many were missed.
    #[cold]
    fn skip(&mut self, context: ReadContext<'_>) -> Error {
        let first_sequence = context.space.log.first_sequence();
        let next = self.position.sequence().max(self.next_sequence);
        self.next_sequence = first_sequence.clamp(next, self.end.max(next));
        self.position = TailPosition::at(self.next_sequence);
        context.stream.dropped(self.next_sequence - next, first_sequence)
    }

    /// Begins with the part that holds the next message; `false` if none does.
    #[cold]
    fn read_sealed(&mut self, context: ReadContext<'_>) -> Result<bool, Error> {
        let next = self.position.sequence().max(self.next_sequence);
        self.next_sequence = next;
        loop {
            context.space.refresh_catalog()?;
            let catalog = context.space.catalog();
            let Some(part) = catalog.parts_between(next..next.saturating_add(1)).next() else {
                return Ok(false);
            };
            let opened = History::of_arrivals(context, part, next);
            match opened {
                Ok(history) => self.sealed = Some((Box::new(history), part.sequences.end)),
                Err(error) if error.is_missing_file() && context.space.is_newer_than(&catalog)? => continue,
                Err(error) if error.is_missing_file() || error.is_damage() => {
                    self.errors.push_back(error);
                    self.next_sequence = part.sequences.end.min(self.end);
                    self.position = TailPosition::at(self.next_sequence);
                }
                Err(error) => return Err(error),
            }
            self.errors.extend(lost_messages::of_part(&context.space.directory, part));
            self.drained = false;
            return Ok(true);
        }
    }

    fn advance_sealed(&mut self, filter: &mut Filter, context: ReadContext<'_>) -> Result<bool, Error> {
        let Some((history, end)) = &mut self.sealed else { return Ok(false) };
        self.positioned = false;
        let advanced = match history.advance(filter, context) {
            // The part has been replaced, or is missing, which the next read reports.
            Err(error) if error.is_missing_file() => {
                self.position = TailPosition::at(self.next_sequence);
                (self.sealed, self.drained) = (None, true);
                return Ok(false);
            }
            advanced => advanced?,
        };
        if advanced
            && let Some(block) = history.current()
            && block.sequence() < self.end
        {
            self.next_sequence = block.sequence() + 1;
            self.positioned = true;
            return Ok(true);
        }
        self.next_sequence = (*end).min(self.end);
        self.position = TailPosition::at(self.next_sequence);
        (self.sealed, self.drained) = (None, true);
        Ok(false)
    }
}

/// Where the next messages of a watch of some messages are.
enum FromPicked {
    /// They are loaded; or the next call finds them.
    Loaded,
    /// There are none yet.
    None,
    /// In files.
    InFiles,
}

/// Whether the requested messages may have been sealed.
fn is_sealed(error: &Error) -> bool {
    error.is_missing_file() || error.is_trimmed()
}
