//! Limits log lines: without it, a client could fill the disk with failed connections.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of one kind in [`PERIOD`]; further ones are only counted.
const LINES_MAX: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);

/// Why a connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The bytes are not the protocol.
    Protocol,
    /// Authentication failed.
    Login,
    /// A limit was reached.
    Full,
    /// Too slow, or silent.
    Silent,
    /// The operating system refused something.
    System,
}

/// Counts lines of each kind.
#[derive(Debug, Default)]
pub(crate) struct LogLimit([Mutex<Lines>; 5]);

#[derive(Debug, Default)]
struct Lines {
    began: Option<Instant>,
    count: u32,
    held_back: u64,
}

impl LogLimit {
    /// Whether one more line may be written; if so, how many were suppressed before it.
    pub fn admits(&self, kind: FailureKind, now: Instant) -> Option<u64> {
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
    fn suppressed_lines_are_counted_and_reported() {
        let (log_limit, now) = (LogLimit::default(), Instant::now());
        let admitted = (0..100).filter(|_| log_limit.admits(FailureKind::Protocol, now).is_some()).count();
        assert_eq!(admitted, LINES_MAX as usize);
        assert_eq!(log_limit.admits(FailureKind::Login, now), Some(0), "each kind has its own count");
        assert_eq!(log_limit.admits(FailureKind::Protocol, now + PERIOD), Some(90));
        assert_eq!(log_limit.admits(FailureKind::Protocol, now + PERIOD), Some(0));
    }
}
