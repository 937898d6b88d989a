//! Sequence numbers that begin again, old snapshots, numbers that no book can hold, and many levels.

use super::tests::{T, after, bids, diff, number, set, snapshot, venue};
use super::waiting::BEHIND_MAX;
use super::{Applier, BookState, Doubt};
use crate::{BookAction, Entry, Level2Update, Package, PackageKind, Side};
use tapedb_schema::Ascii;

#[test]
fn numbers_that_begin_again_with_a_snapshot_begin_the_book_again() {
    let begin = [snapshot(1_000, "9"), diff(1_001, 1_005, None, [set("8", "1")])];
    let again = [snapshot(3, "2"), diff(4, 6, None, [set("1", "1")]), diff(7, 7, None, [set("2", "0")])];
    let books = after(&[&begin[..], &again].concat());
    assert_eq!(
        (venue(&books).state(), venue(&books).sequence(), bids(&books)),
        (BookState::Good, Some(7), vec!["1".into()])
    );
    assert_eq!((venue(&books).counters().breaks, venue(&books).counters().snapshots_behind), (1, 1));
    // With numbers that refer to the update before.
    let again = [snapshot(3, "2"), diff(6, 6, Some(3), [set("1", "1")])];
    assert_eq!(bids(&after(&[&begin[..], &again].concat())), ["2", "1"]);
}

#[test]
fn an_old_snapshot_and_updates_that_come_twice_change_nothing() {
    let mut packages = vec![snapshot(1_000, "9"), diff(1_001, 1_005, None, [set("8", "1")])];
    packages.push(snapshot(990, "1"));
    packages.push(diff(1_001, 1_005, None, [set("8", "1")]));
    packages.push(diff(1_006, 1_006, None, [set("7", "1")]));
    packages.extend((0..BEHIND_MAX).map(|_| diff(1_006, 1_006, None, [set("7", "1")])));
    packages.push(diff(1_007, 1_007, None, [set("6", "1")]));
    let books = after(&packages);
    assert_eq!((venue(&books).state(), venue(&books).sequence()), (BookState::Good, Some(1_007)));
    assert_eq!(bids(&books), ["9", "8", "7", "6"]);
}

#[test]
fn numbers_that_begin_again_without_a_snapshot_make_the_book_unknown() {
    let mut books = after(&[snapshot(5_000, "9"), diff(5_001, 5_001, None, [])]);
    for number in 1..=u64::from(BEHIND_MAX) {
        books.package(0, T, &diff(number, number, None, [set("1", "1")]));
        assert_eq!(venue(&books).state(), BookState::Good);
        assert!(books.symbol(0).unwrap().checkpoint().is_none());
    }
    let next = u64::from(BEHIND_MAX) + 1;
    books.package(0, T, &diff(next, next, None, [set("1", "1")]));
    assert_eq!((venue(&books).doubt(), bids(&books).len()), (Some(Doubt::SequenceBreak), 0));
    // The last update waits for the snapshot.
    books.package(0, T, &snapshot(next - 1, "7"));
    assert_eq!((venue(&books).state(), bids(&books)), (BookState::Good, vec!["7".into(), "1".into()]));
}

fn level(venue: &str, price: &str, size: &str) -> Package {
    let exchange = Some(Ascii::new(venue).unwrap());
    let (price, size) = (number(price), Some(number(size)));
    let set = Level2Update { action: BookAction::Set, price, size, exchange, ..Level2Update::default() };
    Package { kind: PackageKind::Snapshot, entries: vec![Entry::Level2Update(set)], ..Package::default() }
}

#[test]
fn a_number_of_one_venue_does_not_empty_the_books_of_others() {
    for (price, size) in
        [("1E-18", "1"), ("10", "1E-18"), ("0.0000000000000001", "1"), ("1E300", "1"), ("1", "NaN")]
    {
        let mut books = Applier::default();
        books.package(0, T, &level("A", "481025.25", "1000000000000"));
        books.package(0, T, &level("B", price, size));
        let venues = books.symbol(0).unwrap().venues();
        assert_eq!(
            [venues[0].state(), venues[1].state()],
            [BookState::Seeded, BookState::Unknown],
            "{price} {size}"
        );
        assert_eq!(venues[1].doubt(), Some(Doubt::Misfit));
        // And its own next snapshot is taken.
        books.package(0, T, &level("B", "481026", "2"));
        let best = books.symbol(0).unwrap().best(Side::Bid).unwrap();
        assert_eq!(
            (best.venue, books.symbol(0).unwrap().price_units().decimal(best.price).to_f64()),
            (1, 481_026.0)
        );
    }
}

#[test]
fn a_price_with_too_many_decimals_does_not_keep_the_next_snapshot_out() {
    let mut books = after(&[snapshot(1, "1E-18"), snapshot(2, "481025.25")]);
    assert_eq!(venue(&books).doubt(), Some(Doubt::Misfit));
    books.package(0, T, &snapshot(3, "481025.25"));
    assert_eq!((venue(&books).state(), bids(&books)), (BookState::Seeded, vec!["481025.25".into()]));
    // Zero, negative ones, and the widest range that fits.
    for prices in [
        ["0", "-5.25", "0.00"],
        ["1E-9", "1000000000", "-1000000000"],
        ["9999999999999999", "0.1", "-9999999999999999"],
    ] {
        let entries = prices.map(|price| set(price, "1")).into_iter().collect();
        let books = after(&[Package { kind: PackageKind::Snapshot, entries, ..Package::default() }]);
        let distinct = if prices[0] == "0" { 2 } else { 3 };
        assert_eq!((venue(&books).state(), bids(&books).len()), (BookState::Seeded, distinct), "{prices:?}");
    }
}

#[test]
fn a_million_levels_are_kept_in_order() {
    let mut books = Applier::default();
    let mut package = Package { kind: PackageKind::Snapshot, ..Package::default() };
    for n in 0..1_000_000u64 {
        // Every price once, in no order.
        let price = n.wrapping_mul(7_919) % 1_000_000;
        let price = tapedb_schema::Decimal64::from_parts(price as i64, -2).unwrap();
        let level = Level2Update { price, size: Some(price), ..Level2Update::default() };
        package.entries.push(Entry::Level2Update(level));
    }
    books.package(0, T, &package);
    let levels: Vec<i64> = venue(&books).levels(Side::Bid).map(|level| level.price).collect();
    assert!(levels.iter().copied().eq((0..1_000_000).rev()));
    package.kind = PackageKind::Update;
    package.entries.iter_mut().for_each(|entry| {
        if let Entry::Level2Update(level) = entry {
            level.action = BookAction::Delete;
        }
    });
    books.package(0, T, &package);
    assert_eq!((venue(&books).depth(Side::Bid), venue(&books).counters().absent_levels), (0, 0));
}
