//! Properties of columns, tried with difficult values. Those of blocks are in
//! `testing/targets/tests/it/segment_trials.rs`, where random schemas are.

use super::*;
use crate::encoding::{FloatEncoding, Tier, encode_bits, encode_floats, encode_strings};
use crate::reference;

#[test]
fn integers_come_back_in_every_encoding_and_way() {
    each_seed("integers", 300, |seed| {
        let mut random = Random::new(seed);
        let Column { values, ends } = Column::new(&mut random);
        for bytes in every_encoding(&values, &ends) {
            at_every_level(|level| {
                let decoded = integers(&bytes, values.len(), &ends, &mut random);
                let decoded =
                    decoded.unwrap_or_else(|| panic!("{level}: the reference refuses {bytes:02x?}"));
                assert!(decoded == values, "{level}: ends {ends:?}, {values:?} in {bytes:02x?}");
            });
        }
    });
}

/// What is not the bytes of a column is refused by both, or decoded alike.
#[test]
fn damaged_integers_decode_alike() {
    each_seed("damaged integers", 150, |seed| {
        let mut random = Random::new(seed);
        let Column { values, ends } = Column::new(&mut random);
        for mut bytes in every_encoding(&values, &ends) {
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len());
                let noise = random.number() as u8;
                bytes[at] = random.pick(&[0, 1, 0x0f, 0x10, 0x7f, 0x80, 0xff, noise]);
            }
            integers(&bytes, values.len(), &ends, &mut random);
        }
    });
}

/// Numbers of columns as floats: any bits, decimals with as many digits, and both.
fn floats_of(random: &mut Random, values: &[i64]) -> Vec<f64> {
    let (mode, scale) = (random.below(4), random.pick(&[1.0, 10.0, 100.0, 1e4, 1e9]));
    let float = |value: i64, odd: bool| match mode {
        0 => f64::from_bits(value as u64),
        1 if odd => f64::from_bits(0x7ff0_0000_0000_0000 | value as u64 >> 12),
        2 if odd => -0.0,
        // On both sides of the largest integer that decimals have.
        3 => (value % (1 << 51) + value.signum() * 2) as f64 / scale,
        _ => (value % 100_000_000_000) as f64 / scale,
    };
    values.iter().map(|value| float(*value, random.below(40) == 0)).collect()
}

#[test]
fn floats_come_back_to_the_bit() {
    let mut chosen = std::collections::BTreeSet::new();
    for seed in 0..cases(300) {
        let mut random = Random::new(seed);
        let Column { values, ends } = Column::new(&mut random);
        let wide = floats_of(&mut random, &values);
        let narrow: Vec<f32> = match random.below(2) {
            0 => wide.iter().map(|value| *value as f32).collect(),
            _ => values.iter().map(|value| f32::from_bits(*value as u32)).collect(),
        };
        for tier in [Tier::Hot, Tier::Cold] {
            let mut bytes = [Vec::new(), Vec::new()];
            chosen.insert(encode_floats(&wide, &ends, tier, &mut bytes[0]));
            chosen.insert(encode_floats(&narrow, &ends, tier, &mut bytes[1]));
            at_every_level(|level| {
                let back = floats(&bytes[0], wide.len(), &ends, 8).expect("the reference decodes");
                assert!(
                    back.into_iter().eq(wide.iter().map(|value| value.to_bits() as i64)),
                    "{level}, seed {seed}"
                );
                let back = floats(&bytes[1], narrow.len(), &ends, 4).expect("the reference decodes");
                assert!(
                    back.into_iter().eq(narrow.iter().map(|value| i64::from(value.to_bits()))),
                    "{level}, seed {seed}"
                );
            });
        }
    }
    assert_eq!(
        chosen.len(),
        [FloatEncoding::Bits, FloatEncoding::Decimal, FloatEncoding::Pco].len(),
        "{chosen:?}"
    );
}

#[test]
fn texts_and_bits_come_back() {
    each_seed("texts", 200, |seed| {
        let mut random = Random::new(seed);
        let Column { values, .. } = Column::new(&mut random);
        let mode = random.below(5);
        let (mut ends, mut content) = (Vec::new(), Vec::new());
        for value in &values {
            match mode {
                0 => content.extend_from_slice(&value.to_le_bytes()[..value.unsigned_abs() as usize % 9]),
                1 => content.extend_from_slice(format!("venue {}", value & 7).as_bytes()),
                2 => content.extend_from_slice("ab".repeat(value.unsigned_abs() as usize % 40).as_bytes()),
                3 => content.extend_from_slice(value.to_string().as_bytes()),
                _ => {}
            }
            ends.push(content.len() as u32);
        }
        for tier in [Tier::Hot, Tier::Cold] {
            let mut bytes = Vec::new();
            encode_strings(&ends, &content, tier, &mut bytes);
            let back = texts(&bytes, ends.len(), content.len()).expect("the reference decodes");
            assert_eq!(back.bytes(), content.len());
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let expected = starts.zip(&ends).map(|(start, end)| &content[start as usize..*end as usize]);
            assert!(back.iter().eq(expected), "seed {seed}");
        }
        let flags: Vec<bool> = values.iter().map(|value| value & 1 == 1).collect();
        let (mut bytes, mut fast) = (Vec::new(), Vec::new());
        encode_bits(&flags, &mut bytes);
        crate::encoding::decode_bits(&bytes, flags.len(), &mut fast).expect("it decodes");
        let back = reference::bits(&bytes, flags.len()).expect("the reference decodes");
        assert!(back == flags && fast == flags, "seed {seed}");
    });
}

