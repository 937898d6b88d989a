//! Start, monitoring and shutdown of a server.

use crate::session::watch;
use crate::support::{Client, Served, batch, serve, serve_with, user};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tapedb_access::{May, Right, User};
use tapedb_server::{Component, Config, MetricsPage, Server};
use tapedb_wire::{Login, Rest, ToClient, ToServer};

#[test]
fn health_and_metrics_are_served() {
    let served = serve(|_| {});
    let mut client = served.client();
    client.create("s", Default::default()).unwrap();
    let health = served.page("/health");
    assert!(health.starts_with("HTTP/1.1 200 OK") && health.contains(r#""status":"ok""#), "{health}");
    assert_eq!(served.metric("tapedb_connections"), 1);
    assert!(served.metric("tapedb_requests_total") >= 2);
    assert!(served.metric("tapedb_received_bytes_total") > 50);
    assert!(served.metric("tapedb_sent_bytes_total") > 50);
    assert!(served.audit().contains(r#""event":"create","user":"anonymous""#));
}

#[derive(Debug, Default)]
struct TestComponent {
    has_failed: AtomicBool,
}

impl Component for TestComponent {
    fn metrics(&self, page: &mut MetricsPage) {
        page.counters("test_things", "Things.");
        page.line("test_things_total", &[("kind", "a")], 7);
        page.gauge("test_failed", "Whether.", u8::from(self.has_failed.load(Ordering::Relaxed)));
    }

    fn problems(&self) -> Vec<(String, String)> {
        let has_failed = self.has_failed.load(Ordering::Relaxed);
        if has_failed { vec![("test".into(), "it has failed".into())] } else { Vec::new() }
    }
}

#[test]
fn components_are_part_of_metrics_and_health() {
    let (served, component) = (serve(|_| {}), Arc::new(TestComponent::default()));
    served.server().add_component(component.clone());
    assert!(served.page("/metrics").contains("\ntapedb_test_things_total{kind=\"a\"} 7\n"));
    assert!(served.page("/health").contains(r#""status":"ok""#));
    component.has_failed.store(true, Ordering::Relaxed);
    assert_eq!(served.metric("tapedb_test_failed"), 1);
    let health = served.page("/health");
    assert!(
        health.contains(r#""status":"degraded""#) && health.contains(r#""test":"it has failed""#),
        "{health}"
    );
}

#[test]
fn settings_of_the_command_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let plain = Config { database: directory.path().join("db"), ..Config::default() };
    let copies = Config { copy_topics: vec!["quotes".parse().unwrap()], ..plain.clone() };
    let awake = Config { keep_awake: true, ..plain };
    for (config, component) in [(copies, "tapedb_topic_copy::Copier"), (awake, "tapedb_shm::Awake")] {
        let error = Server::start(config).unwrap_err().to_string();
        assert!(error.contains(component), "{error}");
    }
}

#[test]
fn a_second_server_cannot_open_the_database() {
    let served = serve(|_| {});
    let config = Config {
        database: served.directory.path().join("db"),
        listen: "127.0.0.1:0".parse().unwrap(),
        http: "off".parse().unwrap(),
        ..Config::default()
    };
    let error = Server::start(config).unwrap_err().to_string();
    assert!(error.contains("open for writing elsewhere"), "{error}");
}

#[test]
fn an_address_in_use_is_named() {
    let served = serve(|_| {});
    let (address, directory) = (served.address(), tempfile::tempdir().unwrap());
    let config =
        Config { database: directory.path().join("db"), listen: address.into(), ..Config::default() };
    let error = Server::start(config).unwrap_err().to_string();
    assert!(error.contains(&format!("listen on {address}")), "{error}");
}

#[test]
fn clients_are_notified_of_a_shutdown() {
    let mut served = serve(|_| {});
    let mut clients = [served.client(), served.client()];
    let address = served.address();
    assert_eq!(served.server.take().unwrap().shutdown(), 0, "no connection is abandoned");
    for client in &mut clients {
        let reason = client.close_reason().unwrap_or_default();
        assert!(reason.contains("shutting down"), "{reason:?}");
    }
    assert!(TcpStream::connect(address).is_err());
    // The database can be opened again.
    tapedb_engine::Database::open(served.directory.path().join("db")).unwrap();
}

#[test]
fn users_are_reloaded_while_the_server_runs() {
    let served = serve_with(&[user("ann", "*", &[May::Read])], |_| {});
    let path = served.directory.path().join("users.toml");
    assert!(served.connect().hello(Login::Token("tape_bob")).is_err());
    tapedb_access::Users { users: vec![user("bob", "*", &[May::Read])] }.write(&path).unwrap();
    served.server().reload_users().unwrap();
    assert_eq!(served.connect().hello(Login::Token("tape_bob")), Ok("bob".into()));
    assert!(served.connect().hello(Login::Token("tape_ann")).is_err());
}

/// Replaces the users while the server runs.
fn set_users(served: &Served, users: &[User]) {
    let path = served.directory.path().join("users.toml");
    tapedb_access::Users { users: users.to_vec() }.write(&path).unwrap();
    served.server().reload_users().unwrap();
}

fn failure(client: &mut Client<TcpStream>, asked: u32) -> String {
    client.receive(|channel, message| match message {
        ToClient::Failed { failure } if channel == asked => failure.texts.join(": "),
        other => panic!("{other:?} on channel {channel}"),
    })
}

#[test]
fn a_removed_right_ends_watches_and_loads() {
    let ann = user("ann", "*", &[May::Read, May::Write, May::Create]);
    let served = serve_with(std::slice::from_ref(&ann), |_| {});
    let mut client = served.client_as(Login::Token("tape_ann"));
    let (us, eu) =
        (client.create("us", Default::default()).unwrap(), client.create("eu", Default::default()).unwrap());
    client.add_symbols(us, &["AIG"]).unwrap();
    let file =
        client.answer(&ToServer::OpenFile { stream_id: us, name: "0/00000000000000000000.log" }, |answer| {
            match answer {
                ToClient::Opened { file, .. } => file,
                other => panic!("{other:?}"),
            }
        });
    let (watch_us, watch_eu) = (watch(&mut client, us, 1000, 0), watch(&mut client, eu, 1000, 0));
    let load = client.ask(&ToServer::Load { stream_id: us, space: 0, producer: 0 });
    client.receive(|channel, message| {
        assert_eq!((channel, message), (load, ToClient::Loading { last_number: 0 }))
    });
    // The user may still read one of the streams, and write the other.
    let rights = vec![rights_to("eu", May::Read), rights_to("us", May::Write)];
    set_users(&served, &[User { rights, ..ann.clone() }]);
    let reason = failure(&mut client, watch_us);
    assert!(reason.contains("no right to read stream \"us\""), "{reason}");
    let read = ToServer::ReadFile { file, offset: 0, len: 10 };
    let asked = client.ask(&read);
    assert!(failure(&mut client, asked).contains("no right to read stream \"us\""));
    client.send(load, &ToServer::Append { number: 1, batch: Rest(&batch(1, 5)) });
    client.send(load, &ToServer::Flush {});
    client.receive(|channel, message| {
        assert!(channel == load && matches!(message, ToClient::Appended { number: 1, .. }), "{message:?}");
    });
    // Now the user may write no stream.
    set_users(&served, &[User { rights: vec![rights_to("eu", May::Read)], ..ann.clone() }]);
    assert!(failure(&mut client, load).contains("no right to write stream \"us\""));
    assert_eq!(client.streams(), ["eu"], "the connection goes on");
    append_to(&served, "eu");
    client.receive(|channel, message| {
        assert!(channel == watch_eu && matches!(message, ToClient::Symbols { .. }), "{message:?}");
    });
}

fn rights_to(streams: &str, may: May) -> Right {
    Right { streams: streams.into(), may: vec![may] }
}

fn append_to(served: &Served, stream: &str) {
    let mut loader = served.server().database().stream(stream).unwrap().loader().unwrap();
    loader.append_body("AIG", tapedb_schema::Timestamp(1), 0, &0f64.to_le_bytes()).unwrap();
    loader.flush().unwrap();
}

#[test]
fn removed_users_are_disconnected_and_others_stay() {
    let (ann, bob) = (user("ann", "*", &[May::Read]), user("bob", "*", &[May::Read]));
    let served = serve_with(&[ann.clone(), bob.clone()], |_| {});
    let mut clients = ["tape_ann", "tape_bob"].map(|token| served.client_as(Login::Token(token)));
    let mut by_password = served.client_as(Login::Password { user: "ann", password: "secret-ann" });
    // Removes a token, which another connection of the same user does not use.
    set_users(&served, &[User { tokens: vec![], ..ann }, bob.clone()]);
    let reason = clients[0].close_reason().unwrap_or_default();
    assert!(reason.contains("was removed"), "{reason:?}");
    assert_eq!(by_password.streams(), Vec::<String>::new());
    set_users(&served, std::slice::from_ref(&bob));
    assert!(by_password.close_reason().unwrap_or_default().contains("was removed"));
    assert_eq!(clients[1].streams(), Vec::<String>::new());
    // An invalid file changes nothing.
    std::fs::write(served.directory.path().join("users.toml"), "nonsense").unwrap();
    assert!(served.server().reload_users().is_err());
    assert_eq!(clients[1].streams(), Vec::<String>::new());
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_only_for_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    let mut path = std::path::PathBuf::new();
    let mut served = serve(|config| {
        path = config.database.with_file_name("socket");
        config.unix_socket = Some(path.clone());
        config.listen = "off".parse().unwrap();
    });
    assert_eq!(served.server().addresses().unix.as_ref(), Some(&path));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let socket = UnixStream::connect(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut client = Client::new(socket);
    assert_eq!(client.hello(Login::Anonymous), Ok("anonymous".into()));
    assert_eq!(client.streams(), Vec::<String>::new());
    let second = Config {
        database: path.with_file_name("other"),
        listen: "off".parse().unwrap(),
        http: "off".parse().unwrap(),
        unix_socket: Some(path.clone()),
        ..Config::default()
    };
    let error = Server::start(second.clone()).unwrap_err().to_string();
    assert!(error.contains("another server listens there"), "{error}");
    served.server.take();
    assert!(!path.exists());
    // A socket that a killed server has left is replaced; another file is not.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    drop(Server::start(second.clone()).unwrap());
    std::fs::write(&path, "precious").unwrap();
    assert!(Server::start(second).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}
