//! Bodies as words of eight bytes: what several columns have in a word is put together for 128 bodies at once, and then every
//! word is written with one store. Narrow fields side by side cost one store together, and what is the same in all bodies
//! costs none.

use crate::encoding::{GROUP, Strip};
use crate::simd::widest;

/// Bytes of a word.
const WORD: usize = 8;

/// So many words are written to a body at once; longer bodies take several turns.
const WORDS_AT_ONCE: usize = 8;

/// One word of 128 bodies.
pub(crate) type Words = [u64; GROUP];

/// A field of fixed width whose values differ from body to body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WordSlot {
    /// Where it begins.
    pub offset: usize,
    /// Its bytes, 1 to 8.
    pub width: usize,
}

/// Which words a body has, and what is in them.
///
/// Always true: words ascend by their beginnings, all lie within the body, which has at least eight bytes, and together they
/// cover it. Written in this order, each byte of a body has what it should have after the last word that covers it.
#[derive(Debug)]
pub(crate) struct WordPlan {
    starts: Vec<usize>,
    words: Vec<PlannedWord>,
    length: usize,
}

#[derive(Debug)]
struct PlannedWord {
    /// What is the same in all bodies.
    same: u64,
    parts: Vec<WordPart>,
}

/// A column's part of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WordPart {
    column: usize,
    /// Bits of the value that its slot has.
    mask: u64,
    /// Bits by which it is moved up, or down if negative.
    shift: i32,
}

impl WordPlan {
    /// `template` has what is the same in all bodies, and zeros in `slots`, which do not overlap. `None`: bodies are shorter
    /// than a word.
    pub fn new(template: &[u8], slots: &[WordSlot]) -> Option<Self> {
        let length = template.len();
        let last = length.checked_sub(WORD)?;
        let (mut starts, mut at) = (Vec::new(), 0);
        while at < length {
            starts.push(at.min(last));
            // A slot that this word would cut begins the next one.
            let cut =
                slots.iter().find(|slot| slot.offset < at + WORD && slot.offset + slot.width > at + WORD);
            at = cut.map_or(at + WORD, |slot| slot.offset.max(at + 1));
        }
        let ends = starts.iter().skip(1).copied().chain([length]);
        let word = |(start, end): (&usize, usize)| {
            let same = template[*start..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            let parts = slots.iter().enumerate();
            let parts = parts.filter(|(_, slot)| slot.offset < end && slot.offset + slot.width > *start);
            PlannedWord {
                same,
                parts: parts.map(|(column, slot)| WordPart::new(column, *slot, *start)).collect(),
            }
        };
        let words = starts.iter().zip(ends).map(word).collect();
        Some(Self { starts, words, length })
    }

    /// How many words a body has.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Fills the words that are the same in all bodies, once for all strips.
    pub fn fill(&self, words: &mut [Words]) {
        for (plan, word) in self.words.iter().zip(words).filter(|(plan, _)| plan.parts.is_empty()) {
            word.fill(plan.same);
        }
    }

    /// Puts the other words of 128 bodies together from a strip of each column.
    pub fn compose(&self, strips: &[Strip], words: &mut [Words]) {
        for (plan, word) in self.words.iter().zip(words) {
            match plan.parts[..] {
                [] => {}
                [WordPart { column, mask: u64::MAX, shift: 0 }] => whole(&strips[column], word),
                [first, ref others @ ..] => {
                    first.begin(&strips[first.column], plan.same, word);
                    others.iter().for_each(|part| part.add(&strips[part.column], word));
                }
            }
        }
    }

    /// Writes the words of up to 128 bodies, which begin `before` bytes in front of `places`.
    pub fn write(&self, words: &[Words], before: u32, places: &[u32], out: &mut [u8]) {
        let all = self.starts.chunks(WORDS_AT_ONCE).zip(words.chunks(WORDS_AT_ONCE));
        for (starts, words) in all {
            let to = (self.length, before, places);
            match starts.len() {
                1 => store::<1>(starts, words, to, out),
                2 => store::<2>(starts, words, to, out),
                3 => store::<3>(starts, words, to, out),
                4 => store::<4>(starts, words, to, out),
                5 => store::<5>(starts, words, to, out),
                6 => store::<6>(starts, words, to, out),
                7 => store::<7>(starts, words, to, out),
                _ => store::<WORDS_AT_ONCE>(starts, words, to, out),
            }
        }
    }
}

impl WordPart {
    fn new(column: usize, slot: WordSlot, start: usize) -> Self {
        let mask = u64::MAX >> (8 * (WORD - slot.width.clamp(1, WORD)));
        Self { column, mask, shift: 8 * (slot.offset as i32 - start as i32) }
    }

