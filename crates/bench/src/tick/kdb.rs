//! A feed and a subscriber of kdb+ for the benchmark, and a probe in the plant that serves them.

use super::data::{TABLE, symbols};
use super::times::{FeedDone, Percentiles, Received, histogram, wait_until};
use crate::worker::{now_ns, ready, send};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tapedb_kdb_ipc::{Atom, Elements, Event, Kind, Limits, Session, Symbols, Value, greeting, message};
use tapedb_terminal::Failure;
use tapedb_tick::Date;
use tapedb_tick::kdb::front::FrontProbe;

/// Maximum time of every wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of one read.
const READ_BYTES: usize = 256 << 10;
/// Gathered updates are sent once they have this many bytes.
const SEND_BYTES: usize = 64 << 10;

/// A kdb+ feed: sends `.u.upd` asynchronously.
#[derive(Debug, Serialize, Deserialize)]
pub struct KdbFeedRole {
    pub address: String,
    pub rows_per_update: u64,
    pub updates_per_tick: u64,
    /// 0: full speed.
    pub interval_ns: u64,
    /// How long an update waits for updates that follow at once.
    pub gather_us: u64,
    pub rows: u64,
    pub extra_columns: usize,
    /// First updates, which do not count.
    pub skipped: u64,
}

/// A kdb+ subscriber that ends after `rows`.
#[derive(Debug, Serialize, Deserialize)]
pub struct KdbSubscriberRole {
    pub address: String,
    pub rows: u64,
    pub rows_per_update: u64,
    /// First updates, which do not count.
    pub skipped: u64,
}

impl KdbFeedRole {
    /// Sends all rows, and reports when they were logged: the plant answers a request after the updates before it.
    pub fn run(self) -> Result<(), Failure> {
        let mut line = Line::connect(&self.address)?;
        let midnight = line.midnight()?;
        let mut late = histogram()?;
        let began_ns = ready()?;
        let begin = began_ns + if self.interval_ns == 0 { 0 } else { 10_000_000 };
        let updates = self.rows / self.rows_per_update;
        let names = symbols();
        let (mut bytes, mut flushed) = (Vec::new(), Instant::now());
        for update in 0..updates {
            let due = match self.interval_ns {
                0 => now_ns(),
                interval_ns => begin + update / self.updates_per_tick * interval_ns,
            };
            bytes.extend(self.update(&names, update, due - midnight)?);
            if self.interval_ns > 0 && update % self.updates_per_tick == 0 {
                wait_until(due);
                if update >= self.skipped {
                    late.saturating_record(now_ns().saturating_sub(due));
                }
            }
            let is_due = flushed.elapsed() >= Duration::from_micros(self.gather_us);
            if is_due || self.interval_ns > 0 || bytes.len() >= SEND_BYTES {
                line.send(&bytes)?;
                bytes.clear();
                flushed = Instant::now();
            }
        }
        line.send(&bytes)?;
        line.ask("")?;
        send(&FeedDone { began_ns, ended_ns: now_ns(), late: Percentiles::of(&late) })
    }

    /// A row of atoms, or a list of columns; the sizes of rows are their numbers.
    fn update(&self, names: &[String], update: u64, time: u64) -> Result<Vec<u8>, Failure> {
        let first = update * self.rows_per_update;
        let symbol = |number: u64| names[number as usize % names.len()].as_str();
        let price = |number: u64| 100.0 + (number % 1000) as f64 / 100.0;
        let mut values: Vec<Value>;
        if self.rows_per_update == 1 {
            let price = Value::from(Atom::Float(price(first)));
            let time = Atom::Timespan(time as i64).into();
            values = vec![time, Value::symbol(symbol(first)), price.clone(), (first as i64).into()];
            values.resize(4 + self.extra_columns, price);
        } else {
            let numbers = first..first + self.rows_per_update;
            let prices = Value::from(Elements::Float(numbers.clone().map(price).collect()));
            let times = Elements::Timespan(vec![time as i64; self.rows_per_update as usize]);
            let syms: Symbols = numbers.clone().map(symbol).collect();
            let sizes: Vec<i64> = numbers.map(|number| number as i64).collect();
            values = vec![times.into(), syms.into(), prices.clone(), sizes.into()];
            values.resize(4 + self.extra_columns, prices);
        }
        let update = Value::list(vec![Value::symbol(".u.upd"), Value::symbol(TABLE), Value::list(values)]);
        message(Kind::Asynchronous, &update).map_err(failed)
    }
}

impl KdbSubscriberRole {
    /// Receives all rows, checks each, and reports the latencies.
    pub fn run(self) -> Result<(), Failure> {
        let mut line = Line::connect(&self.address)?;
        line.ask(&format!(".u.sub[`{TABLE};`]"))?;
        let midnight = line.midnight()?;
        let mut receive = histogram()?;
        ready()?;
        let (mut rows, skipped) = (0, self.skipped * self.rows_per_update);
        while rows < self.rows {
            let update = line.receive()?;
            let received = now_ns();
            let (times, sizes) = columns(&update)?;
            for (time, size) in times.iter().zip(sizes) {
                if *size != rows as i64 {
                    return Err(failed(format!("row {rows} of {} is numbered {size}", self.rows)));
                }
                rows += 1;
                // The last row of each update: then all of it has arrived.
                if rows > skipped && rows % self.rows_per_update == 0 {
                    receive.saturating_record(received.saturating_sub(midnight + *time as u64));
                }
            }
        }
        send(&Received { ended_ns: now_ns(), receive: Percentiles::of(&receive) })
    }
}

