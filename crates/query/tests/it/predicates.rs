//! What scans answer themselves, and that it is right.

use crate::support::*;
use std::ops::Range;

const ROWS: u64 = 3_000;

/// The numbers of the rows that a condition selects, sorted, against those of a function.
fn check(place: &Place, condition: &str, pushed: &str, wanted: impl Fn(u64) -> bool) {
    let query = format!("SELECT n FROM bars WHERE {condition}");
    let plan = place.plan(&query);
    assert!(plan.contains(pushed), "{condition}: no {pushed:?} in\n{plan}");
    let found: Vec<u64> = place.rows(&query).iter().map(|row| row.parse().unwrap()).collect();
    assert!(found.is_sorted(), "{condition}: by time");
    let expected: Vec<u64> = (0..ROWS).filter(|n| wanted(*n)).collect();
    assert_eq!(found, expected, "{condition}");
    let count = place.rows(&format!("SELECT count(*) FROM bars WHERE {condition}"));
    assert_eq!(count, [expected.len().to_string()], "{condition}");
    let sum = place.rows(&format!("SELECT sum(n) FROM bars WHERE {condition}"));
    let total: u64 = expected.iter().sum();
    let total = if expected.is_empty() { "NULL".to_string() } else { total.to_string() };
    assert_eq!(sum, [total], "{condition}");
}

