//! `binance-raw-ws`: recorded Binance WebSocket frames, one a line: `<local receive time, ns since epoch> <JSON>`.
//!
//! The message's time is the local receive time, `E` becomes `source_time` and `T` `match_time`. Kinds of frames:
//!
//! * depth diff: an update with `sequence` = `u`; first a [`SequenceRange`] (`U`, `pu`), then bids, then asks as
//!   [`Level2Update`]s. A size of 0 is a delete with size null, and nothing else is: the frame can be written back.
//! * book ticker: an update with `sequence` = `u` and two [`Level1`]; a price of 0 means that the side is empty.
//! * trade: an update with one [`Trade`], without sequence; `m` (buyer is maker) means that the seller was the
//!   aggressor; `X` becomes the condition, or where it does not fit (`INSURANCE_FUND`) a [`TradeCondition`] after the
//!   trade.
//! * partial book (`@depth5`, `@depth10`, `@depth20`): a [`MarketByPrice`] with its levels, no package: the state of the best levels. Its `sequence` is `u`
//!   or `lastUpdateId`; spot's have no symbol but in the stream's name, and no times. Without envelope they look like snapshots and diffs.
//! * mark price of one symbol: a [`MarkPrice`], no package.
//! * REST depth snapshot (`lastUpdateId`): a snapshot of [`Level2Snapshot`]s with `sequence` = `lastUpdateId`. Where it
//!   names no symbol, it is of the only one that the file had so far, else of the one in the file's name. The
//!   diffs that bridge it are **before** it in the file; a book builder has to buffer them.
//!
//! Frames of other kinds are counted by kind and passed over.
//!
//! Recorders write times of receipt in nanoseconds, and some in microseconds, milliseconds or seconds. The unit is what makes the
//! first time of a file one from 1973 on, which is never more than one unit; the lines after it must fit. In the same way the
//! venue's own times are milliseconds or microseconds, each by its size.

mod capture;
mod frames;
mod scan;
#[cfg(test)]
mod tests;

pub(super) use capture::CaptureFrames;

use super::clock;
use super::clock::DayClock;
use super::fields::BadLine;
use super::options::ImportOptions;
use super::record::AnyRecord;
use super::source::{Counters, LineParser, Parsed, is_symbol};
use crate::frames::scalar::round_quoted;
use frames::{
    Best, Depth, Envelope, FundingTime, Head, MarkFrame, MaybeNumber, Number, Snapshot, Ticker, TradeFrame,
};
use serde::de;
use std::path::Path;
use tapedb_market::{
    Aggressor, BidAsk, BookAction, Entry, Level1, Level2Snapshot, Level2Update, MarkPrice, MarketByPrice,
    Package, PackageKind, SequenceRange, Side, Trade, TradeCondition,
};
use tapedb_schema::{Ascii, TimeUnit, Timestamp};

pub(super) const LOOKED_FOR: &str =
    "gzip files `{usdm|cm|spot}-<symbol>_YYYYMMDD.gz` of lines `<nanoseconds since 1970> <JSON frame>`";

/// Nanoseconds that a capture may begin before the day in its name: the day of whatever zone, and clocks that differ.
const BEFORE_DAY_NS: i64 = 86_400_000_000_000;
/// A level's place is a `u16`.
const LEVELS_MAX: usize = 1 << 16;
/// How an envelope begins.
const ENVELOPE: &str = "{\"stream\":\"";

/// The content of the file's name.
#[derive(Debug, Clone)]
pub(super) struct Capture {
    symbol: Option<String>,
    exchange: Option<Ascii<8>>,
    /// Midnight UTC of the day.
    day: Option<Timestamp>,
    /// The unit of times of receipt, if given.
    unit: Option<TimeUnit>,
    /// Round numbers of more than 16 digits.
    round: bool,
}

