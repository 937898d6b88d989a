//! The choice for a column is cached from block to block, so that not every block tries all encodings.
//!
//! Looking for the best encoding costs many times what encoding costs, and blocks of one stream are alike. So a choice is
//! cached until it has been used for some blocks, or its bytes become more than they were when it was made.

/// Most blocks that use a cached choice.
const BLOCKS_MAX: u32 = 64;

/// A choice for a column, and how good it was. Depends on the columns it has seen, in their order, and on nothing else.
#[derive(Debug, Clone)]
pub struct Habit<T> {
    chosen: Option<T>,
    /// Values and bytes of the column for which it was chosen.
    values: usize,
    bytes: usize,
    /// Blocks that it may be used for still.
    left: u32,
}

impl<T> Default for Habit<T> {
    fn default() -> Self {
        Self { chosen: None, values: 0, bytes: 0, left: 0 }
    }
}

impl<T: Copy> Habit<T> {
    /// The cached choice, unless it is time to choose again.
    pub fn usual(&self) -> Option<T> {
        self.chosen.filter(|_| self.left > 0)
    }

    /// Whether a column of so many `values`, which took `bytes` as it was usual, took at most an eighth more for each value
    /// than when the choice was made; or so little in all that nothing better is worth looking for.
    pub fn holds(&mut self, values: usize, bytes: usize) -> bool {
        self.left = self.left.saturating_sub(1);
        let (now, then) = (bytes.saturating_sub(SLACK) * self.values, self.bytes * values);
        let holds = now <= then + then / 8;
        if !holds {
            self.left = 0;
        }
        holds
    }

    /// Remembers what was chosen for so many values, and that it took so many bytes.
    pub fn learn(&mut self, chosen: T, values: usize, bytes: usize) {
        *self = Self { chosen: Some(chosen), values, bytes, left: BLOCKS_MAX - 1 };
    }
}

/// Bytes of a column that do not count.
const SLACK: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_kept_while_it_is_as_good_as_it_was() {
        let mut habit = Habit::default();
        assert_eq!(habit.usual(), None);
        habit.learn('a', 1_000, 800);
        assert!(habit.holds(2_000, 1_800) && habit.usual() == Some('a'));
        assert!(!habit.holds(2_000, 1_820) && habit.usual().is_none());
    }

    #[test]
    fn a_choice_is_not_kept_for_ever() {
        let mut habit = Habit::default();
        habit.learn('a', 10, 10);
        let kept = (0..100).take_while(|_| habit.usual().is_some() && habit.holds(10, 10)).count();
        assert_eq!(kept as u32, BLOCKS_MAX - 1);
    }
}
