//! Cursors that end before given sequence numbers return the same messages, whenever they are opened.

use super::place::new_database;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{CursorBuilder, Database, Error, Invalid, Stream, StreamOptions};
use tapedb_schema::Timestamp;

#[derive(Record, Debug, Default)]
#[record(message)]
struct Number {
    number: u64,
}

#[derive(Record, Debug, Default)]
#[record(message)]
struct Other {
    number: u64,
}

fn stream(db: &Database) -> Stream {
    let schema = SchemaBuilder::new().with::<Number>().with::<Other>().finish();
    db.create_stream("s", schema, StreamOptions { spaces: 2, ..StreamOptions::default() }).unwrap()
}

/// Appends messages to both spaces; some are late.
fn append(stream: &Stream, numbers: std::ops::Range<u64>) {
    for space in 0..2 {
        let mut loader = stream.loader_in(space).unwrap();
        for number in numbers.clone() {
            let time = Timestamp(if number % 7 == 0 { number as i64 - 20 } else { number as i64 });
            let symbol = ["A", "B", "C"][number as usize % 3];
            match number % 4 {
                0 => loader.append(symbol, time, &Other { number }).unwrap(),
                _ => loader.append(symbol, time, &Number { number }).unwrap(),
            };
        }
        loader.close().unwrap();
    }
}

/// Everything that a cursor returns in its ways.
fn all(builder: &CursorBuilder) -> Vec<String> {
    let mut found = Vec::new();
    let cursors = [
        builder.clone(),
        builder.clone().reverse(),
        builder.clone().last_values(),
        builder.clone().symbols(["B"]).from(Timestamp(20)),
    ];
    for cursor in cursors {
        let mut cursor = cursor.open().unwrap();
        while let Some(message) = cursor.next().unwrap() {
            found.push(format!("{} {} {}", message.time().0, message.space(), message.sequence()));
        }
    }
    for in_order in [false, true] {
        let columns = builder.clone().columns("Number", ["number"]).with_sequences();
        let mut columns = if in_order { columns.in_time_order() } else { columns }.open().unwrap();
        let mut rows = Vec::new();
        while let Some(chunk) = columns.next().unwrap() {
            rows.extend(chunk.times().iter().zip(chunk.sequences().unwrap()).map(|row| format!("{row:?}")));
        }
        rows.sort();
        found.extend(rows);
    }
    found.push(builder.clone().count().unwrap().to_string());
    found.push(builder.clone().stated_count().unwrap().to_string());
    found.push(builder.clone().columns("Other", ["number"]).count().unwrap().to_string());
    found.push(format!("{:?}", builder.clone().time_range().unwrap()));
    found
}

#[test]
fn later_messages_are_left_out() {
    let (_home, db) = new_database();
    let stream = stream(&db);
    append(&stream, 0..100);
    let expected = all(&stream.cursor());
    let ends = stream.next_sequences().unwrap();
    assert_eq!(ends, [100, 100]);
    let until = || stream.cursor().to_sequences(ends.iter().copied());
    assert_eq!(all(&until()), expected);
    for (step, numbers) in [(0, 100..150), (1, 150..180), (2, 180..190)] {
        append(&stream, numbers);
        assert_eq!(all(&until()), expected, "in the log, step {step}");
        stream.seal().unwrap();
        assert_eq!(all(&until()), expected, "in segments, step {step}");
    }
    // Beyond the end: all.
    assert_eq!(stream.cursor().to_sequences([1_000, 1_000]).count().unwrap(), 380);
    assert_eq!(stream.cursor().to_sequences([0, 1]).count().unwrap(), 1);
}

