//! One side of a book: keys with what lies at them, the greatest key first.
//!
//! Nearly all changes are near the best price, so the best keys are in an array whose last element is the best: a search begins there,
//! and an insertion moves few elements. The others are in a map, so that no book, however deep, makes a change slow.
//!
//! Always true: `keys` is sorted and as long as `values`; each key of `far` is less than each of `keys`; `far` is empty if `keys` is.

use std::collections::BTreeMap;

/// Most keys in the array; the lower half moves to the map when there are more.
const NEAR_MAX: usize = 512;
/// Keys at the best end that are compared one by one, without a branch for each.
const SCAN: usize = 8;

/// The side; see above.
#[derive(Debug, Clone)]
pub(super) struct Ladder<T> {
    keys: Vec<i64>,
    values: Vec<T>,
    far: BTreeMap<i64, T>,
}

impl<T> Default for Ladder<T> {
    fn default() -> Self {
        Self { keys: Vec::new(), values: Vec::new(), far: BTreeMap::new() }
    }
}

impl<T: Copy> Ladder<T> {
    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.keys.len() + self.far.len()
    }

    /// The greatest key and its value.
    #[inline]
    pub(super) fn best(&self) -> Option<(i64, T)> {
        Some((*self.keys.last()?, *self.values.last()?))
    }

    /// The value at a key.
    #[inline]
    pub(super) fn get(&self, key: i64) -> Option<T> {
        match self.find(key) {
            Ok(at) => Some(self.values[at]),
            Err(0) => self.far.get(&key).copied(),
            Err(_) => None,
        }
    }

    /// Sets the value at a key; returns whether the key is new.
    #[inline]
    pub(super) fn set(&mut self, key: i64, value: T) -> bool {
        match self.find(key) {
            Ok(at) => {
                self.values[at] = value;
                false
            }
            Err(0) if !self.far.is_empty() || self.keys.len() == NEAR_MAX => {
                self.far.insert(key, value).is_none()
            }
            Err(at) => {
                if self.keys.len() == NEAR_MAX {
                    self.spill();
                    return self.set(key, value);
                }
                self.keys.insert(at, key);
                self.values.insert(at, value);
                true
            }
        }
    }

    /// Removes a key and returns its value.
    #[inline]
    pub(super) fn remove(&mut self, key: i64) -> Option<T> {
        match self.find(key) {
            Ok(at) => {
                self.keys.remove(at);
                let value = self.values.remove(at);
                if self.keys.is_empty() && !self.far.is_empty() {
                    self.refill();
                }
                Some(value)
            }
            Err(0) if !self.far.is_empty() => self.far.remove(&key),
            Err(_) => None,
        }
    }

    /// Removes all keys, and keeps the memory of the best ones.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.far.clear();
    }

    /// Keys and values, the greatest key first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, T)> + '_ {
        let near = self.keys.iter().copied().zip(self.values.iter().copied()).rev();
        near.chain(self.far.iter().rev().map(|(key, value)| (*key, *value)))
    }

    /// Where the key is in the array, or where it would be.
    #[inline]
    fn find(&self, key: i64) -> Result<usize, usize> {
        let keys = &self.keys[..];
        let start = keys.len().saturating_sub(SCAN);
        if start > 0 && keys[start] > key {
            return keys[..start].binary_search(&key);
        }
        let at = start + keys[start..].iter().map(|&known| usize::from(known < key)).sum::<usize>();
        if keys.get(at) == Some(&key) { Ok(at) } else { Err(at) }
    }

    #[cold]
    fn spill(&mut self) {
        let half = NEAR_MAX / 2;
        self.far.extend(self.keys.drain(..half).zip(self.values.drain(..half)));
    }

    #[cold]
    fn refill(&mut self) {
        while self.keys.len() < NEAR_MAX / 2
            && let Some((key, value)) = self.far.pop_last()
        {
            self.keys.push(key);
            self.values.push(value);
        }
        self.keys.reverse();
        self.values.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Ranges of keys that stay within the array, and that do not.
        #[test]
        fn it_is_a_sorted_map(
            range in prop_oneof![Just(20i64), Just(700), Just(3_000)],
            changes in prop::collection::vec((0i64..3_000, 0u32..5), 1..6_000),
        ) {
            let (mut ladder, mut map) = (Ladder::default(), BTreeMap::new());
            for (n, (key, change)) in changes.into_iter().enumerate() {
                let key = key % range;
                match change {
                    0 => prop_assert_eq!(ladder.remove(key), map.remove(&key)),
                    // The best side is eaten, so that the array is filled again.
                    1 if n % 3 == 0 => {
                        let best = map.pop_last();
                        prop_assert_eq!(ladder.best(), best);
                        best.map(|(key, _)| ladder.remove(key));
                    }
                    _ => prop_assert_eq!(ladder.set(key, n), map.insert(key, n).is_none()),
                }
                prop_assert_eq!(ladder.get(key), map.get(&key).copied());
                prop_assert_eq!((ladder.len(), ladder.best()), (map.len(), map.iter().next_back().map(|(k, v)| (*k, *v))));
            }
            prop_assert!(ladder.iter().eq(map.iter().rev().map(|(k, v)| (*k, *v))));
            ladder.clear();
            prop_assert_eq!((ladder.len(), ladder.best()), (0, None));
        }
    }

    #[test]
    fn a_side_that_is_eaten_to_the_ground_comes_back_in_order() {
        let mut ladder = Ladder::default();
        (0..5_000).for_each(|key| assert!(ladder.set(key, key)));
        for key in (0..5_000).rev() {
            assert_eq!(ladder.best(), Some((key, key)));
            assert_eq!(ladder.remove(key), Some(key));
        }
        assert_eq!(ladder.len(), 0);
    }
}
