//! The bytes of one column: a byte for its kind, and the content of that kind.
//!
//! | kind | then |
//! |---|---|
//! | 0 constant | the one value: 8 bytes, or the content of a text |
//! | 1 integers | their encoding |
//! | 2 integers against another column | `u16` number of that column, encoding of the difference row by row |
//! | 3 integers against another column's previous row | the same, the other one row back in the same run |
//! | 4 decimals | exponents and coefficients; see [`crate::decimals`] |
//! | 5 floats | their encoding |
//! | 6 texts | their encoding |
//! | 7 opposite of another column | `u16` number of that column, which is of kind 1: 1 minus its values |

use crate::damage::Flaw;
use crate::decimals::Form;
use crate::encoding::{
    COUNT_MAX, EncodingError, Float, FloatHabit, Habit, IntEncoding, Tier, decode_floats, decode_ints,
    decode_ints_in, decode_strings, encode_floats_again, encode_ints_again, encode_strings,
};
use crate::level::Level;
use crate::simd::widest;
use crate::spare::Ints;
use std::iter::once;

pub(crate) const CONSTANT: u8 = 0;
pub(crate) const INTS: u8 = 1;
pub(crate) const AGAINST: u8 = 2;
pub(crate) const PREVIOUS: u8 = 3;
pub(crate) const DECIMALS: u8 = 4;
pub(crate) const FLOATS: u8 = 5;
pub(crate) const STRINGS: u8 = 6;
pub(crate) const OPPOSITE: u8 = 7;

/// Bytes of a column of numbers that is a constant.
pub(crate) const CONSTANT_BYTES: usize = 1 + size_of::<i64>();

/// Buffers for decoding, used again and again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub ints: Vec<i64>,
    pub more: Vec<i64>,
    /// The column that others followed last, …
    pub reference: Vec<i64>,
    /// … if all of it is there: serial number of its block, record type and number.
    pub reference_of: Option<(u64, u16, usize)>,
    pub f64s: Vec<f64>,
    pub f32s: Vec<f32>,
    pub ends: Vec<u32>,
    pub content: Vec<u8>,
}

/// What is remembered of a column from block to block.
#[derive(Debug, Clone, Default)]
pub(crate) struct ColumnHabit {
    /// Of the integers: values, differences or coefficients, whichever they are.
    pub ints: Habit<IntEncoding>,
    pub floats: FloatHabit,
    pub form: Habit<Form>,
    pub shifts: Habit<IntEncoding>,
}

/// Appends integers, as a constant where they are.
pub(crate) fn write_ints(
    values: &[i64],
    ends: &[u32],
    tier: Tier,
    habit: &mut Habit<IntEncoding>,
    out: &mut Vec<u8>,
) {
    match constant(values) {
        Some(value) => write_constant(value, out),
        None => {
            out.push(INTS);
            put_ints(values, ends, tier, habit, out);
        }
    }
}

