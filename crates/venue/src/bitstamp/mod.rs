//! Bitstamp, version 2: `diff_order_book`, `order_book`, `live_trades`, and `order_book` over HTTP.
//!
//! Changes have times and no numbers: nothing shows whether one is missing. The time of a book is `source_time`, that of a trade `match_time`.

use crate::fields::BadLine;
use crate::frames::messages::Messages;
use crate::frames::scalar::Scalar;
use crate::frames::{Frames, path_of, times};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use tapedb_market::{Aggressor, Entry, NoticeKind, Package, Side, Trade};
use tapedb_schema::{TimeUnit, Timestamp};

#[derive(Default)]
pub(super) struct Parser;

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(borrow, default)]
    channel: Cow<'a, str>,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
struct BookData<'a> {
    #[serde(borrow)]
    microtimestamp: Scalar<'a>,
    bids: Vec<(Scalar<'a>, Scalar<'a>)>,
    asks: Vec<(Scalar<'a>, Scalar<'a>)>,
}

#[derive(Deserialize)]
struct TradeData<'a> {
    #[serde(borrow)]
    id: Scalar<'a>,
    microtimestamp: Scalar<'a>,
    amount: Scalar<'a>,
    #[serde(default)]
    amount_str: Scalar<'a>,
    price: Scalar<'a>,
    #[serde(default)]
    price_str: Scalar<'a>,
    #[serde(rename = "type")]
    kind: Scalar<'a>,
}

impl Frames for Parser {
    fn opened(&mut self, _again: bool, _out: &mut Messages) -> Result<(), BadLine> {
        Ok(())
    }

    fn frame(&mut self, text: &str, out: &mut Messages) -> Result<(), BadLine> {
        let frame: Frame<'_> = out.json(text)?;
        let data = frame.data.get();
        let (channel, symbol) = frame.channel.rsplit_once('_').unwrap_or((&frame.channel, ""));
        match (frame.event.as_ref(), channel) {
            ("bts:error", _) => out.notice(NoticeKind::Error, text),
            (event, _) if event.starts_with("bts:") => {
                out.control(event);
                Ok(())
            }
            ("data", "diff_order_book") => {
                out.unverifiable();
                book(&out.json(data)?, symbol, false, out)
            }
            ("data", "order_book") => book(&out.json(data)?, symbol, true, out),
            ("trade", "live_trades") => trade(&out.json(data)?, symbol, out),
            (event, channel) => {
                out.unknown(&format!("{channel} {event}"));
                Ok(())
            }
        }
    }

    fn answer(&mut self, url: &str, body: &str, out: &mut Messages) -> Result<(), BadLine> {
        let path = path_of(url);
        match path.trim_end_matches('/').rsplit_once('/') {
            Some(("/api/v2/order_book", symbol)) => book(&out.json(body)?, symbol, true, out),
            _ => {
                out.unknown(&path);
                Ok(())
            }
        }
    }
}

fn book(data: &BookData<'_>, symbol: &str, snapshot: bool, out: &mut Messages) -> Result<(), BadLine> {
    let mut package = out.levels(snapshot, [(Side::Bid, &data.bids), (Side::Ask, &data.asks)])?;
    package.source_time = Some(micros(data.microtimestamp, out)?);
    out.push(symbol, package)
}

fn trade(data: &TradeData<'_>, symbol: &str, out: &mut Messages) -> Result<(), BadLine> {
    let aggressor = match data.kind.0 {
        "0" => Aggressor::Buy,
        "1" => Aggressor::Sell,
        other => return Err(out.bad(other, "type 0 or 1")),
    };
    // The texts have every digit, the numbers not.
    let (price, size) = (
        if data.price_str.is_empty() { data.price } else { data.price_str },
        if data.amount_str.is_empty() { data.amount } else { data.amount_str },
    );
    let entry = Trade {
        exchange: out.exchange(),
        price: out.decimal(price)?,
        size: out.decimal(size)?,
        aggressor: Some(aggressor),
        id: Some(out.whole(data.id, "id")?),
        ..Trade::default()
    };
    let match_time = Some(micros(data.microtimestamp, out)?);
    out.push(symbol, Package { match_time, entries: vec![Entry::Trade(entry)], ..Package::default() })
}

fn micros(time: Scalar<'_>, out: &Messages) -> Result<Timestamp, BadLine> {
    let found = times::whole(time.0, &[TimeUnit::Micros]);
    found.ok_or_else(|| out.bad(time.0, "a time in microseconds, not before 1973"))
}
