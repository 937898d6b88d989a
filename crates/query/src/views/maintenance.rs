//! The thread that keeps the views of a database up to date.

use super::progress::{OLD_MAX, Steps};
use super::registry::{Entry, Registry};
use super::view::View;
use crate::error::{Error, Reason};
use crate::service::QueryService;
use crate::session::Sql;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// When the database is not written by this process, its views are kept already, or the thread cannot be started.
    pub fn maintain_views(&self, on_failure: impl Fn(&str, &Error) + Send + 'static) -> Result<Views, Error> {
        self.maintain_views_with(on_failure, OLD_MAX)
    }

    /// The same, with so many superseded messages about steps before they are deleted.
    fn maintain_views_with(
        &self,
        on_failure: impl Fn(&str, &Error) + Send + 'static,
        old_max: u64,
    ) -> Result<Views, Error> {
        let db = self.database();
        if db.is_read_only() {
            return Err(tapedb_engine::Error::ReadOnly.into());
        }
        if db.server_status()?.is_some() {
            return Err(Error::query("the views of a server's database are kept up to date by the server"));
        }
        let is_stopping = Arc::new(AtomicBool::new(false));
        let mut maintenance = Maintenance {
            _only: Only::of(db.path())?,
            old_max,
            steps: None,
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

/// Databases whose views this process keeps.
static KEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Two threads would append the rows of a view twice: only one keeps those of a database.
struct Only(PathBuf);

impl Only {
    fn of(path: &Path) -> Result<Self, Error> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
        match KEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone()) {
            true => Ok(Self(path)),
            false => Err(Error::query("this process keeps the views of the database up to date already")),
        }
    }
}

