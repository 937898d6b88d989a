//! What is chosen for a stream: when it is created, and most of it later too ([`Stream::alter`](crate::Stream::alter)).

use crate::error::{ConnectionError, Error, Invalid};
use crate::stream::definition::{durability_name, late_name, options_of_text, options_text};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;
use tapedb_log::{Durability, FILE_BYTES_MAX_DEFAULT};

/// What a stream does with a message that is older than the last one it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Late {
    /// Takes it; history gives it back where it belongs in time.
    #[default]
    Accept,
    /// Refuses it with [`Rejected::Late`](crate::Rejected::Late).
    Refuse,
}

/// What upkeep purges by itself: always whole parts, which are gone at once, and never what is in log files. By hand
/// there is [`Stream::purge`](crate::Stream::purge).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// A part goes when all its messages are older than this, measured from the time of the stream's latest message (of
    /// the clock, where that message is from the future): recorded data that is replayed is not old by being from last
    /// year. Parts are kept short beside it, so what is kept too long is about an eighth of it. `None`: no age is too old.
    pub age: Option<Duration>,
    /// The oldest parts go while the stream's segments and log files have more bytes than this together. `None`: they
    /// may be as many as the disk holds.
    pub bytes: Option<u64>,
}

/// What a stream promises, and how its files are kept. All but `durability`, `spaces` and `bytes_max`
/// can be changed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// What an acknowledged message survives.
    pub durability: Durability,
    /// What happens to late messages.
    pub late: Late,
    /// A log file that would grow past this many bytes is followed by a new one; 64 MiB unless set, at most 1 GiB.
    /// A file holds one batch at least. Opening a stream for writing reads its last file, so small files open sooner;
    /// every older file costs one small index file to be read.
    pub file_bytes_max: u64,
    /// Spaces: independent lanes that can be written at the same time; 1 unless set, at most [`SPACES_MAX`]. What
    /// is refused as late is so in each space by itself.
    pub spaces: u32,
    /// How many bytes of messages each space of a [`Durability::Transient`] stream keeps in memory; 256 MiB unless set, 64
    /// KiB at least. When there are more, the oldest go, an eighth of it at a time. Other streams are not bounded by it.
    pub bytes_max: u64,
    /// What is purged by itself; nothing unless set. Transient streams have no parts and are purged by `bytes_max` alone.
    pub retention: Retention,
    /// A log file is sealed this long after its first message though it is not full (for a file that was there when
    /// the database was opened: after that); an hour unless set. `None`: only when it is full.
    pub seal_after: Option<Duration>,
    /// Segments are compressed once more, smaller and slower to read, when all their messages are older than this,
    /// measured as [`Retention::age`] is; zero: as soon as they are made. `None`, as it is unless set: never.
    pub cold_after: Option<Duration>,
}

/// The most spaces of a stream.
pub const SPACES_MAX: u32 = 256;

/// Default of [`StreamOptions::bytes_max`].
pub(crate) const BYTES_MAX_DEFAULT: u64 = 256 << 20;
/// Files are an eighth of it: below this they would hold next to nothing.
const BYTES_MAX_LEAST: u64 = 64 << 10;

/// Unless set, a log file is sealed so long after its first message.
const SEAL_AFTER_DEFAULT: Duration = Duration::from_secs(3600);

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            late: Late::default(),
            file_bytes_max: FILE_BYTES_MAX_DEFAULT,
            spaces: 1,
            bytes_max: BYTES_MAX_DEFAULT,
            retention: Retention::default(),
            seal_after: Some(SEAL_AFTER_DEFAULT),
            cold_after: None,
        }
    }
}

impl StreamOptions {
    /// Checks what a new stream shall have.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let what = if self.is_transient() && self.bytes_max < BYTES_MAX_LEAST {
            "a transient stream that may hold less than 64 KiB holds next to nothing; choose a larger bytes_max"
        } else if !(1..=SPACES_MAX).contains(&self.spaces) {
            "a stream has 1 to 256 spaces; choose a number of them"
        } else if self.file_bytes_max == 0 {
            "a log file of no bytes holds nothing; choose a size of up to 1 GiB"
        } else {
            return Ok(());
        };
        Err(Error::Invalid(Invalid::Options { what }))
    }

    /// The options as lines of keys and values, as they stand in a stream's definition (`docs/format/database.md`). Parses
    /// back by [`str::parse`].
    pub fn to_text(&self) -> String {
        options_text(self)
    }

    pub(crate) fn is_transient(&self) -> bool {
        self.durability == Durability::Transient
    }

    /// Checks that a stream with these options can have `new` ones.
    pub(crate) fn check_change(&self, new: &Self) -> Result<(), Error> {
        new.check()?;
        let what = if new.durability != self.durability {
            "durability is chosen when a stream is created, for messages it has were written by it; create another stream"
        } else if new.bytes_max != self.bytes_max {
            "bytes_max is chosen when a stream is created; create another stream"
        } else if new.spaces != self.spaces {
            "the number of spaces is chosen when a stream is created; create another stream"
        } else {
            return Ok(());
        };
        Err(Error::Invalid(Invalid::Options { what }))
    }
}

