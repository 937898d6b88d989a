//! A book of texts, over which venues compute checksums: over digits as they were sent.
//!
//! Always true: the book is what the venue's was after the last change, if `state` is `Whole`; checks are made only then.

use super::by_symbol::BySymbol;
use super::messages::{Messages, is_zero};
use super::scalar::Scalar;
use crate::fields::BadLine;
use flate2::Crc;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use tapedb_market::{Gap, GapCause, Side};
use tapedb_schema::{Decimal64, Timestamp};

/// Most levels of all books of a connection: 250 MB. Less in tests, which try it.
pub(crate) const LEVELS_MAX: usize = if cfg!(test) { 1 << 12 } else { 1 << 21 };

/// A price as a key, by number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Price(pub(crate) Decimal64);

impl Ord for Price {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.numeric_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Price {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Price {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Price {}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum State {
    /// There was no snapshot yet.
    #[default]
    None,
    Whole,
    /// A check failed: nothing can be verified until the next snapshot.
    Broken,
}

/// Decimals of prices and sizes: the most that a venue has shown.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Decimals {
    price: usize,
    size: usize,
}

impl Decimals {
    /// Takes note of a price and a size, without exponents.
    pub(crate) fn note(&mut self, price: &str, size: &str) {
        self.price = self.price.max(decimals(price));
        self.size = self.size.max(decimals(size));
    }
}

impl Decimals {
    /// Adds digits of price and size without point and leading zeros, each with all decimals (Kraken).
    pub(crate) fn digest(self, price: &str, size: &str, crc: &mut Crc) {
        for (text, least) in [(price, self.price), (size, self.size)] {
            let zeros = least.saturating_sub(decimals(text));
            let digits = text.chars().filter(char::is_ascii_digit);
            let digits: String = digits.chain(std::iter::repeat_n('0', zeros)).collect();
            crc.update(digits.trim_start_matches('0').as_bytes());
        }
    }
}

fn decimals(number: &str) -> usize {
    number.split_once('.').map_or(0, |(_, fraction)| fraction.len())
}

/// Whether a book is the venue's.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    state: State,
    /// When the last check passed.
    good: Option<Timestamp>,
}

impl Checks {
    /// Of a book that is a snapshot.
    pub(crate) fn of_snapshot() -> Self {
        Self { state: State::Whole, good: None }
    }

    /// Compares checksums, and adds a gap at the first that differs.
    pub(crate) fn check(
        &mut self,
        symbol: &str,
        (stated, computed): (i64, i64),
        out: &mut Messages,
    ) -> Result<(), BadLine> {
        if self.state != State::Whole {
            out.unverifiable();
            return Ok(());
        }
        out.checked(stated == computed);
        if stated == computed {
            self.good = Some(out.received());
            return Ok(());
        }
        self.state = State::Broken;
        let gap = Gap {
            cause: GapCause::FailedChecksum,
            from: self.good,
            verifiable: true,
            detail: Some(format!("the venue's checksum is {stated}, that of the book is {computed}")),
            ..Gap::default()
        };
        out.gap(symbol, gap)
    }
}

type Levels = BTreeMap<Price, (Box<str>, Box<str>)>;

/// See the module.
#[derive(Default)]
pub(crate) struct CheckedBook {
    bids: Levels,
    asks: Levels,
    checks: Checks,
}

impl CheckedBook {
    /// Begins with a snapshot.
    pub(crate) fn begin(&mut self) {
        *self = Self { checks: Checks::of_snapshot(), ..Self::default() };
    }

    /// Sets a level, or removes it at size 0; one that is not there is removed without effect.
    pub(crate) fn set(
        &mut self,
        side: Side,
        price: Scalar<'_>,
        size: Scalar<'_>,
        out: &mut Messages,
    ) -> Result<(), BadLine> {
        let (key, number) = (Price(out.decimal(price)?), out.decimal(size)?);
        let levels = self.side(side);
        if is_zero(number) {
            levels.remove(&key);
        } else {
            // The text of a price may change, so it does not stay with the key.
            levels.insert(key, (price.0.into(), size.0.into()));
        }
        Ok(())
    }