impl Drop for Only {
    fn drop(&mut self) {
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// What the thread has.
struct Maintenance {
    _only: Only,
    sql: Sql,
    /// How far the views are; `None`: that is to be read.
    steps: Option<Steps>,
    old_max: u64,
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
        let mut steps = match self.steps.take() {
            Some(steps) => steps,
            None => Steps::open(self.sql.database(), self.old_max)?,
        };
        steps.retain(&entries);
        let defined = |name: &String| entries.get(name).map(|entry| entry.defined);
        self.slots.retain(|name, (time, _)| defined(name) == Some(*time));
        let (mut is_changed, mut has_failed) = (false, false);
        for (name, entry) in &entries {
            if self.is_stopping.load(Ordering::Relaxed) {
                break;
            }
            let slot = match self.slots.remove(name) {
                Some((_, slot)) => slot,
                None => Slot::Failed(Instant::now()),
            };
            let slot = match self.step_view(slot, (name, entry), &mut steps) {
                Ok((slot, is_new)) => {
                    is_changed |= is_new;
                    slot
                }
                Err(error) => {
                    (self.on_failure)(name, &error);
                    has_failed = true;
                    Slot::Failed(Instant::now() + RETRY)
                }
            };
            self.slots.insert(name.clone(), (entry.defined, slot));
        }
        // What was noted last is not known after a failure.
        self.steps = Some(steps).filter(|_| !has_failed);
        self.known = Some((ends, entries));
        Ok(is_changed)
    }

    fn step_view(
        &self,
        slot: Slot,
        (name, entry): (&str, &Entry),
        steps: &mut Steps,
    ) -> Result<(Slot, bool), Error> {
        let mut view = match slot {
            Slot::Open(view) => view,
            Slot::Failed(until) if Instant::now() < until => return Ok((Slot::Failed(until), false)),
            Slot::Failed(_) => Box::new(View::open(&self.sql, (name, entry), steps.of(name, entry))?),
        };
        let is_new = view.step(&self.sql, steps)?;
        Ok((Slot::Open(view), is_new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::parameters::Parameters;
    use datafusion::arrow::array::RecordBatch;
    use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
    use std::process::{Child, Command, Stdio};
    use tapedb_engine::{Database, Stream, StreamOptions};

    const BARS: &str = "SELECT time_bucket('10 seconds', time) AS bucket, symbol, count(*) AS trades, sum(n) AS volume FROM ticks \
        GROUP BY bucket, symbol";
    const LASTS: &str =
        "SELECT DISTINCT ON (symbol) symbol, time, n FROM ticks WHERE n % 3 > 0 ORDER BY symbol, time DESC";

    /// The database, in the process that is to be killed.
    const KILLED: &str = "TAPEDB_TEST_VIEWS_MAINTENANCE_KILLED";

    /// Messages about steps beside the last ones: so few that half of all steps end with their deletion.
    const OLD: u64 = 1;

    fn rows(sql: &Sql, text: &str) -> Vec<String> {
        let rows = sql.run(text, &Parameters::default(), &Options::default());
        let lines = |batch: RecordBatch| -> Vec<String> {
            let options = FormatOptions::default();
            let columns: Vec<_> = batch
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
                .collect();
            let line = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>();
            (0..batch.num_rows()).map(|row| line(row).join("|")).collect()
        };
        rows.unwrap_or_else(|error| panic!("{text}: {error}"))
            .flat_map(|batch| lines(batch.unwrap()))
            .collect()
    }

    fn load(stream: &Stream, seconds: impl IntoIterator<Item = i64>) {
        let mut loader = stream.loader().unwrap();
        for second in seconds {
            let value =
                stream.layouts().from_json(&format!(r#"{{"$type": "Tick", "n": {second}}}"#)).unwrap();
            let symbol = ["A", "B", "C", "D"][second as usize % 4];
            loader.append_value(symbol, Timestamp(second * 1_000_000_000), &value).unwrap();
        }
        loader.close().unwrap();
    }

    /// Keeps views and loads ticks, some of them late, until it is killed: not a test by itself.
    #[test]
    fn works_until_it_is_killed() {
        let Some(path) = std::env::var_os(KILLED) else { return };
        let db = Database::open(path).unwrap();
        let ticks = db.stream("ticks").unwrap();
        let sql = Sql::new(&db).unwrap();
        let _views = sql.maintain_views_with(|_, _| {}, OLD).unwrap();
        let begun = ticks.stats().unwrap().times.map_or(0, |(_, last)| last.0 / 1_000_000_000 + 1);
        for step in 0..100_000 {
            let from = begun + step * 7;
            load(&ticks, from..from + 7);
            if step % 5 == 4 {
                load(&ticks, [from / 2, from - 30]);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn child(path: &Path) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "views::maintenance::tests::works_until_it_is_killed"])
            .env(KILLED, path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    #[test]
    fn a_process_that_is_killed_while_it_deletes_old_steps_leaves_each_row_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        {
            let db = Database::open(&path).unwrap();
            let schema = "message Tick { n: i64 }".parse().unwrap();
            load(&db.create_stream("ticks", schema, StreamOptions::default()).unwrap(), 0..100);
            let sql = Sql::new(&db).unwrap();
            for (name, query) in [("bars", BARS), ("bars_too", BARS), ("lasts", LASTS)] {
                rows(&sql, &format!("CREATE VIEW {name} LIVE AS {query}"));
            }
        }
        let noted = |path: &Path| {
            let db = Database::open_read_only(path).ok()?;
            let noted = db.stream("tapedb.views.progress").ok()?.next_sequences().ok()?[0];
            Some(noted).filter(|noted| *noted > 0)
        };
        let mut kills_after_steps = 0;
        for round in 0..12_u64 {
            let (before, mut child) = (noted(&path), child(&path));
            // Each time at another moment behind a step, most of which delete old ones.
            let deadline = Instant::now() + Duration::from_secs(60);
            while noted(&path) <= before && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(round * 23 % 90));
            child.kill().unwrap();
            child.wait().unwrap();
            kills_after_steps += u64::from(noted(&path) > before);
            let db = Database::open_read_only(&path).unwrap();
            let messages = db.stream("tapedb.views.progress").unwrap().cursor().count().unwrap();
            assert!(messages <= 3 + OLD + 1, "{messages} messages about three views");
        }
        assert_eq!(kills_after_steps, 12);
        let db = Database::open(&path).unwrap();
        let sql = Sql::new(&db).unwrap();
        let _views = sql.maintain_views_with(|name, error| panic!("{name}: {error}"), OLD).unwrap();
        let last = "(SELECT time_bucket('10 seconds', max(time)) FROM ticks)";
        let bars = format!("SELECT * FROM ({BARS}) WHERE bucket < {last} ORDER BY bucket, symbol");
        let lasts = LASTS.replace("time DESC", "time DESC, sequence DESC");
        for (wanted, found) in [
            (&bars, "SELECT time, symbol, trades, volume FROM bars ORDER BY time, symbol"),
            (&bars, "SELECT time, symbol, trades, volume FROM bars_too ORDER BY time, symbol"),
            (&lasts, "SELECT symbol, time, n FROM lasts ORDER BY symbol"),
        ] {
            let wanted = rows(&sql, wanted);
            assert!(wanted.len() >= 4);
            let deadline = Instant::now() + Duration::from_secs(60);
            while rows(&sql, found) != wanted {
                assert!(Instant::now() < deadline, "{found}: {:?}, not {wanted:?}", rows(&sql, found));
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    #[test]
    fn one_thread_keeps_the_views_of_a_database() {
        let directory = tempfile::tempdir().unwrap();
        let db = Database::open(directory.path().join("db")).unwrap();
        let sql = Sql::new(&db).unwrap();
        let views = sql.maintain_views(|_, _| {}).unwrap();
        let error = Sql::new(&db).unwrap().maintain_views(|_, _| {}).unwrap_err();
        assert!(error.to_string().contains("already"), "{error}");
        drop(views);
        sql.maintain_views(|_, _| {}).unwrap();
    }
}
