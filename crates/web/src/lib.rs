//! TapeDB over HTTP: the console, a REST interface and a WebSocket, beside a [`Server`](tapedb_server::Server) in the same process.
//! `docs/GATEWAYS.md` describes them.
//!
//! [`Web::start`] has a runtime of its own with two threads; reading streams and running queries happens on further threads, so that
//! neither delays the other, and nothing of it is below the server's own protocol.

mod api;
mod assets;
mod backups;
mod caller;
mod failure;
mod guard;
mod listen;
mod live;
mod market;
mod options;
mod pages;
mod params;
mod patience;
mod rows;
mod running;
mod session;
mod state;
mod timed;
mod uploads;
mod value;
mod work;

pub use options::{
    ImportJob, ImportOptions, ImportProgress, Importer, PlantList, PlantRow, PlantTable, TopicList, TopicRow,
    WebLimits, WebOptions,
};

use crate::session::Sessions;
use crate::state::{Shared, WebState};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tapedb_server::ServerHandle;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Threads that serve connections.
const THREADS: usize = 2;
/// Threads that may block: requests at work, queries, live channels.
const BLOCKING_THREADS: usize = 96;
/// Time for threads that block, after connections have ended.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// A running HTTP server. It ends when it is [shut down](Web::shutdown) or dropped.
#[derive(Debug)]
pub struct Web {
    state: Shared,
    closing: watch::Sender<bool>,
    /// `None`: it has ended.
    running: Option<(Runtime, JoinHandle<()>)>,
}

impl Web {
    /// Listens, and serves.
    ///
    /// On an address that other machines can reach, of a server without users, there are only the pages `/health`, `/status` and
    /// `/metrics`, unless the configuration allows anyone everything.
    ///
    /// # Errors
    /// An address in use; a system without threads.
    pub fn start(server: ServerHandle, options: WebOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(options.address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_name("tape-web")
            .enable_io()
            .enable_time()
            .build()?;
        let (closing, watched) = watch::channel(false);
        let authenticator = server.authenticator();
        let is_open = !address.ip().to_canonical().is_loopback();
        let has_api = !is_open || authenticator.has_users() || server.config().insecure_allow_anyone;
        let state = Arc::new(WebState {
            authenticator,
            sessions: Sessions::new(address.port(), options.tls.is_some(), &options.limits),
            options,
            address,
            has_api,
            rates: Default::default(),
            queries: Default::default(),
            workers: Default::default(),
            uploads: Default::default(),
            backups: Default::default(),
            books: Default::default(),
            plants: Default::default(),
            sockets: Default::default(),
            closing: watched,
            server,
        });
        let serving = {
            let _runtime = runtime.enter();
            let listener = tokio::net::TcpListener::from_std(listener)?;
            runtime.spawn(listen::serve(listener, state.clone()))
        };
        Ok(Self { state, closing, running: Some((runtime, serving)) })
    }

    /// The address, with its port.
    pub fn address(&self) -> SocketAddr {
        self.state.address
    }

    /// Whether there is more than the pages `/health`, `/status` and `/metrics`.
    pub fn has_api(&self) -> bool {
        self.state.has_api
    }

    /// Shows the tickerplants of this process. Only the first call counts.
    pub fn show_plants(&self, plants: Arc<dyn PlantList>) {
        let _ = self.state.plants.set(plants);
    }

    /// Stops accepting connections, and tells WebSockets that the server shuts down. Requests go on.
    pub fn begin_shutdown(&self) {
        self.closing.send_replace(true);
    }

    /// Lets requests and WebSockets finish within `grace`, and ends.
    pub fn shutdown(mut self, grace: Duration) {
        self.stop(grace);
    }

    fn stop(&mut self, grace: Duration) {
        self.begin_shutdown();
        let Some((runtime, serving)) = self.running.take() else { return };
        let until = Instant::now() + grace;
        while !serving.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.state.queries.stop_all();
        let until = until.max(Instant::now() + LAST_WAIT);
        self.state.uploads.stop(until);
        self.state.backups.stop(until);
        runtime.shutdown_timeout(LAST_WAIT);
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}
