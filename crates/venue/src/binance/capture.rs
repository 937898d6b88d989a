//! Frames of Binance in captures of several venues: those of `binance-raw-ws`, and beside them `aggTrade` and `kline`.
//!
//! An aggregate of trades is a [`Package`] with a [`Trade`] of the condition `AGGTRADE`; its first and last trade are a [`SequenceRange`]
//! and `sequence`. A candle is an [`IntervalBar`]; a `forceOrder` is a [`Liquidation`]. Diffs have to follow on each other, by `pu` where there is one, else by `U`.

use super::frames::{Number, VenueTime};
use super::{Capture, Frame, Parser, Problem};
use crate::fields::BadLine;
use crate::frames::by_symbol::BySymbol;
use crate::frames::chain::Chain;
use crate::frames::messages::Messages;
use crate::frames::scalar::round_quoted;
use crate::frames::{Frames, path_of};
use serde::Deserialize;
use std::borrow::Cow;
use tapedb_market::{
    Aggressor, Entry, IntervalBar, Liquidation, Package, PackageKind, SequenceRange, Side, Trade,
};
use tapedb_schema::{Ascii, Timestamp};

pub(crate) struct CaptureFrames {
    parser: Parser,
    chains: BySymbol<Chain>,
}

#[derive(Deserialize)]
struct Envelope<'a, T> {
    #[serde(borrow)]
    stream: Cow<'a, str>,
    data: T,
}

#[derive(Deserialize)]
struct AggTrade<'a> {
    #[serde(default, rename = "E")]
    event_time: VenueTime,
    #[serde(default, rename = "T")]
    match_time: VenueTime,
    #[serde(borrow, rename = "s")]
    symbol: Cow<'a, str>,
    #[serde(rename = "a")]
    id: u64,
    #[serde(rename = "f")]
    first: u64,
    #[serde(rename = "l")]
    last: u64,
    #[serde(rename = "p")]
    price: Number,
    #[serde(rename = "q")]
    size: Number,
    #[serde(rename = "m")]
    buyer_is_maker: bool,
}

#[derive(Deserialize)]
struct KlineFrame<'a> {
    #[serde(default, rename = "E")]
    event_time: VenueTime,
    #[serde(borrow, rename = "k")]
    kline: Kline<'a>,
}

#[derive(Deserialize)]
struct Kline<'a> {
    #[serde(rename = "t")]
    start: VenueTime,
    #[serde(rename = "T")]
    end: VenueTime,
    #[serde(borrow, rename = "s")]
    symbol: Cow<'a, str>,
    #[serde(rename = "o")]
    open: Number,
    #[serde(rename = "c")]
    close: Number,
    #[serde(rename = "h")]
    high: Number,
    #[serde(rename = "l")]
    low: Number,
    #[serde(rename = "v")]
    volume: Number,
    #[serde(rename = "q")]
    turnover: Number,
    #[serde(rename = "n")]
    trades: u64,
}

#[derive(Deserialize)]
struct ForceFrame<'a> {
    #[serde(default, rename = "E")]
    event_time: VenueTime,
    #[serde(borrow, rename = "o")]
    order: ForceOrder<'a>,
}

#[derive(Deserialize)]
struct ForceOrder<'a> {
    #[serde(borrow, rename = "s")]
    symbol: Cow<'a, str>,
    #[serde(borrow, rename = "S")]
    side: Cow<'a, str>,
    #[serde(rename = "p")]
    price: Number,
    #[serde(rename = "q")]
    size: Number,
    #[serde(rename = "ap")]
    average: Option<Number>,
    #[serde(rename = "z")]
    filled: Option<Number>,
    #[serde(borrow, rename = "X")]
    status: Option<Cow<'a, str>>,
    #[serde(default, rename = "T")]
    match_time: VenueTime,
}

#[derive(Deserialize)]
struct Control {
    id: Option<serde::de::IgnoredAny>,
    result: Option<serde::de::IgnoredAny>,
}

impl CaptureFrames {
    pub(crate) fn new(exchange: &str) -> Self {
        let capture = Capture {
            symbol: None,
            exchange: Ascii::new(exchange).ok(),
            day: None,
            unit: None,
            round: false,
        };
        Self { parser: capture.parser(), chains: BySymbol::default() }
    }

    fn known(&mut self, text: &str, symbol: Option<&str>, out: &mut Messages) -> Result<(), BadLine> {
        let mut package = Package::default();
        if let Some(symbol) = symbol {
            self.parser.capture.symbol = Some(symbol.to_string());
            self.parser.seen = super::Seen::Many;
        }
        let frame = self.parser.frame(text, &mut package).map_err(|problem| match problem {
            Problem::Json(error) => {
                let column = error.column().saturating_sub(1).min(text.len());
                out.bad(text.get(column..).unwrap_or(text), format!("a JSON frame ({error})"))
            }
            Problem::NoSymbol => out.bad(text, "a snapshot with a known symbol"),
            Problem::TooDeep => out.bad(text, "a snapshot of at most 65,536 levels a side"),
        })?;
        let symbol = self.parser.symbol.clone();
        match frame {
            Frame::Other(record) => out.push(&symbol, record),
            Frame::Unknown(kind) => {
                let control: Option<Control> = out.json(text).ok();
                match control.is_some_and(|control| control.id.is_some() || control.result.is_some()) {
                    true => out.control("result"),
                    false => out.unknown(&kind),
                }
                Ok(())
            }
            Frame::Package | Frame::Both(_) => {
                self.check(&symbol, &package, out)?;
                out.push(&symbol, package)?;
                if let Frame::Both(record) = frame {
                    out.push(&symbol, record)?;
                }
                Ok(())
            }
        }
    }

