//! Rights depend on a stream's current name: a stream opened under one name cannot be read under another name that the
//! user may not see, and ids do not reveal names.

use crate::session::{Pushed, pushed, watch};
use crate::support::{Client, Served, batch, serve_with, user};
use std::net::TcpStream;
use tapedb_access::May;
use tapedb_engine::{Command, StreamOptions, Target};
use tapedb_schema::Timestamp;
use tapedb_wire::{Login, Rest, ToClient, ToServer};

const LOG: &str = "0/00000000000000000000.log";

/// A server with the stream `public.s` of ten messages, its id, and a client with rights to public streams.
fn public() -> (Served, u64, Client<TcpStream>) {
    let served = serve_with(&[user("ann", "public.*", &[May::Read, May::Write, May::Admin])], |_| {});
    let stream = served
        .server()
        .database()
        .create_stream("public.s", crate::support::SCHEMA.parse().unwrap(), StreamOptions::default())
        .unwrap();
    append_here(&served, "public.s", 10);
    let client = served.client_as(Login::Token("tape_ann"));
    (served, stream.id(), client)
}

fn append_here(served: &Served, stream: &str, count: i64) {
    let mut loader = served.server().database().stream(stream).unwrap().loader().unwrap();
    for time in 0..count {
        loader.append_body("AIG", Timestamp(time), 0, &0f64.to_le_bytes()).unwrap();
    }
    loader.flush().unwrap();
}

fn rename(served: &Served, name: &str, new: &str) {
    served.server().database().rename_stream(name, new).unwrap();
}

/// The error of a request that must fail.
fn failure(client: &mut Client<TcpStream>, message: &ToServer<'_>) -> String {
    client.answer(message, |answer| match answer {
        ToClient::Failed { failure } => failure.texts.join(": "),
        other => panic!("{other:?}"),
    })
}

fn open(client: &mut Client<TcpStream>, stream_id: u64) -> u32 {
    client.answer(&ToServer::OpenFile { stream_id, name: LOG }, |answer| match answer {
        ToClient::Opened { file, .. } => file,
        other => panic!("{other:?}"),
    })
}

fn read(client: &mut Client<TcpStream>, file: u32) -> Result<usize, String> {
    client.answer(&ToServer::ReadFile { file, offset: 0, len: 1 << 16 }, |answer| match answer {
        ToClient::Bytes { bytes } => Ok(bytes.0.len()),
        ToClient::Failed { failure } => Err(failure.texts.join(": ")),
        other => panic!("{other:?}"),
    })
}

fn load(client: &mut Client<TcpStream>, stream_id: u64) -> u32 {
    let load = client.ask(&ToServer::Load { stream_id, space: 0, producer: 7 });
    client.receive(|on, message| assert_eq!((on, message), (load, ToClient::Loading { last_number: 0 })));
    load
}

#[test]
fn access_ends_when_the_stream_is_renamed_out_of_reach() {
    let (served, stream_id, mut client) = public();
    client.describe("public.s").unwrap();
    let file = open(&mut client, stream_id);
    let load = load(&mut client, stream_id);
    let watching = watch(&mut client, stream_id, 1 << 20, 0);
    while !matches!(pushed(&mut client, watching), Pushed::Batches { .. }) {}
    let before = read(&mut client, file).unwrap();
    rename(&served, "public.s", "secret.s");
    append_here(&served, "secret.s", 1000);

    assert_eq!(pushed(&mut client, watching), Pushed::Gone(None), "the new name is not revealed");
    let mut errors = vec![read(&mut client, file).expect_err(&format!("{before} bytes before"))];
    errors.push(failure(&mut client, &ToServer::FileLen { file }));
    errors.push(failure(&mut client, &ToServer::OpenFile { stream_id, name: LOG }));
    errors.push(failure(&mut client, &ToServer::AddSymbols { stream_id, names: vec!["X"] }));
    errors.push(failure(&mut client, &ToServer::Watch { stream_id, credit: 1, lag_max: 0, from: vec![0] }));
    errors.push(failure(&mut client, &ToServer::Load { stream_id, space: 0, producer: 8 }));
    client.send(load, &ToServer::Append { number: 1, batch: Rest(&batch(1, 5)) });
    client.send(load, &ToServer::Flush {});
    errors.push(client.receive(|_, message| match message {
        ToClient::AppendFailed { number: 1, failure } => failure.texts.join(": "),
        other => panic!("{other:?}"),
    }));
    for error in errors {
        assert!(!error.contains("secret"), "{error}");
    }
    let stream = served.server().database().stream("secret.s").unwrap();
    assert_eq!(stream.stats().unwrap().messages, 1010);

    // Deleted under the hidden name, it is still not readable.
    drop(stream);
    served.server().database().delete_stream("secret.s").unwrap();
    read(&mut client, file).unwrap_err();
}

