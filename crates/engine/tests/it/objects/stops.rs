//! The disk fails, the process is killed or the power is cut at each operation of the disk while a segment goes to the store.

use super::store::FaultyStore;
use super::*;
use std::io;
use std::sync::Arc;
use tapedb_engine::{Access, Storage};
use tapedb_log::sim::{SimStorage, Stop};

const PATH: &str = "/db";

fn opened(disk: &SimStorage) -> (Database, Stream) {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let db = Database::open_on(storage, PATH, Access::WriteWithoutMaintenance).unwrap();
    let stream = db.stream("s").unwrap();
    (db, stream)
}

/// A disk with sealed messages that may go to a store.
fn sealed(name: &str, seed: u64) -> (SimStorage, Arc<FaultyStore>) {
    let (url, store) = FaultyStore::new(name);
    let disk = SimStorage::new(seed);
    let db = Database::open_on(Arc::new(disk.clone()), PATH, Access::WriteWithoutMaintenance).unwrap();
    let options = StreamOptions { offload: offload_to(&url), spaces: 2, ..small_files() };
    let stream = db.create_stream("s", schema(), options).unwrap();
    fill(&stream, 0..150, seed);
    stream.seal().unwrap();
    (disk, store)
}

#[test]
fn every_operation_of_the_disk_may_be_the_last() {
    let (disk, store) = sealed("disk", 3);
    let (db, stream) = opened(&disk);
    let (expected, before) = (seen(&stream), disk.operations());
    stream.offload(None).unwrap();
    let (operations, whole) = (disk.operations() - before, segments(&store));
    drop((stream, db));
    for operation in 1..=operations {
        for how in 0..3 {
            let name = format!("disk-{operation}-{how}");
            let (disk, store) = sealed(&name, 3);
            let (db, stream) = opened(&disk);
            match how {
                0 => disk.fail_at(disk.operations() + operation, io::ErrorKind::StorageFull),
                _ => disk.crash_at(disk.operations() + operation),
            }
            // What follows the last change on the disk may succeed all the same.
            let _ = stream.offload(None);
            if how == 0 {
                assert_eq!(seen(&stream), expected, "{name}");
            }
            drop((stream, db));
            if how > 0 {
                disk.restart(if how == 1 { Stop::Kill } else { Stop::Power });
            }
            let (db, stream) = opened(&disk);
            assert_eq!(seen(&stream), expected, "{name}");
            stream.offload_and_sweep(None, Duration::ZERO).unwrap();
            assert_eq!(seen(&stream), expected, "{name}");
            assert_eq!((segments(&store), damage(&db, "s", true)), (whole, vec![]), "{name}");
            let left = disk
                .paths()
                .into_iter()
                .filter(|path| path.extension().is_some_and(|found| found == "seg" || found == "tmp"));
            assert_eq!(left.count(), 0, "{name}");
        }
    }
}

fn segments(store: &FaultyStore) -> usize {
    store.keys().into_iter().filter(|key| key.ends_with(".seg.0")).count()
}
