//! Coinbase: frames of the Exchange (`level2`, `matches`, `ticker`), and snapshots of its REST interface.
//!
//! | frame | message |
//! |---|---|
//! | `snapshot` | [`Package`](tapedb_market::Package), snapshot |
//! | `l2update` | `Package` of level-2 updates, `time` as `match_time`; has no number, so nothing shows whether one is missing |
//! | `match`, `last_match` | `Package` with a [`Trade`]; numbers of trades follow on each other. A `last_match`, which was before the subscription, has the condition `LAST` |
//! | `received`, `open`, `change`, `done`, and `match` beside them | [`Order`](tapedb_market::Order), see [`full`] |
//! | `ticker` | [`Ticker`] |
//! | `error` | `Notice` |
//! | frames with `channel`, of [Advanced Trade](advanced) | see there |

mod advanced;
mod full;
pub(super) mod snapshot;
#[cfg(test)]
mod tests;

use crate::fields::BadLine;
use crate::frames::Frames;
use crate::frames::by_symbol::BySymbol;
use crate::frames::chain::Chain;
use crate::frames::messages::Messages;
use crate::frames::scalar::Scalar;
use serde::Deserialize;
use std::borrow::Cow;
use tapedb_market::{Aggressor, Attribute, Entry, NoticeKind, Package, Side, Ticker, Trade};
use tapedb_schema::Ascii;

#[derive(Default)]
pub(super) struct Parser {
    /// Numbers of trades, by product.
    trades: BySymbol<Chain>,
    full: full::Full,
    /// Numbers of the frames of a connection to Advanced Trade.
    connection: Chain,
}

/// What concerns all products has the venue's name.
const VENUE: &str = "COINBASE";

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    /// Of Advanced Trade, whose frames have no `type`.
    #[serde(default)]
    channel: Scalar<'a>,
    #[serde(default)]
    product_id: Scalar<'a>,
}

#[derive(Deserialize)]
struct Snapshot<'a> {
    product_id: Scalar<'a>,
    #[serde(borrow)]
    bids: Vec<(Scalar<'a>, Scalar<'a>)>,
    #[serde(borrow)]
    asks: Vec<(Scalar<'a>, Scalar<'a>)>,
}

#[derive(Deserialize)]
struct Update<'a> {
    #[serde(borrow)]
    product_id: Scalar<'a>,
    #[serde(default)]
    time: Scalar<'a>,
    changes: Vec<(Scalar<'a>, Scalar<'a>, Scalar<'a>)>,
}

#[derive(Deserialize)]
struct Match<'a> {
    #[serde(borrow)]
    product_id: Scalar<'a>,
    trade_id: Scalar<'a>,
    sequence: Scalar<'a>,
    side: Scalar<'a>,
    size: Scalar<'a>,
    price: Scalar<'a>,
    time: Scalar<'a>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct TickerFrame<'a> {
    #[serde(borrow)]
    product_id: Scalar<'a>,
    sequence: Scalar<'a>,
    price: Scalar<'a>,
    last_size: Scalar<'a>,
    side: Scalar<'a>,
    trade_id: Scalar<'a>,
    time: Scalar<'a>,
    best_bid: Scalar<'a>,
    best_bid_size: Scalar<'a>,
    best_ask: Scalar<'a>,
    best_ask_size: Scalar<'a>,
    open_24h: Scalar<'a>,
    high_24h: Scalar<'a>,
    low_24h: Scalar<'a>,
    volume_24h: Scalar<'a>,
    volume_30d: Scalar<'a>,
}

impl Frames for Parser {
    fn opened(&mut self, _again: bool, _out: &mut Messages) -> Result<(), BadLine> {
        self.full.clear();
        self.connection = Chain::default();
        Ok(())
    }

