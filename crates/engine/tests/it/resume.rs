//! Loaders that resume where their source is: whatever was interrupted, each message of a source is stored once and in order.

use crate::support::*;
use std::sync::Arc;
use tapedb_engine::{Access, Database, Error, Invalid, Loader};
use tapedb_log::sim::SimStorage;
use tapedb_schema::Timestamp;

/// Appends messages of `numbers`, whose positions are their numbers, one by one, as columns, or as both.
fn append(loader: &mut Loader, numbers: std::ops::Range<u64>, random: &mut Random) -> Result<(), Error> {
    let mut at = numbers.start;
    while at < numbers.end {
        let end = numbers.end.min(at + 1 + random.below(700) as u64);
        if random.chance(2) {
            let rows = Columns::of((at..end).map(|number| (number as i64, "A", number)));
            rows.append_ticks(loader)?;
        } else {
            (at..end)
                .try_for_each(|number| loader.append("A", Timestamp(number as i64), &Tick::of(number)))?;
        }
        at = end;
    }
    Ok(())
}

#[test]
fn each_message_of_a_source_is_stored_once() {
    for _ in 0..6 {
        let mut random = Random::new();
        let disk = SimStorage::new(random.next());
        let open = || Database::open_on(Arc::new(disk.clone()), "/db", Access::Write).unwrap();
        let mut db = open();
        db.create_stream("s", schema(), small_files()).unwrap();
        let is_request = random.chance(2);
        let resume = |loader: &mut Loader| match is_request {
            true => loader.resume_request(9).unwrap(),
            false => loader.resume(9).unwrap(),
        };
        let mut known = 0;
        for _ in 0..25 {
            let stream = db.stream("s").unwrap();
            let stored = stream.stats().unwrap().next_sequence;
            let mut loader = stream.loader().unwrap();
            loader.set_batch_bytes(1 << (10 + random.below(6)));
            assert_eq!(resume(&mut loader), stored);
            // The source begins anywhere at or before what is stored.
            let from = random.below(stored as usize + 1) as u64;
            loader.set_position(from).unwrap();
            assert_eq!(loader.position(), from);
            known = stored + random.below(3_000) as u64;
            if random.chance(3) {
                disk.set_capacity(Some(1));
            }
            let appended = append(&mut loader, from..known, &mut random);
            if appended.is_ok() {
                assert_eq!(loader.position(), known);
            }
            match random.below(4) {
                0 => drop(loader.discard()),
                1 => drop(loader.flush()),
                _ => {}
            }
            disk.set_capacity(None);
            if random.chance(3) {
                loader.discard();
                // The same loader continues where it is.
                let position = loader.position();
                assert_eq!(position, stream.stats().unwrap().next_sequence);
                append(&mut loader, position..known.max(position), &mut random).unwrap();
            }
            drop(loader);
            if random.chance(3) {
                stream.seal().unwrap();
            }
            drop(stream);
            if random.chance(3) {
                drop(db);
                db = open();
            }
        }
        let stream = db.stream("s").unwrap();
        let mut loader = stream.loader().unwrap();
        resume(&mut loader);
        append(&mut loader, 0..known, &mut random).unwrap();
        loader.close().unwrap();
        let read = drain(&mut stream.cursor().open().unwrap());
        assert!(read.len() as u64 >= known);
        assert_eq!(read, (0..read.len() as u64).collect::<Vec<_>>());
    }
}

#[test]
fn sources_have_holes_and_do_not_know_each_other() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let mut loader = stream.loader().unwrap();
    assert_eq!(loader.resume(1).unwrap(), 0);
    for position in [3, 7, 1 << 40] {
        loader.set_position(position).unwrap();
        loader.append("A", Timestamp(0), &Tick::of(position)).unwrap();
    }
    let position = |error: &Error| matches!(error, Error::Invalid(Invalid::Position { .. }));
    assert_error(loader.set_position(5), position, "messages of later positions wait");
    assert_error(loader.resume(2), position, "messages wait in the loader");
    loader.flush().unwrap();
    assert_eq!(loader.position(), (1 << 40) + 1);
    assert_eq!(loader.resume(2).unwrap(), 0);
    assert_eq!(loader.resume_request(1).unwrap(), 0);
    assert_eq!(loader.resume(1).unwrap(), (1 << 40) + 1);
    assert_error(loader.resume(0), position, "0 is no source");
    assert_error(loader.set_position(1 << 63), position, "below 2^63");
    assert_error(stream.loader().unwrap().set_position(1), position, "call resume first");
    assert_eq!(stream.stats().unwrap().next_sequence, 3);
}

#[test]
fn two_loaders_of_one_source_store_nothing_twice() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let mut loaders = [stream.loader().unwrap(), stream.loader().unwrap()];
    for loader in &mut loaders {
        loader.resume(1).unwrap();
        (0..10).for_each(|number| loader.append("A", Timestamp(0), &Tick::of(number)).unwrap());
    }
    let [mut first, mut second] = loaders;
    first.flush().unwrap();
    let position = |error: &Error| matches!(error, Error::Invalid(Invalid::Position { .. }));
    assert_error(second.flush(), position, "another loader");
    second.discard();
    assert_eq!((second.position(), stream.stats().unwrap().next_sequence), (10, 10));
}
