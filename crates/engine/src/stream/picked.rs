//! What a server pushes of the messages that one live cursor wants, until the cursor reads it.
//!
//! Always true, for each space: all wanted messages below `covered` have been taken; the items follow each other from there on
//! without a hole, and what a server leaves out is an item too ([`Item::Skip`]), which the cursor reads from files. So the memory of
//! a cursor that does not read is that of the credit that the server got.

use crate::stream::remote::{Remote, Watch};
use crate::upstream::{Grown, Picked, Watcher};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tapedb_codec::batch::BatchHeader;
use tapedb_log::Span;

/// Neighbouring pushes become one item up to this many bytes.
const ITEM_BYTES: usize = 64 << 10;

/// Pushes of the messages that one cursor wants, for as long as it holds this.
#[derive(Debug)]
pub(crate) struct PickedWatch {
    queues: Arc<Queues>,
    watch: Arc<Watch>,
}

/// What was pushed and not read. The connection holds it weakly.
#[derive(Debug)]
pub(crate) struct Queues {
    remote: Arc<Remote>,
    spaces: Vec<Queue>,
}

#[derive(Debug)]
struct Queue {
    state: Mutex<QueueState>,
    /// Number of items: readable without the lock.
    len: AtomicUsize,
}

#[derive(Debug)]
struct QueueState {
    covered: u64,
    items: VecDeque<Item>,
}

/// A push.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// Picked rows: all that are wanted from `first_sequence` to before `next_sequence`.
    Rows { first_sequence: u64, next_sequence: u64, rows: Vec<u8> },
    /// Whole batches, of a server that does not pick.
    Batches { span: Span, bytes: Vec<u8> },
    /// Messages before this sequence number are not pushed: they are in files.
    Skip { next_sequence: u64 },
    /// Nothing more is pushed until the cursor has read what there is in files.
    Lapsed,
}

impl PickedWatch {
    /// With the queues of a watch that has begun.
    pub fn new(queues: Arc<Queues>, watch: Arc<Watch>) -> Self {
        Self { queues, watch }
    }

    /// The watch, to wait for it.
    pub fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }

    /// The sequence number after the last message of a space that was taken.
    pub fn covered(&self, space: u32) -> u64 {
        self.queues.space(space).map_or(0, |queue| queue.lock().covered)
    }

    /// Whether a space has an item.
    #[inline]
    pub fn has_items(&self, space: u32) -> bool {
        self.queues.space(space).is_some_and(|queue| queue.len.load(Ordering::Acquire) > 0)
    }

    /// Takes the next item of a space.
    pub fn take(&self, space: u32) -> Option<Item> {
        let queue = self.queues.space(space)?;
        let mut state = queue.lock();
        let item = state.items.pop_front()?;
        state.covered = state.covered.max(item.next_sequence());
        queue.len.store(state.items.len(), Ordering::Release);
        let covered = state.covered;
        drop(state);
        self.watch.consumed(space, covered);
        Some(item)
    }

    /// All of a space before a sequence number has been read, from files.
    pub fn note_read(&self, space: u32, sequence: u64) {
        let Some(queue) = self.queues.space(space) else { return };
        let mut state = queue.lock();
        state.covered = state.covered.max(sequence);
        let covered = state.covered;
        drop(state);
        self.watch.watching_consumed(space, covered);
    }
}

impl Queues {
    /// Nothing was pushed yet; `from`: where pushes begin in each space.
    pub fn new(remote: Arc<Remote>, from: &[u64]) -> Arc<Self> {
        let queue = |from: &u64| Queue {
            state: Mutex::new(QueueState { covered: *from, items: VecDeque::new() }),
            len: AtomicUsize::new(0),
        };
        Arc::new(Self { remote, spaces: from.iter().map(queue).collect() })
    }

    fn space(&self, space: u32) -> Option<&Queue> {
        self.spaces.get(space as usize)
    }

    fn push(&self, space: u32, first_sequence: u64, item: Item) {
        let Some(queue) = self.space(space) else { return };
        queue.push(first_sequence, item);
        self.remote.notify();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, first_sequence: u64, item: Item) {
        let mut state = self.lock();
        let end = state.items.iter().rev().map(Item::next_sequence).find(|next| *next > 0);
        let end = end.unwrap_or(state.covered);
        // Of a connection before a reconnection.
        if item.next_sequence() <= end && item != Item::Lapsed {
            return;
        }
        if first_sequence > end {
            state.items.push_back(Item::Skip { next_sequence: first_sequence });
        }
        // Where it begins before the end, what was pushed before is left out when it is read: not if it is part of another item.
        let follows = first_sequence == 0 || first_sequence >= end;
        let rest = match state.items.back_mut().filter(|_| follows) {
            Some(last) => last.join(item),
            None => Some(item),
        };
        state.items.extend(rest);
        self.len.store(state.items.len(), Ordering::Release);
    }
}

