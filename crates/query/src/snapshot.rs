//! The streams that a query reads, all as of one moment.

use crate::error::{Error, Reason};
use crate::live::Slice;
use crate::open::OpenStream;
use crate::options::Options;
use crate::spelling;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tapedb_arrow::Decimals;
use tapedb_engine::Database;

/// Whether a user may read a stream.
#[derive(Clone)]
pub(crate) struct MayRead(pub Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl fmt::Debug for MayRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MayRead")
    }
}

/// The streams of a database as one query sees them. A stream is opened when the query first names it. Where the streams end is noted
/// for all of them together, by [`Snapshot::fix`]; for one that is opened later, when it is first read.
#[derive(Debug)]
pub(crate) struct Snapshot {
    db: Database,
    options: Options,
    /// Names of all streams.
    names: Vec<String>,
    /// A stream of which only messages from these sequence numbers on are seen.
    from: Option<(String, Vec<u64>)>,
    /// Whether streams are read in order.
    in_order: bool,
    open: Mutex<BTreeMap<String, Arc<OpenStream>>>,
}

impl Snapshot {
    /// The present streams of a database, as far as they may be read, for a query on a slice of them; none is open.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn new(
        db: &Database,
        options: &Options,
        may_read: Option<&MayRead>,
        slice: &Slice,
    ) -> Result<Self, Error> {
        let (db, options) = (db.clone(), options.clone());
        let mut names = db.streams()?;
        if let Some(MayRead(may_read)) = may_read {
            names.retain(|name| may_read(name));
        }
        let from = match slice {
            Slice::From(from) => from.clone(),
            Slice::Times(..) => None,
        };
        // A part of a stream is read as it arrived.
        let in_order = from.is_some() || options.live && matches!(slice, Slice::From(_));
        Ok(Self { names, db, options, from, in_order, open: Mutex::default() })
    }

    /// Names of the streams that are open.
    pub fn open_names(&self) -> Vec<String> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Names of all streams.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether there is a stream of that name.
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|other| other == name)
    }

    /// The stream that a name in a query means: that of the name, or the only one that differs by case alone.
    pub fn name_of(&self, name: &str) -> Option<&str> {
        spelling::find(name, self.names.iter().map(String::as_str))
    }

    /// The error of a name that no stream has.
    pub fn no_stream(&self, name: &str) -> Error {
        let near = spelling::near(name, self.names.iter().map(String::as_str));
        Error::new(Reason::Query, format!("there is no stream {name:?}{near}"))
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// What becomes of `decimal64`.
    pub fn decimals(&self) -> Decimals {
        self.options.decimals
    }

    /// A stream by its exact name; it is opened if it is not.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn stream(&self, name: &str) -> Result<Arc<OpenStream>, Error> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = open.get(name) {
            return Ok(found.clone());
        }
        let stream = self.db.stream(name)?;
        let from = self.from.as_ref().filter(|(part, _)| part == name).map(|(_, from)| from.clone());
        let new = Arc::new(OpenStream::new(stream, self.options.clone(), from, self.in_order));
        open.insert(name.into(), new.clone());
        Ok(new)
    }

    /// Notes where all open streams end.
    ///
    /// # Errors
    /// When one has been deleted, or its files cannot be read.
    pub fn fix(&self) -> Result<(), Error> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().try_for_each(|stream| stream.ends().map(drop))
    }
}
