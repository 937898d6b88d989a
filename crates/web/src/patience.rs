//! How long a client may be silent: as long as its limit states, and much less once the server shuts down. So no client that sends or
//! takes nothing holds the shutdown up, and those that go on have all of its time.

use crate::state::closed;
use axum::body::HttpBody;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use std::future::pending;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// How long a client is waited for once the server shuts down.
pub(crate) const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// A wait that ends when a client has been silent for too long.
pub(crate) type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Waits for `time` (`None`: for ever), or for [`LAST_PATIENCE`] after the server has begun to shut down.
pub(crate) fn wait(time: Option<Duration>, mut closing: watch::Receiver<bool>) -> Wait {
    let limit = async move {
        match time {
            Some(time) => sleep(time).await,
            None => pending().await,
        }
    };
    let last = async move {
        closed(&mut closing).await;
        sleep(LAST_PATIENCE).await;
    };
    Box::pin(async move {
        tokio::select! {
            () = limit => {}
            () = last => {}
        }
    })
}

/// The body of a request. Once the server shuts down, it fails when nothing of it arrives for [`LAST_PATIENCE`].
pub(crate) struct Arriving {
    body: Incoming,
    closing: watch::Receiver<bool>,
    /// Runs while bytes are waited for.
    waiting: Option<Wait>,
}

impl Arriving {
    pub fn new(body: Incoming, closing: watch::Receiver<bool>) -> Self {
        Self { body, closing, waiting: None }
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.waiting = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)));
        }
        if self.waiting.is_none() {
            self.waiting = Some(wait(None, self.closing.clone()));
        }
        let is_over = self.waiting.as_mut().is_some_and(|waiting| waiting.as_mut().poll(cx).is_ready());
        match is_over {
            true => Poll::Ready(Some(Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut))))),
            false => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
