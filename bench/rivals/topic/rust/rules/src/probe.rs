//! The round trip of a word between two cores, as `tapedb bench` measures it for its machine line.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::medium::Failure;
use crate::together::pin;

/// Round trips measured in one probe.
const TRIPS: u64 = 5_000;
/// Longest that one probe takes: when others keep the cores busy, a trip takes until the scheduler's next turn.
const PROBE_MAX: Duration = Duration::from_millis(50);
/// Trips between two looks at the clock, which would lengthen each.
const CLOCK_INTERVAL: u64 = 16;
/// Probes, of which the fastest counts: the others were interrupted.
const PROBES: usize = 9;
/// The last word.
const END: u64 = u64::MAX;

/// In nanoseconds, between the two cores that `together` uses.
pub fn round_trip_ns() -> Result<f64, Failure> {
    let mut least = f64::INFINITY;
    for _ in 0..PROBES {
        least = least.min(probe()?);
    }
    Ok(least)
}

fn probe() -> Result<f64, Failure> {
    let (ping, pong) = (Padded::default(), Padded::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            // A probe that stays on one core says so by its figure.
            drop(pin(1));
            echo(&ping, &pong);
        });
        let speaker = scope.spawn(|| {
            let pinned = pin(0);
            let nanos = speak(&ping, &pong);
            pinned.map(|()| nanos)
        });
        speaker.join().map_err(|_| "the probe panicked")?
    })
}

fn speak(ping: &Padded, pong: &Padded) -> f64 {
    let started = Instant::now();
    let mut trip = 0;
    loop {
        trip += 1;
        // Pairs with the Acquire in `wait_beyond` of the other thread.
        ping.0.store(trip, Ordering::Release);
        wait_beyond(pong, trip - 1);
        if trip == TRIPS || (trip % CLOCK_INTERVAL == 0 && started.elapsed() > PROBE_MAX) {
            break;
        }
    }
    let nanos = started.elapsed().as_nanos() as f64;
    ping.0.store(END, Ordering::Release);
    nanos / trip as f64
}

/// Returns each number to the sender, up to the end.
fn echo(ping: &Padded, pong: &Padded) {
    let mut heard = 0;
    while heard != END {
        heard = wait_beyond(ping, heard);
        // Pairs with the Acquire in `wait_beyond` of the other thread.
        pong.0.store(heard, Ordering::Release);
    }
}

/// Each on a cache line of its own, with the one beside it that the hardware fetches along.
#[derive(Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

/// The word once it is another than `seen`.
fn wait_beyond(word: &Padded, seen: u64) -> u64 {
    let mut spins = 0u32;
    loop {
        let now = word.0.load(Ordering::Acquire);
        if now != seen {
            return now;
        }
        spins += 1;
        // On a single core the other thread needs its turn.
        if spins.is_multiple_of(1 << 14) {
            thread::yield_now();
        }
        std::hint::spin_loop();
    }
}
