//! The same queries on the same rows by others: random ones by DuckDB, as-of joins by pandas. The rows are in the log, then in
//! segments.

use crate::support::*;
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;
use tapedb_engine::Stream;
use tapedb_query::Error;

/// Set to run more random queries than [`QUERIES`].
const QUERIES_VARIABLE: &str = "TAPEDB_SQL_QUERIES";
const QUERIES: u64 = 120;

/// The columns of both tables; `k` numbers their rows.
const COLUMNS: [&str; 9] = ["time", "symbol", "k", "i", "n", "x", "d", "s", "b"];

/// Random numbers that are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A stream of random rows, and the same rows as JSON, in the order of the stream. Unless there may be ties, no two have the same time.
fn table(place: &Place, name: &str, rows: i64, may_tie: bool, random: &mut Random) -> (Stream, Vec<Value>) {
    let schema = "message Row { k: i64, i: i64?, n: i32, x: f64, d: decimal(18,2), s: Side?, b: bool } enum Side { BUY = 1, SELL = 2 }";
    let mut made = Vec::new();
    for k in 0..rows {
        // Some are late.
        let late = if random.is(3) { 40 } else { 0 };
        let time = 1_000 + k * 10 - late * 10
            + if may_tie { random.below(3) as i64 * 10 } else { k % 7 - (k - late) % 7 };
        let time = if may_tie { time } else { time * 1_000 + k };
        let symbol =
            ["AAPL", "MSFT", "a symbol of more than twelve bytes", "Z"][random.below(20) as usize % 4];
        let i = if random.is(20) { Value::Null } else { json!(random.below(50) as i64 - 25) };
        let side = [json!("BUY"), json!("SELL"), Value::Null][random.below(3) as usize].clone();
        let (n, x) = (random.below(40) as i64 - 20, random.below(4_000) as f64 / 8.0 - 250.0);
        let d = format!("{}.{:02}", random.below(90), random.below(100));
        made.push(json!([time, symbol, k, i, n, x, d, side, random.is(50)]));
    }
    let messages: Vec<(i64, String, String)> = made
        .iter()
        .map(|row| {
            let text = json!({"$type": "Row", "k": row[2], "i": row[3], "n": row[4], "x": row[5], "d": row[6], "s": row[7], "b": row[8]});
            (row[0].as_i64().unwrap(), row[1].as_str().unwrap().to_string(), text.to_string())
        })
        .collect();
    let messages: Vec<_> =
        messages.iter().map(|(time, symbol, text)| (*time, symbol.as_str(), text.as_str())).collect();
    let stream = place.stream(name, schema, &messages);
    made.sort_by_key(|row| row[0].as_i64());
    (stream, made)
}

/// What a program in Python prints as JSON for this input.
fn python(program: &str, input: &Value) -> Value {
    let mut command = tapedb_skipped::python();
    let mut child =
        command.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "Python ended with {}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether two cells are equal, numbers but for their last digits.
fn are_near(a: &str, b: &str) -> bool {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1.0),
        _ => a == b,
    }
}

/// What is different between our rows and those of others, if anything is.
fn difference(query: &str, ours: Result<Vec<String>, Error>, theirs: &Value) -> Option<String> {
    let (ours, theirs) = match (ours, theirs.as_array()) {
        (Ok(ours), Some(theirs)) => (ours, theirs),
        (ours, _) => return Some(format!("{query}: here {ours:?}, there {theirs}")),
    };
    let text = |cell: &Value| cell.as_str().unwrap().to_string();
    let theirs: Vec<Vec<String>> =
        theirs.iter().map(|row| row.as_array().unwrap().iter().map(text).collect()).collect();
    let is_same = |(ours, theirs): (&String, &Vec<String>)| {
        let ours: Vec<&str> = ours.split('|').collect();
        ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| are_near(a, b))
    };
    let at = ours.iter().zip(&theirs).position(|pair| !is_same(pair));
    let lines = at.map(|at| (&ours[at], &theirs[at]));
    let rows = (ours.len(), theirs.len());
    (at.is_some() || rows.0 != rows.1)
        .then(|| format!("{query}: {} rows here, {} there; {lines:?}", rows.0, rows.1))
}

