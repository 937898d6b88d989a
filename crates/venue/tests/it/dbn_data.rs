//! Recorded files of Databento, where they are present.

use std::collections::HashMap;
use std::fs;
use tapedb_market::{OrderAction, Side};
use tapedb_schema::Decimal64;
use tapedb_skipped::recorded_data;
use tapedb_venue::{AnyRecord, Format, ImportOptions, discover};

/// What an independent reader counted: rows, and the sums of prices (in 1e-9) and sizes.
struct Counted {
    rows: u64,
    prices: i128,
    sizes: i128,
}

fn counted(line: &str) -> Option<(String, Counted)> {
    let number = |name: &str| {
        let found = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|number| number.parse().ok())
    };
    let rows = u64::try_from(number("n")?).ok()?;
    let counted = Counted { rows, prices: number("sum_price")?, sizes: number("sum_size")? };
    Some((line.split_whitespace().next()?.to_string(), counted))
}

fn scaled(number: Option<Decimal64>, scale: u8) -> i128 {
    number.map_or(0, |number| i128::from(number.to_scaled(scale).unwrap()))
}

#[test]
fn dbn_files_have_the_counts_and_sums_of_an_independent_reader() {
    let Some(data) = recorded_data().map(|data| data.join("dbn")) else { return };
    let counts = fs::read_to_string(data.join("../COUNTS.txt")).unwrap();
    let counts: HashMap<String, Counted> = counts.lines().filter_map(counted).collect();
    let found = discover(Format::Dbn, &[&data], &ImportOptions::default()).unwrap();
    let mut compared = 0;
    for file in &found {
        let (mut source, mut record) = (file.open().unwrap(), AnyRecord::default());
        let (mut rows, mut prices, mut sizes) = (0, 0, 0);
        while source.next(&mut record).unwrap().is_some() {
            rows += 1;
            let (price, size) = match &record {
                AnyRecord::Order(order) => (order.price, order.size),
                AnyRecord::MarketByPrice(change) => (change.price, change.size),
                AnyRecord::Statistic(figure) => (figure.price, None),
                _ => (None, None),
            };
            prices += scaled(price, 9);
            sizes += scaled(size, 0);
        }
        assert!(source.counters().unknown_kinds.is_empty(), "{}", file.path().display());
        let name = file.path().strip_prefix(&data).unwrap().to_str().unwrap();
        // The independent reader does not read the oldest files; they have the same records as those of version 1.
        let same = name.strip_suffix(".dbz").map_or(name.to_string(), |name| format!("{name}.v1.dbn.zst"));
        if name.ends_with("definition.dbz") {
            assert_eq!(rows, 2);
            continue;
        }
        let Some(expected) = counts.get(&same) else { panic!("{name} is not in COUNTS.txt") };
        assert_eq!((rows, prices, sizes), (expected.rows, expected.prices, expected.sizes), "{name}");
        compared += 1;
    }
    assert!(compared > 80, "{compared}");
}

#[test]
fn the_last_book_of_orders_is_that_of_two_independent_builders() {
    let Some(data) = recorded_data() else { return };
    let path = data.join("dbn/esh4-glbx-mdp3-20231225.mbo.dbn.zst");
    let file = &discover(Format::Dbn, &[path], &ImportOptions::default()).unwrap()[0];
    let (mut source, mut record) = (file.open().unwrap(), AnyRecord::default());
    let mut orders = HashMap::new();
    while let Some(row) = source.next(&mut record).unwrap() {
        assert_eq!(row.symbol, "ESH4");
        let AnyRecord::Order(order) = &record else { panic!("{record:?}") };
        let size = scaled(order.size, 0);
        match order.action {
            OrderAction::Add | OrderAction::Modify => {
                orders.insert(order.order_id, (order.side, scaled(order.price, 9), size));
            }
            OrderAction::Cancel => {
                let left = orders.get_mut(&order.order_id).unwrap();
                left.2 -= size;
                if left.2 == 0 {
                    orders.remove(&order.order_id);
                }
            }
            OrderAction::Clear => orders.clear(),
            _ => {}
        }
    }
    assert_eq!(orders.len(), 11_217);
    let of =
        |side| orders.values().filter(move |order| order.0 == Some(side)).map(|order| (order.1, order.2));
    let bid = of(Side::Bid).map(|(price, _)| price).max().unwrap();
    let ask = of(Side::Ask).map(|(price, _)| price).min().unwrap();
    let at = |side, best| of(side).filter(|(price, _)| *price == best).map(|(_, size)| size).sum::<i128>();
    assert_eq!((bid, at(Side::Bid, bid)), (4_810_000_000_000, 22));
    assert_eq!((ask, at(Side::Ask, ask)), (4_810_250_000_000, 28));
}
