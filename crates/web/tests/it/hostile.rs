//! Clients that mean harm, or are slow.

use crate::support::{Place, user};
use serde_json::json;
use std::io::{Read, Write};
use std::time::Duration;
use tapedb_access::May;
use tapedb_web::WebLimits;

#[test]
fn a_page_of_another_site_reaches_nothing() {
    let place = Place::new();
    let own = place.address().to_string();
    let status = |method, path, headers: &[(&str, &str)]| place.ask(method, path, headers, "").status;
    assert_eq!(status("GET", "/health", &[]), 200);
    for path in ["/", "/health", "/metrics", "/api/streams", "/api/ws"] {
        assert_eq!(status("GET", path, &[("Host", "evil.example")]), 421, "{path}");
        assert_eq!(status("GET", path, &[("Origin", "http://evil.example")]), 403, "{path}");
    }
    let json = [("Content-Type", "application/json")];
    assert_eq!(
        place.ask("POST", "/api/query", &json, "{\"sql\":\"SELECT 1\"}").status,
        403,
        "without the header"
    );
    let text = [("Content-Type", "text/plain"), ("X-TapeDB", "1")];
    assert_eq!(
        place.ask("POST", "/api/query", &text, "{\"sql\":\"SELECT 1\"}").status,
        415,
        "as a form would send it"
    );
    let preflight = [("Origin", "http://evil.example"), ("Access-Control-Request-Method", "POST")];
    let answer = place.ask("OPTIONS", "/api/query", &preflight, "");
    assert!(answer.status == 403 && answer.header("access-control-allow-origin").is_none(), "{answer:?}");
    let same = format!("http://{own}");
    let headers = [("Origin", same.as_str()), ("X-TapeDB", "1")];
    assert_eq!(place.ask("DELETE", "/api/queries/none", &headers, "").status, 404);
}

