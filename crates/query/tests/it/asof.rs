//! As-of joins: against a list of rows that a loop finds, in both forms of SQL.

use crate::support::*;
use tapedb_query::{Options, Reason};

/// Trades and quotes with times in nanoseconds. Some times are equal, some symbols have no quotes, some quotes no trades.
fn place() -> Place {
    let place = Place::new();
    let trades =
        [(5, "A", 1), (10, "B", 2), (10, "A", 3), (20, "C", 4), (30, "A", 5), (31, "B", 6), (60, "A", 7)];
    let quotes = [
        (1, "A", 10),
        (5, "A", 11),
        (5, "A", 12),
        (11, "B", 13),
        (25, "A", 14),
        (30, "D", 15),
        (31, "B", 16),
        (70, "A", 17),
    ];
    let of = |name: &str, rows: &[(i64, &str, i64)], ty: &str| {
        let rows: Vec<_> = rows
            .iter()
            .map(|(time, symbol, x)| (*time, *symbol, format!(r#"{{"$type": "{ty}", "x": {x}}}"#)))
            .collect();
        let rows: Vec<_> = rows.iter().map(|(time, symbol, text)| (*time, *symbol, text.as_str())).collect();
        place.stream(name, &format!("message {ty} {{ x: i64 }}"), &rows);
    };
    of("t", &trades, "Trade");
    of("q", &quotes, "Quote");
    place
}

fn pairs(place: &Place, join: &str) -> Vec<String> {
    place.rows(&format!("SELECT t.x, q.x FROM t {join} ORDER BY t.time, t.x"))
}

#[test]
fn each_row_gets_the_last_one_before_it() {
    let place = place();
    let left = ["1|12", "2|NULL", "3|12", "4|NULL", "5|14", "6|16", "7|14"];
    for join in [
        "ASOF JOIN q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol",
        "ASOF JOIN q MATCH_CONDITION (q.time <= t.time) ON q.symbol = t.symbol",
        "ASOF LEFT JOIN q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol",
        "asof left join q on t.symbol = q.symbol and t.time >= q.time",
        "ASOF LEFT JOIN q ON (q.time <= t.time) AND t.symbol = q.symbol",
        "ASOF JOIN q MATCH_CONDITION (t.time >= q.time) ON upper(t.symbol) = upper(q.symbol)",
        "ASOF JOIN (SELECT * FROM q) q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol",
    ] {
        assert_eq!(pairs(&place, join), left, "{join}");
    }
    let inner = "ASOF JOIN q ON t.symbol = q.symbol AND t.time >= q.time";
    assert_eq!(
        pairs(&place, inner),
        left.iter().filter(|row| !row.ends_with("NULL")).copied().collect::<Vec<_>>()
    );
    let strict = "ASOF JOIN q MATCH_CONDITION (t.time > q.time) ON t.symbol = q.symbol";
    assert_eq!(pairs(&place, strict), ["1|10", "2|NULL", "3|12", "4|NULL", "5|14", "6|13", "7|14"]);
    let any = "ASOF JOIN q MATCH_CONDITION (t.time >= q.time)";
    assert_eq!(pairs(&place, any), ["1|12", "2|12", "3|12", "4|13", "5|15", "6|16", "7|16"]);
    // DuckDB's: the last one is the time, and the columns are those of the left side.
    let using = place.rows("SELECT symbol, CAST(time AS BIGINT) AS at, q.x FROM t ASOF JOIN q USING (symbol, time) ORDER BY time, t.x LIMIT 2");
    assert_eq!(using, ["A|5|12", "A|10|12"]);
}

#[test]
fn the_next_and_the_nearest_one() {
    let place = place();
    let forward = "ASOF JOIN q MATCH_CONDITION (t.time <= q.time) ON t.symbol = q.symbol";
    assert_eq!(pairs(&place, forward), ["1|12", "2|13", "3|14", "4|NULL", "5|17", "6|16", "7|17"]);
    let strict = "ASOF JOIN q MATCH_CONDITION (t.time < q.time) ON t.symbol = q.symbol";
    assert_eq!(pairs(&place, strict), ["1|14", "2|13", "3|14", "4|NULL", "5|17", "6|NULL", "7|17"]);
    let nearest = "ASOF JOIN q MATCH_CONDITION (nearest(t.time, q.time)) ON t.symbol = q.symbol";
    assert_eq!(pairs(&place, nearest), ["1|12", "2|13", "3|12", "4|NULL", "5|14", "6|16", "7|17"]);
}

#[test]
fn a_tolerance_limits_the_difference_of_times() {
    let place = place();
    let expected = ["1|12", "2|NULL", "3|12", "4|NULL", "5|14", "6|16", "7|NULL"];
    for tolerance in [
        "t.time - q.time <= INTERVAL '5 nanoseconds'",
        "q.time >= t.time - INTERVAL '5 nanoseconds'",
        "t.time <= q.time + INTERVAL '5 nanoseconds'",
        "t.time - q.time < INTERVAL '6 nanoseconds'",
    ] {
        let join =
            format!("ASOF JOIN q MATCH_CONDITION (t.time >= q.time AND {tolerance}) ON t.symbol = q.symbol");
        assert_eq!(pairs(&place, &join), expected, "{tolerance}");
    }
    let forward = "ASOF JOIN q MATCH_CONDITION (t.time <= q.time AND q.time - t.time <= INTERVAL '10 nanoseconds') ON t.symbol = q.symbol";
    assert_eq!(pairs(&place, forward), ["1|12", "2|13", "3|NULL", "4|NULL", "5|NULL", "6|16", "7|17"]);
    let nearest = "ASOF JOIN q MATCH_CONDITION (nearest(t.time, q.time, INTERVAL '4 nanoseconds')) ON t.symbol = q.symbol";
    assert_eq!(pairs(&place, nearest), ["1|12", "2|13", "3|NULL", "4|NULL", "5|NULL", "6|16", "7|NULL"]);
}

#[test]
fn conditions_are_where_they_may_be() {
    let place = place();
    let join = "FROM t ASOF JOIN q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol";
    let query = format!(
        "SELECT t.x, q.x {join} WHERE t.symbol = 'A' AND t.time < '1970-01-01T00:00:00.000000050Z' ORDER BY t.time"
    );
    let plan = place.plan(&query);
    assert_eq!(plan.matches("symbols=1: [A]").count(), 2, "{plan}");
    assert_eq!(plan.matches("last=1970").count(), 2, "{plan}");
    assert!(!plan.contains("Sort") && !plan.contains("Filter"), "{plan}");
    assert_eq!(place.rows(&query), ["1|12", "3|12", "5|14"]);
    // A table is read by symbol, other right sides by time.
    assert_eq!((plan.matches("order=symbol").count(), plan.matches("order=time").count()), (1, 1), "{plan}");
    let plan = place.plan(&query.replace("JOIN q ", "JOIN (SELECT * FROM q WHERE x > 0) q "));
    assert_eq!(plan.matches("order=time").count(), 2, "{plan}");
    // The last quote counts, not the last one that is wanted.
    let query = format!("SELECT t.x, q.x {join} WHERE q.x < 14 ORDER BY t.time");
    assert_eq!(place.rows(&query), ["1|12", "3|12"]);
    let query = format!("SELECT count(*) {join} WHERE q.x IS NULL");
    assert_eq!(place.rows(&query), ["2"]);
    // Several joins, and rows of subqueries.
    let query = "SELECT t.x, a.x, b.x FROM t ASOF JOIN q a MATCH_CONDITION (t.time >= a.time) ON t.symbol = a.symbol \
        JOIN t u ON u.x = t.x ASOF JOIN q b MATCH_CONDITION (t.time > b.time) ON t.symbol = b.symbol ORDER BY t.time, t.x LIMIT 2";
    assert_eq!(place.rows(query), ["1|12|10", "2|NULL|NULL"]);
}

#[test]
fn what_is_no_join_of_times_is_refused() {
    let place = place();
    for (join, text) in [
        ("ASOF JOIN q ON t.symbol = q.symbol", "compares no times"),
        ("ASOF JOIN q MATCH_CONDITION (t.symbol >= q.symbol)", "timestamps or integers"),
        ("ASOF JOIN q MATCH_CONDITION (t.time >= q.time AND t.time <= q.time)", "once"),
        ("ASOF JOIN q MATCH_CONDITION (t.time >= q.time) ON t.x > 5", "put it into WHERE"),
        ("ASOF RIGHT JOIN q ON t.time >= q.time", "there is no ASOF RIGHT JOIN"),
        ("ASOF INNER JOIN q MATCH_CONDITION (t.time >= q.time)", "without INNER"),
        ("GLOBAL JOIN q ON t.time = q.time", "leave out GLOBAL"),
        ("ASOF NATURAL JOIN q", "no ASOF NATURAL JOIN"),
        ("ASOF JOIN q MATCH_CONDITION (nearest(t.time))", "two times"),
        ("ASOF JOIN q MATCH_CONDITION (nearest(t.time, t.time))", "each side"),
        ("ASOF JOIN q MATCH_CONDITION (t.time >= q.time AND t.time - q.time <= q.x)", "constant interval"),
        ("ASOF JOIN q MATCH_CONDITION (t.sequence >= q.sequence)", "UInt64"),
        ("ASOF JOIN q MATCH_CONDITION (t.time >= q.tim)", "tim"),
        ("ASOF JOIN q USING (symbol, nothing)", "nothing"),
        (
            "ASOF JOIN q MATCH_CONDITION (t.time >= q.time AND t.time - q.time <= INTERVAL '1 month')",
            "months",
        ),
    ] {
        let error = place.error(&format!("SELECT t.x FROM t {join}"));
        assert!(error.reason() == Reason::Query && error.to_string().contains(text), "{join}: {error}");
    }
}

#[test]
fn sides_may_be_empty_and_keys_null() {
    let place = place();
    place.stream("none", "message None { x: i64 }", &[]);
    let forms = ["t.time >= none.time", "t.time <= none.time", "nearest(t.time, none.time)"];
    for form in forms {
        let of = |left: &str, right: &str| {
            place.rows(&format!(
                "SELECT {left}.x, {right}.x FROM {left} ASOF JOIN {right} MATCH_CONDITION ({form}) ON t.symbol = none.symbol ORDER BY {left}.x LIMIT 2"
            ))
        };
        assert_eq!(of("t", "none"), ["1|NULL", "2|NULL"], "{form}");
        assert!(of("none", "t").is_empty(), "{form}");
    }
    assert!(place.rows("SELECT t.x FROM t ASOF JOIN none ON t.time >= none.time").is_empty());
    let row = |k: &str, j: i64, x: i64| format!(r#"{{"$type": "Row", "k": {k}, "j": {j}, "x": {x}}}"#);
    let make = |name: &str, rows: &[(i64, String)]| {
        let rows: Vec<_> = rows.iter().map(|(time, text)| (*time, "A", text.as_str())).collect();
        place.stream(name, "message Row { k: string?, j: i64, x: i64 }", &rows);
    };
    make(
        "l",
        &[
            (10, row("null", 1, 1)),
            (10, row("\"a\"", 1, 2)),
            (10, row("\"a\"", 2, 3)),
            (10, row("\"a longer text than a view has\"", 1, 4)),
        ],
    );
    make(
        "r",
        &[
            (8, row("null", 1, 11)),
            (9, row("\"a\"", 1, 12)),
            (9, row("\"a\"", 3, 13)),
            (10, row("\"a longer text than a view has\"", 1, 14)),
            (10, row("\"a longer text than a view has\"", 1, 15)),
        ],
    );
    for form in ["l.time >= r.time", "nearest(l.time, r.time)"] {
        let of = |on: &str| {
            place.rows(&format!(
                "SELECT l.x, r.x FROM l ASOF JOIN r MATCH_CONDITION ({form}) ON {on} ORDER BY l.x"
            ))
        };
        assert_eq!(of("l.k = r.k"), ["1|NULL", "2|13", "3|13", "4|15"], "{form}");
        assert_eq!(
            of("l.k = r.k AND l.j = r.j AND l.symbol = r.symbol"),
            ["1|NULL", "2|12", "3|NULL", "4|15"],
            "{form}"
        );
    }
}

#[test]
fn times_may_be_any_numbers() {
    let place = Place::new();
    let make = |name: &str, rows: &[(i64, i64)]| {
        let text = |(at, x): &(i64, i64)| format!(r#"{{"$type": "Row", "at": {at}, "x": {x}}}"#);
        let texts: Vec<String> = rows.iter().map(text).collect();
        let rows: Vec<_> = texts.iter().map(|text| (1, "A", text.as_str())).collect();
        place.stream(name, "message Row { at: i64, x: i64 }", &rows);
    };
    make("l", &[(i64::MAX, 3), (0, 2), (i64::MIN, 1), (-1, 4)]);
    make("r", &[(i64::MIN, 11), (i64::MAX, 12)]);
    make("low", &[(i64::MIN, 11)]);
    let of = |right: &str, form: &str| {
        place.rows(&format!(
            "SELECT l.x, r.x FROM l ASOF JOIN {right} r MATCH_CONDITION ({form}) ORDER BY l.x"
        ))
    };
    assert_eq!(of("r", "l.at >= r.at"), ["1|11", "2|11", "3|12", "4|11"]);
    assert_eq!(of("r", "l.at <= r.at"), ["1|11", "2|12", "3|12", "4|12"]);
    assert_eq!(of("r", "nearest(l.at, r.at)"), ["1|11", "2|12", "3|12", "4|11"]);
    assert_eq!(
        of("low", "l.at >= r.at AND l.at - r.at <= 9223372036854775807"),
        ["1|11", "2|NULL", "3|NULL", "4|11"]
    );
    assert_eq!(of("low", "nearest(l.at, r.at, 9223372036854775807)"), ["1|11", "2|NULL", "3|NULL", "4|11"]);
    assert_eq!(of("low", "l.at > r.at AND l.at - r.at < 0"), ["1|NULL", "2|NULL", "3|NULL", "4|NULL"]);
}

#[test]
fn joins_are_parts_of_larger_queries() {
    let place = place();
    let join = "FROM t ASOF JOIN q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol";
    assert_eq!(
        place.rows(&format!("SELECT q.x {join} ORDER BY q.x")),
        ["12", "12", "14", "14", "16", "NULL", "NULL"]
    );
    assert_eq!(place.rows(&format!("SELECT t.x {join} LIMIT 1")), ["1"]);
    assert_eq!(place.rows(&format!("SELECT count(*), count(q.x), sum(q.x) {join}")), ["7|5|68"]);
    // With itself: the trade before each.
    let own = "SELECT a.x, b.x FROM t a ASOF JOIN t b MATCH_CONDITION (a.time > b.time) ON a.symbol = b.symbol ORDER BY a.x";
    assert_eq!(place.rows(own), ["1|NULL", "2|NULL", "3|1", "4|NULL", "5|3", "6|2", "7|5"]);
    // The sides the other way round.
    let swapped =
        "SELECT q.x, t.x FROM q ASOF JOIN t ON q.symbol = t.symbol AND q.time >= t.time ORDER BY q.x";
    assert_eq!(place.rows(swapped), ["11|1", "12|1", "13|2", "14|3", "16|6", "17|7"]);
    let grouped = "SELECT t.x, m.most FROM t ASOF LEFT JOIN (SELECT symbol, time, max(x) AS most FROM q GROUP BY symbol, time) m \
        ON t.symbol = m.symbol AND t.time >= m.time ORDER BY t.x";
    assert_eq!(place.rows(grouped), ["1|12", "2|NULL", "3|12", "4|NULL", "5|14", "6|16", "7|14"]);
    let both = "WITH l AS (SELECT symbol, max(time) AS at FROM t GROUP BY symbol) \
        SELECT l.symbol, q.x FROM l ASOF JOIN q MATCH_CONDITION (l.at >= q.time) ON l.symbol = q.symbol ORDER BY l.symbol";
    assert_eq!(place.rows(both), ["A|14", "B|16", "C|NULL"]);
}

/// The sort is by one of both columns, for they are equal.
#[test]
fn a_column_may_be_selected_twice() {
    let place = place();
    let sql = place.sql_with(Options { threads: Some(3), ..Options::default() });
    let join = "t ASOF JOIN q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol";
    let query = format!("SELECT DISTINCT q.x AS a, q.x AS b FROM {join} ORDER BY 1, 2");
    assert_eq!(rows_of(sql.query(&query).unwrap()).unwrap(), ["12|12", "14|14", "16|16", "NULL|NULL"]);
}

#[test]
fn joins_may_follow_joins() {
    let place = place();
    let all = "SELECT * FROM t ASOF LEFT JOIN q USING (symbol, time) WHERE symbol = 'B' ORDER BY time";
    assert_eq!(place.rows(&all.replace('*', "t.x, q.x")), ["2|NULL", "6|16"]);
    assert_eq!(place.rows(all).len(), 2);
    let nested = "SELECT t.x, a.x, b.x FROM t ASOF JOIN (q a ASOF JOIN q b MATCH_CONDITION (a.time > b.time) ON a.symbol = b.symbol) \
        MATCH_CONDITION (t.time >= a.time) ON t.symbol = a.symbol ORDER BY t.x";
    assert_eq!(
        place.rows(nested),
        ["1|12|10", "2|NULL|NULL", "3|12|10", "4|NULL|NULL", "5|14|12", "6|16|13", "7|14|12"]
    );
    let within = "SELECT x FROM t WHERE x IN (SELECT t.x FROM t ASOF JOIN q ON t.symbol = q.symbol AND t.time > q.time) ORDER BY x";
    assert_eq!(place.rows(within), ["1", "3", "5", "6", "7"]);
    let joined = "SELECT t.x, q.x, u.x FROM t u JOIN t ON u.x = t.x - 1 ASOF JOIN q MATCH_CONDITION (t.time <= q.time) ON t.symbol = q.symbol ORDER BY t.x LIMIT 2";
    assert_eq!(place.rows(joined), ["2|13|1", "3|14|2"]);
    let union = "SELECT t.x FROM t ASOF JOIN q ON t.symbol = q.symbol AND t.time < q.time UNION ALL SELECT 100 ORDER BY 1";
    assert_eq!(place.rows(union), ["1", "2", "3", "5", "7", "100"]);
    let parameter = place.sql();
    let query = "SELECT t.x, q.x FROM t ASOF JOIN q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol WHERE t.symbol = $1 ORDER BY t.x";
    let rows = parameter.query_with(query, &tapedb_query::Parameters::numbered(["B"])).unwrap();
    assert_eq!(rows_of(rows).unwrap(), ["2|NULL", "6|16"]);
}

#[test]
fn conditions_above_are_no_others_below() {
    let place = place();
    // Nothing is filtered below a limit: so the second query is the first one without the rule.
    for matching in [
        "t.time >= q.time",
        "t.time > q.time",
        "t.time <= q.time",
        "t.time < q.time",
        "nearest(t.time, q.time)",
    ] {
        let join = format!(
            "SELECT t.x AS tx, q.x AS qx, t.time, t.symbol FROM t ASOF JOIN q MATCH_CONDITION ({matching}) ON t.symbol = q.symbol"
        );
        for condition in [
            "time > '1970-01-01T00:00:00.000000010Z'",
            "time <= '1970-01-01T00:00:00.000000030Z'",
            "symbol <> 'A'",
            "symbol > 'A' OR time < now()",
            "tx > 2 AND symbol IN ('A', 'C')",
            "qx IS NULL",
            "tx < qx",
        ] {
            let pushed = place.rows(&format!("SELECT tx, qx FROM ({join}) WHERE {condition} ORDER BY tx"));
            let kept =
                place.rows(&format!("SELECT tx, qx FROM ({join} LIMIT 1000) WHERE {condition} ORDER BY tx"));
            assert_eq!(pushed, kept, "{matching}, {condition}");
        }
    }
}

#[test]
fn memory_is_for_keys_and_not_for_rows() {
    let place = Place::new();
    let rows = (0..300_000).map(|n| {
        let text = format!(r#"{{"$type": "Row", "x": {n}, "note": "a note of message number {n}"}}"#);
        (n, ["A", "B", "C"][n as usize % 3], text)
    });
    let rows: Vec<(i64, &str, String)> = rows.collect();
    let rows: Vec<_> = rows.iter().map(|(time, symbol, text)| (*time, *symbol, text.as_str())).collect();
    place.stream("q", "message Row { x: i64, note: string }", &rows);
    let trades = [(299_999, "C", r#"{"$type": "T", "x": 1}"#), (400_000, "A", r#"{"$type": "T", "x": 2}"#)];
    place.stream("t", "message T { x: i64 }", &trades);
    // All rows of the right side take more.
    let sql = place.sql_with(Options { memory_bytes: 12 << 20, ..Options::default() });
    let query =
        "SELECT t.x, q.note FROM t ASOF JOIN q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol";
    let rows = rows_of(sql.query(query).unwrap()).unwrap();
    assert_eq!(rows, ["1|a note of message number 299999", "2|a note of message number 299997"]);
}

/// The times are fields, so that rows are sorted: many are the same, and the last one in the order of the stream counts.
#[test]
fn ties_after_a_sort_are_in_the_order_of_the_stream() {
    use tapedb_codec::{Record, SchemaBuilder};
    use tapedb_schema::Timestamp;
    #[derive(Record, Debug, Default)]
    #[record(message)]
    struct Row {
        at: i64,
        n: i64,
    }
    let place = Place::new();
    let schema = SchemaBuilder::new().with::<Row>().finish();
    let stream = place.db.create_stream("r", schema, Default::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    const ROWS: i64 = 60_000;
    let mut expected = std::collections::BTreeMap::<(i64, String), (i64, i64)>::new();
    for n in 0..ROWS {
        // Some are late: they are before others of the stream, though they arrived after these.
        let time = if n % 1_000 == 0 { n / 2 } else { n };
        let (at, symbol) = ((n * 7919) % 40, format!("S{}", n % 3));
        loader.append(&symbol, Timestamp(time), &Row { at, n }).unwrap();
        let last = expected.entry((at, symbol)).or_insert((time, n));
        *last = (*last).max((time, n));
    }
    loader.close().unwrap();
    let lefts: Vec<String> =
        expected.keys().map(|(at, _)| format!(r#"{{"$type": "L", "at": {at}}}"#)).collect();
    let lefts: Vec<_> =
        expected.keys().zip(&lefts).map(|((_, symbol), text)| (1, symbol.as_str(), text.as_str())).collect();
    place.stream("l", "message L { at: i64 }", &lefts);
    let expected: Vec<String> = expected.values().map(|(_, n)| n.to_string()).collect();
    for right in ["r", "(SELECT * FROM r WHERE n >= 0)", "(SELECT n, at, sequence AS s, time, symbol FROM r)"]
    {
        let query = format!(
            "SELECT r.n FROM l ASOF JOIN {right} r MATCH_CONDITION (l.at >= r.at) ON l.symbol = r.symbol ORDER BY l.at, l.symbol"
        );
        for threads in [1, 3] {
            let sql = place.sql_with(Options { threads: Some(threads), ..Options::default() });
            assert_eq!(rows_of(sql.query(&query).unwrap()).unwrap(), expected, "{right}, {threads} threads");
        }
    }
    // Rows of groups are in no stream: the one with the largest values counts.
    let groups = "(SELECT at, symbol, n % 7 AS m, count(*) AS c FROM r GROUP BY at, symbol, n % 7)";
    let query = format!(
        "SELECT DISTINCT g.m FROM l ASOF JOIN {groups} g MATCH_CONDITION (l.at >= g.at) ON l.symbol = g.symbol ORDER BY 1"
    );
    assert_eq!(place.rows(&query), ["6"]);
}

/// Random rows, with late messages, ties and rare symbols: as a loop finds them, in the log and in segments. Of some rows so many have the
/// same time that no batch has them all.
#[test]
fn random_rows_are_joined_as_a_loop_joins_them() {
    use tapedb_codec::{Record, SchemaBuilder};
    use tapedb_schema::Timestamp;
    #[derive(Record, Debug, Default)]
    #[record(message)]
    struct Row {
        n: i64,
    }
    let mut state = 7u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let place = Place::new();
    let mut make = |name: &str, rows: i64, symbols: u64, grain: i64| {
        let schema = SchemaBuilder::new().with::<Row>().finish();
        let stream = place.db.create_stream(name, schema, Default::default()).unwrap();
        let mut loader = stream.loader().unwrap();
        let mut made = Vec::new();
        for n in 0..rows {
            let symbol = random(symbols).min(random(symbols));
            let late = if random(50) == 0 { 300 } else { 0 };
            let time = 1_000 + n * 20_000 / rows - late + random(5) as i64;
            let time = time - time % grain;
            loader.append(&format!("S{symbol}"), Timestamp(time), &Row { n }).unwrap();
            made.push((time, n, symbol));
        }
        loader.close().unwrap();
        made.sort();
        (stream, made)
    };
    for (l, r, left_symbols, right_symbols, grain) in
        [("l", "r", 40, 3_000, 1), ("l_few", "r_few", 5, 4, 1), ("l_ties", "r_ties", 30, 20, 10_000)]
    {
        let (left, lefts) = make(l, 2_000, left_symbols, grain);
        let (right, rights) = make(r, 40_000, right_symbols, grain);
        let mut by_symbol = std::collections::HashMap::<u64, Vec<(i64, i64, u64)>>::new();
        rights.iter().for_each(|row| by_symbol.entry(row.2).or_default().push(*row));
        for (condition, tolerance) in [
            (">=", None),
            (">", None),
            (">=", Some(400)),
            ("<=", None),
            ("<", Some(900)),
            ("nearest", None),
            ("nearest", Some(7)),
        ] {
            let expected: Vec<String> = lefts
                .iter()
                .map(|(time, n, symbol)| {
                    let of_symbol = by_symbol.get(symbol).map_or(&[][..], Vec::as_slice).iter();
                    let of_key =
                        of_symbol.filter(|row| tolerance.is_none_or(|most| (row.0 - time).abs() <= most));
                    let before = of_key
                        .clone()
                        .rfind(|row| if condition == ">" { row.0 < *time } else { row.0 <= *time });
                    // Of those of the same time the last one.
                    let behind = of_key
                        .clone()
                        .find(|row| if condition == "<" { row.0 > *time } else { row.0 >= *time });
                    let behind = behind.and_then(|first| of_key.clone().rfind(|row| row.0 == first.0));
                    let found = match condition {
                        ">=" | ">" => before,
                        "<=" | "<" => behind,
                        _ => match (before, behind) {
                            (Some(a), Some(b)) => Some(if time - a.0 <= b.0 - time { a } else { b }),
                            (a, b) => a.or(b),
                        },
                    };
                    format!("{n}|{}", found.map_or("NULL".to_string(), |row| row.1.to_string()))
                })
                .collect();
            let matching = match (condition, tolerance) {
                ("nearest", Some(most)) => format!("nearest(l.time, r.time, INTERVAL '{most} nanoseconds')"),
                ("nearest", None) => "nearest(l.time, r.time)".to_string(),
                (op, None) => format!("l.time {op} r.time"),
                (op @ (">=" | ">"), Some(most)) => {
                    format!("l.time {op} r.time AND l.time - r.time <= INTERVAL '{most} nanoseconds'")
                }
                (op, Some(most)) => {
                    format!("l.time {op} r.time AND r.time - l.time <= INTERVAL '{most} nanoseconds'")
                }
            };
            let query = format!(
                "SELECT l.n, r.n FROM {l} l ASOF JOIN {r} r MATCH_CONDITION ({matching}) ON l.symbol = r.symbol"
            );
            for threads in [1, 3] {
                let sql = place.sql_with(Options { threads: Some(threads), ..Options::default() });
                let found = rows_of(sql.query(&query).unwrap()).unwrap();
                let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
                assert!(
                    found.len() == expected.len() && differs.is_none(),
                    "{query}: {:?}",
                    differs.map(|at| (&found[at], &expected[at], lefts[at]))
                );
            }
            left.seal().unwrap();
            right.seal().unwrap();
        }
    }
}
