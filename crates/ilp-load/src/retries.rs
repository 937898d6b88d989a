//! Requests that clients send again because they did not receive the answer.
//!
//! A request is sent again when its answer was lost, so it comes over another connection; a client that goes on over the same
//! connection has received the answer. So a request is taken for one that is stored already when a request of the same user with the
//! same bytes was stored within [`WINDOW`], and nothing has come over that one's connection since. A client that names its requests
//! (`Idempotency-Key`) needs no such inference.
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
}

#[derive(Debug)]
struct Entry {
    /// `None`: it is being stored.
    stored: Option<Instant>,
    /// Checksum of its bytes.
    checksum: u64,
}

/// What a request is.
pub(crate) enum Begun<'a> {
    /// New; to be stored.
    New(Storing<'a>),
    /// Stored already.
    Stored,
    /// Another one that has the same name.
    Different,
}

/// A request that is being stored; it counts as stored when [`Storing::stored`] is called.
pub(crate) struct Storing<'a> {
    retries: &'a Retries,
    key: Key,
    is_stored: bool,
}

impl Retries {
    /// A request begins. While the same request is being stored over another connection, this waits.
    pub fn begin(&self, key: &Key, checksum: u64, now: impl Fn() -> Instant) -> Begun<'_> {
        let mut inner = self.inner();
        inner.forget_old(now());
        loop {
            match inner.entries.get(key) {
                Some(entry) if entry.checksum != checksum => return Begun::Different,
                Some(Entry { stored: Some(_), .. }) => return Begun::Stored,
                Some(Entry { stored: None, .. }) => {
                    inner = self.ended.wait(inner).unwrap_or_else(PoisonError::into_inner);
                }
                None => {
                    inner.entries.insert(key.clone(), Entry { stored: None, checksum });
                    return Begun::New(Storing { retries: self, key: key.clone(), is_stored: false });
                }
            }
        }
    }

    /// The client has received the answer: the same bytes are another request from now on.
    pub fn received(&self, key: &Key) {
        if let Key::Bytes { .. } = key {
            self.inner().entries.remove(key);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn forget_old(&mut self, now: Instant) {
        while let Some((key, at)) = self.order.front() {
            let is_old = now.saturating_duration_since(*at) > WINDOW || self.order.len() > ENTRIES_MAX;
            if !is_old {
                break;
            }
            if self.entries.get(key).is_some_and(|entry| entry.stored == Some(*at)) {
                self.entries.remove(key);
            }
            self.order.pop_front();
        }
    }
}

impl Storing<'_> {
    /// The request is stored.
    pub fn stored(mut self, now: Instant) {
        let mut inner = self.retries.inner();
        if let Some(entry) = inner.entries.get_mut(&self.key) {
            entry.stored = Some(now);
            inner.order.push_back((self.key.clone(), now));
        }
        self.is_stored = true;
    }
}

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        if !self.is_stored {
            self.retries.inner().entries.remove(&self.key);
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

    #[test]
    fn a_request_is_stored_once_until_its_answer_is_received() {
        let (retries, now) = (Retries::default(), Instant::now());
        let begin = |key: &Key, at: Instant| retries.begin(key, 7, move || at);
        let Begun::New(first) = begin(&key(7), now) else { panic!("it is new") };
        drop(first);
        let Begun::New(first) = begin(&key(7), now) else { panic!("it was not stored") };
        first.stored(now);
        assert!(matches!(begin(&key(7), now), Begun::Stored));
        assert!(matches!(begin(&key(8), now), Begun::New(_)));
        retries.received(&key(7));
        let Begun::New(again) = begin(&key(7), now) else { panic!("its answer was received") };
        again.stored(now);
        assert!(matches!(begin(&key(7), now + WINDOW * 2), Begun::New(_)), "forgotten");
        assert!(retries.inner().entries.is_empty() && retries.inner().order.is_empty());
    }

    #[test]
    fn names_are_of_one_request() {
        let (retries, now) = (Retries::default(), Instant::now());
        let key = Key::Named { user: "ann".into(), name: "1".into() };
        let Begun::New(first) = retries.begin(&key, 7, || now) else { panic!("it is new") };
        first.stored(now);
        retries.received(&key);
        assert!(matches!(retries.begin(&key, 7, || now), Begun::Stored));
        assert!(matches!(retries.begin(&key, 8, || now), Begun::Different));
    }

    #[test]
    fn the_second_waits_for_the_first() {
        let (retries, now) = (Retries::default(), Instant::now());
        let Begun::New(first) = retries.begin(&key(7), 7, || now) else { panic!("it is new") };
        std::thread::scope(|scope| {
            let second = scope.spawn(|| matches!(retries.begin(&key(7), 7, || now), Begun::Stored));
            first.stored(now);
            assert!(second.join().unwrap());
        });
    }
}
