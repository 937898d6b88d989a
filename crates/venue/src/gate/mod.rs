//! Gate.io, version 4: `order_book_update`, `order_book`, `trades`, `book_ticker`, `tickers`, `candlesticks`, of the spot market and of futures, and
//! `order_book` over HTTP.
//!
//! | channel | message |
//! |---|---|
//! | `order_book_update` | `Package` of level-2 updates, `u` as `sequence`, `U` in a [`SequenceRange`]; numbers have to follow on each other |
//! | `order_book` | `Package`, a snapshot each time |
//! | `trades` | `Package` with a [`Trade`] each |
//! | `book_ticker` | `Package` with two `Level1` |
//! | `tickers` | [`Ticker`] |
//! | `candlesticks` | [`IntervalBar`] |

#[cfg(test)]
mod tests;

use crate::fields::BadLine;
use crate::frames::by_symbol::BySymbol;
use crate::frames::chain::Chain;
use crate::frames::messages::Messages;
use crate::frames::scalar::{Scalar, of_raw};
use crate::frames::{Frames, path_of};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use tapedb_market::{
    Aggressor, Attribute, Entry, IntervalBar, NoticeKind, Package, PackageKind, SequenceRange, Side, Ticker,
    Trade,
};

#[derive(Default)]
pub(super) struct Parser {
    /// By channel and symbol.
    chains: BySymbol<Chain>,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default)]
    channel: Scalar<'a>,
    #[serde(default)]
    event: Scalar<'a>,
    error: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
}

/// A level as `[price, size]` or as `{"p": price, "s": size}`.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    p: Scalar<'a>,
    s: Scalar<'a>,
}

#[derive(Deserialize)]
struct Update<'a> {
    #[serde(borrow)]
    s: Scalar<'a>,
    #[serde(rename = "U")]
    first: Scalar<'a>,
    #[serde(rename = "u")]
    last: Scalar<'a>,
    #[serde(default)]
    t: Scalar<'a>,
    #[serde(default, rename = "full")]
    full: Scalar<'a>,
    #[serde(default, rename = "b")]
    bids: Vec<&'a RawValue>,
    #[serde(default, rename = "a")]
    asks: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Book<'a> {
    #[serde(borrow, default, alias = "contract")]
    s: Scalar<'a>,
    #[serde(default, alias = "lastUpdateId")]
    id: Scalar<'a>,
    #[serde(default, alias = "update")]
    t: Scalar<'a>,
    bids: Vec<&'a RawValue>,
    asks: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct TradeData<'a> {
    #[serde(borrow)]
    id: Scalar<'a>,
    #[serde(alias = "contract")]
    currency_pair: Scalar<'a>,
    #[serde(default)]
    side: Scalar<'a>,
    #[serde(alias = "size")]
    amount: Scalar<'a>,
    price: Scalar<'a>,
    create_time: Scalar<'a>,
    #[serde(default)]
    create_time_ms: Scalar<'a>,
}

#[derive(Deserialize)]
struct Best<'a> {
    #[serde(borrow)]
    s: Scalar<'a>,
    #[serde(default)]
    t: Scalar<'a>,
    #[serde(default)]
    u: Scalar<'a>,
    #[serde(rename = "b")]
    bid: Scalar<'a>,
    #[serde(rename = "B")]
    bid_size: Scalar<'a>,
    #[serde(rename = "a")]
    ask: Scalar<'a>,
    #[serde(rename = "A")]
    ask_size: Scalar<'a>,
}

#[derive(Deserialize)]
struct Candle<'a> {
    #[serde(borrow)]
    n: Scalar<'a>,
    t: Scalar<'a>,
    o: Scalar<'a>,
    h: Scalar<'a>,
    l: Scalar<'a>,
    c: Scalar<'a>,
    v: Scalar<'a>,
    #[serde(default)]
    a: Scalar<'a>,
}

impl Frames for Parser {
    fn opened(&mut self, _again: bool, _out: &mut Messages) -> Result<(), BadLine> {
        self.chains.clear();
        Ok(())
    }

