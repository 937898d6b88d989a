//! One writer, whatever happens to the files that it has locked.

use crate::support::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};
use tapedb_engine::{Database, Error, LogError, StreamOptions};
use tapedb_schema::Timestamp;

#[test]
fn a_removed_lock_file_lets_no_second_writer_in() {
    let (directory, db) = new_database_without_maintenance();
    let path = directory.path().join("db");
    fs::remove_file(path.join("lock")).unwrap();
    assert_error(Database::open(&path), |error| matches!(error, Error::Locked { .. }), "");
    drop(db);
    reopen(&path);
}

#[test]
fn a_writer_whose_lock_is_gone_stops() {
    for name in ["lock", "tapedb.database"] {
        let (directory, db) = new_database_without_maintenance();
        let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
        let path = directory.path().join("db").join(name);
        let mut loader = stream.loader().unwrap();
        loader.append("A", Timestamp(1), &Tick::of(1)).unwrap();
        loader.flush().unwrap();
        let content = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, content).unwrap();
        let begun = Instant::now();
        let refused = loop {
            assert!(begun.elapsed() < Duration::from_secs(60), "it goes on writing");
            loader.append("A", Timestamp(2), &Tick::of(2)).unwrap();
            match loader.flush() {
                Ok(_) => thread::sleep(Duration::from_millis(10)),
                Err(error) => break error,
            }
        };
        let is_poisoned = |error: &LogError| matches!(error, LogError::Poisoned { .. });
        assert!(matches!(&refused, Error::Log(error) if is_poisoned(error)), "{refused:?}");
        assert!(refused.to_string().contains("removed or replaced"), "{refused}");
        assert!(stream.seal().is_err() && stream.purge(Timestamp(5)).is_err());
        assert!(db.create_stream("t", schema(), StreamOptions::default()).is_err());
        assert!(db.delete_stream("s").is_err() && db.rename_stream("s", "t").is_err());
        assert!(!drain(&mut stream.cursor().open().unwrap()).is_empty(), "it can be read");
    }
}

#[test]
fn a_new_database_is_its_owners_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b/db");
    drop(Database::open(&path).unwrap());
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    // A directory that was there keeps the rights that it has.
    let shared = directory.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o750)).unwrap();
    drop(Database::open(&shared).unwrap());
    assert_eq!(mode(&shared), 0o750);
}
