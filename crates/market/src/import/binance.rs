//! `binance-raw-ws`: recorded Binance WebSocket frames, one a line: `<local receive time, ns since epoch> <JSON>`.
//!
//! The message's time is the local receive time, `E` becomes `source_time` and `T` `match_time`. Kinds of frames:
//!
//! * depth diff: an update with `sequence` = `u`; first a [`SequenceRange`] (`U`, `pu`), then bids, then asks as
//!   [`Level2Update`]s. A size of 0 is a delete with size null, and nothing else is: the frame can be written back.
//! * book ticker: an update with `sequence` = `u` and two [`Level1`]; a price of 0 means that the side is empty.
//! * trade: an update with one [`Trade`], without sequence; `m` (buyer is maker) means that the seller was the
//!   aggressor; `X` becomes the condition, cut to eight characters (`INSURANC`).
//! * REST depth snapshot (`lastUpdateId`): a snapshot of [`Level2Snapshot`]s with `sequence` = `lastUpdateId`. Where it
//!   names no symbol, it is about the only one that the file had so far, else about the one in the file's name. The
//!   diffs that bridge it stand **before** it in the file; whoever builds a book from it has to keep them.
//!
//! Frames of other kinds are counted by kind and passed over.

use super::LineParser;
use super::clock;
use super::clock::DayClock;
use super::fields::BadLine;
use super::source::{Parsed, is_symbol};
use crate::{
    Aggressor, BookAction, Entry, Level1, Level2Snapshot, Level2Update, Package, PackageKind, SequenceRange,
};
use crate::{Side, Trade};
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use tapedb_schema::{Ascii, Decimal64, Timestamp};

pub(super) const LOOKED_FOR: &str =
    "gzip files `{usdm|cm|spot}-<symbol>_YYYYMMDD.gz` of lines `<nanoseconds> <JSON frame>`";

/// Nanoseconds that a capture may begin before the day in its name: the day of whatever zone, and clocks that differ.
const BEFORE_DAY_NS: i64 = 86_400_000_000_000;
/// A level's place is a `u16`.
const LEVELS_MAX: usize = 1 << 16;

/// What the file's name tells.
#[derive(Debug, Clone)]
pub(super) struct Capture {
    symbol: Option<String>,
    exchange: Option<Ascii<8>>,
    /// Midnight UTC of the day.
    day: Option<Timestamp>,
}

impl Capture {
    /// From `usdm-btcusdt_20240808.gz`.
    pub(super) fn of_path(path: &Path) -> Self {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let stem = name.split('.').next().unwrap_or_default();
        let (prefix, rest) = stem.split_once('-').unwrap_or(("", stem));
        let (symbol, date) = rest.rsplit_once('_').unwrap_or((rest, ""));
        let exchange = match prefix {
            "usdm" => "BINUSDM",
            "cm" => "BINCOINM",
            _ => "BINANCE",
        };
        let symbol = (!symbol.is_empty()).then(|| symbol.to_ascii_uppercase());
        let day = clock::date(date.as_bytes()).and_then(|date| DayClock::fixed(date, 0));
        Self { symbol, exchange: Ascii::new(exchange).ok(), day: day.map(|day| day.start()) }
    }

    /// No row is before this: a day before the one in the name.
    pub(super) fn start(&self) -> Timestamp {
        self.day.map_or(Timestamp::MIN, |day| Timestamp(day.nanos().saturating_sub(BEFORE_DAY_NS)))
    }

    /// Whether a file found in a folder is a capture.
    pub(super) fn is_named_so(path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let market = ["usdm-", "cm-", "spot-"].iter().any(|prefix| name.starts_with(prefix));
        market && name.ends_with(".gz")
    }

    pub(super) fn parser(&self) -> Parser {
        Parser { capture: self.clone(), symbol: String::new(), seen: Seen::None }
    }
}

pub(super) struct Parser {
    capture: Capture,
    /// Symbol of the last row.
    symbol: String,
    seen: Seen,
}

/// The symbols that frames have named so far.
enum Seen {
    None,
    One(String),
    Many,
}

impl LineParser for Parser {
    fn symbol(&self) -> &str {
        &self.symbol
    }

