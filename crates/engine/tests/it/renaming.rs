//! A stream is renamed while it is in use.

use crate::support::*;
use tapedb_engine::{Database, Error, Invalid, NotFound, Position, Stale, StreamOptions};

#[test]
fn a_renamed_stream_is_the_same_stream() {
    let (directory, db) = new_database();
    let old = db.create_stream("old", schema(), small_files()).unwrap();
    append_ticks(&old, 0..500);
    old.seal().unwrap();
    append_ticks(&old, 500..1000);
    let elsewhere = Database::open_read_only(db.path()).unwrap();
    let mut cursors = [
        old.cursor().live().open().unwrap(),
        elsewhere.stream("old").unwrap().cursor().live().open().unwrap(),
    ];
    for cursor in &mut cursors {
        (0..10).for_each(|number| assert_eq!(number_of(&cursor.next().unwrap().unwrap()), number));
    }
    let position: Position = cursors[0].position().to_string().parse().unwrap();
    let mut loader = old.loader().unwrap();

    let new = db.rename_stream("old", "a/new").unwrap();
    assert_eq!((new.name(), db.streams().unwrap()), ("a/new", vec!["a/new".to_string()]));
    let is_renamed =
        |error: &Error| matches!(error, Error::Stale(Stale::Renamed { new, .. }) if new == "a/new");
    loader.append("A", tapedb_schema::Timestamp(7), &Tick::of(7)).unwrap();
    assert_error(loader.flush(), is_renamed, "is called");
    assert_error(old.seal(), is_renamed, "is called");
    assert_error(old.alter(old.options()), is_renamed, "is called");
    for cursor in &mut cursors {
        // Messages in memory may still be returned; then it is reported, once.
        let error = loop {
            match cursor.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("reported nothing"),
                Err(error) => break error,
            }
        };
        assert!(is_renamed(&error), "{error}");
        assert!(cursor.next().unwrap().is_none());
    }
    let mut resumed_here = new.cursor().live().resume(&position).open().unwrap();
    assert_eq!(drain(&mut resumed_here), (10..1000).collect::<Vec<_>>());

    // Another stream of the old name is another stream.
    let other = db.create_stream("old", schema(), StreamOptions::default()).unwrap();
    append_ticks(&other, 0..20);
    let resumed = other.cursor().live().resume(&position).open();
    assert_error(
        resumed.map(drop),
        |e| matches!(e, Error::Invalid(Invalid::Position { .. })),
        "another stream",
    );
    append_ticks(&new, 1000..1010);
    assert_error(
        db.rename_stream("old", "a/new"),
        |e| matches!(e, Error::Invalid(Invalid::StreamExists { .. })),
        "already",
    );
    assert_error(
        db.rename_stream("none", "x"),
        |e| matches!(e, Error::NotFound(NotFound::Stream { .. })),
        "a/new",
    );
    assert_error(
        db.rename_stream("old", ""),
        |e| matches!(e, Error::Invalid(Invalid::StreamName { .. })),
        "empty",
    );
    assert_error(elsewhere.rename_stream("old", "x"), |e| matches!(e, Error::ReadOnly), "reading only");
    drop((resumed_here, loader, cursors, old, new, other, db));
    let db = reopen(&directory.path().join("db"));
    db.rename_stream("a/new", "b").unwrap();
    assert_eq!(drain(&mut db.stream("b").unwrap().cursor().open().unwrap()), (0..1010).collect::<Vec<_>>());
    assert_eq!(drain(&mut db.stream("old").unwrap().cursor().open().unwrap()).len(), 20);
}

#[test]
fn handles_of_the_old_name_do_not_affect_another_stream_of_it() {
    let (directory, db) = new_database();
    let old = db.create_stream("old", schema(), StreamOptions::default()).unwrap();
    let (mut loader, cursor) = (old.loader().unwrap(), old.cursor().live().open().unwrap());
    for number in 0..200 {
        loader.append("A", tapedb_schema::Timestamp(number as i64), &Tick::of(number)).unwrap();
        loader.flush().unwrap();
    }
    let new = db.rename_stream("old", "new").unwrap();
    append_ticks(&new, 200..400);
    drop((loader, cursor, old));
    append_ticks(&new, 400..450);
    assert_eq!(drain(&mut new.cursor().open().unwrap()), (0..450).collect::<Vec<_>>());
    let path = db.path().to_path_buf();
    drop((new, db));
    let elsewhere = Database::open_read_only(&path).unwrap();
    assert_eq!(drain(&mut elsewhere.stream("new").unwrap().cursor().open().unwrap()).len(), 450);
    drop(directory);
}
