//! A subscriber that could not keep up reads the plant for itself, at its own pace, until it has caught up: it costs the plant no
//! memory and delays nobody.

use super::hub::{Shared, State};
use super::outbox::Outbox;
use super::publisher::{PIECE_BYTES, PIECE_ROWS};
use super::subscriber::{Filter, Lag};
use super::update::{Update, end_message};
use crate::arrivals::{Step, Subscription};
use crate::calendar::Day;
use crate::error::TickError;
use crate::gather::Gather;
use crate::kdb::convert::value_of;
use std::sync::Arc;

/// A subscriber's own reading. Always true: it has been given all rows below the numbers in `lag`, and no others, but for those in
/// the gather of table `table`; it reads no row that has not been published to others.
#[derive(Debug)]
pub(super) struct CatchUp {
    lag: Lag,
    filters: Vec<Option<Filter>>,
    /// Rows below these numbers were there when the table was subscribed to: they are not sent.
    begins: Vec<u64>,
    gathers: Vec<Gather>,
    table: usize,
    plant: Subscription,
}

impl CatchUp {
    /// Gives the next rows to a subscriber that is behind and has been sent everything so far; `false`: it is not behind any
    /// more.
    ///
    /// # Errors
    /// What keeps the streams from being read.
    pub fn step(reading: &mut Option<Self>, hub: &Shared, id: u64) -> Result<bool, TickError> {
        if !Self::look(reading, hub, id)? {
            return Ok(false);
        }
        let Some(reading) = reading else { return Ok(false) };
        reading.read(hub, id)?;
        Ok(true)
    }

    /// Looks how far the others are; `false`: as far as this one, which gets its updates with them again.
    fn look(reading: &mut Option<Self>, hub: &Shared, id: u64) -> Result<bool, TickError> {
        let Some(lag) = lag_of(&hub.lock(), id) else { return Ok(false) };
        if reading.is_none() {
            *reading = Some(Self::new(hub, lag)?);
        }
        let Some(own) = reading else { return Ok(false) };
        let mut state = hub.lock();
        let State { nexts, next_day, subscribers, .. } = &mut *state;
        let Some(subscriber) = subscribers.iter_mut().find(|known| known.id == id) else {
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

    fn new(hub: &Shared, lag: Lag) -> Result<Self, TickError> {
        let tables = hub.plan().tables().iter();
        let gathers: Vec<_> = tables.map(|(table, stream)| Gather::new(table, stream.layouts())).collect();
        let plant = Subscription::open(hub.plan(), &lag.nexts, lag.next_day, lag.place)?;
        let (filters, begins) = (vec![None; gathers.len()], lag.nexts.clone());
        Ok(Self { lag, filters, begins, gathers, table: 0, plant })
    }

    /// Reads and sends a piece.
    fn read(&mut self, hub: &Shared, id: u64) -> Result<(), TickError> {
        let mut bytes = 0;
        for _ in 0..PIECE_ROWS {
            if bytes >= PIECE_BYTES {
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

    fn take(&mut self, table: usize, hub: &Shared, id: u64) -> usize {
        if table != self.table {
            self.send(hub, id);
            self.table = table;
        }
        let Some(message) = self.plant.message(table) else { return 0 };
        self.lag.nexts[table] = message.sequence() + 1;
        // What nobody asked for is passed over.
        if self.filters[table].is_none() || message.sequence() < self.begins[table] {
            return 0;
        }
        self.gathers[table].push(&message);
        message.body().len()
    }

    fn end_day(&mut self, day: &Day, hub: &Shared, id: u64) {
        self.send(hub, id);
        if let Some((outbox, _)) = outbox_of(hub, id) {
            outbox.force(end_message(self.lag.date));
        }
        (self.lag.date, self.lag.midnight) = (day.date, day.midnight.0);
        self.lag.next_day += 1;
    }

    /// Sends what has been gathered.
    fn send(&mut self, hub: &Shared, id: u64) {
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
    state.subscribers.iter().find(|known| known.id == id)?.lag.clone()
}

/// The outbox of a subscriber that is still there, and whether what is sent to it is compressed.
fn outbox_of(hub: &Shared, id: u64) -> Option<(Arc<Outbox>, bool)> {
    let state = hub.lock();
    let subscriber = state.subscribers.iter().find(|known| known.id == id)?;
    Some((subscriber.outbox.clone(), subscriber.compresses))
}
