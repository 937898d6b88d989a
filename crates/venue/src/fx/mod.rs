//! `fx-ticks`: quotes of FX providers, as Lean and HistData lay them out. No file has sizes.
//!
//! * Lean: a zip with one CSV `YYYYMMDD_<symbol>_tick_quote.csv` of `time, bid, ask`; times are milliseconds of the
//!   day, with fractions down to the nanosecond, in the provider's zone.
//! * HistData: a file of `YYYYMMDD HHMMSSmmm, bid, ask, volume`, plain, gzipped or in a zip, where volume is always 0 and not imported.
//!
//! Every row is one package of two [`Level1`], bid then ask, with prices as written and without sizes. The provider is
//! found in the names of the folders (`fxcm-eurusd`, `…/oanda/tick/…`, `histdata`), innermost first, or given as
//! [`ImportOptions::fx_provider`].

use super::clock::{self, DayClock};
use super::error::ImportError;
use super::fields::{self, BadLine, Fields};
use super::options::ImportOptions;
use super::record::AnyRecord;
use super::source::{LineParser, Parsed};
use jiff::civil;
use std::path::Path;
use std::str::FromStr;
use tapedb_market::{Entry, Level1, Side};
use tapedb_schema::{Ascii, Decimal64, Timestamp};

pub(super) const LOOKED_FOR: &str = "zip files `YYYYMMDD*quote*.zip` with a member `YYYYMMDD_<symbol>_tick_quote.csv`, \
     and HistData files `DAT_ASCII_<symbol>_T_*`, or `*.csv` and `*.csv.gz` in a folder `histdata`";

const NANOS_PER_MILLISECOND: i64 = 1_000_000;

/// The provider of the quotes: gives the exchange of the entries and the time zone of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FxProvider {
    /// FXCM: times at UTC-05 all year.
    Fxcm,
    /// OANDA: times in UTC.
    Oanda,
    /// HistData.com: times at UTC-05 (EST without daylight saving) all year.
    HistData,
}

impl FxProvider {
    /// The exchange of the entries.
    pub fn exchange(self) -> &'static str {
        match self {
            Self::Fxcm => "FXCM",
            Self::Oanda => "OANDA",
            Self::HistData => "HISTDATA",
        }
    }

    /// Local time minus UTC in seconds.
    pub fn utc_offset_seconds(self) -> i32 {
        match self {
            Self::Fxcm | Self::HistData => -5 * 3600,
            Self::Oanda => 0,
        }
    }

    /// The provider named in a path, innermost first.
    fn of_path(path: &Path) -> Option<Self> {
        let named = |part: std::path::Component<'_>| {
            let name = part.as_os_str().to_str()?.to_ascii_lowercase();
            name.split(['-', '_', '.']).next()?.parse().ok()
        };
        path.components().rev().find_map(named)
    }
}

impl FromStr for FxProvider {
    type Err = String;

    /// `fxcm`, `oanda` or `histdata`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fxcm" => Ok(Self::Fxcm),
            "oanda" => Ok(Self::Oanda),
            "histdata" => Ok(Self::HistData),
            _ => Err(format!("unknown FX provider `{text}`; there are fxcm, oanda and histdata")),
        }
    }
}

/// Content of a file's path, its member's name and the options.
#[derive(Debug, Clone)]
pub(super) struct Day {
    symbol: String,
    exchange: Option<Ascii<8>>,
    utc_offset_seconds: i32,
    /// The day of a Lean file; HistData writes the date in every row.
    clock: Option<DayClock>,
}

impl Day {
    /// `None` if the member is not of this format.
    pub(super) fn of_member(
        path: &Path,
        name: &str,
        options: &ImportOptions,
    ) -> Result<Option<Self>, ImportError> {
        let Some((date, symbol)) = member_date_and_symbol(name) else { return Ok(None) };
        let (exchange, utc_offset_seconds) = provider(path, options)?;
        let Some(clock) = DayClock::fixed(date, utc_offset_seconds) else { return Ok(None) };
        let symbol = options.fx_symbol.clone().unwrap_or(symbol);
        Ok(Some(Self { symbol, exchange, utc_offset_seconds, clock: Some(clock) }))
    }

    /// A HistData file, or a member of a zip.
    pub(super) fn of_histdata(path: &Path, options: &ImportOptions) -> Result<Self, ImportError> {
        let named = Self::is_histdata(path).then_some(FxProvider::HistData);
        let options = &ImportOptions { fx_provider: options.fx_provider.or(named), ..options.clone() };
        let (exchange, utc_offset_seconds) = provider(path, options)?;
        let symbol = options.fx_symbol.clone().or_else(|| histdata_symbol(path));
        let symbol = symbol.ok_or_else(|| needs(path, "symbol", "fx_symbol"))?;
        Ok(Self { symbol, exchange, utc_offset_seconds, clock: None })
    }

