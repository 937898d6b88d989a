//! The work that waits for a maintenance thread: a queue, in which each space has its turn.
//!
//! Always true: at most one thread works in a space. Sealing goes before what takes long and can wait, and a thread is left for it, where
//! there is more than one.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// What is to be done in a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// To seal log files, and to purge: it frees space for what is appended.
    Seal,
    /// To merge segments, and to compress old ones.
    Tidy,
}

/// A stream by its id, and the number of one of its spaces.
pub(super) type Place = (u64, u32);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Since when each waits; the first ones have waited longest.
    waiting: VecDeque<(Place, Kind, Instant)>,
    /// Where threads work.
    busy: HashSet<Place>,
    /// Threads that do what can wait.
    tidying: usize,
    /// Where work has failed: until when it is not tried again.
    failed: HashMap<Place, Instant>,
}

impl Queue {
    /// Adds work, unless it waits already, or has failed a short time ago.
    pub fn add(&mut self, place: Place, kind: Kind, now: Instant) {
        if self.failed.get(&place).is_some_and(|until| *until > now) {
            return;
        }
        self.failed.remove(&place);
        if !self.waiting.iter().any(|(of, what, _)| (*of, *what) == (place, kind)) {
            self.waiting.push_back((place, kind, now));
        }
    }

    /// Takes the work whose turn it is, for one of `threads`; `None`: there is none that may begin.
    pub fn take(&mut self, threads: usize) -> Option<(Place, Kind)> {
        let may_tidy = self.tidying < threads.saturating_sub(1).max(1);
        let first = |kind: Kind| {
            self.waiting.iter().position(|(place, what, _)| *what == kind && !self.busy.contains(place))
        };
        let index = first(Kind::Seal).or_else(|| first(Kind::Tidy).filter(|_| may_tidy))?;
        let (place, kind, _) = self.waiting.remove(index)?;
        self.busy.insert(place);
        self.tidying += usize::from(kind == Kind::Tidy);
        Some((place, kind))
    }

    /// Notes that work has ended that was taken; `again`: there is more of it, after what waits now.
    pub fn done(&mut self, (place, kind): (Place, Kind), again: bool, now: Instant) {
        self.busy.remove(&place);
        self.tidying -= usize::from(kind == Kind::Tidy);
        if again {
            self.add(place, kind, now);
        }
    }

    /// Notes that work that was taken has failed: nothing is done there for some time.
    pub fn failed(&mut self, of: (Place, Kind), pause: Duration, now: Instant) {
        self.done(of, false, now);
        self.failed.insert(of.0, now + pause);
        self.waiting.retain(|(place, _, _)| *place != of.0);
        // Streams that are gone do not stay here.
        self.failed.retain(|_, until| *until > now);
    }

    /// Whether other work than that of a place waits, which may begin.
    pub fn has_others(&self, of: Place) -> bool {
        self.waiting.iter().any(|(place, _, _)| *place != of && !self.busy.contains(place))
    }

    /// How long the work has waited whose turn it is; `None`: there is none that may begin.
    pub fn waits(&self, now: Instant) -> Option<Duration> {
        let mut free = self.waiting.iter().filter(|(place, _, _)| !self.busy.contains(place));
        free.next().map(|(_, _, since)| now.saturating_duration_since(*since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_space_has_its_turn_and_sealing_goes_first() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let spaces = [(7, 0), (7, 1), (8, 0)];
        for place in spaces {
            queue.add(place, Kind::Tidy, now);
            queue.add(place, Kind::Seal, now);
            queue.add(place, Kind::Seal, now);
        }
        let first = queue.take(2).unwrap();
        assert_eq!(first, (spaces[0], Kind::Seal));
        assert!(queue.has_others(spaces[0]));
        // It has more to do, and the others are first.
        queue.done(first, true, now);
        let taken: Vec<_> = (0..3).map_while(|_| queue.take(2)).collect();
        assert_eq!(taken, [(spaces[1], Kind::Seal), (spaces[2], Kind::Seal), (spaces[0], Kind::Seal)]);
        // A thread works in each of them.
        assert_eq!((queue.take(2), queue.waits(now)), (None, None));
        taken.into_iter().for_each(|taken| queue.done(taken, false, now));
        // One of two threads is left for sealing.
        assert_eq!(queue.take(2), Some((spaces[0], Kind::Tidy)));
        assert_eq!(queue.take(2), None);
        assert_eq!(queue.take(3), Some((spaces[1], Kind::Tidy)));
        queue.add(spaces[2], Kind::Seal, now);
        assert_eq!(queue.take(2), Some((spaces[2], Kind::Seal)));
        queue.done((spaces[0], Kind::Tidy), false, now);
        queue.done((spaces[1], Kind::Tidy), false, now);
        queue.done((spaces[2], Kind::Seal), false, now);
        // A thread that is alone does everything.
        assert_eq!(queue.take(1), Some((spaces[2], Kind::Tidy)));
        assert!(!queue.has_others(spaces[2]));
    }

    #[test]
    fn failures_of_one_space_delay_no_other() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let pause = Duration::from_secs(5);
        queue.add((1, 0), Kind::Seal, now);
        queue.add((1, 0), Kind::Tidy, now);
        queue.add((2, 0), Kind::Seal, now);
        let bad = queue.take(1).unwrap();
        queue.failed(bad, pause, now);
        queue.add((1, 0), Kind::Seal, now + pause / 2);
        assert_eq!(queue.take(1), Some(((2, 0), Kind::Seal)));
        assert_eq!(queue.take(1), None);
        queue.add((1, 0), Kind::Seal, now + pause);
        assert_eq!(queue.waits(now + pause * 2), Some(pause));
        assert_eq!(queue.take(1), Some(((1, 0), Kind::Seal)));
    }
}
