//! What goes into streams and out of them, by stream and by connection.
//!
//! A flow is one load or one watch. Always true: only one thread at a time counts into a flow (the connection's, or whoever
//! holds the watch's lock), so counting is a load and a store; what flows have counted that have ended is in the sums of their
//! stream and their connection, and of all.

use crate::shared::Handle;
use std::collections::{BTreeMap, HashMap};
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Streams of which sums are kept after their last flow has ended; beyond, they are summed up together.
const STREAMS_MAX: usize = 4096;
/// What is summed up together.
pub(crate) const OTHER: &str = "(other)";

/// Batches, messages and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub batches: u64,
    pub messages: u64,
    pub bytes: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.batches += other.batches;
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// What came in and what went out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Appended, and stored.
    pub appended: Counts,
    /// Pushed to live cursors.
    pub delivered: Counts,
}

impl Traffic {
    fn of(way: Way, counts: Counts) -> Self {
        match way {
            Way::In => Self { appended: counts, ..Self::default() },
            Way::Out => Self { delivered: counts, ..Self::default() },
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.appended += other.appended;
        self.delivered += other.delivered;
    }
}

/// Which way a flow goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

/// Counts of a flow, that one thread at a time adds to.
#[derive(Debug, Default)]
struct Cells {
    batches: AtomicU64,
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Cells {
    fn counts(&self) -> Counts {
        let [batches, messages, bytes] =
            [&self.batches, &self.messages, &self.bytes].map(|cell| cell.load(Ordering::Relaxed));
        Counts { batches, messages, bytes }
    }
}

/// A flow, until it is dropped.
#[derive(Debug)]
pub(crate) struct Flow {
    cells: Arc<Cells>,
    flows: Arc<Flows>,
    number: u64,
}

impl Flow {
    /// Counts a batch. One thread at a time.
    #[inline]
    pub fn count(&self, messages: u64, bytes: usize) {
        let add = |cell: &AtomicU64, count: u64| {
            cell.store(cell.load(Ordering::Relaxed) + count, Ordering::Relaxed)
        };
        add(&self.cells.batches, 1);
        add(&self.cells.messages, messages);
        add(&self.cells.bytes, bytes as u64);
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.flows.end(self.number);
    }
}

/// All flows of a server.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_number: u64,
    open: HashMap<u64, Open>,
    /// Of those that have ended.
    by_stream: BTreeMap<String, Traffic>,
    total: Traffic,
}

#[derive(Debug)]
struct Open {
    way: Way,
    stream: String,
    connection: Arc<Handle>,
    cells: Arc<Cells>,
}

/// What all flows have counted.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub by_stream: BTreeMap<String, Traffic>,
    /// Of connections that are open, by their ids.
    pub by_connection: HashMap<u64, Traffic>,
    pub total: Traffic,
}

impl Flows {
    /// Begins a flow.
    pub fn begin(self: &Arc<Self>, way: Way, stream: &str, connection: &Arc<Handle>) -> Flow {
        let cells: Arc<Cells> = Arc::default();
        let mut state = self.state();
        let number = state.next_number;
        state.next_number += 1;
        let open = Open { way, stream: stream.into(), connection: connection.clone(), cells: cells.clone() };
        state.open.insert(number, open);
        Flow { cells, flows: self.clone(), number }
    }

    /// What has been counted by now.
    pub fn sums(&self) -> Sums {
        let state = self.state();
        let mut sums =
            Sums { by_stream: state.by_stream.clone(), by_connection: HashMap::new(), total: state.total };
        for Open { way, stream, connection, cells } in state.open.values() {
            let traffic = Traffic::of(*way, cells.counts());
            *sums.by_stream.entry(stream.clone()).or_default() += traffic;
            *sums.by_connection.entry(connection.id).or_default() += traffic;
            sums.total += traffic;
        }
        sums
    }

    fn end(&self, number: u64) {
        let mut state = self.state();
        let Some(Open { way, stream, connection, cells }) = state.open.remove(&number) else { return };
        let traffic = Traffic::of(way, cells.counts());
        let is_room = state.by_stream.len() < STREAMS_MAX || state.by_stream.contains_key(&stream);
        *state.by_stream.entry(if is_room { stream } else { OTHER.into() }).or_default() += traffic;
        state.total += traffic;
        // Under the lock still: nobody finds it in neither.
        *connection.ended.lock().unwrap_or_else(PoisonError::into_inner) += traffic;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
