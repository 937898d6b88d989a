//! A chained plant: subscribes to a local or remote plant and publishes its rows again, as a plant of its own.
//!
//! Always true: the rows of a table on a day are the source's rows of that day, in their order. So a chain continues after as
//! many rows of the source's day as it has itself. Rows of all tables are in the source's order, except those that a chain had
//! lost when it ended.

use crate::arrivals::sequencer::Sequenced;
use crate::arrivals::{self, ARRIVALS, ArrivalPosition, Sequencer, Step, Subscription};
use crate::calendar::{self, CALENDAR, Day, write_day};
use crate::error::{TickError, asked};
use crate::names::{check_name, stream_name};
use crate::plan::Plan;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tapedb_engine::{Database, Loader, Stream, StreamOptions};

/// How long it waits for messages before it checks whether it is to stop.
const WAIT: Duration = Duration::from_millis(50);
/// Rows between two readings of the clock while more arrive.
const CHECK_ROWS: u64 = 1024;
/// Pause before a retry.
const PAUSE: Duration = Duration::from_millis(200);

/// Options of a chained plant.
#[derive(Debug, Clone, Default)]
pub struct ChainOptions {
    /// Options of its streams; transient ones hold as much as they may in memory.
    pub stream: StreamOptions,
    /// Publishes at this interval; `None`: at once.
    pub every: Option<Duration>,
}

