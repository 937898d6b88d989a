//! Names and texts as they are written, with their escapes.

use std::borrow::Cow;
use std::fmt;

/// A name or a text as it is written. Equal raw bytes mean equal texts; the same text can be written in several ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'a> {
    raw: &'a [u8],
    has_escapes: bool,
    is_quoted: bool,
}

impl<'a> Text<'a> {
    pub(crate) fn new(raw: &'a [u8], has_escapes: bool, is_quoted: bool) -> Self {
        Self { raw, has_escapes, is_quoted }
    }

    /// A text without escapes.
    pub fn plain(raw: &'a [u8]) -> Self {
        Self::new(raw, false, false)
    }

    /// The bytes as they are written, without quotes.
    #[inline]
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Whether the bytes as they are written are not the text.
    #[inline]
    pub fn has_escapes(&self) -> bool {
        self.has_escapes
    }

    /// Appends the bytes of the text. They may not be UTF-8.
    ///
    /// A backslash before a character that it can escape is left out; before another one it is a character like others.
    #[inline]
    pub fn write_to(&self, out: &mut Vec<u8>) {
        if self.has_escapes { self.unescape(out) } else { out.extend_from_slice(self.raw) }
    }

    fn unescape(&self, out: &mut Vec<u8>) {
        let mut rest = self.raw;
        while let Some(at) = memchr::memchr(b'\\', rest) {
            out.extend_from_slice(&rest[..at]);
            match rest.get(at + 1) {
                Some(&next) => {
                    if !is_escapable(next, self.is_quoted) {
                        out.push(b'\\');
                    }
                    out.push(next);
                    rest = &rest[at + 2..];
                }
                None => {
                    out.push(b'\\');
                    rest = &[];
                }
            }
        }
        out.extend_from_slice(rest);
    }

    /// The bytes of the text.
    pub fn bytes(&self) -> Cow<'a, [u8]> {
        if !self.has_escapes {
            return Cow::Borrowed(self.raw);
        }
        let mut bytes = Vec::with_capacity(self.raw.len());
        self.unescape(&mut bytes);
        Cow::Owned(bytes)
    }
}

/// Whether a backslash before this byte is left out.
fn is_escapable(byte: u8, is_quoted: bool) -> bool {
    match byte {
        b'\\' | b'"' | b'\n' | b'\r' => true,
        b',' | b'=' | b' ' => !is_quoted,
        _ => false,
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backslashes_escape_what_they_can() {
        let text = |raw: &'static str, is_quoted| Text::new(raw.as_bytes(), true, is_quoted).to_string();
        assert_eq!(text(r#"a\ b\,c\=d\\e\"f"#, false), r#"a b,c=d\e"f"#);
        assert_eq!(text(r"a\nb\", false), r"a\nb\");
        assert_eq!(text(r#"a\ b\\c\"d"#, true), r#"a\ b\c"d"#);
        assert_eq!(text("a\\\nb", true), "a\nb");
    }
}
