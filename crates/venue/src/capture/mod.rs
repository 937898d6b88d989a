//! `capture`: what was received from venues, line by line, as cryptofeed records it.
//!
//! | line | |
//! |---|---|
//! | `<url> <-> <time>` | a connection was opened |
//! | `<url> <- <time>: <text>` | a frame was sent: counted |
//! | `<time>: <frame>` | a frame was received: JSON, or bytes of gzip written as a literal of Python, `b'\x1f…'` |
//! | `<url> -> <time>: <body>` | the answer to an HTTP request |
//! | `configuration: …` | counted |
//!
//! The venue is the one in the file's name, `KRAKEN.ws.50.0.gz`, else that of the first address. Times of receipt are seconds with a fraction; their unit is by
//! their size, as in `binance-raw-ws`.

mod literal;
#[cfg(test)]
mod tests;

use crate::fields::BadLine;
use crate::frame_parser::{FrameError, FrameParser};
use crate::options::ImportOptions;
use crate::record::AnyRecord;
use crate::source::{Counters, LineParser, Parsed};
use crate::venues::Venue;
use std::path::Path;
use tapedb_schema::{TimeUnit, Timestamp};

pub(super) const LOOKED_FOR: &str = "files `<VENUE>.<kind>.<number>.gz` or `.txt` of lines `<time>: <frame>`";

/// The content of a file's name, and how to read it.
#[derive(Debug, Clone)]
pub(super) struct Capture {
    venue: Option<Venue>,
    unit: Option<TimeUnit>,
    round: bool,
}

impl Capture {
    pub(super) fn of_path(path: &Path, options: &ImportOptions) -> Self {
        Self { venue: venue_of(path), unit: options.receive_time_unit, round: options.round_numbers }
    }

    /// Whether a file found in a folder is a capture: its name begins with a venue's.
    pub(super) fn is_named_so(path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        venue_of(path).is_some() && (name.ends_with(".gz") || name.ends_with(".txt"))
    }

    /// Whether a file begins as captures do: with an address of a venue and what was done with it.
    pub(super) fn begins_so(head: &[u8]) -> bool {
        let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let mut words = line.splitn(3, |&byte| byte == b' ');
        let url = words.next().and_then(|url| std::str::from_utf8(url).ok());
        url.and_then(Venue::of_url).is_some() && matches!(words.next(), Some(b"<->" | b"->" | b"<-"))
    }

    pub(super) fn parser(&self) -> Parser {
        let frames = self.venue.map(|venue| FrameParser::new(venue, self.round));
        Parser { capture: self.clone(), guessed: None, frames, symbol: String::new() }
    }
}

fn venue_of(path: &Path) -> Option<Venue> {
    let name = path.file_name().and_then(|name| name.to_str())?;
    name.split_once('.').and_then(|(venue, _)| Venue::of_name(venue))
}

pub(super) struct Parser {
    capture: Capture,
    /// The unit of times of receipt, by the first one's size.
    guessed: Option<TimeUnit>,
    /// From the first line on that names the venue, if the file's name does not.
    frames: Option<FrameParser>,
    symbol: String,
}

