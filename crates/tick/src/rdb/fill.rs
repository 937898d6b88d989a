//! Reads a plant's streams into memory: history, then new rows.

use super::{InMemory, Inserted, Probe, RdbState, Task};
use crate::calendar::{Day, day_of};
use crate::cell::Cells;
use crate::clock::now;
use crate::error::{TickError, asked};
use crate::memory::{Memory, ROWS_MAX, Stage, Writer};
use crate::plan::Plan;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tapedb_engine::{Cursor, Message, Stream};

/// Most rows that are inserted together.
const STAGE_ROWS: usize = 4096;
/// How long it waits for messages before it checks whether it is to stop.
const WAIT: Duration = Duration::from_millis(50);
/// Pause before a retry.
const PAUSE: Duration = Duration::from_millis(200);

/// Writers of today's tables of a plant.
pub(super) fn writers(plan: &Plan) -> Vec<Writer> {
    let writer = |(table, stream): &(_, Stream)| Writer::new(table, &Cells::of(table, stream.layouts()));
    plan.tables().iter().map(writer).collect()
}

/// Fills an RDB until it is to stop.
pub(super) fn run(shared: Arc<RdbState>, days: Vec<Day>, begin: usize, writers: Vec<Writer>) {
    let nexts: Vec<u64> = shared.nexts.iter().map(|next| next.load(Ordering::Relaxed)).collect();
    let tables = nexts.len();
    let upcoming = days[begin + 1..].iter().map(|day| Upcoming::new(day.clone(), tables));
    let mut filler = Filler {
        writers,
        stage: Stage::default(),
        staged: 0,
        next_day: days.len() as u64,
        upcoming: upcoming.collect(),
        begun: vec![0; tables],
        nexts,
        shared,
    };
    while !filler.shared.is_stopping() {
        let Err(error) = filler.replay().and_then(|()| filler.follow()) else { break };
        filler.stage = Stage::default();
        filler.shared.set_failure(Task::Reading, Some(error.to_string()));
        filler.shared.pause(PAUSE);
    }
}

/// Always true: `stage` holds only rows of table `staged`, which `nexts` does not count yet; they are all of one day.
struct Filler {
    shared: Arc<RdbState>,
    /// For each table the sequence number after the last row inserted.
    nexts: Vec<u64>,
    /// For each table the writer of its next row.
    writers: Vec<Writer>,
    stage: Stage,
    staged: usize,
    /// Sequence number of the calendar's next message.
    next_day: u64,
    /// The days after today in the calendar so far.
    upcoming: VecDeque<Upcoming>,
    /// For each table how many of these have begun.
    begun: Vec<usize>,
}

/// A day that begins in each table at its number in the calendar.
struct Upcoming {
    day: Day,
    /// The memory of the tables in which it has begun.
    tables: Vec<Option<Arc<Memory>>>,
}

impl Upcoming {
    fn new(day: Day, tables: usize) -> Self {
        Self { day, tables: vec![None; tables] }
    }
}

impl Filler {
    /// Inserts the history, table by table: each alone is read faster than all merged.
    fn replay(&mut self) -> Result<(), TickError> {
        for table in 0..self.nexts.len() {
            self.replay_table(table)?;
        }
        self.complete();
        Ok(())
    }

    fn replay_table(&mut self, table: usize) -> Result<(), TickError> {
        let stream = self.shared.plan.tables()[table].1.clone();
        if self.nexts[table] >= stream.stats()?.next_sequence {
            return Ok(());
        }
        let mut cursor = stream.cursor().from_sequence(self.nexts[table]).open()?;
        while let Some(message) = cursor.next()? {
            self.take(table, &message)?;
            if self.stage.len() >= STAGE_ROWS {
                self.insert(false)?;
                if self.shared.is_stopping() {
                    break;
                }
            }
        }
        self.insert(false)
    }

    /// Inserts new rows, until it is to stop.
    fn follow(&mut self) -> Result<(), TickError> {
        let mut cursor = self.open()?;
        self.shared.set_failure(Task::Reading, None);
        while !self.shared.is_stopping() {
            self.drain(&mut cursor)?;
            self.writers.iter_mut().for_each(Writer::prepare);
            cursor.wait(WAIT)?;
        }
        Ok(())
    }

    /// A live cursor over all tables and, last, the calendar.
    fn open(&self) -> Result<Cursor, TickError> {
        let plan = &self.shared.plan;
        let streams = plan.tables().iter().map(|(_, stream)| stream).chain([plan.calendar()]);
        let names: Vec<&str> = streams.map(Stream::name).collect();
        let nexts = self.nexts.iter().copied().chain([self.next_day]);
        Ok(plan.database().cursor(names)?.from_sequences(nexts).live().open()?)
    }

    /// Inserts all available messages.
    fn drain(&mut self, cursor: &mut Cursor) -> Result<(), TickError> {
        // Consecutive messages are mostly of one stream, whose name does not move while the cursor is open.
        let mut last: Option<(*const u8, usize)> = None;
        while let Some(message) = cursor.next()? {
            let stream = message.stream_name().as_ptr();
            let table = match last {
                Some((last, table)) if last == stream => table,
                _ => self.table_of(message.stream_name()),
            };
            last = Some((stream, table));
            if table == self.nexts.len() {
                self.add_day(&message)?;
                continue;
            }
            if table != self.staged || self.stage.len() >= STAGE_ROWS {
                self.insert(true)?;
            }
            self.take(table, &message)?;
        }
        self.insert(true)?;
        if cursor.is_live() && !self.shared.is_live.swap(true, Ordering::AcqRel) {
            self.shared.moved.notify_all();
        }
        Ok(())
    }

