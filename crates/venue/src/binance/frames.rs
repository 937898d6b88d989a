//! Frames of Binance: the fields that are imported.

use serde::Deserialize;
use serde::de::{self, Deserializer, IntoDeserializer, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use tapedb_schema::{Decimal64, TimeUnit, Timestamp};

#[derive(Deserialize)]
pub(super) struct Envelope<T> {
    pub(super) data: T,
}

#[derive(Deserialize)]
pub(super) struct Head<'a> {
    #[serde(borrow)]
    pub(super) stream: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
    #[serde(borrow, rename = "e")]
    pub(super) event: Option<Cow<'a, str>>,
    #[serde(rename = "lastUpdateId")]
    pub(super) last_update_id: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct Depth<'a> {
    #[serde(default, rename = "E")]
    pub(super) event_time: VenueTime,
    #[serde(default, rename = "T")]
    pub(super) match_time: VenueTime,
    #[serde(borrow, rename = "s")]
    pub(super) symbol: Cow<'a, str>,
    #[serde(rename = "U")]
    pub(super) first: u64,
    #[serde(rename = "u")]
    pub(super) last: u64,
    #[serde(rename = "pu")]
    pub(super) previous: Option<u64>,
    #[serde(rename = "b")]
    pub(super) bids: Vec<(Number, Number)>,
    #[serde(rename = "a")]
    pub(super) asks: Vec<(Number, Number)>,
}

/// A partial book, of spot or of futures.
#[derive(Deserialize)]
pub(super) struct Best<'a> {
    #[serde(default, rename = "E")]
    pub(super) event_time: VenueTime,
    #[serde(default, rename = "T")]
    pub(super) match_time: VenueTime,
    #[serde(borrow, rename = "s")]
    pub(super) symbol: Option<Cow<'a, str>>,
    #[serde(rename = "u", alias = "lastUpdateId")]
    pub(super) sequence: u64,
    #[serde(rename = "b", alias = "bids")]
    pub(super) bids: Vec<(Number, Number)>,
    #[serde(rename = "a", alias = "asks")]
    pub(super) asks: Vec<(Number, Number)>,
}

#[derive(Deserialize)]
pub(super) struct Ticker<'a> {
    #[serde(default, rename = "E")]
    pub(super) event_time: VenueTime,
    #[serde(default, rename = "T")]
    pub(super) match_time: VenueTime,
    #[serde(borrow, rename = "s")]
    pub(super) symbol: Cow<'a, str>,
    #[serde(rename = "u")]
    pub(super) sequence: u64,
    #[serde(rename = "b")]
    pub(super) bid: Number,
    #[serde(rename = "B")]
    pub(super) bid_size: Number,
    #[serde(rename = "a")]
    pub(super) ask: Number,
    #[serde(rename = "A")]
    pub(super) ask_size: Number,
}

#[derive(Deserialize)]
pub(super) struct TradeFrame<'a> {
    #[serde(default, rename = "E")]
    pub(super) event_time: VenueTime,
    #[serde(default, rename = "T")]
    pub(super) match_time: VenueTime,
    #[serde(borrow, rename = "s")]
    pub(super) symbol: Cow<'a, str>,
    #[serde(rename = "t")]
    pub(super) id: u64,
    #[serde(rename = "p")]
    pub(super) price: Number,
    #[serde(rename = "q")]
    pub(super) size: Number,
    #[serde(borrow, rename = "X")]
    pub(super) kind: Option<Cow<'a, str>>,
    #[serde(rename = "m")]
    pub(super) buyer_is_maker: bool,
}

#[derive(Deserialize)]
pub(super) struct MarkFrame<'a> {
    #[serde(default, rename = "E")]
    pub(super) event_time: VenueTime,
    #[serde(borrow, rename = "s")]
    pub(super) symbol: Cow<'a, str>,
    #[serde(rename = "p")]
    pub(super) mark: Number,
    #[serde(default, rename = "i")]
    pub(super) index: Option<MaybeNumber>,
    #[serde(default, rename = "P")]
    pub(super) settlement: Option<MaybeNumber>,
    #[serde(default, rename = "ap")]
    pub(super) average: Option<MaybeNumber>,
    #[serde(default, rename = "r")]
    pub(super) funding_rate: Option<MaybeNumber>,
    #[serde(default, rename = "T")]
    pub(super) next_funding: Option<FundingTime>,
}

#[derive(Deserialize)]
pub(super) struct Snapshot<'a> {
    #[serde(rename = "lastUpdateId")]
    pub(super) last_update_id: u64,
    #[serde(default, rename = "E")]
    pub(super) event_time: VenueTime,
    #[serde(default, rename = "T")]
    pub(super) match_time: VenueTime,
    #[serde(borrow)]
    pub(super) symbol: Option<Cow<'a, str>>,
    pub(super) bids: Vec<(Number, Number)>,
    pub(super) asks: Vec<(Number, Number)>,
}

/// Milliseconds or microseconds since the epoch, if the frame has them: by their size.
#[derive(Default, Clone, Copy)]
pub(super) struct VenueTime(Option<Timestamp>);

impl VenueTime {
    pub(super) fn time(self) -> Option<Timestamp> {
        self.0
    }

    /// `None`: it is no such time.
    pub(super) fn of(number: u64) -> Option<Self> {
        Self::of_number(i64::try_from(number).ok()?)
    }

    fn of_number(number: i64) -> Option<Self> {
        let unit = TimeUnit::of(number).filter(|unit| [TimeUnit::Millis, TimeUnit::Micros].contains(unit));
        unit.and_then(|unit| unit.timestamp(number)).map(|time| Self(Some(time)))
    }
}

impl<'de> Deserialize<'de> for VenueTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        let out_of_range = || de::Error::custom("a time in milliseconds or microseconds, not before 1973");
        Self::of_number(number).ok_or_else(out_of_range)
    }
}

/// As [`VenueTime`], and 0 where there is no funding.
#[derive(Clone, Copy)]
pub(super) struct FundingTime(VenueTime);

impl FundingTime {
    pub(super) fn time(self) -> Option<Timestamp> {
        self.0.time()
    }
}

impl<'de> Deserialize<'de> for FundingTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        let time: Result<VenueTime, D::Error> = VenueTime::deserialize(number.into_deserializer());
        if number == 0 { Ok(Self(VenueTime(None))) } else { time.map(Self) }
    }
}

/// A finite decimal in quotes, or none in quotes where the venue has no such number.
#[derive(Clone, Copy)]
pub(super) struct MaybeNumber(pub(super) Option<Decimal64>);

impl<'de> Deserialize<'de> for MaybeNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: Cow<'de, str> = Cow::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(Self(None));
        }
        let number: Result<Number, D::Error> = Number::deserialize(text.as_ref().into_deserializer());
        number.map(|number| Self(Some(number.0)))
    }
}

/// A finite decimal in quotes.
#[derive(Clone, Copy)]
pub(super) struct Number(pub(super) Decimal64);

impl Number {
    pub(super) fn is_zero(self) -> bool {
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