#[test]
fn times_and_symbols_are_answered_by_the_scan() {
    for sealed in [false, true] {
        let place = bars(ROWS, sealed);
        let in_range = |range: Range<u64>| move |n: u64| range.contains(&n);
        let no_filter = |condition: &str| {
            let plan = place.plan(&format!("SELECT n FROM bars WHERE {condition}"));
            assert!(!plan.contains("FilterExec"), "{condition}:\n{plan}");
        };
        let minute = "1970-01-01T00:01:00Z";
        for (condition, wanted) in [
            (format!("time >= '{minute}'"), 60..ROWS),
            (format!("time > '{minute}'"), 61..ROWS),
            (format!("time < TIMESTAMP '{minute}'"), 0..60),
            (format!("time <= '{minute}'"), 0..61),
            (format!("'{minute}' <= time"), 60..ROWS),
            (format!("time = '{minute}'"), 60..61),
            (format!("time BETWEEN '1970-01-01T00:00:10Z' AND '{minute}'"), 10..61),
            (format!("time >= '1970-01-01T00:00:10Z' AND time < '{minute}'"), 10..60),
            (format!("time < '{minute}' AND time > '{minute}'"), 0..0),
            (format!("time >= TIMESTAMP '{minute}' + INTERVAL '1 minute'"), 120..ROWS),
        ] {
            check(&place, &condition, "Scan: bars.Bar", in_range(wanted));
            no_filter(&condition);
        }
        let of = |symbols: &'static [u64]| move |n: u64| symbols.contains(&(n % 10));
        for (condition, symbols) in [
            ("symbol = 'S3'", &[3][..]),
            ("'S3' = symbol", &[3]),
            ("symbol IN ('S3', 'S4', 'S5', 'S6', 'nothing')", &[3, 4, 5, 6]),
            ("symbol = 'S1' OR symbol = 'S2'", &[1, 2]),
            ("symbol <> 'S1' AND symbol NOT IN ('S2', 'S3')", &[0, 4, 5, 6, 7, 8, 9]),
            ("symbol LIKE '%9'", &[9]),
            ("symbol >= 'S8'", &[8, 9]),
            ("symbol BETWEEN 'S2' AND 'S4'", &[2, 3, 4]),
            ("upper(symbol) = 'S7'", &[7]),
            ("symbol = 'nothing'", &[]),
            ("symbol ~ '^S[12]$'", &[1, 2]),
            ("symbol IS NOT NULL", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ] {
            check(&place, condition, "Scan: bars.Bar", of(symbols));
            no_filter(condition);
        }
        check(&place, "symbol = 'S3' AND time < '1970-01-01T00:00:30Z'", "symbols=1: [S3]", |n| {
            n % 10 == 3 && n < 30
        });
        check(&place, "symbol = 'S3' AND n > 2000", "FilterExec", |n| n % 10 == 3 && n > 2000);
    }
}

#[test]
fn numbers_leave_out_blocks_and_are_compared_again() {
    for sealed in [false, true] {
        let place = bars(ROWS, sealed);
        for (condition, wanted) in [
            ("n >= 2900", 2900..ROWS),
            ("n = 17", 17..18),
            ("n < 5", 0..5),
            ("n BETWEEN 10 AND 12", 10..13),
            ("price <= 0.5", 0..51),
            ("price BETWEEN 1.5 AND 1.52", 150..153),
            ("price = 29.99", 2999..3000),
        ] {
            check(&place, condition, "skips blocks without", |n| wanted.contains(&n));
        }
        check(&place, "price > 29.5", "FilterExec", |n| n > 2950);
        check(&place, "side = 'BUY' AND n < 6", "FilterExec", |n| n % 3 == 0 && n < 6);
        check(&place, "side IS NULL AND note IS NULL", "FilterExec", |n| n % 3 == 2 && n % 4 == 0);
        check(&place, "note = 'note 17'", "FilterExec", |n| n == 17);
    }
}

#[test]
fn order_by_time_needs_no_sort() {
    let place = bars(ROWS, true);
    for (query, order) in [
        ("SELECT * FROM bars ORDER BY time", "order=time,"),
        ("SELECT n FROM bars ORDER BY time", "order=time,"),
        ("SELECT n + 1 AS m, time AS t FROM bars WHERE n > 5 ORDER BY t", "order=time,"),
        ("SELECT n FROM bars ORDER BY time DESC", "order=time DESC,"),
        ("SELECT n FROM bars WHERE symbol = 'S1' ORDER BY symbol, time", "order=time,"),
        (
            "SELECT n, time FROM (SELECT * FROM bars WHERE side = 'BUY') ORDER BY time DESC LIMIT 3",
            "order=time DESC,",
        ),
        ("SELECT n FROM bars", "order=time,"),
        ("SELECT n FROM bars WHERE n > 5", "order=time,"),
        ("SELECT sum(n) FROM bars", "order=stored,"),
        ("SELECT symbol, count(*) FROM bars GROUP BY symbol", "order=symbol,"),
    ] {
        let plan = place.plan(query);
        assert!(!plan.contains("Sort"), "{query}\n{plan}");
        assert!(plan.contains(order), "{query}\n{plan}");
    }
    let rows = place.rows("SELECT n FROM bars ORDER BY time DESC LIMIT 3");
    assert_eq!(rows, ["2999", "2998", "2997"]);
    let plan = place.plan("SELECT n FROM bars ORDER BY time DESC LIMIT 3");
    assert!(plan.contains("limit=3"), "{plan}");
    assert_eq!(place.rows("SELECT n FROM bars LIMIT 2"), ["0", "1"]);
    assert_eq!(place.rows("SELECT n FROM bars WHERE n > 10 LIMIT 2"), ["11", "12"]);
    assert_eq!(place.rows("SELECT n FROM bars ORDER BY time LIMIT 2 OFFSET 5"), ["5", "6"]);
    assert_eq!(place.rows("SELECT n FROM bars ORDER BY n DESC LIMIT 1"), ["2999"]);
    assert!(place.plan("SELECT n FROM bars ORDER BY n").contains("SortExec"));
}

#[test]
fn counts_and_extents_are_read_from_the_index() {
    for sealed in [false, true] {
        let place = bars(ROWS, sealed);
        let query = "SELECT count(*), min(time), max(time) FROM bars";
        let plan = place.plan(query);
        assert!(!plan.contains("Scan:") && plan.contains("PlaceholderRowExec"), "{plan}");
        assert_eq!(place.rows(query), ["3000|1970-01-01T00:00:00Z|1970-01-01T00:49:59Z"]);
        let plan = place.plan("SELECT count(*) FROM bars WHERE symbol = 'S1'");
        assert!(plan.contains("columns=[]"), "{plan}");
        assert_eq!(place.rows("SELECT min(time) FROM bars WHERE symbol = 'S7'"), ["1970-01-01T00:00:07Z"]);
        assert_eq!(place.rows("SELECT max(time), count(*) FROM bars WHERE symbol = 'no'"), ["NULL|0"]);
        assert_eq!(place.rows("SELECT max(time) FROM bars WHERE n < 5"), ["1970-01-01T00:00:04Z"]);
        assert_eq!(place.rows("SELECT max(time), max(n) FROM bars"), ["1970-01-01T00:49:59Z|2999"]);
    }
}