#[test]
fn every_answer_has_the_headers() {
    let place = Place::new();
    for path in ["/", "/health", "/api/streams", "/api/none", "/api/streams/x"] {
        let answer = place.get(path);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(
            policy.contains("require-trusted-types-for 'script'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert!(answer.header("access-control-allow-origin").is_none());
    }
}

#[test]
fn heads_and_bodies_are_bounded() {
    let limits = WebLimits { body_bytes_max: 1000, ..WebLimits::default() };
    let place = Place::with(&[], limits);
    let long = place.ask("GET", "/health", &[("X", &"x".repeat(100_000))], "");
    assert!(long.status == 431 || long.status == 0, "{long:?}");
    let body = json!({ "user": "a".repeat(2000), "password": "b" });
    assert_eq!(place.send("POST", "/api/login", "", &body).status, 413);
    assert_eq!(place.raw(b"TAPEDB1\n\0\0\0\r\n\r\n").status, 400);
    assert_eq!(place.raw(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n").status, 400, "no host");
    for path in
        ["/api/streams/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/..%2f..%2fetc%2fpasswd", "/assets/../../Cargo.toml"]
    {
        let answer = place.get(path);
        assert!(!answer.body.contains("root:") && !answer.body.contains("[workspace]"), "{answer:?}");
    }
    for path in [
        "/api/streams/x/messages?limit=-1",
        "/api/streams/x/messages?from=never",
        "/api/streams/x/messages?colour=red",
    ] {
        assert_eq!(place.get(path).status, 400, "{path}");
    }
}

#[test]
fn slow_and_silent_connections_block_no_others() {
    let limits =
        WebLimits { connections_max: 8, head_time: Duration::from_millis(300), ..WebLimits::default() };
    let place = Place::with(&[], limits);
    let mut silent = Vec::new();
    for _ in 0..32 {
        let mut socket = place.connect();
        socket.write_all(b"GET /health HTT").unwrap();
        silent.push(socket);
        assert_eq!(place.get("/health").status, 200);
    }
    // Each ends by itself, or has made room for another.
    for mut socket in silent {
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
    }
}

#[test]
fn a_body_that_does_not_arrive_is_given_up() {
    let limits = WebLimits { body_time: Duration::from_millis(100), ..WebLimits::default() };
    let place = Place::with(&[], limits);
    let head = format!(
        "POST /api/login HTTP/1.1\r\nHost: {}\r\nX-TapeDB: 1\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\
         Connection: close\r\n\r\n{{",
        place.address()
    );
    assert_eq!(place.raw(head.as_bytes()).status, 408);
}

#[test]
fn requests_that_run_finish_before_the_server_ends() {
    let place = Place::new();
    place.ticks("ticks", 10);
    let mut idle = place.connect();
    assert_eq!(place.get("/api/streams").status, 200);
    let Place { web, server, folder } = place;
    web.shutdown(Duration::from_secs(10));
    assert_eq!(idle.read(&mut [0; 10]).unwrap_or(0), 0, "idle connections are closed");
    server.shutdown();
    drop(folder);
}

#[test]
fn a_server_that_ends_does_not_wait_for_silent_clients() {
    // Those that are waited for would be waited for so long.
    let hour = Duration::from_secs(3600);
    let limits = WebLimits { head_time: hour, body_time: hour, write_time: hour, ..WebLimits::default() };
    let place = Place::with(&[], limits);
    let (mut head, mut body) = (place.connect(), place.connect());
    head.write_all(b"GET /health HTT").unwrap();
    let request = format!(
        "POST /api/login HTTP/1.1\r\nHost: {}\r\nX-TapeDB: 1\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{{",
        place.address()
    );
    body.write_all(request.as_bytes()).unwrap();
    assert_eq!(place.get("/health").status, 200, "both are accepted before");
    let Place { web, server, folder } = place;
    web.shutdown(hour);
    assert_eq!(head.read(&mut [0; 10]).unwrap_or(0), 0, "nothing is answered");
    server.shutdown();
    drop(folder);
}

#[test]
fn users_that_cannot_be_stored_are_no_fault_of_the_caller() {
    let admin = user("root", &[("*", &[May::Read, May::Write, May::Create, May::Admin])]);
    let place = Place::with(&[admin], WebLimits::default());
    let cookie = place.login("root");
    let rights = json!({ "rights": [{ "streams": "*", "may": ["read"] }] });
    // A name that is no name is the caller's.
    let refused = place.send("PUT", "/api/users/%07", &cookie, &rights);
    assert_eq!(refused.status, 400, "{refused:?}");
    // A directory where the draft of the file would be written.
    std::fs::create_dir(place.path("users.toml.draft")).unwrap();
    for (method, name) in [("PUT", "ann"), ("DELETE", "root")] {
        let failed = place.send(method, &format!("/api/users/{name}"), &cookie, &rights);
        assert_eq!((failed.status, failed.json()["code"].as_str()), (500, Some("internal")), "{failed:?}");
        let text = failed.json()["error"].as_str().unwrap().to_string();
        assert!(text.contains("cannot write the users file") && text.contains("writable"), "{text}");
    }
    assert_eq!(place.get_as("/api/users", &cookie).json()["users"].as_array().unwrap().len(), 1);
    std::fs::remove_dir(place.path("users.toml.draft")).unwrap();
    assert_eq!(place.send("PUT", "/api/users/ann", &cookie, &rights).status, 200);
}

#[test]
fn users_are_reloaded_by_administrators() {
    let place = Place::with(&[user("root", &[("*", &[May::Admin])]), user("ann", &[])], WebLimits::default());
    let (root, ann) = (place.login("root"), place.login("ann"));
    assert_eq!(place.send("POST", "/api/reload", &ann, &json!({})).status, 403);
    assert_eq!(place.send("POST", "/api/reload", "", &json!({})).status, 401);
    let done = place.send("POST", "/api/reload", &root, &json!({}));
    assert_eq!((done.status, &done.json()["done"]), (200, &"users: reloaded".into()));
    std::fs::write(place.path("users.toml"), "[[user]]\nname = ''").unwrap();
    let failed = place.send("POST", "/api/reload", &root, &json!({}));
    assert_eq!(failed.status, 500, "{failed:?}");
    assert!(failed.body.contains("unchanged"), "{failed:?}");
    assert_eq!(place.get_as("/api/session", &ann).status, 200, "the users are as before");
    assert!(place.audit().contains(r#""event":"reload","user":"root""#));
}
