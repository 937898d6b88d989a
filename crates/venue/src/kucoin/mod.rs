//! KuCoin: `level2`, `match`, `ticker`, `candles`, books of five and fifty levels, and `level2` over HTTP; of its futures `level2` and `execution`.
//!
//! | topic | message |
//! |---|---|
//! | `/market/level2` | `Package` of level-2 updates, `sequenceEnd` as `sequence`, `sequenceStart` in a [`SequenceRange`]. A change at price 0 advances the sequence only |
//! | `/contractMarket/level2` | the same with one change, and one number |
//! | `level2Depth5`, `level2Depth50` | `Package`, a snapshot each time |
//! | `/market/match`, `/contractMarket/execution` | [`MarketByPrice`], `TRADE`, with `tradeId` |
//! | `/market/ticker` | [`Ticker`] |
//! | `/market/candles` | [`IntervalBar`] |
//!
//! Numbers of a book have to follow on each other: a hole is a `Gap`.

#[cfg(test)]
mod tests;

use crate::fields::BadLine;
use crate::frames::by_symbol::BySymbol;
use crate::frames::chain::Chain;
use crate::frames::ids;
use crate::frames::messages::{Messages, is_zero};
use crate::frames::scalar::Scalar;
use crate::frames::{Frames, path_of};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use tapedb_market::{
    Attribute, Entry, IntervalBar, MarketByPrice, NoticeKind, OrderAction, Package, SequenceRange, Side,
    Ticker,
};

const NANOS_PER_MINUTE: u64 = 60_000_000_000;

#[derive(Default)]
pub(super) struct Parser {
    /// By symbol.
    chains: BySymbol<Chain>,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Scalar<'a>,
    #[serde(borrow)]
    topic: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    subject: Scalar<'a>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Changes<'a> {
    #[serde(borrow)]
    changes: Sides<'a>,
    sequence_start: Scalar<'a>,
    sequence_end: Scalar<'a>,
    #[serde(default)]
    time: Scalar<'a>,
}

/// Price, size and number of each change.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Sides<'a> {
    #[serde(borrow)]
    bids: Vec<(Scalar<'a>, Scalar<'a>, Scalar<'a>)>,
    asks: Vec<(Scalar<'a>, Scalar<'a>, Scalar<'a>)>,
}

#[derive(Deserialize)]
struct FuturesChange<'a> {
    #[serde(borrow)]
    sequence: Scalar<'a>,
    change: Cow<'a, str>,
    #[serde(default)]
    timestamp: Scalar<'a>,
}

#[derive(Deserialize)]
struct Book<'a> {
    #[serde(borrow)]
    bids: Vec<(Scalar<'a>, Scalar<'a>)>,
    asks: Vec<(Scalar<'a>, Scalar<'a>)>,
    #[serde(default)]
    sequence: Scalar<'a>,
    #[serde(default, alias = "timestamp", alias = "ts")]
    time: Scalar<'a>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Match<'a> {
    #[serde(borrow)]
    price: Scalar<'a>,
    size: Scalar<'a>,
    side: Scalar<'a>,
    trade_id: Scalar<'a>,
    #[serde(default)]
    sequence: Scalar<'a>,
    #[serde(alias = "ts")]
    time: Scalar<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct TickerData<'a> {
    #[serde(borrow)]
    best_bid: Scalar<'a>,
    best_bid_size: Scalar<'a>,
    best_ask: Scalar<'a>,
    best_ask_size: Scalar<'a>,
    price: Scalar<'a>,
    size: Scalar<'a>,
    sequence: Scalar<'a>,
    #[serde(alias = "Time")]
    time: Scalar<'a>,
}

#[derive(Deserialize)]
struct Candle<'a> {
    #[serde(borrow)]
    candles: Vec<Scalar<'a>>,
    #[serde(default)]
    time: Scalar<'a>,
}

impl Frames for Parser {
    fn opened(&mut self, _again: bool, _out: &mut Messages) -> Result<(), BadLine> {
        self.chains.clear();
        Ok(())
    }

