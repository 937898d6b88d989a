//! Kraken, version 1: `trade`, `book`, `ticker`, `spread`, `ohlc`; and [version 2](v2).
//!
//! | frame | message |
//! |---|---|
//! | `book-N`, snapshot `as`, `bs` | `Package`, snapshot |
//! | `book-N`, update `a`, `b` | `Package` of level-2 updates, and deletes of levels that it moves behind the N best, of which nothing comes any more; `match_time` is the latest time of its levels. `c`, the checksum of the best ten levels, is compared with the book's |
//! | `trade` | a `Package` with a [`Trade`] each, type of the order and `misc` as its condition |
//! | `ticker` | [`Ticker`] with the figures of 24 hours; those of today are attributes |
//! | `spread` | `Package` with two `Level1` |
//! | `ohlc-N` | [`IntervalBar`] |

mod level3;
#[cfg(test)]
mod tests;
mod v2;

use crate::fields::BadLine;
use crate::frames::Frames;
use crate::frames::by_symbol::BySymbol;
use crate::frames::checked_book::{CheckedBook, CheckedBooks};
use crate::frames::messages::Messages;
use crate::frames::scalar::Scalar;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use tapedb_market::{
    Attribute, Entry, IntervalBar, NoticeKind, Package, PackageKind, Side, Ticker, Trade, TradeCondition,
};
use tapedb_schema::{Ascii, Timestamp};

const NANOS_PER_MINUTE: u64 = 60_000_000_000;

#[derive(Default)]
pub(super) struct Parser {
    /// By pair.
    books: CheckedBooks,
    /// Of version 2.
    shapes: BySymbol<v2::Shape>,
    orders: level3::Books,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(default)]
    status: Scalar<'a>,
}

/// Price, size, time, and `r` where the venue repeats the level.
type Levels<'a> = Vec<Vec<Scalar<'a>>>;

#[derive(Deserialize, Default)]
#[serde(default)]
struct BookPart<'a> {
    #[serde(borrow, rename = "as")]
    all_asks: Option<Levels<'a>>,
    #[serde(rename = "bs")]
    all_bids: Option<Levels<'a>>,
    #[serde(rename = "a")]
    asks: Levels<'a>,
    #[serde(rename = "b")]
    bids: Levels<'a>,
    #[serde(rename = "c")]
    checksum: Scalar<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TickerPart<'a> {
    #[serde(borrow)]
    a: Vec<Scalar<'a>>,
    b: Vec<Scalar<'a>>,
    c: Vec<Scalar<'a>>,
    v: Vec<Scalar<'a>>,
    p: Vec<Scalar<'a>>,
    t: Vec<Scalar<'a>>,
    l: Vec<Scalar<'a>>,
    h: Vec<Scalar<'a>>,
    o: Vec<Scalar<'a>>,
}

impl Frames for Parser {
    fn opened(&mut self, _again: bool, _out: &mut Messages) -> Result<(), BadLine> {
        self.books.lose();
        self.shapes.clear();
        self.orders = level3::Books::default();
        Ok(())
    }

    fn frame(&mut self, text: &str, out: &mut Messages) -> Result<(), BadLine> {
        if text.starts_with('{') && v2::is_one(text) {
            return v2::frame(text, self, out);
        }
        if text.starts_with('{') {
            return event(text, out);
        }
        let parts: Vec<&RawValue> = out.json(text)?;
        let [_, parts @ .., channel, pair] = &parts[..] else {
            return Err(out.bad(text, "an array of channel number, data, channel and pair"));
        };
        let (channel, pair) =
            (out.json::<Cow<'_, str>>(channel.get())?, out.json::<Cow<'_, str>>(pair.get())?);
        match channel.split('-').next().unwrap_or_default() {
            "book" => self.books.change(&pair, out, |known, out| book(known, parts, &channel, &pair, out)),
            "trade" => trades(parts, &pair, out),
            "ticker" => parts.iter().try_for_each(|part| ticker(&out.json(part.get())?, &pair, out)),
            "spread" => parts.iter().try_for_each(|part| spread(part, &pair, out)),
            "ohlc" => parts.iter().try_for_each(|part| bar(part, &channel, &pair, out)),
            _ => {
                out.unknown(&channel);
                Ok(())
            }
        }
    }
}

