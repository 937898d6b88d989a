//! A connection to a server that is restored when it is lost.
//!
//! Always true: `state.connection` is a connection on which everything in `resumables` has been resumed; only the
//! maintenance thread sets it, after a reconnect.

use crate::address::Address;
use crate::answer::Answer;
use crate::connection::{Connection, Lost};
use crate::convert;
use crate::event::{ConnectionReporter, Reporter};
use crate::notifier::locked;
use crate::options::Options;
use crate::read_ahead::ReadAhead;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_codes::{command as command_codes, outcome};
use tapedb_engine::interrupt::{is_interrupted, slice};
use tapedb_engine::{CachedStream, Command, ConnectionError, Description, Error, Outcome};
use tapedb_wire::ToServer;

/// Time between the first attempts to reconnect, and the longest one later. Up to half of it is subtracted at random:
/// clients of a restarted server do not reconnect all at once.
const BACK_OFF_MIN: Duration = Duration::from_millis(10);
const BACK_OFF_MAX: Duration = Duration::from_secs(2);

/// The longest time between attempts of a first connection: a caller waits for it.
const FIRST_BACK_OFF_MAX: Duration = Duration::from_millis(500);
/// How often a waiting first connection checks whether to give up.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// State that survives a lost connection: a watch, a load.
pub(crate) trait Resumable: Send + Sync {
    /// Resumes on a new connection.
    fn resume(self: Arc<Self>, connection: &Arc<Connection>);
    /// The connection was lost.
    fn interrupted(&self);
    /// The server has refused to accept the client again until the reconnect timeout: waiting calls must fail.
    fn refused(&self) {}
}

/// A connection that is restored, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reconnector {
    inner: Arc<Inner>,
}

struct Inner {
    address: Address,
    options: Options,
    reporter: ConnectionReporter,
    state: Mutex<State>,
    /// Notified when the state changes.
    changed: Condvar,
    resumables: Mutex<Vec<Weak<dyn Resumable>>>,
    read_ahead: Arc<ReadAhead>,
}

struct State {
    connection: Option<Arc<Connection>>,
    /// The connection is not used any more.
    is_closed: bool,
    /// Number of calls that wait for a connection.
    waiting: usize,
    /// Attempts since the last connection, and the error of the last one.
    attempts: u64,
    failure: Option<Error>,
    /// It is older than the calls that wait: they get the result of another attempt, if one ends in time.
    failure_is_old: bool,
}

