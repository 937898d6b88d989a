//! The streams of a plant: of its tables, its calendar and its arrivals. The database may be local or remote.

use crate::arrivals::ARRIVALS;
use crate::calendar::{self, CALENDAR, Day};
use crate::error::{TickError, asked};
use crate::names::{RESERVED, stream_name};
use crate::table::Table;
use tapedb_engine::{Database, Error, NotFound, Stream};

/// A plant for programs that read from it or write into it: its tables, each a stream `PLANT/TABLE`, its calendar,
/// the stream `PLANT/calendar`, and the order in which rows arrived, the stream `PLANT/arrivals`.
#[derive(Debug, Clone)]
pub struct Plan {
    name: String,
    db: Database,
    tables: Vec<(Table, Stream)>,
    calendar: Stream,
    arrivals: Option<Stream>,
}

impl Plan {
    /// Opens the streams of an existing plant.
    ///
    /// # Errors
    /// [`TickError::Asked`] when there is no such plant; when its streams cannot be opened.
    pub fn open(db: &Database, name: &str) -> Result<Self, TickError> {
        let calendar = match db.stream(&stream_name(name, CALENDAR)) {
            Err(Error::NotFound(NotFound::Stream { .. })) => return no_plant(db, name),
            found => found?,
        };
        let prefix = stream_name(name, "");
        let (mut tables, mut arrivals) = (Vec::new(), None);
        for stream in db.streams()? {
            let Some(table) = stream.strip_prefix(&prefix) else { continue };
            match table {
                ARRIVALS => arrivals = Some(db.stream(&stream)?),
                table if RESERVED.contains(&table) => {}
                table => {
                    let stream = db.stream(&stream)?;
                    tables.push((Table::of_schema(stream.schema())?.named(table), stream));
                }
            }
        }
        Ok(Self { name: name.into(), db: db.clone(), tables, calendar, arrivals })
    }

    /// Names of the plants of a database, sorted.
    ///
    /// # Errors
    /// When its streams cannot be listed.
    pub fn names(db: &Database) -> Result<Vec<String>, TickError> {
        let suffix = stream_name("", CALENDAR);
        Ok(db
            .streams()?
            .iter()
            .filter_map(|stream| stream.strip_suffix(&suffix))
            .map(str::to_string)
            .collect())
    }

    /// The plant's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// Its tables with their streams, sorted by name.
    pub fn tables(&self) -> &[(Table, Stream)] {
        &self.tables
    }

    /// Keeps only these tables.
    ///
    /// # Errors
    /// [`TickError::NoTable`].
    pub fn only<S: AsRef<str>>(mut self, tables: &[S]) -> Result<Self, TickError> {
        for name in tables {
            self.table(name.as_ref())?;
        }
        self.tables.retain(|(table, _)| tables.iter().any(|name| name.as_ref() == table.name()));
        Ok(self)
    }

    /// A table and its stream.
    ///
    /// # Errors
    /// [`TickError::NoTable`].
    pub fn table(&self, name: &str) -> Result<&(Table, Stream), TickError> {
        self.tables.iter().find(|(table, _)| table.name() == name).ok_or_else(|| TickError::NoTable {
            name: name.into(),
            known: self.tables.iter().map(|(table, _)| table.name().into()).collect(),
        })
    }

    /// The stream of the beginnings of days; [`day_of`](crate::day_of) reads its messages.
    pub fn calendar(&self) -> &Stream {
        &self.calendar
    }

    /// The stream of the order in which rows arrived over all tables; a [`Subscription`](crate::Subscription) reads it.
    ///
    /// # Errors
    /// [`TickError::Asked`] for a plant that was last opened by a version that did not record it.
    pub fn arrivals(&self) -> Result<&Stream, TickError> {
        match &self.arrivals {
            Some(arrivals) => Ok(arrivals),
            None => asked(format!(
                "plant {} has no stream {}: it records the order of its rows once this version has opened it (`tapedb tick plant`)",
                self.name,
                stream_name(&self.name, ARRIVALS)
            )),
        }
    }

    /// All days so far, the last one being today.
    ///
    /// # Errors
    /// When the calendar cannot be read; [`TickError::Asked`] for an empty one.
    pub fn days(&self) -> Result<Vec<Day>, TickError> {
        let days = calendar::days(&self.calendar)?;
        if days.is_empty() {
            return asked(format!("the calendar of plant {} is empty; open the plant once", self.name));
        }
        Ok(days)
    }
}

fn no_plant<T>(db: &Database, name: &str) -> Result<T, TickError> {
    let known = Plan::names(db)?;
    let known = if known.is_empty() { "none".into() } else { known.join(", ") };
    asked(format!("{} has no plant {name:?}; it has {known}", db.path().display()))
}
