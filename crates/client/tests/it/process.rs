//! A server in its own process, which runs this test's binary in another role.

use crate::served::{Tcp, Transport};
use crate::support::reopen;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use tapedb_client::{Client, Options};
use tapedb_engine::Database;
use tapedb_server::{Config, Server};

const HOME: &str = "TAPEDB_TEST_SERVER_HOME";
const PORT: &str = "TAPEDB_TEST_SERVER_PORT";

/// Listens over TCP and on a Unix socket, at the same addresses after a restart.
pub struct Process {
    home: PathBuf,
    port: u16,
    child: Child,
}

impl Process {
    pub fn start(home: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { home: home.into(), port, child: child(home, port) }
    }

    pub fn kill_and_start_again(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = child(&self.home, self.port);
    }

    /// Resident memory, in bytes.
    #[cfg(target_os = "linux")]
    pub fn resident_bytes(&self) -> u64 {
        let pages = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    pub fn over_tcp(&self) -> Database {
        connect(self.url())
    }

    /// The address over TCP.
    pub fn url(&self) -> String {
        format!("tape://127.0.0.1:{}", self.port)
    }

    pub fn over_unix(&self) -> Database {
        connect(format!("tape+unix://{}", self.home.join("socket").display()))
    }

    pub fn over_memory(&self) -> Database {
        connect(format!("tape+shm://{}", self.home.join("socket").display()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This binary as a server.
fn child(home: &Path, port: u16) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "process::server_of_another_test", "--nocapture"]).stdout(Stdio::null());
    command.env(HOME, home).env(PORT, port.to_string()).spawn().unwrap()
}

/// Does nothing except in a child process, which serves until it is killed.
#[test]
fn server_of_another_test() {
    let (Some(home), Ok(port)) = (std::env::var_os(HOME), std::env::var(PORT)) else { return };
    let home = Path::new(&home);
    let mut config = Config { http: "off".parse().unwrap(), ..Config::default() };
    Tcp::listen(&mut config, home);
    config.listen = format!("127.0.0.1:{port}").parse().unwrap();
    config.unix_socket = Some(home.join("socket"));
    let _server = Server::start_with(config, reopen(&home.join("db"))).unwrap();
    loop {
        thread::park();
    }
}

/// Connects to a server that may be starting, or may be killed.
fn connect(url: String) -> Database {
    let options = Options { load_window_bytes: 64 << 10, ..Options::default() };
    for _ in 0..10_000 {
        match Client::at(&url).options(options.clone()).connect() {
            Ok(db) => return db,
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
    panic!("no server at {url}")
}
