//! The HDB: days that have ended, in a database of their own.
//!
//! Each table is a stream `PLANT/TABLE`, in time order within each day; the stream `PLANT/days` has a message for each day that
//! is there whole, which says where it is. A day is found by that, not by the times of its messages.
//!
//! Always true: what is in a table's stream behind the last day that is whole is a beginning of the next one, left by a
//! hand-over that did not come to its end; the next attempt goes on behind it.

use crate::answer::{Answer, Collect};
use crate::cell::Cells;
use crate::date::Date;
use crate::error::{TickError, asked};
use crate::plan::stream_name;
use crate::query::Query;
use crate::table::Table;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, Error, Stream, StreamOptions};
use tapedb_schema::{Schema, Timestamp};

/// Name of the stream that says which days are there.
const DAYS: &str = "days";

/// A day is there whole.
#[derive(Record, Debug, Clone, Default, PartialEq)]
#[record(message)]
struct Stored {
    /// Its date, in days since 1970.
    date: i32,
    /// When that date began where the plant is.
    midnight: Timestamp,
    /// Where it is in each table.
    tables: Vec<Part>,
}

/// The messages of a day in one table.
#[derive(Record, Debug, Clone, Default, PartialEq)]
struct Part {
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

/// A database of days. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hdb {
    db: Database,
}

/// Takes a row: time, symbol and body.
pub(crate) type TakeRow<'a> = &'a mut dyn FnMut(Timestamp, &str, &[u8]) -> Result<(), TickError>;

