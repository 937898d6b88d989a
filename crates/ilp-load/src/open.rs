//! A connection that is open: what its thread and the server share.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// An open connection.
#[derive(Debug)]
pub(crate) struct Open {
    pub socket: TcpStream,
    /// A request has begun, and is not answered.
    pub is_busy: AtomicBool,
    pub is_http: bool,
    /// Set when the server stops.
    pub stop: Arc<AtomicBool>,
    /// Its thread waits for bytes.
    pub is_reading: AtomicBool,
    /// How often bytes have arrived.
    pub reads: AtomicU64,
}
