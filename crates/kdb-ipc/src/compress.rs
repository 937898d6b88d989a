//! What kdb+ does to long messages on their way to another host.
//!
//! A group is a byte of flags, the lowest first, and up to eight items. Flag 0: a byte as it is. Flag 1: two bytes, an
//! index and a length; the two bytes at the index and `length` more after them are repeated.
//! The index is the exclusive or of two neighbouring bytes; it names the place where such a pair was seen last. Both
//! sides note pairs in the same way: every pair that begins before the last byte, but none inside of what was copied
//! except its first.

use crate::error::KdbError;

/// Messages of so many bytes and less are not compressed.
pub const COMPRESS_BYTES_MIN: usize = 2000;

/// An item that copies has at most so many bytes: two, and the length.
const COPY_BYTES_MAX: usize = 2 + 255;

/// The whole message compressed; `None`, if it is short or would not become half as long. `message` is little-endian and
/// begins with its header.
pub fn compress(message: &[u8]) -> Option<Vec<u8>> {
    if message.len() <= COMPRESS_BYTES_MIN || message[0] != 1 {
        return None;
    }
    let mut out = Vec::with_capacity(message.len() / 2);
    out.extend_from_slice(&message[..8]);
    out[2] = 1;
    out.extend_from_slice(&(message.len() as u32).to_le_bytes());
    let mut from = Compressor { message, at: 8, places: [0; 256], literal: None };
    while from.at < message.len() {
        // A group has at most 17 bytes.
        if out.len() + 17 > message.len() / 2 {
            return None;
        }
        from.group(&mut out);
    }
    let len = (out.len() as u32).to_le_bytes();
    out[4..8].copy_from_slice(&len);
    Some(out)
}

struct Compressor<'a> {
    message: &'a [u8],
    at: usize,
    /// Where each pair was seen last; 0: nowhere.
    places: [usize; 256],
    /// The pair that begins with the literal before: recorded only after the next was looked up.
    literal: Option<(u8, usize)>,
}

impl Compressor<'_> {
    fn group(&mut self, out: &mut Vec<u8>) {
        let flags = out.len();
        out.push(0);
        for item in 0..8 {
            if self.at == self.message.len() {
                return;
            }
            out[flags] |= u8::from(self.item(out)) << item;
        }
    }

    /// Puts an item; returns whether it is a copy.
    fn item(&mut self, out: &mut Vec<u8>) -> bool {
        let at = self.at;
        let pair = (at + 3 <= self.message.len()).then(|| self.message[at] ^ self.message[at + 1]);
        let place = pair.map_or(0, |pair| self.places[usize::from(pair)]);
        if let Some((pair, at)) = self.literal.take() {
            self.places[usize::from(pair)] = at;
        }
        match pair {
            Some(pair) if place > 0 && self.message[place] == self.message[at] => {
                self.places[usize::from(pair)] = at;
                self.at += 2;
                let more = self.same(place + 2);
                self.at += more;
                out.extend_from_slice(&[pair, more as u8]);
                true
            }
            _ => {
                self.literal = pair.map(|pair| (pair, at));
                out.push(self.message[at]);
                self.at += 1;
                false
            }
        }
    }

    /// How many bytes from here on are the same as those from `place` on, at most 255.
    fn same(&self, place: usize) -> usize {
        let here = &self.message[self.at..];
        let there = &self.message[place..];
        here.iter().zip(there).take(255).take_while(|(here, there)| here == there).count()
    }
}

/// The payload of a compressed message. `payload` is what follows its header: the length of the whole message
/// once expanded, in `len`, has been taken from its front.
///
/// # Errors
/// [`KdbError::TooMuch`] for more than `bytes_max`, [`KdbError::Truncated`] and [`KdbError::Invalid`].
pub fn expand(payload: &[u8], len: usize, bytes_max: usize) -> Result<Vec<u8>, KdbError> {
    if len > bytes_max {
        let what = "bytes of a message after expansion";
        return Err(KdbError::TooMuch { what, count: len as u64, count_max: bytes_max as u64 });
    }
    let Some(len) = len.checked_sub(crate::HEADER_BYTES) else {
        return Err(KdbError::Invalid { offset: 0, what: "a message would be shorter than its header" });
    };
    // A flag and two bytes give at most so many.
    if len > payload.len().saturating_mul(COPY_BYTES_MAX) / 2 {
        return Err(KdbError::Invalid { offset: 0, what: "so few bytes cannot expand to so many" });
    }
    let mut expander =
        Expander { payload, at: 0, out: Vec::with_capacity(len), places: [None; 256], noted: 0 };
    expander.all(len)?;
    if expander.at == payload.len() {
        Ok(expander.out)
    } else {
        Err(KdbError::Invalid { offset: expander.at, what: "more follows than belongs to the message" })
    }
}

struct Expander<'a> {
    payload: &'a [u8],
    at: usize,
    out: Vec<u8>,
    places: [Option<u32>; 256],
    /// Pairs that begin before this are in `places`.
    noted: usize,
}

