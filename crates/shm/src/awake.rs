//! Keeping processors awake: on a processor that has halted, waking a thread costs tens of microseconds more.

use crate::system;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Where Linux takes the longest wake-up latency: four bytes, microseconds, valid while the file is open.
const WAKE_LATENCY: &str = "/dev/cpu_dma_latency";
/// Pauses between two checks whether it is over: some tens of microseconds.
const PAUSES: u32 = 1000;

/// Keeps the processors that the calling thread may use from halting, while it exists.
///
/// One thread for each processor, pinned to it, of the scheduling policy `SCHED_IDLE`: it runs when no other thread wants
/// the processor, and a thread that is woken there takes it at once. If the process may (it takes root), it also asks for 0 µs
/// in `/dev/cpu_dma_latency`, which keeps real processors from deep sleep.
///
/// It costs what an idle machine saves: processors show as wholly busy, use power, become hot, leave less to their
/// hyperthreads, and use up the quota of a burstable virtual machine or a container. Threads that queue for one processor
/// move to another one later, because that is never quite idle: at a millisecond's tick, not at once. One is enough for a
/// machine.
///
/// ```
/// use tapedb_shm::Awake;
///
/// let awake = Awake::keep()?;
/// assert!(awake.cores() >= 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Awake {
    cores: usize,
    /// Asks for wake-ups without delay while it is open.
    wake_latency: Option<File>,
    stopping: Arc<AtomicBool>,
}

impl Awake {
    /// Starts one thread for each processor.
    ///
    /// # Errors
    /// The system's, with the processor: no thread can be started, or it may not be made idle. Then none is kept awake.
    pub fn keep() -> io::Result<Self> {
        let cores = system::usable_cores()?;
        // Dropping it ends the threads that have started, also if a later one could not.
        let awake = Self {
            cores: cores.len(),
            wake_latency: ask_for_wakes_without_delay().ok(),
            stopping: Arc::default(),
        };
        let (started, results) = channel();
        cores.iter().try_for_each(|core| awake.start(*core, started.clone()))?;
        drop(started);
        all_started(&results)?;
        Ok(awake)
    }

    /// Processors that are kept awake.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Whether the system was also asked for wake-ups without delay, which keeps real processors from deep sleep.
    #[must_use]
    pub fn bars_deep_sleep(&self) -> bool {
        self.wake_latency.is_some()
    }

    fn start(&self, core: usize, started: Sender<io::Result<()>>) -> io::Result<()> {
        let stopping = self.stopping.clone();
        let spin = move || {
            let idle = system::pin_to_core(core).and_then(|()| system::run_when_idle());
            let is_idle = idle.is_ok();
            // The receiver is gone if another one failed.
            let _ = started.send(idle.map_err(|error| naming(core, &error)));
            drop(started);
            // At normal priority it would take half of the processor.
            while is_idle && !stopping.load(Ordering::Relaxed) {
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
            }
        };
        let thread = thread::Builder::new().name(format!("tape-awake-{core}")).spawn(spin);
        thread.map(drop).map_err(|error| naming(core, &error))
    }
}

impl Drop for Awake {
    /// Ends the threads without waiting for them: each ends when it runs next, at once on an idle processor, on a busy one
    /// when that has time for idle threads.
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}

/// The first error of the threads that were started.
fn all_started(results: &Receiver<io::Result<()>>) -> io::Result<()> {
    results.iter().collect()
}

fn naming(core: usize, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot keep processor {core} awake: {error}; do without"))
}

fn ask_for_wakes_without_delay() -> io::Result<File> {
    let mut file = File::options().write(true).open(WAKE_LATENCY)?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};

    /// From linux/sched.h.
    const SCHED_IDLE: &str = "5";

    /// Names and policies of this process's threads that keep a processor awake, and whether they are bound to one.
    fn awake_threads() -> BTreeSet<(String, String, usize)> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        // A thread may end between two reads.
        let found = tasks.filter_map(|task| {
            let task = task.ok()?.path();
            let stat = std::fs::read_to_string(task.join("stat")).ok()?;
            let (name, fields) = stat.split_once('(')?.1.rsplit_once(')')?;
            // The 41st field of all; these begin with the third.
            let policy = fields.split_whitespace().nth(41 - 3)?;
            let status = std::fs::read_to_string(task.join("status")).ok()?;
            let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            let is_one = cores.trim().parse::<usize>().is_ok();
            name.starts_with("tape-awake").then(|| (name.into(), policy.into(), usize::from(is_one)))
        });
        found.collect()
    }

    #[test]
    fn a_thread_for_each_processor_is_idle_and_ends() {
        assert!(awake_threads().is_empty());
        let awake = Awake::keep().unwrap();
        let seen = awake_threads();
        assert_eq!(seen.len(), awake.cores());
        assert_eq!(awake.cores(), system::usable_cores().unwrap().len());
        assert!(seen.iter().all(|(_, policy, cores)| policy == SCHED_IDLE && *cores == 1), "{seen:?}");
        drop(awake);
        // Other threads may have the processors, so the end has no fixed time.
        let began = Instant::now();
        while !awake_threads().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", awake_threads());
            thread::sleep(Duration::from_millis(1));
        }
    }
}
