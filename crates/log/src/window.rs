//! The last bytes that were pushed to a remote log, in bounded memory.

use std::collections::VecDeque;

/// Chunks grow to this size.
const CHUNK_BYTES: usize = 256 << 10;

/// The last bytes of a log. Always true: `bytes` is the sum of the chunks' bytes.
#[derive(Debug)]
pub(crate) struct Window {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Chunk {
    file: u64,
    offset: u64,
    bytes: Vec<u8>,
}

impl Window {
    pub fn new(bytes_max: usize) -> Self {
        Self { chunks: VecDeque::new(), bytes: 0, bytes_max }
    }

    pub fn clear(&mut self) {
        self.chunks.clear();
        self.bytes = 0;
    }

    /// Adds bytes that lie at an offset in a file, and drops the oldest ones beyond the bound.
    pub fn push(&mut self, file: u64, offset: u64, bytes: &[u8]) {
        let follows = |chunk: &&mut Chunk| {
            chunk.file == file && chunk.end() == offset && chunk.bytes.len() + bytes.len() <= CHUNK_BYTES
        };
        match self.chunks.back_mut().filter(follows) {
            Some(chunk) => chunk.bytes.extend_from_slice(bytes),
            None => {
                let mut grown = Vec::with_capacity(bytes.len().max(CHUNK_BYTES));
                grown.extend_from_slice(bytes);
                self.chunks.push_back(Chunk { file, offset, bytes: grown });
            }
        }
        self.bytes += bytes.len();
        while self.bytes > self.bytes_max
            && let Some(oldest) = self.chunks.pop_front()
        {
            self.bytes -= oldest.bytes.len();
        }
    }

    /// Reads bytes of a file; `false`: not all of them are in the window.
    pub fn read(&self, file: u64, offset: u64, len: usize, buf: &mut Vec<u8>) -> bool {
        let holds = |chunk: &Chunk, at: u64| chunk.file == file && (chunk.offset..chunk.end()).contains(&at);
        // The newest first: live readers are there.
        let Some(first) = self.chunks.iter().rposition(|chunk| holds(chunk, offset)) else { return false };
        buf.clear();
        for chunk in self.chunks.range(first..) {
            let at = offset + buf.len() as u64;
            if !holds(chunk, at) {
                return false;
            }
            let rest = &chunk.bytes[(at - chunk.offset) as usize..];
            buf.extend_from_slice(&rest[..rest.len().min(len - buf.len())]);
            if buf.len() == len {
                return true;
            }
        }
        false
    }
}

impl Chunk {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}
