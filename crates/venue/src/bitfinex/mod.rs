//! Bitfinex, version 2: arrays that begin with the number of a channel, which a frame `subscribed` before gives a meaning.
//!
//! | channel | message |
//! |---|---|
//! | `book` of prices (`P0` to `P4`) | `Package`, the first list a snapshot, then level-2 updates; a count of 0 is a delete |
//! | `book` of orders (`R0`) | [`Order`](tapedb_market::Order): the first list a `CLEAR` and an `ADD` each, all with `snapshot`; then `ADD`, `MODIFY`, and `DELETE` at price 0 |
//! | `trades` | a `Package` with a [`Trade`] each: `te`, and the first list, which is history, with the condition `HISTORY`. `tu` repeats `te` and is counted |
//! | `ticker` | [`Ticker`] |
//!
//! With the flag `SEQ_ALL` (65536), every frame of a connection ends with a number, one more than the one before: a hole is a `Gap` of
//! every symbol subscribed to. Without it, nothing shows whether a frame is missing.

mod orders;
#[cfg(test)]
mod tests;

use crate::fields::BadLine;
use crate::frames::Frames;
use crate::frames::messages::Messages;
use crate::frames::scalar::{Scalar, of_raw};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use tapedb_market::{
    Aggressor, Attribute, Entry, Gap, GapCause, NoticeKind, Package, PackageKind, Side, Ticker, Trade,
};
use tapedb_schema::{Ascii, TimeUnit};

/// Every frame has a sequence number.
const SEQ_ALL: u64 = 65_536;
/// Most channels of a connection.
const CHANNELS_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct Parser {
    channels: BTreeMap<u64, Channel>,
    orders: orders::Orders,
    numbered: bool,
    last: Option<u64>,
}

#[derive(Clone)]
struct Channel {
    kind: String,
    symbol: String,
    /// Orders instead of prices.
    raw: bool,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(borrow, default)]
    channel: Scalar<'a>,
    #[serde(borrow, default, rename = "chanId")]
    channel_id: Scalar<'a>,
    #[serde(borrow, default)]
    symbol: Scalar<'a>,
    #[serde(borrow, default)]
    pair: Scalar<'a>,
    #[serde(borrow, default)]
    prec: Scalar<'a>,
    #[serde(borrow, default)]
    flags: Scalar<'a>,
}

impl Frames for Parser {
    fn opened(&mut self, _again: bool, _out: &mut Messages) -> Result<(), BadLine> {
        *self = Self::default();
        Ok(())
    }

    fn frame(&mut self, text: &str, out: &mut Messages) -> Result<(), BadLine> {
        if text.starts_with('{') {
            return self.event(text, &out.json(text)?, out);
        }
        let parts: Vec<&RawValue> = out.json(text)?;
        let [number, payload, rest @ ..] = &parts[..] else {
            return Err(out.bad(text, "an array of channel number and data"));
        };
        let number = of_raw(number).and_then(Scalar::u64).ok_or_else(|| out.bad(text, "a channel number"))?;
        let named = of_raw(payload).map(|name| name.0);
        let (data, after) = match (named, rest) {
            (Some("hb"), rest) => ("", rest),
            (Some(_), [data, after @ ..]) => (data.get(), after),
            (Some(_), []) => return Err(out.bad(text, "data after the name of their kind")),
            (None, rest) => (payload.get(), rest),
        };
        self.sequence(after, out)?;
        if let Some(name @ ("hb" | "tu")) = named {
            out.control(name);
            return Ok(());
        }
        let known = self.channels.get(&number).cloned();
        let channel = known.ok_or_else(|| out.bad(text, "the number of a channel subscribed to before"))?;
        match (named, channel.kind.as_str()) {
            (Some("te"), "trades") => trade(&out.json::<Vec<_>>(data)?, &channel, false, out),
            (None, "trades") => out
                .json::<Vec<Vec<Scalar<'_>>>>(data)?
                .iter()
                .try_for_each(|row| trade(row, &channel, true, out)),
            (None, "book") if channel.symbol.starts_with('f') => {
                out.unknown("book of funding");
                Ok(())
            }
            (None, "book") if !channel.raw => self.book(data, &channel, out),
            (None, "book") => {
                let sequence = self.last.filter(|_| self.numbered);
                self.orders.read((number, &channel, sequence), data, out)
            }
            (None, "ticker") => ticker(&out.json::<Vec<_>>(data)?, &channel, out),
            (name, kind) => {
                out.unknown(&format!("{kind} {}", name.unwrap_or_default()));
                Ok(())
            }
        }
    }
}

impl Parser {
    fn event(&mut self, text: &str, event: &Event<'_>, out: &mut Messages) -> Result<(), BadLine> {
        match event.event.as_ref() {
            "error" => return out.notice(NoticeKind::Error, text),
            "conf" => self.numbered = event.flags.u64().is_some_and(|flags| flags & SEQ_ALL != 0),
            "subscribed" => {
                let number = out.whole(event.channel_id, "chanId")?;
                let symbol = if event.pair.is_empty() { event.symbol } else { event.pair };
                let (kind, symbol) = (event.channel.0.to_string(), symbol.0.to_string());
                let channel = Channel { kind, symbol, raw: event.prec.0.starts_with('R') };
                if self.channels.len() >= CHANNELS_MAX && !self.channels.contains_key(&number) {
                    return Err(out.bad(event.channel_id.0, format!("at most {CHANNELS_MAX} channels")));
                }
                self.orders.forget(number);
                self.channels.insert(number, channel);
            }
            "unsubscribed" => {
                let number = out.whole(event.channel_id, "chanId")?;
                self.orders.forget(number);
                self.channels.remove(&number);
            }
            "info" | "pong" => {}
            kind => {
                out.unknown(kind);
                return Ok(());
            }
        }
        out.control(&event.event);
        Ok(())
    }

