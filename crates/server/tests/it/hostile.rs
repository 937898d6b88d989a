//! Hostile and broken connections: each is closed with a clear reason, costs little, and harms no other client.

use crate::support::{Client, Served, is_gone, serve, serve_with, socket, user};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use tapedb_access::May;
use tapedb_server::{Config, Limits, Tls};
use tapedb_shm::Pipe;
use tapedb_wire::{ClientSession, FRAME_HEADER_BYTES, Login, PREFACE, SHM_REQUEST, ToServer, frame_header};

fn password<'a>(user: &'a str, password: &'a str) -> Login<'a> {
    Login::Password { user, password }
}

#[test]
fn bytes_of_other_protocols_are_refused() {
    let served = serve(|_| {});
    let mut neighbour = served.client();
    let mut unknown_kind = PREFACE.to_vec();
    unknown_kind.extend_from_slice(&frame_header(99, 0, 0));
    let mut request_before_hello = PREFACE.to_vec();
    ToServer::Streams {}.encode(1, &mut request_before_hello);
    let mut garbled_header = PREFACE.to_vec();
    garbled_header.extend_from_slice(&[5; 12]);
    for (bytes, expected) in [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), "HTTP"),
        (vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc], "TLS"),
        (vec![0xff; 100_000], "does not speak TapeDB's protocol"),
        (b"TAPEDB9\nxxxxxxxxxxxx".to_vec(), "another version of the protocol"),
        (unknown_kind, "unknown kind 99"),
        (request_before_hello, "hello must come first"),
        (garbled_header, "bytes was announced, where at most 65536"),
    ] {
        let mut client = served.connect();
        client.socket.write_all(&bytes).unwrap();
        let reason = client.close_reason().unwrap_or_default();
        assert!(reason.contains(expected), "{expected:?}: {reason:?}");
    }
    assert_eq!(neighbour.streams(), Vec::<String>::new(), "other clients are not affected");
    served.wait_until("they are removed", |served| served.server().connections() == 1);
}

#[test]
fn invalid_frames_close_the_connection() {
    let served = serve(|_| {});
    let mut truncated = Vec::new();
    ToServer::Describe { name: "a stream", known: None }.encode(1, &mut truncated);
    truncated.truncate(truncated.len() - 3);
    let len = truncated.len() as u32 - 12;
    truncated[..4].copy_from_slice(&len.to_le_bytes());
    let mut on_channel_0 = Vec::new();
    ToServer::Streams {}.encode(0, &mut on_channel_0);
    for (bytes, expected) in [
        (truncated, "ends too early"),
        (on_channel_0, "channel 0"),
        (frame_header(3, 1, 18 << 20).to_vec(), "was announced, where at most 17825792"),
        (frame_header(64, 1, 0).to_vec(), "unknown kind 64"),
    ] {
        let mut client = served.client();
        client.socket.write_all(&bytes).unwrap();
        let reason = client.close_reason().unwrap_or_default();
        assert!(reason.contains(expected), "{expected:?}: {reason:?}");
    }
}

#[test]
fn slow_hellos_time_out_and_block_no_others() {
    let served = serve(|config| {
        config.limits.handshake_ms_max = 500;
        config.limits.handshakes_max = 4;
    });
    let mut slow: Vec<_> = (0..4).map(|_| served.connect()).collect();
    for client in &mut slow {
        client.socket.write_all(&PREFACE[..3]).unwrap();
    }
    served.wait_until("all four are open", |served| served.server().connections() == 4);
    let reason = served.connect().close_reason().unwrap_or_default();
    assert!(reason.contains("are not authenticated yet"), "{reason:?}");
    for client in &mut slow {
        let reason = client.close_reason().unwrap_or_default();
        assert!(reason.contains("did not authenticate within 500 ms"), "{reason:?}");
    }
    served.wait_until("a permit is free again", |served| served.connect().hello(Login::Anonymous).is_ok());
}