/// Appends the one value of a column.
pub(crate) fn write_constant(value: i64, out: &mut Vec<u8>) {
    out.push(CONSTANT);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends integers that follow column `other`, given as their `difference` to it.
pub(crate) fn write_against(
    kind: u8,
    other: u16,
    difference: &[i64],
    ends: &[u32],
    tier: Tier,
    habit: &mut Habit<IntEncoding>,
    out: &mut Vec<u8>,
) {
    out.push(kind);
    out.extend_from_slice(&other.to_le_bytes());
    put_ints(difference, ends, tier, habit, out);
}

/// Appends a column that is 1 where column `other` is 0, and 0 where it is 1.
pub(crate) fn write_opposite(other: u16, out: &mut Vec<u8>) {
    out.push(OPPOSITE);
    out.extend_from_slice(&other.to_le_bytes());
}

/// Values minus those of the other column, of which kind of column they are to become.
pub(crate) fn difference(kind: u8, values: &[i64], other: &[i64], ends: &[u32]) -> Ints {
    let minus = |(value, other): (&i64, &i64)| value.wrapping_sub(*other);
    // All are set: the first one of each run below, where it has no other before it.
    let mut difference = Ints::unset(values.len());
    // The other's value in the same place, or in the one before.
    let back = usize::from(kind != AGAINST);
    widest(
        #[inline(always)]
        || {
            let pairs = values.iter().skip(back).zip(other).map(minus);
            difference.iter_mut().skip(back).zip(pairs).for_each(|(to, difference)| *to = difference);
        },
    );
    if back > 0 && !values.is_empty() {
        let starts = once(0).chain(ends.iter().map(|end| *end as usize));
        for start in starts.filter(|start| *start < values.len()) {
            difference[start] = values[start].wrapping_sub(other[start]);
        }
    }
    difference
}

/// Appends floats.
pub(crate) fn write_floats<F: Float>(
    values: &[F],
    ends: &[u32],
    tier: Tier,
    habit: &mut FloatHabit,
    out: &mut Vec<u8>,
) {
    out.push(FLOATS);
    put_pieces(values.len(), ends, out, |range, ends, out| {
        encode_floats_again(&values[range], ends, tier, habit, out);
    });
}

/// Appends texts that end at `ends` of `content`.
pub(crate) fn write_strings(ends: &[u32], content: &[u8], tier: Tier, out: &mut Vec<u8>) {
    let first = &content[..ends.first().map_or(0, |end| *end as usize)];
    let width = first.len();
    let is_constant = content.len() == width * ends.len()
        && ends.iter().enumerate().all(|(i, end)| *end as usize == width * (i + 1))
        && (width == 0 || content.chunks_exact(width).all(|value| value == first));
    if is_constant {
        out.push(CONSTANT);
        out.extend_from_slice(first);
        return;
    }
    out.push(STRINGS);
    put_pieces(ends.len(), &[], out, |range, _, out| {
        let start = if range.start == 0 { 0 } else { ends[range.start - 1] };
        let local: Vec<u32> = ends[range.clone()].iter().map(|end| end - start).collect();
        encode_strings(&local, &content[start as usize..ends[range.end - 1] as usize], tier, out);
    });
}

/// The value that all have.
pub(crate) fn constant(values: &[i64]) -> Option<i64> {
    let first = *values.first()?;
    values.iter().all(|value| *value == first).then_some(first)
}

pub(crate) fn put_ints(
    values: &[i64],
    ends: &[u32],
    tier: Tier,
    habit: &mut Habit<IntEncoding>,
    out: &mut Vec<u8>,
) {
    put_pieces(values.len(), ends, out, |range, ends, out| {
        encode_ints_again(&values[range], ends, tier, habit, out);
    });
}

/// A column of more values than an encoding takes is cut into chunks, each after its length, `u32`.
fn put_pieces(
    count: usize,
    ends: &[u32],
    out: &mut Vec<u8>,
    mut put: impl FnMut(std::ops::Range<usize>, &[u32], &mut Vec<u8>),
) {
    if count <= COUNT_MAX {
        return put(0..count, ends, out);
    }
    let mut local = Vec::new();
    for start in (0..count).step_by(COUNT_MAX) {
        let range = start..count.min(start + COUNT_MAX);
        cut_ends(ends, &range, &mut local);
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        put(range, &local, out);
        let length = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&length.to_le_bytes());
    }
}

/// Ends of the runs of each piece that columns of a level are cut into; none where they are not cut.
pub(crate) fn cuts(level: &Level) -> Vec<Vec<u32>> {
    if level.count <= COUNT_MAX {
        return Vec::new();
    }
    let cut = |start: usize| {
        let mut ends = Vec::new();
        cut_ends(&level.ends, &(start..level.count.min(start + COUNT_MAX)), &mut ends);
        ends
    };
    (0..level.count).step_by(COUNT_MAX).map(cut).collect()
}

