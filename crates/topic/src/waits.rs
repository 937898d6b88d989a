//! Waiting for room in the ring.

use crate::alone::Alone;
use crate::limit::Slowest;
use crate::ring::Ring;
use std::time::{Duration, Instant};

/// Room for a frame, waited for as long as `patience` says.
#[inline(always)]
pub(crate) fn room(ring: &Ring, alone: &mut Alone, bytes: u64, patience: Duration) -> Result<u64, Slowest> {
    match alone.room(ring, bytes) {
        Ok(position) => Ok(position),
        Err(_) => wait_for_room(ring, alone, bytes, patience),
    }
}

#[cold]
fn wait_for_room(ring: &Ring, alone: &mut Alone, bytes: u64, patience: Duration) -> Result<u64, Slowest> {
    let mut waits = Waits::new(patience);
    loop {
        match alone.room(ring, bytes) {
            Err(_) if !waits.are_over() => {}
            found => return found,
        }
    }
}

/// Waiting for room, for as long as the publisher has patience.
pub(crate) struct Waits {
    patience: Duration,
    since: Option<Instant>,
    looks: u32,
}

/// Looks before the processor is given to others, and before it is slept.
const SPINS: u32 = 100;
const YIELDS: u32 = 1000;
/// Sleep between looks.
const SLEEP: Duration = Duration::from_micros(50);

impl Waits {
    pub fn new(patience: Duration) -> Self {
        Self { patience, since: None, looks: 0 }
    }

    /// Waits a little, or says that it has been long enough.
    #[cold]
    pub fn are_over(&mut self) -> bool {
        if self.patience.is_zero() || self.since.get_or_insert_with(Instant::now).elapsed() >= self.patience {
            return true;
        }
        self.looks += 1;
        if self.looks < SPINS {
            crate::atomics::pause();
        } else if self.looks < YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(SLEEP);
        }
        false
    }
}
