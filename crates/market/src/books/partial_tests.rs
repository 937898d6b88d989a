//! States of the best levels beside changes of the whole book.

use super::tests::{T, bids, diff, set, snapshot, venue};
use super::{Applier, BookCheckpoint, BookState, Doubt, SymbolBooks};
use crate::{BidAsk, Gap, MarketByPrice};

fn state(sequence: u64, prices: &[&str]) -> MarketByPrice {
    let level = |price: &&str| BidAsk {
        bid_price: price.parse().ok(),
        bid_size: "1".parse().ok(),
        ..BidAsk::default()
    };
    MarketByPrice {
        sequence: Some(sequence),
        levels: prices.iter().map(level).collect(),
        ..MarketByPrice::default()
    }
}

/// The books after a checkpoint of them.
fn restored(books: &Applier) -> Applier {
    let parts: Vec<BookCheckpoint> = books.symbol(0).unwrap().checkpoint().unwrap();
    let mut again = Applier::default();
    again.restore(0, SymbolBooks::restore(&parts).unwrap());
    again
}

#[test]
fn numbered_updates_do_not_continue_a_state_of_the_best_levels() {
    let mut books = Applier::default();
    books.market_by_price(0, T, &state(5, &["3", "2"]));
    assert_eq!((bids(&books), venue(&books).state()), (vec!["3".into(), "2".into()], BookState::Seeded));
    for mut books in [books.clone(), restored(&books)] {
        books.package(0, T, &diff(6, 6, None, [set("2", "0")]));
        assert_eq!((bids(&books).len(), venue(&books).doubt()), (0, Some(Doubt::NoSnapshot)));
        // With a snapshot before it, it is known.
        books.package(0, T, &snapshot(5, "1"));
        assert_eq!((bids(&books), venue(&books).state()), (vec!["1".into()], BookState::Good));
        // A state of the best levels then changes nothing.
        for mut books in [books.clone(), restored(&books)] {
            books.market_by_price(0, T, &state(7, &["9", "8"]));
            assert_eq!((bids(&books), venue(&books).sequence()), (vec!["1".into()], Some(6)));
            books.package(0, T, &diff(7, 7, None, [set("4", "1")]));
            assert_eq!((bids(&books).len(), venue(&books).state()), (2, BookState::Good));
        }
    }
}

#[test]
fn states_of_the_best_levels_alone_are_a_book() {
    let mut books = Applier::default();
    for (sequence, prices) in [(5, ["3", "2"]), (4, ["4", "3"])] {
        books.market_by_price(0, T, &state(sequence, &prices));
        assert_eq!(
            (bids(&books), venue(&books).state()),
            (prices.map(String::from).to_vec(), BookState::Seeded)
        );
        assert_eq!(
            (bids(&restored(&books)), venue(&restored(&books)).sequence()),
            (bids(&books), Some(sequence))
        );
    }
}

#[test]
fn a_state_of_the_best_levels_that_is_lost_keeps_its_reason() {
    let mut books = Applier::default();
    books.market_by_price(0, T, &state(5, &["3", "2"]));
    books.gap(0, T, &Gap::default());
    for mut books in [books.clone(), restored(&books)] {
        assert_eq!(venue(&books).doubt(), Some(Doubt::Gap));
        books.market_by_price(0, T, &state(6, &["3", "2"]));
        assert_eq!(venue(&books).state(), BookState::Seeded);
    }
}
