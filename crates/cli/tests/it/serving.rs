//! `tapedb server` and `tapedb user`.

use crate::support::{Place, Run, no_input};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running server, ended when dropped.
pub struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Served {
    /// Starts it, and waits for its addresses.
    pub fn start(directory: &Path, more: &[&str]) -> (Self, Value) {
        Self::start_with(directory, more, &std::env::temp_dir())
    }

    /// The same with another folder for temporary files.
    pub fn start_with(directory: &Path, more: &[&str], temporary: &Path) -> (Self, Value) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
        command.args([
            "--json",
            "server",
            "--listen",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--create",
            "--db",
        ]);
        command.arg(directory.join("db")).args(more).env("TMPDIR", temporary);
        command.stdin(no_input()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut served = Self(command.spawn().expect("the command runs"));
        let mut line = String::new();
        BufReader::new(served.0.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
        let ready = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        (served, ready)
    }

    /// Sends a signal, and waits for the end: its exit code and its log.
    #[cfg(unix)]
    pub fn end(mut self, signal: &str) -> (i32, String) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
        let mut log = String::new();
        self.0.stderr.take().expect("piped").read_to_string(&mut log).expect("text");
        (self.0.wait().expect("it ends").code().unwrap_or(-1), log)
    }
}

/// The command with a server instead of the database of a place, which is also its home. `{}` stands for the server.
pub fn remotely(place: &Place, ready: &Value, line: &str) -> Command {
    let url = format!("tape://{}", ready["tcp"].as_str().expect("it listens"));
    let line = if line.contains("{}") { line.replace("{}", &url) } else { format!("{line} --db {url}") };
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
    command.args(line.split_whitespace()).stdin(no_input());
    command.current_dir(place.path(".")).env("HOME", place.path("home"));
    command
}

pub fn run(mut command: Command) -> Run {
    Run::of(command.output().expect("the command runs"))
}

/// What the address answers, with its head.
pub fn page(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("it listens");
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
        .expect("it listens");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer");
    text
}

/// Runs `tapedb user` with a line of standard input.
fn user(users: &Path, line: &str, input: &str) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
    command.arg("user").args(line.split_whitespace()).arg("--users").arg(users);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command runs");
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
    (output.status.code().unwrap_or(-1), text)
}

#[cfg(unix)]
#[test]
fn a_server_prints_its_addresses_and_shuts_down_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let (served, ready) = Served::start(directory.path(), &[]);
    assert!(ready["tcp"].as_str().unwrap().starts_with("127.0.0.1:"), "{ready}");
    let http = ready["http"].as_str().unwrap();
    assert!(page(http, "/health").contains(r#""status":"ok""#));
    assert!(page(http, "/metrics").contains("\ntapedb_connections 0\n"));
    let (code, log) = served.end("-TERM");
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("shut down"), "{log}");
    assert!(directory.path().join("db").exists());
}

/// Removes a topic, and the folder of its database's topics.
#[cfg(target_os = "linux")]
struct Removed(tapedb_topic::Folder);

