//! Damaged segments: every flipped bit is told, and only the block it is in is out of reach.

use crate::sealing::{files, read, read_arrivals};
use crate::support::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tapedb_engine::Database;
use tapedb_schema::Timestamp;

const MESSAGES: u64 = 40;

/// A stream whose messages lie in one segment of one block.
fn make(path: &Path) {
    let db = Database::open_without_upkeep(path).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in 0..MESSAGES {
        let (symbol, time) = (["A", "B"][number as usize % 2], Timestamp(number as i64));
        match number % 3 {
            0 => loader.append(symbol, time, &Quote::of(number)).unwrap(),
            _ => loader.append(symbol, time, &Tick::of(number)).unwrap(),
        }
    }
    loader.close().unwrap();
    stream.seal().unwrap();
}

#[test]
fn every_flipped_byte_of_a_segment_is_told_and_what_is_not_in_its_block_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    make(&path);
    let segment = files(&path, "seg").pop().unwrap();
    let whole = fs::read(&segment).unwrap();
    let all: BTreeSet<u64> = (0..MESSAGES).collect();
    let db = Database::open_read_only(&path).unwrap();
    let block = whole.windows(4).position(|bytes| bytes == b"TPK1").unwrap();
    let footer = whole.len() - 40;
    let footer = u64::from_le_bytes(whole[footer..footer + 8].try_into().unwrap()) as usize;
    let mut random = Random::new();
    for at in 0..whole.len() {
        let mut broken = whole.clone();
        broken[at] ^= 1 << random.below(8);
        fs::write(&segment, &broken).unwrap();
        let stream = db.stream("s").unwrap();
        for (found, lost) in [read(&stream, false), read(&stream, true), read_arrivals(&stream)] {
            let is_in_block = (block..footer).contains(&at);
            let expected = if is_in_block { (BTreeSet::new(), MESSAGES) } else { (all.clone(), 0) };
            assert_eq!((found, lost), expected, "byte {at}");
        }
        let told = stream.cursor().types(["Tick"]).symbols(["A"]).open().unwrap().next().is_err();
        let is_index = !(block..footer).contains(&at);
        assert!(told || !is_index, "byte {at} is not told");
    }
    fs::write(&segment, &whole).unwrap();
    assert_eq!(read(&db.stream("s").unwrap(), false), (all, 0));
}
