//! Limits, errors and what they say.

use crate::support::*;
use std::time::{Duration, Instant};
use tapedb_query::{Next, Options, Parameters, Reason};

#[test]
fn errors_name_what_is_wrong_and_suggest_what_is_right() {
    let place = bars(10, false);
    place.stream("ticks", "message Trade { price: decimal64 } message Quote { bid: decimal64 }", &[]);
    for (query, texts) in [
        ("SELECT * FROM brs", &["there is no table \"brs\"", "did you mean \"bars\"", "bars.Bar"][..]),
        ("SELECT * FROM brs.Bar", &["no stream \"brs\"", "did you mean \"bars\""]),
        ("SELECT * FROM bars.Bra", &["no message type \"Bra\"", "did you mean \"Bar\""]),
        ("SELECT * FROM ticks", &["several message types", "ticks.Trade, ticks.Quote"]),
        ("SELECT prize FROM bars", &["prize", "price"]),
        ("SELECT summ(n) FROM bars", &["summ", "sum"]),
        ("SELEC n FROM bars", &["not SQL as it is understood here"]),
        ("", &["empty"]),
        ("SELECT 1; SELECT 2", &["2 statements"]),
        ("CREATE TABLE x (a INT)", &["CREATE TABLE is not supported"]),
        ("INSERT INTO bars VALUES (1)", &["change nothing"]),
        ("COPY bars TO 'x.csv'", &["change nothing"]),
        ("SET datafusion.execution.batch_size = 1", &["change nothing"]),
        ("SELECT n FROM bars WHERE time > 'yesterday'", &["yesterday"]),
        ("SELECT $1", &["$1"]),
    ] {
        let error = place.error(query);
        let text = error.to_string();
        assert!(texts.iter().all(|wanted| text.contains(wanted)), "{query}: {text}");
        assert!(matches!(error.reason(), Reason::Query | Reason::Value), "{query}: {:?}", error.reason());
    }
}

