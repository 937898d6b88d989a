//! Books by order.

use crate::{Case, timed};
use hftbacktest::depth::{HashMapMarketDepth, L3MarketDepth, MarketDepth};
use tapedb_market::{Applier, Arrival, Order, OrderAction, OrderBook, Side};
use tapedb_schema::{Decimal64, Timestamp};

const TICK: f64 = 0.25;
/// Orders that rest.
const RESTING: u64 = 10_000;

/// A change as numbers.
#[derive(Clone, Copy)]
pub enum Change {
    Add { id: u64, side: Side, tick: i64, size: i64 },
    /// What is removed, and what is left.
    Reduce { id: u64, tick: i64, part: i64, left: i64 },
}

/// The same changes, as messages and as numbers.
pub struct Input {
    changes: Vec<Change>,
    messages: Vec<Order>,
}

/// Adds, cancels and executions around a price, as those of `market.book.l3` of `tapedb bench market`; the price does not walk, because hftbacktest has no books that
/// are crossed.
pub fn generate(count: usize) -> Input {
    let mut state = 1u64;
    let mut random = move |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(state) * u128::from(limit)) >> 64) as u64
    };
    let (mut resting, middle, mut next): (Vec<(u64, Side, i64, i64)>, i64, u64) = (Vec::new(), 19_240, 1);
    let mut input = Input { changes: Vec::new(), messages: Vec::new() };
    for _ in 0..count {
        let change = if resting.is_empty() || random(2 * RESTING) >= resting.len() as u64 {
            let side = if random(2) == 0 { Side::Bid } else { Side::Ask };
            let away = (1 + random(4) * random(30)) as i64;
            let (tick, size) = (if side == Side::Bid { middle - away } else { middle + away }, 1 + random(9) as i64);
            let id = next * 37;
            next += 1;
            resting.push((id, side, tick, size));
            Change::Add { id, side, tick, size }
        } else {
            let at = random(resting.len() as u64) as usize;
            let (id, _, tick, size) = resting[at];
            let part = if random(8) == 0 { 1 + random(size as u64) as i64 } else { size };
            if part == size {
                resting.swap_remove(at);
            } else {
                resting[at].3 -= part;
            }
            Change::Reduce { id, tick, part, left: size - part }
        };
        input.messages.push(message(change));
        input.changes.push(change);
    }
    input
}

fn message(change: Change) -> Order {
    let number = |units: i64, exponent| Decimal64::from_parts(units, exponent).ok();
    match change {
        Change::Add { id, side, tick, size } => Order {
            side: Some(side),
            price: number(tick * 25, -2),
            size: number(size, 0),
            order_id: Some(id),
            event_end: true,
            ..Order::default()
        },
        Change::Reduce { id, part, .. } => Order {
            action: OrderAction::Cancel,
            size: number(part, 0),
            order_id: Some(id),
            event_end: true,
            ..Order::default()
        },
    }
}

/// Best bid and ask in ticks.
type Best = (i64, i64);

pub fn measure(input: &Input, cases: &mut Vec<Case>) {
    let count = input.changes.len();
    let expected = timed(cases, "orders: TapeDB, from messages", count, || applier(input, 1));
    let found = [
        timed(cases, "orders: TapeDB, from messages, 16 at once", count, || applier(input, 16)),
        timed(cases, "orders: TapeDB, OrderBook alone", count, || order_book(input)),
        timed(cases, "orders: hftbacktest HashMapMarketDepth", count, || theirs(input)),
    ];
    assert!(found.iter().all(|found| *found == expected), "{expected:?} {found:?}");
}

fn applier(input: &Input, together: usize) -> Best {
    let mut books = Applier::default();
    if together == 1 {
        input.messages.iter().for_each(|order| books.order(0, Timestamp(0), order));
    } else {
        for orders in input.messages.chunks(together) {
            books.orders(orders.iter().map(|order| (0, Timestamp(0), order)));
        }
    }
    let books = books.symbol(0).expect("a book");
    let units = books.price_units();
    let tick = |side| {
        let level = books.venues()[0].best(side);
        level.map_or(0, |level| units.decimal(level.price).to_scaled(2).expect("a price") / 25)
    };
    (tick(Side::Bid), tick(Side::Ask))
}

fn order_book(input: &Input) -> Best {
    let mut book = OrderBook::default();
    for change in &input.changes {
        let changed = match *change {
            Change::Add { id, side, tick, size } => book.add(id, side, tick, size, Arrival::Observed),
            Change::Reduce { id, part, .. } => book.reduce(id, part),
        };
        changed.expect("a change that fits");
    }
    let tick = |side| book.best(side).map_or(0, |level| level.price);
    (tick(Side::Bid), tick(Side::Ask))
}

fn theirs(input: &Input) -> Best {
    let mut book = HashMapMarketDepth::new(TICK, 1.0);
    for change in &input.changes {
        let is_good = match *change {
            Change::Add { id, side: Side::Bid, tick, size } => {
                book.add_buy_order(id, tick as f64 * TICK, size as f64, 0).is_ok()
            }
            Change::Add { id, side: Side::Ask, tick, size } => {
                book.add_sell_order(id, tick as f64 * TICK, size as f64, 0).is_ok()
            }
            Change::Reduce { id, left: 0, .. } => book.delete_order(id, 0).is_ok(),
            Change::Reduce { id, tick, left, .. } => {
                book.modify_order(id, tick as f64 * TICK, left as f64, 0).is_ok()
            }
        };
        assert!(is_good, "a change that fits");
    }
    (book.best_bid_tick(), book.best_ask_tick())
}
