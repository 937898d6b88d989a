//! What subscribers that speak kdb+ and the publisher share: how far it is, and the log from which they replay.
//!
//! Always true, under the lock: all rows below `nexts` are in the log and were given to all subscribers of that time, and no
//! others were; so who subscribes and looks at the count in one step can replay so many records and has no gap and nothing
//! twice. Rows are in the log, and reach subscribers, in the order in which they arrived at the plant, over all tables; rows of a
//! day are in its log, and reach subscribers before they are told of its end.

use super::FrontOptions;
use super::FrontProbe;
use super::journal::Journal;
use super::publisher::Publisher;
use super::subscriber::{Connection, Filter, Slow, Subscriber};
use crate::arrivals::Place;
use crate::date::Date;
use crate::error::{TickError, asked};
use crate::plan::Plan;
use crate::table::Table;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tapedb_engine::Stream;

/// See the module.
#[derive(Debug)]
pub(super) struct Hub {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

pub(super) struct Shared {
    plan: Plan,
    state: Mutex<State>,
    is_stopping: AtomicBool,
    failure: Mutex<Option<String>>,
    pub counters: Counters,
    pub probe: Option<Arc<dyn FrontProbe>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

/// What came of subscribers that were too slow.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub published: AtomicU64,
    pub disconnected: AtomicU64,
    pub replayed: AtomicU64,
    pub conflated_rows: AtomicU64,
}

/// What subscribers and the publisher share.
#[derive(Debug)]
pub(super) struct State {
    pub date: Date,
    pub(super) midnight: i64,
    /// For each table the sequence number after the last row published.
    pub(super) nexts: Vec<u64>,
    /// Sequence number of the first message of the calendar that has not been published.
    pub(super) next_day: u64,
    /// Where that is in the order of arrival.
    pub(super) place: Place,
    /// Where the day began.
    pub firsts: Vec<u64>,
    pub(super) journal: Option<Journal>,
    pub(super) subscribers: Vec<Subscriber>,
}

impl Hub {
    /// Begins to publish; with a folder for logs, from where today's log ends, else from now on.
    pub fn start(plan: Plan, options: &FrontOptions) -> Result<Self, TickError> {
        let days = plan.days()?;
        let Some(day) = days.last() else { return asked("the calendar is empty") };
        let firsts: Vec<u64> = plan.tables().iter().map(|(table, _)| day.first_of(table.name())).collect();
        let (journal, nexts, place) = match &options.log_folder {
            Some(folder) => {
                let (journal, nexts) = Journal::open(folder, plan.name(), day.date, &names(&plan), &firsts)?;
                (Some(journal), nexts, Place::of_day(day))
            }
            None => {
                // First the place: what comes meanwhile is not before it.
                let place = Place::now(&plan)?;
                let end = |(_, stream): &(Table, Stream)| Ok(stream.stats()?.next_sequence);
                (None, plan.tables().iter().map(end).collect::<Result<_, TickError>>()?, place)
            }
        };
        let (date, midnight, next_day) = (day.date, day.midnight.0, days.len() as u64);
        let state =
            State { date, midnight, nexts, next_day, place, firsts, journal, subscribers: Vec::new() };
        let shared = Arc::new(Shared {
            plan,
            state: Mutex::new(state),
            is_stopping: AtomicBool::new(false),
            failure: Mutex::default(),
            counters: Counters::default(),
            probe: options.probe.clone(),
        });
        let running = shared.clone();
        let thread = std::thread::Builder::new().name("kdb-hub".into());
        match thread.spawn(move || Publisher::new(running).run()) {
            Ok(thread) => Ok(Self { shared, thread: Some(thread) }),
            Err(error) => asked(format!("cannot begin a thread: {error}; try again")),
        }
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The plant.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Nothing is published while it is held.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What keeps it from publishing.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn tell(&self, failure: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
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

    /// Where today's log is.
    pub fn log_path(&self) -> Option<PathBuf> {
        self.journal.as_ref().map(Journal::path)
    }

    /// Rows of a table today.
    pub fn rows(&self, table: usize) -> u64 {
        self.nexts[table].saturating_sub(self.firsts[table])
    }

    /// Makes a connection a subscriber of some rows of a table; with `adds`, of these beside those that it has.
    ///
    /// # Errors
    /// What the client is told when these are too many symbols; its subscription is as it was then.
    pub fn subscribe(
        &mut self,
        of: &Connection,
        table: usize,
        filter: Filter,
        adds: bool,
    ) -> Result<(), String> {
        let place = self.subscribers.iter().position(|known| known.id == of.id);
        let place = place.unwrap_or_else(|| {
            self.subscribers.push(Subscriber::new(of, self.nexts.len()));
            self.subscribers.len() - 1
        });
        let subscriber = &mut self.subscribers[place];
        let known = subscriber.filters[table].as_ref().filter(|_| adds);
        let filter = filter.and(known)?;
        subscriber.filters[table] = Some(filter);
        if let Some(lag) = &mut subscriber.lag {
            lag.nexts[table] = lag.nexts[table].max(self.nexts[table]);
        }
        Ok(())
    }

    /// Ends a subscription to a table, or all of a connection's.
    pub fn unsubscribe(&mut self, id: u64, table: Option<usize>) {
        match (table, self.subscribers.iter_mut().find(|known| known.id == id)) {
            (Some(table), Some(subscriber)) => subscriber.filters[table] = None,
            _ => self.subscribers.retain(|known| known.id != id),
        }
    }

    /// What is done with a connection's updates when it is slow.
    pub fn set_slow(&mut self, id: u64, slow: Slow) {
        if let Some(subscriber) = self.subscribers.iter_mut().find(|known| known.id == id) {
            subscriber.slow = slow;
        }
    }
}

pub(super) fn names(plan: &Plan) -> Vec<&str> {
    plan.tables().iter().map(|(table, _)| table.name()).collect()
}
