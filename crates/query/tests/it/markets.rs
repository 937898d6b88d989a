//! Functions of markets: buckets of time, and aggregates, against what a loop finds in random rows.

use crate::support::*;
use std::collections::BTreeMap;
use tapedb_query::{Options, Reason};

const SECOND: i64 = 1_000_000_000;

/// A row: time, symbol, price, size.
type Row = (i64, String, Option<f64>, u64);

/// Random trades, many at equal times, and some late.
fn trades(rows: usize) -> (Place, Vec<Row>) {
    let place = Place::new();
    let stream = place.stream("t", "message Trade { price: f64?, size: u64, note: string }", &[]);
    let mut random = 0x2545_F491_4F6C_DD1Du64;
    let mut next = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut all = Vec::new();
    for half in 0..2 {
        let messages: Vec<(Row, String)> = (0..rows / 2)
            .map(|row| {
                let time = (half * rows / 2 + row) as i64 / 3 * SECOND
                    - if next(20) == 0 { next(30) as i64 * SECOND } else { 0 };
                let price = (next(10) > 0).then(|| next(1_000) as f64 / 4.0);
                let (symbol, size) = (format!("S{}", next(4)), next(100));
                let text = price.map_or("null".into(), |price| price.to_string());
                let note = format!("a note that is longer than twelve bytes {}", next(50));
                let text =
                    format!(r#"{{"$type": "Trade", "price": {text}, "size": {size}, "note": "{note}"}}"#);
                ((time, symbol, price, size), text)
            })
            .collect();
        let as_text: Vec<_> = messages
            .iter()
            .map(|((time, symbol, ..), text)| (*time, symbol.as_str(), text.as_str()))
            .collect();
        append(&stream, &as_text);
        if half == 0 {
            stream.seal().unwrap();
        }
        all.extend(messages.into_iter().map(|(row, _)| row));
    }
    // The order of the stream: equal times as they arrived.
    all.sort_by_key(|row| row.0);
    (place, all)
}

/// Rows by bucket and symbol.
fn groups(rows: &[Row], width: i64) -> BTreeMap<(i64, String), Vec<Row>> {
    let mut groups: BTreeMap<(i64, String), Vec<Row>> = BTreeMap::new();
    for row in rows {
        groups.entry((row.0.div_euclid(width) * width, row.1.clone())).or_default().push(row.clone());
    }
    groups
}

fn text(value: Option<f64>) -> String {
    value.map_or("NULL".into(), |value| format!("{value:?}"))
}

fn check(place: &Place, query: &str, expected: &[String]) {
    for threads in [1, 3] {
        let sql = place.sql_with(Options { threads: Some(threads), ..Options::default() });
        let found = rows_of(sql.query(query).unwrap()).unwrap();
        assert_eq!(found.len(), expected.len(), "{query}, {threads} threads");
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found, expected, "{query}, {threads} threads");
        }
    }
}

#[test]
fn aggregates_are_those_of_the_rows_in_order() {
    let (place, rows) = trades(3_000);
    let mut expected = Vec::new();
    for ((bucket, symbol), rows) in groups(&rows, 60 * SECOND) {
        let prices: Vec<f64> = rows.iter().filter_map(|row| row.2).collect();
        let least = prices.iter().copied().reduce(f64::min);
        let greatest = prices.iter().copied().reduce(f64::max);
        let at =
            |price: Option<f64>| rows.iter().find(|row| price.is_some() && row.2 == price).map(|row| row.3);
        let at = |price| at(price).map_or("NULL".into(), |size: u64| size.to_string());
        let volume: u64 = rows.iter().map(|row| row.3).sum();
        let bar = match (prices.first(), prices.last()) {
            (Some(open), Some(close)) => {
                let (high, low) = (greatest.unwrap(), least.unwrap());
                format!(
                    "{{open: {open:?}, high: {high:?}, low: {low:?}, close: {close:?}, volume: {volume}}}"
                )
            }
            _ => "NULL".into(),
        };
        expected.push(format!(
            "{}|{symbol}|{}|{}|{}|{}|{}|{}|{bar}",
            bucket / SECOND,
            text(rows[0].2),
            text(rows[rows.len() - 1].2),
            text(prices.last().copied()),
            rows[rows.len() - 1].3,
            at(least),
            at(greatest),
        ));
    }
    assert!(expected.len() > 60, "{}", expected.len());
    let query = "SELECT CAST(to_unixtime(b) AS BIGINT), symbol, a, z, y, s, n, x, bar FROM (
        SELECT time_bucket('1 minute', time) AS b, symbol, first(price) AS a, last(price) AS z, last(price) IGNORE NULLS AS y,
            last(size) AS s, arg_min(size, price) AS n, arg_max(size, price) AS x, ohlcv(price, size) AS bar
        FROM t GROUP BY b, symbol) ORDER BY b, symbol";
    check(&place, query, &expected);
    place.db.stream("t").unwrap().seal().unwrap();
    check(&place, query, &expected);
}

