//! The thread that keeps the views of a database up to date.

use super::registry::{Entry, Registry};
use super::view::View;
use crate::error::{Error, Reason};
use crate::service::QueryService;
use crate::session::Sql;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tapedb_schema::Timestamp;

/// How long to wait before looking again whether something has arrived.
const POLL: Duration = Duration::from_millis(50);

/// The same while the database has no views.
const POLL_WITHOUT_VIEWS: Duration = Duration::from_secs(1);

/// How long a view that failed waits before it is opened again.
const RETRY: Duration = Duration::from_secs(1);

/// Keeps the continuous views of a database up to date until it is dropped: [`Sql::maintain_views`].
pub struct Views {
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Views {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Views").finish_non_exhaustive()
    }
}

impl QueryService {
    /// [`Sql::maintain_views`], for the server that has the database.
    ///
    /// # Errors
    /// As there.
    pub fn maintain_views(&self, on_failure: impl Fn(&str, &Error) + Send + 'static) -> Result<Views, Error> {
        self.sql().maintain_views(on_failure)
    }
}

impl Sql {
    /// Keeps the continuous views of the database up to date, in a thread: those there are, and those that are created later. A view
    /// that fails is tried again each second; `on_failure` is called with its name each time, or with an empty one where the
    /// views cannot be listed.
    ///
    /// # Errors
    /// When the database is not written by this process, or the thread cannot be started.
    pub fn maintain_views(&self, on_failure: impl Fn(&str, &Error) + Send + 'static) -> Result<Views, Error> {
        let db = self.database();
        if db.is_read_only() {
            return Err(tapedb_engine::Error::ReadOnly.into());
        }
        if db.server_status()?.is_some() {
            return Err(Error::query("the views of a server's database are kept up to date by the server"));
        }
        let is_stopping = Arc::new(AtomicBool::new(false));
        let mut maintenance = Maintenance {
            sql: self.clone(),
            is_stopping: is_stopping.clone(),
            on_failure: Box::new(on_failure),
            known: None,
            slots: BTreeMap::new(),
        };
        let thread = std::thread::Builder::new().name("tapedb-views".into()).spawn(move || maintenance.run());
        let thread = thread
            .map_err(|error| Error::new(Reason::Internal, format!("a thread cannot be started: {error}")))?;
        Ok(Views { is_stopping, thread: Some(thread) })
    }
}

impl Drop for Views {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Maintenance {
    sql: Sql,
    is_stopping: Arc<AtomicBool>,
    on_failure: OnFailure,
    known: Option<Known>,
    slots: BTreeMap<String, (Timestamp, Slot)>,
}

/// Is called with the name of a view that failed.
type OnFailure = Box<dyn Fn(&str, &Error) + Send>;

/// The views, as of these ends of the registry.
type Known = (Vec<u64>, BTreeMap<String, Entry>);

/// A view at work, or when it is to be opened again.
enum Slot {
    Open(Box<View>),
    Failed(Instant),
}

impl Maintenance {
    fn run(&mut self) {
        while !self.is_stopping.load(Ordering::Relaxed) {
            match self.step() {
                // There may be more already.
                Ok(true) => {}
                Ok(false) if self.slots.is_empty() => std::thread::park_timeout(POLL_WITHOUT_VIEWS),
                Ok(false) => std::thread::park_timeout(POLL),
                Err(error) => {
                    (self.on_failure)("", &error);
                    std::thread::park_timeout(RETRY);
                }
            }
        }
    }

    /// Brings all views up to date; `false`: there was nothing new.
    fn step(&mut self) -> Result<bool, Error> {
        let Some(registry) = Registry::open(self.sql.database())? else { return Ok(false) };
        let ends = registry.ends()?;
        let entries = match self.known.take() {
            Some((known, entries)) if known == ends => entries,
            _ => registry.views()?,
        };
        let defined = |name: &String| entries.get(name).map(|entry| entry.defined);
        self.slots.retain(|name, (time, _)| defined(name) == Some(*time));
        let mut is_changed = false;
        for (name, entry) in &entries {
            if self.is_stopping.load(Ordering::Relaxed) {
                break;
            }
            let slot = match self.slots.remove(name) {
                Some((_, slot)) => slot,
                None => Slot::Failed(Instant::now()),
            };
            let slot = match self.step_view(slot, (name, entry), &registry) {
                Ok((slot, is_new)) => {
                    is_changed |= is_new;
                    slot
                }
                Err(error) => {
                    (self.on_failure)(name, &error);
                    Slot::Failed(Instant::now() + RETRY)
                }
            };
            self.slots.insert(name.clone(), (entry.defined, slot));
        }
        self.known = Some((ends, entries));
        Ok(is_changed)
    }

    fn step_view(
        &self,
        slot: Slot,
        (name, entry): (&str, &Entry),
        registry: &Registry,
    ) -> Result<(Slot, bool), Error> {
        let mut view = match slot {
            Slot::Open(view) => view,
            Slot::Failed(until) if Instant::now() < until => return Ok((Slot::Failed(until), false)),
            Slot::Failed(_) => Box::new(View::open(&self.sql, name, &entry.query, entry.progress.clone())?),
        };
        let is_new = view.step(&self.sql, registry)?;
        Ok((Slot::Open(view), is_new))
    }
}
