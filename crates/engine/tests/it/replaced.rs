//! Files are replaced under a reader, in the middle of every operation of the disk that it does: log files by segments, and
//! segments by others in which deletions have been carried out. It gives what there was when it was opened, each message
//! once, in order; what had been deleted by then never comes back.

use crate::gate::{Gate, Stop};
use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use tapedb_engine::{Access, Cursor, Database, Error, Position, Stream, StreamOptions, Values};
use tapedb_schema::Timestamp;

const MESSAGES: u64 = 160;
const SYMBOLS: [&str; 3] = ["A", "B", "C"];

/// What upkeep has to do when the reader begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Seal log files, then merge.
    Seal,
    /// Carry out deletions in segments, then write all anew for the cold tier.
    Merge,
}

impl Work {
    /// The times that are deleted before anybody reads, of symbols A and B. Once they are carried out, nobody knows them any
    /// more: for that the log has to be sealed up to them.
    fn deleted(self) -> std::ops::Range<i64> {
        match self {
            Self::Seal => 1_100..1_600,
            Self::Merge => 30..1_500,
        }
    }

    fn deletes(self, number: u64) -> bool {
        self.deleted().contains(&time_of(number)) && symbol_of(number) != "C"
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Forwards,
    Backwards,
    /// History, then what arrived.
    Live,
    /// What arrived alone.
    Arrivals,
    Columns,
    ColumnsInOrder,
}

/// Message `number` has a time that is late now and then.
fn time_of(number: u64) -> i64 {
    number as i64 * 10 - if number.is_multiple_of(13) { 85 } else { 0 }
}

fn symbol_of(number: u64) -> &'static str {
    SYMBOLS[(number % 3) as usize]
}

fn append(stream: &Stream, numbers: std::ops::Range<u64>) {
    let mut loader = stream.loader().unwrap();
    for number in numbers {
        loader.append(symbol_of(number), Timestamp(time_of(number)), &Tick::of(number)).unwrap();
        if number % 8 == 7 {
            loader.flush().unwrap();
        }
    }
    loader.close().unwrap();
}

/// A stream of many small files, of which a part has been deleted.
fn make(gate: &Gate, work: Work) -> (Database, Stream) {
    let db = Database::open_on(Arc::new(gate.clone()), "db", Access::WriteWithoutMaintenance).unwrap();
    let options = StreamOptions { file_bytes_max: 600, ..StreamOptions::default() };
    let stream = db.create_stream("s", schema(), options).unwrap();
    let sealed = if work == Work::Merge { MESSAGES } else { MESSAGES / 4 };
    // Sealed little by little, but not so much that all is merged.
    for first in (0..sealed).step_by(20) {
        append(&stream, first..first + 20);
        stream.seal().unwrap();
    }
    append(&stream, sealed..MESSAGES);
    let std::ops::Range { start, end } = work.deleted();
    stream.delete(Timestamp(start)..Timestamp(end), Some(["A", "B"])).unwrap();
    if work == Work::Merge {
        stream.alter(StreamOptions { cold_after: Some(Duration::ZERO), ..stream.options() }).unwrap();
    }
    (db, stream)
}

/// Numbers of what is left, as they are to be read.
fn expected(work: Work, reading: Reading) -> Vec<u64> {
    let mut left: Vec<u64> = (0..MESSAGES).filter(|number| !work.deletes(*number)).collect();
    if reading != Reading::Arrivals {
        left.sort_by_key(|number| time_of(*number));
    }
    if reading == Reading::Backwards {
        left.reverse();
    }
    left
}

fn open(stream: &Stream, reading: Reading) -> Result<Cursor, Error> {
    let builder = stream.cursor();
    match reading {
        Reading::Backwards => builder.reverse().open(),
        Reading::Live => builder.live().open(),
        Reading::Arrivals => builder.live().resume(&"live 0 s".parse::<Position>().unwrap()).open(),
        _ => builder.open(),
    }
}

/// Reads all, while upkeep goes on in operations of the reader's and prepares between its calls.
fn read(gate: &Gate, stream: &Stream, reading: Reading, prepare: impl Fn()) -> Vec<u64> {
    if matches!(reading, Reading::Columns | Reading::ColumnsInOrder) {
        return read_columns(gate, stream, reading, prepare);
    }
    let mut cursor = gate.reading(|| open(stream, reading).unwrap());
    let mut found = Vec::new();
    loop {
        prepare();
        let next = |cursor: &mut Cursor| cursor.next().unwrap().map(|message| number_of(&message));
        match gate.reading(|| next(&mut cursor)) {
            Some(number) => found.push(number),
            None => return found,
        }
    }
}

