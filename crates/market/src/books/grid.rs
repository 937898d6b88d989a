//! Places of keys on a grid: so many equal steps up from a lowest key.
//!
//! Always true: `len` steps do not reach beyond 2^63, so that a product that is less than `len` is the place of a key on the grid, and of no
//! other key (see [`Grid::place`]).

/// Reach of a grid, in units.
const REACH_MAX: u64 = 1 << 62;

/// The grid; without places, no key is on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    low: i64,
    step: u64,
    /// Inverse of the odd part of the step modulo 2^64.
    inverse: u64,
    len: u64,
}

impl Default for Grid {
    fn default() -> Self {
        Self { low: 0, step: 1, inverse: 1, len: 0 }
    }
}

impl Grid {
    /// A grid of `len` places, a quarter of them above `best`, or as near to that as 64 bits allow. `None`: so many steps are more than a
    /// grid can reach.
    pub(super) fn around(best: i64, step: u64, len: usize) -> Option<Self> {
        let len = len as u64;
        if step == 0 || len == 0 || step.checked_mul(len)? > REACH_MAX {
            return None;
        }
        // Both are whole steps away from `best`: as far down as wished, and not so far up that the highest place is beyond 64 bits.
        let down = (len - 1 - len / 4).min(best.abs_diff(i64::MIN) / step);
        let up_max = best.abs_diff(i64::MAX) / step;
        let down = down.max((len - 1).saturating_sub(up_max));
        let low = best.checked_sub_unsigned(down * step)?;
        Some(Self { low, step, inverse: inverse(step >> step.trailing_zeros()), len })
    }

    /// The place of a key; `None`: it is not on the grid.
    ///
    /// Division without dividing: of a multiple of the step the product is the quotient, and every other number has a product that is greater
    /// than all quotients, as different numbers have different products.
    #[inline]
    pub(super) fn place(&self, key: i64) -> Option<usize> {
        let above = key.wrapping_sub(self.low) as u64;
        let place = above.wrapping_mul(self.inverse).rotate_right(self.step.trailing_zeros());
        if key >= self.low && place < self.len { Some(place as usize) } else { None }
    }

    /// The key of a place.
    #[inline]
    pub(super) fn key(&self, place: usize) -> i64 {
        self.low.wrapping_add((place as u64).wrapping_mul(self.step) as i64)
    }

    /// Number of places.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Distance of two places.
    pub(super) fn step(&self) -> u64 {
        self.step
    }
}

/// Inverse of an odd number modulo 2^64, by Newton's steps: each one doubles the bits that are right, of which there are three at first.
fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse))))
}

/// Greatest common divisor; of zero and a number the number.
pub(super) fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_key() -> impl Strategy<Value = i64> {
        prop_oneof![
            any::<i64>(),
            Just(i64::MIN),
            Just(i64::MAX),
            -100i64..100,
            Just(1 << 62),
            Just(-(1 << 62))
        ]
    }

    fn any_step() -> impl Strategy<Value = u64> {
        prop_oneof![1u64..300, Just(10_000_000), any::<u64>(), (0u32..64).prop_map(|shift| 1 << shift)]
    }

    proptest! {
        #[test]
        fn a_key_is_on_it_exactly_if_it_is_so_many_steps_above_the_lowest(
            best in any_key(), step in any_step(), log in 0u32..14, other in any_key(), near in -40_000i64..40_000,
        ) {
            let Some(grid) = Grid::around(best, step, 1 << log) else {
                prop_assert!(step == 0 || u128::from(step) << log > u128::from(REACH_MAX));
                return Ok(());
            };
            prop_assert!(grid.place(best).is_some());
            for key in [best, other, best.wrapping_add(near), best.wrapping_add(near.wrapping_mul(step as i64)), grid.low] {
                let above = i128::from(key) - i128::from(grid.low);
                let (quotient, rest) = (above / i128::from(step), above % i128::from(step));
                let is_on = above >= 0 && rest == 0 && quotient < 1 << log;
                prop_assert_eq!(grid.place(key), is_on.then_some(quotient as usize));
                if let Some(place) = grid.place(key) {
                    prop_assert_eq!(grid.key(place), key);
                }
            }
        }
    }

    #[test]
    fn most_places_are_below_the_best_key() {
        let grid = Grid::around(1_000, 25, 16).unwrap();
        assert_eq!((grid.place(1_000), grid.place(1_075), grid.place(1_100)), (Some(11), Some(14), Some(15)));
        assert_eq!((grid.place(725), grid.place(700), grid.place(990)), (Some(0), None, None));
        assert!(grid.place(1_125).is_none() && Grid::default().place(0).is_none());
    }
}
