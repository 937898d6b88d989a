//! Continuous views: equal to their query on all messages, wherever the process that keeps them ends.

use crate::support::*;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_query::{Options, Parameters, Rows, Sql};
use tapedb_schema::Timestamp;

const TICK: &str = "message Tick { price: f64, size: u64 }";
const QUERY: &str = "SELECT time_bucket('10 seconds', time) AS bucket, symbol, count(*) AS trades, sum(size) AS volume, first(price) AS open, \
    last(price) AS close FROM ticks WHERE size > 0 GROUP BY bucket, symbol";

fn run(sql: &Sql, text: &str) -> Result<Rows, tapedb_query::Error> {
    sql.run(text, &Parameters::default(), &Options::default())
}

fn rows(sql: &Sql, text: &str) -> Vec<String> {
    rows_of(run(sql, text).unwrap_or_else(|error| panic!("{text}: {error}"))).unwrap()
}

/// The rows that the view is to have once the messages so far are in it: those of closed buckets.
fn wanted(sql: &Sql) -> Vec<String> {
    let last = "(SELECT time_bucket('10 seconds', max(time)) FROM ticks)";
    rows(sql, &format!("SELECT * FROM ({QUERY}) WHERE bucket < {last} ORDER BY bucket, symbol"))
}

fn found(sql: &Sql) -> Vec<String> {
    rows(sql, "SELECT time, symbol, trades, volume, open, close FROM bars ORDER BY time, symbol")
}

