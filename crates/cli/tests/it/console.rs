//! The console's server: `tapedb demo --serve`, imports of uploaded files, tickerplants.
#![cfg(unix)]

use crate::serving::{Served, page, remotely, run};
use crate::support::{Place, no_input};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
#[cfg(target_os = "linux")]
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What the address answers to a request of the console: its status and its JSON.
fn ask(address: &str, method: &str, path: &str, kind: &str, body: &str) -> (u16, Value) {
    let mut socket = TcpStream::connect(address).expect("it listens");
    let length = body.len();
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nX-TapeDB: 1\r\nContent-Type: {kind}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .expect("it listens");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// Asks until the answer is as it should be.
fn until(address: &str, path: &str, is_good: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, found) = ask(address, "GET", path, "application/json", "");
        if is_good(&found) {
            return found;
        }
        assert!(Instant::now() < end, "{path}: {found}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn import(address: &str, name: &str, file: &str, options: &Value) -> Value {
    let path = format!("/api/imports?stream=ticks&name={name}");
    let (status, sent) = ask(address, "POST", &path, "application/octet-stream", file);
    assert_eq!(status, 200, "{sent}");
    let id = sent["id"].as_u64().expect("an id");
    let path = format!("/api/imports/{id}");
    assert_eq!(ask(address, "POST", &path, "application/json", &options.to_string()), (200, json!({})));
    let row = |found: &Value| {
        found["imports"].as_array().and_then(|rows| rows.iter().find(|row| row["id"] == id).cloned())
    };
    let found =
        until(address, "/api/imports", |found| row(found).is_some_and(|row| row["state"] != "running"));
    row(&found).expect("the row")
}

#[test]
fn uploaded_files_are_imported() {
    let place = Place::new();
    let (_served, ready) = Served::start(&place.path("."), &[]);
    let address = ready["http"].as_str().expect("it listens");
    let csv = "time,symbol,price,size\n2026-01-05T14:30:00Z,AAPL,187.25,100\n2026-01-05T14:30:01Z,AAPL,187.26,200\n";
    let shown = import(address, "ticks.csv", csv, &json!({ "preview": true, "type": "Tick" }));
    let text = shown["text"].as_str().expect("text");
    assert!(
        shown["state"] == "done" && text.contains("message Tick {") && text.contains("price: decimal64"),
        "{shown}"
    );
    assert_eq!(ask(address, "GET", "/api/streams", "", "").1["streams"], json!([]), "nothing is written");
    let done = import(address, "ticks.csv", csv, &json!({ "type": "Tick" }));
    assert_eq!((&done["state"], &done["messages"]), (&json!("done"), &json!("2")), "{done}");
    assert!(done["text"].as_str().expect("text").contains("\"ticks\": 2 messages of 1 files"), "{done}");
    let again = import(address, "other.csv", csv, &json!({ "type": "Tick" }));
    assert!(
        again["state"] == "failed"
            && again["failure"].as_str().expect("text").contains("imported into this stream before"),
        "{again}"
    );
    assert!(
        !again.to_string().contains("tapedb-uploads"),
        "where the server stores files is of no use: {again}"
    );
    let bad = import(address, "bad.csv", "time,symbol,price,size\nnever,AAPL,1,2\n", &json!({}));
    assert_eq!(bad["state"], "failed", "{bad}");
    let streams = ask(address, "GET", "/api/streams", "", "").1;
    assert_eq!(streams["streams"][0]["messages"], "2", "{streams}");
}

/// A small disk in memory, until this is dropped.
#[cfg(target_os = "linux")]
struct Disk(PathBuf);

#[cfg(target_os = "linux")]
impl Disk {
    /// `None`: the system does not let this user mount one.
    fn mount(path: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir(&path).expect("a folder");
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&path);
        let is_mounted = command.output().is_ok_and(|output| output.status.success());
        is_mounted.then_some(Self(path))
    }

    /// Fills it up but for some bytes.
    fn fill(&self, left: u64) -> PathBuf {
        let path = self.0.join("ballast");
        let mut file = std::fs::File::create(&path).expect("a file");
        while file.write_all(&[7; 64 << 10]).is_ok() {}
        let length = file.metadata().expect("its length").len();
        file.set_len(length.saturating_sub(left)).expect("a shorter file");
        path
    }

    /// The files below a folder of it.
    fn files(path: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path());
        entries.flat_map(|path| if path.is_dir() { Self::files(&path) } else { vec![path] }).collect()
    }
}

