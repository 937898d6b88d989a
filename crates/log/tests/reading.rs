//! Readers beside a writer: in the same process, in another one, live.

mod support;

use std::sync::Arc;
use support::*;
use tapedb_log::sim::SimStorage;
use tapedb_log::{
    DiskStorage, Durability, GRANULE_BYTES, Log, LogError, LogOptions, LogWriter, TailPosition,
};

#[test]
fn readers_elsewhere_see_growth_and_new_files() {
    let disk = SimStorage::new(1);
    let (mut writer, _) = writer(&disk, options(Durability::Async, 3_000)).unwrap();
    let (log, _) = reader(&disk);
    assert!(!log.refresh().unwrap());
    for round in 0..60 {
        append(&mut writer, 1 + round % 3, 50).unwrap();
        assert!(log.refresh().unwrap() && !log.refresh().unwrap());
        assert_eq!(log.next_sequence(), writer.next_sequence());
    }
    assert_eq!(read_all(&log), read_all(writer.log()));
    assert!(log.snapshot().iter().eq(writer.log().snapshot().iter()));
    assert!(!writer.log().refresh().unwrap());
}

#[test]
fn bytes_that_are_not_a_batch_yet_are_not_there_yet() {
    let disk = SimStorage::new(1);
    let (mut writer, _) = writer(&disk, options(Durability::Async, 1 << 20)).unwrap();
    append(&mut writer, 2, 50).unwrap();
    let path = dir().join("00000000000000000000.log");
    let before = disk.content(&path).unwrap();
    append(&mut writer, 2, 50).unwrap();
    let after = disk.content(&path).unwrap();
    let partial = SimStorage::new(1);
    partial.set_content(&path, &before);
    let (log, _) = reader(&partial);
    for len in before.len()..after.len() {
        partial.set_content(&path, &after[..len]);
        assert!(!log.refresh().unwrap(), "{len} bytes");
        let (fresh, recovery) = reader(&partial);
        assert_eq!((fresh.next_sequence(), recovery.is_clean()), (2, true), "{len} bytes");
    }
    partial.set_content(&path, &after);
    assert!(log.refresh().unwrap());
    assert_eq!(log.next_sequence(), 4);
}

#[test]
fn granules_are_few_and_agree_after_reopening() {
    let disk = SimStorage::new(1);
    let (mut writer, _) = writer(&disk, options(Durability::Async, 2 << 20)).unwrap();
    for _ in 0..2_000 {
        append(&mut writer, 1, 1_500).unwrap();
    }
    append(&mut writer, 2, 300_000).unwrap();
    let snapshot = writer.log().snapshot();
    let closed: Vec<_> = snapshot.iter().filter(|g| g.len >= GRANULE_BYTES).collect();
    assert!(snapshot.len() <= closed.len() + 2 && closed.iter().all(|g| g.len < GRANULE_BYTES * 3));
    assert!(snapshot.iter().all(|g| g.sorted && g.time_min == 1_000 + g.first_sequence as i64));
    let (again, recovery) = support::writer(&disk, options(Durability::Async, 2 << 20)).unwrap();
    assert!(recovery.is_clean() && recovery.indexes_rebuilt.is_empty());
    assert!(again.log().snapshot().iter().eq(snapshot.iter()));
    for sequence in 0..snapshot.next_sequence() {
        let granule = snapshot.get(snapshot.find(sequence)).unwrap();
        assert!((granule.first_sequence..granule.next_sequence()).contains(&sequence));
    }
    assert_eq!(snapshot.find(snapshot.next_sequence()), snapshot.len());
}

#[test]
fn a_tail_read_begins_with_the_batch_of_its_sequence() {
    let disk = SimStorage::new(1);
    let (mut writer, _) = writer(&disk, options(Durability::Async, 4_000)).unwrap();
    for _ in 0..30 {
        append(&mut writer, 4, 40).unwrap();
    }
    let (log, mut bytes) = (writer.log(), Vec::new());
    for sequence in 0..120 {
        let mut position = TailPosition::at(sequence);
        let span = log.read_from(&mut position, 500, &mut bytes).unwrap();
        assert_eq!((span.first_sequence, bytes.len()), (sequence / 4 * 4, span.len as usize));
        assert!(span.next_sequence() > sequence && position.sequence() == span.next_sequence());
    }
    assert!(log.read_from(&mut TailPosition::at(120), 500, &mut bytes).unwrap().is_empty());
    let ahead = log.read_from(&mut TailPosition::at(121), 500, &mut bytes);
    assert!(matches!(ahead, Err(LogError::Ahead { sequence: 121, next_sequence: 120 })));
}

