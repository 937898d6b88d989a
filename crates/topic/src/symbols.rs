//! The dictionary of a topic: symbols in the file, each once; the id is its offset in words from the dictionary's beginning.
//!
//! Entries follow each other: a word with state, writer and length, then the text. A publisher adds one by exchanging the first
//! word that is 0; the entry counts when its writer has exchanged that word for `DONE`. A writer that dies or stalls in between
//! is passed over: its entry becomes `DEAD`, and stays. So a publisher has read all entries before its own when it adds one, and
//! no symbol is there twice.

use crate::error::TopicError;
use crate::format::SYMBOLS_AT;
use crate::ring::Ring;
use std::collections::HashMap;
use tapedb_shm::WORD;
use tapedb_shm::atomics::{AtomicU64, Ordering};
use tapedb_shm::waiting::StallTimer;

/// Longest symbol, in bytes.
pub const SYMBOL_NAME_BYTES_MAX: usize = 255;

/// The part of the dictionary that one publisher or subscriber has loaded.
///
/// Always true: all entries before `scanned` are loaded.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    /// By id; empty between the entries.
    names: Vec<Option<Box<str>>>,
    ids: HashMap<Box<str>, u32>,
    scanned: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    None,
    Writing { writer: usize, bytes: usize },
    Done { bytes: usize },
    Dead { bytes: usize },
}

const WRITING: u64 = 1;
const DONE: u64 = 2;
const DEAD: u64 = 3;

impl Entry {
    fn parse(word: u64) -> Option<Self> {
        let (writer, bytes) = ((word >> 32 & 0xffff) as usize, (word & 0xffff_ffff) as usize);
        if word != 0 && !(1..=SYMBOL_NAME_BYTES_MAX).contains(&bytes) {
            return None;
        }
        match word >> 62 {
            0 if word == 0 => Some(Self::None),
            WRITING => Some(Self::Writing { writer, bytes }),
            DONE => Some(Self::Done { bytes }),
            DEAD => Some(Self::Dead { bytes }),
            _ => None,
        }
    }
}

fn entry_word(state: u64, writer: usize, bytes: usize) -> u64 {
    state << 62 | (writer as u64) << 32 | bytes as u64
}

impl Symbols {
    /// The id of a symbol, if it has been loaded.
    #[inline]
    pub fn id(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    /// The symbol of an id that a message has.
    ///
    /// # Errors
    /// When the dictionary does not have it.
    #[inline]
    pub fn name(&mut self, ring: &Ring, id: u32) -> Result<&str, TopicError> {
        if self.names.get(id as usize).is_none_or(Option::is_none) {
            self.load(ring)?;
        }
        match self.names.get(id as usize) {
            Some(Some(name)) => Ok(name),
            _ => Err(damaged(id as usize * WORD)),
        }
    }

    /// The symbol of an id, if it has been loaded.
    #[inline]
    pub fn loaded_name(&self, id: u32) -> &str {
        self.names.get(id as usize).and_then(Option::as_deref).unwrap_or_default()
    }

    /// All symbols, in the order of their ids.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(Option::as_deref)
    }

