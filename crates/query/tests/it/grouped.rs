//! Groups by symbol and time that are read as messages are stored, against the same groups with one key more, which are not.

use crate::support::*;
use tapedb_engine::{Database, StreamOptions};
use tapedb_query::{Options, Reason, Sql};
use tapedb_schema::Timestamp;

/// Two kinds of buckets, and what else groups may be by.
const KEYS: &[&str] = &[
    "symbol",
    "date_bin(INTERVAL '1 minute', time)",
    "symbol, date_bin(INTERVAL '7 seconds', time)",
    "date_bin(INTERVAL '90 seconds', time, TIMESTAMP '2024-03-10T00:00:11Z'), symbol",
    "symbol, time_bucket('1 hour', time, 'America/New_York')",
    "time_bucket('1 day', time, 'America/New_York'), symbol",
    "time_bucket('1 month', time, 'Australia/Lord_Howe')",
    "date_trunc('hour', time), symbol, date_trunc('week', time)",
    "date_trunc('quarter', time), date_trunc('minute', time)",
];

/// Doubles are quarters, so that sums are exact in any order.
const FUNCTIONS: &[&str] = &[
    "count(*), count(f), count(i), count(s)",
    "sum(f), sum(n), sum(i), sum(p), avg(n)",
    "min(f), max(f), min(n), max(n), min(i), max(i), min(time), max(time), min(s), max(s), min(p), max(p)",
    "first_value(n ORDER BY time), last_value(f ORDER BY time), last_value(p ORDER BY time)",
    "vwap(n, u), sum(n * u) / sum(u)",
    "count(*) FILTER (WHERE n % 3 = 0), sum(n) FILTER (WHERE f > 1), max(f) FILTER (WHERE i IS NULL)",
    "count(DISTINCT n % 5), median(n), sum(DISTINCT i), bool_or(f > 5), stddev(n)",
];

const CONDITIONS: &[&str] = &[
    "",
    "WHERE n % 7 <> 2",
    "WHERE symbol <> 'S3' AND f IS NOT NULL",
    "WHERE symbol = 'S1'",
    "WHERE n < 0",
    "WHERE time >= '2024-03-10T06:00:00Z' AND time < '2024-03-10T09:00:00Z'",
    "WHERE symbol LIKE '%more%' OR n BETWEEN 50 AND 90",
];

const ROW: &str = "message Row { n: i64, u: u32, f: f64?, i: i64?, s: string?, p: decimal(18,2) }";

/// Hours before and behind the night in which New York's clock is put forward, and times before 1970; some messages are late, and
/// several have the same time.
fn row(n: i64) -> (i64, &'static str, String) {
    const NIGHT: i64 = 1_710_054_000_000_000_000;
    let late = if n % 41 == 5 { 37 } else { 0 };
    let time = match n {
        0..40 => (n - 40) * 1_500_000_001,
        _ => NIGHT - 12 * 3_600_000_000_000 + (n - late) / 3 * 61_000_000_000,
    };
    let symbols = ["S1", "S2", "S3", "a symbol of more than twelve bytes", "ß"];
    let pick = |choices: &[&str]| choices[n as usize % choices.len()].to_string();
    let f = pick(&["null", "0.25", "\"NaN\"", "-17.5", "8", "\"Infinity\"", "0", "-0.0", "3.75", "1", "2.5"]);
    let text = format!(
        r#"{{"$type": "Row", "n": {n}, "u": {}, "f": {f}, "i": {}, "s": {}, "p": "{}.25"}}"#,
        n % 9 + 1,
        pick(&["null", "5", "-9", "7", "0", "null", "1000000"]),
        pick(&["null", "\"x\"", "\"yyyyyyyyyyyyyyyyyyyy\"", "\"\""]),
        n % 100 - 50,
    );
    (time, symbols[(n * n % 11 % 5) as usize], text)
}

fn query(keys: &str, functions: &str, condition: &str, more: &str) -> String {
    format!("SELECT {keys}, {functions} FROM r {condition} GROUP BY {keys}{more}")
}

