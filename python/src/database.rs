//! Databases.

use crate::cursor::Cursor;
use crate::failure::Failure;
use crate::held::{Held, detached, try_attached, without_interpreter};
use crate::options::{Selection, with};
use crate::query::{Asked, Rows};
use crate::reader::Batches;
use crate::stream::Stream;
use crate::types::Types;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tapedb_client::{Address, Client, Login};
use tapedb_engine::{Database as Engine, DeletedStreams, Error, NotFound, StreamOptions};
use tapedb_schema::Schema;

/// An open database.
#[pyclass(frozen, module = "tapedb._tapedb")]
pub struct Database {
    db: Held<Engine>,
    path: String,
    is_read_only: bool,
    is_remote: bool,
}

/// Opens a database: a directory, or the URL of a server.
#[pyfunction]
#[pyo3(signature = (place, *, mode, login, connections, tls_roots, wait, reconnect_timeout, spin, on_connection: "Callable[[str], None] | None"))]
#[expect(clippy::too_many_arguments, reason = "Python has them as keyword arguments, in one place")]
pub fn open(
    py: Python<'_>,
    place: &str,
    mode: &str,
    login: Option<(Option<String>, String)>,
    connections: usize,
    tls_roots: Option<String>,
    wait: f64,
    reconnect_timeout: f64,
    spin: f64,
    on_connection: Option<Py<PyAny>>,
) -> PyResult<Database> {
    #[cfg(feature = "tier")]
    tapedb_tier::register();
    let (address, _) = Address::parse(place).map_err(|error| Failure::Argument(error.to_string()))?;
    let is_remote = !matches!(address, Address::Directory(_));
    let seconds = |name: &str, seconds: f64| {
        let refused =
            |_| Failure::Argument(format!("{name}={seconds} is not possible; give seconds, 0 or more"));
        Duration::try_from_secs_f64(seconds).map_err(refused)
    };
    let mut client = Client::at(place)
        .connections(connections)
        .wait(seconds("wait", wait)?)
        .reconnect_timeout(seconds("reconnect_timeout", reconnect_timeout)?)
        .spin(seconds("spin", spin)?);
    client = match login {
        None => client,
        Some((Some(user), password)) => client.login(Login::password(user, password)),
        Some((None, token)) => client.login(Login::token(token)),
    };
    if let Some(path) = tls_roots {
        client = client.tls_roots(path);
    }
    if let Some(listener) = on_connection {
        client = client.on_connection(move |event| {
            let text = event.to_string();
            // While the interpreter ends, there is no one to call.
            let _ = try_attached(|py| {
                if let Err(error) = listener.call1(py, (text,)) {
                    error.write_unraisable(py, Some(listener.bind(py)));
                }
            });
        });
    }
    let given_up = Arc::new(AtomicBool::new(false));
    let client = client.give_up_when(given_up.clone());
    let directory = match address {
        Address::Directory(path) => Some(path),
        _ => None,
    };
    let mode = mode.to_string();
    let engine = interruptible(py, &given_up, move || match (directory, mode.as_str()) {
        (Some(path), "r") => Ok(Engine::open_read_only(path)?),
        (Some(path), "w") => Ok(Engine::open(path)?),
        (Some(path), _) => {
            // A writer makes a database where there is none; this mode asks for one that is there.
            drop(Engine::open_read_only(&path)?);
            Ok(Engine::open(path)?)
        }
        (None, _) => Ok(client.connect()?),
    })?;
    let (path, is_read_only) = (engine.path().display().to_string(), engine.is_read_only());
    Ok(Database { db: Held::new("database", engine), path, is_read_only, is_remote })
}

/// Does what may wait for a server on another thread, so that Ctrl-C ends the wait.
fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    given_up: &AtomicBool,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let spawned = std::thread::Builder::new().name("tapedb-open".into()).spawn(move || {
        let _ = sender.send(crate::held::guarded(work));
    });
    let refused = |error: std::io::Error| Failure::Argument(format!("cannot start a thread: {error}"));
    spawned.map_err(refused)?;
    let receiver = std::sync::Mutex::new(receiver);
    loop {
        let received = detached(py, || {
            let receiver = receiver.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            receiver.recv_timeout(Duration::from_millis(50))
        });
        match received {
            Ok(done) => return Ok(done?),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                py.check_signals().inspect_err(|_| given_up.store(true, Ordering::Relaxed))?;
            }
            Err(_) => return Err(Failure::Internal("the thread that opens ended".into()).into()),
        }
    }
}

#[pymethods]
impl Database {
    /// The directory or URL.
    #[getter]
    fn path(&self) -> &str {
        &self.path
    }

