//! Short fixed-size texts: `ascii(n)`.

use std::fmt;
use std::str::FromStr;

use crate::MAX_ASCII;

/// Up to `N` bytes of ASCII, `N` 1 to 16, padded with zero bytes and without zero bytes inside.
///
/// Values order as their texts do.
///
/// ```
/// use tapedb_schema::Ascii;
/// let venue = Ascii::<8>::new("XNAS")?;
/// assert_eq!(venue.as_str(), "XNAS");
/// assert_eq!(venue.as_bytes(), b"XNAS\0\0\0\0");
/// # Ok::<(), tapedb_schema::AsciiError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Ascii<const N: usize>([u8; N]);

/// Why a text is not an [`Ascii`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AsciiError {
    /// The text is longer than the field.
    TooLong {
        /// Bytes of the text.
        need: usize,
        /// Bytes of the field.
        have: usize,
    },
    /// A byte is not ASCII, or is a zero byte that is not padding.
    Byte {
        /// Offset of the byte.
        at: usize,
        /// The byte.
        byte: u8,
    },
}

impl fmt::Display for AsciiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooLong { need, have } => write!(f, "text has {need} bytes, ascii({have}) holds {have}"),
            Self::Byte { at, byte: 0 } => {
                write!(f, "zero byte at offset {at} is inside the text, not padding")
            }
            Self::Byte { at, byte } => write!(f, "byte {byte:#04x} at offset {at} is not ASCII"),
        }
    }
}

impl std::error::Error for AsciiError {}

impl<const N: usize> Ascii<N> {
    const SIZE: usize = {
        assert!(N >= 1 && N <= MAX_ASCII as usize, "the size of ascii(n) is 1 to 16");
        N
    };

    /// The text, padded.
    ///
    /// # Errors
    /// [`AsciiError::TooLong`] or [`AsciiError::Byte`].
    pub fn new(text: &str) -> Result<Self, AsciiError> {
        let bytes = text.as_bytes();
        if let Some(at) = bytes.iter().position(|&byte| byte == 0 || !byte.is_ascii()) {
            return Err(AsciiError::Byte { at, byte: bytes[at] });
        }
        let mut padded = [0; N];
        let too_long = AsciiError::TooLong { need: bytes.len(), have: Self::SIZE };
        padded.get_mut(..bytes.len()).ok_or(too_long)?.copy_from_slice(bytes);
        Ok(Self(padded))
    }

    /// The value of padded bytes, as in a row.
    ///
    /// # Errors
    /// [`AsciiError::Byte`] if they are not valid.
    #[inline]
    pub fn from_bytes(bytes: [u8; N]) -> Result<Self, AsciiError> {
        let mut padded = [0; MAX_ASCII as usize];
        padded[..N].copy_from_slice(&bytes);
        let words = u128::from_le_bytes(padded);
        let (low, high) = (words as u64, (words >> 64) as u64);
        if N <= 8 {
            return if is_valid_word(low) { Ok(Self(bytes)) } else { Err(first_wrong(&bytes)) };
        }
        // Text in the high word needs a low word full of it.
        let full = low.wrapping_add(HIGH - (HIGH >> 7)) & HIGH == HIGH;
        if is_valid_word(low) && (high == 0 || (full && is_valid_word(high))) {
            Ok(Self(bytes))
        } else {
            Err(first_wrong(&bytes))
        }
    }

    /// The value of bytes that are known to be valid: written by [`Ascii::as_bytes`], or tested before.
    ///
    /// Other bytes make a value whose text may be empty or cut short; nothing worse.
    #[inline]
    pub const fn from_valid_bytes(bytes: [u8; N]) -> Self {
        Self(bytes)
    }

    /// The same text in the longest type.
    #[inline]
    pub fn widened(self) -> Ascii<{ MAX_ASCII as usize }> {
        let mut wide = [0; MAX_ASCII as usize];
        wide[..N].copy_from_slice(&self.0);
        Ascii(wide)
    }

    /// All bytes with their padding.
    #[inline]
    pub const fn as_bytes(&self) -> &[u8; N] {
        &self.0
    }

    /// The text without padding.
    #[inline]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0[..self.len()]).unwrap_or_default()
    }

    /// Bytes of the text without padding.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.iter().position(|&byte| byte == 0).unwrap_or(Self::SIZE)
    }

    /// Whether the text is empty.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    /// As [`is_valid_ascii`].
    #[inline]
    pub fn is_valid_bytes(bytes: &[u8]) -> bool {
        is_valid_ascii(bytes)
    }
}

/// Whether these bytes are ASCII, with zero bytes at the end only.
#[inline]
pub fn is_valid_ascii(bytes: &[u8]) -> bool {
    if let Ok(eight) = <[u8; 8]>::try_from(bytes) {
        return is_valid_word(u64::from_le_bytes(eight));
    }
    let mut wrong = 0;
    let mut ended = false;
    for &byte in bytes {
        wrong |= byte & 0x80 | if ended { byte } else { 0 };
        ended |= byte == 0;
    }
    wrong == 0
}

