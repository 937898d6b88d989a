//! One value in a file: `ff 01`, then the value as a message would hold it.

use super::{FLAT, refuse};
use crate::decode::{Limits, decode};
use crate::elements::Elements;
use crate::encode::{ByteOrder, encode};
use crate::error::KdbError;
use crate::kind::Type;
use crate::symbols::Symbols;
use crate::value::{Value, Vector};

/// Where the symbols of a vector begin.
const SYMBOLS_AT: usize = 8;

/// The value of a file.
///
/// # Errors
/// [`KdbError`]; offsets count from the beginning of the file.
pub fn read(bytes: &[u8], limits: &Limits) -> Result<Value, KdbError> {
    let payload = bytes.strip_prefix(&FLAT).ok_or_else(|| refuse(bytes))?;
    decode(payload, ByteOrder::Little, limits).map_err(|error| further(error, FLAT.len()))
}

/// The file of a value.
pub fn write(value: &Value) -> Vec<u8> {
    let mut out = FLAT.to_vec();
    encode(value, ByteOrder::Little, &mut out);
    out
}

/// The symbols of a `sym` or `.d` file. All of them: what was added after the file was written is not in the count that
/// it begins with.
///
/// # Errors
/// [`KdbError`], also for a last symbol without an end.
pub fn read_symbols(bytes: &[u8]) -> Result<Symbols, KdbError> {
    let symbols = match bytes {
        [0xff, 0x01, code, ..] if *code == Type::Symbol.code() => bytes.get(SYMBOLS_AT..),
        [0xff, 0x01, ..] => return Err(KdbError::Invalid { offset: 2, what: "the file holds no symbols" }),
        _ => return Err(refuse(bytes)),
    };
    let truncated = |offset| KdbError::Truncated { offset, need: 1, have: 0 };
    let symbols = symbols.ok_or(truncated(bytes.len()))?;
    let count = symbols.iter().filter(|byte| **byte == 0).count();
    match Symbols::take(symbols, count) {
        Some((all, len)) if len == symbols.len() => Ok(all),
        _ => Err(truncated(bytes.len())),
    }
}

/// The file of symbols, as `sym` and `.d` are.
pub fn write_symbols(symbols: Symbols) -> Vec<u8> {
    write(&Value::Vector(Vector { attribute: Default::default(), elements: Elements::Symbol(symbols) }))
}

/// The same error with its place counted from further in front.
pub(super) fn further(error: KdbError, by: usize) -> KdbError {
    match error {
        KdbError::Truncated { offset, need, have } => KdbError::Truncated { offset: offset + by, need, have },
        KdbError::Invalid { offset, what } => KdbError::Invalid { offset: offset + by, what },
        KdbError::UnknownType { offset, code } => KdbError::UnknownType { offset: offset + by, code },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let value = Value::from(vec![1, 2, 3]);
        assert_eq!(read(&write(&value), &Limits::default()), Ok(value));
        assert!(matches!(read(b"kxzipped...", &Limits::default()), Err(KdbError::Unreadable { .. })));
        let cut = read(&[0xff, 1, 7, 0, 1, 0, 0, 0], &Limits::default());
        assert_eq!(cut, Err(KdbError::Truncated { offset: 8, need: 8, have: 0 }));
    }

    #[test]
    fn symbols_behind_the_count_are_read() {
        let symbols: Symbols = ["a", "", "bc"].into_iter().collect();
        let mut bytes = write_symbols(symbols.clone());
        assert_eq!(read_symbols(&bytes), Ok(symbols));
        bytes.extend(b"later\0");
        assert_eq!(read_symbols(&bytes).unwrap().get(3), Some(&b"later"[..]));
        bytes.extend(b"cut");
        assert_eq!(read_symbols(&bytes), Err(KdbError::Truncated { offset: 23, need: 1, have: 0 }));
        assert!(read_symbols(&[0xff, 1, 7, 0]).is_err());
        assert!(read_symbols(&[0xff, 1, 11, 0]).is_err());
    }
}
