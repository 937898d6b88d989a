//! The HDB: days that have ended, in a database of their own.
//!
//! Each table is a stream `PLANT/TABLE`, in time order within each day; the stream `PLANT/days` has a message for each complete
//! day with its sequence numbers. A day is found by that message, not by the times of its rows. Other rows in the tables' streams,
//! as imported history, are found by their times (UTC).
//!
//! Always true: the rows that `PLANT/days` states for a day are the rows of that day and no others: they were read again and
//! compared before the message was written. The process that hands a day over has claimed it in `PLANT/handovers` ([`claims`]).
//! Of two messages of `PLANT/days` for one date the last one counts.

mod claims;
mod handover;

pub(crate) use claims::Claimant;
pub(crate) use handover::{Handover, Rows, TakeRow};

use crate::answer::{Answer, Collect};
use crate::cell::Cells;
use crate::content::Content;
use crate::date::Date;
use crate::error::{TickError, asked};
use crate::names::{DAYS, check_table, stream_name};
use crate::query::Query;
use crate::table::Table;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, Error, NotFound, Stream};
use tapedb_schema::{Schema, Timestamp};

// The doc comments are part of the schema on the disk, so they do not change, nor does the name `Part`.
/// A day is there whole. The message's symbol is its date as people write it.
#[derive(Record, Debug, Clone, Default, PartialEq)]
#[record(message)]
struct Stored {
    /// Its date, in days since 1970.
    date: i32,
    /// When that date began where the plant is.
    midnight: Timestamp,
    /// Where it is in each table.
    tables: Vec<DayRows>,
}

/// The messages of a day in one table.
#[derive(Record, Debug, Clone, Default, PartialEq)]
#[record(name = "Part")]
struct DayRows {
    /// The table.
    table: String,
    /// Sequence number of the first one.
    first: u64,
    /// How many.
    rows: u64,
    /// The earliest time.
    time_min: Timestamp,
    /// The latest time.
    time_max: Timestamp,
}

impl DayRows {
    fn sequences(&self) -> Range<u64> {
        self.first..self.first.saturating_add(self.rows)
    }
}

/// A database of days. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hdb {
    db: Database,
}

impl Hdb {
    /// Of an open database: a local one for writing, or one behind a server.
    pub fn new(db: Database) -> Self {
        Self { db }
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// The days of a plant that it has, in order: those that were handed over, and the dates (UTC) of imported rows.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn dates(&self, plant: &str) -> Result<Vec<Date>, TickError> {
        let days = self.days(plant)?;
        let mut dates: BTreeSet<Date> = days.stored.keys().copied().collect();
        for table in self.tables(plant)? {
            let (_, stream) = self.table(plant, table.name())?;
            dates.extend(days.imported(table.name(), &stream)?);
        }
        Ok(dates.into_iter().collect())
    }

    /// The days that were handed over, with how many rows each has of each table.
    pub(crate) fn handed_over(&self, plant: &str) -> Result<BTreeMap<Date, Vec<(String, u64)>>, TickError> {
        let rows = |day: Stored| day.tables.into_iter().map(|rows| (rows.table, rows.rows)).collect();
        Ok(self.stored(plant)?.into_iter().map(|(date, day)| (date, rows(day))).collect())
    }

    /// The tables of a plant.
    ///
    /// # Errors
    /// When their streams cannot be opened.
    pub fn tables(&self, plant: &str) -> Result<Vec<Table>, TickError> {
        let prefix = stream_name(plant, "");
        let mut tables = Vec::new();
        for name in self.db.streams()? {
            let table = name.strip_prefix(&prefix);
            if let Some(table) = table.filter(|table| check_table(table).is_ok()) {
                tables.push(Table::of_schema(self.db.stream(&name)?.schema())?.named(table));
            }
        }
        Ok(tables)
    }

    /// Rows of one day, or of all days, that a query wants.
    ///
    /// # Errors
    /// [`TickError::NoTable`] and [`TickError::NoColumn`]; [`TickError::Asked`] for a day that it does not have; when it
    /// cannot be read.
    pub fn query(&self, plant: &str, date: Option<Date>, query: &Query) -> Result<Answer, TickError> {
        let (table, stream) = self.table(plant, &query.table)?;
        let days = self.days(plant)?;
        let dates = match date {
            Some(date) if !days.stored.contains_key(&date) && !self.dates(plant)?.contains(&date) => {
                return asked(format!(
                    "the HDB does not have {date} of plant {plant}; see the dates it has (`tapedb tick query --status`)"
                ));
            }
            Some(date) => BTreeSet::from([date]),
            None => {
                let imported = days.imported(table.name(), &stream)?;
                days.stored.keys().copied().chain(imported).collect()
            }
        };
        let mut collect = Collect::new(&table, Cells::of(&table, stream.layouts()), query)?;
        for date in dates {
            match days.stored.get(&date) {
                Some(day) => {
                    let tables = day.tables.iter().filter(|rows| rows.table == query.table);
                    for rows in tables {
                        collect_day(&stream, rows, day.midnight, query, &mut collect)?;
                    }
                }
                None => days.collect_imported(&stream, date, query, &mut collect)?,
            }
        }
        collect.finish()
    }

    /// The content of a day of a table that was handed over; `None`: it was not, or the table has other columns now.
    pub(crate) fn content(
        &self,
        plant: &str,
        date: Date,
        table: &Table,
    ) -> Result<Option<Content>, TickError> {
        let stored = self.stored(plant)?;
        let Some(day) = stored.get(&date) else { return Ok(None) };
        let found: Vec<&DayRows> = day.tables.iter().filter(|rows| rows.table == table.name()).collect();
        if found.is_empty() {
            return Ok(Some(Content::default()));
        }
        let (there, stream) = self.table(plant, table.name())?;
        if there.columns() != table.columns() {
            return Ok(None);
        }
        let mut content = Content::default();
        for rows in found {
            add_content(&stream, rows.sequences(), &mut content)?;
        }
        Ok(Some(content))
    }

