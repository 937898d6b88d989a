//! The clock, and random numbers: all that the engine takes from outside of its storage.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};
use tapedb_schema::Timestamp;

/// A random number, for ids: the standard library's hash keys are random per process and call.
pub(crate) fn random() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_i64(now().0);
    hasher.finish()
}

/// The time of the system's clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_nanos() as i64)
}