    /// Loads what is new in the dictionary, up to the first entry that is not finished.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn load(&mut self, ring: &Ring) -> Result<(), TopicError> {
        while let Entry::Done { bytes } | Entry::Dead { bytes } = self.entry(ring)? {
            self.load_entry(ring, bytes)?;
        }
        Ok(())
    }

    /// The id of a symbol, which is added if it is new. `me` is the publisher's slot.
    ///
    /// # Errors
    /// When it is invalid, or there is no space for it.
    pub fn add(&mut self, ring: &Ring, me: usize, name: &str) -> Result<u32, TopicError> {
        if !(1..=SYMBOL_NAME_BYTES_MAX).contains(&name.len()) {
            return Err(TopicError::Symbol { why: "a symbol has 1 to 255 bytes" });
        }
        let mut timer = StallTimer::new(ring.shape.stall_ms);
        loop {
            self.load(ring)?;
            if let Some(id) = self.id(name) {
                return Ok(id);
            }
            if self.scanned + entry_bytes(name.len()) > ring.shape.symbols_bytes as usize {
                return Err(full(ring, name));
            }
            let word = self.word(ring);
            match self.entry(ring)? {
                Entry::None => self.write(word, ring, me, name),
                Entry::Writing { writer, bytes } => {
                    let writing = entry_word(WRITING, writer, bytes);
                    if timer.is_over(writing, || ring.presence.has_publisher(writer)) {
                        let dead = entry_word(DEAD, writer, bytes);
                        let _ = word.compare_exchange(writing, dead, Ordering::AcqRel, Ordering::Relaxed);
                    }
                }
                Entry::Done { .. } | Entry::Dead { .. } => {}
            }
        }
    }

    /// Adds an entry, unless another publisher was faster. It is loaded like any other.
    fn write(&self, word: &AtomicU64, ring: &Ring, me: usize, name: &str) {
        let writing = entry_word(WRITING, me, name.len());
        if word.compare_exchange(0, writing, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        let first = (SYMBOLS_AT as usize + self.scanned) / WORD + 1;
        for (at, chunk) in name.as_bytes().chunks(WORD).enumerate() {
            let mut text = [0; WORD];
            text[..chunk.len()].copy_from_slice(chunk);
            ring.words.get(first + at).store(u64::from_le_bytes(text), Ordering::Relaxed);
        }
        // Release pairs with the acquire in `entry`: the text is there.
        let done = entry_word(DONE, me, name.len());
        let _ = word.compare_exchange(writing, done, Ordering::Release, Ordering::Relaxed);
    }

    fn word<'r>(&self, ring: &'r Ring) -> &'r AtomicU64 {
        ring.words.get((SYMBOLS_AT as usize + self.scanned) / WORD)
    }

    /// The first entry that is not loaded yet.
    fn entry(&self, ring: &Ring) -> Result<Entry, TopicError> {
        if self.scanned + WORD > ring.shape.symbols_bytes as usize {
            return Ok(Entry::None);
        }
        let word = self.word(ring).load(Ordering::Acquire);
        let entry = Entry::parse(word).ok_or_else(|| damaged(self.scanned))?;
        let bytes = entry_bytes((word & 0xffff_ffff) as usize);
        if entry != Entry::None && self.scanned + bytes > ring.shape.symbols_bytes as usize {
            return Err(damaged(self.scanned));
        }
        Ok(entry)
    }

    /// Loads the entry at `scanned`.
    fn load_entry(&mut self, ring: &Ring, bytes: usize) -> Result<(), TopicError> {
        let id = self.scanned / WORD;
        if let Entry::Done { .. } = self.entry(ring)? {
            let first = (SYMBOLS_AT as usize + self.scanned) / WORD + 1;
            let words =
                (0..bytes.div_ceil(WORD)).map(|at| ring.words.get(first + at).load(Ordering::Relaxed));
            let mut text: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
            text.truncate(bytes);
            let name = String::from_utf8(text).map_err(|_| damaged(self.scanned))?.into_boxed_str();
            self.ids.entry(name.clone()).or_insert(id as u32);
            self.names.resize(id + 1, None);
            self.names[id] = Some(name);
        }
        self.scanned += entry_bytes(bytes);
        Ok(())
    }
}

fn entry_bytes(name: usize) -> usize {
    WORD + name.next_multiple_of(WORD)
}

#[cold]
fn damaged(at: usize) -> TopicError {
    TopicError::Corrupt { position: SYMBOLS_AT + at as u64, what: "the dictionary has no valid symbol there" }
}

#[cold]
fn full(ring: &Ring, name: &str) -> TopicError {
    TopicError::SymbolsFull { symbol: name.into(), bytes: ring.shape.symbols_bytes }
}
