//! A window onto the unpacked bytes of a binary file: so many of them at once, with their place.

use crate::container::Opened;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Bytes that are read at once, and the most that are asked for.
pub(super) const WINDOW_BYTES: usize = 128 << 10;

/// Always true: `start..end` of the buffer is read and not yet passed, and `offset` is the place of `start` among the unpacked bytes.
pub(super) struct Window {
    reader: Box<dyn Read + Send>,
    /// Compressed bytes read so far.
    pub(super) bytes_read: Arc<AtomicU64>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
}

impl Window {
    /// Whose first byte is at this offset.
    pub(super) fn new(opened: Opened, offset: u64) -> Self {
        let Opened { reader, bytes_read } = opened;
        Self { reader, bytes_read, buffer: vec![0; WINDOW_BYTES], start: 0, end: 0, offset }
    }

    /// Place of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes that are there.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Whether so many bytes are there, once they have been read; fewer are there only at the end.
    ///
    /// # Errors
    /// Those of reading.
    #[inline]
    pub(super) fn has(&mut self, count: usize) -> io::Result<bool> {
        debug_assert!(count <= WINDOW_BYTES);
        while self.end - self.start < count {
            if !self.fill()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes on behind bytes that are there.
    #[inline]
    pub(super) fn pass(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Reads more bytes; `false` at the end.
    #[cold]
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    let count = read?;
                    self.end += count;
                    return Ok(count > 0);
                }
            }
        }
    }
}
