//! Reads a file or a pipe, and waits for bytes and signals together.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::{Errno, ioctl_fionread};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;
use tapedb_terminal::{Failure, signals::Signals};

/// A file, a pipe or standard input.
#[derive(Debug)]
pub struct Source {
    file: File,
    /// Its name in messages.
    pub name: String,
    /// Whether bytes arrive as they are sent: a pipe, a socket, a terminal.
    pub is_live: bool,
    /// Bytes of a file; 0 for others.
    #[cfg_attr(not(feature = "arrow"), expect(dead_code, reason = "the progress of record batches"))]
    pub bytes: u64,
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrived {
    /// Number of bytes read.
    Bytes(usize),
    /// No bytes before the deadline.
    Nothing,
    /// Ctrl-C or SIGTERM.
    Signal,
    /// The end of the input.
    End,
}

impl Source {
    /// Standard input. No other code may read it at the same time.
    pub fn stdin() -> Result<Self, Failure> {
        let name = "standard input".to_string();
        let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        Self::of(file, name)
    }

    /// A file, or a named pipe, which need not have a writer yet.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let is_pipe = path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo());
        // A blocking open of a pipe waits for its writer and ignores signals.
        let flags = if is_pipe { OFlags::NONBLOCK.bits() as i32 } else { 0 };
        Self::of(OpenOptions::new().read(true).custom_flags(flags).open(path), path.display().to_string())
    }

    fn of(file: io::Result<File>, name: String) -> Result<Self, Failure> {
        let metadata = file.and_then(|file| file.metadata().map(|metadata| (file, metadata)));
        let (file, metadata) =
            metadata.map_err(|error| Failure::new(format!("cannot open {name}: {error}")))?;
        if metadata.is_dir() {
            return Err(Failure::new(format!("{name} is a directory; name the files in it")));
        }
        let bytes = if metadata.is_file() { metadata.len() } else { 0 };
        Ok(Self { file, name, is_live: !metadata.is_file(), bytes })
    }

    /// Whether it is the same file, also under another name.
    pub fn is_same_file(&self, other: &File) -> bool {
        let id = |file: &File| file.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
        id(&self.file).is_some_and(|own| Some(own) == id(other))
    }

    /// Reads available bytes, up to the length of the buffer; if there are none, waits for them until the deadline.
    pub fn read(
        &mut self,
        buffer: &mut [u8],
        deadline: Option<Instant>,
        signals: &Signals,
    ) -> io::Result<Arrived> {
        if signals.is_interrupted() {
            return Ok(Arrived::Signal);
        }
        if self.is_live && !self.wait(deadline, signals)? {
            return Ok(if signals.is_interrupted() { Arrived::Signal } else { Arrived::Nothing });
        }
        self.take(buffer)
    }

    /// Reads bytes that have arrived, at most `rest`, without waiting: [`Arrived::Nothing`] if there are none.
    pub fn read_rest(&mut self, buffer: &mut [u8], rest: &mut u64) -> io::Result<Arrived> {
        let most = buffer.len().min(usize::try_from(*rest).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(Arrived::Nothing);
        }
        let arrived = self.take(&mut buffer[..most])?;
        if let Arrived::Bytes(count) = arrived {
            *rest -= count as u64;
        }
        Ok(arrived)
    }

    /// Bytes that were sent and not read yet.
    pub fn waiting(&self) -> u64 {
        if self.is_live { ioctl_fionread(&self.file).unwrap_or(0) } else { 0 }
    }

    fn take(&mut self, buffer: &mut [u8]) -> io::Result<Arrived> {
        loop {
            return match self.file.read(buffer) {
                Ok(0) => Ok(Arrived::End),
                Ok(count) => Ok(Arrived::Bytes(count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Another process that reads the same pipe took the bytes.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Arrived::Nothing),
                Err(error) => Err(error),
            };
        }
    }

    /// Waits for bytes; `false` at the deadline or a signal.
    fn wait(&self, deadline: Option<Instant>, signals: &Signals) -> io::Result<bool> {
        wait_for(self.file.as_fd(), deadline, signals)
    }
}

/// Waits for bytes or the end of the input; `false` at the deadline or a signal.
pub fn wait_for(fd: BorrowedFd<'_>, deadline: Option<Instant>, signals: &Signals) -> io::Result<bool> {
    loop {
        let signal = signals.fd();
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN), PollFd::new(&signal, PollFlags::IN)];
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, left.as_ref()) {
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            // Bytes, the end or an error: the read returns which.
            Ok(count) => return Ok(count > 0 && fds[1].revents().is_empty()),
        }
    }
}
