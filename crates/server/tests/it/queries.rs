//! Queries of clients, with an engine that only counts: who may run them, how they are sent and how they end.

use crate::support::{Client, Served, serve, serve_with, user};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_access::May;
use tapedb_engine::{Command, Error, Query, QueryEngine, QueryFailure, QueryRows, QueryStep, QueryUser};
use tapedb_wire::{Login, Rest, ToClient, ToServer};

/// Answers the query `N` with `N` pieces of 100 KiB, `forever` without an end, `wait` with nothing; others are wrong.
#[derive(Debug, Default)]
struct Counting {
    /// Queries, with what their users may have.
    begun: Mutex<Vec<(Query, QueryUser)>>,
    pieces: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Pieces {
    /// `None`: nothing comes.
    left: Option<usize>,
    pieces: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
}

const PIECE_BYTES: usize = 100 << 10;

impl QueryEngine for Counting {
    fn begin(&self, query: &Query, user: &QueryUser) -> Result<Box<dyn QueryRows>, Error> {
        self.begun.lock().unwrap().push((query.clone(), user.clone()));
        let left = match &*query.text {
            "forever" => Some(usize::MAX),
            "wait" => None,
            count => Some(count.parse().map_err(|_| Error::Query {
                failure: QueryFailure::Query,
                what: format!("{count:?} is no query"),
            })?),
        };
        self.running.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Pieces { left, pieces: self.pieces.clone(), running: self.running.clone() }))
    }
}

impl QueryRows for Pieces {
    fn next(&mut self, timeout: Duration, out: &mut Vec<u8>) -> Result<QueryStep, Error> {
        let Some(left) = &mut self.left else {
            thread::sleep(timeout);
            return Ok(QueryStep::Waiting);
        };
        if *left == 0 {
            return Ok(QueryStep::End);
        }
        *left -= 1;
        self.pieces.fetch_add(1, Ordering::SeqCst);
        out.clear();
        out.resize(PIECE_BYTES, 7);
        Ok(QueryStep::Bytes)
    }

    fn streams(&self) -> Vec<String> {
        vec!["ticks".into()]
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}

fn counting(served: &Served) -> Arc<Counting> {
    let engine = Arc::new(Counting::default());
    served.server().serve_queries(engine.clone());
    engine
}

fn query(text: &str, credit: u64) -> ToServer<'_> {
    ToServer::Query { credit, ms_max: 0, rows_max: 0, decimals: "float", text, parameters: Rest(b"") }
}

/// What the server sends next, without its bytes.
#[derive(Debug, PartialEq)]
enum Sent {
    Bytes(usize),
    End,
    Failed(String),
    Closed,
}

