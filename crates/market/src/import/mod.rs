//! Files of real venues and vendors as packages: streaming; [`Merge`] documents memory and file handles.
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
//!     if row.other.is_none() {
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
mod options;
mod source;
mod us_equity;

pub use container::MAX_MEMBERS;
pub use discover::{MAX_FOLDER_DEPTH, SourceFile, discover};
pub use error::{ImportError, LineLocation, MAX_EXCERPT_BYTES};
pub use fx::FxProvider;
pub use lines::MAX_LINE_BYTES;
pub use merge::{Merge, MergedRow};
pub use options::{ImportOptions, OnBadLine};
pub use source::{Counters, MAX_SYMBOL_BYTES, MAX_UNKNOWN_KINDS, OtherRecord, RowHeader, Source};

use std::fmt;
use std::str::FromStr;

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

    /// How files of the format are named and built.
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
