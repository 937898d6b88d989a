//! What a watch sends, step by step, without other threads.

use super::*;
use crate::config::Config;
use crate::producers::ProducerIds;
use crate::send_buffer::SendBuffer;
use crate::socket::{LocalSocket, Peer, Socket};
use mio::{Poll, Token, Waker};
use std::io::Read;
use std::os::unix::net::UnixStream;
use tapedb_access::{AuditLog, Logins};
use tapedb_codec::batch::PickedRows;
use tapedb_engine::{Database, StreamOptions, TailPosition};
use tapedb_schema::Timestamp;
use tapedb_wire::Decoder;

/// Bytes that may wait for the client.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// One watch, its client, and the database.
struct Watched {
    driver: WatchDriver,
    client: UnixStream,
    decoder: Decoder,
    user: User,
    stream: Stream,
    _poll: Poll,
    _db: Database,
    _directory: tempfile::TempDir,
}

fn wanted(symbols: &[&str]) -> Wanted {
    Wanted { symbols: Some(symbols.iter().map(ToString::to_string).collect()), ..Wanted::default() }
}

impl Watched {
    /// A stream with 100 messages, and a watch of it from the first one on, which is behind.
    fn new(wanted: Option<Wanted>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let db = Database::open(directory.path().join("db")).unwrap();
        let schema = "message Tick { price: i64 }".parse().unwrap();
        let stream = db.create_stream("ticks", schema, StreamOptions::default()).unwrap();
        append(&stream, 10);
        let config = Config::default();
        let access = config.limits.access();
        let audit = Arc::new(AuditLog::open(None, &access).unwrap());
        let logins = Arc::new(Logins::new(None, &access).unwrap());
        let producers = ProducerIds::of(&db).unwrap();
        let server = Arc::new(ServerState::new(config, db.clone(), audit, logins, None, 1, producers));
        let poll = Poll::new().unwrap();
        let (here, client) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        client.set_nonblocking(true).unwrap();
        let socket = Socket::Unix(LocalSocket::new(mio::net::UnixStream::from_std(here)));
        let send_buffer = SendBuffer::new(socket, None, WAITING_BYTES_MAX);
        let waker = Waker::new(poll.registry(), Token(1)).unwrap();
        let handle = server.register(Peer::Unix, send_buffer, waker).unwrap();
        let user = User::default();
        let (quota, _connection) = server.quotas.open(&user, &server.access).unwrap();
        let permit = quota.watch(&user, &server.access).unwrap();
        let driver = WatchDriver::new(WatchStart {
            server,
            handle,
            quota,
            channel: 1,
            stream: stream.clone(),
            credit: Arc::new(Credit::new(4 << 20)),
            lag_bytes_max: 0,
            from: vec![0],
            wanted,
            symbols: stream.symbol_count(),
            permit,
        });
        let decoder = Decoder::new();
        Self { driver, client, decoder, user, stream, _poll: poll, _db: db, _directory: directory }
    }

    fn step(&mut self) {
        self.driver.step(&mut Vec::new(), &self.user).unwrap();
    }

    fn watch(&self) -> &Watch {
        self.driver.watch()
    }

    fn served(&self) -> Served {
        self.watch().lock().spaces[0].served
    }

    /// Whole batches of the log from a message on, and their span.
    fn read(&self, from: u64) -> (Span, Vec<u8>) {
        let mut batches = Vec::new();
        let span = self.stream.read_tail(0, &mut TailPosition::at(from), 1 << 20, &mut batches).unwrap();
        (span, batches)
    }

    /// What a fan-out thread does with messages from one on.
    fn serve_from(&self, from: u64) {
        let (span, batches) = self.read(from);
        match self.watch().wanted() {
            None => self.watch().push_shared(0, span, &batches),
            Some(wanted) => {
                let push = |_, rows: &[u8]| {
                    self.watch().push_picked(0, from..span.next_sequence(), rows, &batches);
                };
                picker_of(&self.stream, wanted).pick(&batches, from, push).unwrap();
            }
        }
    }

    /// The sequence numbers that the client receives, one range or picked row after the other.
    fn received(&mut self) -> Vec<u64> {
        let mut found = Vec::new();
        while let Ok(count @ 1..) = self.client.read(self.decoder.spare(64 << 10)) {
            self.decoder.filled(count);
            while let Some(frame) = self.decoder.next_frame().unwrap() {
                match ToClient::parse(frame.kind, frame.payload).unwrap() {
                    ToClient::Picked { rows, first_sequence, next_sequence, .. } => {
                        for piece in PickedRows::all(rows.0).map(Result::unwrap) {
                            let of = (0..piece.header.count as usize).map(|row| piece.sequence(row));
                            found.extend(
                                of.inspect(|row| assert!((first_sequence..next_sequence).contains(row))),
                            );
                        }
                    }
                    ToClient::Grown { first_sequence, batches, .. } => {
                        let mut rest = batches.0;
                        let mut next = first_sequence;
                        while !rest.is_empty() {
                            let header = tapedb_codec::batch::BatchHeader::parse_stored(rest).unwrap();
                            next = header.next_sequence();
                            rest = &rest[header.batch_bytes()..];
                        }
                        found.extend(first_sequence..next);
                    }
                    _ => {}
                }
            }
        }
        found
    }
}