fn event(text: &str, out: &mut Messages) -> Result<(), BadLine> {
    let event: Event<'_> = out.json(text)?;
    match (event.event.as_ref(), event.status.0) {
        ("error", _) | (_, "error") => out.notice(NoticeKind::Error, text),
        (kind @ ("systemStatus" | "subscriptionStatus" | "heartbeat" | "pong"), _) => {
            out.control(kind);
            Ok(())
        }
        (kind, _) => {
            out.unknown(kind);
            Ok(())
        }
    }
}

/// A number of an array that has to have it.
fn at<'a>(scalars: &[Scalar<'a>], index: usize, out: &Messages) -> Result<Scalar<'a>, BadLine> {
    let place = scalars.first().map_or("", |first| first.0);
    scalars
        .get(index)
        .copied()
        .ok_or_else(|| out.bad(place, format!("an array of at least {} scalars", index + 1)))
}

/// Bids and asks may come as two objects of one update; the second has the checksum.
fn book(
    book: &mut CheckedBook,
    parts: &[&RawValue],
    channel: &str,
    pair: &str,
    out: &mut Messages,
) -> Result<(), BadLine> {
    let depth = channel.split_once('-').and_then(|(_, depth)| depth.parse().ok());
    let depth: usize = depth.ok_or_else(|| out.bad("", format!("a depth in the channel {channel}")))?;
    let (mut package, mut checksum) = (Package::default(), None);
    for part in parts {
        let part: BookPart<'_> = out.json(part.get())?;
        let snapshot = part.all_asks.is_some() || part.all_bids.is_some();
        if snapshot {
            package.kind = PackageKind::Snapshot;
            book.begin();
        }
        let (bids, asks) = (part.all_bids.unwrap_or(part.bids), part.all_asks.unwrap_or(part.asks));
        for (side, levels) in [(Side::Bid, &bids), (Side::Ask, &asks)] {
            for (place, level) in levels.iter().enumerate() {
                let (price, size) = (at(level, 0, out)?, at(level, 1, out)?);
                let time = out.seconds(at(level, 2, out)?)?;
                package.match_time = package.match_time.max(Some(time));
                book.set(side, price, size, out)?;
                package.entries.push(match snapshot {
                    true => out.level(side, place, (price, size), None)?,
                    false => out.update(side, price, size, None)?,
                });
            }
        }
        checksum =
            part.checksum.some().map(|text| out.whole(Scalar(text), "checksum")).transpose()?.or(checksum);
    }
    let dropped = book.truncate(depth);
    let snapshot = package.kind == PackageKind::Snapshot;
    if !snapshot {
        package.entries.extend(out.dropped(dropped));
    }
    out.push(pair, package)?;
    match checksum.and_then(|checksum| i64::try_from(checksum).ok()) {
        Some(checksum) => book.check(pair, (checksum, book.digits()), out),
        None if snapshot => Ok(()),
        None => {
            out.unverifiable();
            Ok(())
        }
    }
}

fn trades(parts: &[&RawValue], pair: &str, out: &mut Messages) -> Result<(), BadLine> {
    for part in parts {
        for trade in out.json::<Vec<Vec<Scalar<'_>>>>(part.get())? {
            let aggressor = out.aggressor(at(&trade, 3, out)?, ["b", "s"])?;
            let (kind, misc) = (at(&trade, 4, out)?.0, trade.get(5).map_or("", |misc| misc.0));
            let condition = if misc.is_empty() { kind.to_string() } else { format!("{kind},{misc}") };
            let short = Ascii::new(&condition).ok().filter(|_| !condition.is_empty());
            let entry = Trade {
                exchange: out.exchange(),
                price: out.decimal(at(&trade, 0, out)?)?,
                size: out.decimal(at(&trade, 1, out)?)?,
                aggressor: Some(aggressor),
                condition: short,
                ..Trade::default()
            };
            let match_time = Some(out.seconds(at(&trade, 2, out)?)?);
            let entries = vec![Entry::Trade(entry)];
            out.push(pair, Package { match_time, entries, ..Package::default() })?;
            if short.is_none() && !condition.is_empty() {
                out.push(pair, TradeCondition { id: None, condition })?;
            }
        }
    }
    Ok(())
}

