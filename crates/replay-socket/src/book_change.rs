//! Changes of levels as arrays of bids and asks.

use crate::json;
use crate::request::Selection;
use tapedb_market::{BookAction, Entry, MarketByPrice, OrderAction, Package, PackageKind, Side};
use tapedb_schema::{Ascii, Decimal64};

const SIDES: [(Side, &[u8]); 2] = [(Side::Bid, b",\"bids\":["), (Side::Ask, b",\"asks\":[")];

/// A level-2 entry: venue, side, price, and the size that there is now.
type Level = (Option<Ascii<8>>, Side, Decimal64, Option<Decimal64>);

/// Appends `isSnapshot`, `bids` and `asks` of a package; `false`, and nothing is appended: it has no levels that the option has.
pub(crate) fn of_package(package: &Package, selection: &Selection, out: &mut Vec<u8>) -> bool {
    let is_wanted = |level: &Level| selection.has_exchange(level.0);
    if !package.entries.iter().filter_map(level).any(|level| is_wanted(&level)) {
        return false;
    }
    begin(package.kind != PackageKind::Update, out);
    for (side, name) in SIDES {
        out.extend_from_slice(name);
        let levels = package.entries.iter().filter_map(level).filter(is_wanted);
        levels.filter(|level| level.1 == side).for_each(|(_, _, price, size)| json::level(price, size, out));
        out.push(b']');
    }
    true
}

/// The same of a change at a price: the whole state where the message has several levels.
pub(crate) fn of_market_by_price(change: &MarketByPrice, selection: &Selection, out: &mut Vec<u8>) -> bool {
    if !selection.has_exchange(change.exchange) || change.levels.len() == 1 {
        return false;
    }
    if !change.levels.is_empty() {
        begin(true, out);
        for (side, name) in SIDES {
            out.extend_from_slice(name);
            for level in &change.levels {
                let (price, size) = match side {
                    Side::Bid => (level.bid_price, level.bid_size),
                    Side::Ask => (level.ask_price, level.ask_size),
                };
                price.into_iter().for_each(|price| json::level(price, size, out));
            }
            out.push(b']');
        }
        return true;
    }
    let size = match (change.action, change.side, change.price) {
        (Some(OrderAction::Clear), None, _) => {
            begin(true, out);
            out.extend_from_slice(b",\"bids\":[],\"asks\":[]");
            return true;
        }
        (Some(OrderAction::Add | OrderAction::Modify), Some(_), Some(_)) => change.size,
        (Some(OrderAction::Delete), Some(_), Some(_)) => Some(Decimal64::ZERO),
        _ => return false,
    };
    begin(false, out);
    for (side, name) in SIDES {
        out.extend_from_slice(name);
        if let Some(price) = change.price.filter(|_| change.side == Some(side)) {
            json::level(price, size, out);
        }
        out.push(b']');
    }
    true
}

fn begin(is_snapshot: bool, out: &mut Vec<u8>) {
    let text: &[u8] = if is_snapshot { b",\"isSnapshot\":true" } else { b",\"isSnapshot\":false" };
    out.extend_from_slice(text);
}

#[inline]
fn level(entry: &Entry) -> Option<Level> {
    match entry {
        Entry::Level2Update(entry) => {
            let size = if entry.action == BookAction::Delete { Some(Decimal64::ZERO) } else { entry.size };
            Some((entry.exchange, entry.side, entry.price, size))
        }
        Entry::Level2Snapshot(entry) => Some((entry.exchange, entry.side, entry.price, Some(entry.size))),
        Entry::Trade(_) | Entry::Level1(_) | Entry::SequenceRange(_) => None,
    }
}
