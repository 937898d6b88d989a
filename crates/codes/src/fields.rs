//! Writes and reads the texts and numbers behind a code.

use tapedb_engine::{ConnectionError, Error};
use tapedb_wire::Coded;

/// Nothing but a code.
pub(crate) fn coded(code: u16) -> Coded {
    Coded { code, ..Coded::default() }
}

/// Adds texts and numbers.
pub(crate) trait Fields: Sized {
    fn text(self, text: impl Into<String>) -> Self;
    fn texts<T: Into<String>>(self, texts: impl IntoIterator<Item = T>) -> Self;
    fn signed(self, number: i64) -> Self;

    /// The protocol's numbers are signed: unsigned ones are their bits.
    fn number(self, number: u64) -> Self {
        self.signed(number.cast_signed())
    }

    /// A number that may be missing: 1 and the number, or two zeros.
    fn maybe(self, number: Option<u64>) -> Self {
        self.number(number.is_some().into()).number(number.unwrap_or(0))
    }
}

impl Fields for Coded {
    fn text(mut self, text: impl Into<String>) -> Self {
        self.texts.push(text.into());
        self
    }

    fn texts<T: Into<String>>(mut self, texts: impl IntoIterator<Item = T>) -> Self {
        self.texts.extend(texts.into_iter().map(Into::into));
        self
    }

    fn signed(mut self, number: i64) -> Self {
        self.numbers.push(number);
        self
    }
}

/// Takes texts and numbers in order; `None` where there are no more.
pub(crate) struct Taker<'a> {
    texts: std::slice::Iter<'a, String>,
    numbers: std::slice::Iter<'a, i64>,
}

impl<'a> Taker<'a> {
    pub fn of(coded: &'a Coded) -> Self {
        Self { texts: coded.texts.iter(), numbers: coded.numbers.iter() }
    }

    pub fn text(&mut self) -> Option<String> {
        self.texts.next().cloned()
    }

    /// All texts that are left.
    pub fn texts(&mut self) -> Vec<String> {
        self.texts.by_ref().cloned().collect()
    }

    pub fn signed(&mut self) -> Option<i64> {
        self.numbers.next().copied()
    }

    pub fn number(&mut self) -> Option<u64> {
        self.signed().map(i64::cast_unsigned)
    }

    pub fn maybe(&mut self) -> Option<Option<u64>> {
        match (self.number()?, self.number()?) {
            (0, 0) => Some(None),
            (1, number) => Some(Some(number)),
            _ => None,
        }
    }

    /// Nothing may be left.
    pub fn end<T>(mut self, taken: T) -> Option<T> {
        (self.texts.next().is_none() && self.numbers.next().is_none()).then_some(taken)
    }
}

/// The error for a code that is not known, or that has other texts and numbers.
#[cold]
pub(crate) fn meaningless(what: &str, coded: &Coded) -> Error {
    let (texts, numbers) = (coded.texts.len(), coded.numbers.len());
    let what = format!("{what} {} with {texts} texts and {numbers} numbers means nothing", coded.code);
    Error::Connection(ConnectionError::Protocol { what })
}