#[test]
fn averages_are_those_of_the_rows_in_order() {
    let (place, rows) = trades(2_000);
    let mut expected = Vec::new();
    for ((bucket, symbol), rows) in groups(&rows, 300 * SECOND) {
        let priced: Vec<(i64, f64, f64)> =
            rows.iter().filter_map(|row| Some((row.0, row.2?, row.3 as f64))).collect();
        if priced.is_empty() {
            continue;
        }
        let (sum, weight) = priced
            .iter()
            .fold((0.0, 0.0), |(sum, weight), (_, price, size)| (sum + price * size, weight + size));
        let lasted: f64 = priced.windows(2).map(|pair| pair[0].1 * (pair[1].0 - pair[0].0) as f64).sum();
        let span = (priced[priced.len() - 1].0 - priced[0].0) as f64;
        let twap = if span > 0.0 { lasted / span } else { priced[priced.len() - 1].1 };
        let ema = priced.iter().skip(1).fold(priced[0].1, |ema, (_, price, _)| ema + 0.5 * (price - ema));
        let round = |value: f64| format!("{:.6}", value);
        expected.push(format!(
            "{}|{symbol}|{}|{}|{}",
            bucket / SECOND,
            round(sum / weight),
            round(twap),
            round(ema)
        ));
    }
    let query = "SELECT CAST(to_unixtime(b) AS BIGINT), symbol, v, w, e FROM (
        SELECT time_bucket(INTERVAL '5 minutes', time) AS b, symbol, vwap(price, size) AS v, twap(price, time) AS w, ema(price, 3) AS e
        FROM t WHERE price IS NOT NULL GROUP BY b, symbol) ORDER BY b, symbol";
    let found = place.rows(query);
    let rounded = |row: &String| {
        let columns: Vec<&str> = row.split('|').collect();
        let number = |index: usize| format!("{:.6}", columns[index].parse::<f64>().unwrap());
        format!("{}|{}|{}|{}|{}", columns[0], columns[1], number(2), number(3), number(4))
    };
    assert_eq!(found.iter().map(rounded).collect::<Vec<_>>(), expected);
}

#[test]
fn buckets_of_time_are_grouped_as_they_come() {
    let (place, _) = trades(1_000);
    let plan =
        place.plan("SELECT time_bucket('1 minute', time) AS b, symbol, last(size) FROM t GROUP BY b, symbol");
    assert!(plan.contains("order=time") && plan.contains("ordering_mode=PartiallySorted"), "{plan}");
    let plan = place.plan(
        "SELECT time_bucket('1 day', time, 'Europe/Berlin') AS b, last(price) FROM t GROUP BY b ORDER BY b",
    );
    assert!(plan.contains("ordering_mode=Sorted") && !plan.contains("SortExec"), "{plan}");
    let plan = place.plan("SELECT symbol, last(price) FROM t GROUP BY symbol");
    assert!(plan.contains("order=time") && plan.contains("mode=Single"), "{plan}");
    let plan = place.plan("SELECT symbol, vwap(price, size) FROM t GROUP BY symbol");
    assert!(plan.contains("order=symbol") && plan.contains("GroupBySymbol"), "{plan}");
    let plan = place.plan("SELECT note, vwap(price, size) FROM t GROUP BY note");
    assert!(plan.contains("order=stored"), "{plan}");
}

