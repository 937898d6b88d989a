//! Publishes the rows of a plant's streams to kdb+ subscribers, and writes the log from which they replay.
//!
//! One thread reads the plant in order of arrival, so it does not matter which program wrote the rows, and how. Consecutive rows
//! of one table are one record of the log and one update: `.u.i` counts them. [`super::hub`] states what is always true.

use super::hub::{Hub, State, names};
use super::journal::Journal;
use super::options::FrontOptions;
use super::subscriber::{Lag, Subscriber};
use super::update::{UPDATE_BYTES, UPDATE_ROWS_MAX, Update};
use crate::arrivals::{ArrivalPosition, Step, Subscription};
use crate::calendar::Day;
use crate::error::{TickError, asked};
use crate::gather::Gather;
use crate::kdb::convert::value_of;
use crate::plan::Plan;
use crate::table::Table;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tapedb_engine::Stream;
use tapedb_kdb_ipc::Value;
use tapedb_kdb_ipc::file::log::write_record;

/// How long it waits for messages before it checks whether it is to stop.
const WAIT: Duration = Duration::from_millis(20);
/// Pause before a retry.
const PAUSE: Duration = Duration::from_millis(200);

/// The running publisher. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct PublisherThread {
    hub: Arc<Hub>,
    thread: Option<JoinHandle<()>>,
}

impl PublisherThread {
    /// Starts to publish; with a folder for logs, from the end of today's log, else from now on.
    pub fn start(plan: Plan, options: &FrontOptions) -> Result<Self, TickError> {
        let days = plan.days()?;
        let Some(day) = days.last() else { return asked("the calendar is empty") };
        let firsts: Vec<u64> = plan.tables().iter().map(|(table, _)| day.first_of(table.name())).collect();
        let (journal, nexts, position) = match &options.log_folder {
            Some(folder) => {
                let (journal, nexts) = Journal::open(folder, plan.name(), day.date, &names(&plan), &firsts)?;
                (Some(journal), nexts, ArrivalPosition::of_day(day))
            }
            None => {
                // The position first: rows that arrive after it are not before it.
                let position = ArrivalPosition::now(&plan)?;
                let end = |(_, stream): &(Table, Stream)| Ok(stream.stats()?.next_sequence);
                (None, plan.tables().iter().map(end).collect::<Result<_, TickError>>()?, position)
            }
        };
        let (date, midnight, next_day) = (day.date, day.midnight.0, days.len() as u64);
        let state =
            State { date, midnight, nexts, next_day, position, firsts, journal, subscribers: Vec::new() };
        let hub = Arc::new(Hub::new(plan, state, options.probe.clone()));
        let running = hub.clone();
        let thread = std::thread::Builder::new().name("kdb-hub".into());
        match thread.spawn(move || Publisher::new(running).run()) {
            Ok(thread) => Ok(Self { hub, thread: Some(thread) }),
            Err(error) => asked(format!("cannot start a thread: {error}; try again")),
        }
    }

    /// What it shares with subscribers.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }
}

