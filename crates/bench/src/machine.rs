//! The machine line: what a figure was measured on, and how near its cores were to each other.
//!
//! Virtual cores move: the same program takes a multiple of the time when its threads sit far apart. So each benchmark
//! probes the round trip between two cores before and after, and figures compare only where it agrees.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Round trips measured in one probe.
const TRIPS: u64 = 20_000;
/// Longest that one probe takes: when others keep the cores busy, a trip takes until the scheduler's next turn.
const PROBE_MAX: Duration = Duration::from_millis(50);
/// Trips between two looks at the clock, which would lengthen each.
const CLOCK_INTERVAL: u64 = 16;
/// The last word.
const END: u64 = u64::MAX;
/// Probes, of which the fastest counts: the others were interrupted.
const PROBES: usize = 9;

/// What a run was measured on.
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

    /// One line: the machine, the round trips before and after the run, in nanoseconds, and what was special.
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

/// Round trip of a word between two threads, in nanoseconds. With one core it is the scheduler's.
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

/// Says what it hears, until it hears the end.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_ends() {
        let nanos = cross_core_round_trip_ns();
        assert!(nanos > 0.0 && nanos.is_finite(), "{nanos}");
    }
}
