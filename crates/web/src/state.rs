//! What all requests share.

use crate::api::rates::Rates;
use crate::backups::Backups;
use crate::options::{PlantList, WebOptions};
use crate::running::RunningQueries;
use crate::session::Sessions;
use crate::uploads::Uploads;
use crate::work::Workers;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use tapedb_access::Authenticator;
use tapedb_market_streams::RecentBooks;
use tapedb_server::ServerHandle;
use tokio::sync::watch;

/// The HTTP server, for its requests.
#[derive(Debug)]
pub(crate) struct WebState {
    pub server: ServerHandle,
    pub authenticator: Authenticator,
    pub sessions: Sessions,
    pub options: WebOptions,
    /// The address with its port.
    pub address: SocketAddr,
    /// Whether there is more than health and metrics: not where other machines could use everything without a login.
    pub has_api: bool,
    pub rates: Rates,
    pub queries: Arc<RunningQueries>,
    pub workers: Workers,
    pub uploads: Arc<Uploads>,
    pub backups: Arc<Backups>,
    /// Books that were read lately.
    pub books: RecentBooks,
    /// The tickerplants of the process, once they are there.
    pub plants: OnceLock<Arc<dyn PlantList>>,
    /// Open WebSockets.
    pub sockets: AtomicUsize,
    /// Whether the server shuts down.
    pub closing: watch::Receiver<bool>,
}

/// [`WebState`], as handlers take it.
pub(crate) type Shared = Arc<WebState>;

/// Waits until the server shuts down.
pub(crate) async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error: the sender is gone, and so is the server.
    let _ = closing.wait_for(|is_closing| *is_closing).await;
}
