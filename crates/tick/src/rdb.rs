//! The RDB: today's tables of a plant in memory, filled by one thread, queried by any.
//!
//! It reads the streams of the plant from where the calendar says that the day began, first table by table, then all at once
//! and live. Sequence numbers say where each goes on, so nothing is missing and nothing comes twice; the plant may be anywhere.
//!
//! Always true, for each table: `next` is the sequence number after the last row that was taken. A day is complete when every
//! table has come to where the calendar says that the next day begins; only then is it handed over, and only when the HDB has
//! it does it leave memory. Queries wait for none of this.

mod fill;
mod handover;
mod names;

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
use names::Names;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tapedb_engine::{Error, Stream, StreamOptions};
use tapedb_schema::Timestamp;

/// What is chosen for an RDB.
#[derive(Clone, Default)]
pub struct RdbOptions {
    /// Where days go when they have ended; `None`: they are dropped then.
    pub hdb: Option<Hdb>,
    /// What the streams of the HDB promise, if the RDB is the one to make them.
    pub hdb_stream: StreamOptions,
    /// Is told of all rows that are taken, in the thread that takes them.
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

/// What a [`Probe`] is told.
#[derive(Debug, Clone, Copy)]
pub struct Inserted<'a> {
    /// The table.
    pub table: &'a str,
    /// Times of the rows, in nanoseconds since 1970.
    pub times: &'a [i64],
    /// When they had been received whole.
    pub received: Timestamp,
    /// How long inserting them took.
    pub took: Duration,
    /// Whether they came live; else they were replayed.
    pub is_live: bool,
}

/// How an RDB is doing.
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
    /// Messages that were gone from the plant before they were read.
    pub missed: u64,
    /// What keeps it from reading, or days from being handed over; it goes on trying.
    pub failure: Option<String>,
}

