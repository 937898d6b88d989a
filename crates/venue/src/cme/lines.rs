//! Which lines carry one feed: packets do not say it, but what redundant lines carry is the same.

use crate::pcap::Line;
use std::collections::BTreeMap;

/// Packets that are remembered.
const REMEMBERED: usize = 16_384;

/// The lines of a capture, each with its session. A line that repeats a packet of another joins that line's session.
pub(super) struct Lines {
    sessions: BTreeMap<(u128, u16), u32>,
    /// Hash and session of the last packets, each at its hash's remainder.
    recent: Box<[(u64, u32)]>,
    next: u32,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { sessions: BTreeMap::new(), recent: vec![(0, 0); REMEMBERED].into(), next: 1 }
    }

    /// The session of a packet with this hash that came on a line.
    #[inline]
    pub(super) fn session(&mut self, line: Line, hash: u64) -> u32 {
        let slot = &mut self.recent[(hash % REMEMBERED as u64) as usize];
        let same = (slot.1 != 0 && slot.0 == hash).then_some(slot.1);
        let known = self.sessions.entry((line.address, line.port)).or_default();
        match same {
            Some(session) => *known = session,
            None if *known == 0 => {
                *known = self.next;
                self.next += 1;
            }
            None => {}
        }
        *slot = (hash, *known);
        *known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_one_session_from_the_first_common_packet_on() {
        let (mut lines, line) = (Lines::new(), |port| Line { address: 1, port });
        assert_eq!((lines.session(line(1), 10), lines.session(line(2), 20)), (1, 2));
        assert_eq!((lines.session(line(1), 30), lines.session(line(2), 30)), (1, 1));
        assert_eq!((lines.session(line(2), 40), lines.session(line(3), 50)), (1, 3));
        assert_eq!(lines.session(line(1), 50), 3);
        // A line that is repeated by one without a session.
        assert_eq!((lines.session(line(4), 60), lines.session(line(5), 60)), (4, 4));
    }
}
