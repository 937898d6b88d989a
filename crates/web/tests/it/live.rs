//! The WebSocket.

use crate::support::{Place, append, user};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::time::Duration;
use tapedb_access::May;
use tapedb_web::WebLimits;
use tungstenite::client::IntoClientRequest;
use tungstenite::{Error, Message, WebSocket};

fn open(place: &Place, cookie: &str, origin: Option<&str>) -> Result<WebSocket<TcpStream>, u16> {
    let mut request = format!("ws://{}/api/ws", place.address()).into_client_request().unwrap();
    request.headers_mut().insert("cookie", cookie.parse().unwrap());
    if let Some(origin) = origin {
        request.headers_mut().insert("origin", origin.parse().unwrap());
    }
    match tungstenite::client(request, place.connect()) {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::HandshakeError::Failure(Error::Http(response))) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

fn send(socket: &mut WebSocket<TcpStream>, message: Value) {
    socket.send(Message::text(message.to_string())).unwrap();
}

/// The next frame, which is acknowledged.
fn frame(socket: &mut WebSocket<TcpStream>) -> Value {
    let frame = receive(socket);
    if let Some(number) = frame["frame"].as_u64() {
        send(socket, json!({ "op": "ack", "frame": number }));
    }
    frame
}

fn receive(socket: &mut WebSocket<TcpStream>) -> Value {
    loop {
        if let Message::Text(text) = socket.read().unwrap() {
            return serde_json::from_str(&text).unwrap();
        }
    }
}

fn sequences(frame: &Value) -> Vec<u64> {
    let messages = frame["items"][0]["data"]["messages"].as_array().unwrap_or_else(|| panic!("{frame}"));
    messages.iter().map(|message| message["sequence"].as_str().unwrap().parse().unwrap()).collect()
}

#[test]
fn a_tail_follows_its_stream() {
    let place = Place::new();
    let stream = place.ticks("ticks", 10);
    let mut socket = open(&place, "", None).unwrap();
    send(
        &mut socket,
        json!({ "op": "subscribe", "id": 7, "channel": "tail", "stream": "ticks", "symbols": ["A"], "last": 2 }),
    );
    let first = frame(&mut socket);
    assert_eq!(
        (&first["frame"], &first["items"][0]["id"], &first["items"][0]["stream"]),
        (&json!(1), &json!(7), &json!("tail"))
    );
    assert_eq!(sequences(&first), [6, 8]);
    append(&stream, 10..14);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(sequences(&frame(&mut socket)));
    }
    assert_eq!(seen, [10, 12]);
    send(&mut socket, json!({ "op": "subscribe", "id": 8, "channel": "tail", "stream": "none" }));
    assert_eq!(frame(&mut socket)["items"], json!([{ "id": 8, "error": "there is no stream \"none\"" }]));
    send(&mut socket, json!({ "op": "unsubscribe", "id": 7 }));
    send(&mut socket, json!({ "op": "subscribe", "id": 9, "channel": "streams" }));
    assert_eq!(frame(&mut socket)["items"][0]["data"]["streams"][0]["name"], "ticks");
    send(&mut socket, json!({ "op": "subscribe", "id": 10, "channel": "status" }));
    let status = frame(&mut socket);
    assert_eq!(status["items"][0]["data"]["status"], "ok", "{status}");
}

#[test]
fn a_slow_tab_gets_the_newest_messages_and_no_queue() {
    let place = Place::new();
    let stream = place.ticks("ticks", 1);
    let mut socket = open(&place, "", None).unwrap();
    send(&mut socket, json!({ "op": "subscribe", "id": 1, "channel": "tail", "stream": "ticks", "last": 1 }));
    let first = receive(&mut socket);
    append(&stream, 1..2);
    let second = receive(&mut socket);
    assert_eq!((&first["frame"], &second["frame"]), (&json!(1), &json!(2)));
    // Two frames are not acknowledged: no further one comes.
    append(&stream, 2..2002);
    socket.get_ref().set_read_timeout(Some(Duration::from_millis(400))).unwrap();
    assert!(matches!(socket.read(), Err(Error::Io(_))), "nothing is sent");
    socket.get_ref().set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    send(&mut socket, json!({ "op": "ack", "frame": 2 }));
    let third = receive(&mut socket);
    let data = &third["items"][0]["data"];
    let (shown, skipped) = (data["messages"].as_array().unwrap(), data["skipped"].as_u64().unwrap());
    assert_eq!((shown.len(), shown.len() as u64 + skipped), (40, 2000));
    assert_eq!(shown[39]["sequence"], "2001");
}

