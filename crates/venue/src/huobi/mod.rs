//! Huobi, its futures and its perpetual futures: `depth.stepN`, the whole book each time, and `trade.detail`. Frames are gzip.
//!
//! A book is a `Package`, a snapshot: `ts` is `source_time`, the book's own `ts` `match_time`, its `version` `sequence`. A trade is a [`MarketByPrice`],
//! `TRADE`, with `id`, a number of up to 128 bits, as `trade_id`, and `tradeId` as `sequence`.

use crate::fields::BadLine;
use crate::frames::Frames;
use crate::frames::ids;
use crate::frames::messages::Messages;
use crate::frames::scalar::Scalar;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use tapedb_market::{MarketByPrice, NoticeKind, OrderAction, Side};

#[derive(Default)]
pub(super) struct Parser;

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow)]
    ch: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    ts: Scalar<'a>,
    #[serde(borrow)]
    tick: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Scalar<'a>,
    #[serde(borrow)]
    ping: Option<&'a RawValue>,
    #[serde(borrow)]
    subbed: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Depth<'a> {
    #[serde(borrow, default)]
    bids: Vec<(Scalar<'a>, Scalar<'a>)>,
    #[serde(default)]
    asks: Vec<(Scalar<'a>, Scalar<'a>)>,
    #[serde(default)]
    version: Scalar<'a>,
    #[serde(default)]
    ts: Scalar<'a>,
}

#[derive(Deserialize)]
struct Trades<'a> {
    #[serde(borrow)]
    data: Vec<TradeRow<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TradeRow<'a> {
    #[serde(borrow)]
    id: Scalar<'a>,
    ts: Scalar<'a>,
    #[serde(default)]
    trade_id: Scalar<'a>,
    amount: Scalar<'a>,
    price: Scalar<'a>,
    direction: Scalar<'a>,
}

impl Frames for Parser {
    fn opened(&mut self, _again: bool, _out: &mut Messages) -> Result<(), BadLine> {
        Ok(())
    }

    fn frame(&mut self, text: &str, out: &mut Messages) -> Result<(), BadLine> {
        let frame: Frame<'_> = out.json(text)?;
        let (Some(channel), Some(tick)) = (frame.ch.as_deref(), frame.tick) else {
            let kind = match (frame.ping, frame.subbed, frame.status.0) {
                (_, _, "error") => return out.notice(NoticeKind::Error, text),
                (Some(_), ..) => "ping",
                (_, Some(_), _) => "subbed",
                _ => {
                    out.unknown("without channel");
                    return Ok(());
                }
            };
            out.control(kind);
            return Ok(());
        };
        let mut parts = channel.split('.').skip(1);
        let (symbol, kind) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        match kind {
            "depth" => depth(&out.json(tick.get())?, symbol, frame.ts, out),
            "trade" => {
                let trades: Trades<'_> = out.json(tick.get())?;
                trades.data.iter().try_for_each(|row| trade(row, symbol, frame.ts, out))
            }
            kind => {
                out.unknown(kind);
                Ok(())
            }
        }
    }
}

fn depth(tick: &Depth<'_>, symbol: &str, sent: Scalar<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let mut package = out.levels(true, [(Side::Bid, &tick.bids), (Side::Ask, &tick.asks)])?;
    package.source_time = Some(out.time(sent)?);
    package.match_time = tick.ts.some().map(|time| out.time(Scalar(time))).transpose()?;
    package.sequence = tick.version.u64();
    out.push(symbol, package)
}

fn trade(row: &TradeRow<'_>, symbol: &str, sent: Scalar<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let id = ids::decimal(row.id.0);
    let trade = MarketByPrice {
        action: Some(OrderAction::Trade),
        side: Some(match row.direction.0 {
            "buy" => Side::Bid,
            "sell" => Side::Ask,
            other => return Err(out.bad(other, "direction as buy or sell")),
        }),
        price: Some(out.decimal(row.price)?),
        size: Some(out.decimal(row.amount)?),
        trade_id: id.map(|(_, low)| low),
        trade_id_high: id.map(|(high, _)| high).filter(|high| *high != 0),
        trade_id_text: id.is_none().then(|| row.id.0.to_string()),
        sequence: row.trade_id.u64(),
        match_time: Some(out.time(row.ts)?),
        source_time: Some(out.time(sent)?),
        exchange: out.exchange(),
        ..MarketByPrice::default()
    };
    out.push(symbol, trade)
}
