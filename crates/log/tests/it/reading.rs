//! Readers concurrent with a writer: in the same process, in another one, live.

use crate::support::{self, *};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tapedb_log::sim::SimStorage;
use tapedb_log::{
    DiskStorage, Durability, GRANULE_BYTES, Granule, Log, LogError, LogOptions, LogWriter, MemoryStorage,
    Reason, SharedWriter, Storage, TailPosition,
};

#[test]
fn readers_in_other_processes_see_growth_and_new_files() {
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
fn bytes_that_are_not_a_whole_batch_yet_are_ignored() {
    let disk = SimStorage::new(1);
    let (mut writer, _) = writer(&disk, options(Durability::Async, 1 << 20)).unwrap();
    append(&mut writer, 2, 50).unwrap();
    let path = dir().join("00000000000000000000.log");
    let written = || {
        let mut content = disk.content(&path).unwrap();
        content.truncate(content.iter().rposition(|byte| *byte != 0).unwrap() + 1);
        content
    };
    let before = written();
    append(&mut writer, 2, 50).unwrap();
    let after = written();
    let partial = SimStorage::new(1);
    partial.set_content(&path, &before);
    let (log, _) = reader(&partial);
    for len in before.len()..after.len() {
        for preallocated in [0, 10_000] {
            partial.set_content(&path, &[&after[..len], &vec![0; preallocated]].concat());
            assert!(!log.refresh().unwrap(), "{len} bytes");
            let (fresh, recovery) = reader(&partial);
            assert_eq!((fresh.next_sequence(), recovery.is_clean()), (2, true), "{len} bytes");
        }
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
fn a_tail_read_begins_with_the_batch_of_its_sequence_number() {
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
    let (log, recovery) = reader_from(&disk, 1_000);
    assert_eq!((log.first_sequence(), recovery.messages, recovery.is_clean()), (1_000, 2, true));
    let (log, recovery) = reader(&disk);
    let [gap] = recovery.damaged[..] else { panic!("{recovery}") };
    assert_eq!((gap.first_sequence, gap.count, gap.reason), (0, Some(1_000), Reason::Gap));
    assert_eq!(read_all(&log).sequences, [1_000, 1_001]);
}

fn shared(disk: &SimStorage) -> SharedWriter {
    let shared = SharedWriter::new(writer(disk, options(Durability::Async, 2_000)).unwrap().0);
    for first in (0..120).step_by(4) {
        shared.append(&mut batch(first, 4, 40)).unwrap();
    }
    shared
}

#[test]
fn a_trim_removes_whole_complete_files() {
    let disk = SimStorage::new(1);
    let shared = shared(&disk);
    let (log, files) = (shared.log(), shared.log().complete_files());
    assert!(files.len() > 2 && files.windows(2).all(|pair| pair[0].next_sequence == pair[1].file));
    let all = log.snapshot();
    let freed = shared.trim(files[1].next_sequence + 1).unwrap();
    assert_eq!(freed, files[0].bytes + files[1].bytes);
    assert_eq!((log.complete_files(), log.first_sequence()), (files[2..].to_vec(), files[2].file));
    assert!(read_all(log).sequences.into_iter().eq(files[2].file..120));
    // Every way to read removed messages reports that.
    let mut bytes = Vec::new();
    let below = log.read_from(&mut TailPosition::at(3), 10, &mut bytes).unwrap_err();
    let in_snapshot = log.read(all.get(0).unwrap(), &mut bytes).unwrap_err();
    for error in [below, in_snapshot] {
        assert!(
            error.is_gone()
                && matches!(error, LogError::Trimmed { first_sequence, .. } if first_sequence == files[2].file)
        );
    }
    assert_eq!(shared.trim(u64::MAX).unwrap(), files[2..].iter().map(|file| file.bytes).sum::<u64>());
    assert_eq!((log.complete_files().len(), shared.trim(u64::MAX).unwrap()), (0, 0));
    assert!(read_all(log).sequences.into_iter().eq(files.last().unwrap().next_sequence..120));
    // The active file is complete once another follows it.
    assert!(shared.roll().unwrap() && !shared.roll().unwrap());
    assert!(shared.trim(120).unwrap() > 0);
    assert_eq!((log.first_sequence(), log.snapshot().len(), disk.paths().len()), (120, 0, 1));
    assert_eq!(shared.append(&mut batch(120, 1, 8)).unwrap().sequences, 120..121);
    assert_eq!(read_all(log).sequences, [120]);
}

#[test]
fn a_file_that_cannot_be_removed_leaves_the_index_all_the_same() {
    let disk = SimStorage::new(1);
    let shared = shared(&disk);
    let (log, files) = (shared.log(), shared.log().complete_files());
    disk.fail_at(disk.operations() + 1, ErrorKind::PermissionDenied);
    let refused = shared.trim(files[1].next_sequence).unwrap_err();
    assert!(!refused.is_gone() && refused.to_string().contains("remove failed"), "{refused}");
    assert_eq!((log.first_sequence(), shared.trim(files[1].next_sequence).unwrap()), (files[2].file, 0));
    assert!(read_all(log).sequences.into_iter().eq(files[2].file..120));
    let path = dir().join(format!("{:020}.log", files[0].file));
    assert!(disk.content(&path).is_some());
    let options = LogOptions { first_sequence: files[2].file, ..options(Durability::Async, 2_000) };
    let (again, recovery) = writer(&disk, options).unwrap();
    assert!(recovery.is_clean() && disk.content(&path).is_none(), "{recovery}");
    assert!(read_all(again.log()).sequences.into_iter().eq(files[2].file..120));
}

#[test]
fn granules_between_two_messages() {
    let disk = SimStorage::new(1);
    let snapshot = shared(&disk).log().snapshot();
    assert!(snapshot.len() > 3);
    for first in 0..122 {
        for end in 0..122 {
            let wanted = |granule: &&Granule| granule.first_sequence < end && granule.next_sequence() > first;
            let overlap = snapshot.iter().filter(|granule| first < end && wanted(granule));
            assert!(snapshot.between(first, end).eq(overlap), "{first} to {end}");
        }
    }
}

#[test]
fn readers_in_other_processes_see_files_disappear() {
    let disk = SimStorage::new(1);
    let shared = shared(&disk);
    let ((log, _), mut bytes) = (reader(&disk), Vec::new());
    let files = shared.log().complete_files();
    let first = log.snapshot();
    // The writer has removed an indexed file: the reader finds out by reading, and then by refreshing.
    shared.trim(files[0].next_sequence).unwrap();
    let gone = log.read(first.get(0).unwrap(), &mut bytes).unwrap_err();
    assert!(gone.is_gone() && !matches!(gone, LogError::Trimmed { .. }), "{gone}");
    assert!(!log.refresh().unwrap());
    assert_eq!((log.first_sequence(), log.complete_files()), (files[1].file, files[1..].to_vec()));
    // Or its caller drops the files.
    log.drop_before(files[1].next_sequence);
    assert_eq!(log.first_sequence(), files[2].file);
    // All indexed files are removed.
    shared.append(&mut batch(120, 4, 8)).unwrap();
    shared.roll().unwrap();
    shared.append(&mut batch(124, 4, 8)).unwrap();
    shared.trim(124).unwrap();
    assert!(log.refresh().unwrap());
    assert_eq!((log.first_sequence(), log.next_sequence()), (124, 128));
    let unknown = log.read_from(&mut TailPosition::at(120), 10, &mut bytes);
    assert!(matches!(unknown, Err(LogError::Trimmed { sequence: 120, first_sequence: 124 })));
    assert_eq!(read_all(&log).sequences, [124, 125, 126, 127]);
}

/// Between the listing and the opening, the writer rolls and trims all listed files.
#[test]
fn files_may_disappear_between_listing_and_opening() {
    for opened_before in [false, true] {
        let disk = SimStorage::new(1);
        let shared = Arc::new(shared(&disk));
        let mut log = opened_before.then(|| reader(&disk).0);
        let (trimming, times) = (Arc::clone(&shared), AtomicU64::new(0));
        disk.after_list(Some(Arc::new(move || {
            if times.fetch_add(1, Ordering::Relaxed) < 3 {
                let next = trimming.log().next_sequence();
                trimming.roll().unwrap();
                trimming.trim(next).unwrap();
                trimming.append(&mut batch(next, 2, 8)).unwrap();
            }
        })));
        match &log {
            Some(log) => assert!(log.refresh().unwrap()),
            None => {
                let (opened, recovery) = reader(&disk);
                assert!(recovery.is_clean(), "{recovery}");
                log = Some(opened);
            }
        }
        let log = log.unwrap();
        assert_eq!((log.first_sequence(), log.next_sequence()), (124, 126));
        assert_eq!(read_all(&log).sequences, [124, 125]);
    }
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

#[test]
fn live_readers_miss_nothing() {
    let home = tempfile::tempdir().unwrap();
    follow_live(Arc::new(DiskStorage), home.path(), Durability::Async);
    follow_live(Arc::new(MemoryStorage::new()), dir(), Durability::Transient);
}

/// One writer, readers in this process, and a reader that refreshes like one in another process.
fn follow_live(storage: Arc<dyn Storage>, home: &Path, durability: Durability) {
    let (end, options) = (3_000, options(durability, 40_000));
    let (mut writer, _) = LogWriter::open(storage.clone(), home, options).unwrap();
    let outside = Log::open(storage.clone(), home, STREAM, SPACE, 0).unwrap().0;
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
    let (writer, recovery) = LogWriter::open(storage, home, options).unwrap();
    assert!(recovery.is_clean() && recovery.messages == end, "{recovery}");
    assert!(read_all(writer.log()).sequences.into_iter().eq(0..end));
}

fn bounded(bytes_max: u64) -> LogOptions {
    LogOptions { bytes_max: Some(bytes_max), ..options(Durability::Transient, 1 << 20) }
}

/// Bytes of all files in memory.
fn bytes_of(storage: &MemoryStorage) -> u64 {
    let files = storage.list(dir()).unwrap();
    files.iter().map(|name| storage.open_read(&dir().join(name)).unwrap().len().unwrap()).sum()
}

#[test]
fn a_bounded_log_drops_the_oldest_and_reports_what_is_missing() {
    let storage = MemoryStorage::new();
    let bytes_max = 40_000;
    let open = || LogWriter::open(Arc::new(storage.clone()), dir(), bounded(bytes_max)).unwrap();
    let shared = SharedWriter::new(open().0);
    let log = Arc::clone(shared.log());
    let (mut slow, mut bytes, mut missed, mut seen) = (TailPosition::at(0), Vec::new(), 0, 0);
    for round in 0..600 {
        let first = log.next_sequence();
        let committed = shared.append(&mut batch(first, 3, 100)).unwrap();
        assert!(committed.shown && committed.sequences == (first..first + 3));
        assert!(bytes_of(&storage) < bytes_max + 2 * bytes_max / 8, "round {round}");
        assert!(log.complete_files().iter().all(|file| file.bytes <= bytes_max / 8));
        if round % 149 == 0 {
            match log.read_from(&mut slow, 1, &mut bytes) {
                Ok(span) => seen += span.count,
                Err(LogError::Trimmed { sequence, first_sequence }) => {
                    assert_eq!((sequence, first_sequence), (slow.sequence(), log.first_sequence()));
                    missed += first_sequence - sequence;
                    slow = TailPosition::at(first_sequence);
                    seen += log.read_from(&mut slow, 1, &mut bytes).unwrap().count;
                }
                Err(other) => panic!("{other}"),
            }
            assert_eq!(missed + seen, slow.sequence());
        }
    }
    assert!(missed > 600 && bytes_of(&storage) > bytes_max / 2, "{missed} missed");
    let (first, end) = (log.first_sequence(), log.next_sequence());
    assert!(read_all(&log).sequences.into_iter().eq(first..end));
    // The storage can be opened again; with a smaller bound it drops more.
    drop(shared);
    let (writer, recovery) = open();
    assert!(recovery.is_clean() && recovery.first_sequence == first, "{recovery}");
    assert!(read_all(writer.log()).sequences.into_iter().eq(first..end));
    let less = LogWriter::open(Arc::new(storage.clone()), dir(), bounded(bytes_max / 2)).unwrap();
    assert!(less.1.is_clean() && less.1.first_sequence > first && bytes_of(&storage) < bytes_max * 5 / 8);
}

/// Messages that are dropped while they are being read are read to the end, or are reported as trimmed.
#[test]
fn readers_of_a_bounded_log_get_messages_or_a_trimmed_error() {
    let storage = Arc::new(MemoryStorage::new());
    let (writer, _) = LogWriter::open(storage, dir(), bounded(20_000)).unwrap();
    let shared = SharedWriter::new(writer);
    let end = 30_000;
    let (missed, seen) = std::thread::scope(|scope| {
        let log = shared.log();
        let reader = scope.spawn(move || {
            let (mut position, mut bytes, mut missed, mut seen) = (TailPosition::at(0), Vec::new(), 0, 0);
            while position.sequence() < end {
                match log.read_from(&mut position, 1_000, &mut bytes) {
                    Ok(span) => {
                        let batches = log.batches(&span, &bytes);
                        seen += batches.map(|batch| u64::from(batch.unwrap().header.count)).sum::<u64>();
                    }
                    Err(LogError::Trimmed { sequence, first_sequence }) => {
                        assert!(sequence == position.sequence() && first_sequence > sequence);
                        missed += first_sequence - sequence;
                        position = TailPosition::at(first_sequence);
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            (missed, seen)
        });
        while log.next_sequence() < end {
            shared.append(&mut batch(log.next_sequence(), 3, 100)).unwrap();
        }
        reader.join().unwrap()
    });
    assert_eq!(missed + seen, end);
    assert!(seen > 0);
}
