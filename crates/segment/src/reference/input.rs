//! Bytes that are read from front to back.

use crate::damage::Flaw;

/// What is left of some bytes.
#[derive(Debug, Clone)]
pub(super) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Flaw> {
        let (need, have) = (count as u64, self.rest.len() as u64);
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Flaw::Short { need, have })?;
        self.rest = rest;
        Ok(taken)
    }

    /// All bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub fn byte(&mut self) -> Result<u8, Flaw> {
        Ok(self.take(1)?[0])
    }

    /// A number of up to eight bytes, low ones first.
    pub fn number(&mut self, bytes: usize) -> Result<u64, Flaw> {
        Ok(little_endian(self.take(bytes)?))
    }

    /// Seven bits in each byte, low ones first; the highest bit: another byte follows.
    pub fn varint(&mut self) -> Result<u64, Flaw> {
        let mut value = 0u128;
        for place in 0..10 {
            let byte = self.byte()?;
            value |= u128::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return u64::try_from(value).map_err(|_| beyond("varint", u64::MAX, u64::MAX));
            }
        }
        Err(beyond("bytes of a varint", 10, 11))
    }

    pub fn signed_varint(&mut self) -> Result<i64, Flaw> {
        Ok(unzigzag(self.varint()?))
    }

    /// A varint of at most `most`.
    pub fn count(&mut self, what: &'static str, most: usize) -> Result<usize, Flaw> {
        let value = self.varint()?;
        at_most(what, most as u64, value)?;
        Ok(value as usize)
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<(), Flaw> {
        at_most("bytes after a column", 0, self.rest.len() as u64)
    }
}

pub(super) fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// 0, -1, 1, -2, 2, … of 0, 1, 2, 3, 4, …
pub(super) fn unzigzag(number: u64) -> i64 {
    let half = i128::from(number / 2);
    (if number.is_multiple_of(2) { half } else { -half - 1 }) as i64
}

pub(super) fn at_most(what: &'static str, most: u64, have: u64) -> Result<(), Flaw> {
    if have <= most { Ok(()) } else { Err(beyond(what, most, have)) }
}

pub(super) fn beyond(what: &'static str, need: u64, have: u64) -> Flaw {
    Flaw::Mismatch { what, need, have }
}
