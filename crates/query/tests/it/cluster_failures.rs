//! Queries over several servers of which one fails, differs or refuses: an error that names it, never other rows.

use crate::cluster::{Servers, Split, named};
use crate::served::serve;
use crate::support::*;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tapedb_access::{May, Right, Token, User, UserLimits, Users, hash_password, hash_token, name_for};
use tapedb_client::{Client, Login};
use tapedb_engine::{Database, QueryUser};
use tapedb_query::{
    Cluster, ClusterServer, ClusterServers, Error, Next, Options, Parameters, QueryService, Reason, Sql,
};

fn over(databases: impl IntoIterator<Item = Database>) -> Result<Sql, Error> {
    Sql::of_cluster(Cluster::new(named(databases))?, Options::default())
}

fn client(address: SocketAddr) -> Result<Database, tapedb_client::OpenError> {
    Client::at(format!("tape://{address}")).reconnect_timeout(Duration::from_millis(300)).connect()
}

/// Bars on three servers, the last two behind sockets.
fn three() -> Servers {
    let servers = Servers::new();
    let bar = |n: i64| {
        let text = format!(
            r#"{{"$type": "Bar", "n": {n}, "price": "{n}.5", "note": "{}", "side": null}}"#,
            "x".repeat(200)
        );
        (n * 1_000_000_000, format!("S{}", n % 10), text)
    };
    let bars: Vec<_> = (0..600).map(bar).collect();
    let bars: Vec<_> =
        bars.iter().map(|(time, symbol, text)| (*time, symbol.as_str(), text.as_str())).collect();
    servers.stream("bars", BAR, &bars, true, Split::InTurn);
    servers
}

/// Passes bytes on between a client and a server; the server's bytes end after so many, over all connections.
fn cut_after(server: SocketAddr, bytes: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let left = Arc::new(AtomicUsize::new(bytes));
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(server) else { break };
            if left.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                let _ = std::io::copy(&mut up, &mut down);
                let _ = down.shutdown(Shutdown::Both);
            });
            let (mut from, mut to, left) = (server, client, left.clone());
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = from.read(&mut buffer) {
                    let may = left.load(Ordering::Relaxed).min(count);
                    left.fetch_sub(may, Ordering::Relaxed);
                    if to.write_all(&buffer[..may]).is_err() || may < count {
                        break;
                    }
                }
                let _ = to.shutdown(Shutdown::Both);
                let _ = from.shutdown(Shutdown::Both);
            });
        }
    });
    address
}

/// Wherever the connection to a server ends, the rows are right or there is an error.
#[test]
fn a_connection_that_is_cut_is_an_error_and_no_other_rows() {
    let [a, b, c] = three().places;
    let (one, served) = (a.db.clone(), [b, c].map(|place| serve(place, |_| {})));
    let whole = over([one.clone(), served[0].client(), served[1].client()]).unwrap();
    let queries = [
        "SELECT n, note FROM bars ORDER BY time",
        "SELECT symbol, count(*), sum(n), max(note) FROM bars GROUP BY symbol ORDER BY symbol",
        "SELECT a.n, b.n FROM bars a ASOF JOIN bars b MATCH_CONDITION (a.time > b.time) ON a.symbol = b.symbol",
    ];
    for query in queries {
        let expected = whole.query(query).and_then(rows_of).unwrap();
        let (mut failed, mut done) = (0, 0);
        for bytes in (0..8).map(|step| 500 << step).chain([1_000, 3_000, 5_000, 9_000, 200_000_000]) {
            let cut = cut_after(served[1].address(), bytes);
            let rows = client(cut)
                .map_err(|error| error.to_string())
                .and_then(|db| over([one.clone(), served[0].client(), db]).map_err(|error| error.to_string()))
                .and_then(|sql| sql.query(query).and_then(rows_of).map_err(|error| error.to_string()));
            match rows {
                Ok(rows) => {
                    assert_eq!(rows, expected, "{bytes}: {query}");
                    done += 1;
                }
                Err(_) => failed += 1,
            }
        }
        assert!(failed > 0 && done > 0, "{failed} failed and {done} done: {query}");
    }
}

