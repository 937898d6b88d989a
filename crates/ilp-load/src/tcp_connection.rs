//! Lines over TCP, without answers: a client whose line is wrong is disconnected, and the reason is in the log.

use crate::error::WriteError;
use crate::http::LineGateway;
use crate::open::Open;
use crate::socket::Socket;
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tapedb_access::{Credentials, User};
use tapedb_ilp::{Framer, Precision};

/// Bytes that are received at once, at most.
const PIECE_BYTES: usize = 1 << 20;
/// A client that sends nothing for so long is disconnected.
const IDLE_MAX: Duration = Duration::from_secs(3600);

/// Stores lines until the client leaves.
pub(crate) fn serve(
    open: &Open,
    peer: SocketAddr,
    gateway: &LineGateway,
    tls: Option<&Arc<ServerConfig>>,
) -> io::Result<()> {
    let mut socket = Socket::new(open, tls)?;
    let address = peer.to_string();
    let Ok(client) = gateway.logins().login(Some(peer.ip()), Credentials::None) else {
        gateway.loader().audit("refused", "", &address, "", "line protocol over TCP");
        tracing::warn!(%peer, "a client of the line protocol over TCP was refused: it cannot authenticate, and there is no user \"anonymous\"");
        return Ok(());
    };
    let line_bytes_max = gateway.loader().options().limits.line_bytes_max;
    let (mut framer, mut bytes) = (Framer::new(), Vec::new());
    let mut piece = vec![0; PIECE_BYTES];
    let mut pending = gateway.loader().pending();
    pending.add(PIECE_BYTES);
    loop {
        let read = socket.read(&mut piece, Instant::now() + IDLE_MAX)?;
        if read == 0 {
            if !bytes.is_empty() {
                tracing::warn!(%peer, bytes = bytes.len(), "a client of the line protocol has left in the middle of a line");
            }
            return Ok(());
        }
        open.is_busy.store(true, Ordering::SeqCst);
        let begin = bytes.len();
        bytes.extend_from_slice(&piece[..read]);
        let end = framer.push(&piece[..read]).map(|end| begin + end);
        if let Some(end) = end {
            let Some(user) = client.user() else {
                tracing::warn!(%peer, "a client of the line protocol over TCP was refused: the user was removed");
                return Ok(());
            };
            let lines = &bytes[..end];
            if let Err(error) = store(gateway, lines, &user, &address) {
                tracing::warn!(%peer, %error, "a client of the line protocol was disconnected; lines before the wrong one are stored");
                return Ok(());
            }
            bytes.drain(..end);
        }
        open.is_busy.store(false, Ordering::SeqCst);
        if framer.pending() > line_bytes_max {
            tracing::warn!(%peer, "a client of the line protocol was disconnected: a line is longer than {line_bytes_max} bytes");
            return Ok(());
        }
        if open.stop.load(Ordering::SeqCst) {
            return Ok(());
        }
    }
}

/// Stores lines up to the first that is wrong.
fn store(gateway: &LineGateway, lines: &[u8], user: &User, address: &str) -> Result<(), WriteError> {
    let loader = gateway.loader();
    let _span = tracing::info_span!(
        target: "tapedb::trace",
        "ilp.tcp",
        "otel.kind" = "server",
        "client.address" = address,
        bytes = lines.len(),
    )
    .entered();
    let failed = match loader.write_of(lines, Precision::Nanoseconds, user, address) {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    if let Some(begins) = failed.line().and_then(|line| begin_of(lines, line))
        && begins > 0
    {
        loader.write_of(&lines[..begins], Precision::Nanoseconds, user, address)?;
    }
    Err(failed)
}

/// Where a line begins.
fn begin_of(lines: &[u8], line: u64) -> Option<usize> {
    let (mut framer, mut at) = (Framer::new(), 0);
    for _ in 1..line {
        let end = lines[at..].iter().position(|byte| framer.push(std::slice::from_ref(byte)).is_some())?;
        at += end + 1;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_number() {
        let lines = b"a b=1\n\na c=\"x\ny\"\nd";
        assert_eq!(
            [1, 2, 3, 4, 5].map(|line| begin_of(lines, line)),
            [Some(0), Some(6), Some(7), Some(17), None]
        );
    }
}
