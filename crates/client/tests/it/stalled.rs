//! Readers that stall: the server's memory does not grow, other clients are not affected, and the readers miss nothing
//! when they continue. `STALL_MESSAGES=n` makes them stall for longer (`make storm`).

use crate::killed::follow;
use crate::process::Process;
use crate::support::*;
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;
use tapedb_engine::{Cursor, Loader, StreamOptions};
use tapedb_schema::Timestamp;
use tapedb_wire::{ClientSession, Login, ToServer};

/// The most memory that a server may use for its clients: buffers, and free pages of its allocator.
const GROWTH_BYTES_MAX: u64 = 48 << 20;

fn load(loader: &mut Loader, numbers: std::ops::Range<u64>) {
    for number in numbers {
        loader.append("A", Timestamp(number as i64), &Tick::of(number)).unwrap();
    }
}

/// Reads one message: later ones are in flight to this cursor, which stalls from then on.
fn begin(cursor: &mut Cursor) {
    let message = cursor.next_within(Duration::from_secs(100)).unwrap().unwrap();
    assert_eq!(number_of(&message), 0);
}

#[test]
fn a_stalled_reader_delays_no_others() {
    let messages: u64 =
        std::env::var("STALL_MESSAGES").ok().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path());
    let options = StreamOptions { file_bytes_max: 4 << 20, ..StreamOptions::default() };
    let stream = server.over_tcp().create_stream("s", schema(), options).unwrap();
    let mut loader = stream.loader().unwrap();
    let open = |db: tapedb_engine::Database| db.stream("s").unwrap().cursor().live().open().unwrap();
    let mut stalled = [open(server.over_tcp()), open(server.over_unix()), open(server.over_memory())];
    let mut active = [open(server.over_tcp()), open(server.over_unix()), open(server.over_memory())];
    load(&mut loader, 0..1);
    loader.flush().unwrap();
    stalled.iter_mut().for_each(begin);

    thread::scope(|scope| {
        let active = active.each_mut().map(|cursor| scope.spawn(move || follow(cursor, 0)));
        load(&mut loader, 1..messages / 10);
        loader.flush().unwrap();
        let before = server.resident_bytes();
        load(&mut loader, messages / 10..messages);
        loader.append("END", Timestamp(i64::MAX), &Tick::of(0)).unwrap();
        loader.flush().unwrap();
        for active in active {
            assert_eq!(active.join().unwrap(), messages);
        }
        let growth = server.resident_bytes().saturating_sub(before);
        assert!(growth < GROWTH_BYTES_MAX, "the server grew by {growth} bytes");
    });
    for mut cursor in stalled {
        assert_eq!(follow(&mut cursor, 1), messages);
    }
}

/// Clients that do not read their sockets, though they have given credit for everything: the server holds a send buffer for each, and
/// other readers, for which it picks too, are not delayed.
#[test]
fn clients_that_stop_reading_cost_a_bounded_buffer() {
    let messages = 600_000;
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path());
    let options = StreamOptions { file_bytes_max: 4 << 20, ..StreamOptions::default() };
    let stream = server.over_tcp().create_stream("s", schema(), options).unwrap();
    let mut loader = stream.loader().unwrap();
    load(&mut loader, 0..1);
    loader.flush().unwrap();
    let _stalled: Vec<TcpStream> = (0..8).map(|number| stalled(&server, stream.id(), number < 4)).collect();
    let active = server.over_unix();
    let mut active = active.stream("s").unwrap().cursor().symbols(["A", "END"]).live().open().unwrap();
    load(&mut loader, 1..messages / 10);
    loader.flush().unwrap();
    let before = server.resident_bytes();
    load(&mut loader, messages / 10..messages);
    loader.append("END", Timestamp(i64::MAX), &Tick::of(0)).unwrap();
    loader.flush().unwrap();
    assert_eq!(follow(&mut active, 0), messages);
    let growth = server.resident_bytes().saturating_sub(before);
    assert!(growth < GROWTH_BYTES_MAX, "the server grew by {growth} bytes");
}

/// A socket on which a watch begins, and that is not read.
fn stalled(server: &Process, stream_id: u64, all: bool) -> TcpStream {
    let address = server.url();
    let mut socket = TcpStream::connect(address.strip_prefix("tape://").unwrap()).unwrap();
    let (mut out, mut session, credit, lag_max, from) =
        (Vec::new(), ClientSession::new(), 1 << 40, 0, vec![0]);
    ClientSession::hello("stalls", Login::Anonymous, &mut out);
    socket.write_all(&out).unwrap();
    out.clear();
    session.ask(&ToServer::Describe { name: "s", known: None }, &mut out);
    let (symbols, schema_version, types) = (Some(vec!["A"]), 1, None);
    let watch = match all {
        true => ToServer::Watch { stream_id, credit, lag_max, from },
        false => ToServer::WatchSome { stream_id, credit, lag_max, from, symbols, schema_version, types },
    };
    session.ask(&watch, &mut out);
    socket.write_all(&out).unwrap();
    socket
}

/// A reader that is opened after many appends reads them from files, before they are pushed to the stalled one of the same
/// client: their pushes must not use up the credit for what is appended next.
#[test]
fn pushes_that_a_later_reader_has_read_already_need_no_credit() {
    let messages = 300_000;
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path());
    let db = server.over_tcp();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let mut stalled = stream.cursor().live().open().unwrap();
    let mut loader = server.over_unix().stream("s").unwrap().loader().unwrap();
    load(&mut loader, 0..1);
    loader.flush().unwrap();
    begin(&mut stalled);
    load(&mut loader, 1..messages);
    loader.flush().unwrap();
    assert!(stream.stats().unwrap().bytes > 2 * tapedb_engine::WINDOW_BYTES as u64);

    let mut later = db.stream("s").unwrap().cursor().live().open().unwrap();
    for number in 0..messages {
        let message = later.next_within(Duration::from_secs(100)).unwrap().unwrap();
        assert_eq!(number_of(&message), number);
    }
    assert!(later.next_within(Duration::from_millis(100)).unwrap().is_none());
    loader.append("END", Timestamp(i64::MAX), &Tick::of(0)).unwrap();
    loader.flush().unwrap();
    assert_eq!(follow(&mut later, messages), messages);
    assert_eq!(follow(&mut stalled, 1), messages);
}
