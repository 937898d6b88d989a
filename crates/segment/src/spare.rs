//! Vectors of integers that are used again.
//!
//! Sealing a block takes vectors of some hundred kilobytes for each column. Allocators give memory of that size back to the
//! system, and each page of it that is touched again is a page fault: all of them together took a seventh of the time.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Vectors that a thread keeps, …
const KEPT_MAX: usize = 16;
/// … each for so many values at most, which a block has in a column: 8 MiB in all.
const VALUES_MAX: usize = 1 << 16;
/// Smaller ones are allocated as fast.
const VALUES_MIN: usize = 1 << 10;

thread_local! {
    static KEPT: RefCell<Vec<Vec<i64>>> = const { RefCell::new(Vec::new()) };
}

/// A vector whose memory is used again after it.
#[derive(Debug, Default)]
pub(crate) struct Ints(Vec<i64>);

impl Ints {
    /// An empty one, for about so many values.
    pub fn with_capacity(values: usize) -> Self {
        let mut found = Self::any(values);
        found.0.clear();
        found.0.reserve(values);
        found
    }

    /// Of so many values, which are to be overwritten: they are any.
    pub fn unset(values: usize) -> Self {
        let mut found = Self::any(values);
        found.0.resize(values, 0);
        found
    }

    fn any(values: usize) -> Self {
        if values < VALUES_MIN {
            return Self(Vec::new());
        }
        // While the thread ends there are none.
        Self(KEPT.try_with(|kept| kept.borrow_mut().pop()).ok().flatten().unwrap_or_default())
    }
}

impl Drop for Ints {
    fn drop(&mut self) {
        if (VALUES_MIN..=VALUES_MAX).contains(&self.0.capacity()) {
            let values = std::mem::take(&mut self.0);
            let keep = |kept: &RefCell<Vec<Vec<i64>>>| {
                let mut kept = kept.borrow_mut();
                if kept.len() < KEPT_MAX {
                    kept.push(values);
                }
            };
            _ = KEPT.try_with(keep);
        }
    }
}

impl Deref for Ints {
    type Target = Vec<i64>;

    fn deref(&self) -> &Vec<i64> {
        &self.0
    }
}

impl DerefMut for Ints {
    fn deref_mut(&mut self) -> &mut Vec<i64> {
        &mut self.0
    }
}

impl From<Vec<i64>> for Ints {
    fn from(values: Vec<i64>) -> Self {
        Self(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_within_limits() {
        let kept = || KEPT.with_borrow(|kept| kept.len());
        let before = kept();
        let mut first = Ints::with_capacity(5_000);
        first.extend(0..5_000);
        let at = first.as_ptr();
        drop(first);
        let again = Ints::unset(4_000);
        assert_eq!((again.as_ptr(), again.len(), kept()), (at, 4_000, before));
        drop(again);
        assert!(Ints::with_capacity(2_000).is_empty());
        let many: Vec<Ints> = (0..2 * KEPT_MAX).map(|_| Ints::unset(2_000)).collect();
        drop(many);
        assert_eq!(kept(), KEPT_MAX);
        drop((Ints::from(vec![0; 2 * VALUES_MAX]), Ints::unset(3), Ints::from(vec![1; 10])));
        assert_eq!(kept(), KEPT_MAX);
    }
}
