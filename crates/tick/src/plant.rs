//! The tickerplant: takes updates, logs and publishes them, and ends days.
//!
//! Its log is the streams of its tables; a reader with a live cursor is a subscriber. Remote feeds that load these streams
//! through a server do not need this module, which is for updates from within the process that has the database.
//!
//! Always true: rows that were accepted before a day ended have sequence numbers below the edges in the calendar's message,
//! those accepted after it have others. A message of the calendar is written once per day. Rows of all tables are logged in the
//! order in which they arrived, which the [`Sequencer`] records. An update that was answered with an error is not stored later.

mod options;
mod retention;

pub use options::{PlantOptions, Publish};

use crate::arrivals::sequencer::Sequenced;
use crate::arrivals::{self, ARRIVALS, Sequencer};
use crate::calendar::{self, CALENDAR, Day, write_day};
use crate::cell::Cells;
use crate::clock::now;
use crate::column::{Column, Texts};
use crate::date::Date;
use crate::error::{TickError, asked};
use crate::names::{check_name, check_table, stream_name};
use crate::plan::Plan;
use crate::table::{NO_SYMBOL, Table};
use crate::widen;
use retention::DayRetention;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tapedb_engine::{Database, Loader, Stream, StreamOptions};
use tapedb_schema::Timestamp;

/// An update of so many bytes is one batch.
const UPDATE_BYTES: usize = 8 << 20;

/// An open plant. One process has it, which also has its database open for writing; all of it can be used from any thread.
#[derive(Debug)]
pub struct Plant {
    plan: Plan,
    options: PlantOptions,
    sequenced: Sequenced,
    writers: Mutex<Writers>,
    /// Held for writing while a day ends.
    day: RwLock<Arc<Day>>,
    retention: DayRetention,
}

/// The writers of the tables. Always true: only table `unlogged` has rows that are accepted and not logged, so that rows are
/// logged in the order in which they arrived.
#[derive(Debug)]
struct Writers {
    tables: Vec<Writer>,
    unlogged: Option<usize>,
}

/// The writer of one table.
#[derive(Debug)]
struct Writer {
    table: String,
    cells: Cells,
    loader: Loader,
    /// The bodies of the current update.
    bodies: Vec<u8>,
}

impl Plant {
    /// Opens a plant, and creates it, or tables that it does not have yet, if necessary; new columns are added to tables.
    /// If its day ended while it was closed, that day is ended now.
    ///
    /// # Errors
    /// For an invalid name; [`TickError::Columns`] for an existing table with columns that would be lost; when its streams
    /// cannot be opened.
    pub fn open(
        db: &Database,
        name: &str,
        tables: &[Table],
        options: PlantOptions,
    ) -> Result<Self, TickError> {
        check_name(name)?;
        for table in tables {
            check_table(table.name())?;
            widen::open(db, &stream_name(name, table.name()), table, options.stream)?;
        }
        let plan = make(db, name, &options)?;
        let sequenced = Sequencer::start(&plan)?;
        let day = plan.days()?.pop().map(Arc::new);
        let Some(day) = day else { return asked(format!("the calendar of {name} is empty")) };
        let holds_back = !matches!(options.publish, Publish::Each);
        plan.tables().iter().for_each(|(_, stream)| stream.hold_back(holds_back));
        let tables = plan.tables().iter().map(Writer::new).collect::<Result<_, _>>()?;
        let writers = Mutex::new(Writers { tables, unlogged: None });
        let retention = DayRetention::default();
        let plant = Self { plan, options, sequenced, writers, day: RwLock::new(day), retention };
        plant.tick(now())?;
        Ok(plant)
    }

    /// Its streams: for cursors.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Its options.
    pub fn options(&self) -> &PlantOptions {
        &self.options
    }

