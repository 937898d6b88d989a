//! One side of a book: keys with what lies at them, the greatest key first.
//!
//! Prices are multiples of a tick, and nearly all changes are near the best one. So the values near the best key lie in an array by their
//! places on a grid of ticks: nothing is searched, and nothing moves. Keys that are far away, or between two ticks, are in a map, so that no
//! book, however deep or odd, makes a change slow or takes more memory than its levels do. When the map has been used for as many changes as
//! a new grid costs, the grid is made again, around the best key of that time.
//!
//! Always true: a key that has a place on the grid is not in `far`; `bits` has the places that are taken; `best` is the greatest key.

use super::grid::{Grid, divisor};
use std::collections::BTreeMap;

/// Most places of the grid.
const PLACES_MAX: usize = 1 << 13;
/// The array takes at most so many bytes for each key in it, a few times of what a map of these keys does.
const BYTES_PER_KEY_MAX: usize = 128;
/// Of so many keys one may lie between the ticks of the others without making the grid finer.
const KEYS_PER_ODD: usize = 8;
/// Fewer keys than this need no more places than this.
const PLACES_MIN: usize = 16;

/// The side; see above.
#[derive(Debug, Clone)]
pub(super) struct Ladder<T> {
    grid: Grid,
    values: Vec<T>,
    bits: Vec<u64>,
    near: usize,
    far: BTreeMap<i64, T>,
    best: Option<i64>,
    /// Changes of `far` that are left until the grid is made again.
    patience: usize,
}

impl<T> Default for Ladder<T> {
    fn default() -> Self {
        let (values, bits, far) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { grid: Grid::default(), values, bits, near: 0, far, best: None, patience: PLACES_MIN / 2 }
    }
}

impl<T: Copy + Default> Ladder<T> {
    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.near + self.far.len()
    }

    /// The greatest key.
    #[inline]
    pub(super) fn best_key(&self) -> Option<i64> {
        self.best
    }

    /// The greatest key and its value.
    #[inline]
    pub(super) fn best(&self) -> Option<(i64, T)> {
        let key = self.best?;
        Some((key, self.get(key)?))
    }

    /// The value at a key.
    #[inline]
    pub(super) fn get(&self, key: i64) -> Option<T> {
        match self.grid.place(key) {
            Some(place) if self.is_taken(place) => Some(self.values[place]),
            Some(_) => None,
            None => self.far.get(&key).copied(),
        }
    }

    /// Sets the value at a key; returns whether the key is new.
    #[inline]
    pub(super) fn set(&mut self, key: i64, value: T) -> bool {
        self.best = self.best.max(Some(key));
        match self.grid.place(key) {
            Some(place) => self.put(place, value),
            None => self.set_far(key, value),
        }
    }

    /// Removes a key and returns its value.
    #[inline]
    pub(super) fn remove(&mut self, key: i64) -> Option<T> {
        let value = match self.grid.place(key) {
            Some(place) if self.is_taken(place) => {
                self.bits[place / 64] &= !(1 << (place % 64));
                self.near -= 1;
                self.values[place]
            }
            Some(_) => return None,
            None => self.remove_far(key)?,
        };
        if self.best == Some(key) {
            self.best = self.find_best(key);
        }
        Some(value)
    }

    /// Removes all keys, and keeps the memory of the best ones.
    pub(super) fn clear(&mut self) {
        self.bits.fill(0);
        self.far.clear();
        (self.near, self.best) = (0, None);
    }

    /// Keys and values, the greatest key first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, T)> + '_ {
        let mut near = self.places().map(|place| (self.grid.key(place), self.values[place])).peekable();
        let mut far = self.far.iter().rev().map(|(key, value)| (*key, *value)).peekable();
        std::iter::from_fn(move || match (near.peek(), far.peek()) {
            (Some((key, _)), Some((other, _))) if key < other => far.next(),
            (None, _) => far.next(),
            _ => near.next(),
        })
    }

    #[inline]
    fn is_taken(&self, place: usize) -> bool {
        self.bits[place / 64] >> (place % 64) & 1 != 0
    }

    #[inline]
    fn put(&mut self, place: usize, value: T) -> bool {
        let (word, bit) = (&mut self.bits[place / 64], 1 << (place % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        self.near += usize::from(is_new);
        self.values[place] = value;
        is_new
    }

    #[inline(never)]
    fn set_far(&mut self, key: i64, value: T) -> bool {
        let is_new = self.far.insert(key, value).is_none();
        self.use_patience();
        is_new
    }

    #[inline(never)]
    fn remove_far(&mut self, key: i64) -> Option<T> {
        let value = self.far.remove(&key)?;
        self.use_patience();
        Some(value)
    }

    /// The greatest key after `gone`, which was it.
    #[inline]
    fn find_best(&self, gone: i64) -> Option<i64> {
        // Where the best key was on the grid, the next one is mostly a few places below it.
        let below = self.grid.place(gone).unwrap_or(self.grid.len());
        let near = self.places_below(below).next().map(|place| self.grid.key(place));
        if self.far.is_empty() { near } else { near.max(self.far.last_key_value().map(|(key, _)| *key)) }
    }

    /// Places that are taken, the highest first.
    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.places_below(self.grid.len())
    }

    #[inline]
    fn places_below(&self, end: usize) -> impl Iterator<Item = usize> + '_ {
        let mut word = end / 64;
        let mut bits = self.bits.get(word).map_or(0, |bits| bits & ((1 << (end % 64)) - 1));
        std::iter::from_fn(move || {
            while bits == 0 {
                word = word.checked_sub(1)?;
                bits = self.bits[word];
            }
            let highest = bits.ilog2() as usize;
            bits ^= 1 << highest;
            Some(word * 64 + highest)
        })
    }

    #[inline]
    fn use_patience(&mut self) {
        self.patience -= 1;
        if self.patience == 0 {
            self.make_grid();
        }
    }

    /// Makes the grid again, around the keys that are there.
    #[cold]
    fn make_grid(&mut self) {
        let keys: Vec<i64> = self.iter().map(|(key, _)| key).take(PLACES_MAX).collect();
        let grid = choose_grid(&keys, self.grid.step(), BYTES_PER_KEY_MAX / size_of::<T>());
        // As many changes as keys are looked at now, and perhaps moved.
        self.patience = (keys.len() + self.grid.len()).max(PLACES_MIN);
        let Some(grid) = grid else { return };
        let before: Vec<(i64, T)> =
            self.places().map(|place| (self.grid.key(place), self.values[place])).collect();
        (self.grid, self.near) = (grid, 0);
        self.values.clear();
        self.values.resize(grid.len(), T::default());
        self.bits.clear();
        self.bits.resize(grid.len().div_ceil(64), 0);
        let highest = grid.key(grid.len() - 1);
        let reached: Vec<i64> = self.far.range(grid.key(0)..=highest).map(|(key, _)| *key).collect();
        for key in reached {
            if let Some(place) = grid.place(key)
                && let Some(value) = self.far.remove(&key)
            {
                self.put(place, value);
            }
        }
        for (key, value) in before {
            match grid.place(key) {
                Some(place) => {
                    self.put(place, value);
                }
                None => {
                    self.far.insert(key, value);
                }
            }
        }
    }
}