    fn parse(&mut self, line: &[u8], out: &mut Package) -> Result<Parsed, BadLine> {
        let bad_time = || BadLine::new(0, "local receive time in nanoseconds, a space and a JSON frame");
        let space = line.iter().position(|&byte| byte == b' ').ok_or_else(bad_time)?;
        // Nineteen digits, one more than `integer` takes.
        let time = std::str::from_utf8(&line[..space]).ok().and_then(|text| text.parse::<u64>().ok());
        let time = time.and_then(|ns| i64::try_from(ns).ok()).map(Timestamp).ok_or_else(bad_time)?;
        // Once for the line: the parser then need not look at every string.
        let json = std::str::from_utf8(&line[space + 1..]);
        let json =
            json.map_err(|error| BadLine::new(space + 1 + error.valid_up_to(), "a JSON frame in UTF-8"))?;
        match self.frame(json, out) {
            Ok(None) => Ok(Parsed::Row(time)),
            Ok(Some(unknown)) => Ok(Parsed::Unknown(unknown)),
            Err(Problem::Json(error)) => Err(bad_json(space + 1, &error)),
            Err(Problem::NoSymbol) => Err(BadLine::new(space + 1, "a snapshot whose symbol is known")),
            Err(Problem::TooDeep) => {
                Err(BadLine::new(space + 1, "a snapshot of at most 65,536 levels a side"))
            }
        }
    }
}

enum Problem {
    Json(serde_json::Error),
    NoSymbol,
    TooDeep,
}

impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

fn bad_json(from: usize, error: &serde_json::Error) -> BadLine {
    BadLine::new(from + error.column().saturating_sub(1), format!("a JSON frame ({error})"))
}

/// What a frame is, by its stream's name or its own `e`.
#[derive(Clone, Copy)]
enum Kind {
    Depth,
    BookTicker,
    Trade,
}

impl Kind {
    /// From `btcusdt@depth@0ms`. Partial books, `btcusdt@depth5`, are another kind of frame.
    fn of_stream(stream: &str) -> Option<Self> {
        match stream.split('@').nth(1)? {
            "depth" => Some(Self::Depth),
            "bookTicker" => Some(Self::BookTicker),
            "trade" => Some(Self::Trade),
            _ => None,
        }
    }

    fn of_event(event: &str) -> Option<Self> {
        match event {
            "depthUpdate" => Some(Self::Depth),
            "bookTicker" => Some(Self::BookTicker),
            "trade" => Some(Self::Trade),
            _ => None,
        }
    }
}

impl Parser {
    /// Fills in the package; gives the name of the kind if it is not one of those known.
    fn frame(&mut self, json: &str, out: &mut Package) -> Result<Option<String>, Problem> {
        match enveloped_stream(json) {
            Some(stream) => match Kind::of_stream(stream) {
                Some(kind) => self.enveloped(kind, json, out).map(|()| None),
                None => check_json(json).map(|()| Some(kind_name(stream))),
            },
            None => self.other_form(json, out),
        }
    }