    /// The index of a stream's table; after the last one: the calendar.
    fn table_of(&self, stream: &str) -> usize {
        let tables = self.shared.plan.tables();
        tables.iter().position(|(_, other)| other.name() == stream).unwrap_or(tables.len())
    }

    /// Stages a row.
    #[inline]
    fn take(&mut self, table: usize, message: &Message<'_>) -> Result<(), TickError> {
        let expected = self.nexts[table] + self.stage.len() as u64;
        if message.sequence() < expected {
            // It was read again, and inserted, when a day began.
            return Ok(());
        }
        if message.sequence() > expected {
            self.skip_to(table, message.sequence())?;
        }
        if self.begun[table] < self.upcoming.len() {
            self.turn_to(table, message.sequence())?;
        }
        self.staged = table;
        let null_bytes = self.writers[table].memory.cells.null_bytes;
        self.stage.push(message.time().0, message.symbol_id(), message.body(), null_bytes);
        Ok(())
    }

    /// Messages were purged by a plant that does not keep its day.
    #[cold]
    fn skip_to(&mut self, table: usize, sequence: u64) -> Result<(), TickError> {
        self.insert(self.shared.is_live.load(Ordering::Relaxed))?;
        let missed = sequence.saturating_sub(self.nexts[table]);
        self.shared.missed.fetch_add(missed, Ordering::Relaxed);
        self.nexts[table] = sequence;
        Ok(())
    }

    /// Begins the days whose first message of a table this is.
    #[cold]
    fn turn_to(&mut self, table: usize, sequence: u64) -> Result<(), TickError> {
        while self
            .upcoming
            .get(self.begun[table])
            .is_some_and(|next| sequence >= self.first_of(&next.day, table))
        {
            self.insert(self.shared.is_live.load(Ordering::Relaxed))?;
            // Completing days may have begun this one.
            if self
                .upcoming
                .get(self.begun[table])
                .is_some_and(|next| sequence >= self.first_of(&next.day, table))
            {
                self.begin(table);
            }
        }
        Ok(())
    }

    fn first_of(&self, day: &Day, table: usize) -> u64 {
        day.first_of(self.shared.plan.tables()[table].0.name())
    }

    /// Begins the next day in a table.
    fn begin(&mut self, table: usize) {
        let memory = &self.writers[table].memory;
        let writer = Writer::new(&memory.table, &memory.cells);
        if let Some(upcoming) = self.upcoming.get_mut(self.begun[table]) {
            upcoming.tables[table] = Some(writer.memory.clone());
        }
        self.writers[table] = writer;
        self.begun[table] += 1;
    }

    /// Inserts the staged rows.
    fn insert(&mut self, is_live: bool) -> Result<(), TickError> {
        let (rows, table) = (self.stage.len(), self.staged);
        if rows == 0 {
            return Ok(());
        }
        if self.writers[table].rows() + rows > ROWS_MAX {
            let name = self.shared.plan.tables()[table].0.name();
            return asked(format!("table {name} has {ROWS_MAX} rows today, the most possible; end the day"));
        }
        match self.shared.options.probe.clone() {
            None => self.writers[table].insert(&mut self.stage),
            Some(probe) => self.insert_probed(&*probe, is_live),
        }
        self.nexts[table] += rows as u64;
        self.shared.nexts[table].store(self.nexts[table], Ordering::Release);
        if !self.upcoming.is_empty() {
            self.complete();
        }
        Ok(())
    }

    fn insert_probed(&mut self, probe: &dyn Probe, is_live: bool) {
        let times = self.stage.times.clone();
        let received = now();
        let begun = Instant::now();
        self.writers[self.staged].insert(&mut self.stage);
        let took = begun.elapsed();
        let table = self.shared.plan.tables()[self.staged].0.name();
        probe.inserted(&Inserted { table, times: &times, received, took, is_live });
    }

    /// Adds a day that has begun; rows of it may have been inserted already.
    fn add_day(&mut self, message: &Message<'_>) -> Result<(), TickError> {
        self.insert(true)?;
        let day = day_of(message)?;
        self.next_day = message.sequence() + 1;
        let behind = |table: &usize| {
            self.begun[*table] == self.upcoming.len() && self.nexts[*table] > self.first_of(&day, *table)
        };
        let moved: Vec<usize> = (0..self.nexts.len()).filter(behind).collect();
        for table in &moved {
            self.remove_rows(*table, self.first_of(&day, *table));
        }
        self.upcoming.push_back(Upcoming::new(day, self.nexts.len()));
        for table in moved {
            self.replay_table(table)?;
        }
        self.complete();
        Ok(())
    }

    /// Removes rows of the next day from a table's end: they are read again.
    fn remove_rows(&mut self, table: usize, first: u64) {
        let writer = &self.writers[table];
        let left = writer.rows().saturating_sub((self.nexts[table] - first) as usize);
        writer.memory.cut(left);
        self.nexts[table] = first;
    }

    /// Ends days that are complete in all tables.
    fn complete(&mut self) {
        while let Some(front) = self.upcoming.front() {
            let is_there = |table: usize| self.nexts[table] >= self.first_of(&front.day, table);
            if !(0..self.nexts.len()).all(is_there) {
                return;
            }
            for table in 0..self.nexts.len() {
                if self.begun[table] == 0 {
                    self.begin(table);
                }
            }
            let Some(front) = self.upcoming.pop_front() else { return };
            self.begun.iter_mut().for_each(|begun| *begun -= 1);
            let tables = front.tables.into_iter().flatten().collect();
            self.end_day(InMemory { day: Arc::new(front.day), tables });
        }
    }

    fn end_day(&self, today: InMemory) {
        {
            let mut state = self.shared.write();
            let ended = std::mem::replace(&mut state.today, today);
            state.ended.push(ended);
        }
        self.shared.moved.notify_all();
    }
}