    #[getter]
    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    #[getter]
    fn is_remote(&self) -> bool {
        self.is_remote
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.db.is_closed()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.db.close(py)?)
    }

    fn streams(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.db.run(py, |db| db.streams())?)
    }

    fn stream(&self, py: Python<'_>, name: String, known: Py<PyDict>) -> PyResult<Stream> {
        let stream = self.db.run(py, |db| db.stream(&name))?;
        Ok(Stream::new(py, stream, known))
    }

    fn create(
        &self,
        py: Python<'_>,
        name: String,
        schema: &str,
        known: Py<PyDict>,
        exist_ok: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Stream> {
        let schema: Schema = schema.parse().map_err(Error::from).map_err(Failure::from)?;
        let options = with(StreamOptions::default(), options)?;
        let stream = self.db.run(py, |db| match exist_ok {
            true => db.open_or_create_stream(&name, schema, options),
            false => db.create_stream(&name, schema, options),
        })?;
        Ok(Stream::new(py, stream, known))
    }

    fn change_schema(
        &self,
        py: Python<'_>,
        name: String,
        schema: &str,
        known: Py<PyDict>,
    ) -> PyResult<Stream> {
        let schema: Schema = schema.parse().map_err(Error::from).map_err(Failure::from)?;
        Ok(Stream::new(py, self.db.run(py, |db| db.change_schema(&name, schema))?, known))
    }

    fn delete(&self, py: Python<'_>, name: String) -> PyResult<()> {
        Ok(self.db.run(py, |db| db.delete_stream(&name))?)
    }

    fn rename(&self, py: Python<'_>, name: String, new: String) -> PyResult<()> {
        Ok(self.db.run(py, |db| db.rename_stream(&name, &new).map(drop))?)
    }

    /// A cursor over several streams, merged by time.
    #[pyo3(signature = (streams: "list[tuple[str, dict[str, type]]]", selection: "dict[str, Any]"))]
    fn cursor(
        &self,
        py: Python<'_>,
        streams: Vec<(String, Py<PyDict>)>,
        selection: Selection<'_>,
    ) -> PyResult<Cursor> {
        let names: Vec<&str> = streams.iter().map(|(name, _)| name.as_str()).collect();
        let found = self.db.run(py, |db| {
            let streams = names.iter().map(|name| db.stream(name)).collect::<Result<Vec<_>, Error>>()?;
            Ok::<_, Error>((db.cursor(&names)?, streams))
        });
        let (builder, opened) = found?;
        let builder = selection.apply(builder)?;
        let types = opened
            .iter()
            .zip(streams)
            .map(|(stream, (name, known))| (name, Arc::new(Types::new(py, stream.layouts().clone(), known))));
        let types = types.collect();
        let cursor = self.db.run(py, |_| builder.open())?;
        Ok(Cursor::new(cursor, types))
    }

    /// Begins a query.
    #[pyo3(signature = (asked: "dict[str, Any]"))]
    fn sql(&self, py: Python<'_>, asked: Asked) -> PyResult<Batches> {
        // Other threads use the database while the query is planned.
        let db = self.db.run(py, |db| Ok::<_, Error>(db.clone()))?;
        let begun = without_interpreter(py, || Rows::begin(&db, &asked));
        detached(py, || drop(db));
        let (schema, rows) = begun?;
        Ok(Batches::of_query(rows, schema))
    }

    /// Copies the database; calls `progress` with the bytes of each write.
    #[pyo3(signature = (to, deleted, progress: "Callable[[int], None] | None"))]
    fn backup(
        &self,
        py: Python<'_>,
        to: String,
        deleted: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyDict>> {
        let deleted = match deleted {
            "delete" => DeletedStreams::Delete,
            "delete_all" => DeletedStreams::DeleteAll,
            "keep" => DeletedStreams::Keep,
            other => {
                let text =
                    format!("deleted={other:?} is not possible; give \"delete\", \"delete_all\" or \"keep\"");
                return Err(Failure::Argument(text).into());
            }
        };
        if self.is_remote {
            let text = "a server's database is copied where its files are: open the directory, or use `tapedb backup` there";
            return Err(Failure::Argument(text.into()).into());
        }
        let mut interrupted = None;
        let db = self.db.run(py, |db| Ok::<_, Error>(db.clone()))?;
        let copied = detached(py, || {
            crate::held::guarded(|| {
                let on_copied = |bytes: u64| {
                    let checked = Python::attach(|py| {
                        crate::held::check_signals(py)?;
                        progress.as_ref().map_or(Ok(()), |progress| progress.call1(py, (bytes,)).map(drop))
                    });
                    match checked {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(error) => {
                            interrupted = Some(error);
                            ControlFlow::Break(())
                        }
                    }
                };
                Ok(db.backup(&to, deleted, on_copied)?)
            })
        });
        detached(py, || drop(db));
        if let Some(error) = interrupted {
            return Err(error);
        }
        let report = copied?;
        let found = PyDict::new(py);
        found.set_item("streams", report.streams)?;
        found.set_item("segments", report.segments)?;
        found.set_item("bytes", report.bytes)?;
        found.set_item("damaged", report.damaged)?;
        found.set_item("removed", report.removed)?;
        let failed: Vec<_> = report.failed.iter().map(|(name, error)| (name, error.to_string())).collect();
        found.set_item("failed", failed)?;
        Ok(found.unbind())
    }

    /// The status of the server as JSON; `None`: there is no server.
    fn server_status(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.db.run(py, |db| db.server_status())?)
    }

    /// Whether there is a stream of that name.
    fn has(&self, py: Python<'_>, name: String) -> PyResult<bool> {
        Ok(self.db.run(py, |db| match db.stream(&name) {
            Ok(_) => Ok(true),
            Err(Error::NotFound(NotFound::Stream { .. }) | Error::Invalid(_)) => Ok(false),
            Err(error) => Err(error),
        })?)
    }
}
