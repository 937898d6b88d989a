//! A store that fails, is changed by others, or belongs to another database.

use super::store::{Fault, FaultyStore};
use super::*;
use std::collections::BTreeMap;
use tapedb_engine::{MessageColumns, Symbols};

/// A database with one stream whose sealed messages may go to the store.
fn sealed(directory: &Path, url: &str, seed: u64) -> (Database, Stream) {
    let db = database(directory);
    let stream =
        filled(&db, "s", StreamOptions { offload: offload_to(url), ..StreamOptions::default() }, seed);
    stream.seal().unwrap();
    (db, stream)
}

#[test]
fn every_request_that_fails_leaves_all_readable_and_is_made_up_for() {
    // How many requests one run makes.
    let directory = tempfile::tempdir().unwrap();
    let (url, store) = FaultyStore::new("count");
    let few = |directory: &Path, url: &str| {
        let db = database(directory);
        let options = StreamOptions { offload: offload_to(url), ..small_files() };
        let stream = db.create_stream("s", schema(), StreamOptions { spaces: 2, ..options }).unwrap();
        fill(&stream, 0..200, 5);
        stream.seal().unwrap();
        (db, stream)
    };
    let (_db, stream) = few(directory.path(), &url);
    let before = store.requests();
    stream.offload(None).unwrap();
    let requests = store.requests() - before;
    let expected = seen(&stream);
    let whole = store.keys().into_iter().filter(|key| key.ends_with(".seg.0")).count();
    for request in 0..requests {
        for is_done in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let (url, store) = FaultyStore::new(&format!("fails {request} {is_done}").replace(' ', "-"));
            let (db, stream) = few(directory.path(), &url);
            store.fail_after(request, is_done);
            let failed = stream.offload(None);
            assert!(matches!(failed, Err(Error::Io { .. })), "request {request}: {failed:?}");
            assert_eq!(seen(&stream), expected, "request {request}");
            // The process is killed there.
            drop((stream, db));
            let db = reopen_without_maintenance(&directory.path().join("db"));
            let stream = db.stream("s").unwrap();
            assert_eq!(seen(&stream), expected);
            stream.offload_and_sweep(None, Duration::ZERO).unwrap();
            assert_eq!((names(&stream, 0, "seg"), names(&stream, 1, "seg")), (0, 0));
            assert_eq!(seen(&stream), expected);
            let left = store.keys().into_iter().filter(|key| key.ends_with(".seg.0")).count();
            assert_eq!((left, damage(&db, "s", true)), (whole, vec![]), "request {request}");
        }
    }
}

#[test]
fn a_store_that_is_away_stops_nothing_but_old_reads() {
    let directory = tempfile::tempdir().unwrap();
    let (url, store) = FaultyStore::new("away");
    let (db, stream) = sealed(directory.path(), &url, 6);
    stream.offload(None).unwrap();
    let all = rows(stream.cursor());
    for fault in [Fault::Away, Fault::Denied, Fault::Cut] {
        drop(fs::remove_dir_all(directory.path().join("db/object-cache")));
        store.set(Some(fault));
        fill(&stream, 600..700, 6);
        stream.seal().unwrap();
        let mut cursor = stream.cursor().from(Timestamp(650)).open().unwrap();
        assert!(!drain(&mut cursor).is_empty());
        // Counting and opening need no request.
        let opened = Database::open_read_only(directory.path().join("db")).unwrap();
        let reader = opened.stream("s").unwrap();
        assert!(reader.stats().unwrap().messages > 600);
        let mut cursor = reader.cursor().open().unwrap();
        let error = cursor.next().unwrap_err().to_string();
        assert!(error.contains(&url) && error.contains("streams/") && error.contains("messages"), "{error}");
        assert!(stream.offload(None).is_err() || fault == Fault::Cut);
        assert_eq!(damage(&db, "s", false), [""; 0]);
        store.set(None);
        // The same cursor goes on.
        let numbers = drain(&mut cursor);
        assert!(
            numbers.len() > all.len()
                && numbers.starts_with(&all.iter().map(|row| row.3).collect::<Vec<_>>()[..50])
        );
    }
}

