//! Publishes what comes into a plant's streams to subscribers that speak kdb+, and writes the log from which they replay.
//!
//! One thread reads the streams with a live cursor; so it does not matter who wrote the rows, and in what way. Each piece that it
//! takes becomes one record of the log and one update: `.u.i` counts them. What is always true is said in [`super::hub`].

use super::hub::{Shared, State, names};
use super::subscriber::{Before, Subscriber};
use super::update::Update;
use crate::calendar::{Day, day_of};
use crate::error::TickError;
use crate::gather::Gather;
use crate::kdb::convert::value_of;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tapedb_engine::{Cursor, Stream};
use tapedb_kdb_ipc::Value;
use tapedb_kdb_ipc::file::log::write_record;

/// Most rows that are published together.
pub(super) const PIECE_ROWS: usize = 4096;
/// Beyond so many bytes of bodies no further row is published with others.
pub(super) const PIECE_BYTES: usize = 4 << 20;
/// How long it waits for messages before it looks at the calendar and whether it shall stop.
const WAIT: Duration = Duration::from_millis(20);
/// Pause before it tries again what has failed.
const PAUSE: Duration = Duration::from_millis(200);

/// The thread that publishes.
pub(super) struct Publisher {
    shared: Arc<Shared>,
    /// Sequence number of the calendar's next message.
    next_day: u64,
    days: VecDeque<Day>,
    gathers: Vec<Gather>,
    /// For each table the sequence number after the last row gathered.
    gathered: Vec<u64>,
}

impl Publisher {
    pub(super) fn new(shared: Arc<Shared>, next_day: u64) -> Self {
        let gathers = shared
            .plan()
            .tables()
            .iter()
            .map(|(table, stream)| Gather::new(table, stream.layouts()))
            .collect();
        let gathered = shared.lock().nexts.clone();
        Self { shared, next_day, days: VecDeque::new(), gathers, gathered }
    }

    pub(super) fn run(mut self) {
        while !self.shared.is_stopping() {
            let Err(error) = self.follow() else { break };
            self.shared.tell(Some(error.to_string()));
            self.gathers.iter_mut().for_each(|gather| drop(gather.take(0)));
            self.gathered = self.shared.lock().nexts.clone();
            std::thread::sleep(PAUSE);
        }
    }

    fn follow(&mut self) -> Result<(), TickError> {
        let plan = self.shared.plan().clone();
        let mut calendar = plan.calendar().cursor().from_sequence(self.next_day).live().open()?;
        let streams: Vec<&str> = plan.tables().iter().map(|(_, stream)| stream.name()).collect();
        let mut cursor =
            plan.database().cursor(&streams)?.from_sequences(self.gathered.clone()).live().open()?;
        let mut stage = Stage::default();
        self.shared.tell(None);
        while !self.shared.is_stopping() {
            read(&mut cursor, &streams, &mut stage)?;
            // A row of a day comes after the calendar's message: who has the row sees the message.
            while let Some(message) = calendar.next()? {
                self.days.push_back(day_of(&message)?);
                self.next_day = message.sequence() + 1;
            }
            let is_idle = stage.rows.is_empty();
            stage = self.publish(stage)?;
            if is_idle {
                self.send_pending();
                cursor.wait(WAIT)?;
            }
        }
        Ok(())
    }

    /// Publishes what has been read; days end between rows, where they end. Returns what is of a day that cannot begin yet,
    /// because rows of the day before are still to be read.
    fn publish(&mut self, mut stage: Stage) -> Result<Stage, TickError> {
        loop {
            let mut later = Stage::default();
            for (row, symbol, body) in stage.iter() {
                let edge = self.days.front().map(|day| self.first_of(day, row.table));
                if edge.is_some_and(|edge| row.sequence >= edge) {
                    later.push(row.table, row.sequence, row.time, symbol, body);
                } else if row.sequence >= self.gathered[row.table] {
                    self.gathers[row.table].push_body(row.time, symbol, body);
                    self.gathered[row.table] = row.sequence + 1;
                }
            }
            for table in 0..self.gathers.len() {
                self.publish_table(table)?;
            }
            if !self.end_day()? {
                return Ok(later);
            }
            stage = later;
        }
    }

    fn first_of(&self, day: &Day, table: usize) -> u64 {
        day.first_of(self.shared.plan().tables()[table].0.name())
    }

