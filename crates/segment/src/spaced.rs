//! A nullable column strip by strip: the values that are there, each where it belongs, and zeros where there is none.

use crate::encoding::{GROUP, Strip};

/// Values that have been decoded and not used: two strips, each of which is overwritten when all of it has been used.
const RING: usize = 2 * GROUP;

/// Gives values to those places that have one.
pub(crate) struct Spaced<'a> {
    /// Of each place 1 if it has a value, else 0.
    marks: &'a [u8],
    ring: Box<[i64; RING]>,
    /// How many values have been decoded, and how many of them used.
    decoded: usize,
    used: usize,
    strip: Box<Strip>,
}

impl<'a> Spaced<'a> {
    /// `marks` are 0 and 1.
    pub fn new(marks: &'a [u8]) -> Self {
        Self { marks, ring: Box::new([0; RING]), decoded: 0, used: 0, strip: Box::default() }
    }

    /// Makes `strip` number `index`, which come in order; `next` makes a strip that of this number of the values that are
    /// there.
    pub fn next(&mut self, index: usize, strip: &mut Strip, mut next: impl FnMut(usize, &mut Strip)) {
        let marks = self.marks.chunks(GROUP).nth(index).unwrap_or_default();
        let need = marks.iter().fold(0, |sum, mark| sum + usize::from(*mark & 1));
        while self.decoded < self.used + need {
            let number = self.decoded / GROUP;
            next(number, &mut self.strip);
            let half = &mut self.ring[number % 2 * GROUP..][..GROUP];
            self.strip.write(half);
            self.decoded += GROUP;
        }
        let mut at = self.used;
        for (value, mark) in strip.wide.iter_mut().zip(marks) {
            let mark = mark & 1;
            *value = self.ring[at % RING] & -i64::from(mark);
            at += usize::from(mark);
        }
        self.used += need;
        strip.is_narrow = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_stand_where_the_marks_are(
            pieces in prop::collection::vec((0u8..2, 1usize..300), 0..12),
            noise in any::<u64>(),
            is_noisy in any::<bool>(),
        ) {
            let mut marks: Vec<u8> = pieces.iter().flat_map(|(mark, length)| vec![*mark; *length]).collect();
            if is_noisy {
                marks.iter_mut().enumerate().for_each(|(i, mark)| *mark = (noise >> (i % 61)) as u8 & 1);
            }
            let values: Vec<i64> = (1..=marks.iter().filter(|mark| **mark == 1).count() as i64).collect();
            let (mut spaced, mut strip, mut back) = (Spaced::new(&marks), Strip::default(), Vec::new());
            for (index, marks) in marks.chunks(GROUP).enumerate() {
                spaced.next(index, &mut strip, |number, strip| {
                    let values = values.chunks(GROUP).nth(number).unwrap_or_default();
                    strip.wide[..values.len()].copy_from_slice(values);
                    strip.is_narrow = false;
                });
                back.extend_from_slice(&strip.wide[..marks.len()]);
            }
            let mut values = values.iter();
            let expected: Vec<i64> =
                marks.iter().map(|mark| if *mark == 1 { *values.next().unwrap() } else { 0 }).collect();
            prop_assert_eq!(back, expected);
        }
    }
}
