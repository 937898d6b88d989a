//! Keeping processors awake: on a processor that halted, whatever wakes a thread costs tens of microseconds more.

use crate::system;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Where Linux takes what wake-ups may cost at most: four bytes, microseconds, for as long as the file is open.
const WAKE_LATENCY: &str = "/dev/cpu_dma_latency";
/// Looks away between two at whether it is over: some tens of microseconds.
const PAUSES: u32 = 1000;

/// Keeps the processors that the calling thread may use from halting, for as long as it lives.
///
/// One thread for each processor, pinned to it, of the scheduling policy `SCHED_IDLE`: it runs when nothing else wants the
/// processor, and whatever is woken there takes it at once. Where the process may (it takes root), 0 µs are asked for in
/// `/dev/cpu_dma_latency` too, which keeps real processors from sleeping deeply.
///
/// It costs what an idle machine saves: processors show as wholly busy, take power and heat, leave less to their
/// hyperthreads, and use up what a burstable virtual machine or a container with a quota has. Threads that queue for one
/// processor are fetched by another later, as that is never quite idle: at a millisecond's tick, not at once. One is enough
/// for a machine.
///
/// ```
/// use tapedb_topic::Awake;
///
/// let awake = Awake::keep()?;
/// assert!(awake.cores() >= 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Awake {
    cores: usize,
    /// Asks for wake-ups without delay for as long as it is open.
    wake_latency: Option<File>,
    stopping: Arc<AtomicBool>,
}

impl Awake {
    /// Begins.
    ///
    /// # Errors
    /// The system's, naming the processor: no thread can be begun, or it may not be made idle. Then none stays awake.
    pub fn keep() -> io::Result<Self> {
        let cores = system::usable_cores()?;
        // Threads that have begun end when it is dropped: also where a later one could not.
        let awake = Self {
            cores: cores.len(),
            wake_latency: ask_for_wakes_without_delay().ok(),
            stopping: Arc::default(),
        };
        let (told, heard) = channel();
        cores.iter().try_for_each(|core| awake.begin(*core, told.clone()))?;
        drop(told);
        all_began(&heard)?;
        Ok(awake)
    }

    /// Processors that are kept awake.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Whether the system was also asked for wake-ups without delay, which keeps real processors from sleeping deeply.
    #[must_use]
    pub fn bars_deep_sleep(&self) -> bool {
        self.wake_latency.is_some()
    }

    fn begin(&self, core: usize, told: Sender<io::Result<()>>) -> io::Result<()> {
        let stopping = self.stopping.clone();
        let spin = move || {
            let idle = system::pin_to_core(core).and_then(|()| system::run_when_idle());
            let is_idle = idle.is_ok();
            // Whoever began this waits for it, unless another one failed.
            let _ = told.send(idle.map_err(|error| naming(core, &error)));
            drop(told);
            // At the priority of others it would take half of the processor.
            while is_idle && !stopping.load(Ordering::Relaxed) {
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
            }
        };
        let thread = thread::Builder::new().name(format!("tape-awake-{core}")).spawn(spin);
        thread.map(drop).map_err(|error| naming(core, &error))
    }
}

impl Drop for Awake {
    /// Ends it. Threads are not waited for: each ends when it next runs, at once where nothing else does, and on a busy
    /// processor only when that has time for what is idle.
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}

/// The first error of those that began.
fn all_began(heard: &Receiver<io::Result<()>>) -> io::Result<()> {
    heard.iter().collect()
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

    /// Names and policies of this process's threads that keep a processor awake, and how many they may use.
    fn keepers() -> BTreeSet<(String, String, usize)> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        // A thread may end between two looks at it.
        let keepers = tasks.filter_map(|task| {
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
        keepers.collect()
    }

    #[test]
    fn a_thread_for_each_processor_is_idle_and_goes() {
        assert!(keepers().is_empty());
        let awake = Awake::keep().unwrap();
        let seen = keepers();
        assert_eq!(seen.len(), awake.cores());
        assert_eq!(awake.cores(), system::usable_cores().unwrap().len());
        assert!(seen.iter().all(|(_, policy, cores)| policy == SCHED_IDLE && *cores == 1), "{seen:?}");
        drop(awake);
        // Others may have the processors: it is told of nothing but that they go.
        let began = Instant::now();
        while !keepers().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", keepers());
            thread::sleep(Duration::from_millis(1));
        }
    }
}
