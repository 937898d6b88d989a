//! What a connection's client asks for after it has been let in, and what it gets.
//!
//! Answers are gathered and sent together when all requests that have arrived are done ([`Session::finish`]). Always true:
//! everything that a client does is checked against its user's rights here, by the name that the stream itself has at that moment,
//! whatever it was called when it was opened; what it may not see looks like what is not there, in every error too. When the users have been read again, what has become forbidden ends before the
//! next request ([`Session::review`]).

use crate::account::{Account, Place};
use crate::config::DurabilityMin;
use crate::convert;
use crate::flows::Way;
use crate::load::Loads;
use crate::login::Admitted;
use crate::shared::{Handle, Shared};
use crate::users::{May, User};
use crate::watch::{Beginning, Follower, Step};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_engine::{
    Command, Durability, Error, Outcome, Replacement, StorageFile, Stream, StreamOptions, Target,
};
use tapedb_wire::{
    FRAME_HEADER_BYTES, Frame, Limits, Rest, ServerSession, ToClient, ToServer, WireError, frame_header,
};

/// Answers that are gathered are sent when they have so many bytes.
const ANSWER_BYTES: usize = 64 << 10;
/// The longest range of a file that is read at once.
const READ_BYTES_MAX: usize = 16 << 20;
/// What is kept of the buffer that files are read into.
const BUFFER_BYTES_KEPT: usize = 1 << 20;
/// Commands of one connection that run at once, each on a thread of its own; further ones are refused.
const COMMANDS_MAX: usize = 16;
/// No watch is given more credit.
const CREDIT_MAX: u64 = 1 << 30;

/// What a client who has been let in has under way.
pub(crate) struct Session {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    admitted: Admitted,
    account: Arc<Account>,
    wire: ServerSession,
    /// Streams that were asked for, by their ids.
    streams: HashMap<u64, Known>,
    files: HashMap<u32, OpenFile>,
    next_file: u32,
    loads: Loads,
    watches: HashMap<u32, Follower>,
    commands: Arc<AtomicUsize>,
    /// Answers that are gathered.
    out: Vec<u8>,
    /// Bytes of files on their way.
    buffer: Vec<u8>,
}

/// A stream that the client has asked for.
struct Known {
    stream: Stream,
    /// How many symbols the client has been told; `None`: it has not asked.
    symbols: Option<u32>,
}

/// A file, and the stream it is of.
struct OpenFile {
    stream: Stream,
    file: Arc<dyn StorageFile>,
}

/// What is wrong with a request: the client is told.
type Answer = Result<(), Error>;

