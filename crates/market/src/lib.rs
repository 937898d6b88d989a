//! Market data in TapeDB: the common records, order books built from them, and seeded generators.
//!
//! * [`records`]: a [`Package`] of [`Entry`]s (trade, level-1 quote, level-2 snapshot and update) and [`Bar`]s.
//! * [`orders`]: an [`Order`] or [`MarketByPrice`] for each change, with what vendors report of it, and [`IntervalBar`]s.
//! * [`instruments`]: [`Definition`], [`Status`], [`Statistic`], [`Imbalance`], [`SymbolMapping`].
//! * [`tickers`]: a [`Ticker`] with best prices, last trade and figures of a day.
//! * [`events`]: [`Gap`], [`Liquidation`], [`Funding`], [`Notice`].
//! * [`book`]: a [`Book`] of one venue built from packages, on decimals; [`books`]: books on integers, by price and by order.
//! * [`BarBuilder`]: bars from trades or prices, by time, number, volume or turnover.
//! * [`feed`] and [`bars`]: endless, deterministic, realistic data for tests and benchmarks.
//!
//! This crate has no streams, no sockets and no clock of its own; it prints nothing.

mod bar_builder;
pub mod bars;
pub mod book;
pub mod books;
pub mod events;
pub mod feed;
pub mod instruments;
pub mod orders;
mod random;
pub mod records;
pub mod tickers;

pub use bar_builder::{BarBuilder, BarRule, BuiltBar, KEPT_MAX, vwap};
pub use book::Book;
pub use books::*;
pub use events::*;
pub use instruments::*;
pub use orders::*;
pub use records::*;
pub use tickers::*;
