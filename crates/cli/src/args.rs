//! Arguments that several commands share, and how counts and durations are written.

use crate::creation;
use crate::failure::Failure;
use crate::remote::{self, ConnectArgs};
use crate::ui::Ui;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tapedb_engine::{CursorBuilder, Database, Stream};
use tapedb_schema::{TimeUnit, Timestamp};

thread_local! {
    /// A database that is kept open for the commands to come, as the shell does.
    static KEPT_OPEN: RefCell<Option<(PathBuf, Database)>> = const { RefCell::new(None) };
}

/// Where the database is.
#[derive(clap::Args, Debug, Clone)]
pub struct DatabaseArgs {
    /// Directory of the database, or URL of a server: tape://user@host:port, tapes:// (TLS), tape+unix:///path, tape+shm:///path
    /// (shared memory). The password comes from TAPEDB_PASSWORD or is asked for, a token from TAPEDB_TOKEN; TAPEDB_CA names a
    /// PEM file of authorities to trust; TAPEDB_SPIN_US is how long, in microseconds, what waits looks before it sleeps.
    #[arg(long, value_name = "DIR|URL")]
    pub db: PathBuf,

    #[command(flatten)]
    pub connect: ConnectArgs,
}

impl DatabaseArgs {
    /// Opens the database beside whoever writes to it.
    pub fn open_to_read(&self) -> Result<Database, Failure> {
        open_to_read_with(&self.db, &self.connect)
    }

    /// Opens the database to follow what comes; says on standard error when a server is gone, and when it is back.
    pub fn open_to_follow(&self) -> Result<Database, Failure> {
        match (kept_open(&self.db), remote::url_of(&self.db)) {
            (None, Some(url)) => remote::connect_telling(url, &self.connect),
            _ => self.open_to_read(),
        }
    }

    /// Opens a database that is there for writing.
    pub fn open_to_write(&self) -> Result<Database, Failure> {
        self.open_or_create(false)
    }

    /// Opens the database for writing; makes it if it is not there and that is asked for.
    pub fn open_or_create(&self, create: bool) -> Result<Database, Failure> {
        creation::check(&self.db, create)?;
        match remote::url_of(&self.db) {
            // Also says when the server is gone, and when it is back.
            Some(_) => self.open_to_follow(),
            None => Ok(Database::open(&self.db)?),
        }
    }

    /// The database's directory, for what works on files alone.
    pub fn directory(&self) -> Result<&Path, Failure> {
        remote::directory(&self.db)
    }

    /// Opens the database beside whoever writes to it, for what works on files alone.
    pub fn open_files_to_read(&self) -> Result<Database, Failure> {
        Ok(Database::open_read_only(self.directory()?)?)
    }
}

/// Opens a database beside whoever writes to it, unless it is kept open. (Behind a server it can be written too.)
pub fn open_to_read(place: &Path) -> Result<Database, Failure> {
    open_to_read_with(place, &ConnectArgs::default())
}

fn open_to_read_with(place: &Path, connect: &ConnectArgs) -> Result<Database, Failure> {
    match (kept_open(place), remote::url_of(place)) {
        (Some(db), _) => Ok(db),
        (None, Some(url)) => remote::connect_with(url, connect),
        (None, None) => Ok(Database::open_read_only(place)?),
    }
}

/// The database, if it is kept open.
fn kept_open(place: &Path) -> Option<Database> {
    let kept = KEPT_OPEN.with_borrow(Clone::clone);
    kept.filter(|(kept_place, _)| kept_place == place).map(|(_, db)| db)
}

/// Keeps a database open for the commands to come, and no other.
pub fn keep_open(place: &Path, db: &Database) {
    KEPT_OPEN.set(Some((place.into(), db.clone())));
}

/// Keeps none open.
pub fn keep_none_open() {
    KEPT_OPEN.set(None);
}

/// Opens a stream, and tells if its files were not as a clean shutdown leaves them.
pub fn open_stream(db: &Database, name: &str, ui: &Ui) -> Result<Stream, Failure> {
    let stream = db.stream(name)?;
    if !stream.recovery().is_clean() {
        ui.warn(&format!("stream {name:?}: {}", stream.recovery()));
    }
    Ok(stream)
}

