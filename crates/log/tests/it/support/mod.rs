//! Logs whose messages contain their own sequence numbers, so that tests see order, loss and repeats.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tapedb_codec::batch::{BatchBuilder, Rows};
use tapedb_log::sim::SimStorage;
use tapedb_log::{Damage, Durability, Log, LogError, LogOptions, LogWriter, Recovery, TailPosition};

pub const STREAM: u64 = 77;
pub const SPACE: u32 = 3;

pub fn dir() -> &'static Path {
    Path::new("/log")
}

pub fn options(durability: Durability, file_bytes_max: u64) -> LogOptions {
    LogOptions { durability, file_bytes_max, ..LogOptions::new(STREAM, SPACE) }
}

pub fn writer(disk: &SimStorage, options: LogOptions) -> Result<(LogWriter, Recovery), LogError> {
    LogWriter::open(Arc::new(disk.clone()), dir(), options)
}

pub fn reader(disk: &SimStorage) -> (Arc<Log>, Recovery) {
    reader_from(disk, 0)
}

pub fn reader_from(disk: &SimStorage, first_sequence: u64) -> (Arc<Log>, Recovery) {
    Log::open(Arc::new(disk.clone()), dir(), STREAM, SPACE, first_sequence).unwrap()
}

/// A batch whose messages contain the numbers from `first` on; each body is padded to `body_bytes`.
pub fn batch(first: u64, count: u64, body_bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for number in first..first + count {
        let mut body = number.to_le_bytes().to_vec();
        body.resize(body_bytes.max(8), 0xab);
        builder.push_bytes(1_000 + number as i64, (number % 5) as u32, 0, &body).unwrap();
    }
    let mut out = Vec::new();
    builder.finish(1, &mut out);
    out
}

pub fn append(writer: &mut LogWriter, count: u64, body_bytes: usize) -> Result<Range<u64>, LogError> {
    let mut batch = batch(writer.next_sequence(), count, body_bytes);
    writer.append(&mut batch)
}

/// The messages that can be read and the damage met on the way.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    pub sequences: Vec<u64>,
    pub damaged: Vec<Damage>,
}

impl Found {
    fn add(&mut self, log: &Log, span: &tapedb_log::Span, bytes: &[u8]) {
        let mut rows = Rows::default();
        for item in log.batches(span, bytes) {
            match item {
                Ok(batch) => {
                    rows.load_parsed(&batch.header, batch.bytes).unwrap();
                    for (i, sequence) in batch.header.sequences().enumerate() {
                        let body = &batch.bytes[rows.body(i)];
                        assert_eq!(
                            body[..8],
                            sequence.to_le_bytes(),
                            "message {sequence} has another number"
                        );
                        self.sequences.push(sequence);
                    }
                }
                Err(LogError::Damaged { damage, .. }) => self.damaged.push(*damage),
                Err(other) => panic!("{other}"),
            }
        }
    }
}

/// Reads granule by granule.
pub fn read_granules(log: &Log) -> Found {
    let mut found = Found::default();
    let mut bytes = Vec::new();
    for granule in log.snapshot().iter() {
        log.read(granule, &mut bytes).unwrap();
        found.add(log, &granule.span(), &bytes);
    }
    found
}

/// Reads from `first` on, `max_bytes` at a time.
pub fn read_on(log: &Log, first: u64, max_bytes: usize) -> Found {
    let mut found = Found::default();
    let (mut position, mut bytes) = (TailPosition::at(first), Vec::new());
    while position.sequence() < log.next_sequence() {
        match log.read_from(&mut position, max_bytes, &mut bytes) {
            Ok(span) => {
                assert!(!span.is_empty());
                found.add(log, &span, &bytes);
            }
            Err(LogError::Damaged { damage, .. }) => found.damaged.push(*damage),
            Err(other) => panic!("{other}"),
        }
    }
    found
}

/// Both ways of reading find the same messages; returns them.
pub fn read_all(log: &Log) -> Found {
    let found = read_granules(log);
    for max_bytes in [1, 300, 1 << 20] {
        assert_eq!(read_on(log, log.first_sequence(), max_bytes).sequences, found.sequences);
    }
    found
}
