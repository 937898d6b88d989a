//! Tables beside those of message types: last messages, and records in messages.

use crate::support::*;
use tapedb_query::{Options, Reason};

const SECOND: i64 = 1_000_000_000;

/// Quotes of five symbols with `n` as a counter, some at equal times, some late, half of them sealed; and other messages.
fn quotes(rows: i64) -> (Place, Vec<(i64, String, i64)>) {
    let place = Place::new();
    let stream = place.stream("q", "message Quote { n: i64 } message Other { n: i64 }", &[]);
    let mut all = Vec::new();
    for half in 0..2 {
        let quotes: Vec<_> = (half * rows / 2..(half + 1) * rows / 2)
            .map(|n| {
                let late = if n % 7 == 0 { 20 } else { 0 };
                ((n / 3 - late) * SECOND, format!("S{}", n * n % 5), n)
            })
            .collect();
        for (time, symbol, n) in &quotes {
            append(&stream, &[(*time, symbol, &format!(r#"{{"$type": "Quote", "n": {n}}}"#))]);
        }
        append(&stream, &[(rows * SECOND, "S0", r#"{"$type": "Other", "n": -1}"#)]);
        if half == 0 {
            stream.seal().unwrap();
        }
        all.extend(quotes);
    }
    all.sort_by_key(|row| row.0);
    (place, all)
}

/// The last of each symbol until a time, as `symbol|n`.
fn last(rows: &[(i64, String, i64)], until: i64) -> Vec<String> {
    let mut found = std::collections::BTreeMap::new();
    for (_, symbol, n) in rows.iter().filter(|row| row.0 <= until) {
        found.insert(symbol.clone(), *n);
    }
    found.into_iter().map(|(symbol, n)| format!("{symbol}|{n}")).collect()
}

#[test]
fn last_messages_are_found_from_the_end() {
    let (place, rows) = quotes(300);
    let all = last(&rows, i64::MAX);
    let plan = |query: &str| {
        let plan = place.plan(query);
        assert!(plan.contains("latest of each symbol"), "{query}\n{plan}");
        plan
    };
    for query in [
        "SELECT symbol, n FROM latest('q.Quote') ORDER BY symbol",
        "SELECT symbol, l.n FROM LATEST(\"q\".Quote) l ORDER BY symbol",
        "SELECT Quote.symbol, Quote.n FROM latest('Q.quote') ORDER BY 1",
        "SELECT DISTINCT ON (symbol) symbol, n FROM q.Quote ORDER BY symbol, time DESC",
        "SELECT DISTINCT ON (t.symbol) t.symbol, n FROM q.Quote t ORDER BY t.symbol, t.time DESC, t.sequence DESC",
    ] {
        plan(query);
        assert_eq!(place.rows(query), all, "{query}");
    }
    let query = "SELECT symbol, n FROM latest('q.Quote') WHERE symbol IN ('S0', 'S4') ORDER BY symbol";
    assert!(!plan(query).contains("FilterExec"));
    assert_eq!(place.rows(query), [all[0].clone(), all[all.len() - 1].clone()]);
    for until in [0, 10, 50, 99] {
        let time = format!("to_timestamp_seconds({until})");
        let query = format!(
            "SELECT DISTINCT ON (symbol) symbol, n FROM q.Quote WHERE time <= {time} AND symbol <> 'S9' ORDER BY symbol, time DESC"
        );
        plan(&query);
        assert_eq!(place.rows(&query), last(&rows, until * SECOND), "{until}");
        // Of the last ones of all, those that are early.
        let query = format!("SELECT symbol, n FROM latest('q.Quote') WHERE time <= {time} ORDER BY symbol");
        let time_of = |n: &str| rows.iter().find(|row| row.2.to_string() == n).unwrap().0;
        let early = all.iter().filter(|row| time_of(row.split('|').nth(1).unwrap()) <= until * SECOND);
        assert_eq!(place.rows(&query), early.cloned().collect::<Vec<_>>(), "{until}");
    }
    assert_eq!(place.rows("SELECT count(*) FROM latest('q.Quote')"), [all.len().to_string()]);
    assert_eq!(place.rows("SELECT max(n), max(time) = max(time) FROM latest('q.Quote')").len(), 1);
    assert_eq!(place.rows("SELECT n FROM latest('q.Quote') ORDER BY time DESC, n DESC LIMIT 1"), ["299"]);
    let other = "SELECT DISTINCT ON (symbol) symbol, n FROM q.Quote WHERE n > 5 ORDER BY symbol, time DESC, sequence DESC";
    assert!(!place.plan(other).contains("latest of each"));
    assert_eq!(place.rows(other), all);
    // Of equal times the last one in the order of the stream counts, without saying so.
    assert_eq!(place.rows(&other.replace(", sequence DESC", "")), all);
}

#[test]
fn wrong_names_of_latest_are_errors() {
    let (place, _) = quotes(10);
    for (query, expected) in [
        ("SELECT * FROM latest('q.Quot')", "did you mean \"Quote\""),
        ("SELECT * FROM latest('qq.Quote')", "there is no stream \"qq\""),
        ("SELECT * FROM latest('q')", "name one of q.Quote, q.Other"),
    ] {
        let error = place.error(query);
        assert!(error.to_string().contains(expected), "{query}: {error}");
        assert_eq!(error.reason(), Reason::Query);
    }
}

const FEED: &str = "message Package { source: string, entries: array<record<Trade|Quote>> }
    message Snap { best: record<Quote>? }
    record Trade { price: decimal64, size: u32?, side: Side }
    record Quote { time: i64, bid: decimal64 }
    enum Side { BUY = 1, SELL = 2 }";

fn feed() -> Place {
    let place = Place::new();
    let stream = place.stream("feed", FEED, &[]);
    for n in 0..100i64 {
        let trade =
            |size: &str| format!(r#"{{"$type": "Trade", "price": "{n}.5", "size": {size}, "side": "SELL"}}"#);
        let quote = format!(r#"{{"$type": "Quote", "time": {n}, "bid": "1.25"}}"#);
        let entries = match n % 4 {
            0 => String::new(),
            1 => trade("1"),
            2 => format!("{quote}, {}, {}", trade("2"), trade("null")),
            _ => quote.clone(),
        };
        let package = format!(r#"{{"$type": "Package", "source": "X", "entries": [{entries}]}}"#);
        let best = if n % 2 == 0 { "null" } else { &quote };
        let snap = format!(r#"{{"$type": "Snap", "best": {best}}}"#);
        append(&stream, &[(n * SECOND, &format!("S{}", n % 3), &package), (n * SECOND, "A", &snap)]);
        if n == 60 {
            stream.seal().unwrap();
        }
    }
    place
}

#[test]
fn records_in_messages_are_rows() {
    let place = feed();
    assert_eq!(
        place.rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'feed'"),
        ["Package", "Snap", "Trade", "Quote"]
    );
    let columns =
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'feed' AND table_name =";
    assert_eq!(
        place.rows(&format!("{columns} 'Trade'")),
        ["time", "symbol", "price", "size", "side", "sequence", "entry"]
    );
    assert_eq!(
        place.rows(&format!("{columns} 'Quote'")),
        ["message_time", "symbol", "time", "bid", "sequence", "entry"]
    );
    let expected: Vec<String> = (0..100)
        .flat_map(|n| match n % 4 {
            1 => vec![format!("{n}.5|1|SELL|S{}|{}|1", n % 3, 2 * n)],
            2 => vec![
                format!("{n}.5|2|SELL|S{}|{}|2", n % 3, 2 * n),
                format!("{n}.5|NULL|SELL|S{}|{}|3", n % 3, 2 * n),
            ],
            _ => Vec::new(),
        })
        .collect();
    assert_eq!(expected.len(), 75);
    for threads in [1, 4] {
        let sql = place.sql_with(Options { threads: Some(threads), ..Options::default() });
        let rows = |query: &str| rows_of(sql.query(query).unwrap()).unwrap();
        assert_eq!(rows("SELECT price, size, side, symbol, sequence, entry FROM feed.Trade"), expected);
        assert_eq!(rows("SELECT count(*), count(size) FROM feed.trade"), ["75|50"]);
        assert_eq!(rows("SELECT count(*) FROM feed.Quote"), ["100"]);
        assert_eq!(rows("SELECT count(*) FROM feed.Quote WHERE time = 3 AND bid > 1"), ["2"]);
        assert_eq!(rows("SELECT min(time), max(entry) FROM feed.Trade"), ["1970-01-01T00:00:01Z|3"]);
        assert_eq!(rows("SELECT entry FROM feed.Trade LIMIT 3"), ["1", "2", "3"]);
        assert_eq!(rows("SELECT price FROM feed.Trade ORDER BY time DESC LIMIT 1"), ["98.5"]);
        let one = "SELECT price FROM feed.Trade WHERE symbol = 'S1' AND time < '1970-01-01T00:00:11Z'";
        assert_eq!(rows(one), ["1.5", "10.5", "10.5"]);
    }
    let plan =
        place.plan("SELECT price FROM feed.Trade WHERE symbol = 'S1' AND time < '1970-01-01T00:00:11Z'");
    assert!(
        plan.contains("in=Package.entries") && plan.contains("symbols=1") && !plan.contains("FilterExec"),
        "{plan}"
    );
    let error = place.error("SELECT * FROM latest('feed.Trade')").to_string();
    assert!(error.contains("a record in messages"), "{error}");
    assert!(place.error("SELECT * FROM feed.Trad").to_string().contains("did you mean \"Trade\""));
}

#[test]
fn numbers_are_exact_decimals_or_errors() {
    let place = Place::new();
    let one = |query: &str| place.rows(&format!("SELECT {query}")).remove(0);
    assert_eq!(one("decimal(0.1, 1) + decimal(0.2, 1)"), "0.3");
    assert_eq!(one("decimal(CAST(185.24 AS DOUBLE), 2)"), "185.24");
    assert_eq!(one("decimal(5, 2)"), "5.00");
    assert_eq!(one("decimal('1.50', 1)"), "1.5");
    assert_eq!(one("decimal(NULL, 1)"), "NULL");
    assert_eq!(one("sum(decimal(x, 2)) FROM (VALUES (0.1), (0.2), (NULL)) t(x)"), "0.30");
    for query in [
        "decimal(0.125, 2)",
        "decimal('0.125', 2)",
        "decimal(CAST(0.125 AS DOUBLE), 2)",
        "decimal(1.5, 19)",
        "decimal(1.5, x) FROM (VALUES (1)) t(x)",
        "decimal(CAST('NaN' AS DOUBLE), 2)",
        "decimal(9223372036854775807, 2)",
        "decimal(true, 1)",
        "decimal(100000000000000000, 0) * decimal(100000000000000000, 0) * decimal(100000, 0)",
    ] {
        assert_ne!(place.error(&format!("SELECT {query}")).reason(), Reason::Internal, "{query}");
    }
}
