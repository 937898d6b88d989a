//! Queries that run on a server: the rows and errors of those that run here, with the user's rights, within limits.

use crate::support::*;
use std::time::{Duration, Instant};
use tapedb_access::{May, Right, User, UserLimits, Users, hash_password};
use tapedb_client::Client;
use tapedb_engine::Database;
use tapedb_query::arrow::compute::concat_batches;
use tapedb_query::{Error, Next, Options, Parameters, Place as Where, QueryService, Reason, Rows, Sql};
use tapedb_server::{Config, Server};

/// A server of a database, with a service for queries of a gigabyte.
pub struct Served {
    server: Server,
    _place: Option<Place>,
    directory: tempfile::TempDir,
}

pub fn serve(place: Place, change: impl FnOnce(&mut Config)) -> Served {
    let directory = tempfile::tempdir().unwrap();
    let mut config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        http: "off".parse().unwrap(),
        shutdown_grace_seconds: 1,
        ..Config::default()
    };
    change(&mut config);
    if let Some(users) = &config.users {
        std::fs::rename(users, directory.path().join("users.toml")).unwrap();
        config.users = Some(directory.path().join("users.toml"));
    }
    let server = Server::start_with(config, place.db.clone()).unwrap();
    server.serve_queries(std::sync::Arc::new(QueryService::new(&place.db, Options::default()).unwrap()));
    Served { server, _place: Some(place), directory }
}

impl Served {
    pub fn client(&self) -> Database {
        Client::at(self.server.addresses().url().unwrap()).connect().unwrap()
    }

    pub fn address(&self) -> std::net::SocketAddr {
        self.server.addresses().tcp.unwrap()
    }

    /// Ends the server.
    pub fn end(self) {
        drop(self.server);
    }

    fn client_as(&self, user: &str) -> Database {
        let address = self.server.addresses().tcp.unwrap();
        Client::at(format!("tape://{user}:secret@{address}")).connect().unwrap()
    }
}

fn at(place: Where) -> Options {
    Options { place, ..Options::default() }
}

fn rows_at(db: &Database, place: Where, query: &str) -> Result<Vec<String>, Error> {
    Sql::with_options(db, at(place))?.query(query).and_then(rows_of)
}

/// All rows as one batch, with their types.
fn whole(rows: Rows) -> tapedb_query::arrow::array::RecordBatch {
    let schema = rows.schema();
    let batches: Vec<_> = rows.collect::<Result<_, _>>().unwrap();
    concat_batches(&schema, &batches).unwrap()
}

#[test]
fn rows_are_those_of_a_query_here() {
    let queries = [
        "SELECT * FROM bars",
        "SELECT * FROM bars WHERE symbol IN ('S1', 'S7') AND n > 100 ORDER BY time DESC LIMIT 50",
        "SELECT symbol, side, count(*), sum(n), min(price), max(note) FROM bars GROUP BY symbol, side ORDER BY 1, 2",
        "SELECT a.n, b.n FROM bars a ASOF JOIN bars b MATCH_CONDITION (a.time > b.time) ON a.symbol = b.symbol",
        "SELECT n FROM bars WHERE n < 0",
        "SELECT count(*), min(time), max(time) FROM bars",
        "SELECT repeat(symbol, 1000) AS long, n FROM bars WHERE n < 3000 ORDER BY n",
        "SHOW TABLES",
        "DESCRIBE bars",
        "SELECT 1 AS x, NULL AS y, [1, 2] AS list, {'a': 1.5} AS struct",
    ];
    for sealed in [false, true] {
        let place = bars(20_000, sealed);
        let local = place.db.clone();
        let served = serve(place, |_| {});
        let remote = served.client();
        for query in queries {
            let of =
                |db: &Database, place| whole(Sql::with_options(db, at(place)).unwrap().query(query).unwrap());
            let here = of(&local, Where::Here);
            assert_eq!(of(&remote, Where::Server), here, "{query}");
            assert_eq!(of(&remote, Where::Here), here, "{query}");
        }
    }
}

