//! The messages of frames, and what is counted beside them.

use super::scalar::{Scalar, decimal};
use super::times;
use crate::fields::BadLine;
use crate::record::AnyRecord;
use crate::source::{Counters, fits_a_message, is_symbol};
use serde::Deserialize;
use std::collections::VecDeque;
use tapedb_codec::batch::MAX_MESSAGE_BYTES;
use tapedb_market::{
    Aggressor, Attribute, BookAction, Entry, Gap, IntervalBar, Level1, Level2Snapshot, Level2Update, Notice,
    NoticeKind, Package, PackageKind, Side,
};
use tapedb_schema::{Ascii, Decimal64, DecimalError, TimeUnit, Timestamp};

/// Levels of one side of a snapshot: their place is a `u16`.
const LEVELS_MAX: usize = 1 << 16;
/// Longest number: books keep those of their levels.
const NUMBER_BYTES_MAX: usize = 256;

/// A message with its header.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// When it was received.
    pub time: Timestamp,
    /// The symbol, in upper case.
    pub symbol: String,
    /// The record.
    pub record: AnyRecord,
}

/// The messages of a frame and what is counted; a frame's messages are taken out before the next frame.
pub struct Messages {
    rows: VecDeque<Message>,
    /// What was counted since [`Self::take_counters`].
    counters: Counters,
    /// Time of receipt of the frame.
    received: Timestamp,
    /// Address of the frame's first byte, and its length: where something stands in it.
    frame: (usize, usize),
    exchange: Option<Ascii<8>>,
    round: bool,
}

impl Messages {
    /// None, of a venue. Numbers of more than 16 digits are rounded, and counted, or refused.
    pub(crate) fn new(exchange: &str, round: bool) -> Self {
        let exchange = Ascii::new(exchange).ok();
        let (rows, counters) = (VecDeque::new(), Counters::default());
        Self { rows, counters, received: Timestamp(0), frame: (0, 0), exchange, round }
    }

    /// The next message of the last frame.
    pub fn take(&mut self) -> Option<Message> {
        self.rows.pop_front()
    }

    /// Drops what a refused frame has left, but its gaps: the check that found one goes on behind it.
    pub(crate) fn clear(&mut self) {
        self.rows.retain(|message| matches!(message.record, AnyRecord::Gap(_)));
    }

    pub(crate) fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Begins a frame.
    pub(crate) fn begin(&mut self, received: Timestamp, frame: &str) {
        (self.received, self.frame) = (received, (frame.as_ptr() as usize, frame.len()));
    }

    /// Whether there is no message.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether numbers of more than 16 digits are rounded.
    pub(crate) fn rounds(&self) -> bool {
        self.round
    }

    pub(crate) fn received(&self) -> Timestamp {
        self.received
    }

    pub(crate) fn exchange(&self) -> Option<Ascii<8>> {
        self.exchange
    }

    /// The name of the venue's market, where the venue has several.
    pub(crate) fn set_exchange(&mut self, exchange: &str) {
        self.exchange = Ascii::new(exchange).ok();
    }

    /// An error at a part of the frame.
    #[cold]
    pub(crate) fn bad(&self, part: &str, expected: impl Into<String>) -> BadLine {
        match (part.as_ptr() as usize).checked_sub(self.frame.0).filter(|column| *column <= self.frame.1) {
            Some(column) => BadLine::new(column, expected),
            None => BadLine::anywhere(expected.into()),
        }
    }

    /// Reads a part of the frame.
    pub(crate) fn json<'a, T: Deserialize<'a>>(&self, part: &'a str) -> Result<T, BadLine> {
        serde_json::from_str(part).map_err(|error| {
            let column = error.column().saturating_sub(1).min(part.len());
            let part = part.get(column..).unwrap_or(part);
            self.bad(part, format!("a frame of its kind ({error})"))
        })
    }

    pub(crate) fn decimal(&mut self, number: Scalar<'_>) -> Result<Decimal64, BadLine> {
        if number.0.len() > NUMBER_BYTES_MAX {
            return Err(self.bad(number.0, format!("a number of at most {NUMBER_BYTES_MAX} bytes")));
        }
        match decimal(number.0, self.round) {
            Ok((decimal, rounded)) => {
                self.counters.rounded_numbers += u64::from(rounded);
                Ok(decimal)
            }
            Err(error) => Err(self.bad(number.0, format!("a decimal of at most 16 digits ({error})"))),
        }
    }

