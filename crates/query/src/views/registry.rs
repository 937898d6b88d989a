//! The views of a database, and how far they are: messages of a stream, with the name of the view as their symbol.

use crate::error::Error;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, Durability, Stream, StreamOptions};
use tapedb_schema::Timestamp;

/// Name of the stream.
pub(super) const STREAM: &str = "tapedb.views";

/// A view was created or dropped.
#[derive(Record, Debug, Clone, Default, PartialEq)]
#[record(message)]
struct View {
    query: String,
    dropped: bool,
}

/// How far a view is.
#[derive(Record, Debug, Clone, Default, PartialEq)]
#[record(message)]
pub(super) struct Progress {
    /// When the stream of its query was created.
    pub created: Timestamp,
    /// Sequence numbers of the first messages that it does not have yet, one for each space.
    pub ends: Vec<u64>,
    /// It has the rows of the buckets before this time.
    pub passed: Timestamp,
}

/// A view.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub query: String,
    /// When it was created: another view of its name has another time.
    pub defined: Timestamp,
    /// `None`: it has nothing yet.
    pub progress: Option<Progress>,
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
        let schema = SchemaBuilder::new().with::<View>().with::<Progress>().finish();
        let options = StreamOptions { durability: Durability::Sync, ..StreamOptions::default() };
        Ok(Self { stream: db.open_or_create_stream(STREAM, schema, options)? })
    }

    /// The views by name.
    ///
    /// # Errors
    /// When messages cannot be read.
    pub fn views(&self) -> Result<BTreeMap<String, Entry>, Error> {
        let (mut views, mut progress) = (BTreeMap::new(), BTreeMap::new());
        let mut cursor = self.stream.cursor().last_values().open()?;
        while let Some(message) = cursor.next()? {
            let (name, time) = (message.symbol().to_string(), message.time());
            if message.type_name() == "View" {
                let View { query, dropped } = message.decode()?;
                if !dropped {
                    views.insert(name, Entry { query, defined: time, progress: None });
                }
            } else {
                progress.insert(name, (time, message.decode::<Progress>()?));
            }
        }
        for (name, view) in &mut views {
            // That of an earlier view of the name is older.
            let own = progress.remove(name).filter(|(time, _): &(Timestamp, _)| time.0 > view.defined.0);
            view.progress = own.map(|(_, progress)| progress);
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

    /// Notes how far a view is.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&self, name: &str, progress: &Progress) -> Result<(), Error> {
        self.append(name, progress)
    }

    fn append<T: Record + 'static>(&self, name: &str, message: &T) -> Result<(), Error> {
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
