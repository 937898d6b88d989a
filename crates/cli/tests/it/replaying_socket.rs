//! `tapedb replay --websocket`: clients, the end, what is refused.

use crate::replaying::filled;
use crate::support::{Place, end, signal};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use tapedb_schema::Timestamp;
use tungstenite::Message;

/// Messages that a client receives before the close frame.
fn receive(address: &str, options: &str) -> Vec<Value> {
    let encoded: String = options.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let socket = TcpStream::connect(address).expect("it listens");
    let request = format!("ws://{address}/ws-replay-normalized?options={encoded}");
    let (mut client, _) = tungstenite::client(request, socket).expect("a handshake");
    let mut messages = Vec::new();
    loop {
        match client.read().expect("a message") {
            Message::Text(text) => messages.push(serde_json::from_str(&text).expect(&text)),
            Message::Close(_) => break,
            _ => {}
        }
    }
    while client.read().is_ok() {}
    messages
}

#[test]
fn clients_ask_for_what_they_want_until_a_signal_ends_it() {
    let place = filled();
    let mut child = place.start(&mut place.command("replay a b --websocket 127.0.0.1:0 --json"));
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
    let ready: Value = serde_json::from_str(&line).expect(&line);
    let address = ready["websocket"].as_str().expect("an address");
    let of = |stream: &str| {
        receive(address, &format!(r#"{{"exchange":"{stream}","dataTypes":["trade","book_change"]}}"#))
    };
    let (a, b) = (of("a"), of("b"));
    assert!(a.len() >= 2_000 && b.len() >= 2_000, "{} {}", a.len(), b.len());
    let both = r#"[{"exchange":"a","dataTypes":["trade"]},{"exchange":"b","dataTypes":["trade"]}]"#;
    let trades = a.iter().chain(&b).filter(|message| message["type"] == "trade").count();
    let both = receive(address, both);
    assert_eq!(both.len(), trades);
    let time = |message: &Value| {
        message["localTimestamp"].as_str().expect("a time").parse::<Timestamp>().expect("a time")
    };
    assert!(both.is_sorted_by_key(time));
    signal(&child, "INT");
    let run = end(child);
    assert_eq!((run.code, run.err.lines().count()), (0, 3), "{}", run.err);
    assert!(run.err.contains(" messages, "), "{}", run.err);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let place = Place::new();
    place.run("generate --stream a --messages 10").good();
    for more in ["--control", "--into b", "--output json", "--symbols A", "--from 2024-01-02"] {
        let refused = place.run(&format!("replay a --websocket 8001 {more}"));
        assert_eq!(refused.code, 2, "{more}: {}", refused.err);
    }
    assert!(place.run("replay a --websocket 127.0.0.1:0 --speed pause").bad(2).contains("pause"));
    assert_eq!(place.run("replay a --websocket nowhere").code, 2);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    assert!(place.run(&format!("replay a --websocket {address}")).bad(1).contains("cannot listen on"));
}
