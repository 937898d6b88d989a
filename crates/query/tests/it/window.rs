//! Window joins and markouts: against what a loop finds.

use crate::support::*;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::Stream;
use tapedb_query::{Options, Reason};
use tapedb_schema::Timestamp;

#[derive(Record, Debug, Default)]
#[record(message)]
struct Row {
    n: i64,
}

/// Time, number and symbol.
type Made = Vec<(i64, i64, u64)>;

/// A stream of rows with these times, numbered; symbols repeat.
fn stream(place: &Place, name: &str, times: impl Iterator<Item = (i64, u64)>) -> (Stream, Made) {
    let schema = SchemaBuilder::new().with::<Row>().finish();
    let stream = place.db.create_stream(name, schema, Default::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    let mut made = Vec::new();
    for (n, (time, symbol)) in (0..).zip(times) {
        loader.append(&format!("S{symbol}"), Timestamp(time), &Row { n }).unwrap();
        made.push((time, n, symbol));
    }
    loader.close().unwrap();
    made.sort();
    (stream, made)
}

fn small() -> Place {
    let place = Place::new();
    stream(&place, "t", [(10, 0), (20, 1), (20, 0), (30, 2), (40, 0)].into_iter());
    stream(&place, "q", [(5, 0), (10, 0), (10, 0), (12, 0), (18, 1), (19, 0), (39, 0), (41, 0)].into_iter());
    place
}

fn rows(place: &Place, select: &str, join: &str) -> Vec<String> {
    place.rows(&format!("SELECT {select} FROM t {join} ORDER BY t.time, t.n"))
}

#[test]
fn aggregates_are_those_of_rows_around_each_row() {
    let place = small();
    let window =
        |condition: &str| format!("WINDOW JOIN q MATCH_CONDITION ({condition}) ON t.symbol = q.symbol");
    let nano = |n: i64| format!("INTERVAL '{n} nanoseconds'");
    let around = window(&format!("q.time BETWEEN t.time - {} AND t.time + {}", nano(2), nano(2)));
    let select = "t.n, count(*), sum(q.n), min(q.n), max(q.n)";
    let expected = ["0|3|6|1|3", "1|1|4|4|4", "2|1|5|5|5", "3|0|NULL|NULL|NULL", "4|2|13|6|7"];
    assert_eq!(rows(&place, select, &around), expected);
    for same in [
        format!("q.time >= t.time - {} AND q.time <= t.time + {}", nano(2), nano(2)),
        format!("t.time - {} < q.time AND q.time - {} < t.time", nano(3), nano(3)),
    ] {
        assert_eq!(rows(&place, select, &window(&same)), expected, "{same}");
    }
    // Expressions, conditions and distinct values of aggregates; the same aggregate twice; names.
    let select = "t.n + count(DISTINCT q.time) AS c, sum(q.n) FILTER (WHERE q.n > 2) AS s, sum(q.n) * 2 + sum(q.n) AS s3, median(q.n)";
    assert_eq!(
        rows(&place, select, &around),
        ["2|3|18|2.0", "2|4|12|4.0", "3|5|15|5.0", "3|NULL|NULL|NULL", "6|13|39|6.5"]
    );
    let names = place.sql().query(&format!("SELECT t.n, max(q.n), count(*) AS c FROM t {around}")).unwrap();
    let names: Vec<_> = names.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["n", "max(q.n)", "c"]);
    let ordered = place.rows(&format!("SELECT t.n FROM t {around} ORDER BY count(*) DESC, t.n LIMIT 2"));
    assert_eq!(ordered, ["0", "4"]);
    // With the last row before the window, unless one is at its beginning.
    let before = window(&format!("q.time BETWEEN t.time AND t.time + {}", nano(1)));
    assert_eq!(rows(&place, "t.n, count(*)", &before), ["0|2", "1|0", "2|0", "3|0", "4|1"]);
    for (word, expected) in [
        ("INCLUDE", ["0|2|1", "1|1|4", "2|1|5", "3|0|NULL", "4|2|6"]),
        ("exclude", ["0|2|1", "1|0|NULL", "2|0|NULL", "3|0|NULL", "4|1|7"]),
    ] {
        let join = before.replace(" ON", &format!(" {word} PREVAILING ON"));
        assert_eq!(rows(&place, "t.n, count(*), min(q.n)", &join), expected, "{word}");
    }
    // Without keys, of a subquery, and grouped from outside.
    let any = format!("WINDOW JOIN q MATCH_CONDITION (q.time BETWEEN t.time - {} AND t.time)", nano(2));
    assert_eq!(rows(&place, "t.n, count(*)", &any), ["0|2", "1|2", "2|2", "3|0", "4|1"]);
    let some = around.replace("JOIN q ", "JOIN (SELECT * FROM q WHERE n <> 2) q ");
    assert_eq!(rows(&place, "t.n, count(*)", &some), ["0|2", "1|1", "2|1", "3|0", "4|2"]);
    let grouped = format!(
        "SELECT symbol, max(c) FROM (SELECT t.symbol, count(*) AS c FROM t {around}) GROUP BY symbol ORDER BY symbol"
    );
    assert_eq!(place.rows(&grouped), ["S0|3", "S1|1", "S2|0"]);
}

