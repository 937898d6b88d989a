//! Rows that are left out before their fields are decoded, and sequence numbers only where they are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Chunk, ColumnBuilder, Database, OfferedRows, RowChooser, Stream, Values};
use tapedb_schema::{Decimal64, Timestamp};

#[derive(Record, Debug, Default)]
#[record(message)]
struct Row {
    n: i64,
    price: Decimal64,
    extra: Option<i64>,
    note: String,
}

/// Time, symbol, number, bits of the price, and the note.
type Found = (i64, String, i64, i64, String);

const ROWS: i64 = 30_000;

/// In two segments and the log, some of them late; every tenth time is that of the row before. Prices have different numbers of digits, some
/// of them many.
fn stream(db: &Database, coarse: i64) -> Stream {
    let schema = SchemaBuilder::new().with::<Row>().finish();
    let stream = db.create_stream("s", schema, Default::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    for n in 0..ROWS {
        let late = if n % 700 == 0 { 5_000 } else { 0 };
        let time = (100_000 + 10 * (n - i64::from(n % 10 == 0)) - late) / coarse * coarse;
        let digits = match n % 3_000 {
            0 => Decimal64::from_parts(9_999_999_999_999_999 - n, -2),
            1 => Decimal64::from_parts(-5 - n, 0),
            _ => Decimal64::from_parts(18_500 + n % 70, -2).map(|price| price.canonical()),
        };
        let extra = (n % 4 > 0).then_some(n);
        let row = Row { n, price: digits.unwrap(), extra, note: format!("{n}") };
        loader.append(["A", "B", "C"][(n % 7) as usize % 3], Timestamp(time), &row).unwrap();
        if n == ROWS / 3 || n == ROWS * 3 / 4 {
            loader.flush().unwrap();
            stream.seal().unwrap();
        }
    }
    loader.close().unwrap();
    stream
}

/// Wants rows of every third time, and none of symbol C.
#[derive(Debug)]
struct Thirds;

impl RowChooser for Thirds {
    fn choose(&self, offered: &OfferedRows<'_>, chosen: &mut Vec<u32>) -> bool {
        chosen.clear();
        let mut at = 0;
        for run in offered.runs() {
            assert!(at < run.end);
            let times = &offered.times()[at as usize..run.end as usize];
            assert!(times.is_sorted() && times[0] >= offered.reached());
            if offered.symbol(run) != "C" {
                chosen.extend((at..).zip(times).filter(|(_, time)| is_third(**time)).map(|(row, _)| row));
            }
            at = run.end;
        }
        true
    }
}

fn is_third(time: i64) -> bool {
    (time / 10) % 3 == 0
}

fn rows_of(chunk: &Chunk<'_>) -> Vec<Found> {
    let (Values::Ints(n), Values::Ints(price)) = (chunk.column(0).values(), chunk.column(1).values()) else {
        panic!()
    };
    let Values::Bytes(ends, content) = chunk.column(3).values() else { panic!() };
    let Values::Ints(extra) = chunk.column(2).values() else { panic!() };
    assert_eq!(extra.len(), n.iter().filter(|n| **n % 4 > 0).count());
    let (mut rows, mut at, mut from) = (Vec::new(), 0, 0);
    for run in chunk.symbols() {
        for row in at..run.end as usize {
            let note = String::from_utf8(content[from..ends[row] as usize].to_vec()).unwrap();
            from = ends[row] as usize;
            rows.push((chunk.times()[row], chunk.symbol(run.symbol).to_string(), n[row], price[row], note));
        }
        at = run.end as usize;
    }
    rows
}

#[test]
fn chosen_rows_have_all_of_their_fields() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open(directory.path().join("db")).unwrap();
    let stream = stream(&db, 1);
    let columns = || stream.columns("Row", ["n", "price", "extra", "note"]);
    let all = |builder: ColumnBuilder| {
        let (mut cursor, mut rows) = (builder.open().unwrap(), BTreeSet::new());
        while let Some(chunk) = cursor.next().unwrap() {
            for row in rows_of(&chunk) {
                assert!(rows.insert(row));
            }
        }
        rows
    };
    let (whole, chosen) = (all(columns()), all(columns().choose_rows(Arc::new(Thirds))));
    assert_eq!(whole.len() as i64, ROWS);
    // What is in no segment is returned.
    let sealed = ROWS * 3 / 4;
    let expected: BTreeSet<Found> = whole
        .into_iter()
        .filter(|(time, symbol, n, ..)| *n > sealed || symbol != "C" && is_third(*time))
        .collect();
    let differs: Vec<_> = chosen.symmetric_difference(&expected).take(5).collect();
    assert!(differs.is_empty(), "{differs:?}");
}

/// Rows of a chunk without sequence numbers have times that no other chunk has.
#[test]
fn times_of_chunks_without_sequence_numbers_are_theirs_alone() {
    for coarse in [1, 1_000] {
        let directory = tempfile::tempdir().unwrap();
        let db = Database::open(directory.path().join("db")).unwrap();
        let stream = stream(&db, coarse);
        let mut cursor = stream.columns("Row", ["n"]).with_sequences_of_ties().open().unwrap();
        let mut chunks_of: BTreeMap<i64, Vec<(usize, bool)>> = BTreeMap::new();
        let (mut number, mut rows) = (0, 0);
        while let Some(chunk) = cursor.next().unwrap() {
            let Values::Ints(n) = chunk.column(0).values() else { panic!() };
            if let Some(sequences) = chunk.sequences() {
                assert!(sequences.iter().zip(n).all(|(sequence, n)| *sequence as i64 == *n));
            }
            for time in chunk.times().iter().copied().collect::<BTreeSet<_>>() {
                chunks_of.entry(time).or_default().push((number, chunk.sequences().is_some()));
            }
            number += 1;
            rows += chunk.len() as i64;
        }
        assert_eq!(rows, ROWS);
        assert!(chunks_of.values().all(|chunks| chunks.len() == 1 || chunks.iter().all(|(_, has)| *has)));
    }
}
