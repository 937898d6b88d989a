//! One list of queries, and one answer to each: wherever the messages are, wherever the query runs, on any number of threads.

use crate::served::serve;
use crate::support::*;
use tapedb_engine::{Database, Stream};
use tapedb_query::{Options, Place as Where, Sql};

const SCHEMA: &str = "message Trade { price: decimal64, size: u32, side: Side?, tags: array<string> }
    message Quote { bid: decimal64, ask: decimal64 }
    message Book { levels: array<record<Level>> }
    record Level { price: decimal(18,2), n: i32 }
    enum Side { BUY = 1, SELL = 2 }";

const MESSAGES: i64 = 3_000;

/// Ordered by all that tells rows apart, unless the order of the stream is what is asked for.
const QUERIES: &[&str] = &[
    "SELECT * FROM ticks.Trade",
    "SELECT * FROM ticks.Quote ORDER BY time DESC LIMIT 70",
    "SELECT time, symbol, price FROM ticks.Trade WHERE symbol IN ('S1', 'S3') AND time >= '1970-01-01T00:00:10Z' AND time < '1970-01-01T00:01:00Z'",
    "SELECT count(*), min(time), max(time) FROM ticks.Trade",
    "SELECT symbol, side, count(*), sum(size), min(price), avg(price) FROM ticks.Trade WHERE size > 20 GROUP BY symbol, side ORDER BY symbol, side",
    "SELECT symbol, price, n, entry FROM ticks.Level WHERE n > 3",
    "SELECT sequence, unnest(tags) AS tag FROM ticks.Trade WHERE size < 9",
    "SELECT * FROM latest('ticks.Quote') ORDER BY symbol",
    "SELECT DISTINCT ON (symbol) symbol, time, price FROM ticks.Trade WHERE time <= '1970-01-01T00:00:40Z' ORDER BY symbol, time DESC",
    "SELECT DISTINCT ON (symbol) symbol, time, sequence FROM ticks.Trade WHERE size > 20 ORDER BY symbol, time DESC",
    "SELECT time_bucket('7 seconds', time) AS b, symbol, ohlcv(price, size) AS bar, first(side), last(side), twap(price, time), ema(price, 5) FROM ticks.Trade GROUP BY b, symbol ORDER BY b, symbol",
    "SELECT time_bucket_gapfill('2 seconds', time) AS b, count(*), locf(last(price)) FROM ticks.Trade WHERE symbol = 'S2' AND time >= '1970-01-01T00:00:00Z' AND time < '1970-01-01T00:02:00Z' GROUP BY b ORDER BY b",
    "SELECT t.time, t.symbol, t.price, q.bid FROM ticks.Trade t ASOF JOIN ticks.Quote q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol",
    "SELECT t.sequence, q.sequence FROM ticks.Trade t ASOF JOIN ticks.Quote q MATCH_CONDITION (t.time < q.time) ON t.symbol = q.symbol",
    "SELECT t.sequence, count(*), max(q.ask) FROM ticks.Trade t WINDOW JOIN ticks.Quote q MATCH_CONDITION (q.time BETWEEN t.time - INTERVAL '1 second' AND t.time) ON t.symbol = q.symbol ORDER BY t.sequence",
    "SELECT h.offset, count(q.bid), sum(q.bid - t.price) FROM ticks.Trade t HORIZON JOIN ticks.Quote q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol LIST (INTERVAL '-1 second', INTERVAL '2 seconds') AS h GROUP BY h.offset ORDER BY h.offset",
    "SELECT a.sequence, b.sequence FROM ticks.Trade a JOIN ticks.Trade b ON a.sequence = b.sequence + 25 AND a.symbol = b.symbol ORDER BY a.sequence",
    "SELECT sequence, lag(price) OVER (PARTITION BY symbol ORDER BY time, sequence) FROM ticks.Trade ORDER BY sequence",
    "SELECT symbol, count(*) FROM ticks.Trade WHERE price IN (SELECT max(price) FROM ticks.Trade GROUP BY symbol) GROUP BY symbol ORDER BY symbol",
];

