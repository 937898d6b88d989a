//! Wrong encoders and decoders: a block that is not decoded to the rows that were encoded replaces nothing, and all messages can
//! be read as before.

use crate::sealing::files;
use crate::support::*;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;
use tapedb_engine::{
    CheckDepth, CheckEvent, CheckReport, Database, Error, Finding, SegmentError, Stream, StreamOptions,
    Unreadable,
};
use tapedb_schema::Timestamp;
use tapedb_segment::fault::with_fault;
use tapedb_segment::{Block, Dump, reseal_block};

const FILE: u64 = 500;

/// Changes the times of a block, whose checksums of bytes are right.
fn make_wrong(block: &mut [u8]) {
    let number = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap()) as usize;
    let (head, columns) = (number(8), number(28));
    let times = number(head - columns * 32 + 4);
    block[head + times - 1] ^= 1;
    reseal_block(block);
}

/// Wrong whenever it does not use the plain encoding.
#[expect(clippy::ptr_arg, reason = "a fault may change the length too")]
fn wrong_encoder(is_plain: bool, block: &mut Vec<u8>) {
    if !is_plain {
        make_wrong(block);
    }
}

#[expect(clippy::ptr_arg, reason = "a fault may change the length too")]
fn always_wrong(_: bool, block: &mut Vec<u8>) {
    make_wrong(block);
}

fn stream_in(db: &Database) -> Stream {
    db.create_stream("s", schema(), StreamOptions { seal_after: None, ..StreamOptions::default() }).unwrap()
}

fn append_next(stream: &Stream) {
    let next = drain(&mut stream.cursor().open().unwrap()).len() as u64;
    append_ticks(stream, next..next + FILE);
}

/// All messages, in order, and as they are in the database after it is opened again.
fn assert_all_there(stream: &Stream, count: u64) {
    let expected: Vec<u64> = (0..count).collect();
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), expected);
    let reversed: Vec<u64> = (0..count).rev().collect();
    assert_eq!(drain(&mut stream.cursor().reverse().open().unwrap()), reversed);
}

fn check(db: &Database) -> (CheckReport, Vec<Finding>) {
    check_to(db, CheckDepth::Full)
}

fn check_to(db: &Database, depth: CheckDepth) -> (CheckReport, Vec<Finding>) {
    let mut found = Vec::new();
    let checked = db.stored("s").unwrap().check(depth, |checking| {
        if let CheckEvent::Found(finding) = checking {
            found.push(finding);
        }
        ControlFlow::Continue(())
    });
    (checked, found)
}

fn mismatches_of(work: impl FnOnce()) -> u64 {
    // Tests of other threads may count too, so this is at least what `work` did.
    let before = tapedb_engine::seal_mismatches();
    work();
    tapedb_engine::seal_mismatches() - before
}

fn dumps(path: &Path) -> Vec<std::path::PathBuf> {
    files(path, "mismatch")
}

#[test]
fn a_block_that_is_sealed_wrongly_is_sealed_plainly() {
    let (_directory, db) = new_database_without_maintenance();
    let stream = stream_in(&db);
    append_next(&stream);
    let counted = mismatches_of(|| {
        assert_eq!(with_fault(wrong_encoder, || stream.seal()).unwrap(), FILE);
    });
    assert!(counted >= 1);
    assert_all_there(&stream, FILE);
    assert_eq!((files(db.path(), "seg").len(), files(db.path(), "log").len()), (1, 1), "it is sealed");
    let dump = Dump::read(&fs::read(&dumps(db.path())[0]).unwrap()).unwrap();
    assert_eq!((dump.rows.len() as u64, dump.rows[7].0.sequence), (FILE, 7));
    let mut block = Block::new();
    block.load(&dump.block).unwrap();
    assert_eq!(stream.maintenance_failure(), None, "nothing is left to be done");
    let (checked, found) = check(&db);
    assert_eq!((checked.damaged, checked.notes), (0, 1), "{found:?}");
    assert!(found[0].what.contains("decoded to other rows"), "{found:?}");
}

