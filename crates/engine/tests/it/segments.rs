//! Damaged segments: every flipped bit is reported, and only its block cannot be read.

use crate::sealing::{files, lost_by, read, read_arrivals};
use crate::support::*;
use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use tapedb_codec::dynamic::{RecordValue, Value};
use tapedb_engine::{
    CheckDepth, CheckEvent, CheckReport, Chunk, CursorBuilder, Database, Finding, Severity, StreamOptions,
    Values,
};
use tapedb_schema::Timestamp;

const MESSAGES: u64 = 40;

/// A stream whose messages lie in one segment of one block.
fn make(path: &Path) {
    let db = Database::open_without_maintenance(path).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in 0..MESSAGES {
        let (symbol, time) = (["A", "B"][number as usize % 2], Timestamp(number as i64));
        match number % 3 {
            0 => loader.append(symbol, time, &Quote::of(number)).unwrap(),
            _ => loader.append(symbol, time, &Tick::of(number)).unwrap(),
        }
    }
    loader.close().unwrap();
    stream.seal().unwrap();
}

#[test]
fn every_flipped_byte_of_a_segment_is_reported_and_other_blocks_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    make(&path);
    let segment = files(&path, "seg").pop().unwrap();
    let whole = fs::read(&segment).unwrap();
    let all: BTreeSet<u64> = (0..MESSAGES).collect();
    let db = Database::open_read_only(&path).unwrap();
    let block = whole.windows(4).position(|bytes| bytes == b"TPK1").unwrap();
    let footer = whole.len() - 40;
    let footer = u64::from_le_bytes(whole[footer..footer + 8].try_into().unwrap()) as usize;
    let mut random = Random::new();
    for at in 0..whole.len() {
        let mut broken = whole.clone();
        broken[at] ^= 1 << random.below(8);
        fs::write(&segment, &broken).unwrap();
        let stream = db.stream("s").unwrap();
        for (found, lost) in [read(&stream, false), read(&stream, true), read_arrivals(&stream)] {
            let is_in_block = (block..footer).contains(&at);
            let expected = if is_in_block { (BTreeSet::new(), MESSAGES) } else { (all.clone(), 0) };
            assert_eq!((found, lost), expected, "byte {at}");
        }
        let is_reported = stream.cursor().types(["Tick"]).symbols(["A"]).open().unwrap().next().is_err();
        let is_index = !(block..footer).contains(&at);
        assert!(is_reported || !is_index, "byte {at} is not reported");
        let (checked, found) = check(&db);
        assert!(
            checked.damaged > 0 && found.iter().all(|found| found.path == segment),
            "byte {at}: {found:?}"
        );
        assert_eq!(checked.messages_damaged, if is_index { 0 } else { MESSAGES }, "byte {at}: {found:?}");
    }
    fs::write(&segment, &whole).unwrap();
    assert_eq!(read(&db.stream("s").unwrap(), false), (all, 0));
    let (checked, found) = check(&db);
    assert_eq!((found.len(), checked.messages, checked.segments), (0, MESSAGES, 1), "{found:?}");
}

/// Messages that were read as columns, by their sequence numbers, and how many calls failed. Each value is compared with what was
/// written.
fn read_columns(
    builder: impl Fn() -> CursorBuilder,
    in_time_order: bool,
    rows: usize,
) -> (BTreeSet<u64>, usize) {
    let (mut found, mut errors) = (BTreeSet::new(), 0);
    for (record, fields) in [("Tick", ["number", "check", "note"]), ("Quote", ["number", "bid", "ask"])] {
        let columns = builder().columns(record, fields).with_sequences();
        let columns = if in_time_order { columns.in_time_order().chunk_rows(rows) } else { columns };
        let mut cursor = columns.open().unwrap();
        loop {
            match cursor.next() {
                Ok(Some(chunk)) => check_chunk(&chunk, record == "Tick", &mut found),
                Ok(None) => break,
                Err(error) => {
                    assert!(lost_by(&error) > 0 || !error.to_string().is_empty());
                    errors += 1;
                }
            }
        }
    }
    (found, errors)
}

