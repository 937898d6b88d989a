//! Books of recorded files, beside what independent programs found.

use std::fs::File;
use std::io::Read;
use tapedb_market::{Applier, BookKind, BookState, Entry, PriceLevel, Side, VenueBook};
use tapedb_skipped::recorded_data;
use tapedb_venue::{AnyRecord, Format, ImportOptions, discover};

/// Applies a file of orders; calls `each` after each of them.
fn replay(format: Format, path: &str, mut each: impl FnMut(&VenueBook)) -> Option<Applier> {
    let path = recorded_data()?.join(path);
    let file = &discover(format, &[path], &ImportOptions::default()).unwrap()[0];
    let (mut source, mut record, mut books) =
        (file.open().unwrap(), AnyRecord::default(), Applier::default());
    while let Some(row) = source.next(&mut record).unwrap() {
        if let AnyRecord::Order(order) = &record {
            books.order(0, row.time, order);
            each(&books.symbol(0).unwrap().venues()[0]);
        }
    }
    Some(books)
}

#[cfg(feature = "zstd")]
#[test]
fn the_books_of_es_are_those_of_two_independent_builders() {
    let expected = [
        ("dbn/esh4-glbx-mdp3-20231224.mbo.dbn.zst", 8_725, [(479_900, 16), (479_950, 23)], [892, 559], 4),
        ("dbn/esh4-glbx-mdp3-20231225.mbo.dbn.zst", 11_217, [(481_000, 22), (481_025, 28)], [922, 565], 22),
    ];
    for (path, orders, best, depth, bid_orders) in expected {
        let Some(books) = replay(Format::Dbn, path, |_| {}) else { return };
        let symbol = books.symbol(0).unwrap();
        let venue = &symbol.venues()[0];
        assert_eq!((venue.orders().unwrap().len(), venue.state()), (orders, BookState::Seeded), "{path}");
        assert_eq!(symbol.price_units().scale(), 2);
        let sides = [Side::Bid, Side::Ask];
        let found = sides.map(|side| venue.best(side).map(|level| (level.price, level.size)).unwrap());
        assert_eq!((found, sides.map(|side| venue.depth(side))), (best, depth), "{path}");
        assert_eq!(venue.best(Side::Bid).unwrap().orders, bid_orders);
        let counters = venue.counters();
        let faults = [counters.absent_changes, counters.duplicates, counters.oversized, counters.misfits];
        assert_eq!(faults, [0; 4], "{path}: {counters:?}");
    }
}

/// The messages begin at 9:30 without the orders that rested then, and are of 50 levels; the recorded best prices are of one level and
/// have no times. So states are compared, not messages: from where the last of those orders is gone, each best price and size, in order.
#[test]
fn orders_of_lobster_give_the_recorded_best_prices() {
    type State = [Option<(i64, i64)>; 2];
    let mut ours: Vec<State> = Vec::new();
    let note = |venue: &VenueBook| {
        let pair = |level: PriceLevel| (level.price, level.size);
        let state = [venue.best(Side::Ask).map(pair), venue.best(Side::Bid).map(pair)];
        if ours.last() != Some(&state) {
            ours.push(state);
        }
    };
    let name = "lobster/AAPL_2012-06-21_34200000_37800000_message_50.csv.gz";
    let Some(books) = replay(Format::Lobster, name, note) else { return };
    let symbol = books.symbol(0).unwrap();
    let (venue, counters) = (&symbol.venues()[0], symbol.venues()[0].counters());
    assert_eq!((counters.absent_deletes, counters.absent_executions), (72, 12));
    assert_eq!((counters.absent_changes, counters.duplicates, counters.oversized), (0, 0, 0));
    assert_eq!((venue.state(), symbol.price_units().scale()), (BookState::Unknown, 4));

    let path = recorded_data().unwrap().join("lobster/AAPL_2012-06-21_34200000_57600000_orderbook_1.csv.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let mut recorded: Vec<State> = text
        .lines()
        .map(|line| {
            let mut fields = line.split(',').map(|field| field.trim().parse().unwrap());
            let mut pair = || fields.next().zip(fields.next());
            [pair(), pair()]
        })
        .collect();
    recorded.dedup();
    assert_eq!((ours.len(), recorded.len()), (23_457, 107_165));
    let last = &ours[ours.len() - 7_401..];
    assert!(recorded.windows(last.len()).any(|window| window == last));
}

/// Recordings begin with updates, and the snapshot comes after some of them. Where the venue's best prices have the number of an
/// update, they are those of the book.
#[test]
fn books_of_binance_are_good_behind_their_snapshot_and_have_the_best_prices_that_were_sent() {
    let Some(data) = recorded_data().map(|data| data.join("binance-raw-ws")) else { return };
    let files = [("usdm-btcusdt", 126), ("usdm-ethusdt", 80), ("cm-btcusd_perp", 0), ("spot-btcusdt", 0)];
    for (name, with_the_same_number) in files {
        let path = data.join(format!("{name}_20240808.gz"));
        let file = &discover(Format::BinanceRawWs, &[path], &ImportOptions::default()).unwrap()[0];
        let (mut source, mut record) = (file.open().unwrap(), AnyRecord::default());
        let (mut books, mut updates, mut compared) = (Applier::default(), 0, 0);
        while let Some(row) = source.next(&mut record).unwrap() {
            let AnyRecord::Package(package) = &record else { continue };
            books.package(0, row.time, package);
            updates += u64::from(package.entries.iter().any(|e| matches!(e, Entry::SequenceRange(_))));
            let symbol = books.symbol(0).unwrap();
            let of = |kind| symbol.venues().iter().find(|venue| venue.kind() == kind);
            let (Some(prices), Some(quotes)) = (of(BookKind::Prices), of(BookKind::Quotes)) else { continue };
            let is_quote = matches!(package.entries.first(), Some(Entry::Level1(_)));
            if prices.state() == BookState::Good && is_quote && prices.sequence() == package.sequence {
                let best = |venue: &VenueBook| {
                    [Side::Bid, Side::Ask].map(|side| venue.best(side).map(|level| (level.price, level.size)))
                };
                assert_eq!(best(prices), best(quotes), "{name} {:?}", package.sequence);
                compared += 1;
            }
        }
        let symbol = books.symbol(0).unwrap();
        let prices = symbol.venues().iter().find(|venue| venue.kind() == BookKind::Prices).unwrap();
        let counters = prices.counters();
        assert_eq!((prices.state(), counters.snapshots, counters.breaks), (BookState::Good, 1, 0), "{name}");
        assert_eq!(counters.messages, updates + 1, "{name}");
        assert_eq!(compared, with_the_same_number, "{name}");
    }
}