#[test]
fn the_log_stays_where_nothing_can_be_sealed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Database::open_without_maintenance(&path).unwrap();
    let stream = stream_in(&db);
    append_next(&stream);
    let failed = with_fault(always_wrong, || stream.seal()).unwrap_err();
    let is_unfaithful = |error: &Error| match error {
        Error::Unreadable(Unreadable::Segment(failure)) => {
            matches!(failure.error, SegmentError::Unfaithful(_))
        }
        _ => false,
    };
    assert!(is_unfaithful(&failed), "{failed}");
    assert!(failed.to_string().contains("stay where they are"), "{failed}");
    assert_eq!((files(&path, "seg").len(), files(&path, "tmp").len(), dumps(&path).len()), (0, 0, 1));
    // It is not tried again, and is reported as a failure of maintenance; writing and reading continue.
    assert!(is_unfaithful(&stream.seal().unwrap_err()));
    assert!(stream.maintenance_failure().unwrap().contains("not decoded to what it was made from"));
    append_next(&stream);
    assert!(is_unfaithful(&stream.seal().unwrap_err()));
    assert_all_there(&stream, 2 * FILE);
    let rewriter = stream.rewrite(Timestamp(3)..Timestamp(4), None::<[&str; 0]>).unwrap();
    assert!(is_unfaithful(&rewriter.commit().unwrap_err()), "it needs the log sealed");
    drop((stream, db));
    let db = reopen_without_maintenance(&path);
    let stream = db.stream("s").unwrap();
    assert_all_there(&stream, 2 * FILE);
    assert_eq!(stream.seal().unwrap(), 2 * FILE);
    assert_all_there(&stream, 2 * FILE);
    assert_eq!(check(&db).0.damaged, 0);
}

/// Seven segments, so that the next one is merged with them.
fn with_seven_segments(db: &Database) -> Stream {
    let stream = stream_in(db);
    for _ in 0..7 {
        append_next(&stream);
        stream.seal().unwrap();
    }
    assert_eq!(files(db.path(), "seg").len(), 7);
    append_next(&stream);
    stream
}

#[test]
fn what_is_merged_wrongly_is_merged_plainly_or_not_at_all() {
    let (_directory, db) = new_database_without_maintenance();
    let stream = with_seven_segments(&db);
    // Right when the log is sealed, then wrong.
    let mut nth = 0;
    let merge_wrongly = move |_: bool, block: &mut Vec<u8>| {
        nth += 1;
        if nth > 1 {
            make_wrong(block);
        }
    };
    assert_eq!(with_fault(merge_wrongly, || stream.seal()).unwrap(), FILE);
    assert_eq!(files(db.path(), "seg").len(), 8, "they are left alone");
    assert_all_there(&stream, 8 * FILE);
    stream.seal().unwrap();
    assert_eq!(files(db.path(), "seg").len(), 8, "nor are they tried again");
    let path = db.path().to_path_buf();
    drop((stream, db));
    let db = reopen_without_maintenance(&path);
    let stream = db.stream("s").unwrap();
    with_fault(wrong_encoder, || stream.seal()).unwrap();
    assert_eq!(files(&path, "seg").len(), 1, "merged, plainly");
    assert_all_there(&stream, 8 * FILE);
    let (checked, found) = check(&db);
    assert_eq!(checked.damaged, 0, "{found:?}");
}

#[test]
fn blocks_that_are_half_full_are_merged_as_they_are() {
    const MANY: u64 = 9_000;
    let (_directory, db) = new_database_without_maintenance();
    let stream = stream_in(&db);
    for nth in 0..8 {
        append_ticks(&stream, nth * MANY..(nth + 1) * MANY);
        if nth < 7 {
            stream.seal().unwrap();
        }
    }
    // Right when the log is sealed, then wrong: but then nothing is encoded.
    let mut nth = 0;
    let merge_wrongly = move |_: bool, block: &mut Vec<u8>| {
        nth += 1;
        if nth > 1 {
            make_wrong(block);
        }
    };
    with_fault(merge_wrongly, || stream.seal()).unwrap();
    let merged = files(db.path(), "seg");
    assert_eq!(merged.len(), 1);
    assert_all_there(&stream, 8 * MANY);
    // A block that has lost messages is encoded.
    stream.delete(Timestamp(5)..Timestamp(6), None::<[&str; 0]>).unwrap();
    with_fault(always_wrong, || stream.seal()).unwrap();
    assert_eq!(files(db.path(), "seg"), merged, "it is left as it is");
    let path = db.path().to_path_buf();
    drop((stream, db));
    let db = reopen_without_maintenance(&path);
    let stream = db.stream("s").unwrap();
    stream.seal().unwrap();
    assert_ne!(files(db.path(), "seg"), merged);
    let expected: Vec<u64> = (0..8 * MANY).filter(|number| *number != 5).collect();
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), expected);
    let (checked, found) = check(&db);
    assert_eq!((checked.damaged, checked.messages), (0, 8 * MANY - 1), "{found:?}");
}

