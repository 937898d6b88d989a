//! Venues whose frames can be read, and the one way in to them: from files, from frames that were recorded, from a live connection.

use crate::binance::CaptureFrames;
use crate::fields::BadLine;
use crate::frames::Frames;
use crate::frames::messages::Messages;
use crate::okx::Dialect;
use crate::source::Counters;
use crate::{bitfinex, bitmex, bitstamp, bybit, coinbase, deribit, huobi, kraken, okx};
use flate2::read::GzDecoder;
use std::borrow::Cow;
use std::fmt;
use std::io::Read;
use tapedb_schema::Timestamp;

/// Longest frame, in bytes, as text.
pub const MAX_FRAME_BYTES: usize = 4 << 20;

/// A venue whose frames can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Venue {
    /// Binance, spot.
    Binance,
    /// Binance, futures margined in USD.
    BinanceFutures,
    /// Bitfinex, version 2.
    Bitfinex,
    /// Bitget, version 1.
    Bitget,
    /// BitMEX.
    Bitmex,
    /// Bitstamp, version 2.
    Bitstamp,
    /// Bybit, version 5.
    Bybit,
    /// Coinbase Exchange.
    Coinbase,
    /// Deribit, version 2.
    Deribit,
    /// Huobi.
    Huobi,
    /// Kraken, version 1.
    Kraken,
    /// OKX, version 5.
    Okx,
}

impl Venue {
    /// All venues.
    pub const ALL: [Self; 12] = [
        Self::Binance,
        Self::BinanceFutures,
        Self::Bitfinex,
        Self::Bitget,
        Self::Bitmex,
        Self::Bitstamp,
        Self::Bybit,
        Self::Coinbase,
        Self::Deribit,
        Self::Huobi,
        Self::Kraken,
        Self::Okx,
    ];

    /// The name, as in names of captures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Binance => "BINANCE",
            Self::BinanceFutures => "BINANCE_FUTURES",
            Self::Bitfinex => "BITFINEX",
            Self::Bitget => "BITGET",
            Self::Bitmex => "BITMEX",
            Self::Bitstamp => "BITSTAMP",
            Self::Bybit => "BYBIT",
            Self::Coinbase => "COINBASE",
            Self::Deribit => "DERIBIT",
            Self::Huobi => "HUOBI",
            Self::Kraken => "KRAKEN",
            Self::Okx => "OKX",
        }
    }

    /// The exchange of its messages.
    pub fn exchange(self) -> &'static str {
        match self {
            Self::BinanceFutures => "BINUSDM",
            venue => venue.name(),
        }
    }

    /// The venue of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|venue| venue.name() == name)
    }

    /// The venue that an address is of.
    pub fn of_url(url: &str) -> Option<Self> {
        let rest = url.split_once("://")?.1;
        let host = rest.split(['/', '?', ':']).next()?;
        let of = |domain: &str| {
            host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
        };
        match host {
            "fstream.binance.com" | "fapi.binance.com" => return Some(Self::BinanceFutures),
            "stream.binance.com" | "api.binance.com" => return Some(Self::Binance),
            _ => {}
        }
        let domains = [
            ("bitfinex.com", Self::Bitfinex),
            ("bitget.com", Self::Bitget),
            ("bitmex.com", Self::Bitmex),
            ("bitstamp.net", Self::Bitstamp),
            ("bybit.com", Self::Bybit),
            ("coinbase.com", Self::Coinbase),
            ("deribit.com", Self::Deribit),
            ("huobi.pro", Self::Huobi),
            ("kraken.com", Self::Kraken),
            ("okx.com", Self::Okx),
        ];
        domains.into_iter().find(|(domain, _)| of(domain)).map(|(_, venue)| venue)
    }

    fn frames(self) -> Box<dyn Frames> {
        match self {
            Self::Binance | Self::BinanceFutures => Box::new(CaptureFrames::new(self.exchange())),
            Self::Bitfinex => Box::new(bitfinex::Parser::default()),
            Self::Bitget => Box::new(okx::Parser::new(Dialect::Bitget)),
            Self::Bitmex => Box::new(bitmex::Parser::default()),
            Self::Bitstamp => Box::new(bitstamp::Parser),
            Self::Bybit => Box::new(bybit::Parser::default()),
            Self::Coinbase => Box::new(coinbase::Parser::default()),
            Self::Deribit => Box::new(deribit::Parser::default()),
            Self::Huobi => Box::new(huobi::Parser),
            Self::Kraken => Box::new(kraken::Parser::default()),
            Self::Okx => Box::new(okx::Parser::new(Dialect::Okx)),
        }
    }
}

/// Why a frame was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameError {
    /// Byte of the frame, from 0, if known.
    pub column: Option<usize>,
    /// What was expected there.
    pub expected: String,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.column {
            Some(column) => write!(f, "expected {} at byte {column} of the frame", self.expected),
            None => write!(f, "expected {}", self.expected),
        }
    }
}

impl std::error::Error for FrameError {}

impl From<BadLine> for FrameError {
    fn from(bad: BadLine) -> Self {
        Self { column: bad.column, expected: bad.expected }
    }
}

