//! Batches that another process encoded: which are accepted or refused, and that none is stored twice.

use crate::support::*;
use std::sync::{Arc, Mutex};
use tapedb_codec::batch::{BatchBuilder, HEADER_BYTES, assign_producer, assign_sequence};
use tapedb_engine::{BatchLoader, Error, Late, Observer, Rejected, Span, Stale, Stream, StreamOptions};
use tapedb_schema::Timestamp;

/// A batch of ticks of symbol 0.
fn batch_of(numbers: std::ops::Range<u64>) -> Vec<u8> {
    let (mut builder, mut out) = (BatchBuilder::new(), Vec::new());
    for number in numbers {
        let mut body = Vec::new();
        tapedb_codec::encode(&Tick::of(number), &mut body);
        builder.push_bytes(number as i64, 0, 0, &body).unwrap();
    }
    builder.finish(1, &mut out);
    out
}

fn sent(mut batch: Vec<u8>, producer: u64, number: u64) -> Vec<u8> {
    assign_producer(&mut batch, producer, number).unwrap();
    batch
}

fn append(loader: &mut BatchLoader, mut batch: Vec<u8>) -> Result<(std::ops::Range<u64>, bool), Error> {
    let pending = loader.write(&mut batch)?;
    let is_new = pending.is_new();
    Ok((loader.commit(pending, &batch)?, is_new))
}

fn numbers(stream: &Stream) -> Vec<u64> {
    drain(&mut stream.cursor().open().unwrap())
}

#[test]
fn batches_are_appended_and_shown_to_observers() {
    #[derive(Default)]
    struct Seen(Mutex<Vec<(u64, u64, usize)>>);
    impl Observer for Seen {
        fn committed(&self, space: u32, span: Span, batch: &[u8]) {
            assert_eq!((space, span.len as usize), (0, batch.len()));
            self.0.lock().unwrap().push((span.offset, span.first_sequence, batch.len()));
        }
        fn changed(&self) {}
        fn gone(&self, _: Option<&str>) {}
    }
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    assert_eq!(stream.symbol_ids(&["A", "B", "A"]).unwrap(), [0, 1, 0]);
    let seen = Arc::new(Seen::default());
    let observing = stream.observe(seen.clone());
    let mut loader = stream.batches(0).unwrap();
    let (mut first, mut second) = (batch_of(0..10), batch_of(10..30));
    let one = loader.write(&mut first).unwrap();
    let two = loader.write(&mut second).unwrap();
    assert_eq!(two.sequences(), 10..30);
    assert_eq!(loader.commit(two, &second).unwrap(), 10..30);
    assert_eq!(loader.commit(one, &first).unwrap(), 0..10);
    append_ticks(&stream, 30..40);
    drop(observing);
    append_ticks(&stream, 40..50);
    let seen = seen.0.lock().unwrap();
    let (header, len) = (64, first.len() as u64);
    assert_eq!(seen[..2], [(header + len, 10, second.len()), (header, 0, first.len())]);
    assert_eq!((seen.len(), seen[2].1), (3, 30));
    assert_eq!(numbers(&stream), (0..50).collect::<Vec<_>>());
}

