//! The connection of a subscriber that is behind reads the plant at its own pace, until it has caught up: this costs the plant no
//! memory and delays no other subscriber.

use super::filter::Filter;
use super::hub::{Hub, State};
use super::outbox::Outbox;
use super::subscriber::Lag;
use super::update::{UPDATE_BYTES, UPDATE_ROWS_MAX, Update, end_message};
use crate::arrivals::{Step, Subscription};
use crate::calendar::Day;
use crate::error::TickError;
use crate::gather::Gather;
use crate::kdb::convert::value_of;
use std::sync::Arc;

/// The reading of one subscriber. Always true: it has received all rows below the numbers in `lag`, and no others, except those in
/// the gather of table `table`; no row is read that has not been published to the others.
#[derive(Debug)]
pub(super) struct CatchUp {
    lag: Lag,
    filters: Vec<Option<Filter>>,
    /// Rows below these numbers are older than the subscription to the table: they are not sent.
    begins: Vec<u64>,
    gathers: Vec<Gather>,
    table: usize,
    plant: Subscription,
}

impl CatchUp {
    /// Sends the next rows to a subscriber that is behind and has an empty outbox; `false`: it is not behind any more.
    ///
    /// # Errors
    /// When the streams cannot be read.
    pub fn step(reading: &mut Option<Self>, hub: &Hub, id: u64) -> Result<bool, TickError> {
        if !Self::is_behind(reading, hub, id)? {
            return Ok(false);
        }
        let Some(reading) = reading else { return Ok(false) };
        reading.read(hub, id)?;
        Ok(true)
    }

    /// Reads the position of the others; `false`: this one has reached it, and gets its updates with them again.
    fn is_behind(reading: &mut Option<Self>, hub: &Hub, id: u64) -> Result<bool, TickError> {
        let Some(lag) = lag_of(&hub.lock(), id) else { return Ok(false) };
        if reading.is_none() {
            *reading = Some(Self::new(hub, lag)?);
        }
        let Some(own) = reading else { return Ok(false) };
        let mut state = hub.lock();
        let State { nexts, next_day, subscribers, .. } = &mut *state;
        let Some(subscriber) = subscribers.iter_mut().find(|subscriber| subscriber.id == id) else {
            return Ok(false);
        };
        own.filters.clone_from(&subscriber.filters);
        if let Some(lag) = &subscriber.lag {
            own.begins.clone_from(&lag.nexts);
        }
        own.plant.set_caps(nexts, *next_day);
        if own.lag.next_day == *next_day && own.lag.nexts.iter().zip(&*nexts).all(|(own, all)| own >= all) {
            subscriber.lag = None;
            subscriber.outbox.set_behind(false);
            return Ok(false);
        }
        Ok(true)
    }

    fn new(hub: &Hub, lag: Lag) -> Result<Self, TickError> {
        let tables = hub.plan().tables().iter();
        let gathers: Vec<_> = tables.map(|(table, stream)| Gather::new(table, stream.layouts())).collect();
        let plant = Subscription::open(hub.plan(), &lag.nexts, lag.next_day, lag.position)?;
        let (filters, begins) = (vec![None; gathers.len()], lag.nexts.clone());
        Ok(Self { lag, filters, begins, gathers, table: 0, plant })
    }

    /// Reads and sends an update.
    fn read(&mut self, hub: &Hub, id: u64) -> Result<(), TickError> {
        let mut bytes = 0;
        for _ in 0..UPDATE_ROWS_MAX {
            if bytes >= UPDATE_BYTES {
                break;
            }
            match self.plant.advance()? {
                Step::Row(table) => bytes += self.take(table, hub, id),
                Step::Day(day) => self.end_day(&day, hub, id),
                Step::Nothing => break,
            }
        }
        self.send(hub, id);
        Ok(())
    }

    fn take(&mut self, table: usize, hub: &Hub, id: u64) -> usize {
        if table != self.table {
            self.send(hub, id);
            self.table = table;
        }
        let Some(message) = self.plant.message(table) else { return 0 };
        self.lag.nexts[table] = message.sequence() + 1;
        // Rows that are not subscribed to are skipped.
        if self.filters[table].is_none() || message.sequence() < self.begins[table] {
            return 0;
        }
        self.gathers[table].push(&message);
        message.body().len()
    }

    fn end_day(&mut self, day: &Day, hub: &Hub, id: u64) {
        self.send(hub, id);
        if let Some((outbox, _)) = outbox_of(hub, id) {
            outbox.force(end_message(self.lag.date));
        }
        (self.lag.date, self.lag.midnight) = (day.date, day.midnight.0);
        self.lag.next_day += 1;
    }

    /// Sends what has been gathered.
    fn send(&mut self, hub: &Hub, id: u64) {
        let table = self.table;
        if self.gathers[table].is_empty() {
            return;
        }
        let columns = self.gathers[table].take(self.lag.midnight);
        let Some(filter) = &self.filters[table] else { return };
        let def = &hub.plan().tables()[table].0;
        let columns = def.columns().iter().zip(&columns).enumerate();
        let columns = columns.map(|(at, (def, column))| value_of(def.kind, at == 0, column)).collect();
        let update = Update::new(def, columns);
        if let Some((outbox, compresses)) = outbox_of(hub, id)
            && let Some(bytes) = update.filtered(filter, compresses)
        {
            outbox.force(bytes);
        }
    }
}

fn lag_of(state: &State, id: u64) -> Option<Lag> {
    state.subscribers.iter().find(|subscriber| subscriber.id == id)?.lag.clone()
}

/// The outbox of a subscriber that still exists, and whether messages to it are compressed.
fn outbox_of(hub: &Hub, id: u64) -> Option<(Arc<Outbox>, bool)> {
    let state = hub.lock();
    let subscriber = state.subscribers.iter().find(|subscriber| subscriber.id == id)?;
    Some((subscriber.outbox.clone(), subscriber.compresses))
}
