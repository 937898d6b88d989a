//! xoshiro256\*\*, seeded by splitmix64: generators whose output is pinned may not change with a dependency.

/// The generator.
#[derive(Debug, Clone)]
pub(crate) struct Random([u64; 4]);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(std::array::from_fn(|_| splitmix64(&mut state)))
    }

    #[inline]
    pub(crate) fn next_u64(&mut self) -> u64 {
        let state = &mut self.0;
        let result = state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = state[1] << 17;
        state[2] ^= state[0];
        state[3] ^= state[1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= shifted;
        state[3] = state[3].rotate_left(45);
        result
    }

    /// Uniform in `0..bound`; 0 if `bound` is 0. The bias of the product is below 2^-32 for the bounds used here.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `n`.
    #[inline]
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// About exponential with this mean, at most 64 times it. Integers only, so that no maths library can change it:
    /// the leading zeros of a random word are geometric (mean 1), a uniform fraction smooths them (mean 1/2).
    #[inline]
    pub(crate) fn exponential(&mut self, mean: u64) -> u64 {
        let word = self.next_u64();
        let x = (u128::from(word.leading_zeros()) << 16) | u128::from(word & 0xFFFF);
        ((u128::from(mean) * x * 2 / 3) >> 16) as u64
    }
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_its_published_numbers() {
        let mut state = 1_234_567;
        assert_eq!(splitmix64(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(splitmix64(&mut state), 3_203_168_211_198_807_973);
    }

    #[test]
    fn the_means_are_right() {
        let mut random = Random::new(1);
        let n = 200_000;
        let below = (0..n).map(|_| random.below(1000)).sum::<u64>() / n;
        let exponential = (0..n).map(|_| random.exponential(10_000)).sum::<u64>() / n;
        assert!((490..510).contains(&below), "{below}");
        assert!((9_900..10_100).contains(&exponential), "{exponential}");
    }
}
