//! A chained plant: subscribes to a plant anywhere and publishes again, in a plant of its own.
//!
//! Always true: the rows of a table on a day are the source's rows of that day, in their order. So where a chain goes on after
//! it was ended is counted: as many rows into the source's day as it has of its own. Rows of all tables come in the source's
//! order, but for those that a chain had lost when it was ended.

use crate::arrivals::sequencer::Sequenced;
use crate::arrivals::{self, ARRIVALS, Place, Sequencer, Step, Subscription};
use crate::calendar::{self, CALENDAR, Day};
use crate::error::{TickError, asked};
use crate::plan::{self, Plan};
use crate::plant::write_day;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tapedb_engine::{Database, Loader, Stream, StreamOptions};

/// How long it waits for messages before it looks whether it shall stop.
const WAIT: Duration = Duration::from_millis(50);
/// Rows between two looks at the clock while more come.
const LOOK_ROWS: u64 = 1024;
/// Pause before it tries again what has failed.
const PAUSE: Duration = Duration::from_millis(200);

/// What is chosen for a chained plant.
#[derive(Debug, Clone, Default)]
pub struct ChainOptions {
    /// What its streams promise; transient ones hold as much as they may in memory.
    pub stream: StreamOptions,
    /// Publishes at this interval; `None`: as it comes.
    pub every: Option<Duration>,
}

