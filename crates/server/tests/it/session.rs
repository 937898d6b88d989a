//! Requests, frame by frame: streams, files, live batches, loads, commands and rights.

use crate::support::{Client, Served, described, options, serve, serve_with, user};
use std::io::{Read, Write};
use std::net::TcpStream;
use tapedb_access::{May, UserLimits};
use tapedb_engine::{Command, Durability, StreamOptions, Target};
use tapedb_wire::{Login, ToClient, ToServer};

/// A push of a watch.
#[derive(Debug, PartialEq)]
pub enum Pushed {
    Batches { space: u32, first_sequence: u64, bytes: Vec<u8> },
    Symbols(u32, Vec<String>),
    Skipped(u32, u64),
    Changed,
    Gone(Option<String>),
    Failed(String),
}

pub fn pushed<S: Read + Write>(client: &mut Client<S>, watch: u32) -> Pushed {
    client.receive(|channel, message| {
        assert_eq!(channel, watch);
        match message {
            ToClient::Grown { space, first_sequence, batches, .. } => {
                Pushed::Batches { space, first_sequence, bytes: batches.0.to_vec() }
            }
            ToClient::Symbols { from, names } => {
                Pushed::Symbols(from, names.iter().map(|name| name.to_string()).collect())
            }
            ToClient::Skipped { space, next_sequence } => Pushed::Skipped(space, next_sequence),
            ToClient::Changed {} => Pushed::Changed,
            ToClient::Gone { renamed } => Pushed::Gone(renamed.map(str::to_string)),
            ToClient::Failed { failure } => Pushed::Failed(failure.texts.join(": ")),
            other => panic!("{other:?}"),
        }
    })
}

/// Begins a watch from the start of a stream of one space.
pub fn watch<S: Read + Write>(client: &mut Client<S>, stream_id: u64, credit: u64, lag_max: u64) -> u32 {
    let channel = client.ask(&ToServer::Watch { stream_id, credit, lag_max, from: vec![0] });
    client.receive(|on, message| {
        assert_eq!((on, message), (channel, ToClient::Watching { from: vec![0] }));
    });
    channel
}

/// A server with an empty stream `s` that has the symbol `AIG`, and a client.
pub fn stream(durability: Durability) -> (Served, Client<TcpStream>, u64) {
    let served = serve(|_| {});
    let mut client = served.client();
    let stream_id = client.create("s", options(durability)).unwrap();
    client.add_symbols(stream_id, &["AIG"]).unwrap();
    client.describe("s").unwrap();
    (served, client, stream_id)
}

/// Appends in the server's own process.
fn append_here(served: &Served, symbol: &str, first_time: i64, count: i64) {
    let mut loader = served.server().database().stream("s").unwrap().loader().unwrap();
    for time in first_time..first_time + count {
        loader.append_body(symbol, tapedb_schema::Timestamp(time), 0, &0f64.to_le_bytes()).unwrap();
    }
    loader.flush().unwrap();
}

