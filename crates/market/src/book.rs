//! An order book by price of one symbol at one venue, built from packages.
//!
//! Always true: a price is on a side once (`1.0` and `1.00` are one price), bids are read from the highest and asks
//! from the lowest price.

use crate::{BookAction, Entry, Package, PackageKind, Side};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use tapedb_schema::Decimal64;

/// One price level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Price, as it was last written.
    pub price: Decimal64,
    /// Size; `None` if the venue did not report it.
    pub size: Option<Decimal64>,
    /// Number of orders, if the venue reports it.
    pub orders: Option<u32>,
}

/// The book. Level-2 entries change it; trades, level-1 quotes and sequence ranges do not.
///
/// The exchange of an entry is ignored: use one book for each venue. Sequence numbers are
/// ignored too: whether a snapshot and an update fit together is the venue's rule, not the book's.
///
/// ```
/// use tapedb_market::{Book, Entry, Level2Update, Package, Side};
/// let set = Level2Update { price: "10.5".parse()?, size: Some("3".parse()?), ..Level2Update::default() };
/// let mut book = Book::default();
/// book.apply(&Package { entries: vec![Entry::Level2Update(set)], ..Package::default() });
/// assert_eq!(book.best(Side::Bid).map(|level| level.price.to_string()), Some("10.5".into()));
/// # Ok::<(), tapedb_schema::DecimalError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Book {
    bids: BTreeMap<Price, Level>,
    asks: BTreeMap<Price, Level>,
}

impl Book {
    /// Applies a package: a snapshot of either kind replaces the book, then its entries are applied in order.
    pub fn apply(&mut self, package: &Package) {
        if package.kind != PackageKind::Update {
            self.clear();
        }
        for entry in &package.entries {
            self.apply_entry(entry);
        }
    }

    /// Best level of a side.
    pub fn best(&self, side: Side) -> Option<&Level> {
        self.levels(side).next()
    }

    /// Levels of a side, best first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = &Level> {
        let (bids, asks) = match side {
            Side::Bid => (Some(self.bids.values().rev()), None),
            Side::Ask => (None, Some(self.asks.values())),
        };
        bids.into_iter().flatten().chain(asks.into_iter().flatten())
    }

    /// Number of levels of a side.
    pub fn depth(&self, side: Side) -> usize {
        match side {
            Side::Bid => self.bids.len(),
            Side::Ask => self.asks.len(),
        }
    }

    /// Whether the best bid is above the best ask, or equal to it.
    pub fn is_crossed(&self) -> bool {
        match (self.bids.last_key_value(), self.asks.first_key_value()) {
            (Some((bid, _)), Some((ask, _))) => bid >= ask,
            _ => false,
        }
    }

    /// Empties both sides.
    pub fn clear(&mut self) {
        self.bids.clear();
        self.asks.clear();
    }

    fn apply_entry(&mut self, entry: &Entry) {
        match entry {
            Entry::Level2Snapshot(entry) => {
                self.set(
                    entry.side,
                    Level { price: entry.price, size: Some(entry.size), orders: entry.orders },
                );
            }
            Entry::Level2Update(entry) if entry.action == BookAction::Set => {
                self.set(entry.side, Level { price: entry.price, size: entry.size, orders: entry.orders });
            }
            Entry::Level2Update(entry) => {
                self.side(entry.side).remove(&Price(entry.price));
            }
            Entry::Trade(_) | Entry::Level1(_) | Entry::SequenceRange(_) => {}
        }
    }

    fn set(&mut self, side: Side, level: Level) {
        self.side(side).insert(Price(level.price), level);
    }

    fn side(&mut self, side: Side) -> &mut BTreeMap<Price, Level> {
        match side {
            Side::Bid => &mut self.bids,
            Side::Ask => &mut self.asks,
        }
    }
}

/// A price as a key: by number, with NaN as one value above all others so that the order is total.
#[derive(Debug, Clone, Copy)]
struct Price(Decimal64);

impl Ord for Price {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.numeric_cmp(&other.0).unwrap_or_else(|| self.0.is_nan().cmp(&other.0.is_nan()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Level2Snapshot, Level2Update};
    use proptest::prelude::*;

    fn number(text: &str) -> Decimal64 {
        text.parse().unwrap()
    }

    fn update(action: BookAction, side: Side, price: &str, size: Option<&str>) -> Entry {
        Entry::Level2Update(Level2Update {
            action,
            side,
            price: number(price),
            size: size.map(number),
            ..Level2Update::default()
        })
    }

    fn prices(book: &Book, side: Side) -> Vec<String> {
        book.levels(side).map(|level| level.price.to_string()).collect()
    }

    #[test]
    fn updates_set_replace_and_delete() {
        let mut book = Book::default();
        let entries = vec![
            update(BookAction::Set, Side::Bid, "9.9", Some("1")),
            update(BookAction::Set, Side::Bid, "10.0", Some("2")),
            update(BookAction::Set, Side::Ask, "10.2", Some("3")),
            update(BookAction::Set, Side::Ask, "10.1", Some("4")),
            update(BookAction::Set, Side::Bid, "10.00", Some("5")),
            update(BookAction::Delete, Side::Ask, "10.10", None),
            update(BookAction::Delete, Side::Ask, "77", None),
        ];
        book.apply(&Package { entries, ..Package::default() });
        assert_eq!(prices(&book, Side::Bid), ["10.00", "9.9"]);
        assert_eq!(prices(&book, Side::Ask), ["10.2"]);
        assert_eq!(book.best(Side::Bid).unwrap().size, Some(number("5")));
        assert!(!book.is_crossed());
    }

    #[test]
    fn a_snapshot_replaces_the_book() {
        let mut book = Book::default();
        let entries = vec![update(BookAction::Set, Side::Bid, "1", Some("1"))];
        book.apply(&Package { entries, ..Package::default() });
        let level =
            Level2Snapshot { side: Side::Ask, price: number("2"), size: number("7"), ..Default::default() };
        let entries = vec![Entry::Level2Snapshot(level)];
        book.apply(&Package { kind: PackageKind::PeriodicSnapshot, entries, ..Package::default() });
        assert_eq!((book.depth(Side::Bid), book.depth(Side::Ask)), (0, 1));
    }

    #[test]
    fn a_crossed_book_shows() {
        let mut book = Book::default();
        let entries = vec![
            update(BookAction::Set, Side::Bid, "2.0", Some("1")),
            update(BookAction::Set, Side::Ask, "2.00", Some("1")),
        ];
        book.apply(&Package { entries, ..Package::default() });
        assert!(book.is_crossed());
    }

    proptest! {
        #[test]
        fn prices_of_any_bits_keep_a_total_order(a: u64, b: u64, c: u64) {
            let [a, b, c] = [a, b, c].map(|bits| Price(Decimal64::from_bits(bits)));
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            if a <= b && b <= c {
                prop_assert!(a <= c);
            }
        }
    }
}
