//! Limits and threads of queries.

use std::time::Duration;
use tapedb_arrow::Decimals;

/// Bytes of memory for the state of operators, unless another number is asked for.
const MEMORY_BYTES: usize = 1 << 30;

/// Limits of queries, and how they run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads that compute; `None`: as many as there are processors. As many again read.
    pub threads: Option<usize>,
    /// Bytes for the state of operators (sorts, groups, joins), all queries together. Sorts and groups that need more continue on the
    /// disk, in the system's directory for temporary files; what cannot is an error.
    pub memory_bytes: usize,
    /// A query that runs longer is stopped with an error.
    pub time_limit: Option<Duration>,
    /// A query with more rows than this is stopped with an error.
    pub rows_max: Option<u64>,
    /// What becomes of `decimal64`: doubles, unless another type is asked for.
    pub decimals: Decimals,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: None,
            memory_bytes: MEMORY_BYTES,
            time_limit: None,
            rows_max: None,
            decimals: Decimals::default(),
        }
    }
}

impl Options {
    /// Threads that compute.
    pub(crate) fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(all).max(1)
    }
}
