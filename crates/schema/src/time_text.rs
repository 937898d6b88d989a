//! Texts of times that come one after the other: most are of the second of the one before, so only their fraction is made.

use crate::time::{NANOS_PER_SECOND, put_fraction};
use crate::{TEXT_MAX, Timestamp};

/// Makes texts of times, and keeps that of the last second.
///
/// ```
/// # use tapedb_schema::{TEXT_MAX, TimeText, Timestamp};
/// let (mut times, mut buffer) = (TimeText::default(), [0; TEXT_MAX]);
/// let length = times.format(Timestamp(1_500_000_000), &mut buffer);
/// assert_eq!(&buffer[..length], b"1970-01-01T00:00:01.500Z");
/// ```
#[derive(Debug, Clone)]
pub struct TimeText {
    second: i64,
    /// Date and time of day of that second.
    text: [u8; SECOND],
}

/// Bytes of `1970-01-01T00:00:00`.
const SECOND: usize = 19;

impl Default for TimeText {
    fn default() -> Self {
        // No time is in this second.
        Self { second: i64::MIN, text: [0; SECOND] }
    }
}

impl TimeText {
    /// Writes what `Display` prints of the time at the start of the buffer, and returns its length. What follows it in the buffer is
    /// of no use.
    #[inline]
    pub fn format(&mut self, time: Timestamp, buffer: &mut [u8; TEXT_MAX]) -> usize {
        let second = time.0.div_euclid(NANOS_PER_SECOND);
        if second != self.second {
            self.turn_to(time, second);
        }
        buffer[..SECOND].copy_from_slice(&self.text);
        // Wraps for the first second that there is, which begins before the first time.
        let nanos = time.0.wrapping_sub(second.wrapping_mul(NANOS_PER_SECOND));
        let end = put_fraction(buffer, SECOND, nanos as u32);
        buffer[end] = b'Z';
        end + 1
    }

    #[cold]
    fn turn_to(&mut self, time: Timestamp, second: i64) {
        let mut buffer = [0; TEXT_MAX];
        time.format(&mut buffer);
        self.text.copy_from_slice(&buffer[..SECOND]);
        self.second = second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(times: &mut TimeText, time: Timestamp) -> String {
        let mut buffer = [b'x'; TEXT_MAX];
        let length = times.format(time, &mut buffer);
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn seconds_change_and_come_again() {
        let mut times = TimeText::default();
        for nanos in [
            0,
            1,
            999_999_999,
            1_000_000_000,
            999_999_999,
            -1,
            -999_999_999,
            -1_000_000_000,
            -1_000_000_001,
            1_381_156_202_500_000_000,
            1_381_156_202_000_001_000,
            i64::MIN,
            i64::MIN + 1,
            i64::MIN + 145_224_192,
            i64::MAX,
            i64::MIN,
        ] {
            assert_eq!(text(&mut times, Timestamp(nanos)), Timestamp(nanos).to_string());
        }
    }

    proptest! {
        #[test]
        fn texts_are_those_of_each_time_alone(start: i64, steps in prop::collection::vec(-2_000_000_000i64..2_000_000_000, 1..20)) {
            let (mut times, mut time) = (TimeText::default(), start);
            for step in steps {
                prop_assert_eq!(text(&mut times, Timestamp(time)), Timestamp(time).to_string());
                time = time.wrapping_add(step);
            }
        }
    }
}
