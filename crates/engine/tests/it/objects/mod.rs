//! Segments in an object store: reading is as before, whatever the store does.

mod alone;
mod faults;
mod stops;
mod store;

use crate::support::*;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;
use store::FaultyStore;
use tapedb_engine::{
    CheckDepth, CheckEvent, CursorBuilder, Database, Error, Offload, Offloaded, Severity, Stream,
    StreamOptions, Values,
};
use tapedb_schema::Timestamp;

const SYMBOLS: [&str; 4] = ["A", "B", "C", "D"];

fn offload_to(url: &str) -> Option<Offload> {
    Some(Offload { url: url.parse().unwrap(), after: Some(Duration::ZERO) })
}

/// A stream of small log files, with messages of two types and four symbols, some late, some deleted.
fn filled(db: &Database, name: &str, options: StreamOptions, seed: u64) -> Stream {
    let stream = db
        .create_stream(name, schema(), StreamOptions { spaces: 2, file_bytes_max: 4 << 10, ..options })
        .unwrap();
    fill(&stream, 0..600, seed);
    stream
}

fn fill(stream: &Stream, numbers: std::ops::Range<u64>, seed: u64) {
    let mut loaders = [stream.loader_in(0).unwrap(), stream.loader_in(1).unwrap()];
    for number in numbers.clone() {
        let random = mix(number ^ seed);
        let late = if random.is_multiple_of(7) { random % 100 } else { 0 };
        let (time, symbol) = (Timestamp(number as i64 - late as i64), SYMBOLS[(random >> 8) as usize % 4]);
        let loader = &mut loaders[(random >> 16) as usize % 2];
        match random >> 20 & 1 {
            0 => loader.append(symbol, time, &Tick::of(number)).unwrap(),
            _ => loader.append(symbol, time, &Quote::of(number)).unwrap(),
        };
        if random.is_multiple_of(11) {
            loader.flush().unwrap();
        }
    }
    for loader in loaders {
        loader.close().unwrap();
    }
    let from = (numbers.start + mix(seed) % 300) as i64;
    stream.delete(Timestamp(from)..Timestamp(from + 20), Some(["B", "C"])).unwrap();
}

/// What a cursor gives: time, sequence number, symbol, number of each message.
fn rows(cursor: CursorBuilder) -> Vec<(i64, u64, String, u64)> {
    let mut cursor = cursor.open().unwrap();
    let mut rows = Vec::new();
    while let Some(message) = cursor.next().unwrap() {
        let (time, symbol) = (message.time().0, message.symbol().to_string());
        rows.push((time, message.sequence(), symbol, number_of(&message)));
    }
    rows
}

/// What readers of all kinds get.
type Seen = (Vec<Vec<(i64, u64, String, u64)>>, Vec<(i64, u64, i64)>, u64);

fn seen(stream: &Stream) -> Seen {
    let all = || stream.cursor();
    let cursors = [
        all(),
        all().reverse(),
        all().symbols(["B"]),
        all().symbols(["A", "D"]).types(["Quote"]),
        all().from(Timestamp(100)).to(Timestamp(333)),
        all().types(["Tick"]).from(Timestamp(50)).symbols(["C"]),
        all().last(5),
        all().last_values(),
        all().from_sequences([20, 50]),
    ];
    let mut columns = stream.columns("Tick", ["number"]).with_sequences().in_time_order().open().unwrap();
    let mut values = Vec::new();
    while let Some(chunk) = columns.next().unwrap() {
        let Values::Ints(numbers) = chunk.column(0).values() else { unreachable!() };
        let sequences = chunk.sequences().unwrap();
        values.extend((0..chunk.len()).map(|row| (chunk.times()[row], sequences[row], numbers[row])));
    }
    let count = stream.columns("Quote", ["bid"]).count().unwrap();
    (cursors.map(rows).into(), values, count)
}

/// The damage that a check finds.
fn damage(db: &Database, name: &str, with_objects: bool) -> Vec<String> {
    let mut found = Vec::new();
    let report = db.stored(name).unwrap().checking_objects(with_objects).check(CheckDepth::Full, |event| {
        if let CheckEvent::Found(finding) = event
            && finding.severity == Severity::Damage
        {
            found.push(format!("{}: {}", finding.path.display(), finding.what));
        }
        ControlFlow::Continue(())
    });
    assert_eq!(report.damaged > 0, !found.is_empty(), "{found:?}");
    found
}

fn names(stream: &Stream, space: u32, extension: &str) -> usize {
    let entries = fs::read_dir(stream.path().join(space.to_string())).unwrap();
    entries
        .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|found| found == extension))
        .count()
}