    fn table(&self, plant: &str, name: &str) -> Result<(Table, Stream), TickError> {
        match self.db.stream(&stream_name(plant, name)) {
            Err(Error::NotFound(NotFound::Stream { .. })) => {
                let known = self.tables(plant)?.iter().map(|table| table.name().to_string()).collect();
                Err(TickError::NoTable { name: name.into(), known })
            }
            found => {
                let stream = found?;
                Ok((Table::of_schema(stream.schema())?.named(name), stream))
            }
        }
    }

    fn days(&self, plant: &str) -> Result<Days, TickError> {
        let stored = self.stored(plant)?;
        // A day whose handover has begun and not ended is no day yet, and was not imported either.
        let claimed = claims::dates(&self.db, plant)?;
        Ok(Days { hidden: stored.keys().copied().chain(claimed).collect(), stored })
    }

    fn stored(&self, plant: &str) -> Result<BTreeMap<Date, Stored>, TickError> {
        let stream = match self.db.stream(&stream_name(plant, DAYS)) {
            Err(Error::NotFound(NotFound::Stream { .. })) => return Ok(BTreeMap::new()),
            found => found?,
        };
        let mut cursor = stream.cursor().from_sequence(0).open()?;
        let mut days = BTreeMap::new();
        while let Some(message) = cursor.next()? {
            let day: Stored = message.decode()?;
            days.insert(Date(day.date), day);
        }
        Ok(days)
    }
}

fn days_schema() -> Schema {
    SchemaBuilder::new().with::<Stored>().finish()
}

/// Where the days of a plant are in its tables.
struct Days {
    stored: BTreeMap<Date, Stored>,
    /// Dates that are found only in `stored`, regardless of the times of other rows.
    hidden: BTreeSet<Date>,
}

impl Days {
    /// The sequence numbers of days in a table, sorted.
    fn sequences(&self, table: &str) -> Vec<Range<u64>> {
        let days = self.stored.values().flat_map(|day| &day.tables).filter(|rows| rows.table == table);
        let mut ranges: Vec<Range<u64>> = days.map(DayRows::sequences).collect();
        ranges.sort_by_key(|range| range.start);
        ranges
    }

    /// The dates of rows of a table that were not handed over.
    fn imported(&self, table: &str, stream: &Stream) -> Result<Vec<Date>, TickError> {
        let handed_over: u64 = self.sequences(table).iter().map(|range| range.end - range.start).sum();
        let mut dates = Vec::new();
        if handed_over >= stream.stats()?.next_sequence {
            return Ok(dates);
        }
        let mut cursor = stream.cursor().open()?;
        while let Some(message) = cursor.next()? {
            let date = Date::of(message.time());
            if !self.hidden.contains(&date) {
                dates.push(date);
            }
            if date.next() == date {
                break;
            }
            cursor.seek(date.next().midnight())?;
        }
        Ok(dates)
    }

    /// Rows of a date that were not handed over.
    fn collect_imported(
        &self,
        stream: &Stream,
        date: Date,
        query: &Query,
        collect: &mut Collect,
    ) -> Result<(), TickError> {
        let ranges = self.sequences(&query.table);
        let is_in_day = |sequence: u64| {
            let at = ranges.partition_point(|range| range.start <= sequence);
            at.checked_sub(1).is_some_and(|at| ranges[at].contains(&sequence))
        };
        let times = (date.midnight(), date.next().midnight());
        collect_times(stream, times, query, |sequence, time, symbol, body| {
            is_in_day(sequence) || collect.push(time.0, symbol, body, date.midnight().0)
        })
    }
}

fn collect_day(
    stream: &Stream,
    rows: &DayRows,
    midnight: Timestamp,
    query: &Query,
    collect: &mut Collect,
) -> Result<(), TickError> {
    let times = (rows.time_min, Timestamp(rows.time_max.0.saturating_add(1)));
    let rows = rows.sequences();
    collect_times(stream, times, query, |sequence, time, symbol, body| {
        !rows.contains(&sequence) || collect.push(time.0, symbol, body, midnight.0)
    })
}

/// Calls `row` for the rows between two times that a query wants, until it returns `false`: sequence number, time, symbol, body.
fn collect_times(
    stream: &Stream,
    (from, to): (Timestamp, Timestamp),
    query: &Query,
    mut row: impl FnMut(u64, Timestamp, &str, &[u8]) -> bool,
) -> Result<(), TickError> {
    let from = query.from.unwrap_or(from).max(from);
    let to = query.to.unwrap_or(Timestamp::MAX).min(to);
    let mut cursor = stream.cursor().from(from).to(to);
    if let Some(symbols) = query.stream_symbols() {
        cursor = cursor.symbols(symbols);
    }
    let mut cursor = cursor.open()?;
    while let Some(message) = cursor.next()? {
        if !row(message.sequence(), message.time(), message.symbol(), message.body()) {
            break;
        }
    }
    Ok(())
}

/// Adds rows of a stream to a content.
fn add_content(stream: &Stream, rows: Range<u64>, content: &mut Content) -> Result<(), TickError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut cursor = stream.cursor().from_sequence(rows.start).open()?;
    while let Some(message) = cursor.next()? {
        if message.sequence() >= rows.end {
            break;
        }
        content.add(message.time(), message.symbol(), message.body());
    }
    Ok(())
}
