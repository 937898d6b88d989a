//! A stream's messages from a sequence number on, in order of arrival, as far as they have been committed.

use crate::block::{Block, Order};
use crate::error::Error;
use crate::filter::Filter;
use crate::stream::StreamInner;
use std::collections::VecDeque;
use tapedb_log::TailPosition;

/// Bytes read at once at most, but always one batch.
const READ_BYTES: usize = 256 << 10;

/// Messages in order of arrival.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Messages from this one on are not wanted.
    end: u64,
    position: TailPosition,
    /// Messages before this one have been given already: their batch may begin before it.
    next_sequence: u64,
    block: Block,
    positioned: bool,
    /// Whether nothing is left of what has been read.
    drained: bool,
    errors: VecDeque<Error>,
}

impl Tail {
    /// Goes on with `next_sequence`, up to `end`.
    pub fn new(next_sequence: u64, end: u64) -> Self {
        Self {
            end,
            position: TailPosition::at(next_sequence),
            next_sequence,
            block: Block::new(Order::Arrival),
            positioned: false,
            drained: true,
            errors: VecDeque::new(),
        }
    }

    /// Gives these errors before any message.
    pub fn tell_first(&mut self, errors: impl IntoIterator<Item = Error>) {
        self.errors.extend(errors);
        self.drained = self.errors.is_empty();
    }

    /// Sequence number of the first message that has not been given.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Whether there may be something that has not been given.
    #[inline]
    pub fn has_more(&self, stream: &StreamInner) -> bool {
        let end = stream.log.next_sequence().min(self.end);
        !self.drained || end > self.position.sequence() || stream.is_deleted()
    }

    #[inline]
    pub fn current(&self) -> Option<&Block> {
        self.positioned.then_some(&self.block)
    }

    /// Moves to the next wanted message. `false`: there is none yet.
    ///
    /// # Errors
    /// Damage, once each; the next call goes on after it.
    #[inline]
    pub fn advance(&mut self, filter: &mut Filter, stream: &StreamInner) -> Result<bool, Error> {
        loop {
            if let Some(error) = self.errors.pop_front() {
                self.positioned = false;
                return Err(error);
            }
            while self.block.advance(filter, stream, &mut self.errors) {
                // A batch that begins before the position has rows that history has given.
                let sequence = self.block.current.sequence;
                if sequence >= self.next_sequence && sequence < self.end {
                    self.next_sequence = sequence + 1;
                    self.positioned = true;
                    return Ok(true);
                }
            }
            (self.positioned, self.drained) = (false, self.errors.is_empty());
            if !self.has_more(stream) {
                self.next_sequence = self.next_sequence.max(self.position.sequence());
                return Ok(false);
            }
            if !self.drained {
                continue;
            }
            let span = stream.read_from(&mut self.position, READ_BYTES, self.block.bytes_mut())?;
            self.drained = false;
            self.block.load(&stream.log, &span, true, filter, stream, &mut self.errors);
        }
    }
}