/// A part of the messages: trades, quotes and books of five symbols. Some are late, and some have the same time.
fn append_part(stream: &Stream, numbers: std::ops::Range<i64>) {
    let messages: Vec<(i64, String, String)> = numbers
        .map(|n| {
            let time = (n / 2 - if n % 50 == 0 { 60 } else { 0 }) * 50_000_000;
            let cents = 10_000 + (n * 7919) % 400;
            let text = match n % 5 {
                0 | 1 => {
                    let side = ["null", "\"BUY\"", "\"SELL\""][n as usize % 3];
                    format!(
                        r#"{{"$type": "Trade", "price": "{}.{:02}", "size": {}, "side": {side}, "tags": ["a{n}", "b"]}}"#,
                        cents / 100,
                        cents % 100,
                        n % 100
                    )
                }
                2 | 3 => format!(r#"{{"$type": "Quote", "bid": "{}.5", "ask": "{}.25"}}"#, cents / 100, cents / 100 + 1),
                _ => format!(
                    r#"{{"$type": "Book", "levels": [{{"price": "{}.25", "n": {}}}, {{"price": "1.5", "n": 9}}]}}"#,
                    cents / 100,
                    n % 8
                ),
            };
            (time.max(0), format!("S{}", (n / 5) % 5), text)
        })
        .collect();
    let messages: Vec<_> =
        messages.iter().map(|(time, symbol, text)| (*time, symbol.as_str(), text.as_str())).collect();
    append(stream, &messages);
}

fn answers(db: &Database, place: Where, threads: usize) -> Vec<Vec<String>> {
    let sql = Sql::with_options(db, Options { place, threads: Some(threads), ..Options::default() }).unwrap();
    let answer =
        |query: &&str| sql.query(query).and_then(rows_of).unwrap_or_else(|error| panic!("{query}: {error}"));
    QUERIES.iter().map(answer).collect()
}

#[test]
fn answers_do_not_depend_on_where_messages_are_and_the_query_runs() {
    let place = Place::new();
    let stream = place.stream("ticks", SCHEMA, &[]);
    append_part(&stream, 0..MESSAGES);
    let expected = answers(&place.db, Where::Here, 1);
    for (query, rows) in QUERIES.iter().zip(&expected) {
        assert!(!rows.is_empty(), "{query}");
    }
    // The same messages: in the log; in the log and a segment; in segments alone; in several, of which each seal merges some.
    for parts in [vec![], vec![1_700], vec![3_000], vec![400, 800, 1_300, 2_000, 2_600, 3_000]] {
        let place = Place::new();
        let stream = place.stream("ticks", SCHEMA, &[]);
        let mut from = 0;
        for end in &parts {
            append_part(&stream, from..*end);
            stream.seal().unwrap();
            from = *end;
        }
        append_part(&stream, from..MESSAGES);
        let state = |what: &str| format!("{what}, sealed {parts:?}");
        for threads in [1, 3] {
            compare(
                &expected,
                &answers(&place.db, Where::Here, threads),
                &state(&format!("{threads} threads")),
            );
        }
        if parts.len() > 1 {
            // Sealed once more, segments are merged; a segment more or less.
            stream.seal().unwrap();
            compare(&expected, &answers(&place.db, Where::Here, 2), &state("merged"));
        }
        let served = serve(place, |_| {});
        let remote = served.client();
        compare(&expected, &answers(&remote, Where::Server, 1), &state("on the server"));
        compare(&expected, &answers(&remote, Where::Here, 2), &state("in the client"));
    }
}

#[track_caller]
fn compare(expected: &[Vec<String>], found: &[Vec<String>], state: &str) {
    for ((query, expected), found) in QUERIES.iter().zip(expected).zip(found) {
        let at = expected.iter().zip(found).position(|(a, b)| a != b);
        assert!(
            expected == found,
            "{query}, {state}: {} and {} rows, different from row {at:?} on: {:?}",
            expected.len(),
            found.len(),
            at.map(|at| (&expected[at], &found[at]))
        );
    }
}