#[test]
fn names_are_found_without_regard_to_case() {
    let place = Place::new();
    place.stream(
        "Ticks",
        "message Trade { lastPrice: i64, size: i64 }",
        &[(1, "A", r#"{"$type": "Trade", "lastPrice": 5, "size": 2}"#)],
    );
    for query in [
        "SELECT lastPrice FROM Ticks.Trade",
        "SELECT lastprice FROM ticks.trade",
        "select t.LASTPRICE from TICKS.TRADE t where SYMBOL = 'A' order by TIME",
        "SELECT \"lastPrice\" FROM \"Ticks\".\"Trade\"",
        "SELECT trade.lastprice FROM ticks.trade",
        "SELECT LastPrice AS lastprice FROM ticks ORDER BY lastprice",
        "WITH ticks AS (SELECT lastprice FROM Ticks.trade) SELECT lastprice FROM ticks",
    ] {
        assert_eq!(place.rows(query), ["5"], "{query}");
    }
    assert!(place.sql().query("SELECT \"lastprice\" FROM Ticks").is_err());
    assert!(place.sql().query("SELECT lastPrice FROM \"ticks\".Trade").is_err());
}

#[test]
fn overflows_are_errors() {
    let place = Place::new();
    let row = |x: i64, d: &str| format!(r#"{{"$type": "M", "x": {x}, "u": 1, "d": "{d}"}}"#);
    let (first, second) = (row(i64::MAX, "999999999999999.999"), row(1, "0.001"));
    place.stream(
        "m",
        "message M { x: i64, u: u64, d: decimal(18,3) }",
        &[(1, "A", &first), (2, "A", &second)],
    );
    for query in [
        "SELECT x + 1 FROM m",
        "SELECT -x - 2 FROM m",
        "SELECT x * 2 FROM m",
        "SELECT sum(x) FROM m",
        "SELECT sum(x) FROM m GROUP BY symbol",
        "SELECT sum(DISTINCT x) FROM m",
        "SELECT sum(x) OVER (ORDER BY time) FROM m",
        "SELECT 9223372036854775807 + 1",
        "SELECT n FROM (SELECT x + 1 AS n FROM m) WHERE n > 5",
        "SELECT symbol FROM m GROUP BY symbol HAVING sum(x + 1) > 0",
        "SELECT CAST(x AS INT) FROM m",
        "SELECT x / 0 FROM m",
    ] {
        let error = place.error(query);
        assert_eq!(error.reason(), Reason::Value, "{query}: {error}");
    }
    assert_eq!(place.rows("SELECT x - 1 FROM m ORDER BY time"), ["9223372036854775806", "0"]);
    assert_eq!(place.rows("SELECT sum(CAST(x AS DECIMAL(38, 0))) FROM m"), ["9223372036854775808"]);
    assert_eq!(place.rows("SELECT sum(d), avg(u), sum(u) FROM m"), ["1000000000000000.000|1.0|2"]);
    assert_eq!(place.rows("SELECT d * 2 FROM m ORDER BY time LIMIT 1"), ["1999999999999999.998"]);
    assert_eq!(place.rows("SELECT sum(x) FROM m WHERE symbol = 'B'"), ["NULL"]);
}

#[test]
fn a_query_stops_at_its_limits() {
    let place = bars(1_000, true);
    let of = |options: Options, query: &str| place.sql_with(options).query(query).and_then(rows_of);
    let options = Options { rows_max: Some(10), ..Options::default() };
    assert_eq!(of(options.clone(), "SELECT n FROM bars LIMIT 10").unwrap().len(), 10);
    let error = of(options, "SELECT n FROM bars").unwrap_err();
    assert_eq!(error.reason(), Reason::Limit);
    assert!(error.to_string().contains("more than 10 rows"), "{error}");
    let options = Options { time_limit: Some(Duration::from_millis(100)), ..Options::default() };
    let endless = "SELECT count(*) FROM bars a, bars b, bars c, bars d WHERE a.n + b.n + c.n + d.n < 0";
    let error = of(options, endless).unwrap_err();
    assert!(error.to_string().contains("ran longer than 0.1 s"), "{error}");
    let options = Options { memory_bytes: 100_000, ..Options::default() };
    let error =
        of(options, "SELECT * FROM bars a JOIN bars b ON a.n = b.n JOIN bars c ON a.n = c.n").unwrap_err();
    assert_eq!(error.reason(), Reason::Limit, "{error}");
    assert!(error.to_string().contains("memory"), "{error}");
}

#[test]
fn a_query_can_be_stopped() {
    let place = bars(1_000, true);
    let start = Instant::now();
    let mut rows =
        place.sql().query("SELECT count(*) FROM bars a, bars b, bars c WHERE a.n + b.n + c.n < 0").unwrap();
    assert!(matches!(rows.next_within(Duration::from_millis(20)).unwrap(), Next::Waiting));
    drop(rows);
    assert!(start.elapsed() < Duration::from_secs(60), "it does not wait for the query's end");
}

#[test]
fn a_stopped_query_leaves_its_threads_to_others() {
    let place = bars(1_000, true);
    let sql = place.sql_with(Options { threads: Some(1), ..Options::default() });
    for join in ["bars a, bars b, bars c, bars d", "bars a JOIN bars b ON a.n < b.n, bars c, bars d"] {
        // Only whole rows of the join decide it: there are 10^12 of them.
        let endless = format!("SELECT count(*) FROM {join} WHERE a.n + b.n + c.n + d.n < 0");
        let mut rows = sql.query(&endless).unwrap();
        assert!(matches!(rows.next_within(Duration::from_millis(500)).unwrap(), Next::Waiting));
        drop(rows);
        assert_eq!(rows_of(sql.query("SELECT count(*) FROM bars").unwrap()).unwrap(), ["1000"]);
    }
}

#[test]
fn parameters_take_the_type_that_they_are_compared_with() {
    let place = bars(100, true);
    let sql = place.sql();
    let of =
        |query: &str, parameters: &Parameters| rows_of(sql.query_with(query, parameters).unwrap()).unwrap();
    let texts = Parameters::numbered(["S3", "1970-01-01T00:00:20Z"]);
    assert_eq!(of("SELECT n FROM bars WHERE symbol = $1 AND time < $2", &texts), ["3", "13"]);
    assert_eq!(of("SELECT n FROM bars WHERE n = $1", &Parameters::numbered([5i64])), ["5"]);
    let named = Parameters::named([("least", 98i64)]);
    assert_eq!(of("SELECT n FROM bars WHERE n >= $least", &named), ["98", "99"]);
}

/// A join of all pairs of rows, of which no pair is wanted, returns nothing for a long time.
#[test]
fn a_join_of_all_pairs_stops_in_time_and_leaves_its_thread() {
    let place = bars(20_000, true);
    for threads in [1, 2] {
        let sql = place.sql_with(Options {
            threads: Some(threads),
            time_limit: Some(Duration::from_millis(50)),
            ..Options::default()
        });
        for query in [
            "SELECT a.n FROM bars a, bars b WHERE a.n * 2 + b.n * 2 = 7",
            "SELECT count(*) FROM bars a LEFT JOIN bars b ON a.price + b.price < 0",
            "SELECT count(*) FROM bars a WHERE NOT EXISTS (SELECT 1 FROM bars b WHERE a.n + b.n < 0)",
        ] {
            let error = sql.query(query).and_then(rows_of).unwrap_err();
            assert_eq!(error.reason(), Reason::Limit, "{query}: {error}");
            // The same thread answers at once.
            let unlimited = Options { threads: Some(threads), time_limit: None, ..Options::default() };
            let rows = sql.query_as("SELECT count(*) FROM bars", &Parameters::default(), &unlimited);
            assert_eq!(rows_of(rows.unwrap()).unwrap(), ["20000"]);
        }
    }
    // In parts and whole, the pairs are the same.
    let query = "SELECT count(*), sum(a.n), sum(b.n) FROM bars a JOIN bars b ON a.n + 3 > b.n AND a.n < b.n WHERE b.n < 2000 AND a.n < 2100";
    assert_eq!(place.rows(query), ["3997|3992004|3997999"]);
}
