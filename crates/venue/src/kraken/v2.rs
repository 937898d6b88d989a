//! Kraken, version 2: objects with `channel`, `type` and `data`, whose numbers are JSON numbers.
//!
//! The checksum is over digits of a fixed number of decimals for each pair. A number that was written again without its last zeros is given them back: the
//! most decimals that the pair has shown.

use super::{NANOS_PER_MINUTE, Parser, level3};
use crate::fields::BadLine;
use crate::frames::by_symbol::BySymbol;
use crate::frames::checked_book::{CheckedBooks, Decimals};
use crate::frames::messages::Messages;
use crate::frames::scalar::{Scalar, of_raw};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use tapedb_market::{
    Attribute, Entry, IntervalBar, NoticeKind, Package, Side, Ticker, Trade, TradeCondition,
};
use tapedb_schema::Ascii;

/// Depths that can be subscribed to.
const DEPTHS: [usize; 5] = [10, 25, 100, 500, 1000];

/// The depth of a subscription, by the levels of its snapshot.
pub(super) fn depth_of(levels: usize) -> Option<usize> {
    DEPTHS.into_iter().find(|depth| *depth >= levels)
}

/// What is known of a pair's book.
#[derive(Default)]
pub(super) struct Shape {
    depth: Option<usize>,
    decimals: Decimals,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default)]
    channel: Scalar<'a>,
    #[serde(default, rename = "type")]
    kind: Scalar<'a>,
    #[serde(default)]
    method: Scalar<'a>,
    #[serde(default)]
    success: Scalar<'a>,
    result: Option<&'a RawValue>,
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Subscribed<'a> {
    #[serde(borrow, default)]
    channel: Scalar<'a>,
    #[serde(default)]
    symbol: Scalar<'a>,
    depth: Option<usize>,
}

#[derive(Deserialize)]
struct Level<'a> {
    #[serde(borrow)]
    price: Scalar<'a>,
    qty: Scalar<'a>,
}

#[derive(Deserialize)]
struct BookData<'a> {
    #[serde(borrow)]
    symbol: Scalar<'a>,
    #[serde(default)]
    bids: Vec<Level<'a>>,
    #[serde(default)]
    asks: Vec<Level<'a>>,
    #[serde(default)]
    checksum: Scalar<'a>,
    #[serde(default)]
    timestamp: Scalar<'a>,
}

#[derive(Deserialize)]
struct TradeData<'a> {
    #[serde(borrow)]
    symbol: Scalar<'a>,
    side: Scalar<'a>,
    qty: Scalar<'a>,
    price: Scalar<'a>,
    #[serde(default)]
    ord_type: Scalar<'a>,
    trade_id: Scalar<'a>,
    timestamp: Scalar<'a>,
}

#[derive(Deserialize)]
struct Candle<'a> {
    #[serde(borrow)]
    symbol: Scalar<'a>,
    open: Scalar<'a>,
    high: Scalar<'a>,
    low: Scalar<'a>,
    close: Scalar<'a>,
    volume: Scalar<'a>,
    #[serde(default)]
    trades: Scalar<'a>,
    interval_begin: Scalar<'a>,
    #[serde(default)]
    interval: Scalar<'a>,
}

/// Whether a frame is of this version.
pub(super) fn is_one(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        channel: Option<&'a RawValue>,
        method: Option<&'a RawValue>,
        event: Option<&'a RawValue>,
    }
    serde_json::from_str::<Head<'_>>(text)
        .is_ok_and(|head| head.event.is_none() && (head.channel.is_some() || head.method.is_some()))
}

pub(super) fn frame(text: &str, known: &mut Parser, out: &mut Messages) -> Result<(), BadLine> {
    let Parser { books, shapes, orders } = known;
    let frame: Frame<'_> = out.json(text)?;
    if let Some(method) = frame.method.some() {
        if frame.success.0 == "false" {
            return out.notice(NoticeKind::Error, text);
        }
        if let ("subscribe", Some(result)) = (method, frame.result) {
            let subscribed: Subscribed<'_> = out.json(result.get())?;
            match (subscribed.channel.0, subscribed.depth) {
                ("book", Some(depth)) => shapes.of(subscribed.symbol.0, out)?.depth = Some(depth),
                ("level3", Some(depth)) => orders.set_depth(subscribed.symbol.0, depth, out)?,
                _ => {}
            }
        }
        out.control(method);
        return Ok(());
    }
    let (channel, Some(data)) = (frame.channel.0, frame.data) else {
        out.control(frame.channel.0);
        return Ok(());
    };
    let snapshot = frame.kind.0 == "snapshot";
    match channel {
        "book" => out
            .json::<Vec<BookData<'_>>>(data.get())?
            .iter()
            .try_for_each(|data| book(data, snapshot, books, shapes, out)),
        "level3" => out
            .json::<Vec<level3::Data<'_>>>(data.get())?
            .iter()
            .try_for_each(|data| orders.read(data, snapshot, out)),
        "trade" => {
            out.json::<Vec<TradeData<'_>>>(data.get())?.iter().try_for_each(|row| trade(row, snapshot, out))
        }
        "ticker" => out.json::<Vec<&RawValue>>(data.get())?.iter().try_for_each(|row| ticker(row, out)),
        "ohlc" => out.json::<Vec<Candle<'_>>>(data.get())?.iter().try_for_each(|row| bar(row, out)),
        "status" | "heartbeat" => {
            out.control(channel);
            Ok(())
        }
        channel => {
            out.unknown(channel);
            Ok(())
        }
    }
}

