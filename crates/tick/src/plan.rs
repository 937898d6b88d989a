//! What a plant consists of, wherever its database is: the streams of its tables and its calendar.

use crate::arrivals::ARRIVALS;
use crate::calendar::{self, CALENDAR, Day};
use crate::error::{TickError, asked};
use crate::table::Table;
use tapedb_engine::{Database, Error, Stream};

/// Most bytes of a plant's name.
pub const PLANT_NAME_BYTES_MAX: usize = 32;

/// Names of a plant's streams, and of an HDB's, that are no tables.
const RESERVED: [&str; 4] = [CALENDAR, ARRIVALS, crate::hdb::DAYS, crate::hdb::HANDOVERS];

/// A plant as those know it who read from it, or write into it: its tables, each a stream `PLANT/TABLE`, its calendar,
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
    /// Looks at the streams of a plant that exists.
    ///
    /// # Errors
    /// [`TickError::Asked`] when there is no such plant; what keeps its streams from being opened.
    pub fn open(db: &Database, name: &str) -> Result<Self, TickError> {
        let calendar = match db.stream(&stream_name(name, CALENDAR)) {
            Err(Error::NoStream { .. }) => return no_plant(db, name),
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

    /// The stream that says where days begin; [`day_of`](crate::day_of) reads its messages.
    pub fn calendar(&self) -> &Stream {
        &self.calendar
    }

    /// The stream that says in which order rows arrived over all tables; a [`Subscription`](crate::Subscription) reads it.
    ///
    /// # Errors
    /// [`TickError::Asked`] for a plant that was last opened by a version that did not note it.
    pub fn arrivals(&self) -> Result<&Stream, TickError> {
        match &self.arrivals {
            Some(arrivals) => Ok(arrivals),
            None => asked(format!(
                "plant {} has no stream {}: it notes the order of its rows from when this version opens it (`tapedb tick plant`)",
                self.name,
                stream_name(&self.name, ARRIVALS)
            )),
        }
    }

    /// All days so far, the last one being today.
    ///
    /// # Errors
    /// What keeps the calendar from being read; [`TickError::Asked`] for one that is empty.
    pub fn days(&self) -> Result<Vec<Day>, TickError> {
        let days = calendar::days(&self.calendar)?;
        if days.is_empty() {
            return asked(format!("the calendar of plant {} is empty; open the plant once", self.name));
        }
        Ok(days)
    }
}

/// Name of a stream of a plant.
pub(crate) fn stream_name(plant: &str, table: &str) -> String {
    format!("{plant}/{table}")
}

/// Checks the name of a table: it is not one of the streams beside the tables.
pub(crate) fn check_table(name: &str) -> Result<(), TickError> {
    match RESERVED.contains(&name) {
        true => asked(format!(
            "no table can be called {name}: plants and HDBs keep other things in streams of the names {}",
            RESERVED.join(", ")
        )),
        false => Ok(()),
    }
}

/// Checks the name of a plant.
pub(crate) fn check_name(name: &str) -> Result<(), TickError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    match name.len() {
        1..=PLANT_NAME_BYTES_MAX if name.chars().all(is_plain) => Ok(()),
        _ => asked(format!(
            "{name:?} is no name of a plant; take 1 to {PLANT_NAME_BYTES_MAX} letters, digits, _, - and ."
        )),
    }
}

fn no_plant<T>(db: &Database, name: &str) -> Result<T, TickError> {
    let known = Plan::names(db)?;
    let known = if known.is_empty() { "none".into() } else { known.join(", ") };
    asked(format!("{} has no plant {name:?}; it has {known}", db.path().display()))
}
