//! Coinbase Advanced Trade: frames with a `channel` and a list of `events`.
//!
//! | channel | message |
//! |---|---|
//! | `l2_data`, snapshot or update | `Package` of level-2 entries of one product; `timestamp` as `source_time`, the last `event_time` of an update as `match_time` |
//! | `market_trades` | a `Package` with a [`Trade`] each; of a snapshot, which is history, with the condition `HISTORY`. The side is that of the order that rested |
//! | `ticker`, `ticker_batch` | [`Ticker`] with the figures of 24 hours; what has no field is an attribute |
//! | `candles` | [`IntervalBar`] of five minutes; a candle that is not over comes again |
//!
//! `sequence_num` is one more with each frame of a connection, whatever its channel: a hole is a `Gap` under the venue's name, which concerns all products.

use super::Parser;
use crate::fields::BadLine;
use crate::frames::messages::Messages;
use crate::frames::scalar::Scalar;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use tapedb_market::{Aggressor, Attribute, Entry, IntervalBar, Package, PackageKind, Side, Ticker, Trade};
use tapedb_schema::{Ascii, TimeUnit, Timestamp};

/// Candles have one length.
const CANDLE_NS: u64 = 300_000_000_000;

#[derive(Deserialize)]
pub(super) struct Frame<'a> {
    #[serde(borrow)]
    channel: Scalar<'a>,
    #[serde(default)]
    timestamp: Scalar<'a>,
    #[serde(default)]
    sequence_num: Scalar<'a>,
    #[serde(default)]
    events: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Levels<'a> {
    #[serde(borrow, rename = "type")]
    kind: Scalar<'a>,
    product_id: Scalar<'a>,
    #[serde(default)]
    updates: Vec<Level<'a>>,
}

#[derive(Deserialize)]
struct Level<'a> {
    #[serde(borrow)]
    side: Scalar<'a>,
    #[serde(default)]
    event_time: Scalar<'a>,
    price_level: Scalar<'a>,
    new_quantity: Scalar<'a>,
}

#[derive(Deserialize)]
struct Trades<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Scalar<'a>,
    #[serde(default)]
    trades: Vec<TradeRow<'a>>,
}

#[derive(Deserialize)]
struct TradeRow<'a> {
    #[serde(borrow)]
    trade_id: Scalar<'a>,
    product_id: Scalar<'a>,
    price: Scalar<'a>,
    size: Scalar<'a>,
    side: Scalar<'a>,
    time: Scalar<'a>,
}

#[derive(Deserialize)]
struct Tickers<'a> {
    #[serde(borrow, default)]
    tickers: Vec<BTreeMap<String, Scalar<'a>>>,
}

#[derive(Deserialize)]
struct Candles<'a> {
    #[serde(borrow, default)]
    candles: Vec<Candle<'a>>,
}

#[derive(Deserialize)]
struct Candle<'a> {
    #[serde(borrow)]
    product_id: Scalar<'a>,
    start: Scalar<'a>,
    open: Scalar<'a>,
    high: Scalar<'a>,
    low: Scalar<'a>,
    close: Scalar<'a>,
    volume: Scalar<'a>,
}

impl Parser {
    pub(super) fn advanced(&mut self, frame: &Frame<'_>, out: &mut Messages) -> Result<(), BadLine> {
        if let Some(number) = frame.sequence_num.some() {
            let number = out.whole(Scalar(number), "sequence_num")?;
            // A connection begins at 0.
            match number {
                0 => self.connection.begin(0, out),
                _ => self.connection.follow(super::VENUE, (number, number), None, out)?,
            }
        }
        let sent = frame.timestamp.some().map(|time| out.iso(Scalar(time))).transpose()?;
        let mut events = frame.events.iter().map(|event| event.get());
        match frame.channel.0 {
            "l2_data" => events.try_for_each(|event| levels(&out.json(event)?, sent, out)),
            "market_trades" => events.try_for_each(|event| trades(&out.json(event)?, sent, out)),
            "ticker" | "ticker_batch" => events.try_for_each(|event| tickers(&out.json(event)?, sent, out)),
            "candles" => events.try_for_each(|event| candles(&out.json(event)?, out)),
            channel @ ("subscriptions" | "heartbeats") => {
                out.control(channel);
                Ok(())
            }
            channel => {
                out.unknown(&format!("channel {channel}"));
                Ok(())
            }
        }
    }
}