#[test]
fn access_continues_when_the_new_name_may_be_read() {
    let (served, stream_id, mut client) = public();
    client.describe("public.s").unwrap();
    let file = open(&mut client, stream_id);
    let mut watcher = served.client_as(Login::Token("tape_ann"));
    watcher.describe("public.s").unwrap();
    let watching = watch(&mut watcher, stream_id, 1 << 20, 0);
    let before = read(&mut client, file).unwrap();
    rename(&served, "public.s", "public.t");
    assert_eq!(read(&mut client, file), Ok(before));
    loop {
        match pushed(&mut watcher, watching) {
            Pushed::Gone(renamed) => break assert_eq!(renamed.as_deref(), Some("public.t")),
            Pushed::Batches { .. } | Pushed::Symbols(..) => {}
            other => panic!("{other:?}"),
        }
    }
    // Renamed out of reach and back.
    rename(&served, "public.t", "secret.t");
    read(&mut client, file).unwrap_err();
    rename(&served, "secret.t", "public.u");
    assert_eq!(read(&mut client, file), Ok(before), "names in between do not matter");
}

#[test]
fn open_files_of_a_deleted_stream_can_be_read() {
    let (served, stream_id, mut client) = public();
    client.describe("public.s").unwrap();
    let file = open(&mut client, stream_id);
    let before = read(&mut client, file).unwrap();
    served.server().database().delete_stream("public.s").unwrap();
    assert_eq!(read(&mut client, file), Ok(before));
}

#[test]
fn ids_reveal_no_streams() {
    let (served, stream_id, mut client) = public();
    rename(&served, "public.s", "secret.s");
    for id in [stream_id, 12345] {
        for name in ["public.s", "public.x", "secret.s", "", "secret.x"] {
            let target = || Target { stream_id: id, name: name.into() };
            let options = StreamOptions::default().to_text();
            let commands = [
                Command::Stats { stream: target() },
                Command::MaintenanceFailure { stream: target() },
                Command::Seal { stream: target() },
                Command::Alter { stream: target(), options },
                Command::Delete { stream: target(), from: 0, last: 1, symbols: None },
                Command::RenameSymbol { stream: target(), id: 0, old: "AIG".into(), new: "X".into() },
            ];
            for command in commands {
                let error = client.command(&command).unwrap_err();
                // Except the name that the client has sent.
                assert!(!error.replace(name, "").contains("secret"), "{command:?}: {error}");
            }
        }
        let errors = [
            failure(&mut client, &ToServer::OpenFile { stream_id: id, name: LOG }),
            failure(&mut client, &ToServer::AddSymbols { stream_id: id, names: vec!["X"] }),
            failure(&mut client, &ToServer::Load { stream_id: id, space: 0, producer: 0 }),
            failure(&mut client, &ToServer::Watch { stream_id: id, credit: 1, lag_max: 0, from: vec![0] }),
        ];
        assert!(errors.iter().all(|error| !error.contains("secret")), "{errors:?}");
        let alike = errors.map(|error| error.replace(&format!("{id:016x}"), "ID"));
        assert!(alike.iter().all(|error| error == "with id ID"), "as for missing streams: {alike:?}");
    }
}