const DUCKDB: &str = r#"
import json, sys, duckdb
given = json.load(sys.stdin)
db = duckdb.connect()
types = "time TIMESTAMP_NS, symbol VARCHAR, k BIGINT, i BIGINT, n INTEGER, x DOUBLE, d DECIMAL(18,2), s VARCHAR, b BOOLEAN"
for name, rows in given["tables"].items():
    db.execute(f"CREATE TABLE {name} ({types})")
    db.executemany(f"INSERT INTO {name} VALUES (make_timestamp_ns(?), ?, ?, ?, ?, ?, CAST(? AS DECIMAL(18,2)), ?, ?)", rows)
def text(value):
    if value is None: return "NULL"
    if isinstance(value, bool): return str(value).lower()
    return str(value)
found = []
for query in given["queries"]:
    query = query.replace("', t.time)", "', make_timestamp(epoch_ns(t.time) // 1000))")
    try:
        found.append([[text(value) for value in row] for row in db.execute(query).fetchall()])
    except duckdb.Error as error:
        found.append(str(error))
json.dump(found, sys.stdout)
"#;

/// Groups by buckets of time. DuckDB's are of times in microseconds, to which it would round: [`DUCKDB`] cuts them.
fn bucket_query(random: &mut Random) -> String {
    let width = random.of(&["1 microsecond", "2 microseconds", "3 microseconds"]);
    let condition = random.of(&["t.n > 3", "t.symbol <> 'Z'", "t.b", "t.x < 0 OR t.i IS NULL"]);
    let aggregate = random.of(&["sum(t.n)", "max(t.x)", "min(t.d)", "count(t.i)", "avg(t.x)"]);
    format!(
        "SELECT min(t.k), t.symbol, count(*), {aggregate} FROM t WHERE {condition} \
         GROUP BY time_bucket(INTERVAL '{width}', t.time), t.symbol ORDER BY 1, 2, 3, 4"
    )
}

