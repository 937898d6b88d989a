//! A session: the requests of an authenticated client.
//!
//! Answers are collected and sent together when all received requests are done ([`Session::finish`]). Always true:
//! every request is checked against the user's rights here, under the current name of the stream, even if the stream
//! was opened under another name; streams that the user may not see are reported as missing, in every error too. After
//! a reload of the users file, watches and loads that are not allowed any more end before the next request
//! ([`Session::review`]).

use crate::config::DurabilityMin;
use crate::convert;
use crate::handle::ConnectionHandle;
use crate::load::Loads;
use crate::query::{self, Queries, QueryStart};
use crate::state::ServerState;
use crate::traffic::Direction;
use crate::watch::{Step, WatchDriver, WatchStart};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_access::{Identity, May, Permit, UserQuota, redacted};
use tapedb_codes::{command, outcome};
use tapedb_engine::{
    Command, ConnectionError, Durability, Error, Invalid, NotFound, Outcome, Query, Replacement, Stale,
    StorageFile, Stream, StreamOptions, Target, Wanted,
};
use tapedb_wire::{
    FRAME_HEADER_BYTES, Frame, Limits, Rest, ServerSession, ToClient, ToServer, WireError, frame_header,
};

/// Collected answers are sent when they have this many bytes.
const ANSWER_BYTES: usize = 64 << 10;
/// The longest range of a file in one request.
const READ_BYTES_MAX: usize = 16 << 20;
/// The capacity that the buffer for file ranges retains.
const BUFFER_BYTES_KEPT: usize = 1 << 20;
/// Commands of one connection that run at once, each on its own thread; further ones are refused.
const COMMANDS_MAX: usize = 16;
/// Upper limit of a watch's credit.
const CREDIT_MAX: u64 = 1 << 30;

/// The requests and channels of an authenticated client.
pub(crate) struct Session {
    server: Arc<ServerState>,
    handle: Arc<ConnectionHandle>,
    identity: Identity,
    quota: Arc<UserQuota>,
    wire: ServerSession,
    /// Of the protocol.
    version: u16,
    /// Streams that the client has requested, by their ids.
    streams: HashMap<u64, OpenedStream>,
    files: HashMap<u32, OpenFile>,
    next_file: u32,
    loads: Loads,
    watches: HashMap<u32, WatchDriver>,
    queries: Queries,
    commands: Arc<AtomicUsize>,
    /// Collected answers.
    out: Vec<u8>,
    /// Buffer for bytes of files.
    buffer: Vec<u8>,
}

/// A stream that the client has requested.
struct OpenedStream {
    stream: Stream,
    /// How many symbols were sent to the client; `None`: none were requested.
    symbols: Option<u32>,
}

/// A file, and its stream.
struct OpenFile {
    stream: Stream,
    file: Arc<dyn StorageFile>,
}

/// An error is sent to the client.
type RequestResult = Result<(), Error>;

