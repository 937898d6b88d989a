//! `itch`: NASDAQ TotalView-ITCH 5.0, and the same of BX and PSX.
//!
//! Files of messages behind their lengths of two bytes, as NASDAQ publishes them (`01302019.NASDAQ_ITCH50.gz`), plain or gzipped, whose
//! name has the date; or captures of the feed, MoldUDP64 in pcap or pcapng, whose packets have it. Times are nanoseconds since midnight on
//! New York's wall clock. What maps to what is in `docs/IMPORT.md`.
//!
//! In a file the time of a message is the venue's; in a capture it is when the packet was captured, and `match_time` is the venue's.

mod bytes;
mod file;
mod messages;
mod mold;
#[cfg(test)]
#[path = "tests.rs"]
mod round_trips;

use crate::clock::{self, DayClock};
use crate::error::ImportError;
use crate::options::OnBadLine;
use crate::pcap::{FeedSource, has_feed, is_capture_named, open_file};
use crate::source::Source;
use bytes::trimmed;
use file::Messages;
use jiff::civil;
use mold::Mold;
use std::path::Path;
use tapedb_schema::Timestamp;

pub(super) const LOOKED_FOR: &str = "files with a date in their names, such as `01302019.NASDAQ_ITCH50` or `S013019-v50.txt`, plain or `.gz`, or captures \
     of MoldUDP64, `*.pcap`, `*.pcapng`, plain or `.gz`";

/// A file of this format.
#[derive(Debug, Clone)]
pub(super) struct ItchFile {
    /// The day of the file; `None`: it is a capture, whose packets have it.
    clock: Option<DayClock>,
    venue: &'static str,
}

impl ItchFile {
    /// `None`: neither the name nor the first bytes are of this format.
    pub(super) fn of_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_uppercase();
        let venue = match () {
            () if name.contains("PSX") => "PSX",
            () if name.contains("BX_") => "BX",
            () => "NASDAQ",
        };
        let (opened, is_capture) = open_file(path).ok()?;
        if is_capture {
            return has_feed(&mut Mold::new(venue), opened).then_some(Self { clock: None, venue });
        }
        let clock = DayClock::new_york(date_of(&name)?)?;
        Some(Self { clock: Some(clock), venue })
    }

    /// No row is before this.
    pub(super) fn start(&self) -> Timestamp {
        self.clock.as_ref().map_or(Timestamp::MIN, DayClock::start)
    }

    /// Opens it at its first message.
    pub(super) fn open(
        &self,
        path: &Path,
        bytes: u64,
        on_bad_line: OnBadLine,
    ) -> Result<Box<dyn Source>, ImportError> {
        let (opened, _) = open_file(path)?;
        let path = path.to_path_buf();
        Ok(match &self.clock {
            Some(clock) => {
                Box::new(Messages::new(opened, clock.clone(), self.venue, path, bytes, on_bad_line))
            }
            None => Box::new(FeedSource::open(Mold::new(self.venue), opened, path, bytes, on_bad_line)?),
        })
    }
}

/// Whether a file's name says that it is of this format; captures do not say of which feed they are.
pub(super) fn is_named_so(name: &str) -> bool {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    !is_capture_named(Path::new(name))
        && (name.contains("itch") || name.ends_with("-v50.txt"))
        && date_of(&name.to_ascii_uppercase()).is_some()
}

/// Whether a file is a capture of this feed.
pub(super) fn is_captured(path: &Path) -> bool {
    ItchFile::of_path(path).is_some_and(|file| file.clock.is_none())
}

/// The date in a name: of eight digits, the month or the year first, or of six, the month first, in this century.
fn date_of(name: &str) -> Option<civil::Date> {
    let digits = name.split(|letter: char| !letter.is_ascii_digit());
    digits.into_iter().find_map(|digits| match digits.len() {
        8 => clock::date(digits.as_bytes()).filter(|date| date.year() >= 1990).or_else(|| {
            let (day, year) = digits.split_at(4);
            clock::date([year, day].concat().as_bytes())
        }),
        6 => {
            let (day, year) = digits.split_at(4);
            clock::date(["20", year, day].concat().as_bytes())
        }
        _ => None,
    })
}

/// The names of instruments by their numbers, which hold for a day.
///
/// Always true: a number that was noted has a name, as rows have it: the same text is not made and proven again for each row.
struct Names {
    names: Vec<Name>,
    venue: &'static str,
}

#[derive(Default, Clone)]
struct Name {
    /// As messages have it.
    raw: [u8; 8],
    text: String,
}

impl Names {
    fn new(venue: &'static str) -> Self {
        Self { names: Vec::new(), venue }
    }

    /// Notes the name if the message has one.
    #[inline]
    fn note(&mut self, message: &[u8]) -> u16 {
        let (number, name) = messages::instrument(message);
        let is_known = |known: &Name| !known.text.is_empty() && name.is_none_or(|name| *name == known.raw);
        if !self.names.get(usize::from(number)).is_some_and(is_known) {
            self.add(number, name);
        }
        number
    }

    /// A name: the number behind `#` if it was not named yet, the venue for number zero.
    #[cold]
    fn add(&mut self, number: u16, name: Option<&[u8; 8]>) {
        let index = usize::from(number);
        if index >= self.names.len() {
            self.names.resize(index + 1, Name::default());
        }
        let known = &mut self.names[index];
        known.raw = name.copied().unwrap_or(known.raw);
        known.text = match std::str::from_utf8(trimmed(&known.raw)) {
            Ok(name) if !name.is_empty() && !name.starts_with('\0') => name.to_string(),
            _ if number == 0 => self.venue.to_string(),
            _ => format!("#{number}"),
        };
    }

    /// The name of an instrument that was noted.
    #[inline]
    fn name(&self, number: u16) -> &str {
        self.names.get(usize::from(number)).map_or(self.venue, |name| &name.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_nasdaq_writes_them() {
        for name in ["01302019.NASDAQ_ITCH50.GZ", "20190130.BX_ITCH_50.GZ", "S013019-V50.TXT"] {
            assert_eq!(date_of(name).map(|date| date.to_string()).as_deref(), Some("2019-01-30"), "{name}");
        }
        assert_eq!(date_of("12102012.NASDAQ_ITCH50").unwrap().to_string(), "2012-12-10");
        assert_eq!(date_of("ITCH50"), None);
        assert!(is_named_so("01302019.nasdaq_itch50.gz"));
        assert!(!is_named_so("itch-01302019.pcap.gz") && !is_named_so("itch.txt"));
    }

    #[test]
    fn numbers_without_a_name_are_shown() {
        let mut names = Names::new("NASDAQ");
        // Messages of a type without a name, and one with it.
        let system = |number: u8| [&[b'S', 0, number][..], &[0; 9]].concat();
        let action = |name: &[u8; 8]| [&[b'H', 0, 7], &[0; 8][..], name, &[0; 6]].concat();
        let mut name = |message: &[u8]| {
            let number = names.note(message);
            names.name(number).to_string()
        };
        assert_eq!([name(&system(7)), name(&system(8)), name(&system(0))], ["#7", "#8", "NASDAQ"]);
        assert_eq!(name(&action(b"BRK A   ")), "BRK A");
        // The last name that is one counts, and messages without a name keep it.
        assert_eq!([name(&system(7)), name(&action(b"BRK B   "))], ["BRK A", "BRK B"]);
        for no_name in [b"        ", b"\0\0\0\0\0\0\0\0", b"\xFF       "] {
            assert_eq!(name(&action(no_name)), "#7");
        }
    }
}