    fn frame(&mut self, text: &str, out: &mut Messages) -> Result<(), BadLine> {
        let frame: Frame<'_> = out.json(text)?;
        if frame.error.is_some_and(|error| error.get() != "null") {
            return out.notice(NoticeKind::Error, text);
        }
        let (market, channel) = frame.channel.0.split_once('.').unwrap_or(("", frame.channel.0));
        let (true, Some(result)) = (matches!(frame.event.0, "update" | "all"), frame.result) else {
            let kind = if frame.event.is_empty() { channel } else { frame.event.0 };
            out.control(kind);
            return Ok(());
        };
        out.set_exchange(if market == "futures" { "GATEIOFU" } else { "GATEIO" });
        match channel {
            "order_book_update" => self.update(&out.json(result.get())?, frame.channel.0, out),
            "order_book" if result.get().starts_with('{') => book(&out.json(result.get())?, "", out),
            "trades" => each(result, out, |row, out| trade(&out.json(row)?, out)),
            "book_ticker" => best(&out.json(result.get())?, out),
            "tickers" => each(result, out, ticker),
            "candlesticks" => each(result, out, |row, out| bar(&out.json(row)?, out)),
            _ => {
                out.unknown(frame.channel.0);
                Ok(())
            }
        }
    }

    fn answer(&mut self, url: &str, body: &str, out: &mut Messages) -> Result<(), BadLine> {
        let path = path_of(url);
        let name = |part: &&str| part.starts_with("currency_pair=") || part.starts_with("contract=");
        let symbol = url.split(['?', '&']).find(name).and_then(|part| part.split_once('='));
        match symbol.filter(|_| path.ends_with("/order_book")) {
            Some((_, symbol)) => {
                out.set_exchange(if path.contains("/futures/") { "GATEIOFU" } else { "GATEIO" });
                book(&out.json(body)?, symbol, out)
            }
            None => {
                out.unknown(&path);
                Ok(())
            }
        }
    }
}

/// Of the spot market the result is one object, of futures an array of them.
fn each(
    result: &RawValue,
    out: &mut Messages,
    mut push: impl FnMut(&str, &mut Messages) -> Result<(), BadLine>,
) -> Result<(), BadLine> {
    if !result.get().starts_with('[') {
        return push(result.get(), out);
    }
    out.json::<Vec<&RawValue>>(result.get())?.iter().try_for_each(|row| push(row.get(), out))
}

fn levels<'a>(rows: &[&'a RawValue], out: &Messages) -> Result<Vec<(Scalar<'a>, Scalar<'a>)>, BadLine> {
    let level = |row: &&'a RawValue| {
        if row.get().starts_with('[') {
            return out.json::<(Scalar<'a>, Scalar<'a>)>(row.get());
        }
        let named: Named<'a> = out.json(row.get())?;
        Ok((named.p, named.s))
    };
    rows.iter().map(level).collect()
}

impl Parser {
    fn update(&mut self, data: &Update<'_>, channel: &str, out: &mut Messages) -> Result<(), BadLine> {
        let (first, last) = (out.whole(data.first, "U")?, out.whole(data.last, "u")?);
        let (bids, asks) = (levels(&data.bids, out)?, levels(&data.asks, out)?);
        let snapshot = data.full.0 == "true";
        let mut package = out.levels(snapshot, [(Side::Bid, &bids), (Side::Ask, &asks)])?;
        package.sequence = Some(last);
        package.source_time = data.t.some().map(|time| out.instant(Scalar(time))).transpose()?;
        let chain = self.chains.of(&format!("{channel} {}", data.s.0), out)?;
        if snapshot {
            chain.begin(last, out);
        } else {
            package.entries.insert(0, Entry::SequenceRange(SequenceRange { first, previous: None }));
            chain.follow(data.s.0, (first, last), None, out)?;
        }
        out.push(data.s.0, package)
    }
}

fn book(data: &Book<'_>, symbol: &str, out: &mut Messages) -> Result<(), BadLine> {
    let (bids, asks) = (levels(&data.bids, out)?, levels(&data.asks, out)?);
    let mut package = out.levels(true, [(Side::Bid, &bids), (Side::Ask, &asks)])?;
    debug_assert_eq!(package.kind, PackageKind::Snapshot);
    package.sequence = data.id.u64();
    // Of futures over HTTP it is a number of seconds with a fraction.
    package.source_time = data
        .t
        .some()
        .map(|time| out.instant(Scalar(time)).or_else(|_| out.seconds(Scalar(time))))
        .transpose()?;
    out.push(if symbol.is_empty() { data.s.0 } else { symbol }, package)
}

