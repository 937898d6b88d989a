//! A search in what is sorted.

/// The first place from `at` on, and before `end`, where a condition does not hold that holds for those before it: found with steps
/// that double, then halves, since it is often near.
#[inline]
pub(super) fn gallop(end: usize, at: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut from, mut step) = (at, 1);
    while from + step <= end && holds(from + step - 1) {
        from += step;
        step *= 2;
    }
    let mut to = end.min(from + step - 1);
    while from < to {
        let middle = from + (to - from) / 2;
        match holds(middle) {
            true => from = middle + 1,
            false => to = middle,
        }
    }
    from
}

#[cfg(test)]
mod tests {
    use super::gallop;

    #[test]
    fn places_are_found_from_anywhere() {
        for end in 0..40 {
            for at in 0..=end {
                for place in at..=end {
                    assert_eq!(gallop(end, at, |row| row < place), place, "{at} {end}");
                }
            }
        }
    }
}