#[cfg(target_os = "linux")]
impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_upload_to_a_full_disk_leaves_nothing() {
    let place = Place::new();
    let Some(disk) = Disk::mount(place.path("disk"), "4m") else {
        return tapedb_skipped::skipped("no file system can be mounted");
    };
    let (_served, ready) = Served::start_with(&place.path("."), &[], &disk.0);
    let address = ready["http"].as_str().expect("it listens");
    let row = "2026-01-05T14:30:00Z,AAPL,187.25,100\n";
    let large = format!("time,symbol,price,size\n{}", row.repeat((6 << 20) / row.len()));
    let path = "/api/imports?stream=ticks&name=large.csv";
    for _ in 0..3 {
        let (status, refused) = ask(address, "POST", path, "application/octet-stream", &large);
        assert_eq!((status, &refused["code"]), (507, &json!("full")), "{refused}");
        assert!(refused["error"].as_str().expect("text").contains("nothing is stored"), "{refused}");
    }
    let files = Disk::files(&disk.0);
    assert!(files.is_empty(), "{files:?}");
    assert_eq!(ask(address, "GET", "/api/imports", "", "").1["imports"], json!([]));
    let done = import(address, "small.csv", &large[..23 + 2 * row.len()], &json!({}));
    assert_eq!((&done["state"], &done["messages"]), (&json!("done"), &json!("2")), "{done}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_import_that_fills_the_disk_goes_on_when_there_is_space() {
    const ROWS: u32 = 60_000;
    let place = Place::new();
    let Some(disk) = Disk::mount(place.path("disk"), "64m") else {
        return tapedb_skipped::skipped("no file system can be mounted");
    };
    let (_served, ready) = Served::start(&disk.0, &[]);
    let address = ready["http"].as_str().expect("it listens");
    let messages = || {
        let (_, found) = ask(address, "GET", "/api/streams", "", "");
        found["streams"].as_array().map_or(0, |all| {
            all.iter()
                .map(|stream| stream["messages"].as_str().and_then(|n| n.parse::<u32>().ok()).unwrap_or(0))
                .sum::<u32>()
        })
    };
    let mut first = String::from("time,symbol,price,size\n");
    let mut second = first.clone();
    for row in 0..ROWS {
        let csv = if row < 1_000 { &mut first } else { &mut second };
        let (seconds, price, size) =
            (row % 60, row.wrapping_mul(2_654_435_761) % 99_991, row.wrapping_mul(40_503));
        let (minute, hour) = (row / 60 % 60, row / 3_600);
        *csv += &format!("2026-01-05T{hour:02}:{minute:02}:{seconds:02}Z,S{},{price}.25,{size}\n", row % 97);
    }
    let done = import(address, "first.csv", &first, &json!({}));
    assert_eq!((&done["state"], messages()), (&json!("done"), 1_000), "{done}");

    let ballast = disk.fill(256 << 10);
    let failed = import(address, "second.csv", &second, &json!({}));
    assert_eq!(failed["state"], "failed", "{failed}");
    assert!(failed["failure"].as_str().expect("text").to_lowercase().contains("space"), "{failed}");
    assert!((1_000..ROWS).contains(&messages()), "what was stored stays");

    std::fs::remove_file(ballast).expect("it is there");
    let path = format!("/api/imports/{}", failed["id"]);
    assert_eq!(ask(address, "POST", &path, "application/json", "{}"), (200, json!({})));
    let found = until(address, "/api/imports", |found| {
        found["imports"].as_array().is_some_and(|rows| rows.iter().all(|row| row["state"] != "running"))
    });
    let row = found["imports"].as_array().and_then(|rows| rows.iter().find(|row| row["id"] == failed["id"]));
    assert_eq!((&row.expect("the row")["state"], messages()), (&json!("done"), ROWS), "{found}");
}

struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Demo {
    fn start(place: &Place, more: &[&str]) -> (Self, Value) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
        command.args(["--json", "demo", "--serve", "--messages", "2k", "--live-rate", "200"]).args(more);
        command.env("TMPDIR", place.path(".")).current_dir(place.path("."));
        command.stdin(no_input()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut demo = Self(command.spawn().expect("the command runs"));
        let mut line = String::new();
        BufReader::new(demo.0.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
        let ready = serde_json::from_str(&line).unwrap_or_default();
        (demo, ready)
    }

    fn end(mut self) -> (i32, String) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
        self.rest()
    }

    fn rest(&mut self) -> (i32, String) {
        let mut log = String::new();
        self.0.stderr.take().expect("piped").read_to_string(&mut log).expect("text");
        (self.0.wait().expect("it ends").code().unwrap_or(-1), log)
    }
}

fn left(place: &Place) -> Vec<String> {
    let entries = std::fs::read_dir(place.path(".")).expect("a folder");
    entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("tapedb-demo"))
        .collect()
}

