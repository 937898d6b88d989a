//! Limits and threads of queries.

use std::time::Duration;
use tapedb_arrow::Decimals;

/// Bytes of memory for the state of operators, unless another number is asked for.
const MEMORY_BYTES: usize = 1 << 30;

/// Bytes of temporary files, unless another number is asked for.
const DISK_BYTES: u64 = 100 << 30;

/// Where the queries on a remote database run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// On its server, if that runs queries; otherwise here.
    #[default]
    Nearest,
    /// Here: blocks and columns are read from the server.
    Here,
    /// On its server; it is an error if that runs no queries.
    Server,
}

/// Limits of queries, and how they run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads that compute; `None`: as many as there are processors. As many again read.
    pub threads: Option<usize>,
    /// Bytes for the state of operators (sorts, groups, joins), all queries together. Sorts and groups that need more continue on the
    /// disk, in the system's directory for temporary files; what cannot is an error.
    pub memory_bytes: usize,
    /// Bytes of temporary files of all queries together, in the system's directory for temporary files.
    pub disk_bytes: u64,
    /// A query that runs longer is stopped with an error.
    pub time_limit: Option<Duration>,
    /// A query with more rows than this is stopped with an error.
    pub rows_max: Option<u64>,
    /// What becomes of `decimal64`: doubles, unless another type is asked for.
    pub decimals: Decimals,
    /// Whether symbols and enums that come straight from tables are dictionaries, as in columns that are read without SQL; otherwise they are
    /// texts, as all that is computed. Where a server of TapeDB's own protocol runs the query, they
    /// are texts.
    pub dictionaries: bool,
    /// Whether queries go on with what arrives after history; `docs/SQL.md` states which ones can. They run here, also on a remote
    /// database, and limits of time and rows do not hold for them.
    pub live: bool,
    /// How late messages may be, in their time: live groups and as-of joins wait so long for them.
    pub lateness: Duration,
    /// Where the queries on a remote database run. There the server's threads, memory and disk are used.
    pub place: Place,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: None,
            memory_bytes: MEMORY_BYTES,
            disk_bytes: DISK_BYTES,
            time_limit: None,
            rows_max: None,
            decimals: Decimals::default(),
            dictionaries: false,
            live: false,
            lateness: Duration::ZERO,
            place: Place::default(),
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
