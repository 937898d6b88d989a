//! Waiting for an instant, exactly.

use crate::control::Control;
use std::time::{Duration, Instant};

/// A thread that sleeps may wake up so much late; the rest of a wait is spent awake.
const AWAKE: Duration = Duration::from_micros(120);

/// Waits until the instant; `false`: a command came first.
pub(crate) fn wait_until(due: Instant, control: &Control) -> bool {
    if let Some(asleep) = due.checked_sub(AWAKE) {
        control.sleep_until(asleep);
    }
    while !control.is_asked() {
        if Instant::now() >= due {
            return true;
        }
        std::hint::spin_loop();
    }
    false
}
