//! Uploaded files, their imports, and the backup.

use crate::support::{Answer, Place, user};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tapedb_access::May;
use tapedb_web::{ImportJob, ImportOptions, ImportProgress, Importer, WebLimits};

/// Counts the bytes of a file; with the symbol `wait` it waits until it is cancelled.
#[derive(Debug)]
struct Counting;

#[derive(Debug)]
struct Job {
    bytes: u64,
    waits: bool,
    is_cancelled: AtomicBool,
}

impl Importer for Counting {
    fn job(&self, file: &Path, _: &str, options: &ImportOptions) -> Result<Arc<dyn ImportJob>, String> {
        if options.format.as_deref() == Some("crash") {
            return Err("no such format".into());
        }
        let bytes = std::fs::metadata(file).unwrap().len();
        Ok(Arc::new(Job {
            bytes,
            waits: options.symbol.as_deref() == Some("wait"),
            is_cancelled: AtomicBool::new(false),
        }))
    }
}

impl ImportJob for Job {
    fn run(&self) -> Result<(), String> {
        if !self.waits {
            return Ok(());
        }
        while !self.is_cancelled.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Err("cancelled".into())
    }

    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
    }

    fn progress(&self) -> ImportProgress {
        ImportProgress { done: self.bytes, total: self.bytes, messages: 3, text: "three".into() }
    }
}

fn place() -> Place {
    let users = [
        user("root", &[("*", &[May::Read, May::Write, May::Create, May::Admin])]),
        user("ann", &[("ticks", &[May::Read])]),
        user("bob", &[("new*", &[May::Create, May::Write])]),
    ];
    let limits = WebLimits { upload_bytes_max: 1000, ..WebLimits::default() };
    let place = Place::with_options(&users, limits, |options, folder| {
        options.importer = Some(Arc::new(Counting));
        options.backup = Some(folder.join("backup"));
    });
    place.ticks("ticks", 10);
    place
}

fn upload(place: &Place, cookie: &str, stream: &str, more: &[(&str, &str)], body: &str) -> Answer {
    let path = format!("/api/imports?name=..%2F..%2Fx.csv&stream={stream}");
    let mut headers = vec![("Cookie", cookie), ("X-TapeDB", "1")];
    headers.extend(more);
    if !more.iter().any(|(name, _)| *name == "Content-Type") {
        headers.push(("Content-Type", "application/octet-stream"));
    }
    place.ask("POST", &path, &headers, body)
}

