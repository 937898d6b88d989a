//! Clients that are refused, slow, gone, or still there when the server stops.

use crate::place::{Place, at, update, whole};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tapedb_market::Side;
use tapedb_replay::Speed;
use tapedb_replay_socket::ServerOptions;
use tungstenite::Message;

const ALL: &str = r#"{"exchange":"x","dataTypes":["trade"]}"#;

#[test]
fn requests_that_cannot_be_served_get_a_reason() {
    let place = Place::new(&["x"]);
    place.fill(0, "A", 10);
    let served = place.serve(ServerOptions { clients_max: 2, ..ServerOptions::default() });
    let refused = |path: &str, headers: &[_]| served.get(path, headers).err().expect("a refusal");
    assert_eq!(refused("/", &[]).0, 404);
    let (status, text) = refused("/ws-replay-normalized", &[("origin", "https://evil.example")]);
    assert!(status == 403 && text.contains("Origin"), "{status} {text}");
    assert_eq!(refused("/ws-replay-normalized", &[("host", "evil.example")]).0, 403);
    for (path, reason) in [
        (
            "/ws-replay?exchange=x&from=2024-01-02",
            "raw frames are not kept in streams; ask for /ws-replay-normalized",
        ),
        ("/ws-replay-normalized", "options must be URL-encoded JSON: there are none"),
        (
            "/ws-replay-normalized?options=%7B%22exchange%22%3A%22x%22%2C%22dataTypes%22%3A%5B%22candles%22%5D%7D",
            "no data type \"candles\"",
        ),
    ] {
        let (messages, end) = served.get(path, &[]).expect("an open connection").rest();
        let end = end.expect("a close frame");
        assert!(
            messages.is_empty() && u16::from(end.code) == 1011 && end.reason.starts_with(reason),
            "{end}"
        );
    }
    // A number that is far too long is cut, and is still text.
    let long = format!(r#"{{"exchange":"x","dataTypes":["{}"]}}"#, "ü".repeat(500));
    assert!(served.connect(&long, "").rest().1.expect("a close frame").reason.len() <= 123);
    // What is no request at all.
    let mut raw = TcpStream::connect(served.server.address()).unwrap();
    raw.write_all(b"\x16\x03\x01 not HTTP\r\n\r\n").unwrap();
    let _ = raw.read_to_end(&mut Vec::new());
    served.ended(8);
    // As many clients as may be there.
    let paused = [served.connect(ALL, "&speed=0.0001x"), served.connect(ALL, "&speed=0.0001x")];
    assert_eq!(refused("/ws-replay-normalized", &[]).0, 503);
    drop(paused);
    let ended = served.ended(11);
    assert!(ended.iter().filter(|one| one.error.is_some()).count() >= 8);
    assert_eq!(served.connect(ALL, "").rest().0.len(), 10);
}

#[test]
fn a_replay_keeps_its_pace_answers_pings_and_ends_with_the_server() {
    let place = Place::new(&["x"]);
    place.fill(0, "A", 40);
    let served = place.serve(ServerOptions { speed: Speed::Times(1.0), ..ServerOptions::default() });
    let began = std::time::Instant::now();
    assert_eq!(served.connect(ALL, "").rest().0.len(), 40);
    assert!(began.elapsed() >= Duration::from_millis(39));
    assert_eq!(served.connect(ALL, "&speed=max").rest().0.len(), 40);
    // A millisecond of history takes ten seconds.
    let mut slow = served.connect(ALL, "&speed=0.0001x");
    assert_eq!(slow.next().unwrap()["price"], 0.5);
    slow.0.send(Message::Ping("are you there".into())).unwrap();
    assert_eq!(slow.0.read().unwrap(), Message::Pong("are you there".into()));
    slow.0.send(Message::Text("subscribe".into())).unwrap();
    let ended = std::sync::Arc::clone(&served.ended);
    let stopping = std::thread::spawn(move || served.server.stop());
    let (messages, end) = slow.rest();
    assert_eq!((messages.len(), u16::from(end.expect("a close frame").code)), (0, 1001));
    stopping.join().unwrap();
    assert_eq!(ended.lock().unwrap().len(), 3);
}

#[test]
fn a_slow_client_slows_its_own_replay_and_one_that_leaves_ends_it() {
    let place = Place::new(&["x"]);
    place.fill(0, "A", 200_000);
    let served = place.serve(ServerOptions::default());
    let mut idle = served.connect(ALL, "");
    idle.next().unwrap();
    // Another one is not slowed down, and gets all.
    let (messages, _) = served.connect(ALL, "").rest();
    assert_eq!(messages.len(), 200_000);
    while served.server.clients() > 1 {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(idle);
    let ended = served.ended(2);
    assert_eq!(ended[0].messages, 200_000);
    // What the sockets hold and one buffer more were sent, and no more is made than is sent.
    assert!(ended[1].messages < 150_000 && ended[1].error.is_some(), "{:?}", ended[1]);
    // One that leaves with a close frame while its replay waits.
    let mut polite = served.connect(ALL, "&speed=0.0001x");
    polite.next().unwrap();
    polite.0.close(None).unwrap();
    polite.rest();
    assert_eq!(served.ended(3)[2].messages, 1);
    // And one that does not read is not waited for when the server stops.
    let mut idle = served.connect(ALL, "");
    idle.next().unwrap();
    served.server.stop();
    let (rest, end) = idle.rest();
    assert!(rest.len() < 199_999 && end.is_none_or(|end| u16::from(end.code) == 1001));
}

#[test]
fn a_message_larger_than_all_buffers_is_one_frame() {
    let place = Place::new(&["x"]);
    let entries = (0..60_000).map(|n| whole(None, Side::Bid, &format!("{n}.25"), "3")).collect();
    place.append(0, "A", at(0), &update(entries));
    let served = place.serve(ServerOptions::default());
    let (messages, end) = served.connect(r#"{"exchange":"x","dataTypes":["book_change"]}"#, "").rest();
    assert_eq!((messages.len(), u16::from(end.expect("a close frame").code)), (1, 1000));
    assert_eq!(messages[0]["bids"].as_array().map(Vec::len), Some(60_000));
    assert!(served.ended(1)[0].bytes > 1 << 20);
}
