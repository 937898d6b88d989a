//! A subscriber: what it wants, and what is done when it does not read fast enough.

use super::counters::Counters;
use super::filter::Filter;
use super::outbox::Outbox;
use super::update::{
    UPDATE_BYTES, UPDATE_ROWS_MAX, Update, bytes_of, end_message, joined, last_of_each, picked,
};
use crate::arrivals::ArrivalPosition;
use crate::date::Date;
use crate::table::Table;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tapedb_engine::Stream;
use tapedb_kdb_ipc::Value;

/// Most rows of a table that wait for one subscriber that gets only the last of each symbol; beyond, it is disconnected.
const PENDING_ROWS_MAX: usize = 1_000_000;
/// Most bytes of such rows, estimated.
const PENDING_BYTES_MAX: usize = 64 << 20;
/// What is done with a subscriber that does not read fast enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Slow {
    /// Its missing rows are read from the plant's streams, at its own pace, until it has caught up.
    #[default]
    Replay,
    /// It is disconnected.
    Disconnect,
    /// Of the rows that it could not be sent, it gets only the last one of each symbol.
    Conflate,
}

#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) id: u64,
    pub(super) outbox: Arc<Outbox>,
    pub(super) filters: Vec<Option<Filter>>,
    pub(super) slow: Slow,
    pub(super) compresses: bool,
    /// It is behind, and its connection reads the streams.
    pub(super) lag: Option<Lag>,
    /// Rows that could not be sent yet, by table.
    pending: Vec<Option<Pending>>,
}

/// Rows of a table that wait until a subscriber reads again. Always true: they contain the last row of each symbol of all rows.
#[derive(Debug, Clone)]
struct Pending {
    columns: Vec<Value>,
    bytes: usize,
    /// Rows and bytes after the last conflation.
    rows_conflated: usize,
    bytes_conflated: usize,
}

/// The position of a subscriber that is behind.
#[derive(Debug, Clone)]
pub(super) struct Lag {
    pub(super) nexts: Vec<u64>,
    pub(super) next_day: u64,
    pub(super) position: ArrivalPosition,
    pub(super) date: Date,
    pub(super) midnight: i64,
}

/// The connection of a subscriber.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pub id: u64,
    pub outbox: Arc<Outbox>,
    pub slow: Slow,
    /// Whether long messages to it are compressed.
    pub compresses: bool,
}

impl Subscriber {
    pub(super) fn new(of: &Connection, tables: usize) -> Self {
        let Connection { id, outbox, slow, compresses } = of.clone();
        let (filters, pending) = (vec![None; tables], vec![None; tables]);
        Self { id, outbox, filters, slow, compresses, lag: None, pending }
    }

    /// Sends rows of a table, or handles them as for a slow subscriber. `before`: its position before them.
    pub(super) fn send(&mut self, table: usize, update: &Update, before: &Lag, counters: &Counters) {
        let Some(filter) = &self.filters[table] else { return };
        if self.lag.is_some() {
            return;
        }
        let rows = match filter {
            Filter::All => None,
            Filter::Symbols(symbols) => Some(update.rows_of(symbols)),
        };
        if rows.as_ref().is_some_and(Vec::is_empty) {
            return;
        }
        if self.pending[table].is_some() {
            self.conflate(table, update, rows.as_deref(), counters);
            return;
        }
        let bytes = update.wanted(rows.as_deref(), self.compresses);
        if bytes.is_none_or(|bytes| self.outbox.update(&bytes)) || self.outbox.is_closed() {
            return;
        }
        match self.slow {
            Slow::Disconnect => {
                counters.disconnected.fetch_add(1, Ordering::Relaxed);
                self.outbox.close();
            }
            Slow::Replay => {
                counters.replayed.fetch_add(1, Ordering::Relaxed);
                self.lag = Some(before.clone());
                self.outbox.set_behind(true);
            }
            Slow::Conflate => self.conflate(table, update, rows.as_deref(), counters),
        }
    }

    /// Adds rows to those that wait. When these have doubled, only the last of each symbol stays, so that the cost of a row does
    /// not depend on how many wait.
    fn conflate(&mut self, table: usize, update: &Update, rows: Option<&[u32]>, counters: &Counters) {
        let all: Vec<u32>;
        let rows = match rows {
            Some(rows) => rows,
            None => {
                all = (0..update.rows as u32).collect();
                &all
            }
        };
        let columns: Vec<Value> = update.columns.iter().map(|column| picked(column, rows)).collect();
        let bytes = bytes_of(&columns);
        let mut pending = match self.pending[table].take() {
            Some(Pending { columns: waiting, bytes: waiting_bytes, rows_conflated, bytes_conflated }) => {
                let columns = waiting.into_iter().zip(columns).map(|(a, b)| joined(a, &b)).collect();
                Pending { columns, bytes: waiting_bytes + bytes, rows_conflated, bytes_conflated }
            }
            None => Pending { columns, bytes, rows_conflated: 0, bytes_conflated: 0 },
        };
        if pending.has_doubled() {
            pending.conflate(counters);
        }
        if pending.rows() > PENDING_ROWS_MAX || pending.bytes > PENDING_BYTES_MAX {
            counters.disconnected.fetch_add(1, Ordering::Relaxed);
            self.outbox.close();
        }
        self.pending[table] = Some(pending);
        self.count_pending();
    }

    fn count_pending(&self) {
        self.outbox.set_pending(self.pending.iter().flatten().map(|pending| pending.bytes).sum());
    }

    /// Sends the waiting rows, if the outbox is empty.
    pub(super) fn send_pending(&mut self, tables: &[(Table, Stream)], counters: &Counters) {
        for (table, (def, _)) in tables.iter().enumerate() {
            if self.outbox.queued() > 0 {
                return;
            }
            self.force_pending(table, def, counters);
        }
    }

    /// Sends the waiting rows of a table, which are few.
    fn force_pending(&mut self, table: usize, def: &Table, counters: &Counters) {
        let Some(mut pending) = self.pending[table].take() else { return };
        self.count_pending();
        pending.conflate(counters);
        if let Some(bytes) = Update::new(def, pending.columns).bytes(self.compresses) {
            self.outbox.force(bytes);
        }
    }

    /// Sends the end of a day, after the waiting rows of it.
    pub(super) fn end(&mut self, date: Date, tables: &[(Table, Stream)], counters: &Counters) {
        if self.lag.is_some() {
            // It reads the end from the streams too.
            return;
        }
        for (table, (def, _)) in tables.iter().enumerate() {
            self.force_pending(table, def, counters);
        }
        self.outbox.force(end_message(date));
    }
}

impl Pending {
    fn rows(&self) -> usize {
        self.columns.first().and_then(Value::len).unwrap_or(0)
    }

    fn has_doubled(&self) -> bool {
        self.rows() > 2 * self.rows_conflated + UPDATE_ROWS_MAX
            || self.bytes > 2 * self.bytes_conflated + UPDATE_BYTES
    }

    /// Drops all rows but the last of each symbol.
    fn conflate(&mut self, counters: &Counters) {
        let last = last_of_each(&self.columns);
        let dropped = self.rows() - last.len();
        counters.conflated_rows.fetch_add(dropped as u64, Ordering::Relaxed);
        if dropped > 0 {
            self.columns = self.columns.iter().map(|column| picked(column, &last)).collect();
        }
        self.bytes = bytes_of(&self.columns);
        (self.rows_conflated, self.bytes_conflated) = (last.len(), self.bytes);
    }
}
