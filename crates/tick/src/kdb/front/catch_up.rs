//! A subscriber that could not keep up reads the plant's streams for itself, at its own pace, until it has caught up: it costs the
//! plant no memory and delays nobody.

use super::hub::Shared;
use super::publisher::{PIECE_BYTES, PIECE_ROWS};
use super::subscriber::{Filter, Lag, Subscriber};
use super::update::{Update, end_message};
use crate::error::TickError;
use crate::gather::Gather;
use crate::kdb::convert::value_of;
use tapedb_engine::Cursor;

/// A subscriber's own reading. Always true: it has been given all rows below the numbers in `lag`, and no others.
#[derive(Debug)]
pub(super) struct CatchUp {
    lag: Lag,
    filters: Vec<Option<Filter>>,
    gathers: Vec<Gather>,
    /// What there was when it was opened, in order of arrival.
    cursor: Option<Cursor>,
}

impl CatchUp {
    /// Gives the next rows to a subscriber that is behind and has been sent everything so far; `false`: it is not behind any
    /// more.
    ///
    /// # Errors
    /// What keeps the streams from being read.
    pub fn step(reading: &mut Option<Self>, hub: &Shared, id: u64) -> Result<bool, TickError> {
        if reading.as_ref().is_none_or(|reading| reading.cursor.is_none()) && !Self::look(reading, hub, id)? {
            return Ok(false);
        }
        let Some(reading) = reading else { return Ok(false) };
        reading.read(hub)?;
        reading.send(hub, id);
        Ok(true)
    }

    /// Looks how far the others are; `false`: as far as this one, which gets its updates with them again.
    fn look(reading: &mut Option<Self>, hub: &Shared, id: u64) -> Result<bool, TickError> {
        let mut state = hub.lock();
        let (all, midnight) = (state.nexts.clone(), state.midnight);
        let Some(subscriber) = state.subscribers.iter_mut().find(|known| known.id == id) else {
            return Ok(false);
        };
        let Some(lag) = &mut subscriber.lag else { return Ok(false) };
        let mut own = reading.take().unwrap_or_else(|| Self::new(hub, lag.clone()));
        own.lag.ends.clone_from(&lag.ends);
        own.filters.clone_from(&subscriber.filters);
        own.end_days(subscriber);
        // What nobody asked for needs no reading.
        for (next, (all, filter)) in own.lag.nexts.iter_mut().zip(all.iter().zip(&own.filters)) {
            if filter.is_none() {
                *next = *all;
            }
        }
        let is_there = own.lag.ends.is_empty() && own.lag.nexts.iter().zip(&all).all(|(own, all)| own >= all);
        if is_there {
            debug_assert_eq!(own.lag.midnight, midnight);
            subscriber.lag = None;
            subscriber.outbox.set_behind(false);
            return Ok(false);
        }
        drop(state);
        let streams: Vec<&str> = hub.plan().tables().iter().map(|(_, stream)| stream.name()).collect();
        let cursor = hub.plan().database().cursor(&streams)?.from_sequences(own.lag.nexts.clone());
        own.cursor = Some(cursor.open()?);
        *reading = Some(own);
        Ok(true)
    }

    fn new(hub: &Shared, lag: Lag) -> Self {
        let tables = hub.plan().tables().iter();
        let gathers = tables.map(|(table, stream)| Gather::new(table, stream.layouts())).collect();
        Self { lag, filters: Vec::new(), gathers, cursor: None }
    }

    /// Tells of days whose rows have all been given.
    fn end_days(&mut self, subscriber: &mut Subscriber) {
        while let Some((date, firsts, midnight)) = self.lag.ends.front() {
            let wanted = self.filters.iter().map(Option::is_some);
            let mut places = self.lag.nexts.iter().zip(firsts).zip(wanted);
            if places.any(|((next, first), is_wanted)| is_wanted && next < first) {
                return;
            }
            subscriber.outbox.force(end_message(*date));
            self.lag.midnight = *midnight;
            self.lag.ends.pop_front();
            if let Some(lag) = &mut subscriber.lag {
                lag.ends.pop_front();
            }
        }
    }

    fn read(&mut self, hub: &Shared) -> Result<(), TickError> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        let tables = hub.plan().tables();
        let edges = self.lag.ends.front().map(|(_, firsts, _)| firsts);
        let mut bytes = 0;
        for _ in 0..PIECE_ROWS {
            if bytes >= PIECE_BYTES {
                break;
            }
            let Some(message) = cursor.next()? else {
                self.cursor = None;
                break;
            };
            let name = message.stream().name();
            let Some(table) = tables.iter().position(|(_, stream)| stream.name() == name) else { continue };
            // Rows of the next day are read again when this one has ended.
            let is_later = edges.is_some_and(|edges| message.sequence() >= edges[table]);
            if !is_later && message.sequence() >= self.lag.nexts[table] {
                bytes += message.body().len();
                self.gathers[table].push(&message);
                self.lag.nexts[table] = message.sequence() + 1;
            }
        }
        Ok(())
    }

    fn send(&mut self, hub: &Shared, id: u64) {
        let outbox = hub
            .lock()
            .subscribers
            .iter()
            .find(|known| known.id == id)
            .map(|subscriber| (subscriber.outbox.clone(), subscriber.compresses));
        let Some((outbox, compresses)) = outbox else { return };
        for (table, (def, _)) in hub.plan().tables().iter().enumerate() {
            if self.gathers[table].is_empty() {
                continue;
            }
            let columns = self.gathers[table].take(self.lag.midnight);
            let Some(filter) = &self.filters[table] else { continue };
            let columns = def.columns().iter().zip(&columns).enumerate();
            let columns = columns.map(|(at, (def, column))| value_of(def.kind, at == 0, column)).collect();
            if let Some(bytes) = Update::new(def, columns).filtered(filter, compresses) {
                outbox.force(bytes);
            }
        }
    }
}
