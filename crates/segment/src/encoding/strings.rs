//! Columns of byte strings.

use std::collections::HashMap;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use super::bytes::{Reader, in_range, write_varint};
use super::ints::{decode_ints, encode_ints};
use super::{COUNT_MAX, EncodingError, Tier};

/// What was chosen for a column of byte strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum StringEncoding {
    /// Lengths, then all bytes.
    Plain = 0,
    /// Distinct strings once, and indexes.
    Dictionary = 1,
}

impl StringEncoding {
    /// What encodes the strings of a column, from its first byte; `None` for an unknown tag or no bytes.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let tag = bytes.first()? & SCHEME;
        [Self::Plain, Self::Dictionary].into_iter().find(|&encoding| encoding as u8 == tag)
    }
}

const SCHEME: u8 = 0x0f;

/// How the bytes of the strings are compressed: the high half of the tag.
const STORED: u8 = 0x00;
const LZ4: u8 = 0x10;
const DEFLATE: u8 = 0x20;

/// A dictionary must leave out at least half of the strings.
const REPEATS_MIN: usize = 2;

/// Appends a column of byte strings to `out`. `ends` has the end of each value in `content`; it begins where the one
/// before ends, the first at 0.
///
/// # Panics
///
/// When there are more than [`COUNT_MAX`] values, or `ends` do not ascend within `content`.
pub fn encode_strings(ends: &[u32], content: &[u8], tier: Tier, out: &mut Vec<u8>) -> StringEncoding {
    let all: Vec<&[u8]> = strings(ends, content).collect();
    let Some((distinct, indexes)) = distinct_of(&all) else {
        encode_content(StringEncoding::Plain, &all, tier, out);
        return StringEncoding::Plain;
    };
    let start = out.len();
    let mut distinct_bytes = Vec::new();
    encode_content(StringEncoding::Dictionary, &distinct, tier, &mut distinct_bytes);
    out.push(distinct_bytes[0]);
    write_varint(distinct.len() as u64, out);
    write_varint(distinct_bytes.len() as u64 - 1, out);
    out.extend(&distinct_bytes[1..]);
    encode_ints(&indexes, &[], tier, out);
    debug_assert!(out.len() > start);
    StringEncoding::Dictionary
}

fn strings<'a>(ends: &'a [u32], content: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    ends.iter().zip(starts).map(|(&end, start)| &content[start as usize..end as usize])
}

/// Distinct strings in order of appearance, and the index of each row's.
fn distinct_of<'a>(all: &[&'a [u8]]) -> Option<(Vec<&'a [u8]>, Vec<i64>)> {
    let mut ids = HashMap::new();
    let mut distinct = Vec::new();
    let mut indexes = Vec::with_capacity(all.len());
    for &string in all {
        let id = *ids.entry(string).or_insert_with(|| {
            distinct.push(string);
            distinct.len() as i64 - 1
        });
        if distinct.len() * REPEATS_MIN > all.len() {
            return None;
        }
        indexes.push(id);
    }
    Some((distinct, indexes))
}

/// Appends the tag, the lengths and the bytes of `all`.
fn encode_content(scheme: StringEncoding, all: &[&[u8]], tier: Tier, out: &mut Vec<u8>) {
    let lengths: Vec<i64> = all.iter().map(|string| string.len() as i64).collect();
    let mut encoded = Vec::new();
    encode_ints(&lengths, &[], tier, &mut encoded);
    let (compression, content) = compress(all.concat(), tier);
    out.push(scheme as u8 | compression);
    write_varint(encoded.len() as u64, out);
    out.extend(encoded);
    out.extend(content);
}

/// The bytes as they are, unless compressed ones are at least a tenth smaller.
fn compress(content: Vec<u8>, tier: Tier) -> (u8, Vec<u8>) {
    let compressed = match tier {
        Tier::Hot => Some((LZ4, lz4_flex::block::compress(&content))),
        Tier::Cold => deflate(&content).map(|bytes| (DEFLATE, bytes)),
    };
    match compressed {
        Some((by, bytes)) if bytes.len() * 10 <= content.len() * 9 => (by, bytes),
        _ => (STORED, content),
    }
}

fn deflate(content: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(content).ok()?;
    encoder.finish().ok()
}

