//! What a book holds: levels or orders.

use super::orders::{Arrival, OrderBook, OrderFault};
use super::prices::{PriceBook, PriceLevel};
use crate::Side;

/// Both sides.
pub(super) const SIDES: [Side; 2] = [Side::Bid, Side::Ask];

#[derive(Debug, Clone)]
pub(super) enum Content {
    Prices(PriceBook),
    Orders(OrderBook),
}

impl Content {
    #[inline]
    pub(super) fn best(&self, side: Side) -> Option<PriceLevel> {
        match self {
            Self::Prices(book) => book.best(side),
            Self::Orders(book) => book.best(side),
        }
    }

    /// Best price of a side, where greater is better.
    #[inline]
    pub(super) fn best_key(&self, side: Side) -> Option<i64> {
        match self {
            Self::Prices(book) => book.best_key(side),
            Self::Orders(book) => book.best_key(side),
        }
    }

    /// Another number if a best level may have changed.
    #[inline]
    pub(super) fn best_changes(&self) -> u64 {
        match self {
            Self::Prices(book) => book.best_changes(),
            Self::Orders(book) => book.best_changes(),
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::Prices(book) => book.clear(),
            Self::Orders(book) => book.clear(),
        }
    }

    pub(super) fn clear_side(&mut self, side: Side) {
        match self {
            Self::Prices(book) => book.clear_side(side),
            Self::Orders(book) => book.clear_side(side),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Prices(book) => SIDES.iter().all(|side| book.depth(*side) == 0),
            Self::Orders(book) => book.is_empty(),
        }
    }

    /// Whether all prices and sizes times these factors fit.
    pub(super) fn fits(&self, price: i64, size: i64) -> bool {
        let fits = |level: PriceLevel| {
            level.price.checked_mul(price).is_some() && level.size.checked_mul(size).is_some()
        };
        SIDES.into_iter().all(|side| match self {
            Self::Prices(book) => book.levels(side).all(fits),
            Self::Orders(book) => book.levels(side).all(fits),
        })
    }

    /// All prices and sizes times these factors; whether they fit. Otherwise the book is empty.
    pub(super) fn rescale(&mut self, price: i64, size: i64) -> bool {
        let is_whole = match self {
            Self::Prices(book) => rescale_prices(book, price, size),
            Self::Orders(book) => rescale_orders(book, price, size).is_some(),
        };
        if !is_whole {
            self.clear();
        }
        is_whole
    }
}

fn rescale_prices(book: &mut PriceBook, price: i64, size: i64) -> bool {
    for side in SIDES {
        let levels: Vec<PriceLevel> = book.levels(side).collect();
        book.clear_side(side);
        for level in levels {
            let (Some(price), Some(size)) = (level.price.checked_mul(price), level.size.checked_mul(size))
            else {
                return false;
            };
            book.set(side, price, size, level.orders);
        }
    }
    true
}

fn rescale_orders(book: &mut OrderBook, price: i64, size: i64) -> Option<()> {
    for side in SIDES {
        let orders: Vec<_> = book.orders(side).collect();
        book.clear_side(side);
        for order in orders {
            let (price, size) = (order.price.checked_mul(price)?, order.size.checked_mul(size)?);
            book.add(order.id, side, price, size, order.arrival).ok()?;
        }
    }
    Some(())
}

/// A change of an order book, on integers.
#[derive(Debug, Clone, Copy)]
pub(super) enum OrderChange {
    Add { id: u64, side: Side, price: i64, size: i64, arrival: Arrival },
    Modify { id: u64, side: Option<Side>, price: i64, size: i64 },
    Reduce { id: u64, size: i64 },
    Remove { id: u64 },
    Replace { old: u64, id: u64, price: i64, size: i64 },
}

impl OrderChange {
    #[inline]
    pub(super) fn apply(self, book: &mut OrderBook) -> Result<(), OrderFault> {
        match self {
            Self::Add { id, side, price, size, arrival } => book.add(id, side, price, size, arrival),
            Self::Reduce { id, size } => book.reduce(id, size),
            Self::Remove { id } => book.remove(id).map(|_| ()),
            Self::Replace { old, id, price, size } => book.replace(old, id, price, size),
            Self::Modify { id, side, price, size } => match book.modify(id, price, size) {
                // The message states all that an order is, but not its place in the queue.
                Err(OrderFault::Absent) if let Some(side) = side => {
                    book.add(id, side, price, size, Arrival::Unknown).and(Err(OrderFault::Absent))
                }
                result => result,
            },
        }
    }
}
