//! Changing a stream's options while it is in use, here and in another process.

use crate::support::*;
use std::fs;
use std::time::Duration;
use tapedb_engine::{Database, Durability, Error, Invalid, Late, Rejected, Retention, Stale, StreamOptions};
use tapedb_schema::Timestamp;

#[test]
fn options_change_for_everybody_and_stay_changed() {
    let (directory, db) = new_database_without_maintenance();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append_ticks(&stream, 0..10);
    // As another process sees it.
    let elsewhere = Database::open_read_only(db.path()).unwrap();
    let seen = elsewhere.stream("s").unwrap();
    let mut live = seen.cursor().live().open().unwrap();
    assert_eq!(drain(&mut live).len(), 10);
    let mut loader = stream.loader().unwrap();
    loader.append("A", Timestamp(5), &Tick::of(10)).unwrap();

    let retention = Retention { age: Some(Duration::from_secs(1 << 40)), bytes: Some(1 << 40) };
    let options =
        StreamOptions { late: Late::Refuse, file_bytes_max: 4 << 10, retention, ..stream.options() };
    stream.alter(options).unwrap();
    assert_eq!(stream.options(), options);
    assert_error(
        loader.append("A", Timestamp(5), &Tick::of(11)),
        |e| matches!(e, Error::Rejected(Rejected::Late { .. })),
        "late",
    );
    assert_error(loader.flush(), |e| matches!(e, Error::Rejected(Rejected::Late { .. })), "late");
    drop(loader);
    append_ticks(&stream, 10..1000);
    assert_eq!(drain(&mut live).len(), 990, "the stream's own rewriting is no deletion");
    assert_eq!((seen.stats().unwrap().messages, seen.options()), (1000, options));
    assert!(fs::read_dir(stream.path().join("0")).unwrap().count() > 4, "files are smaller now");

    drop((stream, db));
    let db = reopen(&directory.path().join("db"));
    let stream = db.stream("s").unwrap();
    assert!(stream.recovery().is_clean(), "{}", stream.recovery());
    assert_eq!(stream.options(), options);
    // Deleted, and another one of the name created: that is detected.
    db.delete_stream("s").unwrap();
    db.create_stream("s", schema(), options).unwrap();
    assert_error(live.next().map(drop), |e| matches!(e, Error::Stale(Stale::Deleted { .. })), "deleted");
}

#[test]
fn what_is_fixed_stays() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let options = stream.options();
    for wrong in [
        StreamOptions { durability: Durability::Sync, ..options },
        StreamOptions { spaces: 2, ..options },
        StreamOptions { file_bytes_max: 0, ..options },
    ] {
        assert_error(stream.alter(wrong), |e| matches!(e, Error::Invalid(Invalid::Options { .. })), "c");
        let created = db.create_stream("t", schema(), StreamOptions { spaces: 0, ..wrong });
        assert_error(created, |e| matches!(e, Error::Invalid(Invalid::Options { .. })), "1 to 256 spaces");
    }
    assert_eq!(stream.options(), options);
    let elsewhere = Database::open_read_only(db.path()).unwrap().stream("s").unwrap();
    assert_error(elsewhere.alter(options), |e| matches!(e, Error::ReadOnly), "reading only");
}

#[test]
fn a_writer_repairs_a_bad_copy_of_the_definition() {
    let (directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    stream.alter(StreamOptions { late: Late::Refuse, ..stream.options() }).unwrap();
    let files = ["stream.tape", "stream.tape.copy"].map(|name| stream.path().join(name));
    let good = fs::read(&files[0]).unwrap();
    drop((stream, db));
    for file in &files {
        fs::write(file, "no definition").unwrap();
        let path = directory.path().join("db");
        let reader = Database::open_read_only(&path).unwrap().stream("s").unwrap();
        assert!(!reader.recovery().is_clean());
        let db = reopen(&path);
        let stream = db.stream("s").unwrap();
        assert!(stream.recovery().to_string().contains("does not begin with"), "{}", stream.recovery());
        assert_eq!(stream.options().late, Late::Refuse);
        assert_eq!(files.each_ref().map(|file| fs::read(file).unwrap()), [good.clone(), good.clone()]);
    }
}