/// Which messages of which streams.
#[derive(clap::Args, Debug, Clone)]
pub struct Selection {
    /// Streams; several are merged by time.
    #[arg(required = true, value_name = "STREAM")]
    pub streams: Vec<String>,

    /// Only these symbols, for example AIG,BAC.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub symbols: Vec<String>,

    /// Only these record types, for example Trade,Quote.
    #[arg(long, value_delimiter = ',', value_name = "X,Y")]
    pub types: Vec<String>,
}

impl Selection {
    /// Opens the streams; tells of symbols that none of them has.
    pub fn open(&self, db: &Database, ui: &Ui) -> Result<Vec<Stream>, Failure> {
        let mut seen = HashSet::new();
        if let Some(twice) = self.streams.iter().find(|name| !seen.insert(*name)) {
            return Err(Failure::usage(format!("stream {twice:?} is named twice; name each stream once")));
        }
        let streams: Vec<Stream> =
            self.streams.iter().map(|name| open_stream(db, name, ui)).collect::<Result<_, _>>()?;
        if !self.symbols.is_empty() {
            let known: HashSet<String> = streams.iter().flat_map(Stream::symbols).collect();
            for symbol in self.symbols.iter().filter(|symbol| !known.contains(*symbol)) {
                ui.warn(&format!(
                    "no message has symbol {symbol:?} yet; `tapedb symbols` lists those there are"
                ));
            }
        }
        Ok(streams)
    }

    /// A cursor over the selected messages.
    pub fn cursor(&self, db: &Database) -> Result<CursorBuilder, Failure> {
        let mut cursor = db.cursor(&self.streams)?;
        if !self.symbols.is_empty() {
            cursor = cursor.symbols(&self.symbols);
        }
        if !self.types.is_empty() {
            cursor = cursor.types(&self.types);
        }
        Ok(cursor)
    }
}

/// Last values in place of history.
#[derive(clap::Args, Debug, Clone)]
pub struct LastValues {
    /// Of history only the last message of each symbol and record type.
    #[arg(long)]
    pub last_values: bool,

    /// With --last-values: fields whose values tell messages apart as well, for example Order.id,Order.venue. This reads all
    /// messages of the record type.
    #[arg(long, value_delimiter = ',', value_name = "TYPE.FIELD", requires = "last_values")]
    pub key: Vec<String>,
}

impl LastValues {
    /// The cursor, giving last values if they are asked for.
    pub fn of(&self, mut cursor: CursorBuilder) -> Result<CursorBuilder, Failure> {
        if !self.last_values {
            return Ok(cursor);
        }
        let mut keys: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for key in &self.key {
            let parts = key.split_once('.').filter(|(record, field)| !record.is_empty() && !field.is_empty());
            let (record, field) = parts.ok_or_else(|| {
                Failure::usage(format!("--key {key:?} names no field of a record type; write TYPE.FIELD"))
            })?;
            keys.entry(record).or_default().push(field);
        }
        cursor = cursor.last_values();
        Ok(keys.into_iter().fold(cursor, |cursor, (record, fields)| cursor.last_values_by(record, fields)))
    }
}

/// A count such as `250`, `500k`, `10M`, `1.5G` or `1_000_000`.
pub fn count(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is no count; write one such as 250, 500k, 10M or 1_000_000");
    let plain = text.replace('_', "");
    let digits = plain.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let unit = match &plain[digits.len()..] {
        "" => 1,
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        _ => return Err(bad()),
    };
    scaled(digits, unit).ok_or_else(bad)
}

/// A size such as `4096`, `64MiB`, `1.5GiB` or `500GB`, in bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is no size; write one such as 64MiB, 1.5GiB or 500GB");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(bad()),
    };
    scaled(digits, unit).ok_or_else(bad)
}

/// A duration such as `250ms`, `10s`, `5m`, `2h` or `1d`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is no duration; write one such as 250ms, 10s, 5m, 2h or 1d");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let nanos = match &text[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(bad()),
    };
    scaled(digits, nanos).map(Duration::from_nanos).ok_or_else(bad)
}

