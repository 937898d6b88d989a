//! What the calls share.

use crate::bearer::Bearers;
use crate::facts::Facts;
use crate::options::FlightOptions;
use crate::prepared::Statements;
use crate::running::RunningQueries;
use crate::ticket::Tickets;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tokio::sync::Semaphore;

/// Uploads at once: each may hold a few messages.
pub(crate) const UPLOADS_MAX: usize = 8;

/// What the calls share.
pub(crate) struct SharedState {
    pub options: FlightOptions,
    pub bearers: Bearers,
    pub tickets: Tickets,
    pub statements: Statements,
    pub running: RunningQueries,
    pub facts: Facts,
    pub uploads: Arc<Semaphore>,
    pub is_stopping: AtomicBool,
    /// Queries that were begun.
    pub queries: AtomicU64,
    /// Rows that were stored.
    pub rows_stored: AtomicU64,
}

pub(crate) type Shared = Arc<SharedState>;

impl SharedState {
    /// # Errors
    /// When the system has no random numbers.
    pub fn new(options: FlightOptions) -> Result<Self, String> {
        Ok(Self {
            options,
            bearers: Bearers::default(),
            tickets: Tickets::new()?,
            statements: Statements::default(),
            running: RunningQueries::default(),
            facts: Facts::new().map_err(|error| error.to_string())?,
            uploads: Arc::new(Semaphore::new(UPLOADS_MAX)),
            is_stopping: AtomicBool::new(false),
            queries: AtomicU64::new(0),
            rows_stored: AtomicU64::new(0),
        })
    }
}
