//! The messages: rings of variants, so that no two operations in a row are the same and no branch is learnt by heart.
//!
//! Seeded, so that every run and every machine has the same ones. A ring fits into the caches next to the core, as the
//! one message does that other benchmarks encode again and again.

use crate::fields::{Fields, Join};
use tapedb_codec::Record;
use tapedb_market::{Aggressor, Entry, Level2Snapshot, Package, PackageKind, Side, Trade};
use tapedb_schema::{Ascii, Decimal64, Timestamp};

/// Variants of the small messages.
const SMALL_RING: u64 = 64;
/// Variants of the book.
const BOOK_RING: u64 = 8;
/// Levels on each side of the book.
const DEPTH: u16 = 20;

const EXCHANGES: [&str; 6] = ["NYSE", "ARCA", "XNAS", "BATSY", "IEX", "CME"];
const CONDITIONS: [&str; 3] = ["@", "@ I", "@F T"];

/// A message that says nothing but that it is there.
#[derive(Record, Debug, Default, Clone, Copy, PartialEq, Eq)]
#[record(message)]
pub struct Empty {}

impl Fields for Empty {
    #[inline]
    fn fold(&self, _: impl Join) -> u64 {
        0
    }

    #[inline]
    fn fold_view(view: EmptyView<'_>, _: impl Join) -> u64 {
        // There is no field to look at; without this look at the body there would be nothing to measure.
        view.as_bytes().len() as u64
    }
}

/// Messages without fields.
pub fn empties() -> Vec<Empty> {
    vec![Empty {}; SMALL_RING as usize]
}

/// Packages with one trade each.
pub fn trades() -> Vec<Package> {
    let mut random = Random(1);
    (0..SMALL_RING).map(|number| package(PackageKind::Update, vec![trade(&mut random)], number)).collect()
}

/// Packages with a snapshot of twenty bids and twenty asks each.
pub fn books() -> Vec<Package> {
    let mut random = Random(2);
    (0..BOOK_RING).map(|number| package(PackageKind::Snapshot, book(&mut random), number)).collect()
}

fn package(kind: PackageKind, entries: Vec<Entry>, number: u64) -> Package {
    let source = 1_704_205_800_000_000_000 + 1_734_211 * number as i64;
    let match_time = (!number.is_multiple_of(4)).then_some(Timestamp(source - 41_873));
    Package {
        kind,
        source_time: Some(Timestamp(source)),
        match_time,
        sequence: Some(81_220_000 + number),
        entries,
    }
}

fn trade(random: &mut Random) -> Entry {
    let aggressor = if random.one_in(2) { Aggressor::Buy } else { Aggressor::Sell };
    Entry::Trade(Trade {
        exchange: Some(exchange(random)),
        price: cents(4_800 + random.below(300)),
        size: units(1 + random.below(5_000)),
        aggressor: (!random.one_in(8)).then_some(aggressor),
        id: Some(52_983_525_027_000 + random.below(1_000_000)),
        condition: random.one_in(4).then(|| ascii(CONDITIONS[random.below(3) as usize])),
        suspicious: random.one_in(16),
    })
}

/// Bids from the best down, then asks from the best up. Some venues do not count orders.
fn book(random: &mut Random) -> Vec<Entry> {
    let middle = 4_800 + random.below(300);
    let counted = !random.one_in(4);
    let mut entries = Vec::new();
    for side in [Side::Bid, Side::Ask] {
        let mut away = 0;
        for level in 0..DEPTH {
            away += 1 + random.below(3);
            let price = if side == Side::Bid { middle - away } else { middle + away };
            entries.push(Entry::Level2Snapshot(Level2Snapshot {
                side,
                level,
                price: cents(price),
                size: units(100 * (1 + random.below(90))),
                orders: counted.then_some(1 + random.below(40) as u32),
                exchange: Some(exchange(random)),
            }));
        }
    }
    entries
}

fn exchange(random: &mut Random) -> Ascii<8> {
    ascii(EXCHANGES[random.below(EXCHANGES.len() as u64) as usize])
}

fn ascii(text: &str) -> Ascii<8> {
    Ascii::new(text).expect("a short text in ASCII")
}

fn cents(count: u64) -> Decimal64 {
    Decimal64::from_parts(count as i64, -2).expect("few digits")
}

fn units(count: u64) -> Decimal64 {
    Decimal64::from_parts(count as i64, 0).expect("few digits")
}

/// splitmix64: all the chance that a benchmark needs.
struct Random(u64);

impl Random {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
