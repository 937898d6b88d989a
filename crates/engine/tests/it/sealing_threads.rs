//! Several threads seal the files of one space, and one of them fails, panics, or meets a change of the stream: the others end, the
//! parts stay in order, nothing is lost, and the next call continues.

use crate::support::*;
use crate::trap::{Step, Trap};
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Access, Database, Error, Stream, forced};
use tapedb_schema::Timestamp;

const MESSAGES: u64 = 400;
const DIRECTORY: &str = "db/streams/s/0";
const STEPS: [Step; 6] = [Step::Begin, Step::Write, Step::ReadBack, Step::Sync, Step::Name, Step::Commit];

/// A type that only a later schema has.
#[derive(Record, Debug, Default)]
#[record(message)]
struct Extra {
    level: u8,
}

fn open(trap: &Trap, access: Access) -> Database {
    Database::open_on(Arc::new(trap.clone()), "db", access).unwrap()
}

/// A database of which the stream has several complete log files, of batches of ten.
fn make(trap: &Trap) -> (Database, Stream) {
    let db = open(trap, Access::WriteWithoutMaintenance);
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    append(&stream, 0..MESSAGES);
    assert!(trap.files(DIRECTORY, "log").len() > 4);
    (db, stream)
}

fn append(stream: &Stream, numbers: std::ops::Range<u64>) {
    let mut loader = stream.loader().unwrap();
    for number in numbers {
        loader.append("A", Timestamp(number as i64), &Tick::of(number)).unwrap();
        if number % 10 == 9 {
            loader.flush().unwrap();
        }
    }
    loader.close().unwrap();
}

/// Seals with the help of a thread, as one of several callers; the panic of this thread or the other.
fn seal(stream: &Stream) -> Result<Result<u64, Error>, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(|| forced::two_threads(|| stream.seal())))
}

/// A panic that prints nothing.
fn panic_quietly() -> ! {
    resume_unwind(Box::new("a defect"))
}

/// The parts that the manifest lists follow each other, and their files are all there are.
fn check_files(trap: &Trap) {
    let manifest = trap.text(&format!("{DIRECTORY}/manifest"));
    let (mut next, mut named) = (0, Vec::new());
    for line in manifest.lines().filter_map(|line| line.strip_prefix("part ")) {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[0].parse::<u64>().unwrap(), next, "{manifest}");
        next = words[1].parse().unwrap();
        if words.len() > 4 {
            named.push(format!("{:0>20}-{}.seg", words[0], words[2]));
        }
    }
    named.sort();
    assert_eq!(trap.files(DIRECTORY, "seg"), named, "{manifest}");
}

fn read(stream: &Stream) -> Vec<u64> {
    drain(&mut stream.cursor().open().unwrap())
}

#[test]
fn a_thread_that_panics_leaves_nothing_open_and_nothing_behind() {
    for is_beside in [false, true] {
        for (step, nth) in STEPS.into_iter().flat_map(|step| [(step, 1), (step, 2)]) {
            if is_beside && step == Step::Commit {
                // The leader commits.
                continue;
            }
            let trap = Trap::default();
            let (db, stream) = make(&trap);
            let left = AtomicI64::new(nth);
            trap.set(move |at| {
                let is_here = (thread::current().name() == Some("tapedb-seal")) == is_beside;
                if at == step && is_here && left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    panic_quietly();
                }
                Ok(())
            });
            // The other thread may find no file left, and so may the leader after its first one; but it commits all.
            let panicked = seal(&stream).is_err();
            assert!(panicked || is_beside || nth == 2 && step != Step::Commit, "{step:?} {nth}");
            trap.clear();
            // A part whose commit panicked may be in the manifest or not: its file stays until the stream is opened.
            if step != Step::Commit {
                check_files(&trap);
            }
            // Neither the queue nor maintenance is held.
            let others: Vec<_> = thread::scope(|scope| {
                let callers: Vec<_> = (0..3).map(|_| scope.spawn(|| seal(&stream))).collect();
                callers.into_iter().map(|caller| caller.join().unwrap().unwrap().unwrap()).collect()
            });
            assert!(others.iter().sum::<u64>() <= MESSAGES);
            assert_eq!(read(&stream), (0..MESSAGES).collect::<Vec<_>>(), "{step:?} {nth}");
            drop((stream, db));
            let db = open(&trap, Access::WriteWithoutMaintenance);
            assert_eq!(read(&db.stream("s").unwrap()), (0..MESSAGES).collect::<Vec<_>>());
            assert_eq!(trap.files(DIRECTORY, "tmp"), Vec::<String>::new());
            check_files(&trap);
        }
    }
}

#[test]
fn a_maintenance_thread_that_panics_is_reported_and_callers_seal() {
    let trap = Trap::default();
    drop(make(&trap));
    trap.set(|at| if at == Step::Begin { panic_quietly() } else { Ok(()) });
    let db = open(&trap, Access::Write);
    let stream = db.stream("s").unwrap();
    while stream.maintenance_failure().is_none() {
        thread::yield_now();
    }
    assert!(stream.maintenance_failure().unwrap().contains("panic"));
    trap.clear();
    assert_eq!(stream.seal().unwrap(), MESSAGES);
    assert_eq!(read(&stream), (0..MESSAGES).collect::<Vec<_>>());
    check_files(&trap);
}

