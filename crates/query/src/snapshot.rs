//! The streams that a query reads, all as of one moment.

use crate::cluster::Cluster;
use crate::error::{Error, Reason};
use crate::live::Slice;
use crate::open::{OpenStream, Part};
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
    /// The servers, and which of them have each stream, where there are several.
    cluster: Option<(Cluster, BTreeMap<String, Vec<usize>>)>,
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
        Ok(Self { names, db, options, from, in_order, open: Mutex::default(), cluster: None })
    }

    /// The present streams of several servers, as far as they may be read; none is open.
    ///
    /// # Errors
    /// When a server cannot be reached.
    pub fn of_cluster(
        cluster: &Cluster,
        db: &Database,
        options: &Options,
        may_read: Option<&MayRead>,
    ) -> Result<Self, Error> {
        let mut homes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, member) in cluster.members().iter().enumerate() {
            for name in member.streams()? {
                homes.entry(name).or_default().push(index);
            }
        }
        homes.retain(|name, _| may_read.is_none_or(|MayRead(may_read)| may_read(name)));
        Ok(Self {
            db: db.clone(),
            options: options.clone(),
            names: homes.keys().cloned().collect(),
            from: None,
            in_order: false,
            open: Mutex::default(),
            cluster: Some((cluster.clone(), homes)),
        })
    }

    /// Names of the streams that are open.
    pub fn open_names(&self) -> Vec<String> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// The servers of each open stream; empty for a stream of a query on one database.
    pub fn open_parts(&self) -> Vec<Vec<Part>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().map(|stream| stream.parts.clone()).collect()
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

    /// The database of an open stream, or of a part of one.
    pub fn database_of(&self, stream: &Arc<OpenStream>) -> Database {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = open.values().flat_map(|stream| &stream.parts);
        let mut homes = parts.filter(|part| Arc::ptr_eq(&part.open, stream));
        homes.next().map_or_else(|| self.db.clone(), |part| part.member.database().clone())
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
        if let Some((cluster, homes)) = &self.cluster {
            let new = Arc::new(self.of_servers(cluster, homes.get(name).map_or(&[], Vec::as_slice), name)?);
            open.insert(name.into(), new.clone());
            return Ok(new);
        }
        let stream = self.db.stream(name)?;
        let from = self.from.as_ref().filter(|(part, _)| part == name).map(|(_, from)| from.clone());
        let new = Arc::new(OpenStream::new(stream, self.options.clone(), from, self.in_order));
        open.insert(name.into(), new.clone());
        Ok(new)
    }

    /// A stream of servers.
    ///
    /// # Errors
    /// When one of them cannot be reached, or has another schema than the first.
    fn of_servers(&self, cluster: &Cluster, homes: &[usize], name: &str) -> Result<OpenStream, Error> {
        let mut parts: Vec<Part> = Vec::with_capacity(homes.len());
        for home in homes {
            let member = &cluster.members()[*home];
            let stream = member.database().stream(name).map_err(|error| member.failed(error))?;
            if let Some(first) = parts.first() {
                let (one, other) = (&first.open.stream, &stream);
                if one.schema() != other.schema() || one.spaces() != other.spaces() {
                    let what = format!(
                        "stream {name:?} has not the schema and the spaces that it has on server {}; \
                         change one of them, or give one stream another name",
                        first.member.name
                    );
                    return Err(member.failed(Error::query(what)));
                }
            }
            let open = Arc::new(OpenStream::new(stream, self.options.clone(), None, false));
            parts.push(Part { member: member.clone(), open });
        }
        let Some(first) = parts.first() else { return Err(self.no_stream(name)) };
        let stream = first.open.stream.clone();
        let mut whole = OpenStream::new(stream, self.options.clone(), None, false);
        whole.parts = parts;
        Ok(whole)
    }

    /// Notes where all open streams end.
    ///
    /// # Errors
    /// When one has been deleted, or its files cannot be read.
    pub fn fix(&self) -> Result<(), Error> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().try_for_each(|stream| {
            if stream.parts.is_empty() {
                return stream.ends().map(drop);
            }
            stream
                .parts
                .iter()
                .try_for_each(|part| part.open.ends().map(drop).map_err(|error| part.member.failed(error)))
        })
    }
}