#[test]
fn wrong_bodies_are_damage_and_never_messages() {
    let directory = tempfile::tempdir().unwrap();
    let (url, store) = FaultyStore::new("wrong");
    let (db, stream) = sealed(directory.path(), &url, 7);
    let expected = rows(stream.cursor());
    store.set(Some(Fault::Wrong));
    // What is read back differs: the local file stays.
    let refused = stream.offload(None).unwrap_err().to_string();
    assert!(refused.contains("differs"), "{refused}");
    assert_eq!((rows(stream.cursor()), names(&stream, 0, "foot")), (expected.clone(), 0));
    store.set(None);
    stream.offload(None).unwrap();
    store.set(Some(Fault::Wrong));
    let mut cursor = stream.cursor().open().unwrap();
    let (mut found, mut errors) = (Vec::new(), 0);
    loop {
        match cursor.next() {
            Ok(Some(message)) => found.push(number_of(&message)),
            Ok(None) => break,
            Err(_) => errors += 1,
        }
    }
    assert!(errors > 0 && found.len() < expected.len());
    drop(cursor);
    assert!(!damage(&db, "s", true).is_empty());
}

#[test]
fn objects_that_are_missing_shortened_or_of_others_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let (url, store) = FaultyStore::new("changed");
    let (db, stream) = sealed(directory.path(), &url, 8);
    stream.offload(None).unwrap();
    let segments: Vec<String> = store.keys().into_iter().filter(|key| key.ends_with(".seg.0")).collect();
    let [first, second, ..] = &segments[..] else { panic!("{segments:?}") };
    let kept = store.keys().len();
    type Objects = BTreeMap<String, Vec<u8>>;
    let change = |change: &dyn Fn(&mut Objects)| {
        drop(fs::remove_dir_all(directory.path().join("db/object-cache")));
        let mut before = Default::default();
        store.change(|objects| {
            before = objects.clone();
            change(objects);
        });
        // A reader that has nothing in memory.
        let beside = Database::open_read_only(directory.path().join("db")).unwrap();
        let mut cursor = beside.stream("s").unwrap().cursor().open().unwrap();
        let (mut found, mut errors) = (0, Vec::new());
        for _ in 0..2000 {
            match cursor.next() {
                Ok(Some(message)) => found += u64::from(number_of(&message) < 600),
                Ok(None) => break,
                Err(error) => errors.push(error.to_string()),
            }
        }
        assert!(!damage(&db, "s", true).is_empty());
        store.change(|objects| *objects = before);
        (found, errors)
    };
    let (a, b) = (first.clone(), second.clone());
    let (found, errors) = change(&move |objects| drop(objects.remove(&a)));
    assert!(found > 0 && errors[0].contains(first) && errors[0].contains("404"), "{errors:?}");
    let a = first.clone();
    let (_, errors) = change(&move |objects| objects.get_mut(&a).unwrap().truncate(100));
    assert!(errors[0].contains(first) && errors[0].contains("bytes"), "{errors:?}");
    let a = first.clone();
    let (_, errors) = change(&move |objects| {
        let other = objects[&b].clone();
        objects.insert(a.clone(), other);
    });
    assert!(!errors.is_empty());
    assert_eq!(store.keys().len(), kept);
}

#[test]
fn a_place_belongs_to_one_database_and_a_store_must_not_overwrite() {
    let directory = tempfile::tempdir().unwrap();
    let (url, store) = FaultyStore::new("owner");
    store.set(Some(Fault::Overwrites));
    let db = database(directory.path());
    let options = StreamOptions { offload: offload_to(&url), ..StreamOptions::default() };
    let refused = db.create_stream("s", schema(), options).unwrap_err().to_string();
    assert!(refused.contains("conditional put"), "{refused}");
    assert!(db.streams().unwrap().is_empty() && store.keys().is_empty());
    store.set(None);
    let stream = filled(&db, "s", StreamOptions::default(), 1);
    stream.alter(StreamOptions { offload: offload_to(&url), ..stream.options() }).unwrap();
    let other = Database::open(directory.path().join("other")).unwrap();
    let refused = other.create_stream("s", schema(), options).unwrap_err().to_string();
    assert!(refused.contains("another prefix"), "{refused}");
    let denied = StreamOptions { offload: offload_to("nowhere://x"), ..StreamOptions::default() };
    let refused = other.create_stream("s", schema(), denied).unwrap_err().to_string();
    assert!(refused.contains("nowhere://"), "{refused}");
}

