//! Work that blocks: reading streams, checking passwords. It runs on threads beside those that serve connections.
//!
//! Always true: at most [`AT_ONCE`] requests work at once, none longer than [`TIME_MAX`]; work whose client has left ends within
//! a tenth of a second, wherever it reads.

use crate::failure::Failure;
use axum::http::StatusCode;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tapedb_engine::interruptible;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Requests that work at once; further ones wait.
const AT_ONCE: usize = 16;
/// The longest wait for a place.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// The longest work of a request. Queries have limits of their own.
const TIME_MAX: Duration = Duration::from_secs(30);

/// The places for work.
#[derive(Debug)]
pub(crate) struct Workers {
    places: Arc<Semaphore>,
}

impl Default for Workers {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

/// Whether work is still wanted.
#[derive(Debug, Clone)]
struct Wanted {
    is_dropped: Arc<AtomicBool>,
    until: Instant,
}

impl Wanted {
    fn is_over(&self) -> bool {
        self.is_dropped.load(Ordering::Relaxed) || Instant::now() >= self.until
    }
}

thread_local! {
    /// What this thread works for.
    static WANTED: RefCell<Option<Wanted>> = const { RefCell::new(None) };
}

/// Tells the work when the request is dropped.
struct DropNotice(Arc<AtomicBool>);

impl Drop for DropNotice {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether the work of this thread is not wanted any more.
fn is_unwanted() -> bool {
    WANTED.with_borrow(|wanted| wanted.as_ref().is_some_and(Wanted::is_over))
}

/// Fails when the work of this thread is not wanted any more, or takes too long: for loops that read nothing.
pub(crate) fn check() -> Result<(), Failure> {
    if is_unwanted() { Err(too_long()) } else { Ok(()) }
}

fn too_long() -> Failure {
    let text =
        format!("this takes longer than {} s; ask for a shorter time or fewer symbols", TIME_MAX.as_secs());
    Failure::form(StatusCode::UNPROCESSABLE_ENTITY, text)
}

impl Workers {
    /// Does work on a thread that may block.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let Ok(Ok(place)) = timeout(WAIT_MAX, self.places.clone().acquire_owned()).await else {
            return Err(Failure::unavailable("the server has too much to do; try again"));
        };
        let notice = DropNotice(Arc::default());
        let wanted = Wanted { is_dropped: notice.0.clone(), until: Instant::now() + TIME_MAX };
        let done = spawn_blocking(move || {
            let _place = place;
            WANTED.set(Some(wanted.clone()));
            let result = interruptible(is_unwanted, work);
            WANTED.set(None);
            // An interrupted read is reported as what it is.
            if result.is_err() && wanted.is_over() { Err(too_long()) } else { result }
        });
        let result = done.await;
        drop(notice);
        result
            .unwrap_or_else(|_| Err(Failure::internal("the request failed; the server's log has the cause")))
    }
}
