//! Files that are damaged: errors, never a panic.

use crate::support::{export, fill, streams};
use std::path::Path;
use tapedb_arrow::{AppendOptions, RowEncoder};
use tapedb_engine::Stream;
use tapedb_parquet::{Merge, ParquetFile, Source, WriteOptions};
use tapedb_testing::sample::SplitMix64;

const SCHEMA: &str = "enum Side { BUY = 1, SELL = 2 } record Level { price: decimal64, size: u32? }
    message Book { side: Side, note: string?, levels: array<record<Level>> }";

/// Reads all rows; returns how many, or what is wrong.
fn read(path: &Path, stream: &Stream) -> Result<usize, String> {
    let file = ParquetFile::open(path).map_err(|error| error.to_string())?;
    let options = AppendOptions { record: Some("Book".into()), naive_is_utc: false };
    let encoder = RowEncoder::new("s", stream.layouts(), &options).unwrap();
    let source = Source { file, encoder, time: "time".into(), symbol: "symbol".into() };
    let mut merge = Merge::new(vec![source]);
    let mut rows = 0;
    while merge.next().map_err(|error| error.to_string())?.is_some() {
        rows += 1;
    }
    Ok(rows)
}

#[test]
fn every_truncation_is_an_error() {
    let (directory, stream, _) = streams(SCHEMA.parse().unwrap());
    fill(&stream, 3, 50);
    let (path, _) = export(&stream, directory.path(), &WriteOptions::default()).remove(0);
    assert_eq!(read(&path, &stream), Ok(50));
    let bytes = std::fs::read(&path).unwrap();
    let cut = directory.path().join("cut.parquet");
    for length in (0..bytes.len()).step_by(7) {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        let error = read(&cut, &stream).unwrap_err();
        assert!(error.contains("cut.parquet") && error.contains("no"), "{error}");
    }
}

#[test]
fn changed_bytes_are_errors_or_other_values() {
    let (directory, stream, _) = streams(SCHEMA.parse().unwrap());
    fill(&stream, 4, 50);
    let (path, _) = export(&stream, directory.path(), &WriteOptions::default()).remove(0);
    let bytes = std::fs::read(&path).unwrap();
    let changed_path = directory.path().join("changed.parquet");
    let mut random = SplitMix64::new(5);
    let mut errors = 0;
    for _ in 0..1500 {
        let mut changed = bytes.clone();
        // Most of them in the footer, which has all lengths.
        let from = if random.once_in(3) { 0 } else { bytes.len() / 2 };
        let at = from + random.below(bytes.len() - from);
        changed[at] = [0, 1, 0x7f, 0x80, 0xff, random.next_u64() as u8][random.below(6)];
        std::fs::write(&changed_path, &changed).unwrap();
        errors += usize::from(read(&changed_path, &stream).is_err());
    }
    assert!(errors > 100, "{errors}");
}
