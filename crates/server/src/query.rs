//! Queries of a client: each runs on a thread of its own, which sends its rows as far as the client's credit, its send buffer and
//! the user's rate allow.
//!
//! Always true: nothing is sent on a channel after its query has ended, which holds `is_over` while it sends; a query that has ended by
//! itself is in `ended` before the client learns of it, so that the client may use the channel again.

use crate::convert;
use crate::handle::ConnectionHandle;
use crate::state::ServerState;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tapedb_access::{May, Permit, QueryLimits, User, UserQuota, redacted};
use tapedb_engine::{Error, Query, QueryEngine, QueryFailure, QueryStep, QueryUser};
use tapedb_wire::{Credit, FRAME_HEADER_BYTES, Rest, ToClient, frame_header};

/// The language of queries, as clients ask for it.
pub(crate) const LANGUAGE: &str = "sql";
/// The longest frame of rows.
const FRAME_BYTES: usize = 256 << 10;
/// How long a query's thread waits before it checks whether the query is still wanted.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The queries of a connection, by their channels.
#[derive(Default)]
pub(crate) struct Queries {
    running: HashMap<u32, (Arc<RunningQuery>, JoinHandle<()>)>,
    /// Threads of queries that were stopped, and are about to end.
    stopped: Vec<JoinHandle<()>>,
    ended: Arc<Ended>,
}

/// Channels whose queries have ended by themselves.
#[derive(Debug, Default)]
struct Ended {
    is_some: AtomicBool,
    channels: Mutex<Vec<u32>>,
}

/// What the threads of a connection share about a query.
struct RunningQuery {
    server: Arc<ServerState>,
    handle: Arc<ConnectionHandle>,
    quota: Arc<UserQuota>,
    channel: u32,
    credit: Arc<Credit>,
    /// The first credit.
    window: u64,
    /// Whether the query is not wanted any more, or has ended.
    is_over: Mutex<bool>,
    user: Mutex<Arc<User>>,
    /// Whether `user` has changed.
    is_reviewed: AtomicBool,
}

/// The parameters of a new query.
pub(crate) struct QueryStart {
    pub server: Arc<ServerState>,
    pub handle: Arc<ConnectionHandle>,
    pub quota: Arc<UserQuota>,
    pub channel: u32,
    pub credit: Arc<Credit>,
    pub user: Arc<User>,
    pub permit: Permit,
}

impl Queries {
    /// Begins a query.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn begin(
        &mut self,
        engine: Arc<dyn QueryEngine>,
        query: Query,
        start: QueryStart,
    ) -> Result<(), Error> {
        let QueryStart { server, handle, quota, channel, credit, user, permit } = start;
        server.metrics.queries.one();
        let running = Arc::new(RunningQuery {
            server,
            handle,
            quota,
            channel,
            window: credit.left(),
            credit,
            is_over: Mutex::default(),
            user: Mutex::new(user),
            is_reviewed: AtomicBool::new(false),
        });
        let (ours, ended) = (running.clone(), self.ended.clone());
        let work = move || {
            // For traces.
            let _span = tracing::info_span!(
                target: "tapedb::trace",
                "tape.query",
                "otel.kind" = "server",
                "client.address" = %ours.handle.peer,
            )
            .entered();
            ours.run(&*engine, query, permit, &ended);
        };
        let thread = thread::Builder::new()
            .name("tape-query".into())
            .spawn(work)
            .map_err(|source| Error::Io { operation: "begin", path: "a thread".into(), source })?;
        self.running.insert(channel, (running, thread));
        Ok(())
    }

    /// Ends the query of a channel; whether it had not ended before. `None`: the channel has none.
    pub fn end(&mut self, channel: u32) -> Option<bool> {
        let (query, thread) = self.running.remove(&channel)?;
        let was_over = query.stop();
        thread.thread().unpark();
        self.stopped.retain(|thread| !thread.is_finished());
        self.stopped.push(thread);
        Some(!was_over)
    }

    /// There may be credit, or capacity to send.
    pub fn wake(&self, channel: Option<u32>) {
        match channel {
            Some(channel) => {
                self.running.get(&channel).iter().for_each(|(_, thread)| thread.thread().unpark())
            }
            None => self.running.values().for_each(|(_, thread)| thread.thread().unpark()),
        }
    }

    /// The user's rights have changed.
    pub fn review(&self, user: &Arc<User>) {
        for (query, _) in self.running.values() {
            *query.user.lock().unwrap_or_else(PoisonError::into_inner) = user.clone();
            query.is_reviewed.store(true, Ordering::Release);
        }
    }

    /// The channels of queries that have ended by themselves since the last call.
    pub fn take_ended(&mut self) -> Vec<u32> {
        if !self.ended.is_some.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        let channels = std::mem::take(&mut *self.ended.lock());
        channels.iter().for_each(|channel| drop(self.running.remove(channel)));
        channels
    }
}

