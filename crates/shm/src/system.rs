//! The system calls for shared memory, of Linux: mapped files, locks that end with their owner, sleeping on a word, barriers
//! on other processors, and where threads run.
//!
//! This file and `words` hold all of this crate's `unsafe`.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::OnceLock;
use std::time::Duration;

/// A file mapped for reading and writing, shared with all who have mapped it.
#[derive(Debug)]
pub struct Mapping {
    address: *mut u8,
    bytes: usize,
}

impl Mapping {
    /// Maps the first `bytes` of `file`.
    ///
    /// # Errors
    /// The system's.
    pub fn new(file: &File, bytes: usize) -> io::Result<Self> {
        Self::with(file, bytes, libc::MAP_POPULATE)
    }

    /// Maps the first `bytes` of `file`. Its pages are loaded when they are first touched.
    ///
    /// # Errors
    /// The system's.
    pub fn lazily(file: &impl AsRawFd, bytes: usize) -> io::Result<Self> {
        Self::with(file, bytes, 0)
    }

    fn with(file: &impl AsRawFd, bytes: usize, flags: c_int) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the system's choice overlaps nothing.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | flags,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { address: address.cast(), bytes })
    }

    /// Address and bytes.
    pub(crate) fn extent(&self) -> (*const u8, usize) {
        (self.address, self.bytes)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is what `new` mapped, and nothing that points into it outlives `self`: `Words` owns it.
        unsafe { libc::munmap(self.address.cast(), self.bytes) };
    }
}

/// Gives a file all of its blocks, so that a full file system is an error here and not a fault later.
///
/// # Errors
/// The system's.
pub fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let Ok(length) = libc::off_t::try_from(bytes) else {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    };
    // SAFETY: works on an open file and no memory.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Gives a file the blocks that it lacks, and does not change the others: other processes may write to them. A file system that
/// cannot do this is no error.
///
/// # Errors
/// The system's.
pub fn fill_holes(file: &File, bytes: u64) -> io::Result<()> {
    let Ok(length) = libc::off_t::try_from(bytes) else {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    };
    // SAFETY: works on an open file and no memory.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
        error => Err(error),
    }
}

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// With other holders.
    Shared,
    /// Without other holders.
    Exclusive,
}

/// Takes a lock on bytes of a file without waiting. It belongs to this opening of the file and ends when that is closed, also
/// by the end of its process. Whether it was taken.
///
/// # Errors
/// The system's.
pub fn try_lock(file: &File, at: u64, bytes: u64, hold: Hold) -> io::Result<bool> {
    let mut lock = range(at, bytes, hold);
    match control(file.as_raw_fd(), libc::F_OFD_SETLK, &mut lock) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether another opening of the file holds a lock there.
///
/// # Errors
/// The system's.
pub fn is_locked(file: &File, at: u64, bytes: u64) -> io::Result<bool> {
    let mut lock = range(at, bytes, Hold::Exclusive);
    control(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock)?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

fn range(at: u64, bytes: u64, hold: Hold) -> libc::flock {
    // SAFETY: `flock` is plain numbers, and zero is one.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = if hold == Hold::Exclusive { libc::F_WRLCK } else { libc::F_RDLCK } as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = at as libc::off_t;
    lock.l_len = bytes as libc::off_t;
    lock
}

fn control(file: RawFd, command: c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: `lock` is a `flock` that the call may read and write, and lives as long as it.
    if unsafe { libc::fcntl(file, command, std::ptr::from_mut(lock)) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The call behind [`crate::waiting::sleep_on`].
pub(crate) fn sleep_on(word: &crate::atomics::AtomicU64, seen: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(3600),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: the address is that of a live word's low half (this is little-endian, see `lib.rs`), which the system reads as
    // an atomic, and `timeout` outlives the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr().cast::<u32>(),
            libc::FUTEX_WAIT,
            seen,
            &raw const timeout,
        );
    }
}

/// The call behind [`crate::waiting::wake_all`].
pub(crate) fn wake_all(word: &crate::atomics::AtomicU64) {
    // SAFETY: the address is that of a live word, which the system does not read here.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr().cast::<u32>(), libc::FUTEX_WAKE, i32::MAX) };
}

/// From linux/membarrier.h.
const MEMBARRIER_GLOBAL_EXPEDITED: c_int = 1 << 1;
const MEMBARRIER_REGISTER_GLOBAL_EXPEDITED: c_int = 1 << 2;

/// Makes every processor that runs a registered process pass a full barrier. `false` if the system cannot do this.
pub(crate) fn barrier() -> bool {
    membarrier(MEMBARRIER_GLOBAL_EXPEDITED)
}

/// Registers this process for the `barrier`s of other processes. `false` if the system cannot do this.
pub fn take_part_in_barriers() -> bool {
    static TAKES_PART: OnceLock<bool> = OnceLock::new();
    *TAKES_PART.get_or_init(|| membarrier(MEMBARRIER_REGISTER_GLOBAL_EXPEDITED))
}

fn membarrier(command: c_int) -> bool {
    // SAFETY: works on no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// The effective user of this process.
pub fn user_id() -> u32 {
    // SAFETY: always succeeds.
    unsafe { libc::geteuid() }
}

/// Binds the calling thread to one processor, counted from 0. A thread that waits by spinning should have its own.
///
/// # Errors
/// When there is no such processor, or this process may not use it.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    // SAFETY: `cpu_set_t` is plain bits, and zero is one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if core >= 8 * size_of::<libc::cpu_set_t>() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: the bit lies in the set, as was just checked, and the set lives as long as both calls.
    let result = unsafe {
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The processors that the calling thread may use, counted from 0.
///
/// # Errors
/// The system's.
pub(crate) fn usable_cores() -> io::Result<Vec<usize>> {
    // SAFETY: `cpu_set_t` is plain bits, and zero is one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the system writes at most the size that it is given, and the set lives as long as the call.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } == -1 {
        return Err(io::Error::last_os_error());
    }
    let bits = 8 * size_of::<libc::cpu_set_t>();
    // SAFETY: reads bits that lie in the set.
    Ok((0..bits).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect())
}

/// Lets the calling thread run only while nothing else wants its processor.
///
/// # Errors
/// The system's.
pub(crate) fn run_when_idle() -> io::Result<()> {
    // SAFETY: plain numbers, and zero is one.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is the calling thread; the parameters live as long as the call.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The processor's time stamp counter, read after all earlier instructions: a few nanoseconds where the system's clock takes
/// 25. `None` on processors without one. The length of a tick has to be measured.
#[inline(always)]
pub fn ticks() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has both instructions; they touch no memory.
        Some(unsafe {
            std::arch::x86_64::_mm_lfence();
            std::arch::x86_64::_rdtsc()
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}
