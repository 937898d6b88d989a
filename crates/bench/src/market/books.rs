//! Time of an update of a book.

use super::source::{Case, Change};
use crate::report::Report;
use std::collections::BTreeMap;
use std::time::Instant;
use tapedb_market::{Applier, Book, ConsolidatedBest, Order, OrderAction, Side, SymbolBooks};
use tapedb_schema::Decimal64;
use tapedb_terminal::Failure;

/// Venues of the case of the best over venues.
const VENUES: usize = 16;

/// Builds the books of a case, and compares the last ones with those of another builder.
pub fn measure(case: &Case, report: &mut Report) -> Result<(), Failure> {
    let mut books = Applier::default();
    let started = Instant::now();
    for (symbol, time, change) in &case.changes {
        match change {
            Change::Package(package) => books.package(*symbol, *time, package),
            Change::Order(order) => books.order(*symbol, *time, order),
        }
    }
    let nanos = started.elapsed().as_nanos() as f64;
    report.add(case.name, "update", "ns", nanos / case.updates as f64);
    check(case, &books)
}

/// Price and size of each level, best first.
type Levels = Vec<(Decimal64, Decimal64)>;

fn check(case: &Case, books: &Applier) -> Result<(), Failure> {
    let has_ranges = |change: &Change| match change {
        Change::Package(package) => {
            package.entries.iter().any(|entry| matches!(entry, tapedb_market::Entry::SequenceRange(_)))
        }
        Change::Order(_) => false,
    };
    // The other builder does not put updates behind a snapshot that came after them.
    if case.changes.iter().any(|(.., change)| has_ranges(change)) {
        return Ok(());
    }
    for (symbol, found) in books.symbols() {
        let of = case.changes.iter().filter(|(of, ..)| *of == symbol).map(|(.., change)| change);
        let expected = expected(of);
        for side in [Side::Bid, Side::Ask] {
            let (levels, expected) = (levels(found, side), &expected[usize::from(side == Side::Ask)]);
            let is_same = |((price, size), (of, with)): (&(_, _), &(_, _))| {
                Decimal64::numeric_eq(price, of) && Decimal64::numeric_eq(size, with)
            };
            if levels.len() != expected.len() || !levels.iter().zip(expected).all(is_same) {
                return Err(Failure::new(format!(
                    "{}: a book is not as expected; please report this",
                    case.name
                )));
            }
        }
    }
    Ok(())
}

fn levels(books: &SymbolBooks, side: Side) -> Levels {
    let Some(venue) = books.venues().first() else { return Levels::new() };
    let (price, size) = (books.price_units(), books.size_units());
    venue.levels(side).map(|level| (price.decimal(level.price), size.decimal(level.size))).collect()
}

/// The last levels of both sides, built with maps.
fn expected<'a>(changes: impl Iterator<Item = &'a Change>) -> [Levels; 2] {
    let mut book = Book::default();
    let mut orders: BTreeMap<u64, (Side, i64, i64)> = BTreeMap::new();
    for change in changes {
        match change {
            Change::Package(package) => book.apply(package),
            Change::Order(order) => apply(&mut orders, order),
        }
    }
    let mut sides = [Side::Bid, Side::Ask].map(|side| {
        book.levels(side)
            .map(|level| (level.price, level.size.unwrap_or(Decimal64::ZERO)))
            .collect::<Levels>()
    });
    if !orders.is_empty() {
        let mut levels: [BTreeMap<i64, i64>; 2] = Default::default();
        for (side, price, size) in orders.into_values() {
            *levels[usize::from(side == Side::Ask)].entry(price).or_default() += size;
        }
        let decimal = |(price, size): (&i64, &i64)| {
            Some((Decimal64::from_scaled(*price, 9).ok()?, Decimal64::from_scaled(*size, 0).ok()?))
        };
        sides = [
            levels[0].iter().rev().filter_map(decimal).collect(),
            levels[1].iter().filter_map(decimal).collect(),
        ];
    }
    sides
}

/// Prices in 1e-9.
fn apply(orders: &mut BTreeMap<u64, (Side, i64, i64)>, order: &Order) {
    let scaled = |number: Option<Decimal64>, scale| number.and_then(|number| number.to_scaled(scale).ok());
    let (id, size) = (order.order_id.unwrap_or(0), scaled(order.size, 0).unwrap_or(0));
    match (order.action, order.side, scaled(order.price, 9)) {
        (OrderAction::Add | OrderAction::Modify, Some(side), Some(price)) => {
            orders.insert(id, (side, price, size));
        }
        (OrderAction::Cancel | OrderAction::Execute, ..) => {
            if let Some(left) = orders.get_mut(&id) {
                left.2 -= size;
                if left.2 <= 0 {
                    orders.remove(&id);
                }
            }
        }
        (OrderAction::Clear, ..) => orders.clear(),
        _ => {}
    }
}

/// The best over venues, as their best prices walk.
pub fn nbbo(updates: u64, report: &mut Report) -> Result<(), Failure> {
    let mut state = 7u64;
    let change = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (venue, away) = ((state >> 60) as usize % VENUES, (state >> 40) as i64 & 7);
        let side = if state >> 33 & 1 == 0 { Side::Bid } else { Side::Ask };
        (
            venue,
            side,
            if side == Side::Bid { 1_000 - away } else { 1_001 + away },
            1 + (state >> 50 & 63) as i64,
        )
    };
    let changes: Vec<(usize, Side, i64, i64)> = (0..updates).map(change).collect();
    let (mut best, mut sum) = (ConsolidatedBest::default(), 0i64);
    let started = Instant::now();
    for (venue, side, price, size) in &changes {
        best.set(*venue, *side, *price, *size);
        sum = sum.wrapping_add(best.get(*side).map_or(0, |best| best.price ^ best.venue as i64));
    }
    report.add("market.nbbo", "update", "ns", started.elapsed().as_nanos() as f64 / updates as f64);
    let mut venues = [[None; VENUES]; 2];
    let expected = changes.iter().fold(0i64, |sum, (venue, side, price, _)| {
        let of = &mut venues[usize::from(*side == Side::Ask)];
        of[*venue] = Some(*price);
        let known = of.iter().enumerate().filter_map(|(venue, price)| Some(((*price)?, venue)));
        let rank = |(price, venue): &(i64, usize)| (if *side == Side::Bid { -price } else { *price }, *venue);
        let first = known.min_by_key(rank);
        sum.wrapping_add(first.map_or(0, |(price, venue)| price ^ venue as i64))
    });
    if sum == expected {
        Ok(())
    } else {
        Err(Failure::new("market.nbbo: not as expected; please report this"))
    }
}