impl Capture {
    /// From `usdm-btcusdt_20240808.gz`.
    pub(super) fn of_path(path: &Path, options: &ImportOptions) -> Self {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let stem = name.split('.').next().unwrap_or_default();
        let (prefix, rest) = stem.split_once('-').unwrap_or(("", stem));
        let (symbol, date) = rest.rsplit_once('_').unwrap_or((rest, ""));
        // The market is in the file's name, or it is the name of the folder.
        let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let market = [Some(prefix), folder].into_iter().flatten().find_map(|name| match name {
            "usdm" => Some("BINUSDM"),
            "cm" | "coinm" => Some("BINCOINM"),
            "spot" => Some("BINANCE"),
            _ => None,
        });
        let exchange = market.unwrap_or("BINANCE");
        let symbol = (!symbol.is_empty()).then(|| symbol.to_ascii_uppercase());
        let day = clock::date(date.as_bytes()).and_then(|date| DayClock::fixed(date, 0));
        Self {
            symbol,
            exchange: Ascii::new(exchange).ok(),
            day: day.map(|day| day.start()),
            unit: options.receive_time_unit,
            round: options.round_numbers,
        }
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

    /// Whether a text begins with a time and a frame of Binance.
    pub(super) fn begins_so(head: &[u8]) -> bool {
        let Some(space) = head.iter().position(|&byte| byte == b' ') else { return false };
        let is_time = (10..=20).contains(&space) && head[..space].iter().all(u8::is_ascii_digit);
        let frames = [&b"{\"stream\":\""[..], b"{\"e\":\"", b"{\"lastUpdateId\":"];
        is_time && frames.iter().any(|frame| head[space + 1..].starts_with(frame))
    }

    pub(super) fn parser(&self) -> Parser {
        Parser { capture: self.clone(), guessed: None, symbol: String::new(), seen: Seen::None, rounded: 0 }
    }
}

pub(super) struct Parser {
    capture: Capture,
    /// The unit of times of receipt, by the first one's size.
    guessed: Option<TimeUnit>,
    /// Symbol of the last row.
    symbol: String,
    seen: Seen,
    /// Numbers that were rounded since they were last counted.
    rounded: u64,
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

    fn count(&mut self, counters: &mut Counters) {
        counters.rounded_numbers += std::mem::take(&mut self.rounded);
    }

    fn guessed_unit(&self) -> Option<TimeUnit> {
        self.guessed.filter(|unit| *unit != TimeUnit::Nanos)
    }