/// The longest grid that has at most so many places for each of the keys on it; keys are given the greatest first. `step`: that of the grid
/// before, for a single key.
fn choose_grid(keys: &[i64], step: u64, places_per_key: usize) -> Option<Grid> {
    let best = *keys.first()?;
    let (mut tick, mut count, mut odd) = (0, 1, 0);
    let (mut rest, mut chosen) = (keys[1..].iter().peekable(), None);
    let mut len = PLACES_MIN;
    while len <= PLACES_MAX {
        while let Some(key) = rest.peek() {
            let below = best.abs_diff(**key);
            let common = divisor(tick, below);
            // A few keys between the ticks of the others are left to the map.
            let is_odd = common < tick && count >= KEYS_PER_ODD * (1 + odd);
            let reached = if is_odd { tick } else { common };
            if below / reached > (len - 1 - len / 4) as u64 {
                break;
            }
            (tick, count, odd) = (reached, count + 1, odd + usize::from(is_odd));
            rest.next();
        }
        if len == PLACES_MIN || len <= places_per_key * (count - odd) {
            chosen = Grid::around(best, if tick == 0 { step } else { tick }, len).or(chosen);
        }
        len *= 2;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is always true, and the same content as a map.
    fn check(ladder: &Ladder<usize>, map: &BTreeMap<i64, usize>) {
        assert!(ladder.far.keys().all(|key| ladder.grid.place(*key).is_none()));
        let bits: u32 = ladder.bits.iter().map(|bits| bits.count_ones()).sum();
        assert_eq!((bits as usize, ladder.len()), (ladder.near, map.len()));
        assert!(ladder.values.len() <= PLACES_MAX && ladder.values.len() == ladder.grid.len());
        assert!(ladder.iter().eq(map.iter().rev().map(|(key, value)| (*key, *value))));
    }

    /// Prices as hostile as they can be: dense, sparse, between ticks, far away, at the limits of the type.
    fn any_key() -> impl Strategy<Value = i64> {
        prop_oneof![
            8 => (0i64..60).prop_map(|tick| 1_000 + 25 * tick),
            4 => (0i64..3_000).prop_map(|tick| -40_000 + 25 * tick),
            2 => -50i64..50,
            1 => any::<i64>(),
            1 => (0i64..4).prop_map(|down| i64::MAX - down),
            1 => (0i64..4).prop_map(|up| i64::MIN + 1 + up),
            1 => (0u32..62).prop_map(|bit| 1 << bit),
        ]
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_map(
            drift in -3i64..4,
            changes in prop::collection::vec((any_key(), 0u32..8), 1..1_500),
        ) {
            let (mut ladder, mut map) = (Ladder::default(), BTreeMap::new());
            for (n, (key, change)) in changes.into_iter().enumerate() {
                // The market moves away from its grid.
                let key = if key.abs() < 100_000 { key + drift * 25 * (n as i64 / 8) } else { key };
                match change {
                    0 | 1 => prop_assert_eq!(ladder.remove(key), map.remove(&key)),
                    // The best side is eaten.
                    2 => {
                        let best = map.pop_last();
                        prop_assert_eq!(ladder.best(), best);
                        prop_assert_eq!(best.and_then(|(key, _)| ladder.remove(key)), best.map(|(_, value)| value));
                    }
                    3 if n % 100 == 0 => {
                        ladder.clear();
                        map.clear();
                    }
                    _ => prop_assert_eq!(ladder.set(key, n), map.insert(key, n).is_none()),
                }
                prop_assert_eq!(ladder.get(key), map.get(&key).copied());
                prop_assert_eq!((ladder.len(), ladder.best()), (map.len(), map.iter().next_back().map(|(k, v)| (*k, *v))));
                if n % 64 == 0 {
                    check(&ladder, &map);
                }
            }
            check(&ladder, &map);
            ladder.clear();
            check(&ladder, &BTreeMap::new());
            prop_assert_eq!(ladder.best(), None);
        }
    }

    #[test]
    fn a_side_that_is_eaten_to_the_ground_comes_back_in_order() {
        let mut ladder = Ladder::default();
        (0..100_000).for_each(|key| assert!(ladder.set(key * 7, key)));
        for key in (0..100_000).rev() {
            assert_eq!(ladder.best(), Some((key * 7, key)));
            assert_eq!(ladder.remove(key * 7), Some(key));
        }
        assert_eq!((ladder.len(), ladder.best()), (0, None));
    }

    /// Nearly all changes are on the grid, wherever the market goes and in whatever order a snapshot comes.
    #[test]
    fn dense_books_are_on_the_grid() {
        for best_first in [true, false] {
            let mut ladder = Ladder::default();
            for level in 0..400i64 {
                let down = if best_first { level } else { 399 - level };
                ladder.set(1_000_000 - 25 * down, 1);
            }
            assert!(ladder.far.len() < 200, "{} of 400", ladder.far.len());
            for n in 0..20_000i64 {
                let best = 1_000_000 + 25 * (n / 40);
                ladder.set(best, 1);
                ladder.remove(best - 25 * 400);
                ladder.set(best - 25 * (n % 40), 2);
            }
            assert_eq!(ladder.grid.step(), 25);
            assert!(ladder.far.len() < 100, "{} of {}", ladder.far.len(), ladder.len());
        }
    }

    /// A few prices between the ticks do not make the grid finer.
    #[test]
    fn odd_prices_are_left_to_the_map() {
        let mut ladder = Ladder::default();
        (0..100i64).for_each(|tick| {
            ladder.set(100 * tick, 1);
        });
        for odd in [4_501, 7_777] {
            ladder.set(odd, 1);
        }
        (0..10_000i64).for_each(|n| {
            ladder.set(100 * (n % 100), 2);
        });
        assert_eq!((ladder.grid.step(), ladder.len()), (100, 102));
        assert!(ladder.near > 90, "{}", ladder.near);
    }

    /// Sparse and odd books take memory for what they have only, and each change costs a map's.
    #[test]
    fn hostile_prices_take_no_more_memory_than_a_map_does() {
        for spread in [1i64 << 20, 1 << 40, 9] {
            let mut ladder = Ladder::default();
            let key = |n: i64| n.wrapping_mul(spread) ^ (n % 7);
            (0..100_000).for_each(|n| {
                ladder.set(key(n), 1);
            });
            let bytes = size_of_val(&ladder.values[..]);
            assert!(
                bytes <= 1_000 + BYTES_PER_KEY_MAX * ladder.near,
                "{bytes} bytes for {}, {spread}",
                ladder.near
            );
            (0..100_000).for_each(|n| {
                ladder.remove(key(n));
            });
            assert_eq!(ladder.len(), 0);
        }
    }
}
