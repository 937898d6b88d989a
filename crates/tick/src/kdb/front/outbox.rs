//! The messages that wait to be sent on one connection: bounded, in one order, with no update between a request and its response.

use super::budget::Budget;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of a message, shared by all connections that it is sent to.
pub(super) type Bytes = Arc<[u8]>;

/// Most bytes that are written together.
const WRITE_BYTES: usize = 256 << 10;

/// See the module. Always true: `bytes` is the length of all messages in `queue` and `held`, and of those being written; it counts
/// in the budget, and so does `pending`.
#[derive(Debug)]
pub(super) struct Outbox {
    budget: Arc<Budget>,
    inner: Mutex<Inner>,
    changed: Condvar,
    bytes_max: usize,
    is_behind: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<Bytes>,
    /// Updates during the answer to a request: some clients take the first message for the response.
    held: VecDeque<Bytes>,
    bytes: usize,
    /// Bytes of rows that the subscriber holds back until the queue is empty.
    pending: usize,
    is_answering: bool,
    is_closed: bool,
}

impl Outbox {
    /// An outbox that takes updates while fewer than `bytes_max` bytes wait.
    pub fn new(bytes_max: usize, budget: Arc<Budget>) -> Self {
        Self {
            budget,
            inner: Mutex::default(),
            changed: Condvar::new(),
            bytes_max,
            is_behind: AtomicBool::new(false),
        }
    }

    /// From now on updates wait for the response.
    pub fn begin_answer(&self) {
        self.lock().is_answering = true;
    }

    /// Sends a response, then the updates that waited for it.
    pub fn answer(&self, response: Bytes) {
        let mut inner = self.lock();
        self.count(&mut inner, response.len());
        inner.queue.push_back(response);
        inner.is_answering = false;
        let held = std::mem::take(&mut inner.held);
        inner.queue.extend(held);
        drop(inner);
        self.changed.notify_all();
        self.budget.enforce();
    }

    /// Sends an update; `false`: too much waits already, or the connection is closed.
    pub fn update(&self, update: &Bytes) -> bool {
        let mut inner = self.lock();
        if inner.is_closed || (inner.bytes > 0 && inner.bytes + update.len() > self.bytes_max) {
            return false;
        }
        self.count(&mut inner, update.len());
        if inner.is_answering {
            inner.held.push_back(update.clone());
            drop(inner);
        } else {
            inner.queue.push_back(update.clone());
            drop(inner);
            self.changed.notify_all();
        }
        self.budget.enforce();
        true
    }

    /// Sends what must not be refused, and is small: updates of a subscriber that is behind, and the end of a day.
    pub fn force(&self, update: Bytes) {
        let mut inner = self.lock();
        self.count(&mut inner, update.len());
        let queue = if inner.is_answering { &mut inner.held } else { &mut inner.queue };
        queue.push_back(update);
        drop(inner);
        self.changed.notify_all();
        self.budget.enforce();
    }

    /// Sets the bytes of the rows that the subscriber holds back.
    pub fn set_pending(&self, bytes: usize) {
        let mut inner = self.lock();
        self.budget.take(std::mem::take(&mut inner.pending));
        if !inner.is_closed {
            self.budget.add(bytes);
            inner.pending = bytes;
        }
        drop(inner);
        self.budget.enforce();
    }

    /// Ends the connection and drops the waiting messages.
    pub fn cut_off(&self) {
        let mut inner = self.lock();
        inner.is_closed = true;
        let waiting: usize = inner.queue.drain(..).map(|message| message.len()).sum();
        let held: usize = inner.held.drain(..).map(|message| message.len()).sum();
        // Messages that have been taken are being written, and count until then.
        inner.bytes = inner.bytes.saturating_sub(waiting + held);
        self.budget.take(waiting + held + std::mem::take(&mut inner.pending));
        drop(inner);
        self.changed.notify_all();
    }

    fn count(&self, inner: &mut Inner, bytes: usize) {
        inner.bytes += bytes;
        self.budget.add(bytes);
    }

    /// Sets whether its subscriber is behind.
    pub fn set_behind(&self, is_behind: bool) {
        self.is_behind.store(is_behind, Ordering::SeqCst);
    }

    /// Whether its subscriber is behind.
    pub fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::SeqCst)
    }

    /// Puts the next messages into `out`; waits for them at most `timeout`. `false`: the connection is closed, and nothing is left.
    pub fn take(&self, out: &mut Vec<u8>, timeout: Duration) -> bool {
        out.clear();
        let mut inner = self.lock();
        if inner.queue.is_empty() && !inner.is_closed {
            let waited = self.changed.wait_timeout(inner, timeout);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        while let Some(next) = inner.queue.front() {
            if !out.is_empty() && out.len() + next.len() > WRITE_BYTES {
                break;
            }
            out.extend_from_slice(next);
            inner.queue.pop_front();
        }
        !out.is_empty() || !inner.is_closed
    }

    /// To be called after the bytes from [`take`](Self::take) are written: until then they count.
    pub fn written(&self, bytes: usize) {
        let mut inner = self.lock();
        let bytes = bytes.min(inner.bytes);
        inner.bytes -= bytes;
        self.budget.take(bytes);
    }

    /// Bytes of messages that wait.
    pub fn queued(&self) -> usize {
        self.lock().bytes
    }

    /// Bytes that wait, in messages or as pending rows.
    pub fn waiting(&self) -> usize {
        let inner = self.lock();
        inner.bytes + inner.pending
    }

    /// Accepts nothing more. Waiting messages may still be written.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Whether it accepts nothing more.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.budget.take(inner.bytes + inner.pending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(outbox: &Outbox) -> String {
        let mut out = Vec::new();
        outbox.take(&mut out, Duration::ZERO);
        outbox.written(out.len());
        String::from_utf8(out).expect("a text")
    }

    fn bytes(text: &str) -> Bytes {
        text.as_bytes().into()
    }

    #[test]
    fn no_update_comes_between_a_request_and_its_response() {
        let outbox = Outbox::new(100, Budget::new(1000));
        assert!(outbox.update(&bytes("a")));
        outbox.begin_answer();
        assert!(outbox.update(&bytes("c")) && outbox.update(&bytes("d")));
        assert_eq!(taken(&outbox), "a");
        outbox.answer(bytes("b"));
        assert!(outbox.update(&bytes("e")));
        assert_eq!(taken(&outbox), "bcde");
        assert_eq!(outbox.waiting(), 0);
    }

    #[test]
    fn the_waiting_bytes_are_bounded() {
        let outbox = Outbox::new(10, Budget::new(1000));
        // One update always fits, however long: so each can be sent.
        assert!(outbox.update(&bytes("longer than that")));
        assert!(!outbox.update(&bytes("b")));
        outbox.answer(bytes("a response is not refused"));
        assert!(!outbox.update(&bytes("b")));
        taken(&outbox);
        assert!(outbox.update(&bytes("b")));
        outbox.close();
        assert!(!outbox.update(&bytes("c")));
        let mut out = Vec::new();
        assert!(outbox.take(&mut out, Duration::ZERO));
        assert!(!outbox.take(&mut out, Duration::ZERO));
    }
}
