//! Traffic of streams and connections: what goes in and out, counted for each.
//!
//! A counter belongs to one load or one watch. Always true: only one thread at a time adds to a counter (the
//! connection's, or the holder of the watch's lock), so counting is a load and a store; the counts of closed counters
//! are in the sums of their stream and connection, and in the total.

use std::collections::{BTreeMap, HashMap};
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Streams whose sums are stored after their last counter is closed; further ones are summed up in one row.
const STREAMS_MAX: usize = 4096;
/// The name of that row.
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

/// Appended and delivered messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Appended and stored.
    pub appended: Counts,
    /// Pushed to live cursors.
    pub delivered: Counts,
}

impl Traffic {
    fn of(direction: Direction, counts: Counts) -> Self {
        match direction {
            Direction::In => Self { appended: counts, ..Self::default() },
            Direction::Out => Self { delivered: counts, ..Self::default() },
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.appended += other.appended;
        self.delivered += other.delivered;
    }
}

/// The direction of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
}

/// The cells of a counter; one thread at a time adds to them.
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

/// A counter, until it is dropped.
#[derive(Debug)]
pub(crate) struct TrafficCounter {
    cells: Arc<Cells>,
    counters: Arc<TrafficCounters>,
    number: u64,
}

impl TrafficCounter {
    /// Counts a batch. Called by one thread at a time.
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

impl Drop for TrafficCounter {
    fn drop(&mut self) {
        self.counters.end(self.number);
    }
}

/// The traffic of a connection.
#[derive(Debug)]
pub(crate) struct ConnectionTraffic {
    /// The connection's id.
    connection: u64,
    /// Of closed counters.
    ended: Mutex<Traffic>,
}

impl ConnectionTraffic {
    /// The traffic of a new connection.
    pub fn new(connection: u64) -> Self {
        Self { connection, ended: Mutex::default() }
    }

    /// Traffic of its closed counters.
    pub fn ended(&self) -> Traffic {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All counters of a server.
#[derive(Debug, Default)]
pub(crate) struct TrafficCounters {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_number: u64,
    open: HashMap<u64, Open>,
    /// Of closed counters.
    by_stream: BTreeMap<String, Traffic>,
    total: Traffic,
}

#[derive(Debug)]
struct Open {
    direction: Direction,
    stream: String,
    connection: Arc<ConnectionTraffic>,
    cells: Arc<Cells>,
}

/// The sums of all counters.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub by_stream: BTreeMap<String, Traffic>,
    /// Of open connections, by their ids.
    pub by_connection: HashMap<u64, Traffic>,
    /// Open loads of connections, by their ids.
    pub loads_by_connection: HashMap<u64, usize>,
    pub total: Traffic,
}

impl TrafficCounters {
    /// Opens a counter.
    pub fn begin(
        self: &Arc<Self>,
        direction: Direction,
        stream: &str,
        connection: &Arc<ConnectionTraffic>,
    ) -> TrafficCounter {
        let cells: Arc<Cells> = Arc::default();
        let mut state = self.state();
        let number = state.next_number;
        state.next_number += 1;
        let open =
            Open { direction, stream: stream.into(), connection: connection.clone(), cells: cells.clone() };
        state.open.insert(number, open);
        TrafficCounter { cells, counters: self.clone(), number }
    }

    /// The sums so far.
    pub fn sums(&self) -> Sums {
        let state = self.state();
        let mut sums = Sums { by_stream: state.by_stream.clone(), total: state.total, ..Sums::default() };
        for Open { direction, stream, connection, cells } in state.open.values() {
            let traffic = Traffic::of(*direction, cells.counts());
            if *direction == Direction::In {
                *sums.loads_by_connection.entry(connection.connection).or_default() += 1;
            }
            *sums.by_stream.entry(stream.clone()).or_default() += traffic;
            *sums.by_connection.entry(connection.connection).or_default() += traffic;
            sums.total += traffic;
        }
        sums
    }

    fn end(&self, number: u64) {
        let mut state = self.state();
        let Some(Open { direction, stream, connection, cells }) = state.open.remove(&number) else { return };
        let traffic = Traffic::of(direction, cells.counts());
        let has_space = state.by_stream.len() < STREAMS_MAX || state.by_stream.contains_key(&stream);
        *state.by_stream.entry(if has_space { stream } else { OTHER.into() }).or_default() += traffic;
        state.total += traffic;
        // Still under the lock: a reader finds the counts in one of the two places.
        *connection.ended.lock().unwrap_or_else(PoisonError::into_inner) += traffic;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
