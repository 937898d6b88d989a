//! The settings of the shell: database, streams, and the selection of messages.

use crate::args;
use std::fmt;
use std::path::Path;
use tapedb_engine::{CursorBuilder, Database};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, quantity};

/// Settings for the next commands.
#[derive(Debug, Default)]
pub struct Settings {
    /// The database: a directory or an address.
    pub place: Option<String>,
    /// Streams, in the order given.
    pub streams: Vec<String>,
    /// First time, as written.
    pub time: Option<String>,
    /// End of the time range, as written.
    pub endtime: Option<String>,
    /// Symbols; empty for all.
    pub symbols: Vec<String>,
    /// Record types; empty for all.
    pub types: Vec<String>,
    open: Option<Database>,
}

/// Names and values of the settings.
pub const NAMES: [(&str, &str); 6] = [
    ("db", "PLACE: a directory, or tape://HOST:PORT"),
    ("stream", "NAME, or several with commas"),
    ("time", "TIME from which to read; `none` for the beginning"),
    ("endtime", "TIME before which to read; `none` for the end"),
    ("symbols", "A,B,… ; `all` for all"),
    ("types", "X,Y,… ; `all` for all"),
];

impl Settings {
    /// Changes a setting.
    pub fn set(&mut self, what: &str, value: &str) -> Result<(), Failure> {
        match what {
            "db" => {
                self.close();
                self.place = Some(value.into());
            }
            "stream" | "streams" => self.streams = list(value, "none"),
            "time" => self.time = time(value)?,
            "endtime" => self.endtime = time(value)?,
            "symbols" | "entities" => self.symbols = list(value, "all"),
            "types" => self.types = list(value, "all"),
            _ => {
                let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
                return Err(Failure::usage(format!(
                    "{what:?} is not a setting; the settings are {}",
                    names.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Opens the database; its connection is used from then on.
    pub fn open(&mut self) -> Result<(), Failure> {
        self.close();
        let place = self.place()?;
        let db = args::open_to_read(Path::new(place))?;
        args::hold_open(Path::new(place), &db);
        self.open = Some(db);
        Ok(())
    }

    /// Closes the database.
    pub fn close(&mut self) {
        args::hold_none_open();
        self.open = None;
    }

    /// The database, opened if it is not.
    pub fn database(&self) -> Result<Database, Failure> {
        match &self.open {
            Some(db) => Ok(db.clone()),
            None => args::open_to_read(Path::new(self.place()?)),
        }
    }

    /// Where the database is.
    pub fn place(&self) -> Result<&str, Failure> {
        let none = || Failure::usage("no database is selected; type `set db PLACE` and `open`");
        self.place.as_deref().ok_or_else(none)
    }

    /// The selected streams.
    pub fn streams(&self) -> Result<&[String], Failure> {
        match &self.streams[..] {
            [] => Err(Failure::usage(
                "no stream is selected; `streams` lists them, `set stream NAME` selects one",
            )),
            streams => Ok(streams),
        }
    }

    /// A cursor over the selected messages.
    pub fn cursor(&self, db: &Database) -> Result<CursorBuilder, Failure> {
        let mut cursor = db.cursor(self.streams()?)?;
        if let Some(time) = parsed(self.time.as_deref())? {
            cursor = cursor.from(time);
        }
        if let Some(time) = parsed(self.endtime.as_deref())? {
            cursor = cursor.to(time);
        }
        if !self.symbols.is_empty() {
            cursor = cursor.symbols(&self.symbols);
        }
        if !self.types.is_empty() {
            cursor = cursor.types(&self.types);
        }
        Ok(cursor)
    }

    /// Symbols and types as options of a command.
    pub fn selection(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (option, values) in [("--symbols", &self.symbols), ("--types", &self.types)] {
            if !values.is_empty() {
                words.extend([option.to_string(), values.join(",")]);
            }
        }
        words
    }

    /// The times as options of a command.
    pub fn times(&self) -> Vec<String> {
        let times = [("--from", &self.time), ("--to", &self.endtime)];
        let set = times.into_iter().filter_map(|(option, time)| Some((option, time.as_ref()?)));
        set.map(|(option, time)| format!("{option}={time}")).collect()
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |list: &[String], none: &str| if list.is_empty() { none.into() } else { list.join(",") };
        let is_open = if self.open.is_some() { " (open)" } else { "" };
        writeln!(f, "db       {}{is_open}", self.place.as_deref().unwrap_or("none"))?;
        writeln!(f, "stream   {}", joined(&self.streams, "none"))?;
        writeln!(f, "time     {}", self.time.as_deref().unwrap_or("none"))?;
        writeln!(f, "endtime  {}", self.endtime.as_deref().unwrap_or("none"))?;
        writeln!(f, "symbols  {}", joined(&self.symbols, "all"))?;
        writeln!(f, "types    {}", joined(&self.types, "all"))
    }
}

/// The elements of a list with commas or spaces; empty for the word `none`.
fn list(value: &str, none: &str) -> Vec<String> {
    if value == none || value == "*" {
        return Vec::new();
    }
    let elements = value.split(',').map(str::trim).filter(|element| !element.is_empty());
    elements.map(str::to_string).collect()
}

/// A valid time, as written.
fn time(value: &str) -> Result<Option<String>, Failure> {
    if ["none", "*"].contains(&value) {
        return Ok(None);
    }
    parsed(Some(value))?;
    Ok(Some(value.into()))
}

fn parsed(value: Option<&str>) -> Result<Option<Timestamp>, Failure> {
    value.map(quantity::time).transpose().map_err(Failure::usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_shown_and_becomes_options() {
        let mut settings = Settings::default();
        for (what, value) in [
            ("db", "x.tape"),
            ("stream", "a, b"),
            ("time", "2024-01-02"),
            ("symbols", "AIG,BAC"),
            ("types", "Bar"),
        ] {
            settings.set(what, value).unwrap();
        }
        assert_eq!(settings.streams().unwrap(), ["a", "b"]);
        assert_eq!(settings.selection(), ["--symbols", "AIG,BAC", "--types", "Bar"]);
        assert_eq!(settings.times(), ["--from=2024-01-02"]);
        assert!(settings.to_string().contains("stream   a,b\ntime     2024-01-02\n"), "{settings}");
        settings.set("symbols", "all").unwrap();
        settings.set("time", "none").unwrap();
        assert!(settings.symbols.is_empty() && settings.times().is_empty());
    }

    #[test]
    fn what_cannot_be_set_is_reported() {
        let mut settings = Settings::default();
        assert!(settings.set("colour", "red").unwrap_err().to_string().contains("db, stream, time"));
        assert!(settings.set("time", "noon").is_err());
        assert!(settings.place().unwrap_err().to_string().contains("set db"));
        assert!(settings.streams().unwrap_err().to_string().contains("set stream"));
    }
}