impl Session {
    /// A new session.
    pub fn new(
        server: Arc<ServerState>,
        handle: Arc<ConnectionHandle>,
        identity: Identity,
        quota: Arc<UserQuota>,
        version: u16,
    ) -> Self {
        let limits =
            Limits { channels_max: server.config.limits.channels_max as u32, credit_max: CREDIT_MAX };
        let mut wire = ServerSession::new(limits);
        wire.welcome();
        let loads = Loads::new(identity.user.clone());
        Self {
            server,
            handle,
            identity,
            quota,
            wire,
            version,
            streams: HashMap::new(),
            files: HashMap::new(),
            next_file: 1,
            loads,
            watches: HashMap::new(),
            queries: Queries::default(),
            commands: Arc::default(),
            out: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Checks the user's rights again if the users file was reloaded: ends watches and loads of streams that the user
    /// may not read or write any more. `false`: the client would not be authenticated any more.
    pub fn review(&mut self) -> bool {
        if !self.server.logins.is_outdated(&self.identity) {
            return true;
        }
        let Some(identity) = self.server.logins.review(&self.identity) else { return false };
        self.quota.update(&identity.user, &self.server.access);
        self.loads.update(&identity.user);
        self.queries.review(&identity.user);
        self.identity = identity;
        let watched = |(channel, watch): (&u32, &WatchDriver)| (*channel, May::Read, watch.stream().clone());
        let mut held: Vec<_> = self.watches.iter().map(watched).collect();
        held.extend(self.loads.streams().map(|(channel, stream)| (channel, May::Write, stream.clone())));
        for (channel, what, stream) in held {
            if let Err(error) = self.check_still(what, &stream) {
                self.end_load(channel);
                self.end_watch(channel);
                self.fail(channel, error);
            }
        }
        self.send();
        true
    }

    /// Processes a frame; `false`: it is a goodbye.
    ///
    /// # Errors
    /// An error that ends the connection.
    pub fn receive(&mut self, mut frame: Frame<'_>) -> Result<bool, WireError> {
        if let Some(arrived) = self.wire.receive_append(&mut frame)? {
            self.loads.append(arrived, &mut self.wire, &self.server.metrics, &mut self.out);
            return Ok(true);
        }
        let channel = frame.channel;
        self.close_ended_queries();
        let message = self.wire.receive(frame)?;
        let is_over = matches!(message, ToServer::Goodbye { .. });
        if self.is_request(&message) {
            self.server.metrics.requests.one();
        }
        if let Err(error) = self.answer(channel, message) {
            self.fail(channel, error);
        }
        if self.out.len() >= ANSWER_BYTES {
            self.send();
        }
        Ok(!is_over)
    }

    /// Makes appended batches as durable as their streams promise.
    pub fn commit(&mut self) {
        self.loads.commit(&mut self.wire, &self.server.metrics, &mut self.out);
    }

    /// The durability of the last stored batch since the last call; `None`: none was stored.
    pub fn take_stored(&mut self) -> Option<Durability> {
        self.loads.take_stored()
    }

    /// Acknowledges appended batches, and sends collected answers. Returns how long the others may still wait.
    pub fn finish(&mut self) -> Option<Duration> {
        self.loads.commit(&mut self.wire, &self.server.metrics, &mut self.out);
        let left = self.loads.answer(&mut self.out);
        self.send();
        left
    }

    /// Frees the channels of queries that have ended.
    fn close_ended_queries(&mut self) {
        for channel in self.queries.take_ended() {
            self.wire.close(channel);
        }
    }

    /// Pushes to watches that are behind; returns whether there is more to push.
    pub fn push(&mut self) -> bool {
        self.close_ended_queries();
        if !self.handle.has_due.swap(false, Ordering::AcqRel) {
            return false;
        }
        let due: Vec<u32> =
            self.watches.iter().filter(|(_, watch)| watch.is_due()).map(|(channel, _)| *channel).collect();
        let mut is_more = false;
        for channel in due {
            let Some(driver) = self.watches.get_mut(&channel) else { continue };
            match driver.step(&mut self.buffer, &self.identity.user) {
                Ok(Step::Idle) => {}
                Ok(Step::More) => is_more = true,
                Ok(Step::Ended) => self.end_watch(channel),
                Err(error) => {
                    self.end_watch(channel);
                    self.fail(channel, error);
                }
            }
        }
        self.send();
        is_more
    }

    /// The send buffer has capacity again.
    pub fn note_capacity(&self) {
        self.watches.values().for_each(WatchDriver::note_capacity);
        self.queries.wake(None);
    }

    /// Whether commands are running.
    pub fn is_busy(&self) -> bool {
        self.commands.load(Ordering::Acquire) > 0
    }

    /// Sends a ping.
    pub fn ping(&mut self, number: u64) {
        self.reply(0, &ToClient::Ping { number });
        self.send();
    }

    fn is_request(&self, message: &ToServer<'_>) -> bool {
        use ToServer::{CloseFile, Credit, Flush, Ping, Pong};
        !matches!(message, Credit { .. } | CloseFile { .. } | Flush { .. } | Ping { .. } | Pong { .. })
    }

    fn answer(&mut self, channel: u32, message: ToServer<'_>) -> RequestResult {
        match message {
            ToServer::Streams {} => self.streams(channel)?,
            ToServer::Describe { name, known } => self.describe(channel, name, known)?,
            ToServer::OpenFile { stream_id, name } => self.open_file(channel, stream_id, name)?,
            ToServer::ReadFile { file, offset, len } => self.read_file(channel, file, offset, len)?,
            ToServer::FileLen { file } => {
                let len =
                    self.file(file)?.len().map_err(|error| io_error("read the length of", file, error))?;
                self.reply(channel, &ToClient::FileLenIs { len });
            }
            ToServer::CloseFile { file } => drop(self.files.remove(&file)),
            ToServer::AddSymbols { stream_id, names } => {
                let ids = self.stream(stream_id, May::Write)?.symbol_ids(&names)?;
                self.reply(channel, &ToClient::SymbolIds { ids });
            }
            ToServer::Command { command } => self.command(channel, command::from_coded(&command)?)?,
            ToServer::Stage { rewrite, number, batch } => self.stage(channel, rewrite, number, batch.0)?,
            ToServer::Watch { stream_id, credit, lag_max, from } => {
                self.watch(channel, stream_id, (credit, lag_max), from, None)?;
            }
            ToServer::WatchSome { stream_id, credit, lag_max, from, symbols, schema_version, types } => {
                let symbols = symbols.map(|names| names.into_iter().map(String::from).collect());
                let wanted = Wanted { symbols, schema_version, types };
                self.watch(channel, stream_id, (credit, lag_max), from, Some(wanted))?;
            }
            ToServer::Query { credit, ms_max, rows_max, decimals, text, parameters } => {
                let query = Query {
                    dictionaries: false,
                    text: text.into(),
                    parameters: parameters.0.into(),
                    decimals: decimals.into(),
                    time_limit: (ms_max > 0).then(|| Duration::from_millis(ms_max)),
                    rows_max: (rows_max > 0).then_some(rows_max),
                };
                self.query(channel, credit, query)?;
            }
            ToServer::Load { stream_id, space, producer } => {
                let stream = self.stream(stream_id, May::Write)?;
                let producer = self.server.producers.id(&self.identity.user.name, producer);
                let counter = self.server.traffic.begin(Direction::In, stream.name(), &self.handle.traffic);
                let last_number = self.loads.open(channel, (&stream, space), producer, counter)?;
                self.wire.open_load(channel, last_number + 1);
                self.reply(channel, &ToClient::Loading { last_number });
            }
            ToServer::Credit { .. } => {
                if let Some(watch) = self.watches.get(&channel) {
                    watch.note_capacity();
                }
                self.queries.wake(Some(channel));
            }
            ToServer::Close {} => self.close(channel),
            ToServer::Flush {} => self.loads.request_answers(),
            ToServer::Ping { number } => self.reply(0, &ToClient::Pong { number }),
            ToServer::Pong { .. } | ToServer::Goodbye { .. } => {}
            // Processed before, or refused.
            ToServer::Hello { .. } | ToServer::Append { .. } => {}
        }
        Ok(())
    }

    fn streams(&mut self, channel: u32) -> RequestResult {
        let names = self.server.db.streams()?;
        let names =
            names.iter().map(String::as_str).filter(|name| self.identity.user.may_see(name)).collect();
        self.reply(channel, &ToClient::StreamNames { names });
        Ok(())
    }

    fn describe(
        &mut self,
        channel: u32,
        name: &str,
        known: Option<tapedb_wire::CachedStream>,
    ) -> RequestResult {
        if !self.identity.user.may_see(name) {
            return Err(self.no_stream(name));
        }
        let known = known.map(|known| convert::known(known, self.version));
        let description = self.server.db.describe(name, known.as_ref())?;
        let stream = self.server.db.stream(name)?;
        let described = convert::description(&description);
        let symbols = Some(described.symbols_from + described.symbols.len() as u32);
        ToClient::Described { description: described }.encode(channel, &mut self.out);
        self.streams.insert(description.stream_id, OpenedStream { stream, symbols });
        Ok(())
    }

    fn open_file(&mut self, channel: u32, stream_id: u64, name: &str) -> RequestResult {
        if self.files.len() >= self.server.config.limits.files_max {
            let why = format!("the connection has {} files open, which is the limit", self.files.len());
            return Err(Error::Connection(ConnectionError::Refused { place: self.place().into(), why }));
        }
        let stream = self.stream(stream_id, May::Read)?;
        let failed = |error| Error::Io { operation: "open", path: name.into(), source: error };
        let file = stream.open_file(name).map_err(failed)?;
        let (len, identity) = (file.len().map_err(failed)?, file.identity().map_err(failed)?.numbers());
        while self.next_file == 0 || self.files.contains_key(&self.next_file) {
            self.next_file = self.next_file.wrapping_add(1);
        }
        self.reply(channel, &ToClient::Opened { file: self.next_file, len, identity });
        self.files.insert(self.next_file, OpenFile { stream, file });
        self.next_file = self.next_file.wrapping_add(1);
        Ok(())
    }

    /// Reads straight into a frame, and sends that.
    fn read_file(&mut self, channel: u32, file: u32, offset: u64, len: u32) -> RequestResult {
        let len = len as usize;
        if len > READ_BYTES_MAX {
            let what =
                format!("{len} bytes of a file were requested, where at most {READ_BYTES_MAX} are allowed");
            return Err(Error::Connection(ConnectionError::Protocol { what }));
        }
        let source = self.file(file)?.clone();
        let needed = FRAME_HEADER_BYTES + len;
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        let (head, body) = self.buffer[..needed].split_at_mut(FRAME_HEADER_BYTES);
        let count = read_full(&*source, body, offset).map_err(|error| io_error("read", file, error))?;
        let kind = ToClient::Bytes { bytes: Rest(&[]) }.kind();
        head.copy_from_slice(&frame_header(kind, channel, count));
        self.send();
        self.handle.send(&[&self.buffer[..FRAME_HEADER_BYTES + count]]);
        self.quota.rate_limit.count(count as u64, Instant::now);
        self.server.metrics.file_reads.one();
        self.server.metrics.file_bytes.add(count as u64);
        if self.buffer.len() > BUFFER_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    fn watch(
        &mut self,
        channel: u32,
        stream_id: u64,
        (credit, lag_max): (u64, u64),
        from: Vec<u64>,
        wanted: Option<Wanted>,
    ) -> RequestResult {
        let stream = self.stream(stream_id, May::Read)?;
        let spaces = stream.spaces();
        if from.len() != spaces as usize {
            let what = format!("a watch of {} spaces, where the stream has {spaces}", from.len());
            return Err(Error::Connection(ConnectionError::Protocol { what }));
        }
        let limits = &self.server.config.limits;
        let Some(permit) = self.quota.watch(&self.identity.user, &self.server.access) else {
            let why = "the user has reached the limit of watches".to_string();
            return Err(Error::Connection(ConnectionError::Refused { place: self.place().into(), why }));
        };
        let lag_bytes_max = match (lag_max, limits.lag_bytes_max) {
            (0, most) | (most, 0) => most,
            (asked, most) => asked.min(most),
        };
        let symbols = self.streams.get(&stream_id).and_then(|known| known.symbols);
        let driver = WatchDriver::new(WatchStart {
            server: self.server.clone(),
            handle: self.handle.clone(),
            quota: self.quota.clone(),
            channel,
            credit: self.wire.open_watch(channel, credit),
            lag_bytes_max,
            from: from.clone(),
            wanted,
            symbols: symbols.unwrap_or_else(|| stream.symbol_count()),
            permit,
            stream,
        });
        // Sent before the first push, which `push` makes.
        self.reply(channel, &ToClient::Watching { from });
        self.send();
        self.watches.insert(channel, driver);
        Ok(())
    }

    fn query(&mut self, channel: u32, credit: u64, query: Query) -> RequestResult {
        let Some(engine) = self.server.query_engine.get().cloned() else { return Err(query::not_here()) };
        let user = self.identity.user.clone();
        let Some(permit) = self.quota.query(&user, &self.server.access) else {
            let why =
                "the user has reached the limit of queries at once; wait until one has ended".to_string();
            return Err(Error::Connection(ConnectionError::Refused { place: self.place().into(), why }));
        };
        // Its thread sends, so what is collected goes first.
        self.send();
        let start = QueryStart {
            server: self.server.clone(),
            handle: self.handle.clone(),
            quota: self.quota.clone(),
            channel,
            credit: self.wire.open_query(channel, credit),
            user,
            permit,
        };
        let begun = self.queries.begin(engine, query, start);
        if begun.is_err() {
            self.wire.close(channel);
        }
        begun
    }

    fn close(&mut self, channel: u32) {
        if self.wire.channel(channel).is_none() {
            return;
        }
        if let Some(was_running) = self.queries.end(channel) {
            self.wire.close(channel);
            // A query that has just ended by itself has been answered.
            if was_running {
                self.reply(channel, &ToClient::Closed {});
            }
            return;
        }
        self.end_load(channel);
        self.end_watch(channel);
        self.reply(channel, &ToClient::Closed {});
    }

    /// Ends a load, if the channel has one; its appended batches are acknowledged.
    fn end_load(&mut self, channel: u32) {
        self.loads.commit(&mut self.wire, &self.server.metrics, &mut self.out);
        self.loads.answer_all(&mut self.out);
        self.loads.close(channel);
    }

    fn end_watch(&mut self, channel: u32) {
        if let Some(driver) = self.watches.remove(&channel) {
            driver.end();
        }
        self.wire.close(channel);
    }

    /// Executes a command: queries at once, others on their own thread, so that a long command does not delay other
    /// requests of the connection.
    fn command(&mut self, channel: u32, command: Command) -> RequestResult {
        self.check_command(&command)?;
        let command = self.server.rewrite_numbers.replace(self.handle.user(), command);
        if command == Command::ServerStatus {
            let status = self.server.status_for(&self.identity.user, self.handle.id);
            let outcome = Outcome::Text(Some(status));
            self.reply(channel, &ToClient::Done { outcome: outcome::to_coded(&outcome) });
            return Ok(());
        }
        if command == Command::QueryLanguage {
            let language = self.server.query_engine.get().map(|_| query::LANGUAGE.to_string());
            self.reply(channel, &ToClient::Done { outcome: outcome::to_coded(&Outcome::Text(language)) });
            return Ok(());
        }
        if matches!(command, Command::Stats { .. } | Command::MaintenanceFailure { .. }) {
            let outcome = self.server.db.execute(&command)?;
            self.reply(channel, &ToClient::Done { outcome: outcome::to_coded(&outcome) });
            return Ok(());
        }
        let Some(permit) = Permit::take(&self.commands, COMMANDS_MAX) else {
            let why = format!("the connection has {COMMANDS_MAX} commands running, which is the limit");
            return Err(Error::Connection(ConnectionError::Refused { place: self.place().into(), why }));
        };
        let (server, handle, user) = (self.server.clone(), self.handle.clone(), self.identity.user.clone());
        let run = move || {
            let outcome = server.db.execute(&command).map_err(|error| redacted(&user, error));
            send_outcome(&server, &handle, channel, &command, outcome);
            drop(permit);
            // The connection may be ending, and wait for this command.
            handle.wake();
        };
        let spawned = thread::Builder::new().name("tape-command".into()).spawn(run);
        spawned.map(drop).map_err(|source| Error::Io { operation: "begin", path: "a thread".into(), source })
    }

    /// Stores a batch of a rewrite. The user's rights are checked when the rewrite begins and when it is committed.
    fn stage(&mut self, channel: u32, rewrite: u64, number: u64, batch: &[u8]) -> RequestResult {
        let rewrite = self.server.rewrite_numbers.number(self.handle.user(), rewrite);
        let last = self.server.db.stage(rewrite, number, batch)?;
        self.reply(channel, &ToClient::Done { outcome: outcome::to_coded(&Outcome::Messages(last)) });
        Ok(())
    }

    fn check_command(&self, command: &Command) -> RequestResult {
        match command {
            Command::CreateStream { name, options, .. } => {
                self.check(May::Create, name)?;
                check_durability(self.server.config.durability_min, &options.parse()?)
            }
            Command::RenameStream { name, new } => {
                self.check(May::Admin, name)?;
                self.check(May::Admin, new)
            }
            Command::DeleteStream { name } | Command::ChangeSchema { name, .. } => {
                self.check(May::Admin, name)
            }
            Command::Alter { stream, .. }
            | Command::Delete { stream, .. }
            | Command::Seal { stream }
            | Command::RenameSymbol { stream, .. }
            | Command::BeginRewrite(Replacement { stream, .. })
            | Command::CommitRewrite { stream, .. }
            | Command::DropRewrite { stream, .. } => self.check(May::Admin, &stream.name),
            // The status contains only what the user may see.
            Command::ServerStatus | Command::QueryLanguage => Ok(()),
            Command::Stats { stream } | Command::MaintenanceFailure { stream } => {
                if self.identity.user.may_see(&stream.name) {
                    Ok(())
                } else {
                    Err(self.no_stream(&stream.name))
                }
            }
        }
    }

    /// A stream by its id, if the user has the right.
    fn stream(&mut self, stream_id: u64, what: May) -> Result<Stream, Error> {
        let known = self.streams.get(&stream_id).map(|known| known.stream.name().to_string());
        match known.map(|name| self.stream_named(stream_id, name, what)) {
            // It may have been renamed.
            None | Some(Err(Error::Stale(Stale::Renamed { .. }) | Error::Stale(Stale::Deleted { .. }))) => {}
            Some(found) => return found,
        }
        self.streams.remove(&stream_id);
        // An id alone must not reveal a stream.
        let gone = || Error::Stale(Stale::Deleted { name: format!("with id {stream_id:016x}") });
        let name = self
            .server
            .db
            .name_of_id(stream_id)?
            .filter(|name| self.identity.user.may_see(name))
            .ok_or_else(gone)?;
        self.stream_named(stream_id, name, what)
    }

    fn stream_named(&mut self, stream_id: u64, name: String, what: May) -> Result<Stream, Error> {
        self.check(what, &name)?;
        let stream = self.server.db.stream_of(&Target { stream_id, name })?;
        let known = OpenedStream { stream: stream.clone(), symbols: None };
        self.streams.entry(stream_id).or_insert(known).stream = stream.clone();
        Ok(stream)
    }

    fn check(&self, what: May, stream: &str) -> RequestResult {
        if self.identity.user.may(what, stream) {
            return Ok(());
        }
        self.server.metrics.requests_forbidden.one();
        self.server.audit(&self.handle, "forbidden", stream, what.word());
        let user = &self.identity.user.name;
        Err(Error::Denied {
            what: format!("user {user:?} has no right to {} stream {stream:?}", what.word()),
        })
    }

    fn no_stream(&self, name: &str) -> Error {
        Error::NotFound(NotFound::Stream {
            name: name.into(),
            known: self.server.db.streams().unwrap_or_default(),
        })
    }

    /// [`Session::check`] for a stream that was opened before: its name and the user's rights may have changed. The
    /// open files of a stream that was deleted since, under the name that it was opened by, may be read to their end.
    fn check_still(&self, what: May, stream: &Stream) -> RequestResult {
        let Some(renamed) = stream.gone() else { return self.check(what, stream.name()) };
        let deleted = || Error::Stale(Stale::Deleted { name: stream.name().into() });
        match self.server.db.name_of_id(stream.id())? {
            Some(name) if self.identity.user.may_see(&name) => self.check(what, &name),
            Some(_) => Err(deleted()),
            None if renamed.is_some() => Err(deleted()),
            None => self.check(what, stream.name()),
        }
    }

    fn file(&self, file: u32) -> Result<&Arc<dyn StorageFile>, Error> {
        let not_open =
            || Error::Connection(ConnectionError::Protocol { what: format!("file {file} is not open") });
        let OpenFile { stream, file } = self.files.get(&file).ok_or_else(not_open)?;
        self.check_still(May::Read, stream)?;
        Ok(file)
    }

    fn fail(&mut self, channel: u32, error: Error) {
        self.server.metrics.requests_failed.one();
        let error = redacted(&self.identity.user, error);
        self.reply(channel, &ToClient::Failed { failure: convert::failure(&error) });
    }

    fn reply(&mut self, channel: u32, message: &ToClient<'_>) {
        message.encode(channel, &mut self.out);
    }

    fn send(&mut self) {
        if !self.out.is_empty() {
            self.handle.send(&[&self.out]);
            self.quota.rate_limit.count(self.out.len() as u64, Instant::now);
            self.out.clear();
            self.out.shrink_to(BUFFER_BYTES_KEPT);
        }
    }

    fn place(&self) -> String {
        "the server".into()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for (_, driver) in self.watches.drain() {
            driver.end();
        }
    }
}

/// Sends the outcome of a command, and writes the audit entry.
fn send_outcome(
    server: &ServerState,
    handle: &ConnectionHandle,
    channel: u32,
    command: &Command,
    outcome: Result<Outcome, Error>,
) {
    let (event, stream, mut what) = described(command);
    let mut out = Vec::new();
    match outcome {
        Ok(outcome) => {
            if let Outcome::Sequences(new) = &outcome {
                what = format!("by messages {} to before {}", new.start, new.end);
            }
            server.audit(handle, event, stream, &what);
            ToClient::Done { outcome: outcome::to_coded(&outcome) }.encode(channel, &mut out);
        }
        Err(error) => {
            server.metrics.requests_failed.one();
            server.audit(handle, event, stream, &format!("failed: {error}"));
            ToClient::Failed { failure: convert::failure(&error) }.encode(channel, &mut out);
        }
    }
    handle.send(&[&out]);
}

/// A command for the audit log: its event, the stream, and details.
fn described(command: &Command) -> (&'static str, &str, String) {
    match command {
        Command::CreateStream { name, options, .. } => ("create", name, options.replace('\n', ", ")),
        Command::DeleteStream { name } => ("delete", name, String::new()),
        Command::RenameStream { name, new } => ("rename", name, format!("to {new}")),
        Command::ChangeSchema { name, .. } => ("change-schema", name, String::new()),
        Command::Alter { stream, options } => ("alter", &stream.name, options.replace('\n', ", ")),
        Command::Delete { stream, from, last, symbols } => {
            ("delete-messages", &stream.name, messages_between(*from, *last, symbols.as_ref()))
        }
        Command::RenameSymbol { stream, old, new, .. } => {
            ("rename-symbol", &stream.name, format!("{old} to {new}"))
        }
        Command::BeginRewrite(Replacement { stream, from, last, symbols, .. }) => {
            ("begin-rewrite", &stream.name, messages_between(*from, *last, symbols.as_ref()))
        }
        Command::CommitRewrite { stream, .. } => ("rewrite", &stream.name, String::new()),
        Command::DropRewrite { stream, .. } => ("drop-rewrite", &stream.name, String::new()),
        Command::ServerStatus | Command::QueryLanguage => ("status", "", String::new()),
        Command::Seal { stream } => ("seal", &stream.name, String::new()),
        Command::Stats { stream } => ("stats", &stream.name, String::new()),
        Command::MaintenanceFailure { stream } => ("maintenance-failure", &stream.name, String::new()),
    }
}

fn messages_between(from: i64, last: i64, symbols: Option<&Vec<String>>) -> String {
    let of = symbols.map_or("all symbols".to_string(), |symbols| format!("{} symbols", symbols.len()));
    format!("times {from} to {last}, {of}")
}

fn check_durability(least: DurabilityMin, options: &StreamOptions) -> RequestResult {
    let durability = match options.durability {
        Durability::Transient => DurabilityMin::Transient,
        Durability::Async => DurabilityMin::Async,
        Durability::Sync => DurabilityMin::Sync,
    };
    if durability >= least {
        return Ok(());
    }
    let what = match least {
        DurabilityMin::Sync => "this server accepts only streams of durability sync",
        _ => "this server accepts no transient streams; choose durability async or sync",
    };
    Err(Error::Invalid(Invalid::Options { what }))
}

fn read_full(file: &dyn StorageFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn io_error(operation: &'static str, file: u32, source: io::Error) -> Error {
    Error::Io { operation, path: format!("file {file}").into(), source }
}