fn receive(client: &mut Client<TcpStream>, channel: u32) -> Sent {
    client.receive(|on, message| {
        assert_eq!(on, channel);
        match message {
            ToClient::Rows { bytes } => Sent::Bytes(bytes.0.len()),
            ToClient::RowsEnded {} => Sent::End,
            ToClient::Failed { failure } => Sent::Failed(failure.texts.join(": ")),
            ToClient::Closed {} => Sent::Closed,
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn rows_are_sent_and_end() {
    let served = serve(|_| {});
    let mut client = served.client();
    let language = |client: &mut Client<TcpStream>| client.command(&Command::QueryLanguage).unwrap().texts;
    assert!(language(&mut client).is_empty());
    let channel = client.ask(&query("1", 1 << 20));
    assert!(matches!(receive(&mut client, channel), Sent::Failed(what) if what.contains("runs no queries")));
    counting(&served);
    assert_eq!(language(&mut client), ["sql"]);
    for count in [0, 3] {
        let text = count.to_string();
        let channel = client.ask(&query(&text, 1 << 20));
        (0..count).for_each(|_| assert_eq!(receive(&mut client, channel), Sent::Bytes(PIECE_BYTES)));
        assert_eq!(receive(&mut client, channel), Sent::End);
        // Closing a query that has ended is not answered.
        client.send(channel, &ToServer::Close {});
        let channel = client.ask(&query("no", 1 << 20));
        assert_eq!(receive(&mut client, channel), Sent::Failed("\"no\" is no query".into()));
    }
    assert_eq!(served.metric("tapedb_queries_total"), 4);
    assert_eq!(served.metric("tapedb_queries_failed_total"), 2);
    assert_eq!(served.metric("tapedb_query_bytes_total"), 3 * PIECE_BYTES as u64);
}

#[test]
fn rows_wait_for_credit() {
    let served = serve(|_| {});
    let engine = counting(&served);
    let mut client = served.client();
    let channel = client.ask(&query("forever", 4 * PIECE_BYTES as u64));
    (0..4).for_each(|_| assert_eq!(receive(&mut client, channel), Sent::Bytes(PIECE_BYTES)));
    // Without credit the query makes one piece more, and waits with it, while others are answered.
    served.wait_until("the next piece", |_| engine.pieces.load(Ordering::SeqCst) == 5);
    client.streams();
    assert_eq!(engine.pieces.load(Ordering::SeqCst), 5);
    client.send(channel, &ToServer::Credit { bytes: 2 * PIECE_BYTES as u64 });
    (0..2).for_each(|_| assert_eq!(receive(&mut client, channel), Sent::Bytes(PIECE_BYTES)));
    client.send(channel, &ToServer::Close {});
    assert_eq!(receive(&mut client, channel), Sent::Closed);
    served.wait_until("it stops", |_| engine.running.load(Ordering::SeqCst) == 0);
    client.streams();
}

#[test]
fn queries_end_with_their_client_and_their_server() {
    let mut served = serve(|_| {});
    let engine = counting(&served);
    let mut client = served.client();
    client.ask(&query("wait", 1 << 20));
    served.wait_until("it runs", |_| engine.running.load(Ordering::SeqCst) == 1);
    drop(client);
    served.wait_until("it stops", |_| engine.running.load(Ordering::SeqCst) == 0);
    let mut client = served.client();
    client.ask(&query("wait", 1 << 20));
    served.wait_until("it runs", |_| engine.running.load(Ordering::SeqCst) == 1);
    served.server.take().unwrap().shutdown();
    assert_eq!(engine.running.load(Ordering::SeqCst), 0);
    // A thread that has ended its query releases it a moment later.
    let began = Instant::now();
    while Arc::strong_count(&engine) > 1 {
        assert!(began.elapsed() < Duration::from_secs(60), "something holds on to the database");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn users_have_limits_and_rights() {
    let mut ann = user("ann", "ticks", &[May::Read]);
    ann.limits.queries_max = Some(1);
    ann.limits.query_ms_max = Some(5_000);
    ann.limits.query_bytes_max = Some(1_000_000);
    let served = serve_with(&[ann.clone(), user("bob", "*", &[May::Write])], |config| {
        config.limits.query_rows_max = 1_000;
    });
    let engine = counting(&served);
    let mut client = served.client_as(Login::Password { user: "ann", password: "secret-ann" });
    let channel = client.ask(&query("wait", 1 << 20));
    served.wait_until("it runs", |_| engine.running.load(Ordering::SeqCst) == 1);
    let second = client.ask(&query("1", 1 << 20));
    assert!(matches!(receive(&mut client, second), Sent::Failed(what) if what.contains("limit of queries")));
    {
        let begun = engine.begun.lock().unwrap();
        let (query, user) = &begun[0];
        assert_eq!((query.time_limit, query.rows_max), (Some(Duration::from_secs(5)), Some(1_000)));
        assert_eq!((user.name.as_str(), user.memory_bytes), ("ann", 1_000_000));
        assert!((user.may_read)("ticks") && !(user.may_read)("bars"));
    }
    // Another user's limits are others, and what a client asks for is the least of both.
    let mut bob = served.client_as(Login::Token("tape_bob"));
    let own = ToServer::Query {
        credit: 1 << 20,
        ms_max: 7,
        rows_max: 2_000,
        decimals: "float",
        text: "0",
        parameters: Rest(b""),
    };
    let asked = bob.ask(&own);
    assert_eq!(receive(&mut bob, asked), Sent::End);
    {
        let begun = engine.begun.lock().unwrap();
        let (query, user) = begun.last().unwrap();
        assert_eq!((query.time_limit, query.rows_max), (Some(Duration::from_millis(7)), Some(1_000)));
        assert!(!(user.may_read)("ticks"), "to write is not to read");
    }
    // A query ends when its user may not read any more what it reads.
    ann.rights[0].streams = "bars".into();
    let users = tapedb_access::Users { users: vec![ann] };
    users.write(&served.directory.path().join("users.toml")).unwrap();
    served.server().reload_users().unwrap();
    let denied = receive(&mut client, channel);
    assert!(matches!(&denied, Sent::Failed(what) if what.contains("no right to read stream")), "{denied:?}");
    served.wait_until("it stops", |_| engine.running.load(Ordering::SeqCst) == 0);
}
