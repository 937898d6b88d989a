//! Options of a stream: chosen when it is created; most can be changed later ([`Stream::alter`](crate::Stream::alter)).

use crate::error::{ConnectionError, Error, Invalid};
use crate::objects::url::StoreUrl;
use crate::stream::definition::{durability_name, late_name, options_of_text, options_text};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;
use tapedb_log::{Durability, FILE_BYTES_MAX_DEFAULT};

/// What a stream does with a message that is older than its last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Late {
    /// Accepts it; history returns it at its place in time.
    #[default]
    Accept,
    /// Refuses it with [`Rejected::Late`](crate::Rejected::Late).
    Refuse,
}

/// What maintenance purges: always whole segments, removed at once, and never messages in log files.
/// [`Stream::purge`](crate::Stream::purge) purges on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// A segment is removed when all its messages are older than this, measured from the time of the stream's latest
    /// message (or from the clock, if that message is in the future), so replayed data of last year is not old. Segments
    /// are made small for it: about an eighth too much is stored. `None`: no limit.
    pub age: Option<Duration>,
    /// The oldest segments are removed while the stream's segments and log files together have more bytes than this.
    /// `None`: no limit.
    pub bytes: Option<u64>,
}

/// Where old segments of a stream go: see `docs/TIER.md`. Reading does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offload {
    /// The object store. It cannot be changed while segments are there.
    pub url: StoreUrl,
    /// A segment goes there when all its messages are older than this, measured as for [`Retention::age`]; zero: as soon as it is
    /// sealed and merged. `None`: what is there stays there, and nothing more goes.
    pub after: Option<Duration>,
}

/// What a stream guarantees, and how its files are stored. All but `durability`, `spaces` and `bytes_max` can be changed
/// later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// What an acknowledged message survives.
    pub durability: Durability,
    /// What happens to late messages.
    pub late: Late,
    /// A log file that would exceed this many bytes is followed by a new one; 64 MiB by default, at most 1 GiB. A file
    /// holds at least one batch. Opening a stream for writing reads its last file, so small files open sooner; for each
    /// older file one small index file is read.
    pub file_bytes_max: u64,
    /// Spaces: parts of a stream that can be written at the same time; 1 by default, at most [`SPACES_MAX`]. Each space
    /// refuses late messages on its own.
    pub spaces: u32,
    /// Bytes of messages that each space of a [`Durability::Transient`] stream holds in memory; 256 MiB by default, at
    /// least 64 KiB. Above it the oldest are dropped, an eighth of it at a time. It does not limit other streams.
    pub bytes_max: u64,
    /// What maintenance purges; nothing by default. Transient streams have no segments and are purged by `bytes_max` alone.
    pub retention: Retention,
    /// A log file that is not full is sealed this long after its first message (a file found when the database is opened:
    /// this long after that); an hour by default. `None`: only when it is full.
    pub seal_after: Option<Duration>,
    /// Segments are compressed again, smaller and slower to read, when all their messages are older than this, measured as
    /// for [`Retention::age`]; zero: as soon as they are written. `None`, the default: never.
    pub cold_after: Option<Duration>,
    /// Where old segments go; `None`, the default: they stay in the database's directory.
    pub offload: Option<Offload>,
}

/// The most spaces of a stream.
pub const SPACES_MAX: u32 = 256;

/// Default of [`StreamOptions::bytes_max`].
pub(crate) const BYTES_MAX_DEFAULT: u64 = 256 << 20;
/// Files are an eighth of it: below this they would hold almost nothing.
const BYTES_MAX_LEAST: u64 = 64 << 10;

/// By default a log file is sealed this long after its first message.
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
            offload: None,
        }
    }
}

impl StreamOptions {
    /// Checks the options of a new stream.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let what = if self.is_transient() && self.bytes_max < BYTES_MAX_LEAST {
            "a transient stream holds at least 64 KiB; choose a larger bytes_max"
        } else if !(1..=SPACES_MAX).contains(&self.spaces) {
            "a stream has 1 to 256 spaces; choose a number of them"
        } else if self.is_transient() && self.offload.is_some() {
            "a transient stream has no segments; an object tier is for streams that are stored"
        } else if self.file_bytes_max == 0 {
            "a log file must have at least one byte; choose a size of up to 1 GiB"
        } else {
            return Ok(());
        };
        Err(Error::Invalid(Invalid::Options { what }))
    }

    /// The options as lines of keys and values, as in a stream's definition (`docs/format/database.md`). [`str::parse`]
    /// reads them.
    pub fn to_text(&self) -> String {
        options_text(self)
    }

    pub(crate) fn is_transient(&self) -> bool {
        self.durability == Durability::Transient
    }

    /// Checks that a stream with these options can change to `new`.
    pub(crate) fn check_change(&self, new: &Self) -> Result<(), Error> {
        new.check()?;
        let what = if new.durability != self.durability {
            "durability cannot be changed, because stored messages were written with it; create another stream"
        } else if new.bytes_max != self.bytes_max {
            "bytes_max cannot be changed; create another stream"
        } else if new.spaces != self.spaces {
            "the number of spaces cannot be changed; create another stream"
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
            Error::Connection(ConnectionError::Protocol { what: format!("the text of the options {what}") })
        })
    }
}

impl fmt::Display for StreamOptions {
    /// In two lines, or three; all but the first are comments, and callers put the first into one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { durability, late, file_bytes_max, spaces, bytes_max, retention, .. } = self;
        let Self { seal_after, cold_after, offload, .. } = self;
        if self.is_transient() {
            let late = late_name(*late);
            write!(
                f,
                "durability transient, late messages {late}, spaces {spaces}\n// held in memory, up to "
            )?;
            return write!(f, "{bytes_max} bytes in each space");
        }
        let (durability, late) = (durability_name(*durability), late_name(*late));
        let [age, seal_after, cold_after] = [retention.age, *seal_after, *cold_after].map(duration_text);
        write!(f, "durability {durability}, late messages {late}, spaces {spaces}\n// stored for {age}, ")?;
        match retention.bytes {
            None => f.write_str("of any size")?,
            Some(bytes) => write!(f, "up to {bytes} bytes")?,
        }
        write!(
            f,
            "; log files of {file_bytes_max} bytes, sealed after {seal_after}, cold after {cold_after}"
        )?;
        match offload {
            None => Ok(()),
            Some(Offload { url, after }) => {
                write!(f, "\n// old segments in {url}, after {}", duration_text(*after))
            }
        }
    }
}

/// The options of an open stream, which may change.
#[derive(Debug)]
pub(crate) struct Settings {
    options: RwLock<StreamOptions>,
    /// Read for every message.
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
        let offload =
            Offload { url: "s3://bucket/prefix".parse().unwrap(), after: Some(Duration::from_secs(604_800)) };
        let offloading = StreamOptions { offload: Some(offload), ..Default::default() };
        let kept = StreamOptions { offload: Some(Offload { after: None, ..offload }), ..Default::default() };
        assert!(StreamOptions { offload: Some(offload), ..transient }.check().is_err());
        for options in [StreamOptions::default(), transient, aged, offloading, kept] {
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
