//! A stream's messages up to one moment, in time order, however they arrived.
//!
//! Granules are taken in the order of their first (reading backwards: last) time. As long as they follow each other
//! in time, which is what a feed writes, one is open at a time. Where late messages made them overlap, all those that
//! reach over the current time are open and merged. Memory is bounded by how many granules overlap at any one time,
//! each of 256 KiB or one batch; and by the list of wanted granules, a copy of their index entries: 56 bytes for each
//! 256 KiB of the log.

use crate::block::{Block, Order};
use crate::error::Error;
use crate::filter::Filter;
use crate::missing;
use crate::stream::StreamInner;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use tapedb_log::{Granule, Log, Snapshot};

/// Place of a message in a stream's history: its time, then its sequence number.
pub(crate) type Key = (i64, u64);

/// Messages in time order up to the end of a snapshot.
///
/// Always true after a step: the lead block's current row comes before all rows of `waiting` and of the granules not
/// yet opened, the first of which is at `limit` or behind it.
#[derive(Debug)]
pub(crate) struct History {
    /// Wanted granules in the order in which they must be opened.
    granules: Vec<Granule>,
    opened: usize,
    reversed: bool,
    /// Only messages after this place, in the direction of reading.
    after: Option<Key>,
    /// Only messages with sequence numbers below this: the last granule may have grown since.
    end: u64,
    blocks: Vec<Block>,
    free: Vec<usize>,
    lead: Option<usize>,
    /// Open blocks but the lead, by the rank of their current row.
    waiting: BinaryHeap<Reverse<(Key, usize)>>,
    /// The lead needs no look at the others while its rank is below this.
    limit: Key,
    /// Whether rows may be before `after` or behind `end`.
    is_bounded: bool,
    /// Whether the lead's current row has not been given yet.
    fresh: bool,
    errors: VecDeque<Error>,
}

impl History {
    /// All of the snapshot's messages below `end` that `filter` wants, behind `after`. What the log knows to be missing
    /// among them is told first, whatever the filter: nobody can say which messages they were.
    pub fn new(
        (log, snapshot): (&Log, &Snapshot),
        filter: &Filter,
        reversed: bool,
        after: Option<Key>,
        end: u64,
    ) -> Self {
        let wanted = |granule: &&Granule| granule.first_sequence < end && filter.wants_granule(granule);
        let mut granules: Vec<Granule> = snapshot.iter().filter(wanted).copied().collect();
        let rank = |granule: &Granule| first_rank(granule, reversed);
        if !granules.is_sorted_by_key(rank) {
            granules.sort_by_key(rank);
        }
        Self {
            granules,
            opened: 0,
            reversed,
            after,
            end,
            blocks: Vec::new(),
            free: Vec::new(),
            lead: None,
            waiting: BinaryHeap::new(),
            limit: (i64::MIN, 0),
            is_bounded: after.is_some() || snapshot.next_sequence() > end,
            fresh: false,
            errors: missing::below(end, log, snapshot),
        }
    }

    /// The block that stands on the current row; there is one after [`History::advance`] returned `true`.
    #[inline]
    pub fn current(&self) -> Option<&Block> {
        Some(&self.blocks[self.lead?])
    }

    /// [`History::advance`] where nothing but the next row of the lead block needs a look; `false` where more does.
    #[inline]
    pub fn advance_plainly(&mut self) -> bool {
        // After an error, and where rows may be out of bounds, each takes a closer look.
        if self.fresh || self.is_bounded {
            return false;
        }
        match self.lead {
            // Backwards, no block is plain: so ranks are keys.
            Some(lead) => self.blocks[lead].advance_plainly(self.limit),
            None => false,
        }
    }

    /// Moves to the next wanted message. `false`: there is none left.
    ///
    /// # Errors
    /// Damage, once each; the next call goes on after it. What the system refuses: the next call tries it again.
    #[inline]
    pub fn advance(&mut self, filter: &mut Filter, stream: &StreamInner) -> Result<bool, Error> {
        loop {
            let found = self.step(filter, stream);
            if let Some(error) = self.errors.pop_front() {
                self.fresh = found;
                return Err(error);
            }
            match self.lead {
                Some(lead) if self.is_bounded && !self.is_within(lead) => {}
                _ => return Ok(found),
            }
        }
    }

