//! Ctrl-C and SIGTERM: the first asks the command to stop, a later one ends the process at once.
//!
//! Invariants: `interrupted` is set before `ends_process`, so the first signal never ends the process; the pipe is readable once a
//! signal has arrived, so a thread that waits for input also waits for signals.

use crate::Failure;
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};
use signal_hook::{SigId, flag};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

/// Time that a command has to finish before another signal ends the process; see [`Signals::give_time_to_finish`].
const GRACE: Duration = Duration::from_secs(1);

/// Whether a signal has arrived, for code without [`Signals`].
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// True once a signal has arrived.
pub fn interrupted() -> Arc<AtomicBool> {
    INTERRUPTED.clone()
}

/// The signals that have arrived.
#[derive(Debug)]
pub struct Signals {
    interrupted: Arc<AtomicBool>,
    /// The exit code of the last signal.
    code: Arc<AtomicUsize>,
    /// Whether the next signal ends the process.
    ends_process: Arc<AtomicBool>,
    /// Handlers that set `ends_process` with the first signal.
    immediate: Vec<SigId>,
    /// Holds a byte for each signal.
    pipe: UnixStream,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn listen() -> Result<Self, Failure> {
        Self::try_listen()
            .map_err(|error| Failure::new(format!("cannot listen for Ctrl-C: {error}; try again")))
    }

    /// Signals of a command that another part of the process runs and may interrupt: those of the process do not reach it.
    ///
    /// # Errors
    /// When the system has no file left.
    pub fn apart(interrupted: Arc<AtomicBool>) -> Result<Self, Failure> {
        let pair = UnixStream::pair()
            .map_err(|error| Failure::new(format!("cannot run a command: {error}; try again")))?;
        let (ends_process, code) = (Arc::default(), Arc::default());
        Ok(Self { interrupted, code, ends_process, immediate: Vec::new(), pipe: pair.0 })
    }

    fn try_listen() -> io::Result<Self> {
        let (interrupted, ends_process) = (interrupted(), Arc::new(AtomicBool::new(false)));
        let (code, mut immediate) = (Arc::new(AtomicUsize::new(0)), Vec::new());
        let (pipe, write) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        for number in [SIGINT, SIGTERM] {
            // The order matters: the first signal finds the flags unset and sets them.
            flag::register_conditional_shutdown(number, 128 + number, ends_process.clone())?;
            flag::register_usize(number, code.clone(), 128 + number as usize)?;
            flag::register(number, interrupted.clone())?;
            immediate.push(flag::register(number, ends_process.clone())?);
            pipe::register(number, write.try_clone()?)?;
        }
        Ok(Self { interrupted, code, ends_process, immediate, pipe })
    }

    /// Whether a signal has arrived.
    #[inline]
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// 128 plus the number of the signal.
    pub fn code(&self) -> u8 {
        let code = self.code.load(Ordering::Relaxed);
        u8::try_from(code).ok().filter(|code| *code > 0).unwrap_or(128 + SIGINT as u8)
    }

    /// Forgets signals that have been handled.
    pub fn forget(&self) {
        self.interrupted.store(false, Ordering::Relaxed);
        self.ends_process.store(false, Ordering::Relaxed);
        let mut handled = [0; 64];
        while matches!((&self.pipe).read(&mut handled), Ok(1..)) {}
    }

    /// Readable once a signal has arrived. Callers poll it and must not read from it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// From now on a second signal ends the process only if it arrives at least `GRACE` after the first. The command stores what it
    /// has received in that time, also where a terminal and a supervisor both send a signal.
    pub fn give_time_to_finish(&self) -> Result<(), Failure> {
        let cannot =
            |error: io::Error| Failure::new(format!("cannot listen for signals: {error}; try again"));
        let (pipe, ends_process) = (self.pipe.try_clone().map_err(cannot)?, self.ends_process.clone());
        let wait = move || {
            let mut fds = [PollFd::new(&pipe, PollFlags::IN)];
            while poll(&mut fds, None).is_err() {}
            thread::sleep(GRACE);
            ends_process.store(true, Ordering::Relaxed);
        };
        thread::Builder::new().name("tape-signals".into()).spawn(wait).map_err(cannot)?;
        for id in &self.immediate {
            unregister(*id);
        }
        Ok(())
    }
}
