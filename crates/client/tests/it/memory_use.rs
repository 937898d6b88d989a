//! A client takes bounded memory, however many files it reads at once. It is a process of its own, so that nothing else counts.

use crate::process::Process;
use crate::support::*;
use std::process::{Command, Stdio};
use tapedb_client::Client;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, StreamOptions};
use tapedb_schema::Timestamp;

const STREAMS: usize = 80;
const MESSAGES: u64 = 40;
/// It takes 130 MiB; 222 when each file reads 2 MiB ahead.
const MOST: u64 = 176 << 20;
const URL: &str = "TAPEDB_TEST_MEMORY_URL";

#[derive(Record, Debug, Default)]
#[record(message)]
struct Text {
    bytes: Vec<u8>,
}

fn names() -> impl Iterator<Item = String> {
    (0..STREAMS).map(|number| format!("s{number}"))
}

/// Does nothing except in a child process, which reads everything and prints its peak memory.
#[test]
fn client_of_another_test() {
    let Ok(url) = std::env::var(URL) else { return };
    let db = Client::at(url).connect().unwrap();
    let mut cursor = db.cursor(names()).unwrap().open().unwrap();
    let mut count = 0;
    while let Some(message) = cursor.next().unwrap() {
        assert!(message.body().len() > 64 << 10);
        count += 1;
    }
    assert_eq!(count, STREAMS as u64 * MESSAGES);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    println!("\n@{}", peak.unwrap());
}

#[test]
fn files_that_are_read_at_once_share_the_read_ahead() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open_without_maintenance(directory.path().join("db")).unwrap();
    let mut random = Random::from_seed(1);
    for name in names() {
        let schema = SchemaBuilder::new().with::<Text>().finish();
        let stream = db.create_stream(&name, schema, StreamOptions::default()).unwrap();
        let mut loader = stream.loader().unwrap();
        for number in 0..MESSAGES {
            let bytes = (0..(64 << 10) / 8).flat_map(|_| random.next().to_le_bytes()).collect();
            loader.append("A", Timestamp(number as i64), &Text { bytes }).unwrap();
        }
        loader.close().unwrap();
        stream.seal().unwrap();
    }
    drop(db);
    let server = Process::start(directory.path());
    server.over_tcp();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "memory_use::client_of_another_test", "--nocapture"]).stderr(Stdio::inherit());
    let done = command.env(URL, server.url()).output().unwrap();
    let printed = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{printed}");
    let peak = printed.lines().find_map(|line| line.strip_prefix('@')).unwrap();
    let peak = peak.parse::<u64>().unwrap() << 10;
    assert!(peak < MOST, "{peak} bytes of memory");
}
