//! `tapedb tick`: its roles as processes, which are killed.

use crate::serving::page;
use crate::support::{Run, no_input};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Maximum time of every wait.
const PATIENCE: Duration = Duration::from_secs(120);
pub const TABLES: &str = "trade:([]time:`timespan$();sym:`symbol$();price:`float$();size:`long$())\n";

/// A running role, killed when dropped.
pub struct Role(Child);

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Role {
    /// Starts it, and waits for its first `lines` objects, joined into one.
    pub fn start(line: &str, lines: usize) -> (Self, Value) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
        command.args(["--json", "tick"]).args(line.split_whitespace());
        command.args((!line.starts_with("feed ")).then_some("--create"));
        command.stdin(no_input()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut role = Self(command.spawn().expect("the command runs"));
        let mut out = BufReader::new(role.0.stdout.as_mut().expect("piped"));
        let mut addresses = serde_json::Map::new();
        for _ in 0..lines {
            let mut text = String::new();
            out.read_line(&mut text).expect("a line");
            let object: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{line}: {text:?}"));
            addresses.extend(object.as_object().expect("an object").clone());
        }
        (role, Value::Object(addresses))
    }

    /// Waits for its end; returns its output.
    fn end(mut self) -> Value {
        let mut text = String::new();
        self.0.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
        assert!(self.0.wait().expect("it ends").success(), "{text}");
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text:?}"))
    }

    pub fn kill(mut self) {
        self.0.kill().expect("it was running");
        self.0.wait().expect("it ends");
    }
}

/// Asks until a condition holds.
pub fn wait_for(at: &str, question: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let run = Run::plain(&format!("--json tick query {question} --at {at}"));
        let answer = serde_json::from_str(run.out.lines().next().unwrap_or("null")).expect("JSON");
        if is_so(&answer) {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "{question}: {answer} {}", run.err);
        sleep(Duration::from_millis(20));
    }
}

pub fn text(addresses: &Value, key: &str) -> String {
    addresses[key].as_str().unwrap_or_else(|| panic!("{key} in {addresses}")).to_string()
}

/// Counts and checksum of a table in a database without a writer.
fn totals(db: &Path) -> (Value, Value) {
    let db = db.display();
    let totals = Run::plain(&format!("read tp/trade --output none --json --db {db}")).json().remove(0);
    (totals["messages"].clone(), totals["checksum"].clone())
}

pub fn rows() -> u64 {
    std::env::var("TICK_ROWS").map_or(120_000, |rows| rows.parse().expect("TICK_ROWS is a number"))
}

/// Clients that a plant has.
fn connections(http: &str) -> u64 {
    let page = page(http, "/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix("tapedb_connections "));
    line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no connections in {page}"))
}

#[test]
fn no_acknowledged_row_is_lost_when_a_role_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| -> PathBuf { directory.path().join(name) };
    std::fs::write(at("sym.q"), TABLES).unwrap();
    let (db, hdb, tables) = (at("db"), at("hdb"), at("sym.q"));
    let plant_line = |listen: &str, ask: &str, http: &str| {
        let (db, tables) = (db.display(), tables.display());
        format!(
            "plant --db {db} --tables {tables} --http {http} --log error --by-hand --listen {listen} --ask {ask}"
        )
    };
    let line = plant_line("127.0.0.1:0", &at("plant.sock").display().to_string(), "127.0.0.1:0");
    let (plant, addresses) = Role::start(&line, 2);
    let (listen, ask, http) = (text(&addresses, "tcp"), text(&addresses, "ask"), text(&addresses, "http"));
    let rdb_line =
        format!("rdb --plant tape://{listen} --hdb {} --ask {}", hdb.display(), at("rdb.sock").display());
    let (rdb, _) = Role::start(&rdb_line, 1);
    let rows = rows();
    let feed_line = |first: u64| {
        format!(
            "feed --plant tape://{listen} --rows 100 --updates 2 --first {first} --count {}",
            rows - first
        )
    };
    let today = |least: u64| {
        let status = wait_for(&ask, "--status", |status| {
            status["plants"][0]["tables"][0]["today"].as_u64().is_some_and(|today| today >= least)
        });
        status["plants"][0]["tables"][0]["today"].as_u64().expect("a number")
    };

    // The feed: what it was addresses is there; it continues behind that.
    let (feed, _) = Role::start(&feed_line(0), 0);
    today(rows / 6);
    let with_feed = connections(&http);
    feed.kill();
    // A connection ends behind the last message that arrived on it.
    let began = Instant::now();
    while connections(&http) >= with_feed {
        assert!(began.elapsed() < PATIENCE, "the plant keeps the connection of a feed that was killed");
        sleep(Duration::from_millis(20));
    }
    let (feed, _) = Role::start(&feed_line(today(0)), 0);
    // The RDB.
    today(rows / 3);
    rdb.kill();
    // The plant, while the feed sends; the feed reconnects.
    today(rows / 2);
    plant.kill();
    let (plant, _) = Role::start(&plant_line(&listen, &ask, "off"), 2);
    let (rdb, addresses) = Role::start(&rdb_line, 1);
    let rdb_ask = text(&addresses, "ask");
    assert_eq!(feed.end()["acknowledged"], true);

    wait_for(&rdb_ask, "trade --count", |answer| answer["rows"] == rows);
    let last = wait_for(&rdb_ask, "trade --limit -1", |row| row["table"].is_null());
    assert_eq!(last["size"], rows - 1, "{last}");
    let ended = Run::plain(&format!("--json tick eod --at {ask}")).json().remove(0);
    wait_for(&rdb_ask, "--status", |status| {
        status["date"] == ended["date"] && status["ending"].as_array().is_some_and(Vec::is_empty)
    });
    let date = text(&ended, "ended");
    wait_for(&rdb_ask, &format!("trade --date {date} --count"), |answer| answer["rows"] == rows);
    drop((plant, rdb));
    let in_log = totals(&db);
    assert_eq!(in_log.0, rows);
    assert_eq!(in_log, totals(&hdb), "the HDB has what the log has");
}

