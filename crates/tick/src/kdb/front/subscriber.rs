//! One who subscribes: what it wants, and what is done when it does not read fast enough.

use super::hub::Counters;
use super::outbox::Outbox;
use super::publisher::{PIECE_BYTES, PIECE_ROWS};
use super::update::{Update, bytes_of, end_message, joined, last_of_each, picked};
use crate::arrivals::Place;
use crate::date::Date;
use crate::table::Table;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tapedb_engine::Stream;
use tapedb_kdb_ipc::Value;

/// Most rows of a table that wait for one subscriber that gets only the last of each symbol; beyond, it is disconnected.
const PENDING_ROWS_MAX: usize = 1_000_000;
/// Most bytes of such rows, about.
const PENDING_BYTES_MAX: usize = 64 << 20;
/// Most symbols of a subscription to one table.
pub(super) const FILTER_SYMBOLS_MAX: usize = 100_000;

/// What is done with a subscriber that does not read fast enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Slow {
    /// What it has not been sent is read from the plant's streams, at its own pace, until it has caught up.
    #[default]
    Replay,
    /// It is disconnected.
    Disconnect,
    /// It gets only the last row of each symbol of what it could not be sent.
    Conflate,
}

#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) id: u64,
    pub(super) outbox: Arc<Outbox>,
    pub(super) filters: Vec<Option<Filter>>,
    pub(super) slow: Slow,
    pub(super) compresses: bool,
    /// It is behind, and reads for itself.
    pub(super) lag: Option<Lag>,
    /// Rows that could not be sent yet, by table.
    pending: Vec<Option<Pending>>,
}

/// Rows of a table that wait until a subscriber reads again. Always true: the last row of each symbol of all that came is there.
#[derive(Debug, Clone)]
struct Pending {
    columns: Vec<Value>,
    bytes: usize,
    /// How many rows and bytes there were when the others were taken out last.
    rows_kept: usize,
    bytes_kept: usize,
}

/// Which rows of a table a subscriber wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Filter {
    All,
    Symbols(HashSet<Vec<u8>>),
}

impl Filter {
    /// Wants what this one and another want.
    ///
    /// # Errors
    /// When these are too many symbols.
    pub(super) fn and(self, other: Option<&Self>) -> Result<Self, String> {
        let all: HashSet<Vec<u8>> = match (self, other) {
            (Self::All, _) | (_, Some(Self::All)) => return Ok(Self::All),
            (Self::Symbols(symbols), None) => symbols,
            (Self::Symbols(symbols), Some(Self::Symbols(more))) => {
                symbols.into_iter().chain(more.iter().cloned()).collect()
            }
        };
        if all.len() > FILTER_SYMBOLS_MAX {
            return Err(format!(
                "limit: at most {FILTER_SYMBOLS_MAX} symbols; subscribe to ` and pick them yourself"
            ));
        }
        Ok(Self::Symbols(all))
    }
}

/// Where a subscriber is that reads for itself.
#[derive(Debug, Clone)]
pub(super) struct Lag {
    pub(super) nexts: Vec<u64>,
    pub(super) next_day: u64,
    pub(super) place: Place,
    pub(super) date: Date,
    pub(super) midnight: i64,
}

/// Who subscribes.
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

    /// Sends rows of a table, or does with them what is done when it is slow. `before`: where it was before them.
    pub(super) fn give(&mut self, table: usize, update: &Update, before: &Lag, counters: &Counters) {
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

    /// Adds rows to those that wait; when these have doubled, only the last of each symbol stays, so that a row costs the same
    /// however many wait.
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
            Some(Pending { columns: waiting, bytes: waiting_bytes, rows_kept, bytes_kept }) => {
                let columns = waiting.into_iter().zip(columns).map(|(a, b)| joined(a, &b)).collect();
                Pending { columns, bytes: waiting_bytes + bytes, rows_kept, bytes_kept }
            }
            None => Pending { columns, bytes, rows_kept: 0, bytes_kept: 0 },
        };
        if pending.has_doubled() {
            pending.leave_last(counters);
        }
        if pending.rows() > PENDING_ROWS_MAX || pending.bytes > PENDING_BYTES_MAX {
            counters.disconnected.fetch_add(1, Ordering::Relaxed);
            self.outbox.close();
        }
        self.pending[table] = Some(pending);
        self.note_kept();
    }

    fn note_kept(&self) {
        self.outbox.set_kept(self.pending.iter().flatten().map(|pending| pending.bytes).sum());
    }

    /// Sends what waits, if there is room again.
    pub(super) fn send_pending(&mut self, tables: &[(Table, Stream)], counters: &Counters) {
        for (table, (def, _)) in tables.iter().enumerate() {
            if self.outbox.queued() > 0 {
                return;
            }
            self.force_pending(table, def, counters);
        }
    }

    /// Sends what waits of a table, which is little.
    fn force_pending(&mut self, table: usize, def: &Table, counters: &Counters) {
        let Some(mut pending) = self.pending[table].take() else { return };
        self.note_kept();
        pending.leave_last(counters);
        if let Some(bytes) = Update::new(def, pending.columns).bytes(self.compresses) {
            self.outbox.force(bytes);
        }
    }

    /// Tells that a day has ended, behind what waits of it.
    pub(super) fn end(&mut self, date: Date, tables: &[(Table, Stream)], counters: &Counters) {
        if self.lag.is_some() {
            // It reads that for itself too.
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
        self.rows() > 2 * self.rows_kept + PIECE_ROWS || self.bytes > 2 * self.bytes_kept + PIECE_BYTES
    }

    /// Leaves the last row of each symbol.
    fn leave_last(&mut self, counters: &Counters) {
        let kept = last_of_each(&self.columns);
        let dropped = self.rows() - kept.len();
        counters.conflated_rows.fetch_add(dropped as u64, Ordering::Relaxed);
        if dropped > 0 {
            self.columns = self.columns.iter().map(|column| picked(column, &kept)).collect();
        }
        self.bytes = bytes_of(&self.columns);
        (self.rows_kept, self.bytes_kept) = (kept.len(), self.bytes);
    }
}
