//! Files of real venues and vendors as packages: streaming; [`Merge`] says what memory and file handles are needed.
//!
//! [`discover`] finds the files of a [`Format`], [`SourceFile::open`] reads one as a [`Source`], [`Merge`] reads many in
//! time order.
//!
//! ```no_run
//! use tapedb_market::Package;
//! use tapedb_market::import::{Format, ImportOptions, Merge, discover};
//! let files = discover(Format::UsEquityTicks, &["us-equity-ticks"], &ImportOptions::default())?;
//! let (mut merge, mut package) = (Merge::new(files), Package::default());
//! while let Some(row) = merge.next(&mut package)? {
//!     // Mark prices and a few others are messages of their own, and the package is then empty.
//!     if row.beside.is_none() {
//!         println!("{} {} {}", row.time, row.symbol, package.entries.len());
//!     }
//! }
//! # Ok::<(), tapedb_market::import::ImportError>(())
//! ```

mod binance;
mod clock;
mod container;
mod discover;
mod error;
mod fields;
mod fx;
mod lines;
mod merge;
mod source;
mod us_equity;

pub use container::MAX_MEMBERS;
pub use discover::{MAX_FOLDER_DEPTH, SourceFile, discover};
pub use error::{ImportError, MAX_EXCERPT_BYTES, Place};
pub use fx::FxProvider;
pub use lines::MAX_LINE_BYTES;
pub use merge::{Merge, MergedRow};
pub use source::{Beside, Counters, MAX_SYMBOL_BYTES, MAX_UNKNOWN_KINDS, RowHeader, Source};

use source::LineParser;
use std::fmt;
use std::str::FromStr;
use tapedb_schema::TimeUnit;

/// A format that can be read; the modules of this folder describe each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `us-equity-ticks`: trades and per-venue quotes of the US tape, zipped CSV, one symbol and day a file.
    UsEquityTicks,
    /// `fx-ticks`: FX quotes, zipped CSV of one symbol and day (FXCM, OANDA) or gzipped CSV (HistData).
    FxTicks,
    /// `binance-raw-ws`: recorded Binance WebSocket frames, gzip.
    BinanceRawWs,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::UsEquityTicks, Self::FxTicks, Self::BinanceRawWs];

    /// The name, as in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::UsEquityTicks => "us-equity-ticks",
            Self::FxTicks => "fx-ticks",
            Self::BinanceRawWs => "binance-raw-ws",
        }
    }

    /// What files of the format look like.
    pub fn looked_for(self) -> &'static str {
        match self {
            Self::UsEquityTicks => us_equity::LOOKED_FOR,
            Self::FxTicks => fx::LOOKED_FOR,
            Self::BinanceRawWs => binance::LOOKED_FOR,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no format has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFormat(pub String);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown format `{}`; there are {}", self.0, Format::ALL.map(Format::name).join(", "))
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| UnknownFormat(text.to_string()))
    }
}

/// What to do at a line that cannot be read, or whose row no stream could hold. Damaged or cut files always stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBadLine {
    /// Stop with an error.
    #[default]
    Stop,
    /// Pass over up to this many lines of a file and count them, then stop.
    Skip(u64),
}

impl OnBadLine {
    fn skips(self, skipped: u64) -> bool {
        matches!(self, Self::Skip(most) if skipped < most)
    }
}

/// How to import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportOptions {
    /// What to do at a bad line.
    pub on_bad_line: OnBadLine,
    /// Who made the FX quotes; default: what the folders' names tell.
    pub fx_provider: Option<FxProvider>,
    /// Zone of the times in FX files, local time minus UTC in seconds; default: the provider's.
    pub fx_utc_offset_seconds: Option<i32>,
    /// Symbol of the FX quotes; default: what the file's or member's name tells.
    pub fx_symbol: Option<String>,
    /// What the times of receipt in captures count since 1970; default: the unit that their size tells.
    pub receive_time_unit: Option<TimeUnit>,
}
