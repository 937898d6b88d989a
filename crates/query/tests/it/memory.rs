//! Memory: with little of it, a query answers as with much, or says that it needs more. It does not take what it was not given.

use crate::support::*;
use std::path::Path;
use std::process::Command;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, StreamOptions};
use tapedb_query::{Options, Reason, Sql};
use tapedb_schema::Timestamp;

/// What the process that has little may use for its operators.
const LITTLE: usize = 24 << 20;

/// What it may take beside that, of the blocks, batches and threads of its queries and of the allocator.
const BESIDE: usize = 200 << 20;

const ROWS: u64 = 400_000;

#[derive(Record, Debug, Clone, Default, PartialEq)]
#[record(message)]
struct Tick {
    n: i64,
    k: i64,
    price: f64,
}

/// Queries, whether they have an answer with little memory, and whether they may be refused.
const QUERIES: &[(&str, &str, May)] = &[
    (
        "many buckets of few groups",
        "SELECT count(*), sum(p), round(sum(i), 3) FROM (SELECT time_bucket_gapfill('1 ms', time) AS b, symbol, locf(last(price)) AS p,
            interpolate(last(price)) AS i FROM t WHERE time >= '1970-01-01T00:00:00Z' AND time < '1970-01-01T00:16:40Z' AND symbol < 'S2'
            GROUP BY b, symbol)",
        May::Answer,
    ),
    (
        "many groups of few buckets",
        "SELECT count(*), sum(p) FROM (SELECT time_bucket_gapfill('5 minutes', time) AS b, n, locf(last(price)) AS p FROM t
            WHERE time >= '1970-01-01T00:00:00Z' AND time < '1970-01-01T00:10:00Z' GROUP BY b, n)",
        May::Both,
    ),
    (
        "averages of many groups",
        "SELECT count(*), round(sum(t), 3), round(sum(e), 3), round(sum(v), 3) FROM (SELECT k, twap(price, time) AS t, ema(price, 0.3) AS e,
            vwap(price, n) AS v FROM t GROUP BY k)",
        May::Answer,
    ),
    (
        "rows of many groups",
        "SELECT count(*), sum(f), sum(l), sum(a), sum(b.close), sum(b.volume) FROM (SELECT k, first(price) AS f, last(price) AS l,
            arg_max(n, price) AS a, ohlcv(price, k) AS b FROM t GROUP BY k)",
        May::Both,
    ),
    (
        "all rows in each window",
        "SELECT count(*), sum(c), sum(m) FROM (SELECT count(*) AS c, median(q.price) AS m FROM (SELECT * FROM t WHERE n % 100000 = 7) l
            WINDOW JOIN t q MATCH_CONDITION (q.time BETWEEN l.time - INTERVAL '1 hour' AND l.time + INTERVAL '1 hour'))",
        May::Refuse,
    ),
    (
        "all values of many windows",
        "SELECT count(*), sum(m) FROM (SELECT median(q.price) AS m FROM (SELECT * FROM t WHERE n < 8000) l WINDOW JOIN t q
            MATCH_CONDITION (q.time BETWEEN l.time - INTERVAL '5 seconds' AND l.time))",
        May::Refuse,
    ),
    (
        "rows that wait for the next one",
        "SELECT count(*), count(q.n) FROM t ASOF JOIN (SELECT * FROM t WHERE n < 0 OR n = 399999) q MATCH_CONDITION (t.time < q.time)
            ON t.symbol = q.symbol",
        May::Refuse,
    ),
    (
        "the last row of many keys",
        "SELECT count(*), count(q.n), sum(q.n) FROM t ASOF JOIN t q MATCH_CONDITION (t.time > q.time) ON t.n = q.n",
        May::Both,
    ),
];

/// What a query may do with little memory.
#[derive(Debug, Clone, Copy, PartialEq)]
enum May {
    Answer,
    Refuse,
    Both,
}

fn fill(path: &Path) {
    let db = Database::open_without_maintenance(path).unwrap();
    let schema = SchemaBuilder::new().with::<Tick>().finish();
    let stream = db.create_stream("t", schema, StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    for n in 0..ROWS {
        let k = (n * 7_919 % 150_000) as i64;
        let tick = Tick { n: n as i64, k, price: (n * 31 % 997) as f64 / 4.0 };
        loader.append(&format!("S{}", n % 10), Timestamp(n as i64 * 2_500_000), &tick).unwrap();
    }
    loader.close().unwrap();
    stream.seal().unwrap();
}

/// Most memory that this process has had, in bytes.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? * 1024)
}

/// Set in the process that has little: the database.
const CHILD: &str = "TAPEDB_TEST_MEMORY";

/// Runs the queries with little memory, and prints what came of them: not a test by itself.
#[test]
fn runs_with_little_memory() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let db = Database::open_read_only(path).unwrap();
    let options = Options { memory_bytes: LITTLE, threads: Some(2), ..Options::default() };
    let sql = Sql::with_options(&db, options).unwrap();
    rows_of(sql.query("SELECT count(*), sum(n), sum(price) FROM t").unwrap()).unwrap();
    let before = peak().unwrap_or(0);
    for (name, query, _) in QUERIES {
        match sql.query(query).and_then(rows_of) {
            Ok(rows) => println!("found {name}: {rows:?}"),
            Err(error) => println!("error {name}: {:?} {error}", error.reason()),
        }
        println!("peak {}", peak().unwrap_or(0).saturating_sub(before));
    }
}

#[test]
fn little_memory_is_an_answer_or_a_clear_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    fill(&path);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::runs_with_little_memory", "--nocapture"])
        .env(CHILD, &path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{text}\n{}", String::from_utf8_lossy(&child.stderr));
    let db = Database::open_read_only(&path).unwrap();
    let sql = Sql::new(&db).unwrap();
    let mut peaks = text.lines().filter_map(|line| line.strip_prefix("peak "));
    for (name, query, may) in QUERIES {
        // What a query answers that is to be refused would take long to find.
        let wanted = match may {
            May::Refuse => Vec::new(),
            _ => sql.query(query).and_then(rows_of).unwrap_or_else(|error| panic!("{name}: {error}")),
        };
        let is_found = match may {
            May::Refuse => text.lines().any(|line| line.starts_with(&format!("found {name}: "))),
            _ => text.lines().any(|line| line == format!("found {name}: {wanted:?}")),
        };
        let refusal =
            format!("error {name}: {:?} the query needs more memory than its limit allows", Reason::Limit);
        let refused = text.lines().find(|line| line.starts_with(&refusal));
        assert!(is_found || refused.is_some(), "{name}, wanted {wanted:?}\n{text}");
        assert!(refused.is_none_or(|line| line.contains("raise the limit")), "{text}");
        assert!(*may != May::Answer || is_found, "{name} has no answer\n{text}");
        assert!(*may != May::Refuse || !is_found, "{name} needs less than was thought\n{text}");
        let peak: usize = peaks.next().unwrap().parse().unwrap();
        assert!(peak < LITTLE + BESIDE, "{name} took {peak} bytes\n{text}");
    }
}
