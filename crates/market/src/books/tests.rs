//! The awkward facts of feeds.

use super::{Applier, Arrival, BookKind, BookState, Doubt, VenueBook};
use crate::feed::{Feed, FeedConfig};
use crate::{
    Book, BookAction, Entry, Gap, Level1, Level2Snapshot, Level2Update, Order, OrderAction, Package,
    PackageKind, SequenceRange, Side, Trade,
};
use std::collections::HashMap;
use tapedb_schema::{Ascii, Decimal64, Timestamp};

pub(super) const T: Timestamp = Timestamp(1);

pub(super) fn number(text: &str) -> Decimal64 {
    text.parse().unwrap()
}

pub(super) fn set(price: &str, size: &str) -> Entry {
    let size = (size != "0").then(|| number(size));
    let action = if size.is_some() { BookAction::Set } else { BookAction::Delete };
    Entry::Level2Update(Level2Update { action, price: number(price), size, ..Level2Update::default() })
}

/// An update of a venue that numbers its updates, with the last number of the update before.
pub(super) fn diff(
    first: u64,
    last: u64,
    previous: Option<u64>,
    entries: impl IntoIterator<Item = Entry>,
) -> Package {
    let range = Entry::SequenceRange(SequenceRange { first, previous });
    let entries = std::iter::once(range).chain(entries).collect();
    Package { sequence: Some(last), entries, ..Package::default() }
}

pub(super) fn snapshot(sequence: u64, price: &str) -> Package {
    let level = Level2Snapshot { price: number(price), size: number("1"), ..Level2Snapshot::default() };
    let entries = vec![Entry::Level2Snapshot(level)];
    Package { kind: PackageKind::Snapshot, sequence: Some(sequence), entries, ..Package::default() }
}

pub(super) fn after(packages: &[Package]) -> Applier {
    let mut books = Applier::default();
    packages.iter().for_each(|package| books.package(0, T, package));
    books
}

pub(super) fn venue(books: &Applier) -> &VenueBook {
    &books.symbol(0).unwrap().venues()[0]
}

pub(super) fn bids(books: &Applier) -> Vec<String> {
    let units = books.symbol(0).unwrap().price_units();
    venue(books).levels(Side::Bid).map(|level| units.decimal(level.price).to_string()).collect()
}

#[test]
fn updates_that_wait_over_a_hole_or_a_misfit_wait_again() {
    for bad in [diff(9, 9, None, [set("2", "1")]), diff(6, 6, None, [set("1E300", "1")])] {
        let waiting = [diff(1, 5, None, [set("1", "1")]), bad, diff(10, 11, None, [set("3", "1")])];
        let mut books = after(&[&waiting[..], &[snapshot(4, "9")]].concat());
        assert_eq!(venue(&books).state(), BookState::Unknown);
        books.package(0, T, &snapshot(9, "8"));
        assert_eq!((venue(&books).state(), bids(&books)), (BookState::Good, vec!["8".into(), "3".into()]));
    }
}

#[test]
fn numbers_of_trades_are_not_those_of_the_book() {
    let trades = diff(900, 905, None, [Entry::Trade(Trade::default())]);
    let books = after(&[snapshot(7, "9"), diff(8, 9, None, []), trades, diff(10, 12, None, [set("4", "1")])]);
    assert_eq!((venue(&books).state(), bids(&books).len()), (BookState::Good, 2));
}

#[test]
fn an_update_without_levels_is_of_the_venue_that_it_continues() {
    let of = |mut package: Package, name: &str| {
        for entry in &mut package.entries {
            match entry {
                Entry::Level2Update(entry) => entry.exchange = Ascii::new(name).ok(),
                Entry::Level2Snapshot(entry) => entry.exchange = Ascii::new(name).ok(),
                _ => {}
            }
        }
        package
    };
    let states = |packages: &[Package]| -> Vec<BookState> {
        after(packages).symbol(0).unwrap().venues().iter().map(VenueBook::state).collect()
    };
    let begin = [of(snapshot(7, "9"), "X"), of(snapshot(700, "8"), "Y"), diff(8, 9, None, [])];
    let next = [of(diff(10, 10, None, [set("4", "1")]), "X"), of(diff(701, 701, None, [set("4", "1")]), "Y")];
    assert_eq!(states(&[&begin[..], &next[..]].concat()), [BookState::Good, BookState::Good]);
    // Without it, one is missing; and one that continues none says nothing.
    assert_eq!(states(&[&begin[..2], &next[..]].concat()), [BookState::Unknown, BookState::Good]);
    let nobody = [diff(50, 60, None, []), next[1].clone()];
    assert_eq!(states(&[&begin[..2], &nobody[..]].concat()), [BookState::Seeded, BookState::Good]);
}

