//! Batches of clients: appended, and pushed to watches.

use crate::session::{Pushed, pushed, stream, watch};
use crate::support::{Client, batch, batch_of, described, serve_with, user};
use std::io::{Read, Write};
use std::net::TcpStream;
use tapedb_access::May;
use tapedb_codec::batch::{BatchHeader, assign_producer};
use tapedb_engine::{Durability, StreamOptions};
use tapedb_wire::{Login, Rest, ToClient, ToServer};

#[test]
fn batches_are_appended_and_their_file_is_read() {
    let (_served, mut client, stream_id) = stream(Durability::Async);
    let (load, last) = load(&mut client, stream_id, 0);
    assert_eq!(last, 0);
    for number in 1..=3 {
        append(&mut client, load, number, &batch(number as i64 * 100, 10));
    }
    all_appended(&mut client, load, 3, 10);
    let name = "0/00000000000000000000.log";
    let (file, len) = client.answer(&ToServer::OpenFile { stream_id, name }, |answer| match answer {
        ToClient::Opened { file, len, .. } => (file, len),
        other => panic!("{other:?}"),
    });
    let read = |client: &mut Client<TcpStream>, offset, len| {
        client.answer(&ToServer::ReadFile { file, offset, len }, |answer| match answer {
            ToClient::Bytes { bytes } => bytes.0.to_vec(),
            other => panic!("{other:?}"),
        })
    };
    let whole = read(&mut client, 0, 1 << 20);
    assert!(whole.len() as u64 >= len);
    let begins = FILE_HEADER_BYTES;
    // Except its marker, sequence number and checksum it is equal to the sent batch.
    let sent = batch(100, 10);
    assert_eq!(whole[begins..begins + sent.len()][80..], sent[80..]);
    assert_eq!(read(&mut client, 100, 50), whole[100..150]);
    assert_eq!(read(&mut client, 1 << 40, 50), b"");
    let len = client.answer(&ToServer::FileLen { file }, |answer| match answer {
        ToClient::FileLenIs { len } => len,
        other => panic!("{other:?}"),
    });
    assert!(len >= whole.len() as u64);
    client.send(0, &ToServer::CloseFile { file });
    for (message, expected) in [
        (ToServer::ReadFile { file, offset: 0, len: 1 }, "not open"),
        (ToServer::ReadFile { file, offset: 0, len: u32::MAX }, "at most"),
        (ToServer::OpenFile { stream_id, name: "../../lock" }, "lock"),
    ] {
        client.answer(&message, |answer| match answer {
            ToClient::Failed { failure } => {
                assert!(failure.texts.join(" ").contains(expected), "{failure:?}")
            }
            other => panic!("{other:?}"),
        });
    }
}

#[test]
fn a_load_goes_on_after_a_refused_batch() {
    for durability in [Durability::Async, Durability::Sync] {
        let (served, mut client, stream_id) = stream(durability);
        let (load, _) = load(&mut client, stream_id, 0);
        append(&mut client, load, 1, &batch(1, 5));
        append(&mut client, load, 2, &batch_of(77, 10, 5));
        append(&mut client, load, 3, &batch(20, 5));
        assert_eq!(appended(&mut client, load), (1, Ok((0, 5))));
        let (number, failed) = appended(&mut client, load);
        assert_eq!(number, 2);
        assert!(failed.unwrap_err().contains('s'));
        // Batches sent after it were dropped; the next one is accepted.
        append(&mut client, load, 2, &batch(10, 5));
        assert_eq!(appended(&mut client, load), (2, Ok((5, 10))));
        append(&mut client, load, 3, b"no batch at all");
        assert!(appended(&mut client, load).1.is_err());
        assert_eq!(described(&served, "s").spaces[0].log.next_sequence, 10);
        assert_eq!(served.metric("tapedb_appends_total"), 2);
        assert_eq!(served.metric("tapedb_appends_failed_total"), 2);
    }
}

/// Offset of the first batch in a log file: `docs/format/log.md`.
const FILE_HEADER_BYTES: usize = 64;

