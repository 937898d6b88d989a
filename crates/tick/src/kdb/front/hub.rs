//! Publishes what comes into a plant's streams to subscribers that speak kdb+, and writes the log from which they replay.
//!
//! One thread reads the streams with a live cursor; so it does not matter who wrote the rows, and in what way. Each piece that it
//! takes becomes one record of the log and one update: `.u.i` counts them.
//!
//! Always true, under the lock: all rows below `nexts` are in the log and were given to all subscribers of that time, and no
//! others were; so who subscribes and looks at the count in one step can replay so many records and has no gap and nothing
//! twice. Rows of a day are in its log, and reach subscribers before they are told of its end.

use super::journal::Journal;
use super::outbox::{Bytes, Outbox};
use crate::calendar::{Day, day_of};
use crate::date::Date;
use crate::error::{TickError, asked};
use crate::gather::Gather;
use crate::kdb::convert::{empty_table, value_of};
use crate::plan::Plan;
use crate::table::Table;
use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tapedb_engine::{Cursor, Stream};
use tapedb_kdb_ipc::file::log::write_record;
use tapedb_kdb_ipc::{Atom, Elements, Kind, Symbols, Value, Vector, compress, message};

/// Most rows that are published together.
pub(super) const PIECE_ROWS: usize = 4096;
/// Most rows of a table that wait for one subscriber that gets only the last of each symbol; beyond, it is disconnected.
const PENDING_ROWS_MAX: usize = 1_000_000;
/// How long it waits for messages before it looks at the calendar and whether it shall stop.
const WAIT: Duration = Duration::from_millis(20);
/// Pause before it tries again what has failed.
const PAUSE: Duration = Duration::from_millis(200);

/// What is done with a subscriber that does not read fast enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Slow {
    /// What it has not been sent is read from the plant's streams, at its own pace, until it has caught up.
    #[default]
    Replay,
    /// It is disconnected.
    Disconnect,
    /// It gets only the last row of each symbol of what it could not be sent.
    Conflate,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Hub {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
pub(super) struct Shared {
    plan: Plan,
    state: Mutex<State>,
    is_stopping: AtomicBool,
    failure: Mutex<Option<String>>,
    pub counters: Counters,
}

/// What came of subscribers that were too slow.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub published: AtomicU64,
    pub disconnected: AtomicU64,
    pub replayed: AtomicU64,
    pub conflated_rows: AtomicU64,
}

/// What subscribers and the publisher share.
#[derive(Debug)]
pub(super) struct State {
    pub date: Date,
    pub(super) midnight: i64,
    /// For each table the sequence number after the last row published.
    pub(super) nexts: Vec<u64>,
    /// Where the day began.
    pub firsts: Vec<u64>,
    journal: Option<Journal>,
    pub(super) subscribers: Vec<Subscriber>,
}

#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) id: u64,
    pub(super) outbox: Arc<Outbox>,
    pub(super) filters: Vec<Option<Filter>>,
    slow: Slow,
    pub(super) compresses: bool,
    /// It is behind, and reads for itself.
    pub(super) lag: Option<Lag>,
    /// Rows that could not be sent yet, by table.
    pending: Vec<Option<Pending>>,
}

/// Rows of a table that wait until a subscriber reads again. Always true: the last row of each symbol of all that came is there.
#[derive(Debug, Clone)]
struct Pending {
    columns: Vec<Value>,
    /// How many rows there were when the others were taken out last.
    rows_kept: usize,
}

/// Which rows of a table a subscriber wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Filter {
    All,
    Symbols(HashSet<Vec<u8>>),
}

/// Where a subscriber is that reads for itself.
#[derive(Debug, Clone)]
pub(super) struct Lag {
    pub(super) nexts: Vec<u64>,
    pub(super) midnight: i64,
    /// Days that have ended meanwhile: their dates, where the next began in each table, and its midnight.
    pub(super) ends: VecDeque<(Date, Vec<u64>, i64)>,
}

