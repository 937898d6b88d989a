//! A minimal server: it implements the protocol with one thread for each connection and each watch. The client is
//! tested against it where the test causes the failures.

use crate::support::reopen;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use tapedb_codes::outcome;
use tapedb_engine::{
    BatchLoader, CachedSpace, CachedStream, ConnectionError, Database, Error, LogError, Observer, Span,
    StorageFile, Stream, TailPosition, Target,
};
use tapedb_wire::{self as wire, Credit, Decoder, Limits, Rest, ServerSession, ToClient, ToServer};

/// A new database in the files of this process.
pub fn new_database() -> (tempfile::TempDir, Database) {
    let directory = tempfile::tempdir().unwrap();
    let db = reopen(&directory.path().join("db"));
    (directory, db)
}

/// Serves a database until it is dropped.
pub struct Plain {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

impl Plain {
    pub fn start(db: Database) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, sockets) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let server = Self { address, stop: stop.clone(), sockets: sockets.clone() };
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                socket.set_nodelay(true).unwrap();
                lock(&sockets).push(socket.try_clone().unwrap());
                let db = db.clone();
                thread::spawn(move || Connection::new(db, socket).run());
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("tape://{}", self.address)
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        lock(&self.sockets).iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The writing half.
struct Out(Mutex<TcpStream>);

impl Out {
    fn send(&self, channel: u32, message: &ToClient<'_>) -> io::Result<()> {
        let mut frame = Vec::new();
        message.encode(channel, &mut frame);
        lock(&self.0).write_all(&frame)
    }
}

struct Connection {
    db: Database,
    socket: TcpStream,
    out: Arc<Out>,
    session: ServerSession,
    names: HashMap<u64, String>,
    files: HashMap<u32, Arc<dyn StorageFile>>,
    loads: HashMap<u32, (BatchLoader, u64)>,
    watches: HashMap<u32, Arc<Notifications>>,
}

impl Connection {
    fn new(db: Database, socket: TcpStream) -> Self {
        let out = Arc::new(Out(Mutex::new(socket.try_clone().unwrap())));
        let session = ServerSession::new(Limits { channels_max: 1000, credit_max: 1 << 30 });
        let (names, files) = (HashMap::new(), HashMap::new());
        Self { db, socket, out, session, names, files, loads: HashMap::new(), watches: HashMap::new() }
    }

    fn run(mut self) {
        let mut decoder = Decoder::new();
        let mut has_begun = false;
        loop {
            match self.socket.read(decoder.spare(64 << 10)) {
                Ok(0) | Err(_) => break,
                Ok(read) => decoder.filled(read),
            }
            has_begun = has_begun || decoder.take_preface().unwrap();
            while has_begun && let Some(mut frame) = decoder.next_frame().unwrap() {
                let channel = frame.channel;
                let processed = match self.session.receive_append(&mut frame).unwrap() {
                    Some(arrived) => {
                        let mut batch = arrived.batch.to_vec();
                        self.append(channel, arrived.number, &mut batch)
                    }
                    None => {
                        let message = self.session.receive(frame).unwrap();
                        self.process(channel, message)
                    }
                };
                if processed.is_err() {
                    break;
                }
            }
        }
        let _ = self.socket.shutdown(Shutdown::Both);
        self.watches.values().for_each(|notifications| notifications.update(|state| state.is_over = true));
    }

    fn process(&mut self, channel: u32, message: ToServer<'_>) -> io::Result<()> {
        let out = self.out.clone();
        match self.answer(channel, message) {
            Ok(Some(reply)) => out.send(channel, &reply.borrow()),
            Ok(None) => Ok(()),
            Err(error) => out.send(channel, &ToClient::Failed { failure: parts(&error) }),
        }
    }