/// Producer and number of each batch in a stream's first log file, and the number of messages.
fn stored<S: Read + Write>(client: &mut Client<S>, stream_id: u64) -> (Vec<(u64, u64)>, u64) {
    let name = "0/00000000000000000000.log";
    let file = client.answer(&ToServer::OpenFile { stream_id, name }, |answer| match answer {
        ToClient::Opened { file, .. } => file,
        other => panic!("{other:?}"),
    });
    let bytes = client.answer(&ToServer::ReadFile { file, offset: 0, len: 1 << 20 }, |answer| match answer {
        ToClient::Bytes { bytes } => bytes.0.to_vec(),
        other => panic!("{other:?}"),
    });
    let (mut producers, mut messages) = (Vec::new(), 0);
    let mut rest = &bytes[FILE_HEADER_BYTES..];
    while let Ok(header) = BatchHeader::parse_stored(rest) {
        producers.push((header.producer, header.producer_number));
        messages += u64::from(header.count);
        rest = &rest[header.batch_bytes()..];
    }
    (producers, messages)
}

fn forged(producer: u64, number: u64) -> Vec<u8> {
    let mut batch = batch(number as i64, 1);
    assign_producer(&mut batch, producer, number).unwrap();
    batch
}

#[test]
fn a_user_cannot_store_batches_of_another_users_producer() {
    let may = [May::Read, May::Write, May::Create];
    let served = serve_with(&[user("ann", "*", &may), user("bob", "*", &may)], |_| {});
    let mut ann = served.client_as(Login::Password { user: "ann", password: "secret-ann" });
    let mut bob = served.client_as(Login::Password { user: "bob", password: "secret-bob" });
    let stream_id = ann.create("s", StreamOptions::default()).unwrap();
    ann.add_symbols(stream_id, &["A"]).unwrap();
    bob.describe("s").unwrap();
    let (load_of_ann, _) = load(&mut ann, stream_id, 7);
    append(&mut ann, load_of_ann, 1, &forged(7, 1));
    assert_eq!(appended(&mut ann, load_of_ann), (1, Ok((0, 1))));
    let (producers, _) = stored(&mut bob, stream_id);
    let [(producer, 1)] = producers[..] else { panic!("{producers:?}") };
    assert!(producer != 0 && producer != 7, "the client's own number is not in the log");

    // Bob claims the producer of Ann, with her number and with the id in the log, in the load and in the batches.
    let mut next = 1;
    for (claims, in_batch) in [(7, 7), (producer, producer), (0, producer), (0, 7), (9, producer)] {
        let (load_of_bob, last_number) = load(&mut bob, stream_id, claims);
        assert_eq!(last_number, 0, "nothing of the other user's producer is visible");
        for number in 1..=5 {
            append(&mut bob, load_of_bob, number, &forged(in_batch, number * 1000));
            assert_eq!(appended(&mut bob, load_of_bob), (number, Ok((next, next + 1))));
            next += 1;
        }
        // A number that is far ahead is not accepted at all.
        append(&mut bob, load_of_bob, 1_000_000, &forged(in_batch, 1_000_000));
        bob.send(load_of_bob, &ToServer::Close {});
        bob.receive(|_, message| assert_eq!(message, ToClient::Closed {}));
    }
    for number in 2..=20 {
        append(&mut ann, load_of_ann, number, &forged(7, number));
        assert_eq!(appended(&mut ann, load_of_ann), (number, Ok((next, next + 1))), "stored, not a repeat");
        next += 1;
    }
    // Repeats are not stored again.
    let mut again = served.client_as(Login::Token("tape_ann"));
    again.describe("s").unwrap();
    let (load_again, last_number) = load(&mut again, stream_id, 7);
    assert_eq!(last_number, 20);
    append(&mut again, load_again, 20, &forged(7, 20));
    assert_eq!(appended(&mut again, load_again), (20, Ok((next - 1, next))));
    let (producers, messages) = stored(&mut again, stream_id);
    assert_eq!(messages, next);
    assert_eq!(producers.iter().filter(|(of, _)| *of == producer).count(), 20);
    assert!(producers.iter().all(|(of, number)| (*of == 0) == (*number == 0)), "{producers:?}");
}

#[test]
fn a_producer_survives_a_restart_of_the_server() {
    let mut served = serve_with(&[user("ann", "*", &[May::Write, May::Create])], |_| {});
    let login = Login::Password { user: "ann", password: "secret-ann" };
    let mut ann = served.client_as(login);
    let stream_id = ann.create("s", StreamOptions::default()).unwrap();
    ann.add_symbols(stream_id, &["A"]).unwrap();
    let (channel, _) = load(&mut ann, stream_id, 7);
    append(&mut ann, channel, 1, &batch(1, 10));
    assert_eq!(appended(&mut ann, channel), (1, Ok((0, 10))));
    drop(ann);
    served.restart();
    let mut ann = served.client_as(login);
    ann.describe("s").unwrap();
    let (channel, last_number) = load(&mut ann, stream_id, 7);
    assert_eq!(last_number, 1);
    append(&mut ann, channel, 1, &batch(1, 10));
    assert_eq!(appended(&mut ann, channel), (1, Ok((0, 10))));
    append(&mut ann, channel, 2, &batch(2, 10));
    assert_eq!(appended(&mut ann, channel), (2, Ok((10, 20))));
    assert_eq!(described(&served, "s").spaces[0].log.next_sequence, 20);
}

