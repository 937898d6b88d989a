//! The tickerplant: takes updates, logs and publishes them, and ends days.
//!
//! Its log is the streams of its tables; who reads them with a live cursor is a subscriber. Feeds elsewhere that load these
//! streams through a server need nothing of this module, which is for updates from within the process that has the database.
//!
//! Always true: rows that were accepted before a day ended have sequence numbers below the edges in the calendar's message,
//! those accepted after it, others. A message of the calendar is written once per day. Rows of all tables are logged in the
//! order in which they came, which the [`Sequencer`] notes. An update that was answered with an error is not stored, nor later.

mod keeping;
pub(crate) mod widen;

use crate::arrivals::sequencer::Sequenced;
use crate::arrivals::{self, ARRIVALS, Sequencer};
use crate::calendar::{self, CALENDAR, Day, DayEnd};
use crate::cell::Cells;
use crate::column::{Column, Texts};
use crate::date::Date;
use crate::error::{TickError, asked};
use crate::hdb::Hdb;
use crate::plan::{self, Plan};
use crate::table::{NO_SYMBOL, Table};
use keeping::Keeping;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tapedb_engine::{Database, Loader, Stream, StreamOptions};
use tapedb_schema::Timestamp;

/// An update of so many bytes is one batch.
const UPDATE_BYTES: usize = 8 << 20;

/// When updates are logged, and when subscribers get them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Publish {
    /// Each update is logged and published when it comes.
    #[default]
    Each,
    /// Each update is logged when it comes; subscribers get what has come at this interval.
    Every(Duration),
    /// Updates collect in memory, and are logged and published at this interval. What has not been logged is lost with the
    /// process.
    LogEvery(Duration),
}

/// What is chosen for a plant when it is opened.
#[derive(Debug, Clone)]
pub struct PlantOptions {
    /// What its streams promise; those that exist keep what they have.
    pub stream: StreamOptions,
    /// When days end; `None`: only when they are ended by hand.
    pub day_end: Option<DayEnd>,
    /// When updates are logged and published.
    pub publish: Publish,
    /// How many days that ended are kept; `None`: all.
    pub keep_days: Option<u32>,
    /// Where days are handed over to: none goes before it is there.
    pub hdb: Option<Hdb>,
}

impl Default for PlantOptions {
    /// Days end at midnight UTC; each update is logged and published as it comes; all days are kept.
    fn default() -> Self {
        Self {
            stream: StreamOptions::default(),
            day_end: Some(DayEnd::default()),
            publish: Publish::default(),
            keep_days: None,
            hdb: None,
        }
    }
}

/// An open plant. One process has it, which also has its database open for writing; all of it can be used from any thread.
#[derive(Debug)]
pub struct Plant {
    plan: Plan,
    options: PlantOptions,
    sequenced: Sequenced,
    writers: Mutex<Writers>,
    /// Held for writing while a day ends.
    day: RwLock<Arc<Day>>,
    keeping: Keeping,
}

/// What writes into the tables. Always true: only table `unlogged` has rows that are taken and not logged, so that rows are
/// logged in the order in which they came.
#[derive(Debug)]
struct Writers {
    tables: Vec<Writer>,
    unlogged: Option<usize>,
}

/// What writes into one table.
#[derive(Debug)]
struct Writer {
    table: String,
    cells: Cells,
    loader: Loader,
    /// The bodies at hand.
    bodies: Vec<u8>,
}

impl Plant {
    /// Opens a plant, and makes it, or tables that it does not have yet, if need be; tables that have got columns get them here.
    /// If its day ended while it was closed, that day is ended now.
    ///
    /// # Errors
    /// For a name that no plant or table has; [`TickError::Columns`] for a table that is there with columns that would be lost;
    /// what keeps its streams from being opened.
    pub fn open(
        db: &Database,
        name: &str,
        tables: &[Table],
        options: PlantOptions,
    ) -> Result<Self, TickError> {
        plan::check_name(name)?;
        for table in tables {
            plan::check_table(table.name())?;
            widen::open(db, &plan::stream_name(name, table.name()), table, options.stream)?;
        }
        let plan = make(db, name, &options)?;
        let sequenced = Sequencer::start(&plan)?;
        let day = plan.days()?.pop().map(Arc::new);
        let Some(day) = day else { return asked(format!("the calendar of {name} is empty")) };
        let holds_back = !matches!(options.publish, Publish::Each);
        plan.tables().iter().for_each(|(_, stream)| stream.hold_back(holds_back));
        let tables = plan.tables().iter().map(Writer::new).collect::<Result<_, _>>()?;
        let writers = Mutex::new(Writers { tables, unlogged: None });
        let keeping = Keeping::default();
        let plant = Self { plan, options, sequenced, writers, day: RwLock::new(day), keeping };
        plant.tick(now())?;
        Ok(plant)
    }