/// The runs within a chunk.
fn cut_ends(ends: &[u32], chunk: &std::ops::Range<usize>, out: &mut Vec<u32>) {
    out.clear();
    if ends.is_empty() {
        return;
    }
    let (from, to) = (chunk.start as u32, chunk.end as u32);
    out.extend(ends.iter().filter(|end| **end > from && **end < to).map(|end| end - from));
    out.push(to - from);
}

/// The chunk at the front of `bytes`.
pub(crate) fn take_piece<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], Flaw> {
    let length = u32::from_le_bytes(take_array(bytes)?) as usize;
    take(bytes, length)
}

/// The first `length` bytes.
pub(crate) fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Flaw> {
    match bytes.split_at_checked(length) {
        Some((front, rest)) => {
            *bytes = rest;
            Ok(front)
        }
        None => Err(Flaw::Short { need: length as u64, have: bytes.len() as u64 }),
    }
}

/// The first `N` bytes.
pub(crate) fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Flaw> {
    match bytes.split_first_chunk::<N>() {
        Some((front, rest)) => {
            *bytes = rest;
            Ok(*front)
        }
        None => Err(Flaw::Short { need: N as u64, have: bytes.len() as u64 }),
    }
}

/// The kind of a column and the bytes after it.
pub(crate) fn kind_of(mut bytes: &[u8]) -> Result<(u8, &[u8]), Flaw> {
    let [kind] = take_array(&mut bytes)?;
    Ok((kind, bytes))
}

/// The value of a constant column.
pub(crate) fn constant_of(mut bytes: &[u8]) -> Result<i64, Flaw> {
    let value = i64::from_le_bytes(take_array(&mut bytes)?);
    nothing_left(bytes)?;
    Ok(value)
}

/// Other column and encoded difference of a column of kind [`AGAINST`] or [`PREVIOUS`].
pub(crate) fn reference_of(mut bytes: &[u8]) -> Result<(u16, &[u8]), Flaw> {
    let other = u16::from_le_bytes(take_array(&mut bytes)?);
    Ok((other, bytes))
}

pub(crate) fn nothing_left(bytes: &[u8]) -> Result<(), Flaw> {
    match bytes.len() {
        0 => Ok(()),
        have => Err(Flaw::Mismatch { what: "bytes after a column", need: 0, have: have as u64 }),
    }
}

pub(crate) fn unknown_kind(kind: u8) -> Flaw {
    Flaw::Mismatch { what: "kind of column", need: u64::from(OPPOSITE), have: kind.into() }
}

/// Replaces `out` by the wanted ones of encoded integers.
pub(crate) fn get_ints(
    bytes: &[u8],
    level: &Level,
    scratch: &mut Vec<i64>,
    out: &mut Vec<i64>,
) -> Result<(), Flaw> {
    if level.count <= COUNT_MAX && !level.all && level.kept() * 4 <= level.count {
        out.clear();
        for range in &level.keep {
            let rows = range.start as usize..range.end as usize;
            decode_ints_in(bytes, level.count, &level.ends, rows, scratch)?;
            out.extend_from_slice(scratch);
        }
        return Ok(());
    }
    get_pieces(bytes, level, scratch, out, decode_ints)?;
    level.compact(out);
    Ok(())
}

/// Replaces `out` by all values of encoded chunks.
fn get_pieces<T: Copy>(
    mut bytes: &[u8],
    level: &Level,
    scratch: &mut Vec<T>,
    out: &mut Vec<T>,
    get: impl Fn(&[u8], usize, &[u32], &mut Vec<T>) -> Result<(), EncodingError>,
) -> Result<(), Flaw> {
    if level.count <= COUNT_MAX {
        return Ok(get(bytes, level.count, &level.ends, out)?);
    }
    out.clear();
    let mut local = Vec::new();
    for start in (0..level.count).step_by(COUNT_MAX) {
        let range = start..level.count.min(start + COUNT_MAX);
        cut_ends(&level.ends, &range, &mut local);
        get(take_piece(&mut bytes)?, range.len(), &local, scratch)?;
        out.extend_from_slice(scratch);
    }
    nothing_left(bytes)
}

