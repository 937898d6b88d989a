//! The virtual clock: which time of history it is at an instant.
//!
//! It reads no clock itself: every method is given the instant, so that tests decide what time it is.

use crate::speed::Speed;
use std::time::{Duration, Instant};
use tapedb_schema::Timestamp;

/// Which time of history it is at an instant.
#[derive(Debug, Clone)]
pub struct Clock {
    speed: Speed,
    is_paused: bool,
    /// A time of history, and the instant at which it is that time; while paused, the instant says nothing.
    anchor: Option<(Timestamp, Instant)>,
}

/// When a message is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Now, at full speed.
    AtOnce,
    /// At this instant, which may have passed.
    At(Instant),
    /// Not before the clock goes on.
    Paused,
}

impl Clock {
    /// A clock that goes from the first time that it is asked about.
    pub fn new(speed: Speed) -> Self {
        Self { speed, is_paused: false, anchor: None }
    }

    /// When a message of this time is due. The first one after the beginning or a seek is due at once, and so is one that is earlier than the
    /// clock's time.
    pub fn due(&mut self, time: Timestamp, now: Instant) -> Due {
        if self.is_paused {
            return Due::Paused;
        }
        let Speed::Times(factor) = self.speed else {
            // So that a change of the speed goes on from here.
            self.anchor = Some((time, now));
            return Due::AtOnce;
        };
        let (anchor, instant) = *self.anchor.get_or_insert((time, now));
        let nanos = i128::from(time.nanos()) - i128::from(anchor.nanos());
        if nanos <= 0 {
            return Due::At(instant);
        }
        // A day at 1x is exact: factors of 1 are not multiplied.
        let nanos = if factor == 1.0 { nanos as u64 } else { (nanos as f64 / factor) as u64 };
        // Later than the clock of the machine can say is never.
        instant.checked_add(Duration::from_nanos(nanos)).map_or(Due::Paused, Due::At)
    }

    /// Stops the clock.
    pub fn pause(&mut self, now: Instant) {
        self.go_on_from(now);
        self.is_paused = true;
    }

    /// Lets a stopped clock go on from where it stopped.
    pub fn resume(&mut self, now: Instant) {
        if std::mem::take(&mut self.is_paused) {
            self.anchor = self.anchor.map(|(time, _)| (time, now));
        }
    }

    /// Whether it is stopped.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Changes the speed; what was due at the old speed stays so.
    pub fn set_speed(&mut self, speed: Speed, now: Instant) {
        self.go_on_from(now);
        self.speed = speed;
    }

    /// The speed, also while it is paused.
    pub fn speed(&self) -> Speed {
        self.speed
    }

    /// Goes on from the next time that it is asked about.
    pub fn forget_time(&mut self) {
        self.anchor = None;
    }

    /// Sets the clock to a time of history: that of a message which is delivered out of turn.
    pub fn set(&mut self, time: Timestamp, now: Instant) {
        self.anchor = Some((time, now));
    }

    /// The time of history; `None` before the first message.
    pub fn time(&self, now: Instant) -> Option<Timestamp> {
        let (anchor, instant) = self.anchor?;
        let passed = now.saturating_duration_since(instant).as_nanos() as f64;
        match self.speed {
            Speed::Times(factor) if !self.is_paused => {
                Some(Timestamp(anchor.nanos().saturating_add((passed * factor) as i64)))
            }
            _ => Some(anchor),
        }
    }

    fn go_on_from(&mut self, now: Instant) {
        self.anchor = self.time(now).map(|time| (time, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn seconds(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1_000_000_000)
    }

    fn after(began: Instant, millis: u64) -> Instant {
        began + Duration::from_millis(millis)
    }

    #[test]
    fn times_pass_at_the_speed_from_the_first_one_on() {
        let began = Instant::now();
        let mut clock = Clock::new(Speed::Times(10.0));
        assert_eq!(clock.due(seconds(100), began), Due::At(began));
        assert_eq!(clock.due(seconds(101), after(began, 5)), Due::At(after(began, 100)));
        assert_eq!(clock.due(seconds(99), after(began, 7)), Due::At(began));
        clock.set_speed(Speed::Times(1.0), after(began, 50));
        assert_eq!(clock.time(after(began, 50)), Some(Timestamp(100_500_000_000)));
        assert_eq!(clock.due(seconds(101), after(began, 60)), Due::At(after(began, 550)));
        clock.set_speed(Speed::Max, after(began, 60));
        assert_eq!(clock.due(seconds(5_000), after(began, 61)), Due::AtOnce);
        clock.set_speed(Speed::Times(1.0), after(began, 70));
        assert_eq!(clock.due(seconds(5_001), after(began, 71)), Due::At(after(began, 1_070)));
    }

    #[test]
    fn a_pause_takes_no_time_of_history() {
        let began = Instant::now();
        let mut clock = Clock::new(Speed::Times(1.0));
        assert_eq!(clock.due(seconds(0), began), Due::At(began));
        clock.pause(after(began, 400));
        assert_eq!(clock.due(seconds(1), after(began, 9_000)), Due::Paused);
        clock.set_speed(Speed::Times(2.0), after(began, 9_500));
        assert_eq!(clock.time(after(began, 9_900)), Some(Timestamp(400_000_000)));
        clock.resume(after(began, 10_000));
        clock.resume(after(began, 10_001));
        assert_eq!(clock.due(seconds(1), after(began, 10_000)), Due::At(after(began, 10_300)));
        clock.forget_time();
        assert_eq!(clock.due(seconds(-7), after(began, 11_000)), Due::At(after(began, 11_000)));
    }

    #[test]
    fn extreme_times_are_due_at_some_time_or_never() {
        let began = Instant::now();
        let mut clock = Clock::new(Speed::Times(1e-6));
        assert_eq!(clock.due(Timestamp(i64::MIN), began), Due::At(began));
        assert!(matches!(clock.due(Timestamp(i64::MAX), began), Due::At(_) | Due::Paused));
        let mut fast = Clock::new(Speed::Times(1e12));
        assert_eq!(fast.due(Timestamp(0), began), Due::At(began));
        assert!(fast.time(began + Duration::from_secs(1 << 30)).unwrap() == Timestamp(i64::MAX));
    }

    proptest! {
        /// However often the speed changes and the clock pauses, later messages are not due before earlier ones.
        #[test]
        fn dues_are_in_order(steps in prop::collection::vec((0u64..1_000, 0u8..4, 0i64..5_000_000_000), 1..60)) {
            let began = Instant::now();
            let (mut now, mut time, mut last) = (began, 0i64, began);
            let mut clock = Clock::new(Speed::Times(1.0));
            for (millis, change, nanos) in steps {
                now += Duration::from_millis(millis);
                match change {
                    0 => clock.set_speed(Speed::Times(0.25 + nanos as f64 / 1e9), now),
                    1 => clock.pause(now),
                    2 => clock.resume(now),
                    _ => {}
                }
                time += nanos;
                if let Due::At(due) = clock.due(Timestamp(time), now) {
                    // What is due before now is delivered now.
                    let due = due.max(now);
                    prop_assert!(due + Duration::from_micros(1) >= last);
                    last = due;
                    now = due;
                }
            }
        }
    }
}
