//! The clock.

use std::time::{SystemTime, UNIX_EPOCH};
use tapedb_schema::Timestamp;

/// The time now.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_nanos() as i64)
}
