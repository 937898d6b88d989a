//! Kraken, version 2: `level3`, each order of the best levels.
//!
//! A snapshot is an [`Order`] `CLEAR`, then an order `ADD` for each, all with `snapshot`; `add`, `modify` and `delete` of updates are `ADD`, `MODIFY`, `DELETE`. The order's
//! identifier is `order_id_text`, its time `match_time`; the last order of each part has `event_end`. What a change moves behind the levels of the subscription is
//! deleted, for nothing comes of it any more until it is sent again.
//!
//! The checksum is over the orders of the best ten levels of each side in the order of their queues, in digits as those of `book` are.

use super::v2::{depth_of, plain};
use crate::fields::BadLine;
use crate::frames::by_symbol::BySymbol;
use crate::frames::checked_book::{Checks, Decimals, LEVELS_MAX, Price};
use crate::frames::messages::Messages;
use crate::frames::scalar::Scalar;
use flate2::Crc;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use tapedb_market::{Order, OrderAction, Side};

/// Most orders of all books of a connection.
const ORDERS_MAX: usize = LEVELS_MAX / 2;
/// Levels of a side under the checksum.
const CHECKED: usize = 10;

#[derive(Deserialize)]
pub(super) struct Data<'a> {
    #[serde(borrow)]
    symbol: Scalar<'a>,
    #[serde(default)]
    bids: Vec<Change<'a>>,
    #[serde(default)]
    asks: Vec<Change<'a>>,
    #[serde(default)]
    checksum: Scalar<'a>,
}

#[derive(Deserialize)]
struct Change<'a> {
    #[serde(borrow, default)]
    event: Scalar<'a>,
    order_id: Scalar<'a>,
    limit_price: Scalar<'a>,
    order_qty: Scalar<'a>,
    #[serde(default)]
    timestamp: Scalar<'a>,
}

/// Orders of a price by their numbers, the oldest first: identifier and size.
struct Level {
    price: Box<str>,
    orders: BTreeMap<u64, (Box<str>, Box<str>)>,
}

type Levels = BTreeMap<Price, Level>;

/// Where an order is.
#[derive(Clone, Copy)]
struct Place {
    side: Side,
    price: Price,
    number: u64,
}

/// The orders of a pair.
#[derive(Default)]
struct Book {
    bids: Levels,
    asks: Levels,
    places: HashMap<Box<str>, Place>,
    /// Of the next order.
    number: u64,
    checks: Checks,
    depth: Option<usize>,
    decimals: Decimals,
}

/// The orders of a connection, in bounded memory.
#[derive(Default)]
pub(super) struct Books {
    books: BySymbol<Book>,
    /// Of all books.
    orders: usize,
}

impl Books {
    pub(super) fn set_depth(&mut self, symbol: &str, depth: usize, out: &Messages) -> Result<(), BadLine> {
        self.books.of(symbol, out)?.depth = Some(depth);
        Ok(())
    }

    /// Reads a snapshot or an update of a pair.
    pub(super) fn read(
        &mut self,
        data: &Data<'_>,
        snapshot: bool,
        out: &mut Messages,
    ) -> Result<(), BadLine> {
        let symbol = data.symbol.0;
        let book = self.books.of(symbol, out)?;
        let others = self.orders - book.places.len();
        let mut read = book.read(data, snapshot, out);
        if others + book.places.len() > ORDERS_MAX {
            *book = Book::default();
            read = Err(out.bad(symbol, format!("books of at most {ORDERS_MAX} orders")));
        }
        self.orders = others + book.places.len();
        read
    }
}

impl Book {
    fn read(&mut self, data: &Data<'_>, snapshot: bool, out: &mut Messages) -> Result<(), BadLine> {
        let symbol = data.symbol.0;
        let mut orders = Vec::with_capacity(data.bids.len() + data.asks.len() + 1);
        if snapshot {
            *self = Self {
                checks: Checks::of_snapshot(),
                depth: self.depth,
                decimals: self.decimals,
                ..Self::default()
            };
            orders.push(Order { action: OrderAction::Clear, ..Order::default() });
        }
        for (side, changes) in [(Side::Bid, &data.bids), (Side::Ask, &data.asks)] {
            for change in changes {
                orders.push(self.change(side, change, out)?);
            }
        }
        if snapshot && self.depth.is_none() {
            self.depth = depth_of(self.bids.len().max(self.asks.len()));
        }
        let dropped = self.truncate();
        if !snapshot {
            orders.extend(dropped);
        }
        let last = orders.len().saturating_sub(1);
        for (number, order) in orders.into_iter().enumerate() {
            let (event_end, exchange) = (number == last, out.exchange());
            out.push(symbol, Order { snapshot, event_end, exchange, ..order })?;
        }
        let stated = data.checksum.some().map(|text| out.whole(Scalar(text), "checksum")).transpose()?;
        match stated.and_then(|checksum| i64::try_from(checksum).ok()) {
            Some(stated) => {
                let computed = self.checksum();
                self.checks.check(symbol, (stated, computed), out)
            }
            None if snapshot => Ok(()),
            None => {
                out.unverifiable();
                Ok(())
            }
        }
    }

