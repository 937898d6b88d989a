//! A simulated feed, with the parameters of the kdb+tick throughput study: rows per update, updates per tick, the timer
//! that ticks, extra columns.
//!
//! The rows are numbered in their `size`, so that a reader of a table can check that all are there.

use crate::cell::Cells;
use crate::clock::now;
use crate::error::{TickError, asked};
use crate::kind::Kind;
use crate::plan::Plan;
use crate::table::Table;
use std::time::{Duration, Instant};
use tapedb_engine::{Loader, SymbolId};
use tapedb_schema::Timestamp;

/// Most extra columns.
pub const EXTRA_COLUMNS_MAX: usize = 1000;
/// A shorter sleep is not exact enough: the feed spins instead.
const AWAKE: Duration = Duration::from_micros(200);

/// Options of a feed.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedOptions {
    /// The table, one of [`Feed::table`]'s.
    pub table: String,
    /// Rows of an update.
    pub rows_per_update: usize,
    /// Updates that are sent when the timer ticks.
    pub updates_per_tick: usize,
    /// Time between ticks; zero: as fast as possible.
    pub interval: Duration,
    /// Columns of floats after the others.
    pub extra_columns: usize,
    /// How many symbols there are.
    pub symbols: usize,
    /// Number of the first row.
    pub first: u64,
    /// An update waits at most so long for following ones, which are then sent with it; none waits for the next tick.
    /// Zero: each is sent by itself.
    pub gather: Duration,
}

impl Default for FeedOptions {
    fn default() -> Self {
        Self {
            table: "trade".into(),
            rows_per_update: 1,
            updates_per_tick: 1,
            interval: Duration::from_millis(1),
            extra_columns: 0,
            symbols: 500,
            first: 0,
            gather: Duration::ZERO,
        }
    }
}

/// A feed, open on a plant's table. Its updates are acknowledged when [`Feed::flush`] returns.
#[derive(Debug)]
pub struct Feed {
    options: FeedOptions,
    loader: Loader,
    symbols: Vec<SymbolId>,
    type_id: u16,
    /// The current body, and where its price, size and extra columns are.
    body: Vec<u8>,
    price: usize,
    size: usize,
    extra: Vec<usize>,
    next: u64,
    sent: Instant,
}

impl Feed {
    /// The table that a feed writes: `time`, `sym`, `price`, `size`, and so many more floats.
    ///
    /// # Errors
    /// For more than [`EXTRA_COLUMNS_MAX`] extra columns.
    pub fn table(name: &str, extra_columns: usize) -> Result<Table, TickError> {
        if extra_columns > EXTRA_COLUMNS_MAX {
            return asked(format!("{extra_columns} extra columns; at most {EXTRA_COLUMNS_MAX} are possible"));
        }
        let extra = (0..extra_columns).map(|at| (format!("x{at}"), Kind::Float));
        let columns: Vec<_> = [("price".to_string(), Kind::Float), ("size".into(), Kind::Long)]
            .into_iter()
            .chain(extra)
            .collect();
        Table::of_kinds(name, Kind::Timespan, &columns)
    }

    /// Opens a feed on a local or remote plant.
    ///
    /// # Errors
    /// [`TickError::NoTable`]; [`TickError::Asked`] when the table has other columns, or the options have no rows, updates or
    /// symbols; when the table cannot be loaded.
    pub fn open(plan: &Plan, options: FeedOptions) -> Result<Self, TickError> {
        let (table, stream) = plan.table(&options.table)?;
        if *table.columns() != *Self::table(&options.table, options.extra_columns)?.columns() {
            return asked(format!(
                "table {} has other columns than the feed; see `tapedb desc`",
                options.table
            ));
        }
        if options.rows_per_update == 0 || options.updates_per_tick == 0 || options.symbols == 0 {
            return asked("a feed sends at least one row, one update and one symbol");
        }
        let cells = Cells::of(table, stream.layouts());
        let mut loader = stream.loader()?;
        loader.set_batch_bytes(8 << 20);
        let names: Vec<String> = (0..options.symbols).map(|at| format!("S{at:04}")).collect();
        let symbols = loader.symbol_ids(&names)?;
        let mut offsets = cells.cells.iter().map(|cell| cell.offset);
        let (price, size) = (offsets.next().unwrap_or_default(), offsets.next().unwrap_or_default());
        Ok(Self {
            loader,
            symbols,
            type_id: cells.type_id,
            body: vec![0; cells.fixed],
            price,
            size,
            extra: offsets.collect(),
            next: options.first,
            sent: Instant::now(),
            options,
        })
    }

    /// Number of the next row.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Sends one update whose rows have this time, now or with following ones.
    ///
    /// # Errors
    /// When it cannot be sent.
    pub fn update(&mut self, time: Timestamp) -> Result<(), TickError> {
        for _ in 0..self.options.rows_per_update {
            let number = self.next;
            let price = 100.0 + (number % 1000) as f64 / 100.0;
            put(&mut self.body, self.price, price.to_bits());
            put(&mut self.body, self.size, number);
            for at in &self.extra {
                put(&mut self.body, *at, price.to_bits());
            }
            let symbol = self.symbols[number as usize % self.symbols.len()];
            self.loader.append_body_by_id(symbol, time, self.type_id, &self.body)?;
            self.next += 1;
        }
        match self.options.gather {
            Duration::ZERO => self.send(),
            gather if self.sent.elapsed() >= gather => self.send(),
            _ => Ok(()),
        }
    }

    /// Sends the updates that wait for more.
    ///
    /// # Errors
    /// When it cannot be sent.
    pub fn send(&mut self) -> Result<(), TickError> {
        self.loader.send()?;
        if !self.options.gather.is_zero() {
            self.sent = Instant::now();
        }
        Ok(())
    }

    /// Waits until all updates are acknowledged; the table's next sequence number.
    ///
    /// # Errors
    /// When updates were refused, or there is no connection.
    pub fn flush(&mut self) -> Result<u64, TickError> {
        Ok(self.loader.flush()?)
    }

    /// Sends until `goes_on`, called before each tick with the number of the next row, returns `false`. Rows have the time at which
    /// they were due, so that delays of the feed count as latency.
    ///
    /// # Errors
    /// As [`Feed::update`].
    pub fn run(&mut self, mut goes_on: impl FnMut(u64) -> bool) -> Result<(), TickError> {
        let (began, clock) = (Instant::now(), now());
        let interval = self.options.interval;
        let mut ticks = 0u32;
        while goes_on(self.next) {
            let due = interval.saturating_mul(ticks);
            let time = if interval.is_zero() { now() } else { Timestamp(clock.0 + due.as_nanos() as i64) };
            sleep_until(began, due);
            for _ in 0..self.options.updates_per_tick {
                self.update(time)?;
            }
            if !interval.is_zero() {
                self.send()?;
            }
            ticks = ticks.saturating_add(1);
        }
        self.flush()?;
        Ok(())
    }
}

fn put(body: &mut [u8], at: usize, bits: u64) {
    if let Some(slot) = body.get_mut(at..at + 8) {
        slot.copy_from_slice(&bits.to_le_bytes());
    }
}

fn sleep_until(began: Instant, due: Duration) {
    let left = due.saturating_sub(began.elapsed());
    if left > AWAKE {
        std::thread::sleep(left - AWAKE / 2);
    }
    while began.elapsed() < due {
        std::thread::yield_now();
    }
}
