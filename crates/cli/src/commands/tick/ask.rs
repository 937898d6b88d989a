//! Requests to a running plant, RDB or HDB: a line of JSON for each request; the answer is a line of JSON with its kind, followed
//! by a line for each row. docs/TICK.md describes the forms.
//!
//! The socket is a Unix socket that only its user can open, in a folder that only its user can enter: other users, other machines
//! and web pages cannot reach it. At most [`CONNECTIONS_MAX`] clients are connected; a request has at most
//! [`REQUEST_BYTES_MAX`]; a connection is closed when it is silent or does not read for [`SILENCE_MAX`], or when its first line is
//! not a request.

use super::socket;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tapedb_schema::Timestamp;
use tapedb_terminal::Failure;
use tapedb_tick::{Answer, Column, ColumnDef, Date, Kind, Query, TickError};

/// Maximum number of connections.
pub const CONNECTIONS_MAX: usize = 64;
/// Maximum bytes of a request.
pub const REQUEST_BYTES_MAX: u64 = 1 << 20;
/// How long a connection may be silent.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Time between two checks for the end.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The socket for requests.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct AskArgs {
    /// Unix socket for queries (`tapedb tick query`, `eod`), or off [default: one in a folder of the user].
    #[arg(long, value_name = "PATH", value_parser = socket::path)]
    ask: Option<PathBuf>,
}

impl AskArgs {
    /// Starts to answer requests to a role, unless that is off.
    pub fn serve(&self, role: &str, answers: Arc<dyn Answers>) -> Result<Option<Service>, Failure> {
        let place = match &self.ask {
            Some(off) if off.as_os_str() == "off" => return Ok(None),
            Some(path) => path.clone(),
            None => socket::of_role(role)?,
        };
        serve(&place, answers).map(Some)
    }
}

/// A request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The status.
    Status,
    /// Rows of a table.
    Query(Box<Rows>),
    /// End a day of a plant.
    EndOfDay {
        /// The plant; not needed if there is only one.
        #[serde(default)]
        plant: Option<String>,
        /// The date; today by default.
        #[serde(default)]
        date: Option<String>,
    },
}

/// A selection of rows.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    pub table: String,
    #[serde(default)]
    pub plant: Option<String>,
    #[serde(default)]
    pub columns: Option<Vec<String>>,
    #[serde(default)]
    pub symbols: Option<Vec<String>>,
    #[serde(default)]
    pub from: Option<String>,
    #[serde(default)]
    pub to: Option<String>,
    #[serde(default)]
    pub last: bool,
    #[serde(default)]
    pub limit: Option<i64>,
    /// Of this date; by default today in an RDB, all dates in an HDB.
    #[serde(default)]
    pub date: Option<String>,
    /// Only their number.
    #[serde(default)]
    pub count: bool,
}

impl Rows {
    /// The query, its times and its date.
    pub fn query(&self) -> Result<(Query, Option<Date>), TickError> {
        let time = |text: &Option<String>| {
            text.as_deref().map(tapedb_terminal::quantity::time).transpose().map_err(asked)
        };
        let (from, to): (Option<Timestamp>, Option<Timestamp>) = (time(&self.from)?, time(&self.to)?);
        let date = self.date.as_deref().map(str::parse).transpose().map_err(asked)?;
        let query = Query {
            table: self.table.clone(),
            columns: self.columns.clone(),
            symbols: self.symbols.clone(),
            from,
            to,
            last_by_symbol: self.last,
            limit: self.limit,
        };
        Ok((query, date))
    }
}

/// The error of a request that cannot be answered.
pub fn asked(what: impl Into<String>) -> TickError {
    TickError::Asked { what: what.into() }
}

/// An answer.
pub enum Reply {
    /// One object.
    Object(Value),
    /// Rows.
    Rows(Answer),
}

impl Reply {
    /// Rows, or their number.
    pub fn rows(answer: Answer, count: bool) -> Self {
        if count { Self::Object(json!({ "rows": answer.rows() })) } else { Self::Rows(answer) }
    }
}

/// Answers requests.
pub trait Answers: Send + Sync {
    /// Answers a request.
    fn answer(&self, request: Request) -> Result<Reply, TickError>;
}

/// Answers requests on a socket until it is dropped.
pub struct Service {
    place: PathBuf,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _claim: socket::Claim,
}

fn serve(place: &Path, answers: Arc<dyn Answers>) -> Result<Service, Failure> {
    let failed = |error: io::Error| {
        Failure::new(format!(
            "cannot listen for queries on {}: {error}; name a socket with --ask",
            place.display()
        ))
    };
    let (listener, claim) = socket::listen(place)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let stopping = Arc::new(AtomicBool::new(false));
    let stop = stopping.clone();
    let listen = move || listen(&listener, &answers, &stop);
    let thread = thread::Builder::new().name("tape-ask".into()).spawn(listen).map_err(failed)?;
    Ok(Service { place: place.into(), stopping, thread: Some(thread), _claim: claim })
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // The thread has no result.
            let _ = thread.join();
        }
    }
}

