//! The tickerplant: takes updates, logs and publishes them, and ends days.
//!
//! Its log is the streams of its tables; who reads them with a live cursor is a subscriber. Feeds elsewhere that load these
//! streams through a server need nothing of this module, which is for updates from within the process that has the database.
//!
//! Always true: rows that were accepted before a day ended have sequence numbers below the edges in the calendar's message,
//! those accepted after it, others. A message of the calendar is written once per day.

use crate::calendar::{self, CALENDAR, Day, DayEnd};
use crate::cell::Cells;
use crate::column::{Column, Texts};
use crate::date::Date;
use crate::error::{TickError, asked};
use crate::hdb::Hdb;
use crate::kind::NANOS_PER_DAY;
use crate::plan::{self, Plan};
use crate::table::{NO_SYMBOL, Table};
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
    feeds: Vec<Feed>,
    /// Held for writing while a day ends.
    day: RwLock<Arc<Day>>,
    /// Before this date everything has been purged.
    purged: Mutex<Option<Date>>,
}

/// What writes into one table.
#[derive(Debug)]
struct Feed {
    cells: Cells,
    writer: Mutex<Writer>,
}

#[derive(Debug)]
struct Writer {
    loader: Loader,
    /// The symbol and the body at hand.
    body: Vec<u8>,
}

impl Plant {
    /// Opens a plant, and makes it, or tables that it does not have yet, if need be. If its day ended while it was closed,
    /// that day is ended now.
    ///
    /// # Errors
    /// For a name that no plant has; [`tapedb_engine::Error::Type`] for a table that is there with other columns; what keeps
    /// its streams from being opened.
    pub fn open(
        db: &Database,
        name: &str,
        tables: &[Table],
        options: PlantOptions,
    ) -> Result<Self, TickError> {
        plan::check_name(name)?;
        for table in tables {
            if table.name() == CALENDAR {
                return asked(format!(
                    "no table can be called {CALENDAR}: that is where a plant keeps its days"
                ));
            }
            db.open_or_create_stream(&plan::stream_name(name, table.name()), table.schema(), options.stream)?;
        }
        let kept_for_ever = StreamOptions { retention: Default::default(), ..options.stream };
        let calendar =
            db.open_or_create_stream(&plan::stream_name(name, CALENDAR), calendar::schema(), kept_for_ever)?;
        if calendar::days(&calendar)?.is_empty() {
            let day_end = options.day_end.clone().unwrap_or_default();
            let date = day_end.date_at(now());
            let midnight = day_end.midnight(date);
            write_day(&calendar, name, &Day { date, midnight, first: Vec::new() }, None)?;
        }
        let plan = Plan::open(db, name)?;
        let day = plan.days()?.pop().map(Arc::new);
        let Some(day) = day else { return asked(format!("the calendar of {name} is empty")) };
        let holds_back = matches!(options.publish, Publish::Every(_));
        plan.tables().iter().for_each(|(_, stream)| stream.hold_back(holds_back));
        let feeds = plan.tables().iter().map(Feed::new).collect::<Result<_, _>>()?;
        let plant = Self { plan, options, feeds, day: RwLock::new(day), purged: Mutex::new(None) };
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

    /// Takes an update of a table: its columns, all of them in order, or all but `time`, which is then now. Nulls in `time` are
    /// now too. Logged and published when this returns, if the plant does so with each update. Returns the sequence number
    /// after its last row.
    ///
    /// # Errors
    /// [`TickError::NoTable`]; [`TickError::Update`] for columns that are not the table's; what keeps it from being logged.
    pub fn update(&self, table: &str, columns: &[Column]) -> Result<u64, TickError> {
        let mut writer = self.take(table, columns)?;
        self.log_of(&mut writer)
    }

    /// As [`Plant::update`], but not logged yet: with the next update of the table, or at [`Plant::log`], whichever is first.
    /// So updates that came together are logged together.
    ///
    /// # Errors
    /// As [`Plant::update`].
    pub fn collect(&self, table: &str, columns: &[Column]) -> Result<(), TickError> {
        self.take(table, columns).map(drop)
    }

    /// Logs and publishes what [`Plant::collect`] has taken of a table, if the plant does so with each update. Returns the
    /// sequence number after its last row.
    ///
    /// # Errors
    /// [`TickError::NoTable`]; what keeps it from being logged.
    pub fn log(&self, table: &str) -> Result<u64, TickError> {
        self.log_of(&mut self.feed(table)?.1.lock())
    }

    fn log_of(&self, writer: &mut Writer) -> Result<u64, TickError> {
        match self.options.publish {
            Publish::LogEvery(_) => Ok(0),
            _ => Ok(writer.loader.flush()?),
        }
    }

    /// Has rows ready to be logged, all of them or none.
    fn take(&self, table: &str, columns: &[Column]) -> Result<MutexGuard<'_, Writer>, TickError> {
        let (table, feed) = self.feed(table)?;
        let (times, symbols, fields) = split(table, &feed.cells, columns)?;
        feed.cells.check(fields, symbols.len())?;
        let day = self.day.read().unwrap_or_else(PoisonError::into_inner);
        let mut writer = feed.lock();
        let Writer { loader, body } = &mut *writer;
        let clock = Clock { kind: table.time_kind(), midnight: day.midnight.0, now: now().0 };
        // All bodies first: an update is taken whole or not at all.
        let bodies = encode(&feed.cells, fields, symbols, body)?;
        let ids = (0..symbols.len()).map(|row| loader.symbol(symbol_of(symbols, row)));
        let ids = ids.collect::<Result<Vec<_>, _>>()?;
        for (row, end) in bodies.iter().enumerate() {
            let start = if row == 0 { 0 } else { bodies[row - 1] };
            let time = Timestamp(clock.time(times.map(|times| times[row])));
            loader.append_body_by_id(ids[row], time, feed.cells.type_id, &body[start..*end])?;
        }
        Ok(writer)
    }