impl Item {
    /// The sequence number after its last message; 0: it has none.
    fn next_sequence(&self) -> u64 {
        match self {
            Self::Rows { next_sequence, .. } | Self::Skip { next_sequence } => *next_sequence,
            Self::Batches { span, .. } => span.next_sequence(),
            Self::Lapsed => 0,
        }
    }

    /// Adds an item that follows this one; returns it if they stay apart.
    fn join(&mut self, item: Self) -> Option<Self> {
        match (self, item) {
            (Self::Rows { next_sequence, rows, .. }, Self::Rows { next_sequence: next, rows: more, .. })
                if rows.len() + more.len() <= ITEM_BYTES =>
            {
                *next_sequence = next;
                rows.extend_from_slice(&more);
                None
            }
            (Self::Skip { next_sequence }, Self::Skip { next_sequence: next }) => {
                *next_sequence = next;
                None
            }
            (Self::Lapsed, Self::Lapsed) => None,
            (_, item) => Some(item),
        }
    }
}

impl Watcher for Queues {
    fn grown(&self, space: u32, at: Grown, bytes: &[u8]) {
        let Grown { file, offset, first_sequence } = at;
        let mut next_sequence = first_sequence;
        let mut rest = bytes;
        while let Some(Ok(header)) = (!rest.is_empty()).then(|| BatchHeader::parse_stored(rest)) {
            next_sequence = header.next_sequence();
            rest = rest.get(header.batch_bytes()..).unwrap_or_default();
        }
        let count = next_sequence.saturating_sub(first_sequence);
        let span = Span { file, offset, len: bytes.len() as u32, first_sequence, count };
        self.push(space, first_sequence, Item::Batches { span, bytes: bytes.into() });
    }

    fn picked(&self, space: u32, picked: Picked, rows: &[u8]) {
        let Picked { first_sequence, next_sequence } = picked;
        self.push(space, first_sequence, Item::Rows { first_sequence, next_sequence, rows: rows.into() });
    }

    fn skipped(&self, space: u32, next_sequence: u64) {
        self.push(space, 0, Item::Skip { next_sequence });
    }

    fn lapsed(&self) {
        for space in 0..self.spaces.len() as u32 {
            self.push(space, 0, Item::Lapsed);
        }
    }

    /// What was pushed and not read is pushed again: else it would be held beside what the new credit allows.
    fn restart(&self) -> Option<Vec<u64>> {
        let from = self.spaces.iter().map(|queue| {
            let mut state = queue.lock();
            state.items.clear();
            queue.len.store(0, Ordering::Release);
            state.covered
        });
        Some(from.collect())
    }

    fn symbols(&self, from: u32, names: &[&str]) {
        self.remote.symbols(from, names);
    }

    fn changed(&self) {
        self.remote.changed();
    }

    fn gone(&self, renamed: Option<&str>) {
        Watcher::gone(&*self.remote, renamed);
    }

    fn denied(&self, what: &str) {
        self.remote.denied(what);
    }

    fn interrupted(&self) {}

    fn resumed(&self) {
        self.remote.resumed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(first_sequence: u64, next_sequence: u64, rows: &[u8]) -> Item {
        Item::Rows { first_sequence, next_sequence, rows: rows.into() }
    }

    fn pushed(items: Vec<(u64, Item)>) -> Vec<Item> {
        let state = Mutex::new(QueueState { covered: 10, items: VecDeque::new() });
        let queue = Queue { state, len: AtomicUsize::new(0) };
        items.into_iter().for_each(|(first, item)| queue.push(first, item));
        assert_eq!(queue.len.load(Ordering::Relaxed), queue.lock().items.len());
        queue.lock().items.drain(..).collect()
    }

    #[test]
    fn pushes_follow_each_other_without_a_hole() {
        assert_eq!(pushed(vec![(10, rows(10, 12, b"a")), (12, rows(12, 19, b"b"))]), [rows(10, 19, b"ab")]);
        let skip = |next_sequence| Item::Skip { next_sequence };
        assert_eq!(pushed(vec![(15, rows(15, 16, b"a"))]), [skip(15), rows(15, 16, b"a")], "a hole");
        assert_eq!(
            pushed(vec![(0, skip(12)), (0, skip(14)), (14, rows(14, 15, b""))]),
            [skip(14), rows(14, 15, b"")]
        );
        assert_eq!(
            pushed(vec![(5, rows(5, 10, b"a")), (10, rows(10, 11, b"b"))]),
            [rows(10, 11, b"b")],
            "read before"
        );
        assert_eq!(
            pushed(vec![(10, rows(10, 12, b"a")), (11, rows(11, 14, b"b"))]),
            [rows(10, 12, b"a"), rows(11, 14, b"b")],
            "an overlap"
        );
        assert_eq!(pushed(vec![(0, Item::Lapsed), (0, Item::Lapsed)]), [Item::Lapsed]);
        let long = vec![0; ITEM_BYTES];
        assert_eq!(pushed(vec![(10, rows(10, 11, &long)), (11, rows(11, 12, b"b"))]).len(), 2);
    }
}