#[test]
fn a_stream_is_created_described_and_changed() {
    let (served, mut client, stream_id) = stream(Durability::Async);
    assert_eq!(client.streams(), ["s"]);
    assert_eq!(client.describe("s"), Ok((stream_id, 1)));
    assert_eq!(client.add_symbols(stream_id, &["BAC", "AIG", "C"]), Ok(vec![1, 0, 2]));
    assert_eq!(described(&served, "s").symbols, ["AIG", "BAC", "C"]);
    assert!(client.create("s", StreamOptions::default()).unwrap_err().contains('s'));
    assert!(client.describe("t").unwrap_err().contains('t'));
    assert!(client.add_symbols(stream_id + 1, &["x"]).is_err());
    client.command(&Command::RenameStream { name: "s".into(), new: "t".into() }).unwrap();
    assert_eq!(client.streams(), ["t"]);
    assert_eq!(client.add_symbols(stream_id, &["C"]), Ok(vec![2]), "its id stays");
    client.command(&Command::DeleteStream { name: "t".into() }).unwrap();
    assert_eq!(client.streams(), Vec::<String>::new());
    let audit = served.audit();
    for event in ["create", "rename", "delete"] {
        assert!(audit.contains(&format!(r#""event":"{event}","user":"anonymous""#)), "{event}: {audit}");
    }
}

#[test]
fn a_late_watch_gets_batches_from_files_and_then_live_ones() {
    let (served, mut client, stream_id) = stream(Durability::Async);
    for i in 0..100 {
        append_here(&served, "AIG", i * 1000, 500);
    }
    let watching = watch(&mut client, stream_id, 1 << 30, 0);
    let mut next = 0;
    let mut take = |pushed: Pushed| {
        let Pushed::Batches { first_sequence, bytes, .. } = pushed else { panic!("{pushed:?}") };
        assert_eq!(first_sequence, next);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let header = tapedb_codec::batch::BatchHeader::parse_stored(rest).unwrap();
            assert_eq!(header.first_sequence, next);
            next += u64::from(header.count);
            rest = &rest[header.batch_bytes()..];
        }
        next
    };
    while take(pushed(&mut client, watching)) < 50_000 {}
    append_here(&served, "AIG", 1_000_000, 7);
    assert_eq!(take(pushed(&mut client, watching)), 50_007);
    assert!(served.metric("tapedb_pushes_from_files_total") > 1);
}

#[test]
fn without_credit_nothing_is_pushed_and_appends_go_on() {
    let (served, mut client, stream_id) = stream(Durability::Async);
    let watching = watch(&mut client, stream_id, 1000, 0);
    for i in 0..100 {
        append_here(&served, "AIG", i * 100, 50);
    }
    let Pushed::Batches { first_sequence: 0, bytes, .. } = pushed(&mut client, watching) else { panic!() };
    let mut arrived = bytes.len();
    // Nothing more is pushed: the next message is the answer to a ping.
    client.send(0, &ToServer::Ping { number: 5 });
    let mut next = client.receive(|channel, message| match message {
        ToClient::Pong { number: 5 } if channel == 0 => None,
        ToClient::Grown { batches, .. } => Some(batches.0.len()),
        other => panic!("{other:?}"),
    });
    while let Some(bytes) = next {
        arrived += bytes;
        assert!(arrived < 5000, "pushes are limited by credit");
        next = client.receive(|_, message| match message {
            ToClient::Pong { .. } => None,
            ToClient::Grown { batches, .. } => Some(batches.0.len()),
            other => panic!("{other:?}"),
        });
    }
    assert!(served.metric("tapedb_watch_lag_messages_max") > 4000);
    client.send(watching, &ToServer::Credit { bytes: 1 << 24 });
    let mut last = 0;
    while last < 5000 {
        let Pushed::Batches { first_sequence, bytes, .. } = pushed(&mut client, watching) else { panic!() };
        let mut rest = &bytes[..];
        last = first_sequence;
        while !rest.is_empty() {
            let header = tapedb_codec::batch::BatchHeader::parse_stored(rest).unwrap();
            last += u64::from(header.count);
            rest = &rest[header.batch_bytes()..];
        }
    }
    assert_eq!(served.metric("tapedb_watch_lag_messages_max"), 0);
}

#[test]
fn a_watch_ends_at_its_lag_limit() {
    let (served, mut client, stream_id) = stream(Durability::Async);
    let watching = watch(&mut client, stream_id, 100, 20_000);
    for i in 0..100 {
        append_here(&served, "AIG", i * 100, 50);
    }
    let reason = loop {
        match pushed(&mut client, watching) {
            Pushed::Failed(reason) => break reason,
            Pushed::Batches { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(reason.contains("bytes behind, where at most 20000"), "{reason}");
    assert_eq!(served.metric("tapedb_watches_too_slow_total"), 1);
    assert_eq!(client.streams(), ["s"], "the connection goes on");
}

#[test]
fn symbols_and_changes_are_pushed_before_batches() {
    let (served, mut client, stream_id) = stream(Durability::Async);
    let watching = watch(&mut client, stream_id, 1 << 20, 0);
    append_here(&served, "BAC", 5, 1);
    let pushes = [pushed(&mut client, watching), pushed(&mut client, watching)];
    assert_eq!(pushes[0], Pushed::Symbols(1, vec!["BAC".into()]));
    assert!(matches!(pushes[1], Pushed::Batches { .. }), "{pushes:?}");
    let mut other = served.client();
    let target = Target { stream_id, name: "s".into() };
    other.command(&Command::Seal { stream: target }).unwrap();
    assert_eq!(pushed(&mut client, watching), Pushed::Changed);
    other.command(&Command::RenameStream { name: "s".into(), new: "t".into() }).unwrap();
    loop {
        match pushed(&mut client, watching) {
            Pushed::Changed => {}
            push => break assert_eq!(push, Pushed::Gone(Some("t".into()))),
        }
    }
    assert_eq!(client.streams(), ["t"]);
}

#[test]
fn sealed_messages_are_skipped() {
    let (served, mut client, stream_id) = stream(Durability::Async);
    append_here(&served, "AIG", 0, 100);
    served.server().database().stream("s").unwrap().seal().unwrap();
    append_here(&served, "AIG", 1000, 5);
    let watching = watch(&mut client, stream_id, 1 << 20, 0);
    assert_eq!(pushed(&mut client, watching), Pushed::Skipped(0, 100));
    assert!(matches!(pushed(&mut client, watching), Pushed::Batches { first_sequence: 100, .. }));
}

#[test]
fn rights_limit_what_users_do_and_see() {
    let users = [
        user("reader", "us.*", &[May::Read]),
        user("writer", "us.*", &[May::Write]),
        user("admin", "*", &[May::Create, May::Admin]),
    ];
    let served = serve_with(&users, |_| {});
    let client = |name: &str| served.client_as(Login::Token(&format!("tape_{name}")));
    let (mut reader, mut writer, mut admin) = (client("reader"), client("writer"), client("admin"));
    let us = admin.create("us.ticks", StreamOptions::default()).unwrap();
    let eu = admin.create("eu.ticks", StreamOptions::default()).unwrap();
    assert_eq!(admin.streams(), ["eu.ticks", "us.ticks"]);
    assert_eq!(reader.streams(), ["us.ticks"]);
    assert_eq!(reader.describe("us.ticks").unwrap().0, us);
    let reason = reader.describe("eu.ticks").unwrap_err();
    assert!(reason.contains("us.ticks") && !reason.replace("eu.ticks", "").contains("eu"), "{reason}");
    assert_eq!(
        reader.describe("eu.ticks").unwrap_err(),
        reader.describe("xx.ticks").unwrap_err().replace("xx", "eu"),
        "a hidden stream is reported as missing"
    );
    for stream_id in [us, eu] {
        assert!(reader.add_symbols(stream_id, &["AIG"]).is_err());
        assert!(admin.add_symbols(stream_id, &["AIG"]).is_err());
    }
    let reason = reader.add_symbols(us, &["AIG"]).unwrap_err();
    assert!(reason.contains("no right to write stream \"us.ticks\""), "{reason}");
    assert_eq!(writer.add_symbols(us, &["AIG"]), Ok(vec![0]));
    let forbidden = |client: &mut Client<TcpStream>, message: &ToServer<'_>| {
        client.answer(message, |answer| match answer {
            ToClient::Failed { failure } => failure.texts.join(": "),
            other => panic!("{other:?}"),
        })
    };
    let name = "0/00000000000000000000.log";
    let open = ToServer::OpenFile { stream_id: us, name };
    assert!(forbidden(&mut writer, &open).contains("no right to read"));
    let watch = ToServer::Watch { stream_id: us, credit: 1, lag_max: 0, from: vec![0] };
    assert!(forbidden(&mut writer, &watch).contains("no right to read"));
    let load = ToServer::Load { stream_id: us, space: 0, producer: 0 };
    assert!(forbidden(&mut reader, &load).contains("no right to write"));
    for command in [
        Command::DeleteStream { name: "us.ticks".into() },
        Command::RenameStream { name: "us.ticks".into(), new: "us.other".into() },
        Command::CreateStream {
            name: "us.new".into(),
            schema: crate::support::SCHEMA.into(),
            options: String::new(),
        },
    ] {
        assert!(writer.command(&command).unwrap_err().contains("no right to"), "{command:?}");
    }
    assert!(served.metric("tapedb_requests_forbidden_total") > 5);
    assert!(served.audit().contains(r#""event":"forbidden","user":"writer""#));
}

#[test]
fn limits_of_a_user_cover_all_connections() {
    let limits = UserLimits { connections_max: Some(2), watches_max: Some(1), ..UserLimits::default() };
    let ann = tapedb_access::User { limits, ..user("ann", "*", &[May::Read, May::Create]) };
    let served = serve_with(&[ann], |_| {});
    let login = Login::Token("tape_ann");
    let (mut first, mut second) = (served.client_as(login), served.client_as(login));
    let reason = served.connect().hello(login).unwrap_err();
    assert!(reason.contains("limit of connections"), "{reason}");
    let stream_id = first.create("s", StreamOptions::default()).unwrap();
    let watching = watch(&mut first, stream_id, 1, 0);
    let asked = ToServer::Watch { stream_id, credit: 1, lag_max: 0, from: vec![0] };
    let failed = second.answer(&asked, |answer| matches!(answer, ToClient::Failed { .. }));
    assert!(failed);
    first.send(watching, &ToServer::Close {});
    first.receive(|channel, message| assert_eq!((channel, message), (watching, ToClient::Closed {})));
    watch(&mut second, stream_id, 1, 0);
}

#[test]
fn streams_below_the_minimum_durability_are_refused() {
    let served = serve(|config| config.durability_min = tapedb_server::DurabilityMin::Sync);
    let mut client = served.client();
    for durability in [Durability::Transient, Durability::Async] {
        assert!(client.create("s", options(durability)).unwrap_err().contains("durability sync"));
    }
    client.create("s", options(Durability::Sync)).unwrap();
}
