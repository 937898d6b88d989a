//! Queries that are large or deep on purpose: an answer or a clear error, and the process lives on.

use crate::served::serve;
use crate::support::*;
use tapedb_query::{Error, Options, Place as Where, Reason, Sql};

/// A query, and whether it is answered.
fn queries() -> Vec<(String, bool)> {
    let chain = |what: &str, op: &str, count: usize| vec![what; count].join(op);
    let numbers =
        |count: usize, op: &str| (0..count).map(|n| format!("n = {n}")).collect::<Vec<_>>().join(op);
    let list = |count: usize| (0..count).map(|n| format!("'S{n}'")).collect::<Vec<_>>().join(", ");
    let around = |before: &str, inner: &str, after: &str, count: usize| {
        format!("{}{inner}{}", before.repeat(count), after.repeat(count))
    };
    let joined = |count: usize| {
        let joins = (1..count).map(|n| format!(" JOIN bars b{n} ON b{n}.n = b0.n"));
        format!("SELECT count(*) FROM bars b0{}", joins.collect::<String>())
    };
    let exists = |count: usize| {
        let parts = (1..=count).map(|n| format!("EXISTS (SELECT 1 FROM bars b{n} WHERE b{n}.n = b0.n)"));
        format!("SELECT count(*) FROM bars b0 WHERE {}", parts.collect::<Vec<_>>().join(" AND "))
    };
    let within = |count: usize| {
        let inner = around("n IN (SELECT n FROM bars WHERE ", "n < 5", ")", count);
        format!("SELECT count(*) FROM bars WHERE {inner}")
    };
    let named = |count: usize, each: &str| {
        let rest = (1..count).map(|n| format!(", c{n} AS ({})", each.replace('?', &format!("c{}", n - 1))));
        let rest = rest.collect::<String>();
        format!("WITH c0 AS (SELECT n FROM bars WHERE n < 3){rest} SELECT count(*) FROM c{}", count - 1)
    };
    let once = "SELECT n FROM ?";
    let twice = "SELECT n FROM ? UNION ALL SELECT n FROM ?";
    vec![
        (format!("SELECT {}", chain("1", " + ", 100)), true),
        (format!("SELECT {}", chain("1", " + ", 5_000)), false),
        (format!("SELECT {}", chain("1", " + ", 500_000)), false),
        (format!("SELECT count(*) FROM bars WHERE {}", numbers(400, " OR ")), true),
        (format!("SELECT count(*) FROM bars WHERE {}", numbers(4_000, " OR ")), false),
        (format!("SELECT count(*) FROM bars WHERE symbol IN ({})", list(20_000)), true),
        (format!("SELECT {}", around("(", "1", ")", 10_000)), false),
        (format!("SELECT {}", around("abs(", "1", ")", 10_000)), false),
        (format!("SELECT {}1", "- ".repeat(10_000)), false),
        (format!("SELECT {} true", "NOT ".repeat(10_000)), false),
        (format!("SELECT n{} FROM bars", "::BIGINT".repeat(3_000)), false),
        (format!("SELECT {}", chain("'x'", " || ", 3_000)), false),
        (format!("{}SELECT 1", "EXPLAIN ".repeat(15_000)), false),
        (chain("SELECT n FROM bars WHERE n < 2", " UNION ALL ", 100), true),
        (chain("SELECT n FROM bars WHERE n < 2", " UNION ALL ", 3_000), false),
        (around("SELECT * FROM (", "SELECT n FROM bars", ") x", 3_000), false),
        (joined(12), true),
        (joined(200), false),
        (exists(8), true),
        (exists(200), false),
        (within(4), true),
        (within(20), false),
        (named(30, once), true),
        (named(300, once), false),
        (named(8, twice), true),
        (named(40, twice), false),
        (
            format!(
                "SELECT {} FROM bars WHERE n < 2",
                (0..30_000).map(|n| format!("n AS c{n}")).collect::<Vec<_>>().join(", ")
            ),
            false,
        ),
        ("SELECT ".to_string() + &"ASOF JOIN ".repeat(100_000), false),
    ]
}

fn check(answer: Result<Vec<String>, Error>, query: &str, is_answered: bool) {
    let shown: String = query.chars().take(80).collect();
    match answer {
        Ok(rows) => assert!(is_answered && !rows.is_empty(), "{shown}: {} rows", rows.len()),
        Err(error) => {
            assert!(!is_answered, "{shown}: {error}");
            assert!(matches!(error.reason(), Reason::Limit | Reason::Query), "{shown}: {error}");
            assert!(error.to_string().len() < 1_000, "{shown}: {error}");
        }
    }
}

#[test]
fn large_queries_are_answered_or_refused() {
    let served = serve(bars(50, false), |_| {});
    let sql =
        Sql::with_options(&served.client(), Options { place: Where::Server, ..Options::default() }).unwrap();
    let place = bars(50, false);
    let here = place.sql();
    for (query, is_answered) in queries() {
        check(here.query(&query).and_then(rows_of), &query, is_answered);
        // Threads of connections have small stacks; the client sends what it has not read.
        check(sql.query(&query).and_then(rows_of), &query, is_answered);
    }
    assert_eq!(rows_of(sql.query("SELECT count(*) FROM bars").unwrap()).unwrap(), ["50"]);
}

#[test]
fn functions_that_make_much_of_little_are_bounded() {
    let place = bars(50, false);
    for (query, answer) in [
        ("SELECT length(repeat('ab', 1000)), length(lpad('x', 7, 'y')), length(rpad('x', 9))", "2000|7|9"),
        (
            "SELECT array_length(range(5)), array_length(generate_series(1, 5)), array_length(range(9, 0, -2))",
            "5|5|5",
        ),
        ("SELECT array_length(array_repeat(1, 3)), array_length(array_resize([1], 4))", "3|4"),
        (
            "SELECT array_length(generate_series('2024-01-01'::date, '2024-02-01'::date, INTERVAL '1 day'))",
            "32",
        ),
        ("SELECT length(repeat(NULL, 5)), range(NULL)", "NULL|NULL"),
        ("SELECT count(*) FROM range(1, 100)", "99"),
    ] {
        assert_eq!(place.rows(query), [answer], "{query}");
    }
    for query in [
        "SELECT repeat('x', 2000000000)",
        "SELECT sum(length(repeat(symbol, 100000000))) FROM bars",
        "SELECT lpad('x', 2000000000)",
        "SELECT rpad(symbol, 1000000000, 'ab') FROM bars",
        "SELECT range(1, 2000000000)",
        "SELECT range(9223372036854775807)",
        "SELECT generate_series(-9223372036854775808, 9223372036854775807, 1)",
        "SELECT array_repeat('x', 1000000000)",
        "SELECT array_resize([1], 1000000000)",
        "SELECT generate_series('1700-01-01'::timestamp, '2200-01-01'::timestamp, INTERVAL '1 microsecond')",
        "SELECT generate_series(time, '2200-01-01'::timestamp, INTERVAL '1 second') FROM bars",
    ] {
        let error = place.error(query);
        assert_eq!(error.reason(), Reason::Limit, "{query}: {error}");
    }
}
