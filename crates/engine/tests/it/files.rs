//! The promises of a database about its files, one by one.

use crate::child::{report, reported};
use crate::support::*;
use std::path::Path;
use tapedb_engine::{Database, Error, NotFound, StreamOptions};

#[test]
fn a_reader_cannot_write() {
    let (directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append_ticks(&stream, 0..10);
    let reader = Database::open_read_only(directory.path().join("db")).unwrap();
    assert!(reader.is_read_only() && !db.is_read_only());
    let read_only = |e: &Error| matches!(e, Error::ReadOnly);
    assert_error(reader.create_stream("t", schema(), StreamOptions::default()), read_only, "reading only");
    assert_error(reader.delete_stream("s"), read_only, "reading only");
    assert_error(reader.stream("s").unwrap().loader(), read_only, "reading only");
    assert_eq!(drain(&mut reader.cursor(["s"]).unwrap().open().unwrap()).len(), 10);
}

#[test]
fn only_one_writer_has_a_database() {
    let (directory, db) = new_database();
    let path = directory.path().join("db");
    let locked = |e: &Error| matches!(e, Error::Locked { .. });
    assert_error(Database::open(&path), locked, "open for writing elsewhere");
    let output = crate::child::child("lock", &path).output().unwrap();
    let output = String::from_utf8_lossy(&output.stdout);
    assert!(output.lines().any(|line| reported(line) == Some("locked")), "{output}");

    // A loader uses the database like its handle.
    let loader = db.create_stream("s", schema(), StreamOptions::default()).unwrap().loader().unwrap();
    drop(db);
    assert_error(Database::open(&path), locked, "open for writing elsewhere");
    drop(loader);
    reopen(&path);
}

pub fn child(path: &Path) {
    match Database::open(path) {
        Err(Error::Locked { .. }) => report("locked"),
        other => report(&format!("{other:?}")),
    }
}

#[test]
fn only_a_database_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let no_database = |e: &Error| matches!(e, Error::NotFound(NotFound::Database { .. }));
    let path = directory.path();
    assert_error(Database::open_read_only(path.join("none")), no_database, "no such directory");
    assert_error(Database::open_read_only(path), no_database, "no marker file");
    std::fs::write(path.join("letter.txt"), "Dear reader").unwrap();
    assert_error(Database::open(path), no_database, "other files");
    assert_eq!(std::fs::read_dir(path).unwrap().count(), 1, "nothing is left in a foreign directory");

    let db = path.join("db");
    drop(Database::open(&db).unwrap());
    std::fs::write(db.join("tapedb.database"), "tapedb-database 2\n").unwrap();
    assert_error(Database::open(&db), no_database, "another version");
    std::fs::write(db.join("tapedb.database"), "?").unwrap();
    assert_error(Database::open_read_only(&db), no_database, "damaged");
}

#[test]
fn what_a_killed_process_left_half_made_is_removed() {
    let (directory, db) = new_database();
    drop(db);
    let path = directory.path().join("db");
    for half in [".new-1", ".deleted-2"] {
        std::fs::create_dir_all(path.join("streams").join(half).join("0")).unwrap();
    }
    std::fs::remove_file(path.join("tapedb.database")).unwrap();
    let db = reopen(&path);
    assert!(db.streams().unwrap().is_empty());
    assert_eq!(std::fs::read_dir(path.join("streams")).unwrap().count(), 0);
}

#[test]
fn errors_of_the_system_are_repeated_until_their_cause_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    // Maintenance would replace them.
    let db = Database::open_without_maintenance(&path).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    (0..50).for_each(|tens| append_ticks(&stream, tens * 10..tens * 10 + 10));
    drop((stream, db));
    for reversed in [false, true] {
        for live in [false, !reversed] {
            // Opened again, so that no file is open yet.
            let stream = reopen_without_maintenance(&path).stream("s").unwrap();
            let file = std::fs::read_dir(stream.path().join("0")).unwrap().map(|entry| entry.unwrap().path());
            let file = file.filter(|path| path.extension().is_some_and(|e| e == "log")).nth(2).unwrap();
            let away = file.with_extension("away");
            std::fs::rename(&file, &away).unwrap();
            let builder = if live { stream.cursor().live() } else { stream.cursor() };
            let mut cursor = if reversed { builder.reverse() } else { builder }.open().unwrap();
            let (mut refused, mut numbers) = (0, Vec::new());
            loop {
                match cursor.next() {
                    Ok(Some(message)) => numbers.push(number_of(&message)),
                    Ok(None) => break,
                    Err(error) => {
                        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
                        refused += 1;
                        if refused == 3 {
                            std::fs::rename(&away, &file).unwrap();
                        }
                    }
                }
            }
            let all = (0..500).collect::<Vec<_>>();
            assert_eq!(refused, 3);
            assert_eq!(numbers, if reversed { all.into_iter().rev().collect() } else { all });
        }
    }
}