    /// Makes a change, which is as a message what is returned.
    fn change(&mut self, side: Side, change: &Change<'_>, out: &mut Messages) -> Result<Order, BadLine> {
        let action = match change.event.0 {
            "" | "add" => OrderAction::Add,
            "modify" => OrderAction::Modify,
            "delete" => OrderAction::Delete,
            other => return Err(out.bad(other, "event as add, modify or delete")),
        };
        let id = change.order_id.0;
        if id.is_empty() {
            return Err(out.bad(id, "an order's identifier"));
        }
        let (price, size) = (out.decimal(change.limit_price)?, out.decimal(change.order_qty)?);
        let texts = (plain(change.limit_price, out)?, plain(change.order_qty, out)?);
        self.decimals.note(&texts.0, &texts.1);
        let known = self.places.get(id).copied();
        let stays = known.filter(|place| (place.side, place.price) == (side, Price(price)));
        if let (Some(place), true) = (known, stays.is_none() || action == OrderAction::Delete) {
            self.remove(id, place);
        }
        match stays {
            _ if action == OrderAction::Delete => {}
            // It keeps its place in the queue.
            Some(place) => {
                let level = self.side(side).get_mut(&place.price);
                if let Some((_, size)) = level.and_then(|level| level.orders.get_mut(&place.number)) {
                    *size = texts.1.as_ref().into();
                }
            }
            None => {
                let place = Place { side, price: Price(price), number: self.number };
                self.number += 1;
                let empty = || Level { price: texts.0.as_ref().into(), orders: BTreeMap::new() };
                let level = self.side(side).entry(place.price).or_insert_with(empty);
                level.orders.insert(place.number, (id.into(), texts.1.as_ref().into()));
                self.places.insert(id.into(), place);
            }
        }
        let time = change.timestamp.some().map(|time| out.iso(Scalar(time))).transpose()?;
        Ok(Order {
            action,
            side: Some(side),
            price: Some(price),
            size: Some(size),
            order_id_text: Some(id.into()),
            match_time: time,
            ..Order::default()
        })
    }

    fn side(&mut self, side: Side) -> &mut Levels {
        if side == Side::Bid { &mut self.bids } else { &mut self.asks }
    }

    fn remove(&mut self, id: &str, place: Place) {
        self.places.remove(id);
        let levels = self.side(place.side);
        if let Some(level) = levels.get_mut(&place.price) {
            level.orders.remove(&place.number);
            if level.orders.is_empty() {
                levels.remove(&place.price);
            }
        }
    }

    /// Drops the orders behind the levels of the subscription, as the venue does: they as deletes.
    fn truncate(&mut self) -> Vec<Order> {
        let mut dropped = Vec::new();
        let Some(depth) = self.depth else { return dropped };
        for side in [Side::Bid, Side::Ask] {
            while self.side(side).len() > depth {
                let levels = self.side(side);
                let level = if side == Side::Bid { levels.pop_first() } else { levels.pop_last() };
                let Some((price, level)) = level else { break };
                for (id, _) in level.orders.into_values() {
                    self.places.remove(&id);
                    dropped.push(Order {
                        action: OrderAction::Delete,
                        side: Some(side),
                        price: Some(price.0),
                        order_id_text: Some(id.into()),
                        ..Order::default()
                    });
                }
            }
        }
        dropped
    }

    fn checksum(&self) -> i64 {
        let mut crc = Crc::new();
        for level in self.asks.values().take(CHECKED).chain(self.bids.values().rev().take(CHECKED)) {
            level.orders.values().for_each(|(_, size)| self.decimals.digest(&level.price, size, &mut crc));
        }
        i64::from(crc.sum())
    }
}