impl Hub {
    /// Begins to publish; with a folder for logs, from where today's log ends, else from now on.
    pub fn start(plan: Plan, log_folder: Option<PathBuf>) -> Result<Self, TickError> {
        let days = plan.days()?;
        let Some(day) = days.last() else { return asked("the calendar is empty") };
        let firsts: Vec<u64> = plan.tables().iter().map(|(table, _)| day.first_of(table.name())).collect();
        let (journal, nexts) = match log_folder {
            Some(folder) => {
                let (journal, nexts) = Journal::open(&folder, plan.name(), day.date, &names(&plan), &firsts)?;
                (Some(journal), nexts)
            }
            None => {
                let end = |(_, stream): &(Table, Stream)| Ok(stream.stats()?.next_sequence);
                (None, plan.tables().iter().map(end).collect::<Result<_, TickError>>()?)
            }
        };
        let (date, midnight) = (day.date, day.midnight.0);
        let state = State { date, midnight, nexts, firsts, journal, subscribers: Vec::new() };
        let shared = Arc::new(Shared {
            plan,
            state: Mutex::new(state),
            is_stopping: AtomicBool::new(false),
            failure: Mutex::default(),
            counters: Counters::default(),
        });
        let (running, next_day) = (shared.clone(), days.len() as u64);
        let thread = std::thread::Builder::new().name("kdb-hub".into());
        match thread.spawn(move || Publisher::new(running, next_day).run()) {
            Ok(thread) => Ok(Self { shared, thread: Some(thread) }),
            Err(error) => asked(format!("cannot begin a thread: {error}; try again")),
        }
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The plant.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Nothing is published while it is held.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What keeps it from publishing.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell(&self, failure: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }
}

impl State {
    /// Updates so far today; `None` without a log.
    pub fn count(&self) -> Option<u64> {
        self.journal.as_ref().map(Journal::records)
    }

    /// Where today's log is.
    pub fn log_path(&self) -> Option<PathBuf> {
        self.journal.as_ref().map(Journal::path)
    }

    /// Rows of a table today.
    pub fn rows(&self, table: usize) -> u64 {
        self.nexts[table].saturating_sub(self.firsts[table])
    }

    /// Makes a connection a subscriber of some rows of a table; with `adds`, of these beside those that it has.
    pub fn subscribe(&mut self, of: &Connection, table: usize, filter: Filter, adds: bool) {
        let place = self.subscribers.iter().position(|known| known.id == of.id);
        let place = place.unwrap_or_else(|| {
            self.subscribers.push(Subscriber::new(of, self.nexts.len()));
            self.subscribers.len() - 1
        });
        let subscriber = &mut self.subscribers[place];
        let filters = &mut subscriber.filters[table];
        *filters = match (filters.take(), filter) {
            (Some(Filter::Symbols(known)), Filter::Symbols(more)) if adds => {
                Some(Filter::Symbols(known.into_iter().chain(more).collect()))
            }
            (Some(Filter::All), _) if adds => Some(Filter::All),
            (_, filter) => Some(filter),
        };
        if let Some(lag) = &mut subscriber.lag {
            lag.nexts[table] = lag.nexts[table].max(self.nexts[table]);
        }
    }

    /// Ends a subscription to a table, or all of a connection's.
    pub fn unsubscribe(&mut self, id: u64, table: Option<usize>) {
        match (table, self.subscribers.iter_mut().find(|known| known.id == id)) {
            (Some(table), Some(subscriber)) => subscriber.filters[table] = None,
            _ => self.subscribers.retain(|known| known.id != id),
        }
    }

    /// What is done with a connection's updates when it is slow.
    pub fn set_slow(&mut self, id: u64, slow: Slow) {
        if let Some(subscriber) = self.subscribers.iter_mut().find(|known| known.id == id) {
            subscriber.slow = slow;
        }
    }
}

/// Who subscribes.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pub id: u64,
    pub outbox: Arc<Outbox>,
    pub slow: Slow,
    /// Whether long messages to it are compressed.
    pub compresses: bool,
}

impl Subscriber {
    fn new(of: &Connection, tables: usize) -> Self {
        let Connection { id, outbox, slow, compresses } = of.clone();
        let (filters, pending) = (vec![None; tables], vec![None; tables]);
        Self { id, outbox, filters, slow, compresses, lag: None, pending }
    }