fn check_chunk(chunk: &Chunk<'_>, are_ticks: bool, found: &mut BTreeSet<u64>) {
    let ints = |column: usize| match chunk.column(column).values() {
        Values::Ints(values) => values,
        _ => panic!("numbers"),
    };
    let (numbers, mut symbols) = (ints(0), Vec::new());
    for run in chunk.symbols() {
        symbols.resize(run.end as usize, chunk.symbol(run.symbol));
    }
    let mut asks = if are_ticks { [].iter() } else { ints(2).iter() };
    for (row, sequence) in chunk.sequences().unwrap().iter().enumerate() {
        let number = *sequence;
        assert_eq!((numbers[row] as u64, chunk.times()[row] as u64), (number, number));
        assert_eq!(symbols[row], ["A", "B"][number as usize % 2]);
        if are_ticks {
            let (tick, Values::Bytes(ends, bytes)) = (Tick::of(number), chunk.column(2).values()) else {
                panic!()
            };
            let start = row.checked_sub(1).map_or(0, |before| ends[before] as usize);
            assert_eq!(
                (ints(1)[row] as u64, &bytes[start..ends[row] as usize]),
                (tick.check, tick.note.as_bytes())
            );
        } else {
            let quote = Quote::of(number);
            assert_eq!(ints(1)[row] as u64, quote.bid.to_bits());
            if let Some(ask) = quote.ask {
                assert_eq!(asks.next().map(|bits| *bits as u64), Some(ask.to_bits()));
            }
        }
        assert!(found.insert(number), "{number} twice");
    }
    assert!(asks.next().is_none());
}

/// Damage anywhere in a block: readers of columns get an error instead of the block, and the right values of all others. Where
/// the checksums are made right again, as no damage does it, they do not panic.
#[test]
fn every_flipped_byte_of_a_segment_is_an_error_for_readers_of_columns() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    make(&path);
    let segment = files(&path, "seg").pop().unwrap();
    let whole = fs::read(&segment).unwrap();
    let all: BTreeSet<u64> = (0..MESSAGES).collect();
    let db = Database::open_read_only(&path).unwrap();
    let mut random = Random::new();
    for at in 0..whole.len() {
        let mut broken = whole.clone();
        broken[at] ^= 1 << random.below(8);
        fs::write(&segment, &broken).unwrap();
        let stream = db.stream("s").unwrap();
        let (rows, mut is_lost) = (1 + random.below(50), false);
        for in_time_order in [false, true] {
            let (found, errors) = read_columns(|| stream.cursor(), in_time_order, rows);
            is_lost |= found != all;
            assert!(found == all || errors > 0, "byte {at}: nothing is said of {:?}", &all - &found);
        }
        let counted = stream.cursor().types(["Quote"]).count();
        assert!(counted.is_err() || counted.unwrap() == 14, "byte {at}");
        let times = stream.cursor().time_range();
        let right = Some((Timestamp(0), Timestamp(MESSAGES as i64 - 1)));
        // What cannot be read is left out there.
        assert_eq!(times.unwrap(), right.filter(|_| !is_lost), "byte {at}");

        let block = broken.windows(4).position(|bytes| bytes == b"TPK1");
        if let Some(block) = block {
            tapedb_segment::reseal_block(&mut broken[block..]);
        }
        tapedb_segment::reseal_footer(&mut broken);
        fs::write(&segment, &broken).unwrap();
        let stream = db.stream("s").unwrap();
        for in_time_order in [false, true] {
            for (record, fields) in
                [("Tick", ["number", "check", "note"]), ("Quote", ["number", "bid", "ask"])]
            {
                let columns = stream.cursor().columns(record, fields).with_sequences();
                let columns = if in_time_order { columns.in_time_order() } else { columns };
                let mut cursor = columns.open().unwrap();
                while !matches!(cursor.next(), Ok(None)) {}
            }
        }
    }
    fs::write(&segment, &whole).unwrap();
    for in_time_order in [false, true] {
        let stream = db.stream("s").unwrap();
        assert_eq!(read_columns(|| stream.cursor(), in_time_order, 7), (all.clone(), 0));
    }
}

