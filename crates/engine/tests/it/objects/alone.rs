//! A database from its store alone.

use super::store::{Fault, FaultyStore};
use super::*;
use tapedb_engine::NotFound;

#[test]
fn a_store_alone_reads_as_the_database_and_makes_one_again() {
    for seed in 0..3 {
        let directory = tempfile::tempdir().unwrap();
        let (url, store) = FaultyStore::new(&format!("alone{seed}"));
        let db = database(directory.path());
        let options = StreamOptions { offload: offload_to(&url), ..StreamOptions::default() };
        let stream = filled(&db, "us quotes/é", options, seed);
        db.create_stream("other", schema(), StreamOptions::default()).unwrap();
        // Two versions of the schema, a symbol with another name, and many records.
        let schema = format!("{}", stream.schema()).replace("number: u64,", "number: u64,\n    more: i64?,");
        stream.seal().unwrap();
        stream.offload(None).unwrap();
        for round in 0..40 {
            let symbol = format!("S%{round}\n");
            let mut loader = stream.loader().unwrap();
            loader.append(&symbol, Timestamp(600 + round), &Tick::of(600)).unwrap();
            loader.close().unwrap();
            stream.seal().unwrap();
            stream.offload(None).unwrap();
        }
        stream.rename_symbol("S%7\n", "renamed").unwrap();
        stream.delete(Timestamp(620)..Timestamp(630), None::<[&str; 0]>).unwrap();
        stream.offload(None).unwrap();
        let expected = seen(&stream);
        let before = store.keys().len();
        let alone = Database::open_object_store(&url).unwrap();
        assert_eq!(alone.streams().unwrap(), ["us quotes/é"]);
        let read = alone.stream("us quotes/é").unwrap();
        assert_eq!(seen(&read), expected, "seed {seed}");
        assert_eq!(read.symbols(), stream.symbols());
        assert!(matches!(read.loader(), Err(Error::ReadOnly)));
        let target = directory.path().join("again");
        let mut copied = 0;
        let restored = Database::restore_object_store(&url, &target, |bytes| {
            copied += bytes;
            ControlFlow::Continue(())
        });
        let restored = restored.unwrap();
        assert_eq!((restored, restored.bytes), (stream.offloaded(), copied));
        let again = reopen_without_maintenance(&target);
        let stream_again = again.stream("us quotes/é").unwrap();
        assert_eq!((seen(&stream_again), stream_again.options().offload), (expected, None));
        assert_eq!(damage(&again, "us quotes/é", false), [""; 0]);
        // It goes on as a database of its own.
        fill(&stream_again, 700..800, seed);
        stream_again.seal().unwrap();
        assert_eq!(store.keys().len(), before);
        // The place follows a rename, another schema, and the end of the stream.
        drop(stream);
        let stream = db.rename_stream("us quotes/é", "renamed").unwrap();
        let stream = db
            .change_schema("renamed", schema.parse().unwrap())
            .map(|_| drop(stream))
            .and_then(|()| db.stream("renamed"))
            .unwrap();
        stream.offload(None).unwrap();
        let alone = Database::open_object_store(&url).unwrap();
        assert_eq!(alone.streams().unwrap(), ["renamed"]);
        let mut cursor = alone.stream("renamed").unwrap().cursor().open().unwrap();
        let mut count = 0;
        while let Some(message) = cursor.next().unwrap() {
            assert!(message.record().is_ok());
            count += 1;
        }
        assert!(count > 500);
        drop(stream);
        db.delete_stream("renamed").unwrap();
        assert_eq!(store.keys(), ["tapedb-owner"]);
        assert!(Database::open_object_store(&url).unwrap().streams().unwrap().is_empty());
    }
}

#[test]
fn a_place_without_a_database_and_damaged_records_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let (url, store) = FaultyStore::new("no_database");
    let none = Database::open_object_store(&url).unwrap_err();
    assert!(matches!(none, Error::NotFound(NotFound::Database { .. })), "{none}");
    let db = database(directory.path());
    let stream = filled(&db, "s", StreamOptions { offload: offload_to(&url), ..StreamOptions::default() }, 2);
    stream.seal().unwrap();
    stream.offload(None).unwrap();
    let records: Vec<String> = store.keys().into_iter().filter(|key| key.contains("/records/")).collect();
    for key in &records {
        let mut whole = Vec::new();
        store.change(|objects| {
            whole = objects[key].clone();
            objects.get_mut(key).unwrap()[100] ^= 1;
        });
        let error = Database::open_object_store(&url).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains("checksum"), "{error}");
        store.change(|objects| drop(objects.insert(key.clone(), whole)));
    }
    store.set(Some(Fault::Denied));
    let error = Database::open_object_store(&url).unwrap_err().to_string();
    assert!(error.contains("403") && error.contains(&url), "{error}");
    store.set(None);
    // A segment of other content than its name states is not restored.
    let segment = store.keys().into_iter().find(|key| key.ends_with(".seg.0")).unwrap();
    store.change(|objects| *objects.get_mut(&segment).unwrap().last_mut().unwrap() ^= 1);
    let refused =
        Database::restore_object_store(&url, directory.path().join("to"), |_| ControlFlow::Continue(()));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("checksum in its name"), "{refused}");
}
