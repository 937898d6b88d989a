//! Columns of integers, as they lie behind the checksums of a segment: two bytes say how many there are.

use crate::Target;
use crate::sample::SplitMix64;
use tapedb_segment::Tier;
use tapedb_segment::encoding::{decode_ints, decode_ints_in, encode_ints};

/// See the module.
pub const TARGET: Target = Target { name: "integers", run, seed };

/// Whatever the bytes: no panic, as many values as asked for, and parts that are what the whole says.
pub fn run(input: &[u8]) {
    let Some((count, bytes)) = input.split_first_chunk() else { return };
    let count = usize::from(u16::from_le_bytes(*count));
    let (mut all, mut part) = (Vec::new(), Vec::new());
    for runs in [&[][..], &[count as u32 / 2, count as u32][usize::from(count < 2)..]] {
        let middle = count / 3..count / 3 * 2;
        let has_part = decode_ints_in(bytes, count, runs, middle.clone(), &mut part).is_ok();
        match decode_ints(bytes, count, runs, &mut all) {
            Ok(()) => {
                assert_eq!(all.len(), count);
                assert!(has_part && part == all[middle]);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// Up to a thousand numbers of which some are frequent, some near each other and some large: every encoding is taken for
/// some of them.
fn seed(number: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(number);
    let count = random.below(1_000);
    let (frequent, width, repeated) = (random.below(12), random.below(50), 1 + random.below(4));
    let (mut values, mut at) = (Vec::new(), 0i64);
    while values.len() < count {
        let wide = (random.next_u64() >> (63 - width - random.below(8))) as i64;
        let step = if random.below(12) < frequent { 7 * random.below(5) as i64 } else { wide };
        at = if number.is_multiple_of(2) { at.wrapping_add(step) } else { step };
        (0..repeated).for_each(|_| values.push(at));
    }
    let tier = if number.is_multiple_of(3) { Tier::Cold } else { Tier::Hot };
    let mut bytes = (values.len() as u16).to_le_bytes().to_vec();
    encode_ints(&values, &[], tier, &mut bytes);
    bytes
}
