//! The one way in to the frames of venues: from files, from frames that were recorded, from a live connection.
//!
//! Always true: after a frame that was refused or a connection that was lost, every symbol that had messages has a gap before its next one.

use crate::fields::BadLine;
use crate::frames::Frames;
use crate::frames::by_symbol::SYMBOLS_MAX;
use crate::frames::messages::{Message, Messages};
use crate::record::AnyRecord;
use crate::source::Counters;
use crate::venues::Venue;
use flate2::read::GzDecoder;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use tapedb_market::{Gap, GapCause};
use tapedb_schema::Timestamp;

/// Longest frame, in bytes, as text.
pub const MAX_FRAME_BYTES: usize = 4 << 20;
/// Longest reason for a gap, in characters.
const DETAIL_CHARS_MAX: usize = 200;

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

/// Turns the frames of one connection into messages. The parser can go on after a frame that is refused: its messages are gaps, one of each
/// symbol, because nothing shows what it has changed.
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
    /// Those with messages since the last gap of all.
    symbols: BTreeSet<String>,
}

impl FrameParser {
    /// Before the first frame. Numbers of more than 16 digits are rounded, which is counted, or refused.
    pub fn new(venue: Venue, round: bool) -> Self {
        let out = Messages::new(venue.exchange(), round);
        Self { frames: venue.frames(), out, venue, connected: false, last: None, symbols: BTreeSet::new() }
    }

    /// The venue's market, where the address of the connection names it and what was known before did not.
    pub(crate) fn set_market(&mut self, venue: Venue) {
        if venue.is_market_of(self.venue) {
            self.venue = venue;
            self.out.set_exchange(venue.exchange());
        }
    }

    /// A connection was opened: what was known of the one before is lost, and becomes a gap of each of its symbols.
    ///
    /// # Errors
    /// [`FrameError`] if the venue's own gaps cannot be messages.
    pub fn opened(&mut self, received: Timestamp) -> Result<(), FrameError> {
        let again = std::mem::replace(&mut self.connected, true);
        self.out.begin(received, "");
        self.frames.opened(again, &mut self.out)?;
        if again {
            self.lost(GapCause::Reconnect, None);
        }
        self.out.control("connection");
        Ok(())
    }

    /// Something that was received could not be read, for which the caller has the reason: a gap of each symbol.
    pub(crate) fn refused(&mut self, reason: &str) {
        let detail: String = reason.chars().take(DETAIL_CHARS_MAX).collect();
        self.lost(GapCause::Dropped, Some(format!("a frame was refused: expected {detail}")));
    }

    /// A gap of each symbol that had messages since the last one: any number of losses has at most as many gaps as there were messages.
    fn lost(&mut self, cause: GapCause, detail: Option<String>) {
        self.out.set_exchange(self.venue.exchange());
        let gap = Gap { cause, from: self.last, verifiable: false, detail, ..Gap::default() };
        for symbol in std::mem::take(&mut self.symbols) {
            // It was the symbol of a message.
            let pushed = self.out.gap(&symbol, gap.clone());
            debug_assert!(pushed.is_ok(), "{symbol}: {pushed:?}");
        }
    }

    /// A frame that was received; bytes that are gzip are unpacked first.
    ///
    /// # Errors
    /// [`FrameError`] if it is none of the venue's.
    pub fn frame(&mut self, received: Timestamp, bytes: &[u8]) -> Result<(), FrameError> {
        self.connected = true;
        self.read(received, bytes, |frames, text, out| frames.frame(text, out))
    }

    /// The answer to an HTTP request.
    ///
    /// # Errors
    /// [`FrameError`] if it is none of the venue's.
    pub fn answer(&mut self, received: Timestamp, url: &str, body: &[u8]) -> Result<(), FrameError> {
        self.read(received, body, |frames, text, out| frames.answer(url, text, out))
    }

