//! Frozen files of all versions, made by another program from `docs/format/log.md` alone.

use std::path::Path;
use std::sync::Arc;
use tapedb_log::sim::SimStorage;
use tapedb_log::{Log, LogOptions, LogWriter, Scan, scan_bytes};

const V1: &[u8] = include_bytes!("../../../../testing/vectors/log_v1.bin");
const V2: &[u8] = include_bytes!("../../../../testing/vectors/log_v2.bin");
/// Two rows, and three messages as columns: those of `docs/format/batch.md`.
const V3: &[u8] = include_bytes!("../../../../testing/vectors/log_v3.bin");
const END: &[u8] = include_bytes!("../../../../testing/vectors/log_end_v2.bin");
const STREAM: u64 = 7;
const SPACE: u32 = 1;
/// Messages and end of each batch.
const BATCHES: [(u64, usize); 3] = [(2, 162), (2, 342), (1, 426)];

fn disk_of(log: &[u8], end: Option<&[u8]>) -> SimStorage {
    let disk = SimStorage::new(1);
    disk.set_content(Path::new("/log/00000000000000000042.log"), log);
    end.inspect(|end| disk.set_content(Path::new("/log/end"), end));
    disk
}

fn sequences(log: &Log) -> Vec<u64> {
    let (mut found, mut bytes) = (Vec::new(), Vec::new());
    for granule in log.snapshot().iter() {
        log.read(granule, &mut bytes).unwrap();
        found
            .extend(log.batches(&granule.span(), &bytes).flat_map(|batch| batch.unwrap().header.sequences()));
    }
    found
}

#[test]
fn all_versions_are_read_and_appended_to() {
    for (version, bytes) in [(1, V1), (2, V2), (3, V3)] {
        let Scan { header, batches, end, end_error, next_sequence, .. } = scan_bytes(bytes);
        assert_eq!(header.map(|header| (header.version, header.first_sequence)), Some((version, 42)));
        let count = if version == 3 { 2 } else { 3 };
        assert_eq!((batches, end, end_error, next_sequence), (count, bytes.len() as u64, None, 47));
        let disk = disk_of(bytes, (version == 2).then_some(END));
        let (log, recovery) =
            Log::open(Arc::new(disk.clone()), Path::new("/log"), STREAM, SPACE, 42).unwrap();
        assert!(recovery.is_clean(), "{recovery}");
        assert_eq!(sequences(&log), [42, 43, 44, 45, 46]);
        let options = LogOptions { first_sequence: 42, ..LogOptions::new(STREAM, SPACE) };
        let (mut writer, recovery) =
            LogWriter::open(Arc::new(disk.clone()), Path::new("/log"), options).unwrap();
        assert!(recovery.is_clean(), "{recovery}");
        let mut batch = crate::support::batch(0, 2, 9);
        assert_eq!(writer.append(&mut batch).unwrap(), 47..49);
        assert_eq!(tapedb_codec::batch::check(&batch).unwrap().first_sequence, 47, "the batch has its magic");
        assert!(log.refresh().unwrap());
        assert_eq!(sequences(&log), (42..49).collect::<Vec<_>>());
        // Nothing is added to a file of an older version.
        let files = disk.paths().iter().filter(|path| path.extension().is_some_and(|e| e == "log")).count();
        assert_eq!(files, if version < 3 { 2 } else { 1 });
    }
}

/// The body of the second batch contains a whole batch with the next sequence number. It is not found whichever bit is
/// flipped.
#[test]
fn a_batch_in_a_body_is_not_found_in_either_version() {
    for bytes in [V1, V2] {
        for bit in 64 * 8..bytes.len() * 8 {
            let mut broken = bytes.to_vec();
            broken[bit / 8] ^= 1 << (bit % 8);
            let hit = BATCHES.iter().position(|(_, end)| bit / 8 < *end).unwrap();
            let found = scan_bytes(&broken);
            let whole: u64 = found.granules.iter().map(|granule| granule.count).sum();
            assert_eq!(whole, 5 - BATCHES[hit].0, "bit {bit}");
            assert_eq!(found.next_sequence, if hit == 2 { 46 } else { 47 }, "bit {bit}");
            assert_eq!(found.damaged.len(), usize::from(hit < 2), "bit {bit}");
        }
    }
}

/// Without its header, a file of version 2 gets the salt from the end record; without that too, its batches are found by
/// their checksums.
#[test]
fn a_file_without_a_header_is_read() {
    for end in [Some(END), None] {
        let mut broken = V2.to_vec();
        broken[..64].fill(0);
        let disk = disk_of(&broken, end);
        let (log, recovery) = Log::open(Arc::new(disk), Path::new("/log"), STREAM, SPACE, 42).unwrap();
        assert_eq!((recovery.damaged.len(), sequences(&log).len()), (1, 5), "{recovery}");
        // And without the first batch.
        broken[..100].fill(0);
        let disk = disk_of(&broken, end);
        let (log, recovery) = Log::open(Arc::new(disk), Path::new("/log"), STREAM, SPACE, 42).unwrap();
        assert_eq!(sequences(&log), [44, 45, 46], "{recovery}");
    }
}
