//! A space's committed messages from a sequence number on, in order of arrival.

use crate::error::Error;
use crate::interrupt;
use crate::read::block::{Block, Bounds, Key, Order};
use crate::read::filter::Filter;
use crate::read::history::History;
use crate::space::lost_messages;
use crate::stream::reader::ReadContext;
use std::collections::VecDeque;
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
        }
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
            if !self.has_more(context) {
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
            let Some(part) = catalog.parts_between(next..next.saturating_add(1)).first() else {
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

/// Whether the requested messages may have been sealed.
fn is_sealed(error: &Error) -> bool {
    error.is_missing_file() || error.is_trimmed()
}