/// Replaces `out` by the wanted ones of encoded floats. `piece` is memory.
pub(crate) fn get_floats<F: Float>(
    bytes: &[u8],
    level: &Level,
    piece: &mut Vec<F>,
    out: &mut Vec<F>,
) -> Result<(), Flaw> {
    get_pieces(bytes, level, piece, out, decode_floats)?;
    level.compact(out);
    Ok(())
}

/// Replaces `out` by the bits of the wanted ones of encoded floats. `floats` is memory.
pub(crate) fn get_float_bits<F: Float>(
    bytes: &[u8],
    level: &Level,
    floats: &mut Vec<F>,
    out: &mut Vec<i64>,
) -> Result<(), Flaw> {
    out.clear();
    get_floats(bytes, level, &mut Vec::new(), floats)?;
    out.extend(floats.iter().map(|value| value.bits() as i64));
    Ok(())
}

/// Adds the difference to the other column's values of the same rows.
pub(crate) fn add(values: &mut [i64], reference: &[i64]) {
    for (value, reference) in values.iter_mut().zip(reference) {
        *value = value.wrapping_add(*reference);
    }
}

/// Adds the difference to the other column's values one row before in the same run; a run's first row has none, and is
/// the difference to its own.
pub(crate) fn add_previous(values: &mut [i64], reference: &[i64], ends: &[u32]) {
    let mut start = 0;
    for &end in ends {
        let (values, reference) = (&mut values[start..end as usize], &reference[start..end as usize]);
        if let Some((first, rest)) = values.split_first_mut() {
            *first = first.wrapping_add(reference[0]);
            add(rest, reference);
        }
        start = end as usize;
    }
}

/// Checks a text of a column of `ascii(n)`: it has at most n bytes, and none of its padding. With padding it would be another text as a
/// column than in the body of its message.
pub(crate) fn check_ascii(text: &[u8], width: usize) -> Result<(), Flaw> {
    let have = text.len() as u64;
    if text.len() > width {
        return Err(Flaw::Mismatch { what: "length of an ascii", need: width as u64, have });
    }
    match text.last() {
        Some(0) => Err(Flaw::Mismatch { what: "length of an ascii with padding", need: have - 1, have }),
        _ => Ok(()),
    }
}

/// Replaces `ends` and `content` by the wanted texts of at most `content_max` bytes in all.
pub(crate) fn get_strings(
    bytes: &[u8],
    level: &Level,
    content_max: usize,
    scratch: &mut Scratch,
    ends: &mut Vec<u32>,
    content: &mut Vec<u8>,
) -> Result<(), Flaw> {
    if level.count <= COUNT_MAX {
        decode_strings(bytes, level.count, content_max, ends, content)?;
    } else {
        get_string_pieces(bytes, level.count, content_max, scratch, ends, content)?;
    }
    if !level.all {
        keep_strings(level, ends, content);
    }
    Ok(())
}

fn get_string_pieces(
    mut bytes: &[u8],
    count: usize,
    content_max: usize,
    scratch: &mut Scratch,
    ends: &mut Vec<u32>,
    content: &mut Vec<u8>,
) -> Result<(), Flaw> {
    ends.clear();
    content.clear();
    for start in (0..count).step_by(COUNT_MAX) {
        let (length, left) = (COUNT_MAX.min(count - start), content_max - content.len());
        decode_strings(take_piece(&mut bytes)?, length, left, &mut scratch.ends, &mut scratch.content)?;
        let base = content.len() as u32;
        ends.extend(scratch.ends.iter().map(|end| base + end));
        content.extend_from_slice(&scratch.content);
    }
    nothing_left(bytes)
}

