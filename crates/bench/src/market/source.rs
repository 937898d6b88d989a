//! Messages to build books from: generated, and recorded where they are at hand.

use super::numbers::Numbers;
use std::path::Path;
use tapedb_market::feed::{Feed, FeedConfig};
use tapedb_market::{Entry, Order, OrderAction, Package, Side};
use tapedb_schema::{Decimal64, Timestamp};
use tapedb_terminal::Failure;
use tapedb_venue::{AnyRecord, Format, ImportOptions, discover};

/// Orders that the generated book by order holds.
const RESTING: u64 = 10_000;

/// A message of a symbol.
pub enum Change {
    Package(Package),
    Order(Box<Order>),
}

/// Messages that are measured together.
pub struct Case {
    pub name: &'static str,
    pub changes: Vec<(u32, Timestamp, Change)>,
    /// Changes of levels or orders among them.
    pub updates: u64,
}

impl Case {
    fn new(name: &'static str, changes: Vec<(u32, Timestamp, Change)>) -> Self {
        let of = |change: &Change| match change {
            Change::Package(package) => {
                let is_level =
                    |entry: &&Entry| matches!(entry, Entry::Level2Update(_) | Entry::Level2Snapshot(_));
                package.entries.iter().filter(is_level).count() as u64
            }
            Change::Order(_) => 1,
        };
        let updates = changes.iter().map(|(.., change)| of(change)).sum();
        Self { name, changes, updates }
    }
}

/// The cases; those of recorded data if `data` has them.
pub fn cases(messages: u64, data: Option<&Path>) -> Result<Vec<Case>, Failure> {
    let mut cases =
        vec![Case::new("market.book.l2", packages(messages)?), Case::new("market.book.l3", orders(messages))];
    if let Some(data) = data {
        let binance = data.join("binance-raw-ws/usdm-btcusdt_20240808.gz");
        let es = data.join("dbn/esh4-glbx-mdp3-20231225.mbo.dbn.zst");
        cases.push(Case::new("market.book.l2.binance", recorded(Format::BinanceRawWs, &binance)?));
        cases.push(Case::new("market.book.l3.es", recorded(Format::Dbn, &es)?));
    }
    Ok(cases)
}

fn packages(messages: u64) -> Result<Vec<(u32, Timestamp, Change)>, Failure> {
    let mut feed = Feed::new(FeedConfig::default()).map_err(|error| Failure::new(error.to_string()))?;
    let symbols: Vec<String> = feed.symbols().map(str::to_string).collect();
    let change = |_| {
        let message = feed.next();
        let symbol = symbols.iter().position(|symbol| symbol == message.symbol).unwrap_or(0);
        (symbol as u32, message.time, Change::Package(message.package.clone()))
    };
    Ok((0..messages).map(change).collect())
}

/// Adds, cancels and executions around a price that walks; orders rest mostly near it, and most are cancelled.
fn orders(messages: u64) -> Vec<(u32, Timestamp, Change)> {
    let mut numbers = Numbers::new(1);
    let mut random = move |limit: u64| numbers.below(limit);
    let (mut resting, mut middle, mut next): (Vec<(u64, Side, i64)>, i64, u64) = (Vec::new(), 481_000, 1);
    let number = |units: i64, exponent| Decimal64::from_parts(units, exponent).ok();
    let mut changes = Vec::new();
    for time in 0..messages {
        let order = if resting.is_empty() || random(2 * RESTING) >= resting.len() as u64 {
            let side = if random(2) == 0 { Side::Bid } else { Side::Ask };
            let away = 25 * (1 + random(4) * random(30)) as i64;
            let (price, size) =
                (if side == Side::Bid { middle - away } else { middle + away }, 1 + random(9) as i64);
            let id = next * 37;
            next += 1;
            resting.push((id, side, size));
            let (price, size) = (number(price, -2), number(size, 0));
            Order { side: Some(side), price, size, order_id: Some(id), event_end: true, ..Order::default() }
        } else {
            let at = random(resting.len() as u64) as usize;
            let (id, side, size) = resting[at];
            let part = if random(8) == 0 { 1 + random(size as u64) as i64 } else { size };
            if part == size {
                resting.swap_remove(at);
            } else {
                resting[at].2 -= part;
            }
            let action = if random(10) == 0 { OrderAction::Execute } else { OrderAction::Cancel };
            Order {
                action,
                side: Some(side),
                size: number(part, 0),
                order_id: Some(id),
                event_end: true,
                ..Order::default()
            }
        };
        if random(50) == 0 {
            middle += 25 * (random(3) as i64 - 1);
        }
        changes.push((0, Timestamp(time as i64), Change::Order(Box::new(order))));
    }
    changes
}

fn recorded(format: Format, path: &Path) -> Result<Vec<(u32, Timestamp, Change)>, Failure> {
    let files = discover(format, &[path], &ImportOptions::default()).map_err(|error| failed(&error))?;
    let mut changes = Vec::new();
    for file in files {
        let mut source = file.open().map_err(|error| failed(&error))?;
        let mut record = AnyRecord::default();
        while let Some(row) = source.next(&mut record).map_err(|error| failed(&error))? {
            match &record {
                AnyRecord::Package(package) => changes.push((0, row.time, Change::Package(package.clone()))),
                AnyRecord::Order(order) => changes.push((0, row.time, Change::Order(order.clone()))),
                _ => {}
            }
        }
    }
    Ok(changes)
}

/// The failure of a source.
pub fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}