/// What a line is, and where its text begins.
enum Kind<'a> {
    Opened(&'a str),
    Sent(&'a str),
    Received,
    Answer(&'a str),
}

impl LineParser for Parser {
    fn symbol(&self) -> &str {
        &self.symbol
    }

    fn parse(&mut self, line: &[u8], _: &mut AnyRecord) -> Result<Parsed, BadLine> {
        if line.is_empty() {
            return Ok(Parsed::Queued);
        }
        if line.starts_with(b"configuration: ") {
            return match &mut self.frames {
                Some(frames) => {
                    frames.control("configuration");
                    Ok(Parsed::Queued)
                }
                None => Ok(Parsed::Unknown("configuration".into())),
            };
        }
        let (kind, time_at) = kind_of(line)?;
        let end = line[time_at..].iter().position(|&byte| byte == b':').map(|length| time_at + length);
        let time = std::str::from_utf8(&line[time_at..end.unwrap_or(line.len())]).unwrap_or_default();
        let time = self.receive_time(time).ok_or_else(|| self.bad_time(time_at))?;
        let frames = match (&mut self.frames, &kind) {
            (Some(frames), _) => frames,
            (place, Kind::Opened(url) | Kind::Sent(url) | Kind::Answer(url)) => {
                let venue = Venue::of_url(url);
                let venue = venue
                    .ok_or_else(|| BadLine::new(0, "the address of a venue whose frames can be read"))?;
                place.insert(FrameParser::new(venue, self.capture.round))
            }
            (None, Kind::Received) => {
                return Err(BadLine::new(0, "a line with the venue's address before the first frame"));
            }
        };
        if let Kind::Opened(url) = kind {
            // The name of a file may be that of the venue alone.
            Venue::of_url(url).into_iter().for_each(|venue| frames.set_market(venue));
            return frames.opened(time).map(|()| Parsed::Queued).map_err(|error| moved(error, 0));
        }
        let colon = end.ok_or_else(|| BadLine::new(line.len(), "a colon and a frame"))?;
        let at = line.len().min(colon + 1 + usize::from(line.get(colon + 1) == Some(&b' ')));
        let text = &line[at..];
        match kind {
            Kind::Opened(_) | Kind::Sent(_) => {
                frames.control("sent");
                Ok(())
            }
            Kind::Answer(url) => frames.answer(time, url, text),
            Kind::Received => match literal::unescape(text)
                .map_err(|column| BadLine::new(at + column, "bytes as a literal of Python"))?
            {
                Some(bytes) => {
                    frames.frame(time, &bytes).map_err(|error| FrameError { column: Some(0), ..error })
                }
                None => frames.frame(time, text),
            },
        }
        .map(|()| Parsed::Queued)
        .map_err(|error| moved(error, at))
    }

    fn queued(&mut self, out: &mut AnyRecord) -> Option<Timestamp> {
        let message = self.frames.as_mut()?.take()?;
        self.symbol = message.symbol;
        *out = message.record;
        Some(message.time)
    }

    fn refused(&mut self, bad: &BadLine) {
        if let Some(frames) = &mut self.frames {
            frames.refused(&bad.expected);
        }
    }

    fn count(&mut self, counters: &mut Counters) {
        if let Some(frames) = &mut self.frames {
            counters.add(&frames.take_counters());
        }
    }

    fn guessed_unit(&self) -> Option<TimeUnit> {
        self.guessed.filter(|unit| *unit != TimeUnit::Seconds)
    }
}

impl Parser {
    /// `None` if it is none, or not in the unit of the lines before.
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
    fn bad_time(&self, column: usize) -> BadLine {
        let unit = match (self.capture.unit, self.guessed) {
            (Some(unit), _) => format!("in {}", unit.name()),
            (None, Some(unit)) => format!("in {}, as in the lines before,", unit.name()),
            (None, None) => {
                "whose size tells the unit (from March 1973 to April 2262; s, ms, us or ns can be stated)"
                    .to_string()
            }
        };
        BadLine::new(column, format!("a time of receipt {unit} since 1970, not finer than a nanosecond"))
    }
}

fn moved(error: FrameError, at: usize) -> BadLine {
    BadLine { column: error.column.map(|column| at + column), expected: error.expected }
}

/// The kind of a line and where its time begins.
fn kind_of(line: &[u8]) -> Result<(Kind<'_>, usize), BadLine> {
    if !line.starts_with(b"http") && !line.starts_with(b"ws") {
        return Ok((Kind::Received, 0));
    }
    let mut spaces = line.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at);
    let (Some(url_end), Some(mark_end)) = (spaces.next(), spaces.next()) else {
        return Err(BadLine::new(line.len(), "`<->`, `<-` or `->` and a time after the address"));
    };
    let url = std::str::from_utf8(&line[..url_end]);
    let url = url.map_err(|error| BadLine::new(error.valid_up_to(), "an address in UTF-8"))?;
    let kind = match &line[url_end + 1..mark_end] {
        b"<->" => Kind::Opened(url),
        b"<-" => Kind::Sent(url),
        b"->" => Kind::Answer(url),
        _ => return Err(BadLine::new(url_end + 1, "`<->`, `<-` or `->` after the address")),
    };
    Ok((kind, mark_end + 1))
}
