//! A book by price (L2) of one symbol at one venue, on integer prices.

use super::ladder::Ladder;
use crate::Side;

/// One price level, on integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriceLevel {
    /// Price in units of the book.
    pub price: i64,
    /// Size in units of the book.
    pub size: i64,
    /// Number of orders; 0: not reported.
    pub orders: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Quantity {
    size: i64,
    orders: u32,
}

/// The book: a size at each price of each side. Its owner defines the units.
///
/// ```
/// use tapedb_market::{PriceBook, Side};
/// let mut book = PriceBook::default();
/// book.set(Side::Bid, 481_000, 22, 22);
/// book.set(Side::Ask, 481_025, 28, 18);
/// assert_eq!(book.best(Side::Ask).map(|level| level.price), Some(481_025));
/// assert!(!book.delete(Side::Ask, 481_050));
/// ```
#[derive(Debug, Clone, Default)]
pub struct PriceBook {
    bids: Ladder<Quantity>,
    asks: Ladder<Quantity>,
    best_changes: u64,
}

/// Greater is better on both sides. Prices are never `i64::MIN`: see [`super::MAX_UNITS`].
#[inline]
pub(super) fn key(side: Side, price: i64) -> i64 {
    match side {
        Side::Bid => price,
        Side::Ask => price.wrapping_neg(),
    }
}

impl PriceBook {
    /// Sets the size at a price; returns whether the level is new.
    #[inline]
    pub fn set(&mut self, side: Side, price: i64, size: i64, orders: u32) -> bool {
        let at = key(side, price);
        let is_new = self.side_mut(side).set(at, Quantity { size, orders });
        self.note_change(side, at);
        is_new
    }

    /// Removes the level at a price; returns whether there was one.
    #[inline]
    pub fn delete(&mut self, side: Side, price: i64) -> bool {
        let at = key(side, price);
        self.note_change(side, at);
        self.side_mut(side).remove(at).is_some()
    }

    /// The level at a price.
    pub fn level(&self, side: Side, price: i64) -> Option<PriceLevel> {
        let Quantity { size, orders } = self.side(side).get(key(side, price))?;
        Some(PriceLevel { price, size, orders })
    }

    /// Best level of a side.
    #[inline]
    pub fn best(&self, side: Side) -> Option<PriceLevel> {
        let (at, Quantity { size, orders }) = self.side(side).best()?;
        Some(PriceLevel { price: key(side, at), size, orders })
    }

    /// Best price of a side, where greater is better.
    #[inline]
    pub(super) fn best_key(&self, side: Side) -> Option<i64> {
        self.side(side).best_key()
    }

    /// Another number if a best level may have changed: nothing else need be done again then.
    #[inline]
    pub(super) fn best_changes(&self) -> u64 {
        self.best_changes
    }

    /// Something at this price is new, has changed, or is about to go.
    #[inline]
    fn note_change(&mut self, side: Side, key: i64) {
        self.best_changes += u64::from(self.side(side).best_key().is_none_or(|best| key >= best));
    }

    /// Levels of a side, best first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = PriceLevel> + '_ {
        let level = move |(at, Quantity { size, orders })| PriceLevel { price: key(side, at), size, orders };
        self.side(side).iter().map(level)
    }

    /// Number of levels of a side.
    pub fn depth(&self, side: Side) -> usize {
        self.side(side).len()
    }

    /// Empties a side.
    pub fn clear_side(&mut self, side: Side) {
        self.side_mut(side).clear();
        self.best_changes += 1;
    }

    /// Empties both sides.
    pub fn clear(&mut self) {
        self.clear_side(Side::Bid);
        self.clear_side(Side::Ask);
    }

    #[inline]
    fn side(&self, side: Side) -> &Ladder<Quantity> {
        match side {
            Side::Bid => &self.bids,
            Side::Ask => &self.asks,
        }
    }

    #[inline]
    fn side_mut(&mut self, side: Side) -> &mut Ladder<Quantity> {
        match side {
            Side::Bid => &mut self.bids,
            Side::Ask => &mut self.asks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Near prices, and some of any size.
        #[test]
        fn it_equals_two_maps(
            changes in prop::collection::vec(
                (any::<bool>(), prop_oneof![9 => -40i64..40, 1 => i64::MIN + 1..=i64::MAX], 0i64..4), 1..600,
            ),
        ) {
            let (mut book, mut bids, mut asks) = (PriceBook::default(), BTreeMap::new(), BTreeMap::new());
            for (is_bid, price, size) in changes {
                let (side, map) = if is_bid { (Side::Bid, &mut bids) } else { (Side::Ask, &mut asks) };
                match size {
                    0 => prop_assert_eq!(book.delete(side, price), map.remove(&price).is_some()),
                    _ => prop_assert_eq!(book.set(side, price, size, 1), map.insert(price, size).is_none()),
                }
                prop_assert_eq!(book.level(side, price).map(|level| level.size), map.get(&price).copied());
            }
            prop_assert!(book.levels(Side::Bid).map(|l| (l.price, l.size)).eq(bids.into_iter().rev()));
            prop_assert!(book.levels(Side::Ask).map(|l| (l.price, l.size)).eq(asks.into_iter()));
        }
    }
}