#[test]
fn a_snapshot_after_its_updates_takes_those_that_continue_it() {
    let books = after(&[
        diff(1, 5, None, [set("1", "1")]),
        diff(6, 8, None, [set("2", "1")]),
        diff(9, 10, None, [set("3", "1")]),
        snapshot(7, "9"),
        diff(11, 12, None, []),
        diff(13, 13, None, [set("4", "1"), set("77", "0")]),
    ]);
    assert_eq!(bids(&books), ["9", "4", "3", "2"]);
    let venue = venue(&books);
    assert_eq!((venue.state(), venue.sequence(), venue.doubt()), (BookState::Good, Some(13), None));
    assert_eq!((venue.counters().absent_levels, venue.counters().snapshots), (1, 1));
}

#[test]
fn a_snapshot_older_than_all_updates_is_of_no_use_and_the_next_one_is() {
    let mut books = after(&[diff(6, 8, None, [set("2", "1")]), snapshot(4, "9")]);
    assert_eq!((venue(&books).doubt(), bids(&books).len()), (Some(Doubt::OldSnapshot), 0));
    books.package(0, T, &snapshot(5, "8"));
    assert_eq!((venue(&books).state(), bids(&books)), (BookState::Good, vec!["8".into(), "2".into()]));
    // Late, and of something that the book has passed.
    books.package(0, T, &snapshot(6, "1"));
    books.package(0, T, &diff(7, 8, None, [set("1", "1")]));
    assert_eq!(bids(&books), ["8", "2"]);
    assert_eq!((venue(&books).counters().snapshots_behind, venue(&books).counters().updates_behind), (1, 1));
}

#[test]
fn numbers_that_only_refer_to_the_update_before_are_followed() {
    let mut books = after(&[snapshot(100, "9"), diff(107, 110, Some(98), [set("8", "1")])]);
    books.package(0, T, &diff(150, 160, Some(110), [set("7", "1")]));
    assert_eq!((venue(&books).state(), bids(&books).len()), (BookState::Good, 3));
    books.package(0, T, &diff(180, 190, Some(170), [set("6", "1")]));
    assert_eq!((venue(&books).doubt(), bids(&books).len()), (Some(Doubt::SequenceBreak), 0));
    assert_eq!((venue(&books).counters().breaks, books.symbol(0).unwrap().best(Side::Bid)), (1, None));
    // The update behind the break continues this snapshot.
    books.package(0, T, &snapshot(175, "5"));
    assert_eq!((venue(&books).state(), bids(&books)), (BookState::Good, vec!["6".into(), "5".into()]));
}

#[test]
fn a_gap_empties_the_book_until_the_next_snapshot() {
    let mut books = after(&[snapshot(1, "9")]);
    assert_eq!(venue(&books).state(), BookState::Seeded);
    books.gap(5, T, &Gap::default());
    books.package(0, T, &Package { entries: vec![set("3", "1")], ..Package::default() });
    assert_eq!((venue(&books).doubt(), bids(&books)), (Some(Doubt::Gap), vec!["3".to_string()]));
    assert_eq!(books.symbol(0).unwrap().best(Side::Bid), None);
    books.package(0, T, &snapshot(9, "4"));
    assert_eq!((venue(&books).state(), bids(&books)), (BookState::Seeded, vec!["4".to_string()]));
}

#[test]
fn finer_numbers_change_no_level() {
    let mut books = after(&[snapshot(1, "9"), diff(2, 2, None, [set("9.5", "0.001"), set("9.25", "2")])]);
    assert_eq!(bids(&books), ["9.50", "9.25", "9.00"]);
    let sizes: Vec<i64> = venue(&books).levels(Side::Bid).map(|level| level.size).collect();
    assert_eq!(sizes, [1, 2_000, 1_000]);
    for bad in ["1E300", "NaN"] {
        books.package(0, T, &snapshot(1, "9"));
        books.package(0, T, &Package { entries: vec![set(bad, "1")], ..Package::default() });
        assert_eq!((venue(&books).doubt(), bids(&books).len()), (Some(Doubt::Misfit), 0), "{bad}");
        books = after(&[]);
    }
}