#[test]
fn what_is_compressed_wrongly_for_the_cold_tier_stays_hot() {
    let (_directory, db) = new_database_without_maintenance();
    let stream = stream_in(&db);
    append_next(&stream);
    stream.seal().unwrap();
    stream.alter(StreamOptions { cold_after: Some(Duration::ZERO), ..stream.options() }).unwrap();
    let before = files(db.path(), "seg");
    with_fault(always_wrong, || stream.seal()).unwrap();
    assert_eq!(files(db.path(), "seg"), before);
    assert_all_there(&stream, FILE);
}

#[test]
fn what_is_rewritten_wrongly_changes_nothing() {
    let (_directory, db) = new_database_without_maintenance();
    let stream = stream_in(&db);
    append_next(&stream);
    stream.seal().unwrap();
    let rewrite = |fault: fn(bool, &mut Vec<u8>)| {
        let mut rewriter = stream.rewrite(Timestamp(3)..Timestamp(5), None::<[&str; 0]>).unwrap();
        for number in 3..5 {
            rewriter.append("A", Timestamp(number as i64), &Tick::of(number)).unwrap();
        }
        with_fault(fault, || rewriter.commit())
    };
    assert!(rewrite(always_wrong).is_err());
    assert_all_there(&stream, FILE);
    assert_eq!(rewrite(wrong_encoder).unwrap(), FILE..FILE + 2);
    assert_all_there(&stream, FILE);
}

/// Makes the rows that a segment's first block is decoded to others than it was made from: all checksums of bytes are right,
/// that of the content is not.
fn make_segment_wrong(segment: &Path) {
    let mut bytes = fs::read(segment).unwrap();
    let block = bytes.windows(4).position(|bytes| bytes == b"TPK1").unwrap();
    bytes[block + 64] ^= 1;
    reseal_block(&mut bytes[block..]);
    fs::write(segment, bytes).unwrap();
}

#[test]
fn what_is_read_wrongly_is_not_merged() {
    let (_directory, db) = new_database_without_maintenance();
    let stream = with_seven_segments(&db);
    let segments = files(db.path(), "seg");
    make_segment_wrong(&segments[2]);
    let counted = mismatches_of(|| {
        stream.seal().unwrap();
    });
    assert!(counted >= 1);
    let left = files(db.path(), "seg");
    assert!(segments.iter().all(|segment| left.contains(segment)), "all are as they were: {left:?}");
    let (checked, found) = check(&db);
    assert_eq!((checked.damaged, checked.messages_damaged), (1, FILE), "{found:?}");
    assert!(found[0].path == segments[2] && found[0].what.contains("decoded to rows of"), "{found:?}");
}

#[test]
fn a_wrong_decoder_does_not_pass_on_its_error_with_a_deletion() {
    let (_directory, db) = new_database_without_maintenance();
    let stream = stream_in(&db);
    append_next(&stream);
    stream.seal().unwrap();
    let segments = files(db.path(), "seg");
    make_segment_wrong(&segments[0]);
    // Whatever is left of the block: it is compared before the deleted messages are left out.
    stream.delete(Timestamp(2)..Timestamp(FILE as i64), None::<[&str; 0]>).unwrap();
    stream.seal().unwrap();
    assert_eq!(files(db.path(), "seg"), segments);
}

