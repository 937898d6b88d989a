//! Venues whose frames can be read.

use crate::binance::CaptureFrames;
use crate::frames::Frames;
use crate::okx::Dialect;
use crate::{
    bitfinex, bitmex, bitstamp, bybit, coinbase, deribit, gate, huobi, kraken, kraken_futures, kucoin, okx,
};

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
    /// Bybit, version 5: perpetual and dated futures, or a market that is not known.
    Bybit,
    /// Coinbase Exchange.
    Coinbase,
    /// Deribit, version 2.
    Deribit,
    /// Huobi.
    Huobi,
    /// Kraken, versions 1 and 2.
    Kraken,
    /// OKX, version 5.
    Okx,
    /// Binance, futures margined in coins.
    BinanceDelivery,
    /// Binance in the United States.
    BinanceUs,
    /// Gate.io, version 4.
    Gateio,
    /// Huobi, futures.
    HuobiDm,
    /// Huobi, perpetual futures.
    HuobiSwap,
    /// Kraken, futures.
    KrakenFutures,
    /// KuCoin.
    Kucoin,
    /// OKCoin, version 5.
    Okcoin,
    /// Bybit, version 5, spot.
    BybitSpot,
    /// Bybit, version 5, options.
    BybitOption,
}

impl Venue {
    /// All venues.
    pub const ALL: [Self; 22] = [
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
        Self::BinanceDelivery,
        Self::BinanceUs,
        Self::Gateio,
        Self::HuobiDm,
        Self::HuobiSwap,
        Self::KrakenFutures,
        Self::Kucoin,
        Self::Okcoin,
        Self::BybitSpot,
        Self::BybitOption,
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
            Self::BinanceDelivery => "BINANCE_DELIVERY",
            Self::BinanceUs => "BINANCE_US",
            Self::Gateio => "GATEIO",
            Self::HuobiDm => "HUOBI_DM",
            Self::HuobiSwap => "HUOBI_SWAP",
            Self::KrakenFutures => "KRAKEN_FUTURES",
            Self::Kucoin => "KUCOIN",
            Self::Okcoin => "OKCOIN",
            Self::BybitSpot => "BYBIT_SPOT",
            Self::BybitOption => "BYBIT_OPTION",
        }
    }

    /// The exchange of its messages.
    pub fn exchange(self) -> &'static str {
        match self {
            Self::BinanceFutures => "BINUSDM",
            Self::BinanceDelivery => "BINCOINM",
            Self::BinanceUs => "BINUS",
            Self::HuobiDm => "HUOBIDM",
            Self::HuobiSwap => "HUOBISWP",
            Self::KrakenFutures => "KRAKENFU",
            Self::BybitSpot => "BYBITSPT",
            Self::BybitOption => "BYBITOPT",
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
            "dstream.binance.com" | "dapi.binance.com" => return Some(Self::BinanceDelivery),
            "futures.kraken.com" => return Some(Self::KrakenFutures),
            // One address for several markets, with different paths.
            _ if of("bybit.com") && rest.contains("/v5/public/spot") => return Some(Self::BybitSpot),
            _ if of("bybit.com") && rest.contains("/v5/public/option") => return Some(Self::BybitOption),
            "api.hbdm.com" if rest.contains("swap") => return Some(Self::HuobiSwap),
            "stream.binance.com" | "data-stream.binance.vision" | "api.binance.com" => {
                return Some(Self::Binance);
            }
            _ => {}
        }
        let domains = [
            ("binance.us", Self::BinanceUs),
            ("bitfinex.com", Self::Bitfinex),
            ("bitget.com", Self::Bitget),
            ("bitmex.com", Self::Bitmex),
            ("bitstamp.net", Self::Bitstamp),
            ("bybit.com", Self::Bybit),
            ("coinbase.com", Self::Coinbase),
            ("deribit.com", Self::Deribit),
            ("cryptofacilities.com", Self::KrakenFutures),
            ("gate.io", Self::Gateio),
            ("gateio.ws", Self::Gateio),
            ("hbdm.com", Self::HuobiDm),
            ("htx.com", Self::Huobi),
            ("huobi.pro", Self::Huobi),
            ("kraken.com", Self::Kraken),
            ("kucoin.com", Self::Kucoin),
            ("okcoin.com", Self::Okcoin),
            ("okex.com", Self::Okx),
            ("okx.com", Self::Okx),
        ];
        domains.into_iter().find(|(domain, _)| of(domain)).map(|(_, venue)| venue)
    }

    /// Whether it is a market of this venue, of which both have the same frames.
    pub(crate) fn is_market_of(self, venue: Self) -> bool {
        venue == Self::Bybit && matches!(self, Self::BybitSpot | Self::BybitOption)
    }

    /// What reads its frames.
    pub(crate) fn frames(self) -> Box<dyn Frames> {
        match self {
            Self::Binance | Self::BinanceFutures | Self::BinanceDelivery | Self::BinanceUs => {
                Box::new(CaptureFrames::new(self.exchange()))
            }
            Self::Bitfinex => Box::new(bitfinex::Parser::default()),
            Self::Bitget => Box::new(okx::Parser::new(Dialect::Bitget)),
            Self::Bitmex => Box::new(bitmex::Parser::default()),
            Self::Bitstamp => Box::new(bitstamp::Parser),
            Self::Bybit | Self::BybitSpot | Self::BybitOption => Box::new(bybit::Parser::default()),
            Self::Coinbase => Box::new(coinbase::Parser::default()),
            Self::Deribit => Box::new(deribit::Parser::default()),
            Self::Gateio => Box::new(gate::Parser::default()),
            Self::Huobi | Self::HuobiDm | Self::HuobiSwap => Box::new(huobi::Parser),
            Self::Kraken => Box::new(kraken::Parser::default()),
            Self::KrakenFutures => Box::new(kraken_futures::Parser::default()),
            Self::Kucoin => Box::new(kucoin::Parser::default()),
            Self::Okx => Box::new(okx::Parser::new(Dialect::Okx)),
            Self::Okcoin => Box::new(okx::Parser::new(Dialect::Okcoin)),
        }
    }
}