    fn answer(&mut self, channel: u32, message: ToServer<'_>) -> Result<Option<Reply>, Error> {
        Ok(Some(match message {
            ToServer::Hello { login, .. } => {
                if login == wire::Login::Token("wrong") {
                    let failure = Error::Connection(ConnectionError::Refused {
                        place: "".into(),
                        why: "no such token".into(),
                    });
                    return Ok(Some(Reply::Refused(parts(&failure))));
                }
                self.session.welcome();
                Reply::Welcome
            }
            ToServer::Streams {} => Reply::Names(self.db.streams()?),
            ToServer::Describe { name, known } => {
                let description = self.db.describe(name, known.map(of_wire).as_ref())?;
                self.names.insert(description.stream_id, name.into());
                Reply::Described(description)
            }
            ToServer::OpenFile { stream_id, name } => {
                let opened = self.stream(stream_id)?.open_file(name);
                let file =
                    opened.map_err(|source| Error::Io { operation: "open", path: name.into(), source })?;
                let len = file.len().unwrap();
                self.files.insert(channel, file);
                Reply::Opened(channel, len)
            }
            ToServer::ReadFile { file, offset, len } => {
                let mut bytes = vec![0; len as usize];
                let read = self.files[&file].read_at(&mut bytes, offset).unwrap();
                bytes.truncate(read);
                Reply::Bytes(bytes)
            }
            ToServer::FileLen { file } => Reply::Len(self.files[&file].len().unwrap()),
            ToServer::CloseFile { file } => {
                self.files.remove(&file);
                return Ok(None);
            }
            ToServer::AddSymbols { stream_id, names } => {
                Reply::Ids(self.stream(stream_id)?.symbol_ids(&names)?)
            }
            ToServer::Command { command } => {
                let command = tapedb_codes::command::from_coded(&command)?;
                Reply::Done(outcome::to_coded(&self.db.execute(&command)?))
            }
            ToServer::Watch { stream_id, credit, from, .. } => {
                let stream = self.stream(stream_id)?;
                let notifications = Arc::new(Notifications::default());
                let credit = self.session.open_watch(channel, credit);
                self.watches.insert(channel, notifications.clone());
                self.out.send(channel, &ToClient::Watching { from: from.clone() }).ok();
                let positions = from.iter().map(|from| TailPosition::at(*from)).collect();
                let pusher = Pusher {
                    channel,
                    positions,
                    symbols: 0,
                    credit,
                    window: 4 << 20,
                    notifications,
                    out: self.out.clone(),
                };
                thread::spawn(move || pusher.run(&stream));
                return Ok(None);
            }
            ToServer::Credit { .. } => {
                self.watches.get(&channel).iter().for_each(|notifications| notifications.update(|_| {}));
                return Ok(None);
            }
            ToServer::Load { stream_id, space, producer } => {
                let loader = self.stream(stream_id)?.batches(space)?;
                let last = loader.last_of(producer).map_or(0, |(number, _)| number);
                self.loads.insert(channel, (loader, producer));
                self.session.open_load(channel, last + 1);
                Reply::Loading(last)
            }
            ToServer::Stage { rewrite, number, batch } => {
                let last = self.db.stage(rewrite, number, batch.0)?;
                Reply::Done(outcome::to_coded(&tapedb_engine::Outcome::Messages(last)))
            }
            // Batches are answered immediately.
            ToServer::Flush {} => return Ok(None),
            ToServer::Close {} => {
                self.session.close(channel);
                self.loads.remove(&channel);
                if let Some(notifications) = self.watches.remove(&channel) {
                    notifications.update(|state| state.is_over = true);
                    notifications.wait_for_end();
                }
                Reply::Closed
            }
            ToServer::Ping { number } => Reply::Pong(number),
            ToServer::Pong { .. }
            | ToServer::Goodbye { .. }
            | ToServer::Append { .. }
            | ToServer::WatchSome { .. }
            | ToServer::Query { .. } => return Ok(None),
        }))
    }

    fn append(&mut self, channel: u32, number: u64, batch: &mut [u8]) -> io::Result<()> {
        if !self.session.is_expected(channel, number) {
            return Ok(());
        }
        self.session.note_append(channel, number);
        // The load was ended.
        let Some((loader, producer)) = self.loads.get_mut(&channel) else { return Ok(()) };
        let stored =
            loader.write_from(batch, *producer, number).and_then(|pending| loader.commit(pending, batch));
        match stored {
            Ok(sequences) => {
                let (first_sequence, next_sequence) = (sequences.start, sequences.end);
                self.out.send(channel, &ToClient::Appended { number, first_sequence, next_sequence })
            }
            Err(error) => {
                self.session.go_back(channel, number);
                self.out.send(channel, &ToClient::AppendFailed { number, failure: parts(&error) })
            }
        }
    }