/// A running RDB. It ends when it is dropped.
#[derive(Debug)]
pub struct Rdb {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What those share who fill, ask and hand over.
#[derive(Debug)]
pub(crate) struct Shared {
    plan: Plan,
    options: RdbOptions,
    names: Vec<Names>,
    state: RwLock<State>,
    nexts: Vec<AtomicU64>,
    missed: AtomicU64,
    stopping: AtomicBool,
    is_live: AtomicBool,
    progress: Mutex<Progress>,
    moved: Condvar,
}

/// The days in memory.
#[derive(Debug)]
struct State {
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

/// Who has a failure to tell.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    Reading = 0,
    HandingOver = 1,
}

impl Rdb {
    /// Begins to fill an RDB from a plant, wherever that is. Where there is an HDB that does not have days that have ended,
    /// these are replayed and handed over first.
    ///
    /// # Errors
    /// What keeps the calendar from being read, or threads from being begun.
    pub fn start(plan: Plan, options: RdbOptions) -> Result<Self, TickError> {
        let days = plan.days()?;
        let begin = first_day(&plan, &days, options.hdb.as_ref())?;
        let writers = fill::writers(&plan);
        let tables = writers.iter().map(|writer| writer.memory.clone()).collect();
        let nexts =
            plan.tables().iter().map(|(table, _)| days[begin].first_of(table.name())).map(AtomicU64::new);
        let shared = Arc::new(Shared {
            names: plan.tables().iter().map(|(_, stream)| Names::new(stream.clone())).collect(),
            state: RwLock::new(State {
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
        let mut rdb = Self { shared: shared.clone(), threads: Vec::new() };
        let (filling, handing) = (shared.clone(), shared);
        rdb.begin("tape-rdb", move || fill::run(filling, days, begin, writers))?;
        rdb.begin("tape-rdb-eod", move || handover::run(&handing))?;
        Ok(rdb)
    }

    fn begin(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), TickError> {
        match std::thread::Builder::new().name(name.into()).spawn(work) {
            Ok(thread) => self.threads.push(thread),
            Err(error) => return asked(format!("cannot begin thread {name}: {error}; try again")),
        }
        Ok(())
    }

    /// The tables.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.shared.plan.tables().iter().map(|(table, _)| table)
    }

    /// Today.
    pub fn day(&self) -> Arc<Day> {
        self.shared.read().today.day.clone()
    }

    /// Rows of today that a query wants: of those there are when it begins. It waits for nobody.
    ///
    /// # Errors
    /// [`TickError::NoTable`], [`TickError::NoColumn`].
    pub fn query(&self, query: &Query) -> Result<Answer, TickError> {
        let today = self.shared.read().today.clone();
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
        let today = self.shared.read().today.clone();
        let (at, _) = self.shared.table(&query.table)?;
        let view = today.tables[at].view();
        Ok(self.shared.select(at, &view, query).len() as u64)
    }

    /// How it is doing.
    pub fn status(&self) -> RdbStatus {
        let shared = &self.shared;
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

    /// Waits until something is so, looking whenever rows have come or a day has ended; at most so long. Whether it is so.
    pub fn wait_until(&self, timeout: Duration, is_so: impl Fn(&RdbStatus) -> bool) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            // Before it is looked: what moves meanwhile is not waited for.
            let guard = self.shared.lock();
            drop(guard);
            if is_so(&self.status()) {
                return true;
            }
            let left = deadline.map_or(timeout, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            let guard = self.shared.lock();
            let wait = left.min(Duration::from_millis(20));
            drop(self.shared.moved.wait_timeout(guard, wait).unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn in_memory(&self, date: Date) -> Result<InMemory, TickError> {
        let state = self.shared.read();
        let mut days = state.ended.iter().chain([&state.today]);
        match days.find(|day| day.day.date == date) {
            Some(day) => Ok(day.clone()),
            None => {
                asked(format!("{date} is not in the RDB, which has {}; ask the HDB", state.today.day.date))
            }
        }
    }

    fn query_day(&self, day: &InMemory, query: &Query) -> Result<Answer, TickError> {
        let (at, table) = self.shared.table(&query.table)?;
        let wanted = wanted(table, query)?;
        let view = day.tables[at].view();
        let rows = self.shared.select(at, &view, query);
        let names = self.shared.names[at].read();
        let symbol = |id: u32, texts: &mut Texts| texts.push(names.shown(id));
        let column = |at: &usize| view.column(*at, &rows, day.day.midnight.0, symbol);
        let columns: Vec<(_, Column)> = wanted.iter().map(column).collect();
        Ok(Answer { table: query.table.clone(), columns })
    }
}

impl Drop for Rdb {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.moved.notify_all();
        for thread in self.threads.drain(..) {
            // It has nothing to tell that was not told before.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn table(&self, name: &str) -> Result<(usize, &Table), TickError> {
        let (table, _) = self.plan.table(name)?;
        let at = self.plan.tables().iter().position(|(other, _)| other.name() == name);
        Ok((at.unwrap_or_default(), table))
    }

    fn select(&self, at: usize, view: &View<'_>, query: &Query) -> Selection {
        let ids = query.stream_symbols().map(|symbols| self.names[at].ids(&symbols));
        // Names of all symbols that rows of the view have.
        self.names[at].refresh();
        view.select(query, ids.as_deref())
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Says what keeps one part from going on, or that nothing does.
    fn tell(&self, part: Part, failure: Option<String>) {
        self.lock().failures[part as usize] = failure;
        self.moved.notify_all();
    }

    /// Waits until something moves, or a moment.
    fn pause(&self, moment: Duration) {
        let guard = self.lock();
        if !self.is_stopping() {
            drop(self.moved.wait_timeout(guard, moment).unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// The first day that has to be replayed: today, or one before it that the HDB has not, or not with as many rows.
fn first_day(plan: &Plan, days: &[Day], hdb: Option<&Hdb>) -> Result<usize, TickError> {
    let today = days.len() - 1;
    let Some(hdb) = hdb else { return Ok(today) };
    let stored = hdb.handed_over(plan.name())?;
    let is_there = |at: usize| {
        let (day, next) = (&days[at], &days[at + 1]);
        stored.get(&day.date).is_some_and(|parts| {
            parts.iter().all(|(table, rows)| {
                // What is no table of the plant any more is not looked for.
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

/// Whether the HDB has as many rows of a day as there are here: numbers of the plant's table may be missing.
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
    // What cannot be counted is replayed, and tells why.
    count().is_ok_and(|rows| rows <= stored)
}