    /// Whether a file found in a folder is one of HistData's: by its own name, or by that of the folder.
    pub(super) fn is_histdata(path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_uppercase();
        let kinds = [".CSV", ".CSV.GZ", ".ZIP"];
        kinds.iter().any(|kind| name.ends_with(kind))
            && (name.starts_with("DAT_ASCII_")
                || name.starts_with("HISTDATA_COM_ASCII_")
                || (name.contains(".CSV") && FxProvider::of_path(path) == Some(FxProvider::HistData)))
    }

    /// Whether a member of a zip is one of HistData's.
    pub(super) fn is_histdata_member(name: &str) -> bool {
        let name = name.rsplit('/').next().unwrap_or_default().to_ascii_uppercase();
        name.starts_with("DAT_ASCII_") && name.ends_with(".CSV")
    }

    /// No row is before this.
    pub(super) fn start(&self) -> Timestamp {
        self.clock.as_ref().map_or(Timestamp::MIN, DayClock::start)
    }

    pub(super) fn parser(&self) -> Parser {
        Parser { day: self.clone(), date: [0; 8], clock: self.clock.clone() }
    }
}

fn member_date_and_symbol(name: &str) -> Option<(civil::Date, String)> {
    let lower = name.rsplit('/').next()?.to_ascii_lowercase();
    let (date, symbol) = lower.strip_suffix("_tick_quote.csv")?.split_once('_')?;
    (!symbol.is_empty()).then_some((clock::date(date.as_bytes())?, symbol.to_ascii_uppercase()))
}

/// Exchange and offset from UTC. An offset given as an option is enough without a provider.
fn provider(path: &Path, options: &ImportOptions) -> Result<(Option<Ascii<8>>, i32), ImportError> {
    let provider = options.fx_provider.or_else(|| FxProvider::of_path(path));
    let offset = options.fx_utc_offset_seconds.or_else(|| provider.map(FxProvider::utc_offset_seconds));
    let offset = offset.ok_or_else(|| needs(path, "provider (fxcm, oanda or histdata)", "fx_provider"))?;
    Ok((provider.and_then(|provider| Ascii::new(provider.exchange()).ok()), offset))
}

fn needs(path: &Path, what: &'static str, option: &'static str) -> ImportError {
    ImportError::NeedsOption { path: path.to_path_buf(), what, option }
}

/// From HistData's own names, `DAT_ASCII_EURUSD_T_202001.csv.gz`; the sample published as `quote_tick_data.csv` is
/// EURUSD too.
fn histdata_symbol(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.to_ascii_uppercase();
    let named = name.strip_prefix("DAT_ASCII_").or_else(|| name.strip_prefix("HISTDATA_COM_ASCII_"));
    match named {
        Some(rest) => rest.split_once('_').map(|(symbol, _)| symbol.to_string()),
        None => name.starts_with("QUOTE_TICK_DATA.CSV").then(|| "EURUSD".to_string()),
    }
}

pub(super) struct Parser {
    day: Day,
    /// Date of `clock` in a HistData file.
    date: [u8; 8],
    clock: Option<DayClock>,
}

impl LineParser for Parser {
    fn symbol(&self) -> &str {
        &self.day.symbol
    }

    fn parse(&mut self, line: &[u8], out: &mut AnyRecord) -> Result<Parsed, BadLine> {
        let out = out.package();
        let mut fields = Fields::new(line);
        let dated = self.day.clock.is_none();
        let text = fields.text("time")?;
        let time = if dated { self.dated_time(text) } else { self.time_of_day(text) };
        let form =
            if dated { "`YYYYMMDD HHMMSSmmm`" } else { "milliseconds below 86400000, at most 6 decimals" };
        let time = time.ok_or_else(|| fields.bad(format_args!("time as {form}")))?;
        let (bid, ask) = (fields.decimal("bid")?, fields.decimal("ask")?);
        if dated && !matches!(fields.decimal("volume")?.parts(), Some((0, _))) {
            return Err(fields.bad(format_args!("a volume of 0, for quotes of this format have none")));
        }
        fields.end()?;
        out.entries.extend([self.level(Side::Bid, bid), self.level(Side::Ask, ask)]);
        Ok(Parsed::Row(time))
    }
}

impl Parser {
    fn level(&self, side: Side, price: Decimal64) -> Entry {
        Entry::Level1(Level1 { side, price: Some(price), exchange: self.day.exchange, ..Level1::default() })
    }

    /// `46.2042` milliseconds, exactly.
    fn time_of_day(&self, text: &[u8]) -> Option<Timestamp> {
        self.clock.as_ref()?.at(clock::milliseconds(text)?)
    }

