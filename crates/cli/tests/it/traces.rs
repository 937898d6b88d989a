//! Traces: what a collector of OpenTelemetry receives, and a collector that is away.

use crate::serving::{Served, page, remotely, run};
use crate::support::Place;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A collector that takes everything: its address, and the bodies of requests with their heads.
fn collector() -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut reader = BufReader::new(socket.unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(stated) = line.to_lowercase().strip_prefix("content-length:") {
                    length = stated.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
            reader.get_mut().write_all(answer).unwrap();
            if sender.send((head, serde_json::from_slice(&body).unwrap())).is_err() {
                return;
            }
        }
    });
    (address, requests)
}

fn post(address: &str, path: &str, headers: &str, body: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("it listens");
    let length = body.len();
    write!(
        socket,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
    .expect("it listens");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer");
    text
}

fn attribute<'v>(span: &'v Value, name: &str) -> Option<&'v Value> {
    span["attributes"]
        .as_array()?
        .iter()
        .find(|attribute| attribute["key"] == name)
        .map(|found| &found["value"])
}

#[test]
fn a_collector_receives_spans_of_requests_and_of_the_stages_of_queries() {
    let place = Place::new();
    let (address, requests) = collector();
    let url = format!("http://{address}");
    let (served, ready) = Served::start(&place.path("."), &["--otlp", &url, "--ilp", "127.0.0.1:0"]);
    let (http, ilp) = (ready["http"].as_str().unwrap(), ready["ilp"].as_str().unwrap());
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let lines =
        "ticks,symbol=A price=1.5 1704205800000000000\nticks,symbol=B price=2.5 1704205800000000001\n";
    assert!(post(ilp, "/write?u=ann&p=secret", "", lines).contains(" 204 "));
    let headers = format!(
        "X-TapeDB: 1\r\nContent-Type: application/json\r\ntraceparent: 00-{trace}-b7ad6b7169203331-01\r\n"
    );
    let sql = r#"{"sql": "SELECT price FROM ticks WHERE symbol = 'secret' OR price > 1", "format": "csv"}"#;
    assert!(post(http, "/api/query", &headers, sql).contains("2.5"));
    let wanted = if cfg!(feature = "sql") {
        vec!["ilp", "http", "sql.plan", "sql.start", "sql.rows"]
    } else {
        vec!["ilp"]
    };
    let mut spans: Vec<Value> = Vec::new();
    let has = |spans: &[Value], name: &str| spans.iter().any(|span| span["name"] == name);
    while !wanted.iter().all(|name| has(&spans, name)) {
        let (head, body) = requests.recv_timeout(Duration::from_secs(60)).expect("spans arrive");
        assert!(head.starts_with("POST /v1/traces HTTP/1.1") && head.contains("application/json"), "{head}");
        assert!(!body.to_string().contains("secret"), "{body}");
        let resource = &body["resourceSpans"][0];
        assert_eq!(attribute(&resource["resource"], "service.name").unwrap()["stringValue"], "tapedb");
        spans.extend(resource["scopeSpans"][0]["spans"].as_array().unwrap().iter().cloned());
    }
    let span =
        |name: &str| spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!(attribute(span("ilp"), "url.path").unwrap()["stringValue"], "/write");
    assert_eq!(attribute(span("ilp"), "http.response.status_code").unwrap()["intValue"], "204");
    if cfg!(feature = "sql") {
        let request = span("http");
        assert_eq!(
            (&request["traceId"], &request["parentSpanId"]),
            (&trace.into(), &"b7ad6b7169203331".into())
        );
        assert_eq!((&request["kind"], &span("sql.plan")["kind"]), (&2.into(), &1.into()));
        for name in ["sql.plan", "sql.start", "sql.rows"] {
            assert_eq!(
                (&span(name)["traceId"], &span(name)["parentSpanId"]),
                (&trace.into(), &request["spanId"])
            );
        }
        assert_eq!(attribute(span("sql.rows"), "rows").unwrap()["intValue"], "2");
        let nanos = |span: &Value, name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(nanos(request, "startTimeUnixNano") <= nanos(span("sql.plan"), "startTimeUnixNano"));
        assert!(nanos(span("sql.rows"), "endTimeUnixNano") <= nanos(request, "endTimeUnixNano"));
    }
    assert!(page(http, "/metrics").contains("\ntapedb_otlp_spans_dropped_total 0\n"));
    drop(served);
}

