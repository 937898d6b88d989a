//! An object store in memory that fails as stores do.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tapedb_engine::{ObjectError, ObjectFault, ObjectStore, register_object_store};

/// The stores of this process, by name.
static STORES: Mutex<Option<HashMap<String, Arc<FaultyStore>>>> = Mutex::new(None);

/// What the store does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It does not answer: every request fails.
    Away,
    /// It refuses the credentials.
    Denied,
    /// Bodies end early.
    Cut,
    /// A bit of each body is another one.
    Wrong,
    /// It replaces objects though it should not.
    Overwrites,
}

#[derive(Debug, Default)]
pub struct FaultyStore {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    requests: AtomicU64,
    gets: AtomicU64,
    bytes_read: AtomicU64,
    fault: Mutex<Option<Fault>>,
    /// The request of this number fails; put and delete may have been carried out nevertheless.
    fails: Mutex<Option<(u64, bool)>>,
}

impl FaultyStore {
    /// A new store, and its URL.
    pub fn new(name: &str) -> (String, Arc<Self>) {
        register_object_store("faulty", |url| {
            let name = url.trim_start_matches("faulty://");
            let store = STORES.lock().unwrap().as_ref().and_then(|stores| stores.get(name).cloned());
            let store: Option<Arc<dyn ObjectStore>> = store.map(|store| store as Arc<dyn ObjectStore>);
            store.ok_or_else(|| ObjectError::new(ObjectFault::Missing, "no such store"))
        });
        let store = Arc::new(Self::default());
        STORES.lock().unwrap().get_or_insert_default().insert(name.into(), store.clone());
        (format!("faulty://{name}"), store)
    }

    pub fn set(&self, fault: Option<Fault>) {
        *self.fault.lock().unwrap() = fault;
    }

    /// The request after so many others fails, once. `is_done`: a put or delete is carried out.
    pub fn fail_after(&self, requests: u64, is_done: bool) {
        *self.fails.lock().unwrap() = Some((self.requests() + requests, is_done));
    }

    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    pub fn gets(&self) -> u64 {
        self.gets.load(Ordering::SeqCst)
    }

    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::SeqCst)
    }

    pub fn keys(&self) -> Vec<String> {
        self.objects.lock().unwrap().keys().cloned().collect()
    }

    /// Changes the objects behind the database's back.
    pub fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) {
        change(&mut self.objects.lock().unwrap());
    }

    /// Counts a request; whether it is the one that fails, and is carried out.
    fn begin(&self) -> Result<Option<bool>, ObjectError> {
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        match *self.fault.lock().unwrap() {
            Some(Fault::Away) => return Err(ObjectError::new(ObjectFault::Unavailable, "503 Slow Down")),
            Some(Fault::Denied) => {
                return Err(ObjectError::new(ObjectFault::Denied, "403 InvalidAccessKeyId"));
            }
            _ => {}
        }
        Ok(self.fails.lock().unwrap().filter(|(at, _)| *at == number).map(|(_, is_done)| is_done))
    }
}

fn failed<T>() -> Result<T, ObjectError> {
    Err(ObjectError::new(ObjectFault::Unavailable, "500 Internal Error"))
}

impl ObjectStore for FaultyStore {
    fn put_if_absent(&self, key: &str, content: &[u8]) -> Result<bool, ObjectError> {
        let fails = self.begin()?;
        let mut objects = self.objects.lock().unwrap();
        let overwrites = *self.fault.lock().unwrap() == Some(Fault::Overwrites);
        let created = overwrites || !objects.contains_key(key);
        if created && fails != Some(false) {
            objects.insert(key.into(), content.into());
        }
        if fails.is_some() { failed() } else { Ok(created) }
    }

    fn get_range(&self, key: &str, range: Range<u64>) -> Result<Vec<u8>, ObjectError> {
        let fails = self.begin()?;
        self.gets.fetch_add(1, Ordering::SeqCst);
        if fails.is_some() {
            return failed();
        }
        let objects = self.objects.lock().unwrap();
        let content =
            objects.get(key).ok_or_else(|| ObjectError::new(ObjectFault::Missing, "404 NoSuchKey"))?;
        let end = range.end.min(content.len() as u64);
        if range.start >= end {
            return Err(ObjectError::new(ObjectFault::Wrong, "416 range not satisfiable"));
        }
        let mut body = content[range.start as usize..end as usize].to_vec();
        self.bytes_read.fetch_add(body.len() as u64, Ordering::SeqCst);
        match *self.fault.lock().unwrap() {
            Some(Fault::Cut) => body.truncate(body.len() / 2),
            Some(Fault::Wrong) => {
                let middle = body.len() / 2;
                body[middle] ^= 4;
            }
            _ => {}
        }
        Ok(body)
    }

    fn size(&self, key: &str) -> Result<Option<u64>, ObjectError> {
        if self.begin()?.is_some() {
            return failed();
        }
        Ok(self.objects.lock().unwrap().get(key).map(|content| content.len() as u64))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError> {
        if self.begin()?.is_some() {
            return failed();
        }
        Ok(self.keys().into_iter().filter(|key| key.starts_with(prefix)).collect())
    }

    fn delete(&self, key: &str) -> Result<(), ObjectError> {
        let fails = self.begin()?;
        if fails != Some(false) {
            self.objects.lock().unwrap().remove(key);
        }
        if fails.is_some() { failed() } else { Ok(()) }
    }
}
