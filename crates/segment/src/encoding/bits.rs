//! Columns of true and false: booleans, and which values are null.

use super::EncodingError;
use super::ints::{decode_ints, encode_ints};

/// Appends `values` to `out`.
pub fn encode_bits(values: &[bool], out: &mut Vec<u8>) {
    let ints: Vec<i64> = values.iter().map(|&value| i64::from(value)).collect();
    encode_ints(&ints, &[], super::Tier::Hot, out);
}

/// Replaces `out` by the `count` values that [`encode_bits`] wrote.
pub fn decode_bits(bytes: &[u8], count: usize, out: &mut Vec<bool>) -> Result<(), EncodingError> {
    let mut ints = Vec::new();
    decode_ints(bytes, count, &[], &mut ints)?;
    out.clear();
    out.extend(ints.iter().map(|&value| value != 0));
    Ok(())
}
