//! Updates that wait for a snapshot: it may come after the updates that continue it.

use super::state::PriceChange;
use std::collections::VecDeque;

/// Most changes that wait; the oldest are dropped, and a snapshot from before them is then too old.
const CHANGES_MAX: usize = 200_000;

/// Updates in a row that a book may have already. With more of them, its numbers have begun again.
pub(super) const BEHIND_MAX: u32 = 1_000;

/// An update with the sequence numbers it covers.
#[derive(Debug, Clone)]
pub(super) struct Update {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) previous: Option<u64>,
    pub(super) changes: Vec<PriceChange>,
}

impl Update {
    /// Whether nothing is missing between a book of this sequence number and the update.
    pub(super) fn continues(&self, sequence: u64) -> bool {
        self.previous.is_some_and(|previous| previous <= sequence) || self.first <= sequence.saturating_add(1)
    }
}

/// What has come since the last change, and is older than the book.
#[derive(Debug, Clone, Default)]
pub(super) struct Behind {
    pub(super) updates: u32,
    /// The last snapshot and its sequence number.
    pub(super) snapshot: Option<(u64, Vec<PriceChange>)>,
}

impl Behind {
    pub(super) fn is_empty(&self) -> bool {
        self.updates == 0 && self.snapshot.is_none()
    }
}

/// The updates, in order of arrival.
#[derive(Debug, Clone, Default)]
pub(super) struct Waiting {
    updates: VecDeque<Update>,
    changes: usize,
}

impl Waiting {
    pub(super) fn push(&mut self, update: Update) {
        self.changes += update.changes.len() + 1;
        self.updates.push_back(update);
        while self.changes > CHANGES_MAX
            && let Some(dropped) = self.updates.pop_front()
        {
            self.changes -= dropped.changes.len() + 1;
        }
    }

    /// Drops updates that a book of this sequence number has already.
    pub(super) fn drop_through(&mut self, sequence: u64) {
        while let Some(update) = self.updates.front()
            && update.last <= sequence
        {
            self.pop();
        }
    }

    pub(super) fn front(&self) -> Option<&Update> {
        self.updates.front()
    }

    pub(super) fn pop(&mut self) -> Option<Update> {
        let update = self.updates.pop_front()?;
        self.changes -= update.changes.len() + 1;
        Some(update)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
