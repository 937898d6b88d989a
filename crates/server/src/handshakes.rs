//! Connections that have not said who they are: so many in all, and of one address no more than a share, so that the silent connections
//! of one machine keep no other machine out.

use crate::config::Limits;
use crate::throttle::network;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places for connections that have not said who they are.
#[derive(Debug, Default)]
pub(crate) struct Handshakes(Mutex<Taken>);

/// Always true: `all` is the sum of `of`, in which no network has 0.
#[derive(Debug, Default)]
struct Taken {
    all: usize,
    of: HashMap<Option<IpAddr>, usize>,
}

/// One place; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Handshake {
    places: Arc<Handshakes>,
    network: Option<IpAddr>,
}

impl Handshakes {
    /// A place for a connection from an address; none: from a Unix socket.
    ///
    /// # Errors
    /// Why there is none, for the client.
    pub fn take(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        limits: &Limits,
    ) -> Result<Handshake, &'static str> {
        let network = network(address);
        let mut taken = self.taken();
        if taken.all >= limits.handshakes_max {
            return Err("too many others have not said yet who they are; try again later");
        }
        if taken.of.get(&network).is_some_and(|count| *count >= limits.handshakes_per_address_max) {
            return Err("too many others from this address have not said yet who they are; try again later");
        }
        taken.all += 1;
        *taken.of.entry(network).or_default() += 1;
        Ok(Handshake { places: self.clone(), network })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
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
    fn an_address_has_its_share_and_no_more() {
        let limits = Limits { handshakes_max: 5, handshakes_per_address_max: 3, ..Limits::default() };
        let places = Arc::new(Handshakes::default());
        let (one, other) = (Some("192.0.2.1".parse().unwrap()), Some("192.0.2.2".parse().unwrap()));
        let mut silent: Vec<_> = (0..3).map(|_| places.take(one, &limits).unwrap()).collect();
        assert!(places.take(one, &limits).unwrap_err().contains("from this address"));
        let _others = [places.take(other, &limits).unwrap(), places.take(None, &limits).unwrap()];
        assert!(places.take(None, &limits).unwrap_err().contains("too many others have not"));
        silent.pop();
        assert!(places.take(one, &limits).is_ok());
        drop(silent);
        assert_eq!(places.taken().of.len(), 2, "what is free is forgotten");
    }
}