    fn parse(&mut self, line: &[u8], out: &mut AnyRecord) -> Result<Parsed, BadLine> {
        let space = line.iter().position(|&byte| byte == b' ').ok_or_else(|| self.bad_time())?;
        let time = std::str::from_utf8(&line[..space]).ok().and_then(|text| self.receive_time(text));
        let time = time.ok_or_else(|| self.bad_time())?;
        // Once for the line: the parser then need not check every string.
        let json = std::str::from_utf8(&line[space + 1..]);
        let json =
            json.map_err(|error| BadLine::new(space + 1 + error.valid_up_to(), "a JSON frame in UTF-8"))?;
        match self.frame_or_rounded(json, out.package()) {
            Ok(Frame::Package) => Ok(Parsed::Row(time)),
            Ok(Frame::Other(record)) => {
                *out = record;
                Ok(Parsed::Row(time))
            }
            Ok(Frame::Both(row)) => Ok(Parsed::Both(time, row)),
            Ok(Frame::Unknown(kind)) => Ok(Parsed::Unknown(kind)),
            Err(Problem::Json(error)) => Err(bad_json(space + 1, &error)),
            Err(Problem::NoSymbol) => Err(BadLine::new(space + 1, "a snapshot with a known symbol")),
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

/// What has become of a frame.
enum Frame {
    Package,
    /// Another record than a package.
    Other(AnyRecord),
    /// The package, and a row after it.
    Both(AnyRecord),
    /// Nothing; the name of its kind.
    Unknown(String),
}

/// What a frame is, by its stream's name or its own `e`.
#[derive(Clone, Copy)]
enum Kind {
    Depth,
    /// The best levels.
    Best,
    BookTicker,
    Trade,
    MarkPrice,
}

impl Kind {
    /// From `btcusdt@depth@0ms`, or of partial books `btcusdt@depth5@100ms`.
    fn of_stream(stream: &str) -> Option<Self> {
        match stream.split('@').nth(1)? {
            "depth" => Some(Self::Depth),
            "bookTicker" => Some(Self::BookTicker),
            "trade" => Some(Self::Trade),
            "markPrice" => Some(Self::MarkPrice),
            "depth5" | "depth10" | "depth20" => Some(Self::Best),
            _ => None,
        }
    }

    fn of_event(event: &str) -> Option<Self> {
        match event {
            "depthUpdate" => Some(Self::Depth),
            "bookTicker" => Some(Self::BookTicker),
            "trade" => Some(Self::Trade),
            "markPriceUpdate" => Some(Self::MarkPrice),
            _ => None,
        }
    }
}

impl Parser {
    /// The time of receipt; `None` if it is none, or not in the unit of the file.
    fn receive_time(&mut self, text: &str) -> Option<Timestamp> {
        if let Some(unit) = self.capture.unit {
            return unit.parse(text);
        }
        let whole = text.split_once('.').map_or(text, |(whole, _)| whole).parse().ok()?;
        let unit = self.guessed.or_else(|| TimeUnit::of(whole))?;
        let time = unit.parse(text).filter(|_| unit.is_plausible(whole))?;
        self.guessed = Some(unit);
        Some(time)
    }

    #[cold]
    fn bad_time(&self) -> BadLine {
        let unit = match (self.capture.unit, self.guessed) {
            (Some(unit), _) => format!("in {}", unit.name()),
            (None, Some(unit)) => format!("in {}, as in the lines before", unit.name()),
            (None, None) => "since 1970 in nanoseconds (or us, ms, s), not before 1973".into(),
        };
        BadLine::new(0, format!("local receive time {unit}, a space and a JSON frame"))
    }

    /// The frame as it is; where a number has too many digits, and such are to be rounded, with the rounded one.
    fn frame_or_rounded(&mut self, json: &str, out: &mut Package) -> Result<Frame, Problem> {
        let error = match self.frame(json, out) {
            Err(Problem::Json(error)) if self.capture.round => error,
            other => return other,
        };
        let Some((rounded, count)) = round_quoted(json) else { return Err(Problem::Json(error)) };
        *out = Package::default();
        let frame = self.frame(&rounded, out).map_err(|_| Problem::Json(error))?;
        self.rounded += count;
        Ok(frame)
    }

    /// Fills in the package, or makes another row.
    fn frame(&mut self, json: &str, out: &mut Package) -> Result<Frame, Problem> {
        match enveloped_stream(json) {
            Some(stream) => match Kind::of_stream(stream) {
                Some(Kind::Best) => {
                    self.best(stream, &serde_json::from_str::<Envelope<Best<'_>>>(json)?.data)
                }
                Some(Kind::Depth) => match self.scanned_depth(json, stream.len(), out) {
                    Some(frame) => Ok(frame),
                    None => self.enveloped(Kind::Depth, json, out),
                },
                Some(kind) => self.enveloped(kind, json, out),
                None => check_json(json).map(|()| Frame::Unknown(kind_name(stream))),
            },
            None => self.other_form(json, out),
        }
    }

    fn enveloped(&mut self, kind: Kind, json: &str, out: &mut Package) -> Result<Frame, Problem> {
        Ok(match kind {
            Kind::Depth | Kind::Best => {
                self.depth(&serde_json::from_str::<Envelope<Depth<'_>>>(json)?.data, out)
            }
            Kind::BookTicker => self.ticker(&serde_json::from_str::<Envelope<Ticker<'_>>>(json)?.data, out),
            Kind::Trade => self.trade(&serde_json::from_str::<Envelope<TradeFrame<'_>>>(json)?.data, out),
            Kind::MarkPrice => self.mark(&serde_json::from_str::<Envelope<MarkFrame<'_>>>(json)?.data),
        })
    }

    /// Snapshots, frames without envelope, and envelopes written in another way than Binance does.
    fn other_form(&mut self, json: &str, out: &mut Package) -> Result<Frame, Problem> {
        let head: Head<'_> = serde_json::from_str(json)?;
        if head.last_update_id.is_some() {
            return self.snapshot(&serde_json::from_str(json)?, out);
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
        Ok(match kind {
            None => Frame::Unknown(kind_name(name)),
            Some(Kind::Best) => return self.best(name, &serde_json::from_str(bare)?),
            Some(Kind::Depth) => self.depth(&serde_json::from_str(bare)?, out),
            Some(Kind::BookTicker) => self.ticker(&serde_json::from_str(bare)?, out),
            Some(Kind::Trade) => self.trade(&serde_json::from_str(bare)?, out),
            Some(Kind::MarkPrice) => self.mark(&serde_json::from_str(bare)?),
        })
    }

    /// A diff in Binance's own form; the package is as it was if it is in another.
    fn scanned_depth(&mut self, json: &str, stream_bytes: usize, out: &mut Package) -> Option<Frame> {
        // The numbers come before the levels in the package, and in the frame too.
        out.entries.push(Entry::SequenceRange(SequenceRange::default()));
        let exchange = self.capture.exchange;
        let head = scan::depth(json, ENVELOPE.len() + stream_bytes + 1, |side, price, size| {
            out.entries.push(update(exchange, side, &(price, size)));
        });
        let Some(head) = head else {
            out.entries.clear();
            return None;
        };
        out.entries[0] = Entry::SequenceRange(SequenceRange { first: head.first, previous: head.previous });
        (out.source_time, out.match_time) = (head.event_time.time(), head.match_time.time());
        out.sequence = Some(head.last);
        self.name(head.symbol);
        Some(Frame::Package)
    }

    fn depth(&mut self, frame: &Depth<'_>, out: &mut Package) -> Frame {
        self.name(&frame.symbol);
        (out.source_time, out.match_time) = (frame.event_time.time(), frame.match_time.time());
        out.sequence = Some(frame.last);
        out.entries
            .push(Entry::SequenceRange(SequenceRange { first: frame.first, previous: frame.previous }));
        for (side, levels) in [(Side::Bid, &frame.bids), (Side::Ask, &frame.asks)] {
            out.entries.extend(levels.iter().map(|level| update(self.capture.exchange, side, level)));
        }
        Frame::Package
    }

    fn ticker(&mut self, frame: &Ticker<'_>, out: &mut Package) -> Frame {
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
        Frame::Package
    }

    fn trade(&mut self, frame: &TradeFrame<'_>, out: &mut Package) -> Frame {
        let condition = frame.kind.as_deref();
        let short = condition.and_then(|condition| Ascii::new(condition).ok());
        self.name(&frame.symbol);
        (out.source_time, out.match_time) = (frame.event_time.time(), frame.match_time.time());
        out.entries.push(Entry::Trade(Trade {
            exchange: self.capture.exchange,
            price: frame.price.0,
            size: frame.size.0,
            aggressor: Some(if frame.buyer_is_maker { Aggressor::Sell } else { Aggressor::Buy }),
            id: Some(frame.id),
            condition: short,
            suspicious: false,
        }));
        match condition {
            Some(condition) if short.is_none() => {
                Frame::Both(TradeCondition { id: Some(frame.id), condition: condition.into() }.into())
            }
            _ => Frame::Package,
        }
    }

    fn mark(&mut self, frame: &MarkFrame<'_>) -> Frame {
        self.name(&frame.symbol);
        let number = |number: Option<MaybeNumber>| number.and_then(|number| number.0);
        let mark = MarkPrice {
            mark: frame.mark.0,
            index: number(frame.index),
            settlement: number(frame.settlement),
            average: number(frame.average),
            funding_rate: number(frame.funding_rate),
            next_funding: frame.next_funding.and_then(FundingTime::time),
            source_time: frame.event_time.time(),
            exchange: self.capture.exchange,
        };
        Frame::Other(mark.into())
    }

    /// The best levels, whose symbol is in the frame or in the name of its stream.
    fn best(&mut self, stream: &str, frame: &Best<'_>) -> Result<Frame, Problem> {
        match &frame.symbol {
            Some(symbol) => self.name(symbol),
            None => self.name(&stream.split('@').next().unwrap_or_default().to_ascii_uppercase()),
        }
        let depth = frame.bids.len().max(frame.asks.len());
        if depth > LEVELS_MAX {
            return Err(Problem::TooDeep);
        }
        let level = |place: usize| {
            let (bid, ask) = (frame.bids.get(place), frame.asks.get(place));
            BidAsk {
                bid_price: bid.map(|(price, _)| price.0),
                bid_size: bid.map(|(_, size)| size.0),
                ask_price: ask.map(|(price, _)| price.0),
                ask_size: ask.map(|(_, size)| size.0),
                ..BidAsk::default()
            }
        };
        let state = MarketByPrice {
            event_end: true,
            sequence: Some(frame.sequence),
            source_time: frame.event_time.time(),
            match_time: frame.match_time.time(),
            exchange: self.capture.exchange,
            levels: (0..depth).map(level).collect(),
            ..MarketByPrice::default()
        };
        Ok(Frame::Other(state.into()))
    }

    fn snapshot(&mut self, frame: &Snapshot<'_>, out: &mut Package) -> Result<Frame, Problem> {
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
        Ok(Frame::Package)
    }

    /// Notes the symbol that a frame names.
    fn name(&mut self, symbol: &str) {
        if self.symbol != symbol {
            self.symbol.clear();
            self.symbol.push_str(symbol);
        }
        if !is_symbol(symbol) {
            // The line is bad: later snapshots are not affected.
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
    let rest = json.strip_prefix(ENVELOPE)?;
    let length = rest.bytes().position(|byte| byte == b'"' || byte == b'\\')?;
    (rest.as_bytes()[length] == b'"').then(|| &rest[..length])
}

#[inline]
fn update(exchange: Option<Ascii<8>>, side: Side, &(price, size): &(Number, Number)) -> Entry {
    let delete = size.is_zero();
    Entry::Level2Update(Level2Update {
        action: if delete { BookAction::Delete } else { BookAction::Set },
        side,
        price: price.0,
        size: (!delete).then_some(size.0),
        exchange,
        ..Level2Update::default()
    })
}

/// A frame that is passed over has to be one.
fn check_json(json: &str) -> Result<(), Problem> {
    Ok(serde_json::from_str::<de::IgnoredAny>(json).map(|_| ())?)
}

/// The part of a stream's name with the kind, short enough for a counter.
fn kind_name(stream: &str) -> String {
    // `!markPrice@arr` is of all symbols, and has no other name.
    let kind = stream.split_once('@').filter(|_| !stream.starts_with('!')).map_or(stream, |(_, kind)| kind);
    kind.chars().take(32).collect()
}
