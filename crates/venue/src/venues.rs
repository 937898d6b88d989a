//! Venues whose frames can be read.

use crate::binance::CaptureFrames;
use crate::frames::Frames;
use crate::okx::Dialect;
use crate::{bitfinex, bitmex, bitstamp, bybit, coinbase, deribit, huobi, kraken, okx};

/// A venue whose frames can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Venue {
    /// Binance, spot.
    Binance,
    /// Binance, futures margined in USD.
    BinanceFutures,
    /// Bitfinex, version 2.
    Bitfinex,
    /// Bitget, version 1.
    Bitget,
    /// BitMEX.
    Bitmex,
    /// Bitstamp, version 2.
    Bitstamp,
    /// Bybit, version 5.
    Bybit,
    /// Coinbase Exchange.
    Coinbase,
    /// Deribit, version 2.
    Deribit,
    /// Huobi.
    Huobi,
    /// Kraken, version 1.
    Kraken,
    /// OKX, version 5.
    Okx,
}

impl Venue {
    /// All venues.
    pub const ALL: [Self; 12] = [
        Self::Binance,
        Self::BinanceFutures,
        Self::Bitfinex,
        Self::Bitget,
        Self::Bitmex,
        Self::Bitstamp,
        Self::Bybit,
        Self::Coinbase,
        Self::Deribit,
        Self::Huobi,
        Self::Kraken,
        Self::Okx,
    ];

    /// The name, as in names of captures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Binance => "BINANCE",
            Self::BinanceFutures => "BINANCE_FUTURES",
            Self::Bitfinex => "BITFINEX",
            Self::Bitget => "BITGET",
            Self::Bitmex => "BITMEX",
            Self::Bitstamp => "BITSTAMP",
            Self::Bybit => "BYBIT",
            Self::Coinbase => "COINBASE",
            Self::Deribit => "DERIBIT",
            Self::Huobi => "HUOBI",
            Self::Kraken => "KRAKEN",
            Self::Okx => "OKX",
        }
    }

    /// The exchange of its messages.
    pub fn exchange(self) -> &'static str {
        match self {
            Self::BinanceFutures => "BINUSDM",
            venue => venue.name(),
        }
    }

    /// The venue of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|venue| venue.name() == name)
    }

    /// The venue that an address is of.
    pub fn of_url(url: &str) -> Option<Self> {
        let rest = url.split_once("://")?.1;
        let host = rest.split(['/', '?', ':']).next()?;
        let of = |domain: &str| {
            host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
        };
        match host {
            "fstream.binance.com" | "fapi.binance.com" => return Some(Self::BinanceFutures),
            "stream.binance.com" | "api.binance.com" => return Some(Self::Binance),
            _ => {}
        }
        let domains = [
            ("bitfinex.com", Self::Bitfinex),
            ("bitget.com", Self::Bitget),
            ("bitmex.com", Self::Bitmex),
            ("bitstamp.net", Self::Bitstamp),
            ("bybit.com", Self::Bybit),
            ("coinbase.com", Self::Coinbase),
            ("deribit.com", Self::Deribit),
            ("huobi.pro", Self::Huobi),
            ("kraken.com", Self::Kraken),
            ("okx.com", Self::Okx),
        ];
        domains.into_iter().find(|(domain, _)| of(domain)).map(|(_, venue)| venue)
    }

    /// What reads its frames.
    pub(crate) fn frames(self) -> Box<dyn Frames> {
        match self {
            Self::Binance | Self::BinanceFutures => Box::new(CaptureFrames::new(self.exchange())),
            Self::Bitfinex => Box::new(bitfinex::Parser::default()),
            Self::Bitget => Box::new(okx::Parser::new(Dialect::Bitget)),
            Self::Bitmex => Box::new(bitmex::Parser::default()),
            Self::Bitstamp => Box::new(bitstamp::Parser),
            Self::Bybit => Box::new(bybit::Parser::default()),
            Self::Coinbase => Box::new(coinbase::Parser::default()),
            Self::Deribit => Box::new(deribit::Parser::default()),
            Self::Huobi => Box::new(huobi::Parser),
            Self::Kraken => Box::new(kraken::Parser::default()),
            Self::Okx => Box::new(okx::Parser::new(Dialect::Okx)),
        }
    }
}
