//! As-of joins on rows that are made to break them, beside a loop: times at both ends of 64 bits, tolerances to the
//! nanosecond, and rows of one time on both sides of the edges of blocks.

use crate::support::*;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::Stream;
use tapedb_query::Options;
use tapedb_schema::Timestamp;

#[derive(Record, Debug, Default)]
#[record(message)]
struct Row {
    n: i64,
}

/// A stream of rows of one symbol that are numbered in the order of arrival.
fn rows(place: &Place, name: &str, times: &[i64]) -> Stream {
    let schema = SchemaBuilder::new().with::<Row>().finish();
    let stream = place.db.create_stream(name, schema, Default::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    for (n, time) in times.iter().enumerate() {
        loader.append("A", Timestamp(*time), &Row { n: n as i64 }).unwrap();
    }
    loader.close().unwrap();
    stream
}

/// In the order of the stream: time, number.
fn in_order(times: &[i64]) -> Vec<(i64, usize)> {
    let mut rows: Vec<_> = times.iter().copied().zip(0..).collect();
    rows.sort_unstable();
    rows
}

/// The rows of this time, of the last time before it, and of the first time behind it.
fn around(rights: &[(i64, usize)], time: i64) -> &[(i64, usize)] {
    let place = |time: i64| rights.partition_point(|row| row.0 < time);
    let first = place(time).checked_sub(1).map_or(0, |before| place(rights[before].0));
    let behind = rights.partition_point(|row| row.0 <= time);
    let end = rights.get(behind).map_or(rights.len(), |next| rights.partition_point(|row| row.0 <= next.0));
    &rights[first..end]
}

/// The row of the right side for a time, by looking at all rows around it.
fn found(rights: &[(i64, usize)], time: i64, op: &str, tolerance: Option<i64>) -> Option<usize> {
    let rights = around(rights, time);
    let away = |row: &&(i64, usize)| (i128::from(row.0) - i128::from(time)).unsigned_abs();
    let near = rights.iter().filter(|row| tolerance.is_none_or(|most| away(row) <= most as u128));
    let before = near.clone().filter(|row| if op == ">" { row.0 < time } else { row.0 <= time }).max();
    let first = near.clone().filter(|row| if op == "<" { row.0 > time } else { row.0 >= time }).min();
    let behind = first.and_then(|first| near.filter(|row| row.0 == first.0).max());
    match op {
        ">=" | ">" => before,
        "<=" | "<" => behind,
        _ => match (before, behind) {
            (Some(a), Some(b)) => Some(if away(&a) <= away(&b) { a } else { b }),
            (a, b) => a.or(b),
        },
    }
    .map(|row| row.1)
}

fn matching(op: &str, tolerance: Option<i64>) -> String {
    let most = tolerance.map(|most| format!("INTERVAL '{most} nanoseconds'"));
    match (op, most) {
        ("nearest", None) => "nearest(l.time, r.time)".into(),
        ("nearest", Some(most)) => format!("nearest(l.time, r.time, {most})"),
        (op, None) => format!("l.time {op} r.time"),
        (op @ (">=" | ">"), Some(most)) => format!("l.time {op} r.time AND l.time - r.time <= {most}"),
        (op, Some(most)) => format!("l.time {op} r.time AND r.time - l.time <= {most}"),
    }
}

/// Compares all kinds of joins, by symbol and without a key, with the loop.
fn check(place: &Place, lefts: &[i64], rights: &[i64], tolerances: &[Option<i64>], state: &str) {
    let (lefts, rights) = (in_order(lefts), in_order(rights));
    for (at, op) in [">=", ">", "<=", "<", "nearest"].into_iter().enumerate() {
        for (nth, tolerance) in tolerances.iter().enumerate() {
            if !is_tried(at * 100 + nth + state.len() * 1_000 + rights.len() * 10_000, 3) {
                continue;
            }
            let expected: Vec<String> = lefts
                .iter()
                .map(|(time, n)| {
                    let right = found(&rights, *time, op, *tolerance);
                    format!("{n}|{}", right.map_or("NULL".to_string(), |n| n.to_string()))
                })
                .collect();
            for key in ["", " ON l.symbol = r.symbol"] {
                let on = matching(op, *tolerance);
                let query = format!("SELECT l.n, r.n FROM l ASOF JOIN r MATCH_CONDITION ({on}){key}");
                for threads in [1, 2] {
                    let sql = place.sql_with(Options { threads: Some(threads), ..Options::default() });
                    let found = rows_of(sql.query(&query).unwrap()).unwrap();
                    let at = found.iter().zip(&expected).position(|(a, b)| a != b);
                    let differ = at.map(|at| (&found[at], &expected[at], lefts[at]));
                    assert!(found == expected, "{query}, {state}, {threads} threads: {differ:?}");
                }
            }
        }
    }
}

#[test]
fn times_may_be_at_the_ends_of_64_bits() {
    let times = [
        i64::MIN,
        i64::MIN + 1,
        i64::MIN + 2,
        -1_000_000_001,
        -1_000_000_000,
        -2,
        -1,
        0,
        0,
        1,
        2,
        1_000_000_000,
        i64::MAX - 2,
        i64::MAX - 1,
        i64::MAX - 1,
        i64::MAX,
    ];
    let tolerances =
        [None, Some(0), Some(1), Some(2), Some(999_999_999), Some(1_000_000_000), Some(i64::MAX)];
    for step in [1, 2, 3] {
        let rights: Vec<i64> = times.iter().copied().step_by(step).rev().collect();
        let place = Place::new();
        let (left, right) = (rows(&place, "l", &times), rows(&place, "r", &rights));
        check(&place, &times, &rights, &tolerances, "in the log");
        left.seal().unwrap();
        right.seal().unwrap();
        check(&place, &times, &rights, &tolerances, "in segments");
    }
}

/// Of the rows from each of these on some have the same time; late ones have it too.
#[test]
fn rows_of_one_time_may_be_on_both_sides_of_the_edges_of_blocks() {
    const EDGES: [i64; 6] = [126, 8_190, 65_533, 65_534, 131_067, 131_069];
    let time = |n: i64| {
        let edge = EDGES.iter().rev().find(|edge| (**edge..**edge + 5).contains(&n));
        1_000 + 10 * edge.unwrap_or(&n)
    };
    let mut rights: Vec<i64> = (0..131_080).map(time).collect();
    rights.extend(EDGES.map(time));
    let around = EDGES.iter().flat_map(|edge| (edge - 2..edge + 8).map(time));
    let mut lefts: Vec<i64> = around.flat_map(|time| [time - 1, time, time + 1, time + 9]).collect();
    lefts.extend([0, 999, i64::MAX]);
    lefts.sort_unstable();
    let place = Place::new();
    let (left, right) = (rows(&place, "l", &lefts), rows(&place, "r", &rights));
    check(&place, &lefts, &rights, &[None, Some(9)], "in the log");
    left.seal().unwrap();
    right.seal().unwrap();
    check(&place, &lefts, &rights, &[None, Some(0), Some(1), Some(9), Some(10)], "in segments");
}