fn levels(event: &Levels<'_>, sent: Option<Timestamp>, out: &mut Messages) -> Result<(), BadLine> {
    let snapshot = match event.kind.0 {
        "snapshot" => true,
        "update" => false,
        other => return Err(out.bad(other, "type as snapshot or update")),
    };
    let kind = if snapshot { PackageKind::Snapshot } else { PackageKind::Update };
    let mut package = Package { kind, source_time: sent, ..Package::default() };
    package.entries.reserve(event.updates.len());
    let mut places = [0, 0];
    for level in &event.updates {
        let side = match level.side.0 {
            "bid" => Side::Bid,
            "offer" | "ask" => Side::Ask,
            other => return Err(out.bad(other, "side as bid or offer")),
        };
        let entry = if snapshot {
            let place = &mut places[usize::from(side == Side::Ask)];
            *place += 1;
            out.level(side, *place - 1, (level.price_level, level.new_quantity), None)?
        } else {
            // In snapshots it is 1970.
            let time = level.event_time.some().map(|time| out.iso(Scalar(time))).transpose()?;
            package.match_time = package.match_time.max(time);
            out.update(side, level.price_level, level.new_quantity, None)?
        };
        package.entries.push(entry);
    }
    if !snapshot {
        out.unverifiable();
    }
    out.push(event.product_id.0, package)
}

fn trades(event: &Trades<'_>, sent: Option<Timestamp>, out: &mut Messages) -> Result<(), BadLine> {
    let condition = Ascii::new("HISTORY").ok().filter(|_| event.kind.0 == "snapshot");
    for row in &event.trades {
        let aggressor = match row.side.0 {
            "BUY" => Some(Aggressor::Sell),
            "SELL" => Some(Aggressor::Buy),
            "" | "UNKNOWN_ORDER_SIDE" => None,
            other => return Err(out.bad(other, "side as BUY or SELL")),
        };
        let entry = Trade {
            exchange: out.exchange(),
            price: out.decimal(row.price)?,
            size: out.decimal(row.size)?,
            aggressor,
            id: Some(out.whole(row.trade_id, "trade_id")?),
            condition,
            suspicious: false,
        };
        let match_time = Some(out.iso(row.time)?);
        let entries = vec![Entry::Trade(entry)];
        out.push(row.product_id.0, Package { match_time, source_time: sent, entries, ..Package::default() })?;
    }
    Ok(())
}

fn tickers(event: &Tickers<'_>, sent: Option<Timestamp>, out: &mut Messages) -> Result<(), BadLine> {
    for fields in &event.tickers {
        let mut ticker = Ticker { exchange: out.exchange(), source_time: sent, ..Ticker::default() };
        let mut symbol = "";
        for (name, value) in fields {
            let place = match name.as_str() {
                "type" => continue,
                "product_id" => {
                    symbol = value.0;
                    continue;
                }
                "price" => &mut ticker.last_price,
                "best_bid" => &mut ticker.bid_price,
                "best_bid_quantity" => &mut ticker.bid_size,
                "best_ask" => &mut ticker.ask_price,
                "best_ask_quantity" => &mut ticker.ask_size,
                "high_24_h" => &mut ticker.high,
                "low_24_h" => &mut ticker.low,
                "volume_24_h" => &mut ticker.volume,
                _ => {
                    ticker.attributes.push(Attribute { name: name.clone(), value: value.0.into() });
                    continue;
                }
            };
            *place = out.figure(name, *value, &mut ticker.attributes)?;
        }
        out.push(symbol, ticker)?;
    }
    Ok(())
}

fn candles(event: &Candles<'_>, out: &mut Messages) -> Result<(), BadLine> {
    for row in &event.candles {
        let start = row.start.u64().and_then(|start| i64::try_from(start).ok());
        let start = start.and_then(|start| TimeUnit::Seconds.timestamp(start));
        let bar = IntervalBar {
            start: Some(start.ok_or_else(|| out.bad(row.start.0, "start as seconds since 1970"))?),
            interval_ns: Some(CANDLE_NS),
            volume: Some(out.decimal(row.volume)?),
            ..out.bar([row.open, row.high, row.low, row.close])?
        };
        out.push(row.product_id.0, bar)?;
    }
    Ok(())
}
