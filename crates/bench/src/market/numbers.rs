//! Numbers that are the same in each run.

/// A generator of numbers: xorshift64*.
pub struct Numbers(u64);

impl Numbers {
    /// A generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// A number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }
}
