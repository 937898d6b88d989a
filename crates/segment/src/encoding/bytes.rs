//! Reading and writing the bytes of a column with every length checked.

use super::EncodingError;

/// A place in the bytes of a column.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn take(&mut self, need: usize) -> Result<&'a [u8], EncodingError> {
        let rest = &self.bytes[self.offset..];
        let taken = rest.get(..need).ok_or(EncodingError::Truncated {
            offset: self.offset,
            need,
            have: rest.len(),
        })?;
        self.offset += need;
        Ok(taken)
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.offset..];
        self.offset = self.bytes.len();
        rest
    }

    pub(super) fn byte(&mut self) -> Result<u8, EncodingError> {
        Ok(self.take(1)?[0])
    }

    /// A number of at most 64 bits, seven in a byte, low ones first.
    pub(super) fn varint(&mut self) -> Result<u64, EncodingError> {
        let offset = self.offset;
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && byte > 1 {
                return Err(EncodingError::OutOfRange { what: "varint", offset, value: part, max: 1 });
            }
            value |= part << shift;
            if byte < 0x80 {
                break;
            }
        }
        Ok(value)
    }

    pub(super) fn signed_varint(&mut self) -> Result<i64, EncodingError> {
        self.varint().map(unzigzag)
    }

    /// A varint of at most `max`.
    pub(super) fn bounded(&mut self, what: &'static str, max: usize) -> Result<usize, EncodingError> {
        let offset = self.offset;
        let value = self.varint()?;
        in_range(what, offset, value, max as u64)?;
        Ok(value as usize)
    }

    pub(super) fn finish(&self) -> Result<(), EncodingError> {
        match self.bytes.len() - self.offset {
            0 => Ok(()),
            have => Err(EncodingError::Trailing { offset: self.offset, have }),
        }
    }
}

/// Refuses a `value` above `max`.
pub(super) fn in_range(what: &'static str, offset: usize, value: u64, max: u64) -> Result<(), EncodingError> {
    if value <= max { Ok(()) } else { Err(EncodingError::OutOfRange { what, offset, value, max }) }
}

pub(super) fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn write_signed_varint(value: i64, out: &mut Vec<u8>) {
    write_varint(zigzag(value), out);
}

/// Small numbers of either sign as small unsigned ones.
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline(always)]
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Bytes needed to hold `value`: 0 to 8.
pub(super) fn byte_width(value: u64) -> usize {
    bit_width(value).div_ceil(8)
}

/// Bits needed to hold `value`: 0 to 64.
pub(super) fn bit_width(value: u64) -> usize {
    64 - value.leading_zeros() as usize
}

/// The lowest `width` bits, 0 to 64.
#[inline]
pub(super) fn low_bits(width: usize) -> u64 {
    u64::MAX.checked_shr(64 - width as u32).unwrap_or(0)
}

/// The number in the `width` bytes (up to eight, low ones first) from `at`; bytes that are not there are 0.
#[inline]
pub(super) fn read_le(bytes: &[u8], at: usize, width: usize) -> u64 {
    let word = match bytes.get(at..).and_then(<[u8]>::first_chunk) {
        Some(word) => u64::from_le_bytes(*word),
        None => bytes.iter().skip(at).rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    word & low_bits(8 * width)
}
