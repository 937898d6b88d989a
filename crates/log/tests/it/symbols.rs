//! The symbol file: ids stay, torn ends are cut, damaged names are reported.

use proptest::prelude::*;
use std::path::Path;
use tapedb_log::sim::{SimStorage, Stop};
use tapedb_log::{Durability, LogError, SymbolFile, SymbolRecovery};

const STREAM: u64 = 5;

fn path() -> &'static Path {
    Path::new("/symbols")
}

fn open(disk: &SimStorage) -> (SymbolFile, SymbolRecovery) {
    SymbolFile::open_rw(disk, path(), STREAM, Durability::Sync).unwrap()
}

fn names(file: &SymbolFile) -> Vec<String> {
    file.dictionary().names_from(0).map(str::to_owned).collect()
}

#[test]
fn ids_are_stable_and_shared() {
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
fn a_power_cut_in_a_rename_leaves_the_old_name_or_the_new() {
    for seed in 0..400 {
        let disk = SimStorage::new(seed);
        let durability = [Durability::Sync, Durability::Async][seed as usize % 2];
        let (mut file, _) = SymbolFile::open_rw(&disk, path(), STREAM, Durability::Sync).unwrap();
        file.append(&["A", "B"]).unwrap();
        drop(file);
        let (mut file, _) = SymbolFile::open_rw(&disk, path(), STREAM, durability).unwrap();
        disk.crash_at(disk.operations() + 1 + seed % 9);
        let mut now = 0;
        while now < 6 && file.rename(1, &format!("B{now}")).is_ok() {
            now += 1;
        }
        disk.restart(Stop::Power);
        let (mut file, recovery) = open(&disk);
        let name = |now: u32| now.checked_sub(1).map_or("B".into(), |now| format!("B{now}"));
        let found = names(&file);
        let allowed = [name(now), name(now + 1)];
        assert!(found[0] == "A" && allowed.contains(&found[1]) && found.len() == 2, "seed {seed}: {found:?}");
        assert!(recovery.damaged.is_empty(), "seed {seed}: {recovery}");
        file.append(&["next"]).unwrap();
        assert_eq!(names(&open(&disk).0), names(&file), "seed {seed}");
    }
}

#[test]
fn a_name_that_a_killed_rename_has_left_survives_a_power_cut() {
    let mut renamed = 0;
    for seed in 0..100 {
        let disk = SimStorage::new(seed);
        let asynchronous = || SymbolFile::open_rw(&disk, path(), STREAM, Durability::Async).unwrap().0;
        let (mut file, _) = open(&disk);
        file.append(&["A"]).unwrap();
        drop(file);
        let mut file = asynchronous();
        disk.crash_at(disk.operations() + 1 + seed % 2);
        assert!(file.rename(0, "B").is_err(), "seed {seed}");
        disk.restart(Stop::Kill);
        let found = names(&asynchronous());
        renamed += u32::from(found == ["B"]);
        disk.restart(Stop::Power);
        assert_eq!(names(&asynchronous()), found, "seed {seed}");
    }
    assert!(renamed > 10, "{renamed}");
}

#[test]
fn a_symbol_is_renamed_and_readers_see_it() {
    let disk = SimStorage::new(1);
    let (mut file, _) = open(&disk);
    file.append(&["A", "B"]).unwrap();
    let (mut outside, _) = SymbolFile::open_read(&disk, path(), STREAM).unwrap();
    file.rename(0, "C").unwrap();
    assert!(outside.refresh().unwrap());
    file.append(&["A"]).unwrap();
    file.rename(2, "D").unwrap();
    file.rename(0, "A").unwrap();
    assert!(outside.refresh().unwrap() && outside.dictionary().renames() == 3);
    let (again, recovery) = open(&disk);
    for found in [&file, &outside, &again] {
        assert_eq!(names(found), ["A", "B", "D"]);
        assert_eq!(
            ["A", "B", "C", "D"].map(|name| found.dictionary().id(name)),
            [Some(0), Some(1), None, Some(2)]
        );
    }
    assert_eq!((recovery.symbols, recovery.cut_bytes, recovery.damaged.len()), (3, 0, 0));
    for (id, name) in [(0, "B"), (0, "A"), (0, ""), (3, "X")] {
        file.rename(id, name).unwrap_err();
    }
    assert!(matches!(outside.rename(0, "X"), Err(LogError::Unreadable { .. })));
    assert_eq!(names(&open(&disk).0), ["A", "B", "D"]);
}

#[test]
fn a_torn_rename_is_cut_at_every_byte() {
    let disk = SimStorage::new(1);
    let (mut file, _) = open(&disk);
    file.append(&["AAPL", "MSFT"]).unwrap();
    let start = disk.content(path()).unwrap().len();
    file.rename(0, "a longer name than the other one").unwrap();
    let content = disk.content(path()).unwrap();
    for len in start..content.len() {
        disk.set_content(path(), &content[..len]);
        let (file, recovery) = open(&disk);
        assert_eq!(
            (names(&file), recovery.cut_bytes),
            (vec!["AAPL".into(), "MSFT".into()], (len - start) as u64)
        );
        assert!(recovery.damaged.is_empty() && disk.content(path()).unwrap().len() == start, "{len}");
    }
}

/// Names that are damaged before a rename are found to be lost by the new name after it.
#[test]
fn damage_between_renames_is_reported() {
    let disk = SimStorage::new(1);
    let (mut file, _) = open(&disk);
    file.append(&["A", "B", "C", "D"]).unwrap();
    file.rename(0, "a").unwrap();
    file.append(&["E"]).unwrap();
    // Entries of 11 bytes: those of C and D, of the rename of A, of E.
    for (entries, expected, lost) in [
        (2..4, ["a", "B", "?2", "?3", "E"], 2..4),
        (2..3, ["a", "B", "?2", "D", "E"], 2..3),
        (4..5, ["A", "B", "C", "D", "E"], 4..4),
        (3..5, ["A", "B", "C", "?3", "E"], 3..4),
    ] {
        let whole = disk.content(path()).unwrap();
        zero(&disk, 64 + entries.start * 11..64 + entries.end * 11);
        let (file, recovery) = open(&disk);
        assert_eq!(names(&file), expected, "{entries:?}");
        assert_eq!(recovery.places.len(), 1, "{entries:?}");
        let ids: Vec<u32> = lost.clone().collect();
        assert_eq!((recovery.places[0].ids.clone(), recovery.damaged), (lost, ids), "{entries:?}");
        disk.set_content(path(), &whole);
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

#[test]
fn names_found_by_a_sync_writer_are_on_the_disk() {
    for seed in 0..50 {
        let disk = SimStorage::new(seed);
        let (mut file, _) = SymbolFile::open_rw(&disk, path(), STREAM, Durability::Async).unwrap();
        file.append(&["AAPL"]).unwrap();
        file.append(&["MSFT"]).unwrap();
        let (again, _) = open(&disk);
        disk.restart(Stop::Power);
        assert_eq!(names(&open(&disk).0), names(&again), "seed {seed}");
    }
}

/// 2,000 names, and the end of the entry of each.
fn many(disk: &SimStorage) -> (Vec<String>, Vec<usize>) {
    let (mut file, _) = open(disk);
    let all: Vec<String> = (0..2_000).map(|i| format!("S{i}")).collect();
    let mut end = 64;
    let ends = all.iter().map(|name| {
        end += 10 + name.len();
        end
    });
    let ends = ends.collect();
    file.append(&all.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    (all, ends)
}

fn zero(disk: &SimStorage, bytes: std::ops::Range<usize>) {
    let mut content = disk.content(path()).unwrap();
    content[bytes].fill(0);
    disk.set_content(path(), &content);
}

#[test]
fn a_zeroed_page_costs_only_its_own_names() {
    let disk = SimStorage::new(1);
    let (all, ends) = many(&disk);
    zero(&disk, 4_096..3 * 4_096);
    let before = disk.content(path()).unwrap();
    let (file, recovery) = open(&disk);
    assert_eq!((recovery.symbols, recovery.cut_bytes, recovery.kept_bytes), (2_000, 0, 0), "{recovery}");
    for (id, name) in names(&file).iter().enumerate() {
        let hit = ends[id] > 4_096 && ends[id] - 10 - all[id].len() < 3 * 4_096;
        assert_eq!((name == &all[id], recovery.damaged.contains(&(id as u32))), (!hit, hit), "id {id}");
    }
    assert_eq!(disk.content(path()).unwrap(), before);
    assert!(recovery.to_string().contains("names of ids"), "{recovery}");
}

#[test]
fn a_damaged_end_longer_than_a_torn_append_stays_and_keeps_its_ids() {
    let disk = SimStorage::new(1);
    let (all, ends) = many(&disk);
    let end = ends[1_999];
    zero(&disk, ends[1_799]..end);
    let (mut file, recovery) = open(&disk);
    assert_eq!((recovery.cut_bytes, recovery.kept_bytes), (0, (end - ends[1_799]) as u64), "{recovery}");
    assert_eq!(names(&file)[..1_800], all[..1_800]);
    assert_eq!(open(&disk).1, recovery);
    assert_eq!(disk.content(path()).unwrap().len(), end);
    let id = file.append(&["NEW"]).unwrap().start;
    assert!(id >= 2_000, "{id} may be an id of stored messages");
    let (again, found) = open(&disk);
    assert_eq!((names(&again), found.damaged, found.kept_bytes), (names(&file), recovery.damaged, 0));
}

#[test]
fn a_torn_append_is_cut_at_every_byte() {
    let disk = SimStorage::new(1);
    let (mut file, _) = open(&disk);
    file.append(&["AAPL"]).unwrap();
    let start = disk.content(path()).unwrap().len();
    file.append(&["MSFT", &"x".repeat(255)]).unwrap();
    let content = disk.content(path()).unwrap();
    for len in start..content.len() {
        disk.set_content(path(), &content[..len]);
        let (file, recovery) = open(&disk);
        let (whole, end) = if len < start + 14 { (1, start) } else { (2, start + 14) };
        assert_eq!((file.dictionary().len(), recovery.cut_bytes), (whole, (len - end) as u64), "{len}");
        assert!(recovery.damaged.is_empty() && disk.content(path()).unwrap().len() == end, "{len}");
    }
}

#[test]
fn the_page_shows_the_golden_entry() {
    let disk = SimStorage::new(1);
    let (mut file, _) = open(&disk);
    file.append(&["MSFT", "AAPL"]).unwrap();
    let entry: Vec<_> = disk.content(path()).unwrap()[78..].iter().map(|b| format!("{b:02x}")).collect();
    let dump = format!("0000  {}\n", entry.join(" "));
    let page = include_str!("../../../../docs/format/log.md");
    assert!(page.contains(&dump), "docs/format/log.md must show:\n{dump}");
}

#[test]
fn the_page_shows_a_golden_rename() {
    let disk = SimStorage::new(1);
    let (mut file, _) = open(&disk);
    file.append(&["MSFT", "FB"]).unwrap();
    file.rename(1, "META").unwrap();
    let golden = include_bytes!("../../../../testing/vectors/symbols_v1.bin");
    assert_eq!(disk.content(path()).unwrap(), golden);
    let disk = SimStorage::new(2);
    disk.set_content(path(), golden);
    assert_eq!(names(&open(&disk).0), ["MSFT", "META"]);
    let lines = golden[64..].chunks(16).enumerate().map(|(line, bytes)| {
        let bytes: Vec<_> = bytes.iter().map(|b| format!("{b:02x}")).collect();
        format!("{:04x}  {}\n", 64 + line * 16, bytes.join(" "))
    });
    let dump: String = lines.collect();
    let page = include_str!("../../../../docs/format/log.md");
    assert!(page.contains(&dump), "docs/format/log.md must show:\n{dump}");
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