#[cfg(unix)]
#[test]
fn a_collector_that_is_away_delays_nothing() {
    let place = Place::new();
    // It accepts connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    for url in ["http://127.0.0.1:1", silent_url.as_str()] {
        let (served, ready) = Served::start(&place.path("."), &["--otlp", url]);
        let http = ready["http"].as_str().unwrap();
        for _ in 0..20 {
            assert!(page(http, "/health").contains(r#""status":"ok""#));
        }
        if url != silent_url {
            let end = Instant::now() + Duration::from_secs(60);
            while page(http, "/metrics").contains("\ntapedb_otlp_spans_dropped_total 0\n") {
                assert!(Instant::now() < end, "spans are dropped, and counted");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        let (code, log) = served.end("-TERM");
        assert!(code == 0 && log.contains("shut down"), "{log}");
    }
}

/// What a collector has received so far.
struct Spans {
    requests: Receiver<(String, Value)>,
    all: Vec<Value>,
}

impl Spans {
    /// Waits until a span has a child of each of these names, and returns it.
    fn with_children(&mut self, name: &str, operation: &str, children: &[&str]) -> Value {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let is_root = |span: &&Value| {
                span["name"] == name
                    && span["attributes"].to_string().contains(operation)
                    && children.iter().all(|child| {
                        self.all.iter().any(|other| {
                            other["name"] == *child
                                && other["parentSpanId"] == span["spanId"]
                                && other["traceId"] == span["traceId"]
                        })
                    })
            };
            if let Some(root) = self.all.iter().find(is_root) {
                return root.clone();
            }
            assert!(Instant::now() < end, "{name}, {operation}: {:?}", self.all);
            let (_, body) = self.requests.recv_timeout(Duration::from_secs(60)).expect("spans arrive");
            assert!(!body.to_string().contains("secret"), "{body}");
            let new = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans");
            self.all.extend(new.iter().cloned());
        }
    }
}

/// Asks over PostgreSQL's protocol, and returns the answer's bytes.
fn ask_postgres(address: &str, sql: &str) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).expect("it listens");
    let startup = b"\x00\x03\x00\x00user\0anyone\0\0";
    socket.write_all(&(4 + startup.len() as u32).to_be_bytes()).expect("it reads");
    socket.write_all(startup).expect("it reads");
    until_ready(&mut socket);
    socket.write_all(b"Q").expect("it reads");
    socket.write_all(&(5 + sql.len() as u32).to_be_bytes()).expect("it reads");
    socket.write_all(&[sql.as_bytes(), b"\0"].concat()).expect("it reads");
    until_ready(&mut socket)
}

/// The messages up to the one that states that the server waits for the next statement.
fn until_ready(socket: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let mut head = [0; 5];
        socket.read_exact(&mut head).expect("a message");
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        socket.read_exact(&mut body).expect("its body");
        all.extend(body);
        if head[0] == b'Z' {
            return all;
        }
    }
}

/// A field of bytes of a protocol buffer.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length > 127 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend(bytes);
    out
}

/// The first field of bytes with this number.
fn found(mut bytes: &[u8], wanted: u64) -> &[u8] {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7F) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }
    loop {
        let key = varint(&mut bytes);
        let value = varint(&mut bytes);
        if key & 7 == 0 {
            continue;
        }
        let (taken, rest) = bytes.split_at(value as usize);
        if key >> 3 == wanted {
            return taken;
        }
        bytes = rest;
    }
}