impl Drop for PublisherThread {
    fn drop(&mut self) {
        self.hub.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread that publishes. Always true: only table `table` has rows in `gathers`; `next` is the number after the last of them.
pub(super) struct Publisher {
    hub: Arc<Hub>,
    gathers: Vec<Gather>,
    table: usize,
    next: u64,
    bytes: usize,
}

impl Publisher {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        let gathers =
            hub.plan().tables().iter().map(|(table, stream)| Gather::new(table, stream.layouts())).collect();
        Self { hub, gathers, table: 0, next: 0, bytes: 0 }
    }

    pub(super) fn run(mut self) {
        while !self.hub.is_stopping() {
            let Err(error) = self.follow() else { break };
            self.hub.set_failure(Some(error.to_string()));
            self.gathers.iter_mut().for_each(|gather| drop(gather.take(0)));
            std::thread::sleep(PAUSE);
        }
    }

    /// Publishes new rows, from the last published one on.
    fn follow(&mut self) -> Result<(), TickError> {
        let plan = self.hub.plan().clone();
        let mut plant = {
            let state = self.hub.lock();
            Subscription::open(&plan, &state.nexts, state.next_day, state.position)?
        };
        self.hub.set_failure(None);
        while !self.hub.is_stopping() {
            match plant.advance()? {
                Step::Row(table) => self.take(table, &plant)?,
                Step::Day(day) => {
                    self.publish(&plant)?;
                    self.end_day(day, &plant)?;
                }
                Step::Nothing => {
                    let is_idle = self.gathers[self.table].is_empty();
                    self.publish(&plant)?;
                    if is_idle {
                        self.send_pending();
                        plant.wait(WAIT)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, table: usize, plant: &Subscription) -> Result<(), TickError> {
        let is_full = self.gathers[self.table].len() >= UPDATE_ROWS_MAX || self.bytes >= UPDATE_BYTES;
        if table != self.table || is_full {
            self.publish(plant)?;
            self.table = table;
        }
        if let Some(message) = plant.message(table) {
            self.gathers[table].push(&message);
            self.bytes += message.body().len();
            self.next = message.sequence() + 1;
        }
        Ok(())
    }

    /// Publishes what has been gathered.
    fn publish(&mut self, plant: &Subscription) -> Result<(), TickError> {
        let (table, gather) = (self.table, &mut self.gathers[self.table]);
        if gather.is_empty() {
            return Ok(());
        }
        self.bytes = 0;
        let began = Instant::now();
        let mut state = self.hub.lock();
        let def = &self.hub.plan().tables()[table].0;
        let columns = gather.take(state.midnight);
        let columns = def.columns().iter().zip(&columns).enumerate();
        let columns = columns.map(|(at, (def, column))| value_of(def.kind, at == 0, column)).collect();
        let columns = match &mut state.journal {
            Some(journal) => {
                let (record, columns) = record(def.name(), columns);
                journal.append(&record)?;
                columns
            }
            None => columns,
        };
        let before = state.lag();
        let update = Update::new(def, columns);
        for subscriber in &mut state.subscribers {
            subscriber.send(table, &update, &before, &self.hub.counters);
        }
        state.subscribers.retain(|subscriber| !subscriber.outbox.is_closed());
        (state.nexts[table], state.position) = (self.next, plant.position());
        self.hub.counters.published.fetch_add(1, Ordering::Relaxed);
        if let Some(probe) = &self.hub.probe {
            probe.published(update.rows, began.elapsed());
        }
        Ok(())
    }

    /// Ends the day, all of whose rows have been published.
    fn end_day(&mut self, day: Day, plant: &Subscription) -> Result<(), TickError> {
        let (tables, counters) = (self.hub.plan().tables(), &self.hub.counters);
        let mut state = self.hub.lock();
        let (ended, begins) = (state.date, state.nexts.clone());
        if let Some(journal) = &mut state.journal {
            journal.roll(day.date, &names(self.hub.plan()), &begins)?;
        }
        let ends = |subscriber: &mut Subscriber| subscriber.end(ended, tables, counters);
        state.subscribers.iter_mut().for_each(ends);
        (state.date, state.midnight) = (day.date, day.midnight.0);
        state.firsts = tables.iter().map(|(table, _)| day.first_of(table.name())).collect();
        (state.next_day, state.position) = (state.next_day + 1, plant.position());
        Ok(())
    }

    fn send_pending(&self) {
        let mut state = self.hub.lock();
        let tables = self.hub.plan().tables();
        let counters = &self.hub.counters;
        state.subscribers.iter_mut().for_each(|subscriber| subscriber.send_pending(tables, counters));
        state.subscribers.retain(|subscriber| !subscriber.outbox.is_closed());
    }
}

impl State {
    /// The position of a subscriber that has received all published rows.
    fn lag(&self) -> Lag {
        let Self { nexts, next_day, position, date, midnight, .. } = self;
        Lag {
            nexts: nexts.clone(),
            next_day: *next_day,
            position: *position,
            date: *date,
            midnight: *midnight,
        }
    }
}

/// The record of rows in a log, and the rows.
fn record(table: &str, columns: Vec<Value>) -> (Vec<u8>, Vec<Value>) {
    let mut bytes = Vec::new();
    let mut record = vec![Value::symbol("upd"), Value::symbol(table), Value::list(columns)];
    let value = Value::list(std::mem::take(&mut record));
    write_record(&value, &mut bytes);
    let columns = match value {
        Value::List(mut list) => match list.items.pop() {
            Some(Value::List(columns)) => columns.items,
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    (bytes, columns)
}
