//! The state of a running front.

use super::budget::Budget;
use super::hub::Hub;
use super::options::FrontOptions;
use super::publisher::PublisherThread;
use super::served::Served;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What all connections of a front share.
#[derive(Debug)]
pub(super) struct FrontState {
    pub served: Served,
    pub options: FrontOptions,
    pub publisher: Option<PublisherThread>,
    pub budget: Arc<Budget>,
    pub is_stopping: AtomicBool,
    pub connections: AtomicUsize,
    pub last_id: AtomicU64,
    pub refused: AtomicU64,
    pub hostile: AtomicU64,
    pub errors: AtomicU64,
    pub last_error: Mutex<Option<String>>,
}

impl FrontState {
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    pub fn hub(&self) -> Option<&Arc<Hub>> {
        self.publisher.as_ref().map(PublisherThread::hub)
    }

    pub fn record_error(&self, error: &str) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.into());
    }
}