fn check(db: &Database) -> (CheckReport, Vec<Finding>) {
    let mut found = Vec::new();
    let checked = db.stored("s").unwrap().check(CheckDepth::Full, |checking| {
        if let CheckEvent::Found(finding) = checking {
            found.push(finding);
        }
        ControlFlow::Continue(())
    });
    (checked, found)
}

#[test]
fn a_check_names_every_flipped_byte_of_a_manifest_and_a_missing_segment() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    make(&path);
    let db = Database::open_read_only(&path).unwrap();
    for name in ["manifest", "manifest.copy"] {
        let file = path.join("streams/s/0").join(name);
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 1;
            fs::write(&file, broken).unwrap();
            let (checked, found) = check(&db);
            assert_eq!((checked.notes, checked.damaged), (1, 0), "byte {at}: {found:?}");
            assert_eq!(found[0].path, file);
        }
        fs::write(&file, whole).unwrap();
    }
    let segment = files(&path, "seg").pop().unwrap();
    fs::rename(&segment, segment.with_extension("elsewhere")).unwrap();
    let (checked, found) = check(&db);
    assert_eq!((checked.damaged, checked.messages_damaged, checked.notes), (1, MESSAGES, 1), "{found:?}");
    assert!(found[0].path == segment && found[0].what.contains("0 to 39"), "{found:?}");
}

/// Columns that only segments of version 3 have: sizes that take turns, and a presence that another field tells.
#[test]
fn a_check_names_every_flipped_byte_of_columns_that_take_turns() {
    let (directory, schema) = (
        tempfile::tempdir().unwrap(),
        "enum Action { SET, DELETE }
        record Level { action: Action, size: i64? } message M { levels: array<record<Level>> }",
    );
    let path = directory.path().join("db");
    let db = Database::open_without_maintenance(&path).unwrap();
    let stream = db.create_stream("s", schema.parse().unwrap(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    for i in 0..24 {
        let level = |at: i64| {
            let (is_set, size) = ((6 * i + at) % 50 > 0, at % 2 * 1_000_000 + (3 * i + at) * 37 % 101);
            let size = if is_set { Value::Int(size) } else { Value::Null };
            Value::Record(RecordValue { type_id: 0, fields: vec![Value::Enum(u16::from(!is_set)), size] })
        };
        let levels = Value::Array((0..6).map(level).collect());
        let record = RecordValue { type_id: 1, fields: vec![levels] };
        loader.append_value("A", Timestamp(i), &record).unwrap();
    }
    loader.close().unwrap();
    stream.seal().unwrap();
    drop((stream, db));
    let segment = files(&path, "seg").pop().unwrap();
    let whole = fs::read(&segment).unwrap();
    assert_eq!(whole[8..10], 3u16.to_le_bytes());
    let db = Database::open_read_only(&path).unwrap();
    assert_eq!(check(&db).0.messages, 24);
    let mut broken = whole.clone();
    for at in 0..whole.len() {
        broken[at] ^= 1 << (at % 8);
        fs::write(&segment, &broken).unwrap();
        let (checked, found) = check(&db);
        assert!(
            checked.damaged > 0 && found.iter().all(|found| found.path == segment),
            "byte {at}: {found:?}"
        );
        broken[at] = whole[at];
    }
}

#[test]
fn a_check_beside_a_writer_that_seals_finds_nothing() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let reader = Database::open_read_only(db.path()).unwrap();
    let mut next = 0;
    for _ in 0..40 {
        append_ticks(&stream, next..next + 50);
        next += 50;
        let (checked, found) = std::thread::scope(|scope| {
            let sealing = scope.spawn(|| stream.seal().unwrap());
            let checked = check(&reader);
            sealing.join().unwrap();
            checked
        });
        let real: Vec<_> = found.iter().filter(|found| found.severity == Severity::Damage).collect();
        assert!(real.is_empty(), "{real:?}");
        assert_eq!(checked.messages, next, "{found:?}");
    }
}