#[test]
fn a_copy_that_is_behind_does_not_write_to_the_place() {
    let directory = tempfile::tempdir().unwrap();
    let (url, store) = FaultyStore::new("copies");
    let (db, stream) = sealed(directory.path(), &url, 9);
    drop((stream, db));
    let copy = directory.path().join("copy");
    Database::open_read_only(directory.path().join("db"))
        .unwrap()
        .backup(&copy, tapedb_engine::DeletedStreams::Delete, |_| ControlFlow::Continue(()))
        .unwrap();
    Database::open_read_only(&copy).unwrap().restore_identity(&copy).unwrap();
    let db = reopen_without_maintenance(&directory.path().join("db"));
    db.stream("s").unwrap().offload(None).unwrap();
    let objects = store.keys();
    let copied = reopen_without_maintenance(&copy);
    let stream = copied.stream("s").unwrap();
    let expected = seen(&stream);
    let refused = stream.offload_and_sweep(None, Duration::ZERO).unwrap_err().to_string();
    assert!(refused.contains("newer copy"), "{refused}");
    assert_eq!((store.keys().len(), seen(&stream)), (objects.len(), expected));
}

#[test]
fn a_copy_goes_on_when_the_other_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let (url, store) = FaultyStore::new("take-over");
    let (db, stream) = sealed(directory.path(), &url, 12);
    stream.offload(None).unwrap();
    let expected = seen(&stream);
    drop((stream, db));
    let copy = directory.path().join("copy");
    let original = Database::open_read_only(directory.path().join("db")).unwrap();
    original.backup(&copy, tapedb_engine::DeletedStreams::Delete, |_| ControlFlow::Continue(())).unwrap();
    Database::open_read_only(&copy).unwrap().restore_identity(&copy).unwrap();
    let copied = reopen_without_maintenance(&copy);
    let stream = copied.stream("s").unwrap();
    assert_eq!(seen(&stream), expected);
    let refused = stream.offload_and_sweep(None, Duration::ZERO).unwrap_err().to_string();
    assert!(refused.contains("--take-over"), "{refused}");
    stream.take_over_objects().unwrap();
    append_ticks(&stream, 600..700);
    stream.seal().unwrap();
    assert!(stream.offload_and_sweep(None, Duration::ZERO).unwrap().segments > 0);
    // The other one is not gone after all.
    let db = reopen_without_maintenance(&directory.path().join("db"));
    let stream = db.stream("s").unwrap();
    let objects = store.keys();
    assert!(stream.offload_and_sweep(None, Duration::ZERO).is_err());
    assert_eq!((store.keys(), seen(&stream)), (objects, expected));
}

#[test]
fn a_reader_that_is_slow_loses_nothing_that_is_not_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let (url, store) = FaultyStore::new("slow");
    let (_db, stream) = sealed(directory.path(), &url, 10);
    stream.offload(None).unwrap();
    let all: Vec<u64> = rows(stream.cursor()).iter().map(|row| row.3).collect();
    let beside = Database::open_read_only(directory.path().join("db")).unwrap();
    let (mut here, mut there) =
        (stream.cursor().open().unwrap(), beside.stream("s").unwrap().cursor().open().unwrap());
    let [first, again] = [&mut here, &mut there].map(|cursor| number_of(&cursor.next().unwrap().unwrap()));
    assert_eq!((first, again), (all[0], all[0]));
    stream.delete(Timestamp(300).., None::<[&str; 0]>).unwrap();
    let before = store.keys().len();
    stream.offload_and_sweep(None, Duration::ZERO).unwrap();
    assert!(store.keys().len() <= before);
    let kept: Vec<u64> = rows(stream.cursor()).iter().map(|row| row.3).collect();
    for cursor in [&mut here, &mut there] {
        let found: Vec<u64> = std::iter::once(first).chain(drain(cursor)).collect();
        assert!(kept.iter().all(|number| found.contains(number)), "{} of {}", found.len(), kept.len());
        assert!(found.iter().all(|number| all.contains(number)));
    }
}