    /// `20200101 170000065`.
    fn dated_time(&mut self, text: &[u8]) -> Option<Timestamp> {
        let (date, rest) = text.split_first_chunk::<8>()?;
        let [b' ', hour @ .., m0, m1, s0, s1, _, _, _] = rest else { return None };
        let millisecond = fields::integer(rest.get(7..)?)?;
        let (minute, second) = (fields::integer(&[*m0, *m1])?, fields::integer(&[*s0, *s1])?);
        let hour = fields::integer(hour).filter(|_| hour.len() == 2)?;
        if minute > 59 || second > 59 {
            return None;
        }
        if self.clock.is_none() || self.date != *date {
            self.clock = DayClock::fixed(clock::date(date)?, self.day.utc_offset_seconds);
            self.date = *date;
        }
        let wall_ms = ((hour * 60 + minute) * 60 + second) * 1000 + millisecond;
        self.clock.as_ref()?.at(wall_ms * NANOS_PER_MILLISECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lean(path: &str, options: &ImportOptions) -> Result<Day, ImportError> {
        Day::of_member(Path::new(path), "20140502_xauusd_tick_quote.csv", options).map(Option::unwrap)
    }

    fn parse(day: &Day, line: &str) -> Result<(String, String), BadLine> {
        let mut record = AnyRecord::default();
        let Parsed::Row(time) = day.parser().parse(line.as_bytes(), &mut record)? else { panic!("no row") };
        let price = |entry: &Entry| match entry {
            Entry::Level1(quote) => {
                format!("{} {}", quote.exchange.unwrap_or_default(), quote.price.unwrap())
            }
            other => panic!("{other:?}"),
        };
        Ok((
            time.to_string(),
            record.as_package().unwrap().entries.iter().map(price).collect::<Vec<_>>().join(" "),
        ))
    }

    #[test]
    fn lean_rows_keep_every_digit() {
        let day = lean("x/oanda-xauusd/20140502_quote.zip", &ImportOptions::default()).unwrap();
        let (time, prices) = parse(&day, "46.2042,1284.065,1284.40").unwrap();
        assert_eq!(time, "2014-05-02T00:00:00.046204200Z");
        assert_eq!(prices, "OANDA 1284.065 OANDA 1284.40");
        assert_eq!(parse(&day, "1.000001,1,2").unwrap().0, "2014-05-02T00:00:00.001000001Z");
    }

    #[test]
    fn the_provider_tells_the_zone() {
        let day = lean("forex/fxcm/tick/eurusd/20140502_quote.zip", &ImportOptions::default()).unwrap();
        assert_eq!(parse(&day, "1787,1.38727,1.38729").unwrap().0, "2014-05-02T05:00:01.787Z");
        let error = lean("forex/20140502_quote.zip", &ImportOptions::default()).unwrap_err();
        assert!(error.to_string().contains("set the option `fx_provider`"), "{error}");
        let options = ImportOptions { fx_utc_offset_seconds: Some(3600), ..ImportOptions::default() };
        let day = lean("forex/20140502_quote.zip", &options).unwrap();
        assert_eq!(parse(&day, "3600000,1,2").unwrap().0, "2014-05-02T00:00:00Z");
    }

    #[test]
    fn histdata_rows_bring_their_date() {
        let path = Path::new("histdata/quote_tick_data.csv.gz");
        let day = Day::of_histdata(path, &ImportOptions::default()).unwrap();
        assert_eq!(day.symbol, "EURUSD");
        let (time, prices) = parse(&day, "20200101 170000065,1.121200,1.121720,0").unwrap();
        assert_eq!(time, "2020-01-01T22:00:00.065Z");
        assert_eq!(prices, "HISTDATA 1.121200 HISTDATA 1.121720");
        for wrong in
            ["20200101 176000065", "20200101 240000000", "20200101T170000065", "20201301 170000065", "", "x"]
        {
            assert!(parse(&day, &format!("{wrong},1,2,0")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn histdata_files_name_their_symbol_or_an_option_does() {
        let symbol = |name: &str, options: &ImportOptions| {
            Day::of_histdata(&Path::new("histdata").join(name), options).map(|day| day.symbol)
        };
        let options = ImportOptions::default();
        assert_eq!(symbol("DAT_ASCII_USDJPY_T_202001.csv.gz", &options).unwrap(), "USDJPY");
        assert_eq!(symbol("HISTDATA_COM_ASCII_USDJPY_T202001.zip", &options).unwrap(), "USDJPY");
        assert!(matches!(
            symbol("x.csv.gz", &options),
            Err(ImportError::NeedsOption { option: "fx_symbol", .. })
        ));
        let options = ImportOptions { fx_symbol: Some("GBPUSD".into()), ..options };
        assert_eq!(symbol("x.csv.gz", &options).unwrap(), "GBPUSD");
    }

    #[test]
    fn times_that_are_none_are_refused() {
        let day = lean("oanda/20140502_quote.zip", &ImportOptions::default()).unwrap();
        for wrong in ["86400000", "1.1234567", "1.", ".5", "-1", "1e3", ""] {
            assert!(parse(&day, &format!("{wrong},1,2")).is_err(), "{wrong}");
        }
    }
}