    /// Sends rows of a table, or does with them what is done when it is slow. `nexts`: where it was before them.
    fn give(&mut self, table: usize, update: &Update, before: &Before<'_>, counters: &Counters) {
        let Some(filter) = &self.filters[table] else { return };
        if self.lag.is_some() {
            return;
        }
        let rows = match filter {
            Filter::All => None,
            Filter::Symbols(symbols) => Some(update.rows_of(symbols)),
        };
        if rows.as_ref().is_some_and(Vec::is_empty) {
            return;
        }
        if self.pending[table].is_some() {
            self.conflate(table, update, rows.as_deref(), counters);
            return;
        }
        let bytes = update.wanted(rows.as_deref(), self.compresses);
        if bytes.is_none_or(|bytes| self.outbox.update(&bytes)) || self.outbox.is_closed() {
            return;
        }
        match self.slow {
            Slow::Disconnect => {
                counters.disconnected.fetch_add(1, Ordering::Relaxed);
                self.outbox.close();
            }
            Slow::Replay => {
                counters.replayed.fetch_add(1, Ordering::Relaxed);
                let (nexts, midnight) = (before.nexts.to_vec(), before.midnight);
                self.lag = Some(Lag { nexts, midnight, ends: VecDeque::new() });
                self.outbox.set_behind(true);
            }
            Slow::Conflate => self.conflate(table, update, rows.as_deref(), counters),
        }
    }

    /// Adds rows to those that wait; when these have doubled, only the last of each symbol stays, so that a row costs the same
    /// however many wait.
    fn conflate(&mut self, table: usize, update: &Update, rows: Option<&[u32]>, counters: &Counters) {
        let all: Vec<u32>;
        let rows = match rows {
            Some(rows) => rows,
            None => {
                all = (0..update.rows as u32).collect();
                &all
            }
        };
        let columns: Vec<Value> = update.columns.iter().map(|column| picked(column, rows)).collect();
        let mut pending = match self.pending[table].take() {
            Some(Pending { columns: waiting, rows_kept }) => {
                let columns = waiting.into_iter().zip(columns).map(|(a, b)| joined(a, &b)).collect();
                Pending { columns, rows_kept }
            }
            None => Pending { columns, rows_kept: 0 },
        };
        if pending.rows() > 2 * pending.rows_kept + PIECE_ROWS {
            pending.leave_last(counters);
        }
        if pending.rows() > PENDING_ROWS_MAX {
            counters.disconnected.fetch_add(1, Ordering::Relaxed);
            self.outbox.close();
        }
        self.pending[table] = Some(pending);
    }

    /// Sends what waits, if there is room again.
    fn send_pending(&mut self, tables: &[(Table, Stream)], counters: &Counters) {
        for (table, (def, _)) in tables.iter().enumerate() {
            if self.outbox.waiting() > 0 {
                return;
            }
            self.force_pending(table, def, counters);
        }
    }

    /// Sends what waits of a table, which is little.
    fn force_pending(&mut self, table: usize, def: &Table, counters: &Counters) {
        let Some(mut pending) = self.pending[table].take() else { return };
        pending.leave_last(counters);
        if let Some(bytes) = Update::new(def, pending.columns).bytes(self.compresses) {
            self.outbox.force(bytes);
        }
    }

    fn end(
        &mut self,
        date: Date,
        day: &Day,
        firsts: &[u64],
        tables: &[(Table, Stream)],
        counters: &Counters,
    ) {
        if let Some(lag) = &mut self.lag {
            lag.ends.push_back((date, firsts.to_vec(), day.midnight.0));
            return;
        }
        for (table, (def, _)) in tables.iter().enumerate() {
            self.force_pending(table, def, counters);
        }
        self.outbox.force(end_message(date));
    }
}

impl Pending {
    fn rows(&self) -> usize {
        self.columns.first().and_then(Value::len).unwrap_or(0)
    }

    /// Leaves the last row of each symbol.
    fn leave_last(&mut self, counters: &Counters) {
        let kept = last_of_each(&self.columns);
        let dropped = self.rows() - kept.len();
        counters.conflated_rows.fetch_add(dropped as u64, Ordering::Relaxed);
        if dropped > 0 {
            self.columns = self.columns.iter().map(|column| picked(column, &kept)).collect();
        }
        self.rows_kept = kept.len();
    }
}

/// Where a subscriber was before an update.
struct Before<'a> {
    nexts: &'a [u64],
    midnight: i64,
}