#[test]
fn markouts_have_a_row_for_each_offset() {
    let place = small();
    let join = "HORIZON JOIN q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol \
        LIST (INTERVAL '0 seconds', INTERVAL '-5 nanoseconds', INTERVAL '2 nanoseconds') AS h";
    let found = rows(&place, "t.n, h.offset = INTERVAL '0 seconds', q.n", join);
    let expected = [
        ["0|true|2", "0|false|0", "0|false|3"],
        ["1|true|4", "1|false|NULL", "1|false|4"],
        ["2|true|5", "2|false|3", "2|false|5"],
        ["3|true|NULL", "3|false|NULL", "3|false|NULL"],
        ["4|true|6", "4|false|5", "4|false|7"],
    ];
    assert_eq!(found, expected.concat());
    let by_offset = format!("SELECT sum(q.n), count(q.n) FROM t {join} GROUP BY h.offset ORDER BY h.offset");
    assert_eq!(place.rows(&by_offset), ["8|3", "17|4", "19|4"]);
    let only =
        format!("SELECT t.n, q.n FROM t {join} WHERE t.symbol = 'S1' AND h.offset > INTERVAL '0 seconds'");
    assert_eq!(place.rows(&only), ["1|4"]);
}

#[test]
fn conditions_limit_both_sides() {
    let place = small();
    let query = "SELECT t.n, count(*) FROM t WINDOW JOIN q \
        MATCH_CONDITION (q.time BETWEEN t.time - INTERVAL '2 nanoseconds' AND t.time + INTERVAL '2 nanoseconds') ON t.symbol = q.symbol \
        WHERE t.symbol = 'S0' AND t.time >= '1970-01-01T00:00:00.000000020Z' AND t.time < '1970-01-01T00:00:00.000000040Z'";
    let plan = place.plan(query);
    assert_eq!(plan.matches("symbols=1: [S0]").count(), 2, "{plan}");
    for bound in ["from=1970-01-01T00:00:00.000000020Z", "from=1970-01-01T00:00:00.000000018Z"] {
        assert!(plan.contains(bound), "{bound}: {plan}");
    }
    assert!(plan.contains("last=1970-01-01T00:00:00.000000041Z") && !plan.contains("Sort"), "{plan}");
    assert_eq!(place.rows(query), ["2|1"]);
}

#[test]
fn what_is_no_window_is_refused() {
    let place = small();
    let at = "q.time BETWEEN t.time AND t.time + INTERVAL '1 second'";
    for (query, text) in [
        ("SELECT count(*) FROM t WINDOW JOIN q ON t.symbol = q.symbol".to_string(), "has a MATCH_CONDITION"),
        ("SELECT count(*) FROM t WINDOW JOIN q MATCH_CONDITION (q.time >= t.time)".into(), "a beginning and an end"),
        (format!("SELECT count(*) FROM t WINDOW JOIN q MATCH_CONDITION ({at} AND q.time < t.time)"), "too many"),
        ("SELECT count(*) FROM t WINDOW JOIN q MATCH_CONDITION (q.time BETWEEN t.time AND t.time - INTERVAL '1 second')".into(), "ends before"),
        ("SELECT count(*) FROM t WINDOW JOIN q MATCH_CONDITION (q.n BETWEEN 1 AND 2)".into(), "times of both sides"),
        (format!("SELECT count(*) FROM t WINDOW JOIN q MATCH_CONDITION ({at}) ON t.n < q.n"), "MATCH_CONDITION"),
        (format!("SELECT count(*) FROM t WINDOW JOIN q MATCH_CONDITION ({at}) INCLUDE ALL"), "two words"),
        (format!("SELECT count(*) FROM t WINDOW JOIN q MATCH_CONDITION ({at}) GROUP BY t.n"), "subquery"),
        (format!("SELECT max(t.n) FROM t WINDOW JOIN q MATCH_CONDITION ({at})"), "t.n"),
        (format!("SELECT q.n FROM t WINDOW JOIN q MATCH_CONDITION ({at})"), "q.n"),
        (format!("SELECT first_value(q.n ORDER BY q.n) FROM t WINDOW JOIN q MATCH_CONDITION ({at})"), "leave out ORDER BY"),
        ("SELECT q.n FROM t HORIZON JOIN q MATCH_CONDITION (t.time >= q.time)".into(), "a LIST of offsets"),
        ("SELECT q.n FROM t HORIZON JOIN q MATCH_CONDITION (t.time >= q.time) LIST (INTERVAL '1 second')".into(), "a name after"),
        ("SELECT q.n FROM t HORIZON JOIN q MATCH_CONDITION (t.time <= q.time) LIST (INTERVAL '1 second') AS h".into(), "t.time >= q.time"),
        ("SELECT q.n FROM t HORIZON JOIN q MATCH_CONDITION (t.time >= q.time) LIST (INTERVAL '1 month') AS h".into(), "months"),
    ] {
        let error = place.error(&query);
        assert!(error.reason() == Reason::Query && error.to_string().contains(text), "{query}: {error}");
    }
}

