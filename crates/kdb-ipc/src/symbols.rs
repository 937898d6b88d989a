//! Symbols: names without zero bytes, alone and many together.

use std::borrow::Borrow;
use std::fmt;

/// A symbol. Its bytes are UTF-8 nearly always, but nothing makes sure of it; there is no zero byte among them.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Symbol(Box<[u8]>);

impl Symbol {
    /// The symbol of these bytes, up to the first zero byte, as q casts texts.
    pub fn new(bytes: &[u8]) -> Self {
        Self(before_zero(bytes).into())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its text; what is not UTF-8 shows as `\u{fffd}`.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl From<&str> for Symbol {
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes())
    }
}

impl Borrow<[u8]> for Symbol {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}", self.text())
    }
}

/// Symbols one after the other, each with its zero byte, as messages hold them.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Symbols {
    bytes: Vec<u8>,
    /// The end of each, after its zero byte.
    ends: Vec<u32>,
}

impl Symbols {
    /// No symbols.
    pub fn new() -> Self {
        Self::default()
    }

    /// No symbols, with capacity for `count` of about `bytes` each.
    pub fn with_capacity(count: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(count * (bytes + 1)), ends: Vec::with_capacity(count) }
    }

    /// Takes `count` symbols from the front of `bytes`; gives them and how many bytes they have. `None`: they do not end.
    pub(crate) fn take(bytes: &[u8], count: usize) -> Option<(Self, usize)> {
        let mut ends = Vec::with_capacity(count.min(bytes.len()));
        let mut end = 0;
        for _ in 0..count {
            end += bytes[end..].iter().position(|byte| *byte == 0)? + 1;
            ends.push(end as u32);
        }
        Some((Self { bytes: bytes[..end].to_vec(), ends }, end))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of the symbol at `index`, without the zero byte; `None` after the end.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)? as usize;
        let begin = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        Some(&self.bytes[begin..end - 1])
    }

    /// Adds one: its bytes up to the first zero byte.
    pub fn push(&mut self, symbol: &[u8]) {
        self.bytes.extend_from_slice(before_zero(symbol));
        self.bytes.push(0);
        self.ends.push(self.bytes.len() as u32);
    }

    /// All, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        let mut begin = 0;
        self.ends.iter().map(move |end| {
            let symbol = &self.bytes[begin..*end as usize - 1];
            begin = *end as usize;
            symbol
        })
    }

    /// All of them with their zero bytes, as messages hold them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for Symbols {
    fn from_iter<I: IntoIterator<Item = T>>(symbols: I) -> Self {
        let mut all = Self::new();
        symbols.into_iter().for_each(|symbol| all.push(symbol.as_ref()));
        all
    }
}

impl AsRef<[u8]> for Symbol {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|symbol| write!(f, "`{}", String::from_utf8_lossy(symbol)))
    }
}

fn before_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_end_at_zero_bytes() {
        assert_eq!(Symbol::new(b"a\0b"), Symbol::from("a"));
        let symbols: Symbols = ["", "MSFT", "a\0b"].into_iter().collect();
        assert_eq!(symbols.as_bytes(), b"\0MSFT\0a\0");
        assert_eq!(symbols.iter().collect::<Vec<_>>(), [&b""[..], b"MSFT", b"a"]);
        assert_eq!((symbols.get(1), symbols.get(3)), (Some(&b"MSFT"[..]), None));
        let (taken, bytes) = Symbols::take(b"\0MSFT\0a\0rest", 3).expect("three symbols");
        assert_eq!((taken, bytes), (symbols, 8));
        assert_eq!(Symbols::take(b"a\0b", 2), None);
    }
}