    fn check(&mut self, symbol: &str, package: &Package, out: &mut Messages) -> Result<(), BadLine> {
        let (Some(Entry::SequenceRange(range)), Some(last)) = (package.entries.first(), package.sequence)
        else {
            return Ok(());
        };
        let chain = self.chains.of(symbol, out)?;
        chain.follow(symbol, (range.first, last), range.previous, out)
    }
}

impl Frames for CaptureFrames {
    fn opened(&mut self, _again: bool, _out: &mut Messages) -> Result<(), BadLine> {
        self.chains.clear();
        Ok(())
    }

    fn frame(&mut self, text: &str, out: &mut Messages) -> Result<(), BadLine> {
        let Err(bad) = self.frame_as_it_is(text, out) else { return Ok(()) };
        match round_quoted(text).filter(|_| out.rounds()) {
            // Nothing has come of it yet, not even a gap: it could not be read.
            Some((rounded, count)) if out.is_empty() => {
                self.frame_as_it_is(&rounded, out).map_err(|_| bad)?;
                out.counters().rounded_numbers += count;
                Ok(())
            }
            _ => Err(bad),
        }
    }

    fn answer(&mut self, url: &str, body: &str, out: &mut Messages) -> Result<(), BadLine> {
        let path = path_of(url);
        let symbol = url.split(['?', '&']).find_map(|part| part.strip_prefix("symbol="));
        match symbol.filter(|_| path.ends_with("/depth")) {
            Some(symbol) => self.known(body, Some(symbol), out),
            None => {
                out.unknown(&path);
                Ok(())
            }
        }
    }
}

impl CaptureFrames {
    fn frame_as_it_is(&mut self, text: &str, out: &mut Messages) -> Result<(), BadLine> {
        let kind =
            super::enveloped_stream(text).and_then(|stream| stream.split('@').nth(1)).unwrap_or_default();
        if kind == "aggTrade" {
            return agg_trade(&out.json::<Envelope<'_, AggTrade<'_>>>(text)?.data, out);
        }
        let is_force = kind == "forceOrder" || text.starts_with("{\"stream\":\"!forceOrder@arr\"");
        if is_force {
            return liquidation(&out.json::<Envelope<'_, ForceFrame<'_>>>(text)?.data, out);
        }
        if kind.starts_with("kline_") {
            let envelope: Envelope<'_, KlineFrame<'_>> = out.json(text)?;
            return bar(&envelope.data, out)
                .map_err(|()| out.bad(&envelope.stream, "a candle with its times"))?;
        }
        self.known(text, None, out)
    }
}

fn agg_trade(frame: &AggTrade<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let trade = Trade {
        exchange: out.exchange(),
        price: frame.price.0,
        size: frame.size.0,
        aggressor: Some(if frame.buyer_is_maker { Aggressor::Sell } else { Aggressor::Buy }),
        id: Some(frame.id),
        condition: Ascii::new("AGGTRADE").ok(),
        suspicious: false,
    };
    let range = SequenceRange { first: frame.first, previous: None };
    let package = Package {
        kind: PackageKind::Update,
        source_time: frame.event_time.time(),
        match_time: frame.match_time.time(),
        sequence: Some(frame.last),
        entries: vec![Entry::Trade(trade), Entry::SequenceRange(range)],
    };
    out.push(&frame.symbol, package)
}

fn liquidation(frame: &ForceFrame<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let order = &frame.order;
    let liquidation = Liquidation {
        side: Some(match order.side.as_ref() {
            "BUY" => Side::Bid,
            "SELL" => Side::Ask,
            other => return Err(out.bad(other, "side as BUY or SELL")),
        }),
        price: Some(order.price.0),
        size: Some(order.size.0),
        average_price: order.average.map(|price| price.0),
        filled: order.filled.map(|size| size.0),
        status: order.status.as_deref().map(Into::into),
        match_time: order.match_time.time(),
        source_time: frame.event_time.time(),
        exchange: out.exchange(),
        ..Liquidation::default()
    };
    out.push(&order.symbol, liquidation)
}

/// An error where a time is missing.
fn bar(frame: &KlineFrame<'_>, out: &mut Messages) -> Result<Result<(), BadLine>, ()> {
    let kline = &frame.kline;
    let (start, end) = (kline.start.time().ok_or(())?, kline.end.time().ok_or(())?);
    // The end that is stated is the last millisecond of the interval.
    let end = Timestamp(end.nanos().checked_add(1_000_000).ok_or(())?);
    let interval_ns = u64::try_from(end.nanos() - start.nanos()).map_err(|_| ())?;
    let bar = IntervalBar {
        start: Some(start),
        interval_ns: Some(interval_ns),
        open: Some(kline.open.0),
        high: Some(kline.high.0),
        low: Some(kline.low.0),
        close: Some(kline.close.0),
        volume: Some(kline.volume.0),
        turnover: Some(kline.turnover.0),
        trades: Some(kline.trades),
        vendor_time: frame.event_time.time(),
        exchange: out.exchange(),
        ..IntervalBar::default()
    };
    // At the time of receipt: the candle is not finished yet.
    Ok(out.push(&kline.symbol, bar))
}