/// Without an exponent: the checksum is over digits.
pub(super) fn plain<'a>(number: Scalar<'a>, out: &mut Messages) -> Result<Cow<'a, str>, BadLine> {
    Ok(match number.0.contains(['e', 'E']) {
        true => Cow::Owned(out.decimal(number)?.to_string()),
        false => Cow::Borrowed(number.0),
    })
}

fn pairs<'a>(levels: &[Level<'a>]) -> Vec<(Scalar<'a>, Scalar<'a>)> {
    levels.iter().map(|level| (level.price, level.qty)).collect()
}

fn book(
    data: &BookData<'_>,
    snapshot: bool,
    books: &mut CheckedBooks,
    shapes: &mut BySymbol<Shape>,
    out: &mut Messages,
) -> Result<(), BadLine> {
    let symbol = data.symbol.0;
    let shape = shapes.of(symbol, out)?;
    let (bids, asks) = (pairs(&data.bids), pairs(&data.asks));
    let sides = [(Side::Bid, &bids[..]), (Side::Ask, &asks[..])];
    let mut package = out.levels(snapshot, sides)?;
    package.match_time = data.timestamp.some().map(|time| out.iso(Scalar(time))).transpose()?;
    if snapshot && shape.depth.is_none() {
        shape.depth = depth_of(bids.len().max(asks.len()));
    }
    let stated = data.checksum.some().map(|text| out.whole(Scalar(text), "checksum")).transpose()?;
    let stated = stated.and_then(|checksum| i64::try_from(checksum).ok());
    books.change(symbol, out, |book, out| {
        if snapshot {
            book.begin();
        }
        for (side, levels) in sides {
            for &(price, size) in levels {
                let (price, size) = (plain(price, out)?, plain(size, out)?);
                shape.decimals.note(&price, &size);
                book.set(side, Scalar(&price), Scalar(&size), out)?;
            }
        }
        if let Some(depth) = shape.depth {
            let dropped = book.truncate(depth);
            if !snapshot {
                package.entries.extend(out.dropped(dropped));
            }
        }
        out.push(symbol, package)?;
        match stated {
            Some(stated) => book.check(symbol, (stated, book.digits_of(shape.decimals)), out),
            None if snapshot => Ok(()),
            None => {
                out.unverifiable();
                Ok(())
            }
        }
    })
}

fn trade(row: &TradeData<'_>, history: bool, out: &mut Messages) -> Result<(), BadLine> {
    let aggressor = out.aggressor(row.side, ["buy", "sell"])?;
    let condition = if history { "HISTORY" } else { row.ord_type.0 };
    let short = Ascii::new(condition).ok().filter(|_| !condition.is_empty());
    let entry = Trade {
        exchange: out.exchange(),
        price: out.decimal(row.price)?,
        size: out.decimal(row.qty)?,
        aggressor: Some(aggressor),
        id: Some(out.whole(row.trade_id, "trade_id")?),
        condition: short,
        suspicious: false,
    };
    let match_time = Some(out.iso(row.timestamp)?);
    let entries = vec![Entry::Trade(entry)];
    out.push(row.symbol.0, Package { match_time, entries, ..Package::default() })?;
    if short.is_none() && !condition.is_empty() {
        out.push(row.symbol.0, TradeCondition { id: entry.id, condition: condition.into() })?;
    }
    Ok(())
}

fn ticker(row: &RawValue, out: &mut Messages) -> Result<(), BadLine> {
    let fields: BTreeMap<String, &RawValue> = out.json(row.get())?;
    let mut ticker = Ticker { exchange: out.exchange(), ..Ticker::default() };
    let mut symbol = "";
    for (name, raw) in fields {
        let Some(value) = of_raw(raw) else { return Err(out.bad(raw.get(), format!("{name} as a scalar"))) };
        let place = match name.as_str() {
            "symbol" => {
                symbol = value.0;
                continue;
            }
            "timestamp" => {
                ticker.source_time = value.some().map(|time| out.iso(Scalar(time))).transpose()?;
                continue;
            }
            "bid" => &mut ticker.bid_price,
            "bid_qty" => &mut ticker.bid_size,
            "ask" => &mut ticker.ask_price,
            "ask_qty" => &mut ticker.ask_size,
            "last" => &mut ticker.last_price,
            "high" => &mut ticker.high,
            "low" => &mut ticker.low,
            "volume" => &mut ticker.volume,
            _ => {
                ticker.attributes.push(Attribute { name, value: value.0.into() });
                continue;
            }
        };
        *place = out.figure(&name, value, &mut ticker.attributes)?;
    }
    out.push(symbol, ticker)
}

fn bar(row: &Candle<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let bar = IntervalBar {
        start: Some(out.iso(row.interval_begin)?),
        interval_ns: row.interval.u64().and_then(|minutes| minutes.checked_mul(NANOS_PER_MINUTE)),
        volume: Some(out.decimal(row.volume)?),
        trades: row.trades.u64(),
        ..out.bar([row.open, row.high, row.low, row.close])?
    };
    out.push(row.symbol.0, bar)
}
