//! The RDB: today's tables of a plant in memory, filled by one thread, queried by any.
//!
//! It reads the streams of the plant from the beginning of the day in the calendar, first table by table, then all at once and
//! live. Sequence numbers state where each continues, so no row is missing or read twice; the plant may be local or remote.
//!
//! Always true, for each table: `next` is the sequence number after the last inserted row. A day is complete when every table
//! has reached the beginning of the next day in the calendar; only then is it handed over, and only when the HDB has it is it
//! removed from memory. Queries wait for none of this.

mod fill;
mod handover;
mod symbols;

use crate::answer::{Answer, wanted};
use crate::calendar::Day;
use crate::column::{Column, Texts};
use crate::date::Date;
use crate::error::{TickError, asked};
use crate::hdb::Hdb;
use crate::memory::{Memory, Selection, View};
use crate::plan::Plan;
use crate::query::Query;
use crate::table::Table;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use symbols::CachedSymbols;
use tapedb_engine::{Error, Stream, StreamOptions};
use tapedb_schema::Timestamp;

/// Options of an RDB.
#[derive(Clone, Default)]
pub struct RdbOptions {
    /// The HDB for days that have ended; `None`: they are dropped.
    pub hdb: Option<Hdb>,
    /// Options of the HDB's streams that the RDB creates.
    pub hdb_stream: StreamOptions,
    /// Called for all inserted rows, in the thread that inserts them.
    pub probe: Option<Arc<dyn Probe>>,
}

impl fmt::Debug for RdbOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RdbOptions").field("hdb", &self.hdb).finish_non_exhaustive()
    }
}

/// Measures an RDB.
pub trait Probe: Send + Sync {
    /// Rows of a table have been received and inserted.
    fn inserted(&self, rows: &Inserted<'_>);
}

/// What a [`Probe`] receives.
#[derive(Debug, Clone, Copy)]
pub struct Inserted<'a> {
    /// The table.
    pub table: &'a str,
    /// Times of the rows, in nanoseconds since 1970.
    pub times: &'a [i64],
    /// When all of them had been received.
    pub received: Timestamp,
    /// How long inserting them took.
    pub took: Duration,
    /// Whether they arrived live; else they were replayed.
    pub is_live: bool,
}

/// A snapshot of an RDB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdbStatus {
    /// Today's date.
    pub date: Date,
    /// For each table its name, rows today, and the sequence number after the last one.
    pub tables: Vec<(String, u64, u64)>,
    /// Days that have ended and are not in the HDB yet.
    pub ending: Vec<Date>,
    /// Whether history has been replayed.
    pub is_live: bool,
    /// Bytes of columns in memory.
    pub bytes: u64,
    /// Messages that were purged from the plant before they were read.
    pub missed: u64,
    /// Why it cannot read, or hand days over; it retries.
    pub failure: Option<String>,
}

/// A running RDB. It ends when it is dropped.
#[derive(Debug)]
pub struct Rdb {
    state: Arc<RdbState>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads that fill, query and hand over share.
#[derive(Debug)]
pub(crate) struct RdbState {
    plan: Plan,
    options: RdbOptions,
    names: Vec<CachedSymbols>,
    days: RwLock<Days>,
    nexts: Vec<AtomicU64>,
    missed: AtomicU64,
    stopping: AtomicBool,
    is_live: AtomicBool,
    progress: Mutex<Progress>,
    moved: Condvar,
}

/// The days in memory.
#[derive(Debug)]
struct Days {
    today: InMemory,
    /// Ended, and not in the HDB yet; the oldest first.
    ended: Vec<InMemory>,
}

/// One day of all tables.
#[derive(Debug, Clone)]
pub(crate) struct InMemory {
    pub day: Arc<Day>,
    pub tables: Vec<Arc<Memory>>,
}

#[derive(Debug, Default)]
struct Progress {
    failures: [Option<String>; 2],
}

/// The tasks that can fail.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Task {
    Reading = 0,
    HandingOver = 1,
}

