//! Publishes what comes into a plant's streams to subscribers that speak kdb+, and writes the log from which they replay.
//!
//! One thread reads the plant in order of arrival; so it does not matter who wrote the rows, and in what way. Rows of one table
//! that come one behind the other are one record of the log and one update: `.u.i` counts them. What is always true is said in
//! [`super::hub`].

use super::hub::{Shared, State, names};
use super::subscriber::{Lag, Subscriber};
use super::update::Update;
use crate::arrivals::{Step, Subscription};
use crate::calendar::Day;
use crate::error::TickError;
use crate::gather::Gather;
use crate::kdb::convert::value_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tapedb_kdb_ipc::Value;
use tapedb_kdb_ipc::file::log::write_record;

/// Most rows that are published together.
pub(super) const PIECE_ROWS: usize = 4096;
/// Beyond so many bytes of bodies no further row is published with others.
pub(super) const PIECE_BYTES: usize = 4 << 20;
/// How long it waits for messages before it looks whether it shall stop.
const WAIT: Duration = Duration::from_millis(20);
/// Pause before it tries again what has failed.
const PAUSE: Duration = Duration::from_millis(200);

/// The thread that publishes. Always true: only table `table` has rows in `gathers`, of which `next` is the number behind the last.
pub(super) struct Publisher {
    shared: Arc<Shared>,
    gathers: Vec<Gather>,
    table: usize,
    next: u64,
    bytes: usize,
}

impl Publisher {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let gathers = shared
            .plan()
            .tables()
            .iter()
            .map(|(table, stream)| Gather::new(table, stream.layouts()))
            .collect();
        Self { shared, gathers, table: 0, next: 0, bytes: 0 }
    }

    pub(super) fn run(mut self) {
        while !self.shared.is_stopping() {
            let Err(error) = self.follow() else { break };
            self.shared.tell(Some(error.to_string()));
            self.gathers.iter_mut().for_each(|gather| drop(gather.take(0)));
            std::thread::sleep(PAUSE);
        }
    }

    /// Publishes what comes, from what was published last.
    fn follow(&mut self) -> Result<(), TickError> {
        let plan = self.shared.plan().clone();
        let mut plant = {
            let state = self.shared.lock();
            Subscription::open(&plan, &state.nexts, state.next_day, state.place)?
        };
        self.shared.tell(None);
        while !self.shared.is_stopping() {
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
        let is_full = self.gathers[self.table].len() >= PIECE_ROWS || self.bytes >= PIECE_BYTES;
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
        let begun = Instant::now();
        let mut state = self.shared.lock();
        let def = &self.shared.plan().tables()[table].0;
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
            subscriber.give(table, &update, &before, &self.shared.counters);
        }
        state.subscribers.retain(|subscriber| !subscriber.outbox.is_closed());
        (state.nexts[table], state.place) = (self.next, plant.place());
        self.shared.counters.published.fetch_add(1, Ordering::Relaxed);
        if let Some(probe) = &self.shared.probe {
            probe.published(update.rows, begun.elapsed());
        }
        Ok(())
    }

    /// Ends the day, all of whose rows have been published.
    fn end_day(&mut self, day: Day, plant: &Subscription) -> Result<(), TickError> {
        let (tables, counters) = (self.shared.plan().tables(), &self.shared.counters);
        let mut state = self.shared.lock();
        let (ended, begins) = (state.date, state.nexts.clone());
        if let Some(journal) = &mut state.journal {
            journal.roll(day.date, &names(self.shared.plan()), &begins)?;
        }
        let ends = |subscriber: &mut Subscriber| subscriber.end(ended, tables, counters);
        state.subscribers.iter_mut().for_each(ends);
        (state.date, state.midnight) = (day.date, day.midnight.0);
        state.firsts = tables.iter().map(|(table, _)| day.first_of(table.name())).collect();
        (state.next_day, state.place) = (state.next_day + 1, plant.place());
        Ok(())
    }

    fn send_pending(&self) {
        let mut state = self.shared.lock();
        let tables = self.shared.plan().tables();
        let counters = &self.shared.counters;
        state.subscribers.iter_mut().for_each(|subscriber| subscriber.send_pending(tables, counters));
        state.subscribers.retain(|subscriber| !subscriber.outbox.is_closed());
    }
}

impl State {
    /// Where a subscriber is that has been given what was published.
    fn lag(&self) -> Lag {
        let Self { nexts, next_day, place, date, midnight, .. } = self;
        Lag { nexts: nexts.clone(), next_day: *next_day, place: *place, date: *date, midnight: *midnight }
    }
}

/// The record of a log that brings rows, and the rows.
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
