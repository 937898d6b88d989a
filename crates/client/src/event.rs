//! What a client tells of its connections while it goes on by itself.
//!
//! Always true: `State::lost` counts the lines of the client whose `is_lost` is set; the listener is told when the first of
//! them is lost and when the last one is there again, in that order.

use crate::signal::locked;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Something happened to the connections of a client: see [`Client::on_connection`](crate::Client::on_connection).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// The server cannot be reached for the first time, and will be tried again for as long as
    /// [`Client::wait`](crate::Client::wait) says. Told once.
    Waiting {
        /// The server's URL.
        place: String,
        /// What came of the first attempt.
        why: String,
    },
    /// A connection is lost. It is made anew by itself where a cursor is live or a loader is open, else when something is asked for
    /// next. Of several connections only the first that is lost is told.
    Lost {
        /// The server's URL.
        place: String,
        /// How it was lost.
        why: String,
    },
    /// All connections are there again, and cursors and loaders go on.
    Regained {
        /// The server's URL.
        place: String,
        /// Time since the first of them was lost.
        after: Duration,
    },
}

impl fmt::Display for ConnectionEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting { place, why } => write!(f, "waiting for {place}: {why}"),
            Self::Lost { place, why } => {
                write!(f, "the connection to {place} is lost: {why}; connecting again")
            }
            Self::Regained { place, after } => {
                write!(f, "connected to {place} again, after {:.1} s", after.as_secs_f64())
            }
        }
    }
}

/// Whoever is told of a client's connections. Called by the client's threads, by one at a time: it must be quick, and use no
/// database of the client.
#[derive(Clone)]
pub struct Listener(Arc<dyn Fn(&ConnectionEvent) + Send + Sync>);

impl Listener {
    /// Has a function called for each event.
    pub fn new(tell: impl Fn(&ConnectionEvent) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// Tells of all lines of one client.
#[derive(Debug)]
pub(crate) struct Reporter {
    place: String,
    listener: Option<Listener>,
    /// Held while the listener is told.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_waiting: bool,
    /// Lines that are lost, and since when the first of them is.
    lost: usize,
    since: Option<Instant>,
}

impl Reporter {
    pub fn new(place: String, listener: Option<Listener>) -> Self {
        Self { place, listener, state: Mutex::default() }
    }

    /// The first connection is not there yet, and will be tried again.
    pub fn waiting(&self, why: &str) {
        let mut state = locked(&self.state);
        if !std::mem::replace(&mut state.is_waiting, true) {
            self.tell(&ConnectionEvent::Waiting { place: self.place.clone(), why: why.into() });
        }
    }

    /// Something to tell of one line.
    pub fn line(self: &Arc<Self>) -> LineReporter {
        LineReporter { reporter: self.clone(), is_lost: AtomicBool::new(false) }
    }

    fn lost(&self, why: &str) {
        let mut state = locked(&self.state);
        state.lost += 1;
        if state.lost == 1 {
            state.since = Some(Instant::now());
            self.tell(&ConnectionEvent::Lost { place: self.place.clone(), why: why.into() });
        }
    }

    /// A line that was lost is not any more: it has a connection again, or nobody wants one.
    fn found(&self, is_connected: bool) {
        let mut state = locked(&self.state);
        state.lost -= 1;
        if state.lost == 0
            && let Some(since) = state.since.take()
            && is_connected
        {
            self.tell(&ConnectionEvent::Regained { place: self.place.clone(), after: since.elapsed() });
        }
    }

    fn tell(&self, event: &ConnectionEvent) {
        if let Some(Listener(tell)) = &self.listener {
            tell(event);
        }
    }
}

/// Tells of one line.
#[derive(Debug)]
pub(crate) struct LineReporter {
    reporter: Arc<Reporter>,
    is_lost: AtomicBool,
}

impl LineReporter {
    /// It has lost its connection.
    pub fn lost(&self, why: &str) {
        if !self.is_lost.swap(true, Ordering::AcqRel) {
            self.reporter.lost(why);
        }
    }

    /// It has a connection again.
    pub fn regained(&self) {
        if self.is_lost.swap(false, Ordering::AcqRel) {
            self.reporter.found(true);
        }
    }
}

impl Drop for LineReporter {
    fn drop(&mut self) {
        if *self.is_lost.get_mut() {
            self.reporter.found(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_lines_are_told_of_as_one() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let listener = {
            let told = told.clone();
            Listener::new(move |event| locked(&told).push(event.to_string()))
        };
        let reporter = Arc::new(Reporter::new("tape://h:1".into(), Some(listener)));
        reporter.waiting("refused");
        reporter.waiting("refused");
        let (one, other) = (reporter.line(), reporter.line());
        one.lost("closed");
        one.lost("closed");
        other.lost("closed too");
        one.regained();
        assert_eq!(
            *locked(&told),
            [
                "waiting for tape://h:1: refused",
                "the connection to tape://h:1 is lost: closed; connecting again"
            ]
        );
        other.regained();
        other.regained();
        one.lost("once more");
        drop((one, other));
        let told = locked(&told);
        assert!(
            told[2].starts_with("connected to tape://h:1 again, after 0.") && told[3].contains("once more")
        );
        assert_eq!(told.len(), 4, "a line that nobody wants any more is not there again");
    }
}
