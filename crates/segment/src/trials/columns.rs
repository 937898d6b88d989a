//! One column: decoded whole, by ranges, by single rows and by strips.

use super::Random;
use crate::encoding::{
    EncodingError, GROUP, Strip, Strips, decode_floats, decode_ints, decode_ints_at, decode_ints_in,
    decode_strings,
};
use crate::reference;
use std::ops::Range;

/// Compares all ways to read a column of integers with the reference; gives its values. Where the reference refuses the
/// bytes, the others must only not panic.
///
/// # Panics
/// When they differ.
pub fn integers(bytes: &[u8], count: usize, ends: &[u32], random: &mut Random) -> Option<Vec<i64>> {
    let expected = reference::integers(bytes, count, ends).ok();
    let mut out = vec![7; 3];
    let whole = decode_ints(bytes, count, ends, &mut out);
    same(&expected, &whole, &out, 0..count, "whole", (bytes, ends));
    for rows in ranges(count, random) {
        let part = decode_ints_in(bytes, count, ends, rows.clone(), &mut out);
        same(&expected, &part, &out, rows, "a range", (bytes, ends));
    }
    single_rows(bytes, count, ends, &expected, random);
    strips(bytes, count, ends, &expected);
    expected
}

fn same(
    expected: &Option<Vec<i64>>,
    done: &Result<(), EncodingError>,
    out: &[i64],
    rows: Range<usize>,
    what: &str,
    (bytes, ends): (&[u8], &[u32]),
) {
    let Some(expected) = expected else { return };
    assert!(
        done.is_ok(),
        "{what}, rows {rows:?}: {done:?}, where the reference decodes; ends {ends:?}, bytes {bytes:02x?}"
    );
    let expected = &expected[rows.clone()];
    if let Some(at) = expected.iter().zip(out).position(|(a, b)| a != b) {
        panic!(
            "{what}, rows {rows:?}: value {at} is {}, not {}; ends {ends:?}, bytes {bytes:02x?}",
            out[at], expected[at]
        );
    }
    assert_eq!(out.len(), expected.len(), "{what}, rows {rows:?}; ends {ends:?}, bytes {bytes:02x?}");
}

/// Ranges that begin and end at, before and after groups, and anywhere.
fn ranges(count: usize, random: &mut Random) -> Vec<Range<usize>> {
    let mut edge = || match random.below(3) {
        0 => random.below(count + 1),
        _ => (random.below(count / GROUP + 1) * GROUP + random.below(3)).saturating_sub(1).min(count),
    };
    let pairs = (0..6).map(|_| (edge(), edge()));
    pairs.map(|(a, b)| a.min(b)..a.max(b)).collect()
}

fn single_rows(bytes: &[u8], count: usize, ends: &[u32], expected: &Option<Vec<i64>>, random: &mut Random) {
    let share = 1 + random.below(200);
    let rows: Vec<u32> = (0..count as u32).filter(|_| random.below(share) == 0).collect();
    let groups: Vec<u32> = (1..=count.div_ceil(GROUP)).map(|group| count.min(group * GROUP) as u32).collect();
    for (ends, is_given) in [(ends, true), (&groups[..], false)] {
        let mut out = Vec::new();
        // With other runs it is another column, unless it has no runs: the reference decides.
        let other = if is_given { None } else { Some(reference::integers(bytes, count, ends).ok()) };
        let Some(expected) = other.as_ref().unwrap_or(expected) else { continue };
        match decode_ints_at(bytes, count, ends, &rows, &mut out) {
            Ok(true) => {
                let expected = rows.iter().map(|row| expected[*row as usize]);
                assert!(expected.eq(out.iter().copied()), "rows {rows:?}; ends {ends:?}, bytes {bytes:02x?}");
            }
            Ok(false) => {}
            Err(error) => panic!("single rows: {error}; ends {ends:?}, bytes {bytes:02x?}"),
        }
    }
}

fn strips(bytes: &[u8], count: usize, ends: &[u32], expected: &Option<Vec<i64>>) {
    let opened = Strips::open(bytes, count, ends);
    let (Some(expected), Ok(opened)) = (expected, &opened) else {
        return assert!(expected.is_none(), "strips: {:?}; bytes {bytes:02x?}", opened.err());
    };
    if opened.is_none() {
        return;
    }
    let (Ok(Some(mut strips)), mut strip) = (Strips::open(bytes, count, ends), Strip::default()) else {
        return;
    };
    let mut out = vec![0; count];
    for out in out.chunks_mut(GROUP) {
        strips.next(&mut strip);
        strip.write(out);
        let is_kept = !strip.is_narrow
            || strip.offsets[..out.len()].iter().all(|o| (*o as i32).unsigned_abs() < 1 << 29);
        assert!(is_kept, "offsets of a strip beyond 29 bits; ends {ends:?}, bytes {bytes:02x?}");
    }
    same(&Some(expected.clone()), &Ok(()), &out, 0..count, "strips", (bytes, ends));
}

/// Compares the fast and the reference decoder of floats of 4 or 8 bytes; gives their bits.
///
/// # Panics
/// When they differ.
pub fn floats(bytes: &[u8], count: usize, ends: &[u32], width: usize) -> Option<Vec<i64>> {
    let expected = reference::floats(bytes, count, ends, width).ok();
    let (mut wide, mut narrow) = (Vec::<f64>::new(), Vec::<f32>::new());
    let done = match width {
        8 => decode_floats(bytes, count, ends, &mut wide),
        _ => decode_floats(bytes, count, ends, &mut narrow),
    };
    let wide = wide.iter().map(|value| value.to_bits() as i64);
    let out: Vec<i64> = wide.chain(narrow.iter().map(|value| i64::from(value.to_bits()))).collect();
    same(&expected, &done, &out, 0..count, "floats", (bytes, ends));
    expected
}

/// Compares the fast and the reference decoder of texts of at most `most` bytes in all; gives them.
///
/// # Panics
/// When they differ.
pub fn texts(bytes: &[u8], count: usize, most: usize) -> Option<reference::Pieces> {
    let expected = reference::texts(bytes, count, most).ok();
    let (mut ends, mut content) = (Vec::new(), Vec::new());
    let done = decode_strings(bytes, count, most, &mut ends, &mut content);
    let Some(texts) = &expected else { return None };
    assert!(done.is_ok(), "{done:?}, where the reference decodes: {bytes:02x?}");
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let found = starts.zip(&ends).map(|(start, end)| &content[start as usize..*end as usize]);
    assert!(found.eq(texts.iter()), "texts differ: {bytes:02x?}");
    expected
}