    /// Rows of a table that have been logged today.
    ///
    /// # Errors
    /// [`TickError::NoTable`]; what keeps its stream from being looked at.
    pub fn rows(&self, table: &str) -> Result<u64, TickError> {
        let (table, stream) = self.plan.table(table)?;
        let day = self.day.read().unwrap_or_else(PoisonError::into_inner);
        Ok(stream.stats()?.next_sequence.saturating_sub(day.first_of(table.name())))
    }

    /// Logs and publishes what has been collected, and publishes what has been logged.
    ///
    /// # Errors
    /// What keeps it from being logged.
    pub fn flush(&self) -> Result<(), TickError> {
        for feed in &self.feeds {
            feed.lock().loader.flush()?;
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
        let mut first = Vec::new();
        for ((table, stream), feed) in self.plan.tables().iter().zip(&self.feeds) {
            feed.lock().loader.flush()?;
            first.push((table.name().to_string(), stream.stats()?.next_sequence));
        }
        let day_end = self.options.day_end.clone().unwrap_or_default();
        let new = Day { date, midnight: day_end.midnight(date), first };
        write_day(self.plan.calendar(), self.plan.name(), &new, Some(day.date))?;
        *day = Arc::new(new);
        Ok(day.clone())
    }

    /// Purges days that are not kept and, if there is an HDB, are there.
    fn purge(&self) -> Result<(), TickError> {
        let Some(keep) = self.options.keep_days else { return Ok(()) };
        let first_kept = Date(self.day().date.0.saturating_sub(keep as i32));
        let mut purged = self.purged.lock().unwrap_or_else(PoisonError::into_inner);
        if purged.is_some_and(|date| date >= first_kept) {
            return Ok(());
        }
        let days = self.plan.days()?;
        let old = days.iter().filter(|day| day.date < first_kept);
        let missing = match &self.options.hdb {
            Some(hdb) => hdb.missing(self.plan.name(), old.map(|day| day.date))?,
            None => None,
        };
        let first_kept = missing.map_or(first_kept, |missing| missing.min(first_kept));
        if let Some(kept) = days.iter().find(|day| day.date >= first_kept) {
            for (table, stream) in self.plan.tables() {
                purge_before(stream, kept, kept.first_of(table.name()))?;
            }
        }
        *purged = missing.is_none().then_some(first_kept);
        Ok(())
    }

    fn feed(&self, table: &str) -> Result<(&Table, &Feed), TickError> {
        let (known, stream) = self.plan.table(table)?;
        let at = self.plan.tables().iter().position(|(_, other)| other.name() == stream.name());
        match at.and_then(|at| self.feeds.get(at)) {
            Some(feed) => Ok((known, feed)),
            None => asked(format!("table {table} has no loader")),
        }
    }
}

impl Feed {
    fn new((table, stream): &(Table, Stream)) -> Result<Self, TickError> {
        let cells = Cells::of(table, stream.layouts());
        let mut loader = stream.loader()?;
        // Updates are seen whole, up to this size.
        loader.set_batch_bytes(UPDATE_BYTES);
        let writer = Mutex::new(Writer { loader, body: Vec::new() });
        Ok(Self { cells, writer })
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
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
            None | Some(i64::MIN) => self.now,
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

/// Purges what is older than a day that is kept: than its midnight, the day before it, and its first message.
fn purge_before(stream: &Stream, kept: &Day, first: u64) -> Result<(), TickError> {
    let mut before = kept.midnight.0.saturating_sub(NANOS_PER_DAY);
    if first < stream.stats()?.next_sequence {
        let mut cursor = stream.cursor().from_sequence(first).open()?;
        if let Some(message) = cursor.next()? {
            before = before.min(message.time().0);
        }
    }
    Ok(stream.purge(Timestamp(before))?)
}

/// The clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_nanos() as i64)
}