/// A query whose rows are all ordered by all of their columns.
fn query(random: &mut Random) -> String {
    if random.is(8) {
        return bucket_query(random);
    }
    let from = match random.below(8) {
        0 => "t JOIN q ON t.n = q.n AND t.symbol = q.symbol".to_string(),
        1 => "t LEFT JOIN q ON t.k = q.k + 3".to_string(),
        2 | 3 => {
            let left = random.of(&["", "LEFT "]);
            let op = random.of(&[">=", ">", "<=", "<"]);
            format!("t ASOF {left}JOIN q ON t.symbol = q.symbol AND t.time {op} q.time")
        }
        4 => "t ASOF LEFT JOIN (SELECT * FROM q WHERE n > 0) q ON t.symbol = q.symbol AND t.b = q.b AND t.time >= q.time".to_string(),
        _ => "t".to_string(),
    };
    let other = if from.contains(" q ") { "q" } else { "t" };
    let values = [
        "t.i",
        "t.n",
        "t.x",
        "t.d",
        "t.s",
        "t.b",
        "t.symbol",
        "t.k",
        "t.n + 1",
        "t.x * 2",
        "t.n % 7",
        "abs(t.n)",
        "coalesce(t.i, -1)",
        "CASE WHEN t.n > 0 THEN t.s ELSE 'none' END",
        "length(t.symbol)",
        "t.d + 1",
        "t.i IS NULL",
        "t.n BETWEEN -5 AND 5",
        "Q.k",
        "Q.n - t.n",
        "Q.d",
        "Q.x + t.x",
        "greatest(t.n, Q.n)",
        "upper(t.symbol)",
        "t.s = Q.s",
    ];
    let conditions = [
        "t.n > 3",
        "t.i IS NOT NULL",
        "t.symbol = 'AAPL'",
        "t.symbol IN ('Z', 'MSFT')",
        "t.x < 0",
        "t.d >= 20.5",
        "t.s = 'BUY'",
        "t.b",
        "NOT t.b",
        "t.symbol LIKE '%M%'",
        "t.k BETWEEN 20 AND 300",
        "Q.n <= 4",
        "Q.s IS NULL",
        "t.n IN (SELECT n FROM q WHERE k < 9)",
        "t.i + t.n > 0",
        "EXISTS (SELECT 1 FROM q WHERE q.k = t.k AND q.b)",
        "t.s <> 'SELL' OR t.x > 100",
    ];
    let aggregates = [
        "count(*)",
        "count(t.i)",
        "sum(t.n)",
        "min(t.x)",
        "max(t.d)",
        "avg(t.n)",
        "sum(t.x)",
        "count(DISTINCT t.n % 5)",
        "min(t.s)",
        "max(t.symbol)",
        "median(t.x)",
        "sum(Q.i)",
        "sum(t.n) FILTER (WHERE t.b)",
        "avg(t.x)",
        "bool_or(t.b)",
        "stddev(t.x)",
        "sum(t.d)",
    ];
    let windows = [
        "lag(t.n) OVER (PARTITION BY t.symbol ORDER BY t.k)",
        "row_number() OVER (ORDER BY t.k)",
        "sum(t.n) OVER (PARTITION BY t.b ORDER BY t.k)",
        "rank() OVER (PARTITION BY t.symbol ORDER BY t.n)",
        "max(t.x) OVER (ORDER BY t.k ROWS BETWEEN 5 PRECEDING AND CURRENT ROW)",
    ];
    let is_plain = from == "t";
    let mut columns: Vec<String> = (0..1 + random.below(3)).map(|_| random.of(&values).to_string()).collect();
    let groups = columns.len();
    let is_grouped = random.is(45);
    if is_grouped {
        columns.extend((0..1 + random.below(3)).map(|_| random.of(&aggregates).to_string()));
    } else if is_plain && random.is(30) {
        columns.push(random.of(&windows).to_string());
    }
    let numbers = |count: usize| (1..=count).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let columns: Vec<String> =
        columns.iter().enumerate().map(|(at, column)| format!("{column} AS c{at}")).collect();
    let distinct = if !is_grouped && random.is(15) { "DISTINCT " } else { "" };
    let mut text = format!("SELECT {distinct}{} FROM {from}", columns.join(", "));
    if random.is(60) {
        let chosen: Vec<_> =
            (0..1 + random.below(2)).map(|_| format!("({})", random.of(&conditions))).collect();
        text.push_str(&format!(" WHERE {}", chosen.join(random.of(&[" AND ", " OR "]))));
    }
    if is_grouped {
        text.push_str(&format!(" GROUP BY {}", numbers(groups)));
        if random.is(20) {
            text.push_str(" HAVING count(*) > 2");
        }
    }
    text.push_str(&format!(" ORDER BY {}", numbers(columns.len())));
    if random.is(30) {
        text.push_str(&format!(" LIMIT {}", 1 + random.below(40)));
        if random.is(30) {
            text.push_str(&format!(" OFFSET {}", random.below(10)));
        }
    }
    text.replace("Q.", &format!("{other}."))
}

#[test]
fn duckdb_finds_the_same() {
    if !tapedb_skipped::python_has("duckdb") {
        return;
    }
    let place = Place::new();
    let mut random = Random(5);
    let (left, t) = table(&place, "t", 400, true, &mut random);
    let (right, q) = table(&place, "q", 300, false, &mut random);
    let count = std::env::var(QUERIES_VARIABLE).map_or(QUERIES, |count| count.parse().unwrap());
    let queries: Vec<String> = (0..count).map(|_| query(&mut random)).collect();
    let theirs = python(DUCKDB, &json!({"tables": {"t": t, "q": q}, "queries": queries}));
    let mut wrong = Vec::new();
    let mut compare = |range: std::ops::Range<usize>| {
        for (query, theirs) in queries[range.clone()].iter().zip(&theirs.as_array().unwrap()[range]) {
            wrong.extend(difference(query, place.sql().query(query).and_then(rows_of), theirs));
        }
    };
    compare(0..queries.len() / 2);
    for stream in [&left, &right] {
        stream.seal().unwrap();
    }
    compare(queries.len() / 2..queries.len());
    let some = wrong.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {count} queries differ:\n{some}", wrong.len());
}