/// The high bit of each byte.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// [`is_valid_ascii`] of eight bytes at once, first byte lowest.
#[inline]
const fn is_valid_word(word: u64) -> bool {
    // For bytes below 0x80: the high bit of each byte that is not zero; no carry leaves a byte.
    let text = word.wrapping_add(HIGH - (HIGH >> 7)) & HIGH;
    // All bits of those bytes. They are one run from the lowest byte on if adding one carries through all of them.
    let run = text | (text - (text >> 7));
    word & HIGH == 0 && run & run.wrapping_add(1) == 0
}

impl<const N: usize> Default for Ascii<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> FromStr for Ascii<N> {
    type Err = AsciiError;

    fn from_str(text: &str) -> Result<Self, AsciiError> {
        Self::new(text)
    }
}

impl<const N: usize> AsRef<str> for Ascii<N> {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl<const N: usize> fmt::Display for Ascii<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<const N: usize> fmt::Debug for Ascii<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Names the byte that [`is_valid_ascii`] refused.
#[cold]
fn first_wrong(bytes: &[u8]) -> AsciiError {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    match bytes[..end].iter().position(|byte| !byte.is_ascii()) {
        Some(at) => AsciiError::Byte { at, byte: bytes[at] },
        None => AsciiError::Byte { at: end, byte: 0 },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_word_at_a_time_agrees_with_byte_by_byte() {
        let bytes = [0u8, 1, b'A', 0x7f, 0x80, 0xff];
        let slow = |word: &[u8]| {
            let text = word.iter().position(|&byte| byte == 0).unwrap_or(word.len());
            word[..text].is_ascii() && word[text..].iter().all(|&byte| byte == 0)
        };
        for choice in 0..6u32.pow(8) {
            let word: [u8; 8] = std::array::from_fn(|i| bytes[(choice / 6u32.pow(i as u32) % 6) as usize]);
            assert_eq!(is_valid_ascii(&word), slow(&word), "{word:?}");
        }
    }

    #[test]
    fn sixteen_bytes_agree_with_byte_by_byte() {
        for choice in 0..3u32.pow(16).min(200_000) {
            let choice = u64::from(choice) * 211;
            let bytes: [u8; 16] =
                std::array::from_fn(|i| [0, b'A', 0x80][(choice / 3u64.pow(i as u32) % 3) as usize]);
            assert_eq!(Ascii::from_bytes(bytes).is_ok(), is_valid_ascii(&bytes), "{bytes:?}");
        }
        for text in ["", "ABCDEFG", "ABCDEFGH", "ABCDEFGHI", "ABCDEFGHIJKLMNOP"] {
            let text = Ascii::<16>::new(text).unwrap();
            assert_eq!(Ascii::from_bytes(*text.as_bytes()), Ok(text));
        }
    }

    #[test]
    fn holds_short_texts() {
        let text = Ascii::<4>::new("ABCD").unwrap();
        assert_eq!((text.as_str(), text.len(), text.is_empty()), ("ABCD", 4, false));
        assert!(Ascii::<4>::default().is_empty());
        assert_eq!(format!("{:>6}|{:?}", Ascii::<4>::new("AB").unwrap(), text), "    AB|\"ABCD\"");
        assert!(Ascii::<4>::new("AB").unwrap() < Ascii::new("ABA").unwrap());
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert_eq!(Ascii::<2>::new("ABC"), Err(AsciiError::TooLong { need: 3, have: 2 }));
        assert_eq!(Ascii::<4>::new("Aü"), Err(AsciiError::Byte { at: 1, byte: 0xC3 }));
        assert_eq!(Ascii::<4>::new("A\0"), Err(AsciiError::Byte { at: 1, byte: 0 }));
        assert_eq!(Ascii::from_bytes(*b"A\0B\0"), Err(AsciiError::Byte { at: 1, byte: 0 }));
        assert_eq!(Ascii::from_bytes([b'A', 0x80, 0, 1]), Err(AsciiError::Byte { at: 1, byte: 0x80 }));
        assert_eq!(Ascii::from_bytes([0, 0]), Ok(Ascii::default()));
    }

    proptest! {
        #[test]
        fn valid_bytes_are_exactly_the_texts(bytes in prop::array::uniform5(prop_oneof![Just(0), any::<u8>(), 32..127u8])) {
            prop_assert_eq!(Ascii::from_bytes(bytes).is_ok(), Ascii::<5>::is_valid_bytes(&bytes));
            if let Ok(text) = Ascii::from_bytes(bytes) {
                prop_assert_eq!(Ascii::new(text.as_str()), Ok(text));
            }
        }
    }
}