#[test]
fn many_batches_are_acknowledged_in_order() {
    let (served, mut client, stream_id) = stream(Durability::Sync);
    let (load, _) = load(&mut client, stream_id, 0);
    for number in 1..=200 {
        append(&mut client, load, number, &batch(number as i64 * 10, 3));
    }
    all_appended(&mut client, load, 200, 3);
    client.send(load, &ToServer::Close {});
    client.receive(|channel, message| assert_eq!((channel, message), (load, ToClient::Closed {})));
    assert_eq!(served.metric("tapedb_append_messages_total"), 600);
}

#[test]
fn answers_without_a_flush_are_coalesced_and_sent_soon() {
    let (_served, mut client, stream_id) = stream(Durability::Async);
    let (load, _) = load(&mut client, stream_id, 0);
    for number in 1..=100 {
        let batch = batch(number as i64 * 10, 3);
        client.send(load, &ToServer::Append { number, batch: Rest(&batch) });
    }
    all_appended(&mut client, load, 100, 3);
}

#[test]
fn batches_are_pushed_when_they_are_appended() {
    for durability in [Durability::Transient, Durability::Async, Durability::Sync] {
        let (served, mut producer, stream_id) = stream(durability);
        let mut consumer = served.client();
        consumer.describe("s").unwrap();
        let watching = watch(&mut consumer, stream_id, 1 << 20, 0);
        let (load, _) = load(&mut producer, stream_id, 0);
        for number in 1..=50 {
            let sent = batch(number as i64 * 10, 4);
            append(&mut producer, load, number, &sent);
            assert_eq!(appended(&mut producer, load), (number, Ok((number * 4 - 4, number * 4))));
            let Pushed::Batches { space: 0, first_sequence, bytes } = pushed(&mut consumer, watching) else {
                panic!("no batches")
            };
            assert_eq!(first_sequence, number * 4 - 4);
            assert_eq!(bytes[80..], sent[80..]);
        }
        assert!(served.metric("tapedb_pushes_inline_total") >= 45);
        assert_eq!(served.metric("tapedb_watch_lag_messages_max"), 0);
    }
}

/// Begins a load; returns its channel, and the producer's last number.
fn load<S: Read + Write>(client: &mut Client<S>, stream_id: u64, producer: u64) -> (u32, u64) {
    let channel = client.ask(&ToServer::Load { stream_id, space: 0, producer });
    let last_number = client.receive(|on, message| match message {
        ToClient::Loading { last_number } if on == channel => last_number,
        other => panic!("{other:?}"),
    });
    (channel, last_number)
}

fn append<S: Read + Write>(client: &mut Client<S>, load: u32, number: u64, batch: &[u8]) {
    client.send(load, &ToServer::Append { number, batch: Rest(batch) });
    client.send(load, &ToServer::Flush {});
}

/// Receives the answers to the first batches of a load, each with the same number of messages; one answer may cover
/// several.
fn all_appended<S: Read + Write>(client: &mut Client<S>, load: u32, batches: u64, each: u64) {
    let mut answered = 0;
    while answered < batches {
        let (number, sequences) = appended(client, load);
        assert!((answered + 1..=batches).contains(&number), "{number} after {answered}");
        assert_eq!(sequences, Ok((number * each - each, number * each)));
        answered = number;
    }
}

/// The answer to a batch: its number, and its sequence numbers or error.
fn appended<S: Read + Write>(client: &mut Client<S>, load: u32) -> (u64, Result<(u64, u64), String>) {
    client.receive(|channel, message| match message {
        _ if channel != load => panic!("{message:?} on channel {channel}"),
        ToClient::Appended { number, first_sequence, next_sequence } => {
            (number, Ok((first_sequence, next_sequence)))
        }
        ToClient::AppendFailed { number, failure } => (number, Err(failure.texts.join(": "))),
        other => panic!("{other:?}"),
    })
}