#[test]
fn what_encoding_would_not_have_written_is_refused() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    stream.symbol_ids(&["A"]).unwrap();
    let mut loader = stream.batches(0).unwrap();
    let of_row = |symbol: u32, type_id: u16, body: &[u8], version: u16| {
        let (mut builder, mut out) = (BatchBuilder::new(), Vec::new());
        builder.push_bytes(1, symbol, type_id, body).unwrap();
        builder.finish(version, &mut out);
        out
    };
    let mut tick = Vec::new();
    tapedb_codec::encode(&Tick::of(7), &mut tick);
    let cut = &tick[..tick.len() - 1];
    for (bad, says) in [
        (of_row(1, 0, &tick, 1), "1 symbols"),
        (of_row(0, 9, &tick, 1), "type"),
        (of_row(0, 0, cut, 1), "row 0"),
        (of_row(0, 0, &tick, 2), "version 2"),
        (of_row(0, 0, &tick, 0), "version 0"),
    ] {
        assert_error(append(&mut loader, bad), |e| matches!(e, Error::Rejected(Rejected::Body { .. })), says);
    }
    let good = batch_of(0..5);
    let mut flipped = good.clone();
    flipped[HEADER_BYTES + 3] ^= 1;
    let longer = [&good[..], &[0]].concat();
    for bad in [flipped, longer, good[..40].to_vec(), Vec::new()] {
        assert_error(append(&mut loader, bad), |e| matches!(e, Error::Log(_)), "not appended");
    }
    assert_eq!(stream.stats().unwrap().messages, 0);
    // Whatever one byte is changed to, with all checksums right: taken or refused, and what is taken can be sealed.
    let mut random = Random::new();
    let mut taken = 0;
    for _ in 0..2_000 {
        let mut bad = batch_of(0..3);
        let at = HEADER_BYTES + random.below(bad.len() - HEADER_BYTES);
        bad[at] = random.next() as u8;
        let crc = crc32c(&bad[HEADER_BYTES..]);
        bad[12..16].copy_from_slice(&crc.to_le_bytes());
        assign_sequence(&mut bad, 0).unwrap();
        taken += append(&mut loader, bad).map_or(0, |(sequences, _)| sequences.end - sequences.start);
    }
    assert!(taken > 0);
    stream.seal().unwrap();
    assert_eq!(stream.stats().unwrap().messages, taken);
    let mut cursor = stream.cursor().open().unwrap();
    while let Some(message) = cursor.next().unwrap() {
        message.record().unwrap();
    }
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

#[test]
fn late_batches_are_refused_where_late_messages_are() {
    let (_directory, db) = new_database();
    let options = StreamOptions { late: Late::Refuse, ..StreamOptions::default() };
    let stream = db.create_stream("s", schema(), options).unwrap();
    stream.symbol_ids(&["A"]).unwrap();
    let mut loader = stream.batches(0).unwrap();
    append(&mut loader, batch_of(10..20)).unwrap();
    let late = append(&mut loader, batch_of(18..30));
    assert_error(
        late,
        |e| matches!(e, Error::Rejected(Rejected::Late { last: Timestamp(19), .. })),
        "refuses late",
    );
    append(&mut loader, batch_of(19..30)).unwrap();
    db.delete_stream("s").unwrap();
    assert_error(
        append(&mut loader, batch_of(30..40)),
        |e| matches!(e, Error::Stale(Stale::Deleted { .. })),
        "deleted",
    );
}

#[test]
fn a_batch_that_is_sent_again_is_not_stored_again() {
    let (directory, db) = new_database();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    stream.symbol_ids(&["A"]).unwrap();
    let mut loader = stream.batches(0).unwrap();
    assert_eq!(append(&mut loader, sent(batch_of(0..10), 7, 1)).unwrap(), (0..10, true));
    for _ in 0..2 {
        assert_eq!(append(&mut loader, sent(batch_of(10..20), 7, 2)).unwrap().0, 10..20);
    }
    assert_eq!(append(&mut loader, sent(batch_of(0..10), 7, 1)).unwrap(), (10..10, false));
    assert_eq!(append(&mut loader, sent(batch_of(20..30), 8, 1)).unwrap(), (20..30, true));
    assert_eq!((loader.last_of(7), loader.last_of(9)), (Some((2, 10..20)), None));
    drop((loader, stream, db));

    // Found again in the log, and when that has been sealed, in rolled files too.
    for round in 0..3 {
        let db = reopen(&directory.path().join("db"));
        let stream = db.stream("s").unwrap();
        let mut loader = stream.batches(0).unwrap();
        assert_eq!((loader.last_of(7), loader.last_of(8)), (Some((2, 10..20)), Some((1, 20..30))), "{round}");
        assert_eq!(append(&mut loader, sent(batch_of(10..20), 7, 2)).unwrap(), (10..20, false));
        match round {
            0 => append_ticks(&stream, 30..500),
            _ => drop(stream.seal().unwrap()),
        }
        assert_eq!(numbers(&stream), (0..500).collect::<Vec<_>>());
        assert_eq!(append(&mut loader, sent(batch_of(20..30), 8, 1)).unwrap(), (20..30, false));
    }
}