#[test]
fn empty_groups_and_nulls() {
    let (place, _) = trades(10);
    let none = "FROM t WHERE size > 1000000";
    for function in [
        "first(price)",
        "last(note)",
        "arg_min(note, price)",
        "arg_max(price, time)",
        "vwap(price, size)",
        "twap(price, time)",
        "ema(price, 0.1)",
        "ohlcv(price, size)",
    ] {
        assert_eq!(place.rows(&format!("SELECT {function} {none}")), ["NULL"], "{function}");
        assert_eq!(place.rows(&format!("SELECT {function} {none} GROUP BY symbol")), [""; 0], "{function}");
        let filtered = format!(
            "SELECT DISTINCT x FROM (SELECT {function} FILTER (WHERE size > 1000000) AS x FROM t GROUP BY symbol)"
        );
        assert_eq!(place.rows(&filtered), ["NULL"], "{function}");
    }
    assert_eq!(place.rows("SELECT vwap(price, 0) FROM t"), ["NULL"]);
    assert_eq!(
        place.rows("SELECT arg_max(x, y) FROM (VALUES (1, 2.5), (2, CAST('NaN' AS DOUBLE)), (3, 7)) v(x, y)"),
        ["2"]
    );
    let odd = "SELECT vwap(x, 1) OVER (ORDER BY y ROWS 1 PRECEDING) FROM (VALUES (1, 1), (CAST('NaN' AS DOUBLE), 2), (5, 3), (7, 4)) v(x, y) ORDER BY y";
    assert_eq!(place.rows(odd), ["1.0", "NaN", "NaN", "6.0"]);
    let bar = "SELECT ohlcv(x, y)['high'], ohlcv(x, y)['low'] FROM (VALUES (1.5, 2), (CAST('NaN' AS DOUBLE), 1), (-3, 7)) v(x, y)";
    assert_eq!(place.rows(bar), ["NaN|-3.0"]);
}

