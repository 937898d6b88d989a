//! Errors, commands and outcomes as plain numbers and texts, which can be put into bytes.

use crate::error::Error;

/// Something as a code, texts and numbers. What they mean depends on the code; see [`Error::to_parts`],
/// [`Command::to_parts`](crate::Command::to_parts) and [`Outcome::to_parts`](crate::Outcome::to_parts).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// What it is.
    pub code: u16,
    /// Its texts, in an order that the code fixes.
    pub texts: Vec<String>,
    /// Its numbers, in an order that the code fixes; signed ones as their bits.
    pub numbers: Vec<u64>,
}

impl Parts {
    pub(crate) fn new(code: u16) -> Self {
        Self { code, ..Self::default() }
    }

    pub(crate) fn text(mut self, text: impl Into<String>) -> Self {
        self.texts.push(text.into());
        self
    }

    pub(crate) fn texts<T: Into<String>>(mut self, texts: impl IntoIterator<Item = T>) -> Self {
        self.texts.extend(texts.into_iter().map(Into::into));
        self
    }

    pub(crate) fn number(mut self, number: u64) -> Self {
        self.numbers.push(number);
        self
    }

    pub(crate) fn signed(self, number: i64) -> Self {
        self.number(number.cast_unsigned())
    }

    /// A number that may not be there: how many there are, then it.
    pub(crate) fn maybe(self, number: Option<u64>) -> Self {
        let there = self.number(number.is_some().into());
        there.number(number.unwrap_or(0))
    }

    pub(crate) fn taker(&self) -> Taker<'_> {
        Taker { texts: self.texts.iter(), numbers: self.numbers.iter() }
    }
}

/// Takes texts and numbers in order; `None` where there are no more.
pub(crate) struct Taker<'a> {
    texts: std::slice::Iter<'a, String>,
    numbers: std::slice::Iter<'a, u64>,
}

impl Taker<'_> {
    pub fn text(&mut self) -> Option<String> {
        self.texts.next().cloned()
    }

    /// All texts that are left.
    pub fn texts(&mut self) -> Vec<String> {
        self.texts.by_ref().cloned().collect()
    }

    pub fn number(&mut self) -> Option<u64> {
        self.numbers.next().copied()
    }

    pub fn signed(&mut self) -> Option<i64> {
        self.number().map(u64::cast_signed)
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

/// The error for parts that mean nothing.
#[cold]
pub(crate) fn meaningless(what: &str, parts: &Parts) -> Error {
    let (texts, numbers) = (parts.texts.len(), parts.numbers.len());
    let what = format!("{what} {} with {texts} texts and {numbers} numbers means nothing", parts.code);
    Error::Protocol { what }
}
