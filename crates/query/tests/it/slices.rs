//! Joins that several threads divide into slices of time, against the same joins in one thread.

use crate::support::*;
use tapedb_engine::{Stream, StreamOptions};
use tapedb_query::{Options, Sql};
use tapedb_schema::Timestamp;

/// So many rows that three threads have three slices.
const QUOTES: i64 = 620_000;
const TRADES: i64 = 6_000;

/// Quotes of a symbol that is everywhere, one that is in the first slice only, one in the second one, and one without trades. Several have
/// one time, also where slices are cut; some are late.
fn quote(n: i64) -> (i64, &'static str, i64) {
    let symbol = match n {
        40 | 50 => "early",
        300_000 => "a symbol of more than twelve bytes",
        _ if n % 3 == 0 => "idle",
        _ => "busy",
    };
    let late = if n % 1_001 == 1_000 { 90 } else { 0 };
    ((n - late) / 7 * 7_000, symbol, n)
}

fn trade(n: i64) -> (i64, &'static str, i64) {
    let symbols = ["busy", "busy", "early", "a symbol of more than twelve bytes", "unknown"];
    (n * QUOTES / TRADES * 1_000 + n % 5 * 1_000, symbols[n as usize % 5], n)
}

fn load(place: &Place, name: &str, rows: impl Iterator<Item = (i64, &'static str, i64)>) -> Stream {
    let schema = "message Row { x: i64 }".parse().unwrap();
    let stream = place.db.create_stream(name, schema, StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    for (time, symbol, x) in rows {
        loader.append_body(symbol, Timestamp(time), 0, &x.to_le_bytes()).unwrap();
    }
    loader.close().unwrap();
    stream
}

fn rows(sql: &Sql, query: &str) -> Vec<String> {
    sql.query(query).and_then(rows_of).unwrap_or_else(|error| panic!("{query}: {error}"))
}

#[test]
fn slices_are_joined_as_the_whole_is() {
    let place = Place::new();
    let quotes = load(&place, "q", (0..QUOTES).map(quote));
    let trades = load(&place, "t", (0..TRADES).map(trade));
    let [one, three] =
        [1, 3].map(|threads| place.sql_with(Options { threads: Some(threads), ..Options::default() }));
    let joins = [
        "SELECT t.time, t.symbol, t.x, q.x, q.time FROM t ASOF JOIN q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol",
        "SELECT q.x, t.x FROM t ASOF JOIN q MATCH_CONDITION (t.time > q.time) ON t.symbol = q.symbol",
        "SELECT t.x, q.x FROM t ASOF JOIN q ON t.symbol = q.symbol AND t.time >= q.time",
        "SELECT t.x, q.x FROM (SELECT x, symbol AS s, time FROM t WHERE x % 3 <> 1) t \
         ASOF LEFT JOIN q ON t.s = q.symbol AND t.time >= q.time AND t.time - q.time <= INTERVAL '0.3 seconds'",
        "SELECT t.x, q.x FROM t ASOF JOIN q ON t.symbol = q.symbol AND t.time >= q.time \
         AND t.time - q.time <= INTERVAL '0.3 seconds'",
        "SELECT t.x, q.x, q.symbol FROM t ASOF JOIN q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol \
         WHERE t.time BETWEEN '1970-01-01T00:00:00.02Z' AND '1970-01-01T00:00:00.61Z'",
        "SELECT t.symbol, count(q.x), sum(q.x) FROM t ASOF JOIN q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol \
         GROUP BY t.symbol ORDER BY t.symbol",
        "SELECT t.x, count(*), sum(q.x), min(q.x), max(q.x) FROM t WINDOW JOIN q \
         MATCH_CONDITION (q.time BETWEEN t.time - INTERVAL '1 millisecond' AND t.time + INTERVAL '2 milliseconds') ON t.symbol = q.symbol",
    ];
    let of_one: Vec<_> = joins.iter().map(|join| rows(&one, join)).collect();
    // In the log, in segments, and in both.
    for step in 0..3 {
        for (join, of_one) in joins.iter().zip(&of_one) {
            let plan = rows(&three, &format!("EXPLAIN {join}")).join("\n");
            assert!(plan.contains("partitions=3"), "{plan}");
            assert!(rows(&three, join) == *of_one, "{step}: {join}");
        }
        match step {
            0 => quotes.seal().unwrap(),
            _ => trades.seal().unwrap(),
        };
    }
}

/// A query that wants some rows does not join all, and one that is dropped ends.
#[test]
fn a_divided_join_stops() {
    let place = Place::new();
    load(&place, "q", (0..QUOTES).map(quote)).seal().unwrap();
    load(&place, "t", (0..QUOTES).map(trade)).seal().unwrap();
    let sql = place.sql_with(Options { threads: Some(3), ..Options::default() });
    let join = "SELECT t.x, q.x FROM t ASOF JOIN q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol";
    assert_eq!(rows(&sql, &format!("{join} LIMIT 3")), ["0|5", "1|104", "2|50"]);
    let mut stopped = sql.query(join).unwrap();
    assert!(stopped.next_batch().unwrap().is_some());
    drop(stopped);
    assert_eq!(rows(&sql, &format!("SELECT count(*) FROM ({join})")), [QUOTES.to_string()]);
}
