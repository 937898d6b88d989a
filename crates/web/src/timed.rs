//! A socket whose peer must take bytes in time.

use crate::patience::{Wait, wait};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

/// Fails writes that make no progress for a time.
pub(crate) struct Timed<S> {
    socket: S,
    time: Duration,
    closing: watch::Receiver<bool>,
    /// Runs while a write waits.
    waiting: Option<Wait>,
}

impl<S> Timed<S> {
    /// A socket whose writes may wait for `time`, and not much longer when the server shuts down.
    pub fn new(socket: S, time: Duration, closing: watch::Receiver<bool>) -> Self {
        Self { socket, time, closing, waiting: None }
    }

    fn in_time<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let (time, closing) = (self.time, &self.closing);
        let waiting = self.waiting.get_or_insert_with(|| wait(Some(time), closing.clone()));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.in_time(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, parts);
        self.in_time(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        self.in_time(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.socket).poll_shutdown(cx);
        self.in_time(cx, closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[test]
    fn a_peer_that_reads_nothing_fails_the_write() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (ours, _theirs) = tokio::io::duplex(10);
            let (_sender, closing) = watch::channel(false);
            let mut timed = Timed::new(ours, Duration::from_millis(20), closing);
            timed.write_all(&[0; 10]).await.unwrap();
            let error = timed.write_all(&[0; 10]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn a_server_that_shuts_down_does_not_wait_for_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (ours, _theirs) = tokio::io::duplex(10);
            let (sender, closing) = watch::channel(false);
            let mut timed = Timed::new(ours, Duration::from_secs(3600), closing);
            timed.write_all(&[0; 10]).await.unwrap();
            sender.send_replace(true);
            let error = timed.write_all(&[0; 10]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }
}