    /// The number behind the data.
    fn sequence(&mut self, after: &[&RawValue], out: &mut Messages) -> Result<(), BadLine> {
        let number = after.first().and_then(|raw| of_raw(raw)).and_then(Scalar::u64);
        let Some(number) = number.filter(|_| self.numbered) else {
            out.unverifiable();
            return Ok(());
        };
        let Some(last) = self.last.replace(number) else {
            out.unverifiable();
            return Ok(());
        };
        let good = last.checked_add(1) == Some(number);
        out.checked(good);
        if good {
            return Ok(());
        }
        let missing = number > last;
        let gap = Gap {
            cause: GapCause::SequenceBreak,
            first_missing: missing.then(|| last + 1),
            last_missing: missing.then(|| number - 1),
            messages: missing.then(|| number - last - 1),
            verifiable: true,
            detail: Some(format!("frame {number} of the connection follows on {last}")),
            ..Gap::default()
        };
        let symbols: BTreeSet<&str> = self.channels.values().map(|channel| channel.symbol.as_str()).collect();
        symbols.into_iter().try_for_each(|symbol| out.gap(symbol, gap.clone()))
    }

    /// Price, count, amount; or a list of these, which is the whole book.
    fn book(&mut self, data: &str, channel: &Channel, out: &mut Messages) -> Result<(), BadLine> {
        let snapshot = data.starts_with("[[") || data == "[]";
        let rows: Vec<Vec<Scalar<'_>>> = if snapshot { out.json(data)? } else { vec![out.json(data)?] };
        let mut package = Package::default();
        if snapshot {
            package.kind = PackageKind::Snapshot;
        }
        package.sequence = self.last.filter(|_| self.numbered);
        let mut places = [0usize; 2];
        for row in rows {
            let &[price, count, amount] = &row[..] else {
                return Err(out.bad(data, "price, count and amount"));
            };
            let size = amount.0.strip_prefix('-').unwrap_or(amount.0);
            let side = if size.len() == amount.0.len() { Side::Bid } else { Side::Ask };
            let orders = count.0.parse().map_err(|_| out.bad(count.0, "a count of orders"))?;
            let place = &mut places[usize::from(side == Side::Ask)];
            package.entries.push(match (snapshot, orders) {
                (true, _) => out.level(side, *place, (price, Scalar(size)), Some(orders))?,
                (false, 0) => out.update(side, price, Scalar("0"), None)?,
                (false, _) => out.update(side, price, Scalar(size), Some(orders))?,
            });
            *place += 1;
        }
        out.push(&channel.symbol, package)
    }
}

/// Number, time, amount, price.
fn trade(row: &[Scalar<'_>], channel: &Channel, history: bool, out: &mut Messages) -> Result<(), BadLine> {
    let &[id, time, amount, price, ..] = row else {
        return Err(
            out.bad(row.first().map_or("", |first| first.0), "number, time, amount and price of a trade")
        );
    };
    let size = amount.0.strip_prefix('-').unwrap_or(amount.0);
    let entry = Trade {
        exchange: out.exchange(),
        price: out.decimal(price)?,
        size: out.decimal(Scalar(size))?,
        aggressor: Some(if size.len() == amount.0.len() { Aggressor::Buy } else { Aggressor::Sell }),
        id: Some(out.whole(id, "number of the trade")?),
        condition: Ascii::new("HISTORY").ok().filter(|_| history),
        suspicious: false,
    };
    let match_time = crate::frames::times::whole(time.0, &[TimeUnit::Millis]);
    let match_time = Some(match_time.ok_or_else(|| out.bad(time.0, "a time in milliseconds"))?);
    out.push(
        &channel.symbol,
        Package { match_time, entries: vec![Entry::Trade(entry)], ..Package::default() },
    )
}

/// Bid, its size, ask, its size, change, change as a ratio, last, volume, high, low.
fn ticker(row: &[Scalar<'_>], channel: &Channel, out: &mut Messages) -> Result<(), BadLine> {
    let &[bid, bid_size, ask, ask_size, change, ratio, last, volume, high, low, ..] = row else {
        return Err(out.bad(row.first().map_or("", |first| first.0), "a ticker of ten numbers"));
    };
    let mut ticker = Ticker { exchange: out.exchange(), ..Ticker::default() };
    let fields = [
        ("bid", bid, &mut ticker.bid_price),
        ("bid_size", bid_size, &mut ticker.bid_size),
        ("ask", ask, &mut ticker.ask_price),
        ("ask_size", ask_size, &mut ticker.ask_size),
        ("last", last, &mut ticker.last_price),
        ("volume", volume, &mut ticker.volume),
        ("high", high, &mut ticker.high),
        ("low", low, &mut ticker.low),
    ];
    let attribute =
        |(name, value): (&str, Scalar<'_>)| Attribute { name: name.into(), value: value.0.into() };
    ticker.attributes = [("change", change), ("change_ratio", ratio)].map(attribute).into();
    for (name, text, place) in fields {
        *place = out.figure(name, text, &mut ticker.attributes)?;
    }
    out.push(&channel.symbol, ticker)
}