impl Rdb {
    /// Starts to fill an RDB from a plant. Days that have ended and that the HDB does not have are replayed and handed over
    /// first.
    ///
    /// # Errors
    /// When the calendar cannot be read, or threads cannot be started.
    pub fn start(plan: Plan, options: RdbOptions) -> Result<Self, TickError> {
        let days = plan.days()?;
        let begin = first_day(&plan, &days, options.hdb.as_ref())?;
        let writers = fill::writers(&plan);
        let tables = writers.iter().map(|writer| writer.memory.clone()).collect();
        let nexts =
            plan.tables().iter().map(|(table, _)| days[begin].first_of(table.name())).map(AtomicU64::new);
        let shared = Arc::new(RdbState {
            names: plan.tables().iter().map(|(_, stream)| CachedSymbols::new(stream.clone())).collect(),
            days: RwLock::new(Days {
                today: InMemory { day: Arc::new(days[begin].clone()), tables },
                ended: Vec::new(),
            }),
            nexts: nexts.collect(),
            missed: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            is_live: AtomicBool::new(false),
            progress: Mutex::default(),
            moved: Condvar::new(),
            plan,
            options,
        });
        let mut rdb = Self { state: shared.clone(), threads: Vec::new() };
        let (filling, handing) = (shared.clone(), shared);
        rdb.begin("tape-rdb", move || fill::run(filling, days, begin, writers))?;
        rdb.begin("tape-rdb-eod", move || handover::run(&handing))?;
        Ok(rdb)
    }

    fn begin(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), TickError> {
        match std::thread::Builder::new().name(name.into()).spawn(work) {
            Ok(thread) => self.threads.push(thread),
            Err(error) => return asked(format!("cannot start thread {name}: {error}; try again")),
        }
        Ok(())
    }

