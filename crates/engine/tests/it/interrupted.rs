//! Calls that end early, as after Ctrl-C: whatever was being read or sealed goes on as if nothing had happened.

use crate::support::*;
use std::cell::Cell;
use std::time::Duration;
use tapedb_engine::interrupt::interruptible_each;
use tapedb_engine::{ColumnBuilder, CursorBuilder, Error, Stream, forced};
use tapedb_schema::Timestamp;

const MESSAGES: u64 = 600;

thread_local! {
    /// Times that the thread is still asked before it is interrupted.
    static LEFT: Cell<u32> = const { Cell::new(0) };
}

/// Does work that is interrupted when it asks for the time `after`.
fn interrupted<R>(after: u32, work: impl FnOnce() -> R) -> R {
    LEFT.set(after);
    let is_over = || LEFT.replace(LEFT.get().saturating_sub(1)) == 0;
    interruptible_each(Duration::ZERO, is_over, work)
}

/// Repeats a call that is interrupted each time somewhat later, until it succeeds. Returns how often it was interrupted, too.
fn until_done<R>(first: u32, mut call: impl FnMut() -> Result<R, Error>) -> (R, u32) {
    for attempt in 0.. {
        match interrupted(first + attempt, &mut call) {
            Ok(done) => return (done, attempt),
            Err(Error::Interrupted) => {}
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!()
}

/// Late messages overlap each other, in segments, and in the log behind them.
fn fill(stream: &Stream, numbers: std::ops::Range<u64>) {
    let mut loader = stream.loader().unwrap();
    for number in numbers {
        let time = Timestamp(((number * 7) % MESSAGES) as i64);
        loader.append(["A", "B", "C"][number as usize % 3], time, &Tick::of(number)).unwrap();
        if number % 10 == 9 {
            loader.flush().unwrap();
        }
    }
    loader.close().unwrap();
}

fn rows_of_cursor(builder: CursorBuilder, first: u32) -> (Vec<u64>, u32) {
    let (mut cursor, mut interruptions) = until_done(first, || builder.clone().open());
    let mut rows = Vec::new();
    loop {
        let (found, times) = until_done(first, || Ok(cursor.next()?.map(|message| number_of(&message))));
        interruptions += times;
        match found {
            Some(number) => rows.push(number),
            None => return (rows, interruptions),
        }
    }
}

fn rows_of_columns(builder: ColumnBuilder, first: u32) -> (Vec<u64>, u32) {
    let (mut cursor, mut interruptions) = until_done(first, || builder.clone().open());
    let mut rows = Vec::new();
    loop {
        let (found, times) =
            until_done(first, || Ok(cursor.next()?.map(|chunk| chunk.sequences().unwrap().to_vec())));
        interruptions += times;
        match found {
            Some(sequences) => rows.extend(sequences),
            None => return (rows, interruptions),
        }
    }
}

#[test]
fn readers_go_on_where_they_were_interrupted() {
    let (_directory, db) = new_database_without_maintenance();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    fill(&stream, 0..MESSAGES / 2);
    stream.seal().unwrap();
    fill(&stream, MESSAGES / 2..MESSAGES);
    let other = db.create_stream("t", schema(), small_files()).unwrap();
    fill(&other, 0..MESSAGES / 3);
    let all = || stream.cursor();
    let builders = [
        all(),
        db.cursor(["s", "t"]).unwrap(),
        all().symbols(["B"]),
        all().from(Timestamp(100)).to(Timestamp(400)),
        all().reverse(),
        all().last(50),
        all().symbols(["C"]).reverse(),
        all().last_values(),
        all().from_sequence(0),
        all().symbols(["A"]).from_sequence(10),
    ];
    for (number, builder) in builders.iter().enumerate() {
        let (expected, none) = rows_of_cursor(builder.clone(), u32::MAX);
        assert_eq!(none, 0);
        for first in 0..3 {
            let (found, times) = rows_of_cursor(builder.clone(), first);
            assert_eq!(found, expected, "builder {number}");
            assert!(times > 0 || first > 0, "builder {number} was never interrupted");
        }
    }
    for is_ordered in [true, false] {
        let columns = |builder: CursorBuilder| {
            let columns = builder.columns("Tick", ["number"]).with_sequences().chunk_rows(70);
            if is_ordered { columns.in_time_order() } else { columns }
        };
        for builder in &builders[..4] {
            let (expected, _) = rows_of_columns(columns(builder.clone()), u32::MAX);
            for first in 0..3 {
                let (found, times) = rows_of_columns(columns(builder.clone()), first);
                assert_eq!(found, expected);
                assert!(times > 0 || first > 0);
            }
            let (count, times) = until_done(0, || columns(builder.clone()).count());
            assert!(count == expected.len() as u64 && times > 0);
        }
    }
}

#[test]
fn sealing_goes_on_where_it_was_interrupted() {
    for is_forced in [false, true] {
        let (_directory, db) = new_database_without_maintenance();
        let stream = db.create_stream("s", schema(), small_files()).unwrap();
        fill(&stream, 0..MESSAGES);
        let expected = drain(&mut stream.cursor().open().unwrap());
        let seal = || until_done(0, || stream.seal());
        let (_, times) = if is_forced { forced::two_threads(seal) } else { seal() };
        assert!(times > 0, "sealing was never interrupted");
        assert_eq!(stream.seal().unwrap(), 0, "everything is sealed");
        assert_eq!(stream.maintenance_failure(), None);
        assert_eq!(drain(&mut stream.cursor().open().unwrap()), expected);
    }
}
