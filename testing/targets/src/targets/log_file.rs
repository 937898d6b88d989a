//! Log files: scanned as bytes, and opened by the writer on a disk in memory.

use super::batch::sample;
use crate::Target;
use std::path::Path;
use std::sync::Arc;
use tapedb_codec::batch::BatchHeader;
use tapedb_log::sim::SimStorage;
use tapedb_log::{FILE_HEADER_BYTES, Log, LogError, LogOptions, LogWriter, scan_bytes};

/// See the module.
pub const TARGET: Target = Target { name: "log_file", run, seed };

const STREAM: u64 = 7;
const SPACE: u32 = 1;

/// What a scan calls readable can be read, and a log that opens takes another batch and gives everything back.
pub fn run(input: &[u8]) {
    scanned(input);
    let disk = SimStorage::new(1);
    disk.set_content(Path::new("/log/00000000000000000000.log"), input);
    if let Some(messages) = appended(&disk) {
        let (log, recovery) =
            Log::open(Arc::new(disk), Path::new("/log"), STREAM, SPACE, 0).expect("it was open");
        assert!(recovery.cut.is_empty(), "{recovery:?}");
        assert_eq!(readable(&log), messages);
    }
}

fn scanned(input: &[u8]) {
    let scan = scan_bytes(input);
    assert!(scan.end <= input.len() as u64 || input.len() < FILE_HEADER_BYTES as usize);
    let mut end = 0;
    for granule in &scan.granules {
        assert!(granule.offset >= end && granule.count > 0);
        end = granule.offset + u64::from(granule.len);
        assert!(end <= scan.end);
        assert!(BatchHeader::parse_stored(&input[granule.offset as usize..]).is_ok());
    }
    if let Some(whole) = input.get(..scan.end as usize) {
        let again = scan_bytes(whole);
        assert_eq!((again.granules, again.damaged, again.end_error), (scan.granules, scan.damaged, None));
    }
}

/// Opens the log and appends a batch; tells how many messages it then has. `None`: it cannot be opened.
fn appended(disk: &SimStorage) -> Option<u64> {
    let opened = LogWriter::open(Arc::new(disk.clone()), Path::new("/log"), LogOptions::new(STREAM, SPACE));
    let Ok((mut writer, recovery)) = opened else { return None };
    assert!(!recovery.to_string().is_empty());
    let before = readable(writer.log());
    assert_eq!(before, recovery.messages);
    match writer.append(&mut sample(3, 0)) {
        Ok(sequences) => Some(before + (sequences.end - sequences.start)),
        // Sequence numbers may be used up.
        Err(error) => {
            assert!(!error.to_string().is_empty());
            Some(before)
        }
    }
}

/// Messages that reading granule by granule finds.
fn readable(log: &Log) -> u64 {
    let (mut messages, mut bytes) = (0, Vec::new());
    for granule in log.snapshot().iter() {
        log.read(granule, &mut bytes).expect("a granule is in its file");
        for item in log.batches(&granule.span(), &bytes) {
            match item {
                Ok(batch) => messages += u64::from(batch.header.count),
                Err(LogError::Damaged { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
    messages
}

/// The file that a writer makes of one to four batches.
fn seed(number: u64) -> Vec<u8> {
    let disk = SimStorage::new(number);
    let opened = LogWriter::open(Arc::new(disk.clone()), Path::new("/log"), LogOptions::new(STREAM, SPACE));
    let (mut writer, _) = opened.expect("an empty directory opens");
    for i in 0..1 + number % 4 {
        writer.append(&mut sample(number + i, 0)).expect("room enough");
    }
    disk.content(Path::new("/log/00000000000000000000.log")).expect("the file is there")
}