#[test]
fn chunks_are_read_once_and_come_from_the_disk_then() {
    let directory = tempfile::tempdir().unwrap();
    let (url, store) = FaultyStore::new("cached");
    let (_db, stream) = sealed(directory.path(), &url, 11);
    let expected = seen(&stream);
    stream.offload(None).unwrap();
    let gets = store.gets();
    assert_eq!(seen(&stream), expected);
    let read = store.gets() - gets;
    assert!(read <= stream.offloaded().segments, "{read}");
    // Another process has nothing in memory.
    let beside = Database::open_read_only(directory.path().join("db")).unwrap();
    assert_eq!(seen(&beside.stream("s").unwrap()), expected);
    assert_eq!(store.gets() - gets, read);
}

#[test]
fn a_scan_reads_whole_chunks_and_a_search_what_it_wants() {
    let directory = tempfile::tempdir().unwrap();
    let (url, store) = FaultyStore::new("chunks");
    let db = database(directory.path());
    let options = StreamOptions { offload: offload_to(&url), ..StreamOptions::default() };
    let stream = db.create_stream("s", "message M { n: i64 }".parse().unwrap(), options).unwrap();
    let messages = 2_200_000i64;
    for first in (0..messages).step_by(100_000) {
        let times: Vec<i64> = (first..first + 100_000).collect();
        // Numbers that take as many bytes as they have.
        let numbers: Vec<i64> = times.iter().map(|time| mix(*time as u64) as i64).collect();
        let mut loader = stream.loader().unwrap();
        let columns = MessageColumns::new("M", &times, Symbols::One("A")).field("n", &numbers);
        loader.append_columns(&columns).unwrap();
        loader.close().unwrap();
    }
    stream.seal().unwrap();
    let moved = stream.offload(None).unwrap();
    assert!(moved.bytes > 16 << 20, "{moved:?}");
    let chunks = moved.bytes.div_ceil(8 << 20) + moved.segments;
    let cold = || {
        drop(fs::remove_dir_all(directory.path().join("db/object-cache")));
        Database::open_read_only(directory.path().join("db")).unwrap().stream("s").unwrap()
    };
    let count = |cursor: CursorBuilder| {
        let (mut cursor, mut count) = (cursor.open().unwrap(), 0);
        while let Some(message) = cursor.next().unwrap() {
            count += i64::from(message.body().len() == 8);
        }
        count
    };
    let (gets, bytes) = (store.gets(), store.bytes_read());
    assert_eq!(count(cold().cursor()), messages);
    let (gets, bytes) = (store.gets() - gets, store.bytes_read() - bytes);
    assert!(gets <= chunks && bytes <= moved.bytes, "{gets} of {chunks}, {bytes} of {moved:?}");
    for reversed in [false, true] {
        let (gets, bytes) = (store.gets(), store.bytes_read());
        let cursor = cold().cursor().from(Timestamp(1_000_000)).to(Timestamp(1_000_100));
        assert_eq!(count(if reversed { cursor.reverse() } else { cursor }), 100);
        let (gets, bytes) = (store.gets() - gets, store.bytes_read() - bytes);
        assert!(gets <= 2 && bytes < 2 << 20, "{gets}, {bytes}");
    }
    // Counting by heads and searching by values read nothing.
    let (gets, stream) = (store.gets(), cold());
    assert_eq!(stream.columns("M", ["n"]).count().unwrap(), messages as u64);
    assert_eq!(store.gets(), gets);
}

#[test]
fn a_lost_manifest_is_made_again_of_feet() {
    let directory = tempfile::tempdir().unwrap();
    let (url, _store) = FaultyStore::new("feet");
    let db = database(directory.path());
    let options = StreamOptions { offload: offload_to(&url), ..small_files() };
    let stream = db.create_stream("s", schema(), options).unwrap();
    append_ticks(&stream, 0..300);
    stream.seal().unwrap();
    stream.offload(None).unwrap();
    append_ticks(&stream, 300..400);
    stream.seal().unwrap();
    let (expected, path) = (rows(stream.cursor()), stream.path().to_path_buf());
    drop((stream, db));
    for name in ["manifest", "manifest.copy"] {
        fs::remove_file(path.join("0").join(name)).unwrap();
    }
    let db = reopen_without_maintenance(&directory.path().join("db"));
    assert!(!db.repair("s", true).unwrap().is_empty());
    let stream = db.stream("s").unwrap();
    assert_eq!(rows(stream.cursor()), expected);
    assert!(stream.offloaded().segments > 0);
}