    fn enveloped(&mut self, kind: Kind, json: &str, out: &mut Package) -> Result<(), Problem> {
        match kind {
            Kind::Depth => self.depth(&serde_json::from_str::<Envelope<Depth<'_>>>(json)?.data, out),
            Kind::BookTicker => self.ticker(&serde_json::from_str::<Envelope<Ticker<'_>>>(json)?.data, out),
            Kind::Trade => self.trade(&serde_json::from_str::<Envelope<TradeFrame<'_>>>(json)?.data, out),
        }
        Ok(())
    }

    /// Snapshots, frames without envelope, and envelopes written in another way than Binance does.
    fn other_form(&mut self, json: &str, out: &mut Package) -> Result<Option<String>, Problem> {
        let head: Head<'_> = serde_json::from_str(json)?;
        if head.last_update_id.is_some() {
            self.snapshot(&serde_json::from_str(json)?, out)?;
            return Ok(None);
        }
        let bare = match (&head.stream, head.data) {
            (Some(_), Some(data)) => data.get(),
            _ => json,
        };
        let name = head.stream.as_deref().or(head.event.as_deref()).unwrap_or("without stream and event");
        let kind = match &head.stream {
            Some(stream) => Kind::of_stream(stream),
            None => head.event.as_deref().and_then(Kind::of_event),
        };
        match kind {
            None => return Ok(Some(kind_name(name))),
            Some(Kind::Depth) => self.depth(&serde_json::from_str(bare)?, out),
            Some(Kind::BookTicker) => self.ticker(&serde_json::from_str(bare)?, out),
            Some(Kind::Trade) => self.trade(&serde_json::from_str(bare)?, out),
        }
        Ok(None)
    }

    fn depth(&mut self, frame: &Depth<'_>, out: &mut Package) {
        self.name(&frame.symbol);
        (out.source_time, out.match_time) = (frame.event_time.time(), frame.match_time.time());
        out.sequence = Some(frame.last);
        out.entries
            .push(Entry::SequenceRange(SequenceRange { first: frame.first, previous: frame.previous }));
        for (side, levels) in [(Side::Bid, &frame.bids), (Side::Ask, &frame.asks)] {
            out.entries.extend(levels.iter().map(|level| self.update(side, level)));
        }
    }

    fn update(&self, side: Side, &(price, size): &(Number, Number)) -> Entry {
        let delete = size.is_zero();
        Entry::Level2Update(Level2Update {
            action: if delete { BookAction::Delete } else { BookAction::Set },
            side,
            price: price.0,
            size: (!delete).then_some(size.0),
            exchange: self.capture.exchange,
            ..Level2Update::default()
        })
    }

    fn ticker(&mut self, frame: &Ticker<'_>, out: &mut Package) {
        self.name(&frame.symbol);
        (out.source_time, out.match_time) = (frame.event_time.time(), frame.match_time.time());
        out.sequence = Some(frame.sequence);
        let sides = [(Side::Bid, frame.bid, frame.bid_size), (Side::Ask, frame.ask, frame.ask_size)];
        out.entries.extend(sides.map(|(side, price, size)| {
            let known = !price.is_zero();
            Entry::Level1(Level1 {
                side,
                price: known.then_some(price.0),
                size: known.then_some(size.0),
                exchange: self.capture.exchange,
                ..Level1::default()
            })
        }));
    }

    fn trade(&mut self, frame: &TradeFrame<'_>, out: &mut Package) {
        self.name(&frame.symbol);
        (out.source_time, out.match_time) = (frame.event_time.time(), frame.match_time.time());
        out.entries.push(Entry::Trade(Trade {
            exchange: self.capture.exchange,
            price: frame.price.0,
            size: frame.size.0,
            aggressor: Some(if frame.buyer_is_maker { Aggressor::Sell } else { Aggressor::Buy }),
            id: Some(frame.id),
            condition: frame.kind.as_deref().and_then(|kind| Ascii::new(kind.get(..8).unwrap_or(kind)).ok()),
            suspicious: false,
        }));
    }

    fn snapshot(&mut self, frame: &Snapshot<'_>, out: &mut Package) -> Result<(), Problem> {
        match (&frame.symbol, &self.seen, &self.capture.symbol) {
            (Some(symbol), _, _) => self.name(symbol),
            (None, Seen::One(symbol), _) | (None, _, Some(symbol)) => self.symbol.clone_from(symbol),
            (None, _, None) => return Err(Problem::NoSymbol),
        }
        if frame.bids.len().max(frame.asks.len()) > LEVELS_MAX {
            return Err(Problem::TooDeep);
        }
        out.kind = PackageKind::Snapshot;
        (out.source_time, out.match_time) = (frame.event_time.time(), frame.match_time.time());
        out.sequence = Some(frame.last_update_id);
        for (side, levels) in [(Side::Bid, &frame.bids), (Side::Ask, &frame.asks)] {
            let exchange = self.capture.exchange;
            out.entries.extend(levels.iter().zip(0..=u16::MAX).map(|(&(price, size), level)| {
                let (price, size) = (price.0, size.0);
                Entry::Level2Snapshot(Level2Snapshot { side, level, price, size, orders: None, exchange })
            }));
        }
        Ok(())
    }

    /// Notes the symbol that a frame names.
    fn name(&mut self, symbol: &str) {
        if self.symbol != symbol {
            self.symbol.clear();
            self.symbol.push_str(symbol);
        }
        if !is_symbol(symbol) {
            // The line is bad: it tells nothing about the snapshots after it.
            return;
        }
        match &self.seen {
            Seen::One(one) if one == symbol => {}
            Seen::Many => {}
            Seen::None => self.seen = Seen::One(symbol.to_string()),
            Seen::One(_) => self.seen = Seen::Many,
        }
    }
}

/// The stream's name if the frame begins as Binance writes it, so that the rest is read only once.
fn enveloped_stream(json: &str) -> Option<&str> {
    let rest = json.strip_prefix("{\"stream\":\"")?;
    let length = rest.bytes().position(|byte| byte == b'"' || byte == b'\\')?;
    (rest.as_bytes()[length] == b'"').then(|| &rest[..length])
}

/// A frame that is passed over has to be one.
fn check_json(json: &str) -> Result<(), Problem> {
    Ok(serde_json::from_str::<de::IgnoredAny>(json).map(|_| ())?)
}

/// The part of a stream's name that tells the kind, short enough to be counted by.
fn kind_name(stream: &str) -> String {
    let kind = stream.split_once('@').map_or(stream, |(_, kind)| kind);
    kind.chars().take(32).collect()
}

#[derive(Deserialize)]
struct Envelope<T> {
    data: T,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    stream: Option<Cow<'a, str>>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow, rename = "e")]
    event: Option<Cow<'a, str>>,
    #[serde(rename = "lastUpdateId")]
    last_update_id: Option<u64>,
}

#[derive(Deserialize)]
struct Depth<'a> {
    #[serde(default, rename = "E")]
    event_time: Millis,
    #[serde(default, rename = "T")]
    match_time: Millis,
    #[serde(borrow, rename = "s")]
    symbol: Cow<'a, str>,
    #[serde(rename = "U")]
    first: u64,
    #[serde(rename = "u")]
    last: u64,
    #[serde(rename = "pu")]
    previous: Option<u64>,
    #[serde(rename = "b")]
    bids: Vec<(Number, Number)>,
    #[serde(rename = "a")]
    asks: Vec<(Number, Number)>,
}

#[derive(Deserialize)]
struct Ticker<'a> {
    #[serde(default, rename = "E")]
    event_time: Millis,
    #[serde(default, rename = "T")]
    match_time: Millis,
    #[serde(borrow, rename = "s")]
    symbol: Cow<'a, str>,
    #[serde(rename = "u")]
    sequence: u64,
    #[serde(rename = "b")]
    bid: Number,
    #[serde(rename = "B")]
    bid_size: Number,
    #[serde(rename = "a")]
    ask: Number,
    #[serde(rename = "A")]
    ask_size: Number,
}

#[derive(Deserialize)]
struct TradeFrame<'a> {
    #[serde(default, rename = "E")]
    event_time: Millis,
    #[serde(default, rename = "T")]
    match_time: Millis,
    #[serde(borrow, rename = "s")]
    symbol: Cow<'a, str>,
    #[serde(rename = "t")]
    id: u64,
    #[serde(rename = "p")]
    price: Number,
    #[serde(rename = "q")]
    size: Number,
    #[serde(borrow, rename = "X")]
    kind: Option<Cow<'a, str>>,
    #[serde(rename = "m")]
    buyer_is_maker: bool,
}