/// Times and sizes of an update.
fn columns(update: &Value) -> Result<(&[i64], &[i64]), Failure> {
    let table = match update {
        Value::List(list) => list.items.get(2),
        _ => None,
    };
    let Some(Value::Table(table)) = table else { return Err(failed("an update is a table")) };
    let elements = |name: &str| table.column(name).and_then(Value::as_elements);
    match (elements("time"), elements("size")) {
        (Some(Elements::Timespan(times)), Some(Elements::Long(sizes))) => Ok((times, sizes)),
        _ => Err(failed("an update has time and size")),
    }
}

/// The client's end of a connection.
struct Line {
    socket: TcpStream,
    session: Session,
}

impl Line {
    fn connect(address: &str) -> Result<Self, Failure> {
        let mut socket = TcpStream::connect(address).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        socket.write_all(&greeting("bench", "").map_err(failed)?).map_err(failed)?;
        let mut line = Self { socket, session: Session::client(Limits::default()) };
        while line.session.next_event().map_err(failed)?.is_none() {
            line.read()?;
        }
        Ok(line)
    }

    /// When the plant's day began, in nanoseconds since the Unix epoch.
    fn midnight(&mut self) -> Result<u64, Failure> {
        match self.ask(".u.d")? {
            Value::Atom(Atom::Date(days)) => Ok(Date::of_kdb(days).midnight().0 as u64),
            other => Err(failed(format!("the plant's day is {other}"))),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.socket.write_all(bytes).map_err(failed)
    }

    fn ask(&mut self, text: &str) -> Result<Value, Failure> {
        self.send(&message(Kind::Synchronous, &Value::text(text)).map_err(failed)?)?;
        match self.next()? {
            (Kind::Response, Value::Error(error)) => Err(failed(format!("{text}: {error:?}"))),
            (Kind::Response, value) => Ok(value),
            (_, other) => Err(failed(format!("{other} arrived before the answer to {text}"))),
        }
    }

    /// The next update.
    fn receive(&mut self) -> Result<Value, Failure> {
        match self.next()? {
            (Kind::Asynchronous, value) => Ok(value),
            (_, other) => Err(failed(format!("{other} arrived, which is not an update"))),
        }
    }

    fn next(&mut self) -> Result<(Kind, Value), Failure> {
        loop {
            if let Some(event) = self.session.next_event().map_err(failed)? {
                let Event::Message(message) = event else { return Err(failed("a second greeting")) };
                let value = message.value(&Limits::default()).map_err(failed)?;
                return Ok((message.kind, value));
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> Result<(), Failure> {
        match self.socket.read(self.session.spare(READ_BYTES)).map_err(failed)? {
            0 => Err(failed("the plant has closed the connection")),
            bytes => {
                self.session.filled(bytes);
                Ok(())
            }
        }
    }
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::new(format!("over kdb+ IPC: {why}; please report this"))
}

/// A probe in the plant.
pub struct InPlant {
    rows_per_update: usize,
    log: Mutex<Durations>,
    publish: Mutex<Durations>,
}

/// Durations of one step.
struct Durations {
    /// First rows, which do not count.
    skipped: usize,
    histogram: Histogram<u64>,
}

impl InPlant {
    pub fn new(rows_per_update: u64, skipped: u64) -> Result<Self, Failure> {
        let rows_per_update = rows_per_update.max(1) as usize;
        let durations = || {
            let skipped = rows_per_update * skipped as usize;
            Ok::<_, Failure>(Mutex::new(Durations { skipped, histogram: histogram()? }))
        };
        Ok(Self { rows_per_update, log: durations()?, publish: durations()? })
    }

    /// Durations of logging and of publishing an update.
    pub fn percentiles(&self) -> [Percentiles; 2] {
        [&self.log, &self.publish].map(|step| Percentiles::of(&lock(step).histogram))
    }

    fn note(&self, step: &Mutex<Durations>, rows: usize, took: Duration) {
        let mut step = lock(step);
        if step.skipped >= rows {
            step.skipped -= rows;
            return;
        }
        let updates = rows.div_ceil(self.rows_per_update).max(1) as u64;
        step.histogram.saturating_record_n(took.as_nanos() as u64 / updates, updates);
    }
}

impl FrontProbe for InPlant {
    fn logged(&self, rows: usize, took: Duration) {
        self.note(&self.log, rows, took);
    }

    fn published(&self, rows: usize, took: Duration) {
        self.note(&self.publish, rows, took);
    }
}

fn lock(step: &Mutex<Durations>) -> std::sync::MutexGuard<'_, Durations> {
    step.lock().unwrap_or_else(PoisonError::into_inner)
}