    /// What it consists of: for cursors.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What was chosen for it.
    pub fn options(&self) -> &PlantOptions {
        &self.options
    }

    /// Today.
    pub fn day(&self) -> Arc<Day> {
        self.day.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes an update of a table: its columns, all of them in order, or all but `time`, which is then now. Logged and published
    /// when this returns, if the plant does so with each update. Returns the sequence number after its last row.
    ///
    /// # Errors
    /// [`TickError::NoTable`]; [`TickError::Update`] for columns that are not the table's, and for a time that is null: nothing
    /// of it is stored. [`TickError::NotLogged`] when it cannot be logged: it says what of it is stored, and no more of it will be.
    pub fn update(&self, table: &str, columns: &[Column]) -> Result<u64, TickError> {
        let day = self.day.read().unwrap_or_else(PoisonError::into_inner);
        let mut writers = self.writers();
        let at = self.take(&day, &mut writers, table, columns)?;
        match self.options.publish {
            Publish::LogEvery(_) => Ok(0),
            _ => {
                writers.unlogged = None;
                let rows = columns.last().map_or(0, Column::len) as u64;
                writers.tables[at].flush(rows)
            }
        }
    }

    /// As [`Plant::update`], but not logged yet: with the next update of the table, before one of another table, or at
    /// [`Plant::log`], whichever is first. So updates that came together are logged together.
    ///
    /// # Errors
    /// As [`Plant::update`].
    pub fn collect(&self, table: &str, columns: &[Column]) -> Result<(), TickError> {
        let day = self.day.read().unwrap_or_else(PoisonError::into_inner);
        self.take(&day, &mut self.writers(), table, columns).map(drop)
    }

    /// Logs and publishes what [`Plant::collect`] has taken, if the plant does so with each update.
    ///
    /// # Errors
    /// [`TickError::NotLogged`]: what of it is not stored is given up.
    pub fn log(&self) -> Result<(), TickError> {
        match self.options.publish {
            Publish::LogEvery(_) => Ok(()),
            _ => self.writers().log(),
        }
    }

    /// Has rows ready to be logged, all of them or none, in the table of this place.
    fn take(
        &self,
        day: &Day,
        writers: &mut Writers,
        table: &str,
        columns: &[Column],
    ) -> Result<usize, TickError> {
        let at = self.place(table)?;
        let table = &self.plan.tables()[at].0;
        if writers.unlogged.is_some_and(|unlogged| unlogged != at) {
            // What came before is logged before.
            writers.log()?;
        }
        let clock = Clock { kind: table.time_kind(), midnight: day.midnight.0, now: now().0 };
        writers.tables[at].take(table, columns, &clock)?;
        writers.unlogged = Some(at);
        Ok(at)
    }

    /// Rows of a table that have been taken today: logged, but for those that are [logged on a timer](Publish::LogEvery).
    ///
    /// # Errors
    /// [`TickError::NoTable`]; what keeps what has been collected from being logged.
    pub fn rows(&self, table: &str) -> Result<u64, TickError> {
        let at = self.place(table)?;
        let (table, stream) = &self.plan.tables()[at];
        let day = self.day.read().unwrap_or_else(PoisonError::into_inner);
        let mut writers = self.writers();
        if !matches!(self.options.publish, Publish::LogEvery(_)) {
            writers.log()?;
        }
        let waiting = writers.tables[at].loader.pending() as u64;
        Ok((stream.seen_end() + waiting).saturating_sub(day.first_of(table.name())))
    }

    /// Logs and publishes what has been collected, and publishes what has been logged.
    ///
    /// # Errors
    /// What keeps it from being logged; it is kept, and the call can be made again.
    pub fn flush(&self) -> Result<(), TickError> {
        let mut writers = self.writers();
        if let Some(at) = writers.unlogged {
            writers.tables[at].loader.flush()?;
            writers.unlogged = None;
        }
        self.plan.tables().iter().for_each(|(_, stream)| stream.publish());
        Ok(())
    }

    /// Does what is due: ends the day if it is over at this time, and purges days that are not kept any more. Whoever opens a
    /// plant calls it several times a second. Returns the new day if one began.
    ///
    /// # Errors
    /// As [`Plant::end_of_day`].
    pub fn tick(&self, now: Timestamp) -> Result<Option<Arc<Day>>, TickError> {
        let date = self.options.day_end.as_ref().map(|day_end| day_end.date_at(now));
        let began = match date.filter(|date| *date > self.day().date) {
            Some(date) => Some(self.begin(date)?),
            None => None,
        };
        self.purge()?;
        Ok(began)
    }

    /// Ends a day, and so all before it: subscribers are told once, in the calendar. Tomorrow begins, unless the day that is
    /// open is later than `date` already: then nothing happens. Returns the day that is open now.
    ///
    /// # Errors
    /// What keeps updates and the calendar from being written: the day then goes on.
    pub fn end_of_day(&self, date: Date) -> Result<Arc<Day>, TickError> {
        self.begin(date.next())
    }

    fn begin(&self, date: Date) -> Result<Arc<Day>, TickError> {
        let mut day = self.day.write().unwrap_or_else(PoisonError::into_inner);
        if date <= day.date {
            return Ok(day.clone());
        }
        self.writers().log()?;
        let day_end = self.options.day_end.clone().unwrap_or_default();
        let make = |first| Day { date, midnight: day_end.midnight(date), first };
        let begun = self.sequenced.sequencer.begin_day(day.date, make)?;
        *day = Arc::new(begun);
        Ok(day.clone())
    }

    fn purge(&self) -> Result<(), TickError> {
        match self.options.keep_days {
            Some(keep) => self.keeping.purge(&self.plan, self.options.hdb.as_ref(), self.day().date, keep),
            None => Ok(()),
        }
    }

    /// Which day is kept though it is older than the days to keep, and why; `None`: no day is.
    pub fn kept_back(&self) -> Option<String> {
        self.keeping.kept_back()
    }

    fn writers(&self) -> MutexGuard<'_, Writers> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, table: &str) -> Result<usize, TickError> {
        let place = self.plan.tables().iter().position(|(known, _)| known.name() == table);
        match place {
            Some(place) => Ok(place),
            None => self.plan.table(table).map(|_| 0),
        }
    }
}