    fn frame(&mut self, text: &str, out: &mut Messages) -> Result<(), BadLine> {
        let frame: Frame<'_> = out.json(text)?;
        let (Some(topic), Some(data)) = (frame.topic.as_deref(), frame.data) else {
            return match frame.kind.0 {
                "error" => out.notice(NoticeKind::Error, text),
                "" => {
                    out.unknown("without topic");
                    Ok(())
                }
                kind => {
                    out.control(kind);
                    Ok(())
                }
            };
        };
        let (channel, symbol) = topic.split_once(':').unwrap_or((topic, ""));
        match channel {
            "/market/level2" => self.changes(&out.json(data.get())?, symbol, out),
            "/contractMarket/level2" => self.change(&out.json(data.get())?, symbol, out),
            "/spotMarket/level2Depth5"
            | "/spotMarket/level2Depth50"
            | "/contractMarket/level2Depth5"
            | "/contractMarket/level2Depth50" => book(&out.json(data.get())?, symbol, out),
            "/market/match" | "/contractMarket/execution" => trade(&out.json(data.get())?, symbol, out),
            "/market/ticker" => {
                let symbol = if symbol == "all" { frame.subject.0 } else { symbol };
                ticker(&out.json(data.get())?, symbol, out)
            }
            "/market/candles" => bar(&out.json(data.get())?, symbol, out),
            channel => {
                out.unknown(channel);
                Ok(())
            }
        }
    }

    fn answer(&mut self, url: &str, body: &str, out: &mut Messages) -> Result<(), BadLine> {
        let path = path_of(url);
        let symbol = url.split(['?', '&']).find_map(|part| part.strip_prefix("symbol="));
        let is_book =
            path.contains("/level2") && (path.contains("/orderbook/") || path.ends_with("/snapshot"));
        match symbol.filter(|_| is_book) {
            Some(symbol) => match out.json::<Answer<'_>>(body)?.data {
                Some(data) => book(&out.json(data.get())?, symbol, out),
                None => out.notice(NoticeKind::Error, body),
            },
            None => {
                out.unknown(&path);
                Ok(())
            }
        }
    }
}

impl Parser {
    fn changes(&mut self, data: &Changes<'_>, symbol: &str, out: &mut Messages) -> Result<(), BadLine> {
        let first = out.whole(data.sequence_start, "sequenceStart")?;
        let last = out.whole(data.sequence_end, "sequenceEnd")?;
        let mut package = Package { sequence: Some(last), ..Package::default() };
        package.source_time = data.time.some().map(|time| out.instant(Scalar(time))).transpose()?;
        package.entries.push(Entry::SequenceRange(SequenceRange { first, previous: None }));
        for (side, levels) in [(Side::Bid, &data.changes.bids), (Side::Ask, &data.changes.asks)] {
            for &(price, size, _) in levels {
                if !is_zero(out.decimal(price)?) {
                    package.entries.push(out.update(side, price, size, None)?);
                }
            }
        }
        self.chains.of(symbol, out)?.follow(symbol, (first, last), None, out)?;
        out.push(symbol, package)
    }

    /// `price,side,size`.
    fn change(&mut self, data: &FuturesChange<'_>, symbol: &str, out: &mut Messages) -> Result<(), BadLine> {
        let number = out.whole(data.sequence, "sequence")?;
        let parts: Vec<&str> = data.change.split(',').collect();
        let &[price, side, size] = &parts[..] else {
            return Err(out.bad(&data.change, "a change as price, side and size"));
        };
        let (price, size) = (Scalar(price), Scalar(size));
        let side = out.side(Scalar(side), ["buy", "sell"])?;
        let mut package = Package { sequence: Some(number), ..Package::default() };
        package.source_time = data.timestamp.some().map(|time| out.instant(Scalar(time))).transpose()?;
        package.entries.push(Entry::SequenceRange(SequenceRange { first: number, previous: None }));
        if !is_zero(out.decimal(price)?) {
            package.entries.push(out.update(side, price, size, None)?);
        }
        self.chains.of(symbol, out)?.follow(symbol, (number, number), None, out)?;
        out.push(symbol, package)
    }
}