#[test]
fn errors_are_those_of_a_query_here() {
    let place = bars(1_000, true);
    let local = place.db.clone();
    let served = serve(place, |_| {});
    let remote = served.client();
    for query in [
        "",
        "SELEC n FROM bars",
        "SELECT prize FROM bars",
        "SELECT * FROM brs",
        "SELECT n FROM bars WHERE symbol = $1",
        "INSERT INTO bars VALUES (1)",
        "SELECT n / 0 FROM bars",
    ] {
        let here = rows_at(&local, Where::Here, query).unwrap_err();
        let there = rows_at(&remote, Where::Server, query).unwrap_err();
        assert_eq!((there.to_string(), there.reason()), (here.to_string(), here.reason()), "{query}");
    }
    assert!(rows_at(&remote, Where::Server, "SELECT n FROM bars").is_ok(), "the connection goes on");
}

#[test]
fn parameters_and_settings_reach_the_server() {
    let served = serve(bars(200, true), |_| {});
    let remote = served.client();
    let sql = Sql::with_options(&remote, at(Where::Server)).unwrap();
    let of =
        |query: &str, parameters: &Parameters| rows_of(sql.query_with(query, parameters).unwrap()).unwrap();
    let numbered = Parameters::numbered(["S3", "1970-01-01T00:00:20Z"]);
    assert_eq!(of("SELECT n FROM bars WHERE symbol = $1 AND time < $2", &numbered), ["3", "13"]);
    let named = Parameters::named([("least", 198i64)]);
    assert_eq!(of("SELECT n FROM bars WHERE n >= $least", &named), ["198", "199"]);
    let exact = Options { decimals: "18,4".parse().unwrap(), ..at(Where::Server) };
    let sql = Sql::with_options(&remote, exact).unwrap();
    assert_eq!(rows_of(sql.query("SELECT price FROM bars WHERE n = 150").unwrap()).unwrap(), ["1.5000"]);
    let short = Options { rows_max: Some(10), ..at(Where::Server) };
    let error = Sql::with_options(&remote, short).unwrap().query("SELECT n FROM bars").and_then(rows_of);
    assert_eq!(error.unwrap_err().reason(), Reason::Limit);
}

const ENDLESS: &str = "SELECT count(*) FROM bars a, bars b, bars c, bars d WHERE a.n + b.n + c.n + d.n < 0";

