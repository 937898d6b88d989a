//! A server inside this process: for tests and notebooks.

use crate::failure::Failure;
use crate::held::{Held, detached, guarded};
use pyo3::prelude::*;
use std::path::PathBuf;
use tapedb_server::{Config, Server as Engine};

/// A running server.
#[pyclass(frozen, module = "tapedb._tapedb")]
pub struct Server {
    server: Held<Engine>,
    url: Option<String>,
    unix_socket: Option<String>,
    http: Option<String>,
}

/// Starts a server.
#[pyfunction]
#[pyo3(signature = (path, *, listen, http, unix_socket, users, config))]
pub fn serve(
    py: Python<'_>,
    path: PathBuf,
    listen: Option<&str>,
    http: &str,
    unix_socket: Option<PathBuf>,
    users: Option<PathBuf>,
    config: Option<&str>,
) -> PyResult<Server> {
    let refused = |error: tapedb_server::ConfigError| Failure::Argument(error.to_string());
    let endpoint = |text: &str| text.parse().map_err(refused);
    let mut settings = config.map_or(Ok(Config::default()), Config::from_toml).map_err(refused)?;
    settings.database = path;
    if let Some(listen) = listen {
        settings.listen = endpoint(listen)?;
    }
    settings.http = endpoint(http)?;
    settings.unix_socket = unix_socket.or(settings.unix_socket);
    settings.users = users.or(settings.users);
    let server = detached(py, || guarded(|| Ok(Engine::start(settings)?)))?;
    let addresses = server.addresses();
    Ok(Server {
        url: addresses.url(),
        unix_socket: addresses.unix.as_ref().map(|path| path.display().to_string()),
        http: addresses.http.map(|address| format!("http://{address}")),
        server: Held::new("server", server),
    })
}

#[pymethods]
impl Server {
    /// The URL for clients on this machine.
    #[getter]
    fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    #[getter]
    fn unix_socket(&self) -> Option<&str> {
        self.unix_socket.as_deref()
    }

    /// Address of health, status and metrics.
    #[getter]
    fn http(&self) -> Option<&str> {
        self.http.as_deref()
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.server.is_closed()
    }

    /// Connections at this moment.
    #[getter]
    fn connections(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.server.run(py, |server| Ok::<_, Failure>(server.connections()))?)
    }

    /// Shuts the server down in order.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let server = self.server.take(py)?;
        Ok(detached(py, || {
            guarded(|| {
                let _left = server.map(Engine::shutdown);
                Ok(())
            })
        })?)
    }
}