fn book(data: &Book<'_>, symbol: &str, out: &mut Messages) -> Result<(), BadLine> {
    let mut package = out.levels(true, [(Side::Bid, &data.bids), (Side::Ask, &data.asks)])?;
    package.source_time = data.time.some().map(|time| out.instant(Scalar(time))).transpose()?;
    package.sequence = data.sequence.some().map(|text| out.whole(Scalar(text), "sequence")).transpose()?;
    out.push(symbol, package)
}

fn trade(data: &Match<'_>, symbol: &str, out: &mut Messages) -> Result<(), BadLine> {
    let id = ids::decimal(data.trade_id.0);
    let trade = MarketByPrice {
        action: Some(OrderAction::Trade),
        side: Some(out.side(data.side, ["buy", "sell"])?),
        price: Some(out.decimal(data.price)?),
        size: Some(out.decimal(data.size)?),
        trade_id: id.map(|(_, low)| low),
        trade_id_high: id.map(|(high, _)| high).filter(|high| *high != 0),
        trade_id_text: id.is_none().then(|| data.trade_id.0.to_string()),
        sequence: data.sequence.u64(),
        match_time: Some(out.instant(data.time)?),
        exchange: out.exchange(),
        ..MarketByPrice::default()
    };
    out.push(symbol, trade)
}

fn ticker(data: &TickerData<'_>, symbol: &str, out: &mut Messages) -> Result<(), BadLine> {
    let mut attributes: Vec<Attribute> = Vec::new();
    let ticker = Ticker {
        bid_price: out.figure("bestBid", data.best_bid, &mut attributes)?,
        bid_size: out.figure("bestBidSize", data.best_bid_size, &mut attributes)?,
        ask_price: out.figure("bestAsk", data.best_ask, &mut attributes)?,
        ask_size: out.figure("bestAskSize", data.best_ask_size, &mut attributes)?,
        last_price: out.figure("price", data.price, &mut attributes)?,
        last_size: out.figure("size", data.size, &mut attributes)?,
        sequence: data.sequence.u64(),
        source_time: data.time.some().map(|time| out.instant(Scalar(time))).transpose()?,
        exchange: out.exchange(),
        attributes,
        ..Ticker::default()
    };
    out.push(symbol, ticker)
}

/// Begin in seconds, open, close, high, low, volume, turnover; the length of the interval is in the topic, `BTC-USDT_1hour`.
fn bar(data: &Candle<'_>, topic: &str, out: &mut Messages) -> Result<(), BadLine> {
    let (symbol, length) = topic.rsplit_once('_').unwrap_or((topic, ""));
    let &[start, open, close, high, low, volume, turnover] = &data.candles[..] else {
        return Err(BadLine::anywhere("a candle of seven numbers".into()));
    };
    let digits = length.len() - length.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (count, unit) = length.split_at(digits);
    let minutes = match unit {
        "min" => Some(1),
        "hour" => Some(60),
        "day" => Some(24 * 60),
        "week" => Some(7 * 24 * 60),
        _ => None,
    };
    let minutes = minutes.zip(count.parse::<u64>().ok()).and_then(|(unit, count)| count.checked_mul(unit));
    let mut attributes = Vec::new();
    let bar = IntervalBar {
        start: Some(out.seconds(start)?),
        interval_ns: minutes.and_then(|minutes| minutes.checked_mul(NANOS_PER_MINUTE)),
        volume: Some(out.decimal(volume)?),
        // A figure that is computed: with more than 16 digits, it is none.
        turnover: out.figure("turnover", turnover, &mut attributes)?,
        vendor_time: data.time.some().map(|time| out.instant(Scalar(time))).transpose()?,
        ..out.bar([open, high, low, close])?
    };
    out.push(symbol, bar)
}