/// Waits until the view has the rows that it is to have.
fn await_equal(sql: &Sql) {
    let wanted = wanted(sql);
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let found = found(sql);
        if found == wanted {
            return;
        }
        if Instant::now() > deadline {
            panic!(
                "found {} rows, wanted {}: {:?} {:?}",
                found.len(),
                wanted.len(),
                found.last(),
                wanted.last()
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Appends ticks of three symbols at these seconds.
fn load(stream: &Stream, seconds: impl IntoIterator<Item = i64>) {
    let mut loader = stream.loader().unwrap();
    for second in seconds {
        let size = second % 7;
        let tick = format!(r#"{{"$type": "Tick", "price": {}.5, "size": {size}}}"#, second % 100);
        let value = stream.layouts().from_json(&tick).unwrap();
        let symbol = ["A", "B", "C"][second as usize % 3];
        loader.append_value(symbol, Timestamp(second * 1_000_000_000), &value).unwrap();
    }
    loader.close().unwrap();
}

/// Prints why a view failed, where the test fails.
fn silent(name: &str, error: &tapedb_query::Error) {
    println!("{name}: {error}");
}

#[test]
fn a_view_has_the_rows_of_its_query_with_late_messages() {
    let place = Place::new();
    let ticks = place.stream("ticks", TICK, &[]);
    load(&ticks, 0..200);
    let sql = place.sql();
    assert_eq!(rows(&sql, &format!("CREATE VIEW bars LIVE AS {QUERY}")), ["bars"]);
    let views = sql.maintain_views(silent).unwrap();
    await_equal(&sql);
    assert!(found(&sql).len() > 30);
    // In order, then late: in one bucket, in two that are neighbours, in one that had no message.
    load(&ticks, 200..333);
    await_equal(&sql);
    load(&ticks, [5, 17, 23, 101]);
    await_equal(&sql);
    load(&ticks, (600..700).chain([500, 345]));
    await_equal(&sql);
    // So many that they are replaced together, with what is between them.
    load(&ticks, (0..30).map(|at| at * 20 + 3));
    await_equal(&sql);
    let shown = rows(&sql, "SHOW VIEWS");
    assert_eq!(shown.len(), 1);
    assert!(shown[0].starts_with("bars|1970-01-01T00:11:30Z|SELECT"), "{shown:?}");
    assert!(place.db.stream("bars").unwrap().schema().record("ViewBars").is_some());
    rows(&sql, "DROP VIEW BARS");
    assert!(rows(&sql, "SHOW VIEWS").is_empty());
    assert!(!place.db.streams().unwrap().contains(&"bars".to_string()));
    // Another view of the name begins from the start.
    rows(&sql, &format!("CREATE VIEW bars LIVE AS {QUERY}"));
    await_equal(&sql);
    drop(views);
}

#[test]
fn a_view_goes_on_where_it_was_left() {
    let place = Place::new();
    let ticks = place.stream("ticks", TICK, &[]);
    load(&ticks, 0..200);
    let sql = place.sql();
    rows(&sql, &format!("CREATE VIEW bars LIVE AS {QUERY}"));
    for (from, to) in [(200, 260), (260, 300), (300, 411)] {
        let views = sql.maintain_views(silent).unwrap();
        await_equal(&sql);
        drop(views);
        // While no process keeps the view: in order, and late.
        load(&ticks, (from..to).chain([from - 150]));
        assert_ne!(found(&sql), wanted(&sql));
    }
    // Rows that were appended and not noted, as before the process was killed.
    let bars = place.db.stream("bars").unwrap();
    let row = r#"{"$type": "ViewBars", "trades": 7, "volume": 1, "open": 1.0, "close": 1.0}"#;
    append(&bars, &[(10_000_000_000_000, "A", row)]);
    let _views = sql.maintain_views(silent).unwrap();
    await_equal(&sql);
}

/// Waits until a view of last values has the rows of its query.
fn await_last(sql: &Sql, query: &str, found: &str) -> Vec<String> {
    let wanted = rows(sql, query);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = rows(sql, found);
        if found == wanted {
            return found;
        }
        assert!(Instant::now() < deadline, "found {found:?}, wanted {wanted:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_view_of_last_values_has_a_row_for_each_symbol() {
    let place = Place::new();
    let ticks = place.stream("ticks", TICK, &[]);
    load(&ticks, 0..20);
    let sql = place.sql();
    let query = "SELECT DISTINCT ON (symbol) symbol, time, price * 2 AS twice, size FROM ticks WHERE size > 3 ORDER BY symbol, time DESC";
    let found = "SELECT symbol, time, twice, size FROM lasts ORDER BY symbol";
    assert_eq!(rows(&sql, &format!("CREATE VIEW lasts LIVE AS {query}")), ["lasts"]);
    let views = sql.maintain_views(silent).unwrap();
    let first = await_last(&sql, query, found);
    assert_eq!(first.len(), 3, "{first:?}");
    let view = place.db.stream("lasts").unwrap();
    let sequences = view.next_sequences().unwrap();
    // What no condition wants changes nothing, nor does a late message.
    load(&ticks, [21, 22, 4, 5]);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(await_last(&sql, query, found), first);
    // One symbol has another row: only that is replaced.
    load(&ticks, [27]);
    await_last(&sql, query, found);
    assert_eq!(view.next_sequences().unwrap()[0], sequences[0] + 1);
    // Of equal times the one that arrives last counts, also where the view has one already.
    let tick = |price: u32| format!(r#"{{"$type": "Tick", "price": {price}, "size": 5}}"#);
    let at = |second: i64| second * 1_000_000_000;
    append(&ticks, &[(at(30), "A", &tick(1)), (at(30), "A", &tick(2)), (at(29), "D", &tick(3))]);
    let rows_now = await_last(&sql, query, found);
    assert!(rows_now[0].contains("|4.0|") && rows_now.len() == 4, "{rows_now:?}");
    append(&ticks, &[(at(30), "A", &tick(7)), (at(31), "A", &tick(8)), (at(31), "A", &tick(9))]);
    let rows_now = await_last(&sql, query, found);
    assert!(rows_now[0].contains("|18.0|"), "{rows_now:?}");
    drop(views);
    // It goes on where it was left, and has what arrived while no process kept it.
    load(&ticks, 40..60);
    let _views = sql.maintain_views(silent).unwrap();
    await_last(&sql, query, found);
    // The rows are there before it is noted how far the view is.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let shown = rows(&sql, "SHOW VIEWS");
        if shown[0].starts_with("lasts|1970-01-01T00:00:59Z|SELECT") {
            break;
        }
        assert!(Instant::now() < deadline, "{shown:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    // One row for each symbol, for readers of messages too.
    assert_eq!(view.cursor().count().unwrap(), 4);
}

#[test]
fn last_values_of_records_in_messages() {
    let place = Place::new();
    let schema = "message Package { entries: array<record<Trade|Quote>> } record Trade { price: f64 } record Quote { bid: f64 }";
    let feed = place.stream("feed", schema, &[]);
    let package = |prices: &[u32]| {
        let trades: Vec<String> =
            prices.iter().map(|price| format!(r#"{{"$type": "Trade", "price": {price}}}"#)).collect();
        format!(r#"{{"$type": "Package", "entries": [{}]}}"#, trades.join(", "))
    };
    append(&feed, &[(5, "A", &package(&[1, 2])), (5, "B", &package(&[3]))]);
    let sql = place.sql();
    let query = "SELECT DISTINCT ON (symbol) symbol, time, price FROM feed.Trade ORDER BY symbol, time DESC";
    rows(&sql, &format!("CREATE VIEW lasts LIVE AS {query}"));
    let _views = sql.maintain_views(silent).unwrap();
    let found = "SELECT symbol, time, price FROM lasts ORDER BY symbol";
    let rows_of = |lines: [&str; 2]| {
        let wanted: Vec<String> = lines.map(String::from).into();
        assert_eq!(rows(&sql, query), wanted);
        assert_eq!(await_last(&sql, query, found), wanted);
    };
    rows_of(["A|1970-01-01T00:00:00.000000005Z|2.0", "B|1970-01-01T00:00:00.000000005Z|3.0"]);
    append(&feed, &[(5, "A", &package(&[7, 6])), (5, "B", &package(&[])), (4, "B", &package(&[9]))]);
    rows_of(["A|1970-01-01T00:00:00.000000005Z|6.0", "B|1970-01-01T00:00:00.000000005Z|3.0"]);
}

#[test]
fn what_cannot_be_a_view_is_refused_by_name() {
    let place = Place::new();
    place.stream("ticks", TICK, &[]);
    place.stream("quotes", "message Quote { bid: f64 }", &[]);
    let sql = place.sql();
    for (query, text) in [
        ("SELECT time, symbol, price FROM ticks", "groups by a bucket"),
        ("SELECT DISTINCT ON (symbol) symbol, time, price FROM ticks", "ORDER BY symbol, time DESC"),
        (
            "SELECT DISTINCT ON (price) symbol, time, price FROM ticks ORDER BY price, time DESC",
            "DISTINCT ON (symbol)",
        ),
        (
            "SELECT DISTINCT ON (symbol) symbol, price FROM ticks ORDER BY symbol, time DESC",
            "column with its time",
        ),
        ("SELECT DISTINCT ON (symbol) time, price FROM ticks ORDER BY symbol, time DESC", "no column symbol"),
        ("SELECT DISTINCT ON (symbol) symbol, time FROM ticks ORDER BY symbol, time DESC", "no column but"),
        (
            "SELECT DISTINCT ON (symbol) symbol, time, price FROM ticks ORDER BY symbol, time DESC LIMIT 3",
            "LIMIT",
        ),
        (
            "SELECT DISTINCT ON (symbol) symbol, time, price FROM latest('ticks') ORDER BY symbol, time DESC",
            "latest",
        ),
        ("SELECT symbol, sum(size) AS n FROM ticks GROUP BY symbol", "bucket of time"),
        ("SELECT symbol, price FROM latest('ticks')", "latest"),
        (
            "SELECT symbol, sum(size) AS n FROM ticks GROUP BY symbol, time_bucket('1 minute', time)",
            "its bucket",
        ),
        ("SELECT time_bucket('1 minute', time) AS minute, sum(size) FROM ticks GROUP BY minute", "AS"),
        (
            "SELECT time_bucket('1 minute', time) AS minute, symbol FROM ticks GROUP BY minute, symbol",
            "no column",
        ),
        (
            "SELECT time_bucket('1 minute', t.time) AS minute, max(q.bid) AS bid FROM ticks t ASOF JOIN quotes q MATCH_CONDITION \
             (t.time >= q.time AND t.time - q.time <= INTERVAL '1 second') ON t.symbol = q.symbol GROUP BY minute",
            "joins",
        ),
        ("SELECT prize FROM ticks", "prize"),
    ] {
        let error = run(&sql, &format!("CREATE VIEW v LIVE AS {query}")).unwrap_err().to_string();
        assert!(error.contains(text), "{query}: {error}");
    }
    assert!(
        run(&sql, &format!("CREATE VIEW Ticks LIVE AS {QUERY}"))
            .unwrap_err()
            .to_string()
            .contains("there is a stream")
    );
    assert!(run(&sql, "DROP VIEW ticks").unwrap_err().to_string().contains("no view"));
    assert!(rows(&sql, "DROP VIEW IF EXISTS nothing").len() == 1);
    assert!(rows(&sql, "SHOW VIEWS").is_empty());
}

/// Set in the process that is to be killed: the database.
const KILLED: &str = "TAPEDB_TEST_VIEWS_KILLED";

/// Keeps views and loads ticks, some of them late, until it is killed: not a test by itself.
#[test]
fn works_until_it_is_killed() {
    let Some(path) = std::env::var_os(KILLED) else { return };
    let db = Database::open(path).unwrap();
    let ticks = db.stream("ticks").unwrap();
    let sql = Sql::new(&db).unwrap();
    let _views = sql.maintain_views(silent).unwrap();
    let begun = ticks.stats().unwrap().times.map_or(0, |(_, last)| last.0 / 1_000_000_000 + 1);
    for step in 0..100_000 {
        let from = begun + step * 7;
        load(&ticks, from..from + 7);
        if step % 5 == 4 {
            load(&ticks, [from / 2, from - 30]);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn child(path: &std::path::Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "views::works_until_it_is_killed"])
        .env(KILLED, path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_process_leaves_each_row_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    {
        let db = Database::open(&path).unwrap();
        let ticks = db.create_stream("ticks", TICK.parse().unwrap(), StreamOptions::default()).unwrap();
        load(&ticks, 0..100);
        rows(&Sql::new(&db).unwrap(), &format!("CREATE VIEW bars LIVE AS {QUERY}"));
    }
    let mut steps = 0;
    for round in 0..8_u64 {
        let mut child = child(&path);
        let noted = |path: &std::path::Path| {
            let db = Database::open_read_only(path).ok()?;
            let noted = db.stream("tapedb.views.progress").ok()?.next_sequences().ok()?[0];
            Some(noted).filter(|noted| *noted > 0)
        };
        // It has done something, and is killed at another moment each time.
        let (before, deadline) = (noted(&path), Instant::now() + Duration::from_secs(60));
        while noted(&path) <= before && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(round * 37 % 150));
        child.kill().unwrap();
        child.wait().unwrap();
        steps = noted(&path).unwrap();
    }
    assert!(steps >= 8, "the view was brought up to date {steps} times");
    let db = Database::open(&path).unwrap();
    let sql = Sql::new(&db).unwrap();
    let _views = sql.maintain_views(|name, error| panic!("{name}: {error}")).unwrap();
    await_equal(&sql);
    assert!(found(&sql).len() > 30);
}
