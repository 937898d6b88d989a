//! Waiting for space in the ring.

use crate::exclusive::Exclusive;
use crate::limit::Slowest;
use crate::ring::Ring;
use std::time::Duration;
use tapedb_shm::waiting::Backoff;

/// Space for a frame, waited for at most `timeout`.
#[inline(always)]
pub(crate) fn reserve(
    ring: &Ring,
    exclusive: &mut Exclusive,
    bytes: u64,
    timeout: Duration,
) -> Result<u64, Slowest> {
    match exclusive.reserve(ring, bytes) {
        Ok(position) => Ok(position),
        Err(_) => wait_and_reserve(ring, exclusive, bytes, timeout),
    }
}

#[cold]
fn wait_and_reserve(
    ring: &Ring,
    exclusive: &mut Exclusive,
    bytes: u64,
    timeout: Duration,
) -> Result<u64, Slowest> {
    let mut backoff = Backoff::new(timeout);
    loop {
        match exclusive.reserve(ring, bytes) {
            Err(_) if !backoff.is_over() => {}
            reserved => return reserved,
        }
    }
}
