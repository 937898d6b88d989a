//! Trials: the fast decoder against the [reference](crate::reference), in every way that there is to read.
//!
//! For tests and fuzz targets, the only users of the feature `trials`. Comparisons panic where the two differ, and print
//! their input.

mod blocks;
mod columns;
mod generate;

pub use crate::encoding::every_encoding;
pub use crate::simd::at_every_level;
pub use blocks::{block, block_of};
pub use columns::{floats, integers, texts};
pub use generate::{Column, Random};

/// How many cases a property is tried with: so many, times `TAPEDB_TRIALS` (1 unless set).
///
/// # Panics
/// When the variable is no number.
pub fn cases(count: u64) -> u64 {
    match std::env::var("TAPEDB_TRIALS") {
        Ok(text) => {
            count * text.parse::<u64>().unwrap_or_else(|_| panic!("TAPEDB_TRIALS={text:?} is no number"))
        }
        Err(_) => count,
    }
}

/// Tries a property with `count` seeds, or with `TAPEDB_TRIAL_SEED` alone. A failure prints its seed.
///
/// # Panics
/// When the property does.
pub fn each_seed(name: &str, count: u64, property: impl Fn(u64)) {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    let only = std::env::var("TAPEDB_TRIAL_SEED").ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = only.map_or(0..cases(count), |seed| seed..seed + 1);
    for seed in seeds {
        if let Err(cause) = catch_unwind(AssertUnwindSafe(|| property(seed))) {
            eprintln!("{name} fails: TAPEDB_TRIAL_SEED={seed} repeats it");
            resume_unwind(cause);
        }
    }
}

#[cfg(test)]
mod tests;
