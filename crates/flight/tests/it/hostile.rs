//! Bytes and messages that no client sends.

use crate::fixture::{Served, Setup, until};
use arrow_flight::sql::{
    CommandPreparedStatementQuery, CommandStatementIngest, ProstMessageExt, TableDefinitionOptions,
};
use arrow_flight::{Action, FlightData, FlightDescriptor, Ticket};
use futures::stream;
use prost::Message;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn bytes_that_are_no_calls_end_their_connection() {
    let served = Served::start();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"\0\0\0\x08\x04\xd2\x16\x2f and more than a preface has",
        &[0xff; 4096],
        &[&preface[..], &[0xff; 64]].concat(),
        &[&preface[..], b"\xff\xff\xff\x01\x05\0\0\0\x01"].concat(),
        &[&preface[..], b"\0\0\0\x04\0\0\0\0\0", b"\0\0\x04\x08\0\0\0\0\0\0\0\0\0"].concat(),
    ] {
        let mut socket = TcpStream::connect(served.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let _ = socket.write_all(bytes);
        let mut rest = Vec::new();
        match socket.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{bytes:?}"),
        }
    }
    let mut client = served.client();
    assert_eq!(served.count(&mut client, "SELECT 1"), Ok(1), "others are served");
}

#[test]
fn connections_without_a_user_end() {
    let served = Served::with(Setup {
        has_users: true,
        connections_max: Some(3),
        // Much longer than a password takes to be checked, also where other tests have the processors.
        handshake_time: Some(Duration::from_secs(4)),
        ..Setup::default()
    });
    let silent: Vec<TcpStream> = (0..10).map(|_| TcpStream::connect(served.address).unwrap()).collect();
    until("they are closed", || served.flight().connections() == 0);
    for mut socket in silent {
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // Only what HTTP/2 begins with.
        let mut sent = Vec::new();
        assert!(socket.read_to_end(&mut sent).is_err() || sent.len() < 200, "{sent:?}");
    }
    let mut ann = served.login("ann", "secret");
    std::thread::sleep(Duration::from_millis(4_500));
    assert_eq!(served.count(&mut ann, "SELECT 1"), Ok(1), "a connection with a user goes on");
}

#[test]
fn messages_that_are_none_are_refused() {
    let served = Served::start();
    let mut client = served.client();
    let inner = client.inner_mut();
    let command = CommandStatementIngest {
        table_definition_options: Some(TableDefinitionOptions { if_not_exist: 1, if_exists: 2 }),
        table: "mine".into(),
        ..CommandStatementIngest::default()
    };
    let ingest = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let unknown = CommandPreparedStatementQuery { prepared_statement_handle: vec![7; 16].into() };
    let prepared = FlightDescriptor::new_cmd(unknown.as_any().encode_to_vec());
    served.runtime.block_on(async {
        for cmd in [&b""[..], b"\xff", b"\x0a\xff\xff\xff\xff\x0f", &[0x0a; 1000]] {
            assert!(inner.get_flight_info(FlightDescriptor::new_cmd(cmd.to_vec())).await.is_err());
            assert!(inner.do_get(Ticket::new(cmd.to_vec())).await.is_err());
            for action in [
                "CreatePreparedStatement",
                "ClosePreparedStatement",
                "CancelQuery",
                "BeginTransaction",
                "Nothing",
                "",
            ] {
                assert!(
                    inner.do_action(Action::new(action, cmd.to_vec())).await.is_err(),
                    "{action} {cmd:?}"
                );
            }
        }
        let long = FlightDescriptor::new_cmd(vec![b' '; 5 << 20]);
        assert!(inner.get_flight_info(long).await.is_err(), "a message of more than 4 MiB");
        for descriptor in [Some(ingest.clone()), Some(prepared), None] {
            for (head, body) in [
                (&b"\xff"[..], &b""[..]),
                (b"", b"body"),
                (&[0xff; 64], b"body"),
                (b"\x10\0\0\0\0\0\0\0\0\0\0\0\x7f\xff\xff\xff", b""),
            ] {
                let message = FlightData {
                    flight_descriptor: descriptor.clone(),
                    data_header: head.to_vec().into(),
                    data_body: body.to_vec().into(),
                    ..FlightData::default()
                };
                assert!(inner.do_put(stream::iter([message])).await.is_err(), "{head:?}");
            }
        }
        let nothing = inner.do_put(stream::iter(Vec::<FlightData>::new())).await;
        assert!(nothing.is_err());
    });
    assert!(served.db.stream("mine").is_err(), "nothing was created");
    assert_eq!(served.count(&mut client, "SELECT 1"), Ok(1));
}