fn trade(data: &TradeData<'_>, out: &mut Messages) -> Result<(), BadLine> {
    // Of futures, the sign of the size is the side.
    let size = data.amount.0.strip_prefix('-').unwrap_or(data.amount.0);
    let aggressor = match data.side.0 {
        "" if size.len() < data.amount.0.len() => Aggressor::Sell,
        "" => Aggressor::Buy,
        _ => out.aggressor(data.side, ["buy", "sell"])?,
    };
    let entry = Trade {
        exchange: out.exchange(),
        price: out.decimal(data.price)?,
        size: out.decimal(Scalar(size))?,
        aggressor: Some(aggressor),
        id: Some(out.whole(data.id, "id")?),
        ..Trade::default()
    };
    let match_time = match data.create_time_ms.some() {
        Some(time) => out.instant(Scalar(time))?,
        None => out.seconds(data.create_time)?,
    };
    let entries = vec![Entry::Trade(entry)];
    out.push(data.currency_pair.0, Package { match_time: Some(match_time), entries, ..Package::default() })
}

fn best(data: &Best<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let entries =
        vec![out.best(Side::Bid, data.bid, data.bid_size)?, out.best(Side::Ask, data.ask, data.ask_size)?];
    let source_time = data.t.some().map(|time| out.instant(Scalar(time))).transpose()?;
    out.push(data.s.0, Package { source_time, sequence: data.u.u64(), entries, ..Package::default() })
}

fn ticker(row: &str, out: &mut Messages) -> Result<(), BadLine> {
    let fields: BTreeMap<String, &RawValue> = out.json(row)?;
    let mut ticker = Ticker { exchange: out.exchange(), ..Ticker::default() };
    let mut symbol = "";
    for (name, raw) in fields {
        let Some(value) = of_raw(raw) else { return Err(out.bad(raw.get(), format!("{name} as a scalar"))) };
        let place = match name.as_str() {
            "currency_pair" | "contract" => {
                symbol = value.0;
                continue;
            }
            "last" => &mut ticker.last_price,
            "lowest_ask" => &mut ticker.ask_price,
            "highest_bid" => &mut ticker.bid_price,
            "high_24h" => &mut ticker.high,
            "low_24h" => &mut ticker.low,
            "base_volume" | "volume_24h_base" => &mut ticker.volume,
            "quote_volume" | "volume_24h_quote" => &mut ticker.turnover,
            "mark_price" => &mut ticker.mark,
            "index_price" => &mut ticker.index,
            "funding_rate" => &mut ticker.funding_rate,
            _ => {
                ticker.attributes.push(Attribute { name, value: value.0.into() });
                continue;
            }
        };
        *place = out.figure(&name, value, &mut ticker.attributes)?;
    }
    out.push(symbol, ticker)
}

/// The name is that of the interval and the instrument, `1m_BTC_USDT`.
fn bar(data: &Candle<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let (length, symbol) = data.n.0.split_once('_').unwrap_or(("", data.n.0));
    let unit = length.get(length.len().saturating_sub(1)..).unwrap_or_default();
    let seconds = match unit {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3_600),
        "d" => Some(86_400),
        _ => None,
    };
    let count = length.strip_suffix(unit).and_then(|count| count.parse::<u64>().ok());
    let interval_ns = seconds.zip(count).and_then(|(unit, count)| count.checked_mul(unit * 1_000_000_000));
    let mut attributes = Vec::new();
    let bar = IntervalBar {
        start: Some(out.seconds(data.t)?),
        interval_ns,
        // `v` is in the quote currency where `a`, in the base currency, is there.
        volume: out.figure("volume", if data.a.is_empty() { data.v } else { data.a }, &mut attributes)?,
        turnover: match data.a.is_empty() {
            true => None,
            false => out.figure("turnover", data.v, &mut attributes)?,
        },
        ..out.bar([data.o, data.h, data.l, data.c])?
    };
    out.push(symbol, bar)
}