fn keep_strings(level: &Level, ends: &mut Vec<u32>, content: &mut Vec<u8>) {
    let (mut to, mut end_to) = (0, 0);
    for range in &level.keep {
        let (from, until) = (range.start as usize, range.end as usize);
        let start = if from == 0 { 0 } else { ends[from - 1] };
        let end = if until == 0 { 0 } else { ends[until - 1] };
        content.copy_within(start as usize..end as usize, end_to as usize);
        for i in from..until {
            ends[to] = ends[i] - start + end_to;
            to += 1;
        }
        end_to += end - start;
    }
    ends.truncate(to);
    content.truncate(end_to as usize);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(count: usize, ends: &[u32]) -> Level {
        Level { count, ends: ends.into(), all: true, keep: Vec::new() }
    }

    #[test]
    fn long_columns_are_cut_and_come_back() {
        let values: Vec<i64> = (0..150_000).map(|i| i * i % 1_001).collect();
        let ends = [10, 70_000, 150_000];
        let (mut bytes, mut back, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
        put_ints(&values, &ends, Tier::Hot, &mut Habit::default(), &mut bytes);
        get_ints(&bytes, &whole(values.len(), &ends), &mut scratch, &mut back).unwrap();
        assert_eq!(back, values);
        let some = Level { all: false, keep: vec![5..9, 65_530..65_540], ..whole(values.len(), &ends) };
        get_ints(&bytes, &some, &mut scratch, &mut back).unwrap();
        assert_eq!(back, [&values[5..9], &values[65_530..65_540]].concat());
    }

    #[test]
    fn texts_come_back_whole_and_in_part() {
        let texts: Vec<String> = (0..70_000).map(|i| "x".repeat(i % 5)).collect();
        let mut ends = Vec::new();
        let mut content = Vec::new();
        for text in &texts {
            content.extend_from_slice(text.as_bytes());
            ends.push(content.len() as u32);
        }
        let mut bytes = Vec::new();
        write_strings(&ends, &content, Tier::Hot, &mut bytes);
        let (mut ends_back, mut content_back, mut scratch) = (Vec::new(), Vec::new(), Scratch::default());
        let (kind, rest) = kind_of(&bytes).unwrap();
        assert_eq!(kind, STRINGS);
        let level = whole(texts.len(), &[]);
        get_strings(rest, &level, content.len(), &mut scratch, &mut ends_back, &mut content_back).unwrap();
        assert_eq!((&ends_back, &content_back), (&ends, &content));
        let some = Level { all: false, keep: vec![3..5, 66_000..66_002], ..level };
        get_strings(rest, &some, content.len(), &mut scratch, &mut ends_back, &mut content_back).unwrap();
        assert_eq!((&ends_back[..], content_back.len()), (&[3, 7, 7, 8][..], 8));
    }

    #[test]
    fn floats_that_end_early_are_refused_where_some_are_wanted() {
        let bits: Vec<f64> = (0..300).map(|i| f64::from(i).sqrt()).collect();
        let mut bytes = Vec::new();
        encode_floats_again(&bits, &[300], Tier::Hot, &mut FloatHabit::default(), &mut bytes);
        let some = Level { all: false, keep: vec![100..200, 290..300], ..whole(300, &[300]) };
        let mut out = Vec::new();
        assert!(get_float_bits(&bytes[..1], &some, &mut Vec::<f64>::new(), &mut out).is_err());
        assert!(get_float_bits(&bytes[..1], &some, &mut Vec::<f32>::new(), &mut out).is_err());
    }

    #[test]
    fn equal_texts_are_a_constant() {
        let mut bytes = Vec::new();
        write_strings(&[2, 4, 6], b"ababab", Tier::Hot, &mut bytes);
        assert_eq!(bytes, [CONSTANT, b'a', b'b']);
        bytes.clear();
        write_strings(&[0, 0], b"", Tier::Hot, &mut bytes);
        assert_eq!(bytes, [CONSTANT]);
    }
}
