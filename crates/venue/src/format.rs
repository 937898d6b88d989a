//! The formats that can be read.

use crate::{
    algoseek, binance, bybit, capture, cme, coinbase, databento, futures, fx, iex, lobster, nasdaq, tardis,
};
use std::fmt;
use std::str::FromStr;
use tapedb_codec::SchemaBuilder;
use tapedb_market::{
    Definition, Gap, Imbalance, IntervalBar, Liquidation, MarkPrice, MarketByPrice, Notice, Order, Package,
    Statistic, Status, SymbolMapping, Ticker, TradeCondition,
};
use tapedb_schema::Schema;

/// A format that can be read; the modules of this folder describe each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `us-equity-ticks`: trades and per-venue quotes of the US tape, zipped CSV, one symbol and day a file.
    UsEquityTicks,
    /// `fx-ticks`: FX quotes, zipped CSV of one symbol and day (FXCM, OANDA) or gzipped CSV (HistData).
    FxTicks,
    /// `binance-raw-ws`: recorded Binance WebSocket frames, gzip.
    BinanceRawWs,
    /// `dbn`: Databento's binary encoding.
    Dbn,
    /// `lobster`: orders of NASDAQ as LOBSTER rebuilds them, CSV, one symbol and day a file.
    Lobster,
    /// `futures-ticks`: trades and open interest of futures, zipped CSV, one product and day a file.
    FuturesTicks,
    /// `itch`: NASDAQ TotalView-ITCH 5.0, files of messages or captures.
    Itch,
    /// `iex`: IEX DEEP and TOPS, captures.
    Iex,
    /// `mdp3`: CME's MDP 3.0, captures.
    Mdp3,
    /// `tardis`: CSV of Tardis.dev.
    Tardis,
    /// `bybit-ob`: books of Bybit's archive, JSON lines.
    BybitOb,
    /// `coinbase-snapshot`: books of Coinbase, one JSON object a file.
    CoinbaseSnapshot,
    /// `capture`: frames of crypto venues as they were received, with their times of receipt.
    Capture,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 13] = [
        Self::UsEquityTicks,
        Self::FxTicks,
        Self::BinanceRawWs,
        Self::Dbn,
        Self::Lobster,
        Self::FuturesTicks,
        Self::Itch,
        Self::Iex,
        Self::Mdp3,
        Self::Tardis,
        Self::BybitOb,
        Self::CoinbaseSnapshot,
        Self::Capture,
    ];

    /// The name, as in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::UsEquityTicks => "us-equity-ticks",
            Self::FxTicks => "fx-ticks",
            Self::BinanceRawWs => "binance-raw-ws",
            Self::Dbn => "dbn",
            Self::Lobster => "lobster",
            Self::FuturesTicks => "futures-ticks",
            Self::Itch => "itch",
            Self::Iex => "iex",
            Self::Mdp3 => "mdp3",
            Self::Tardis => "tardis",
            Self::BybitOb => "bybit-ob",
            Self::CoinbaseSnapshot => "coinbase-snapshot",
            Self::Capture => "capture",
        }
    }

    /// The record types of the format's messages. A stream for them has all of these.
    pub fn schema(self) -> Schema {
        let records = SchemaBuilder::new();
        match self {
            Self::UsEquityTicks | Self::FxTicks => records.with::<Package>().finish(),
            Self::Lobster => records.with::<Order>().with::<Status>().finish(),
            Self::FuturesTicks => records.with::<Package>().with::<Statistic>().finish(),
            Self::BinanceRawWs => {
                let records = records.with::<Package>().with::<MarkPrice>().with::<TradeCondition>();
                records.with::<MarketByPrice>().finish()
            }
            Self::Itch => {
                let records = records.with::<Order>().with::<Definition>().with::<Status>();
                let records = records.with::<Statistic>().with::<Imbalance>().with::<Notice>();
                records.with::<Gap>().finish()
            }
            Self::Mdp3 => {
                let records = records.with::<Order>().with::<MarketByPrice>().with::<Definition>();
                let records = records.with::<Status>().with::<Statistic>().with::<Notice>();
                records.with::<Gap>().finish()
            }
            Self::Iex => {
                let records = records.with::<MarketByPrice>().with::<Definition>().with::<Status>();
                let records = records.with::<Statistic>().with::<Imbalance>().with::<Notice>();
                records.with::<Gap>().finish()
            }
            Self::BybitOb => records.with::<Package>().with::<MarketByPrice>().with::<Gap>().finish(),
            Self::Tardis => {
                let records = records.with::<Package>().with::<MarketByPrice>().with::<Gap>();
                records.with::<Ticker>().with::<Liquidation>().finish()
            }
            Self::CoinbaseSnapshot => records.with::<Package>().with::<Order>().finish(),
            Self::Capture => {
                let records = records.with::<Package>().with::<MarketByPrice>().with::<TradeCondition>();
                let records = records.with::<Ticker>().with::<IntervalBar>().with::<MarkPrice>();
                let records = records.with::<Gap>().with::<Notice>();
                records.with::<Order>().with::<Liquidation>().finish()
            }
            Self::Dbn => {
                let records = records.with::<Order>().with::<MarketByPrice>().with::<IntervalBar>();
                let records = records.with::<Definition>().with::<Status>().with::<Statistic>();
                records.with::<Imbalance>().with::<SymbolMapping>().with::<Notice>().finish()
            }
        }
    }

    /// How files of the format are named and built.
    pub fn looked_for(self) -> &'static str {
        match self {
            Self::UsEquityTicks => algoseek::LOOKED_FOR,
            Self::FxTicks => fx::LOOKED_FOR,
            Self::BinanceRawWs => binance::LOOKED_FOR,
            Self::Dbn => databento::LOOKED_FOR,
            Self::Lobster => lobster::LOOKED_FOR,
            Self::FuturesTicks => futures::LOOKED_FOR,
            Self::Itch => nasdaq::LOOKED_FOR,
            Self::Iex => iex::LOOKED_FOR,
            Self::Mdp3 => cme::LOOKED_FOR,
            Self::Tardis => tardis::LOOKED_FOR,
            Self::BybitOb => bybit::LOOKED_FOR,
            Self::CoinbaseSnapshot => coinbase::snapshot::LOOKED_FOR,
            Self::Capture => capture::LOOKED_FOR,
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