/// A time as [`Timestamp`] reads it, but for bare numbers that hardly count nanoseconds; also numbers with their unit, such as
/// `1381156202s` and `1381156202123.5ms`.
pub fn time(text: &str) -> Result<Timestamp, String> {
    const FORMS: &str = "write 2024-01-02, 2024-01-02T14:30:00.5Z (UTC unless it says else), nanoseconds since 1970, or a number with its \
         unit, such as 1704205800s or 1704205800000ms";
    if let Ok(number) = text.parse::<i64>()
        && !TimeUnit::Nanos.is_plausible(number)
    {
        let guess = TimeUnit::of(number)
            .map(|unit| format!("; for {}, write {text}{unit}", unit.name()))
            .unwrap_or_default();
        let in_nanos = Timestamp(number);
        return Err(format!(
            "a bare number counts nanoseconds since 1970, which makes {in_nanos} of this{guess}; or {FORMS}"
        ));
    }
    if let Some(time) = with_unit(text) {
        return time
            .ok_or_else(|| format!("{text:?} is out of the range of times, or finer than a nanosecond"));
    }
    text.parse().map_err(|error| format!("{error}; {FORMS}"))
}

/// The time of a number with its unit; `None` if the text is no such thing.
fn with_unit(text: &str) -> Option<Option<Timestamp>> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit: TimeUnit = text[number.len()..].parse().ok()?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte));
    is_number.then(|| unit.parse(number))
}

/// `digits`, with or without a fraction, times `unit`, exactly.
fn scaled(digits: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(fraction) || fraction.len() > 18 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let power = 10u128.pow(fraction.len() as u32);
    let part = fraction.parse::<u128>().unwrap_or(0) * u128::from(unit);
    (part.is_multiple_of(power)).then_some(())?;
    whole.checked_add(u64::try_from(part / power).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        let good = [("0", 0), ("250", 250), ("500k", 500_000), ("10M", 10_000_000), ("1.5G", 1_500_000_000)];
        for (text, value) in good.into_iter().chain([("1_000_000", 1_000_000)]) {
            assert_eq!(count(text), Ok(value), "{text}");
        }
        for text in ["", "k", "-1", "1.5", "1kk", "10 M", "99999999999G", "1.0000001M", "ten"] {
            assert!(count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes() {
        let good =
            [("0", 0), ("4096", 4096), ("64MiB", 64 << 20), ("1.5GiB", 3 << 29), ("2TB", 2_000_000_000_000)];
        for (text, value) in good {
            assert_eq!(size(text), Ok(value), "{text}");
        }
        for text in ["", "GiB", "-1", "1.5", "64 MiB", "64M", "99999999TiB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times() {
        for text in ["2024-01-02", "2024-01-02T14:30", "1704205805000000000", "-1704205805000000000ns"] {
            assert!(time(text).is_ok(), "{text}");
        }
        for text in
            ["20240102", "1704205805", "1704205805000", "2024", "0", "-5", "-1704205805000000000", "noon"]
        {
            assert!(time(text).unwrap_err().contains("write 2024-01-02"), "{text}");
        }
    }

    #[test]
    fn times_of_numbers_name_their_unit() {
        let at = |text: &str| time(text).map(|time| time.to_string());
        for text in ["1381156202s", "1381156202000ms", "1381156202000000us", "1381156202000000000ns"] {
            assert_eq!(at(text).unwrap(), "2013-10-07T14:30:02Z", "{text}");
        }
        assert_eq!(at("1381156202.25s").unwrap(), "2013-10-07T14:30:02.250Z");
        assert_eq!(at("-1s").unwrap(), "1969-12-31T23:59:59Z");
        assert!(at("1381156202").unwrap_err().contains("for seconds, write 1381156202s"));
        assert!(at("1381156202000").unwrap_err().contains("for milliseconds, write 1381156202000ms"));
        for text in ["99999999999s", "1.5ns", "1.2.3s", "s", "1m", "1h", "1381156202 s"] {
            assert!(at(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for text in ["", "10", "s", "-1s", "5 m", "1y", "1000000d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