/// What happens to the stream while it is sealed.
#[derive(Debug, Clone, Copy)]
enum Meanwhile {
    Nothing,
    Append,
    Delete,
    Truncate,
    Purge,
    Clear,
    Schema,
    Rename,
    DeleteStream,
}

/// Makes a change; returns the numbers that it deletes.
fn change(db: &Database, stream: &Stream, change: Meanwhile, at: u64) -> std::ops::Range<u64> {
    let time = Timestamp(at as i64);
    match change {
        Meanwhile::Nothing => 0..0,
        Meanwhile::Append => {
            append(stream, MESSAGES..MESSAGES + 100);
            0..0
        }
        Meanwhile::Delete => {
            stream.delete(Timestamp(at as i64 / 2)..time, None::<[&str; 0]>).unwrap();
            at / 2..at
        }
        Meanwhile::Truncate => {
            stream.truncate(time).unwrap();
            at..MESSAGES
        }
        Meanwhile::Purge => {
            stream.purge(time).unwrap();
            0..at
        }
        Meanwhile::Clear => {
            stream.clear().unwrap();
            0..MESSAGES
        }
        Meanwhile::Schema => {
            let new = SchemaBuilder::new().with::<Extra>().with::<Quote>().with::<Tick>().finish();
            db.change_schema("s", new).unwrap();
            0..0
        }
        Meanwhile::Rename => {
            db.rename_stream("s", "t").unwrap();
            0..0
        }
        Meanwhile::DeleteStream => {
            db.delete_stream("s").unwrap();
            0..MESSAGES
        }
    }
}

#[test]
fn whatever_fails_in_one_of_several_threads_nothing_is_lost() {
    let mut random = Random::new();
    for round in 0..150 {
        let trap = Trap::default();
        let (db, stream) = make(&trap);
        let faults: u64 = random.next();
        let noise = Mutex::new(Random::from_seed(faults));
        let (panics, errors) = (random.chance(3), random.chance(2));
        trap.set(move |_| {
            let drawn = noise.lock().unwrap().next() % 64;
            match drawn {
                0 if panics => panic_quietly(),
                1..=2 if errors => Err(io::ErrorKind::StorageFull.into()),
                3 if errors => Err(io::Error::other("a failing disk")),
                // Another thread goes first.
                4..=9 => {
                    thread::yield_now();
                    Ok(())
                }
                _ => Ok(()),
            }
        });
        let kind = *random.pick(&[
            Meanwhile::Nothing,
            Meanwhile::Append,
            Meanwhile::Delete,
            Meanwhile::Truncate,
            Meanwhile::Purge,
            Meanwhile::Clear,
            Meanwhile::Schema,
            Meanwhile::Rename,
            Meanwhile::DeleteStream,
        ]);
        // A change must succeed, which a failing disk does not allow it.
        let kind = if errors || panics { Meanwhile::Nothing } else { kind };
        let at = random.below(MESSAGES as usize) as u64;
        let callers = 1 + random.below(3);
        let deleted = thread::scope(|scope| {
            let callers: Vec<_> = (0..callers).map(|_| scope.spawn(|| seal(&stream))).collect();
            let deleted = change(&db, &stream, kind, at);
            for caller in callers {
                match caller.join().unwrap() {
                    Ok(Ok(sealed)) => assert!(sealed <= MESSAGES + 100, "round {round}"),
                    Ok(Err(error)) => {
                        let is_gone = matches!(error, Error::Stale(_) | Error::NotFound(_));
                        assert!(errors || is_gone, "round {round}, {kind:?}: {error}");
                    }
                    Err(_) => assert!(panics, "round {round}"),
                }
            }
            deleted
        });
        trap.clear();
        drop(stream);
        let (name, end) = match kind {
            Meanwhile::Rename => ("t", MESSAGES),
            Meanwhile::Append => ("s", MESSAGES + 100),
            Meanwhile::DeleteStream => {
                assert!(db.stream("s").is_err());
                continue;
            }
            _ => ("s", MESSAGES),
        };
        let expected: Vec<u64> = (0..end).filter(|number| !deleted.contains(number)).collect();
        let stream = db.stream(name).unwrap();
        assert_eq!(read(&stream), expected, "round {round}, {kind:?}");
        stream.seal().unwrap();
        assert_eq!(stream.seal().unwrap(), 0, "round {round}, {kind:?}");
        assert_eq!(read(&stream), expected, "round {round}, {kind:?}");
        if name == "s" && !panics {
            check_files(&trap);
        }
        drop((stream, db));
        let db = open(&trap, Access::WriteWithoutMaintenance);
        assert_eq!(read(&db.stream(name).unwrap()), expected, "round {round}, {kind:?}");
        if name == "s" {
            check_files(&trap);
        }
    }
}