/// Appends batches of ten messages, of symbols `A` and `B` in turn.
fn append(stream: &Stream, batches: i64) {
    let mut loader = stream.loader().unwrap();
    for time in 0..batches * 10 {
        let symbol = ["A", "B"][time as usize % 2];
        loader.append_body(symbol, Timestamp(time), 0, &time.to_le_bytes()).unwrap();
        if time % 10 == 9 {
            loader.flush().unwrap();
        }
    }
}

/// Joins a fan-out thread that is at a message.
fn join(watched: &Watched, at: u64) -> Option<u64> {
    watched.watch().lock().spaces[0].served = Served::Joining;
    watched.watch().take_over(0, Some(at))
}

#[test]
fn a_watch_that_is_ahead_of_its_thread_gets_each_message_once() {
    for want in [None, Some(wanted(&["A"]))] {
        let mut watched = Watched::new(want.clone());
        let is_wanted = |sequence: &u64| want.is_none() || sequence.is_multiple_of(2);
        watched.step();
        assert_eq!(watched.served(), Served::Direct);
        assert_eq!(watched.received(), (0..100).filter(is_wanted).collect::<Vec<_>>());
        // The thread has served others up to message 50, and reads on from there when there are 150.
        assert_eq!(join(&watched, 50), Some(100));
        append(&watched.stream, 5);
        watched.serve_from(50);
        assert_eq!(watched.received(), (100..150).filter(is_wanted).collect::<Vec<_>>());
        // A range that it has whole costs neither bytes nor credit.
        let credit = watched.watch().credit.left();
        watched.serve_from(50);
        assert_eq!((watched.received(), watched.watch().credit.left()), (vec![], credit));
        append(&watched.stream, 1);
        watched.serve_from(150);
        assert_eq!(watched.received(), (150..160).filter(is_wanted).collect::<Vec<_>>());
    }
}

#[test]
fn a_watch_that_is_behind_its_thread_does_not_join() {
    let mut watched = Watched::new(Some(wanted(&["B"])));
    watched.step();
    assert_eq!(watched.received().len(), 50);
    assert_eq!((join(&watched, 110), watched.served()), (None, Served::Behind));
    append(&watched.stream, 2);
    watched.serve_from(110);
    assert!(watched.received().is_empty(), "its connection's thread reads them first");
    watched.step();
    assert_eq!(watched.received(), (100..120).filter(|sequence| sequence % 2 == 1).collect::<Vec<_>>());
}

#[test]
fn a_watch_without_credit_falls_behind_and_misses_nothing() {
    for want in [None, Some(wanted(&["A"]))] {
        let mut watched = Watched::new(want.clone());
        watched.step();
        let got = watched.received().len();
        assert!(join(&watched, 100).is_some());
        while watched.watch().credit.left() > 0 {
            watched.watch().credit.spend(watched.watch().credit.left(), u64::MAX);
        }
        append(&watched.stream, 3);
        watched.serve_from(100);
        assert_eq!((watched.served(), watched.received().len()), (Served::Behind, 0));
        watched.step();
        assert_eq!(watched.received().len(), 0, "there is no credit yet");
        watched.watch().credit.grant(4 << 20);
        watched.step();
        assert_eq!(watched.received().len(), got * 3 / 10);
    }
}

#[test]
fn a_watch_goes_on_when_another_thread_has_emptied_the_send_buffer() {
    let mut watched = Watched::new(None);
    let handle = watched.watch().handle.clone();
    // A fan-out thread holds pushes of other watches of this connection.
    let mut held = Vec::new();
    ToClient::Ping { number: 1 }.encode(0, &mut held);
    let held = held.repeat(WAITING_BYTES_MAX / held.len() + 1);
    handle.send_buffer.hold(&[&held]);
    watched.step();
    assert!(watched.watch().lock().spaces[0].next == 0 && !handle.may_go_on());
    let mut received = 0;
    while handle.send_buffer.waiting() > 0 {
        handle.send_buffer.flush();
        received += watched.received().len();
    }
    assert_eq!(received, 0);
    // No event of the socket is left for the connection's thread.
    assert!(handle.may_go_on());
    handle.goes_on();
    watched.driver.note_capacity();
    watched.step();
    assert_eq!(watched.received(), (0..100).collect::<Vec<_>>());
}
