//! Queries over several servers answer what one server with all messages answers.

use crate::served::{Served, serve};
use crate::support::*;
use tapedb_engine::Database;
use tapedb_query::{Cluster, Error, Options, Parameters, Sql};

/// Which server has a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// All messages of a symbol are on one server.
    BySymbol,
    /// All messages of a stream are on one server.
    ByStream,
    /// One after the other.
    InTurn,
    /// The first and the second have the stream without messages.
    OnLast,
}

/// Three databases as servers in this process.
pub struct Servers {
    pub places: [Place; 3],
}

/// A number that looks like a random one.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 32)
}

impl Servers {
    pub fn new() -> Self {
        Self { places: std::array::from_fn(|_| Place::new()) }
    }

    /// A stream whose messages are on the servers.
    pub fn stream(
        &self,
        name: &str,
        schema: &str,
        messages: &[(i64, &str, &str)],
        is_sealed: bool,
        split: Split,
    ) {
        let sum = |text: &str| text.bytes().map(usize::from).sum::<usize>();
        for (server, place) in self.places.iter().enumerate() {
            let is_there = |index: usize, symbol: &str| match split {
                Split::BySymbol => sum(symbol) % 3 == server,
                Split::ByStream => sum(name) % 3 == server,
                Split::InTurn => index % 3 == server,
                Split::OnLast => server == 2,
            };
            if split == Split::ByStream && sum(name) % 3 != server {
                continue;
            }
            let own = messages.iter().enumerate().filter(|(index, message)| is_there(*index, message.1));
            let own: Vec<_> = own.map(|(_, message)| *message).collect();
            let stream = place.stream(name, schema, &own);
            if is_sealed {
                stream.seal().unwrap();
            }
        }
    }

    pub fn sql(&self) -> Sql {
        let names = ["a", "b", "c"].into_iter();
        let servers = names.zip(&self.places).map(|(name, place)| (name.to_string(), place.db.clone()));
        Sql::of_cluster(Cluster::new(servers).unwrap(), Options::default()).unwrap()
    }
}

const TICKS: &str = "message Trade { price: decimal64, size: u32, side: Side?, value: i64 } \
    message Quote { bid: f64, ask: f64, note: string? } enum Side { BUY = 1, SELL = 2 }";

