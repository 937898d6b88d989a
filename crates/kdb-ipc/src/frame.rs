//! Messages: a header and a value.

use crate::encode::{ByteOrder, encode};
use crate::error::KdbError;
use crate::value::Value;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 8;

/// No message is longer: the capability that is spoken here ends there.
pub const MESSAGE_BYTES_MAX: usize = i32::MAX as usize;

/// What a message wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// No answer.
    Asynchronous = 0,
    /// An answer.
    Synchronous = 1,
    /// It is one.
    Response = 2,
}

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Of every number in the message.
    pub order: ByteOrder,
    /// What the message wants.
    pub kind: Kind,
    /// Whether what follows is compressed.
    pub is_compressed: bool,
    /// Bytes of the message as sent, with the header.
    pub len: usize,
}

impl Header {
    /// The header of these bytes.
    ///
    /// # Errors
    /// [`KdbError::Invalid`]
    pub fn parse(bytes: [u8; HEADER_BYTES]) -> Result<Self, KdbError> {
        let [order, kind, compressed, reserved, len @ ..] = bytes;
        let invalid = |offset, what| Err(KdbError::Invalid { offset, what });
        let order = match order {
            0 => ByteOrder::Big,
            1 => ByteOrder::Little,
            _ => return invalid(0, "the byte order of a message is neither 0 nor 1"),
        };
        let kind = match kind {
            0 => Kind::Asynchronous,
            1 => Kind::Synchronous,
            2 => Kind::Response,
            _ => return invalid(1, "a message is neither asynchronous nor synchronous nor a response"),
        };
        if compressed > 1 || reserved != 0 {
            return invalid(2, "a message is of a kind for 2 GB and more");
        }
        let len = order.u32(len) as usize;
        if len <= HEADER_BYTES {
            return invalid(4, "a message has no bytes after its header");
        }
        Ok(Self { order, kind, is_compressed: compressed == 1, len })
    }
}

/// The message that holds a value, little-endian and not compressed.
///
/// # Errors
/// [`KdbError::TooMuch`] beyond [`MESSAGE_BYTES_MAX`].
pub fn message(kind: Kind, value: &Value) -> Result<Vec<u8>, KdbError> {
    let mut out = Vec::new();
    let begin = begin_message(kind, &mut out);
    encode(value, ByteOrder::Little, &mut out);
    end_message(begin, &mut out)?;
    Ok(out)
}

/// Begins a message at the end of `out`; its value is what is put there until [`end_message`], which takes what is
/// returned.
pub fn begin_message(kind: Kind, out: &mut Vec<u8>) -> usize {
    let begin = out.len();
    out.extend_from_slice(&[1, kind as u8, 0, 0, 0, 0, 0, 0]);
    begin
}

/// Ends a message that was begun at `begin`.
///
/// # Errors
/// [`KdbError::TooMuch`] beyond [`MESSAGE_BYTES_MAX`]; the message is taken from `out` again.
pub fn end_message(begin: usize, out: &mut Vec<u8>) -> Result<(), KdbError> {
    let len = out.len() - begin;
    if len > MESSAGE_BYTES_MAX {
        out.truncate(begin);
        let count_max = MESSAGE_BYTES_MAX as u64;
        return Err(KdbError::TooMuch { what: "bytes of a message", count: len as u64, count_max });
    }
    out[begin + 4..begin + 8].copy_from_slice(&(len as u32).to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_a_header() {
        let bytes = message(Kind::Synchronous, &Value::from(7)).unwrap();
        assert_eq!(bytes, [1, 1, 0, 0, 17, 0, 0, 0, 0xf9, 7, 0, 0, 0, 0, 0, 0, 0]);
        let header = Header::parse(*bytes.first_chunk().unwrap()).unwrap();
        let expected =
            Header { order: ByteOrder::Little, kind: Kind::Synchronous, is_compressed: false, len: 17 };
        assert_eq!(header, expected);
    }

    #[test]
    fn headers_that_cannot_be_are_refused() {
        for bytes in [
            [2, 0, 0, 0, 9, 0, 0, 0],
            [1, 3, 0, 0, 9, 0, 0, 0],
            [1, 0, 2, 0, 9, 0, 0, 0],
            [1, 0, 0, 1, 9, 0, 0, 0],
            [1, 0, 0, 0, 8, 0, 0, 0],
        ] {
            assert!(matches!(Header::parse(bytes), Err(KdbError::Invalid { .. })), "{bytes:?}");
        }
        assert_eq!(Header::parse([0, 0, 0, 0, 0, 0, 0, 9]).map(|header| header.order), Ok(ByteOrder::Big));
    }
}