#[cfg(target_os = "linux")]
impl Drop for Removed {
    fn drop(&mut self) {
        let _ = tapedb_topic::Topic::delete(&self.0, "quotes");
        let _ = std::fs::remove_dir(self.0.path());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_copies_topics_and_what_was_published_before_its_end() {
    use tapedb_topic::{Folder, Topic, TopicOptions};
    let directory = tempfile::tempdir().unwrap();
    let (served, ready) = Served::start(directory.path(), &["--copy-topic", "quotes=copied"]);
    let http = ready["http"].as_str().unwrap();
    let metric = |name: &str, more: &str, value: u64| {
        let line =
            format!("\ntapedb_topic_copy_{name}{{topic=\"quotes\",stream=\"copied\"{more}}} {value}\n");
        page(http, "/metrics").contains(&line)
    };
    assert!(metric("state", ",state=\"waiting\"", 1) && metric("messages_total", "", 0));
    let db = directory.path().join("db");
    let removed = Removed(Folder::of_database(&db).unwrap());
    let schema = "message Quote { bid: i64 }".parse().unwrap();
    let topic = Topic::create(&removed.0, "quotes", &schema, &TopicOptions::default()).unwrap();
    let quote = topic.layouts().from_json(r#"{"$type": "Quote", "bid": 5}"#).unwrap();
    let mut publisher = topic.publisher().unwrap();
    let mut send = |count: i64| {
        for time in 0..count {
            let sent = publisher.publish_value("A", tapedb_schema::Timestamp(time), &quote).unwrap();
            sent.sequence().unwrap();
        }
    };
    send(100);
    while !metric("messages_total", "", 100) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(metric("state", ",state=\"copying\"", 1) && metric("lag_messages", "", 0));
    assert!(metric("lag_bytes", "", 0) && metric("position", "", 100) && metric("missed_total", "", 0));
    send(4900);
    let (code, log) = served.end("-TERM");
    assert_eq!(code, 0, "{log}");
    for line in ["waiting for it", "copying a topic", "copied=5000"] {
        assert!(log.contains(line), "{line}: {log}");
    }
    let read =
        Run::plain(&format!("read copied --db {} --output none --json", db.display())).json().remove(0);
    assert_eq!(read["messages"], 5000, "{read}");
}

#[test]
fn settings_come_from_file_environment_and_options() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("server.toml");
    std::fs::write(&file, "listen = '127.0.0.1:1'\nhttp = 'off'\n[limits]\nwatches_per_user_max = 7\n")
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
    command.args(["server", "--print-config", "--listen", "127.0.0.1:3", "--config"]).arg(&file);
    command.env("TAPEDB_SERVER_LISTEN", "127.0.0.1:2").env("TAPEDB_SERVER_DB", "elsewhere");
    command.env("TAPEDB_SERVER_KEEP_AWAKE", "true");
    command.env("TAPEDB_SERVER_COPY_TOPIC", "quotes,trades=us.trades");
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    for line in [
        "listen = \"127.0.0.1:3\"",
        "http = \"off\"",
        "database = \"elsewhere\"",
        "watches_per_user_max = 7",
        "keep_awake = true",
        "copy_topics = [\"quotes\", \"trades=us.trades\"]",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let error = Run::plain("server --listen 0.0.0.0:0 --print-config").bad(2);
    assert!(error.contains("tapedb user add"), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn processors_are_kept_awake_while_it_serves() {
    let directory = tempfile::tempdir().unwrap();
    let keepers = |served: &Served| {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", served.0.id())).unwrap();
        let names =
            tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
        names.filter(|name| name.starts_with("tape-awake")).count()
    };
    let (served, _) = Served::start(directory.path(), &["--keep-awake"]);
    assert!(keepers(&served) > 0);
    let (code, log) = served.end("-TERM");
    assert!(code == 0 && log.contains("kept from halting"), "{code}: {log}");
    let (served, _) = Served::start(directory.path(), &[]);
    assert_eq!(keepers(&served), 0);
}

#[test]
fn users_are_added_changed_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let users = directory.path().join("users.toml");
    assert_eq!(
        user(&users, "add ann --may read,write --streams us.*", "horse\n"),
        (0, "added user \"ann\"\n".into())
    );
    assert_eq!(user(&users, "add anonymous", ""), (0, "added user \"anonymous\"\n".into()));
    let (code, token) = user(&users, "token ann laptop", "");
    assert!(code == 0 && token.starts_with("tape_"), "{token}");
    let (_, list) = user(&users, "list", "");
    assert!(list.contains("ann") && list.contains("laptop") && list.contains("read,write us.*"), "{list}");
    let text = std::fs::read_to_string(&users).unwrap();
    assert!(text.contains("$argon2id$") && !text.contains("horse") && !text.contains(token.trim()), "{text}");
    assert_eq!(user(&users, "token ann laptop --remove", "").0, 0);
    assert_eq!(user(&users, "passwd ann", "\n").0, 2, "an empty password");
    assert_eq!(user(&users, "remove ann", "").0, 0);
    assert_eq!(user(&users, "passwd ann", "x\n").0, 2);
    assert_eq!(user(&users, "add bob --may fly", "x\n").0, 2);
}

#[test]
fn files_are_imported_once_over_a_server_and_resumed() {
    let place = Place::new();
    let (_served, ready) = Served::start(&place.path("."), &[]);
    let import = |options: &str, file: &Path| {
        let line = format!("import --stream s --format us-equity-ticks {options}");
        let mut command = remotely(&place, &ready, &line);
        command.arg(file);
        run(command)
    };
    let file = place.trades("aaa", 300);
    assert!(import("", &file).good().contains("300 messages of 1 files"));
    assert!(import("", &file).bad(1).contains("was imported into this stream before"));
    assert!(import("--again skip", &file).good().contains("was there"));
    // With another folder of ledgers the file is not recorded.
    let elsewhere = format!("--ledgers {}", place.path("ledgers").display());
    assert!(import(&elsewhere, &file).good().contains("300 messages"));

    let csv =
        "34200000,500000,1,Q,0,0\n34200001,500100,1,Q,0,0\n34200002,oops,1,Q,0,0\n34200003,500000,1,Q,0,0\n";
    let cut = place.zip("20131008_trade.zip", "20131008_bbb_Trade_Tick.csv", csv);
    assert!(import("", &cut).bad(1).contains("oops"));
    let totals = import("--on-bad-line skip --json", &cut).json().remove(1);
    assert_eq!((&totals["messages"], &totals["resumed"]), (&3.into(), &2.into()));
    let all = run(remotely(&place, &ready, "read s --output none --json")).json().remove(0);
    assert_eq!(all["messages"], 603);
    assert!(place.import("--format us-equity-ticks --ledgers x", &[&file]).bad(2).contains("omit it"));
}

#[test]
fn every_command_accepts_the_url_of_a_server_or_refuses_it_with_a_reason() {
    let place = Place::new();
    let (_served, ready) = Served::start(&place.path("."), &[]);
    std::fs::write(place.path("s.schema"), "message Tick { price: f64 }").unwrap();
    std::fs::write(
        place.path("ticks.jsonl"),
        r#"{"symbol":"A","timestamp":"2026-01-02T00:00:00Z","price":1.5}"#,
    )
    .unwrap();
    std::fs::write(place.path("wider.schema"), "message Tick { price: f64, size: u32? }").unwrap();
    std::fs::write(
        place.path("b.jsonl"),
        r#"{"symbol":"B","timestamp":"2026-01-02T00:00:00Z","price":1.75,"size":3}"#,
    )
    .unwrap();
    for line in [
        "create ticks --schema s.schema",
        "load ticks ticks.jsonl",
        "generate --stream bars --kind bars --messages 1k",
        "streams",
        "desc bars",
        "symbols bars",
        "read bars --limit 3",
        "tail bars --for 10ms",
        "alter ticks --late refuse",
        "alter ticks --schema wider.schema --dry-run",
        "alter ticks --schema wider.schema",
        "rename ticks --symbol A B",
        "server status {} --interval 0s",
        "server status {} --interval 10ms",
        "rewrite ticks b.jsonl --from 2026-01-01 --to 2026-01-03 --yes",
        "seal bars",
        "truncate bars --from 2024-01-03 --yes",
        "purge bars --before 2024-01-02T14:31 --yes",
        "rename ticks quotes",
        "clear bars --yes",
        "delete bars --yes",
        "shell -c streams",
    ] {
        let done = run(remotely(&place, &ready, line));
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{line}: {}", done.out);
    }
    for line in [
        "check",
        "inspect quotes",
        "repair --yes",
        "backup {} copy",
        "restore copy {}",
        "demo",
        "server",
        "topic list",
        "bench storage",
        "bench read",
        "bench tick",
        "tick plant --tables s.schema",
        "tick hdb",
    ] {
        let refused = run(remotely(&place, &ready, line));
        assert_eq!(refused.code, 2, "{line}: {} {}", refused.out, refused.err);
        assert!(
            refused.err.contains("is a server; run it on the machine that has the files"),
            "{line}: {}",
            refused.err
        );
    }
    let made: Vec<_> =
        std::fs::read_dir(place.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(made.iter().all(|name| !name.to_string_lossy().starts_with("tape")), "{made:?}");
}

#[cfg(unix)]
#[test]
fn the_log_stays_short_under_many_connections() {
    let directory = tempfile::tempdir().unwrap();
    let (served, ready) = Served::start(directory.path(), &[]);
    let address = ready["tcp"].as_str().unwrap();
    for garbage in 0..1000_u32 {
        let mut socket = TcpStream::connect(address).expect("it listens");
        socket.write_all(&garbage.to_le_bytes().repeat(10)).expect("it listens");
        let mut last_words = Vec::new();
        socket.read_to_end(&mut last_words).expect("it says why");
        assert!(!last_words.is_empty());
    }
    assert!(
        page(ready["http"].as_str().unwrap(), "/metrics")
            .contains("\ntapedb_connections_refused_total 1000\n")
    );
    let (_, log) = served.end("-TERM");
    let complaints = log.lines().filter(|line| line.contains("protocol")).count();
    assert!((1..=20).contains(&complaints) && log.len() < 10_000, "{log}");
}

#[test]
fn the_settings_of_the_unit_are_valid() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/server.toml");
    let text = Run::plain(&format!("server --print-config --config {file}")).good();
    assert!(text.contains("unix_socket = \"/run/tapedb/tapedb.sock\""), "{text}");
    // Commented-out settings are valid too.
    let all = std::fs::read_to_string(file).unwrap();
    let users = all.lines().filter(|line| line.starts_with("# users") || line.starts_with("# listen"));
    let users: Vec<&str> = users.map(|line| line.trim_start_matches("# ")).collect();
    assert_eq!(users.len(), 2);
    let rest = all.lines().filter(|line| !line.starts_with("listen"));
    let open: String = users.into_iter().chain(rest).map(|line| format!("{line}\n")).collect();
    let place = Place::new();
    std::fs::write(place.path("server.toml"), open).unwrap();
    let line = format!("server --print-config --config {}", place.path("server.toml").display());
    assert!(Run::plain(&line).good().contains("listen = \"0.0.0.0:7847\""));
}

#[test]
fn the_settings_of_the_image_and_of_the_chart_are_those_of_the_server() {
    let packaging = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");
    let printed = Run::plain(&format!("server --print-config --config {packaging}/image/server.toml")).good();
    assert!(printed.contains("users = \"/data/users.toml\""), "{printed}");
    let limits = printed.split_once("[limits]\n").expect("limits are printed").1;
    let names = limits.lines().filter_map(|line| line.split_once(" = "));
    let names: BTreeSet<&str> = names.map(|(name, _)| name).collect();
    let schema = std::fs::read_to_string(format!("{packaging}/helm/tapedb/values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let stated = &schema["properties"]["config"]["properties"]["limits"]["properties"];
    let stated: BTreeSet<&str> = stated.as_object().unwrap().keys().map(String::as_str).collect();
    // packaging/helm/test compares the other settings too.
    assert_eq!(stated, names, "limits in values.schema.json, and limits of the server");
}

#[test]
fn a_status_is_shown_over_http_and_with_a_login() {
    let place = Place::new();
    let users = place.path("users.toml");
    assert_eq!(user(&users, "add ann --may read,write,create,admin --streams *", "secret\n").0, 0);
    let (_served, ready) = Served::start(&place.path("."), &["--users", users.to_str().unwrap()]);
    let http = format!("http://{}", ready["http"].as_str().unwrap());
    let status = Run::plain(&format!("server status {http} --interval 0s")).good();
    for part in ["tapedb ", ", ok, up ", "connections  0 of 4096", "no streams", "no clients"] {
        assert!(status.contains(part), "{status} lacks {part:?}");
    }
    let url = format!("tape://ann@{}", ready["tcp"].as_str().unwrap());
    let as_ann = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
        command.args(line.split_whitespace()).env("TAPEDB_PASSWORD", "secret").stdin(no_input());
        run(command)
    };
    as_ann(&format!("generate --db {url} --stream bars --kind bars --messages 1k")).good();
    let status = as_ann(&format!("server status {url} --interval 20ms")).good();
    assert!(status.contains("bars") && status.contains("1,000") && status.contains("ann"), "{status}");
    let json = as_ann(&format!("server status {url} --json")).json().remove(0);
    assert_eq!((&json["streams"][0]["name"], &json["appended"]["messages"]), (&"bars".into(), &1000.into()));
    assert!(as_ann("server status nowhere").bad(2).contains("is not a URL"));
    assert!(as_ann("server status http://127.0.0.1:1").bad(1).contains("cannot be reached"));
    let wrong = format!("server status http://{}", ready["tcp"].as_str().unwrap());
    assert!(as_ann(&wrong).bad(1).contains("health and metrics"));
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let mut command = Run::command("server --print-config");
    for name in
        ["USERS", "LISTEN", "CREATE", "TLS_CERTIFICATE", "CONNECTIONS_MAX", "COPY_TOPIC", "HTTP_HOSTS", "LOG"]
    {
        command.env(format!("TAPEDB_SERVER_{name}"), "");
    }
    let empty = Run::of(command.output().unwrap()).good();
    assert_eq!(empty, Run::plain("server --print-config").good());
    let mut command = Run::command("server --print-config");
    let wrong = Run::of(command.env("TAPEDB_SERVER_CONNECTIONS_MAX", "x").output().unwrap());
    assert!(wrong.code == 2 && wrong.err.contains("--connections-max"), "{}", wrong.err);
}

#[test]
fn a_port_in_use_is_named_with_its_setting() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for (option, setting) in [
        ("listen", "listen"),
        ("http", "http"),
        ("ilp", "ilp.http"),
        ("ilp-tcp", "ilp.tcp"),
        #[cfg(feature = "gateway")]
        ("postgres", "postgres"),
        #[cfg(feature = "flight")]
        ("flight", "flight"),
    ] {
        let others =
            [("listen", "127.0.0.1:0"), ("http", "off")].iter().filter(|(other, _)| *other != option);
        let others: String = others.map(|(other, value)| format!(" --{other} {value}")).collect();
        let db = place.path("db");
        let error =
            Run::plain(&format!("server --create --db {}{others} --{option} {address}", db.display())).bad(1);
        for part in [
            &format!("listen on {address} (`{setting}`)"),
            "another program uses the port",
            &format!("(--{option})"),
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
}

#[cfg(unix)]
#[test]
fn silent_clients_do_not_hold_up_the_end() {
    let place = Place::new();
    Run::plain(&format!("cert {}", place.path("tls").display())).good();
    let [certificate, key] = ["server.pem", "server.key"].map(|name| place.path("tls").join(name));
    // A client that is waited for would be waited for so long.
    let mut options =
        vec!["--shutdown-grace-seconds", "3600", "--ilp", "127.0.0.1:0", "--ilp-tcp", "127.0.0.1:0"];
    options.extend(["--tls-certificate", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()]);
    let mut names = vec!["tcp", "http", "ilp", "ilp_tcp"];
    if cfg!(feature = "gateway") {
        options.extend(["--postgres", "127.0.0.1:0"]);
        names.push("postgres");
    }
    if cfg!(feature = "flight") {
        options.extend(["--flight", "127.0.0.1:0"]);
        names.push("flight");
    }
    let (served, ready) = Served::start(&place.path("."), &options);
    let mut silent = Vec::new();
    for name in &names {
        for begin in [
            "",
            "POST /write HTTP/1.1\r\nContent-Length: 10\r\n",
            "POST /write HTTP/1.1\r\nContent-Length: 10\r\n\r\na",
        ] {
            let mut socket = TcpStream::connect(ready[*name].as_str().expect(name)).expect("it listens");
            // What is no beginning for a protocol may have ended the connection.
            let _ = socket.write_all(begin.as_bytes());
            silent.push(socket);
        }
    }
    let (code, log) = served.end("-TERM");
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("shut down"), "{log}");
    drop(silent);
}

/// The first process of a container ignores signals that it has no handler for.
#[cfg(unix)]
#[test]
fn a_signal_right_after_the_start_ends_the_server() {
    let place = Place::new();
    for _ in 0..3 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
        command
            .args(["server", "--create", "--listen", "127.0.0.1:0", "--http", "off", "--db"])
            .arg(place.path("db"));
        let mut child =
            command.stdin(no_input()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Whether it comes before the handlers or after them, the server ends.
        assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
        let ended = child.wait().unwrap();
        assert!(ended.code().is_none_or(|code| [0, 130, 143].contains(&code)), "{ended:?}");
    }
}
