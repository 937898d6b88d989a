//! The book by order beside one that keeps a list for each price.

use super::orders::{Arrival, OrderBook, OrderFault, RestingOrder};
use super::units::MAX_UNITS;
use crate::Side;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Default)]
struct Naive(BTreeMap<(bool, i64), Vec<RestingOrder>>);

impl Naive {
    fn add(&mut self, order: RestingOrder) {
        self.0.entry((order.side == Side::Ask, order.price)).or_default().push(order);
    }

    fn remove(&mut self, id: u64) -> Option<RestingOrder> {
        let (at, line) = self.0.iter_mut().find(|(_, line)| line.iter().any(|order| order.id == id))?;
        let at = *at;
        let place = line.iter().position(|order| order.id == id)?;
        let order = line.remove(place);
        if line.is_empty() {
            self.0.remove(&at);
        }
        Some(order)
    }

    fn find(&mut self, id: u64) -> Option<&mut RestingOrder> {
        self.0.values_mut().flatten().find(|order| order.id == id)
    }

    fn orders(&self, side: Side) -> Vec<RestingOrder> {
        let is_ask = side == Side::Ask;
        let of_side = self.0.iter().filter(|((ask, _), _)| *ask == is_ask).map(|(_, line)| line);
        if is_ask { of_side.flatten().copied().collect() } else { of_side.rev().flatten().copied().collect() }
    }
}

fn change(naive: &mut Naive, book: &mut OrderBook, what: u32, id: u64, side: Side, price: i64, size: i64) {
    let arrival = Arrival::Observed;
    match what {
        0..=3 => {
            let found = naive.remove(id);
            naive.add(RestingOrder { id, side, price, size, arrival });
            let expected = if found.is_some() { Err(OrderFault::Duplicate) } else { Ok(()) };
            assert_eq!(book.add(id, side, price, size, arrival), expected);
        }
        4 => assert_eq!(book.remove(id).ok(), naive.remove(id)),
        5 => {
            let left = naive.find(id).map(|order| {
                order.size -= size;
                order.size
            });
            let expected = match left {
                None => Err(OrderFault::Absent),
                Some(left) if left < 0 => Err(OrderFault::Oversized),
                Some(_) => Ok(()),
            };
            if left.is_some_and(|left| left <= 0) {
                naive.remove(id);
            }
            assert_eq!(book.reduce(id, size), expected);
        }
        6 => {
            let keeps = naive.find(id).map(|order| {
                let keeps = order.price == price && size <= order.size;
                (order.price, order.size) = (price, size);
                keeps
            });
            if keeps == Some(false) {
                // The map has it at its old price.
                let order = naive.remove(id).unwrap();
                naive.add(order);
            }
            assert_eq!(book.modify(id, price, size).is_ok(), keeps.is_some());
        }
        _ => {
            let (old, id) = (id, id + 1_000);
            let found = naive.remove(old);
            if let Some(order) = found {
                naive.remove(id);
                naive.add(RestingOrder { id, price, size, ..order });
            }
            assert_eq!(book.replace(old, id, price, size) == Err(OrderFault::Absent), found.is_none());
        }
    }
}

/// Mostly few prices; then deep, negative and odd ones, and those at the limits of a book.
fn any_price() -> impl Strategy<Value = i64> {
    let limits = [MAX_UNITS, MAX_UNITS - 1, -MAX_UNITS, i64::MAX, i64::MIN + 1];
    prop_oneof![
        8 => 0i64..12,
        3 => (-400i64..400).prop_map(|tick| 25 * tick),
        1 => -1_000i64..1_000,
        1 => prop::sample::select(limits.to_vec()),
    ]
}

proptest! {
    #[test]
    fn it_equals_a_naive_book(
        changes in prop::collection::vec((0u32..8, 0u64..60, any::<bool>(), any_price(), 1i64..9), 1..800),
    ) {
        let (mut naive, mut book) = (Naive::default(), OrderBook::default());
        for (what, id, is_bid, price, size) in changes {
            let side = if is_bid { Side::Bid } else { Side::Ask };
            change(&mut naive, &mut book, what, id, side, price, size);
        }
        for side in [Side::Bid, Side::Ask] {
            let expected = naive.orders(side);
            prop_assert!(book.orders(side).eq(expected.iter().copied()));
            let mut ahead = (0, 0);
            let mut last = None;
            for order in &expected {
                if last != Some(order.price) {
                    (ahead, last) = ((0, 0), Some(order.price));
                }
                let position = book.position(order.id).unwrap();
                prop_assert_eq!((position.orders_ahead, position.size_ahead), ahead);
                ahead = (ahead.0 + 1, ahead.1 + order.size);
            }
            let mut levels: Vec<(i64, i64, u32)> = Vec::new();
            for order in &expected {
                match levels.last_mut().filter(|level| level.0 == order.price) {
                    Some(level) => (level.1, level.2) = (level.1 + order.size, level.2 + 1),
                    None => levels.push((order.price, order.size, 1)),
                }
            }
            prop_assert!(book.levels(side).map(|l| (l.price, l.size, l.orders)).eq(levels.into_iter()));
        }
        prop_assert_eq!(book.len(), naive.0.values().flatten().count());
        book.clear_side(Side::Bid);
        prop_assert_eq!((book.depth(Side::Bid), book.len()), (0, naive.orders(Side::Ask).len()));
        book.clear();
        prop_assert!(book.is_empty() && book.depth(Side::Ask) == 0);
    }
}

#[test]
fn a_size_that_does_not_fit_is_refused_whole() {
    let mut book = OrderBook::default();
    book.add(1, Side::Bid, 1, i64::MAX, Arrival::Seeded).unwrap();
    assert_eq!(book.add(2, Side::Bid, 1, 1, Arrival::Observed), Err(OrderFault::TooLarge));
    assert_eq!((book.len(), book.order(2), book.best(Side::Bid).unwrap().orders), (1, None, 1));
    let position = book.position(1).unwrap();
    assert_eq!((position.orders_ahead, position.arrival), (0, Arrival::Seeded));
}