fn sorted(sql: &Sql, query: &str) -> Vec<String> {
    let mut rows = sql.query(query).and_then(rows_of).unwrap_or_else(|error| panic!("{query}: {error}"));
    rows.sort();
    rows
}

/// Compares all groups of a database, on one thread and on several.
fn check(db: &Database, state: &str) {
    let with =
        |threads| Sql::with_options(db, Options { threads: Some(threads), ..Options::default() }).unwrap();
    let (one, three) = (with(1), with(3));
    for (at, keys) in KEYS.iter().enumerate() {
        for (nth, functions) in FUNCTIONS.iter().enumerate() {
            if !is_tried(at * FUNCTIONS.len() + nth + state.len() * 1_000, 4) {
                continue;
            }
            // Each pair of the three comes with some of the third.
            let condition = CONDITIONS[(at + nth) % CONDITIONS.len()];
            let wanted = sorted(&one, &query(keys, functions, condition, ", abs(n) * 0"));
            for sql in [&one, &three] {
                let query = query(keys, functions, condition, "");
                let plan = sorted(sql, &format!("EXPLAIN {query}")).join("\n");
                // Of the last functions some have no groups in DataFusion either.
                let is_replaced = plan.contains("GroupBySymbol: mode=Partial");
                assert!(is_replaced || nth + 1 == FUNCTIONS.len(), "{query}: {plan}");
                let found = sorted(sql, &query);
                let differ = found.iter().zip(&wanted).find(|(found, wanted)| found != wanted);
                assert!(found == wanted, "{query}, {state}: {differ:?}, {} {}", found.len(), wanted.len());
            }
        }
    }
}

#[test]
fn groups_are_those_of_rows() {
    for (state, spaces) in [("in the log", 1), ("sealed", 1), ("in both", 3), ("merged", 1)] {
        let place = Place::new();
        let options = StreamOptions { spaces, ..StreamOptions::default() };
        let stream = place.db.create_stream("r", ROW.parse().unwrap(), options).unwrap();
        for part in 0..4 {
            let rows: Vec<_> = (part * 150..(part + 1) * 150).map(row).collect();
            let rows: Vec<_> =
                rows.iter().map(|(time, symbol, text)| (*time, *symbol, text.as_str())).collect();
            append(&stream, &rows);
            if state != "in the log" && (part < 3 || state != "in both") {
                stream.seal().unwrap();
            }
        }
        if state == "merged" {
            let night = Timestamp(1_710_054_000_000_000_000);
            stream.delete(Timestamp(night.0 - 3_000_000_000_000)..night, Some(["S1", "ß"])).unwrap();
        }
        check(&place.db, state);
    }
}

#[test]
fn several_partitions_are_put_together() {
    let place = bars(450_000, true);
    let two = place.sql_with(Options { threads: Some(2), ..Options::default() });
    let query = |more: &str| {
        format!(
            "SELECT symbol, date_bin(INTERVAL '1 hour', time) AS h, count(*), sum(n), min(n), last_value(n ORDER BY time) \
             FROM bars GROUP BY symbol, h{more} ORDER BY symbol, h"
        )
    };
    let plan = rows_of(two.query(&format!("EXPLAIN {}", query(""))).unwrap()).unwrap().join("\n");
    assert!(plan.contains("GroupBySymbol") && plan.contains("partitions=2"), "{plan}");
    let found = rows_of(two.query(&query("")).unwrap()).unwrap();
    assert_eq!(found, place.rows(&query(", n * 0")));
    assert_eq!(found.len(), 10 * 125);
}

#[test]
fn an_empty_stream_has_no_groups() {
    let place = Place::new();
    place.stream("r", ROW, &[]);
    for keys in KEYS {
        assert!(place.rows(&query(keys, FUNCTIONS[0], "", "")).is_empty(), "{keys}");
    }
}

