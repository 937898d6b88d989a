//! Lines into streams.

use crate::error::WriteError;
use crate::gather::Gathered;
use crate::occurrence::{self, Extent};
use crate::options::LoadOptions;
use crate::retries::{Begun, Key, Known, Retries, WINDOW};
use crate::table::Table;
use crc_fast::{CrcAlgorithm, checksum};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tapedb_access::{AuditEntry, AuditLog, May, User};
use tapedb_engine::{Database, Error, Invalid, Loader, NotFound, Stale, Stream};
use tapedb_ilp::{Parser, Precision};
use tapedb_schema::Timestamp;

/// How often a request begins again when other programs change the schemas of its streams.
const ATTEMPTS_MAX: usize = 8;

/// Shorter requests are parsed on one thread.
const HALVED_BYTES_MIN: usize = 256 << 10;

/// Writes lines into the streams of a database: the stream of a line has the name of its table.
///
/// ```
/// use tapedb_access::User;
/// use tapedb_engine::Database;
/// use tapedb_ilp_load::{LineLoader, LoadOptions, Precision};
///
/// # let directory = tempfile::tempdir()?;
/// let db = Database::open(directory.path().join("db"))?;
/// let loader = LineLoader::new(db.clone(), LoadOptions::default());
/// loader.write(b"trades,symbol=AIG price=48.5,size=3i 17\n", Precision::Nanoseconds, &User::unrestricted())?;
///
/// let mut cursor = db.stream("trades")?.cursor().open()?;
/// let message = cursor.next()?.expect("one message");
/// assert_eq!((message.symbol(), message.time().0), ("AIG", 17));
/// assert_eq!(message.record()?.get("price").unwrap().to_string(), "48.5");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LineLoader {
    db: Database,
    options: LoadOptions,
    /// Held while streams are created and get fields.
    changing: Mutex<()>,
    audit: Option<Arc<AuditLog>>,
    retries: Retries,
    began: Instant,
    pending_bytes: AtomicUsize,
    /// Whether the machine has more than one processor.
    has_processors: bool,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    lines: AtomicU64,
    repeated: AtomicU64,
    refused: AtomicU64,
}

/// What a [`LineLoader`] has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadCounts {
    /// Requests, and pieces of lines over TCP, that were stored.
    pub requests: u64,
    /// Messages that were stored.
    pub lines: u64,
    /// Requests that were stored already when they arrived.
    pub repeated: u64,
    /// Requests that were refused.
    pub refused: u64,
}

/// A connection, over which requests come one after another.
#[derive(Debug, Default)]
pub struct LineConnection {
    /// The last request, whose answer may not have arrived.
    last: Option<Key>,
    /// Of the client, for the audit log.
    address: String,
}

impl From<SocketAddr> for LineConnection {
    /// A connection of this client.
    fn from(peer: SocketAddr) -> Self {
        Self { last: None, address: peer.to_string() }
    }
}

/// Whose lines are stored.
#[derive(Debug, Clone, Copy)]
struct Client<'a> {
    user: &'a User,
    address: &'a str,
}

/// A request that streams record; 0: they do not.
type RequestId = u64;

/// Called with the lines of a request before anything is changed: see [`LineLoader::store`].
type Begin<'a> = dyn FnMut(&[Gathered<'_>]) -> Result<Option<RequestId>, WriteError> + 'a;

/// Bytes of a request, counted while it is handled.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    of: &'a AtomicUsize,
    bytes: usize,
    most: usize,
}

impl LineLoader {
    /// Writes into a database that is open for writing.
    pub fn new(db: Database, options: LoadOptions) -> Self {
        Self {
            db,
            options,
            changing: Mutex::new(()),
            audit: None,
            retries: Retries::default(),
            began: Instant::now(),
            pending_bytes: AtomicUsize::new(0),
            has_processors: thread::available_parallelism().is_ok_and(|count| count.get() > 1),
            counters: Counters::default(),
        }
    }

    /// Writes an entry of this log for each stream that is created or gets fields, and for what users may not do.
    pub fn with_audit(self, audit: Arc<AuditLog>) -> Self {
        Self { audit: Some(audit), ..self }
    }

