//! Requests that clients send again because they did not receive the answer.
//!
//! A request is sent again when its answer was lost, so it comes over another connection; a client that goes on over the same
//! connection has received the answer. So a request is taken for one that is stored already when a request of the same user with the
//! same bytes was stored within [`WINDOW`], and nothing has come over that one's connection since. A client that names its requests
//! (`Idempotency-Key`) needs no such inference.
//!
//! What is recorded here is lost with the process. Streams have how much of each request they store, by a number that follows from the request and
//! from its *occurrence*: how many with the same bytes came before it, and are no retries. `load.rs` joins the two.
//!
//! Always true: at most [`ENTRIES_MAX`] requests are recorded; the oldest are forgotten first.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a request is recorded after it was stored.
pub(crate) const WINDOW: Duration = Duration::from_secs(300);
const ENTRIES_MAX: usize = 65_536;

/// A request: what tells it from others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// By its bytes.
    Bytes { user: String, length: usize, checksum: u64 },
    /// By the name that the client gave it.
    Named { user: String, name: String },
}

/// Recent requests.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    inner: Mutex<Inner>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<Key, Entry>,
    /// In the order in which they were stored; entries that were replaced or removed since are still in it.
    order: VecDeque<(Key, Instant)>,
    /// Whether a request was forgotten within [`WINDOW`].
    has_overflowed: bool,
}

#[derive(Debug)]
struct Entry {
    /// `None`: it is being stored.
    stored: Option<Instant>,
    /// Checksum of its bytes.
    checksum: u64,
    /// What identifies the streams that have it, as [`Retries::begin`] takes it.
    streams: Vec<i64>,
    occurrence: u64,
    /// Whether its client has received the answer: the same bytes are another request then.
    is_received: bool,
}

/// What a request is.
pub(crate) enum Begun<'a> {
    /// To be stored, unless the streams have it.
    New(Storing<'a>),
    /// Stored already.
    Stored,
    /// Another one that has the same name.
    Different,
}

/// What is recorded of a request that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing: it may have been stored before this process began, or longer than [`WINDOW`] ago.
    Nothing,
    /// As [`Known::Nothing`], but others were forgotten early, and it may be among them.
    Overflowed,
    /// It is no retry, and this is its occurrence, or a later one.
    Next(u64),
}

/// A request that is being stored; it counts as stored when [`Storing::stored`] is called.
pub(crate) struct Storing<'a> {
    retries: &'a Retries,
    key: Key,
    /// What is recorded of it.
    pub known: Known,
    /// What was recorded before, which stays if it is not stored.
    before: Option<Entry>,
    is_stored: bool,
}

