//! Queries, run by an engine that gives prepared rows.

use crate::support::{Place, user};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use serde_json::json;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tapedb_access::May;
use tapedb_engine::{Error, Query, QueryEngine, QueryFailure, QueryRows, QueryStep, QueryUser};
use tapedb_web::WebLimits;

/// Answers `rows N`, `forever`, `breaks` and errors; counts the queries that run.
#[derive(Debug, Default)]
struct Engine {
    running: Arc<AtomicUsize>,
}

struct Rows {
    /// Batches of one row that are left; `None`: it never ends.
    left: Option<usize>,
    /// Fails after the columns.
    breaks: bool,
    writer: Box<StreamWriter<Vec<u8>>>,
    running: Arc<AtomicUsize>,
}

impl QueryEngine for Engine {
    fn begin(&self, query: &Query, user: &QueryUser) -> Result<Box<dyn QueryRows>, Error> {
        let left = match query.text.split_once(' ') {
            Some(("rows", count)) => Some(count.parse().unwrap()),
            _ if query.text == "forever" => None,
            _ if query.text == "breaks" => Some(1),
            _ if query.text == "hidden" => Some(usize::from((user.may_read)("hidden"))),
            _ => return Err(Error::Query { failure: QueryFailure::Query, what: "syntax".into() }),
        };
        let column: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let writer = Box::new(StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap());
        self.running.fetch_add(1, Ordering::AcqRel);
        let breaks = query.text == "breaks";
        Ok(Box::new(Rows { left, breaks, writer, running: self.running.clone() }))
    }
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("left", &self.left).finish_non_exhaustive()
    }
}

impl QueryRows for Rows {
    fn next(&mut self, timeout: Duration, out: &mut Vec<u8>) -> Result<QueryStep, Error> {
        if self.breaks {
            *out = std::mem::take(self.writer.get_mut());
            if out.is_empty() {
                return Err(Error::Query { failure: QueryFailure::Query, what: "a value".into() });
            }
            return Ok(QueryStep::Bytes);
        }
        match &mut self.left {
            None => {
                std::thread::sleep(timeout);
                return Ok(QueryStep::Waiting);
            }
            Some(0) => return Ok(QueryStep::End),
            Some(left) => *left -= 1,
        }
        let column: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        self.writer.write(&RecordBatch::try_from_iter([("n", column)]).unwrap()).unwrap();
        *out = std::mem::take(self.writer.get_mut());
        Ok(QueryStep::Bytes)
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::AcqRel);
    }
}

fn place() -> (Place, Arc<AtomicUsize>) {
    let place = Place::new();
    let engine = Engine::default();
    let running = engine.running.clone();
    place.server.serve_queries(Arc::new(engine));
    (place, running)
}

fn until(what: &str, is_reached: impl Fn() -> bool) {
    for _ in 0..6000 {
        if is_reached() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("not reached: {what}");
}

#[test]
fn rows_come_in_each_format() {
    let (place, running) = place();
    let run = |body| place.send("POST", "/api/query", "", &body);
    let json = run(json!({ "sql": "rows 2" }));
    assert_eq!((json.status, json.json()), (200, json!([{ "n": "7" }, { "n": "7" }])));
    assert!(json.header("x-tapedb-query").unwrap().starts_with('q'));
    assert_eq!(run(json!({ "sql": "rows 2", "format": "csv" })).body, "n\r\n7\r\n7\r\n");
    assert_eq!(run(json!({ "sql": "rows 2", "format": "jsonl" })).body, "{\"n\":\"7\"}\n{\"n\":\"7\"}\n");
    let table = run(json!({ "sql": "rows 50", "format": "table", "limit": 3, "id": "mine" }));
    assert_eq!(table.header("x-tapedb-query"), Some("mine"));
    let table = table.json();
    assert_eq!(
        (&table["columns"], &table["truncated"]),
        (&json!([{ "name": "n", "type": "int64" }]), &json!(true))
    );
    assert_eq!(table["rows"], json!([["7"], ["7"], ["7"]]));
    let wrong = run(json!({ "sql": "wrong" }));
    assert_eq!((wrong.status, wrong.json()["code"].as_str()), (400, Some("query")));
    for format in ["arrow", "csv", "json", "jsonl", "table"] {
        let broken = run(json!({ "sql": "breaks", "format": format }));
        assert_eq!((broken.status, broken.json()["code"].as_str()), (400, Some("query")), "{format}");
    }
    assert_eq!(run(json!({ "sql": "rows 1", "params": 5 })).status, 400);
    assert_eq!(run(json!({ "sql": "rows 1", "format": "xml" })).status, 400);
    assert_eq!(run(json!({ "sql": "rows 1", "id": "a b" })).status, 400);
    until("all have ended", || running.load(Ordering::Acquire) == 0);
}

#[test]
fn a_query_ends_when_its_client_leaves() {
    let (place, running) = place();
    let body = "{\"sql\":\"forever\",\"id\":\"f1\"}";
    let head = format!(
        "POST /api/query HTTP/1.1\r\nHost: {}\r\nX-TapeDB: 1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        place.address(),
        body.len()
    );
    let mut socket = place.connect();
    socket.write_all(head.as_bytes()).unwrap();
    until("it runs", || running.load(Ordering::Acquire) == 1);
    assert_eq!(place.send("POST", "/api/query", "", &json!({ "sql": "forever", "id": "f1" })).status, 409);
    drop(socket);
    until("it has ended", || running.load(Ordering::Acquire) == 0);
    let mut socket = place.connect();
    socket.write_all(head.as_bytes()).unwrap();
    until("it runs again", || running.load(Ordering::Acquire) == 1);
    assert_eq!(place.send("DELETE", "/api/queries/f1", "", &json!({})).status, 200);
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 410");
    until("it was cancelled", || running.load(Ordering::Acquire) == 0);
    assert_eq!(place.send("DELETE", "/api/queries/f1", "", &json!({})).status, 404);
}

#[test]
fn queries_have_the_rights_of_their_user() {
    let users = [user("ann", &[("ticks", &[May::Read])]), user("root", &[("*", &[May::Read])])];
    let place = Place::with(&users, WebLimits::default());
    let cookie = place.login("ann");
    assert_eq!(
        place.send("POST", "/api/query", &cookie, &json!({ "sql": "hidden" })).status,
        503,
        "nothing runs queries"
    );
    place.server.serve_queries(Arc::new(Engine::default()));
    assert_eq!(place.send("POST", "/api/query", &cookie, &json!({ "sql": "hidden" })).body, "[]\n");
    let root = place.login("root");
    assert_eq!(
        place.send("POST", "/api/query", &root, &json!({ "sql": "hidden" })).json(),
        json!([{ "n": "7" }])
    );
}