/// The row of a file, once it is in one of these states.
fn when(place: &Place, path: &str, cookie: &str, states: &[&str]) -> Value {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = place.get_as(path, cookie).json();
        let row = if path.ends_with("imports") { answer["imports"][0].clone() } else { answer };
        if states.contains(&row["state"].as_str().unwrap()) {
            return row;
        }
        assert!(Instant::now() < until, "{row}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_file_is_imported_by_those_who_may() {
    let place = place();
    let (root, ann, bob) = (place.login("root"), place.login("ann"), place.login("bob"));
    assert_eq!(upload(&place, "", "ticks", &[], "x").status, 401);
    // The same answer for a stream that is not there, and for one that may not be seen.
    assert_eq!(upload(&place, &ann, "ticks", &[], "x").status, 403);
    let (none, hidden) = (upload(&place, &bob, "none", &[], "x"), upload(&place, &bob, "ticks", &[], "x"));
    assert_eq!((none.status, none.body.replace("none", "ticks")), (403, hidden.body));
    for (header, status) in [
        (("Origin", "http://evil.example"), 403),
        (("Sec-Fetch-Site", "cross-site"), 403),
        (("Content-Type", "text/plain"), 415),
    ] {
        assert_eq!(upload(&place, &root, "ticks", &[header], "x").status, status, "{header:?}");
    }
    assert_eq!(upload(&place, &root, "ticks", &[], &"x".repeat(1001)).status, 413);
    // Without a length.
    let endless = format!(
        "POST /api/imports?name=x&stream=ticks HTTP/1.1\r\nHost: {}\r\nCookie: {root}\r\nX-TapeDB: 1\r\nContent-Type: \
         application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n{}\r\n0\r\n\r\n",
        place.address(),
        "x".repeat(0x800)
    );
    assert_eq!(place.raw(endless.as_bytes()).status, 413);
    assert_eq!(place.get_as("/api/imports", &root).json()["imports"], json!([]), "nothing is left of these");

    let id = upload(&place, &root, "ticks", &[], "1,2,3").json()["id"].as_u64().unwrap();
    let path = format!("/api/imports/{id}");
    let row = when(&place, "/api/imports", &root, &["here"]);
    assert_eq!((&row["name"], &row["bytes"], &row["stream"]), (&json!("x.csv"), &json!(5), &json!("ticks")));
    assert_eq!(place.get_as("/api/imports", &bob).json()["imports"], json!([]));
    assert_eq!(place.send("POST", &path, &bob, &json!({})).status, 404);
    let none = place.send("DELETE", "/api/imports/x", &root, &json!({}));
    assert_eq!((none.status, none.json()["code"].as_str()), (404, Some("not_found")));
    assert_eq!(place.send("POST", &path, &root, &json!({ "db": "/" })).status, 400);
    assert_eq!(place.send("POST", &path, &root, &json!({ "format": "crash" })).status, 400);
    assert_eq!(place.send("POST", &path, &root, &json!({ "symbol": "wait" })).status, 200);
    assert_eq!(place.send("POST", &path, &root, &json!({})).status, 409);
    assert_eq!(place.send("DELETE", &path, &root, &json!({})).status, 200);
    assert_eq!(when(&place, "/api/imports", &root, &["failed"])["failure"], "cancelled");
    assert_eq!(place.send("POST", &path, &root, &json!({})).status, 200);
    let row = when(&place, "/api/imports", &root, &["done"]);
    assert_eq!((&row["messages"], &row["text"], &row["done"]), (&json!("3"), &json!("three"), &json!(5)));
    assert_eq!(place.send("DELETE", &path, &root, &json!({})).status, 200);
    assert_eq!(place.send("DELETE", &path, &root, &json!({})).status, 404);
    let audit = place.audit();
    assert!(audit.contains("\"event\":\"upload\"") && audit.contains("\"event\":\"import\""), "{audit}");
}

#[test]
fn administrators_bring_the_backup_up_to_date() {
    let place = place();
    let (root, ann) = (place.login("root"), place.login("ann"));
    for method in ["GET", "POST", "DELETE"] {
        assert_eq!(place.send(method, "/api/backup", &ann, &json!({})).status, 403, "{method}");
    }
    assert_eq!(place.send("DELETE", "/api/backup", &root, &json!({})).status, 404);
    assert_eq!(place.get_as("/api/backup", &root).json()["state"], "idle");
    assert_eq!(place.send("POST", "/api/backup", &root, &json!({})).status, 200);
    let row = when(&place, "/api/backup", &root, &["done", "failed"]);
    assert_eq!(
        (&row["state"], &row["streams"], &row["failed"]),
        (&json!("done"), &json!(1), &json!([])),
        "{row}"
    );
    let copy = tapedb_engine::Database::open_read_only(place.path("backup")).unwrap();
    assert_eq!(copy.stream("ticks").unwrap().stats().unwrap().messages, 10);
    assert!(place.audit().contains("\"event\":\"backup\""));
    // Without the setting there is none.
    let other = Place::new();
    assert_eq!(other.get("/api/backup").json()["state"], "off");
    assert_eq!(other.send("POST", "/api/backup", "", &json!({})).status, 404);
    assert_eq!(other.get("/api/plants").json()["plants"], json!([]));
    assert_eq!(other.send("POST", "/api/plants/tp/end-day", "", &json!({})).status, 404);
    assert_eq!(upload(&other, "", "x", &[], "x").status, 404);
}
