//! Batches that a producer sends again after a failed sync, because it did not receive their result.

use crate::support::*;
use std::io::ErrorKind;
use std::ops::Range;
use tapedb_codec::batch::assign_producer;
use tapedb_log::sim::{SimStorage, Stop};
use tapedb_log::{Durability, LogError, SharedWriter};

const PRODUCER: u64 = 5;

fn open(disk: &SimStorage) -> SharedWriter {
    SharedWriter::new(writer(disk, options(Durability::Sync, 1 << 20)).unwrap().0)
}

/// A producer's batch whose messages contain the numbers from `first` on.
fn sent(number: u64, first: u64, count: u64) -> Vec<u8> {
    let mut batch = batch(first, count, 20);
    assign_producer(&mut batch, PRODUCER, number).unwrap();
    batch
}

fn append(writer: &SharedWriter, mut batch: Vec<u8>) -> Result<Range<u64>, LogError> {
    let turn = writer.turn(&mut batch);
    let ticket = match turn.sent_before()? {
        Some(ticket) => {
            drop(turn);
            ticket
        }
        None => turn.write()?.unlock(),
    };
    Ok(writer.commit(ticket)?.sequences)
}

/// The first batch is stored; the sync of the second fails.
fn failed() -> SimStorage {
    (1..6).find_map(failed_in).expect("one of the operations is the sync")
}

fn failed_in(operation: u64) -> Option<SimStorage> {
    let disk = SimStorage::new(3);
    let writer = open(&disk);
    assert_eq!(append(&writer, sent(1, 0, 3)).unwrap(), 0..3);
    disk.fail_at(disk.operations() + operation, ErrorKind::Other);
    match append(&writer, sent(2, 3, 2)) {
        Err(LogError::Poisoned { cause }) if cause.starts_with("sync") => {}
        _ => return None,
    }
    disk.make_readable();
    let again = append(&writer, sent(2, 3, 2));
    assert!(matches!(again, Err(LogError::Poisoned { .. })), "also when it is sent again");
    Some(disk)
}

#[test]
fn a_batch_acknowledged_when_it_is_sent_again_is_on_the_disk() {
    for opened_twice in [false, true] {
        let disk = failed();
        if opened_twice {
            drop(open(&disk));
        }
        let writer = open(&disk);
        assert_eq!(append(&writer, sent(2, 3, 2)).unwrap(), 3..5);
        drop(writer);
        disk.restart(Stop::Power);
        let writer = open(&disk);
        assert_eq!(read_all(writer.log()).sequences, [0, 1, 2, 3, 4]);
        assert_eq!(append(&writer, sent(3, 5, 1)).unwrap(), 5..6);
    }
}

#[test]
fn another_batch_with_the_same_number_is_refused() {
    let disk = failed();
    let writer = open(&disk);
    for other in [sent(2, 3, 1), sent(2, 4, 2)] {
        let refused = append(&writer, other).unwrap_err();
        assert!(matches!(refused, LogError::Resent { producer_number: 2 }), "{refused}");
    }
    assert_eq!(read_all(writer.log()).sequences, [0, 1, 2, 3, 4]);
    // It is recognized from the producers file too.
    writer.roll().unwrap();
    drop(writer);
    let writer = open(&disk);
    assert!(matches!(append(&writer, sent(2, 3, 1)), Err(LogError::Resent { .. })));
    assert_eq!(append(&writer, sent(2, 3, 2)).unwrap(), 3..5);
}
