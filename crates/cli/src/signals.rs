//! Ctrl-C and SIGTERM: the first asks the command to come to an end, a later one ends the process at once.
//!
//! Always true: `interrupted` is up before `deadly` is, so that the first signal never ends the process; the pipe can be read
//! once a signal has come, so that what waits for input waits for signals too.

use crate::failure::Failure;
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

/// How long a command that was given time to finish has it, before another signal ends the process.
const GRACE: Duration = Duration::from_secs(1);

/// Whether a signal has come, for what has no [`Signals`] at hand.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Raised once a signal has come.
pub fn interrupted() -> Arc<AtomicBool> {
    INTERRUPTED.clone()
}

/// What signals have come.
#[derive(Debug)]
pub struct Signals {
    interrupted: Arc<AtomicBool>,
    /// The exit code of the last signal.
    code: Arc<AtomicUsize>,
    /// Whether the next signal ends the process.
    deadly: Arc<AtomicBool>,
    /// What raises `deadly` with the first signal.
    hasty: Vec<SigId>,
    /// Has a byte for each signal.
    pipe: UnixStream,
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn listen() -> Result<Self, Failure> {
        Self::try_listen()
            .map_err(|error| Failure::new(format!("cannot listen for Ctrl-C: {error}; try again")))
    }

    fn try_listen() -> io::Result<Self> {
        let (interrupted, deadly) = (interrupted(), Arc::new(AtomicBool::new(false)));
        let (code, mut hasty) = (Arc::new(AtomicUsize::new(0)), Vec::new());
        let (pipe, write) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        for number in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flags down and raises them.
            flag::register_conditional_shutdown(number, 128 + number, deadly.clone())?;
            flag::register_usize(number, code.clone(), 128 + number as usize)?;
            flag::register(number, interrupted.clone())?;
            hasty.push(flag::register(number, deadly.clone())?);
            pipe::register(number, write.try_clone()?)?;
        }
        Ok(Self { interrupted, code, deadly, hasty, pipe })
    }

    /// Whether one has come.
    #[inline]
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// 128 and the number of the signal.
    pub fn code(&self) -> u8 {
        let code = self.code.load(Ordering::Relaxed);
        u8::try_from(code).ok().filter(|code| *code > 0).unwrap_or(128 + SIGINT as u8)
    }

    /// Forgets signals that have been heeded.
    pub fn forget(&self) {
        self.interrupted.store(false, Ordering::Relaxed);
        self.deadly.store(false, Ordering::Relaxed);
        let mut heeded = [0; 64];
        while matches!((&self.pipe).read(&mut heeded), Ok(1..)) {}
    }

    /// What can be read once a signal has come; it is not to be read from.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// From now on a second signal ends the process only when it comes [`GRACE`] after the first: what has been received is
    /// stored meanwhile, also where a terminal and a supervisor both send one.
    pub fn give_time_to_finish(&self) -> Result<(), Failure> {
        let cannot =
            |error: io::Error| Failure::new(format!("cannot listen for signals: {error}; try again"));
        let (pipe, deadly) = (self.pipe.try_clone().map_err(cannot)?, self.deadly.clone());
        let watch = move || {
            let mut fds = [PollFd::new(&pipe, PollFlags::IN)];
            while poll(&mut fds, None).is_err() {}
            thread::sleep(GRACE);
            deadly.store(true, Ordering::Relaxed);
        };
        thread::Builder::new().name("tape-signals".into()).spawn(watch).map_err(cannot)?;
        for id in &self.hasty {
            unregister(*id);
        }
        Ok(())
    }
}
