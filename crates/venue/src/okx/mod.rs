//! OKX and OKCoin, version 5 of the interface, and Bitget, versions 1 and 2, whose frames have the same shape: `arg`, `action`, `data`.
//!
//! | channel | message |
//! |---|---|
//! | OKX `books`, `books-l2-tbt`, `books50-l2-tbt`; Bitget `books` | `Package`, a snapshot or level-2 updates; `checksum` is compared with the book's, and where there is none `prevSeqId` with the number before |
//! | OKX `books5`, `bbo-tbt`; Bitget `books5`, `books15` | `Package`, a snapshot each time |
//! | `trades`, `trade` | a `Package` with a [`Trade`] each; of a first list, which is history, with the condition `HISTORY` |
//! | `tickers`, `ticker` | [`Ticker`] |
//! | `candle1m` and others | [`IntervalBar`] |
//!
//! Bitget's `instType` `mc`, and of version 2 those that end with `FUTURES`, have the exchange `BITGETMC`: instruments of the spot market have the same names.

#[cfg(test)]
mod tests;
mod ticker;

use crate::fields::BadLine;
use crate::frames::Frames;
use crate::frames::by_symbol::BySymbol;
use crate::frames::chain::Chain;
use crate::frames::checked_book::CheckedBooks;
use crate::frames::messages::Messages;
use crate::frames::scalar::Scalar;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use tapedb_market::{Entry, IntervalBar, NoticeKind, Package, PackageKind, Side, Trade};
use tapedb_schema::Ascii;

/// Whose frames they are.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Dialect {
    Okx,
    Okcoin,
    Bitget,
}

pub(super) struct Parser {
    dialect: Dialect,
    /// By market, channel and instrument, as the following.
    books: CheckedBooks,
    chains: BySymbol<Chain>,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow)]
    event: Option<Cow<'a, str>>,
    #[serde(borrow)]
    action: Option<Cow<'a, str>>,
    arg: Option<Arg<'a>>,
    #[serde(borrow, default)]
    data: Vec<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Arg<'a> {
    #[serde(borrow)]
    channel: Scalar<'a>,
    inst_id: Scalar<'a>,
    inst_type: Scalar<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookData<'a> {
    #[serde(borrow)]
    asks: Vec<Vec<Scalar<'a>>>,
    bids: Vec<Vec<Scalar<'a>>>,
    ts: Scalar<'a>,
    #[serde(default)]
    checksum: Scalar<'a>,
    #[serde(default, alias = "seq")]
    seq_id: Scalar<'a>,
    #[serde(default)]
    prev_seq_id: Scalar<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TradeData<'a> {
    #[serde(borrow)]
    inst_id: Scalar<'a>,
    trade_id: Scalar<'a>,
    px: Scalar<'a>,
    sz: Scalar<'a>,
    side: Scalar<'a>,
    ts: Scalar<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NumberedTrade<'a> {
    #[serde(borrow)]
    trade_id: Scalar<'a>,
    price: Scalar<'a>,
    size: Scalar<'a>,
    side: Scalar<'a>,
    ts: Scalar<'a>,
}

impl Parser {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, books: CheckedBooks::default(), chains: BySymbol::default() }
    }
}

impl Frames for Parser {
    fn opened(&mut self, _again: bool, _out: &mut Messages) -> Result<(), BadLine> {
        self.books.lose();
        self.chains.clear();
        Ok(())
    }