    /// `None` for an empty one.
    pub(crate) fn maybe_decimal(&mut self, number: Scalar<'_>) -> Result<Option<Decimal64>, BadLine> {
        number.some().map(|text| self.decimal(Scalar(text))).transpose()
    }

    /// A figure of a ticker; one that is empty is null, and one of more than 16 digits is an attribute, with all of them.
    pub(crate) fn figure(
        &mut self,
        name: &str,
        number: Scalar<'_>,
        attributes: &mut Vec<Attribute>,
    ) -> Result<Option<Decimal64>, BadLine> {
        if let Err(DecimalError::Digits { .. }) = decimal(number.0, false) {
            attributes.push(Attribute { name: name.into(), value: number.0.into() });
            return Ok(None);
        }
        self.maybe_decimal(number)
    }

    pub(crate) fn whole(&self, number: Scalar<'_>, name: &str) -> Result<u64, BadLine> {
        number.u64().ok_or_else(|| self.bad(number.0, format!("{name} as a whole number")))
    }

    /// Milliseconds or microseconds since 1970, by their size.
    pub(crate) fn time(&self, text: Scalar<'_>) -> Result<Timestamp, BadLine> {
        times::whole(text.0, &[TimeUnit::Millis, TimeUnit::Micros])
            .ok_or_else(|| self.bad(text.0, "a time in milliseconds or microseconds, not before 1973"))
    }

    /// Milliseconds, with or without a fraction, microseconds or nanoseconds since 1970, by their size.
    pub(crate) fn instant(&self, text: Scalar<'_>) -> Result<Timestamp, BadLine> {
        times::instant(text.0).ok_or_else(|| {
            self.bad(text.0, "a time in ms, us or ns, not before 1973 and not finer than a nanosecond")
        })
    }

    pub(crate) fn seconds(&self, text: Scalar<'_>) -> Result<Timestamp, BadLine> {
        let expected = "a time in seconds, not before 1973, of at most 9 decimals";
        times::seconds(text.0).ok_or_else(|| self.bad(text.0, expected))
    }

    pub(crate) fn iso(&self, text: Scalar<'_>) -> Result<Timestamp, BadLine> {
        let expected = "a time as 2021-04-17T16:43:30.244075Z, of at most 9 decimals";
        times::iso(text.0).ok_or_else(|| self.bad(text.0, expected))
    }

    /// The side of a taker, or of a resting order, in one of a venue's two words.
    pub(crate) fn side(&self, text: Scalar<'_>, [buy, sell]: [&str; 2]) -> Result<Side, BadLine> {
        match text.0 {
            word if word == buy => Ok(Side::Bid),
            word if word == sell => Ok(Side::Ask),
            _ => Err(self.bad(text.0, format!("side as {buy} or {sell}"))),
        }
    }

    /// The side of a taker, in one of a venue's two words.
    pub(crate) fn aggressor(&self, text: Scalar<'_>, words: [&str; 2]) -> Result<Aggressor, BadLine> {
        Ok(match self.side(text, words)? {
            Side::Bid => Aggressor::Buy,
            Side::Ask => Aggressor::Sell,
        })
    }