/// Replaces `ends` and `content` by the `count` values that [`encode_strings`] wrote. Values of more than `content_max`
/// bytes in all are refused before memory is taken for them.
///
/// # Errors
///
/// When the bytes are not such a column. What `ends` and `content` hold then is of no use.
pub fn decode_strings(
    bytes: &[u8],
    count: usize,
    content_max: usize,
    ends: &mut Vec<u32>,
    content: &mut Vec<u8>,
) -> Result<(), EncodingError> {
    if count > COUNT_MAX {
        return Err(EncodingError::Shape { what: "values of a column", need: COUNT_MAX, have: count });
    }
    let content_max = content_max.min(u32::MAX as usize);
    let mut reader = Reader::new(bytes);
    let tag = reader.byte()?;
    match StringEncoding::of(bytes) {
        Some(StringEncoding::Plain) => decode_content(reader, tag, count, content_max, ends, content),
        Some(StringEncoding::Dictionary) => decode_dictionary(reader, tag, count, content_max, ends, content),
        None => Err(EncodingError::UnknownTag { offset: 0, tag }),
    }
}

/// Decodes what [`encode_content`] wrote after the tag; it takes all that `reader` has.
fn decode_content(
    mut reader: Reader,
    tag: u8,
    count: usize,
    content_max: usize,
    ends: &mut Vec<u32>,
    content: &mut Vec<u8>,
) -> Result<(), EncodingError> {
    let size = reader.varint()? as usize;
    let offset = reader.offset();
    let mut lengths = Vec::new();
    decode_ints(reader.take(size)?, count, &[], &mut lengths).map_err(|error| error.shifted(offset))?;
    ends.clear();
    let mut end = 0;
    for length in lengths {
        in_range("length", offset, length as u64, (content_max - end) as u64)?;
        end += length as usize;
        ends.push(end as u32);
    }
    decompress(&mut reader, tag & !SCHEME, end, content)
}

fn decompress(reader: &mut Reader, by: u8, size: usize, content: &mut Vec<u8>) -> Result<(), EncodingError> {
    let offset = reader.offset();
    content.clear();
    if by == STORED {
        content.extend(reader.take(size)?);
        return reader.finish();
    }
    let bytes = reader.rest();
    let (name, whole) = match by {
        LZ4 => {
            content.resize(size, 0);
            ("lz4", lz4_flex::block::decompress_into(bytes, content).is_ok_and(|read| read == size))
        }
        DEFLATE => ("deflate", inflate(bytes, size, content)),
        tag => return Err(EncodingError::UnknownTag { offset: 0, tag }),
    };
    if whole { Ok(()) } else { Err(EncodingError::Compressed { by: name, offset, have: bytes.len() }) }
}

/// Whether `bytes` hold exactly `size` bytes.
fn inflate(bytes: &[u8], size: usize, content: &mut Vec<u8>) -> bool {
    let mut limited = DeflateDecoder::new(bytes).take(size as u64 + 1);
    limited.read_to_end(content).is_ok_and(|read| read == size)
}

