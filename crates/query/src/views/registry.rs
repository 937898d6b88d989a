//! The views of a database: messages of a stream, with the name of the view as their symbol. It grows with each view that is created or
//! dropped.

use crate::error::Error;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, Durability, Stream, StreamOptions};
use tapedb_schema::Timestamp;

/// Name of the stream.
const STREAM: &str = "tapedb.views";

/// A view was created or dropped.
#[derive(Record, Debug, Clone, Default, PartialEq)]
#[record(message)]
struct View {
    query: String,
    dropped: bool,
}

/// A view.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub query: String,
    /// When it was created: another view of its name has another time.
    pub defined: Timestamp,
}

/// The stream of the views.
#[derive(Debug, Clone)]
pub(super) struct Registry {
    stream: Stream,
}

impl Registry {
    /// The stream; `None`: there has been no view yet.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(db: &Database) -> Result<Option<Self>, Error> {
        let is_there = db.streams()?.iter().any(|name| name == STREAM);
        Ok(is_there.then(|| db.stream(STREAM)).transpose()?.map(|stream| Self { stream }))
    }

    /// The stream, which is created if there is none.
    ///
    /// # Errors
    /// When the database is open for reading only.
    pub fn create(db: &Database) -> Result<Self, Error> {
        let schema = SchemaBuilder::new().with::<View>().finish();
        let options = StreamOptions { durability: Durability::Sync, ..StreamOptions::default() };
        Ok(Self { stream: db.open_or_create_stream(STREAM, schema, options)? })
    }

    /// The views by name.
    ///
    /// # Errors
    /// When messages cannot be read.
    pub fn views(&self) -> Result<BTreeMap<String, Entry>, Error> {
        let mut views = BTreeMap::new();
        let mut cursor = self.stream.cursor().last_values().open()?;
        while let Some(message) = cursor.next()? {
            let View { query, dropped } = message.decode()?;
            if !dropped {
                views.insert(message.symbol().to_string(), Entry { query, defined: message.time() });
            }
        }
        Ok(views)
    }

    /// Whether something has changed since the ends were these, and the present ends.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub fn ends(&self) -> Result<Vec<u64>, Error> {
        Ok(self.stream.next_sequences()?)
    }

    /// Notes a new view.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn define(&self, name: &str, query: &str) -> Result<(), Error> {
        self.append(name, &View { query: query.into(), dropped: false })
    }

    /// Notes the end of a view.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn drop_view(&self, name: &str) -> Result<(), Error> {
        self.append(name, &View { query: String::new(), dropped: true })
    }

    fn append(&self, name: &str, message: &View) -> Result<(), Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        // The last values are those of the greatest time, also where the clock was put back.
        let last = self.stream.stats()?.times.map_or(0, |(_, last)| last.0 + 1);
        let time = Timestamp(i64::try_from(now).unwrap_or(i64::MAX).max(last));
        let mut loader = self.stream.loader()?;
        loader.append(name, time, message)?;
        loader.close()?;
        Ok(())
    }
}
