//! Arguments that several commands share.

use crate::creation;
use crate::remote::{self, ConnectArgs};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use tapedb_engine::{CursorBuilder, Database, Stream};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui, location, quantity};

thread_local! {
    /// The database that the shell holds open for its commands.
    static HELD_OPEN: RefCell<Option<(PathBuf, Database)>> = const { RefCell::new(None) };

    /// The database that a server has open for writing, on the thread that runs a command for it.
    static SERVED: RefCell<Option<(PathBuf, Database)>> = const { RefCell::new(None) };
}

/// Where the database is.
#[derive(clap::Args, Debug, Clone)]
pub struct DatabaseArgs {
    /// Directory of the database, or URL of a server: tape://user@host:port, tapes:// (TLS), tape+unix:///path, tape+shm:///path
    /// (shared memory). The password comes from TAPEDB_PASSWORD or a prompt, a token from TAPEDB_TOKEN; TAPEDB_CA names a
    /// PEM file of authorities to trust; TAPEDB_SPIN_US is how long a waiting reader spins before it sleeps, in microseconds.
    #[arg(long, value_name = "DIR|URL")]
    pub db: PathBuf,

    #[command(flatten)]
    pub connect: ConnectArgs,
}

impl DatabaseArgs {
    /// Another database, reached with the same options.
    pub fn beside(&self, place: &Path) -> Self {
        Self { db: place.into(), ..self.clone() }
    }

    /// Opens the database for reading, beside its writer.
    pub fn open_to_read(&self) -> Result<Database, Failure> {
        open_to_read_with(&self.db, &self.connect)
    }

    /// Opens the database for reading live messages; prints on standard error when the connection to a server is lost and when it is
    /// restored.
    pub fn open_to_follow(&self) -> Result<Database, Failure> {
        match (held_open(&self.db), location::url_of(&self.db)) {
            (None, Some(url)) => remote::connect_reporting(url, &self.connect),
            _ => self.open_to_read(),
        }
    }

    /// Opens an existing database for writing.
    pub fn open_to_write(&self) -> Result<Database, Failure> {
        self.open_or_create(false)
    }

    /// Opens the database for writing; creates it if it does not exist and `create` is set.
    pub fn open_or_create(&self, create: bool) -> Result<Database, Failure> {
        creation::check(&self.db, create)?;
        if let Some(db) = served(&self.db) {
            return Ok(db);
        }
        match location::url_of(&self.db) {
            // Also reports a lost and a restored connection.
            Some(_) => self.open_to_follow(),
            None => Ok(Database::open(&self.db)?),
        }
    }

    /// The database's directory, for commands that work on files only.
    pub fn directory(&self) -> Result<&Path, Failure> {
        location::directory(&self.db)
    }

    /// Opens the database for reading, for commands that work on files only.
    pub fn open_files_to_read(&self) -> Result<Database, Failure> {
        Ok(Database::open_read_only(self.directory()?)?)
    }
}

/// One stream of a database.
#[derive(clap::Args, Debug, Clone)]
pub struct StreamArgs {
    #[command(flatten)]
    pub db: DatabaseArgs,

    /// The stream.
    #[arg(id = "stream", value_name = "STREAM")]
    pub name: String,
}

impl StreamArgs {
    /// Opens the stream beside its writer.
    pub fn open_to_read(&self, ui: &Ui) -> Result<Stream, Failure> {
        open_stream(&self.db.open_to_read()?, &self.name, ui)
    }

    /// Opens an existing stream for writing.
    pub fn open_to_write(&self, ui: &Ui) -> Result<Stream, Failure> {
        // For reading first: this creates no database, and its error names what is missing.
        drop(self.db.open_to_read()?.stream(&self.name)?);
        open_stream(&self.db.open_to_write()?, &self.name, ui)
    }
}

/// Opens a database for reading, unless the shell holds it open. (Through a server it can be written as well.)
pub fn open_to_read(place: &Path) -> Result<Database, Failure> {
    open_to_read_with(place, &ConnectArgs::default())
}

fn open_to_read_with(place: &Path, connect: &ConnectArgs) -> Result<Database, Failure> {
    match (served(place).or_else(|| held_open(place)), location::url_of(place)) {
        (Some(db), _) => Ok(db),
        (None, Some(url)) => remote::connect_with(url, connect),
        (None, None) => Ok(Database::open_read_only(place)?),
    }
}

/// The database, if the shell holds it open.
fn held_open(place: &Path) -> Option<Database> {
    let held = HELD_OPEN.with_borrow(Clone::clone);
    held.filter(|(held_place, _)| held_place == place).map(|(_, db)| db)
}

/// The database, if this thread runs commands for its server.
fn served(place: &Path) -> Option<Database> {
    let served = SERVED.with_borrow(Clone::clone);
    served.filter(|(served_place, _)| served_place == place).map(|(_, db)| db)
}

/// Lets the commands of this thread use a database that a server has open for writing.
#[cfg(feature = "web")]
pub fn serve_to_commands(place: &Path, db: &Database) {
    SERVED.set(Some((place.into(), db.clone())));
}