    /// Today.
    pub fn day(&self) -> Arc<Day> {
        self.day.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Accepts an update of a table: its columns, all of them in order, or all but `time`, which is then now. Logged and published
    /// when this returns, if the plant does so with each update. Returns the sequence number after its last row.
    ///
    /// # Errors
    /// [`TickError::NoTable`]; [`TickError::Update`] for columns that are not the table's, and for a time that is null: nothing
    /// of it is stored. [`TickError::NotLogged`] when it cannot be logged: it states how much is stored; no more will be.
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
    /// [`Plant::log`], whichever is first. So updates that arrive together are logged together.
    ///
    /// # Errors
    /// As [`Plant::update`].
    pub fn collect(&self, table: &str, columns: &[Column]) -> Result<(), TickError> {
        let day = self.day.read().unwrap_or_else(PoisonError::into_inner);
        self.take(&day, &mut self.writers(), table, columns).map(drop)
    }

    /// Logs and publishes the updates of [`Plant::collect`], if the plant does so with each update.
    ///
    /// # Errors
    /// [`TickError::NotLogged`]: rows that are not stored are discarded.
    pub fn log(&self) -> Result<(), TickError> {
        match self.options.publish {
            Publish::LogEvery(_) => Ok(()),
            _ => self.writers().log(),
        }
    }

    /// Appends the rows of an update to a writer, all of them or none. The index of the table.
    fn take(
        &self,
        day: &Day,
        writers: &mut Writers,
        table: &str,
        columns: &[Column],
    ) -> Result<usize, TickError> {
        let at = self.index(table)?;
        let table = &self.plan.tables()[at].0;
        if writers.unlogged.is_some_and(|unlogged| unlogged != at) {
            // Earlier rows are logged first.
            writers.log()?;
        }
        let clock = Clock { kind: table.time_kind(), midnight: day.midnight.0, now: now().0 };
        writers.tables[at].take(table, columns, &clock)?;
        writers.unlogged = Some(at);
        Ok(at)
    }

    /// Rows of a table that have been accepted today: logged, except those that are [logged on a timer](Publish::LogEvery).
    ///
    /// # Errors
    /// [`TickError::NoTable`]; when collected rows cannot be logged.
    pub fn rows(&self, table: &str) -> Result<u64, TickError> {
        let at = self.index(table)?;
        let (table, stream) = &self.plan.tables()[at];
        let day = self.day.read().unwrap_or_else(PoisonError::into_inner);
        let mut writers = self.writers();
        if !matches!(self.options.publish, Publish::LogEvery(_)) {
            writers.log()?;
        }
        let waiting = writers.tables[at].loader.pending() as u64;
        Ok((stream.seen_end() + waiting).saturating_sub(day.first_of(table.name())))
    }

    /// Logs and publishes collected rows, and publishes logged ones.
    ///
    /// # Errors
    /// When they cannot be logged; they stay collected, and the call can be repeated.
    pub fn flush(&self) -> Result<(), TickError> {
        let mut writers = self.writers();
        if let Some(at) = writers.unlogged {
            writers.tables[at].loader.flush()?;
            writers.unlogged = None;
        }
        self.plan.tables().iter().for_each(|(_, stream)| stream.publish());
        Ok(())
    }

    /// Ends the day if it is over at this time, and purges days that are older than those to keep. The program that opens a
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

    /// Ends a day, and so all before it: the calendar gets one message. The next day begins, unless the current day is later
    /// than `date` already: then nothing happens. Returns the current day.
    ///
    /// # Errors
    /// When updates or the calendar cannot be written: the day then continues.
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
            Some(keep) => self.retention.purge(&self.plan, &self.options, self.day().date, keep),
            None => Ok(()),
        }
    }

    /// The day that is kept though it is older than the days to keep, and why; `None`: there is none.
    pub fn kept_back(&self) -> Option<String> {
        self.retention.kept_back()
    }

    fn writers(&self) -> MutexGuard<'_, Writers> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn index(&self, table: &str) -> Result<usize, TickError> {
        let index = self.plan.tables().iter().position(|(other, _)| other.name() == table);
        match index {
            Some(index) => Ok(index),
            None => self.plan.table(table).map(|_| 0),
        }
    }
}