    fn frame(&mut self, text: &str, out: &mut Messages) -> Result<(), BadLine> {
        let head: Head<'_> = out.json(text)?;
        match head.kind.as_ref() {
            "l2update" => update(&out.json(text)?, out),
            "received" | "open" | "change" | "done" => self.full.read(&out.json(text)?, out),
            "match" if self.full.has(head.product_id, out)? => self.full.read(&out.json(text)?, out),
            "match" => self.trade(&out.json(text)?, None, out),
            "last_match" => self.trade(&out.json(text)?, Ascii::new("LAST").ok(), out),
            "ticker" => ticker(&out.json(text)?, out),
            "snapshot" => snapshot(&out.json(text)?, out),
            "error" => out.notice(NoticeKind::Error, text),
            "" if head.channel.is_empty() => {
                out.unknown("without type and channel");
                Ok(())
            }
            "" => self.advanced(&out.json(text)?, out),
            kind @ ("subscriptions" | "heartbeat") => {
                out.control(kind);
                Ok(())
            }
            kind => {
                out.unknown(kind);
                Ok(())
            }
        }
    }
}

fn snapshot(frame: &Snapshot<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let package = out.levels(true, [(Side::Bid, &frame.bids), (Side::Ask, &frame.asks)])?;
    out.push(frame.product_id.0, package)
}

fn update(frame: &Update<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let match_time = frame.time.some().map(|time| out.iso(Scalar(time))).transpose()?;
    let mut package = Package { match_time, ..Package::default() };
    for &(side, price, size) in &frame.changes {
        let side = out.side(side, ["buy", "sell"])?;
        package.entries.push(out.update(side, price, size, None)?);
    }
    out.unverifiable();
    out.push(frame.product_id.0, package)
}

impl Parser {
    fn trade(
        &mut self,
        frame: &Match<'_>,
        condition: Option<Ascii<8>>,
        out: &mut Messages,
    ) -> Result<(), BadLine> {
        let id = out.whole(frame.trade_id, "trade_id")?;
        // The side is that of the order that rested.
        let aggressor = match out.side(frame.side, ["buy", "sell"])? {
            Side::Bid => Aggressor::Sell,
            Side::Ask => Aggressor::Buy,
        };
        let trade = Trade {
            exchange: out.exchange(),
            price: out.decimal(frame.price)?,
            size: out.decimal(frame.size)?,
            aggressor: Some(aggressor),
            id: Some(id),
            condition,
            suspicious: false,
        };
        let package = Package {
            match_time: Some(out.iso(frame.time)?),
            sequence: Some(out.whole(frame.sequence, "sequence")?),
            entries: vec![Entry::Trade(trade)],
            ..Package::default()
        };
        let symbol = frame.product_id.0;
        let chain = self.trades.of(symbol, out)?;
        match condition {
            Some(_) => chain.begin(id, out),
            None => chain.follow(symbol, (id, id), None, out)?,
        }
        out.push(symbol, package)
    }
}

fn ticker(frame: &TickerFrame<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let aggressor = frame.side.some().map(|side| out.side(Scalar(side), ["buy", "sell"])).transpose()?;
    let mut long = Vec::new();
    if let Some(value) = frame.volume_30d.some() {
        long.push(Attribute { name: "volume_30d".into(), value: value.into() });
    }
    let ticker = Ticker {
        bid_price: out.maybe_decimal(frame.best_bid)?,
        bid_size: out.maybe_decimal(frame.best_bid_size)?,
        ask_price: out.maybe_decimal(frame.best_ask)?,
        ask_size: out.maybe_decimal(frame.best_ask_size)?,
        last_price: out.maybe_decimal(frame.price)?,
        last_size: out.maybe_decimal(frame.last_size)?,
        last_aggressor: aggressor.map(|side| match side {
            Side::Bid => Aggressor::Buy,
            Side::Ask => Aggressor::Sell,
        }),
        last_id: frame.trade_id.u64(),
        open: out.maybe_decimal(frame.open_24h)?,
        high: out.maybe_decimal(frame.high_24h)?,
        low: out.maybe_decimal(frame.low_24h)?,
        volume: out.figure("volume_24h", frame.volume_24h, &mut long)?,
        sequence: frame.sequence.u64(),
        match_time: frame.time.some().map(|time| out.iso(Scalar(time))).transpose()?,
        exchange: out.exchange(),
        attributes: long,
        ..Ticker::default()
    };
    out.push(frame.product_id.0, ticker)
}
