//! Rates of streams: how fast their numbers grow, measured between two lists that are at least a second apart.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The shortest time that a rate is measured over.
const TIME_MIN: Duration = Duration::from_secs(1);

/// Messages and bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Rate {
    pub messages: f64,
    pub bytes: f64,
}

#[derive(Debug)]
struct Sample {
    at: Instant,
    sequence: u64,
    rate: Rate,
}

/// The rates, by stream.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<HashMap<String, Sample>>);

impl Rates {
    /// The rate of a stream that has so many messages now, each of so many bytes; zero at first.
    pub fn update(&self, stream: &str, sequence: u64, bytes_per_message: f64, now: Instant) -> Rate {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sample) = samples.get_mut(stream) else {
            let rate = Rate::default();
            samples.insert(stream.into(), Sample { at: now, sequence, rate });
            return rate;
        };
        let time = now.saturating_duration_since(sample.at);
        if time >= TIME_MIN {
            let messages = sequence.saturating_sub(sample.sequence) as f64 / time.as_secs_f64();
            *sample =
                Sample { at: now, sequence, rate: Rate { messages, bytes: messages * bytes_per_message } };
        }
        sample.rate
    }

    /// Forgets streams that are not there any more.
    pub fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|stream, _| is_there(stream));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_measured_over_a_second_or_more() {
        let (rates, now) = (Rates::default(), Instant::now());
        let at = |millis, sequence| {
            rates.update("s", sequence, 10.0, now + Duration::from_millis(millis)).messages
        };
        assert_eq!((at(0, 100), at(500, 200), at(2000, 300), at(2500, 900)), (0.0, 0.0, 100.0, 100.0));
        assert_eq!(rates.update("s", 300, 10.0, now + Duration::from_secs(4)).bytes, 0.0);
        rates.retain(|_| false);
        assert_eq!(at(5000, 1_000_000), 0.0);
    }
}
