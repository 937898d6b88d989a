//! Loops as wide as the processor that runs them.
//!
//! Binaries are built for the least that processors of a kind have, which on x86-64 are registers of 128 bits that cannot
//! even extend a sign or take a maximum of 32 bits. What is compiled inside [`widest`] is compiled once more for each of the
//! wider kinds, and the one that is there is chosen at run time.

#[cfg(not(any(test, feature = "trials")))]
use fearless_simd::Level;
use fearless_simd::dispatch;

/// Does `work` with the widest registers that there are. Only what is inlined into it becomes wider: closures have to be
/// `#[inline(always)]`. Choosing takes some five cycles, so it should be at least a hundred numbers.
#[inline(always)]
pub(crate) fn widest<R>(work: impl FnOnce() -> R) -> R {
    dispatch!(level(), _simd => work())
}

/// What the processor has.
#[cfg(not(any(test, feature = "trials")))]
#[inline(always)]
fn level() -> Level {
    Level::new()
}

#[cfg(any(test, feature = "trials"))]
pub use forced::at_every_level;
#[cfg(any(test, feature = "trials"))]
use forced::level;

/// Tests choose a lower level than the processor's.
#[cfg(any(test, feature = "trials"))]
mod forced {
    use fearless_simd::Level;
    use std::cell::Cell;

    thread_local! {
        static FORCED: Cell<Option<Level>> = const { Cell::new(None) };
    }

    pub(super) fn level() -> Level {
        FORCED.get().unwrap_or_else(Level::new)
    }

    /// Does `work` at each level that the processor has, from the least on, in this thread; gives it the level's name.
    /// `bitpacking`, which unpacks groups, chooses its own level and is not forced.
    pub fn at_every_level(mut work: impl FnMut(&str)) {
        for level in levels() {
            FORCED.set(Some(level));
            work(&format!("{level:?}"));
        }
        FORCED.set(None);
    }

    #[cfg(target_arch = "x86_64")]
    fn levels() -> Vec<Level> {
        let best = Level::new();
        let levels = [
            best.as_sse2().map(Level::Sse2),
            best.as_sse4_2().map(Level::Sse4_2),
            best.as_avx2().map(Level::Avx2),
            best.as_avx512().map(Level::Avx512),
        ];
        levels.into_iter().flatten().collect()
    }

    /// Elsewhere there is the baseline and nothing above it.
    #[cfg(not(target_arch = "x86_64"))]
    fn levels() -> Vec<Level> {
        vec![Level::baseline(), Level::new()]
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn work_is_done_at_each_level_and_then_at_the_best_again() {
            let mut names = Vec::new();
            at_every_level(|name| {
                assert_eq!(format!("{:?}", level()), name);
                names.push(name.to_owned());
            });
            assert!(names.len() >= 2, "{names:?}");
            assert_eq!(format!("{:?}", level()), format!("{:?}", Level::new()));
        }
    }
}