#[test]
fn a_server_that_ends_in_the_middle_is_named() {
    let [a, b, c] = three().places;
    let last = serve(c, |_| {});
    let sql = over([a.db.clone(), b.db.clone(), client(last.address()).unwrap()]).unwrap();
    let endless = "SELECT count(*) FROM bars a, bars b, bars c, bars d WHERE a.n + b.n + c.n + d.n < 0";
    // The bars of one server: it runs the whole query.
    let alone = over([client(last.address()).unwrap()]).unwrap();
    let mut rows = alone.query(endless).unwrap();
    assert!(matches!(rows.next_within(Duration::from_millis(10)).unwrap(), Next::Waiting));
    last.end();
    let error = rows.next_batch().unwrap_err();
    assert!(error.reason() == Reason::Database && error.to_string().starts_with("server a: "), "{error}");
    let error = sql.query("SELECT count(*) FROM bars").and_then(rows_of).unwrap_err();
    assert!(error.to_string().starts_with("server c: "), "{error}");
}

#[test]
fn a_query_that_is_dropped_stops_on_the_servers() {
    let [a, b, c] = three().places;
    let limits = |config: &mut tapedb_server::Config| config.limits.queries_per_user_max = 1;
    let served = [a, b, c].map(|place| serve(place, limits));
    let sql = over(served.iter().map(|served| served.client())).unwrap();
    for _ in 0..5 {
        let mut rows = sql.query("SELECT n, note FROM bars ORDER BY time").unwrap();
        assert!(matches!(rows.next_within(Duration::from_secs(60)).unwrap(), Next::Batch(_)));
        drop(rows);
        // What ends there gives its permit back soon.
        let start = std::time::Instant::now();
        while let Err(error) = sql.query("SELECT count(*) FROM bars").and_then(rows_of) {
            assert!(error.to_string().contains("queries at once"), "{error}");
            assert!(start.elapsed() < Duration::from_secs(300), "{error}");
        }
    }
}

#[test]
fn servers_that_differ_are_an_error() {
    let servers = Servers::new();
    servers.places[0].stream("bars", BAR, &[]);
    servers.places[1].stream("bars", "message Bar { n: u64, price: f64 }", &[]);
    let databases = || servers.places.iter().map(|place| place.db.clone());
    let error = over(databases()).unwrap().query("SELECT n FROM bars").unwrap_err().to_string();
    assert!(
        error.starts_with("server b: stream \"bars\" has not the schema") && error.contains("server a"),
        "{error}"
    );
    let twice =
        [("a".to_string(), servers.places[0].db.clone()), ("a".to_string(), servers.places[1].db.clone())];
    assert!(Cluster::new(twice).unwrap_err().to_string().contains("twice"));
    assert!(Cluster::new([]).unwrap_err().to_string().contains("no servers"));
    let sql = over(databases()).unwrap();
    let live = Options { live: true, ..Options::default() };
    let error = sql.query_as("SELECT n FROM bars", &Parameters::default(), &live).unwrap_err().to_string();
    assert!(error.contains("live queries are of one server"), "{error}");
    let error = sql.run("SHOW VIEWS", &Parameters::default(), &Options::default()).unwrap_err().to_string();
    assert!(error.contains("views are of one server"), "{error}");
    let error = sql.query("SELECT * FROM as_of('bars', 0)").and_then(rows_of).unwrap_err().to_string();
    assert!(!error.is_empty());
}

#[test]
fn a_server_that_runs_no_queries_is_named() {
    let [a, b, _] = three().places;
    let config = tapedb_server::Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        http: "off".parse().unwrap(),
        ..tapedb_server::Config::default()
    };
    let without = tapedb_server::Server::start_with(config, b.db.clone()).unwrap();
    let sql = over([a.db.clone(), client(without.addresses().tcp.unwrap()).unwrap()]).unwrap();
    let error = sql.query("SELECT count(*) FROM bars").and_then(rows_of).unwrap_err().to_string();
    assert!(error.starts_with("server b: it runs no queries"), "{error}");
}

/// The servers of a cluster as one of them reaches them for its users.
#[derive(Debug)]
struct Peers {
    /// `None`: the database of this server.
    addresses: Vec<Option<SocketAddr>>,
    token: String,
}