#[derive(Deserialize)]
struct Snapshot<'a> {
    #[serde(rename = "lastUpdateId")]
    last_update_id: u64,
    #[serde(default, rename = "E")]
    event_time: Millis,
    #[serde(default, rename = "T")]
    match_time: Millis,
    #[serde(borrow)]
    symbol: Option<Cow<'a, str>>,
    bids: Vec<(Number, Number)>,
    asks: Vec<(Number, Number)>,
}

/// Milliseconds since the epoch, if the frame has them, in the range of a timestamp.
#[derive(Default, Clone, Copy)]
struct Millis(Option<Timestamp>);

impl Millis {
    fn time(self) -> Option<Timestamp> {
        self.0
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let millis = i64::deserialize(deserializer)?;
        let nanos = millis.checked_mul(1_000_000).ok_or_else(|| de::Error::custom("time out of range"))?;
        Ok(Self(Some(Timestamp(nanos))))
    }
}

/// A finite decimal in quotes.
#[derive(Clone, Copy)]
struct Number(Decimal64);

impl Number {
    fn is_zero(self) -> bool {
        matches!(self.0.parts(), Some((0, _)))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Quoted;
        impl Visitor<'_> for Quoted {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a decimal in quotes")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                match Decimal64::parse_bytes(text.as_bytes()) {
                    Ok(number) if number.is_finite() => Ok(Number(number)),
                    Ok(_) => Err(E::custom("a decimal must be finite")),
                    Err(error) => Err(E::custom(error)),
                }
            }
        }
        deserializer.deserialize_str(Quoted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parser() -> Parser {
        Capture::of_path(Path::new("x/usdm-btcusdt_20240808.gz")).parser()
    }

    fn parse(parser: &mut Parser, json: &str) -> Result<Package, String> {
        let mut package = Package::default();
        let line = format!("1723161255030314667 {json}");
        match parser.parse(line.as_bytes(), &mut package) {
            Ok(Parsed::Row(time)) => {
                assert_eq!(time, Timestamp(1_723_161_255_030_314_667));
                Ok(package)
            }
            Ok(Parsed::Unknown(kind)) => Err(format!("unknown {kind}")),
            Err(bad) => Err(format!("{:?} {}", bad.column, bad.expected)),
        }
    }

    fn number(text: &str) -> Decimal64 {
        text.parse().unwrap()
    }

    const DIFF: &str = r#"{"e":"depthUpdate","E":1723161256299,"T":1723161256298,"s":"BTCUSDT","U":5,"u":9,"pu":4,"b":[["58710.20","0.014"],["61510.90","0.000"]],"a":[["7","8"]]}"#;

    #[test]
    fn file_names_tell_exchange_and_symbol() {
        let of = |name: &str| {
            let capture = Capture::of_path(Path::new(name));
            (capture.exchange.unwrap().to_string(), capture.symbol.unwrap())
        };
        assert_eq!(of("cm-btcusd_perp_20240808.gz"), ("BINCOINM".into(), "BTCUSD_PERP".into()));
        assert_eq!(of("spot-btcusdt_20240808.gz"), ("BINANCE".into(), "BTCUSDT".into()));
        assert_eq!(of("ethusdt_20240808.gz"), ("BINANCE".into(), "ETHUSDT".into()));
    }

    #[test]
    fn file_names_tell_the_day() {
        let start = |name: &str| Capture::of_path(Path::new(name)).start();
        assert_eq!(start("cm-btcusd_perp_20240808.gz").to_string(), "2024-08-07T00:00:00Z");
        for name in ["cm-btcusd_perp.gz", "spot-btcusdt_20241308.gz", "spot-btcusdt.gz", "x"] {
            assert_eq!(start(name), Timestamp::MIN, "{name}");
        }
    }

    #[test]
    fn a_diff() {
        let mut parser = parser();
        let package =
            parse(&mut parser, &format!(r#"{{"stream":"btcusdt@depth@0ms","data":{DIFF}}}"#)).unwrap();
        assert_eq!(parser.symbol(), "BTCUSDT");
        assert_eq!((package.kind, package.sequence), (PackageKind::Update, Some(9)));
        assert_eq!(package.source_time, Some(Timestamp(1_723_161_256_299_000_000)));
        assert_eq!(package.match_time, Some(Timestamp(1_723_161_256_298_000_000)));
        let exchange = Ascii::new("BINUSDM").ok();
        let set = Level2Update {
            price: number("58710.20"),
            size: Some(number("0.014")),
            exchange,
            ..Default::default()
        };
        let gone = Level2Update {
            action: BookAction::Delete,
            price: number("61510.90"),
            exchange,
            ..Default::default()
        };
        let ask = Level2Update { side: Side::Ask, price: number("7"), size: Some(number("8")), ..set };
        let range = SequenceRange { first: 5, previous: Some(4) };
        assert_eq!(package.entries, [range.into(), set.into(), gone.into(), ask.into()]);
    }

    #[test]
    fn other_ways_to_write_a_frame_say_the_same() {
        let expected =
            parse(&mut parser(), &format!(r#"{{"stream":"btcusdt@depth","data":{DIFF}}}"#)).unwrap();
        for json in [
            DIFF.to_string(),
            format!(r#"{{"data":{DIFF},"stream":"btcusdt@depth@100ms"}}"#),
            format!(r#"{{ "stream" : "btcusdt@depth" , "data" : {DIFF} }}"#),
        ] {
            assert_eq!(parse(&mut parser(), &json).as_ref(), Ok(&expected), "{json}");
        }
    }

    #[test]
    fn a_ticker_and_a_trade() {
        let mut parser = parser();
        let json = r#"{"stream":"btcusdt@bookTicker","data":{"u":7,"s":"BTCUSDT","b":"0.00","B":"0.00","a":"2.50","A":"3"}}"#;
        let package = parse(&mut parser, json).unwrap();
        assert_eq!((package.sequence, package.source_time), (Some(7), None));
        let [Entry::Level1(bid), Entry::Level1(ask)] = &package.entries[..] else { panic!("{package:?}") };
        assert_eq!(
            (bid.side, bid.price, ask.side, ask.price),
            (Side::Bid, None, Side::Ask, Some(number("2.50")))
        );
        let json = r#"{"stream":"btcusdt@trade","data":{"e":"trade","E":1,"T":2,"s":"BTCUSDT","t":3,"p":"4.0","q":"5","X":"INSURANCE_FUND","m":true}}"#;
        let package = parse(&mut parser, json).unwrap();
        let [Entry::Trade(trade)] = &package.entries[..] else { panic!("{package:?}") };
        assert_eq!((trade.id, trade.aggressor), (Some(3), Some(Aggressor::Sell)));
        assert_eq!(trade.condition.unwrap().as_str(), "INSURANC");
    }

    #[test]
    fn a_snapshot_is_about_the_symbol_around_it() {
        let snapshot = r#"{"lastUpdateId":77,"bids":[["1","2"],["0.5","3"]],"asks":[["3","4"]]}"#;
        let diff =
            |symbol: &str| format!(r#"{{"stream":"x@depth","data":{}}}"#, DIFF.replace("BTCUSDT", symbol));
        let mut parser = parser();
        let package = parse(&mut parser, snapshot).unwrap();
        assert_eq!(
            (parser.symbol(), package.kind, package.sequence),
            ("BTCUSDT", PackageKind::Snapshot, Some(77))
        );
        let Entry::Level2Snapshot(second) = &package.entries[1] else { panic!("{package:?}") };
        assert_eq!((second.level, second.price), (1, number("0.5")));
        parse(&mut parser, &diff("ETHUSDT")).unwrap();
        parse(&mut parser, snapshot).unwrap();
        assert_eq!(parser.symbol(), "ETHUSDT");
        parse(&mut parser, &diff("XRPUSDT")).unwrap();
        parse(&mut parser, snapshot).unwrap();
        assert_eq!(parser.symbol(), "BTCUSDT");
    }

    #[test]
    fn unknown_kinds_have_a_name() {
        let unknown = |json| parse(&mut parser(), json).unwrap_err();
        assert_eq!(unknown(r#"{"stream":"btcusdt@aggTrade","data":{}}"#), "unknown aggTrade");
        assert_eq!(unknown(r#"{"stream":"btcusdt@depth5@100ms","data":{}}"#), "unknown depth5@100ms");
        assert_eq!(unknown(r#"{"result":null,"id":1}"#), "unknown without stream and event");
    }

    #[test]
    fn bad_lines_say_where() {
        let mut package = Package::default();
        let mut bad = |line: &[u8]| match parser().parse(line, &mut package) {
            Err(bad) => format!("{} {}", bad.column.unwrap(), bad.expected),
            _ => panic!("not bad"),
        };
        assert!(bad(b"17 {\"stream\":\"a@trade\",\"data\":{}}").contains("missing field"));
        assert!(bad(b"17 {\"stream\":\"a@other\",\"data\":").contains("EOF"));
        assert!(bad(b"17 {\"stream\":\"a@trade\",\"data\":{\"p\":\"1x\"}}").contains("not a decimal"));
        assert!(bad(b"x {}").starts_with("0 local receive time"));
        assert!(bad(b"99999999999999999999 {}").starts_with("0 local receive time"));
        assert!(bad(b"\xFF\xFE").starts_with("0 local receive time"));
        assert!(bad(b"17 \xFF\xFE").starts_with("3 a JSON frame"));
    }
}