/// Makes the streams of a plant beside its tables, if need be.
fn make(db: &Database, name: &str, options: &PlantOptions) -> Result<Plan, TickError> {
    let beside = arrivals::options(options.stream);
    db.open_or_create_stream(&plan::stream_name(name, ARRIVALS), arrivals::schema(), beside)?;
    let kept_for_ever = StreamOptions { retention: Default::default(), ..options.stream };
    let calendar = plan::stream_name(name, CALENDAR);
    let calendar = db.open_or_create_stream(&calendar, calendar::schema(), kept_for_ever)?;
    let plan = Plan::open(db, name)?;
    if calendar::days(&calendar)?.is_empty() {
        let day_end = options.day_end.clone().unwrap_or_default();
        let date = day_end.date_at(now());
        // What is in the tables already was imported, say: it is no part of any day.
        let first = plan.tables().iter().map(|(table, stream)| (table.name().to_string(), stream.seen_end()));
        let first = first.chain([(ARRIVALS.into(), plan.arrivals()?.seen_end())]).collect();
        write_day(&calendar, name, &Day { date, midnight: day_end.midnight(date), first }, None)?;
    }
    Ok(plan)
}

impl Writers {
    /// Logs what has been taken.
    fn log(&mut self) -> Result<(), TickError> {
        match self.unlogged.take() {
            Some(at) => self.tables[at].flush(0).map(drop),
            None => Ok(()),
        }
    }
}

impl Writer {
    fn new((table, stream): &(Table, Stream)) -> Result<Self, TickError> {
        let cells = Cells::of(table, stream.layouts());
        let mut loader = stream.loader()?;
        // Updates are seen whole, up to this size.
        loader.set_batch_bytes(UPDATE_BYTES);
        Ok(Self { table: table.name().into(), cells, loader, bodies: Vec::new() })
    }