impl ClusterServers for Peers {
    fn servers(&self, user: &str) -> Result<Vec<ClusterServer>, tapedb_engine::Error> {
        let open = |address: &SocketAddr, login: Login| {
            let client = Client::at(format!("tape://{address}")).login(login);
            client
                .connect()
                .map_err(|error| tapedb_engine::Error::Remote { code: 100, text: error.to_string() })
        };
        let server = |(name, address): (&str, &Option<SocketAddr>)| {
            let remote = match address {
                Some(address) => {
                    let streams = open(address, Login::token(TOKEN))?.streams()?;
                    let login = Login::password(name_for("cluster", user), self.token.clone());
                    Some((open(address, login)?, streams))
                }
                None => None,
            };
            Ok(ClusterServer { name: name.into(), remote })
        };
        ["a", "b", "c"].into_iter().zip(&self.addresses).map(server).collect()
    }
}

const TOKEN: &str = "tape_0123";

/// A users file: ann, whose rights are given, bob without rights, and the account of the cluster.
fn users(file: &std::path::Path, ann_reads: &str, limits: UserLimits) {
    let right = |streams: &str| Right { streams: streams.into(), may: vec![May::Read] };
    let user = |name: &str| User {
        name: name.into(),
        password: Some(hash_password("secret").unwrap()),
        ..User::default()
    };
    let cluster = User {
        tokens: vec![Token { name: "t".into(), hash: hash_token(TOKEN) }],
        acts_for: vec!["ann".into(), "bob".into()],
        rights: vec![right("*")],
        name: "cluster".into(),
        ..User::default()
    };
    let ann = User { rights: vec![right(ann_reads)], limits, ..user("ann") };
    Users { users: vec![ann, user("bob"), user("eve"), cluster] }.write(file).unwrap();
}

#[test]
fn each_server_checks_the_rights_and_limits_of_the_user() {
    let [a, b, c] = three().places;
    a.stream("secret", BAR, &[]);
    b.stream("secret", BAR, &[]);
    let local = a.db.clone();
    let of_users = |place: Place, reads: &str, limits: UserLimits| {
        let file = tempfile::NamedTempFile::new().unwrap();
        users(file.path(), reads, limits);
        serve(place, |config| config.users = Some(file.path().into()))
    };
    let small = UserLimits { query_rows_max: Some(150), ..UserLimits::default() };
    let served = [of_users(b, "bars", UserLimits::default()), of_users(c, "*", small)];
    let addresses = vec![None, Some(served[0].address()), Some(served[1].address())];
    let service = |token: &str| {
        let peers = Peers { addresses: addresses.clone(), token: token.into() };
        QueryService::new(&local, Options::default()).unwrap().with_cluster(Arc::new(peers))
    };
    let user = |name: &str, reads: &'static str| QueryUser {
        name: name.into(),
        may_read: Arc::new(move |stream| reads == "*" || reads == stream),
        memory_bytes: 100 << 20,
    };
    let ask = |service: &QueryService, user: &QueryUser, text: &str| {
        let query =
            tapedb_engine::Query { text: text.into(), decimals: "float".into(), ..Default::default() };
        service.rows(&query, &Parameters::default(), user).and_then(rows_of)
    };
    let cluster = service(TOKEN);
    let ann = user("ann", "*");
    assert_eq!(ask(&cluster, &ann, "SELECT count(*), sum(n) FROM bars").unwrap(), ["600|179700"]);
    // A part that she may not read is an error, and is not left out.
    let error = ask(&cluster, &ann, "SELECT count(*) FROM secret").unwrap_err().to_string();
    assert!(error.starts_with("server b: ") && error.contains("secret"), "{error}");
    assert_eq!(ask(&cluster, &user("ann", "bars"), "SHOW TABLES").unwrap(), ["bars|Bar"]);
    // The limit of the third server.
    let error = ask(&cluster, &ann, "SELECT n FROM bars").unwrap_err();
    assert!(error.reason() == Reason::Limit && error.to_string().contains("server c"), "{error}");
    let error = ask(&cluster, &user("bob", "*"), "SELECT count(*) FROM bars").unwrap_err().to_string();
    assert!(error.starts_with("server b: ") && error.contains("bars"), "{error}");
    for (service, name) in
        [(&cluster, "eve"), (&cluster, "nobody"), (&service("tape_9999"), "ann"), (&service("secret"), "ann")]
    {
        let error = ask(service, &user(name, "*"), "SELECT count(*) FROM bars").unwrap_err().to_string();
        assert!(error.contains("refused") || error.contains("wrong"), "{name}: {error}");
    }
}
