//! Values that repeat row after row, each stored once with the number of its rows.

use std::ops::Range;

use super::EncodingError;
use super::bytes::{Reader, in_range, write_varint};
use super::packed::{self, Packed};
use crate::simd::widest;

/// Lengths and values of the repetitions in a column.
#[derive(Default)]
pub(super) struct Repetitions {
    pub(super) lengths: Vec<i64>,
    pub(super) values: Vec<i64>,
}

impl Repetitions {
    pub(super) fn of(values: &[i64]) -> Self {
        let parts = values.chunk_by(|a, b| a == b);
        parts.fold(Self::default(), |mut repetitions, part| {
            repetitions.lengths.push(part.len() as i64);
            repetitions.values.push(part[0]);
            repetitions
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        write_varint(self.values.len() as u64, out);
        packed::encode(&self.lengths, out);
        packed::encode(&self.values, out);
    }
}

/// Replaces `out` by the values of `rows`.
pub(super) fn decode(
    reader: &mut Reader,
    count: usize,
    rows: Range<usize>,
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    let (length_of, value_of) = read(reader, count)?;
    // There is spare capacity after the end, for the excess that short repetitions write.
    out.resize(rows.len() + SHORT, 0);
    let mut start = 0;
    if rows == (0..count) {
        widest(
            #[inline(always)]
            || {
                for (length, value) in length_of.iter().zip(&value_of) {
                    fill(&mut out[start..], *length as usize, *value);
                    start += *length as usize;
                }
            },
        );
        out.truncate(count);
        return Ok(());
    }
    for (length, value) in length_of.into_iter().zip(value_of) {
        let end = start + length as usize;
        let part = start.max(rows.start)..end.min(rows.end);
        if !part.is_empty() {
            fill(&mut out[part.start - rows.start..], part.len(), value);
        }
        start = end;
    }
    out.truncate(rows.len());
    Ok(())
}

/// Most repetitions are this short, or much longer.
const SHORT: usize = 8;

/// Writes a repetition of `length` values, and may write others after it; there is space for [`SHORT`] at least.
#[inline(always)]
fn fill(out: &mut [i64], length: usize, value: i64) {
    match out.first_chunk_mut::<SHORT>() {
        Some(short) if length <= SHORT => *short = [value; SHORT],
        _ => out[..length].fill(value),
    }
}

/// Appends the values of single `rows`, which ascend.
pub(super) fn decode_at(
    reader: &mut Reader,
    count: usize,
    rows: &[u32],
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    let (lengths, values) = read(reader, count)?;
    let mut repetitions = lengths.into_iter().zip(values);
    let (mut end, mut value) = (0, 0);
    for row in rows {
        while end <= u64::from(*row)
            && let Some((length, next)) = repetitions.next()
        {
            end += length as u64;
            value = next;
        }
        out.push(value);
    }
    Ok(())
}

/// Lengths and values; the lengths sum up to the rows of the column.
fn read(reader: &mut Reader, count: usize) -> Result<(Vec<i64>, Vec<i64>), EncodingError> {
    let repetitions = reader.bounded("repetitions", count)?;
    let offset = reader.offset();
    let lengths = Packed::read(reader, repetitions)?;
    let values = Packed::read(reader, repetitions)?;
    reader.finish()?;
    let (mut length_of, mut value_of) = (Vec::new(), Vec::new());
    lengths.decode(&mut length_of);
    values.decode(&mut value_of);
    check_lengths(&length_of, count, offset)?;
    Ok((length_of, value_of))
}

/// Lengths must sum up to the rows of the column.
fn check_lengths(lengths: &[i64], count: usize, offset: usize) -> Result<(), EncodingError> {
    // Lengths below 2^32 that are right need no look at each: their sum is right.
    let (any, sum) = lengths.iter().fold((0, 0u64), |(any, sum), length| {
        let length = *length as u64;
        (any | length, sum.wrapping_add(length))
    });
    if any <= u32::MAX.into() && sum == count as u64 {
        return Ok(());
    }
    let mut left = count as u64;
    for &length in lengths {
        in_range("rows of a repetition", offset, length as u64, left)?;
        left -= length as u64;
    }
    in_range("rows without a value", offset, left, 0)
}