    /// The tables.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.state.plan.tables().iter().map(|(table, _)| table)
    }

    /// Today.
    pub fn day(&self) -> Arc<Day> {
        self.state.read().today.day.clone()
    }

    /// The rows of today that a query wants, of those there are when it begins. It waits for no other thread.
    ///
    /// # Errors
    /// [`TickError::NoTable`], [`TickError::NoColumn`].
    pub fn query(&self, query: &Query) -> Result<Answer, TickError> {
        let today = self.state.read().today.clone();
        self.query_day(&today, query)
    }

    /// Rows of a day that a query wants, if the day is in memory: today, or not in the HDB yet.
    ///
    /// # Errors
    /// [`TickError::Asked`] for other days; else as [`Rdb::query`].
    pub fn query_date(&self, date: Date, query: &Query) -> Result<Answer, TickError> {
        self.query_day(&self.in_memory(date)?, query)
    }

    /// How many rows of today a query wants.
    ///
    /// # Errors
    /// As [`Rdb::query`].
    pub fn count(&self, query: &Query) -> Result<u64, TickError> {
        let today = self.state.read().today.clone();
        let (at, _) = self.state.table(&query.table)?;
        let view = today.tables[at].view();
        Ok(self.state.select(at, &view, query).len() as u64)
    }

    /// A snapshot of it.
    pub fn status(&self) -> RdbStatus {
        let shared = &self.state;
        let (today, ended) = {
            let state = shared.read();
            (state.today.clone(), state.ended.clone())
        };
        let table = |(at, memory): (usize, &Arc<Memory>)| {
            let next = shared.nexts[at].load(Ordering::Acquire);
            (memory.table.name().to_string(), memory.rows() as u64, next)
        };
        let memories = || ended.iter().chain([&today]).flat_map(|day| &day.tables);
        RdbStatus {
            date: today.day.date,
            tables: today.tables.iter().enumerate().map(table).collect(),
            ending: ended.iter().map(|day| day.day.date).collect(),
            is_live: shared.is_live.load(Ordering::Acquire),
            bytes: memories().map(|memory| memory.bytes() as u64).sum(),
            missed: shared.missed.load(Ordering::Relaxed),
            failure: shared.lock().failures.iter().flatten().next().cloned(),
        }
    }

    /// Waits until a condition is true, at most `timeout`; it is checked when rows have arrived or a day has ended. Whether it is.
    pub fn wait_until(&self, timeout: Duration, is_so: impl Fn(&RdbStatus) -> bool) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            // Before the check, so that a change during it is not missed for long.
            let guard = self.state.lock();
            drop(guard);
            if is_so(&self.status()) {
                return true;
            }
            let left = deadline.map_or(timeout, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            let guard = self.state.lock();
            let wait = left.min(Duration::from_millis(20));
            drop(self.state.moved.wait_timeout(guard, wait).unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn in_memory(&self, date: Date) -> Result<InMemory, TickError> {
        let state = self.state.read();
        let mut days = state.ended.iter().chain([&state.today]);
        match days.find(|day| day.day.date == date) {
            Some(day) => Ok(day.clone()),
            None => {
                asked(format!("{date} is not in the RDB, which has {}; ask the HDB", state.today.day.date))
            }
        }
    }

    fn query_day(&self, day: &InMemory, query: &Query) -> Result<Answer, TickError> {
        let (at, table) = self.state.table(&query.table)?;
        let wanted = wanted(table, query)?;
        let view = day.tables[at].view();
        let rows = self.state.select(at, &view, query);
        let names = self.state.names[at].read();
        let symbol = |id: u32, texts: &mut Texts| texts.push(names.shown(id));
        let column = |at: &usize| view.column(*at, &rows, day.day.midnight.0, symbol);
        let columns: Vec<(_, Column)> = wanted.iter().map(column).collect();
        Ok(Answer { table: query.table.clone(), columns })
    }
}

impl Drop for Rdb {
    fn drop(&mut self) {
        self.state.stopping.store(true, Ordering::Release);
        self.state.moved.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl RdbState {
    fn table(&self, name: &str) -> Result<(usize, &Table), TickError> {
        let (table, _) = self.plan.table(name)?;
        let at = self.plan.tables().iter().position(|(other, _)| other.name() == name);
        Ok((at.unwrap_or_default(), table))
    }

    fn select(&self, at: usize, view: &View<'_>, query: &Query) -> Selection {
        let ids = query.stream_symbols().map(|symbols| self.names[at].ids(&symbols));
        // CachedSymbols of all symbols that rows of the view have.
        self.names[at].refresh();
        view.select(query, ids.as_deref())
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Days> {
        self.days.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Days> {
        self.days.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Sets why a task cannot continue, or that it can.
    fn set_failure(&self, task: Task, failure: Option<String>) {
        self.lock().failures[task as usize] = failure;
        self.moved.notify_all();
    }

    /// Waits for a change, at most `moment`.
    fn pause(&self, moment: Duration) {
        let guard = self.lock();
        if !self.is_stopping() {
            drop(self.moved.wait_timeout(guard, moment).unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// The first day that has to be replayed: today, or an earlier one that the HDB does not have with as many rows.
fn first_day(plan: &Plan, days: &[Day], hdb: Option<&Hdb>) -> Result<usize, TickError> {
    let today = days.len() - 1;
    let Some(hdb) = hdb else { return Ok(today) };
    let stored = hdb.handed_over(plan.name())?;
    let is_there = |at: usize| {
        let (day, next) = (&days[at], &days[at + 1]);
        stored.get(&day.date).is_some_and(|tables| {
            tables.iter().all(|(table, rows)| {
                // A table that the plant does not have any more is not checked.
                let range = day.first_of(table)..next.first_of(table);
                match plan.table(table) {
                    Ok((_, stream)) => {
                        *rows == range.end.saturating_sub(range.start) || has_all(stream, range, *rows)
                    }
                    Err(_) => true,
                }
            })
        })
    };
    Ok((0..today).find(|at| !is_there(*at)).unwrap_or(today))
}

/// Whether the HDB has as many rows of a day as the plant: sequence numbers of the plant's table may be missing.
fn has_all(stream: &Stream, numbers: Range<u64>, stored: u64) -> bool {
    let count = || -> Result<u64, Error> {
        let (mut rows, mut cursor) = (0, stream.cursor().from_sequence(numbers.start).open()?);
        while let Some(message) = cursor.next()? {
            if message.sequence() >= numbers.end {
                break;
            }
            rows += 1;
        }
        Ok(rows)
    };
    // If they cannot be counted, the day is replayed, and that reports the error.
    count().is_ok_and(|rows| rows <= stored)
}
