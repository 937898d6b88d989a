//! Columns of integers.

use std::ops::Range;

use super::bytes::Reader;
use super::{EncodingError, Tier};

/// What was chosen for a column of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntEncoding {
    /// Eight bytes a value.
    Plain,
}

/// Appends `values` to `out` in the smallest encoding that `tier` allows. `u64` values go in as their bit pattern.
pub fn encode_ints(values: &[i64], runs: &[u32], tier: Tier, out: &mut Vec<u8>) -> IntEncoding {
    let _ = (runs, tier);
    out.push(1);
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    IntEncoding::Plain
}

/// Replaces `out` by the `count` values that [`encode_ints`] wrote with the same `runs`.
pub fn decode_ints(
    bytes: &[u8],
    count: usize,
    runs: &[u32],
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    decode_ints_in(bytes, count, runs, 0..count, out)
}

/// Replaces `out` by the values of `rows`, a part of the `count` values that [`encode_ints`] wrote with the same `runs`.
/// Costs what those rows cost where `rows` begins near the beginning of a run.
pub fn decode_ints_in(
    bytes: &[u8],
    count: usize,
    runs: &[u32],
    rows: Range<usize>,
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    let _ = runs;
    let mut reader = Reader::new(bytes);
    let tag = reader.byte()?;
    if tag != 1 {
        return Err(EncodingError::UnknownTag { offset: 0, tag });
    }
    let content = reader.take(8 * count)?;
    reader.finish()?;
    out.clear();
    let words = content.as_chunks::<8>().0;
    let words = words.get(rows.clone()).ok_or(EncodingError::Shape {
        what: "end of rows",
        need: count,
        have: rows.end,
    })?;
    out.extend(words.iter().map(|word| i64::from_le_bytes(*word)));
    Ok(())
}

/// [`encode_ints`] of `values` minus `reference`, row by row: for columns that follow another one, as high follows open
/// and ask follows bid. [`estimate_bits`] of the difference tells whether it pays.
///
/// # Panics
///
/// When the two do not have the same length.
pub fn encode_ints_against(
    values: &[i64],
    reference: &[i64],
    runs: &[u32],
    tier: Tier,
    out: &mut Vec<u8>,
) -> IntEncoding {
    assert_eq!(values.len(), reference.len(), "a column and its reference have the same rows");
    let difference: Vec<i64> = values.iter().zip(reference).map(|(a, b)| a.wrapping_sub(*b)).collect();
    encode_ints(&difference, runs, tier, out)
}

/// Replaces `out` by what [`encode_ints_against`] was given, from the same `reference`.
pub fn decode_ints_against(
    bytes: &[u8],
    reference: &[i64],
    runs: &[u32],
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    decode_ints(bytes, reference.len(), runs, out)?;
    for (value, reference) in out.iter_mut().zip(reference) {
        *value = value.wrapping_add(*reference);
    }
    Ok(())
}

/// Replaces `out` by each row's value one row before in its run; a run's first row keeps its own. A reference for
/// columns that begin where another one ended, as open follows the close before.
pub fn previous_in_run(values: &[i64], runs: &[u32], out: &mut Vec<i64>) {
    out.clear();
    out.extend(values.first());
    out.extend_from_slice(&values[..values.len().saturating_sub(1)]);
    for &end in runs {
        if let Some(first) = values.get(end as usize) {
            out[end as usize] = *first;
        }
    }
}

/// About how many bits [`encode_ints`] will need for `values` in the hot tier; looks at a sample.
pub fn estimate_bits(values: &[i64], runs: &[u32]) -> u64 {
    let _ = runs;
    64 * values.len() as u64
}