impl State {
    /// The error of the last attempt, if the server refused it.
    fn refusal(&self) -> Option<Error> {
        let Some(Error::Connection(ConnectionError::Refused { place, why })) = &self.failure else {
            return None;
        };
        Some(Error::Connection(ConnectionError::Refused { place: place.clone(), why: why.clone() }))
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reconnector").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Reconnector {
    /// Connects; a server that cannot be reached is tried again as long as [`Options::wait`] specifies.
    ///
    /// # Errors
    /// [`ConnectionError::Unreachable`], [`ConnectionError::Refused`].
    pub fn open(address: Address, options: Options, reporter: &Arc<Reporter>) -> Result<Self, Error> {
        let connection = Arc::new(first_connection(&address, &options, reporter)?);
        let reporter = reporter.reconnector();
        let state = State {
            connection: Some(connection.clone()),
            is_closed: false,
            waiting: 0,
            attempts: 0,
            failure: None,
            failure_is_old: false,
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let resumables = Mutex::default();
        let read_ahead = Arc::new(ReadAhead::new(options.read_ahead_bytes));
        let inner = Arc::new(Inner { address, options, reporter, state, changed, resumables, read_ahead });
        let maintainer = inner.clone();
        let spawned = thread::Builder::new()
            .name("tapedb-reconnector".into())
            .spawn(move || maintainer.maintain(connection));
        spawned.map_err(|error| inner.unreachable(format!("no thread could be started: {error}")))?;
        Ok(Self { inner })
    }

    pub fn address(&self) -> &Address {
        &self.inner.address
    }

    /// A number that identifies the connection.
    pub fn number(&self) -> u64 {
        Arc::as_ptr(&self.inner) as usize as u64
    }

    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// The read-ahead of all files.
    pub fn read_ahead(&self) -> &Arc<ReadAhead> {
        &self.inner.read_ahead
    }

    /// The current connection; if it is lost, waits for another one up to the reconnect timeout.
    ///
    /// # Errors
    /// [`ConnectionError::Unreachable`]; [`ConnectionError::Refused`] when the server does not accept the client any more.
    pub fn connection(&self) -> Result<Arc<Connection>, Error> {
        self.inner.connection()
    }

    /// Sends a request that may be repeated, until it is answered.
    ///
    /// # Errors
    /// Errors of the server; as [`Reconnector::connection`].
    pub fn ask(&self, message: &ToServer<'_>) -> Result<Answer, Error> {
        loop {
            let connection = self.connection()?;
            let answer = connection.ask(message, Vec::new()).and_then(|pending| connection.answer(&pending));
            match answer {
                Ok(Answer::Failed(error)) => return Err(error),
                Ok(answer) => return Ok(answer),
                Err(Lost(_)) => {}
            }
        }
    }

    /// Executes a command that must not be repeated.
    ///
    /// # Errors
    /// Errors of the server; [`ConnectionError::Disconnected`] when the connection was lost before the answer.
    pub fn command(&self, command: &Command) -> Result<Outcome, Error> {
        let message = ToServer::Command { command: command_codes::to_coded(command) };
        let connection = self.connection()?;
        match connection.command(&message) {
            Ok(Answer::Done(coded)) => outcome::from_coded(&coded),
            Ok(Answer::Failed(error)) => Err(error),
            Ok(_) => Err(mismatched_answer()),
            Err(Lost(why)) => Err(Error::Connection(ConnectionError::Disconnected {
                place: self.address().to_string().into(),
                why,
            })),
        }
    }

    /// [`Reconnector::command`], for a command that may be repeated: until it is answered.
    ///
    /// # Errors
    /// Errors of the server; as [`Reconnector::connection`].
    pub fn repeat(&self, command: &Command) -> Result<Outcome, Error> {
        loop {
            match self.command(command) {
                Err(Error::Connection(ConnectionError::Disconnected { .. })) => {}
                done => return done,
            }
        }
    }

    /// Sends a request without waiting for its answer, if there is a connection.
    pub fn notify(&self, message: &ToServer<'_>) {
        let connection = self.inner.state().connection.clone();
        if let Some(connection) = connection.filter(|connection| !connection.is_broken()) {
            let _ = connection.ask(message, Vec::new());
        }
    }

    /// The description of a stream. Many symbols come in several answers.
    ///
    /// # Errors
    /// Errors of the server; as [`Reconnector::connection`].
    pub fn describe(&self, name: &str, known: Option<&CachedStream>) -> Result<Description, Error> {
        let mut known_by_now = known.map(convert::cached);
        let mut before: Option<Description> = None;
        loop {
            let answer = self.ask(&ToServer::Describe { name, known: known_by_now.clone() })?;
            let Answer::Described(mut description, total) = answer else { return Err(mismatched_answer()) };
            if let Some(mut before) = before.take()
                && before.run == description.run
                && before.symbols_from + before.symbols.len() as u32 == description.symbols_from
            {
                before.symbols.append(&mut description.symbols);
                description.symbols = before.symbols;
                description.symbols_from = before.symbols_from;
            }
            let symbols = description.symbols_from + description.symbols.len() as u32;
            let is_stuck = known_by_now.as_ref().is_some_and(|known| known.symbols >= symbols);
            if symbols >= total || is_stuck {
                return Ok(description);
            }
            // Requests all but the symbols again: the first answer is older than they are.
            known_by_now = Some(tapedb_wire::CachedStream {
                stream_id: description.stream_id,
                run: description.run,
                revision: known.map_or(u64::MAX, |known| known.revision),
                symbols,
                spaces: known.map(convert::cached).map_or(Vec::new(), |known| known.spaces),
            });
            before = Some(description);
        }
    }

    /// Begins a watch or load that is resumed after a reconnect.
    ///
    /// # Errors
    /// As [`Reconnector::connection`].
    pub fn begin(&self, resumable: Weak<dyn Resumable>) -> Result<(), Error> {
        self.on_current(|connection, list| {
            list.retain(|known| known.strong_count() > 0);
            if let Some(resumable) = resumable.upgrade() {
                resumable.resume(connection);
            }
            list.push(resumable.clone());
        })
    }

    /// Begins a watch or load again that the server has ended.
    ///
    /// # Errors
    /// As [`Reconnector::connection`].
    pub fn restart(&self, resumable: Arc<dyn Resumable>) -> Result<(), Error> {
        self.on_current(|connection, _| resumable.clone().resume(connection))
    }

    /// Calls a function once, on a connection that stays current during the call.
    fn on_current(
        &self,
        act: impl FnOnce(&Arc<Connection>, &mut Vec<Weak<dyn Resumable>>),
    ) -> Result<(), Error> {
        loop {
            let connection = self.connection()?;
            // The maintenance thread holds this lock while it resumes: a new entry is either resumed with the others,
            // or begins on the current connection.
            let mut list = locked(&self.inner.resumables);
            let is_current = locked(&self.inner.state)
                .connection
                .as_ref()
                .is_some_and(|now| Arc::ptr_eq(now, &connection));
            if is_current {
                act(&connection, &mut list);
                return Ok(());
            }
        }
    }

    /// Waits for a condition, through lost connections, up to the reconnect timeout without one.
    ///
    /// # Errors
    /// As [`Reconnector::connection`].
    pub fn wait(&self, notifier: &crate::notifier::Notifier, done: &dyn Fn() -> bool) -> Result<(), Error> {
        while !done() {
            self.connection()?.wait(notifier, done, None);
        }
        Ok(())
    }
}

/// The error for an answer of the wrong kind; the session does not let one through.
pub(crate) fn mismatched_answer() -> Error {
    Error::Connection(ConnectionError::Protocol { what: "the answer does not match the request".into() })
}

impl Drop for Reconnector {
    fn drop(&mut self) {
        let mut state = self.inner.state();
        state.is_closed = true;
        if let Some(connection) = state.connection.take() {
            drop(state);
            connection.post(0, &ToServer::Goodbye { reason: "the client is done" });
            connection.close("the client is done");
        }
        self.inner.changed.notify_all();
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    fn unreachable(&self, why: String) -> Error {
        Error::Connection(ConnectionError::Unreachable { place: self.address.to_string().into(), why })
    }

    fn connection(&self) -> Result<Arc<Connection>, Error> {
        // Also of a connection that is not lost: what waited for an answer asks here again.
        if is_interrupted() {
            return Err(self.interrupted());
        }
        let mut state = self.state();
        if let Some(connection) = state.connection.as_ref().filter(|connection| !connection.is_broken()) {
            return Ok(connection.clone());
        }
        let until = Instant::now() + self.options.reconnect_timeout;
        state.waiting += 1;
        self.changed.notify_all();
        let connection = loop {
            if let Some(connection) = state.connection.as_ref().filter(|connection| !connection.is_broken()) {
                break Ok(connection.clone());
            }
            if !state.failure_is_old
                && let Some(refused) = state.refusal()
            {
                break Err(refused);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break Err(self.given_up(&state));
            }
            // A connection may have just broken: the state is checked again soon.
            let left = slice(left.min(Duration::from_millis(500)));
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            // Not with the lock: what is asked may need another thread.
            drop(state);
            let is_interrupted = is_interrupted();
            state = self.state();
            if is_interrupted {
                break Err(self.interrupted());
            }
        };
        state.waiting -= 1;
        connection
    }

    fn interrupted(&self) -> Error {
        self.unreachable("the call was interrupted while it waited; it can be made again".into())
    }

    fn given_up(&self, state: &State) -> Error {
        if let Some(refused) = state.refusal() {
            return refused;
        }
        let seconds = self.options.reconnect_timeout.as_secs_f64();
        let last = match &state.failure {
            Some(Error::Connection(ConnectionError::Unreachable { why, .. })) => why.clone(),
            Some(other) => other.to_string(),
            None => "no attempt has ended".into(),
        };
        self.unreachable(format!("{} attempts in {seconds} s, the last one: {last}", state.attempts))
    }

    /// Maintains one connection after the other, until this is dropped.
    fn maintain(&self, mut connection: Arc<Connection>) {
        loop {
            connection.maintain();
            if !self.state().is_closed {
                self.reporter.lost(&connection.lost().0);
            }
            self.each_resumable(|resumable| resumable.interrupted());
            drop(connection);
            match self.connect_again() {
                Some(another) => connection = another,
                None => return,
            }
            thread::scope(|scope| {
                // Repeated batches may fill the connection: another thread must read at the same time.
                scope.spawn(|| self.install(&connection));
                connection.maintain();
            });
        }
    }

    /// Reconnects when a connection is needed; `None` when this was dropped.
    fn connect_again(&self) -> Option<Arc<Connection>> {
        {
            let mut state = self.state();
            (state.connection, state.attempts, state.failure) = (None, 0, None);
        }
        let (mut back_off, began) = (BACK_OFF_MIN, Instant::now());
        while self.is_needed() {
            let opened = Connection::open(&self.address, &self.options);
            let mut state = self.state();
            state.attempts += 1;
            let error = match opened {
                Ok(connection) => return Some(Arc::new(connection)),
                Err(error) => error,
            };
            // At first the server may be at its limit while all its clients reconnect.
            let is_refused = matches!(error, Error::Connection(ConnectionError::Refused { .. }))
                && began.elapsed() >= self.options.reconnect_timeout;
            (state.failure, state.failure_is_old) = (Some(error), false);
            self.changed.notify_all();
            drop(state);
            if is_refused {
                self.each_resumable(|resumable| resumable.refused());
            }
            self.pause(back_off.mul_f64(1.0 - random_fraction() / 2.0));
            back_off = (back_off * 2).min(BACK_OFF_MAX);
        }
        None
    }

    /// Waits until a connection is needed; `false`: this was dropped.
    fn is_needed(&self) -> bool {
        loop {
            let has_resumables = self.has_resumables();
            let state = self.state();
            if state.is_closed || state.waiting > 0 || has_resumables {
                return !state.is_closed;
            }
            drop(self.changed.wait(state));
        }
    }

    /// Waits; new callers do not shorten it.
    fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause;
        let mut state = self.state();
        while !state.is_closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        // Refused calls were notified; the next call gets the result of the next attempt.
        if state.waiting == 0 {
            state.failure_is_old = true;
        }
    }

    /// Makes a connection the current one.
    fn install(&self, connection: &Arc<Connection>) {
        // Held until the connection is current: watches and loads that begin later begin on it.
        let mut resumables = locked(&self.resumables);
        resumables.retain(|resumable| resumable.strong_count() > 0);
        resumables.iter().filter_map(Weak::upgrade).for_each(|resumable| resumable.resume(connection));
        let mut state = self.state();
        if state.is_closed {
            connection.close("the client is done");
        }
        (state.connection, state.attempts, state.failure) = (Some(connection.clone()), 0, None);
        self.changed.notify_all();
        let is_closed = state.is_closed;
        drop(state);
        if !is_closed {
            self.reporter.regained();
        }
    }

    fn has_resumables(&self) -> bool {
        locked(&self.resumables).iter().any(|resumable| resumable.strong_count() > 0)
    }

    fn each_resumable(&self, notify: impl Fn(&dyn Resumable)) {
        let list: Vec<_> = locked(&self.resumables).iter().filter_map(Weak::upgrade).collect();
        list.iter().for_each(|resumable| notify(&**resumable));
    }
}

/// The first connection.
fn first_connection(address: &Address, options: &Options, reporter: &Reporter) -> Result<Connection, Error> {
    let (began, mut back_off) = (Instant::now(), BACK_OFF_MIN);
    for attempts in 1_u64.. {
        let (place, why) = match Connection::open(address, options) {
            Err(Error::Connection(ConnectionError::Unreachable { place, why })) => (place, why),
            opened => return opened,
        };
        let waited = began.elapsed();
        if waited >= options.wait || options.is_given_up() {
            let of = format!("{attempts} attempts in {:.1} s, the last one: ", waited.as_secs_f64());
            let why = if options.wait.is_zero() { why } else { of + &why };
            return Err(Error::Connection(ConnectionError::Unreachable { place, why }));
        }
        reporter.waiting(&why);
        let pause = back_off.min(options.wait - waited);
        pause_unless(pause, || options.is_given_up());
        back_off = (back_off * 2).min(FIRST_BACK_OFF_MAX);
    }
    unreachable!("attempts do not end")
}

/// Sleeps, unless a condition becomes true before.
fn pause_unless(pause: Duration, is_over: impl Fn() -> bool) {
    let until = Instant::now() + pause;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || is_over() {
            return;
        }
        thread::sleep(left.min(CANCEL_CHECK_INTERVAL));
    }
}

/// A random number from 0 up to 1.
fn random_fraction() -> f64 {
    (random() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A random number.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(thread::current().id())
}