impl Expander<'_> {
    fn all(&mut self, len: usize) -> Result<(), KdbError> {
        while self.out.len() < len {
            let flags = self.byte()?;
            for item in 0..8 {
                if self.out.len() == len {
                    break;
                }
                if flags & 1 << item == 0 { self.literal()? } else { self.copy(len)? }
            }
        }
        Ok(())
    }

    fn literal(&mut self) -> Result<(), KdbError> {
        let byte = self.byte()?;
        self.out.push(byte);
        self.note();
        Ok(())
    }

    fn copy(&mut self, len: usize) -> Result<(), KdbError> {
        let offset = self.at;
        let pair = self.byte()?;
        let more = usize::from(self.byte()?);
        let what = "a copy from a place that was never seen";
        let place = self.places[usize::from(pair)].ok_or(KdbError::Invalid { offset, what })? as usize;
        if self.out.len() + 2 + more > len {
            return Err(KdbError::Invalid { offset, what: "a copy goes beyond the end of the message" });
        }
        self.repeat(place, 2);
        self.note();
        self.repeat(place + 2, more);
        self.noted = self.out.len();
        Ok(())
    }

    /// What is copied may overlap with where it goes.
    fn repeat(&mut self, place: usize, count: usize) {
        if place + count <= self.out.len() {
            self.out.extend_from_within(place..place + count);
        } else {
            (place..place + count).for_each(|from| self.out.push(self.out[from]));
        }
    }

    fn note(&mut self) {
        while self.noted + 1 < self.out.len() {
            let pair = self.out[self.noted] ^ self.out[self.noted + 1];
            self.places[usize::from(pair)] = Some(self.noted as u32);
            self.noted += 1;
        }
    }

    fn byte(&mut self) -> Result<u8, KdbError> {
        let byte = self.payload.get(self.at).copied();
        let byte = byte.ok_or(KdbError::Truncated { offset: self.at, need: 1, have: 0 })?;
        self.at += 1;
        Ok(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(payload: &[u8]) -> Vec<u8> {
        let mut message = vec![1, 0, 0, 0];
        message.extend_from_slice(&(payload.len() as u32 + 8).to_le_bytes());
        message.extend_from_slice(payload);
        message
    }

    fn back(compressed: &[u8]) -> Result<Vec<u8>, KdbError> {
        let len = u32::from_le_bytes(compressed[8..12].try_into().unwrap());
        expand(&compressed[12..], len as usize, 1 << 24)
    }

    proptest! {
        #[test]
        fn compressed_bytes_expand_to_the_same(
            pieces in prop::collection::vec((prop::collection::vec(0_u8..6, 1..9), 1_usize..300), 1..40),
        ) {
            let mut payload: Vec<u8> = pieces.iter().flat_map(|(piece, times)| piece.repeat(*times)).collect();
            payload.resize(payload.len().max(2000), 7);
            let message = framed(&payload);
            let compressed = compress(&message);
            prop_assume!(compressed.is_some());
            let compressed = compressed.unwrap();
            prop_assert!(compressed.len() <= message.len() / 2);
            prop_assert_eq!(compressed[4..8].to_vec(), (compressed.len() as u32).to_le_bytes().to_vec());
            prop_assert_eq!(back(&compressed).unwrap(), payload);
        }

        #[test]
        fn no_bytes_expand_beyond_what_they_claim(bytes in prop::collection::vec(any::<u8>(), 0..400), len in 0_usize..3000) {
            if let Ok(expanded) = expand(&bytes, len, 2000) {
                prop_assert_eq!(expanded.len() + 8, len);
            }
        }
    }

    #[test]
    fn noise_and_short_messages_stay_as_they_are() {
        let noise: Vec<u8> = (0_u32..4000).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert_eq!(compress(&framed(&noise)), None);
        assert_eq!(compress(&framed(&[0; 1992])), None);
        assert!(compress(&framed(&[0; 1993])).is_some());
    }

    #[test]
    fn bombs_and_cut_streams_are_refused() {
        let compressed = compress(&framed(&[5; 4000])).unwrap();
        assert_eq!(back(&compressed).unwrap(), [5; 4000]);
        for cut in 12..compressed.len() {
            assert!(back(&compressed[..cut]).is_err(), "cut at {cut}");
        }
        assert!(matches!(expand(&[0; 10], 1 << 30, 1 << 20), Err(KdbError::TooMuch { .. })));
        assert!(matches!(expand(&[0; 10], 1 << 19, 1 << 20), Err(KdbError::Invalid { .. })));
        assert!(matches!(expand(&[0; 10], 3, 1 << 20), Err(KdbError::Invalid { .. })));
        let unseen = [1, 77, 0];
        let never = KdbError::Invalid { offset: 1, what: "a copy from a place that was never seen" };
        assert_eq!(expand(&unseen, 10, 1 << 20), Err(never));
    }
}