/// Creates the streams of a plant beside its tables, if necessary.
fn make(db: &Database, name: &str, options: &PlantOptions) -> Result<Plan, TickError> {
    let beside = arrivals::options(options.stream);
    db.open_or_create_stream(&stream_name(name, ARRIVALS), arrivals::schema(), beside)?;
    let unlimited = StreamOptions { retention: Default::default(), ..options.stream };
    let calendar = stream_name(name, CALENDAR);
    let calendar = db.open_or_create_stream(&calendar, calendar::schema(), unlimited)?;
    let plan = Plan::open(db, name)?;
    if calendar::days(&calendar)?.is_empty() {
        let day_end = options.day_end.clone().unwrap_or_default();
        let date = day_end.date_at(now());
        // Rows that are in the tables already, as imported ones, belong to no day.
        let first = plan.tables().iter().map(|(table, stream)| (table.name().to_string(), stream.seen_end()));
        let first = first.chain([(ARRIVALS.into(), plan.arrivals()?.seen_end())]).collect();
        write_day(&calendar, name, &Day { date, midnight: day_end.midnight(date), first }, None)?;
    }
    Ok(plan)
}

impl Writers {
    /// Logs the accepted rows.
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
        // Updates are visible whole, up to this size.
        loader.set_batch_bytes(UPDATE_BYTES);
        Ok(Self { table: table.name().into(), cells, loader, bodies: Vec::new() })
    }

    /// Appends the rows of an update to the rows to be logged.
    fn take(&mut self, table: &Table, columns: &[Column], clock: &Clock) -> Result<(), TickError> {
        let Self { cells, loader, bodies, .. } = self;
        let (times, symbols, fields) = split(table, cells, columns)?;
        cells.check(fields, symbols.len())?;
        // All bodies first: an update is accepted whole or not at all.
        let ends = encode(cells, fields, symbols, bodies)?;
        let ids = (0..symbols.len()).map(|row| loader.symbol(symbol_of(symbols, row)));
        let ids = ids.collect::<Result<Vec<_>, _>>()?;
        for (row, end) in ends.iter().enumerate() {
            let start = if row == 0 { 0 } else { ends[row - 1] };
            let time = Timestamp(clock.time(times.map(|times| times[row])));
            let appended = loader.append_body_by_id(ids[row], time, cells.type_id, &bodies[start..*end]);
            if let Err(cause) = appended {
                return Err(self.discard(row as u64, ends.len() as u64, cause));
            }
        }
        Ok(())
    }

    /// Logs the waiting rows; the last `rows` of them are one update. Rows that cannot be logged are discarded: the sender gets
    /// an error and sends them again.
    fn flush(&mut self, rows: u64) -> Result<u64, TickError> {
        match self.loader.flush() {
            Ok(next) => Ok(next),
            Err(cause) => Err(self.discard(rows, rows, cause)),
        }
    }

    /// Discards the waiting rows; of an update of `rows`, `appended` had been appended.
    fn discard(&mut self, appended: u64, rows: u64, cause: tapedb_engine::Error) -> TickError {
        let lost = self.loader.discard() as u64;
        let stored = appended.saturating_sub(lost);
        TickError::NotLogged { table: self.table.clone(), rows, stored, cause: Box::new(cause) }
    }
}

/// Converts the times of an update to those of messages.
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
        return Err(cells.refused(format!("it needs sym, as texts, and {} columns after it", wanted - 2)));
    };
    if times.is_some_and(|times| times.len() != symbols.len()) {
        return Err(cells.refused("time and sym have different numbers of rows".into()));
    }
    if let Some(row) = times.and_then(|times| times.iter().position(|time| *time == i64::MIN)) {
        return Err(cells.refused(format!(
            "row {row}: time is null, which is not possible for a message; send a time, or leave the column time out for the plant's clock"
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