impl Drop for Queries {
    fn drop(&mut self) {
        self.running.values().for_each(|(query, thread)| {
            query.stop();
            thread.thread().unpark();
        });
        // They hold the database, which is to close with its server.
        let running = self.running.drain().map(|(_, (_, thread))| thread);
        for thread in running.chain(self.stopped.drain(..)) {
            let _ = thread.join();
        }
    }
}

impl Ended {
    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, channel: u32) {
        self.lock().push(channel);
        self.is_some.store(true, Ordering::Release);
    }
}

impl RunningQuery {
    /// Runs the query to its end.
    fn run(self: &Arc<Self>, engine: &dyn QueryEngine, query: Query, permit: Permit, ended: &Ended) {
        let result = self.send_rows(engine, query);
        // The client may begin its next query as soon as it reads that this one has ended.
        drop(permit);
        let last = match result {
            Ok(true) => ToClient::RowsEnded {},
            Ok(false) => return,
            Err(error) => {
                self.server.metrics.queries_failed.one();
                let error = redacted(&self.user(), error);
                ToClient::Failed { failure: convert::failure(&error) }
            }
        };
        let mut out = Vec::new();
        last.encode(self.channel, &mut out);
        let mut is_over = self.over();
        if !*is_over {
            ended.note(self.channel);
            *is_over = true;
            self.handle.send(&[&out]);
            // The connection's thread frees the channel.
            self.handle.wake();
        }
    }

    /// Sends the rows; `false`: the query was stopped.
    fn send_rows(self: &Arc<Self>, engine: &dyn QueryEngine, query: Query) -> Result<bool, Error> {
        let (query, user) = self.limited(query);
        let mut rows = engine.begin(&query, &user)?;
        let mut bytes = Vec::new();
        loop {
            if self.is_over() {
                return Ok(false);
            }
            self.check_rights(&rows.streams())?;
            match rows.next(CHECK_INTERVAL, &mut bytes)? {
                QueryStep::Waiting => {}
                QueryStep::End => return Ok(true),
                QueryStep::Bytes => {
                    for piece in bytes.chunks(FRAME_BYTES) {
                        if !self.send_piece(piece) {
                            return Ok(false);
                        }
                    }
                }
            }
        }
    }

    /// The query within the user's limits, and the user as the engine sees it.
    fn limited(self: &Arc<Self>, mut query: Query) -> (Query, QueryUser) {
        let limits = QueryLimits::of(&self.user(), &self.server.access);
        query.time_limit = least(query.time_limit, limits.time);
        query.rows_max = least(query.rows_max, limits.rows);
        let this = Arc::downgrade(self);
        let may_read =
            move |stream: &str| this.upgrade().is_some_and(|query| query.user().may(May::Read, stream));
        let name = self.user().name.clone();
        (query, QueryUser { name, may_read: Arc::new(may_read), memory_bytes: limits.memory_bytes })
    }

    /// Sends bytes of rows as soon as that is possible; `false`: the query was stopped.
    fn send_piece(&self, bytes: &[u8]) -> bool {
        let head = frame_header(ToClient::Rows { bytes: Rest(&[]) }.kind(), self.channel, bytes.len());
        loop {
            let is_over = self.over();
            if *is_over || self.handle.send_buffer.is_broken() {
                return false;
            }
            if self.admits(bytes.len()) {
                self.handle.send(&[&head[..FRAME_HEADER_BYTES], bytes]);
                self.quota.rate_limit.count(bytes.len() as u64, Instant::now);
                self.server.metrics.query_bytes.add(bytes.len() as u64);
                return true;
            }
            drop(is_over);
            thread::park_timeout(CHECK_INTERVAL);
        }
    }

    /// Whether so many bytes may be sent now; if so, their credit is spent.
    fn admits(&self, bytes: usize) -> bool {
        self.handle.send_buffer.has_capacity(bytes)
            && self.quota.rate_limit.wait(Instant::now).is_zero()
            && self.credit.spend(bytes as u64, self.window)
    }

    /// Fails when the user may not read a stream of the query any more.
    fn check_rights(&self, streams: &[String]) -> Result<(), Error> {
        if !self.is_reviewed.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let user = self.user();
        match streams.iter().find(|stream| !user.may(May::Read, stream)) {
            None => Ok(()),
            Some(stream) => {
                let name = &user.name;
                Err(Error::Denied { what: format!("user {name:?} has no right to read stream {stream:?}") })
            }
        }
    }

    /// Whether it was over before.
    fn stop(&self) -> bool {
        std::mem::replace(&mut *self.over(), true)
    }

    fn is_over(&self) -> bool {
        *self.over() || self.handle.send_buffer.is_broken()
    }

    fn over(&self) -> MutexGuard<'_, bool> {
        self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn user(&self) -> Arc<User> {
        self.user.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The smaller one of two limits.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

/// The error of a server that runs no queries.
pub(crate) fn not_here() -> Error {
    let what = "this server runs no queries; read the streams, or run the query in the client".into();
    Error::Query { failure: QueryFailure::Query, what }
}