/// A chained plant that is running. It ends when it is dropped.
#[derive(Debug)]
pub struct Chain {
    shared: Arc<ChainState>,
    plan: Plan,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct ChainState {
    stopping: AtomicBool,
    rows: AtomicU64,
    missed: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl Chain {
    /// Starts to publish the tables of `source` again, as the plant `name` of `db`, which is created if necessary; an existing
    /// one continues where it was.
    ///
    /// # Errors
    /// For an invalid name; [`TickError::Asked`] for an existing plant whose day the source does not have; when the streams
    /// cannot be opened.
    pub fn start(source: Plan, db: &Database, name: &str, options: ChainOptions) -> Result<Self, TickError> {
        check_name(name)?;
        let days = source.days()?;
        let begun = make(&source, db, name, &options, &days)?;
        let plan = Plan::open(db, name)?;
        let sequenced = Sequencer::start(&plan)?;
        // With a timer, rows become visible when it fires.
        plan.tables().iter().for_each(|(_, stream)| stream.hold_back(options.every.is_some()));
        let shared = Arc::new(ChainState::default());
        let mut link = Link::new(source, &plan, sequenced, begun, days, options.every, shared.clone())?;
        let work = move || link.run();
        let thread = std::thread::Builder::new().name("tape-chain".into()).spawn(work);
        match thread {
            Ok(thread) => Ok(Self { shared, plan, thread: Some(thread) }),
            Err(error) => asked(format!("cannot start a thread: {error}; try again")),
        }
    }

    /// The plant that it publishes.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Rows that it has published since it began.
    pub fn rows(&self) -> u64 {
        self.shared.rows.load(Ordering::Acquire)
    }

    /// Messages that were purged from the source before they were read.
    pub fn missed(&self) -> u64 {
        self.shared.missed.load(Ordering::Relaxed)
    }

    /// Why it cannot continue; it retries.
    pub fn failure(&self) -> Option<String> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Creates the chain's streams if necessary. Its day, and the index of that day among the source's.
fn make(
    source: &Plan,
    db: &Database,
    name: &str,
    options: &ChainOptions,
    days: &[Day],
) -> Result<(Day, usize), TickError> {
    for (table, stream) in source.tables() {
        db.open_or_create_stream(&stream_name(name, table.name()), stream.schema().clone(), options.stream)?;
    }
    let calendar =
        db.open_or_create_stream(&stream_name(name, CALENDAR), calendar::schema(), options.stream)?;
    let arrivals = stream_name(name, ARRIVALS);
    let arrivals =
        db.open_or_create_stream(&arrivals, arrivals::schema(), arrivals::options(options.stream))?;
    let Some(day) = calendar::days(&calendar)?.pop() else {
        let today = days.len() - 1;
        let mut first = vec![(ARRIVALS.to_string(), arrivals.seen_end())];
        for (table, _) in source.tables() {
            let stream = db.stream(&stream_name(name, table.name()))?;
            first.push((table.name().to_string(), stream.stats()?.next_sequence));
        }
        let day = Day { first, ..days[today].clone() };
        write_day(&calendar, name, &day, None)?;
        return Ok((day, today));
    };
    match days.iter().position(|other| other.date == day.date) {
        Some(at) => Ok((day, at)),
        None => asked(format!(
            "plant {name} is at {}, a day that plant {} does not have; chain it under another name",
            day.date,
            source.name()
        )),
    }
}

/// Copies rows from a plant to another.
struct Link {
    source: Plan,
    sequenced: Sequenced,
    tables: Vec<ChainedTable>,
    /// The table that may have rows that are not logged.
    unlogged: usize,
    /// The beginning of the chain's day at the source.
    position: ArrivalPosition,
    /// Days that have begun at the source and not in the chain.
    upcoming: VecDeque<Day>,
    /// The chain's day.
    day: Day,
    next_day: u64,
    every: Option<Duration>,
    flushed: Instant,
    shared: Arc<ChainState>,
}

/// One table.
struct ChainedTable {
    name: String,
    stream: Stream,
    loader: Loader,
    /// The next sequence number at the source, and in the chain.
    next: u64,
    next_copy: u64,
}

impl Link {
    fn new(
        source: Plan,
        plan: &Plan,
        sequenced: Sequenced,
        (day, at): (Day, usize),
        days: Vec<Day>,
        every: Option<Duration>,
        shared: Arc<ChainState>,
    ) -> Result<Self, TickError> {
        let mut tables = Vec::new();
        for (table, _) in source.tables() {
            let (_, stream) = plan.table(table.name())?;
            let next_copy = stream.stats()?.next_sequence;
            let rows = next_copy.saturating_sub(day.first_of(table.name()));
            tables.push(ChainedTable {
                name: table.name().into(),
                loader: stream.loader()?,
                stream: stream.clone(),
                next: days[at].first_of(table.name()) + rows,
                next_copy,
            });
        }
        Ok(Self {
            sequenced,
            tables,
            unlogged: 0,
            position: ArrivalPosition::of_day(&days[at]),
            next_day: days.len() as u64,
            upcoming: days[at + 1..].iter().cloned().collect(),
            day,
            every,
            flushed: Instant::now(),
            source,
            shared,
        })
    }

    fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    fn run(&mut self) {
        while !self.is_stopping() {
            let failure = self.follow().err().map(|error| error.to_string());
            let is_failed = failure.is_some();
            *self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
            if is_failed {
                std::thread::sleep(PAUSE);
            }
        }
        // Rows that were not flushed are read again by the next chain.
        let _ = self.flush();
    }

    fn follow(&mut self) -> Result<(), TickError> {
        self.roll()?;
        let nexts: Vec<u64> = self.tables.iter().map(|table| table.next).collect();
        let mut plant = Subscription::open(&self.source, &nexts, self.next_day, self.position)?;
        while !self.is_stopping() {
            match plant.advance()? {
                Step::Row(table) => self.take(table, &plant)?,
                Step::Day(day) => {
                    self.next_day += 1;
                    self.upcoming.push_back(day);
                    self.roll()?;
                }
                Step::Nothing => {
                    self.flush_if_due()?;
                    let left = self.every.map_or(WAIT, |every| every.saturating_sub(self.flushed.elapsed()));
                    plant.wait(left.clamp(Duration::from_micros(50), WAIT))?;
                }
            }
            self.position = plant.position();
        }
        Ok(())
    }

    fn take(&mut self, table: usize, plant: &Subscription) -> Result<(), TickError> {
        let Some(message) = plant.message(table) else { return Ok(()) };
        if table != self.unlogged {
            // Earlier rows are logged first.
            self.tables[self.unlogged].loader.flush()?;
            self.unlogged = table;
        }
        let checks_time = self.every.is_some() && message.sequence() % CHECK_ROWS == 0;
        let chained = &mut self.tables[table];
        if message.sequence() != chained.next {
            let missed = message.sequence().saturating_sub(chained.next);
            self.shared.missed.fetch_add(missed, Ordering::Relaxed);
        }
        chained.loader.append_body(message.symbol(), message.time(), message.type_id(), message.body())?;
        (chained.next, chained.next_copy) = (message.sequence() + 1, chained.next_copy + 1);
        self.shared.rows.fetch_add(1, Ordering::Release);
        if checks_time {
            self.flush_if_due()?;
        }
        if self.upcoming.is_empty() { Ok(()) } else { self.roll() }
    }

    /// Ends days whose rows have all been copied.
    fn roll(&mut self) -> Result<(), TickError> {
        while let Some(next) = self.upcoming.front() {
            if self.tables.iter().any(|table| table.next < next.first_of(&table.name)) {
                return Ok(());
            }
            // Rows of the new day may have been copied already, if it began before its source recorded arrivals.
            let edge = |table: &ChainedTable| {
                let later = table.next - next.first_of(&table.name);
                (table.name.clone(), table.next_copy.saturating_sub(later))
            };
            let edges: Vec<(String, u64)> = self.tables.iter().map(edge).collect();
            let next = next.clone();
            self.flush()?;
            let make = |first: Vec<(String, u64)>| {
                let arrivals = first.into_iter().filter(|(name, _)| name == ARRIVALS);
                Day { first: edges.into_iter().chain(arrivals).collect(), ..next }
            };
            self.day = self.sequenced.sequencer.begin_day(self.day.date, make)?;
            self.upcoming.pop_front();
        }
        Ok(())
    }

    fn flush_if_due(&mut self) -> Result<(), TickError> {
        match self.every {
            Some(every) if self.flushed.elapsed() < every => Ok(()),
            _ => self.flush(),
        }
    }

    fn flush(&mut self) -> Result<(), TickError> {
        if let Some(table) = self.tables.get_mut(self.unlogged) {
            table.loader.flush()?;
        }
        if self.every.is_some() {
            self.tables.iter().for_each(|table| table.stream.publish());
        }
        self.flushed = Instant::now();
        Ok(())
    }
}