    /// The next message of the last frame; they are taken before the next frame.
    pub fn take(&mut self) -> Option<Message> {
        let message = self.out.take()?;
        let is_state = !matches!(message.record, AnyRecord::Gap(_) | AnyRecord::Notice(_));
        if is_state && !self.symbols.contains(&message.symbol) && self.symbols.len() < SYMBOLS_MAX {
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
        bytes: &[u8],
        read: impl FnOnce(&mut dyn Frames, &str, &mut Messages) -> Result<(), BadLine>,
    ) -> Result<(), FrameError> {
        self.out.begin(received, "");
        let result = text_of(bytes).and_then(|text| {
            self.out.begin(received, &text);
            read(&mut *self.frames, &text, &mut self.out).map_err(FrameError::from)
        });
        if let Err(error) = &result {
            self.out.clear();
            self.refused(&error.expected);
        }
        self.last = Some(received);
        result
    }
}

/// The text of a frame, unpacked if it is gzip.
fn text_of(bytes: &[u8]) -> Result<Cow<'_, str>, FrameError> {
    let at = |column, expected: String| FrameError { column: Some(column), expected };
    let utf8 = |valid| at(valid, "a frame in UTF-8".into());
    let too_long = || at(0, format!("a frame of at most {MAX_FRAME_BYTES} bytes"));
    if bytes.len() > MAX_FRAME_BYTES {
        return Err(too_long());
    }
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        let text = std::str::from_utf8(bytes).map_err(|error| utf8(error.valid_up_to()))?;
        return Ok(Cow::Borrowed(text));
    }
    let mut unpacked = Vec::new();
    let mut reader = GzDecoder::new(bytes).take(MAX_FRAME_BYTES as u64 + 1);
    reader.read_to_end(&mut unpacked).map_err(|error| at(0, format!("a frame in gzip ({error})")))?;
    if unpacked.len() > MAX_FRAME_BYTES {
        return Err(too_long());
    }
    String::from_utf8(unpacked).map(Cow::Owned).map_err(|error| utf8(error.utf8_error().valid_up_to()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPDATE: &[u8] =
        br#"{"type":"l2update","product_id":"A","changes":[["buy","1","2"]],"time":"2021-04-17T16:43:37Z"}"#;

    fn messages(parser: &mut FrameParser) -> Vec<String> {
        let text = |message: Message| match message.record {
            AnyRecord::Gap(gap) => {
                format!("{} {:?} {}", message.symbol, gap.cause, gap.detail.unwrap_or_default())
            }
            record => format!("{} {}", message.symbol, record.type_name()),
        };
        std::iter::from_fn(|| parser.take()).map(text).collect()
    }

    #[test]
    fn a_frame_that_is_refused_is_a_gap_of_each_symbol_once() {
        let mut parser = FrameParser::new(Venue::Coinbase, false);
        let second = |second: i64| Timestamp(1_618_677_817_000_000_000 + second * 1_000_000_000);
        let b = String::from_utf8(UPDATE.to_vec()).unwrap().replace(r#""A""#, r#""B""#);
        for frame in [UPDATE, b.as_bytes()] {
            parser.frame(second(0), frame).unwrap();
            assert_eq!(messages(&mut parser).len(), 1);
        }
        let long = b.replace(r#""1""#, &format!("\"1.{}\"", "1".repeat(64)));
        assert!(parser.frame(second(1), long.as_bytes()).unwrap_err().expected.contains("16 digits"));
        let gaps = messages(&mut parser);
        assert_eq!(gaps.len(), 2);
        assert!(
            gaps[0].starts_with("A Dropped a frame was refused: expected a decimal of at most 16 digits"),
            "{gaps:?}"
        );
        // Until there is something to lose again.
        assert!(parser.frame(second(2), b"\xff").is_err() && messages(&mut parser).is_empty());
        parser.frame(second(3), UPDATE).unwrap();
        assert_eq!(messages(&mut parser), ["A Package"]);
        assert!(parser.frame(second(4), b"\xff").is_err());
        let gaps = messages(&mut parser);
        assert!(gaps.len() == 1 && gaps[0].contains("UTF-8"), "{gaps:?}");
        assert_eq!(parser.take_counters().gaps, 3);
    }
}