#[test]
fn the_best_over_venues_takes_the_first_of_equal_prices() {
    let mut books = Applier::default();
    let quote = |exchange: &str, side, price: Option<&str>| {
        let exchange = exchange.parse().ok();
        let quote =
            Level1 { side, price: price.map(number), exchange, size: price.map(number), ..Level1::default() };
        Package { entries: vec![Entry::Level1(quote)], ..Package::default() }
    };
    let mut best = |package: &Package| {
        books.package(0, T, package);
        let symbol = books.symbol(0).unwrap();
        assert_eq!(symbol.venues()[0].kind(), BookKind::Quotes);
        symbol.best(Side::Bid).map(|best| (best.venue, best.price)).zip(Some(symbol.is_crossed()))
    };
    assert_eq!(best(&quote("A", Side::Bid, Some("10"))), Some(((0, 10), false)));
    assert_eq!(best(&quote("B", Side::Bid, Some("10"))), Some(((0, 10), false)));
    assert_eq!(best(&quote("B", Side::Ask, Some("9"))), Some(((0, 10), true)));
    assert_eq!(best(&quote("A", Side::Bid, None)), Some(((1, 10), true)));
    assert_eq!(best(&quote("B", Side::Bid, Some("8"))), Some(((1, 8), false)));
    assert_eq!(best(&quote("B", Side::Bid, None)), None);
}

fn order(action: OrderAction, id: u64, price: &str, size: &str) -> Order {
    let (price, size) = (price.parse().ok(), size.parse().ok());
    Order {
        action,
        side: Some(Side::Bid),
        price,
        size,
        order_id: Some(id),
        event_end: true,
        ..Order::default()
    }
}

#[test]
fn a_snapshot_of_orders_over_several_messages() {
    let mut books = Applier::default();
    let mut apply = |order: Order| {
        books.order(0, T, &order);
        let venue = venue(&books);
        (venue.state(), venue.orders().unwrap().len())
    };
    assert_eq!(apply(order(OrderAction::Add, 1, "5", "1")), (BookState::Unknown, 1));
    let part = |id, event_end| Order { snapshot: true, event_end, ..order(OrderAction::Add, id, "5", "2") };
    let clear = Order { snapshot: true, event_end: false, ..order(OrderAction::Clear, 0, "", "") };
    assert_eq!(apply(clear), (BookState::Unknown, 0));
    assert_eq!(apply(part(2, false)), (BookState::Unknown, 1));
    assert_eq!(apply(part(3, true)), (BookState::Seeded, 2));
    assert_eq!(apply(order(OrderAction::Add, 4, "5", "3")), (BookState::Seeded, 3));
    for without_effect in [OrderAction::Trade, OrderAction::Fill, OrderAction::None] {
        assert_eq!(apply(order(without_effect, 2, "5", "2")), (BookState::Seeded, 3));
    }
    assert_eq!(apply(order(OrderAction::Delete, 99, "5", "2")), (BookState::Seeded, 3));
    assert_eq!(apply(order(OrderAction::Execute, 2, "5", "1")), (BookState::Seeded, 3));
    let position = |books: &Applier, id| venue(books).orders().unwrap().position(id).unwrap();
    let third = position(&books, 4);
    assert_eq!((third.orders_ahead, third.size_ahead, third.arrival), (2, 3, Arrival::Observed));
    assert_eq!(position(&books, 2).arrival, Arrival::Seeded);
    assert_eq!(venue(&books).counters().absent_deletes, 1);
    // A second snapshot, whose end is not marked.
    books.order(0, T, &part(7, false));
    books.order(0, T, &order(OrderAction::Add, 8, "6", "1"));
    assert_eq!((venue(&books).state(), venue(&books).orders().unwrap().len()), (BookState::Seeded, 2));
}

#[test]
fn what_an_order_lacks_makes_the_book_unknown() {
    for lacking in [
        Order { order_id: None, ..order(OrderAction::Add, 1, "5", "1") },
        Order {
            order_id_text: Some("x".into()),
            previous_order_id: Some(1),
            ..order(OrderAction::Replace, 1, "5", "1")
        },
        order(OrderAction::Add, 1, "5", "-1"),
        order(OrderAction::Cancel, 1, "5", ""),
    ] {
        let mut books = Applier::default();
        books.order(0, T, &order(OrderAction::Clear, 0, "", ""));
        assert_eq!(venue(&books).state(), BookState::Unknown);
        books.order(0, T, &Order { side: None, ..order(OrderAction::Clear, 0, "", "") });
        assert_eq!(venue(&books).state(), BookState::Seeded);
        books.order(0, T, &lacking);
        assert_eq!((venue(&books).doubt(), venue(&books).counters().misfits), (Some(Doubt::Misfit), 1));
    }
}

