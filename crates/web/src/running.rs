//! The queries that run, each under an id by which its user can end it.

use crate::failure::Failure;
use axum::http::StatusCode;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Queries at once, of all users.
const AT_ONCE: usize = 32;

/// The queries that run.
#[derive(Debug, Default)]
pub(crate) struct RunningQueries {
    open: Mutex<HashMap<(String, String), Arc<AtomicBool>>>,
    next: AtomicU64,
}

impl RunningQueries {
    /// Registers a query of a user, under an id that the client has chosen, or one of its own.
    ///
    /// # Errors
    /// An id that is none, or that runs; too many queries.
    pub fn begin(self: &Arc<Self>, user: &str, id: Option<String>) -> Result<Running, Failure> {
        let id = match id {
            Some(id) if is_id(&id) => id,
            Some(_) => {
                return Err(Failure::invalid("an id of a query has 1 to 64 letters, digits, `-` or `_`"));
            }
            None => format!("q{}", self.next.fetch_add(1, Ordering::Relaxed)),
        };
        let key = (user.to_string(), id);
        let mut open = self.open();
        if open.len() >= AT_ONCE {
            return Err(Failure::too_many(format!(
                "{AT_ONCE} queries run over HTTP, which is the limit; try again"
            )));
        }
        if open.contains_key(&key) {
            return Err(Failure::form(StatusCode::CONFLICT, format!("query {:?} is running", key.1)));
        }
        let is_stopped = Arc::<AtomicBool>::default();
        open.insert(key.clone(), is_stopped.clone());
        Ok(Running { all: self.clone(), key, is_stopped })
    }

    /// Ends a query of a user; whether it was running.
    pub fn stop(&self, user: &str, id: &str) -> bool {
        let open = self.open();
        let found = open.get(&(user.to_string(), id.to_string()));
        found.is_some_and(|is_stopped| !is_stopped.swap(true, Ordering::AcqRel))
    }

    /// Ends all queries.
    pub fn stop_all(&self) {
        self.open().values().for_each(|is_stopped| is_stopped.store(true, Ordering::Release));
    }

    fn open(&self) -> MutexGuard<'_, HashMap<(String, String), Arc<AtomicBool>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// A query that runs, until it is dropped.
pub(crate) struct Running {
    all: Arc<RunningQueries>,
    pub key: (String, String),
    pub is_stopped: Arc<AtomicBool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.all.open().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_cancelled_by_its_user_only() {
        let queries = Arc::<RunningQueries>::default();
        let running =
            queries.begin("ann", Some("a-1".into())).unwrap_or_else(|failure| panic!("{failure:?}"));
        assert!(queries.begin("ann", Some("a-1".into())).is_err(), "it is running");
        assert!(!queries.stop("bob", "a-1") && !queries.stop("ann", "a-2"));
        assert!(queries.stop("ann", "a-1") && running.is_stopped.load(Ordering::Acquire));
        assert!(!queries.stop("ann", "a-1"), "it was");
        drop(running);
        assert!(queries.open().is_empty());
        for id in ["", "a b", "a/b", &"x".repeat(65)] {
            assert!(queries.begin("ann", Some(id.into())).is_err(), "{id}");
        }
        let all: Vec<_> = (0..AT_ONCE).map(|_| queries.begin("ann", None).map_err(|_| ()).unwrap()).collect();
        assert!(queries.begin("bob", None).is_err());
        drop(all);
    }
}
