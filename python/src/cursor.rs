//! Cursors: messages one by one, fetched ahead in blocks without the interpreter.
//!
//! Always true: `Ahead::place` is the position behind the last message that Python was given; `Ahead::rows` are the messages that
//! come next, and what the engine's cursor would return comes after them. So a call that is interrupted loses nothing.

use crate::failure::Failure;
use crate::held::{Held, check_signals, has_raised};
use crate::record::{Header, Record};
use crate::time::time_of;
use crate::types::Types;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyList, PyString};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tapedb_engine::{Cursor as Engine, Error, Message, Position};
use tapedb_schema::Timestamp;

/// Most messages and bytes of a block.
const BLOCK_ROWS: usize = 512;
const BLOCK_BYTES: usize = 256 << 10;

/// Waits are cut into pieces of this length; after each, signals are looked for.
pub const SLICE: Duration = Duration::from_millis(50);

/// A cursor over one or several streams.
#[pyclass(frozen, weakref, module = "tapedb._tapedb")]
pub struct Cursor {
    engine: Held<Reading>,
    ahead: Mutex<Ahead>,
    streams: Vec<(Py<PyString>, String, Arc<Types>)>,
    /// Ends waits in other threads.
    is_ending: AtomicBool,
    is_live: bool,
    given: AtomicU64,
}

/// The engine's cursor, and the names of symbols that have been seen.
struct Reading {
    cursor: Engine,
    streams: Vec<String>,
    symbols: Vec<Vec<Option<Box<str>>>>,
}

/// Messages that were fetched and not returned yet.
struct Ahead {
    rows: VecDeque<Row>,
    bodies: Vec<u8>,
    /// Names of symbols by stream and id.
    symbols: Vec<Vec<Option<Name>>>,
    /// What ended the block: raised when its messages have been returned.
    failure: Option<Failure>,
    place: ReadPosition,
    is_over: bool,
}

impl Ahead {
    /// Whether a call returns at once: a message, an error, or the end.
    fn has_something(&self) -> bool {
        !self.rows.is_empty() || self.failure.is_some() || self.is_over
    }
}

/// A symbol, and its text in Python once it is needed.
struct Name(Box<str>, Option<Py<PyString>>);

/// The header of a message, and where its body is.
struct Row {
    time: i64,
    sequence: u64,
    stream: u32,
    symbol: u32,
    space: u32,
    type_id: u16,
    body: std::ops::Range<usize>,
}

/// What one reading of the engine's cursor gives.
#[derive(Default)]
struct Block {
    rows: VecDeque<Row>,
    bodies: Vec<u8>,
    /// Stream, id and name of symbols that are new or were renamed.
    names: Vec<(u32, u32, Box<str>)>,
    failure: Option<Failure>,
    /// Where reading goes on, when that is not behind the last row.
    position: Option<Position>,
    is_over: bool,
}

/// A position of the engine's cursor, and the last message of each space that was returned since.
struct ReadPosition {
    from: Position,
    passed: Vec<Passed>,
}

/// The last message of a space.
struct Passed {
    stream: u32,
    space: u32,
    time: i64,
    sequence: u64,
}

impl ReadPosition {
    fn new(from: Position) -> Self {
        Self { from, passed: Vec::new() }
    }

    fn pass(&mut self, row: &Row) {
        let Row { stream, space, time, sequence, .. } = *row;
        let passed = Passed { stream, space, time, sequence };
        match self.passed.iter_mut().find(|known| (known.stream, known.space) == (stream, space)) {
            Some(known) => *known = passed,
            None => self.passed.push(passed),
        }
    }

    /// The position as text: a line for each space, each behind what was returned of it.
    fn text(&self, streams: &[(Py<PyString>, String, Arc<Types>)]) -> String {
        let advanced = |line: &str| {
            let known = self.passed.iter().find_map(|passed| {
                let (_, name, _) = &streams[passed.stream as usize];
                advanced(line, name, passed)
            });
            known.unwrap_or_else(|| line.to_string()) + "\n"
        };
        self.from.to_string().lines().map(advanced).collect()
    }
}

/// A line of a position, moved behind a message; `None`: it is that of another space. The lines are `live NEXT STREAM`, `start END
/// STREAM` and `history END TIME SEQUENCE STREAM`, where STREAM is an id, a space and a name.
fn advanced(line: &str, name: &str, passed: &Passed) -> Option<String> {
    let (kind, rest) = line.split_once(' ')?;
    let (number, mut rest) = rest.split_once(' ')?;
    if kind == "history" {
        rest = rest.split_once(' ')?.1.split_once(' ')?.1;
    }
    let named =
        rest.strip_prefix("id=").and_then(|rest| rest.split_once(' ')).map_or(rest, |(_, named)| named);
    let spaced = named.strip_prefix("space=").and_then(|rest| rest.split_once(' '));
    let (space, found) = spaced.map_or(("0", named), |(space, name)| (space, name));
    if found != name || space.parse() != Ok(passed.space) {
        return None;
    }
    let Passed { time, sequence, .. } = passed;
    let is_history = kind != "live" && number.parse().is_ok_and(|end: u64| *sequence < end);
    Some(match is_history {
        true => format!("history {number} {time} {sequence} {rest}"),
        false => format!("live {} {rest}", sequence + 1),
    })
}

