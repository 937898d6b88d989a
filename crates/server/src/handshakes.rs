//! Unauthenticated connections: a limit for all, and a smaller one for each address, so that silent connections of one
//! machine do not block other machines.

use crate::config::Limits;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tapedb_access::network;

/// Permits for unauthenticated connections.
#[derive(Debug, Default)]
pub(crate) struct Handshakes(Mutex<Taken>);

/// Always true: `all` is the sum of `of`, in which no network has 0.
#[derive(Debug, Default)]
struct Taken {
    all: usize,
    of: HashMap<Option<IpAddr>, usize>,
}

/// A permit; given back when dropped.
#[derive(Debug)]
pub(crate) struct HandshakePermit {
    handshakes: Arc<Handshakes>,
    network: Option<IpAddr>,
}

impl Handshakes {
    /// A permit for a connection from an address; `None` for a Unix socket.
    ///
    /// # Errors
    /// The reason for a refusal, for the client.
    pub fn take(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        limits: &Limits,
    ) -> Result<HandshakePermit, &'static str> {
        let network = network(address);
        let mut taken = self.taken();
        if taken.all >= limits.handshakes_max {
            return Err("too many other connections are not authenticated yet; try again later");
        }
        if taken.of.get(&network).is_some_and(|count| *count >= limits.handshakes_per_address_max) {
            return Err(
                "too many other connections from this address are not authenticated yet; try again later",
            );
        }
        taken.all += 1;
        *taken.of.entry(network).or_default() += 1;
        Ok(HandshakePermit { handshakes: self.clone(), network })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HandshakePermit {
    fn drop(&mut self) {
        let mut taken = self.handshakes.taken();
        taken.all -= 1;
        if let Some(count) = taken.of.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                taken.of.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unauthenticated_connections_of_an_address_are_limited() {
        let limits = Limits { handshakes_max: 5, handshakes_per_address_max: 3, ..Limits::default() };
        let handshakes = Arc::new(Handshakes::default());
        let (one, other) = (Some("192.0.2.1".parse().unwrap()), Some("192.0.2.2".parse().unwrap()));
        let mut silent: Vec<_> = (0..3).map(|_| handshakes.take(one, &limits).unwrap()).collect();
        assert!(handshakes.take(one, &limits).unwrap_err().contains("from this address"));
        let _others = [handshakes.take(other, &limits).unwrap(), handshakes.take(None, &limits).unwrap()];
        assert!(handshakes.take(None, &limits).unwrap_err().contains("too many other connections are not"));
        silent.pop();
        assert!(handshakes.take(one, &limits).is_ok());
        drop(silent);
        assert_eq!(handshakes.taken().of.len(), 2, "free networks are removed");
    }
}
