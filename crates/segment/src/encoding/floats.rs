//! Columns of binary floating-point numbers, kept to the bit.

use super::ints::{decode_ints, encode_ints};
use super::{EncodingError, Tier};

/// What was chosen for a column of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatEncoding {
    /// The bit patterns as integers.
    Bits,
}

/// Appends `values` to `out`, every bit of them (signs of zero and contents of NaN too).
pub fn encode_f64s(values: &[f64], runs: &[u32], tier: Tier, out: &mut Vec<u8>) -> FloatEncoding {
    let bits: Vec<i64> = values.iter().map(|value| value.to_bits() as i64).collect();
    encode_ints(&bits, runs, tier, out);
    FloatEncoding::Bits
}

/// Replaces `out` by the `count` values that [`encode_f64s`] wrote with the same `runs`.
pub fn decode_f64s(
    bytes: &[u8],
    count: usize,
    runs: &[u32],
    out: &mut Vec<f64>,
) -> Result<(), EncodingError> {
    let mut bits = Vec::new();
    decode_ints(bytes, count, runs, &mut bits)?;
    out.clear();
    out.extend(bits.iter().map(|&bits| f64::from_bits(bits as u64)));
    Ok(())
}

/// [`encode_f64s`] for `f32`.
pub fn encode_f32s(values: &[f32], runs: &[u32], tier: Tier, out: &mut Vec<u8>) -> FloatEncoding {
    let bits: Vec<i64> = values.iter().map(|value| i64::from(value.to_bits())).collect();
    encode_ints(&bits, runs, tier, out);
    FloatEncoding::Bits
}

/// Replaces `out` by the `count` values that [`encode_f32s`] wrote with the same `runs`.
pub fn decode_f32s(
    bytes: &[u8],
    count: usize,
    runs: &[u32],
    out: &mut Vec<f32>,
) -> Result<(), EncodingError> {
    let mut bits = Vec::new();
    decode_ints(bytes, count, runs, &mut bits)?;
    out.clear();
    out.extend(bits.iter().map(|&bits| f32::from_bits(bits as u32)));
    Ok(())
}
