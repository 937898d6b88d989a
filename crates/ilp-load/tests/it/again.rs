//! Requests that are sent again: after lost answers, on a disk that was full, to a server that was killed. Each line is stored once.

use crate::support::{Client, place};
use std::collections::HashMap;
use std::sync::Arc;
use tapedb_access::User;
use tapedb_engine::{Access, Database};
use tapedb_ilp_load::{LineConnection, LineLoader, LoadOptions, Precision, WriteError};
use tapedb_log::sim::{SimStorage, Stop};

/// A generator of numbers, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn open(disk: &SimStorage) -> Database {
    Database::open_on(Arc::new(disk.clone()), "/db", Access::Write).unwrap()
}

fn loader(db: &Database) -> LineLoader {
    LineLoader::new(db.clone(), LoadOptions::default())
}

/// How often each number was stored, over all streams.
fn stored(db: &Database) -> HashMap<i64, usize> {
    let mut counts = HashMap::new();
    for name in ["a", "b"] {
        let Ok(stream) = db.stream(name) else { continue };
        let mut cursor = stream.cursor().open().unwrap();
        while let Some(message) = cursor.next().unwrap() {
            *counts.entry(message.time().0).or_default() += 1;
        }
    }
    counts
}

#[test]
fn each_line_is_stored_once_whatever_is_interrupted() {
    let mut random = Random(7);
    let disk = SimStorage::new(1);
    let mut capacity = 150_000;
    disk.set_capacity(Some(capacity));
    let mut db = open(&disk);
    let mut lines_loader = loader(&db);
    let (mut number, mut failures, mut repeated) = (0, 0, 0);
    for request in 0..60 {
        // Of one table or two; some are longer than a batch.
        let rows = if random.below(8) == 0 { 30_000 } else { 1 + random.below(900) };
        let tables = 1 + random.below(2);
        let lines: String = (number..number + rows)
            .map(|number| {
                let table = ["a", "b"][(number % tables) as usize];
                format!("{table},symbol=S{} n={number}i,text=\"{request}\" {number}\n", number % 5)
            })
            .collect();
        number += rows;
        let name = (random.below(3) == 0).then(|| format!("request {request}"));
        let mut is_answered = false;
        while !is_answered {
            let mut connection = LineConnection::default();
            let written = lines_loader.write_once(
                &mut connection,
                lines.as_bytes(),
                Precision::Nanoseconds,
                &User::unrestricted(),
                name.as_deref(),
            );
            match written {
                // The answer may be lost.
                Ok(_) => is_answered = random.below(3) > 0,
                Err(WriteError::Storage(_)) => {
                    failures += 1;
                    capacity += 20_000 + random.below(400_000);
                    disk.set_capacity(Some(capacity));
                }
                Err(error) => panic!("{error}"),
            }
            if random.below(4) == 0 {
                repeated += lines_loader.counts().repeated;
                drop((lines_loader, db));
                disk.restart(Stop::Kill);
                db = open(&disk);
                lines_loader = loader(&db);
            }
        }
    }
    repeated += lines_loader.counts().repeated;
    assert!(failures > 5 && repeated > 5, "{failures} failures, {repeated} repeated");
    let stored = stored(&db);
    assert_eq!(stored.len() as u64, number);
    assert!(stored.values().all(|count| *count == 1), "a line is stored twice");
}

#[test]
fn equal_requests_of_one_connection_are_all_stored() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let lines_loader = loader(&db);
    let write = |connection: &mut LineConnection| {
        let lines = b"a,symbol=S n=1i 1\n";
        lines_loader.write_once(connection, lines, Precision::Nanoseconds, &User::unrestricted(), None)
    };
    let mut connection = LineConnection::default();
    for _ in 0..300 {
        assert_eq!(write(&mut connection).unwrap(), 1);
    }
    // The answer to the last one may be lost, those to the others are not.
    assert_eq!(write(&mut LineConnection::default()).unwrap(), 0);
    assert_eq!(stored(&db)[&1], 300);
}

#[test]
fn a_request_of_a_stream_that_was_deleted_is_stored_again() {
    let place = place();
    let server = place.serve(LoadOptions::default(), None);
    let lines = b"t,symbol=A a=1 1\nu,symbol=A a=1 1\n";
    assert_eq!(Client::new(&server).post("/write", "", lines).status, 204);
    place.db.delete_stream("t").unwrap();
    assert_eq!(Client::new(&server).post("/write", "", lines).status, 204);
    assert_eq!((place.read("t").lines().count(), place.read("u").lines().count()), (1, 1));
    assert_eq!(Client::new(&server).post("/write", "", lines).status, 204);
    assert_eq!(server.gateway().loader().counts().repeated, 1);
}
