//! How a server begins, is looked at, and ends.

use crate::support::{Client, serve, serve_with, user};
use std::time::Duration;
use tapedb_server::{Config, May, Server};
use tapedb_wire::Login;

#[test]
fn health_and_metrics_are_there() {
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

#[test]
fn a_second_server_does_not_get_the_database() {
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
fn clients_are_told_when_the_server_ends() {
    let mut served = serve(|_| {});
    let mut clients = [served.client(), served.client()];
    let address = served.address();
    assert_eq!(served.server.take().unwrap().shutdown(), 0, "nobody is left behind");
    for client in &mut clients {
        let words = client.last_words().unwrap_or_default();
        assert!(words.contains("shutting down"), "{words:?}");
    }
    assert!(std::net::TcpStream::connect(address).is_err());
    // The database is free again.
    tapedb_engine::Database::open(served.directory.path().join("db")).unwrap();
}

#[test]
fn users_come_and_go_while_the_server_runs() {
    let served = serve_with(&[user("ann", "*", &[May::Read])], |_| {});
    let path = served.directory.path().join("users.toml");
    assert!(served.connect().hello(Login::Token("tape_bob")).is_err());
    tapedb_server::Users { users: vec![user("bob", "*", &[May::Read])] }.write(&path).unwrap();
    served.server().reload_users().unwrap();
    assert_eq!(served.connect().hello(Login::Token("tape_bob")), Ok("bob".into()));
    assert!(served.connect().hello(Login::Token("tape_ann")).is_err());
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_for_its_owner_alone() {
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
    assert_eq!(client.hello(Login::Anyone), Ok("anonymous".into()));
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
    // What a killed server leaves behind is replaced; what is no socket is not.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    drop(Server::start(second.clone()).unwrap());
    std::fs::write(&path, "precious").unwrap();
    assert!(Server::start(second).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}
