//! Traces: what a collector of OpenTelemetry receives, and a collector that is away.

use crate::serving::{Served, page};
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
