//! No room, or a file that cannot be read: that is told clearly, nothing that was acknowledged is lost, and when it is over
//! work goes on.

use crate::child::{tell, told};
use crate::support::*;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tapedb_engine::{Access, Database, Error, LogError, StreamOptions};
use tapedb_log::sim::SimStorage;
use tapedb_schema::Timestamp;

/// Appends until it fails, as this process may write no file larger than its limit.
pub fn child(path: &Path) {
    let db = Database::open(path).unwrap();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    loader.set_batch_bytes(10 << 10);
    let mut acknowledged = 0;
    let mut number = 0;
    let error = loop {
        match loader.append("A", Timestamp(number as i64), &Tick::of(number)) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
        if number % 100 == 0 {
            match loader.flush() {
                Ok(next) => acknowledged = next,
                Err(error) => break error,
            }
        }
    };
    let text = error.to_string();
    assert!(text.contains(".log") && text.contains("write failed"), "{text}");
    assert!(matches!(&error, Error::Log(error) if matches!(**error, LogError::Io { .. })), "{error:?}");
    // Still so, and nothing of it was lost; readers go on.
    let pending = loader.pending() as u64;
    loader.flush().unwrap_err();
    assert_eq!(loader.pending() as u64, pending);
    let stored = drain(&mut stream.cursor().open().unwrap());
    assert_eq!(stored, (0..stored.len() as u64).collect::<Vec<_>>());
    assert_eq!(stored.len() as u64 + pending, number);
    assert!(stored.len() as u64 >= acknowledged);
    tell(&stored.len().to_string());
}

#[test]
fn a_writer_without_room_says_so_and_readers_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    // The limit of the shell and its children; ignoring the signal makes it an error of the write.
    let child = crate::child::child("fill", &path);
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\""]);
    limited.arg(child.get_program()).args(child.get_args()).stdout(Stdio::piped());
    limited.envs(child.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let output = limited.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let stored: u64 = text.lines().find_map(told).unwrap().parse().unwrap();
    assert!(stored > 100);

    let db = reopen(&path);
    let stream = db.stream("s").unwrap();
    assert!(stream.recovery().is_clean(), "{}", stream.recovery());
    append_ticks(&stream, stored..stored + 100);
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), (0..stored + 100).collect::<Vec<_>>());
}

#[test]
fn when_there_is_room_again_writers_and_upkeep_go_on() {
    let disk = SimStorage::new(1);
    let db = Database::open_on(Arc::new(disk.clone()), "/db", Access::Write).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let mut live = stream.cursor().live().open().unwrap();
    append_ticks(&stream, 0..50);
    // What is written is left as it is, and nothing more fits.
    disk.set_capacity(Some(1));
    let mut loader = stream.loader().unwrap();
    for number in 50..150 {
        loader.append("A", Timestamp(number as i64), &Tick::of(number)).unwrap();
    }
    let full = |e: &Error| matches!(e, Error::Log(error) if matches!(**error, LogError::Full { .. }));
    assert_error(loader.flush(), full, "no room to write");
    assert_error(stream.seal(), |e| !matches!(e, Error::ReadOnly), "/db/streams/s");
    assert_eq!(loader.pending(), 100);
    assert_eq!(drain(&mut live), (0..50).collect::<Vec<_>>());
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), (0..50).collect::<Vec<_>>());
    disk.set_capacity(None);
    loader.flush().unwrap();
    assert_eq!(drain(&mut live), (50..150).collect::<Vec<_>>());
    // Full log files, which cannot be sealed for a while.
    append_ticks(&stream, 150..400);
    disk.set_capacity(Some(1));
    let log_files =
        || disk.paths().iter().filter(|path| path.extension().is_some_and(|e| e == "log")).count();
    if log_files() > 1 {
        wait_until(|| stream.upkeep_failure().is_some() || log_files() == 1);
    }
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), (0..400).collect::<Vec<_>>());
    disk.set_capacity(None);
    wait_until(|| stream.upkeep_failure().is_none() && log_files() == 1);
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), (0..400).collect::<Vec<_>>());
}

#[test]
fn upkeep_tells_which_file_cannot_be_read_and_goes_on_when_it_can() {
    let disk = SimStorage::new(1);
    let db = Database::open_on(Arc::new(disk.clone()), "/db", Access::Write).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let log = Path::new("/db/streams/s/0/00000000000000000000.log");
    append_ticks(&stream, 0..10);
    disk.blind(log, ErrorKind::Other);
    append_ticks(&stream, 10..400);
    wait_until(|| stream.upkeep_failure().is_some_and(|why| why.contains("00000000000000000000.log")));
    assert!(disk.content(log).is_some(), "it is kept");
    disk.mend();
    wait_until(|| stream.upkeep_failure().is_none() && disk.content(log).is_none());
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), (0..400).collect::<Vec<_>>());
}

fn wait_until(done: impl Fn() -> bool) {
    while !done() {
        thread::sleep(Duration::from_millis(5));
    }
}
