//! Live queries: history, then what arrives, without a gap; and what cannot run live.

use crate::support::*;
use std::time::{Duration, Instant};
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_query::{Next, Options, Rows, Sql};
use tapedb_schema::Timestamp;

const SECOND: i64 = 1_000_000_000;

fn live(db: &Database, query: &str) -> Rows {
    let options = Options { live: true, ..Options::default() };
    Sql::with_options(db, options).unwrap().query(query).unwrap_or_else(|error| panic!("{query}: {error}"))
}

/// Rows until there are as many.
fn take(rows: &mut Rows, count: usize) -> Vec<String> {
    let start = Instant::now();
    let mut found = Vec::new();
    while found.len() < count {
        assert!(start.elapsed() < Duration::from_secs(60), "{count} rows are expected: {found:?}");
        if let Next::Batch(batch) = rows.next_within(Duration::from_millis(20)).unwrap() {
            found.extend(lines_of(&batch));
        }
    }
    assert_eq!(found.len(), count, "{found:?}");
    found
}

/// Whether nothing more comes for a while.
fn is_quiet(rows: &mut Rows) -> bool {
    matches!(rows.next_within(Duration::from_millis(100)).unwrap(), Next::Waiting)
}

fn trade(stream: &Stream, time: i64, symbol: &str, price: i64) {
    append(stream, &[(time, symbol, &format!(r#"{{"$type": "Trade", "price": {price}}}"#))]);
}

fn quote(stream: &Stream, time: i64, symbol: &str, bid: i64) {
    append(stream, &[(time, symbol, &format!(r#"{{"$type": "Quote", "bid": {bid}}}"#))]);
}

const TICKS: &str = "message Trade { price: i64 } message Quote { bid: i64 }";

#[test]
fn filters_and_projections_go_on_with_what_arrives() {
    for sealed in [false, true] {
        let place = Place::new();
        let stream = place.stream("ticks", TICKS, &[]);
        (0..10).for_each(|n| trade(&stream, n * SECOND, "A", n));
        if sealed {
            stream.seal().unwrap();
        }
        let mut rows =
            live(&place.db, "SELECT symbol, price * 2 AS double FROM ticks.Trade WHERE price % 2 = 0");
        assert_eq!(take(&mut rows, 5), ["A|0", "A|4", "A|8", "A|12", "A|16"]);
        assert!(is_quiet(&mut rows));
        trade(&stream, 10 * SECOND, "B", 20);
        quote(&stream, 10 * SECOND, "B", 20);
        trade(&stream, 11 * SECOND, "B", 21);
        // Late, and sealed before it is read.
        trade(&stream, 3 * SECOND, "C", 22);
        stream.seal().unwrap();
        trade(&stream, 12 * SECOND, "B", 24);
        assert_eq!(take(&mut rows, 3), ["B|40", "C|44", "B|48"]);
        assert!(is_quiet(&mut rows));
    }
}

/// Trades and quotes of 5 symbols, from a second on, one each 100 ms; every 300 of them are sealed, which merges segments too.
fn write(stream: &Stream, seconds: std::ops::Range<i64>) {
    for second in seconds {
        let mut loader = stream.loader().unwrap();
        for n in 0..10 {
            let (number, symbol) = (second * 10 + n, format!("S{}", n / 2));
            let text = match n % 2 {
                0 => format!(r#"{{"$type": "Quote", "bid": {number}}}"#),
                _ => format!(r#"{{"$type": "Trade", "price": {number}}}"#),
            };
            let value = stream.layouts().from_json(&text).unwrap();
            loader.append_value(&symbol, Timestamp(second * SECOND + n * SECOND / 10), &value).unwrap();
        }
        loader.close().unwrap();
        if second % 30 == 29 {
            stream.seal().unwrap();
        }
    }
}

#[test]
fn rows_are_those_of_history_while_others_write_and_seal() {
    let bucket = "date_bin(INTERVAL '5 seconds', time) AS bucket";
    let asof = "ticks.Trade t ASOF JOIN ticks.Quote q \
         MATCH_CONDITION (t.time >= q.time AND t.time - q.time <= INTERVAL '3 seconds') ON t.symbol = q.symbol";
    // What is asked, and the time before which all rows have come.
    let queries = [
        ("SELECT 'x' FROM ticks.Trade".to_string(), None),
        ("SELECT * FROM ticks.Trade".to_string(), None),
        (
            "SELECT sequence, price FROM ticks.Trade WHERE price % 3 = 1 AND symbol IN ('S1', 'S2')"
                .to_string(),
            None,
        ),
        (
            format!("SELECT {bucket}, symbol, sum(price), count(*) FROM ticks.Trade GROUP BY 1, 2"),
            Some("time"),
        ),
        (format!("SELECT t.time, t.symbol, t.price, q.bid FROM {asof}"), Some("t.time")),
        (
            format!(
                "SELECT time_bucket(INTERVAL '2 seconds', t.time), sum(q.bid), count(*) FROM {asof} GROUP BY 1"
            ),
            Some("t.time"),
        ),
    ];
    let place = Place::new();
    let stream = place.stream("ticks", TICKS, &[]);
    write(&stream, 0..100);
    let mut running: Vec<_> = queries.iter().map(|(query, _)| (live(&place.db, query), Vec::new())).collect();
    let mut poll = |(rows, found): &mut (Rows, Vec<String>)| {
        if let Next::Batch(batch) = rows.next_within(Duration::from_millis(5)).unwrap() {
            found.extend(lines_of(&batch));
        }
    };
    // The last second ends the last bucket and the last time of all queries.
    for seconds in [100..150, 150..250, 250..301] {
        let stream = stream.clone();
        let writer = std::thread::spawn(move || write(&stream, seconds));
        while !writer.is_finished() {
            running.iter_mut().for_each(&mut poll);
        }
        writer.join().unwrap();
        // So each query has several slices, however fast the writer is.
        for running in &mut running {
            let (start, before) = (Instant::now(), running.1.len());
            while running.1.len() == before && start.elapsed() < Duration::from_millis(1500) {
                poll(running);
            }
        }
    }
    for ((query, time), running) in queries.iter().zip(&mut running) {
        let text = match time {
            None => query.clone(),
            Some(time) => {
                let until = format!("WHERE {time} < '1970-01-01T00:05:00Z'");
                match query.split_once(" GROUP BY ") {
                    Some((first, groups)) => format!("{first} {until} GROUP BY {groups}"),
                    None => format!("{query} {until}"),
                }
            }
        };
        let mut expected = place.rows(&text);
        let start = Instant::now();
        // Rows of the last second may be there or not: they are left out.
        while running.1.len() < expected.len() && start.elapsed() < Duration::from_secs(60) {
            poll(running);
        }
        let found = &mut running.1;
        found.sort();
        expected.sort();
        found.retain(|row| time.is_none() || !row.starts_with("1970-01-01T00:05:00"));
        assert!(expected.len() > 50, "{text}");
        assert_eq!(found, &expected, "{query}");
    }
}

/// Each space has its own sequence numbers, and records in messages are rows too.
#[test]
fn spaces_and_records_in_messages_go_on_with_what_arrives() {
    let place = Place::new();
    let schema = "message Book { levels: array<record<Level>> } record Level { price: i64 }".parse().unwrap();
    let options = StreamOptions { spaces: 3, ..Default::default() };
    let stream = place.db.create_stream("books", schema, options).unwrap();
    let write = |times: std::ops::Range<i64>| {
        for time in times {
            let space = (time * time % 3) as u32;
            let mut loader = stream.loader_in(space).unwrap();
            let book = format!(
                r#"{{"$type": "Book", "levels": [{{"$type": "Level", "price": {time}}}, {{"$type": "Level", "price": -{time}}}]}}"#
            );
            loader.append_value("A", Timestamp(time), &stream.layouts().from_json(&book).unwrap()).unwrap();
            loader.close().unwrap();
        }
    };
    write(1..50);
    let queries = [
        "SELECT space, sequence, price, entry FROM books.Level",
        "SELECT space, time FROM books.Book",
        "SELECT time, unnest(levels) FROM books.Book",
    ];
    let mut running = queries.map(|query| (query, live(&place.db, query), Vec::new()));
    for round in 1..6 {
        stream.seal().unwrap();
        write(round * 50..round * 50 + 50);
        for (query, rows, found) in &mut running {
            let mut expected = place.rows(query);
            found.extend(take(rows, expected.len() - found.len()));
            let mut sorted = found.clone();
            expected.sort();
            sorted.sort();
            assert_eq!(sorted, expected, "{query}");
        }
    }
}

#[test]
fn history_comes_by_time_and_then_what_arrives() {
    let place = bars(1_000, true);
    let stream = place.db.stream("bars").unwrap();
    let mut rows = live(&place.db, "SELECT n FROM bars");
    let writer = std::thread::spawn(move || {
        for n in 1_000..1_600_i64 {
            let bar = format!(r#"{{"$type": "Bar", "n": {n}, "price": "1", "note": null, "side": null}}"#);
            append(&stream, &[(n * SECOND, "S", &bar)]);
            if n % 250 == 0 {
                stream.seal().unwrap();
            }
        }
    });
    let found = take(&mut rows, 1_600);
    writer.join().unwrap();
    let wanted: Vec<String> = (0..1_600).map(|n| n.to_string()).collect();
    assert_eq!(found, wanted);
}

#[test]
fn what_is_late_is_waited_for_as_long_as_asked_for() {
    let place = Place::new();
    let stream = place.stream("ticks", TICKS, &[]);
    (0..25).for_each(|n| trade(&stream, n * SECOND, "A", n));
    let options = Options { live: true, lateness: Duration::from_secs(5), ..Options::default() };
    let query = "SELECT date_trunc('minute', time) AS minute, count(*) FROM ticks.Trade GROUP BY 1";
    let mut rows = Sql::with_options(&place.db, options).unwrap().query(query).unwrap();
    trade(&stream, 64 * SECOND, "A", 1);
    assert!(is_quiet(&mut rows));
    trade(&stream, 59 * SECOND, "A", 1);
    trade(&stream, 65 * SECOND, "A", 1);
    assert_eq!(take(&mut rows, 1), ["1970-01-01T00:00:00Z|26"]);
}

#[test]
fn buckets_close_when_time_passes() {
    let place = Place::new();
    let stream = place.stream("ticks", TICKS, &[]);
    (0..25).for_each(|n| trade(&stream, n * SECOND, "A", n));
    let query = "SELECT date_bin(INTERVAL '10 seconds', time) AS bucket, symbol, sum(price) AS sum, count(*) AS count \
         FROM ticks.Trade GROUP BY 1, 2";
    let mut rows = live(&place.db, query);
    let mut closed = take(&mut rows, 2);
    closed.sort();
    assert_eq!(closed, ["1970-01-01T00:00:00Z|A|45|10", "1970-01-01T00:00:10Z|A|145|10"]);
    assert!(is_quiet(&mut rows), "the third bucket is open");
    // Still in time for the open bucket, too late for the second one.
    trade(&stream, 21 * SECOND, "A", 1_000);
    trade(&stream, 19 * SECOND, "A", 5_000);
    assert!(is_quiet(&mut rows));
    trade(&stream, 31 * SECOND, "A", 31);
    assert_eq!(take(&mut rows, 1), ["1970-01-01T00:00:20Z|A|1110|6"]);
    // Buckets without messages have no rows.
    trade(&stream, 65 * SECOND, "B", 1);
    assert_eq!(take(&mut rows, 1), ["1970-01-01T00:00:30Z|A|31|1"]);
    let history = place.rows(&format!("{query} HAVING min(time) < '1970-01-01T00:00:10Z'"));
    assert_eq!(history, ["1970-01-01T00:00:00Z|A|45|10"]);
}

#[test]
fn as_of_joins_go_on_with_what_arrives() {
    let place = Place::new();
    let stream = place.stream("ticks", TICKS, &[]);
    quote(&stream, SECOND, "A", 1);
    trade(&stream, 2 * SECOND, "A", 10);
    trade(&stream, 3 * SECOND, "A", 11);
    let mut rows = live(
        &place.db,
        "SELECT t.price, q.bid FROM ticks.Trade t ASOF JOIN ticks.Quote q \
         MATCH_CONDITION (t.time >= q.time AND t.time - q.time <= INTERVAL '1 minute') ON t.symbol = q.symbol",
    );
    assert_eq!(take(&mut rows, 1), ["10|1"], "of the latest time there may be more");
    quote(&stream, 4 * SECOND, "A", 2);
    assert_eq!(take(&mut rows, 1), ["11|1"]);
    trade(&stream, 5 * SECOND, "A", 12);
    // After a second without messages nothing of its time is expected any more.
    assert_eq!(take(&mut rows, 1), ["12|2"]);
    trade(&stream, 100 * SECOND, "A", 13);
    trade(&stream, 101 * SECOND, "A", 14);
    assert_eq!(take(&mut rows, 2), ["13|NULL", "14|NULL"], "the quote is older than a minute");
}

#[test]
fn what_cannot_run_live_is_named() {
    let place = bars(10, false);
    let options = Options { live: true, ..Options::default() };
    let sql = Sql::with_options(&place.db, options).unwrap();
    let bucket = "date_bin(INTERVAL '1 second', time)";
    for (query, what) in [
        ("SELECT n FROM bars ORDER BY n".into(), "ORDER BY"),
        ("SELECT n FROM bars LIMIT 5".into(), "LIMIT"),
        ("SELECT DISTINCT n FROM bars".into(), "DISTINCT"),
        ("SELECT count(*) FROM bars".into(), "an aggregate without a bucket of time"),
        ("SELECT symbol, count(*) FROM bars GROUP BY symbol".into(), "without a bucket of time"),
        (
            format!("SELECT {bucket}, count(*) FROM bars GROUP BY 1").replace("', time", "', time + INTERVAL '1 second'"),
            "without a bucket of time",
        ),
        ("SELECT n FROM latest('bars.Bar')".into(), "latest"),
        (
            "SELECT a.n, count(*) FROM bars a WINDOW JOIN bars b MATCH_CONDITION (b.time BETWEEN a.time - INTERVAL '1 second' \
             AND a.time) ON a.symbol = b.symbol"
                .into(),
            "WindowJoin",
        ),
        (
            "SELECT a.n, h.offset, b.n AS later FROM bars a HORIZON JOIN bars b MATCH_CONDITION (a.time >= b.time) \
             ON a.symbol = b.symbol LIST (INTERVAL '1 second') AS h"
                .into(),
            "HorizonJoin",
        ),
        ("SELECT lag(n) OVER (ORDER BY time) FROM bars".into(), "window functions"),
        ("SELECT a.n FROM bars a JOIN bars b ON a.n = b.n".into(), "joins other than as-of joins"),
        ("SELECT n FROM bars UNION ALL SELECT n FROM bars".into(), "UNION"),
        ("SELECT n FROM bars WHERE n > (SELECT avg(n) FROM bars)".into(), "subquery"),
        ("SELECT 1".into(), "a query without a table"),
        ("EXPLAIN SELECT n FROM bars".into(), "EXPLAIN"),
        (format!("SELECT count(*) FROM (SELECT {bucket} AS t, n FROM bars GROUP BY 1, 2) GROUP BY t"), "bucket"),
        (
            "SELECT a.n FROM bars a ASOF JOIN bars b MATCH_CONDITION (a.time > b.time) ON a.symbol = b.symbol".into(),
            "without a tolerance",
        ),
        (
            "SELECT a.n FROM bars a ASOF JOIN bars b MATCH_CONDITION (a.time < b.time) ON a.symbol = b.symbol".into(),
            "next or nearest row",
        ),
    ] {
        let error = sql.query(&query).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("cannot run live"), "{query}: {error}");
    }
}

#[test]
fn a_live_query_ends_with_its_stream() {
    for is_new in [false, true] {
        let place = bars(10, false);
        let mut rows = live(&place.db, "SELECT n FROM bars");
        take(&mut rows, 10);
        place.db.delete_stream("bars").unwrap();
        if is_new {
            // One of the same name is another one.
            let stream = place.stream("bars", BAR, &[]);
            for n in 0..20 {
                let bar =
                    format!(r#"{{"$type": "Bar", "n": {n}, "price": "1", "note": null, "side": null}}"#);
                append(&stream, &[(n * SECOND, "S", &bar)]);
            }
        }
        let start = Instant::now();
        loop {
            match rows.next_within(Duration::from_millis(20)) {
                Err(_) => break,
                Ok(next) => assert!(matches!(next, Next::Waiting), "{next:?}"),
            }
            assert!(start.elapsed() < Duration::from_secs(60));
        }
        assert!(matches!(rows.next_within(Duration::ZERO), Ok(Next::End)));
    }
}

#[test]
fn a_schema_that_changes_ends_the_query_where_its_columns_change() {
    let place = Place::new();
    let stream = place.stream("s", "message A { x: i64 }", &[(1, "A", r#"{"$type": "A", "x": 1}"#)]);
    let mut named = live(&place.db, "SELECT x FROM s");
    let mut all = live(&place.db, "SELECT * FROM s");
    take(&mut named, 1);
    take(&mut all, 1);
    let stream = {
        drop(stream);
        place.db.change_schema("s", "message A { x: i64, y: i32 = 7 }".parse().unwrap()).unwrap()
    };
    append(&stream, &[(2, "A", r#"{"$type": "A", "x": 2, "y": 5}"#)]);
    assert_eq!(take(&mut named, 1), ["2"]);
    let start = Instant::now();
    let error = loop {
        match all.next_within(Duration::from_millis(20)) {
            Ok(_) => assert!(start.elapsed() < Duration::from_secs(60)),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("schema of a stream has changed"), "{error}");
}
