//! The words of a ring, by position.

use crate::format::{FRAME_HEADER, LINE, word};
use tapedb_shm::atomics::{AtomicU64, Ordering, fence};
use tapedb_shm::{AllWords, WORD};

const HEADER_WORDS: usize = FRAME_HEADER as usize / WORD;
const LINE_BYTES: usize = LINE as usize;
/// Bytes of a body in the line that its frame begins with.
const IN_FIRST: usize = LINE_BYTES - FRAME_HEADER as usize;

/// A ring's words and how positions map to them, as a value: a call takes one, and nothing of it is loaded again after each
/// store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'r> {
    pub words: AllWords<'r>,
    pub first_word: usize,
    /// The ring's size, less one.
    pub mask: u64,
}

impl<'r> View<'r> {
    /// Index of the first word of the frame at a position.
    #[inline(always)]
    pub fn word_at(self, position: u64) -> usize {
        self.first_word + (position & self.mask) as usize / WORD
    }

    /// Bytes from a position to the end of the ring.
    #[inline(always)]
    pub fn until_wrap(self, position: u64) -> u64 {
        self.mask + 1 - (position & self.mask)
    }

    /// Word 0 of the frame at a position.
    #[inline(always)]
    pub fn head(self, position: u64) -> &'r AtomicU64 {
        self.words.get(self.word_at(position))
    }

    /// Prefetches the line at a position for writing.
    #[inline(always)]
    pub fn fetch(self, position: u64) {
        self.words.fetch(self.word_at(position));
    }

    /// Sequence number of the frame at a position.
    #[inline(always)]
    pub fn sequence(self, position: u64) -> &'r AtomicU64 {
        self.words.get(self.word_at(position) + 1)
    }

    /// Word 0, sequence number and time of the frame at a position.
    #[inline(always)]
    pub fn header(self, position: u64) -> [&'r AtomicU64; HEADER_WORDS] {
        self.words.run(self.word_at(position))
    }

    /// Writes sequence number and time of a message.
    #[inline(always)]
    pub fn write_header(self, position: u64, sequence: u64, time: i64) {
        let [_, to_sequence, to_time] = self.header(position);
        to_sequence.store(sequence, Ordering::Relaxed);
        to_time.store(time as u64, Ordering::Relaxed);
    }

    /// Writes a body, a word at a time.
    #[inline(always)]
    pub fn write_body(self, position: u64, body: &[u8]) {
        let first = self.word_at(position) + HEADER_WORDS;
        let mut words = self.words.slice(first, body.len().div_ceil(WORD));
        let (whole, rest) = body.as_chunks::<WORD>();
        for (chunk, word) in whole.iter().zip(words.by_ref()) {
            word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
        }
        if let Some(word) = words.next() {
            let mut last = [0; WORD];
            last[..rest.len()].copy_from_slice(rest);
            word.store(u64::from_le_bytes(last), Ordering::Relaxed);
        }
    }

    /// Copies a body of so many bytes out of the ring, and perhaps the bytes after it in its last line, if `to` is long enough.
    /// The bytes are valid only if [`View::is_whole`] returns true afterwards.
    #[inline(always)]
    pub fn read_body(self, position: u64, bytes: usize, to: &mut [u8]) {
        let first = self.word_at(position) + HEADER_WORDS;
        // Whole lines are copied without a check of bounds for each word.
        let Some((in_first, in_others)) = to.split_first_chunk_mut::<IN_FIRST>().filter(|_| !cfg!(loom))
        else {
            return self.read_words(first, &mut to[..bytes]);
        };
        copy(self.words.run::<{ IN_FIRST / WORD }>(first), in_first);
        if bytes > IN_FIRST {
            self.read_lines(first + IN_FIRST / WORD, bytes - IN_FIRST, in_others);
        }
    }

    #[inline(always)]
    fn read_lines(self, first: usize, bytes: usize, to: &mut [u8]) {
        let lines = bytes / LINE_BYTES;
        let (whole, rest) = to.split_at_mut(lines * LINE_BYTES);
        for (at, line) in whole.as_chunks_mut::<LINE_BYTES>().0.iter_mut().enumerate() {
            copy(self.words.run::<{ LINE_BYTES / WORD }>(first + at * LINE_BYTES / WORD), line);
        }
        self.read_words(first + lines * LINE_BYTES / WORD, &mut rest[..bytes % LINE_BYTES]);
    }

    #[inline(always)]
    fn read_words(self, first: usize, to: &mut [u8]) {
        let mut words = self.words.slice(first, to.len().div_ceil(WORD));
        let (whole, rest) = to.as_chunks_mut::<WORD>();
        for (chunk, word) in whole.iter_mut().zip(words.by_ref()) {
            *chunk = word.load(Ordering::Relaxed).to_le_bytes();
        }
        if let Some(word) = words.next() {
            let last = word.load(Ordering::Relaxed).to_le_bytes();
            rest.iter_mut().zip(last).for_each(|(to, from)| *to = from);
        }
    }

    /// Whether what was read at `position` is what was committed there: no publisher has begun to overwrite it.
    /// The fence pairs with that of a publisher that raised the limit, or claimed below it. [SYNC: LIMIT]
    #[inline(always)]
    pub fn is_whole(self, position: u64) -> bool {
        fence(Ordering::Acquire);
        self.words.get(word::LIMIT).load(Ordering::Relaxed) <= position.saturating_add(self.mask + 1)
    }
}

/// Words to bytes.
#[inline(always)]
fn copy<const WORDS: usize, const BYTES: usize>(words: [&AtomicU64; WORDS], to: &mut [u8; BYTES]) {
    for (to, word) in to.as_chunks_mut::<WORD>().0.iter_mut().zip(words) {
        *to = word.load(Ordering::Relaxed).to_le_bytes();
    }
}