/// Compares every encoding of a column in every way.
fn compare(values: &[i64], ends: &[u32]) {
    for bytes in every_encoding(values, ends) {
        let decoded = integers(&bytes, values.len(), ends, &mut Random::new(7));
        assert!(decoded.as_deref() == Some(values), "ends {ends:?}, {values:?} in {bytes:02x?}");
    }
}

/// Split numbers of up to 58 bits are cut out of eight bytes, wherever they begin; of wider ones, of nine.
#[test]
fn split_numbers_of_every_width_begin_anywhere() {
    for width in [1, 7, 8, 56, 57, 58, 59, 60, 63, 64] {
        for shift in 1..=9 {
            let largest = u64::MAX >> (64 - width);
            let number = |i: usize| match i % 5 {
                0 => (1u64 << shift) - 1,
                1 => 1 << (width - 1),
                _ => largest,
            };
            compare(&(0..150).map(|i| number(i) as i64).collect::<Vec<i64>>(), &[150]);
        }
    }
}

/// Where each run has a divisor of its own, a strip stays narrow while what it reaches, times the divisor, and the distance
/// of the runs are below 2^28.
#[test]
fn runs_with_scales_at_the_bound_come_back() {
    for divisor in [(1i64 << 14) - 1, 1 << 14, (1 << 14) + 1, (1 << 27) + 1, (1 << 28) - 1, 1 << 28, 1 << 40]
    {
        for reach in [1, 2, (1 << 14) - 1, 1 << 14, (1 << 14) + 1] {
            for distance in [0, (1 << 28) - 1, 1 << 28, (1 << 28) + 1, -(1 << 28), 1 << 50] {
                let of_second = |i: i64| distance + divisor * (i % 7 * reach / 6);
                let values: Vec<i64> = (0..200).map(|i| if i < 100 { i % 3 } else { of_second(i) }).collect();
                compare(&values, &[100, 200]);
            }
        }
    }
}

/// 127, 128 and 129 rows, and so many of runs; one value that is not like the others in each place.
#[test]
fn exceptions_at_the_edges_of_groups_come_back() {
    for count in [1, 2, 126, 127, 128, 129, 255, 256, 257] {
        for width in [0, 1, 2, 9] {
            for exception in [200, 32_767, 32_768, -32_768, -32_769, 1 << 23, 1 << 31, i64::MAX, i64::MIN] {
                for at in [0, 1, count / 2, count - 1] {
                    let mut values: Vec<i64> = (0..count as i64).map(|i| i * i % (1 << width)).collect();
                    values[at.min(count - 1)] = exception;
                    compare(&values, &[count as u32]);
                }
            }
        }
    }
}

/// The slack after short repetitions, and the largest columns.
#[test]
fn repetitions_and_full_columns_come_back() {
    for length in [1, 7, 8, 9, 127, 128, 129] {
        let values: Vec<i64> = (0..1_000).map(|i| i / length * 1_000_003).collect();
        compare(&values, &[1_000]);
    }
    for count in [65_535, 65_536] {
        compare(&(0..count).map(|i| i * 7 % 1_009).collect::<Vec<i64>>(), &[count as u32]);
    }
}

/// Two to nine that take turns, in columns that are shorter than their number, end at edges of groups, or are as long as columns can
/// be; differences that do not fit 64 bits, and runs shorter than the distance.
#[test]
fn values_that_take_turns_come_back() {
    let near = [0, 3, -5, 40, 1 << 20, -(1 << 33), 77, 1 << 50, 9];
    let far = [i64::MIN, i64::MAX, 0, -1, i64::MIN + 1, i64::MAX - 1, 1, i64::MIN / 2, i64::MAX / 2];
    for bases in [near, far] {
        for turns in 2..=9 {
            let value = |i: usize| bases[i % turns].wrapping_add((i * i % 7) as i64);
            for count in (1..12).chain([126, 127, 128, 129, 130, 255, 256, 257, 700]) {
                let values: Vec<i64> = (0..count).map(value).collect();
                compare(&values, &[count as u32]);
                let short: Vec<u32> = (1..count as u32).filter(|end| end % 3 == 1).collect();
                compare(&values, &[&short[..], &[count as u32]].concat());
            }
        }
    }
    for count in [65_535, 65_536] {
        let value = |i: usize| (i % 2 * 1_000_000 + i * 31 % 11) as i64 * 25;
        let values: Vec<i64> = (0..count).map(value).collect();
        compare(&values, if count == 65_535 { &[65_535] } else { &[1, 2, 4, 40_000, 65_536] });
    }
}