impl FromStr for StreamOptions {
    type Err = Error;

    /// Reads what [`StreamOptions::to_text`] writes.
    fn from_str(text: &str) -> Result<Self, Error> {
        options_of_text(text).map_err(|what| {
            Error::Connection(ConnectionError::Protocol { what: format!("a text of options {what}") })
        })
    }
}

impl fmt::Display for StreamOptions {
    /// In two lines, the second one a comment where the first one is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { durability, late, file_bytes_max, spaces, bytes_max, retention, seal_after, cold_after } =
            self;
        if self.is_transient() {
            let late = late_name(*late);
            write!(
                f,
                "durability transient, late messages {late}, spaces {spaces}\n// kept in memory, up to "
            )?;
            return write!(f, "{bytes_max} bytes in each space");
        }
        let (durability, late) = (durability_name(*durability), late_name(*late));
        let [age, seal_after, cold_after] = [retention.age, *seal_after, *cold_after].map(duration_text);
        write!(f, "durability {durability}, late messages {late}, spaces {spaces}\n// kept for {age}, ")?;
        match retention.bytes {
            None => f.write_str("of any size")?,
            Some(bytes) => write!(f, "up to {bytes} bytes")?,
        }
        write!(f, "; log files of {file_bytes_max} bytes, sealed after {seal_after}, cold after {cold_after}")
    }
}

/// The options of an open stream, which may change.
#[derive(Debug)]
pub(crate) struct Settings {
    options: RwLock<StreamOptions>,
    /// Asked for every message.
    refuses_late: AtomicBool,
}

impl Settings {
    pub fn new(options: StreamOptions) -> Self {
        let refuses_late = AtomicBool::new(options.late == Late::Refuse);
        Self { options: RwLock::new(options), refuses_late }
    }

    pub fn get(&self) -> StreamOptions {
        *self.options.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, options: StreamOptions) {
        *self.options.write().unwrap_or_else(PoisonError::into_inner) = options;
        self.refuses_late.store(options.late == Late::Refuse, Ordering::SeqCst);
    }

    #[inline]
    pub fn refuses_late(&self) -> bool {
        self.refuses_late.load(Ordering::Relaxed)
    }
}

/// Units of a duration in text, in nanoseconds; the largest first.
const UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// A duration as text, exactly: a whole number of the largest unit that gives one, as `30d`, `90s`; `none` for none.
pub(crate) fn duration_text(duration: Option<Duration>) -> String {
    let Some(duration) = duration else { return "none".into() };
    let nanos = duration.as_nanos();
    let fits = |(_, unit): &&(&str, u128)| nanos > 0 && nanos.is_multiple_of(*unit);
    let (name, unit) = UNITS.iter().find(fits).unwrap_or(&("s", 1));
    format!("{}{name}", nanos / unit)
}

/// Reads what [`duration_text`] writes.
pub(crate) fn parse_duration(text: &str) -> Option<Option<Duration>> {
    if text == "none" {
        return Some(None);
    }
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == &text[digits.len()..])?;
    let nanos = digits.parse::<u128>().ok()?.checked_mul(*unit)?;
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    Some(Some(Duration::new(seconds, (nanos % 1_000_000_000) as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_trip() {
        let cases = [
            (None, "none"),
            (Some(Duration::ZERO), "0s"),
            (Some(Duration::from_secs(3600)), "1h"),
            (Some(Duration::from_secs(90)), "90s"),
            (Some(Duration::from_secs(30 * 86_400)), "30d"),
            (Some(Duration::from_nanos(1_500_000)), "1500us"),
            (Some(Duration::MAX), "18446744073709551615999999999ns"),
        ];
        for (duration, text) in cases {
            assert_eq!(duration_text(duration), text);
            assert_eq!(parse_duration(text), Some(duration), "{text}");
        }
        for text in ["", "5", "d", "5y", "-5s", "1.5s", "18446744073709551616s"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn options_round_trip_as_text() {
        let transient =
            StreamOptions { durability: Durability::Transient, bytes_max: 1 << 20, ..Default::default() };
        let aged = StreamOptions {
            retention: Retention { age: Some(Duration::from_secs(5)), bytes: Some(7) },
            seal_after: None,
            late: Late::Refuse,
            ..Default::default()
        };
        for options in [StreamOptions::default(), transient, aged] {
            assert_eq!(options.to_text().parse::<StreamOptions>().unwrap(), options);
        }
        assert!("durability eternal".parse::<StreamOptions>().unwrap_err().to_string().contains("eternal"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let options = StreamOptions::default();
        for spaces in [0, SPACES_MAX + 1] {
            assert!(StreamOptions { spaces, ..options }.check().is_err());
        }
        assert!(StreamOptions { file_bytes_max: 0, ..options }.check().is_err());
        assert!(options.check_change(&StreamOptions { spaces: 2, ..options }).is_err());
        assert!(options.check_change(&StreamOptions { durability: Durability::Sync, ..options }).is_err());
        assert!(options.check_change(&StreamOptions { late: Late::Refuse, ..options }).is_ok());
    }
}