#[test]
fn windows_move_on() {
    let (place, rows) = trades(200);
    let rows: Vec<&Row> = rows.iter().filter(|row| row.1 == "S1").collect();
    assert!(rows.len() > 30);
    let expected: Vec<String> = (0..rows.len())
        .map(|at| {
            let window = &rows[at.saturating_sub(2)..=at];
            let priced = || window.iter().filter_map(|row| Some((row.2?, row.3 as f64)));
            let weight: f64 = priced().map(|(_, size)| size).sum();
            let sum: f64 = priced().map(|(price, size)| price * size).sum();
            let vwap = (weight > 0.0).then(|| format!("{:.6}", sum / weight));
            let last = window.iter().rev().find_map(|row| row.2);
            format!("{}|{}|{}", text(window[0].2), text(last), vwap.unwrap_or("NULL".into()))
        })
        .collect();
    let query = "SELECT first(price) OVER w, last(price) IGNORE NULLS OVER w, vwap(price, size) OVER w FROM t WHERE symbol = 'S1'
        WINDOW w AS (ORDER BY time, sequence ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) ORDER BY time, sequence";
    let found: Vec<String> = place
        .rows(query)
        .iter()
        .map(|row| {
            let (front, vwap) = row.rsplit_once('|').unwrap();
            let vwap = vwap.parse::<f64>().map_or("NULL".into(), |vwap| format!("{vwap:.6}"));
            format!("{front}|{vwap}")
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn errors_say_what_to_write() {
    let (place, _) = trades(10);
    let error = |query: &str| {
        let error = place.error(query);
        assert_ne!(error.reason(), Reason::Internal, "{query}: {error}");
        error.to_string()
    };
    for (call, expected) in [
        ("vwap(note, size)", "the price is a number"),
        ("vwap(price)", "write vwap(price, size)"),
        ("twap(price, size)", "the time"),
        ("ema(price, 0)", "a weight between 0 and 1"),
        ("arg_min(price, [1])", "cannot be compared"),
        ("ohlcv(size, 9223372036854775807)", "does not fit its type"),
        ("max(time_bucket('5 parsecs', time))", "'5 minutes'"),
        ("max(time_bucket('1 hour', time, 'Europe/Berlim'))", "did you mean \"Europe/Berlin\""),
        ("max(time_bucket('1 hour', price))", "is the time, not Float64"),
        ("max(time_bucket(price, time))", "such as '5 minutes', not Float64"),
        ("max(time_bucket('1 day', time, 'UTC', 'noon'))", "is no time"),
        ("max(time_bucket('1 day 1 month', time))", "months differ in length"),
    ] {
        let found = error(&format!("SELECT {call} FROM t"));
        assert!(found.contains(expected), "{call}: {found}");
    }
}

#[test]
fn buckets_have_zones_and_origins() {
    let place = Place::new();
    let at = |call: &str| place.rows(&format!("SELECT {call}")).remove(0);
    assert_eq!(
        at("time_bucket('1 day', TIMESTAMP '2024-07-01 03:00:00Z', 'America/New_York')"),
        "2024-06-30T04:00:00"
    );
    assert_eq!(
        at("time_bucket('1 day', '2024-07-01T14:00:00Z', 'America/New_York', '2024-01-01 09:30')"),
        "2024-07-01T13:30:00Z"
    );
    assert_eq!(at("time_bucket('1 week', DATE '2024-07-03')"), "2024-07-01T00:00:00");
    assert_eq!(at("time_bucket('1 quarter', DATE '2024-07-03')"), "2024-07-01T00:00:00");
    assert_eq!(
        at("time_bucket('7 minutes', '2024-01-01T00:10:00Z', 'UTC', TIMESTAMP '2024-01-01')"),
        "2024-01-01T00:07:00Z"
    );
    assert_eq!(
        at("time_bucket('7 minutes', '2024-01-01T00:10:00Z', TIMESTAMP '2024-01-01')"),
        "2024-01-01T00:07:00Z"
    );
    assert_eq!(at("time_bucket(NULL, '2024-01-01T00:10:00Z')"), "NULL");
    assert_eq!(at("time_bucket('1h', NULL)"), "NULL");
}

#[test]
fn distinct_is_refused_where_it_has_no_meaning() {
    let place = bars(20, false);
    for query in [
        "SELECT first(DISTINCT n) FROM bars",
        "SELECT symbol, last(DISTINCT n) FROM bars GROUP BY symbol",
        "SELECT vwap(DISTINCT price, n) FROM bars",
        "SELECT n FROM bars WHERE n > (SELECT first(DISTINCT n) FROM bars)",
    ] {
        let error = place.error(query).to_string();
        assert!(error.contains("(DISTINCT …)"), "{query}: {error}");
    }
    assert_eq!(place.rows("SELECT count(DISTINCT symbol), sum(DISTINCT n) FROM bars"), ["10|190"]);
}

#[test]
fn sample_by_is_short_for_groups_by_buckets() {
    let place = bars(120, false);
    for (short, long) in [
        (
            "SELECT time, symbol, sum(n) AS n FROM bars WHERE n > 5 SAMPLE BY 1m ORDER BY time, symbol",
            "SELECT time_bucket('1m', time) AS time, symbol, sum(n) AS n FROM bars WHERE n > 5 GROUP BY 1, symbol ORDER BY 1, symbol",
        ),
        (
            "SELECT b.time AS at, upper(b.symbol) AS s, last(b.n) + 1 AS n FROM bars b sample by '30 seconds' ORDER BY at, s",
            "SELECT time_bucket('30 seconds', time) AS at, upper(symbol) AS s, last(n) + 1 AS n FROM bars GROUP BY 1, 2 ORDER BY 1, 2",
        ),
        (
            "SELECT count(*) AS n FROM bars SAMPLE BY 1d TIME ZONE 'America/New_York'",
            "SELECT count(*) AS n FROM bars GROUP BY time_bucket('1d', time, 'America/New_York')",
        ),
    ] {
        let found = place.rows(short);
        assert_eq!(found, place.rows(long), "{short}");
        assert!(!found.is_empty());
    }
    for (query, text) in [
        ("SELECT * FROM bars SAMPLE BY 1m", "not *"),
        ("SELECT n FROM bars SAMPLE BY", "width"),
        ("SELECT n FROM bars SAMPLE BY 1m TIME ZONE", "TIME ZONE"),
        ("SELECT sum(n) FROM bars SAMPLE BY 1 fortnight", "SAMPLE BY"),
    ] {
        let error = place.error(query).to_string();
        assert!(error.contains(text), "{query}: {error}");
    }
    assert_eq!(
        place.rows("SELECT sample FROM (SELECT n AS sample FROM bars) ORDER BY sample LIMIT 1"),
        ["0"]
    );
}

#[test]
fn functions_are_described() {
    let place = bars(1, false);
    let rows = place.rows("DESCRIBE FUNCTION VWAP");
    assert_eq!(rows, ["vwap|AGGREGATE|vwap(price, size)|The average price, each with its size as weight."]);
    // As an aggregate, and as a window function.
    assert_eq!(place.rows("desc function first_value").len(), 2);
    assert!(place.rows("DESCRIBE FUNCTION nothing").is_empty());
}