/// In the log, in segments of several blocks, in both, with times that cut blocks, and deletions that are carried out or not.
#[test]
fn the_stated_count_is_that_of_a_walk() {
    let (_home, db) = new_database();
    let stream = stream(&db);
    let walk = |builder: CursorBuilder| {
        let (mut cursor, mut count) = (builder.open().unwrap(), 0);
        while cursor.next().unwrap().is_some() {
            count += 1;
        }
        count
    };
    let check = |step: &str| {
        let next = stream.next_sequences().unwrap();
        let last = next.iter().max().copied().unwrap() as i64;
        for part in 0..6 {
            let time = Timestamp(last * part / 5);
            let ends = next.iter().map(|end| end - end * part as u64 / 7);
            let cursor = || stream.cursor();
            let cases =
                [cursor(), cursor().to(time), cursor().from(time), cursor().to(time).to_sequences(ends)];
            for (nth, case) in cases.into_iter().enumerate() {
                for case in [case.clone(), case.clone().symbols(["B"]), case.types(["Other"])] {
                    assert_eq!(
                        case.clone().stated_count().unwrap(),
                        walk(case),
                        "{step}, {time:?}, case {nth}"
                    );
                }
            }
        }
    };
    check("empty");
    for (step, to) in [70_000, 70_400, 72_000].into_iter().enumerate() {
        append(&stream, [0, 70_000, 70_400][step]..to);
        check(&format!("in the log, step {step}"));
        stream.seal().unwrap();
        check(&format!("in segments, step {step}"));
    }
    stream.delete(Timestamp(30_000)..Timestamp(30_010), Some(["A"])).unwrap();
    check("a deletion of some");
    append(&stream, 72_000..72_500);
    stream.delete(Timestamp(71_000)..Timestamp(72_100), None::<[&str; 0]>).unwrap();
    check("a deletion in a segment and the log");
    stream.seal().unwrap();
    check("all sealed");
}

/// A file may be counted for all record types at once, and another one type by type: never one file in both ways.
#[test]
fn the_stated_count_is_right_while_deletions_are_carried_out() {
    let (_home, db) = new_database();
    let stream = stream(&db);
    append(&stream, 0..20_000);
    stream.seal().unwrap();
    let deletions = 20;
    std::thread::scope(|scope| {
        let deleting = scope.spawn(|| {
            for number in 1..=deletions {
                // One message in each space: the times of late ones are others.
                let time = 7 * 100 * number + 2;
                stream.delete(Timestamp(time)..Timestamp(time + 1), None::<[&str; 0]>).unwrap();
                stream.seal().unwrap();
            }
        });
        let mut last = 40_000;
        loop {
            let is_last = deleting.is_finished();
            let count = stream.cursor().stated_count().unwrap();
            assert!((40_000 - 2 * deletions as u64..=last).contains(&count), "{count} after {last}");
            last = count;
            if is_last {
                break;
            }
        }
        assert_eq!(last, 40_000 - 2 * deletions as u64);
    });
}

#[test]
fn a_division_covers_every_message() {
    let (_home, db) = new_database();
    let stream = stream(&db);
    append(&stream, 0..2_000);
    for round in 0..2 {
        for parts in [1, 2, 5] {
            let ends = stream.next_sequences().unwrap();
            let cursor = || stream.cursor().to_sequences(ends.iter().copied()).symbols(["A", "C"]);
            let times = cursor().division(parts).unwrap();
            assert!(times.len() < parts && times.is_sorted(), "{times:?}");
            let bounds = [Timestamp(i64::MIN)].into_iter().chain(times.iter().copied());
            let parts = bounds.enumerate().map(|(part, from)| match times.get(part) {
                Some(to) => cursor().from(from).to(*to).count().unwrap(),
                None => cursor().from(from).count().unwrap(),
            });
            assert_eq!(parts.sum::<u64>(), cursor().count().unwrap(), "round {round}");
        }
        stream.seal().unwrap();
    }
}

#[test]
fn what_has_no_such_end_is_refused() {
    let (_home, db) = new_database();
    let stream = stream(&db);
    let builders = [
        stream.cursor().to_sequences([1]),
        stream.cursor().to_sequences([1, 2, 3]),
        stream.cursor().live().to_sequences([1, 2]),
        stream.cursor().last(3).to_sequences([1, 2]),
        stream.cursor().from_sequences([1, 1]).to_sequences([1, 2]),
    ];
    for builder in builders {
        assert!(matches!(builder.open(), Err(Error::Invalid(Invalid::Cursor { .. }))));
    }
    assert!(matches!(stream.cursor().live().division(2), Err(Error::Invalid(Invalid::Cursor { .. }))));
}
