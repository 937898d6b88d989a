//! What kdb+ subscribers and the publisher share: the position of the publisher, and the log from which subscribers replay.
//!
//! Always true, under the lock: all rows below `nexts`, and no others, are in the log and were sent to all subscribers of that
//! time. So a client that subscribes and reads the count in one step can replay so many records, without a gap and without a
//! record twice. Rows are in the log, and reach subscribers, in the order in which they arrived at the plant, over all tables.
//! Rows of a day are in its log, and reach subscribers before the end of the day does.

use super::counters::Counters;
use super::filter::Filter;
use super::journal::Journal;
use super::options::FrontProbe;
use super::subscriber::{Connection, Slow, Subscriber};
use crate::arrivals::ArrivalPosition;
use crate::date::Date;
use crate::plan::Plan;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module.
pub(super) struct Hub {
    plan: Plan,
    state: Mutex<State>,
    is_stopping: AtomicBool,
    failure: Mutex<Option<String>>,
    pub counters: Counters,
    pub probe: Option<Arc<dyn FrontProbe>>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("state", &self.state).finish_non_exhaustive()
    }
}

/// What changes with each update.
#[derive(Debug)]
pub(super) struct State {
    pub date: Date,
    pub(super) midnight: i64,
    /// For each table the sequence number after the last row published.
    pub(super) nexts: Vec<u64>,
    /// Sequence number of the first message of the calendar that has not been published.
    pub(super) next_day: u64,
    /// Its position in the order of arrival.
    pub(super) position: ArrivalPosition,
    /// For each table the sequence number of the first row of the day.
    pub firsts: Vec<u64>,
    pub(super) journal: Option<Journal>,
    pub(super) subscribers: Vec<Subscriber>,
}

impl Hub {
    /// A hub with an initial state, which publishes nothing by itself.
    pub fn new(plan: Plan, state: State, probe: Option<Arc<dyn FrontProbe>>) -> Self {
        Self {
            plan,
            state: Mutex::new(state),
            is_stopping: AtomicBool::new(false),
            failure: Mutex::default(),
            counters: Counters::default(),
            probe,
        }
    }

    /// The plant.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Nothing is published while it is held.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why it cannot publish.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_failure(&self, failure: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Ends the publisher.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }
}

impl State {
    /// Updates so far today; `None` without a log.
    pub fn count(&self) -> Option<u64> {
        self.journal.as_ref().map(Journal::records)
    }

    /// Path of today's log.
    pub fn log_path(&self) -> Option<PathBuf> {
        self.journal.as_ref().map(Journal::path)
    }

    /// Rows of a table today.
    pub fn rows(&self, table: usize) -> u64 {
        self.nexts[table].saturating_sub(self.firsts[table])
    }

    /// Makes a connection a subscriber of some rows of a table; with `adds`, in addition to those it has.
    ///
    /// # Errors
    /// The answer for too many symbols; the subscription is then unchanged.
    pub fn subscribe(
        &mut self,
        of: &Connection,
        table: usize,
        filter: Filter,
        adds: bool,
    ) -> Result<(), String> {
        let at = self.subscribers.iter().position(|subscriber| subscriber.id == of.id);
        let at = at.unwrap_or_else(|| {
            self.subscribers.push(Subscriber::new(of, self.nexts.len()));
            self.subscribers.len() - 1
        });
        let subscriber = &mut self.subscribers[at];
        let before = subscriber.filters[table].as_ref().filter(|_| adds);
        let filter = filter.and(before)?;
        subscriber.filters[table] = Some(filter);
        if let Some(lag) = &mut subscriber.lag {
            lag.nexts[table] = lag.nexts[table].max(self.nexts[table]);
        }
        Ok(())
    }

    /// Ends a subscription to a table, or all of a connection's.
    pub fn unsubscribe(&mut self, id: u64, table: Option<usize>) {
        match (table, self.subscribers.iter_mut().find(|subscriber| subscriber.id == id)) {
            (Some(table), Some(subscriber)) => subscriber.filters[table] = None,
            _ => self.subscribers.retain(|subscriber| subscriber.id != id),
        }
    }

    /// Sets what is done with a connection's updates when it is slow.
    pub fn set_slow(&mut self, id: u64, slow: Slow) {
        if let Some(subscriber) = self.subscribers.iter_mut().find(|subscriber| subscriber.id == id) {
            subscriber.slow = slow;
        }
    }
}

pub(super) fn names(plan: &Plan) -> Vec<&str> {
    plan.tables().iter().map(|(table, _)| table.name()).collect()
}