/// Rows of a table on their way to subscribers: encoded once for all who want all of them.
pub(super) struct Update {
    name: String,
    names: Symbols,
    columns: Vec<Value>,
    rows: usize,
    plain: std::cell::OnceCell<Option<Bytes>>,
    compressed: std::cell::OnceCell<Option<Bytes>>,
}

impl Update {
    pub(super) fn new(table: &Table, columns: Vec<Value>) -> Self {
        let rows = columns.first().and_then(Value::len).unwrap_or(0);
        let names = table.columns().iter().map(|column| column.name.as_bytes()).collect();
        let (plain, compressed) = Default::default();
        Self { name: table.name().into(), names, columns, rows, plain, compressed }
    }

    /// The message of all rows; `None`: it cannot be sent, being too long.
    fn bytes(&self, compresses: bool) -> Option<Bytes> {
        let plain = self.plain.get_or_init(|| self.encoded(self.columns.clone()).map(Bytes::from));
        if !compresses {
            return plain.clone();
        }
        let compressed = || plain.as_ref().and_then(|plain| compress(plain)).map(Bytes::from);
        self.compressed.get_or_init(compressed).clone().or_else(|| plain.clone())
    }

    /// The message of what a filter leaves; `None`: of nothing.
    pub(super) fn filtered(&self, filter: &Filter, compresses: bool) -> Option<Bytes> {
        let rows = match filter {
            Filter::All => None,
            Filter::Symbols(symbols) => Some(self.rows_of(symbols)),
        };
        if rows.as_ref().is_some_and(Vec::is_empty) { None } else { self.wanted(rows.as_deref(), compresses) }
    }

    /// The message of some rows, or of all.
    fn wanted(&self, rows: Option<&[u32]>, compresses: bool) -> Option<Bytes> {
        match rows {
            None => self.bytes(compresses),
            Some(rows) => self.picked(rows, compresses),
        }
    }

    fn picked(&self, rows: &[u32], compresses: bool) -> Option<Bytes> {
        let columns = self.columns.iter().map(|column| picked(column, rows)).collect();
        let plain = self.encoded(columns)?;
        Some(if compresses { compress(&plain).unwrap_or(plain) } else { plain }.into())
    }

    fn encoded(&self, columns: Vec<Value>) -> Option<Vec<u8>> {
        let table = tapedb_kdb_ipc::Table::new(self.names.clone(), columns).ok()?;
        let update = Value::list(vec![Value::symbol("upd"), Value::symbol(&self.name), table.into()]);
        message(Kind::Asynchronous, &update).ok()
    }

    /// The rows of these symbols.
    fn rows_of(&self, symbols: &HashSet<Vec<u8>>) -> Vec<u32> {
        let Some(Elements::Symbol(syms)) = self.columns.get(1).and_then(Value::as_elements) else {
            return Vec::new();
        };
        let wanted = syms.iter().enumerate().filter(|(_, symbol)| symbols.contains(*symbol));
        wanted.map(|(row, _)| row as u32).collect()
    }
}

pub(super) fn end_message(date: Date) -> Bytes {
    let end = Value::list(vec![Value::symbol(".u.end"), Atom::Date(date.to_kdb()).into()]);
    // A message of a few bytes is not too long.
    message(Kind::Asynchronous, &end).unwrap_or_default().into()
}

fn picked(column: &Value, rows: &[u32]) -> Value {
    match column {
        Value::Vector(vector) => {
            Value::Vector(Vector { attribute: vector.attribute, elements: vector.elements.pick(rows) })
        }
        other => Value::list(rows.iter().filter_map(|row| other.item(*row as usize)).collect()),
    }
}

fn joined(first: Value, second: &Value) -> Value {
    match (first, second) {
        (Value::Vector(mut first), Value::Vector(second)) => {
            second.elements.iter().for_each(|atom| {
                // Both are of the column's type.
                let _ = first.elements.push(atom);
            });
            Value::Vector(first)
        }
        (Value::List(first), Value::List(second)) => {
            Value::list([first.items, second.items.clone()].concat())
        }
        (first, _) => first,
    }
}

