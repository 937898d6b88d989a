//! A store of a cloud, for threads that wait: each request is a task on a runtime of two threads.

use crate::errors::convert;
use crate::place::Place;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore as _, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;
use tapedb_engine::{ObjectError, ObjectFault, ObjectStore};
use tokio::runtime::Runtime;

/// A request is given up after this, with all its repetitions.
const LIMIT: Duration = Duration::from_secs(60);
/// The same for one that stores an object.
const PUT_LIMIT: Duration = Duration::from_secs(180);

/// All stores of the process share its threads.
static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();

pub(crate) struct CloudStore {
    place: Arc<Place>,
    runtime: &'static Runtime,
}

impl std::fmt::Debug for CloudStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CloudStore({})", self.place.store)
    }
}

impl CloudStore {
    pub fn new(place: Place) -> Result<Self, ObjectError> {
        let runtime = RUNTIME.get_or_init(|| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder
                .worker_threads(2)
                .thread_name("tapedb-tier")
                .enable_all()
                .build()
                .map_err(|error| error.to_string())
        });
        let runtime = runtime.as_ref().map_err(|error| {
            ObjectError::new(
                ObjectFault::Unavailable,
                format!("cannot start the threads for requests: {error}"),
            )
        })?;
        Ok(Self { place: Arc::new(place), runtime })
    }

    fn path(&self, key: &str) -> Result<Path, ObjectError> {
        let whole = if self.place.prefix.is_empty() {
            key.to_string()
        } else {
            format!("{}/{key}", self.place.prefix)
        };
        Path::parse(whole.trim_end_matches('/'))
            .map_err(|error| ObjectError::new(ObjectFault::Wrong, error.to_string()))
    }

    /// Runs a request, and waits for it no longer than `limit`. The caller may be a thread of another runtime, so it waits as threads do.
    fn run<T: Send + 'static>(
        &self,
        limit: Duration,
        request: impl Future<Output = Result<T, object_store::Error>> + Send + 'static,
    ) -> Result<T, Failure> {
        let (done, result) = mpsc::sync_channel(1);
        self.runtime.spawn(async move {
            let _ = done.send(tokio::time::timeout(limit, request).await);
        });
        match result.recv() {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(error))) => Err(Failure::Store(error)),
            _ => Err(Failure::Late(limit)),
        }
    }

    fn failed(&self, failure: Failure) -> ObjectError {
        match failure {
            Failure::Store(error) => convert(&error, self.place.credentials),
            Failure::Late(limit) => {
                let what = format!("the store has not answered within {} seconds", limit.as_secs());
                ObjectError::new(ObjectFault::Unavailable, what)
            }
        }
    }
}

enum Failure {
    Store(object_store::Error),
    Late(Duration),
}

impl ObjectStore for CloudStore {
    fn put_if_absent(&self, key: &str, content: &[u8]) -> Result<bool, ObjectError> {
        let (path, place, payload) =
            (self.path(key)?, self.place.clone(), PutPayload::from(content.to_vec()));
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.run(PUT_LIMIT, async move { place.store.put_opts(&path, payload, options).await }) {
            Ok(_) => Ok(true),
            Err(Failure::Store(
                object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. },
            )) => Ok(false),
            Err(failure) => Err(self.failed(failure)),
        }
    }

    fn get_range(&self, key: &str, range: Range<u64>) -> Result<Vec<u8>, ObjectError> {
        let (path, place) = (self.path(key)?, self.place.clone());
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let read = self.run(LIMIT, async move {
            // Not with `bytes`, which would join the chunks and then be copied once more.
            let result = place.store.get_opts(&path, options).await?;
            let mut body = Vec::with_capacity((result.range.end - result.range.start) as usize);
            let mut chunks = result.into_stream();
            while let Some(chunk) = chunks.try_next().await? {
                body.extend_from_slice(&chunk);
            }
            Ok(body)
        });
        read.map_err(|failure| self.failed(failure))
    }

    fn size(&self, key: &str) -> Result<Option<u64>, ObjectError> {
        let (path, place) = (self.path(key)?, self.place.clone());
        match self.run(LIMIT, async move { place.store.head(&path).await }) {
            Ok(meta) => Ok(Some(meta.size)),
            Err(Failure::Store(object_store::Error::NotFound { .. })) => Ok(None),
            Err(failure) => Err(self.failed(failure)),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError> {
        let (path, place) = (self.path(prefix)?, self.place.clone());
        let start = if self.place.prefix.is_empty() { 0 } else { self.place.prefix.len() + 1 };
        let listed = self.run(LIMIT, async move {
            let objects = place.store.list(Some(&path));
            objects.map_ok(|object| object.location.to_string()).try_collect::<Vec<String>>().await
        });
        let mut keys = listed.map_err(|failure| self.failed(failure))?;
        keys.iter_mut().for_each(|key| drop(key.drain(..start.min(key.len()))));
        keys.sort();
        Ok(keys)
    }

    fn delete(&self, key: &str) -> Result<(), ObjectError> {
        let (path, place) = (self.path(key)?, self.place.clone());
        match self.run(LIMIT, async move { place.store.delete(&path).await }) {
            Ok(()) | Err(Failure::Store(object_store::Error::NotFound { .. })) => Ok(()),
            Err(failure) => Err(self.failed(failure)),
        }
    }
}