    fn publish_table(&mut self, table: usize) -> Result<(), TickError> {
        if self.gathers[table].is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        let mut state = self.shared.lock();
        let def = &self.shared.plan().tables()[table].0;
        let columns = self.gathers[table].take(state.midnight);
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
        let State { nexts, midnight, subscribers, .. } = &mut *state;
        let before = Before { nexts, midnight: *midnight };
        let update = Update::new(def, columns);
        for subscriber in subscribers.iter_mut() {
            subscriber.give(table, &update, &before, &self.shared.counters);
        }
        subscribers.retain(|subscriber| !subscriber.outbox.is_closed());
        nexts[table] = self.gathered[table];
        self.shared.counters.published.fetch_add(1, Ordering::Relaxed);
        if let Some(probe) = &self.shared.probe {
            probe.published(update.rows, begun.elapsed());
        }
        Ok(())
    }

    /// Ends the day, if all its rows have been published.
    fn end_day(&mut self) -> Result<bool, TickError> {
        let Some(day) = self.days.front() else { return Ok(false) };
        let firsts: Vec<u64> = (0..self.gathered.len()).map(|table| self.first_of(day, table)).collect();
        if self.gathered.iter().zip(&firsts).any(|(gathered, first)| gathered < first) {
            return Ok(false);
        }
        let mut state = self.shared.lock();
        let ended = state.date;
        let begins = self.gathered.clone();
        if let Some(journal) = &mut state.journal {
            journal.roll(day.date, &names(self.shared.plan()), &begins)?;
        }
        let (tables, counters) = (self.shared.plan().tables(), &self.shared.counters);
        let ends = |subscriber: &mut Subscriber| subscriber.end(ended, day, &firsts, tables, counters);
        state.subscribers.iter_mut().for_each(ends);
        (state.date, state.midnight, state.firsts) = (day.date, day.midnight.0, firsts);
        drop(state);
        self.days.pop_front();
        Ok(true)
    }

    fn send_pending(&self) {
        let mut state = self.shared.lock();
        let tables = self.shared.plan().tables();
        let counters = &self.shared.counters;
        state.subscribers.iter_mut().for_each(|subscriber| subscriber.send_pending(tables, counters));
        state.subscribers.retain(|subscriber| !subscriber.outbox.is_closed());
    }
}

/// Rows that have been read, as they came.
#[derive(Default)]
struct Stage {
    rows: Vec<StagedRow>,
    symbols: String,
    bodies: Vec<u8>,
}

#[derive(Clone, Copy)]
struct StagedRow {
    table: usize,
    sequence: u64,
    time: i64,
    symbol_end: usize,
    body_end: usize,
}

impl Stage {
    fn push(&mut self, table: usize, sequence: u64, time: i64, symbol: &str, body: &[u8]) {
        self.symbols.push_str(symbol);
        self.bodies.extend_from_slice(body);
        let (symbol_end, body_end) = (self.symbols.len(), self.bodies.len());
        self.rows.push(StagedRow { table, sequence, time, symbol_end, body_end });
    }

    /// The rows with their symbols and bodies.
    fn iter(&self) -> impl Iterator<Item = (StagedRow, &str, &[u8])> {
        let (mut symbol, mut body) = (0, 0);
        self.rows.iter().map(move |row| {
            let found = (*row, &self.symbols[symbol..row.symbol_end], &self.bodies[body..row.body_end]);
            (symbol, body) = (row.symbol_end, row.body_end);
            found
        })
    }
}

/// Reads what there is, up to a piece.
fn read(cursor: &mut Cursor, streams: &[&str], stage: &mut Stage) -> Result<(), TickError> {
    let mut last: Option<(*const Stream, usize)> = None;
    while stage.rows.len() < PIECE_ROWS && stage.bodies.len() < PIECE_BYTES {
        let Some(message) = cursor.next()? else { break };
        // Neighbours are mostly of one stream, which lies where it lies as long as the cursor does.
        let stream: *const Stream = message.stream();
        let table = match last {
            Some((known, table)) if known == stream => table,
            _ => streams.iter().position(|name| *name == message.stream().name()).unwrap_or(0),
        };
        last = Some((stream, table));
        stage.push(table, message.sequence(), message.time().0, message.symbol(), message.body());
    }
    Ok(())
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