#[test]
fn connections_above_the_limit_are_refused() {
    let served = serve(|config| {
        config.limits.connections_max = 20;
        config.limits.handshakes_max = 1000;
        // Those inside answer no pings; on a busy machine the others take long.
        config.limits.heartbeat_ms = 600_000;
    });
    let mut inside: Vec<_> = (0..20).map(|_| served.client()).collect();
    let mut refused = 0;
    for _ in 0..10_000 {
        let mut client = served.connect();
        refused +=
            usize::from(client.close_reason().is_some_and(|reason| reason.contains("limit of connections")));
    }
    assert_eq!(refused, 10_000);
    for client in &mut inside {
        assert_eq!(client.streams(), Vec::<String>::new());
    }
    assert_eq!(served.metric("tapedb_connections"), 20);
    assert_eq!(served.metric("tapedb_connections_refused_total"), 10_000);
    inside.clear();
    served.wait_until("all are closed", |served| served.server().connections() == 0);
    served.client();
}

#[test]
fn a_disconnect_within_a_frame_removes_the_connection() {
    let served = serve(|_| {});
    let mut hello = Vec::new();
    ClientSession::hello("test", Login::Anonymous, &mut hello);
    let mut describe = Vec::new();
    ToServer::Describe { name: "a stream", known: None }.encode(1, &mut describe);
    for cut in 0..hello.len() {
        let mut client = served.connect();
        client.socket.write_all(&hello[..cut]).unwrap();
        client.socket.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.close_reason(), None);
    }
    for cut in 1..describe.len() {
        let mut client = served.client();
        client.socket.write_all(&describe[..cut]).unwrap();
        client.socket.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.close_reason(), None);
    }
    served.wait_until("they are removed", |served| served.server().connections() == 0);
    assert_eq!(served.metric("tapedb_requests_total"), 0);
}

#[test]
fn a_frame_sent_byte_by_byte_delays_no_others() {
    let served = serve(|_| {});
    served
        .server()
        .database()
        .create_stream("s", crate::support::SCHEMA.parse().unwrap(), Default::default())
        .unwrap();
    let (mut slow, mut neighbour) = (served.client(), served.client());
    let mut describe = Vec::new();
    ToServer::Describe { name: "s", known: None }.encode(1, &mut describe);
    for byte in describe {
        slow.socket.write_all(&[byte]).unwrap();
        assert_eq!(neighbour.streams(), ["s"]);
    }
    let mut answer = [0; FRAME_HEADER_BYTES];
    slow.socket.read_exact(&mut answer).unwrap();
    assert_eq!((answer[4], answer[8]), (67, 1), "it is answered when it is complete");
}

#[test]
fn silent_connections_of_one_address_block_no_others() {
    let served = serve(|config| {
        config.unix_socket = Some(config.database.with_extension("sock"));
        config.limits.handshakes_per_address_max = 4;
    });
    let silent: Vec<_> = (0..4).map(|_| served.connect()).collect();
    served.wait_until("all four are open", |served| served.server().connections() == 4);
    let reason = served.connect().close_reason().unwrap_or_default();
    assert!(reason.contains("from this address are not authenticated yet"), "{reason:?}");
    let unix = UnixStream::connect(served.server().addresses().unix.as_ref().unwrap()).unwrap();
    assert_eq!(Client::new(unix).hello(Login::Anonymous), Ok("anonymous".into()), "it has its own limit");
    drop(silent);
    served.wait_until("a permit is free again", |served| served.connect().hello(Login::Anonymous).is_ok());
}