impl Reading {
    /// Reads what is there, up to a block; waits for the first message at most `timeout`.
    fn read(&mut self, timeout: Duration) -> Block {
        let mut block = Block::default();
        if let Err(error) = self.fill(&mut block, timeout) {
            block.position = Some(self.cursor.position());
            block.failure = Some(error.into());
        }
        block
    }

    fn fill(&mut self, block: &mut Block, timeout: Duration) -> Result<(), Error> {
        let Self { cursor, streams, symbols } = self;
        if cursor.next_within(timeout)?.is_none() {
            block.is_over = !cursor.follows();
            return Ok(());
        }
        loop {
            if let Some(message) = cursor.current() {
                push(block, message, streams, symbols)?;
            }
            if block.rows.len() == BLOCK_ROWS || block.bodies.len() >= BLOCK_BYTES || cursor.next()?.is_none()
            {
                return Ok(());
            }
        }
    }
}

/// Adds a message to a block, with its body validated.
fn push(
    block: &mut Block,
    message: Message<'_>,
    streams: &[String],
    symbols: &mut [Vec<Option<Box<str>>>],
) -> Result<(), Error> {
    let record = message.record()?;
    let stream = match streams {
        [_] => 0,
        streams => streams.iter().position(|name| name == message.stream_name()).unwrap_or_default(),
    };
    let (known, id) = (&mut symbols[stream], message.symbol_id() as usize);
    if known.len() <= id {
        known.resize(id + 1, None);
    }
    if known[id].as_deref() != Some(message.symbol()) {
        known[id] = Some(message.symbol().into());
        block.names.push((stream as u32, id as u32, message.symbol().into()));
    }
    let start = block.bodies.len();
    block.bodies.extend_from_slice(record.as_bytes());
    block.rows.push_back(Row {
        time: message.time().0,
        sequence: message.sequence(),
        stream: stream as u32,
        symbol: id as u32,
        space: message.space(),
        type_id: message.type_id(),
        body: start..block.bodies.len(),
    });
    Ok(())
}

impl Cursor {
    pub fn new(cursor: Engine, streams: Vec<(String, Arc<Types>)>) -> Self {
        let names: Vec<String> = streams.iter().map(|(name, _)| name.clone()).collect();
        let (position, is_live) = (cursor.position(), cursor.follows());
        let symbols = || (0..names.len()).map(|_| Vec::new()).collect::<Vec<_>>();
        let ahead = Ahead {
            rows: VecDeque::new(),
            bodies: Vec::new(),
            symbols: (0..names.len()).map(|_| Vec::new()).collect(),
            failure: None,
            place: ReadPosition::new(position),
            is_over: false,
        };
        let reading = Reading { cursor, symbols: symbols(), streams: names };
        let streams = Python::attach(|py| {
            streams
                .into_iter()
                .map(|(name, types)| (PyString::intern(py, &name).unbind(), name, types))
                .collect()
        });
        Self {
            engine: Held::new("cursor", reading),
            ahead: Mutex::new(ahead),
            streams,
            is_ending: AtomicBool::new(false),
            is_live,
            given: AtomicU64::new(0),
        }
    }

    fn ahead(&self, py: Python<'_>) -> MutexGuard<'_, Ahead> {
        self.ahead.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    /// The next message that was fetched; raises what comes instead of it.
    fn pop<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut ahead = self.ahead(py);
        let ahead = &mut *ahead;
        let Some(row) = ahead.rows.pop_front() else {
            return ahead.failure.take().map_or(Ok(None), |failure| Err(failure.raised(py)));
        };
        let (stream, _, types) = &self.streams[row.stream as usize];
        let symbol = match &mut ahead.symbols[row.stream as usize][row.symbol as usize] {
            Some(Name(text, known)) => {
                known.get_or_insert_with(|| PyString::intern(py, text).unbind()).clone_ref(py)
            }
            None => PyString::intern(py, "").unbind(),
        };
        ahead.place.pass(&row);
        self.given.fetch_add(1, Ordering::Relaxed);
        let header = Header {
            time: row.time,
            sequence: row.sequence,
            space: row.space,
            symbol,
            stream: stream.clone_ref(py),
        };
        Record::object(py, types, row.type_id, &ahead.bodies[row.body], Some(header)).map(Some)
    }

    /// Fetches the next block, waiting at most `timeout`. `false`: there is none within the time.
    fn fetch(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<bool> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            check_signals(py)?;
            let left = deadline.map_or(SLICE, |deadline| deadline.saturating_duration_since(Instant::now()));
            let has_more = self.engine.run(py, |reading| {
                // Another thread may have fetched while this one waited for its turn: messages, or what comes instead of them.
                if self.ahead_detached().has_something() {
                    return Ok::<_, Failure>(true);
                }
                let mut block = reading.read(left.min(SLICE));
                if has_raised() {
                    // A signal's exception takes the place of the error that it ended the wait with.
                    block.failure = None;
                }
                let mut ahead = self.ahead_detached();
                let ahead = &mut *ahead;
                for (stream, id, name) in block.names {
                    let names = &mut ahead.symbols[stream as usize];
                    if names.len() <= id as usize {
                        names.resize_with(id as usize + 1, || None);
                    }
                    names[id as usize] = Some(Name(name, None));
                }
                if let Some(position) = block.position.filter(|_| block.rows.is_empty()) {
                    ahead.place = ReadPosition::new(position);
                }
                (ahead.rows, ahead.bodies) = (block.rows, block.bodies);
                (ahead.failure, ahead.is_over) = (block.failure, block.is_over);
                Ok(ahead.has_something())
            })?;
            check_signals(py)?;
            if has_more {
                return Ok(true);
            }
            if self.is_ending.load(Ordering::Relaxed) {
                return Err(Failure::Closed("cursor").into());
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(false);
            }
        }
    }