    fn frame(&mut self, text: &str, out: &mut Messages) -> Result<(), BadLine> {
        if text == "pong" {
            out.control("pong");
            return Ok(());
        }
        let frame: Frame<'_> = out.json(text)?;
        match frame.event.as_deref() {
            Some("error") => return out.notice(NoticeKind::Error, text),
            Some(event @ ("subscribe" | "unsubscribe" | "login")) => {
                out.control(event);
                return Ok(());
            }
            Some(event) => {
                out.unknown(event);
                return Ok(());
            }
            None => {}
        }
        let Some(arg) = &frame.arg else {
            out.unknown("without channel");
            return Ok(());
        };
        let kind = arg.inst_type.0.to_ascii_uppercase();
        let derivative = self.dialect == Dialect::Bitget && (kind == "MC" || kind.ends_with("FUTURES"));
        let exchange = match self.dialect {
            Dialect::Okx => "OKX",
            Dialect::Okcoin => "OKCOIN",
            Dialect::Bitget if derivative => "BITGETMC",
            Dialect::Bitget => "BITGET",
        };
        out.set_exchange(exchange);
        let history = self.dialect == Dialect::Bitget && frame.action.as_deref() == Some("snapshot");
        frame.data.iter().try_for_each(|data| match (arg.channel.0, self.dialect) {
            ("books" | "books-l2-tbt" | "books50-l2-tbt", _) => {
                let snapshot = frame.action.as_deref() == Some("snapshot");
                self.book(&out.json(data.get())?, arg, snapshot, exchange, out)
            }
            ("books5" | "books15" | "bbo-tbt", _) => whole_book(&out.json(data.get())?, arg, out),
            ("trades" | "trades-all", Dialect::Okx | Dialect::Okcoin) => trade(&out.json(data.get())?, out),
            ("trade", Dialect::Bitget) if data.get().starts_with('{') => {
                numbered_trade(&out.json(data.get())?, arg, history, out)
            }
            ("trade", Dialect::Bitget) => row_of_trade(&out.json::<Vec<_>>(data.get())?, arg, history, out),
            ("tickers" | "ticker", _) => ticker::push(data, arg.inst_id, out),
            (channel, _) if channel.starts_with("candle") => bar(&out.json::<Vec<_>>(data.get())?, arg, out),
            (channel, _) => {
                out.unknown(channel);
                Ok(())
            }
        })
    }
}

impl Parser {
    fn book(
        &mut self,
        data: &BookData<'_>,
        arg: &Arg<'_>,
        snapshot: bool,
        exchange: &str,
        out: &mut Messages,
    ) -> Result<(), BadLine> {
        let symbol = arg.inst_id.0;
        let key = format!("{exchange} {} {symbol}", arg.channel.0);
        let package = package(data, snapshot, out)?;
        let sequence = package.sequence;
        let stated = data.checksum.0.parse::<i64>().ok().filter(|checksum| *checksum != 0);
        // The venue writes -1 before its first number, which a snapshot has.
        let previous = data.prev_seq_id.u64();
        let chain = self.chains.of(&key, out)?;
        match (sequence, previous) {
            (Some(number), _) if snapshot => chain.begin(number, out),
            (Some(number), Some(before)) => chain.follow(symbol, (number, number), Some(before), out)?,
            _ if stated.is_none() && !snapshot => out.unverifiable(),
            _ => {}
        }
        out.push(symbol, package)?;
        self.books.change(&key, out, |book, out| {
            if snapshot {
                book.begin();
            }
            for (side, levels) in [(Side::Bid, &data.bids), (Side::Ask, &data.asks)] {
                for level in levels {
                    book.set(side, at(level, 0, out)?, at(level, 1, out)?, out)?;
                }
            }
            match stated {
                Some(stated) => book.check(symbol, (stated, book.in_turn()), out),
                None => Ok(()),
            }
        })
    }
}

fn at<'a>(scalars: &[Scalar<'a>], index: usize, out: &Messages) -> Result<Scalar<'a>, BadLine> {
    let place = scalars.first().map_or("", |first| first.0);
    scalars
        .get(index)
        .copied()
        .ok_or_else(|| out.bad(place, format!("an array of at least {} scalars", index + 1)))
}