#[test]
fn one_process_runs_all_roles() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(at("sym.q"), TABLES).unwrap();
    let line = format!(
        "all --db {} --hdb {} --tables {} --tables fx={} --http off --log error --by-hand --listen 127.0.0.1:0 --ask {}",
        at("db"),
        at("hdb"),
        at("sym.q"),
        at("sym.q"),
        at("all.sock")
    );
    let (_all, addresses) = Role::start(&line, 2);
    let (listen, ask) = (text(&addresses, "tcp"), text(&addresses, "ask"));
    let (chain, chained) = Role::start(
        &format!(
            "chain --plant tape://{listen} --name tp --db {} --http off --log error --listen 127.0.0.1:0 --every 1ms",
            at("chain")
        ),
        2,
    );
    for name in ["tp", "fx"] {
        let feed = Role::start(
            &format!("feed --plant tape://{listen} --name {name} --count 1k --rows 10 --interval 0ms"),
            0,
        )
        .0;
        assert_eq!(feed.end()["rows"], 1000);
    }
    // The first one by name has the RDB.
    wait_for(&ask, "trade --count", |answer| answer["rows"] == 1000);
    let behind = format!("rdb --plant tape://{} --name tp --ask {}", text(&chained, "tcp"), at("rdb.sock"));
    let (behind, addresses) = Role::start(&behind, 1);
    wait_for(&text(&addresses, "ask"), "trade --count", |answer| answer["rows"] == 1000);
    let run = Run::plain(&format!(
        "tick query trade --at {ask} --symbols S0003,S0004 --columns sym,size,price --limit 3"
    ));
    assert_eq!(
        run.good(),
        "sym    size  price\nS0003  3     100.03\nS0004  4     100.04\nS0003  503   105.03\n"
    );
    let refused = Run::plain(&format!("tick query trade --at {ask} --columns cost")).bad(1);
    assert!(refused.contains("cost") && refused.contains("price"), "{refused}");
    let ended = Run::plain(&format!("tick eod --name fx --at {ask}")).good();
    assert!(ended.contains("\"ended\""), "{ended}");
    drop((chain, behind));
}

#[test]
fn impossible_options_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(at("bad.q"), "system \"ls\"\ntrade:([]x:`long$())\n").unwrap();
    let refused =
        Run::plain(&format!("tick plant --create --db {} --tables {} --listen off", at("db"), at("bad.q")))
            .bad(2);
    assert!(refused.contains("line 1") && refused.contains("system"), "{refused}");
    let refused = Run::plain(&format!("tick rdb --plant {}", at("db"))).bad(1);
    assert!(refused.contains("no plant \"tp\""), "{refused}");
    let refused = Run::plain("tick query trade --at nowhere.sock").bad(1);
    assert!(refused.contains("check that it runs there"), "{refused}");
}

#[test]
fn only_the_user_of_a_role_reaches_it_with_questions() {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(at("sym.q"), TABLES).unwrap();
    let line = |ask: &str| {
        let (db, tables) = (at("db"), at("sym.q"));
        format!(
            "all --db {db} --tables {tables} --http off --log error --by-hand --listen 127.0.0.1:0 --ask {ask}"
        )
    };
    // There is no port.
    let refused = Run::plain(&format!("tick {}", line("127.0.0.1:7850")));
    assert!(refused.code == 2 && refused.err.contains("Unix socket"), "{}", refused.err);
    let (_all, addresses) = Role::start(&line(&at("all.sock")), 2);
    let ask = text(&addresses, "ask");
    assert_eq!(std::fs::metadata(&ask).unwrap().permissions().mode() & 0o777, 0o600);
    let today = wait_for(&ask, "--status", |status| status["date"].is_string())["date"].clone();
    let question = "{\"ask\":\"end_of_day\"}\n";
    let post = format!(
        "POST / HTTP/1.1\r\nOrigin: http://evil.example\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{question}",
        question.len()
    );
    let mut answers = Vec::new();
    let mut at_socket = UnixStream::connect(&ask).unwrap();
    at_socket.write_all(post.as_bytes()).unwrap();
    let mut answer = String::new();
    // It is closed with unread bytes, which a system may report as a reset.
    let _ = at_socket.read_to_string(&mut answer);
    answers.push(answer);
    let mut at_port = std::net::TcpStream::connect(text(&addresses, "tcp")).unwrap();
    at_port.write_all(post.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = at_port.read_to_end(&mut answer);
    answers.push(String::from_utf8_lossy(&answer).into_owned());
    assert!(answers.iter().all(|answer| !answer.contains("ended")), "{answers:?}");
    assert_eq!(wait_for(&ask, "--status", |status| status["date"].is_string())["date"], today);
}