#[test]
fn foreign_pages_and_users_without_rights_get_nothing() {
    let users = [user("ann", &[("ticks", &[May::Read])]), user("root", &[("*", &[May::Read, May::Admin])])];
    let place = Place::with(&users, WebLimits::default());
    place.ticks("ticks", 3);
    place.ticks("hidden", 3);
    assert_eq!(open(&place, "", None).err(), Some(401));
    let cookie = place.login("ann");
    assert_eq!(open(&place, &cookie, Some("http://evil.example")).err(), Some(403));
    let own = format!("http://{}", place.address());
    let mut socket = open(&place, &cookie, Some(&own)).unwrap();
    send(
        &mut socket,
        json!({ "op": "subscribe", "id": 1, "channel": "tail", "stream": "hidden", "last": 1 }),
    );
    assert_eq!(frame(&mut socket)["items"][0]["error"], "there is no stream \"hidden\"");
    send(&mut socket, json!({ "op": "subscribe", "id": 2, "channel": "tail", "stream": "ticks", "last": 1 }));
    assert_eq!(sequences(&frame(&mut socket)), [2]);
    // The session ends with a change of rights, and the WebSocket with it.
    let rights = json!({ "rights": [] });
    assert_eq!(place.send("PUT", "/api/users/ann", &place.login("root"), &rights).status, 200);
    assert_eq!(receive(&mut socket), json!({ "closing": "the session has ended" }));
}

#[test]
fn nonsense_ends_the_connection() {
    let place = Place::new();
    for nonsense in [
        "",
        "{}",
        "{\"op\":\"fly\"}",
        "{\"op\":\"ack\",\"frame\":99}",
        "{\"op\":\"subscribe\",\"id\":1,\"channel\":\"x\"}",
    ] {
        let mut socket = open(&place, "", None).unwrap();
        socket.send(Message::text(nonsense)).unwrap();
        assert!(receive(&mut socket)["closing"].is_string(), "{nonsense}");
    }
    let mut socket = open(&place, "", None).unwrap();
    let _ = socket.send(Message::text("x".repeat(1 << 20)));
    assert!((0..3).any(|_| socket.read().is_err()), "a long message");
    let mut socket = open(&place, "", None).unwrap();
    for id in 0..70 {
        send(&mut socket, json!({ "op": "subscribe", "id": id, "channel": "status" }));
    }
    let mut refused = 0;
    while refused < 6 {
        let frame = frame(&mut socket);
        refused += frame["items"].as_array().unwrap().iter().filter(|item| item["error"].is_string()).count();
    }
}

#[test]
fn a_shutdown_is_announced() {
    let place = Place::new();
    let mut socket = open(&place, "", None).unwrap();
    place.web.begin_shutdown();
    assert_eq!(receive(&mut socket), json!({ "closing": "the server is shutting down" }));
    assert!(matches!(socket.read(), Ok(Message::Close(_))));
}

/// Memory and threads of this process, from /proc.
fn taken() -> (u64, usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    (of("VmRSS:") << 10, of("Threads:") as usize)
}

#[cfg(target_os = "linux")]
#[test]
fn a_thousand_idle_tabs_take_little() {
    // In a process of its own: memory and threads are those of all tests in one.
    const ALONE: &str = "TAPEDB_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", "live::a_thousand_idle_tabs_take_little"]).env(ALONE, "1");
        let ran = alone.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let place = Place::new();
    let stream = place.ticks("ticks", 10);
    let before = taken();
    let mut tabs = Vec::new();
    for number in 0..1000 {
        let mut socket = open(&place, "", None).unwrap();
        if number % 50 == 0 {
            send(&mut socket, json!({ "op": "subscribe", "id": 1, "channel": "tail", "stream": "ticks" }));
        }
        tabs.push(socket);
    }
    let after = taken();
    // Of both sides: they are in one process.
    assert!(after.0.saturating_sub(before.0) < 200 << 20, "{before:?} {after:?}");
    assert!(after.1 < before.1 + 120, "{before:?} {after:?}");
    // Those that follow something do so all the same, and further requests are answered.
    append(&stream, 10..11);
    for tab in tabs.iter_mut().step_by(50) {
        assert_eq!(sequences(&frame(tab)), [10]);
    }
    assert_eq!(place.get("/api/streams").status, 200);
}