#[test]
fn wrong_passwords_do_not_block_clients_on_this_machine() {
    let users = [user("ann", "*", &[May::Read])];
    let served = serve_with(&users, |config| {
        config.limits.login_failures_max = 3;
        config.limits.login_failure_ms = 3_600_000;
    });
    let mut inside = served.client_as(password("ann", "secret-ann"));
    for login in [password("ann", "wrong"), password("bob", "secret-ann"), Login::Token("tape_bob")].repeat(3)
    {
        let reason = served.connect().hello(login).unwrap_err();
        assert!(reason.contains("user, password or token is wrong"), "{reason:?}");
    }
    served.client_as(password("ann", "secret-ann"));
    let reason = served.connect().hello(Login::Anonymous).unwrap_err();
    assert!(reason.contains("authentication is required"), "{reason:?}");
    assert_eq!(inside.streams(), Vec::<String>::new(), "open connections are not affected");
    assert_eq!(served.metric("tapedb_logins_failed_total"), 10);
    let audit = served.audit();
    assert!(audit.contains(r#""event":"login","user":"ann""#), "{audit}");
    assert!(audit.contains(r#""event":"refused""#) && audit.contains("bob"), "{audit}");
    assert!(!audit.contains("secret") && !audit.contains("tape_"), "{audit}");
}

#[test]
fn requests_of_a_client_that_reads_no_answers_are_not_read() {
    let served = serve(|config| config.limits.outbox_bytes_max = 256 << 10);
    served
        .server()
        .database()
        .create_stream("s", crate::support::SCHEMA.parse().unwrap(), Default::default())
        .unwrap();
    let mut stalled = served.client();
    stalled.socket.set_write_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    let mut question = Vec::new();
    ToServer::Describe { name: "s", known: None }.encode(7, &mut question);
    let questions = question.repeat(10_000);
    let mut asked = 0;
    // Until the server does not read any more, and the socket's buffers are full.
    while stalled.socket.write(&questions).is_ok() {
        asked += 1;
        assert!(asked < 10_000, "the server reads on");
    }
    assert!(served.metric("tapedb_connection_waiting_bytes") < 1 << 20);
    let mut neighbour = served.client();
    assert_eq!(neighbour.streams(), ["s"]);
}

#[test]
fn silent_clients_are_pinged_and_then_closed() {
    let served = serve(|config| config.limits.heartbeat_ms = 100);
    let mut lively = served.client();
    let mut silent = served.client();
    let reason = silent.close_reason().unwrap_or_default();
    assert!(reason.contains("silent for three heartbeats"), "{reason:?}");
    // The other client was pinged too; it may have been closed as well.
    lively.send(0, &ToServer::Ping { number: 1 });
    drop(lively);
}

fn tls(config: &mut Config) {
    let file = |name: &str| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testing/tls").join(name);
    config.tls = Some(Tls { certificate: file("server.pem"), key: file("server.key") });
}

fn encrypted(socket: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testing/tls/ca.pem");
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), socket)
}

#[test]
fn encrypted_clients_are_served() {
    let served = serve(tls);
    assert!(served.server().addresses().is_encrypted);
    let mut client = Client::new(encrypted(socket(served.address())));
    assert_eq!(client.hello(Login::Anonymous), Ok("anonymous".into()));
    let stream_id = client.create("s", Default::default()).unwrap();
    // More bytes than are encrypted at once, in both directions.
    let names: Vec<String> = (0..20_000).map(|i| format!("SYMBOL-{i:08}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(client.add_symbols(stream_id, &names), Ok((0..20_000).collect()));
    assert_eq!(client.describe("s"), Ok((stream_id, 20_000)));
}

#[test]
fn encrypted_and_plain_connections_do_not_mix() {
    let served = serve(tls);
    let mut plain = served.connect();
    let mut hello = Vec::new();
    ClientSession::hello("test", Login::Anonymous, &mut hello);
    plain.socket.write_all(&hello).unwrap();
    // At most a TLS alert comes back.
    let mut answer = Vec::new();
    if let Err(error) = plain.socket.read_to_end(&mut answer) {
        assert!(is_gone(&error), "{error}");
    }
    assert!(answer.len() < 20, "{answer:?}");
    let served = serve(|_| {});
    let mut client = encrypted(socket(served.address()));
    let failed = client.write_all(&PREFACE).and_then(|()| client.flush()).unwrap_err();
    assert!(!failed.to_string().is_empty());
    served.wait_until("it is removed", |served| served.server().connections() == 0);
    served.client();
}

/// A server that also listens on a Unix socket.
fn serve_locally(change: impl FnOnce(&mut Limits)) -> (tempfile::TempDir, Served) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let served = serve(|config| {
        config.unix_socket = Some(path);
        change(&mut config.limits);
    });
    (folder, served)
}

fn local(served: &Served) -> UnixStream {
    let socket = UnixStream::connect(served.server().addresses().unix.as_ref().unwrap()).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    socket
}

/// Shared memory, before the first frame.
fn memory(served: &Served) -> Pipe {
    let socket = local(served);
    (&socket).write_all(&SHM_REQUEST).unwrap();
    Pipe::accept(socket.into()).unwrap().unwrap()
}

/// All bytes until the server closes the connection.
fn all(pipe: &Pipe) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => return all,
            Ok(count) => all.extend_from_slice(&buffer[..count]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        if pipe.prepare_sleep(true, false).unwrap() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        pipe.end_sleep(true);
    }
}

#[test]
fn shared_memory_is_given_once_and_only_at_unix_sockets() {
    let (_folder, served) = serve_locally(|_| {});
    let mut over_tcp = served.connect();
    over_tcp.socket.write_all(&SHM_REQUEST).unwrap();
    let reason = over_tcp.close_reason().unwrap();
    assert!(reason.contains("over a Unix socket: tape+shm://"), "{reason}");

    let mut hasty = Client::new(local(&served));
    hasty.socket.write_all(&[&SHM_REQUEST[..], b"more"].concat()).unwrap();
    let reason = hasty.close_reason().unwrap();
    assert!(reason.contains("before anything else"), "{reason}");

    let twice = memory(&served);
    twice.write(&[IoSlice::new(&SHM_REQUEST)]).unwrap();
    let reason = String::from_utf8_lossy(&all(&twice)).into_owned();
    assert!(reason.contains("requested once"), "{reason}");

    let garbled = memory(&served);
    garbled.write(&[IoSlice::new(&[5; 600])]).unwrap();
    let reason = String::from_utf8_lossy(&all(&garbled)).into_owned();
    assert!(reason.contains("does not speak"), "{reason}");
    served.wait_until("they are removed", |served| served.server().connections() == 0);
}

#[test]
fn a_client_that_leaves_shared_memory_is_removed() {
    // The end of the connection itself must be detected, not the silence.
    let long = 3_600_000;
    let (_folder, served) =
        serve_locally(|limits| (limits.handshake_ms_max, limits.heartbeat_ms) = (long, long));
    let mut hello = Vec::new();
    ClientSession::hello("test", Login::Anonymous, &mut hello);
    for count in 0..=hello.len() {
        let pipe = memory(&served);
        pipe.write(&[IoSlice::new(&hello[..count])]).unwrap();
    }
    let mut ping = hello.clone();
    ToServer::Ping { number: 7 }.encode(0, &mut ping);
    for _ in 0..40 {
        let pipe = memory(&served);
        pipe.write(&[IoSlice::new(&hello)]).unwrap();
        // Most likely the server sleeps now, and is woken by the ping and the end at once.
        std::thread::sleep(std::time::Duration::from_millis(1));
        pipe.write(&[IoSlice::new(&ping[hello.len()..])]).unwrap();
    }
    // Notifications without data, and for clients that are gone.
    let noisy = local(&served);
    (&noisy).write_all(&SHM_REQUEST).unwrap();
    for _ in 0..1000 {
        if let Err(error) = (&noisy).write_all(&[0; 100]) {
            assert!(is_gone(&error), "{error}");
            break;
        }
    }
    drop(noisy);
    served.wait_until("they are removed", |served| served.server().connections() == 0);
    assert_eq!(served.client().streams(), Vec::<String>::new());
}

/// A client that does not read its answers: the server detects its end, whatever waits to be sent.
#[test]
fn a_client_that_leaves_unread_answers_is_removed() {
    let long = 3_600_000;
    let (_folder, served) =
        serve_locally(|limits| (limits.handshake_ms_max, limits.heartbeat_ms) = (long, long));
    let mut bytes = Vec::new();
    ClientSession::hello("test", Login::Anonymous, &mut bytes);
    for channel in 1..20_000 {
        ToServer::Describe { name: &"stream".repeat(40), known: None }.encode(channel, &mut bytes);
    }
    let pipe = memory(&served);
    let mut rest = &bytes[..];
    // Until the server does not read any more, because its answers have no space.
    while !rest.is_empty() {
        match pipe.write(&[IoSlice::new(rest)]) {
            Ok(count) => rest = &rest[count..],
            Err(_) if pipe.wait_for_space(std::time::Duration::from_millis(500)).unwrap() => {}
            Err(_) => break,
        }
    }
    assert!(!rest.is_empty(), "it reads without limit");
    drop(pipe);
    served.wait_until("it is removed", |served| served.server().connections() == 0);
}
