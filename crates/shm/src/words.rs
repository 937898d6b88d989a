//! Shared memory as words. Other processes change them at any time, so each is an atomic.
//!
//! This file and `system` hold all of this crate's `unsafe`.

#![allow(unsafe_code)]

use crate::atomics::{AtomicU64, Ordering};
#[cfg(not(loom))]
use crate::system::Mapping;
#[cfg(not(loom))]
use std::mem::MaybeUninit;

/// Bytes of a word.
pub const WORD: usize = 8;

/// All words of a mapped file.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct Words {
    first: *const AtomicU64,
    count: usize,
    /// Owns what `first` points to.
    _memory: Memory,
}

#[cfg(not(loom))]
#[derive(Debug)]
#[expect(dead_code, reason = "only owned")]
enum Memory {
    Mapped(Mapping),
    /// Tests, and Miri, have no file to map.
    Owned(Vec<AtomicU64>),
}

// SAFETY: what `first` points to belongs to `_memory`, is never moved or unmapped before it is dropped, and is reached as
// atomics alone, or through `bytes_mut`, whose callers own the bytes they ask for.
#[cfg(not(loom))]
unsafe impl Send for Words {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for Words {}

#[cfg(not(loom))]
impl Words {
    /// The words of a mapped file.
    pub fn mapped(mapping: Mapping) -> Self {
        let (address, bytes) = mapping.extent();
        // A mapping begins at a page, so its words are aligned.
        Self { first: address.cast(), count: bytes / WORD, _memory: Memory::Mapped(mapping) }
    }

    /// Zeros, in memory of this process alone: for tests.
    pub fn owned(bytes: usize) -> Self {
        let memory: Vec<AtomicU64> = (0..bytes / WORD).map(|_| AtomicU64::new(0)).collect();
        Self { first: memory.as_ptr(), count: memory.len(), _memory: Memory::Owned(memory) }
    }

    /// All of them.
    #[inline(always)]
    pub fn all(&self) -> &[AtomicU64] {
        // SAFETY: `first` is aligned and points to `count` words that live as long as `self`. Every bit pattern is an
        // `AtomicU64`, and other threads and processes change them as atomics: see `bytes_mut` for the one exception.
        unsafe { std::slice::from_raw_parts(self.first, self.count) }
    }

    /// All of them, as a value.
    #[inline(always)]
    pub fn as_value(&self) -> AllWords<'_> {
        AllWords(self.all())
    }

    /// Bytes to be written in place, without atomics: the body of a frame before it is committed.
    ///
    /// # Safety
    /// Until the frame is committed no other thread or process may write these bytes, and the caller holds them once at a
    /// time. That is what a claim is. Others may *read* them in this time, as atomics: a subscriber that has been lapped. It
    /// discards what it has read, because it checks the limit afterwards, and the limit passed these bytes before they were
    /// claimed.
    ///
    /// # Panics
    /// When they do not lie in the memory.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "shared memory; the claim makes it exclusive")]
    pub unsafe fn bytes_mut(&self, first_word: usize, bytes: usize) -> &mut [MaybeUninit<u8>] {
        let words = &self.all()[first_word..first_word + bytes.div_ceil(WORD)];
        // SAFETY: the bytes lie in `words`, whose contents are `UnsafeCell`s, so that they may change behind a shared
        // reference; `MaybeUninit<u8>` takes any byte; the caller promises that no one else writes them.
        unsafe { std::slice::from_raw_parts_mut(words.as_ptr().cast_mut().cast(), bytes) }
    }
}

/// All words, as a value: their address stays in registers, while that of `Words` would be loaded again after every store.
#[cfg(not(loom))]
#[derive(Debug, Clone, Copy)]
pub struct AllWords<'w>(&'w [AtomicU64]);

