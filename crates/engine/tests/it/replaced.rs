//! Files are replaced under a reader, in the middle of every disk operation of the reader: log files by segments, and segments
//! by others in which deletions have been carried out. It returns the messages that existed when it was opened, each once, in
//! order; messages that were already deleted never reappear.

use crate::gate::{Gate, Stop};
use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use tapedb_engine::{Access, Cursor, Database, Error, Position, Stream, StreamOptions, Values, forced};
use tapedb_schema::Timestamp;
use tapedb_segment::Strands;

const MESSAGES: u64 = 160;
const SYMBOLS: [&str; 3] = ["A", "B", "C"];

/// The work of maintenance when the reader begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Seal log files, then merge.
    Seal,
    /// Carry out deletions in segments, then rewrite all for the cold tier.
    Merge,
    /// The same in segments of strands.
    MergeStrands,
}

impl Work {
    /// The times that are deleted before the reader begins, of symbols A and B. Once a deletion is carried out, it is no longer
    /// recorded: for that the log has to be sealed up to it.
    fn deleted(self) -> std::ops::Range<i64> {
        match self {
            Self::Seal => 1_100..1_600,
            Self::Merge | Self::MergeStrands => 30..1_500,
        }
    }

    fn seal(self, stream: &Stream) -> Result<u64, Error> {
        let strands = Strands { count: 2, rows: 12, bytes: 1 << 20, stripe_bytes: 1_000 };
        match self {
            Self::MergeStrands => forced::in_strands(strands, || stream.seal()),
            _ => stream.seal(),
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
    /// History, then live messages.
    Live,
    /// Live messages only.
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
    let sealed = if work == Work::Seal { MESSAGES / 4 } else { MESSAGES };
    // Sealed little by little, but not so much that all is merged.
    for first in (0..sealed).step_by(20) {
        append(&stream, first..first + 20);
        work.seal(&stream).unwrap();
    }
    append(&stream, sealed..MESSAGES);
    let std::ops::Range { start, end } = work.deleted();
    stream.delete(Timestamp(start)..Timestamp(end), Some(["A", "B"])).unwrap();
    if work != Work::Seal {
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

/// Reads all, while maintenance continues in operations of the reader and prepares between its calls.
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

/// Maintenance continues at one operation, and then at every `step`th.
fn replace(work: Work, reading: Reading, first: usize, step: usize, then: Stop) -> usize {
    let gate = Gate::default();
    let (_db, stream) = make(&gate, work);
    let continue_at = (first..first + 100 * step).step_by(step).collect();
    let sealed = stream.clone();
    let maintenance = gate.start(continue_at, then, move || assert!(work.seal(&sealed).is_ok()));
    let found = read(&gate, &stream, reading, || maintenance.prepare());
    let what = format!("{work:?}, {reading:?}, from operation {first} on each {step}, to {then:?}");
    assert_eq!(found, expected(work, reading), "{what}");
    assert_eq!(maintenance.continued() > 0, gate.operations() >= first, "{what}");
    drop(maintenance);
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), expected(work, Reading::Forwards), "{what}");
    gate.operations()
}

fn everywhere(reading: Reading) {
    for work in [Work::Seal, Work::Merge, Work::MergeStrands] {
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

/// Messages before a time are deleted when maintenance has written the `nth` segment and not yet replaced others by it. `false`:
/// it writes fewer.
fn purge_during(work: Work, nth: usize, before: i64) -> bool {
    let gate = Gate::default();
    let (_db, stream) = make(&gate, work);
    let sealed = stream.clone();
    let maintenance = gate.start(Vec::new(), Stop::Begin, move || assert!(sealed.seal().is_ok()));
    if !(0..nth).all(|_| maintenance.go_to(Stop::Name)) {
        return false;
    }
    stream.purge(Timestamp(before)).unwrap();
    drop(maintenance);
    let mut left = expected(work, Reading::Forwards);
    left.retain(|number| time_of(*number) >= before);
    let found = drain(&mut stream.cursor().open().unwrap());
    assert_eq!(found, left, "{work:?}, segment {nth}, before {before}");
    true
}

#[test]
fn what_is_deleted_while_it_is_rewritten_stays_deleted() {
    for work in [Work::Seal, Work::Merge] {
        for before in (150..=1650).step_by(250) {
            let made = (1..).take_while(|nth| purge_during(work, *nth, before)).count();
            assert!(made >= 6, "{work:?}: {made} segments");
        }
    }
}
