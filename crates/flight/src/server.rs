//! Listens, and ends in order.

use crate::admission::Admission;
use crate::connection::{Connections, Most, Peer, Socket};
use crate::options::FlightOptions;
use crate::shared::{Shared, SharedState};
use futures::Stream;
use futures::stream::unfold;
use rustls::ServerConfig;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tonic::transport::Server;

/// Pause when the system has no more files or memory for connections.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(50);
/// Bytes that a client may send of one upload before they are taken: 64 KiB, HTTP's own, would wait for each round trip.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// The same of all calls of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// Calls of a connection at once.
const CALLS_MAX: u32 = 100;
/// Bytes of the headers of a call.
const HEADER_BYTES_MAX: u32 = 32 << 10;
/// A connection on which nothing arrives for so long is asked whether its client is there.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIME: Duration = Duration::from_secs(20);
/// How long a client is waited for that does not answer, when the server stops.
const LAST_PATIENCE: Duration = Duration::from_secs(1);
/// The time that threads of queries have to notice that the server stops.
const END_TIME: Duration = Duration::from_millis(500);

/// Serves clients of Flight SQL. It ends when it is [shut down](Flight::shutdown) or dropped; neither may happen on a thread of an
/// asynchronous runtime.
pub struct Flight {
    shared: Shared,
    connections: Connections,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    work: Option<(Runtime, JoinHandle<()>)>,
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Flight {
    /// Listens.
    ///
    /// # Errors
    /// When the address cannot be listened on, or threads cannot be started.
    pub fn start(options: FlightOptions) -> io::Result<Self> {
        let listener = StdListener::bind(options.address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("tape-flight")
            .enable_io()
            .enable_time()
            .build()?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let shared = Arc::new(SharedState::new(options).map_err(io::Error::other)?);
        let connections = Connections::default();
        let (stop, stopped) = watch::channel(false);
        let served = runtime.spawn(serve(listener, shared.clone(), connections.clone(), stopped));
        Ok(Self { shared, connections, address, stop, work: Some((runtime, served)) })
    }

    /// The address, with the port that was assigned.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.connections.count()
    }

    /// Queries that run.
    pub fn running(&self) -> usize {
        self.shared.running.count()
    }

    /// Queries that were begun.
    pub fn queries(&self) -> u64 {
        self.shared.queries.load(Ordering::Relaxed)
    }

    /// Rows that were stored.
    pub fn rows_stored(&self) -> u64 {
        self.shared.rows_stored.load(Ordering::Relaxed)
    }

    /// Stops accepting connections, ends calls with a status that states why, and waits for them. Returns how many connections were
    /// left behind.
    pub fn shutdown(mut self, grace: Duration) -> usize {
        self.end(grace)
    }

    fn end(&mut self, grace: Duration) -> usize {
        let Some((runtime, served)) = self.work.take() else { return 0 };
        self.shared.is_stopping.store(true, Ordering::Release);
        let _ = self.stop.send(true);
        let ended = runtime.block_on(async {
            tokio::select! {
                ended = timeout(grace, served) => ended.is_ok(),
                () = silent(&self.shared) => true,
            }
        });
        let left = if ended { 0 } else { self.connections.count() };
        runtime.shutdown_timeout(END_TIME);
        left
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.end(END_TIME);
    }
}

/// Serves until the server stops and its calls have ended.
async fn serve(
    listener: TcpListener,
    shared: Shared,
    connections: Connections,
    stopped: watch::Receiver<bool>,
) {
    let admission = Admission::new(shared.clone());
    let server = Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(CALLS_MAX)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_TIME))
        .serve_with_incoming_shutdown(
            admission,
            sockets(listener, shared, connections, stopped.clone()),
            until(stopped),
        );
    if let Err(error) = server.await {
        tracing::error!(%error, "clients of Flight SQL are not served any more");
    }
}

/// Waits until no call with rows runs, and has not for a while: connections that are left then are those of clients that do not answer.
async fn silent(shared: &SharedState) {
    let is_idle =
        || shared.running.count() == 0 && shared.uploads.available_permits() == crate::shared::UPLOADS_MAX;
    loop {
        let was_idle = is_idle();
        sleep(LAST_PATIENCE).await;
        if was_idle && is_idle() {
            return;
        }
    }
}

/// Waits until the server stops.
async fn until(mut stopped: watch::Receiver<bool>) {
    // When the sender is gone, it has stopped too.
    let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
}

/// Connections that are ready: encrypted ones have shaken hands.
fn sockets(
    listener: TcpListener,
    shared: Shared,
    connections: Connections,
    stopped: watch::Receiver<bool>,
) -> impl Stream<Item = io::Result<Socket>> {
    let (sender, receiver) = channel(16);
    tokio::spawn(async move {
        tokio::select! {
            () = accept(listener, shared, connections, sender, stopped.clone()) => {}
            () = until(stopped.clone()) => {}
        }
    });
    unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|socket| (Ok(socket), receiver)) })
}

async fn accept(
    listener: TcpListener,
    shared: Shared,
    connections: Connections,
    sender: Sender<Socket>,
    stopped: watch::Receiver<bool>,
) {
    let FlightOptions {
        connections_max,
        handshakes_max,
        handshakes_per_address_max,
        handshake_time,
        tls,
        ..
    } = &shared.options;
    let most = Most {
        all: *connections_max,
        unauthenticated: *handshakes_max,
        unauthenticated_of_address: *handshakes_per_address_max,
    };
    // gRPC is spoken over HTTP/2 alone.
    let tls = tls.as_ref().map(|tls| {
        let mut config = ServerConfig::clone(tls);
        config.alpn_protocols = vec![b"h2".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    });
    loop {
        let (tcp, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a connection cannot be accepted");
                sleep(SHORTAGE_PAUSE).await;
                continue;
            }
        };
        let Some(place) = connections.open(address.ip(), most) else { continue };
        let _ = tcp.set_nodelay(true);
        let peer = Peer::new(address, tls.is_some(), place);
        let shaking = shake(tcp, tls.clone(), peer, *handshake_time, (sender.clone(), stopped.clone()));
        tokio::spawn(shaking);
    }
}

async fn shake(
    tcp: TcpStream,
    tls: Option<TlsAcceptor>,
    peer: Peer,
    time: Duration,
    (sender, stopped): (Sender<Socket>, watch::Receiver<bool>),
) {
    let socket = match tls {
        None => Socket::plain(tcp, peer, time, stopped),
        Some(tls) => match timeout(time, tls.accept(tcp)).await {
            Ok(Ok(shaken)) => Socket::encrypted(shaken, peer, time, stopped),
            // The client has left, or was too slow, or speaks something else.
            Ok(Err(_)) | Err(_) => return,
        },
    };
    let _ = sender.send(socket).await;
}