impl Retries {
    /// A request begins. While the same request is being stored over another connection, this waits. `streams`: what identifies those of its
    /// lines; where others have stored it, it is stored again.
    pub fn begin(&self, key: &Key, checksum: u64, streams: &[i64], now: impl Fn() -> Instant) -> Begun<'_> {
        let mut inner = self.inner();
        inner.forget_old(now());
        loop {
            match inner.entries.get(key) {
                Some(entry) if entry.checksum != checksum => return Begun::Different,
                Some(Entry { stored: None, .. }) => {
                    inner = self.ended.wait(inner).unwrap_or_else(PoisonError::into_inner);
                }
                Some(entry) if !entry.is_received && entry.streams == streams => return Begun::Stored,
                entry => {
                    let known = match entry {
                        Some(entry) if entry.is_received => Known::Next(entry.occurrence + 1),
                        Some(_) => Known::Next(0),
                        None if inner.has_overflowed => Known::Overflowed,
                        None => Known::Nothing,
                    };
                    let entry = Entry {
                        stored: None,
                        checksum,
                        streams: Vec::new(),
                        occurrence: 0,
                        is_received: false,
                    };
                    let before = inner.entries.insert(key.clone(), entry);
                    return Begun::New(Storing {
                        retries: self,
                        key: key.clone(),
                        known,
                        before,
                        is_stored: false,
                    });
                }
            }
        }
    }

    /// The client has received the answer: the same bytes are another request from now on.
    pub fn received(&self, key: &Key) {
        if let (Key::Bytes { .. }, Some(entry)) = (key, self.inner().entries.get_mut(key)) {
            entry.is_received = true;
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn forget_old(&mut self, now: Instant) {
        while let Some((key, at)) = self.order.front() {
            let is_old = now.saturating_duration_since(*at) > WINDOW;
            if !is_old && self.order.len() <= ENTRIES_MAX {
                break;
            }
            self.has_overflowed |= !is_old;
            if self.entries.get(key).is_some_and(|entry| entry.stored == Some(*at)) {
                self.entries.remove(key);
            }
            self.order.pop_front();
        }
    }
}

impl Storing<'_> {
    /// The request is stored, in these streams.
    pub fn stored(mut self, occurrence: u64, streams: Vec<i64>, now: Instant) {
        let mut inner = self.retries.inner();
        if let Some(entry) = inner.entries.get_mut(&self.key) {
            (entry.stored, entry.streams, entry.occurrence) = (Some(now), streams, occurrence);
            inner.order.push_back((self.key.clone(), now));
        }
        self.is_stored = true;
    }
}

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        if !self.is_stored {
            let mut inner = self.retries.inner();
            match self.before.take() {
                Some(before) => {
                    let stored = before.stored.map(|stored| (self.key.clone(), stored));
                    inner.order.extend(stored);
                    inner.entries.insert(self.key.clone(), before);
                }
                None => drop(inner.entries.remove(&self.key)),
            }
        }
        self.retries.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(checksum: u64) -> Key {
        Key::Bytes { user: "ann".into(), length: 1, checksum }
    }

    /// The same request of one stream, at a time.
    fn begin<'a>(retries: &'a Retries, key: &Key, at: Instant) -> Begun<'a> {
        retries.begin(key, 7, &[1], move || at)
    }

    fn new(begun: Begun<'_>) -> Storing<'_> {
        let Begun::New(storing) = begun else { panic!("it is new") };
        storing
    }

    #[test]
    fn a_request_is_stored_once_until_its_answer_is_received() {
        let (retries, now) = (Retries::default(), Instant::now());
        let begin_it = begin;
        let begin = |at: Instant| begin_it(&retries, &key(7), at);
        let first = new(begin(now));
        assert_eq!(first.known, Known::Nothing);
        drop(first);
        let first = new(begin(now));
        assert_eq!(first.known, Known::Nothing);
        first.stored(0, vec![1], now);
        assert!(matches!(begin(now), Begun::Stored));
        assert!(matches!(begin_it(&retries, &key(8), now), Begun::New(_)));
        retries.received(&key(7));
        // One that fails is as if it had not been.
        assert_eq!(new(begin(now)).known, Known::Next(1));
        let again = new(begin(now));
        assert_eq!(again.known, Known::Next(1));
        again.stored(1, vec![1], now);
        assert!(matches!(begin(now), Begun::Stored));
        assert_eq!(new(begin(now + WINDOW * 2)).known, Known::Nothing, "forgotten");
        assert!(retries.inner().entries.is_empty() && retries.inner().order.is_empty());
    }

    #[test]
    fn a_request_whose_stream_is_another_one_is_stored_again() {
        let (retries, now) = (Retries::default(), Instant::now());
        new(begin(&retries, &key(7), now)).stored(0, vec![1], now);
        let other = new(retries.begin(&key(7), 7, &[2], || now));
        assert_eq!(other.known, Known::Next(0));
    }

    #[test]
    fn names_are_of_one_request() {
        let (retries, now) = (Retries::default(), Instant::now());
        let key = Key::Named { user: "ann".into(), name: "1".into() };
        new(begin(&retries, &key, now)).stored(0, vec![1], now);
        retries.received(&key);
        assert!(matches!(begin(&retries, &key, now), Begun::Stored));
        assert!(matches!(retries.begin(&key, 8, &[1], || now), Begun::Different));
    }

    #[test]
    fn what_is_forgotten_early_is_never_taken_for_a_retry() {
        let (retries, now) = (Retries::default(), Instant::now());
        for checksum in 0..ENTRIES_MAX as u64 + 2 {
            let key = key(checksum);
            new(retries.begin(&key, checksum, &[1], || now)).stored(0, vec![1], now);
        }
        assert_eq!(new(retries.begin(&key(0), 0, &[1], || now)).known, Known::Overflowed);
        assert!(retries.inner().entries.len() <= ENTRIES_MAX + 1);
    }

    #[test]
    fn the_second_waits_for_the_first() {
        let (retries, now) = (Retries::default(), Instant::now());
        let first = new(begin(&retries, &key(7), now));
        std::thread::scope(|scope| {
            let second = scope.spawn(|| matches!(begin(&retries, &key(7), now), Begun::Stored));
            first.stored(0, vec![1], now);
            assert!(second.join().unwrap());
        });
    }
}