#[test]
fn a_log_may_begin_late() {
    let disk = SimStorage::new(1);
    let late = LogOptions { first_sequence: 1_000, ..options(Durability::Sync, 4_000) };
    let (mut writer, _) = writer(&disk, late).unwrap();
    assert_eq!(append(&mut writer, 2, 8).unwrap(), 1_000..1_002);
    let trimmed = writer.log().read_from(&mut TailPosition::at(999), 10, &mut Vec::new());
    assert!(matches!(trimmed, Err(LogError::Trimmed { first_sequence: 1_000, .. })));
    let (log, recovery) = reader(&disk);
    assert_eq!((log.first_sequence(), recovery.messages), (1_000, 2));
}

#[test]
fn nothing_is_visible_before_its_sync() {
    let disk = SimStorage::new(1);
    let (mut writer, _) = writer(&disk, options(Durability::Sync, 2_000)).unwrap();
    for round in 0..40 {
        for _ in 0..3 {
            let mut batch = batch(writer.next_sequence(), 2, 40);
            writer.append_no_sync(&mut batch).unwrap();
        }
        assert!(writer.log().next_sequence() < writer.next_sequence());
        writer.sync().unwrap();
        assert_eq!(writer.log().next_sequence(), (round + 1) * 6);
    }
    assert!(read_all(writer.log()).sequences.into_iter().eq(0..240));
}

#[test]
fn malformed_batches_are_refused() {
    let disk = SimStorage::new(1);
    let (mut writer, _) = writer(&disk, options(Durability::Async, 2_000)).unwrap();
    let good = batch(0, 2, 8);
    let cut = &mut good.clone()[..good.len() - 1];
    let long = &mut [&good[..], &[0]].concat()[..];
    let torn = &mut good.clone()[..];
    torn[20] ^= 1;
    for bad in [cut, long, torn, &mut []] {
        assert!(matches!(writer.append(bad), Err(LogError::Batch(_))));
    }
    assert_eq!(writer.append(&mut good.clone()).unwrap(), 0..2);
}

/// On the real disk: one writer, readers in this process, a reader that looks from outside.
#[test]
fn live_readers_miss_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (storage, end) = (Arc::new(DiskStorage), 3_000);
    let options = options(Durability::Async, 40_000);
    let (mut writer, _) = LogWriter::open(storage.clone(), home.path(), options).unwrap();
    let outside = Log::open(storage.clone(), home.path(), STREAM, SPACE).unwrap().0;
    let follow = |log: Arc<Log>, outside: bool| {
        move || {
            let (mut position, mut bytes, mut seen) = (TailPosition::at(0), Vec::new(), Vec::new());
            while position.sequence() < end {
                if outside {
                    log.refresh().unwrap();
                } else if log.next_sequence() <= position.sequence() {
                    std::thread::yield_now();
                }
                let span = log.read_from(&mut position, 4_000, &mut bytes).unwrap();
                seen.extend(log.batches(&span, &bytes).flat_map(|batch| batch.unwrap().header.sequences()));
            }
            seen
        }
    };
    let readers = [
        std::thread::spawn(follow(Arc::clone(writer.log()), false)),
        std::thread::spawn(follow(Arc::clone(writer.log()), false)),
        std::thread::spawn(follow(outside, true)),
    ];
    while writer.next_sequence() < end {
        append(&mut writer, 3, 30).unwrap();
    }
    for reader in readers {
        assert!(reader.join().unwrap().into_iter().eq(0..end));
    }
    drop(writer);
    let (writer, recovery) = LogWriter::open(storage, home.path(), options).unwrap();
    assert!(recovery.is_clean() && recovery.messages == end, "{recovery}");
    assert!(read_all(writer.log()).sequences.into_iter().eq(0..end));
}