    /// A bar with nothing but its venue and its prices: open, high, low and close.
    pub(crate) fn bar(&mut self, [open, high, low, close]: [Scalar<'_>; 4]) -> Result<IntervalBar, BadLine> {
        Ok(IntervalBar {
            open: Some(self.decimal(open)?),
            high: Some(self.decimal(high)?),
            low: Some(self.decimal(low)?),
            close: Some(self.decimal(close)?),
            exchange: self.exchange,
            ..IntervalBar::default()
        })
    }

    /// Adds a message at the time of receipt.
    pub(crate) fn push(&mut self, symbol: &str, record: impl Into<AnyRecord>) -> Result<(), BadLine> {
        let (time, record, symbol) = (self.received, record.into(), symbol.to_uppercase());
        if !is_symbol(&symbol) {
            return Err(BadLine::anywhere("a symbol of 1 to 255 bytes".into()));
        }
        if !fits_a_message(&record) {
            return Err(BadLine::anywhere(format!("a message of at most {MAX_MESSAGE_BYTES} bytes")));
        }
        self.rows.push_back(Message { time, symbol, record });
        Ok(())
    }

    /// Adds a gap, beside the frame's own messages.
    pub(crate) fn gap(&mut self, symbol: &str, gap: Gap) -> Result<(), BadLine> {
        self.counters.gaps += 1;
        self.push(symbol, Gap { exchange: self.exchange, ..gap })
    }

    /// Adds what the venue reports about itself, under its name.
    pub(crate) fn notice(&mut self, kind: NoticeKind, text: &str) -> Result<(), BadLine> {
        let venue = self.exchange.map_or_else(|| "VENUE".to_string(), |exchange| exchange.to_string());
        self.push(&venue, Notice { kind, text: text.into(), ..Notice::default() })
    }

    /// Counts a frame that is no data, such as a heartbeat.
    pub(crate) fn control(&mut self, kind: &str) {
        self.counters.add_control(kind.chars().take(32).collect(), 1);
    }

    /// Counts a frame that is not imported.
    pub(crate) fn unknown(&mut self, kind: &str) {
        self.counters.add_unknown(kind.chars().take(64).collect(), 1);
    }

    /// Counts a change whose sequence number or checksum shows that nothing is missing before it, or does not.
    pub(crate) fn checked(&mut self, good: bool) {
        match good {
            true => self.counters.checks_passed += 1,
            false => self.counters.checks_failed += 1,
        }
    }

    /// Counts a change that nothing in it or before it can prove to be complete.
    pub(crate) fn unverifiable(&mut self) {
        self.counters.unverifiable += 1;
    }

    /// A change of a level; a size of 0 is a delete.
    pub(crate) fn update(
        &mut self,
        side: Side,
        price: Scalar<'_>,
        size: Scalar<'_>,
        orders: Option<u32>,
    ) -> Result<Entry, BadLine> {
        let (price, size, exchange) = (self.decimal(price)?, self.decimal(size)?, self.exchange);
        let entry = Level2Update { side, price, exchange, ..Level2Update::default() };
        Ok(Entry::Level2Update(match is_zero(size) {
            true => Level2Update { action: BookAction::Delete, ..entry },
            false => Level2Update { size: Some(size), orders, ..entry },
        }))
    }

    /// Deletes of levels of which nothing comes any more.
    pub(crate) fn dropped(&self, levels: Vec<(Side, Decimal64)>) -> impl Iterator<Item = Entry> + use<> {
        let exchange = self.exchange;
        levels.into_iter().map(move |(side, price)| {
            let action = BookAction::Delete;
            Entry::Level2Update(Level2Update { action, side, price, exchange, ..Level2Update::default() })
        })
    }

    /// The level at a place of a snapshot's side.
    pub(crate) fn level(
        &mut self,
        side: Side,
        place: usize,
        (price, size): (Scalar<'_>, Scalar<'_>),
        orders: Option<u32>,
    ) -> Result<Entry, BadLine> {
        if place >= LEVELS_MAX {
            return Err(self.bad(price.0, "a snapshot of at most 65,536 levels a side"));
        }
        let (price, size, exchange) = (self.decimal(price)?, self.decimal(size)?, self.exchange);
        Ok(Entry::Level2Snapshot(Level2Snapshot { side, level: place as u16, price, size, orders, exchange }))
    }

    /// A package of both sides' levels.
    pub(crate) fn levels(
        &mut self,
        snapshot: bool,
        sides: [(Side, &[(Scalar<'_>, Scalar<'_>)]); 2],
    ) -> Result<Package, BadLine> {
        let kind = if snapshot { PackageKind::Snapshot } else { PackageKind::Update };
        let count = sides.iter().map(|(_, levels)| levels.len()).sum();
        let mut package = Package { kind, entries: Vec::with_capacity(count), ..Package::default() };
        for (side, levels) in sides {
            for (place, &(price, size)) in levels.iter().enumerate() {
                package.entries.push(match snapshot {
                    true => self.level(side, place, (price, size), None)?,
                    false => self.update(side, price, size, None)?,
                });
            }
        }
        Ok(package)
    }

    /// The best price of a side; a price that is missing or 0 means that the side is empty.
    pub(crate) fn best(&mut self, side: Side, price: Scalar<'_>, size: Scalar<'_>) -> Result<Entry, BadLine> {
        let price = self.maybe_decimal(price)?.filter(|price| !is_zero(*price));
        let size = self.maybe_decimal(size)?.filter(|_| price.is_some());
        Ok(Entry::Level1(Level1 { side, price, size, exchange: self.exchange, ..Level1::default() }))
    }
}

pub(crate) fn is_zero(number: Decimal64) -> bool {
    matches!(number.parts(), Some((0, _)))
}