#[test]
fn few_dumps_are_kept() {
    let (_directory, db) = new_database_without_maintenance();
    let stream = stream_in(&db);
    for _ in 0..6 {
        append_next(&stream);
        with_fault(wrong_encoder, || stream.seal()).unwrap();
    }
    assert_eq!(dumps(db.path()).len(), 4);
    assert_all_there(&stream, 6 * FILE);
}

/// Makes of a segment of one block what version 0.1 wrote: without a checksum of the content.
fn make_version_1(segment: &Path) {
    let mut bytes = fs::read(segment).unwrap();
    bytes[8] = 1;
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes[..60]) as u32;
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    let block = bytes.windows(4).position(|bytes| bytes == b"TPK1").unwrap();
    bytes[block + 64..block + 80].fill(0);
    reseal_block(&mut bytes[block..]);
    fs::write(segment, bytes).unwrap();
}

#[test]
fn segments_of_version_1_are_verified_as_far_as_they_can_be() {
    let (_directory, db) = new_database_without_maintenance();
    let stream = with_seven_segments(&db);
    let segments = files(db.path(), "seg");
    segments[..3].iter().for_each(|segment| make_version_1(segment));
    let counts = |checked: &CheckReport| {
        (checked.blocks_by_content, checked.blocks_by_reference, checked.blocks_unproved)
    };
    for (depth, expected) in
        [(CheckDepth::Quick, (4, 0, 3)), (CheckDepth::Full, (4, 3, 0)), (CheckDepth::Thorough, (4, 7, 0))]
    {
        let (checked, found) = check_to(&db, depth);
        assert_eq!(
            (counts(&checked), checked.damaged, checked.notes),
            (expected, 0, 1),
            "{depth:?}: {found:?}"
        );
        assert_eq!((checked.messages_of_version_1, checked.messages_misread_by_0_1), (3 * FILE, 0));
        assert!(found[0].what.contains("1500 sealed messages were written by TapeDB 0.1"), "{found:?}");
    }
    // Merging compares them too, and what it writes has the checksum.
    stream.seal().unwrap();
    assert_eq!(files(db.path(), "seg").len(), 1);
    assert_all_there(&stream, 8 * FILE);
    let (checked, found) = check(&db);
    assert_eq!((counts(&checked), found.len()), ((checked.blocks, 0, 0), 0), "{found:?}");
}

#[test]
fn repair_never_gives_wrong_messages_a_checksum_of_their_own() {
    let (_directory, db) = new_database_without_maintenance();
    let stream = stream_in(&db);
    append_next(&stream);
    stream.seal().unwrap();
    let path = db.path().to_path_buf();
    drop((stream, db));
    let segment = files(&path, "seg").remove(0);
    make_segment_wrong(&segment);
    let db = reopen_without_maintenance(&path);
    let before = fs::read(&segment).unwrap();
    assert!(
        db.repair("s", true).unwrap().is_empty(),
        "no decoder gives what was sealed: it is left as it is"
    );
    assert_eq!(fs::read(&segment).unwrap(), before);
    assert_eq!(check(&db).0.damaged, 1);
}

/// Messages at a few milliseconds from each other, but for 128 in the same one with a pause of five seconds among them.
#[test]
fn what_version_0_1_read_wrongly_is_reported() {
    let (_directory, db) = new_database_without_maintenance();
    let stream = stream_in(&db);
    let (mut loader, mut time) = (stream.loader().unwrap(), 0);
    for number in 0..5_248 {
        time += match (number / 128, number % 128) {
            (20, 64) => 5_000,
            (20, _) => 0,
            _ => number * number % 7,
        } as i64;
        loader.append("A", Timestamp(time * 1_000_000), &Tick::of(number)).unwrap();
    }
    loader.close().unwrap();
    stream.seal().unwrap();
    make_version_1(&files(db.path(), "seg")[0]);
    let (checked, found) = check(&db);
    assert_eq!((checked.messages_misread_by_0_1, checked.damaged), (5_248, 0), "{found:?}");
    assert!(found[0].what.contains("5248 of them are in blocks that it decoded to wrong times"), "{found:?}");
    assert_eq!(check_to(&db, CheckDepth::Quick).0.messages_misread_by_0_1, 0, "it does not look");
}
