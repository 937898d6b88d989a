//! Handles of connections: what other threads use of a connection, to push to it and to monitor it.

use crate::send_buffer::SendBuffer;
use crate::socket::Peer;
use crate::traffic::ConnectionTraffic;
use mio::Waker;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Instant;

/// A live cursor of a client, for monitoring.
pub(crate) trait LiveCursor: Debug + Send + Sync {
    /// The name of its stream.
    fn stream_name(&self) -> &str;
    /// Messages of the stream that have not been pushed.
    fn lag(&self) -> u64;
}

/// A connection, for other threads.
#[derive(Debug)]
pub(crate) struct ConnectionHandle {
    pub id: u64,
    pub peer: Peer,
    pub send_buffer: SendBuffer,
    /// Wakes the connection's thread.
    pub waker: Waker,
    pub user: OnceLock<String>,
    /// The program's name, as the client reports it.
    pub program: OnceLock<String>,
    pub since: Instant,
    pub received: AtomicU64,
    pub traffic: Arc<ConnectionTraffic>,
    watches: Mutex<Vec<Weak<dyn LiveCursor>>>,
    /// Why the connection is to end, when another thread ends it.
    pub ended_because: OnceLock<String>,
    /// Whether a watch has work for the connection's thread.
    pub has_due: AtomicBool,
    /// Whether a thread coalesces pushes to it and will flush the send buffer.
    pub is_coalescing: AtomicBool,
    /// Whether the connection's thread did not push because the send buffer had no capacity. Other threads may empty it.
    lacks_capacity: AtomicBool,
}

impl ConnectionHandle {
    /// The handle of a new connection.
    pub fn new(id: u64, peer: Peer, send_buffer: SendBuffer, waker: Waker) -> Self {
        Self {
            id,
            peer,
            send_buffer,
            waker,
            user: OnceLock::new(),
            program: OnceLock::new(),
            since: Instant::now(),
            received: AtomicU64::new(0),
            traffic: Arc::new(ConnectionTraffic::new(id)),
            watches: Mutex::default(),
            ended_because: OnceLock::new(),
            has_due: AtomicBool::new(false),
            is_coalescing: AtomicBool::new(false),
            lacks_capacity: AtomicBool::new(false),
        }
    }

    /// Whether `bytes` may be sent now. If not, [`may_go_on`](Self::may_go_on) is true once they may.
    pub fn has_capacity_or_waits(&self, bytes: usize) -> bool {
        let has_capacity = self.send_buffer.has_capacity(bytes);
        if !has_capacity {
            self.lacks_capacity.store(true, Ordering::Relaxed);
        }
        has_capacity
    }

    /// Whether there is capacity again that the connection's thread, which calls this, has waited for.
    pub fn may_go_on(&self) -> bool {
        self.lacks_capacity.load(Ordering::Relaxed) && self.send_buffer.has_capacity(1)
    }

    /// The connection's thread goes on.
    pub fn goes_on(&self) {
        self.lacks_capacity.store(false, Ordering::Relaxed);
    }

    /// The user's name; empty before authentication.
    pub fn user(&self) -> &str {
        self.user.get().map_or("", String::as_str)
    }

    /// Wakes the connection's thread. If that fails, the thread continues at its next heartbeat.
    pub fn wake(&self) {
        let _ = self.waker.wake();
    }

    /// Sends the pieces; the connection's thread writes bytes that the socket does not take now.
    pub fn send(&self, parts: &[&[u8]]) {
        if self.send_buffer.send(parts) {
            self.wake();
        }
    }

    /// Adds a live cursor.
    pub fn add_watch(&self, watch: Weak<dyn LiveCursor>) {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner).push(watch);
    }

    /// Its live cursors.
    pub fn watches(&self) -> Vec<Arc<dyn LiveCursor>> {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.retain(|watch| watch.strong_count() > 0);
        watches.iter().filter_map(Weak::upgrade).collect()
    }
}
