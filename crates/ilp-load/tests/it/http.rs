//! Requests over HTTP.

use crate::support::{Client, place, wait_until};
use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use std::sync::Arc;
use tapedb_access::{AccessLimits, AuditLog};
use tapedb_ilp_load::LoadOptions;

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn lines_are_written() {
    let place = place();
    let server = place.serve(LoadOptions::default(), None);
    let mut client = Client::new(&server);
    let answer = client.post("/write?precision=n", "", b"t,symbol=A a=1 1\n");
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    assert_eq!(
        client.post("/write", "Content-Encoding: gzip\r\n", &gzipped(b"t,symbol=A a=2 2\n")).status,
        204
    );
    assert_eq!(
        client.post("/api/v2/write?org=o&bucket=b&precision=us", "", b"t,symbol=A a=3 3\n").status,
        204
    );
    let chunked = b"POST /write HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nt,sym\r\nB\r\nbol=A a=4 4\r\n0\r\nX: y\r\n\r\n";
    assert_eq!(client.send(chunked).status, 204);
    let expecting = b"POST /write HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 16\r\n\r\n";
    assert_eq!(client.send(expecting).status, 100);
    assert_eq!(client.send(b"t,symbol=A a=5 5").status, 204);
    let times: Vec<_> =
        place.read("t").lines().map(|line| line.split(' ').next().unwrap().to_string()).collect();
    assert_eq!(times, ["1", "2", "4", "5", "3000"]);
}

