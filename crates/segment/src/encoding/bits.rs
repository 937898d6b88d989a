//! Columns of true and false: booleans, and which values are null.
//!
//! A tag, then: nothing ([`NONE`], [`ALL`]), or a bit for each value, low bits first ([`BITMAP`]).

use super::bytes::{Reader, in_range};
use super::{COUNT_MAX, EncodingError};

const NONE: u8 = 0;
const ALL: u8 = 1;
const BITMAP: u8 = 2;

/// Appends `values` to `out`: one byte when all are the same, else a bit each.
///
/// # Panics
///
/// When there are more than [`COUNT_MAX`] values.
pub fn encode_bits(values: &[bool], out: &mut Vec<u8>) {
    assert!(values.len() <= COUNT_MAX, "a column of a block holds at most {COUNT_MAX} values");
    if !values.contains(&true) {
        return out.push(NONE);
    }
    if !values.contains(&false) {
        return out.push(ALL);
    }
    out.push(BITMAP);
    out.extend(
        values.chunks(8).map(|eight| eight.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit))),
    );
}

/// Replaces `out` by the `count` values that [`encode_bits`] wrote.
///
/// # Errors
///
/// When the bytes are not such a column. What `out` holds then is of no use.
pub fn decode_bits(bytes: &[u8], count: usize, out: &mut Vec<bool>) -> Result<(), EncodingError> {
    if count > COUNT_MAX {
        return Err(EncodingError::Shape { what: "values of a column", need: COUNT_MAX, have: count });
    }
    let mut reader = Reader::new(bytes);
    out.clear();
    match reader.byte()? {
        tag @ (NONE | ALL) => out.resize(count, tag == ALL),
        BITMAP => {
            let bitmap = reader.take(count.div_ceil(8))?;
            check_spare_bits(bitmap, count)?;
            out.extend(
                bitmap.iter().flat_map(|byte| [0, 1, 2, 3, 4, 5, 6, 7].map(|bit| byte >> bit & 1 == 1)),
            );
            out.truncate(count);
        }
        tag => return Err(EncodingError::UnknownTag { offset: 0, tag }),
    }
    reader.finish()
}

/// Bits of the last byte that belong to no value must be 0.
fn check_spare_bits(bitmap: &[u8], count: usize) -> Result<(), EncodingError> {
    match bitmap.last() {
        Some(&last) if !count.is_multiple_of(8) => {
            in_range("last byte", bitmap.len(), last.into(), (1 << (count % 8)) - 1)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_values_take_one_byte() {
        for value in [false, true] {
            let mut bytes = Vec::new();
            encode_bits(&[value; 1_000], &mut bytes);
            assert_eq!(bytes, [u8::from(value)]);
        }
    }

    proptest! {
        #[test]
        fn bits_come_back(values in prop::collection::vec(any::<bool>(), 0..100)) {
            let (mut bytes, mut out) = (Vec::new(), Vec::new());
            encode_bits(&values, &mut bytes);
            decode_bits(&bytes, values.len(), &mut out).unwrap();
            prop_assert_eq!(out, values);
        }

        #[test]
        fn any_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..20), count in 0usize..200) {
            let mut out = Vec::new();
            if decode_bits(&bytes, count, &mut out).is_ok() {
                prop_assert_eq!(out.len(), count);
            }
        }
    }
}
