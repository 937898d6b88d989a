//! Which clients may connect, and what they may do.

use std::net::SocketAddr;
use std::sync::Arc;

/// Decides which clients may connect.
pub trait Access: Send + Sync {
    /// The rights of a client that logs in as `user`; `None`: it may not connect.
    fn authenticate(&self, user: &str, password: &str, peer: SocketAddr) -> Option<Arc<dyn Rights>>;
}

/// What a client may do; streams are given by their names (`PLANT/TABLE`).
pub trait Rights: Send + Sync {
    /// Subscribe to it and ask for its rows.
    fn may_read(&self, stream: &str) -> bool;
    /// Send updates to it.
    fn may_write(&self, stream: &str) -> bool;
    /// End the days of a plant.
    fn may_end_days(&self, plant: &str) -> bool;
}

/// Every client may connect and do everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Everyone;

impl Access for Everyone {
    fn authenticate(&self, _: &str, _: &str, _: SocketAddr) -> Option<Arc<dyn Rights>> {
        Some(Arc::new(Self))
    }
}

impl Rights for Everyone {
    fn may_read(&self, _: &str) -> bool {
        true
    }

    fn may_write(&self, _: &str) -> bool {
        true
    }

    fn may_end_days(&self, _: &str) -> bool {
        true
    }
}