#[test]
fn users_have_rights_and_limits() {
    let place = bars(1_000, true);
    place.stream("secret", "message Deal { price: i64 }", &[(1, "A", r#"{"$type": "Deal", "price": 5}"#)]);
    let right = |streams: &str| Right { streams: streams.into(), may: vec![May::Read] };
    let user = |name: &str, limits: UserLimits| User {
        name: name.into(),
        password: Some(hash_password("secret").unwrap()),
        rights: vec![right("bars")],
        limits,
        ..User::default()
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let small = UserLimits {
        queries_max: Some(1),
        query_rows_max: Some(500),
        query_bytes_max: Some(300_000),
        ..UserLimits::default()
    };
    let hasty = UserLimits { query_ms_max: Some(200), ..UserLimits::default() };
    let all = User { rights: vec![right("*")], ..user("all", UserLimits::default()) };
    Users {
        users: vec![user("ann", UserLimits::default()), user("small", small), user("hasty", hasty), all],
    }
    .write(file.path())
    .unwrap();
    let served = serve(place, |config| config.users = Some(file.path().into()));

    let ann = served.client_as("ann");
    assert_eq!(rows_at(&ann, Where::Server, "SHOW TABLES").unwrap(), ["bars|Bar"]);
    let error = rows_at(&ann, Where::Server, "SELECT * FROM secret.Deal").unwrap_err().to_string();
    assert_eq!(error, "there is no stream \"secret\"");
    let columns = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'secret'";
    assert_eq!(rows_at(&ann, Where::Server, columns).unwrap(), ["0"]);
    assert_eq!(rows_at(&served.client_as("all"), Where::Server, "SELECT price FROM secret").unwrap(), ["5"]);

    let (small, hasty) = (served.client_as("small"), served.client_as("hasty"));
    let limited = |db: &Database, query: &str| {
        let error = rows_at(db, Where::Server, query).unwrap_err();
        assert_eq!(error.reason(), Reason::Limit, "{error}");
        error.to_string()
    };
    assert!(limited(&small, "SELECT n FROM bars").contains("more than 500 rows"));
    assert!(limited(&hasty, ENDLESS).contains("ran longer than 0.2 s"));
    let joined = "SELECT * FROM bars a JOIN bars b ON a.n = b.n JOIN bars c ON a.n = c.n LIMIT 5";
    assert!(limited(&small, joined).contains("memory"));
    let sql = Sql::with_options(&small, at(Where::Server)).unwrap();
    let running = sql.query(ENDLESS).unwrap();
    let refused = sql.query("SELECT 1").unwrap_err().to_string();
    assert!(refused.contains("limit of queries at once"), "{refused}");
    drop(running);
    // What ends there gives its permit back soon.
    let start = Instant::now();
    while let Err(error) = sql.query("SELECT 1") {
        assert!(start.elapsed() < Duration::from_secs(300), "{error}");
    }
    drop(sql);
    let _ = served.directory;
}

#[test]
fn a_client_that_does_not_read_stops_the_query_and_not_the_server() {
    let served = serve(bars(20_000, true), |_| {});
    let remote = served.client();
    let sql = Sql::with_options(&remote, at(Where::Server)).unwrap();
    // 20 GB, of which a few megabytes are sent.
    let mut slow = sql
        .query(
            "SELECT repeat(a.symbol, 1000) AS text FROM bars a JOIN bars b ON b.n < 1000 AND a.n < 1000000",
        )
        .unwrap();
    assert!(matches!(slow.next_within(Duration::from_secs(60)).unwrap(), Next::Batch(_)));
    for _ in 0..20 {
        assert_eq!(rows_of(sql.query("SELECT count(*) FROM bars").unwrap()).unwrap(), ["20000"]);
    }
    assert!(matches!(slow.next_within(Duration::from_secs(60)).unwrap(), Next::Batch(_)), "it goes on");
    drop(slow);
    assert_eq!(rows_of(sql.query("SELECT max(n) FROM bars").unwrap()).unwrap(), ["19999"]);
}

#[test]
fn a_server_without_queries_lets_them_run_here() {
    let place = bars(100, true);
    let config =
        Config { listen: "127.0.0.1:0".parse().unwrap(), http: "off".parse().unwrap(), ..Config::default() };
    let server = Server::start_with(config, place.db.clone()).unwrap();
    let remote = Client::at(server.addresses().url().unwrap()).connect().unwrap();
    assert_eq!(rows_at(&remote, Where::Nearest, "SELECT count(*) FROM bars").unwrap(), ["100"]);
    let error = rows_at(&remote, Where::Server, "SELECT count(*) FROM bars").unwrap_err().to_string();
    assert!(error.contains("no server that runs queries"), "{error}");
}

#[test]
fn a_lost_server_ends_the_query() {
    let served = serve(bars(1_000, true), |_| {});
    let remote = served.client();
    let mut rows = Sql::with_options(&remote, at(Where::Server)).unwrap().query(ENDLESS).unwrap();
    assert!(matches!(rows.next_within(Duration::from_millis(10)).unwrap(), Next::Waiting));
    drop(served.server);
    let error = rows.next_batch().unwrap_err();
    assert_eq!(error.reason(), Reason::Database, "{error}");
}

/// They run in the client, and go on with what arrives at the server.
#[test]
fn live_queries_on_a_remote_database_go_on() {
    let place = bars(30, true);
    let stream = place.db.stream("bars").unwrap();
    let served = serve(place, |_| {});
    let client = served.client();
    let options = Options { live: true, ..Options::default() };
    let sql = Sql::with_options(&client, options.clone()).unwrap();
    let mut rows = [
        sql.query("SELECT n FROM bars WHERE n % 2 = 0").unwrap(),
        sql.query("SELECT date_bin(INTERVAL '10 seconds', time), count(*) FROM bars GROUP BY 1").unwrap(),
    ];
    let mut take = |query: usize, count: usize| {
        let (start, mut found) = (Instant::now(), 0);
        while found < count {
            assert!(start.elapsed() < Duration::from_secs(60), "{found} of {count} rows");
            if let Next::Batch(batch) = rows[query].next_within(Duration::from_millis(20)).unwrap() {
                found += batch.num_rows();
            }
        }
        assert_eq!(found, count);
    };
    take(0, 15);
    take(1, 2);
    for n in 30..60 {
        let bar = format!(r#"{{"$type": "Bar", "n": {n}, "price": "1", "note": null, "side": null}}"#);
        append(&stream, &[(n * 1_000_000_000, "S", &bar)]);
    }
    take(0, 15);
    take(1, 3);
    let there = sql.query_as(
        "SELECT n FROM bars",
        &Parameters::default(),
        &Options { place: Where::Server, ..options },
    );
    assert!(there.unwrap_err().to_string().contains("run in the client"));
}
