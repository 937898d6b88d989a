//! The open connections: what cancels their queries, and what ends them.

use std::collections::HashMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tapedb_access::{is_same, network};

/// A connection, for other threads.
#[derive(Debug)]
pub(crate) struct Entry {
    pub process: i32,
    pub secret: [u8; 4],
    /// Its query is to stop.
    pub is_cancelled: AtomicBool,
    socket: TcpStream,
    /// Of the address that it counts for until it is authenticated.
    network: IpAddr,
    is_authenticated: AtomicBool,
}

/// The open connections.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    open: Mutex<HashMap<i32, Arc<Entry>>>,
    ended: Condvar,
    next: AtomicI32,
    pub is_stopping: AtomicBool,
}

/// How many connections there may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub all: usize,
    pub unauthenticated: usize,
    pub unauthenticated_of_address: usize,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<i32, Arc<Entry>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection; `None`: there are too many.
    pub fn open(&self, socket: TcpStream, secret: [u8; 4], most: Most) -> Option<Arc<Entry>> {
        let network = network(Some(socket.peer_addr().ok()?.ip()))?;
        let mut open = self.lock();
        let waiting = open.values().filter(|entry| !entry.is_authenticated.load(Ordering::Relaxed));
        let (mut unauthenticated, mut of_address) = (0, 0);
        for entry in waiting {
            unauthenticated += 1;
            of_address += usize::from(entry.network == network);
        }
        if open.len() >= most.all
            || unauthenticated >= most.unauthenticated
            || of_address >= most.unauthenticated_of_address
        {
            return None;
        }
        let process = loop {
            let process = self.next.fetch_add(1, Ordering::Relaxed) & i32::MAX;
            if process > 0 && !open.contains_key(&process) {
                break process;
            }
        };
        let entry = Arc::new(Entry {
            process,
            secret,
            is_cancelled: AtomicBool::new(false),
            socket,
            network,
            is_authenticated: AtomicBool::new(false),
        });
        open.insert(process, entry.clone());
        Some(entry)
    }

    /// The connection's user is known.
    pub fn authenticated(entry: &Entry) {
        entry.is_authenticated.store(true, Ordering::Relaxed);
    }

    /// Stops the query of a connection, if the key is its own.
    pub fn cancel(&self, process: i32, secret: &[u8]) {
        let found = self.lock().get(&process).cloned();
        if let Some(entry) = found.filter(|entry| is_same(&entry.secret, secret)) {
            entry.is_cancelled.store(true, Ordering::Release);
        }
    }

    /// Removes a connection.
    pub fn close(&self, entry: &Entry) {
        self.lock().remove(&entry.process);
        self.ended.notify_all();
    }

    /// Open connections.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Ends all connections, and waits for them. Returns how many are left.
    pub fn stop(&self, grace: Duration) -> usize {
        self.is_stopping.store(true, Ordering::Release);
        let until = Instant::now() + grace;
        let mut open = self.lock();
        for entry in open.values() {
            // A thread that waits for its client wakes up.
            let _ = entry.socket.shutdown(Shutdown::Read);
        }
        while !open.is_empty() {
            let Some(left) = until.checked_duration_since(Instant::now()) else { break };
            open = self.ended.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        for entry in open.values() {
            let _ = entry.socket.shutdown(Shutdown::Both);
        }
        open.len()
    }
}
