//! Object stores for old segments: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`.
//!
//! [`register`] makes them known to the engine, which decides what is stored and read, and when: `docs/TIER.md`. Here are their URLs,
//! credentials from the environment, a runtime of two threads for the requests, and the limits of a request in time and repetitions.
//! Folders, `file:///folder`, are the engine's own.

mod errors;
mod place;
mod store;

use std::sync::Arc;
use tapedb_engine::{ObjectError, ObjectStore, register_object_store};

/// Makes the stores of this crate known to databases of this process. It makes no request and starts no thread.
pub fn register() {
    for scheme in place::SCHEMES {
        register_object_store(scheme, open);
    }
}

/// Opens the store of a URL, with credentials of the environment. It makes no request.
///
/// # Errors
/// When the URL or a setting in the environment is not valid.
pub fn open(url: &str) -> Result<Arc<dyn ObjectStore>, ObjectError> {
    let place = place::Place::open(url)?;
    Ok(Arc::new(store::CloudStore::new(place)?))
}
