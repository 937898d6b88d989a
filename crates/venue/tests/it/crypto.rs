//! Recorded files of crypto venues: every frame is a message, a control frame or an error; entries, numbers and exact sums are those of an independent reader,
//! `testing/acceptance/check_frames.py`; sequences and checksums pass.

use std::collections::BTreeMap;
use std::path::Path;
use tapedb_market::{Entry, Order, OrderAction};
use tapedb_schema::Decimal64;
use tapedb_skipped::recorded_data;
use tapedb_venue::{AnyRecord, Counters, Format, ImportOptions, OnBadLine, detect, discover};

/// Decimals of the sums.
const SCALE: u32 = 24;

/// What a file holds, as the independent reader writes it.
#[derive(Default)]
struct Totals {
    counts: BTreeMap<&'static str, u64>,
    sums: BTreeMap<&'static str, i128>,
}

impl Totals {
    fn count(&mut self, kind: &'static str, count: u64) {
        if count > 0 {
            *self.counts.entry(kind).or_default() += count;
        }
    }

    fn add(&mut self, sum: &'static str, number: Decimal64) {
        let (coefficient, exponent) = number.parts().unwrap();
        let power = u32::try_from(i64::from(SCALE) + i64::from(exponent)).expect("at most 24 decimals");
        *self.sums.entry(sum).or_default() += i128::from(coefficient) * 10i128.pow(power);
    }

    fn level(&mut self, price: Option<Decimal64>, size: Option<Decimal64>) {
        self.count("levels", 1);
        price.into_iter().for_each(|price| self.add("prices", price));
        size.into_iter().for_each(|size| self.add("sizes", size));
    }

    fn trade(&mut self, price: Decimal64, size: Decimal64) {
        self.count("trades", 1);
        self.add("trade_prices", price);
        self.add("trade_sizes", size);
    }

    fn record(&mut self, record: &AnyRecord) {
        match record {
            AnyRecord::Package(package) => {
                for entry in &package.entries {
                    match entry {
                        Entry::Trade(trade) => self.trade(trade.price, trade.size),
                        Entry::Level1(quote) => self.level(quote.price, quote.size),
                        Entry::Level2Snapshot(level) => self.level(Some(level.price), Some(level.size)),
                        Entry::Level2Update(level) => self.level(Some(level.price), level.size),
                        Entry::SequenceRange(_) => {}
                    }
                }
            }
            AnyRecord::MarketByPrice(trade) => self.trade(trade.price.unwrap(), trade.size.unwrap()),
            AnyRecord::Order(order) if order.action == OrderAction::Add => {
                self.level(order.price, order.size)
            }
            AnyRecord::Order(order) => assert_eq!(order.action, OrderAction::Clear),
            AnyRecord::IntervalBar(_) => self.count("bars", 1),
            AnyRecord::Ticker(_) => self.count("tickers", 1),
            other => panic!("{other:?}"),
        }
    }

    fn line(mut self, counters: &Counters) -> String {
        for (kind, count) in &counters.control_kinds {
            let other = matches!(kind.as_str(), "connection" | "sent" | "configuration");
            self.count(if other { "other lines" } else { "control" }, *count);
        }
        self.count("other answers", counters.unknown_kinds.values().sum());
        let mut line = String::new();
        for (kind, count) in &self.counts {
            line.push_str(&format!(" {kind}={count}"));
        }
        for kind in ["prices", "sizes", "trade_prices", "trade_sizes"] {
            let sum = self.sums.get(kind).copied().unwrap_or_default();
            if sum != 0 {
                let (whole, fraction) = (sum / 10i128.pow(SCALE), sum % 10i128.pow(SCALE));
                let text = format!("{whole}.{fraction:024}");
                line.push_str(&format!(" {kind}={}", text.trim_end_matches('0').trim_end_matches('.')));
            }
        }
        line
    }
}

fn rounding() -> ImportOptions {
    ImportOptions { round_numbers: true, ..ImportOptions::default() }
}

/// Every message of a file.
fn read(path: &Path, options: &ImportOptions, mut take: impl FnMut(&AnyRecord)) -> Counters {
    let format = detect(&[path], options).unwrap();
    let (mut record, mut counters) = (AnyRecord::default(), Counters::default());
    for file in discover(format, &[path], options).unwrap() {
        let mut source = file.open().unwrap();
        while let Some(row) = source.next(&mut record).unwrap_or_else(|error| panic!("{error}")) {
            assert!(!row.symbol.is_empty());
            take(&record);
        }
        counters.add(source.counters());
    }
    counters
}

#[test]
fn files_of_crypto_venues_have_the_counts_and_sums_of_an_independent_reader() {
    let Some(data) = recorded_data() else { return };
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/acceptance/frames.txt");
    let expected = std::fs::read_to_string(expected).unwrap();
    let (mut passed, mut rounded) = (BTreeMap::<String, u64>::new(), 0);
    for line in expected.lines() {
        let name = line.split(' ').next().unwrap();
        let mut totals = Totals::default();
        let counters = read(&data.join(name), &rounding(), |record| totals.record(record));
        assert_eq!(format!("{name}{}", totals.line(&counters)), line);
        assert_eq!((counters.checks_failed, counters.gaps, counters.bad_lines), (0, 0, 0), "{name}");
        let venue = name.rsplit('/').next().unwrap().split('.').next().unwrap();
        *passed.entry(venue.to_string()).or_default() += counters.checks_passed;
        rounded += counters.rounded_numbers;
    }
    // All of the checksums that there are.
    let passed = ["KRAKEN", "OKX", "BITGET"].map(|venue| passed[venue]);
    assert_eq!((passed, rounded), ([4_269, 290, 637], 64));
}

#[test]
fn long_numbers_are_bad_lines_without_leave_to_round() {
    let Some(data) = recorded_data() else { return };
    let path = data.join("exchange-raw-ws/HUOBI.ws.44.0.gz");
    let options = ImportOptions { on_bad_line: OnBadLine::Skip(1000), ..ImportOptions::default() };
    let counters = read(&path, &options, |_| {});
    assert!(counters.bad_lines > 0 && counters.rounded_numbers == 0 && counters.gaps > 0);
    let mut source =
        discover(Format::Capture, &[&path], &ImportOptions::default()).unwrap()[0].open().unwrap();
    let mut record = AnyRecord::default();
    let error = loop {
        match source.next(&mut record) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("no error"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("HUOBI.ws.44.0.gz, line ") && error.contains("16 digits"), "{error}");
}

#[test]
fn a_snapshot_of_orders_begins_with_a_clear_and_its_last_order_ends_it() {
    let Some(data) = recorded_data() else { return };
    let mut orders: Vec<Order> = Vec::new();
    read(&data.join("coinbase-book-snapshots/l3_snapshot.json.gz"), &ImportOptions::default(), |record| {
        let AnyRecord::Order(order) = record else { panic!("{record:?}") };
        orders.push((**order).clone());
    });
    assert_eq!((orders.len(), orders[0].action), (110_607, OrderAction::Clear));
    assert!(orders.iter().all(|order| order.snapshot && order.order_id_text.is_none()));
    let ends: Vec<usize> = (0..orders.len()).filter(|at| orders[*at].event_end).collect();
    assert_eq!(ends, [110_606]);
}
