//! Keeps the log short: whoever can reach the port could fill the disk by being wrong often enough.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of one kind in [`PERIOD`]; what comes beyond is counted.
const LINES_MAX: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);

/// How connections fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What came is not the protocol.
    Protocol,
    /// Not let in.
    Login,
    /// Too many.
    Full,
    /// Too slow, or silent.
    Silent,
    /// The system refused something.
    System,
}

/// Counts lines of each kind.
#[derive(Debug, Default)]
pub(crate) struct Noise([Mutex<Lines>; 5]);

#[derive(Debug, Default)]
struct Lines {
    began: Option<Instant>,
    count: u32,
    held_back: u64,
}

impl Noise {
    /// Whether one more line may be written; if so, how many were held back before it.
    pub fn admits(&self, kind: Kind, now: Instant) -> Option<u64> {
        let mut lines = self.0[kind as usize].lock().unwrap_or_else(PoisonError::into_inner);
        if lines.began.is_none_or(|began| now.saturating_duration_since(began) >= PERIOD) {
            (lines.began, lines.count) = (Some(now), 0);
        }
        lines.count += 1;
        if lines.count > LINES_MAX {
            lines.held_back += 1;
            return None;
        }
        Some(std::mem::take(&mut lines.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_back_is_told_later() {
        let (noise, now) = (Noise::default(), Instant::now());
        let admitted = (0..100).filter(|_| noise.admits(Kind::Protocol, now).is_some()).count();
        assert_eq!(admitted, LINES_MAX as usize);
        assert_eq!(noise.admits(Kind::Login, now), Some(0), "kinds are counted apart");
        assert_eq!(noise.admits(Kind::Protocol, now + PERIOD), Some(90));
        assert_eq!(noise.admits(Kind::Protocol, now + PERIOD), Some(0));
    }
}
