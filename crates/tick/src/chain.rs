//! A chained plant: subscribes to a plant anywhere and publishes again, in a plant of its own.
//!
//! Always true: the rows of a table on a day are the source's rows of that day, in their order. So where a chain goes on after
//! it was ended is counted: as many rows into the source's day as it has of its own.

use crate::calendar::{self, CALENDAR, Day, day_of};
use crate::error::{TickError, asked};
use crate::plan::{self, Plan};
use crate::plant::write_day;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tapedb_engine::{Cursor, Database, Loader, Message, Stream, StreamOptions};

/// How long it waits for messages before it looks whether it shall stop.
const WAIT: Duration = Duration::from_millis(50);
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
        let shared = Arc::new(Shared::default());
        let mut link = Link::new(source, &plan, begun, days, options.every, shared.clone())?;
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
    let Some(day) = calendar::days(&calendar)?.pop() else {
        let today = days.len() - 1;
        let mut first = Vec::new();
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
    name: String,
    calendar: Stream,
    tables: Vec<Lane>,
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
    stream: String,
    loader: Loader,
    /// The source's next sequence number, and what it would be here.
    next: u64,
    next_here: u64,
    has_rows: bool,
}

impl Link {
    fn new(
        source: Plan,
        plan: &Plan,
        (day, at): (Day, usize),
        days: Vec<Day>,
        every: Option<Duration>,
        shared: Arc<Shared>,
    ) -> Result<Self, TickError> {
        let mut tables = Vec::new();
        for (table, stream) in source.tables() {
            let (_, here) = plan.table(table.name())?;
            let next_here = here.stats()?.next_sequence;
            let rows = next_here.saturating_sub(day.first_of(table.name()));
            tables.push(Lane {
                name: table.name().into(),
                stream: stream.name().into(),
                loader: here.loader()?,
                next: days[at].first_of(table.name()) + rows,
                next_here,
                has_rows: false,
            });
        }
        Ok(Self {
            name: plan.name().into(),
            calendar: plan.calendar().clone(),
            tables,
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
        let mut cursor = self.open()?;
        while !self.is_stopping() {
            while let Some(message) = cursor.next()? {
                self.take(&message)?;
            }
            let is_due = self.every.is_none_or(|every| self.flushed.elapsed() >= every);
            if is_due {
                self.flush()?;
            }
            let left = self.every.map_or(WAIT, |every| every.saturating_sub(self.flushed.elapsed()));
            cursor.wait(left.clamp(Duration::from_micros(50), WAIT))?;
        }
        Ok(())
    }

    fn open(&self) -> Result<Cursor, TickError> {
        let calendar = self.source.calendar().name();
        let names = self.tables.iter().map(|lane| &*lane.stream).chain([calendar]);
        let nexts = self.tables.iter().map(|lane| lane.next).chain([self.next_day]);
        Ok(self.source.database().cursor(names)?.from_sequences(nexts).live().open()?)
    }

    fn take(&mut self, message: &Message<'_>) -> Result<(), TickError> {
        let stream = message.stream().name();
        let Some(lane) = self.tables.iter_mut().find(|lane| lane.stream == stream) else {
            self.next_day = message.sequence() + 1;
            self.upcoming.push_back(day_of(message)?);
            return self.roll();
        };
        if message.sequence() != lane.next {
            let missed = message.sequence().saturating_sub(lane.next);
            self.shared.missed.fetch_add(missed, Ordering::Relaxed);
        }
        lane.loader.append_body(message.symbol(), message.time(), message.type_id(), message.body())?;
        (lane.next, lane.next_here, lane.has_rows) = (message.sequence() + 1, lane.next_here + 1, true);
        self.shared.rows.fetch_add(1, Ordering::Release);
        if self.upcoming.is_empty() { Ok(()) } else { self.roll() }
    }

    /// Ends days whose rows are all here.
    fn roll(&mut self) -> Result<(), TickError> {
        while let Some(next) = self.upcoming.front() {
            if self.tables.iter().any(|lane| lane.next < next.first_of(&lane.name)) {
                return Ok(());
            }
            // Rows of the new day may be here already.
            let edge = |lane: &Lane| {
                let later = lane.next - next.first_of(&lane.name);
                (lane.name.clone(), lane.next_here.saturating_sub(later))
            };
            let day = Day { first: self.tables.iter().map(edge).collect(), ..next.clone() };
            self.flush()?;
            write_day(&self.calendar, &self.name, &day, Some(self.day.date))?;
            self.day = day;
            self.upcoming.pop_front();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TickError> {
        for lane in self.tables.iter_mut().filter(|lane| lane.has_rows) {
            lane.loader.flush()?;
            lane.has_rows = false;
        }
        self.flushed = Instant::now();
        Ok(())
    }
}