impl Session {
    /// A client who has said nothing yet but who he is.
    pub fn new(shared: Arc<Shared>, handle: Arc<Handle>, admitted: Admitted, account: Arc<Account>) -> Self {
        let limits =
            Limits { channels_max: shared.config.limits.channels_max as u32, credit_max: CREDIT_MAX };
        let mut wire = ServerSession::new(limits);
        wire.welcome();
        let loads = Loads::new(admitted.user.clone());
        Self {
            shared,
            handle,
            admitted,
            account,
            wire,
            streams: HashMap::new(),
            files: HashMap::new(),
            next_file: 1,
            loads,
            watches: HashMap::new(),
            commands: Arc::default(),
            out: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Looks again at what the user may do, if the users have been read again: ends watches and loads of streams that he may
    /// not read or write any more. `false`: he would not be let in any more.
    pub fn review(&mut self) -> bool {
        if !self.shared.logins.is_outdated(&self.admitted) {
            return true;
        }
        let Some(admitted) = self.shared.logins.review(&self.admitted) else { return false };
        self.account.renew(&admitted.user, &self.shared.config.limits);
        self.loads.renew(&admitted.user);
        self.admitted = admitted;
        let watched = |(channel, watch): (&u32, &Follower)| (*channel, May::Read, watch.stream().clone());
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

    /// Takes in a frame; `false`: the client says goodbye.
    ///
    /// # Errors
    /// What ends the connection.
    pub fn receive(&mut self, mut frame: Frame<'_>) -> Result<bool, WireError> {
        if let Some(arrived) = self.wire.receive_append(&mut frame)? {
            self.loads.append(arrived, &mut self.wire, &self.shared.metrics, &mut self.out);
            return Ok(true);
        }
        let channel = frame.channel;
        let message = self.wire.receive(frame)?;
        let is_over = matches!(message, ToServer::Goodbye { .. });
        if self.is_request(&message) {
            self.shared.metrics.requests.one();
        }
        if let Err(error) = self.answer(channel, message) {
            self.fail(channel, error);
        }
        if self.out.len() >= ANSWER_BYTES {
            self.send();
        }
        Ok(!is_over)
    }

    /// Makes what has been appended as durable as its streams promise.
    pub fn commit(&mut self) {
        self.loads.commit(&mut self.wire, &self.shared.metrics, &mut self.out);
    }

    /// The durability of the batch that was stored last since this was asked before; `None`: none was.
    pub fn take_stored(&mut self) -> Option<Durability> {
        self.loads.take_stored()
    }

    /// Acknowledges what has been appended, and sends what has been gathered. How long answers may wait that still do.
    pub fn finish(&mut self) -> Option<Duration> {
        self.loads.commit(&mut self.wire, &self.shared.metrics, &mut self.out);
        let left = self.loads.answer(&mut self.out);
        self.send();
        left
    }

    /// Pushes to watches that are behind; whether there is more.
    pub fn push(&mut self) -> bool {
        if !self.handle.has_due.swap(false, Ordering::AcqRel) {
            return false;
        }
        let due: Vec<u32> =
            self.watches.iter().filter(|(_, watch)| watch.is_due()).map(|(channel, _)| *channel).collect();
        let mut is_more = false;
        for channel in due {
            let Some(follower) = self.watches.get_mut(&channel) else { continue };
            match follower.step(&mut self.buffer, &self.admitted.user) {
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

    /// There is room in the outbox again.
    pub fn note_room(&self) {
        self.watches.values().for_each(Follower::note_room);
    }

    /// Whether commands are still running.
    pub fn is_busy(&self) -> bool {
        self.commands.load(Ordering::Acquire) > 0
    }

    /// Asks for a sign of life.
    pub fn ping(&mut self, number: u64) {
        self.say(0, &ToClient::Ping { number });
        self.send();
    }

    fn is_request(&self, message: &ToServer<'_>) -> bool {
        use ToServer::{CloseFile, Credit, Flush, Ping, Pong};
        !matches!(message, Credit { .. } | CloseFile { .. } | Flush { .. } | Ping { .. } | Pong { .. })
    }

    fn answer(&mut self, channel: u32, message: ToServer<'_>) -> Answer {
        match message {
            ToServer::Streams {} => self.streams(channel)?,
            ToServer::Describe { name, known } => self.describe(channel, name, known)?,
            ToServer::OpenFile { stream_id, name } => self.open_file(channel, stream_id, name)?,
            ToServer::ReadFile { file, offset, len } => self.read_file(channel, file, offset, len)?,
            ToServer::FileLen { file } => {
                let len = self.file(file)?.len().map_err(|error| io_error("look at", file, error))?;
                self.say(channel, &ToClient::FileLenIs { len });
            }
            ToServer::CloseFile { file } => drop(self.files.remove(&file)),
            ToServer::AddSymbols { stream_id, names } => {
                let ids = self.stream(stream_id, May::Write)?.symbol_ids(&names)?;
                self.say(channel, &ToClient::SymbolIds { ids });
            }
            ToServer::Command { command } => self.command(channel, convert::command(command)?)?,
            ToServer::Stage { rewrite, number, batch } => self.stage(channel, rewrite, number, batch.0)?,
            ToServer::Watch { stream_id, credit, lag_max, from } => {
                self.watch(channel, stream_id, credit, lag_max, from)?;
            }
            ToServer::Load { stream_id, space, producer } => {
                let stream = self.stream(stream_id, May::Write)?;
                let producer = self.shared.producers.id(&self.admitted.user.name, producer);
                let flow = self.shared.flows.begin(Way::In, stream.name(), &self.handle);
                let last_number = self.loads.open(channel, (&stream, space), producer, flow)?;
                self.wire.open_load(channel, last_number + 1);
                self.say(channel, &ToClient::Loading { last_number });
            }
            ToServer::Credit { .. } => {
                if let Some(watch) = self.watches.get(&channel) {
                    watch.note_room();
                }
            }
            ToServer::Close {} => self.close(channel),
            ToServer::Flush {} => self.loads.ask(),
            ToServer::Ping { number } => self.say(0, &ToClient::Pong { number }),
            ToServer::Pong { .. } | ToServer::Goodbye { .. } => {}
            // Taken before, or refused.
            ToServer::Hello { .. } | ToServer::Append { .. } => {}
        }
        Ok(())
    }

    fn streams(&mut self, channel: u32) -> Answer {
        let names = self.shared.db.streams()?;
        let names =
            names.iter().map(String::as_str).filter(|name| self.admitted.user.may_see(name)).collect();
        self.say(channel, &ToClient::StreamNames { names });
        Ok(())
    }

    fn describe(&mut self, channel: u32, name: &str, known: Option<tapedb_wire::Known>) -> Answer {
        if !self.admitted.user.may_see(name) {
            return Err(self.no_stream(name));
        }
        let known = known.map(convert::known);
        let description = self.shared.db.describe(name, known.as_ref())?;
        let stream = self.shared.db.stream(name)?;
        let described = convert::description(&description);
        let symbols = Some(described.symbols_from + described.symbols.len() as u32);
        ToClient::Described { description: described }.encode(channel, &mut self.out);
        self.streams.insert(description.stream_id, Known { stream, symbols });
        Ok(())
    }

    fn open_file(&mut self, channel: u32, stream_id: u64, name: &str) -> Answer {
        if self.files.len() >= self.shared.config.limits.files_max {
            let why = format!("the connection has {} files open, which is all that it may", self.files.len());
            return Err(Error::Refused { place: self.place(), why });
        }
        let stream = self.stream(stream_id, May::Read)?;
        let told = |error| Error::Io { operation: "open", path: name.into(), source: error };
        let file = stream.open_file(name).map_err(told)?;
        let (len, identity) = (file.len().map_err(told)?, file.identity().map_err(told)?.numbers());
        while self.next_file == 0 || self.files.contains_key(&self.next_file) {
            self.next_file = self.next_file.wrapping_add(1);
        }
        self.say(channel, &ToClient::Opened { file: self.next_file, len, identity });
        self.files.insert(self.next_file, OpenFile { stream, file });
        self.next_file = self.next_file.wrapping_add(1);
        Ok(())
    }

    /// Reads straight into a frame, and sends that.
    fn read_file(&mut self, channel: u32, file: u32, offset: u64, len: u32) -> Answer {
        let len = len as usize;
        if len > READ_BYTES_MAX {
            let what = format!(
                "{len} bytes of a file were asked for, where at most {READ_BYTES_MAX} are sent at once"
            );
            return Err(Error::Protocol { what });
        }
        let source = self.file(file)?.clone();
        let needed = FRAME_HEADER_BYTES + len;
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        let (head, room) = self.buffer[..needed].split_at_mut(FRAME_HEADER_BYTES);
        let count = read_full(&*source, room, offset).map_err(|error| io_error("read", file, error))?;
        let kind = ToClient::Bytes { bytes: Rest(&[]) }.kind();
        head.copy_from_slice(&frame_header(kind, channel, count));
        self.send();
        self.handle.send(&[&self.buffer[..FRAME_HEADER_BYTES + count]]);
        self.account.meter.count(count as u64, Instant::now);
        self.shared.metrics.file_reads.one();
        self.shared.metrics.file_bytes.add(count as u64);
        if self.buffer.len() > BUFFER_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    fn watch(&mut self, channel: u32, stream_id: u64, credit: u64, lag_max: u64, from: Vec<u64>) -> Answer {
        let stream = self.stream(stream_id, May::Read)?;
        let spaces = stream.spaces();
        if from.len() != spaces as usize {
            let what = format!("a watch of {} spaces, where the stream has {spaces}", from.len());
            return Err(Error::Protocol { what });
        }
        let limits = &self.shared.config.limits;
        let Some(place) = self.account.watch(&self.admitted.user, limits) else {
            let why = "the user has all the watches that he may have".to_string();
            return Err(Error::Refused { place: self.place(), why });
        };
        let lag_bytes_max = match (lag_max, limits.lag_bytes_max) {
            (0, most) | (most, 0) => most,
            (asked, most) => asked.min(most),
        };
        let symbols = self.streams.get(&stream_id).and_then(|known| known.symbols);
        let follower = Follower::new(Beginning {
            shared: self.shared.clone(),
            handle: self.handle.clone(),
            account: self.account.clone(),
            channel,
            credit: self.wire.open_watch(channel, credit),
            lag_bytes_max,
            from: from.clone(),
            symbols: symbols.unwrap_or_else(|| stream.symbol_count()),
            place,
            stream,
        });
        // Before the first push, which `push` makes.
        self.say(channel, &ToClient::Watching { from });
        self.send();
        self.watches.insert(channel, follower);
        Ok(())
    }

    fn close(&mut self, channel: u32) {
        if self.wire.channel(channel).is_none() {
            return;
        }
        self.end_load(channel);
        self.end_watch(channel);
        self.say(channel, &ToClient::Closed {});
    }

    /// Ends a load, if the channel is one's: what was appended is acknowledged.
    fn end_load(&mut self, channel: u32) {
        self.loads.commit(&mut self.wire, &self.shared.metrics, &mut self.out);
        self.loads.answer_all(&mut self.out);
        self.loads.close(channel);
    }

    fn end_watch(&mut self, channel: u32) {
        if let Some(follower) = self.watches.remove(&channel) {
            follower.end();
        }
        self.wire.close(channel);
    }

    /// Runs a command: those that only look at once, others on a thread of their own, so that a long one keeps nothing else
    /// of the connection waiting.
    fn command(&mut self, channel: u32, command: Command) -> Answer {
        self.check_command(&command)?;
        let command = self.shared.own_rewrite(self.handle.user(), command);
        if command == Command::ServerStatus {
            let status = self.shared.status_for(&self.admitted.user, self.handle.id);
            let outcome = Outcome::Text(Some(status));
            self.say(channel, &ToClient::Done { outcome: convert::parts(outcome.to_parts()) });
            return Ok(());
        }
        if matches!(command, Command::Stats { .. } | Command::MaintenanceFailure { .. }) {
            let outcome = self.shared.db.execute(&command)?;
            self.say(channel, &ToClient::Done { outcome: convert::parts(outcome.to_parts()) });
            return Ok(());
        }
        let Some(place) = Place::take(&self.commands, COMMANDS_MAX) else {
            let why =
                format!("the connection has {COMMANDS_MAX} commands under way, which is all that it may");
            return Err(Error::Refused { place: self.place(), why });
        };
        let (shared, handle, user) = (self.shared.clone(), self.handle.clone(), self.admitted.user.clone());
        let run = move || {
            let outcome = shared.db.execute(&command).map_err(|error| without_secrets(&user, error));
            tell_command(&shared, &handle, channel, &command, outcome);
            drop(place);
            // It may be ending, and wait for this.
            handle.wake();
        };
        let spawned = thread::Builder::new().name("tape-command".into()).spawn(run);
        spawned.map(drop).map_err(|source| Error::Io { operation: "begin", path: "a thread".into(), source })
    }

    /// Takes a batch of a rewrite. Whether the user may rewrite was looked at when it began, and is when it is made.
    fn stage(&mut self, channel: u32, rewrite: u64, number: u64, batch: &[u8]) -> Answer {
        let rewrite = self.shared.rewrite_of(self.handle.user(), rewrite);
        let last = self.shared.db.stage(rewrite, number, batch)?;
        self.say(channel, &ToClient::Done { outcome: convert::parts(Outcome::Messages(last).to_parts()) });
        Ok(())
    }

    fn check_command(&self, command: &Command) -> Answer {
        match command {
            Command::CreateStream { name, options, .. } => {
                self.check(May::Create, name)?;
                check_durability(self.shared.config.durability_min, &options.parse()?)
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
            // It tells each what he may see.
            Command::ServerStatus => Ok(()),
            Command::Stats { stream } | Command::MaintenanceFailure { stream } => {
                if self.admitted.user.may_see(&stream.name) {
                    Ok(())
                } else {
                    Err(self.no_stream(&stream.name))
                }
            }
        }
    }

    /// A stream by its id, if the user may do that with it.
    fn stream(&mut self, stream_id: u64, what: May) -> Result<Stream, Error> {
        let known = self.streams.get(&stream_id).map(|known| known.stream.name().to_string());
        match known.map(|name| self.stream_named(stream_id, name, what)) {
            // It may have got another name.
            None | Some(Err(Error::Renamed { .. } | Error::Deleted { .. })) => {}
            Some(found) => return found,
        }
        self.streams.remove(&stream_id);
        // By a number alone nobody learns what there is.
        let gone = || Error::Deleted { name: format!("with id {stream_id:016x}") };
        let name = self
            .shared
            .db
            .name_of_id(stream_id)?
            .filter(|name| self.admitted.user.may_see(name))
            .ok_or_else(gone)?;
        self.stream_named(stream_id, name, what)
    }

    fn stream_named(&mut self, stream_id: u64, name: String, what: May) -> Result<Stream, Error> {
        self.check(what, &name)?;
        let stream = self.shared.db.stream_of(&Target { stream_id, name })?;
        let known = Known { stream: stream.clone(), symbols: None };
        self.streams.entry(stream_id).or_insert(known).stream = stream.clone();
        Ok(stream)
    }

    fn check(&self, what: May, stream: &str) -> Answer {
        if self.admitted.user.may(what, stream) {
            return Ok(());
        }
        self.shared.metrics.requests_forbidden.one();
        self.shared.audit(&self.handle, "forbidden", stream, what.word());
        let user = &self.admitted.user.name;
        Err(Error::Denied {
            what: format!("user {user:?} has no right to {} stream {stream:?}", what.word()),
        })
    }

    fn no_stream(&self, name: &str) -> Error {
        Error::NoStream { name: name.into(), known: self.shared.db.streams().unwrap_or_default() }
    }

    /// [`Session::check`] of a stream that was opened before: it may have another name by now, and the user other rights. Of one that
    /// has been deleted since, under the name that it was opened by, what is open may be read to its end.
    fn check_still(&self, what: May, stream: &Stream) -> Answer {
        let Some(renamed) = stream.gone() else { return self.check(what, stream.name()) };
        let deleted = || Error::Deleted { name: stream.name().into() };
        match self.shared.db.name_of_id(stream.id())? {
            Some(name) if self.admitted.user.may_see(&name) => self.check(what, &name),
            Some(_) => Err(deleted()),
            None if renamed.is_some() => Err(deleted()),
            None => self.check(what, stream.name()),
        }
    }

    fn file(&self, file: u32) -> Result<&Arc<dyn StorageFile>, Error> {
        let not_open = || Error::Protocol { what: format!("file {file} is not open") };
        let OpenFile { stream, file } = self.files.get(&file).ok_or_else(not_open)?;
        self.check_still(May::Read, stream)?;
        Ok(file)
    }

    fn fail(&mut self, channel: u32, error: Error) {
        self.shared.metrics.requests_failed.one();
        let error = without_secrets(&self.admitted.user, error);
        self.say(channel, &ToClient::Failed { failure: convert::failure(&error) });
    }

    fn say(&mut self, channel: u32, message: &ToClient<'_>) {
        message.encode(channel, &mut self.out);
    }

    fn send(&mut self) {
        if !self.out.is_empty() {
            self.handle.send(&[&self.out]);
            self.account.meter.count(self.out.len() as u64, Instant::now);
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
        for (_, follower) in self.watches.drain() {
            follower.end();
        }
    }
}

/// An error without the names of streams that a user may not see.
pub(crate) fn without_secrets(user: &User, error: Error) -> Error {
    match error {
        Error::NoStream { name, known } => {
            let known = known.into_iter().filter(|name| user.may_see(name)).take(10).collect();
            Error::NoStream { name, known }
        }
        Error::Renamed { name, new } if !user.may_see(&new) => Error::Deleted { name },
        error => error,
    }
}

/// Tells what came of a command, and writes down what was changed.
fn tell_command(
    shared: &Shared,
    handle: &Handle,
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
            shared.audit(handle, event, stream, &what);
            ToClient::Done { outcome: convert::parts(outcome.to_parts()) }.encode(channel, &mut out);
        }
        Err(error) => {
            shared.metrics.requests_failed.one();
            shared.audit(handle, event, stream, &format!("failed: {error}"));
            ToClient::Failed { failure: convert::failure(&error) }.encode(channel, &mut out);
        }
    }
    handle.send(&[&out]);
}

/// A command for the audit log: its word, the stream, and more.
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
        Command::ServerStatus => ("status", "", String::new()),
        Command::Seal { stream } => ("seal", &stream.name, String::new()),
        Command::Stats { stream } => ("stats", &stream.name, String::new()),
        Command::MaintenanceFailure { stream } => ("upkeep-failure", &stream.name, String::new()),
    }
}

fn messages_between(from: i64, last: i64, symbols: Option<&Vec<String>>) -> String {
    let of = symbols.map_or("all symbols".to_string(), |symbols| format!("{} symbols", symbols.len()));
    format!("times {from} to {last}, {of}")
}

fn check_durability(least: DurabilityMin, options: &StreamOptions) -> Answer {
    let durability = match options.durability {
        Durability::Transient => DurabilityMin::Transient,
        Durability::Async => DurabilityMin::Async,
        Durability::Sync => DurabilityMin::Sync,
    };
    if durability >= least {
        return Ok(());
    }
    let what = match least {
        DurabilityMin::Sync => "this server only takes streams of durability sync",
        _ => "this server takes no transient streams; choose durability async or sync",
    };
    Err(Error::Options { what })
}

fn read_full(file: &dyn StorageFile, room: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < room.len() {
        match file.read_at(&mut room[done..], offset.saturating_add(done as u64)) {
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