#[test]
fn pages_that_clients_ask_for() {
    let place = place();
    let server = place.serve(LoadOptions::default(), None);
    let mut client = Client::new(&server);
    let settings = client.send(b"GET /settings HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(settings.status, 200);
    assert!(settings.body.contains("\"line.proto.support.versions\":[1,2,3]"), "{}", settings.body);
    assert!(settings.body.contains("\"cairo.max.file.name.length\":80"), "{}", settings.body);
    let ping = client.send(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(ping.status == 204 && ping.head.contains("X-Influxdb-Version: tapedb-"), "{}", ping.head);
    assert_eq!(client.send(b"GET /write HTTP/1.1\r\nHost: x\r\n\r\n").status, 405);
    assert_eq!(client.send(b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n").status, 404);
}

#[test]
fn errors_have_the_line() {
    let place = place();
    let server = place.serve(LoadOptions::default(), None);
    let mut client = Client::new(&server);
    let answer = client.post("/write", "", b"t,symbol=A a=1 1\nt,symbol=A a=b 1\n");
    let expected = "{\"code\":\"invalid\",\"errorId\":\"tapedb-1\",\"line\":2,\"message\":\"error in line 2: column 14: \\\"b\\\" is not a number\"}";
    let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!((answer.status, parsed(&answer.body)), (400, parsed(expected)));
    let answer = client.post("/api/v2/write", "", b"t c\n");
    assert_eq!(answer.status, 400);
    assert!(parsed(&answer.body)["errorId"].is_null() && parsed(&answer.body)["code"] == "invalid");
    assert_eq!(client.post("/write?precision=d", "", b"t a=1 1").status, 400);
    assert_eq!(client.post("/write", "Content-Encoding: br\r\n", b"t a=1 1").status, 415);
    assert_eq!(client.post("/write", "Content-Encoding: gzip\r\n", &gzipped(b"t a=1 1")[..20]).status, 400);
    assert!(place.db.stream("t").is_err());
    assert_eq!(server.gateway().loader().counts().refused, 2);
}

#[test]
fn users_authenticate_in_every_way_that_clients_have() {
    let place = place();
    let server = place.serve(LoadOptions::default(), Some(place.users()));
    place.write("feed,symbol=A a=1 1\n").unwrap();
    let mut client = Client::new(&server);
    let mut post = |path: &str, authorization: &str, line: &str| {
        let header = match authorization {
            "" => String::new(),
            value => format!("Authorization: {value}\r\n"),
        };
        client.post(path, &header, line.as_bytes())
    };
    let missing = post("/write", "", "t a=1 1");
    assert_eq!(missing.status, 401);
    assert!(missing.head.contains("WWW-Authenticate: Basic"), "{}", missing.head);
    // ann:secret, then ann:wrong
    assert_eq!(post("/write", "Basic YW5uOnNlY3JldA==", "t a=1 1").status, 204);
    assert_eq!(post("/write", "Basic YW5uOndyb25n", "t a=1 2").status, 401);
    assert_eq!(post("/write", "Basic !", "t a=1 2").status, 400);
    assert_eq!(post("/write?u=ann&p=secret", "", "t a=1 3").status, 204);
    assert_eq!(post("/api/v2/write", "Token ann:secret", "t a=1 4").status, 204);
    assert_eq!(post("/api/v2/write", "Token tape_feed", "feed a=1 5").status, 204);
    assert_eq!(post("/write", "Bearer tape_feed", "feed a=1 6").status, 204);
    assert_eq!(post("/write", "Bearer tape_other", "feed a=1 7").status, 401);
    assert_eq!(post("/write", "Bearer tape_feed", "t a=1 8").status, 403);
    assert_eq!(post("/write", "Bearer tape_feed", "feed b=1 8").status, 403, "a new field");
    assert_eq!((place.read("t").lines().count(), place.read("feed").lines().count()), (3, 3));
}

#[test]
fn web_pages_cannot_write() {
    let place = place();
    let server = place.serve(LoadOptions::default(), None);
    let mut client = Client::new(&server);
    for header in ["Origin: http://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        let answer = client.post("/write", header, b"t a=1 1");
        assert!(answer.status == 403 && !answer.head.contains("Access-Control"), "{header}: {}", answer.head);
    }
    assert_eq!(client.send(b"OPTIONS /write HTTP/1.1\r\nOrigin: http://evil.example\r\n\r\n").status, 405);
    assert!(place.db.stream("t").is_err());
}

#[test]
fn a_request_that_is_sent_again_is_stored_once() {
    let place = place();
    let server = place.serve(LoadOptions::default(), None);
    let lines = b"t,symbol=A a=1 1\n";
    let count = || place.read("t").lines().count();
    let mut lost = Client::new(&server);
    assert_eq!(lost.post("/write", "", lines).status, 204);
    let mut client = Client::new(&server);
    assert_eq!(client.post("/write", "", lines).status, 204);
    assert_eq!(count(), 1, "the answer over the first connection may be lost");
    assert_eq!(client.post("/write", "", lines).status, 204);
    assert_eq!(count(), 2, "over one connection the answer has been received");
    // Without timestamps, the same bytes are other messages.
    for _ in 0..2 {
        assert_eq!(Client::new(&server).post("/write", "", b"t,symbol=A a=1\n").status, 204);
    }
    assert_eq!(count(), 4);
    for number in 0..3 {
        let key = format!("Idempotency-Key: {}\r\n", number / 2);
        assert_eq!(client.post("/write", &key, b"t,symbol=A a=7\n").status, 204);
    }
    assert_eq!(count(), 6);
    assert_eq!(client.post("/write", "Idempotency-Key: 0\r\n", b"t,symbol=A a=8\n").status, 400);
    let counts = server.gateway().loader().counts();
    assert_eq!((counts.lines, counts.repeated), (6, 2));
}

#[test]
fn what_is_too_large_is_refused() {
    let place = place();
    let options =
        LoadOptions { request_bytes_max: 1 << 20, pending_bytes_max: 1 << 21, ..LoadOptions::default() };
    let server = place.serve(options, None);
    let bomb = gzipped(&vec![b'#'; 64 << 20]);
    assert!(bomb.len() < 1 << 20);
    assert_eq!(Client::new(&server).post("/write", "Content-Encoding: gzip\r\n", &bomb).status, 413);
    let stated = b"POST /write HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n";
    assert_eq!(Client::new(&server).send(stated).status, 413);
    let chunk = b"POST /write HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n";
    assert_eq!(Client::new(&server).send(chunk).status, 413);
    let line = format!("t a=\"{}\" 1", "x".repeat(1 << 20));
    assert_eq!(Client::new(&server).post("/write", "", line.as_bytes()).status, 413);
    let tags: String = (0..10_000).map(|number| format!(",t{number}=x")).collect();
    let answer = Client::new(&server).post("/write", "", format!("t{tags} a=1 1").as_bytes());
    assert!(
        answer.status == 400 && answer.body.contains("more than 1000 tags and fields"),
        "{}",
        answer.body
    );
    assert!(place.db.stream("t").is_err());
}

#[test]
fn sparse_rows_take_bounded_memory() {
    let place = place();
    let options = LoadOptions { cells_max: 100_000, columns_max: 2_000, ..LoadOptions::default() };
    let server = place.serve(options, None);
    let wide = |table: &str| {
        let fields: Vec<String> = (0..900).map(|number| format!("{table}{number}=1")).collect();
        format!("{table} {} 1\n", fields.join(","))
    };
    let narrow: String = (0..1_000).map(|number| format!("t t0=1 {number}\n")).collect();
    let answer = Client::new(&server).post("/write", "", (wide("t") + &narrow).as_bytes());
    assert!(answer.status == 400 && answer.body.contains("100000 cells"), "{}", answer.body);
    let answer = Client::new(&server).post("/write", "", (wide("t") + &wide("u") + &wide("v")).as_bytes());
    assert!(
        answer.status == 400 && answer.body.contains("line 3") && answer.body.contains("2000 columns"),
        "{}",
        answer.body
    );
    assert!(place.db.stream("t").is_err());
    let small = LoadOptions { pending_bytes_max: 1 << 20, ..LoadOptions::default() };
    let server = place.serve(small, None);
    assert_eq!(Client::new(&server).post("/write", "", (wide("t") + &narrow).as_bytes()).status, 503);
    assert_eq!(Client::new(&server).post("/write", "", b"t a=1 1\n").status, 503);
}

#[test]
fn bytes_that_are_not_requests_are_refused() {
    let place = place();
    let server = place.serve(LoadOptions::default(), None);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20 << 10));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100));
    for (request, status) in [
        ("nonsense\r\n\r\n", 400),
        (long.as_str(), 431),
        (many.as_str(), 431),
        ("POST /write HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        ("POST /write HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("POST /write HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST /write HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        ("POST /write HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\n", 400),
        ("POST /write HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 400),
        ("POST /write HTTP/1.1\r\nExpect: magic\r\nContent-Length: 1\r\n\r\n", 417),
    ] {
        let mut client = Client::new(&server);
        assert_eq!(client.send(request.as_bytes()).status, status, "{request:.60}");
        assert!(client.is_closed(), "{request:.60}");
    }
    // A client that leaves in the middle of a body.
    drop(Client::new(&server).0.write_all(b"POST /write HTTP/1.1\r\nContent-Length: 100\r\n\r\nt a=1 1\n"));
    assert_eq!(Client::new(&server).post("/write", "", b"u a=1 1\n").status, 204);
    assert!(place.db.stream("t").is_err());
}

#[test]
fn silent_connections_block_no_others() {
    let place = place();
    let server = place.serve(LoadOptions::default(), None);
    let mut silent: Vec<Client> = (0..300).map(|_| Client::new(&server)).collect();
    let mut client = Client::new(&server);
    assert_eq!(client.post("/write", "", b"t a=1 1\n").status, 204);
    assert!(silent[0].is_closed(), "the oldest is closed");
    drop(server);
    wait_until(|| silent[299].is_closed());
}

#[test]
fn what_changes_a_database_and_who_is_refused_is_audited() {
    let place = place();
    let path = place.directory.path().join("audit.jsonl");
    let audit = AuditLog::open(Some(&path), &AccessLimits::default()).unwrap();
    let loader = place.loader().with_audit(Arc::new(audit));
    let server = place.serve_with(loader, Some(place.users()), None);
    let mut client = Client::new(&server);
    let ann = "Authorization: Token ann:secret\r\n";
    for (headers, lines, status) in [
        (ann, "t,symbol=A a=1 1\n", 204),
        (ann, "t,symbol=A b=1 1\n", 204),
        (ann, "other,symbol=A a=1 1\n", 403),
        ("Authorization: Token ann:wrong\r\n", "t,symbol=A a=1 2\n", 401),
    ] {
        assert_eq!(client.post("/write", headers, lines.as_bytes()).status, status, "{lines}");
    }
    let log = std::fs::read_to_string(&path).unwrap();
    let parts = |line: &str| {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(entry["address"].as_str().unwrap().starts_with("127.0.0.1"), "{entry}");
        ["event", "user", "stream", "what"].map(|part| entry[part].as_str().unwrap_or_default().to_string())
    };
    let entries: Vec<[String; 4]> = log.lines().map(parts).collect();
    let expected = [
        ["create", "ann", "t", ""],
        ["alter", "ann", "t", "new fields b"],
        ["forbidden", "ann", "other", "write lines"],
        ["refused", "", "", "the name, the password or the token is wrong"],
    ];
    assert_eq!(entries, expected);
}