fn read_columns(gate: &Gate, stream: &Stream, reading: Reading, prepare: impl Fn()) -> Vec<u64> {
    let builder = stream.columns("Tick", ["number"]);
    let builder = if reading == Reading::Columns { builder } else { builder.in_time_order() };
    let mut columns = gate.reading(|| builder.open().unwrap());
    let mut found = Vec::new();
    loop {
        prepare();
        let Some(chunk) = gate.reading(|| columns.next().unwrap()) else { break };
        let Values::Ints(numbers) = chunk.column(0).values() else { panic!("numbers are integers") };
        found.extend(numbers.iter().map(|number| *number as u64));
    }
    // Within a chunk they lie by symbol.
    found.sort_by_key(|number| time_of(*number));
    found
}

/// Upkeep goes on at one operation, and then at each of so many.
fn replace(work: Work, reading: Reading, first: usize, step: usize, then: Stop) -> usize {
    let gate = Gate::default();
    let (_db, stream) = make(&gate, work);
    let go_on_at = (first..first + 100 * step).step_by(step).collect();
    let sealed = stream.clone();
    let upkeep = gate.start(go_on_at, then, move || assert!(sealed.seal().is_ok()));
    let found = read(&gate, &stream, reading, || upkeep.prepare());
    let what = format!("{work:?}, {reading:?}, from operation {first} on each {step}, to {then:?}");
    assert_eq!(found, expected(work, reading), "{what}");
    assert_eq!(upkeep.went_on() > 0, gate.operations() >= first, "{what}");
    drop(upkeep);
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), expected(work, Reading::Forwards), "{what}");
    gate.operations()
}

fn everywhere(reading: Reading) {
    for work in [Work::Seal, Work::Merge] {
        for then in [Stop::Remove, Stop::Begin] {
            // Once in a while, from each operation on, and in all operations, from some on.
            for (step, next) in [(9, 1), (1, 11)] {
                let (mut first, mut operations) = (1, usize::MAX);
                while first <= operations {
                    operations = replace(work, reading, first, step, then);
                    first += next;
                }
                assert!(operations > 20, "{work:?}, {reading:?}: {operations} operations");
            }
        }
    }
}

#[test]
fn under_a_cursor() {
    everywhere(Reading::Forwards);
}

#[test]
fn under_a_cursor_that_reads_backwards() {
    everywhere(Reading::Backwards);
}

#[test]
fn under_a_live_cursor() {
    everywhere(Reading::Live);
}

#[test]
fn under_a_cursor_that_has_fallen_behind() {
    everywhere(Reading::Arrivals);
}

#[test]
fn under_columns() {
    everywhere(Reading::Columns);
}

#[test]
fn under_columns_in_time_order() {
    everywhere(Reading::ColumnsInOrder);
}

/// Messages before a time are deleted when upkeep has read the `nth` segment's and not yet put it in its place. `false`: it
/// makes fewer.
fn purge_meanwhile(work: Work, nth: usize, before: i64) -> bool {
    let gate = Gate::default();
    let (_db, stream) = make(&gate, work);
    let sealed = stream.clone();
    let upkeep = gate.start(Vec::new(), Stop::Begin, move || assert!(sealed.seal().is_ok()));
    if !(0..nth).all(|_| upkeep.go_to(Stop::Name)) {
        return false;
    }
    stream.purge(Timestamp(before)).unwrap();
    drop(upkeep);
    let mut left = expected(work, Reading::Forwards);
    left.retain(|number| time_of(*number) >= before);
    let found = drain(&mut stream.cursor().open().unwrap());
    assert_eq!(found, left, "{work:?}, segment {nth}, before {before}");
    true
}

#[test]
fn what_is_deleted_while_it_is_written_anew_stays_deleted() {
    for work in [Work::Seal, Work::Merge] {
        for before in (150..=1650).step_by(250) {
            let made = (1..).take_while(|nth| purge_meanwhile(work, *nth, before)).count();
            assert!(made >= 6, "{work:?}: {made} segments");
        }
    }
}