#[test]
fn the_demo_serves_data_that_moves_and_leaves_nothing() {
    let place = Place::new();
    let (demo, ready) = Demo::start(&place, &["--http", "127.0.0.1:0"]);
    let address = ready["http"].as_str().expect("it listens");
    assert_eq!(left(&place).len(), 1);
    let messages = |found: &Value, name: &str| {
        let rows = found["streams"].as_array().cloned().unwrap_or_default();
        let row = rows.iter().find(|row| row["name"] == name).cloned().unwrap_or_default();
        row["messages"].as_str().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0)
    };
    let found = until(address, "/api/streams", |found| messages(found, "feed") > 2_000);
    assert!(messages(&found, "trades") > 0 && messages(&found, "bars") > 10_000, "{found}");
    until(address, "/api/connections", |found| {
        let clients = found["connections"].as_array().cloned().unwrap_or_default();
        clients.iter().any(|client| client["watches"] == 1)
            && clients.iter().any(|client| client["loaders"] == 3)
    });
    assert!(page(address, "/").contains("<title>"), "the console");
    let (code, log) = demo.end();
    assert_eq!((code, log.as_str()), (0, ""));
    assert_eq!(left(&place), Vec::<String>::new());
}

#[test]
fn a_demo_needs_an_address_and_a_new_directory() {
    let place = Place::new();
    let busy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = busy.local_addr().expect("an address").to_string();
    let (mut demo, _) = Demo::start(&place, &["--http", &address]);
    let (code, log) = demo.rest();
    assert!(code == 1 && log.contains("cannot listen on") && log.contains("--http"), "{code} {log}");
    std::fs::create_dir(place.path("used")).expect("a folder");
    std::fs::write(place.path("used/x"), "").expect("a file");
    let (mut demo, _) = Demo::start(&place, &["--http", "127.0.0.1:0", "--db", "used"]);
    let (code, log) = demo.rest();
    assert!(code == 1 && log.contains("is not empty"), "{code} {log}");
    let (demo, ready) = Demo::start(&place, &["--http", "127.0.0.1:0", "--db", "kept"]);
    assert!(ready["http"].is_string());
    assert_eq!(demo.end(), (0, String::new()));
    assert!(
        place.path("kept").join("streams").exists()
            || place.path("kept").read_dir().expect("a folder").count() > 0
    );
    assert_eq!(left(&place), Vec::<String>::new());
}

#[test]
fn a_plant_and_its_day_are_shown() {
    let place = Place::new();
    std::fs::write(place.path("sym.q"), "trade:([]time:`timespan$();sym:`symbol$();price:`float$())")
        .expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
    command.args([
        "--json",
        "tick",
        "plant",
        "--tables",
        "sym.q",
        "--db",
        "tp.tape",
        "--create",
        "--ask",
        "off",
        "--by-hand",
    ]);
    command.args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]).current_dir(place.path("."));
    command.stdin(no_input()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut plant = Demo(command.spawn().expect("the command runs"));
    let mut line = String::new();
    BufReader::new(plant.0.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
    let ready: Value = serde_json::from_str(&line).expect("addresses");
    let address = ready["http"].as_str().expect("it listens");
    let found = until(address, "/api/plants", |found| {
        found["plants"].as_array().is_some_and(|plants| plants.len() == 1)
    });
    let row = &found["plants"][0];
    assert_eq!(
        (&row["name"], &row["day_ends"], &row["tables"][0]["stream"]),
        (&json!("tp"), &json!("by hand"), &json!("tp/trade"))
    );
    let (status, ended) = ask(address, "POST", "/api/plants/tp/end-day", "application/json", "{}");
    assert_eq!(status, 200, "{ended}");
    assert!(ended["date"].as_str().expect("a date") > row["date"].as_str().expect("a date"), "{ended} {row}");
}

/// schemathesis, which makes requests of the description: every parameter and body at its bounds, missing, and of another type.
#[test]
fn answers_are_as_described_whatever_is_asked() {
    if !tapedb_skipped::python_has("schemathesis") {
        return;
    }
    let place = Place::new();
    let (_served, ready) = Served::start(&place.path("."), &[]);
    let address = ready["http"].as_str().expect("it listens");
    let generated = remotely(&place, &ready, "generate --stream feed --messages 2k");
    run(generated).good();
    let url = format!("http://{address}/api/openapi.json");
    let checks =
        "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
    let mut command = tapedb_skipped::python();
    command.args(["-c", "from schemathesis.cli import schemathesis; schemathesis()", "run", &url]);
    command.args([
        "--header",
        "X-TapeDB: 1",
        "--checks",
        checks,
        "--phases",
        "coverage",
        "--seed",
        "1",
        "--warnings",
        "off",
    ]);
    // The WebSocket is no request; a deleted stream would leave nothing to ask.
    command.args([
        "--exclude-path",
        "/api/ws",
        "--exclude-method",
        "DELETE",
        "--continue-on-failure",
        "--request-timeout",
        "40",
    ]);
    let done = command.current_dir(place.path(".")).output().expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}