/// Rows of one table that are handed over, in time order.
pub(crate) trait Rows {
    /// How many.
    fn len(&self) -> u64;
    /// Earliest and latest time; none if there is no row.
    fn times(&self) -> Option<(Timestamp, Timestamp)>;
    /// Gives rows from one on, in time order, those of equal times as they came: time, symbol and body, until it says stop.
    fn each(&self, from: u64, row: TakeRow<'_>) -> Result<(), TickError>;
}

impl Hdb {
    /// Of a database that is open: here for writing, or behind a server.
    pub fn new(db: Database) -> Self {
        Self { db }
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// The days of a plant that are there whole, in the order in which they came.
    ///
    /// # Errors
    /// What keeps them from being read.
    pub fn dates(&self, plant: &str) -> Result<Vec<Date>, TickError> {
        Ok(self.stored(plant)?.iter().map(|day| Date(day.date)).collect())
    }

    /// The first of some days that is not there.
    pub(crate) fn missing(
        &self,
        plant: &str,
        dates: impl Iterator<Item = Date>,
    ) -> Result<Option<Date>, TickError> {
        let stored = self.dates(plant)?;
        Ok(dates.filter(|date| !stored.contains(date)).min())
    }

    /// The tables of a plant.
    ///
    /// # Errors
    /// What keeps their streams from being opened.
    pub fn tables(&self, plant: &str) -> Result<Vec<Table>, TickError> {
        let prefix = stream_name(plant, "");
        let mut tables = Vec::new();
        for name in self.db.streams()? {
            if let Some(table) = name.strip_prefix(&prefix).filter(|table| *table != DAYS) {
                tables.push(Table::of_schema(self.db.stream(&name)?.schema())?.named(table));
            }
        }
        Ok(tables)
    }

    /// Rows of one day, or of all days, that a query wants.
    ///
    /// # Errors
    /// [`TickError::NoTable`] and [`TickError::NoColumn`]; [`TickError::Asked`] for a day that is not there; what keeps it
    /// from being read.
    pub fn query(&self, plant: &str, date: Option<Date>, query: &Query) -> Result<Answer, TickError> {
        let (table, stream) = self.table(plant, &query.table)?;
        let stored = self.stored(plant)?;
        let days: Vec<&Stored> =
            stored.iter().filter(|day| date.is_none_or(|date| day.date == date.0)).collect();
        if let (Some(date), true) = (date, days.is_empty()) {
            return asked(format!("the HDB does not have {date} of plant {plant}; see the dates it has"));
        }
        let mut collect = Collect::new(&table, Cells::of(&table, stream.layouts()), query)?;
        for day in days {
            let Some(part) = day.tables.iter().find(|part| part.table == query.table) else { continue };
            collect_part(&stream, part, day.midnight, query, &mut collect)?;
        }
        collect.finish()
    }

    fn table(&self, plant: &str, name: &str) -> Result<(Table, Stream), TickError> {
        match self.db.stream(&stream_name(plant, name)) {
            Err(Error::NoStream { .. }) => {
                let known = self.tables(plant)?.iter().map(|table| table.name().to_string()).collect();
                Err(TickError::NoTable { name: name.into(), known })
            }
            found => {
                let stream = found?;
                Ok((Table::of_schema(stream.schema())?.named(name), stream))
            }
        }
    }

    fn stored(&self, plant: &str) -> Result<Vec<Stored>, TickError> {
        let stream = match self.db.stream(&stream_name(plant, DAYS)) {
            Err(Error::NoStream { .. }) => return Ok(Vec::new()),
            found => found?,
        };
        let mut cursor = stream.cursor().open()?;
        let mut days = Vec::new();
        while let Some(message) = cursor.next()? {
            days.push(message.decode()?);
        }
        Ok(days)
    }

    /// Takes a day of all tables, unless it is there; what an earlier attempt has written is not written again.
    pub(crate) fn store(
        &self,
        plant: &str,
        day: (Date, Timestamp),
        tables: &[(Table, &dyn Rows)],
        options: StreamOptions,
    ) -> Result<(), TickError> {
        let (date, midnight) = day;
        let stored = self.stored(plant)?;
        if stored.iter().any(|day| day.date == date.0) {
            return Ok(());
        }
        let mut parts = Vec::new();
        for (table, rows) in tables {
            let stream =
                self.db.open_or_create_stream(&stream_name(plant, table.name()), table.schema(), options)?;
            let before =
                stored.iter().rev().flat_map(|day| &day.tables).find(|part| part.table == table.name());
            let first = before.map_or(0, |part| part.first + part.rows);
            let type_id = Cells::of(table, stream.layouts()).type_id;
            write_rows(&stream, first, type_id, *rows)?;
            stream.seal()?;
            let (time_min, time_max) = rows.times().unwrap_or_default();
            parts.push(Part { table: table.name().into(), first, rows: rows.len(), time_min, time_max });
        }
        let days = self.db.open_or_create_stream(&stream_name(plant, DAYS), days_schema(), options)?;
        let mut loader = days.loader()?;
        loader.append(plant, crate::plant::now(), &Stored { date: date.0, midnight, tables: parts })?;
        loader.close()?;
        Ok(())
    }
}

fn days_schema() -> Schema {
    SchemaBuilder::new().with::<Stored>().finish()
}

/// Writes what is not there of the rows that begin at a sequence number.
fn write_rows(stream: &Stream, first: u64, type_id: u16, rows: &dyn Rows) -> Result<(), TickError> {
    let have = stream.stats()?.next_sequence.saturating_sub(first);
    if have > rows.len() {
        return asked(format!(
            "stream {} of the HDB has {have} messages behind its last whole day, where the plant has {}; somebody else writes there",
            stream.name(),
            rows.len()
        ));
    }
    let mut loader = stream.loader()?;
    rows.each(have, &mut |time, symbol, body| {
        let symbol = loader.symbol(symbol)?;
        Ok(loader.append_body_by_id(symbol, time, type_id, body)?)
    })?;
    loader.close()?;
    Ok(())
}

fn collect_part(
    stream: &Stream,
    part: &Part,
    midnight: Timestamp,
    query: &Query,
    collect: &mut Collect,
) -> Result<(), TickError> {
    let from = query.from.unwrap_or(part.time_min).max(part.time_min);
    let to = query.to.unwrap_or(Timestamp::MAX).min(Timestamp(part.time_max.0.saturating_add(1)));
    let mut cursor = stream.cursor().from(from).to(to);
    if let Some(symbols) = query.stream_symbols() {
        cursor = cursor.symbols(symbols);
    }
    let mut cursor = cursor.open()?;
    while let Some(message) = cursor.next()? {
        let in_day = (part.first..part.first + part.rows).contains(&message.sequence());
        if in_day && !collect.push(message.time().0, message.symbol(), message.body(), midnight.0) {
            break;
        }
    }
    Ok(())
}