/// Trades and quotes of seven symbols: time, symbol, message. Prices are quarters, so that sums are exact in any order, and no symbol has
/// two messages of one time.
fn ticks(count: u64) -> Vec<(i64, String, String)> {
    let message = |n: u64| {
        let random = mixed(n);
        // Two messages have each time.
        let time = (n / 2) as i64 * 1_000_000_007 + 1_700_000_000_000_000_000;
        let symbol = format!("S{}", if n.is_multiple_of(2) { random % 4 } else { 4 + random % 3 });
        let price = 100.0 + (random >> 8) as f64 % 64.0 / 4.0;
        let text = if random >> 20 & 1 == 0 {
            let side = ["\"BUY\"", "\"SELL\"", "null"][(random >> 24) as usize % 3];
            let (size, value) = (random >> 16 & 0xff, (random >> 11) as i64 - (1 << 52));
            format!(
                r#"{{"$type": "Trade", "price": "{price}", "size": {size}, "side": {side}, "value": {value}}}"#
            )
        } else {
            let note = if random & 7 == 0 { "null".into() } else { format!("\"n{}\"", random % 11) };
            format!(r#"{{"$type": "Quote", "bid": {price}, "ask": {}, "note": {note}}}"#, price + 0.25)
        };
        (time, symbol, text)
    };
    (0..count).map(message).collect()
}

fn borrowed(messages: &[(i64, String, String)]) -> Vec<(i64, &str, &str)> {
    messages.iter().map(|(time, symbol, text)| (*time, symbol.as_str(), text.as_str())).collect()
}

/// The rows of a query: in their order where the query has one, or reads as it is stored.
fn rows(sql: &Sql, query: &str) -> Result<Vec<String>, Error> {
    let mut rows = sql.query(query).and_then(rows_of)?;
    if (query.contains("GROUP BY") || query.contains("DISTINCT")) && !query.contains("ORDER BY") {
        rows.sort();
    }
    Ok(rows)
}

/// Queries of all kinds. Where several rows have one time, the query orders them.
const QUERIES: &[&str] = &[
    "SELECT count(*) FROM ticks.Trade",
    "SELECT count(*), min(time), max(time) FROM ticks.Quote",
    "SELECT time, symbol, price FROM ticks.Trade ORDER BY time, symbol",
    "SELECT time FROM ticks.Trade",
    "SELECT time FROM ticks.Trade ORDER BY time DESC",
    "SELECT time, price FROM ticks.Trade WHERE symbol = 'S3'",
    "SELECT price FROM ticks.Trade WHERE symbol = 'S3'",
    "SELECT price FROM ticks.Trade WHERE symbol = 'S3' ORDER BY time DESC LIMIT 7",
    "SELECT time, symbol FROM ticks.Trade ORDER BY time, symbol LIMIT 9",
    "SELECT time FROM ticks.Trade LIMIT 5",
    "SELECT time FROM ticks.Trade ORDER BY time DESC LIMIT 5 OFFSET 3",
    "SELECT symbol, price FROM ticks.Trade WHERE symbol IN ('S1', 'S5') AND size > 100 ORDER BY price, time, symbol",
    "SELECT symbol, size FROM ticks.Trade WHERE symbol = 'none'",
    "SELECT symbol, note FROM ticks.Quote WHERE note LIKE 'n1%' OR note IS NULL ORDER BY time, symbol",
    "SELECT symbol, side FROM ticks.Trade WHERE side = 'BUY' AND time >= '2023-11-14T22:15:00Z' ORDER BY time, symbol",
    "SELECT symbol FROM ticks.Trade WHERE time BETWEEN '2023-11-14T22:14:00Z' AND '2023-11-14T22:16:00Z' ORDER BY time, symbol",
    "SELECT symbol, count(*), sum(size), min(price), max(price), avg(price) FROM ticks.Trade GROUP BY symbol",
    "SELECT side, count(*), sum(size), min(price), max(price), avg(price), avg(size) FROM ticks.Trade GROUP BY side",
    "SELECT sum(price), sum(size), avg(size), count(side), count(DISTINCT side) FROM ticks.Trade",
    "SELECT sum(decimal(price, 2)), sum(decimal(price, 2) * size) FROM ticks.Trade",
    "SELECT side, sum(decimal(price, 2)) FROM ticks.Trade GROUP BY side ORDER BY side",
    "SELECT sum(size) FROM ticks.Trade WHERE size > 1000",
    "SELECT count(*), sum(size), max(price) FROM ticks.Trade WHERE symbol = 'none'",
    "SELECT time_bucket('1 minute', time) AS minute, count(*), sum(size) FROM ticks.Trade GROUP BY minute ORDER BY minute",
    "SELECT time_bucket('5 minutes', time) AS b, symbol, first(price), last(price), vwap(price, size) FROM ticks.Trade GROUP BY b, symbol ORDER BY b, symbol",
    "SELECT symbol, ohlcv(price, size) FROM ticks.Trade GROUP BY symbol ORDER BY symbol",
    "SELECT symbol, median(price), twap(price, time), ema(price, 0.5) FROM ticks.Trade GROUP BY symbol ORDER BY symbol",
    "SELECT symbol, first(side) IGNORE NULLS, last_value(side ORDER BY time) FROM ticks.Trade GROUP BY symbol ORDER BY symbol",
    "SELECT symbol, count(*) FILTER (WHERE side = 'BUY') AS buys, sum(size) FILTER (WHERE price > 105) FROM ticks.Trade GROUP BY symbol ORDER BY symbol",
    "SELECT side, count(*) FILTER (WHERE size > 100), sum(size) FILTER (WHERE price > 105) FROM ticks.Trade GROUP BY side",
    "SELECT symbol, arg_max(time, price * 1000 + size) FROM ticks.Trade GROUP BY symbol ORDER BY symbol",
    "SELECT DISTINCT symbol FROM ticks.Trade",
    "SELECT DISTINCT side, size % 3 FROM ticks.Trade",
    "SELECT symbol, count(DISTINCT size) FROM ticks.Trade GROUP BY symbol",
    "SELECT symbol, n FROM (SELECT symbol, count(*) AS n FROM ticks.Trade GROUP BY symbol HAVING count(*) > 10) ORDER BY n, symbol",
    "SELECT symbol, time, bid FROM latest('ticks.Quote') ORDER BY symbol",
    "SELECT count(*) FROM latest('ticks.Trade') WHERE price > 105",
    "SELECT symbol, time FROM latest('ticks.Trade') WHERE symbol = 'S2'",
    "SELECT DISTINCT ON (symbol) symbol, time, price FROM ticks.Trade ORDER BY symbol, time DESC",
    "SELECT DISTINCT ON (symbol) symbol, time, price FROM ticks.Trade WHERE size > 200 ORDER BY symbol, time DESC",
    "SELECT t.time, t.symbol, t.price, q.bid FROM ticks.Trade t ASOF JOIN ticks.Quote q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol ORDER BY t.time, t.symbol",
    "SELECT t.time, q.ask FROM ticks.Trade t ASOF JOIN ticks.Quote q MATCH_CONDITION (t.time < q.time) ON t.symbol = q.symbol WHERE t.symbol = 'S5'",
    "SELECT t.symbol, avg(q.bid) FROM ticks.Trade t ASOF JOIN ticks.Quote q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol GROUP BY t.symbol ORDER BY 1",
    "SELECT t.time, t.symbol, count(*) AS n, max(q.ask) FROM ticks.Trade t WINDOW JOIN ticks.Quote q MATCH_CONDITION (q.time BETWEEN t.time - INTERVAL '10 seconds' AND t.time + INTERVAL '3 seconds') ON t.symbol = q.symbol WHERE t.symbol = 'S1'",
    "SELECT t.symbol, count(*) FROM ticks.Trade t JOIN ticks.Quote q ON t.symbol = q.symbol AND t.time = q.time GROUP BY t.symbol",
    "SELECT a.symbol, count(*) FROM ticks.Trade a JOIN ticks.Trade b ON a.symbol = b.symbol AND a.size = b.size GROUP BY a.symbol ORDER BY 1",
    "SELECT symbol, count(*) FROM (SELECT symbol FROM ticks.Trade UNION ALL SELECT symbol FROM ticks.Quote) GROUP BY symbol",
    "SELECT symbol, price, lag(price) OVER (PARTITION BY symbol ORDER BY time) FROM ticks.Trade ORDER BY symbol, time LIMIT 40",
    "SELECT time_bucket_gapfill('1 minute', time) AS m, coalesce(sum(size), 0) AS v, locf(last(price)) FROM ticks.Trade WHERE symbol = 'S1' AND time >= '2023-11-14T22:13:00Z' AND time < '2023-11-14T22:20:00Z' GROUP BY m ORDER BY m",
    "SELECT time, sum(size) AS volume FROM ticks.Trade SAMPLE BY 1m ORDER BY time",
    "SELECT upper(symbol), count(*) FROM ticks.Trade WHERE lower(symbol) <> 's1' GROUP BY 1 ORDER BY 1",
    "SELECT CASE WHEN size > 128 THEN 'large' ELSE 'small' END AS kind, count(*), sum(size * 2 - 1) FROM ticks.Trade GROUP BY kind ORDER BY kind",
    "SELECT sum(value / 1000), min(value), max(value) FROM ticks.Trade",
    "SELECT sum(n), count(*) FROM bars",
    "SELECT n, price FROM bars WHERE n % 7 = 3 ORDER BY n",
    "SELECT b.n, t.time FROM bars b ASOF JOIN ticks.Trade t MATCH_CONDITION (b.time <= t.time) ORDER BY b.n LIMIT 20",
    "SELECT symbol, count(*) FROM ticks.Trade WHERE symbol > (SELECT min(symbol) FROM ticks.Quote) GROUP BY symbol",
    "WITH t AS (SELECT symbol, max(price) AS high FROM ticks.Trade GROUP BY symbol) SELECT a.symbol, b.high FROM t a JOIN t b ON a.symbol = b.symbol ORDER BY 1",
];

/// One database with everything, and the same on three servers.
fn both(count: u64, split: Split, is_sealed: bool) -> (Place, Servers) {
    let messages = ticks(count);
    let (one, servers) = (Place::new(), Servers::new());
    let stream = one.stream("ticks", TICKS, &borrowed(&messages));
    if is_sealed {
        stream.seal().unwrap();
    }
    servers.stream("ticks", TICKS, &borrowed(&messages), is_sealed, split);
    let bar = |n: i64| {
        let text = format!(r#"{{"$type": "Bar", "n": {n}, "price": "{n}.5", "note": null, "side": null}}"#);
        (1_700_000_000_000_000_000 + n * 1_000_000_000, format!("B{}", n % 3), text)
    };
    let bars: Vec<_> = (0..50).map(bar).collect();
    one.stream("bars", BAR, &borrowed(&bars));
    servers.stream("bars", BAR, &borrowed(&bars), false, Split::ByStream);
    (one, servers)
}

fn compare(one: &Sql, servers: &Sql, what: &str) {
    for query in QUERIES.iter().copied() {
        let expected = rows(one, query).unwrap_or_else(|error| panic!("{query}: {error}"));
        let found = rows(servers, query).unwrap_or_else(|error| panic!("{what}: {query}: {error}"));
        assert_eq!(found, expected, "{what}: {query}");
    }
}

#[test]
fn three_servers_answer_as_one() {
    for split in [Split::BySymbol, Split::InTurn, Split::ByStream, Split::OnLast] {
        let (one, servers) = both(400, split, split != Split::OnLast);
        compare(&one.sql(), &servers.sql(), &format!("{split:?}"));
    }
}

#[test]
fn servers_without_messages_answer_as_one() {
    let (one, servers) = both(0, Split::InTurn, false);
    compare(&one.sql(), &servers.sql(), "empty");
}

/// Three servers behind sockets, and a client of all.
fn served(servers: Servers) -> (Vec<Served>, Sql) {
    let served: Vec<Served> = servers.places.into_iter().map(|place| serve(place, |_| {})).collect();
    let named = ["a", "b", "c"].into_iter().zip(&served);
    let cluster = Cluster::new(named.map(|(name, served)| (name.to_string(), served.client()))).unwrap();
    (served, Sql::of_cluster(cluster, Options::default()).unwrap())
}

#[test]
fn servers_behind_sockets_answer_as_one() {
    let (one, servers) = both(500, Split::InTurn, true);
    let (_served, sql) = served(servers);
    compare(&one.sql(), &sql, "behind sockets");
}

/// Queries that are put together at random from parts, on two ways to split.
#[test]
fn random_queries_answer_as_one() {
    let keys =
        ["symbol", "side", "size % 5", "time_bucket('2 minutes', time)", "price > 108", "upper(symbol)"];
    let values = [
        "count(*)",
        "count(side)",
        "sum(size)",
        "sum(price)",
        "avg(price)",
        "min(time)",
        "max(price)",
        "min(symbol)",
        "sum(value)",
        "sum(size * 3)",
        "avg(size)",
        "max(value)",
        "count(DISTINCT size)",
        "median(price)",
        "sum(decimal(price, 2))",
        "max(side)",
        "sum(size) FILTER (WHERE side = 'SELL')",
    ];
    let conditions = [
        "true",
        "symbol = 'S2'",
        "symbol IN ('S0', 'S4', 'S6')",
        "size BETWEEN 20 AND 200",
        "price >= 104.25",
        "side IS NOT NULL",
        "time >= '2023-11-14T22:14:10Z'",
        "NOT (size > 30 AND price < 110)",
        "symbol LIKE '%1'",
        "value > 0",
        "side = 'BUY' OR side IS NULL",
        "time_ns % 2 = 0",
    ];
    for split in [Split::BySymbol, Split::InTurn] {
        let (one, servers) = both(400, split, true);
        let (one, servers) = (one.sql(), servers.sql());
        let start: u64 = std::env::var("TAPEDB_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        for seed in start..start + 24 {
            let mut state = seed * 1_000;
            let mut pick = |from: &[&str]| {
                state += 1;
                from[mixed(state) as usize % from.len()].to_string()
            };
            let (a, b, c) = (pick(&values), pick(&values), pick(&values));
            let (key, other) = (pick(&keys), pick(&keys));
            let condition = format!("{} AND {}", pick(&conditions), pick(&conditions));
            let query = match seed % 4 {
                0 => format!("SELECT {a}, {b}, {c} FROM ticks.Trade WHERE {condition}"),
                1 => format!("SELECT {key} AS k, {a}, {b} FROM ticks.Trade WHERE {condition} GROUP BY k"),
                2 => format!(
                    "SELECT {key} AS k, {other} AS o, {a}, {b} FROM ticks.Trade WHERE {condition} GROUP BY k, o ORDER BY k, o"
                ),
                _ => format!(
                    "SELECT time, symbol, {key} AS k, price FROM ticks.Trade WHERE {condition} ORDER BY time, symbol LIMIT 30"
                ),
            };
            let of = |sql: &Sql| rows(sql, &query).map_err(|error| error.reason());
            assert_eq!(of(&servers), of(&one), "{split:?}, TAPEDB_SEED={seed}: {query}");
        }
    }
}

fn plan(sql: &Sql, query: &str) -> String {
    let rows = sql.query(&format!("EXPLAIN {query}")).and_then(rows_of).unwrap();
    rows.into_iter().find(|row| row.starts_with("physical_plan")).unwrap()
}

#[test]
fn plans_state_which_server_does_what() {
    let (_one, servers) = both(300, Split::BySymbol, true);
    let sql = servers.sql();
    let whole =
        plan(&sql, "SELECT symbol, twap(price, time) FROM ticks.Trade WHERE size > 5 GROUP BY symbol");
    assert!(whole.contains("servers=[a, b, c]") && whole.contains("twap("), "{whole}");
    assert!(!whole.contains("AggregateExec"), "servers have whole groups: {whole}");
    let parted = plan(&sql, "SELECT side, count(*), avg(price) FROM ticks.Trade GROUP BY side");
    assert!(parted.contains("AggregateExec") && parted.contains("GROUP BY 1"), "{parted}");
    let one = plan(&sql, "SELECT price FROM ticks.Trade WHERE symbol = 'S0' AND price > 101");
    assert!(
        one.matches(", ").count() < 40 && !one.contains("[a, b, c]") && !one.contains("FilterExec"),
        "{one}"
    );
    let ordered = plan(&sql, "SELECT price FROM ticks.Trade ORDER BY time DESC LIMIT 3");
    assert!(ordered.contains("ORDER BY \"time\" DESC LIMIT 3") && !ordered.contains("SortExec"), "{ordered}");
}

#[test]
fn messages_that_arrive_later_are_not_seen() {
    let (_one, servers) = both(300, Split::InTurn, true);
    let sql = servers.sql();
    let query = "SELECT count(*) FROM ticks.Trade";
    let before = rows(&sql, query).unwrap();
    let mut begun = sql.query("SELECT time, price FROM ticks.Trade ORDER BY time").unwrap();
    for place in &servers.places {
        let stream = place.db.stream("ticks").unwrap();
        let trade = r#"{"$type": "Trade", "price": "1", "size": 1, "side": null, "value": 1}"#;
        append(&stream, &[(1, "S1", trade), (2_000_000_000_000_000_000, "S1", trade)]);
    }
    let mut count = 0;
    while let Some(batch) = begun.next_batch().unwrap() {
        count += batch.num_rows();
    }
    assert_eq!([count.to_string()], before[..]);
    assert_eq!(rows(&sql, query).unwrap(), [(count + 6).to_string()]);
}

#[test]
fn parameters_and_settings_reach_the_servers() {
    let (one, servers) = both(300, Split::InTurn, true);
    let (one, servers) = (one.sql(), servers.sql());
    let parameters = Parameters::numbered(["S3", "2023-11-14T22:15:00Z"]);
    let query = "SELECT time, price FROM ticks.Trade WHERE symbol = $1 AND time < $2";
    let of = |sql: &Sql| rows_of(sql.query_with(query, &parameters).unwrap()).unwrap();
    assert_eq!(of(&servers), of(&one));
    assert!(!of(&one).is_empty());
    let exact = Options { decimals: "18,4".parse().unwrap(), ..Options::default() };
    let query = "SELECT sum(price), min(price), max(price) FROM ticks.Trade";
    let of = |sql: &Sql| rows_of(sql.query_as(query, &Parameters::default(), &exact).unwrap()).unwrap();
    assert_eq!(of(&servers), of(&one));
    let short = Options { rows_max: Some(10), ..Options::default() };
    let error =
        servers.query_as("SELECT time FROM ticks.Trade", &Parameters::default(), &short).and_then(rows_of);
    assert!(error.unwrap_err().to_string().contains("more than 10 rows"));
}

#[test]
fn tables_are_those_of_all_servers() {
    let servers = Servers::new();
    servers.places[0].stream("one", BAR, &[]);
    servers.places[2].stream("two", BAR, &[]);
    assert_eq!(rows(&servers.sql(), "SHOW TABLES").unwrap(), ["one|Bar", "two|Bar"]);
    let error = rows(&servers.sql(), "SELECT * FROM tow").unwrap_err().to_string();
    assert!(error.contains("there is no table \"tow\"; did you mean \"two\"?"), "{error}");
    assert_eq!(rows(&servers.sql(), "SELECT count(*) FROM one, two").unwrap(), ["0"]);
}

#[test]
fn tables_as_of_sequence_numbers_are_the_same_later() {
    let place = bars(100, true);
    assert_eq!(place.rows("SELECT count(*), max(n) FROM as_of('bars.Bar', 40)"), ["40|39"]);
    assert_eq!(place.rows("SELECT count(*) FROM as_of('bars', 0)"), ["0"]);
    assert_eq!(place.rows("SELECT max(n) FROM latest('bars', 15) WHERE symbol = 'S3'"), ["13"]);
    assert_eq!(
        place.rows("SELECT a.n FROM as_of(bars.Bar, 3) a JOIN as_of('bars', 50) b ON a.n = b.n ORDER BY 1"),
        ["0", "1", "2"]
    );
    for (query, what) in [
        ("SELECT * FROM as_of('bars', 101)", "has 100 messages"),
        ("SELECT * FROM as_of('bars', 5, 6)", "has 1 spaces"),
        ("SELECT * FROM as_of('brs', 5)", "brs"),
    ] {
        let error = place.error(query).to_string();
        assert!(error.contains(what), "{query}: {error}");
    }
}

/// The databases of a cluster by name.
pub fn named(databases: impl IntoIterator<Item = Database>) -> Vec<(String, Database)> {
    ["a", "b", "c"].into_iter().map(str::to_string).zip(databases).collect()
}