    /// Drops what lies behind so many best levels, as the venue does; returns the prices. Nothing comes of them any more until they are sent again.
    pub(crate) fn truncate(&mut self, depth: usize) -> Vec<(Side, Decimal64)> {
        let mut dropped = Vec::new();
        while self.bids.len() > depth {
            dropped.extend(self.bids.pop_first().map(|(price, _)| (Side::Bid, price.0)));
        }
        while self.asks.len() > depth {
            dropped.extend(self.asks.pop_last().map(|(price, _)| (Side::Ask, price.0)));
        }
        dropped
    }

    /// Compares checksums, and adds a gap at the first that differs.
    pub(crate) fn check(
        &mut self,
        symbol: &str,
        checksums: (i64, i64),
        out: &mut Messages,
    ) -> Result<(), BadLine> {
        self.checks.check(symbol, checksums, out)
    }

    /// CRC-32 of the best ten asks, then bids: digits of price and size without point and leading zeros (Kraken).
    pub(crate) fn digits(&self) -> i64 {
        self.digits_of(Decimals::default())
    }

    /// The same, each number with at least so many decimals.
    pub(crate) fn digits_of(&self, least: Decimals) -> i64 {
        let mut crc = Crc::new();
        for (price, size) in self.asks.values().take(10).chain(self.bids.values().rev().take(10)) {
            least.digest(price, size, &mut crc);
        }
        i64::from(crc.sum())
    }

    /// Signed CRC-32 of the best 25 bids and asks in turn, `price:size` each, separated by colons (OKX, Bitget).
    pub(crate) fn in_turn(&self) -> i64 {
        let (mut bids, mut asks) = (self.bids.values().rev().take(25), self.asks.values().take(25));
        let mut parts = Vec::with_capacity(50);
        loop {
            let (bid, ask) = (bids.next(), asks.next());
            if bid.is_none() && ask.is_none() {
                break;
            }
            parts.extend(bid.into_iter().chain(ask).map(|(price, size)| format!("{price}:{size}")));
        }
        let mut crc = Crc::new();
        crc.update(parts.join(":").as_bytes());
        i64::from(crc.sum() as i32)
    }

    fn len(&self) -> usize {
        self.bids.len() + self.asks.len()
    }

    fn side(&mut self, side: Side) -> &mut Levels {
        match side {
            Side::Bid => &mut self.bids,
            Side::Ask => &mut self.asks,
        }
    }
}

/// The books of a connection, in bounded memory.
#[derive(Default)]
pub(crate) struct CheckedBooks {
    books: BySymbol<CheckedBook>,
    /// Of all books.
    levels: usize,
}

impl CheckedBooks {
    /// Changes a book. One that would make it too many levels is lost.
    pub(crate) fn change<T>(
        &mut self,
        symbol: &str,
        out: &mut Messages,
        change: impl FnOnce(&mut CheckedBook, &mut Messages) -> Result<T, BadLine>,
    ) -> Result<T, BadLine> {
        let book = self.books.of(symbol, out)?;
        let others = self.levels - book.len();
        let mut changed = change(book, out);
        if others + book.len() > LEVELS_MAX {
            *book = CheckedBook::default();
            changed = Err(out.bad(symbol, format!("books of at most {LEVELS_MAX} levels")));
        }
        self.levels = others + book.len();
        changed
    }

    /// Whatever was missed, no book is the venue's any more.
    pub(crate) fn lose(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_of_too_many_levels_are_lost_one_by_one() {
        let (mut books, mut out) = (CheckedBooks::default(), Messages::new("X", false));
        let mut fill = |symbol: &str, levels: usize| {
            books.change(symbol, &mut out, |book, out| {
                book.begin();
                (1..=levels)
                    .try_for_each(|price| book.set(Side::Bid, Scalar(&price.to_string()), Scalar("1"), out))
            })
        };
        let half = LEVELS_MAX / 2;
        assert!(fill("A", half).is_ok() && fill("B", half).is_ok());
        assert!(fill("C", 1).unwrap_err().expected.contains("levels"));
        assert!(fill("A", half - 1).is_ok() && fill("C", 1).is_ok());
        assert!(fill("B", half + 1).is_err() && fill("B", half).is_ok());
    }
}