    /// Makes a word what is the same in all bodies, and this part.
    fn begin(self, strip: &Strip, same: u64, word: &mut Words) {
        self.each(strip, word, move |word, part| *word = same | part);
    }

    fn add(self, strip: &Strip, word: &mut Words) {
        self.each(strip, word, |word, part| *word |= part);
    }

    #[inline(always)]
    fn each(self, strip: &Strip, word: &mut Words, join: impl Fn(&mut u64, u64)) {
        let Self { mask, shift, .. } = self;
        let (up, down) = (shift.max(0) as u32, (-shift).max(0) as u32);
        // Moved into the loops: what is borrowed might change with each word, and keeps them from being wide.
        let part = move |value: i64| (value as u64 & mask).wrapping_shl(up).wrapping_shr(down);
        if strip.is_narrow {
            let base = strip.base;
            widest(
                #[inline(always)]
                move || {
                    for (word, offset) in word.iter_mut().zip(&strip.offsets) {
                        join(word, part(base.wrapping_add(i64::from(*offset as i32))));
                    }
                },
            );
        } else {
            widest(
                #[inline(always)]
                move || word.iter_mut().zip(&strip.wide).for_each(|(word, value)| join(word, part(*value))),
            );
        }
    }
}

/// A word that is one column's values.
fn whole(strip: &Strip, word: &mut Words) {
    if strip.is_narrow {
        let base = strip.base;
        return widest(
            #[inline(always)]
            move || {
                for (word, offset) in word.iter_mut().zip(&strip.offsets) {
                    *word = base.wrapping_add(i64::from(*offset as i32)) as u64;
                }
            },
        );
    }
    word.iter_mut().zip(&strip.wide).for_each(|(word, value)| *word = *value as u64);
}

/// Writes `N` words of each body.
fn store<const N: usize>(
    starts: &[usize],
    words: &[Words],
    (length, before, places): (usize, u32, &[u32]),
    out: &mut [u8],
) {
    // Copies, so that nothing that is written can change them.
    let (Some(starts), Some(words)) = (starts.first_chunk::<N>(), words.first_chunk::<N>()) else { return };
    let (starts, words) = (*starts, words.each_ref());
    for (i, place) in places.iter().enumerate().take(GROUP) {
        let body = &mut out[(*place - before) as usize..][..length];
        for k in 0..N {
            body[starts[k]..][..WORD].copy_from_slice(&words[k][i].to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A strip of any values, narrow or wide.
    fn strip(seed: u64, is_narrow: bool) -> Strip {
        let mut strip = Strip { base: seed as i64, is_narrow, ..Strip::default() };
        for i in 0..GROUP {
            let noise = (seed ^ i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            strip.offsets[i] = (noise >> 35) as u32;
            strip.wide[i] = noise as i64;
        }
        strip
    }

    proptest! {
        #[test]
        fn every_byte_of_a_body_is_what_its_slot_or_the_template_has(
            pieces in prop::collection::vec((0usize..12, 1usize..=8), 0..14),
            rest in 0usize..20,
            seed in any::<u64>(),
            before in 0u32..2,
            count in 1usize..=GROUP,
        ) {
            let (mut slots, mut at) = (Vec::new(), 0);
            for (gap, width) in pieces {
                slots.push(WordSlot { offset: at + gap, width });
                at += gap + width;
            }
            let length = at + rest;
            let mut template: Vec<u8> = (0..length).map(|i| (i as u64 ^ seed) as u8).collect();
            for slot in &slots {
                template[slot.offset..slot.offset + slot.width].fill(0);
            }
            let Some(plan) = WordPlan::new(&template, &slots) else {
                prop_assert!(length < WORD);
                return Ok(());
            };
            let strips: Vec<Strip> =
                (0..slots.len() as u64).map(|i| strip(seed.wrapping_mul(i | 1), (seed >> i) & 1 == 1)).collect();
            let mut words = vec![[0; GROUP]; plan.len()];
            plan.fill(&mut words);
            plan.compose(&strips, &mut words);
            let places: Vec<u32> = (0..count as u32).map(|i| i * (length as u32 + 1) + before).collect();
            let mut out = vec![0xaa; count * (length + 1)];
            plan.write(&words, before, &places, &mut out);
            for i in 0..count {
                let mut body = template.clone();
                for (slot, strip) in slots.iter().zip(&strips) {
                    let value = strip.value(i).to_le_bytes();
                    body[slot.offset..slot.offset + slot.width].copy_from_slice(&value[..slot.width]);
                }
                body.push(0xaa);
                prop_assert_eq!(&out[i * (length + 1)..][..length + 1], &body[..]);
            }
        }
    }
}
