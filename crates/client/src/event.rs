//! Events about the connections of a client, which reconnects by itself.
//!
//! Always true: `State::lost` counts the connections whose `is_lost` is set; the listener is notified when the first of
//! them is lost and when the last one is restored, in that order.

use crate::notifier::locked;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// An event about the connections of a client: see [`Client::on_connection`](crate::Client::on_connection).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// The server cannot be reached at first; the client tries again as long as [`Client::wait`](crate::Client::wait)
    /// specifies. Sent once.
    Waiting {
        /// The server's URL.
        place: String,
        /// The error of the first attempt.
        why: String,
    },
    /// A connection is lost. The client reconnects at once if a live cursor or a loader uses it, otherwise with the
    /// next request. Only the first of several lost connections is reported.
    Lost {
        /// The server's URL.
        place: String,
        /// The reason.
        why: String,
    },
    /// All connections are restored, and cursors and loaders continue.
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

/// A callback for events of a client's connections. The client's threads call it, one at a time: it must return
/// quickly, and must not use a database of the client.
#[derive(Clone)]
pub struct Listener(Arc<dyn Fn(&ConnectionEvent) + Send + Sync>);

impl Listener {
    /// Calls a function for each event.
    pub fn new(tell: impl Fn(&ConnectionEvent) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// Reports the events of all connections of one client.
#[derive(Debug)]
pub(crate) struct Reporter {
    place: String,
    listener: Option<Listener>,
    /// Held while the listener runs.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_waiting: bool,
    /// Number of lost connections, and when the first of them was lost.
    lost: usize,
    since: Option<Instant>,
}

impl Reporter {
    pub fn new(place: String, listener: Option<Listener>) -> Self {
        Self { place, listener, state: Mutex::default() }
    }

    /// The first connection failed, and is tried again.
    pub fn waiting(&self, why: &str) {
        let mut state = locked(&self.state);
        if !std::mem::replace(&mut state.is_waiting, true) {
            self.tell(&ConnectionEvent::Waiting { place: self.place.clone(), why: why.into() });
        }
    }

    /// A reporter for one connection.
    pub fn reconnector(self: &Arc<Self>) -> ConnectionReporter {
        ConnectionReporter { reporter: self.clone(), is_lost: AtomicBool::new(false) }
    }

    fn lost(&self, why: &str) {
        let mut state = locked(&self.state);
        state.lost += 1;
        if state.lost == 1 {
            state.since = Some(Instant::now());
            self.tell(&ConnectionEvent::Lost { place: self.place.clone(), why: why.into() });
        }
    }

    /// A connection is not lost any more: it was restored, or is not needed.
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

/// Reports the events of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionReporter {
    reporter: Arc<Reporter>,
    is_lost: AtomicBool,
}

impl ConnectionReporter {
    /// The connection was lost.
    pub fn lost(&self, why: &str) {
        if !self.is_lost.swap(true, Ordering::AcqRel) {
            self.reporter.lost(why);
        }
    }

    /// The connection was restored.
    pub fn regained(&self) {
        if self.is_lost.swap(false, Ordering::AcqRel) {
            self.reporter.found(true);
        }
    }
}

impl Drop for ConnectionReporter {
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
    fn several_lost_connections_are_reported_as_one() {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let listener = {
            let reported = reported.clone();
            Listener::new(move |event| locked(&reported).push(event.to_string()))
        };
        let reporter = Arc::new(Reporter::new("tape://h:1".into(), Some(listener)));
        reporter.waiting("refused");
        reporter.waiting("refused");
        let (one, other) = (reporter.reconnector(), reporter.reconnector());
        one.lost("closed");
        one.lost("closed");
        other.lost("closed too");
        one.regained();
        assert_eq!(
            *locked(&reported),
            [
                "waiting for tape://h:1: refused",
                "the connection to tape://h:1 is lost: closed; connecting again"
            ]
        );
        other.regained();
        other.regained();
        one.lost("once more");
        drop((one, other));
        let reported = locked(&reported);
        assert!(
            reported[2].starts_with("connected to tape://h:1 again, after 0.")
                && reported[3].contains("once more")
        );
        assert_eq!(reported.len(), 4, "a connection that is not needed is not restored");
    }
}