/// The right side takes more memory than there is, and the left side has few rows in one batch.
#[test]
fn memory_is_for_windows_and_not_for_rows() {
    let place = Place::new();
    stream(&place, "t", (0..40).map(|n| (n * 10_000, n as u64 % 3)));
    stream(&place, "q", (0..400_000).map(|n| (n, n as u64 % 3)));
    let sql = place.sql_with(Options { memory_bytes: 12 << 20, ..Options::default() });
    let window = "MATCH_CONDITION (q.time BETWEEN t.time - INTERVAL '5 nanoseconds' AND t.time)";
    let offsets = "MATCH_CONDITION (t.time >= q.time)";
    for (query, expected) in [
        (
            format!(
                "SELECT sum(c) FROM (SELECT count(*) AS c FROM t WINDOW JOIN q {window} ON t.symbol = q.symbol)"
            ),
            "79",
        ),
        (
            format!(
                "SELECT sum(t.n * 10000 - q.n) FROM t HORIZON JOIN q {offsets} ON t.symbol = q.symbol LIST (INTERVAL '3 nanoseconds') AS h"
            ),
            "-120",
        ),
    ] {
        assert_eq!(rows_of(sql.query(&query).unwrap()).unwrap(), [expected], "{query}");
    }
}

/// Enough rows that batches are dropped, some of them late, from the log and from segments: as a loop finds them.
#[test]
fn random_rows_are_joined_as_a_loop_joins_them() {
    let mut state = 11u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let place = Place::new();
    const SPAN: i64 = 200_000;
    let mut times = |rows: i64, symbols: u64| -> Vec<(i64, u64)> {
        let late =
            |n: i64, random: &mut dyn FnMut(u64) -> u64| if n % 97 == 0 { random(500) as i64 } else { 0 };
        (0..rows)
            .map(|n| (1_000 + n * SPAN / rows - late(n, &mut random), random(symbols).min(random(symbols))))
            .collect()
    };
    let (lefts, rights) = (times(800, 12), times(160_000, 10));
    let (left, lefts) = stream(&place, "t", lefts.into_iter());
    let (right, rights) = stream(&place, "q", rights.into_iter());
    let mut by_symbol = vec![Made::new(); 12];
    rights.iter().for_each(|row| by_symbol[row.2 as usize].push(*row));
    let last_at = |symbol: u64, time: i64| {
        by_symbol[symbol as usize].iter().rfind(|row| row.0 <= time).map(|row| row.1)
    };
    let text = |n: Option<i64>| n.map_or("NULL".to_string(), |n| n.to_string());
    for _ in 0..2 {
        for (from, to, prevailing) in [(-300, 200, false), (-5, -1, true), (100, 15_000, false)] {
            let expected: Vec<String> = lefts
                .iter()
                .map(|(time, n, symbol)| {
                    let rows = &by_symbol[*symbol as usize];
                    let begin = rows.partition_point(|row| row.0 < time + from);
                    let end = rows.partition_point(|row| row.0 <= time + to);
                    let is_at = rows.get(begin).is_some_and(|row| row.0 == time + from);
                    let begin = begin - usize::from(prevailing && !is_at && begin > 0);
                    let rows = &rows[begin..end];
                    let sum = rows.iter().map(|row| row.1).reduce(|a, b| a + b);
                    format!("{n}|{}|{}|{}", rows.len(), text(sum), text(rows.first().map(|row| row.1)))
                })
                .collect();
            let include = if prevailing { "INCLUDE PREVAILING" } else { "" };
            let query = format!(
                "SELECT t.n, count(*), sum(q.n), first_value(q.n) FROM t WINDOW JOIN q MATCH_CONDITION \
                 (q.time BETWEEN t.time + INTERVAL '{from} nanoseconds' AND t.time + INTERVAL '{to} nanoseconds') {include} ON t.symbol = q.symbol"
            );
            let found = place.rows(&query);
            let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
            assert!(
                found.len() == expected.len() && differs.is_none(),
                "{query}: {:?}",
                differs.map(|at| (&found[at], &expected[at], lefts[at]))
            );
        }
        let offsets = [-400, 0, 50, 9_000];
        let expected: Vec<String> = lefts
            .iter()
            .flat_map(|(time, n, symbol)| {
                offsets.map(|offset| format!("{n}|{}", text(last_at(*symbol, time + offset))))
            })
            .collect();
        let list: Vec<_> = offsets.iter().map(|offset| format!("INTERVAL '{offset} nanoseconds'")).collect();
        let query = format!(
            "SELECT t.n, q.n FROM t HORIZON JOIN q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol LIST ({}) AS h",
            list.join(", ")
        );
        assert_eq!(place.rows(&query), expected);
        left.seal().unwrap();
        right.seal().unwrap();
    }
}
