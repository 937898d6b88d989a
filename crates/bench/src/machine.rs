//! The machine line: the hardware, and the distance between two cores.
//!
//! Virtual cores move: the same program takes several times longer when its threads run on distant cores. So each benchmark
//! measures the round trip between two cores before and after, and figures are comparable only if it agrees.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Round trips measured in one probe.
const TRIPS: u64 = 20_000;
/// Maximum time of one probe: on busy cores a trip waits for the scheduler.
const PROBE_MAX: Duration = Duration::from_millis(50);
/// Trips between two checks of the clock, which takes time itself.
const CLOCK_INTERVAL: u64 = 16;
/// Ends the probe.
const END: u64 = u64::MAX;
/// Number of probes; the fastest counts, because the others were interrupted.
const PROBES: usize = 9;

/// The machine of a run.
#[derive(Debug, Clone)]
pub struct Machine {
    cpu: String,
    cores: usize,
    memory_gib: u64,
    kernel: String,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        let cpu_info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let value = |key: &str| {
            let line = cpu_info.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_string())
        };
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = memory.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0);
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        // The kernel's own version, without what a distribution or host appends.
        let kernel = kernel.split(['-', '\n']).next().unwrap_or_default().to_string();
        let cpu = value("model name").unwrap_or_else(|| std::env::consts::ARCH.into());
        Self { cpu, cores, memory_gib: kib.div_ceil(1 << 20), kernel }
    }

    /// One line: the machine, the round trips before and after the run in nanoseconds, and remarks.
    pub fn line(&self, before_ns: f64, after_ns: f64, remarks: &[&str]) -> String {
        let Self { cpu, cores, memory_gib, kernel } = self;
        let os = std::env::consts::OS;
        let remarks: String = remarks.iter().flat_map(|remark| ["; ", remark]).collect();
        format!(
            "{cores} cores {cpu}, {memory_gib} GiB, {os} {kernel}; cross-core round trip {before_ns:.0} ns before, \
             {after_ns:.0} ns after{remarks}"
        )
    }
}

/// Round trip of a word between two threads in nanoseconds. With one core it is the time of the scheduler.
pub fn cross_core_round_trip_ns() -> f64 {
    (0..PROBES).map(|_| probe()).fold(f64::INFINITY, f64::min)
}

fn probe() -> f64 {
    let (ping, pong) = (Padded::default(), Padded::default());
    thread::scope(|scope| {
        scope.spawn(|| echo(&ping, &pong));
        let started = Instant::now();
        let late = || started.elapsed() > PROBE_MAX;
        let mut trip = 0;
        loop {
            trip += 1;
            ping.0.store(trip, Ordering::Release);
            wait_beyond(&pong, trip - 1);
            if trip == TRIPS || (trip.is_multiple_of(CLOCK_INTERVAL) && late()) {
                break;
            }
        }
        let nanos = started.elapsed().as_nanos() as f64;
        ping.0.store(END, Ordering::Release);
        nanos / trip as f64
    })
}

/// Returns each word, until the end.
fn echo(ping: &Padded, pong: &Padded) {
    let mut word = 0;
    while word != END {
        word = wait_beyond(ping, word);
        // Pairs with the Acquire in `wait_beyond` of the other thread.
        pong.0.store(word, Ordering::Release);
    }
}

/// A word alone in two cache lines: the hardware prefetches the neighbouring line.
#[derive(Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

/// Waits until the word differs from `seen`.
fn wait_beyond(word: &Padded, seen: u64) -> u64 {
    let mut spins = 0u32;
    loop {
        let now = word.0.load(Ordering::Acquire);
        if now != seen {
            return now;
        }
        spins += 1;
        // On a single core the other thread must be scheduled.
        if spins.is_multiple_of(1 << 14) {
            thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_ends() {
        let nanos = cross_core_round_trip_ns();
        assert!(nanos > 0.0 && nanos.is_finite(), "{nanos}");
    }
}
