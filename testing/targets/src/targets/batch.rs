//! Batches: as they come, and with their header's checksum made right, so that what lies behind it is reached too.

use crate::Target;
use crate::sample::SplitMix64;
use tapedb_codec::batch::{self, BatchBuilder, HEADER_BYTES, MAX_BATCH_BYTES, PushError, Rows};

/// See the module.
pub const TARGET: Target = Target { name: "batch", run, seed };

/// Rows that load lie inside the batch and its ranges, and a batch built of them holds the same rows.
pub fn run(input: &[u8]) {
    rows(input);
    let mut repaired = input.to_vec();
    if let Some(magic) = repaired.get_mut(..4) {
        magic.copy_from_slice(&batch::MAGIC.to_le_bytes());
    }
    let first_sequence = input.get(16..24).and_then(|bytes| bytes.first_chunk()).copied();
    if batch::assign_sequence(&mut repaired, u64::from_le_bytes(first_sequence.unwrap_or_default())).is_ok() {
        rows(&repaired);
    }
}

fn rows(bytes: &[u8]) {
    let checked = batch::check(bytes);
    if let Ok(header) = &checked {
        assert!(header.batch_bytes() <= bytes.len());
        assert_eq!(header.sequences().count() as u64, u64::from(header.count));
    }
    let mut rows = Rows::default();
    match rows.load(bytes) {
        Ok(()) => loaded(&rows, bytes),
        Err(error) => assert!(rows.is_empty() && !error.to_string().is_empty()),
    }
}

fn loaded(rows: &Rows, bytes: &[u8]) {
    let header = *rows.header();
    assert_eq!(rows.len(), header.count as usize);
    assert!(bytes.len() <= HEADER_BYTES + MAX_BATCH_BYTES);
    assert_eq!(rows.times().is_sorted(), header.sorted());
    let mut builder = BatchBuilder::new();
    for i in 0..rows.len() {
        let row = rows.row(i);
        assert!((header.time_min..=header.time_max).contains(&row.time));
        let body = bytes.get(row.body).expect("a body lies in its batch");
        match builder.push_bytes(row.time, row.symbol, row.type_id, body) {
            Ok(()) => {}
            // A builder reckons with the widest columns; a batch of rows without columns may hold more.
            Err(PushError::BatchFull { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
    let mut again = Vec::new();
    builder.finish(header.schema_version, &mut again);
    let mut copy = Rows::default();
    copy.load(&again).expect("a batch that was built loads");
    assert!(batch::check(&again).is_ok());
    for i in 0..rows.len() {
        let (a, b) = (rows.row(i), copy.row(i));
        assert_eq!((a.time, a.symbol, a.type_id), (b.time, b.symbol, b.type_id));
        assert_eq!(bytes[a.body], again[b.body]);
    }
}

/// A batch of up to twenty rows, numbered from `first`.
pub fn sample(number: u64, first: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(number);
    let mut builder = BatchBuilder::new();
    let (times, symbols, lengths) = (random.below(40), random.below(20), random.below(9));
    for _ in 0..1 + random.below(20) {
        let bits = random.next_u64();
        let (time, symbol) = ((bits >> 20) as i64 >> (44 - times), (bits as u32) >> (12 + symbols));
        let body = &bits.to_le_bytes()[..lengths.min(1 + bits as usize % 8)];
        builder.push_bytes(time, symbol, (bits >> 61) as u16, body).expect("a small batch");
    }
    let mut batch = Vec::new();
    builder.finish(1, &mut batch);
    batch::assign_sequence(&mut batch, first).expect("a batch has a header");
    batch
}

fn seed(number: u64) -> Vec<u8> {
    sample(number, number % 1000)
}