    /// Appends the rows of an update to what waits to be logged.
    fn take(&mut self, table: &Table, columns: &[Column], clock: &Clock) -> Result<(), TickError> {
        let Self { cells, loader, bodies, .. } = self;
        let (times, symbols, fields) = split(table, cells, columns)?;
        cells.check(fields, symbols.len())?;
        // All bodies first: an update is taken whole or not at all.
        let ends = encode(cells, fields, symbols, bodies)?;
        let ids = (0..symbols.len()).map(|row| loader.symbol(symbol_of(symbols, row)));
        let ids = ids.collect::<Result<Vec<_>, _>>()?;
        for (row, end) in ends.iter().enumerate() {
            let start = if row == 0 { 0 } else { ends[row - 1] };
            let time = Timestamp(clock.time(times.map(|times| times[row])));
            let appended = loader.append_body_by_id(ids[row], time, cells.type_id, &bodies[start..*end]);
            if let Err(cause) = appended {
                return Err(self.give_up(row as u64, ends.len() as u64, cause));
            }
        }
        Ok(())
    }

    /// Logs what waits, the last `rows` of it being one update. What cannot be logged is given up: whoever is told so sends it
    /// again.
    fn flush(&mut self, rows: u64) -> Result<u64, TickError> {
        match self.loader.flush() {
            Ok(next) => Ok(next),
            Err(cause) => Err(self.give_up(rows, rows, cause)),
        }
    }

    /// Gives up what waits; of an update of `rows`, `appended` had been.
    fn give_up(&mut self, appended: u64, rows: u64, cause: tapedb_engine::Error) -> TickError {
        let lost = self.loader.discard() as u64;
        let stored = appended.saturating_sub(lost);
        TickError::NotLogged { table: self.table.clone(), rows, stored, cause: Box::new(cause) }
    }
}

/// Times that an update brings as those of messages.
struct Clock {
    kind: crate::kind::Kind,
    midnight: i64,
    now: i64,
}

impl Clock {
    fn time(&self, value: Option<i64>) -> i64 {
        match value {
            None => self.now,
            Some(value) => self.kind.nanos_of_time(value, self.midnight),
        }
    }
}

/// Times (unless they are to be now), symbols and fields of an update.
type Split<'a> = (Option<&'a [i64]>, &'a Texts, &'a [Column]);

fn split<'a>(table: &Table, cells: &Cells, columns: &'a [Column]) -> Result<Split<'a>, TickError> {
    let wanted = table.columns().len();
    let (times, rest) = match columns {
        [Column::Long(times), rest @ ..] if columns.len() == wanted => (Some(&times[..]), rest),
        [other, ..] if columns.len() == wanted => {
            return Err(cells.refused(format!("column time brings {}; it takes longs", other.what())));
        }
        rest => (None, rest),
    };
    let Some((Column::Text(symbols), fields)) = rest.split_first() else {
        return Err(cells.refused(format!("it needs sym, as texts, and {} columns behind it", wanted - 2)));
    };
    if times.is_some_and(|times| times.len() != symbols.len()) {
        return Err(cells.refused("time and sym have different numbers of rows".into()));
    }
    if let Some(row) = times.and_then(|times| times.iter().position(|time| *time == i64::MIN)) {
        return Err(cells.refused(format!(
            "row {row}: time is null, which no message's can be; send a time, or leave the column time out for the plant's clock"
        )));
    }
    Ok((times, symbols, fields))
}

/// Writes all bodies of an update, one after the other; where each ends.
fn encode(
    cells: &Cells,
    fields: &[Column],
    symbols: &Texts,
    bodies: &mut Vec<u8>,
) -> Result<Vec<usize>, TickError> {
    bodies.clear();
    let mut ends = Vec::with_capacity(symbols.len());
    for row in 0..symbols.len() {
        let symbol = symbols.get(row);
        if symbol.len() > 255 || str::from_utf8(symbol).is_err() {
            return Err(cells.refused(format!(
                "row {row}: sym has {} bytes, or is not UTF-8; it takes at most 255",
                symbol.len()
            )));
        }
        let start = bodies.len();
        cells.encode(fields, row, bodies)?;
        debug_assert!(bodies.len() >= start);
        ends.push(bodies.len());
    }
    Ok(ends)
}

fn symbol_of(symbols: &Texts, row: usize) -> &str {
    match str::from_utf8(symbols.get(row)) {
        Ok("") | Err(_) => NO_SYMBOL,
        Ok(symbol) => symbol,
    }
}

pub(crate) fn write_day(
    calendar: &Stream,
    plant: &str,
    day: &Day,
    ended: Option<Date>,
) -> Result<(), TickError> {
    let mut loader = calendar.loader()?;
    loader.append(plant, now(), &day.roll(ended))?;
    loader.close()?;
    Ok(())
}

/// The clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_nanos() as i64)
}