#[test]
fn what_needs_an_order_or_other_keys_is_read_otherwise() {
    let place = bars(100, true);
    for query in [
        "SELECT symbol, first(n), count(*) FROM bars GROUP BY symbol",
        "SELECT symbol, ema(n, 3) FROM bars GROUP BY symbol",
        "SELECT symbol, array_agg(n ORDER BY n) FROM bars GROUP BY symbol",
        "SELECT symbol, first_value(n ORDER BY price) FROM bars GROUP BY symbol",
        "SELECT side, count(*) FROM bars GROUP BY side",
        "SELECT upper(symbol), count(*) FROM bars GROUP BY 1",
        "SELECT symbol, date_bin(INTERVAL '1 month', time), count(*) FROM bars GROUP BY 1, 2",
        "SELECT symbol, date_bin(INTERVAL '1 minute', time + INTERVAL '1 second'), count(*) FROM bars GROUP BY 1, 2",
        "SELECT symbol, count(*) FROM bars GROUP BY GROUPING SETS ((symbol), ())",
        "SELECT symbol, count(*) FROM (SELECT * FROM bars LIMIT 50) GROUP BY symbol",
        "SELECT symbol, count(*) FROM bars WHERE random() < 2 GROUP BY symbol",
        "SELECT time_bucket('1 minute', time) AS b, count(*) FROM bars GROUP BY b ORDER BY b LIMIT 2",
        "SELECT count(*) FROM bars",
    ] {
        let plan = place.plan(query);
        assert!(!plan.contains("GroupBySymbol"), "{query}: {plan}");
        place.rows(query);
    }
}

#[test]
fn conditions_hold_before_what_is_computed_from_their_rows() {
    let place = bars(100, true);
    let query = "SELECT symbol, sum(q) FROM (SELECT symbol, 100 / m AS q FROM (SELECT symbol, CAST(n AS BIGINT) - 5 AS m FROM bars WHERE n > 5) WHERE m < 50)
        GROUP BY symbol ORDER BY symbol";
    assert!(place.plan(query).contains("GroupBySymbol"), "{}", place.plan(query));
    let mut sums = [0; 10];
    (6..55).for_each(|n| sums[n % 10] += 100 / (n - 5));
    let wanted: Vec<_> = sums.iter().enumerate().map(|(symbol, sum)| format!("S{symbol}|{sum}")).collect();
    assert_eq!(place.rows(query), wanted);
}

#[test]
fn errors_and_limits_end_it() {
    let place = Place::new();
    let row = |x: i64| format!(r#"{{"$type": "M", "x": {x}}}"#);
    let (first, second) = (row(i64::MAX), row(1));
    place.stream("m", "message M { x: i64 }", &[(i64::MIN + 5, "A", &first), (2, "A", &second)]);
    for query in [
        "SELECT symbol, sum(x) FROM m GROUP BY symbol",
        "SELECT symbol, max(x + 1) FROM m GROUP BY symbol",
        "SELECT symbol, count(*) FILTER (WHERE 1 / (x - 1) > 0) FROM m GROUP BY symbol",
        "SELECT time_bucket('1 day', time), count(*) FROM m GROUP BY 1",
    ] {
        assert!(place.plan(query).contains("GroupBySymbol"), "{query}");
        let error = place.error(query);
        assert!(
            matches!(error.reason(), Reason::Value | Reason::Query),
            "{query}: {:?} {error}",
            error.reason()
        );
    }
    let place = bars(20_000, true);
    let query =
        "SELECT symbol, date_bin(INTERVAL '20 seconds', time), sum(n), max(price) FROM bars GROUP BY 1, 2";
    let little = place.sql_with(Options { memory_bytes: 50_000, ..Options::default() });
    let error = little.query(query).and_then(rows_of).unwrap_err();
    assert_eq!(error.reason(), Reason::Limit, "{error}");
    // Stopped after the first rows, the threads that read end too: otherwise the database would not close.
    drop(place.sql().query(query).unwrap());
}
