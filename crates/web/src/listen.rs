//! Connections: accepted, bounded in number and time, and ended in order.
//!
//! Always true: at most `connections_max` connections are open; at the limit, a new one closes the oldest that waits for a request, so
//! silent connections block no others; no head of a request, no wait between two requests, no handshake and no write takes longer than
//! its limit.

use crate::api;
use crate::caller::Ends;
use crate::patience::{Arriving, LAST_PATIENCE};
use crate::state::{Shared, closed};
use crate::timed::Timed;
use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::Request;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;
use tracing::field::Empty;
use tracing::{Instrument, Span};

/// Pause when the system has no more files or memory for connections.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(50);
/// How often the end of the last connection is looked for.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 32 << 10;
const HEADERS_MAX: usize = 64;

/// The open connections, by their numbers.
#[derive(Default)]
struct Connections(Mutex<BTreeMap<u64, Arc<Open>>>);

/// An open connection.
#[derive(Default)]
struct Open {
    /// Requests that are being answered: one, or none.
    requests: AtomicUsize,
    /// Closes it.
    close: Notify,
}

impl Connections {
    /// Registers a connection, if need be instead of the oldest that waits for a request; `None`: all are at work.
    fn register(self: &Arc<Self>, number: u64, most: usize) -> Option<Registered> {
        let mut open = self.open();
        if open.len() >= most {
            let is_idle = |open: &&Arc<Open>| open.requests.load(Ordering::Acquire) == 0;
            let displaced = open.iter().find(|(_, open)| is_idle(open)).map(|(number, _)| *number)?;
            if let Some(displaced) = open.remove(&displaced) {
                displaced.close.notify_one();
            }
        }
        let new = Arc::<Open>::default();
        open.insert(number, new.clone());
        Some(Registered { all: self.clone(), number, open: new })
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Open>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registered connection, until it is dropped.
struct Registered {
    all: Arc<Connections>,
    number: u64,
    open: Arc<Open>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.all.open().remove(&self.number);
    }
}

/// Serves until the server shuts down, and then until the last request and WebSocket have ended.
pub(crate) async fn serve(listener: TcpListener, state: Shared) {
    let (connections, mut next) = (Arc::<Connections>::default(), 0);
    let router = api::router(state.clone());
    let mut closing = state.closing.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closed(&mut closing) => break,
        };
        let (socket, client) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if !is_of_peer(&error) {
                    tracing::error!(%error, "cannot accept HTTP connections");
                    sleep(SHORTAGE_PAUSE).await;
                }
                continue;
            }
        };
        next += 1;
        let Some(registered) = connections.register(next, state.options.limits.connections_max) else {
            continue;
        };
        let Ok(server) = socket.local_addr() else { continue };
        // Answers are written whole.
        let _ = socket.set_nodelay(true);
        let ends = Ends { client, server };
        tokio::spawn(connection(socket, ends, router.clone(), state.clone(), registered));
    }
    drop(listener);
    while !connections.open().is_empty() || state.sockets.load(Ordering::Acquire) > 0 {
        sleep(CHECK_INTERVAL).await;
    }
}

/// Serves a connection, encrypted where that is configured.
async fn connection(socket: TcpStream, ends: Ends, router: Router, state: Shared, registered: Registered) {
    match &state.options.tls {
        None => requests(timed(socket, &state), ends, router, &state, &registered).await,
        Some(tls) => {
            let shaking = TlsAcceptor::from(tls.clone()).accept(socket);
            let mut closing = state.closing.clone();
            let shaken = tokio::select! {
                shaken = timeout(state.options.limits.head_time, shaking) => shaken,
                () = registered.open.close.notified() => return,
                () = closed(&mut closing) => return,
            };
            if let Ok(Ok(socket)) = shaken {
                requests(timed(socket, &state), ends, router, &state, &registered).await;
            }
        }
    }
}

fn timed<S>(socket: S, state: &Shared) -> Timed<S> {
    Timed::new(socket, state.options.limits.write_time, state.closing.clone())
}

async fn requests<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    socket: S,
    ends: Ends,
    router: Router,
    state: &Shared,
    registered: &Registered,
) {
    let open = registered.open.clone();
    let is_closing = state.closing.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(|body| Body::new(Arriving::new(body, is_closing.clone())));
        request.extensions_mut().insert(ConnectInfo(ends));
        let (router, guard) = (router.clone(), AtWork::begin(&open));
        let span = span_of(&request, ends);
        async move {
            let response = router.oneshot(request).instrument(span.clone()).await;
            if let Ok(response) = &response {
                let status = response.status();
                span.record("http.response.status_code", u64::from(status.as_u16()));
                if status.is_server_error() {
                    span.record("otel.status_code", "ERROR");
                }
            }
            response.map(|response| response.map(|body| Guarded { body, _at_work: guard, _span: span }))
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(state.options.limits.head_time)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let mut closing = state.closing.clone();
    let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(socket), service).with_upgrades());
    let mut is_closing = false;
    let mut silent = std::pin::pin!(silent(&registered.open, state.closing.clone()));
    loop {
        tokio::select! {
            // The client has left, or was too slow: an error cannot be reported.
            _ = serving.as_mut() => return,
            () = registered.open.close.notified() => return,
            () = silent.as_mut() => return,
            () = closed(&mut closing), if !is_closing => {
                is_closing = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The span of a request for traces. Parameters of the address are not in it: they may hold what is secret.
fn span_of(request: &Request<Body>, ends: Ends) -> Span {
    let parent = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    tracing::info_span!(
        target: "tapedb::trace",
        "http",
        "otel.kind" = "server",
        "otel.status_code" = Empty,
        "http.request.method" = request.method().as_str(),
        "url.path" = request.uri().path(),
        "client.address" = %ends.client.ip(),
        "http.response.status_code" = Empty,
        traceparent = parent,
    )
}

/// Waits until the server shuts down and no request is being answered for a while: half of one may have arrived, and no more of it.
async fn silent(open: &Open, mut closing: watch::Receiver<bool>) {
    closed(&mut closing).await;
    loop {
        sleep(LAST_PATIENCE).await;
        if open.requests.load(Ordering::Acquire) == 0 {
            return;
        }
    }
}

/// A request that is being answered.
struct AtWork(Arc<Open>);

impl AtWork {
    fn begin(open: &Arc<Open>) -> Self {
        open.requests.fetch_add(1, Ordering::AcqRel);
        Self(open.clone())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A body; until it has been sent, its request is being answered.
struct Guarded {
    body: Body,
    _at_work: AtWork,
    _span: Span,
}

impl HttpBody for Guarded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Whether the client has caused the error: it has left already.
fn is_of_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
