//! A line to a server: one connection at a time, made anew when it is lost.
//!
//! Always true: `state.link` is a connection on which everything in `lasting` has been restored; they are put there
//! by the keeper alone.

use crate::address::Address;
use crate::convert;
use crate::event::{LineReporter, Reporter};
use crate::link::{Link, Lost};
use crate::options::Options;
use crate::signal::locked;
use crate::slot::Answer;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_engine::{Command, Description, Error, Known, Outcome};
use tapedb_wire::ToServer;

/// Time between the first attempts to connect again, and the longest later on. Up to half of it is left away at random:
/// clients of a server that was restarted do not all come at once.
const BACK_OFF_MIN: Duration = Duration::from_millis(10);
const BACK_OFF_MAX: Duration = Duration::from_secs(2);

/// The longest time between attempts of a client that has not been connected yet: somebody waits for it.
const FIRST_BACK_OFF_MAX: Duration = Duration::from_millis(500);
/// Who waits for the first connection looks so often whether it is to give up.
const GLANCE: Duration = Duration::from_millis(50);

/// What goes on when the connection is another: a watch, a load.
pub(crate) trait Lasting: Send + Sync {
    /// Begins anew on a connection.
    fn restore(self: Arc<Self>, link: &Arc<Link>);
    /// The connection is lost.
    fn interrupted(&self);
    /// The server has not let the client in again for as long as patience lasts: who waits is to be told.
    fn refused(&self) {}
}

/// A line, for as long as somebody has it.
#[derive(Debug)]
pub(crate) struct Line {
    shared: Arc<Shared>,
}

struct Shared {
    address: Address,
    options: Options,
    reporter: LineReporter,
    state: Mutex<State>,
    /// The state is another.
    changed: Condvar,
    lasting: Mutex<Vec<Weak<dyn Lasting>>>,
}