/// The places of the last row of each symbol, in order.
fn last_of_each(columns: &[Value]) -> Vec<u32> {
    let Some(Elements::Symbol(symbols)) = columns.get(1).and_then(Value::as_elements) else {
        return Vec::new();
    };
    let mut seen = HashSet::new();
    let mut kept: Vec<u32> =
        (0..symbols.len() as u32).rev().filter(|row| seen.insert(symbols.get(*row as usize))).collect();
    kept.reverse();
    kept
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.tables().iter().map(|(table, _)| table.name()).collect()
}

/// Rows that have been read, as they came.
#[derive(Default)]
struct Stage {
    rows: Vec<StagedRow>,
    symbols: String,
    bodies: Vec<u8>,
}

#[derive(Clone, Copy)]
struct StagedRow {
    table: usize,
    sequence: u64,
    time: i64,
    symbol_end: usize,
    body_end: usize,
}

impl Stage {
    fn push(&mut self, table: usize, sequence: u64, time: i64, symbol: &str, body: &[u8]) {
        self.symbols.push_str(symbol);
        self.bodies.extend_from_slice(body);
        let (symbol_end, body_end) = (self.symbols.len(), self.bodies.len());
        self.rows.push(StagedRow { table, sequence, time, symbol_end, body_end });
    }

    /// The rows with their symbols and bodies.
    fn iter(&self) -> impl Iterator<Item = (StagedRow, &str, &[u8])> {
        let (mut symbol, mut body) = (0, 0);
        self.rows.iter().map(move |row| {
            let found = (*row, &self.symbols[symbol..row.symbol_end], &self.bodies[body..row.body_end]);
            (symbol, body) = (row.symbol_end, row.body_end);
            found
        })
    }
}

/// The thread that publishes.
struct Publisher {
    shared: Arc<Shared>,
    /// Sequence number of the calendar's next message.
    next_day: u64,
    days: VecDeque<Day>,
    gathers: Vec<Gather>,
    /// For each table the sequence number after the last row gathered.
    gathered: Vec<u64>,
}

impl Publisher {
    fn new(shared: Arc<Shared>, next_day: u64) -> Self {
        let gathers =
            shared.plan.tables().iter().map(|(table, stream)| Gather::new(table, stream.layouts())).collect();
        let gathered = shared.lock().nexts.clone();
        Self { shared, next_day, days: VecDeque::new(), gathers, gathered }
    }

    fn run(mut self) {
        while !self.shared.is_stopping() {
            let Err(error) = self.follow() else { break };
            self.shared.tell(Some(error.to_string()));
            self.gathers.iter_mut().for_each(|gather| drop(gather.take(0)));
            self.gathered = self.shared.lock().nexts.clone();
            std::thread::sleep(PAUSE);
        }
    }

    fn follow(&mut self) -> Result<(), TickError> {
        let plan = self.shared.plan.clone();
        let mut calendar = plan.calendar().cursor().from_sequence(self.next_day).live().open()?;
        let streams: Vec<&str> = plan.tables().iter().map(|(_, stream)| stream.name()).collect();
        let mut cursor =
            plan.database().cursor(&streams)?.from_sequences(self.gathered.clone()).live().open()?;
        let mut stage = Stage::default();
        self.shared.tell(None);
        while !self.shared.is_stopping() {
            read(&mut cursor, &streams, &mut stage)?;
            // A row of a day comes after the calendar's message: who has the row sees the message.
            while let Some(message) = calendar.next()? {
                self.days.push_back(day_of(&message)?);
                self.next_day = message.sequence() + 1;
            }
            let is_idle = stage.rows.is_empty();
            stage = self.publish(stage)?;
            if is_idle {
                self.send_pending();
                cursor.wait(WAIT)?;
            }
        }
        Ok(())
    }

    /// Publishes what has been read; days end between rows, where they end. Returns what is of a day that cannot begin yet,
    /// because rows of the day before are still to be read.
    fn publish(&mut self, mut stage: Stage) -> Result<Stage, TickError> {
        loop {
            let mut later = Stage::default();
            for (row, symbol, body) in stage.iter() {
                let edge = self.days.front().map(|day| self.first_of(day, row.table));
                if edge.is_some_and(|edge| row.sequence >= edge) {
                    later.push(row.table, row.sequence, row.time, symbol, body);
                } else if row.sequence >= self.gathered[row.table] {
                    self.gathers[row.table].push_body(row.time, symbol, body);
                    self.gathered[row.table] = row.sequence + 1;
                }
            }
            for table in 0..self.gathers.len() {
                self.publish_table(table)?;
            }
            if !self.end_day()? {
                return Ok(later);
            }
            stage = later;
        }
    }

