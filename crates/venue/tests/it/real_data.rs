//! Recorded data, where it is present: in the folder named by `TAPEDB_DATA`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use tapedb_market::{Book, Entry, Package, PackageKind, Side};
use tapedb_skipped::recorded_data;
use tapedb_venue::{AnyRecord, Format, ImportOptions, Merge, SourceFile, discover};

/// Rows of each file, by path below the data folder.
fn manifest(data: &Path) -> HashMap<String, u64> {
    let text = fs::read_to_string(data.join("MANIFEST.tsv")).unwrap();
    let row = |line: &str| {
        let mut fields = line.split('\t');
        Some((fields.next()?.to_string(), fields.nth(2)?.parse().ok()?))
    };
    text.lines().filter_map(row).collect()
}

fn files(data: &Path, format: Format) -> Vec<SourceFile> {
    discover(format, &[data], &ImportOptions::default()).unwrap()
}

/// Reads every file, compares rows with the manifest and times with each other.
fn check_files(format: Format, expected_files: usize) {
    let Some(data) = recorded_data() else { return };
    let (manifest, files) = (manifest(&data), files(&data, format));
    assert_eq!(files.len(), expected_files);
    let mut record = AnyRecord::default();
    for file in &files {
        let (mut source, mut rows, mut last) = (file.open().unwrap(), 0, file.not_before());
        while let Some(row) = source.next(&mut record).unwrap() {
            assert!(row.time >= last, "{} row {rows}", file.path().display());
            (last, rows) = (row.time, rows + 1);
        }
        let name = file.path().strip_prefix(&data).unwrap().to_str().unwrap();
        assert_eq!(Some(&rows), manifest.get(name), "{name}");
        assert_eq!((source.counters().rows, source.counters().bad_lines), (rows, 0));
        assert!(source.counters().unknown_kinds.is_empty());
        assert_eq!(source.progress().0, source.progress().1);
    }
}

#[test]
fn us_equity_files_are_read_whole() {
    check_files(Format::UsEquityTicks, 15);
}

#[test]
fn fx_files_are_read_whole() {
    check_files(Format::FxTicks, 22);
}

#[test]
fn binance_captures_are_read_whole() {
    check_files(Format::BinanceRawWs, 5);
}

#[test]
fn lobster_files_are_read_whole() {
    check_files(Format::Lobster, 1);
}

/// A zip has a member for each expiry; the manifest counts the rows of all of them.
#[test]
fn futures_files_are_read_whole() {
    let Some(data) = recorded_data() else { return };
    let (manifest, mut rows) = (manifest(&data), HashMap::new());
    for file in files(&data, Format::FuturesTicks) {
        let (mut source, mut record) = (file.open().unwrap(), AnyRecord::default());
        while let Some(row) = source.next(&mut record).unwrap() {
            assert!(row.symbol.starts_with("GC201"), "{}", row.symbol);
            *rows
                .entry(file.path().strip_prefix(&data).unwrap().to_str().unwrap().to_string())
                .or_insert(0) += 1;
        }
    }
    assert_eq!(rows.len(), 4);
    for (name, rows) in rows {
        assert_eq!(Some(&rows), manifest.get(&name), "{name}");
    }
}

#[test]
fn merged_files_lose_nothing_and_are_in_time_order() {
    let Some(data) = recorded_data() else { return };
    let manifest = manifest(&data);
    let expected: u64 =
        manifest.iter().filter(|(name, _)| name.starts_with("fx-ticks/")).map(|(_, rows)| rows).sum();
    let mut merge = Merge::new(files(&data, Format::FxTicks));
    let (mut record, mut rows, mut last) = (AnyRecord::default(), 0, i64::MIN);
    while let Some(row) = merge.next(&mut record).unwrap() {
        assert!(row.time.nanos() >= last);
        (last, rows) = (row.time.nanos(), rows + 1);
    }
    assert_eq!(rows, expected);
}

/// What one capture holds.
#[derive(Default)]
struct Capture {
    diffs: u64,
    tickers: u64,
    trades: u64,
    levels: u64,
    snapshots: u64,
}

/// Checks that every diff follows on the one before, by `pu` where there is one, else by `U`.
fn check_chain(file: &SourceFile) -> Capture {
    let (mut source, mut record) = (file.open().unwrap(), AnyRecord::default());
    let (mut capture, mut last) = (Capture::default(), None);
    while source.next(&mut record).unwrap().is_some() {
        let Some(package) = record.as_package() else { continue };
        match package.entries.first() {
            Some(Entry::SequenceRange(range)) => {
                if let Some(last) = last {
                    assert_eq!(range.previous.unwrap_or(range.first - 1), last, "{}", file.path().display());
                }
                last = package.sequence;
                capture.diffs += 1;
                capture.levels += package.entries.len() as u64 - 1;
            }
            Some(Entry::Trade(_)) => capture.trades += 1,
            Some(Entry::Level1(_)) => capture.tickers += 1,
            _ => capture.snapshots += u64::from(package.kind == PackageKind::Snapshot),
        }
    }
    capture
}

#[test]
fn binance_diffs_follow_on_each_other() {
    let Some(data) = recorded_data() else { return };
    let expected = [
        ("cm-btcusd_perp_20240808.gz", 26_847, 19_136, 2_286, 296_013, 1),
        ("spot-btcusdt_20240808.gz", 3_451, 28_040, 9_757, 124_090, 1),
        ("spot-btcusdt_20240809.gz", 3_044, 45_134, 10_147, 174_021, 0),
        ("usdm-btcusdt_20240808.gz", 6_551, 66_089, 21_313, 443_521, 1),
        ("usdm-ethusdt_20240808.gz", 6_586, 53_992, 14_076, 428_662, 1),
    ];
    for (file, expected) in files(&data, Format::BinanceRawWs).iter().zip(expected) {
        let name = file.path().file_name().unwrap().to_str().unwrap();
        let c = check_chain(file);
        assert_eq!((name, c.diffs, c.tickers, c.trades, c.levels, c.snapshots), expected);
    }
}

/// Binance's rule: buffer diffs until the snapshot is there, drop those it covers, then apply the others.
#[test]
fn a_book_built_from_snapshot_and_diffs_is_not_crossed() {
    let Some(data) = recorded_data() else { return };
    for file in files(&data, Format::BinanceRawWs) {
        let (mut source, mut record) = (file.open().unwrap(), AnyRecord::default());
        let (mut book, mut kept, mut snapshot) = (Book::default(), Vec::new(), None);
        while source.next(&mut record).unwrap().is_some() {
            let Some(package) = record.as_package() else { continue };
            if package.kind == PackageKind::Snapshot {
                book.apply(package);
                snapshot = package.sequence;
                kept.drain(..)
                    .filter(|diff: &Package| diff.sequence > snapshot)
                    .for_each(|diff| book.apply(&diff));
            } else if matches!(package.entries[0], Entry::SequenceRange(_)) {
                match snapshot {
                    None => kept.push(package.clone()),
                    Some(_) => book.apply(package),
                }
                assert!(!book.is_crossed(), "{} at {:?}", file.path().display(), package.sequence);
            }
        }
        assert!(snapshot.is_none() || book.depth(Side::Bid) >= 900);
    }
}