/// Price, size, a number without use, number of orders; of Bitget, price and size.
fn package(data: &BookData<'_>, snapshot: bool, out: &mut Messages) -> Result<Package, BadLine> {
    let kind = if snapshot { PackageKind::Snapshot } else { PackageKind::Update };
    let mut package = Package { kind, source_time: Some(out.time(data.ts)?), ..Package::default() };
    package.sequence = data.seq_id.u64();
    for (side, levels) in [(Side::Bid, &data.bids), (Side::Ask, &data.asks)] {
        for (place, level) in levels.iter().enumerate() {
            let (price, size) = (at(level, 0, out)?, at(level, 1, out)?);
            let orders = level.get(3).and_then(|orders| orders.0.parse().ok());
            package.entries.push(match snapshot {
                true => out.level(side, place, (price, size), orders)?,
                false => out.update(side, price, size, orders)?,
            });
        }
    }
    Ok(package)
}

fn whole_book(data: &BookData<'_>, arg: &Arg<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let package = package(data, true, out)?;
    out.push(arg.inst_id.0, package)
}

fn trade(data: &TradeData<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let entry = Trade {
        exchange: out.exchange(),
        price: out.decimal(data.px)?,
        size: out.decimal(data.sz)?,
        aggressor: Some(out.aggressor(data.side, ["buy", "sell"])?),
        id: Some(out.whole(data.trade_id, "tradeId")?),
        ..Trade::default()
    };
    let match_time = Some(out.time(data.ts)?);
    out.push(data.inst_id.0, Package { match_time, entries: vec![Entry::Trade(entry)], ..Package::default() })
}

/// Time, price, size, side; no number.
fn row_of_trade(row: &[Scalar<'_>], arg: &Arg<'_>, history: bool, out: &mut Messages) -> Result<(), BadLine> {
    let entry = Trade {
        exchange: out.exchange(),
        price: out.decimal(at(row, 1, out)?)?,
        size: out.decimal(at(row, 2, out)?)?,
        aggressor: Some(out.aggressor(at(row, 3, out)?, ["buy", "sell"])?),
        condition: Ascii::new("HISTORY").ok().filter(|_| history),
        ..Trade::default()
    };
    let match_time = Some(out.time(at(row, 0, out)?)?);
    out.push(arg.inst_id.0, Package { match_time, entries: vec![Entry::Trade(entry)], ..Package::default() })
}

/// Of version 2.
fn numbered_trade(
    data: &NumberedTrade<'_>,
    arg: &Arg<'_>,
    history: bool,
    out: &mut Messages,
) -> Result<(), BadLine> {
    let entry = Trade {
        exchange: out.exchange(),
        price: out.decimal(data.price)?,
        size: out.decimal(data.size)?,
        aggressor: Some(out.aggressor(data.side, ["buy", "sell"])?),
        id: Some(out.whole(data.trade_id, "tradeId")?),
        condition: Ascii::new("HISTORY").ok().filter(|_| history),
        suspicious: false,
    };
    let match_time = Some(out.time(data.ts)?);
    out.push(arg.inst_id.0, Package { match_time, entries: vec![Entry::Trade(entry)], ..Package::default() })
}

/// Begin, four prices, volume, and on OKX the volume in the quote currency.
fn bar(row: &[Scalar<'_>], arg: &Arg<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let start = out.time(at(row, 0, out)?)?;
    let length = arg.channel.0.trim_start_matches("candle");
    let minutes = length.strip_suffix('m').and_then(|minutes| minutes.parse::<u64>().ok());
    let hours = length.strip_suffix('H').and_then(|hours| hours.parse::<u64>().ok());
    let minutes = minutes.or_else(|| hours?.checked_mul(60));
    let interval_ns = minutes.and_then(|minutes| minutes.checked_mul(60_000_000_000));
    let bar = IntervalBar {
        start: Some(start),
        interval_ns,
        volume: Some(out.decimal(at(row, 5, out)?)?),
        turnover: out.maybe_decimal(row.get(6).copied().unwrap_or_default())?,
        ..out.bar([at(row, 1, out)?, at(row, 2, out)?, at(row, 3, out)?, at(row, 4, out)?])?
    };
    out.push(arg.inst_id.0, bar)
}
