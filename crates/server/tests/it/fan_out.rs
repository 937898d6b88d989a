//! Many watches of a stream: clients of both versions of the protocol beside each other, and clients that stop reading.

use crate::session::{Pushed, pushed, stream};
use crate::support::{Client, Served};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use tapedb_codec::batch::{BatchHeader, PickedRows};
use tapedb_engine::Durability;
use tapedb_schema::Timestamp;
use tapedb_wire::{Login, PREFACE, ToClient, ToServer};

/// Messages that are appended while all watch.
const MESSAGES: u64 = 3000;

/// Appends messages in the server's own process, in batches of at most 50: of the symbols `AIG` and `BAC` in turn.
fn append(served: &Served, times: std::ops::Range<u64>) {
    let mut loader = served.server().database().stream("s").unwrap().loader().unwrap();
    for time in times {
        let symbol = ["AIG", "BAC"][time as usize % 2];
        loader.append_body(symbol, Timestamp(time as i64), 0, &0f64.to_le_bytes()).unwrap();
        if time % 50 == 49 {
            loader.flush().unwrap();
        }
    }
    loader.flush().unwrap();
}

/// A client of version 1 alone.
fn client_of_version_1(served: &Served) -> Client<TcpStream> {
    let mut client = served.connect();
    let mut hello = PREFACE.to_vec();
    let login = Login::Anonymous;
    ToServer::Hello { version_min: 1, version_max: 1, program: "old", login }.encode(0, &mut hello);
    client.socket.write_all(&hello).unwrap();
    client.receive(|_, message| {
        assert!(matches!(message, ToClient::Welcome { version: 1, .. }), "{message:?}");
    });
    client
}

fn begin(client: &mut Client<TcpStream>, watch: &ToServer<'_>) -> u32 {
    let channel = client.ask(watch);
    client.receive(|on, message| {
        assert_eq!((on, message), (channel, ToClient::Watching { from: vec![0] }));
    });
    channel
}

fn all(stream_id: u64) -> ToServer<'static> {
    ToServer::Watch { stream_id, credit: 1 << 40, lag_max: 0, from: vec![0] }
}

fn some(stream_id: u64, symbol: &'static str) -> ToServer<'static> {
    let symbols = Some(vec![symbol]);
    let (from, schema_version, types) = (vec![0], 1, None);
    ToServer::WatchSome { stream_id, credit: 1 << 40, lag_max: 0, from, symbols, schema_version, types }
}

/// Receives whole batches up to a sequence number; each message once, in order.
fn check_all(client: &mut Client<TcpStream>, watch: u32, end: u64) {
    let mut next = 0;
    while next < end {
        match pushed(client, watch) {
            Pushed::Batches { first_sequence, bytes, .. } => {
                assert_eq!(first_sequence, next);
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let header = BatchHeader::parse_stored(rest).unwrap();
                    assert_eq!(header.first_sequence, next);
                    next = header.next_sequence();
                    rest = &rest[header.batch_bytes()..];
                }
            }
            Pushed::Symbols(..) | Pushed::Changed => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Receives picked rows up to a sequence number: those that are even or odd, each once, in order.
fn check_some(client: &mut Client<TcpStream>, watch: u32, end: u64, odd: u64) {
    let (mut next, mut found) = (0, Vec::new());
    while found.len() < (end / 2) as usize {
        client.receive(|channel, message| {
            assert_eq!(channel, watch);
            match message {
                ToClient::Picked { first_sequence, next_sequence, rows, .. } => {
                    assert_eq!(first_sequence, next);
                    next = next_sequence;
                    for piece in PickedRows::all(rows.0).map(Result::unwrap) {
                        found.extend((0..piece.header.count as usize).map(|row| piece.sequence(row)));
                    }
                }
                ToClient::Symbols { .. } | ToClient::Changed {} => {}
                other => panic!("{other:?}"),
            }
        });
    }
    assert!(found.iter().copied().eq((odd..end).step_by(2)), "{found:?}");
}

#[test]
fn clients_of_both_versions_are_served_beside_each_other() {
    let (served, mut creator, stream_id) = stream(Durability::Async);
    creator.add_symbols(stream_id, &["BAC"]).unwrap();
    append(&served, 0..100);
    // Three of each kind: the stream is served by fan-out threads from the fifth on.
    let mut watching = BTreeMap::new();
    for number in 0..9 {
        let mut client = if number % 3 == 0 { client_of_version_1(&served) } else { served.client() };
        client.describe("s").unwrap();
        let watch = match number % 3 {
            0 => begin(&mut client, &all(stream_id)),
            1 => begin(&mut client, &some(stream_id, "AIG")),
            _ => begin(&mut client, &some(stream_id, "BAC")),
        };
        watching.insert(number, (client, watch));
        append(&served, 100 + number * 10..110 + number * 10);
    }
    append(&served, 190..MESSAGES);
    for (number, (client, watch)) in &mut watching {
        match number % 3 {
            0 => check_all(client, *watch, MESSAGES),
            odd => check_some(client, *watch, MESSAGES, odd - 1),
        }
    }
}

/// A client that does not read its socket, though it has given credit for everything.
#[test]
fn clients_that_stop_reading_delay_no_others_and_miss_nothing() {
    let (served, mut creator, stream_id) = stream(Durability::Async);
    creator.add_symbols(stream_id, &["BAC"]).unwrap();
    let mut stalled = Vec::new();
    for number in 0..6 {
        let mut client = served.client();
        client.describe("s").unwrap();
        let watch = match number % 2 {
            0 => begin(&mut client, &all(stream_id)),
            _ => begin(&mut client, &some(stream_id, "AIG")),
        };
        stalled.push((client, watch));
    }
    let mut active = served.client();
    active.describe("s").unwrap();
    let watch = begin(&mut active, &some(stream_id, "BAC"));
    let messages = 300_000;
    append(&served, 0..messages);
    check_some(&mut active, watch, messages, 1);
    for (number, (client, watch)) in stalled.iter_mut().enumerate() {
        match number % 2 {
            0 => check_all(client, *watch, messages),
            _ => check_some(client, *watch, messages, 0),
        }
    }
}