#[cfg(not(loom))]
impl<'w> AllWords<'w> {
    /// A word.
    ///
    /// # Panics
    /// As [`Words::get`].
    #[inline(always)]
    pub fn get(self, index: usize) -> &'w AtomicU64 {
        &self.0[index]
    }

    /// Prefetches the line of a word for writing.
    #[inline(always)]
    pub fn fetch(self, index: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a hint, which changes neither memory nor registers; processors that do not know it do nothing.
        unsafe {
            std::arch::asm!(
                "prefetchw [{}]",
                in(reg) self.get(index).as_ptr(),
                options(nostack, preserves_flags, readonly)
            );
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = index;
    }

    /// `COUNT` words from one on, with one check of bounds.
    ///
    /// # Panics
    /// When the memory has not all of them.
    #[inline(always)]
    pub fn run<const COUNT: usize>(self, first: usize) -> [&'w AtomicU64; COUNT] {
        let words = &self.0[first..first + COUNT];
        std::array::from_fn(|at| &words[at])
    }

    /// As `run`, for a count that is not known at compile time.
    #[inline(always)]
    pub fn slice(self, first: usize, count: usize) -> impl Iterator<Item = &'w AtomicU64> {
        self.0[first..first + count].iter()
    }
}

/// Under loom only the words that a model uses exist: each one costs time.
#[cfg(loom)]
#[derive(Debug)]
pub struct Words {
    words: Vec<Option<AtomicU64>>,
}

#[cfg(loom)]
impl Words {
    /// Zeros where `used`, of `count` words.
    pub fn sparse(count: usize, used: impl Fn(usize) -> bool) -> Self {
        Self { words: (0..count).map(|index| used(index).then(|| AtomicU64::new(0))).collect() }
    }

    /// A word.
    pub fn get(&self, index: usize) -> &AtomicU64 {
        self.words[index].as_ref().unwrap_or_else(|| panic!("the model has no word {index}"))
    }

    /// Writes words, one after the other.
    pub fn store(&self, first: usize, values: &[[u8; WORD]]) {
        for (at, value) in values.iter().enumerate() {
            self.get(first + at).store(u64::from_le_bytes(*value), Ordering::Relaxed);
        }
    }

    /// Reads words, one after the other.
    pub fn load(&self, first: usize, values: &mut [[u8; WORD]]) {
        for (at, value) in values.iter_mut().enumerate() {
            *value = self.get(first + at).load(Ordering::Relaxed).to_le_bytes();
        }
    }

    /// All of them, as a value.
    pub fn as_value(&self) -> AllWords<'_> {
        AllWords(self)
    }
}

/// All words, as a value.
#[cfg(loom)]
#[derive(Debug, Clone, Copy)]
pub struct AllWords<'w>(&'w Words);

#[cfg(loom)]
impl<'w> AllWords<'w> {
    /// A word.
    pub fn get(self, index: usize) -> &'w AtomicU64 {
        self.0.get(index)
    }

    /// Does nothing.
    pub fn fetch(self, _: usize) {}

    /// `COUNT` words from one on.
    pub fn run<const COUNT: usize>(self, first: usize) -> [&'w AtomicU64; COUNT] {
        std::array::from_fn(|at| self.get(first + at))
    }

    /// `count` words from one on.
    pub fn slice(self, first: usize, count: usize) -> impl Iterator<Item = &'w AtomicU64> {
        (first..first + count).map(move |index| self.get(index))
    }
}

#[cfg(not(loom))]
impl Words {
    /// A word.
    ///
    /// # Panics
    /// When there is none: a fault in the calling code, because no index comes from the memory itself unchecked.
    #[inline(always)]
    pub fn get(&self, index: usize) -> &AtomicU64 {
        &self.all()[index]
    }

    /// Writes words, one after the other.
    ///
    /// # Panics
    /// As [`Words::get`].
    #[inline]
    pub fn store(&self, first: usize, values: &[[u8; WORD]]) {
        for (word, value) in self.all()[first..first + values.len()].iter().zip(values) {
            word.store(u64::from_le_bytes(*value), Ordering::Relaxed);
        }
    }

    /// Reads words, one after the other.
    ///
    /// # Panics
    /// As [`Words::get`].
    #[inline]
    pub fn load(&self, first: usize, values: &mut [[u8; WORD]]) {
        for (word, value) in self.all()[first..first + values.len()].iter().zip(values) {
            *value = word.load(Ordering::Relaxed).to_le_bytes();
        }
    }
}