    /// Finds the next row; `false` when there is none.
    #[inline]
    fn step(&mut self, filter: &mut Filter, stream: &StreamInner) -> bool {
        if self.fresh {
            self.fresh = false;
            return self.lead.is_some();
        }
        if !self.errors.is_empty() {
            // Told before anything new is looked at.
            return false;
        }
        if let Some(lead) = self.lead {
            if self.blocks[lead].advance(filter, stream, &mut self.errors) {
                if self.rank_of(lead) < self.limit {
                    return true;
                }
            } else {
                self.free.push(lead);
                self.lead = None;
            }
        }
        self.choose_lead(filter, stream);
        self.lead.is_some()
    }

    /// Makes the block with the next row the lead, opening granules that may hold it. There is no lead where there is
    /// no next row, and where a granule cannot be read: the next call goes on with it.
    fn choose_lead(&mut self, filter: &mut Filter, stream: &StreamInner) {
        loop {
            let lead = self.lead.map(|lead| self.rank_of(lead));
            let waiting = self.waiting.peek().map(|Reverse((rank, _))| *rank);
            let unopened = self.granules.get(self.opened).map(|granule| first_rank(granule, self.reversed));
            if is_next(unopened, [lead, waiting]) {
                if let Err(error) = self.open_next(filter, stream) {
                    self.errors.push_back(error);
                    self.park_lead();
                    return;
                }
            } else if lead.is_none_or(|lead| waiting.is_some_and(|waiting| waiting < lead)) {
                self.park_lead();
                self.lead = self.waiting.pop().map(|Reverse((_, slot))| slot);
                if self.lead.is_none() {
                    return;
                }
            } else {
                self.limit = waiting.into_iter().chain(unopened).min().unwrap_or(LAST);
                return;
            }
        }
    }

    /// Lets the lead wait like the others.
    fn park_lead(&mut self) {
        if let Some(lead) = self.lead.take() {
            self.waiting.push(Reverse((self.rank_of(lead), lead)));
        }
    }

    /// Reads the next granule and lets its first wanted row wait. Damage goes to `errors`.
    ///
    /// # Errors
    /// When it cannot be read: it is still the next one.
    fn open_next(&mut self, filter: &mut Filter, stream: &StreamInner) -> Result<(), Error> {
        let granule = self.granules[self.opened];
        let slot = self.free.pop().unwrap_or_else(|| {
            self.blocks.push(Block::new(if self.reversed { Order::TimeReversed } else { Order::Time }));
            self.blocks.len() - 1
        });
        let block = &mut self.blocks[slot];
        if let Err(error) = stream.read(&granule, block.bytes_mut()) {
            self.free.push(slot);
            return Err(error);
        }
        self.opened += 1;
        block.load(&stream.log, &granule.span(), granule.sorted, filter, stream, &mut self.errors);
        if block.advance(filter, stream, &mut self.errors) {
            self.waiting.push(Reverse((self.rank_of(slot), slot)));
        } else {
            self.free.push(slot);
        }
        Ok(())
    }

    /// Whether a block's current row is neither behind the end nor before the place to go on from.
    #[inline]
    fn is_within(&self, slot: usize) -> bool {
        self.blocks[slot].current.sequence < self.end
            && self.after.is_none_or(|after| self.rank_of(slot) > rank(after, self.reversed))
    }

    #[inline]
    fn rank_of(&self, slot: usize) -> Key {
        let current = &self.blocks[slot].current;
        rank((current.time, current.sequence), self.reversed)
    }
}

/// No row comes behind this rank.
const LAST: Key = (i64::MAX, u64::MAX);

/// Whether something of the next granule may come before all of `others`, which are not there or open.
fn is_next(unopened: Option<Key>, others: [Option<Key>; 2]) -> bool {
    unopened.is_some_and(|unopened| others.into_iter().flatten().all(|other| unopened <= other))
}

/// Keys in the direction of reading: backwards, the complement turns the order of each part around.
#[inline]
pub(crate) fn rank(key: Key, reversed: bool) -> Key {
    if reversed { (!key.0, !key.1) } else { key }
}

/// Nothing in the granule comes before this.
fn first_rank(granule: &Granule, reversed: bool) -> Key {
    if reversed {
        rank((granule.time_max, granule.next_sequence() - 1), true)
    } else {
        (granule.time_min, granule.first_sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_granules_is_as_small_as_promised() {
        assert_eq!(size_of::<Granule>(), 56);
    }
}