    /// The messages that were fetched, from a thread that does not hold the interpreter.
    fn ahead_detached(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next message; `None`: the time is over, or there is none left.
    fn next_within<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<Duration>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.engine.check()?;
        loop {
            if let Some(message) = self.pop(py)? {
                return Ok(Some(message));
            }
            if self.ahead(py).is_over || !self.fetch(py, timeout)? {
                return Ok(None);
            }
        }
    }
}

/// A timeout in seconds; `None`: without limit.
pub fn timeout_of(seconds: Option<f64>) -> Result<Option<Duration>, Failure> {
    let refused = |_| {
        Failure::Argument(format!("timeout={seconds:?} is not possible; give seconds, 0 or more, or None"))
    };
    seconds.map(Duration::try_from_secs_f64).transpose().map_err(refused)
}

#[pymethods]
impl Cursor {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.next_within(py, None)
    }

    /// The next message, waiting at most that many seconds.
    #[pyo3(signature = (timeout=None) -> "Message | None")]
    fn next<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.next_within(py, timeout_of(timeout)?)
    }

    /// The next messages, up to `count`: waits for the first one alone.
    #[pyo3(signature = (count, timeout=None) -> "list[Message]")]
    fn fetch_many<'py>(
        &self,
        py: Python<'py>,
        count: usize,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let found = PyList::empty(py);
        let timeout = timeout_of(timeout)?;
        while found.len() < count {
            let timeout = if found.is_empty() { timeout } else { Some(Duration::ZERO) };
            match self.next_within(py, timeout) {
                Ok(Some(message)) => found.append(message)?,
                Ok(None) => break,
                Err(error) if found.is_empty() => return Err(error),
                // The messages before it are not to be lost; the error comes with the next call.
                Err(error) => {
                    self.ahead(py).failure = Some(Failure::Python(error));
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Fetches ahead; `true` when the next call has something at once.
    #[pyo3(name = "_fetch", signature = (timeout=None))]
    fn fetch_ahead(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.engine.check()?;
        {
            let ahead = self.ahead(py);
            if ahead.has_something() {
                return Ok(true);
            }
        }
        self.fetch(py, timeout_of(timeout)?)
    }

    /// A message that was fetched; `None`: there is none.
    #[pyo3(name = "_pop", signature = () -> "Message | None")]
    fn pop_ahead<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.engine.check()?;
        self.pop(py)
    }

    /// Whether reading has ended.
    #[getter]
    fn is_over(&self, py: Python<'_>) -> bool {
        let ahead = self.ahead(py);
        ahead.is_over && ahead.rows.is_empty()
    }

    /// Whether the cursor continues with new messages.
    #[getter]
    fn live(&self) -> bool {
        self.is_live
    }

    /// Messages returned so far.
    #[getter]
    fn count(&self) -> u64 {
        self.given.load(Ordering::Relaxed)
    }

    /// The position behind the last message that was returned.
    fn position(&self, py: Python<'_>) -> PyResult<String> {
        self.engine.check()?;
        Ok(self.ahead(py).place.text(&self.streams))
    }

    /// Continues at a time.
    fn seek(&self, py: Python<'_>, time: &Bound<'_, PyAny>) -> PyResult<()> {
        let time = time_of(time)?;
        Ok(self.engine.run(py, |reading| {
            reading.cursor.seek(Timestamp(time))?;
            let mut ahead = self.ahead_detached();
            ahead.rows.clear();
            (ahead.failure, ahead.is_over) = (None, false);
            ahead.place = ReadPosition::new(reading.cursor.position());
            Ok::<_, Failure>(())
        })?)
    }

    /// Whether all streams have reached the end of their history, and everything of it has been returned.
    fn is_at_live(&self, py: Python<'_>) -> PyResult<bool> {
        let is_empty = self.ahead(py).rows.is_empty();
        Ok(is_empty && self.engine.run(py, |reading| Ok::<_, Failure>(reading.cursor.is_live()))?)
    }

    #[getter]
    fn streams<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.streams.iter().map(|(name, ..)| name.bind(py)))
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed) || self.engine.is_closed()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.is_ending.store(true, Ordering::Relaxed);
        Ok(self.engine.close(py)?)
    }
}
