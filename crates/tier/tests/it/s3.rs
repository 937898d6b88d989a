//! A database whose old segments are in S3: an S3 server of Python (`moto`) on this machine, without credentials of anyone.
//!
//! Settings come from the environment, which a test cannot change safely: each test runs itself as a child with its own.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tapedb_engine::{Database, ObjectCounts, ObjectFault, Offload, Stream, StreamOptions};
use tapedb_skipped::{python, python_has, skipped};

/// Set in a child: the URL of the server.
const ENDPOINT: &str = "AWS_ENDPOINT_URL";

/// The server, until it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server whose buckets `tape` and `other` exist.
fn server() -> Option<(Server, String)> {
    if !python_has("moto") || !python_has("flask") {
        skipped("moto[server] is not installed");
        return None;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let program = format!(
        "from moto.server import ThreadedMotoServer\nimport sys\n\
         server = ThreadedMotoServer(ip_address='127.0.0.1', port={port}, verbose=False)\nserver.start()\n\
         print('ready', flush=True)\nsys.stdin.read()\nserver.stop()\n"
    );
    let mut command = python();
    let command =
        command.args(["-c", &program]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Server(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    for bucket in ["tape", "other"] {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let request = format!(
            "PUT /{bucket} HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 0\r\nConnection: close\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\n\r\n"
        );
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(connection).read_line(&mut answer).unwrap();
        assert!(answer.contains(" 200 "), "{answer}");
    }
    Some((server, format!("http://127.0.0.1:{port}")))
}

/// Runs a test of this file as a child that uses an endpoint.
fn run_child(test: &str, endpoint: &str) {
    let ran = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("s3::{test}"), "--nocapture", "--ignored"])
        .env(ENDPOINT, endpoint)
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_REGION", "us-east-1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn s3_keeps_old_segments() {
    if let Some((_server, endpoint)) = server() {
        run_child("child_with_a_store", &endpoint);
    }
}

#[test]
fn a_store_that_is_not_there_is_an_error_in_bounded_time() {
    // Nothing listens at a port that was just free.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    run_child("child_without_a_store", &format!("http://127.0.0.1:{port}"));
}

fn rows(stream: &Stream) -> Vec<(i64, String, Vec<u8>)> {
    let mut cursor = stream.cursor().open().unwrap();
    let mut rows = Vec::new();
    while let Some(message) = cursor.next().unwrap() {
        rows.push((message.time().0, message.symbol().to_string(), message.body().to_vec()));
    }
    rows
}

fn options(url: &str) -> StreamOptions {
    let offload = Some(Offload { url: url.parse().unwrap(), after: Some(Duration::ZERO) });
    StreamOptions { offload, ..StreamOptions::default() }
}

#[test]
#[ignore = "s3_keeps_old_segments runs it"]
fn child_with_a_store() {
    tapedb_tier::register();
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open_without_maintenance(directory.path().join("db")).unwrap();
    let schema = "message M { n: u64 }";
    let stream = db.create_stream("s", schema.parse().unwrap(), options("s3://tape/prefix")).unwrap();
    let mut loader = stream.loader().unwrap();
    // Numbers that take as many bytes as they have: more than two chunks.
    for number in 0..3_000_000u64 {
        let n = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        loader
            .append_body(
                ["A", "B"][(number % 2) as usize],
                tapedb_schema::Timestamp(number as i64),
                0,
                &n.to_le_bytes(),
            )
            .unwrap();
    }
    loader.close().unwrap();
    stream.seal().unwrap();
    let expected = rows(&stream);
    let before = ObjectCounts::now();
    let moved = stream.offload(None).unwrap();
    assert!(moved.bytes > 20 << 20, "{moved:?}");
    let counts = ObjectCounts::now();
    assert!(rows(&stream) == expected);
    let read = ObjectCounts::now().since(counts);
    let chunks = moved.bytes.div_ceil(8 << 20) + moved.segments;
    assert!(read.gets <= chunks, "{read:?} of {chunks}");
    assert!(ObjectCounts::now().since(before).bytes_written >= moved.bytes);
    drop((stream, db));
    let alone = Database::open_object_store("s3://tape/prefix").unwrap();
    assert!(rows(&alone.stream("s").unwrap()) == expected);
    let target = directory.path().join("again");
    Database::restore_object_store("s3://tape/prefix", &target, |_| ControlFlow::Continue(())).unwrap();
    assert!(rows(&Database::open_read_only(&target).unwrap().stream("s").unwrap()) == expected);
    // A bucket that is not there, and a prefix of another database.
    let other = Database::open_without_maintenance(directory.path().join("other")).unwrap();
    let refused = other
        .create_stream("s", schema.parse().unwrap(), options("s3://tape/prefix"))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("another prefix"), "{refused}");
    let refused =
        other.create_stream("s", schema.parse().unwrap(), options("s3://missing/x")).unwrap_err().to_string();
    assert!(refused.contains("s3://missing/x") && refused.contains("NoSuchBucket"), "{refused}");
    let stream = other.create_stream("s", schema.parse().unwrap(), options("s3://other")).unwrap();
    assert!(stream.options().offload.is_some());
}

#[test]
#[ignore = "a_store_that_is_not_there_is_an_error_in_bounded_time runs it"]
fn child_without_a_store() {
    let store = tapedb_tier::open("s3://tape/prefix").unwrap();
    for failed in [
        store.put_if_absent("a", b"1").map(|_| ()),
        store.get_range("a", 0..1).map(|_| ()),
        store.size("a").map(|_| ()),
        store.list("a/").map(|_| ()),
    ] {
        assert_eq!(failed.unwrap_err().fault, ObjectFault::Unavailable);
    }
}