fn decode_dictionary(
    mut reader: Reader,
    tag: u8,
    count: usize,
    content_max: usize,
    ends: &mut Vec<u32>,
    content: &mut Vec<u8>,
) -> Result<(), EncodingError> {
    let distinct = reader.bounded("distinct strings", count)?;
    let size = reader.varint()? as usize;
    let offset = reader.offset();
    let (mut distinct_ends, mut distinct_content) = (Vec::new(), Vec::new());
    let inner = Reader::new(reader.take(size)?);
    decode_content(inner, tag, distinct, content_max, &mut distinct_ends, &mut distinct_content)
        .map_err(|error| error.shifted(offset))?;
    let offset = reader.offset();
    let mut indexes = Vec::new();
    decode_ints(reader.rest(), count, &[], &mut indexes).map_err(|error| error.shifted(offset))?;
    let values: Vec<&[u8]> = strings(&distinct_ends, &distinct_content).collect();
    ends.clear();
    content.clear();
    for index in indexes {
        // Where nothing is distinct, no index is in range.
        let Some(value) = usize::try_from(index).ok().and_then(|index| values.get(index).copied()) else {
            let max = (distinct as u64).saturating_sub(1);
            return Err(EncodingError::OutOfRange { what: "index", offset, value: index as u64, max });
        };
        in_range("length", offset, value.len() as u64, (content_max - content.len()) as u64)?;
        content.extend(value);
        ends.push(content.len() as u32);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn column(values: &[Vec<u8>]) -> (Vec<u32>, Vec<u8>) {
        let ends = values.iter().scan(0, |end, value| {
            *end += value.len() as u32;
            Some(*end)
        });
        (ends.collect(), values.concat())
    }

    fn encode(values: &[Vec<u8>], tier: Tier) -> (StringEncoding, Vec<u8>) {
        let (ends, content) = column(values);
        let mut bytes = Vec::new();
        let encoding = encode_strings(&ends, &content, tier, &mut bytes);
        (encoding, bytes)
    }

    fn check(values: &[Vec<u8>], tier: Tier) -> (StringEncoding, Vec<u8>) {
        let (encoding, bytes) = encode(values, tier);
        let (mut ends, mut content) = (Vec::new(), Vec::new());
        decode_strings(&bytes, values.len(), 1 << 20, &mut ends, &mut content).unwrap();
        assert_eq!((ends, content), column(values));
        (encoding, bytes)
    }

    #[test]
    fn repeated_strings_go_into_a_dictionary() {
        let values: Vec<_> = (0..1_000).map(|i| format!("venue {}", i % 7).into_bytes()).collect();
        let (encoding, bytes) = check(&values, Tier::Hot);
        assert_eq!(encoding, StringEncoding::Dictionary);
        assert!(bytes.len() < 500, "{}", bytes.len());
    }

    #[test]
    fn both_compressors_are_used_where_they_pay() {
        let values: Vec<_> = (0..1_000).map(|i| format!("a text with a number: {i}").into_bytes()).collect();
        for (tier, by) in [(Tier::Hot, LZ4), (Tier::Cold, DEFLATE)] {
            let (encoding, bytes) = check(&values, tier);
            assert_eq!((encoding, bytes[0] & !SCHEME), (StringEncoding::Plain, by));
        }
    }

    #[test]
    fn more_content_than_allowed_is_refused() {
        let (_, bytes) = encode(&vec![vec![b'x'; 1_000]; 100], Tier::Hot);
        let refused = decode_strings(&bytes, 100, 99_999, &mut Vec::new(), &mut Vec::new());
        assert!(matches!(refused, Err(EncodingError::OutOfRange { what: "length", .. })), "{refused:?}");
    }

    #[test]
    fn an_index_into_no_strings_is_refused() {
        let mut bytes = vec![StringEncoding::Dictionary as u8, 0, 3];
        // No distinct strings: lengths of none, and nothing else; then three indexes that are 0.
        bytes.extend([2, 0, 0]);
        bytes.extend([0, 0]);
        let refused = decode_strings(&bytes, 3, 100, &mut Vec::new(), &mut Vec::new());
        assert!(matches!(refused, Err(EncodingError::OutOfRange { what: "index", .. })), "{refused:?}");
    }

    fn any_strings() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let short = prop::collection::vec(0u8..3, 0..3);
        let long = prop::collection::vec(any::<u8>(), 0..40);
        prop_oneof![prop::collection::vec(short, 0..200), prop::collection::vec(long, 0..200)]
    }

    proptest! {
        #[test]
        fn strings_come_back(values in any_strings(), cold in any::<bool>()) {
            check(&values, if cold { Tier::Cold } else { Tier::Hot });
        }

        #[test]
        fn damaged_columns_do_not_panic(
            values in any_strings(),
            cold in any::<bool>(),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let (_, mut bytes) = encode(&values, if cold { Tier::Cold } else { Tier::Hot });
            let (mut ends, mut content) = (Vec::new(), Vec::new());
            prop_assert!(decode_strings(&bytes[..cut.index(bytes.len())], values.len(), 1 << 20, &mut ends, &mut content).is_err());
            for (at, byte) in flips {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if decode_strings(&bytes, values.len(), 1 << 20, &mut ends, &mut content).is_ok() {
                prop_assert_eq!(ends.len(), values.len());
                prop_assert!(content.len() <= 1 << 20);
            }
        }
    }
}