    fn stream(&self, stream_id: u64) -> Result<Stream, Error> {
        let name = match self.names.get(&stream_id) {
            Some(name) => name.clone(),
            None => self.db.name_of_id(stream_id)?.unwrap_or_default(),
        };
        self.db.stream_of(&Target { stream_id, name })
    }
}

/// A message to the client, with owned data.
enum Reply {
    Welcome,
    Refused(wire::Coded),
    Names(Vec<String>),
    Described(tapedb_engine::Description),
    Opened(u32, u64),
    Bytes(Vec<u8>),
    Len(u64),
    Ids(Vec<u32>),
    Done(wire::Coded),
    Loading(u64),
    Closed,
    Pong(u64),
}

impl Reply {
    fn borrow(&self) -> ToClient<'_> {
        match self {
            Self::Welcome => ToClient::Welcome {
                // It does not pick.
                version: wire::VERSION_MIN,
                server: "plain",
                epoch: 1,
                user: "",
                heartbeat_ms: 1000,
                files_max: 1000,
                channels_max: 1000,
            },
            Self::Refused(failure) => ToClient::Refused { failure: failure.clone() },
            Self::Names(names) => ToClient::StreamNames { names: names.iter().map(String::as_str).collect() },
            Self::Described(description) => ToClient::Described { description: described(description) },
            Self::Opened(file, len) => ToClient::Opened { file: *file, len: *len, identity: (7, 7) },
            Self::Bytes(bytes) => ToClient::Bytes { bytes: Rest(bytes) },
            Self::Len(len) => ToClient::FileLenIs { len: *len },
            Self::Ids(ids) => ToClient::SymbolIds { ids: ids.clone() },
            Self::Done(parts) => ToClient::Done { outcome: parts.clone() },
            Self::Loading(last_number) => ToClient::Loading { last_number: *last_number },
            Self::Closed => ToClient::Closed {},
            Self::Pong(number) => ToClient::Pong { number: *number },
        }
    }
}

/// The most symbols of one description: the client requests the rest.
const SYMBOLS_MAX: usize = 3;

fn described(from: &tapedb_engine::Description) -> wire::Description<'_> {
    let space = |space: &tapedb_engine::SpaceDescription| wire::SpaceDescription {
        generation: space.generation,
        manifest: None,
        first_sequence: space.log.first_sequence,
        next_sequence: space.log.next_sequence,
        granules: space.log.granules.iter().map(granule).collect(),
        files: space.log.files.clone(),
    };
    let mut spaces: Vec<_> = from.spaces.iter().map(space).collect();
    for (space, from) in spaces.iter_mut().zip(&from.spaces) {
        space.manifest = from.manifest.as_deref();
    }
    wire::Description {
        name: &from.name,
        stream_id: from.stream_id,
        run: from.run,
        position_id: from.position_id,
        revision: from.revision,
        definition: from.definition.as_deref(),
        symbols_from: from.symbols_from,
        symbols: from.symbols.iter().take(SYMBOLS_MAX).map(String::as_str).collect(),
        symbols_total: from.symbols_from + from.symbols.len() as u32,
        spaces,
    }
}

fn granule(from: &tapedb_engine::Granule) -> wire::Granule {
    let tapedb_engine::Granule { file, offset, len, first_sequence, count, time_min, time_max, sorted } =
        *from;
    wire::Granule { file, offset, len, first_sequence, count, time_min, time_max, sorted }
}

fn of_wire(known: wire::CachedStream) -> CachedStream {
    let wire::CachedStream { stream_id, run, revision, symbols, spaces } = known;
    let space = |space: wire::CachedSpace| CachedSpace {
        generation: space.generation,
        next_sequence: space.next_sequence,
    };
    let spaces = spaces.into_iter().map(space).collect();
    CachedStream { stream_id, run, revision, symbols, spaces, takes_changes: false }
}

