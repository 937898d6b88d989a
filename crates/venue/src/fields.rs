//! Fields of a line separated by commas.

use tapedb_schema::{Ascii, Decimal64};

/// Why a line is bad: what was expected at which byte (from 0).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadLine {
    pub(super) column: Option<usize>,
    pub(super) expected: String,
}

impl BadLine {
    #[cold]
    pub(super) fn new(column: usize, expected: impl Into<String>) -> Self {
        Self { column: Some(column), expected: expected.into() }
    }

    /// The line as a whole is bad.
    #[cold]
    pub(super) fn anywhere(expected: String) -> Self {
        Self { column: None, expected }
    }
}

/// Reads a line from left to right.
pub(super) struct Fields<'a> {
    line: &'a [u8],
    /// Where the next field begins; beyond the line's length when there is none.
    next: usize,
    /// Where the last one began.
    column: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { line, next: 0, column: 0 }
    }

    /// The bytes of the next field.
    #[inline]
    pub(super) fn text(&mut self, name: &str) -> Result<&'a [u8], BadLine> {
        let rest = self.line.get(self.next..).ok_or_else(|| missing(self.line.len(), name))?;
        let length = rest.iter().position(|&byte| byte == b',').unwrap_or(rest.len());
        self.column = self.next;
        self.next += length + 1;
        Ok(&rest[..length])
    }

    /// A whole number.
    #[inline]
    pub(super) fn integer(&mut self, name: &str) -> Result<i64, BadLine> {
        let text = self.text(name)?;
        integer(text).ok_or_else(|| self.bad(format_args!("{name} as a whole number")))
    }

    /// A finite decimal, as written.
    #[inline]
    pub(super) fn decimal(&mut self, name: &str) -> Result<Decimal64, BadLine> {
        let parsed = Decimal64::parse_bytes(self.text(name)?);
        parsed
            .ok()
            .filter(|number| number.is_finite())
            .ok_or_else(|| self.bad(format_args!("{name} as a decimal")))
    }

    /// A finite decimal, as written; `None` if the field is empty.
    pub(super) fn maybe_decimal(&mut self, name: &str) -> Result<Option<Decimal64>, BadLine> {
        if self.line.get(self.next).is_none_or(|byte| *byte == b',') && self.next <= self.line.len() {
            return self.text(name).map(|_| None);
        }
        self.decimal(name).map(Some)
    }

    /// A whole number as a decimal with this exponent.
    #[inline]
    pub(super) fn scaled(&mut self, name: &str, exponent: i32) -> Result<Decimal64, BadLine> {
        let number = self.integer(name)?;
        Decimal64::from_parts(number, exponent).map_err(|error| self.bad(format_args!("{name}: {error}")))
    }

    /// Up to eight ASCII characters; `None` if there are none.
    #[inline]
    pub(super) fn ascii(&mut self, name: &str) -> Result<Option<Ascii<8>>, BadLine> {
        let text = self.text(name)?;
        let mut padded = [0; 8];
        let fits = padded.get_mut(..text.len()).map(|place| place.copy_from_slice(text));
        let ascii = fits.filter(|()| !text.contains(&0)).and_then(|()| Ascii::from_bytes(padded).ok());
        let ascii = ascii.ok_or_else(|| self.bad(format_args!("{name} of at most 8 ASCII characters")))?;
        Ok((!text.is_empty()).then_some(ascii))
    }

    /// `0` or `1`.
    #[inline]
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, BadLine> {
        match self.text(name)? {
            b"0" => Ok(false),
            b"1" => Ok(true),
            _ => Err(self.bad(format_args!("{name} as 0 or 1"))),
        }
    }

    /// Checks that no field is left.
    #[inline]
    pub(super) fn end(&self) -> Result<(), BadLine> {
        if self.next > self.line.len() {
            return Ok(());
        }
        Err(BadLine::new(self.next, "the end of the line"))
    }

    /// An error at the last field read.
    #[cold]
    pub(super) fn bad(&self, expected: std::fmt::Arguments<'_>) -> BadLine {
        BadLine::new(self.column, expected.to_string())
    }
}

#[cold]
fn missing(column: usize, name: &str) -> BadLine {
    BadLine::new(column, format!("one more field: {name}"))
}

/// Digits only, at most eighteen.
#[inline]
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    let mut number = 0;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + i64::from(digit);
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_from_left_to_right() {
        let mut fields = Fields::new(b"12,4941,,Q,1,1.50");
        assert_eq!(fields.integer("time"), Ok(12));
        assert_eq!(fields.scaled("price", -4).unwrap().to_string(), "0.4941");
        assert_eq!(fields.ascii("none"), Ok(None));
        assert_eq!(fields.ascii("venue").unwrap().unwrap().as_str(), "Q");
        assert_eq!(fields.flag("flag"), Ok(true));
        assert_eq!(fields.decimal("price").unwrap().to_string(), "1.50");
        assert_eq!(fields.end(), Ok(()));
        assert_eq!(fields.text("size"), Err(BadLine::new(17, "one more field: size")));
    }

    #[test]
    fn values_that_do_not_fit_are_named() {
        let bad = |column, expected: &str| BadLine::new(column, expected);
        assert_eq!(Fields::new(b"-1").integer("time"), Err(bad(0, "time as a whole number")));
        assert_eq!(Fields::new(b"9999999999999999999").integer("n"), Err(bad(0, "n as a whole number")));
        assert_eq!(Fields::new(b"nan").decimal("price"), Err(bad(0, "price as a decimal")));
        assert_eq!(Fields::new(b"\xFF").ascii("venue"), Err(bad(0, "venue of at most 8 ASCII characters")));
        assert_eq!(Fields::new(b"123456789").ascii("v"), Err(bad(0, "v of at most 8 ASCII characters")));
        assert_eq!(Fields::new(b"2").flag("flag"), Err(bad(0, "flag as 0 or 1")));
        assert_eq!(Fields::new(b"").end(), Err(bad(0, "the end of the line")));
    }
}
