//! Data that is made to break queries: nulls, NaN, the ends of numbers, odd symbols, versions of the schema, deleted and late messages. The
//! answers are those of a stream that has only what is left of them, wherever the messages are and the query runs.

use crate::served::serve;
use crate::support::*;
use tapedb_engine::{Database, Stream};
use tapedb_query::{Options, Place as Where, Sql};
use tapedb_schema::Timestamp;

const VERSIONS: [&str; 3] = [
    "message Row { k: i64, f: f64?, i: i64? }",
    "message Row { k: i64, f: f64?, i: i64?, p: decimal(18,4) = 1.5, s: string? }",
    "message Row { k: i64, f: f64?, i: i64?, p: decimal(18,4) = 1.5, s: string?, e: E = TWO, u: u64? } enum E { ONE = 1, TWO = 2 }",
];

const SYMBOLS: [&str; 7] = ["Ä", "é☃ ", "a'b", "a\"b", " ", "%_\\", "a symbol of more than twelve bytes"];

const ROWS: i64 = 420;

const QUERIES: &[&str] = &[
    "SELECT time, symbol, k, f, i, p, s, e, u FROM r",
    "SELECT time, symbol, k FROM r ORDER BY time DESC LIMIT 9",
    "SELECT symbol, count(*), count(f), min(f), max(f), min(i), max(i), sum(p), max(u), count(DISTINCT s), min(e) FROM r GROUP BY symbol ORDER BY symbol",
    "SELECT k FROM r WHERE symbol = 'a''b' OR symbol = ' ' ORDER BY k",
    "SELECT count(*) FROM r WHERE symbol LIKE '\\%%' OR symbol IN ('Ä', 'a\"b', 'none')",
    "SELECT k FROM r WHERE f > 1e308 ORDER BY k",
    "SELECT k FROM r WHERE f = 'NaN' ORDER BY k",
    "SELECT k FROM r WHERE i = -9223372036854775808 OR i >= 9223372036854775807 ORDER BY k",
    "SELECT k FROM r WHERE u > 9223372036854775807 ORDER BY k",
    "SELECT count(*) FROM r WHERE p = 99999999999999.9999 OR p < -99999999999999",
    "SELECT k, s FROM r WHERE e = 'ONE' AND s IS NOT NULL ORDER BY k",
    "SELECT count(*), min(time), max(time) FROM r",
    "SELECT symbol, k FROM latest('r') ORDER BY symbol",
    "SELECT DISTINCT ON (symbol) symbol, k FROM r WHERE i IS NOT NULL ORDER BY symbol, time DESC",
    "SELECT a.k, b.k FROM r a ASOF JOIN r b MATCH_CONDITION (a.time > b.time AND a.time - b.time <= INTERVAL '40 nanoseconds') ON a.symbol = b.symbol",
    "SELECT a.k, count(*), max(b.f), first_value(b.k) FROM r a WINDOW JOIN r b MATCH_CONDITION (b.time BETWEEN a.time - INTERVAL '30 nanoseconds' AND a.time) ON a.symbol = b.symbol",
    "SELECT time_bucket('1 microsecond', time) AS b, symbol, first(f), last(f), ohlcv(f, k) AS bar FROM r GROUP BY b, symbol ORDER BY b, symbol",
    "SELECT symbol, first_value(k ORDER BY time), last_value(u ORDER BY time) FROM r GROUP BY symbol ORDER BY symbol",
    "SELECT date_bin(INTERVAL '700 nanoseconds', time) AS b, symbol, count(*), min(f), max(f), sum(k), max(i), first_value(f ORDER BY time) FROM r GROUP BY b, symbol ORDER BY b, symbol",
    "SELECT date_trunc('microsecond', time) AS b, count(u), max(f) FILTER (WHERE f < 5), last_value(k ORDER BY time) FROM r WHERE p > 0 GROUP BY b ORDER BY b",
    "SELECT time_bucket('300 nanoseconds', time) AS b, symbol, vwap(k, k), max(s), min(e) FROM r WHERE symbol <> ' ' GROUP BY b, symbol ORDER BY b, symbol",
];

/// A row, with the fields of a version. Rows of one symbol never have the same time.
fn row(k: i64, version: usize) -> (i64, &'static str, String) {
    let late = if k % 31 == 7 { 200 } else { 0 };
    let time = (k - late) * 10 + k % 10 - 3_000;
    let pick = |choices: &[&str]| choices[k as usize % choices.len()].to_string();
    let mut fields = vec![
        "\"$type\": \"Row\"".to_string(),
        format!("\"k\": {k}"),
        format!(
            "\"f\": {}",
            pick(&[
                "null",
                "1.5",
                "\"NaN\"",
                "\"Infinity\"",
                "\"-Infinity\"",
                "-0.0",
                "1e308",
                "5e-324",
                "2"
            ])
        ),
        format!("\"i\": {}", pick(&["null", "9223372036854775807", "-9223372036854775808", "0", "-1"])),
    ];
    if version > 0 {
        let p = pick(&["\"99999999999999.9999\"", "\"-99999999999999.9999\"", "\"0.0001\"", "\"0\""]);
        fields.extend([format!("\"p\": {p}"), format!("\"s\": {}", pick(&["null", "\"\"", "\"☃\""]))]);
    }
    if version > 1 {
        let e = pick(&["\"ONE\"", "\"TWO\""]);
        fields.extend([
            format!("\"e\": {e}"),
            format!("\"u\": {}", pick(&["null", "18446744073709551615", "0"])),
        ]);
    }
    (time, SYMBOLS[k as usize % SYMBOLS.len()], format!("{{{}}}", fields.join(", ")))
}

