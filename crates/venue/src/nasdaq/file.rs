//! A file of messages, each behind its length.

use super::Names;
use super::messages::{Decoded, decode};
use crate::clock::DayClock;
use crate::container::Opened;
use crate::error::{BadRecord, ImportError};
use crate::options::OnBadLine;
use crate::record::AnyRecord;
use crate::source::{Counters, RowHeader, Source};
use crate::window::Window;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use tapedb_schema::Timestamp;

/// Bytes of the length of a message.
const LENGTH_BYTES: usize = 2;

pub(super) struct Messages {
    window: Window,
    clock: DayClock,
    names: Names,
    path: PathBuf,
    /// Number of the message at the window's begin, from 1.
    record: u64,
    /// The instrument of the last row.
    instrument: u16,
    bytes_total: u64,
    on_bad_line: OnBadLine,
    counters: Counters,
    ended: bool,
}

impl Messages {
    pub(super) fn new(
        opened: Opened,
        clock: DayClock,
        venue: &'static str,
        path: PathBuf,
        bytes_total: u64,
        on_bad_line: OnBadLine,
    ) -> Self {
        Self {
            window: Window::new(opened, 0),
            clock,
            names: Names::new(venue),
            path,
            record: 1,
            instrument: 0,
            bytes_total,
            on_bad_line,
            counters: Counters::default(),
            ended: false,
        }
    }

    /// The time of the next row.
    fn advance(&mut self, out: &mut AnyRecord) -> Result<Option<Timestamp>, ImportError> {
        loop {
            let Some(length) = self.whole_message()? else { return Ok(None) };
            let message = &self.window.bytes()[LENGTH_BYTES..length];
            let clock = &self.clock;
            match decode(message, false, |nanos| clock.at(nanos), out) {
                Ok(Decoded::Record(time)) => {
                    self.instrument = self.names.note(message);
                    self.pass(length);
                    return Ok(Some(time));
                }
                Ok(Decoded::Unknown(kind)) => {
                    self.counters.add_unknown(format!("message type {:?}", char::from(kind)), 1);
                }
                Err(_) if self.on_bad_line.skips(self.counters.bad_lines) => self.counters.bad_lines += 1,
                Err(bad) => return Err(self.bad(&bad)),
            }
            self.pass(length);
        }
    }

    #[inline]
    fn pass(&mut self, length: usize) {
        self.window.pass(length);
        self.record += 1;
    }

    /// Length of the next message with its length, once all of it is in the window. A length of zero ends a session, or the file; more of
    /// them one after another are what a disk has lost.
    #[inline]
    fn whole_message(&mut self) -> Result<Option<usize>, ImportError> {
        let mut is_behind_end = false;
        loop {
            if !self.has(LENGTH_BYTES)? {
                if self.window.bytes().is_empty() {
                    return Ok(None);
                }
                return Err(self.damaged(io::ErrorKind::UnexpectedEof.into()));
            }
            let bytes = self.window.bytes();
            let length = LENGTH_BYTES + usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
            if length == LENGTH_BYTES {
                if is_behind_end {
                    let what = "zeros where a message should be";
                    return Err(self.damaged(io::Error::new(io::ErrorKind::InvalidData, what)));
                }
                is_behind_end = true;
                self.window.pass(length);
                continue;
            }
            if !self.has(length)? {
                return Err(self.damaged(io::ErrorKind::UnexpectedEof.into()));
            }
            return Ok(Some(length));
        }
    }

    #[inline]
    fn has(&mut self, count: usize) -> Result<bool, ImportError> {
        self.window.has(count).map_err(|error| self.damaged(error))
    }

    #[cold]
    fn damaged(&self, source: io::Error) -> ImportError {
        ImportError::Damaged {
            path: self.path.clone(),
            record: self.record,
            offset: self.window.offset(),
            source,
        }
    }

    #[cold]
    fn bad(&self, bad: &BadRecord) -> ImportError {
        ImportError::Record {
            path: self.path.clone(),
            record: self.record,
            offset: self.window.offset() + (LENGTH_BYTES + bad.offset) as u64,
            expected: bad.expected.into(),
        }
    }
}

impl Source for Messages {
    fn next(&mut self, out: &mut AnyRecord) -> Result<Option<RowHeader<'_>>, ImportError> {
        if self.ended {
            return Ok(None);
        }
        match self.advance(out) {
            Ok(Some(time)) => {
                self.counters.rows += 1;
                Ok(Some(RowHeader { time, symbol: self.names.name(self.instrument) }))
            }
            end_or_error => {
                self.ended = true;
                out.package();
                end_or_error.map(|_| None)
            }
        }
    }

    fn progress(&self) -> (u64, u64) {
        (self.window.bytes_read.load(Ordering::Relaxed), self.bytes_total)
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