#[test]
fn changes_that_are_looked_up_together_are_applied_one_by_one() {
    let mut numbers = crate::random::Random::new(7);
    let actions = [OrderAction::Add, OrderAction::Delete, OrderAction::Execute, OrderAction::Replace];
    let changes: Vec<(u32, Timestamp, Order)> = (0..5_000)
        .map(|time| {
            let number = numbers.next_u64();
            let action =
                if number.is_multiple_of(3) { OrderAction::Add } else { actions[(number >> 8) as usize % 4] };
            let change = order(action, 1 + (number >> 16) % 200, "5", "3");
            let previous_order_id = (action == OrderAction::Replace).then_some(1 + (number >> 32) % 200);
            ((number >> 48) as u32 % 3, Timestamp(time), Order { previous_order_id, ..change })
        })
        .collect();
    let (mut alone, mut together) = (Applier::default(), Applier::default());
    for run in changes.chunks(17) {
        run.iter().for_each(|(symbol, time, order)| alone.order(*symbol, *time, order));
        together.orders(run.iter().map(|(symbol, time, order)| (*symbol, *time, order)));
    }
    for symbol in 0..3 {
        let of = |books: &Applier| {
            let venue = &books.symbol(symbol).unwrap().venues()[0];
            let orders = venue.orders().unwrap();
            let ids = |side| orders.orders(side).map(|order| (order.id, order.size)).collect::<Vec<_>>();
            (ids(Side::Bid), ids(Side::Ask), *venue.counters())
        };
        assert!(of(&alone) == of(&together));
    }
}

#[test]
fn orders_with_long_identifiers_have_a_book() {
    let mut books = Applier::default();
    books.order(0, T, &Order { side: None, ..order(OrderAction::Clear, 0, "", "") });
    let uuid = |action, low| Order { order_id_high: Some(7), ..order(action, low, "5", "1") };
    let text = |action, text: &str| Order { order_id_text: Some(text.into()), ..order(action, 1, "5", "1") };
    let adds = [
        uuid(OrderAction::Add, 1),
        uuid(OrderAction::Add, 2),
        order(OrderAction::Add, 1, "5", "1"),
        text(OrderAction::Add, "5c24c5da03aa673885cd67aa"),
        text(OrderAction::Add, "5c24c5da03aa673885cd67ab"),
        text(OrderAction::Add, ""),
    ];
    for (count, add) in (1..).zip(&adds) {
        books.order(0, T, add);
        assert_eq!(
            (venue(&books).state(), venue(&books).orders().unwrap().len()),
            (BookState::Seeded, count)
        );
    }
    books.order(0, T, &uuid(OrderAction::Delete, 1));
    books.order(0, T, &text(OrderAction::Execute, "5c24c5da03aa673885cd67ab"));
    let orders = venue(&books).orders().unwrap();
    assert_eq!((orders.len(), orders.position(1).map(|place| place.orders_ahead)), (4, Some(1)));
    assert_eq!(uuid(OrderAction::Add, 2).book_id(), adds[1].book_id());
    // Checkpoints on the disk have these numbers.
    assert_eq!(adds[1].book_id(), Some(0x82bd_ff16_9d2a_4abd));
}

#[test]
fn the_generated_feed_gives_the_books_of_decimals() {
    let mut feed = Feed::new(FeedConfig { snapshot_every: 700, ..FeedConfig::default() }).unwrap();
    let (mut books, mut decimals) = (Applier::default(), HashMap::<String, (u32, Book)>::new());
    for _ in 0..100_000 {
        let message = feed.next();
        let next = decimals.len() as u32;
        let (id, book) = decimals.entry(message.symbol.to_string()).or_insert((next, Book::default()));
        book.apply(message.package);
        books.package(*id, message.time, message.package);
    }
    for (id, book) in decimals.values() {
        let symbol = books.symbol(*id).unwrap();
        assert_eq!(symbol.venues()[0].state(), BookState::Seeded);
        for side in [Side::Bid, Side::Ask] {
            let levels = symbol.venues()[0].levels(side).map(|level| {
                (symbol.price_units().decimal(level.price), symbol.size_units().decimal(level.size))
            });
            let levels: Vec<_> = levels.collect();
            assert_eq!(levels.len(), book.depth(side));
            for ((price, size), expected) in levels.iter().zip(book.levels(side)) {
                assert!(price.numeric_eq(&expected.price) && size.numeric_eq(&expected.size.unwrap()));
            }
        }
    }
}