fn wait_until(is: impl Fn() -> bool) {
    while !is() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn database(directory: &Path) -> Database {
    Database::open_without_maintenance(directory.join("db")).unwrap()
}

#[test]
fn history_in_a_folder_reads_as_before() {
    for seed in 0..6 {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("file://{}/store", directory.path().display());
        let db = database(directory.path());
        let stream =
            filled(&db, "s", StreamOptions { offload: offload_to(&url), ..StreamOptions::default() }, seed);
        stream.seal().unwrap();
        let before = seen(&stream);
        let mut slow = stream.cursor().open().unwrap();
        let first = number_of(&slow.next().unwrap().unwrap());
        let moved = stream.offload(None).unwrap();
        assert!(moved.segments >= 2 && stream.offloaded() == moved, "{moved:?}");
        assert_eq!((names(&stream, 0, "seg"), names(&stream, 1, "seg")), (0, 0));
        assert_eq!(names(&stream, 0, "foot") + names(&stream, 1, "foot"), moved.segments as usize);
        assert_eq!(seen(&stream), before, "seed {seed}");
        // A cursor that was open goes on.
        let rest = drain(&mut slow);
        assert!(std::iter::once(first).chain(rest).eq(before.0[0].iter().map(|row| row.3)));
        let beside = Database::open_read_only(directory.path().join("db")).unwrap();
        assert_eq!(seen(&beside.stream("s").unwrap()), before);
        for with_objects in [false, true] {
            assert_eq!(damage(&db, "s", with_objects), [""; 0]);
        }
        // Newer messages, late ones among them, and deletions in what is in the store.
        fill(&stream, 600..900, seed);
        stream.delete(Timestamp(200)..Timestamp(230), Some(["A"])).unwrap();
        let before = seen(&stream);
        assert!(before.0[0].len() > 600 && !before.0[2].is_empty());
        stream.seal().unwrap();
        assert_eq!(seen(&stream), before);
        assert!(stream.offload(None).unwrap().segments > 0);
        assert_eq!(seen(&stream), before);
        assert_eq!(stream.offload(None).unwrap(), Offloaded::default());
        drop((slow, stream, db, beside));
        let db = reopen_without_maintenance(&directory.path().join("db"));
        let stream = db.rename_stream("s", "renamed").unwrap();
        assert_eq!(seen(&stream), before);
        // Without feet, which are made from the objects.
        for space in ["0", "1"] {
            for entry in fs::read_dir(stream.path().join(space)).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|extension| extension == "foot") {
                    fs::remove_file(path).unwrap();
                }
            }
        }
        drop((stream, db));
        let db = reopen_without_maintenance(&directory.path().join("db"));
        let stream = db.stream("renamed").unwrap();
        assert_eq!(seen(&stream), before);
        // All at once.
        stream.clear().unwrap();
        stream.offload_and_sweep(None, Duration::ZERO).unwrap();
        stream.offload_and_sweep(None, Duration::ZERO).unwrap();
        let store = directory.path().join("store/streams");
        let left: Vec<_> = walk(&store).into_iter().filter(|path| path.contains(".seg")).collect();
        assert_eq!((left, seen(&stream).0[0].len()), (vec![], 0));
        db.delete_stream("renamed").unwrap();
        assert_eq!(walk(&store), [""; 0]);
    }
}

fn walk(path: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    entries
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path) } else { vec![path.display().to_string()] }
        })
        .collect()
}

#[test]
fn the_age_decides_what_goes() {
    let directory = tempfile::tempdir().unwrap();
    let (url, store) = FaultyStore::new("the_age");
    let db = database(directory.path());
    let offload = Some(Offload { url: url.parse().unwrap(), after: Some(Duration::from_nanos(300)) });
    let stream = filled(&db, "s", StreamOptions { offload, ..StreamOptions::default() }, 1);
    stream.seal().unwrap();
    assert!(seen(&stream).0[0].len() > 500);
    fill(&stream, 600..1000, 1);
    stream.seal().unwrap();
    let before = seen(&stream);
    let moved = stream.offload(None).unwrap();
    assert!(moved.segments > 0);
    let manifests =
        ["0", "1"].map(|space| fs::read_to_string(stream.path().join(space).join("manifest")).unwrap());
    for line in
        manifests.iter().flat_map(|manifest| manifest.lines()).filter(|line| line.starts_with("part "))
    {
        let words: Vec<&str> = line.split(' ').collect();
        let latest: i64 = words[6].parse().unwrap();
        assert_eq!(words.contains(&"object"), latest < 999 - 300, "{line}");
    }
    // What is there stays known; nothing more goes.
    stream.alter(StreamOptions { offload: None, ..stream.options() }).unwrap();
    assert_eq!(stream.options().offload, Some(Offload { url: url.parse().unwrap(), after: None }));
    assert_eq!(stream.offload(None).unwrap(), Offloaded::default());
    let other = Some(Offload { url: "faulty://other".parse().unwrap(), after: None });
    let refused = stream.alter(StreamOptions { offload: other, ..stream.options() });
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    assert_eq!(seen(&stream), before);
    assert!(store.requests() > 0);
}

#[test]
fn maintenance_moves_segments_in_the_background() {
    let directory = tempfile::tempdir().unwrap();
    let (url, _store) = FaultyStore::new("background");
    let db = Database::open(directory.path().join("db")).unwrap();
    let stream = filled(&db, "s", StreamOptions { offload: offload_to(&url), ..StreamOptions::default() }, 3);
    stream.seal().unwrap();
    let before = seen(&stream);
    wait_until(|| names(&stream, 0, "seg") + names(&stream, 1, "seg") == 0);
    assert_eq!(seen(&stream), before);
}