struct State {
    link: Option<Arc<Link>>,
    /// Nobody has the line any more.
    is_closed: bool,
    /// How many wait for a connection.
    waiting: usize,
    /// Attempts since the last connection, and what came of the last.
    attempts: u64,
    failure: Option<Error>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Line {
    /// Connects; a server that cannot be reached is tried again for as long as [`Options::wait`] says.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Refused`].
    pub fn open(address: Address, options: Options, reporter: &Arc<Reporter>) -> Result<Self, Error> {
        let link = Arc::new(first_link(&address, &options, reporter)?);
        let reporter = reporter.line();
        let state =
            State { link: Some(link.clone()), is_closed: false, waiting: 0, attempts: 0, failure: None };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let lasting = Mutex::default();
        let shared = Arc::new(Shared { address, options, reporter, state, changed, lasting });
        let keeper = shared.clone();
        let spawned = thread::Builder::new().name("tapedb-line".into()).spawn(move || keeper.keep(link));
        spawned.map_err(|error| shared.unreachable(format!("no thread could be started: {error}")))?;
        Ok(Self { shared })
    }

    pub fn address(&self) -> &Address {
        &self.shared.address
    }

    /// Tells lines apart.
    pub fn number(&self) -> u64 {
        Arc::as_ptr(&self.shared) as usize as u64
    }

    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// The connection; waits for it, if it is lost, as long as patience lasts.
    ///
    /// # Errors
    /// [`Error::Unreachable`]; [`Error::Refused`] when the server does not let the client in any more.
    pub fn link(&self) -> Result<Arc<Link>, Error> {
        self.shared.link()
    }

    /// Asks for something that may be asked twice, until the answer comes.
    ///
    /// # Errors
    /// What the server says; as [`Line::link`].
    pub fn ask(&self, message: &ToServer<'_>) -> Result<Answer, Error> {
        loop {
            let link = self.link()?;
            let answer = link.ask(message, Vec::new()).and_then(|slot| link.answer(&slot));
            match answer {
                Ok(Answer::Failed(error)) => return Err(error),
                Ok(answer) => return Ok(answer),
                Err(Lost(_)) => {}
            }
        }
    }

    /// Asks for something that may not be done twice.
    ///
    /// # Errors
    /// What the server says; [`Error::Disconnected`] when the connection was lost before it answered.
    pub fn command(&self, command: &Command) -> Result<Outcome, Error> {
        let message = ToServer::Command { command: convert::to_wire(command.to_parts()) };
        let link = self.link()?;
        match link.command(&message) {
            Ok(Answer::Done(parts)) => Outcome::from_parts(&parts),
            Ok(Answer::Failed(error)) => Err(error),
            Ok(_) => Err(mistaken()),
            Err(Lost(why)) => Err(Error::Disconnected { place: self.address().to_string(), why }),
        }
    }

    /// [`Line::command`], of one that may be done twice: until the answer comes.
    ///
    /// # Errors
    /// What the server says; as [`Line::link`].
    pub fn repeat(&self, command: &Command) -> Result<Outcome, Error> {
        loop {
            match self.command(command) {
                Err(Error::Disconnected { .. }) => {}
                done => return done,
            }
        }
    }

    /// Says something whose answer nobody waits for, if there is a connection.
    pub fn tell(&self, message: &ToServer<'_>) {
        let link = self.shared.state().link.clone();
        if let Some(link) = link.filter(|link| !link.is_broken()) {
            let _ = link.ask(message, Vec::new());
        }
    }

    /// What a stream is. Its symbols come in parts when there are many.
    ///
    /// # Errors
    /// What the server says; as [`Line::link`].
    pub fn describe(&self, name: &str, known: Option<&Known>) -> Result<Description, Error> {
        let mut known_by_now = known.map(convert::known);
        let mut before: Option<Description> = None;
        loop {
            let answer = self.ask(&ToServer::Describe { name, known: known_by_now.clone() })?;
            let Answer::Described(mut description, total) = answer else { return Err(mistaken()) };
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
            // Asks again for all but the symbols: what came first is older than they are.
            known_by_now = Some(tapedb_wire::Known {
                stream_id: description.stream_id,
                run: description.run,
                revision: known.map_or(u64::MAX, |known| known.revision),
                symbols,
                spaces: known.map(convert::known).map_or(Vec::new(), |known| known.spaces),
            });
            before = Some(description);
        }
    }

    /// Begins something that goes on when the connection is another.
    ///
    /// # Errors
    /// As [`Line::link`].
    pub fn begin(&self, lasting: Weak<dyn Lasting>) -> Result<(), Error> {
        self.on_current(|link, list| {
            list.retain(|known| known.strong_count() > 0);
            if let Some(lasting) = lasting.upgrade() {
                lasting.restore(link);
            }
            list.push(lasting.clone());
        })
    }

    /// Begins something anew that the server has ended.
    ///
    /// # Errors
    /// As [`Line::link`].
    pub fn again(&self, lasting: Arc<dyn Lasting>) -> Result<(), Error> {
        self.on_current(|link, _| lasting.clone().restore(link))
    }

    /// Does something once, on the connection that is the line's while it is done.
    fn on_current(&self, act: impl FnOnce(&Arc<Link>, &mut Vec<Weak<dyn Lasting>>)) -> Result<(), Error> {
        loop {
            let link = self.link()?;
            // The keeper holds this while it restores: what is begun here it has not seen, or it has done so with the others.
            let mut list = locked(&self.shared.lasting);
            let is_current =
                locked(&self.shared.state).link.as_ref().is_some_and(|now| Arc::ptr_eq(now, &link));
            if is_current {
                act(&link, &mut list);
                return Ok(());
            }
        }
    }

    /// Waits until something is true, through losses of the connection, as long as patience lasts without one.
    ///
    /// # Errors
    /// As [`Line::link`].
    pub fn wait(&self, signal: &crate::signal::Signal, done: &dyn Fn() -> bool) -> Result<(), Error> {
        while !done() {
            self.link()?.wait(signal, done, None);
        }
        Ok(())
    }
}

/// The error for an answer that is another's; the session lets none through.
pub(crate) fn mistaken() -> Error {
    Error::Protocol { what: "an answer answers something else".into() }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.is_closed = true;
        if let Some(link) = state.link.take() {
            drop(state);
            link.post(0, &ToServer::Goodbye { reason: "the client is done" });
            link.break_off("the client is done");
        }
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    fn unreachable(&self, why: String) -> Error {
        Error::Unreachable { place: self.address.to_string(), why }
    }

    fn link(&self) -> Result<Arc<Link>, Error> {
        let mut state = self.state();
        if let Some(link) = state.link.as_ref().filter(|link| !link.is_broken()) {
            return Ok(link.clone());
        }
        let until = Instant::now() + self.options.patience;
        state.waiting += 1;
        self.changed.notify_all();
        let link = loop {
            if let Some(link) = state.link.as_ref().filter(|link| !link.is_broken()) {
                break Ok(link.clone());
            }
            if let Some(Error::Refused { place, why }) = &state.failure {
                break Err(Error::Refused { place: place.clone(), why: why.clone() });
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break Err(self.given_up(&state));
            }
            // A link that has just broken is looked at again soon: its keeper tells when there is another.
            let left = left.min(Duration::from_millis(500));
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        state.waiting -= 1;
        link
    }

    fn given_up(&self, state: &State) -> Error {
        let seconds = self.options.patience.as_secs_f64();
        let last = match &state.failure {
            Some(Error::Unreachable { why, .. }) => why.clone(),
            Some(other) => other.to_string(),
            None => "no attempt has ended".into(),
        };
        self.unreachable(format!("{} attempts in {seconds} s, the last one: {last}", state.attempts))
    }

    /// Keeps one connection after the other, until nobody has the line.
    fn keep(&self, mut link: Arc<Link>) {
        loop {
            link.keep();
            if !self.state().is_closed {
                self.reporter.lost(&link.lost().0);
            }
            self.each_lasting(|lasting| lasting.interrupted());
            drop(link);
            match self.connect_again() {
                Some(another) => link = another,
                None => return,
            }
            thread::scope(|scope| {
                // Batches that are sent again may fill the connection: somebody must read meanwhile.
                scope.spawn(|| self.put(&link));
                link.keep();
            });
        }
    }

    /// Connects again when anybody needs it; `None` when nobody has the line.
    fn connect_again(&self) -> Option<Arc<Link>> {
        {
            let mut state = self.state();
            (state.link, state.attempts, state.failure) = (None, 0, None);
        }
        let (mut back_off, began) = (BACK_OFF_MIN, Instant::now());
        while self.is_needed() {
            let opened = Link::open(&self.address, &self.options);
            let mut state = self.state();
            state.attempts += 1;
            let error = match opened {
                Ok(link) => return Some(Arc::new(link)),
                Err(error) => error,
            };
            // At first it may be that there is no room while all others connect again.
            let is_refused =
                matches!(error, Error::Refused { .. }) && began.elapsed() >= self.options.patience;
            state.failure = Some(error);
            self.changed.notify_all();
            drop(state);
            if is_refused {
                self.each_lasting(|lasting| lasting.refused());
            }
            self.pause(back_off.mul_f64(1.0 - random_share() / 2.0));
            back_off = (back_off * 2).min(BACK_OFF_MAX);
        }
        None
    }

    /// Waits until somebody needs a connection; `false`: nobody has the line.
    fn is_needed(&self) -> bool {
        loop {
            let has_lasting = self.has_lasting();
            let state = self.state();
            if state.is_closed || state.waiting > 0 || has_lasting {
                return !state.is_closed;
            }
            drop(self.changed.wait(state));
        }
    }

    /// Lets time pass; who begins to wait meanwhile does not cut it short.
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
        // Whoever was refused has been told; who comes next is told what comes of the next attempt.
        if state.waiting == 0 {
            state.failure = None;
        }
    }

    /// Makes a connection the line's.
    fn put(&self, link: &Arc<Link>) {
        // Held until the link is the line's: what begins meanwhile begins on it.
        let mut lasting = locked(&self.lasting);
        lasting.retain(|lasting| lasting.strong_count() > 0);
        lasting.iter().filter_map(Weak::upgrade).for_each(|lasting| lasting.restore(link));
        let mut state = self.state();
        if state.is_closed {
            link.break_off("the client is done");
        }
        (state.link, state.attempts, state.failure) = (Some(link.clone()), 0, None);
        self.changed.notify_all();
        let is_closed = state.is_closed;
        drop(state);
        if !is_closed {
            self.reporter.regained();
        }
    }

    fn has_lasting(&self) -> bool {
        locked(&self.lasting).iter().any(|lasting| lasting.strong_count() > 0)
    }

    fn each_lasting(&self, tell: impl Fn(&dyn Lasting)) {
        let list: Vec<_> = locked(&self.lasting).iter().filter_map(Weak::upgrade).collect();
        list.iter().for_each(|lasting| tell(&**lasting));
    }
}

/// The first connection of a line.
fn first_link(address: &Address, options: &Options, reporter: &Reporter) -> Result<Link, Error> {
    let (began, mut back_off) = (Instant::now(), BACK_OFF_MIN);
    for attempts in 1_u64.. {
        let (place, why) = match Link::open(address, options) {
            Err(Error::Unreachable { place, why }) => (place, why),
            opened => return opened,
        };
        let waited = began.elapsed();
        if waited >= options.wait || options.is_given_up() {
            let of = format!("{attempts} attempts in {:.1} s, the last one: ", waited.as_secs_f64());
            let why = if options.wait.is_zero() { why } else { of + &why };
            return Err(Error::Unreachable { place, why });
        }
        reporter.waiting(&why);
        let pause = back_off.min(options.wait - waited);
        pause_unless(pause, || options.is_given_up());
        back_off = (back_off * 2).min(FIRST_BACK_OFF_MAX);
    }
    unreachable!("it is tried for ever")
}

/// Sleeps, unless something is true by then.
fn pause_unless(pause: Duration, is_over: impl Fn() -> bool) {
    let until = Instant::now() + pause;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || is_over() {
            return;
        }
        thread::sleep(left.min(GLANCE));
    }
}

/// A number from 0 up to 1, another one each time.
fn random_share() -> f64 {
    (random() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number that nobody else has.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(thread::current().id())
}