/// The version that a row is written with.
fn version(k: i64) -> usize {
    (k * 3 / ROWS) as usize
}

/// Whether a row is deleted: those of a range of times, and those of two symbols in another range.
fn is_deleted(time: i64, symbol: &str) -> bool {
    (-1_000..-500).contains(&time) || (0..900).contains(&time) && ["a'b", "Ä"].contains(&symbol)
}

fn fill(stream: &Stream, ks: impl Iterator<Item = i64>) {
    let rows: Vec<_> = ks.map(|k| row(k, version(k))).collect();
    append(
        stream,
        &rows.iter().map(|(time, symbol, text)| (*time, *symbol, text.as_str())).collect::<Vec<_>>(),
    );
}

fn delete(stream: &Stream) {
    stream.delete(Timestamp(-1_000)..Timestamp(-500), None::<[&str; 0]>).unwrap();
    stream.delete(Timestamp(0)..Timestamp(900), Some(["a'b", "Ä"])).unwrap();
}

fn check(db: &Database, place: Where, expected: &[Vec<String>], state: &str) {
    let threads: &[usize] = if place == Where::Here { &[1, 3] } else { &[2] };
    for threads in threads.iter().copied() {
        let options = Options { place, threads: Some(threads), ..Options::default() };
        let sql = Sql::with_options(db, options).unwrap();
        for (number, (query, expected)) in QUERIES.iter().zip(expected).enumerate() {
            if !is_tried(number + state.len() * 100 + threads * 10_000, 3) {
                continue;
            }
            let found = sql.query(query).and_then(rows_of).unwrap_or_else(|error| panic!("{query}: {error}"));
            let at = found.iter().zip(expected).position(|(a, b)| a != b);
            let differ = at.map(|at| (&found[at], &expected[at]));
            assert!(found == *expected, "{query}, {state}, {threads} threads: {differ:?}");
        }
    }
}

#[test]
fn answers_are_those_of_the_rows_that_are_left() {
    let plain = Place::new();
    let stream = plain.stream("r", VERSIONS[2], &[]);
    let left = (0..ROWS).filter(|k| {
        let (time, symbol, _) = row(*k, 0);
        !is_deleted(time, symbol)
    });
    // What older versions do not state is what the newest one says.
    let rows: Vec<_> = left.map(|k| row(k, version(k))).collect();
    append(
        &stream,
        &rows.iter().map(|(time, symbol, text)| (*time, *symbol, text.as_str())).collect::<Vec<_>>(),
    );
    let sql = plain.sql_with(Options { threads: Some(1), ..Options::default() });
    let expected: Vec<Vec<String>> = QUERIES
        .iter()
        .map(|query| sql.query(query).and_then(rows_of).unwrap_or_else(|error| panic!("{query}: {error}")))
        .collect();
    assert!(expected.iter().all(|rows| !rows.is_empty()), "{expected:?}");
    // In the log, in segments, in both; deleted before or after the messages are sealed; merged.
    for (seals, deletes_first) in [(0, true), (1, false), (3, true), (4, false)] {
        let place = Place::new();
        place.stream("r", VERSIONS[0], &[]);
        for (part, schema) in VERSIONS.iter().enumerate() {
            if part > 0 {
                place.db.change_schema("r", schema.parse().unwrap()).unwrap();
            }
            let stream = place.db.stream("r").unwrap();
            let is_seal = |k: i64| seals > 0 && k % (ROWS / (seals + 1)) == 0 && k > 0 && k < ROWS;
            let mut ks = (0..ROWS).filter(|k| version(*k) == part).peekable();
            while ks.peek().is_some() {
                let mut some = Vec::new();
                for k in ks.by_ref() {
                    some.push(k);
                    if is_seal(k) {
                        break;
                    }
                }
                fill(&stream, some.iter().copied());
                if some.last().is_some_and(|k| is_seal(*k)) {
                    stream.seal().unwrap();
                }
            }
        }
        let stream = place.db.stream("r").unwrap();
        if deletes_first {
            delete(&stream);
        }
        let state = format!("{seals} seals, deleted {}", if deletes_first { "before" } else { "behind" });
        if !deletes_first {
            stream.seal().unwrap();
            delete(&stream);
        }
        check(&place.db, Where::Here, &expected, &state);
        stream.seal().unwrap();
        check(&place.db, Where::Here, &expected, &format!("{state}, sealed"));
        let served = serve(place, |_| {});
        let remote = served.client();
        check(&remote, Where::Server, &expected, &format!("{state}, on a server"));
        check(&remote, Where::Here, &expected, &format!("{state}, in its client"));
    }
}