    /// Writes an entry of the audit log.
    pub(crate) fn audit(&self, event: &str, user: &str, address: &str, stream: &str, what: &str) {
        if let Some(audit) = &self.audit {
            audit.write(Timestamp(now()), AuditEntry { event, user, address, stream, what });
        }
    }

    /// The options.
    pub fn options(&self) -> &LoadOptions {
        &self.options
    }

    /// What it has done.
    pub fn counts(&self) -> LoadCounts {
        let Counters { requests, lines, repeated, refused } = &self.counters;
        let [requests, lines, repeated, refused] =
            [requests, lines, repeated, refused].map(|counter| counter.load(Ordering::Relaxed));
        LoadCounts { requests, lines, repeated, refused }
    }

    /// Counts the bytes of a request that is handled.
    pub(crate) fn pending(&self) -> Pending<'_> {
        Pending { of: &self.pending_bytes, bytes: 0, most: self.options.pending_bytes_max }
    }

    /// Stores all lines, or none. When it returns, they are as durable as their streams promise. Returns how many messages were stored.
    ///
    /// # Errors
    /// The first line that is wrong, in a text or for its stream; a right that the user lacks. Nothing is stored then. A disk that is
    /// full or broken: a part may be stored.
    pub fn write(&self, lines: &[u8], precision: Precision, user: &User) -> Result<usize, WriteError> {
        self.write_of(lines, precision, user, "")
    }

    /// [`LineLoader::write`] for a client at an address.
    pub(crate) fn write_of(
        &self,
        lines: &[u8],
        precision: Precision,
        user: &User,
        address: &str,
    ) -> Result<usize, WriteError> {
        let stored = self.store(lines, precision, Client { user, address }, &mut |_| Ok(Some(0)));
        self.counted(stored.map(|(rows, _)| rows), false)
    }

    /// [`LineLoader::write`] for a request that a client sends again when it does not receive the answer: then it is not stored again.
    /// `name`: what the client calls it, if it does so.
    ///
    /// # Errors
    /// As [`LineLoader::write`]; two requests of the same name.
    pub fn write_once(
        &self,
        connection: &mut LineConnection,
        lines: &[u8],
        precision: Precision,
        user: &User,
        name: Option<&str>,
    ) -> Result<usize, WriteError> {
        if let Some(last) = connection.last.take() {
            self.retries.received(&last);
        }
        let unit = precision.nanoseconds() as u64;
        let sum = checksum(CrcAlgorithm::Crc64Nvme, lines) ^ unit.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let key = match name {
            Some(name) => Key::Named { user: user.name.clone(), name: name.into() },
            None => Key::Bytes { user: user.name.clone(), length: lines.len(), checksum: sum },
        };
        let mut storing = None;
        let mut found = None;
        let mut is_repeated = false;
        let client = Client { user, address: &connection.address };
        let stored = self.store(lines, precision, client, &mut |parts| {
            if let Some(occurrence::Found { id, .. }) = found {
                return Ok(Some(id));
            }
            // Without timestamps, the same bytes are other messages each time.
            let is_empty = parts.iter().all(|part| part.tables.is_empty());
            if is_empty || name.is_none() && !parts.iter().all(|part| part.has_times) {
                return Ok(Some(0));
            }
            match self.retries.begin(&key, sum, &streams_of(parts), Instant::now) {
                Begun::New(new) => {
                    // A name is of one request; bytes tell nothing where others like them may have been forgotten.
                    let is_young = new.known == Known::Nothing && self.began.elapsed() < WINDOW;
                    let may_be_retry = name.is_some() || is_young;
                    let occurrence =
                        occurrence::find(&key, sum, (new.known, may_be_retry), |id| extent(parts, id))?;
                    is_repeated = occurrence.is_stored;
                    (storing, found) = (Some(new), Some(occurrence));
                    Ok((!is_repeated).then_some(occurrence.id))
                }
                Begun::Stored => {
                    is_repeated = true;
                    Ok(None)
                }
                Begun::Different => {
                    let what = "another request with the same Idempotency-Key and other lines was stored";
                    Err(WriteError::Refused { line: None, what: what.into() })
                }
            }
        });
        if let (Ok((_, streams)), Some(storing), Some(found)) = (&stored, storing, found) {
            storing.stored(found.occurrence, streams.clone(), Instant::now());
            connection.last = Some(key);
        } else if is_repeated {
            connection.last = Some(key);
        }
        self.counted(stored.map(|(rows, _)| rows), is_repeated)
    }

    fn counted(&self, stored: Result<usize, WriteError>, is_repeated: bool) -> Result<usize, WriteError> {
        let Counters { requests, lines, repeated, refused } = &self.counters;
        match &stored {
            Ok(0) if is_repeated => repeated.fetch_add(1, Ordering::Relaxed),
            Ok(stored) => {
                lines.fetch_add(*stored as u64, Ordering::Relaxed);
                requests.fetch_add(1, Ordering::Relaxed)
            }
            Err(_) => refused.fetch_add(1, Ordering::Relaxed),
        };
        stored
    }

    /// `begin`: called before anything is changed; returns the number by which streams record the request, or 0. `None`: there is nothing to do.
    /// Returns how many messages were stored, and what identifies the streams of the lines.
    fn store(
        &self,
        lines: &[u8],
        precision: Precision,
        client: Client<'_>,
        begin: &mut Begin<'_>,
    ) -> Result<(usize, Vec<i64>), WriteError> {
        let now = now();
        // Tables that are stored, where a request begins again for others.
        let mut done = HashSet::new();
        let mut rows = 0;
        for _ in 0..ATTEMPTS_MAX {
            let mut parts = match self.gather_halves(lines, precision, now) {
                Some(parts) => parts.into(),
                None => vec![self.gather(lines, precision, now)?],
            };
            for part in &parts {
                self.check_rights(&part.tables, client)?;
            }
            let Some(request) = begin(&parts)? else {
                return Ok((0, streams_of(&parts)));
            };
            let is_stored = match parts.as_mut_slice() {
                [part] => self.append(&mut part.tables, (request, client), (&mut done, &mut rows))?,
                parts => self.append_parts(parts, request, &mut rows)?,
            };
            if is_stored {
                return Ok((rows, streams_of(&parts)));
            }
        }
        Err(WriteError::Busy { what: "the streams change all the time; try again".into() })
    }

    /// All lines.
    fn gather(&self, lines: &[u8], precision: Precision, now: i64) -> Result<Gathered<'_>, WriteError> {
        let mut gathered = Gathered::new(&self.db, &self.options, now, self.pending());
        let parsed = Parser::new(precision, self.options.limits).parse(lines, &mut gathered);
        parsed.map_err(|tapedb_ilp::Error { line, column, what, .. }| match gathered.is_busy {
            true => WriteError::Busy { what: what.into() },
            false => WriteError::Refused { line: Some(line), what: format!("column {column}: {what}") },
        })?;
        gathered.tables.iter_mut().try_for_each(Table::complete)?;
        Ok(gathered)
    }

    /// The lines in two parts, on two threads: while its request is handled, a client waits, and its processor is free. `None`: they are
    /// few, or must be looked at in order: something is wrong, or changes a schema.
    ///
    /// Where the second part begins is guessed; the first one proves it, because its last line ends there with a line break of its own.
    fn gather_halves(&self, lines: &[u8], precision: Precision, now: i64) -> Option<[Gathered<'_>; 2]> {
        if lines.len() < HALVED_BYTES_MIN || !self.has_processors {
            return None;
        }
        let middle = probable_begin(lines, lines.len() / 2)?;
        let part = |lines: &[u8]| {
            let mut gathered = Gathered::new(&self.db, &self.options, now, self.pending());
            let mut parser = Parser::new(precision, self.options.limits);
            parser.parse(lines, &mut gathered).ok()?;
            gathered.tables.iter_mut().try_for_each(Table::complete).ok()?;
            let is_certain = gathered.tables.iter().all(Table::is_certain);
            is_certain.then_some((gathered, parser.has_ended()))
        };
        let (first, second) = thread::scope(|scope| {
            let builder = thread::Builder::new().name("ilp-half".into());
            let second = builder.spawn_scoped(scope, || part(&lines[middle..])).ok()?;
            Some((part(&lines[..middle]), second.join().ok().flatten()))
        })?;
        match (first?, second?) {
            ((first, true), (second, _)) => Some([first, second]),
            _ => None,
        }
    }

    /// Appends tables whose rows cannot be refused. `false`: a stream has been deleted.
    fn append_parts(
        &self,
        parts: &[Gathered<'_>],
        request: RequestId,
        rows: &mut usize,
    ) -> Result<bool, WriteError> {
        let mut loaders: HashMap<&str, Loader> = HashMap::new();
        for table in parts.iter().flat_map(|part| &part.tables) {
            let Some(stream) = &table.stream else { return Ok(false) };
            let appended = (|| {
                let loader = match loaders.entry(&table.name) {
                    Entry::Occupied(loader) => loader.into_mut(),
                    Entry::Vacant(place) => place.insert(loader_of(stream, request)?),
                };
                table.with_columns(true, |columns| loader.append_columns(columns))
            })();
            match appended {
                Ok(appended) => *rows += appended,
                Err(error) if is_stale(&error) => return Ok(false),
                Err(error) => return Err(WriteError::of_engine(error, |row| table.line(row))),
            }
        }
        for loader in loaders.values_mut() {
            if let Err(error) = loader.flush() {
                loader.discard();
                return if is_stale(&error) { Ok(false) } else { Err(WriteError::Storage(error)) };
            }
        }
        Ok(true)
    }

    fn check_rights(&self, tables: &[Table], Client { user, address }: Client<'_>) -> Result<(), WriteError> {
        for table in tables {
            let name = &table.name;
            let may = |what| user.may(what, name);
            let denied = |what: String| {
                self.audit("forbidden", &user.name, address, name, "write lines");
                Err(WriteError::Denied { what })
            };
            if table.stream.is_none() && !(self.options.create && may(May::Create)) {
                // Whether there is a stream is nothing that every user may see.
                return denied(format!(
                    "user {:?} may not write stream {name:?}, or there is none",
                    user.name
                ));
            }
            if table.stream.is_some() && !may(May::Write) {
                return denied(format!(
                    "user {:?} may not write stream {name:?}, or there is none",
                    user.name
                ));
            }
            if table.changes_schema() && !(self.options.create && (may(May::Create) || may(May::Admin))) {
                let fields = table.new_fields().join(", ");
                return denied(format!(
                    "user {:?} may not add fields to stream {name:?}, which lacks {fields}",
                    user.name
                ));
            }
        }
        Ok(())
    }

    /// Appends all tables. `false`: a stream has changed since the lines were gathered.
    fn append(
        &self,
        tables: &mut [Table],
        (request, client): (RequestId, Client<'_>),
        (done, rows): (&mut HashSet<String>, &mut usize),
    ) -> Result<bool, WriteError> {
        let waiting = |table: &&mut Table| !done.contains(&table.name);
        let tables: Vec<&mut Table> = tables.iter_mut().filter(waiting).collect();
        // One table that has its stream is checked while it is appended.
        let is_simple = tables.len() == 1 && tables.iter().all(|table| !table.changes_schema());
        if !is_simple {
            for table in &tables {
                let Some(stream) = &table.stream else { continue };
                let checked = stream
                    .loader()
                    .and_then(|loader| table.with_columns(false, |columns| loader.check_columns(columns)));
                match checked {
                    Ok(()) => {}
                    Err(error) if is_stale(&error) => return Ok(false),
                    Err(error) => return Err(WriteError::of_engine(error, |row| table.line(row))),
                }
            }
        }
        for table in tables {
            if table.changes_schema() && !self.change_schema(table, client)? {
                return Ok(false);
            }
            let Some(stream) = &table.stream else { return Ok(false) };
            let appended = loader_of(stream, request).and_then(|mut loader| {
                let appended = table.with_columns(true, |columns| loader.append_columns(columns))?;
                let flushed = loader.flush();
                if flushed.is_err() {
                    // Else the loader writes them when it is dropped.
                    loader.discard();
                }
                flushed.map(|_| appended)
            });
            match appended {
                Ok(appended) => {
                    *rows += appended;
                    done.insert(table.name.clone());
                }
                Err(error) if is_stale(&error) => return Ok(false),
                Err(error) => return Err(WriteError::of_engine(error, |row| table.line(row))),
            }
        }
        Ok(true)
    }

    /// Creates the stream of a table, or gives it the fields that it lacks. `false`: another program has changed it.
    fn change_schema(&self, table: &mut Table, client: Client<'_>) -> Result<bool, WriteError> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let schema = table.needed_schema();
        let changed = match &table.stream {
            None => match self.db.create_stream(&table.name, schema, self.options.stream) {
                Err(Error::Invalid(Invalid::StreamExists { .. })) => return Ok(false),
                created => created,
            },
            Some(stream) => match self.db.stream(&table.name) {
                Ok(now) if now.schema() == stream.schema() => self.db.change_schema(&table.name, schema),
                Ok(_) | Err(Error::NotFound(NotFound::Stream { .. })) => return Ok(false),
                Err(error) => Err(error),
            },
        };
        let changed = changed.map_err(|error| WriteError::of_engine(error, |_| None))?;
        let (event, what) = match &table.stream {
            None => ("create", String::new()),
            Some(_) => ("alter", format!("new fields {}", table.new_fields().join(", "))),
        };
        self.audit(event, &client.user.name, client.address, &table.name, &what);
        table.stream = Some(changed);
        Ok(true)
    }
}

impl Pending<'_> {
    /// More bytes of the request; `false`: too many requests are handled now.
    pub fn add(&mut self, bytes: usize) -> bool {
        let before = self.of.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        before.saturating_add(bytes) <= self.most
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A loader that passes over what its stream has of the request.
fn loader_of(stream: &Stream, request: RequestId) -> Result<Loader, Error> {
    let mut loader = stream.loader()?;
    if request != 0 {
        loader.resume_request(request)?;
    }
    Ok(loader)
}

/// What identifies the streams of a request's lines: 0 for one that is not there.
fn streams_of(parts: &[Gathered<'_>]) -> Vec<i64> {
    let tables = parts.iter().flat_map(|part| &part.tables);
    let mut streams: Vec<(&str, i64)> = tables
        .map(|table| (&*table.name, table.stream.as_ref().map_or(0, |stream| stream.created().0)))
        .collect();
    streams.sort_unstable();
    streams.dedup();
    streams.into_iter().map(|(_, created)| created).collect()
}

/// How much of a request the streams of its lines have.
fn extent(parts: &[Gathered<'_>], request: RequestId) -> Result<Extent, WriteError> {
    let mut rows: HashMap<&str, (u64, u64)> = HashMap::new();
    for table in parts.iter().flat_map(|part| &part.tables) {
        let (all, stored) = rows.entry(&table.name).or_default();
        *all += table.rows() as u64;
        if let Some(stream) = &table.stream {
            *stored = stream.stored_of_request(request).map_err(WriteError::Storage)?;
        }
    }
    Ok(match () {
        () if rows.values().all(|(all, stored)| stored >= all) => Extent::Whole,
        () if rows.values().all(|(_, stored)| *stored == 0) => Extent::Nothing,
        () => Extent::Part,
    })
}

fn is_stale(error: &Error) -> bool {
    matches!(
        error.first(),
        Error::Stale(Stale::Outdated { .. } | Stale::Deleted { .. } | Stale::Renamed { .. })
    )
}

/// Where a line probably begins, behind `from`: a line break, and the table of the first line.
fn probable_begin(lines: &[u8], from: usize) -> Option<usize> {
    let end = lines.iter().position(|byte| matches!(byte, b',' | b' ' | b'\n'))?;
    let table = lines.get(..=end).filter(|table| table.len() > 1 && table[0] != b'#')?;
    let mut at = from;
    loop {
        at += lines[at..].iter().position(|byte| *byte == b'\n')? + 1;
        if lines[at..].starts_with(table) {
            return Some(at);
        }
    }
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