    fn first_of(&self, day: &Day, table: usize) -> u64 {
        day.first_of(self.shared.plan.tables()[table].0.name())
    }

    fn publish_table(&mut self, table: usize) -> Result<(), TickError> {
        if self.gathers[table].is_empty() {
            return Ok(());
        }
        let mut state = self.shared.lock();
        let def = &self.shared.plan.tables()[table].0;
        let columns = self.gathers[table].take(state.midnight);
        let columns = def.columns().iter().zip(&columns).enumerate();
        let columns = columns.map(|(at, (def, column))| value_of(def.kind, at == 0, column)).collect();
        let columns = match &mut state.journal {
            Some(journal) => {
                let (record, columns) = record(def.name(), columns);
                journal.append(&record)?;
                columns
            }
            None => columns,
        };
        let State { nexts, midnight, subscribers, .. } = &mut *state;
        let before = Before { nexts, midnight: *midnight };
        let update = Update::new(def, columns);
        for subscriber in subscribers.iter_mut() {
            subscriber.give(table, &update, &before, &self.shared.counters);
        }
        subscribers.retain(|subscriber| !subscriber.outbox.is_closed());
        nexts[table] = self.gathered[table];
        self.shared.counters.published.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the day, if all its rows have been published.
    fn end_day(&mut self) -> Result<bool, TickError> {
        let Some(day) = self.days.front() else { return Ok(false) };
        let firsts: Vec<u64> = (0..self.gathered.len()).map(|table| self.first_of(day, table)).collect();
        if self.gathered.iter().zip(&firsts).any(|(gathered, first)| gathered < first) {
            return Ok(false);
        }
        let mut state = self.shared.lock();
        let ended = state.date;
        let begins = self.gathered.clone();
        if let Some(journal) = &mut state.journal {
            journal.roll(day.date, &names(&self.shared.plan), &begins)?;
        }
        let (tables, counters) = (self.shared.plan.tables(), &self.shared.counters);
        let ends = |subscriber: &mut Subscriber| subscriber.end(ended, day, &firsts, tables, counters);
        state.subscribers.iter_mut().for_each(ends);
        (state.date, state.midnight, state.firsts) = (day.date, day.midnight.0, firsts);
        drop(state);
        self.days.pop_front();
        Ok(true)
    }

    fn send_pending(&self) {
        let mut state = self.shared.lock();
        let tables = self.shared.plan.tables();
        let counters = &self.shared.counters;
        state.subscribers.iter_mut().for_each(|subscriber| subscriber.send_pending(tables, counters));
        state.subscribers.retain(|subscriber| !subscriber.outbox.is_closed());
    }
}

/// Reads what there is, up to a piece.
fn read(cursor: &mut Cursor, streams: &[&str], stage: &mut Stage) -> Result<(), TickError> {
    let mut last: Option<(*const Stream, usize)> = None;
    while stage.rows.len() < PIECE_ROWS {
        let Some(message) = cursor.next()? else { break };
        // Neighbours are mostly of one stream, which lies where it lies as long as the cursor does.
        let stream: *const Stream = message.stream();
        let table = match last {
            Some((known, table)) if known == stream => table,
            _ => streams.iter().position(|name| *name == message.stream().name()).unwrap_or(0),
        };
        last = Some((stream, table));
        stage.push(table, message.sequence(), message.time().0, message.symbol(), message.body());
    }
    Ok(())
}

/// The record of a log that brings rows, and the rows.
fn record(table: &str, columns: Vec<Value>) -> (Vec<u8>, Vec<Value>) {
    let mut bytes = Vec::new();
    let mut record = vec![Value::symbol("upd"), Value::symbol(table), Value::list(columns)];
    let value = Value::list(std::mem::take(&mut record));
    write_record(&value, &mut bytes);
    let columns = match value {
        Value::List(mut list) => match list.items.pop() {
            Some(Value::List(columns)) => columns.items,
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    (bytes, columns)
}

/// A table's name and its columns without rows: what a subscriber is given first.
pub(super) fn schema_of(table: &Table) -> Value {
    Value::list(vec![Value::symbol(table.name()), empty_table(table)])
}