const PANDAS: &str = r#"
import json, sys, pandas as pd
given = json.load(sys.stdin)
frames = {name: pd.DataFrame(rows, columns=given["columns"]) for name, rows in given["tables"].items()}
found = []
for case in given["cases"]:
    right = frames[case["right"]][["time", "symbol", "b", "k"]]
    options = dict(by=case["by"], direction=case["direction"], tolerance=case["tolerance"], allow_exact_matches=case["exact"])
    rows = pd.merge_asof(frames["t"], right, on="time", suffixes=("", "_right"), **options)
    found.append([[str(k), "NULL" if pd.isna(other) else str(int(other))] for k, other in zip(rows["k"], rows["k_right"])])
json.dump(found, sys.stdout)
"#;

#[test]
fn pandas_joins_the_same() {
    if !tapedb_skipped::python_has("pandas") {
        return;
    }
    let place = Place::new();
    let mut random = Random(9);
    let (left, t) = table(&place, "t", 500, true, &mut random);
    let (right, q) = table(&place, "q", 700, true, &mut random);
    // Of equal times pandas takes the first one forwards: there the right side has none.
    let (other, u) = table(&place, "u", 300, false, &mut random);
    let mut cases = Vec::new();
    for by in [vec!["symbol"], vec!["symbol", "b"]] {
        for tolerance in [None, Some(60), Some(100_000)] {
            for exact in [true, false] {
                cases.push(("q", "backward", by.clone(), tolerance, exact));
                cases.push(("u", "forward", by.clone(), tolerance, exact));
            }
            cases.push(("u", "nearest", by.clone(), tolerance, true));
        }
    }
    let asked: Vec<Value> = cases
        .iter()
        .map(|(right, direction, by, tolerance, exact)| {
            json!({"right": right, "direction": direction, "by": by, "tolerance": tolerance, "exact": exact})
        })
        .collect();
    let input = json!({"tables": {"t": t, "q": q, "u": u}, "columns": COLUMNS, "cases": asked});
    let theirs = python(PANDAS, &input);
    for _ in 0..2 {
        for ((right, direction, by, tolerance, exact), theirs) in cases.iter().zip(theirs.as_array().unwrap())
        {
            let most = tolerance.map_or(String::new(), |most| format!("INTERVAL '{most} nanoseconds'"));
            let matching = match (*direction, tolerance) {
                ("nearest", None) => "nearest(t.time, r.time)".to_string(),
                ("nearest", Some(_)) => format!("nearest(t.time, r.time, {most})"),
                (direction, tolerance) => {
                    let op = if direction == "backward" { ">" } else { "<" };
                    let op = if *exact { format!("{op}=") } else { op.to_string() };
                    let (late, early) = if direction == "backward" { ("t", "r") } else { ("r", "t") };
                    let limit = tolerance
                        .map_or(String::new(), |_| format!(" AND {late}.time - {early}.time <= {most}"));
                    format!("t.time {op} r.time{limit}")
                }
            };
            let keys: Vec<_> = by.iter().map(|key| format!("t.{key} = r.{key}")).collect();
            let query = format!(
                "SELECT t.k, r.k FROM t ASOF JOIN {right} r MATCH_CONDITION ({matching}) ON {}",
                keys.join(" AND ")
            );
            assert_eq!(difference(&query, Ok(place.rows(&query)), theirs), None);
        }
        for stream in [&left, &right, &other] {
            stream.seal().unwrap();
        }
    }
}