/// A chained plant that is running. It ends when it is dropped.
#[derive(Debug)]
pub struct Chain {
    shared: Arc<Shared>,
    plan: Plan,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stopping: AtomicBool,
    rows: AtomicU64,
    missed: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl Chain {
    /// Begins to publish the tables of `source` again, as the plant `name` of `db`, which is made if need be; one that is there
    /// goes on where it was.
    ///
    /// # Errors
    /// For a name that no plant has; [`TickError::Asked`] for a plant that is there and whose day the source does not know;
    /// what keeps the streams from being opened.
    pub fn start(source: Plan, db: &Database, name: &str, options: ChainOptions) -> Result<Self, TickError> {
        plan::check_name(name)?;
        let days = source.days()?;
        let begun = make(&source, db, name, &options, &days)?;
        let plan = Plan::open(db, name)?;
        let sequenced = Sequencer::start(&plan)?;
        // On a timer, rows are shown then and not before.
        plan.tables().iter().for_each(|(_, stream)| stream.hold_back(options.every.is_some()));
        let shared = Arc::new(Shared::default());
        let mut link = Link::new(source, &plan, sequenced, begun, days, options.every, shared.clone())?;
        let work = move || link.run();
        let thread = std::thread::Builder::new().name("tape-chain".into()).spawn(work);
        match thread {
            Ok(thread) => Ok(Self { shared, plan, thread: Some(thread) }),
            Err(error) => asked(format!("cannot begin a thread: {error}; try again")),
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

    /// Messages that were gone from the source before they were read.
    pub fn missed(&self) -> u64 {
        self.shared.missed.load(Ordering::Relaxed)
    }

    /// What keeps it from going on; it tries again.
    pub fn failure(&self) -> Option<String> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell that was not told before.
            let _ = thread.join();
        }
    }
}

/// Makes the chain's streams if need be; its day, and which of the source's days that is.
fn make(
    source: &Plan,
    db: &Database,
    name: &str,
    options: &ChainOptions,
    days: &[Day],
) -> Result<(Day, usize), TickError> {
    for (table, stream) in source.tables() {
        db.open_or_create_stream(
            &plan::stream_name(name, table.name()),
            stream.schema().clone(),
            options.stream,
        )?;
    }
    let calendar =
        db.open_or_create_stream(&plan::stream_name(name, CALENDAR), calendar::schema(), options.stream)?;
    let arrivals = plan::stream_name(name, ARRIVALS);
    let arrivals =
        db.open_or_create_stream(&arrivals, arrivals::schema(), arrivals::options(options.stream))?;
    let Some(day) = calendar::days(&calendar)?.pop() else {
        let today = days.len() - 1;
        let mut first = vec![(ARRIVALS.to_string(), arrivals.seen_end())];
        for (table, _) in source.tables() {
            let stream = db.stream(&plan::stream_name(name, table.name()))?;
            first.push((table.name().to_string(), stream.stats()?.next_sequence));
        }
        let day = Day { first, ..days[today].clone() };
        write_day(&calendar, name, &day, None)?;
        return Ok((day, today));
    };
    match days.iter().position(|known| known.date == day.date) {
        Some(at) => Ok((day, at)),
        None => asked(format!(
            "plant {name} is at {}, a day that plant {} does not know; chain it under another name",
            day.date,
            source.name()
        )),
    }
}

/// What carries rows from a plant to another.
struct Link {
    source: Plan,
    sequenced: Sequenced,
    tables: Vec<Lane>,
    /// The one that may have rows that are not logged.
    unlogged: usize,
    /// Where the day that is here begins at the source.
    place: Place,
    /// Days of the source that have begun there and not here.
    upcoming: VecDeque<Day>,
    /// The day here.
    day: Day,
    next_day: u64,
    every: Option<Duration>,
    flushed: Instant,
    shared: Arc<Shared>,
}

/// One table.
struct Lane {
    name: String,
    here: Stream,
    loader: Loader,
    /// The source's next sequence number, and what it would be here.
    next: u64,
    next_here: u64,
}

impl Link {
    fn new(
        source: Plan,
        plan: &Plan,
        sequenced: Sequenced,
        (day, at): (Day, usize),
        days: Vec<Day>,
        every: Option<Duration>,
        shared: Arc<Shared>,
    ) -> Result<Self, TickError> {
        let mut tables = Vec::new();
        for (table, _) in source.tables() {
            let (_, here) = plan.table(table.name())?;
            let next_here = here.stats()?.next_sequence;
            let rows = next_here.saturating_sub(day.first_of(table.name()));
            tables.push(Lane {
                name: table.name().into(),
                loader: here.loader()?,
                here: here.clone(),
                next: days[at].first_of(table.name()) + rows,
                next_here,
            });
        }
        Ok(Self {
            sequenced,
            tables,
            unlogged: 0,
            place: Place::of_day(&days[at]),
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
        // What was not flushed is read again by the next one.
        let _ = self.flush();
    }

    fn follow(&mut self) -> Result<(), TickError> {
        self.roll()?;
        let nexts: Vec<u64> = self.tables.iter().map(|lane| lane.next).collect();
        let mut plant = Subscription::open(&self.source, &nexts, self.next_day, self.place)?;
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
            self.place = plant.place();
        }
        Ok(())
    }

    fn take(&mut self, table: usize, plant: &Subscription) -> Result<(), TickError> {
        let Some(message) = plant.message(table) else { return Ok(()) };
        if table != self.unlogged {
            // What came before is logged before.
            self.tables[self.unlogged].loader.flush()?;
            self.unlogged = table;
        }
        let is_time_to_look = self.every.is_some() && message.sequence() % LOOK_ROWS == 0;
        let lane = &mut self.tables[table];
        if message.sequence() != lane.next {
            let missed = message.sequence().saturating_sub(lane.next);
            self.shared.missed.fetch_add(missed, Ordering::Relaxed);
        }
        lane.loader.append_body(message.symbol(), message.time(), message.type_id(), message.body())?;
        (lane.next, lane.next_here) = (message.sequence() + 1, lane.next_here + 1);
        self.shared.rows.fetch_add(1, Ordering::Release);
        if is_time_to_look {
            self.flush_if_due()?;
        }
        if self.upcoming.is_empty() { Ok(()) } else { self.roll() }
    }

    /// Ends days whose rows are all here.
    fn roll(&mut self) -> Result<(), TickError> {
        while let Some(next) = self.upcoming.front() {
            if self.tables.iter().any(|lane| lane.next < next.first_of(&lane.name)) {
                return Ok(());
            }
            // Rows of the new day may be here already, if it began before its source noted arrivals.
            let edge = |lane: &Lane| {
                let later = lane.next - next.first_of(&lane.name);
                (lane.name.clone(), lane.next_here.saturating_sub(later))
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
        if let Some(lane) = self.tables.get_mut(self.unlogged) {
            lane.loader.flush()?;
        }
        if self.every.is_some() {
            self.tables.iter().for_each(|lane| lane.here.publish());
        }
        self.flushed = Instant::now();
        Ok(())
    }
}
