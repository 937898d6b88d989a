//! Each operation of a store fails once, before it was done or after: publishing again has each message once.

use crate::support::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use tapedb_engine::{ObjectError, ObjectFault, ObjectStore};
use tapedb_publish::{Catalog, Error, FolderCatalog, Options, Publisher, Target};

in_each_format! {
    each_operation_of_the_store_fails_once,
}

/// Objects in memory; the operation whose turn it is fails.
#[derive(Debug, Default)]
struct Faulty {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Operations until one fails; negative: none does.
    left: AtomicI64,
    /// Operations so far.
    count: AtomicU64,
    /// Whether the failing operation is done all the same.
    is_done: std::sync::atomic::AtomicBool,
}

impl Faulty {
    fn fails(&self) -> bool {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.left.fetch_sub(1, Ordering::Relaxed) == 0
    }

    /// Does an operation, which may fail before or after it is done.
    fn run<T>(&self, operation: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> Result<T, ObjectError> {
        let fails = self.fails();
        let failure = || ObjectError::new(ObjectFault::Unavailable, "the store is away");
        if fails && !self.is_done.load(Ordering::Relaxed) {
            return Err(failure());
        }
        let result = operation(&mut self.objects.lock().unwrap());
        if fails { Err(failure()) } else { Ok(result) }
    }
}

impl ObjectStore for Faulty {
    fn put_if_absent(&self, key: &str, content: &[u8]) -> Result<bool, ObjectError> {
        self.run(|objects| {
            let is_absent = !objects.contains_key(key);
            objects.entry(key.into()).or_insert_with(|| content.to_vec());
            is_absent
        })
    }

    fn get_range(&self, key: &str, range: Range<u64>) -> Result<Vec<u8>, ObjectError> {
        self.run(|objects| {
            objects.get(key).map(|bytes| bytes[range.start as usize..range.end as usize].to_vec())
        })?
        .ok_or_else(|| ObjectError::new(ObjectFault::Missing, key))
    }

    fn size(&self, key: &str) -> Result<Option<u64>, ObjectError> {
        self.run(|objects| objects.get(key).map(|bytes| bytes.len() as u64))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError> {
        self.run(|objects| objects.keys().filter(|key| key.starts_with(prefix)).cloned().collect())
    }

    fn delete(&self, key: &str) -> Result<(), ObjectError> {
        self.run(|objects| drop(objects.remove(key)))
    }
}

/// The stores of the tests, by bucket.
static STORES: OnceLock<Mutex<BTreeMap<String, Arc<Faulty>>>> = OnceLock::new();

fn store(bucket: &str) -> Arc<Faulty> {
    tapedb_publish::register_stores(|url| {
        let bucket = url.trim_start_matches("faulty://").trim_end_matches('/');
        Ok(store(bucket))
    });
    let mut stores = STORES.get_or_init(Mutex::default).lock().unwrap();
    let new = || Arc::new(Faulty { left: AtomicI64::new(-1), ..Faulty::default() });
    stores.entry(bucket.into()).or_insert_with(new).clone()
}

/// The table's rows, as it is in the store: copied into files, which the reader of the tests reads.
fn table(kind: Kind, bucket: &str, folder: &std::path::Path) -> Option<Table> {
    for (key, content) in store(bucket).objects.lock().unwrap().iter() {
        let path = folder.join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    if kind == Kind::Delta {
        return Table::delta(&folder.join("lake"));
    }
    let catalog = FolderCatalog::open(&format!("faulty://{bucket}/lake")).unwrap();
    let loaded = catalog.load(&name()).unwrap()?;
    let prefix = format!("faulty://{bucket}/");
    Some(Table::with(loaded.metadata, &|url| folder.join(url.strip_prefix(&prefix).unwrap())))
}

/// Publishes two rounds into a bucket, in which the given operation fails; returns how many there were.
fn publish_with_fault(fixture: &Fixture, kind: Kind, bucket: &str, at: i64, is_done: bool) -> u64 {
    let store = store(bucket);
    store.left.store(at, Ordering::Relaxed);
    store.is_done.store(is_done, Ordering::Relaxed);
    let target = match kind {
        Kind::Iceberg => iceberg(&format!("folder:faulty://{bucket}/lake").parse().unwrap()),
        Kind::Delta => Target::delta(&format!("faulty://{bucket}/lake")).unwrap(),
    };
    let options = Options { file_bytes: 1_000_000, ..small() };
    let mut failures = 0;
    loop {
        let mut publisher = Publisher::open(&fixture.db, &fixture.stream, "Bar", &target, &options).unwrap();
        match publisher.step() {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(Error::Away(_)) => failures += 1,
            Err(error) => panic!("operation {at}: {error}"),
        }
        assert!(failures < 3, "operation {at}");
    }
    store.left.store(-1, Ordering::Relaxed);
    store.count.load(Ordering::Relaxed)
}

fn each_operation_of_the_store_fails_once(kind: Kind) {
    let fixture = Fixture::new(SCHEMA);
    fixture.add(200, FIRST);
    let folder = tempfile::tempdir().unwrap();
    let operations = publish_with_fault(&fixture, kind, &format!("{kind:?}"), -1, false);
    assert!(operations > 10, "{operations}");
    for at in 0..operations as i64 {
        for is_done in [false, true] {
            let bucket = format!("{kind:?}{at}{is_done}");
            publish_with_fault(&fixture, kind, &bucket, at, is_done);
            let path = folder.path().join(&bucket);
            let table = table(kind, &bucket, &path).unwrap();
            table.check(&fixture.stream);
            assert_eq!(vec![table.sequence()], fixture.stream.next_sequences().unwrap(), "operation {at}");
        }
    }
}