fn ticker(part: &TickerPart<'_>, pair: &str, out: &mut Messages) -> Result<(), BadLine> {
    let mut long = Vec::new();
    let mut number = |scalars: &[Scalar<'_>], index: usize, name: &str| {
        out.figure(name, scalars.get(index).copied().unwrap_or_default(), &mut long)
    };
    let mut ticker = Ticker {
        bid_price: number(&part.b, 0, "b[0]")?,
        bid_size: number(&part.b, 2, "b[2]")?,
        ask_price: number(&part.a, 0, "a[0]")?,
        ask_size: number(&part.a, 2, "a[2]")?,
        last_price: number(&part.c, 0, "c[0]")?,
        last_size: number(&part.c, 1, "c[1]")?,
        open: number(&part.o, 1, "o[1]")?,
        high: number(&part.h, 1, "h[1]")?,
        low: number(&part.l, 1, "l[1]")?,
        volume: number(&part.v, 1, "v[1]")?,
        exchange: out.exchange(),
        ..Ticker::default()
    };
    let rest: [(&str, &[Scalar<'_>], usize); 10] = [
        ("a[1]", &part.a, 1),
        ("b[1]", &part.b, 1),
        ("o[0]", &part.o, 0),
        ("h[0]", &part.h, 0),
        ("l[0]", &part.l, 0),
        ("v[0]", &part.v, 0),
        ("p[0]", &part.p, 0),
        ("p[1]", &part.p, 1),
        ("t[0]", &part.t, 0),
        ("t[1]", &part.t, 1),
    ];
    ticker.attributes = long;
    ticker.attributes.extend(rest.iter().filter_map(|(name, scalars, index)| {
        let value = scalars.get(*index)?.some()?;
        Some(Attribute { name: (*name).into(), value: value.into() })
    }));
    out.push(pair, ticker)
}

fn spread(part: &RawValue, pair: &str, out: &mut Messages) -> Result<(), BadLine> {
    let (bid, ask, time, bid_size, ask_size) = out.json(part.get())?;
    let entries = vec![out.best(Side::Bid, bid, bid_size)?, out.best(Side::Ask, ask, ask_size)?];
    let match_time = Some(out.seconds(time)?);
    out.push(pair, Package { match_time, entries, ..Package::default() })
}

/// Time of the last trade, end of the interval, four prices, average, volume, number of trades.
fn bar(part: &RawValue, channel: &str, pair: &str, out: &mut Messages) -> Result<(), BadLine> {
    let parts: Vec<Scalar<'_>> = out.json(part.get())?;
    let minutes: Option<u64> = channel.split_once('-').and_then(|(_, minutes)| minutes.parse().ok());
    let interval_ns = minutes.and_then(|minutes| minutes.checked_mul(NANOS_PER_MINUTE));
    let end = out.seconds(at(&parts, 1, out)?)?;
    let bar = IntervalBar {
        start: interval_ns.and_then(|interval| Some(Timestamp(end.nanos().checked_sub_unsigned(interval)?))),
        interval_ns,
        volume: Some(out.decimal(at(&parts, 7, out)?)?),
        trades: at(&parts, 8, out)?.u64(),
        ..out.bar([at(&parts, 2, out)?, at(&parts, 3, out)?, at(&parts, 4, out)?, at(&parts, 5, out)?])?
    };
    out.push(pair, bar)
}