/// Turns the frames of one connection into messages. A frame that is refused leaves no messages; the parser can go on with the next.
///
/// ```
/// use tapedb_venue::{FrameParser, Venue};
/// let mut parser = FrameParser::new(Venue::Kraken, false);
/// let received = tapedb_schema::Timestamp(1_618_678_133_000_000_000);
/// parser.frame(received, br#"[1,[["354.1","0.9","1618678142.557535","s","l",""]],"trade","XMR/USD"]"#)?;
/// let message = parser.take().expect("a trade");
/// assert_eq!((message.symbol.as_str(), message.record.type_name()), ("XMR/USD", "Package"));
/// # Ok::<(), tapedb_venue::FrameError>(())
/// ```
pub struct FrameParser {
    frames: Box<dyn Frames>,
    out: Messages,
    venue: Venue,
    connected: bool,
    /// The last time of receipt.
    last: Option<Timestamp>,
    symbols: std::collections::BTreeSet<String>,
}

/// Most symbols of which a lost connection becomes a gap.
const SYMBOLS_MAX: usize = 100_000;

impl FrameParser {
    /// Before the first frame. Numbers of more than 16 digits are rounded, which is counted, or refused.
    pub fn new(venue: Venue, round: bool) -> Self {
        let out = Messages::new(venue.exchange(), round);
        let symbols = std::collections::BTreeSet::new();
        Self { frames: venue.frames(), out, venue, connected: false, last: None, symbols }
    }

    /// A connection was opened: what was known of the one before is lost, and becomes a gap of each of its symbols.
    ///
    /// # Errors
    /// [`FrameError`] if a gap cannot be a message.
    pub fn opened(&mut self, received: Timestamp) -> Result<(), FrameError> {
        let again = std::mem::replace(&mut self.connected, true);
        self.out.begin(received, "");
        self.frames.opened(again, &mut self.out)?;
        if again {
            self.reconnected()?;
        }
        self.out.control("connection");
        Ok(())
    }

    fn reconnected(&mut self) -> Result<(), FrameError> {
        use tapedb_market::{Gap, GapCause};
        self.out.set_exchange(self.venue.exchange());
        let gap = Gap { cause: GapCause::Reconnect, from: self.last, verifiable: false, ..Gap::default() };
        for symbol in &self.symbols {
            self.out.gap(symbol, gap.clone())?;
        }
        Ok(())
    }

    /// A frame that was received; bytes that are gzip are unpacked first.
    ///
    /// # Errors
    /// [`FrameError`] if it is none of the venue's.
    pub fn frame(&mut self, received: Timestamp, bytes: &[u8]) -> Result<(), FrameError> {
        let text = text_of(bytes)?;
        self.connected = true;
        self.read(received, &text, |frames, out| frames.frame(&text, out))
    }

    /// The answer to an HTTP request.
    ///
    /// # Errors
    /// [`FrameError`] if it is none of the venue's.
    pub fn answer(&mut self, received: Timestamp, url: &str, body: &[u8]) -> Result<(), FrameError> {
        let text = text_of(body)?;
        self.read(received, &text, |frames, out| frames.answer(url, &text, out))
    }

    /// The next message of the last frame; they are taken before the next frame.
    pub fn take(&mut self) -> Option<crate::frames::messages::Message> {
        let message = self.out.take()?;
        if !self.symbols.contains(&message.symbol) && self.symbols.len() < SYMBOLS_MAX {
            self.symbols.insert(message.symbol.clone());
        }
        Some(message)
    }

    /// What was counted since it was last called, except rows.
    pub fn take_counters(&mut self) -> Counters {
        std::mem::take(self.out.counters())
    }

    /// Counts a line of a capture that is no frame.
    pub(crate) fn control(&mut self, kind: &str) {
        self.out.control(kind);
    }

    fn read(
        &mut self,
        received: Timestamp,
        text: &str,
        read: impl FnOnce(&mut dyn Frames, &mut Messages) -> Result<(), BadLine>,
    ) -> Result<(), FrameError> {
        self.out.begin(received, text);
        self.last = Some(received);
        read(&mut *self.frames, &mut self.out).map_err(|bad| {
            self.out.clear();
            bad.into()
        })
    }
}

/// The text of a frame, unpacked if it is gzip.
fn text_of(bytes: &[u8]) -> Result<Cow<'_, str>, FrameError> {
    let at = |column, expected: String| FrameError { column: Some(column), expected };
    let utf8 = |valid| at(valid, "a frame in UTF-8".into());
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        let text = std::str::from_utf8(bytes).map_err(|error| utf8(error.valid_up_to()))?;
        return Ok(Cow::Borrowed(text));
    }
    let mut unpacked = Vec::new();
    let mut reader = GzDecoder::new(bytes).take(MAX_FRAME_BYTES as u64 + 1);
    reader.read_to_end(&mut unpacked).map_err(|error| at(0, format!("a frame in gzip ({error})")))?;
    if unpacked.len() > MAX_FRAME_BYTES {
        return Err(at(0, format!("a frame of at most {MAX_FRAME_BYTES} bytes")));
    }
    String::from_utf8(unpacked).map(Cow::Owned).map_err(|error| utf8(error.utf8_error().valid_up_to()))
}
