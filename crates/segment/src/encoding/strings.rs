//! Columns of byte strings.

use super::bytes::{Reader, in_range, write_varint};
use super::ints::{decode_ints, encode_ints};
use super::{EncodingError, Tier};

/// What was chosen for a column of byte strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringEncoding {
    /// Lengths, then all bytes.
    Plain,
}

/// Appends a column of byte strings to `out`. `ends` says where in `content` each value ends; it begins where the one
/// before ends, the first at 0.
pub fn encode_strings(ends: &[u32], content: &[u8], tier: Tier, out: &mut Vec<u8>) -> StringEncoding {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let lengths: Vec<i64> = ends.iter().zip(starts).map(|(end, start)| i64::from(end - start)).collect();
    let mut encoded = Vec::new();
    encode_ints(&lengths, &[], tier, &mut encoded);
    write_varint(encoded.len() as u64, out);
    out.extend(encoded);
    out.extend(content);
    StringEncoding::Plain
}

/// Replaces `ends` and `content` by the `count` values that [`encode_strings`] wrote. Values of more than `content_max`
/// bytes in all are refused before memory is taken for them.
pub fn decode_strings(
    bytes: &[u8],
    count: usize,
    content_max: usize,
    ends: &mut Vec<u32>,
    content: &mut Vec<u8>,
) -> Result<(), EncodingError> {
    let mut reader = Reader::new(bytes);
    let size = reader.bounded("bytes of lengths", bytes.len())?;
    let mut lengths = Vec::new();
    decode_ints(reader.take(size)?, count, &[], &mut lengths)?;
    ends.clear();
    let mut end = 0u64;
    for length in lengths {
        in_range("length", 0, length as u64, content_max as u64 - end)?;
        end += length as u64;
        ends.push(end as u32);
    }
    content.clear();
    content.extend(reader.take(end as usize)?);
    reader.finish()
}