/// Holds a database open for the next commands, in place of another one.
pub fn hold_open(place: &Path, db: &Database) {
    HELD_OPEN.set(Some((place.into(), db.clone())));
}

/// Holds no database open.
pub fn hold_none_open() {
    HELD_OPEN.set(None);
}

/// Opens a stream; warns if its files had to be recovered.
pub fn open_stream(db: &Database, name: &str, ui: &Ui) -> Result<Stream, Failure> {
    let stream = db.stream(name)?;
    if !stream.recovery().is_clean() {
        ui.warn(&format!("stream {name:?}: {}", stream.recovery()));
    }
    Ok(stream)
}

/// Which messages of which streams.
#[derive(clap::Args, Debug, Clone)]
pub struct Selection {
    /// Streams; several are merged by time.
    #[arg(required = true, value_name = "STREAM")]
    pub streams: Vec<String>,

    /// Only these symbols, for example AIG,BAC.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub symbols: Vec<String>,

    /// Only these record types, for example Trade,Quote.
    #[arg(long, value_delimiter = ',', value_name = "X,Y")]
    pub types: Vec<String>,
}

impl Selection {
    /// Opens the streams; warns of symbols that none of them has.
    pub fn open(&self, db: &Database, ui: &Ui) -> Result<Vec<Stream>, Failure> {
        let mut seen = HashSet::new();
        if let Some(twice) = self.streams.iter().find(|name| !seen.insert(*name)) {
            return Err(Failure::usage(format!("stream {twice:?} is named twice; name each stream once")));
        }
        let streams: Vec<Stream> =
            self.streams.iter().map(|name| open_stream(db, name, ui)).collect::<Result<_, _>>()?;
        if !self.symbols.is_empty() {
            let known: HashSet<String> = streams.iter().flat_map(Stream::symbols).collect();
            for symbol in self.symbols.iter().filter(|symbol| !known.contains(*symbol)) {
                ui.warn(&format!("no message has symbol {symbol:?} yet; `tapedb symbols` lists the symbols"));
            }
        }
        Ok(streams)
    }

    /// A cursor over the selected messages.
    pub fn cursor(&self, db: &Database) -> Result<CursorBuilder, Failure> {
        let mut cursor = db.cursor(&self.streams)?;
        if !self.symbols.is_empty() {
            cursor = cursor.symbols(&self.symbols);
        }
        if !self.types.is_empty() {
            cursor = cursor.types(&self.types);
        }
        Ok(cursor)
    }
}

/// Which times.
#[derive(clap::Args, Debug, Clone, Copy)]
pub struct TimeRange {
    /// Only messages at or after this time, such as 2024-01-02, 2024-01-02T14:30:00.5Z or nanoseconds since 1970.
    #[arg(long, value_parser = quantity::time, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<Timestamp>,

    /// Only messages before this time.
    #[arg(long, value_parser = quantity::time, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<Timestamp>,
}

impl TimeRange {
    /// The cursor, within the range.
    pub fn of(&self, mut cursor: CursorBuilder) -> CursorBuilder {
        if let Some(from) = self.from {
            cursor = cursor.from(from);
        }
        if let Some(to) = self.to {
            cursor = cursor.to(to);
        }
        cursor
    }
}

/// Last values instead of history.
#[derive(clap::Args, Debug, Clone)]
pub struct LastValues {
    /// From history, only the last message of each symbol and record type.
    #[arg(long)]
    pub last_values: bool,

    /// With --last-values: fields that are part of the key, for example Order.id,Order.venue. This reads all messages of the record
    /// type.
    #[arg(long, value_delimiter = ',', value_name = "TYPE.FIELD", requires = "last_values")]
    pub key: Vec<String>,
}

impl LastValues {
    /// The cursor, with last values if they are selected.
    pub fn of(&self, mut cursor: CursorBuilder) -> Result<CursorBuilder, Failure> {
        if !self.last_values {
            return Ok(cursor);
        }
        let mut keys: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for key in &self.key {
            let (record, field) = type_and_field(key).ok_or_else(|| {
                Failure::usage(format!("--key {key:?} is not a field of a record type; write TYPE.FIELD"))
            })?;
            keys.entry(record).or_default().push(field);
        }
        cursor = cursor.last_values();
        Ok(keys.into_iter().fold(cursor, |cursor, (record, fields)| cursor.last_values_by(record, fields)))
    }
}

/// The parts of `TYPE.FIELD`: names of types may have dots, names of fields have none.
fn type_and_field(text: &str) -> Option<(&str, &str)> {
    text.rsplit_once('.').filter(|(record, field)| !record.is_empty() && !field.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_key_may_have_dots() {
        assert_eq!(type_and_field("Order.id"), Some(("Order", "id")));
        assert_eq!(type_and_field("venue.Order.id"), Some(("venue.Order", "id")));
        assert_eq!([type_and_field("id"), type_and_field(".id"), type_and_field("Order.")], [None; 3]);
    }
}

/// A command needs a feature that this program was built without.
#[cfg(not(feature = "parquet"))]
pub fn not_built(feature: &str) -> Failure {
    Failure::new(format!("this program was built without {feature}; build it with the feature `{feature}`"))
}