/// A call of Arrow Flight over a connection of its own, as bytes of HTTP/2; returns its messages one after another.
fn call_flight(address: &str, method: &str, trace: &str, message: &[u8]) -> Vec<u8> {
    fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), body].concat()
    }
    // Headers that are in no table: a name, by its number or as it is, and a value.
    let path = format!("/arrow.flight.protocol.FlightService/{method}");
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    let mut headers = vec![0x83, 0x86, 0x04, path.len() as u8];
    headers.extend(path.bytes());
    headers.extend([&[0x01, 9][..], b"127.0.0.1", &[0x0F, 0x10, 16], b"application/grpc"].concat());
    headers.extend([&[0x00, 2][..], b"te", &[8], b"trailers", &[0x00, 11], b"traceparent"].concat());
    headers.push(parent.len() as u8);
    headers.extend(parent.bytes());
    let body = [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat();
    let mut socket = TcpStream::connect(address).expect("it listens");
    let sent = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, &[]),
        frame(1, 4, 1, &headers),
        frame(0, 1, 1, &body),
    ];
    socket.write_all(&sent.concat()).expect("it reads");
    let mut answer = Vec::new();
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).expect("a frame");
        let mut body = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        socket.read_exact(&mut body).expect("its body");
        let (kind, flags) = (head[3], head[4]);
        match kind {
            0 => answer.extend(body),
            1 if flags & 1 != 0 => return answer,
            3 | 7 => panic!("the call was refused: {body:?}"),
            _ => {}
        }
    }
}

#[cfg(all(feature = "gateway", feature = "flight"))]
#[test]
fn queries_over_every_protocol_have_spans() {
    const STAGES: [&str; 3] = ["sql.plan", "sql.start", "sql.rows"];
    let place = Place::new();
    let (address, requests) = collector();
    let mut spans = Spans { requests, all: Vec::new() };
    let options = ["--postgres", "--flight", "--ilp"].map(|option| [option, "127.0.0.1:0"]).concat();
    let url = format!("http://{address}");
    let options = [&options[..], &["--otlp", url.as_str()][..]].concat();
    let (_served, ready) = Served::start(&place.path("."), &options);
    let at = |protocol: &str| ready[protocol].as_str().expect("it listens");
    let lines = "ticks,symbol=secret price=1.5 1704205800000000000\n";
    assert!(post(at("ilp"), "/write", "", lines).contains(" 204 "));
    let sql = "SELECT price FROM ticks WHERE symbol = 'secret'";

    let rows = ask_postgres(at("postgres"), sql);
    assert!(rows.windows(3).any(|text| text == b"1.5"), "{rows:?}");
    let root = spans.with_children("postgres", "query", &STAGES);
    assert_eq!(root["kind"], 2);
    assert_eq!(
        attribute(&root, "client.address").unwrap()["stringValue"].as_str().unwrap().find("127.0.0.1"),
        Some(0)
    );

    let trace = "0af7651916cd43dd8448eb211c80319c";
    let statement = field(1, sql.as_bytes());
    let name = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery";
    let command = [field(1, name), field(2, &statement)].concat();
    let descriptor = [vec![0x08, 2], field(2, &command)].concat();
    let info = call_flight(at("flight"), "GetFlightInfo", trace, &descriptor);
    let ticket = found(found(&info[5..], 3), 1);
    let rows = call_flight(at("flight"), "DoGet", trace, ticket);
    assert!(rows.windows(8).any(|bytes| bytes == 1.5f64.to_le_bytes()), "a row with the price");
    let root = spans.with_children("flight", "DoGet", &STAGES);
    assert_eq!((&root["traceId"], &root["parentSpanId"]), (&trace.into(), &"b7ad6b7169203331".into()));
    spans.with_children("flight", "GetFlightInfo", &[]);

    let mut native = remotely(&place, &ready, "--json sql");
    native.arg(sql);
    assert!(run(native).good().contains("1.5"));
    assert_eq!(spans.with_children("tape.query", "client.address", &STAGES)["kind"], 2);
}
