//! Gap filling, against what a loop finds.

use crate::support::*;
use std::collections::{BTreeMap, BTreeSet};
use tapedb_query::{Options, Reason};

const SECOND: i64 = 1_000_000_000;

/// Messages of three symbols in about a third of all seconds until `seconds`; some have no value.
fn sparse(seconds: i64) -> (Place, Vec<(i64, String, Option<i64>)>) {
    let place = Place::new();
    let stream = place.stream("t", "message T { n: i64? }", &[]);
    let mut rows = Vec::new();
    for time in 0..seconds {
        let mixed = (time * 7_919 + time * time * 31) % 101;
        if mixed % 3 == 0 && time / 40 % 3 != 1 {
            rows.push((time, format!("S{}", mixed % 4), (mixed % 5 != 0).then_some(mixed)));
        }
    }
    for (time, symbol, n) in &rows {
        let n = n.map_or("null".into(), |n| n.to_string());
        append(&stream, &[(time * SECOND, symbol, &format!(r#"{{"$type": "T", "n": {n}}}"#))]);
    }
    stream.seal().unwrap();
    (place, rows)
}

fn number(value: Option<i64>) -> String {
    value.map_or("NULL".into(), |value| value.to_string())
}

#[test]
fn buckets_without_messages_are_filled() {
    let (place, rows) = sparse(600);
    let (from, end, width) = (15, 590, 10);
    let wanted: Vec<_> = rows.iter().filter(|row| (from..end).contains(&row.0)).collect();
    let symbols: BTreeSet<&String> = wanted.iter().map(|row| &row.1).collect();
    assert!(symbols.len() > 2);
    let mut expected = Vec::new();
    for symbol in symbols {
        let mut groups: BTreeMap<i64, Vec<Option<i64>>> = BTreeMap::new();
        for (time, _, n) in wanted.iter().filter(|row| row.1 == *symbol) {
            groups.entry(time / width * width).or_default().push(*n);
        }
        let starts: Vec<i64> = (from / width..=(end - 1) / width).map(|bucket| bucket * width).collect();
        let sum = |start: &i64| {
            let values: Vec<i64> = groups.get(start)?.iter().flatten().copied().collect();
            (!values.is_empty()).then(|| values.iter().sum::<i64>())
        };
        let mut last = None;
        for (index, start) in starts.iter().enumerate() {
            last = sum(start).or(last);
            let before = starts[..=index].iter().rev().find_map(|start| Some((*start, sum(start)?)));
            let after = starts[index..].iter().find_map(|start| Some((*start, sum(start)?)));
            let line = match (before, after) {
                (Some((a, x)), Some((b, y))) if a < b => {
                    format!("{:?}", x as f64 + (y - x) as f64 * ((start - a) as f64 / (b - a) as f64))
                }
                (Some((_, x)), Some(_)) => format!("{:?}", x as f64),
                _ => "NULL".into(),
            };
            let count = groups.get(start).map_or(0, Vec::len);
            expected.push(format!("{start}|{symbol}|{}|{}|{line}|{count}", number(sum(start)), number(last)));
        }
    }
    let query = "SELECT CAST(to_unixtime(b) AS BIGINT), symbol, s, l, i, c FROM (
        SELECT time_bucket_gapfill('10 seconds', time) AS b, symbol, sum(n) AS s, locf(sum(n)) AS l, interpolate(sum(n)) AS i,
            count(*) AS c
        FROM t WHERE time >= '1970-01-01T00:00:15Z' AND time < '1970-01-01T00:09:50Z' GROUP BY b, symbol) ORDER BY symbol, 1";
    for threads in [1, 3] {
        let sql = place.sql_with(Options { threads: Some(threads), ..Options::default() });
        assert_eq!(rows_of(sql.query(query).unwrap()).unwrap(), expected, "{threads} threads");
    }
}

#[test]
fn series_without_keys_and_days_of_a_zone() {
    let (place, _) = sparse(10);
    let none = "SELECT time_bucket_gapfill('1 hour', time) AS b, sum(n), locf(last(n)) FROM t
        WHERE symbol = 'none' AND time BETWEEN '2024-03-10T00:30:00Z' AND '2024-03-10T02:00:00Z' GROUP BY b";
    assert_eq!(
        place.rows(none),
        [
            "2024-03-10T00:00:00Z|NULL|NULL",
            "2024-03-10T01:00:00Z|NULL|NULL",
            "2024-03-10T02:00:00Z|NULL|NULL"
        ]
    );
    let days = "SELECT time_bucket_gapfill('1 day', time, 'America/New_York') AS b, count(*) FROM t
        WHERE time >= '2024-03-09T12:00:00Z' AND time < '2024-03-11T12:00:00Z' GROUP BY 1 ORDER BY 1 DESC";
    assert_eq!(
        place.rows(days),
        ["2024-03-11T04:00:00Z|0", "2024-03-10T05:00:00Z|0", "2024-03-09T05:00:00Z|0"]
    );
    let keyed = none.replace("GROUP BY b", "GROUP BY b, symbol");
    assert_eq!(place.rows(&keyed), [""; 0]);
}

#[test]
fn what_cannot_be_filled_is_an_error() {
    let (place, _) = sparse(100);
    let bounds = "WHERE time >= '1970-01-01' AND time < '1970-01-02'";
    for (select, rest, expected) in [
        ("sum(n)", "WHERE time >= '1970-01-01' GROUP BY b", "needs both bounds"),
        ("sum(n)", "GROUP BY b", "needs both bounds"),
        ("sum(n)", &format!("{bounds} GROUP BY b HAVING sum(n) > 1"), "into a subquery"),
        ("locf(symbol)", &format!("{bounds} GROUP BY b, symbol"), "of an aggregate"),
        ("interpolate(last(symbol))", &format!("{bounds} GROUP BY b"), "of numbers"),
        ("sum(n)", "WHERE time >= '1970-01-01' AND time < '2200-01-01' GROUP BY b", "10 million rows"),
    ] {
        let error = place
            .error(&format!("SELECT time_bucket_gapfill('1 second', time) AS b, {select} FROM t {rest}"));
        assert!(error.to_string().contains(expected), "{select} {rest}: {error}");
        assert_ne!(error.reason(), Reason::Internal, "{error}");
    }
    let alone = place.error("SELECT locf(n) FROM t").to_string();
    assert!(alone.contains("GROUP BY time_bucket_gapfill"), "{alone}");
}