fn listen(listener: &UnixListener, answers: &Arc<dyn Answers>, stopping: &AtomicBool) {
    let open = Arc::new(AtomicUsize::new(0));
    while !stopping.load(Ordering::Acquire) {
        let Ok((socket, _)) = listener.accept() else {
            thread::sleep(LOOK_INTERVAL);
            continue;
        };
        if open.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let (answers, done) = (answers.clone(), open.clone());
        let converse = move || {
            // A client that disconnects is no error.
            let _ = converse(&socket, &*answers);
            done.fetch_sub(1, Ordering::AcqRel);
        };
        if thread::Builder::new().name("tape-answer".into()).spawn(converse).is_err() {
            open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn converse(socket: &UnixStream, answers: &dyn Answers) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(SILENCE_MAX))?;
    socket.set_write_timeout(Some(SILENCE_MAX))?;
    let mut lines = BufReader::new(socket);
    let mut out = BufWriter::new(socket);
    loop {
        let mut line = String::new();
        (&mut lines).take(REQUEST_BYTES_MAX).read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Ok(());
        }
        let request = match serde_json::from_str(&line) {
            Ok(request) => request,
            Err(error) => {
                // Closes a connection that uses another protocol.
                writeln!(out, "{}", json!({ "error": format!("not a query: {error}") }))?;
                return out.flush();
            }
        };
        match answers.answer(request) {
            Ok(Reply::Object(object)) => writeln!(out, "{object}")?,
            Ok(Reply::Rows(answer)) => write_rows(&answer, &mut out)?,
            Err(error) => writeln!(out, "{}", json!({ "error": error.to_string() }))?,
        }
        out.flush()?;
    }
}

fn write_rows(answer: &Answer, out: &mut impl Write) -> io::Result<()> {
    let column =
        |(column, _): &(ColumnDef, Column)| json!({ "name": column.name, "kind": column.kind.name() });
    let columns: Vec<Value> = answer.columns.iter().map(column).collect();
    writeln!(out, "{}", json!({ "table": answer.table, "columns": columns, "rows": answer.rows() }))?;
    let mut line = String::new();
    for row in 0..answer.rows() {
        line.clear();
        for (at, (column, values)) in answer.columns.iter().enumerate() {
            let comma = if at == 0 { '{' } else { ',' };
            // Writing to a string cannot fail.
            let _ = write!(line, "{comma}{}:{}", json!(column.name), value(values, row, column.kind));
        }
        writeln!(out, "{line}}}")?;
    }
    Ok(())
}

/// A value in JSON: numbers as numbers, times and texts as strings, nulls as null.
fn value(values: &Column, row: usize, kind: Kind) -> Value {
    let shown = values.show(row, kind);
    match values {
        Column::Byte(bytes) if kind == Kind::Boolean => json!(bytes[row] != 0),
        Column::Text(_) => json!(shown),
        _ if shown.is_empty() => Value::Null,
        Column::Float(floats) => json!(floats[row]),
        Column::Real(reals) => json!(reals[row]),
        Column::Long(longs) if !matches!(kind, Kind::Timestamp | Kind::Timespan) => json!(longs[row]),
        Column::Int(ints) if kind != Kind::Char => json!(ints[row]),
        Column::Short(shorts) => json!(shorts[row]),
        Column::Byte(bytes) => json!(bytes[row]),
        _ => json!(shown),
    }
}

/// Asks, and passes the lines of the answer to `line` until it returns true.
pub fn ask(
    place: &Path,
    request: &Request,
    mut line: impl FnMut(&str) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::new(format!(
            "cannot ask {}: {error}; check that it runs there, as the same user (it prints its socket when it starts; see --at)",
            place.display()
        ))
    };
    let mut socket = UnixStream::connect(place).map_err(failed)?;
    let text = serde_json::to_string(request).map_err(|error| Failure::new(error.to_string()))?;
    writeln!(socket, "{text}").map_err(failed)?;
    for text in BufReader::new(socket).lines() {
        let text = text.map_err(failed)?;
        if let Ok(Value::Object(object)) = serde_json::from_str(&text)
            && let (Some(error), 1) = (object.get("error").and_then(Value::as_str), object.len())
        {
            return Err(Failure::new(error));
        }
        if !line(&text)? {
            return Ok(());
        }
    }
    Err(Failure::new(format!("{} closed the connection; check that it still runs", place.display())))
}

/// The socket for requests.
pub fn address_of(service: Option<&Service>) -> Option<String> {
    service.map(|service| service.place.display().to_string())
}
