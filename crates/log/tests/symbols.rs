//! The symbol file: ids stay, torn ends are cut, damaged names are reported.

use proptest::prelude::*;
use std::path::Path;
use tapedb_log::sim::{SimStorage, Stop};
use tapedb_log::{Durability, LogError, SymbolFile, SymbolRecovery};

const STREAM: u64 = 5;

fn path() -> &'static Path {
    Path::new("/stream/symbols")
}

fn open(disk: &SimStorage) -> (SymbolFile, SymbolRecovery) {
    SymbolFile::open_rw(disk, path(), STREAM, Durability::Sync).unwrap()
}

fn names(file: &SymbolFile) -> Vec<String> {
    file.dictionary().names_from(0).map(str::to_owned).collect()
}

#[test]
fn ids_are_kept_and_shared() {
    let disk = SimStorage::new(1);
    let (mut file, _) = open(&disk);
    let (mut outside, _) = SymbolFile::open_read(&disk, path(), STREAM).unwrap();
    assert_eq!(file.append(&["AAPL", "MSFT"]).unwrap(), 0..2);
    assert_eq!(file.append(&["€STR"]).unwrap(), 2..3);
    assert!(outside.refresh().unwrap() && !outside.refresh().unwrap());
    assert_eq!(names(&outside), ["AAPL", "MSFT", "€STR"]);
    assert!(matches!(outside.append(&["X"]), Err(LogError::Unreadable { .. })));
    assert!(matches!(file.append(&["X", "AAPL"]), Err(LogError::SymbolExists { .. })));
    assert!(matches!(file.append(&["X", "X"]), Err(LogError::SymbolExists { .. })));
    assert!(matches!(file.append(&[""]), Err(LogError::SymbolLength { bytes: 0 })));
    assert!(matches!(file.append(&["x".repeat(256).as_str()]), Err(LogError::SymbolLength { bytes: 256 })));
    let (again, recovery) = open(&disk);
    assert_eq!((names(&again), recovery.symbols), (names(&file), 3));
    let other = SymbolFile::open_read(&disk, path(), STREAM + 1);
    assert!(matches!(other, Err(LogError::Foreign { .. })));
}

#[test]
fn a_power_cut_in_any_operation_keeps_what_was_acknowledged() {
    for seed in 0..400 {
        let disk = SimStorage::new(seed);
        disk.crash_at(1 + seed % 14);
        let mut acknowledged = Vec::new();
        if let Ok((mut file, _)) = SymbolFile::open_rw(&disk, path(), STREAM, Durability::Sync) {
            for i in 0..6 {
                let pair = [format!("A{i}"), format!("B{i}")];
                if file.append(&[&pair[0], &pair[1]]).is_err() {
                    break;
                }
                acknowledged.extend(pair);
            }
        }
        disk.restart(Stop::Power);
        let (mut file, recovery) = open(&disk);
        assert!(names(&file).starts_with(&acknowledged), "seed {seed}");
        assert!(recovery.damaged.is_empty(), "seed {seed}: {recovery}");
        file.append(&["next"]).unwrap();
        assert_eq!(names(&open(&disk).0), names(&file), "seed {seed}");
    }
}

#[test]
fn a_flipped_bit_costs_one_name_at_most() {
    let disk = SimStorage::new(1);
    let (mut file, _) = open(&disk);
    file.append(&["AAPL", "MSFT", "NVDA", "TSLA"]).unwrap();
    let (whole, content) = (names(&file), disk.content(path()).unwrap());
    for bit in 0..content.len() * 8 {
        let mut broken = content.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        disk.set_content(path(), &broken);
        let (file, recovery) = open(&disk);
        let found = names(&file);
        let wrong: Vec<_> = (0..4).filter(|&i| found.get(i) != whole.get(i)).collect();
        assert!(wrong.len() <= 1, "bit {bit}: {found:?}");
        assert_eq!(!wrong.is_empty(), recovery.cut_bytes > 0 || !recovery.damaged.is_empty(), "bit {bit}");
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let disk = SimStorage::new(1);
        disk.set_content(path(), &bytes);
        let (mut file, _) = open(&disk);
        let id = file.append(&["NEW"]).unwrap().start;
        prop_assert_eq!(file.dictionary().name(id), Some("NEW"));
    }
}