fn parts(error: &Error) -> wire::Coded {
    tapedb_codes::error::to_coded(error)
}

/// Notifications of a watch's thread.
#[derive(Default)]
struct Notifications {
    state: Mutex<NotificationState>,
    woken: Condvar,
}

#[derive(Default)]
struct NotificationState {
    any: bool,
    has_changed: bool,
    gone: Option<Option<String>>,
    is_over: bool,
    has_ended: bool,
}

impl Notifications {
    fn update(&self, change: impl FnOnce(&mut NotificationState)) {
        let mut state = lock(&self.state);
        change(&mut state);
        state.any = true;
        self.woken.notify_all();
    }

    fn wait_for_end(&self) {
        let mut state = lock(&self.state);
        while !state.has_ended {
            state = self.woken.wait(state).unwrap();
        }
    }
}

impl Observer for Notifications {
    fn committed(&self, _: u32, _: Span, _: &[u8]) {
        self.update(|_| {});
    }

    fn changed(&self) {
        self.update(|state| state.has_changed = true);
    }

    fn gone(&self, renamed: Option<&str>) {
        self.update(|state| state.gone = Some(renamed.map(str::to_string)));
    }
}

/// Enough credit for a push.
const PUSH_CREDIT: u64 = 256 << 10;

struct Pusher {
    channel: u32,
    positions: Vec<TailPosition>,
    symbols: u32,
    credit: Arc<Credit>,
    window: u64,
    notifications: Arc<Notifications>,
    out: Arc<Out>,
}

impl Pusher {
    fn run(mut self, stream: &Stream) {
        let observing = stream.observe(self.notifications.clone());
        // Errors after the connection is lost are ignored.
        let _ = self.push_all(stream);
        drop(observing);
        self.notifications.update(|state| state.has_ended = true);
    }

    fn push_all(&mut self, stream: &Stream) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            for space in 0..self.positions.len() {
                while self.push(stream, space, &mut bytes)? {}
            }
            let mut state = lock(&self.notifications.state);
            while !state.any {
                state = self.notifications.woken.wait(state).unwrap();
            }
            state.any = false;
            let (changed, gone) = (std::mem::take(&mut state.has_changed), state.gone.take());
            if state.is_over {
                return Ok(());
            }
            drop(state);
            if changed {
                self.out.send(self.channel, &ToClient::Changed {})?;
            }
            if let Some(renamed) = gone {
                return self.out.send(self.channel, &ToClient::Gone { renamed: renamed.as_deref() });
            }
        }
    }

    fn push(&mut self, stream: &Stream, space: usize, bytes: &mut Vec<u8>) -> io::Result<bool> {
        if self.credit.left() < PUSH_CREDIT || lock(&self.notifications.state).is_over {
            return Ok(false);
        }
        let span = match stream.read_tail(space as u32, &mut self.positions[space], 64 << 10, bytes) {
            Ok(span) => span,
            Err(Error::Log(error)) if matches!(*error, LogError::Trimmed { .. }) => {
                let (next_sequence, _) = stream.log_begins(space as u32).unwrap();
                self.positions[space] = TailPosition::at(next_sequence);
                self.out.send(self.channel, &ToClient::Skipped { space: space as u32, next_sequence })?;
                return Ok(true);
            }
            Err(_) => return Ok(false),
        };
        if span.count == 0 {
            return Ok(false);
        }
        let names = stream.symbols_from(self.symbols);
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            self.out.send(self.channel, &ToClient::Symbols { from: self.symbols, names: names.clone() })?;
            self.symbols += names.len() as u32;
        }
        assert!(self.credit.spend(bytes.len() as u64, self.window));
        let Span { file, offset, first_sequence, .. } = span;
        let space = space as u32;
        self.out.send(
            self.channel,
            &ToClient::Grown { space, file, offset, first_sequence, batches: Rest(bytes) },
        )?;
        Ok(true)
    }
}
