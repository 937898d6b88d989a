//! Market data as TapeDB knows it: the records everyone needs, order books built from them, seeded generators, and
//! readers for real formats.
//!
//! * [`records`]: a [`Package`] of [`Entry`]s (trade, level-1 quote, level-2 snapshot and update) and [`Bar`]s.
//! * [`book`]: a [`Book`] of one venue built from packages.
//! * [`feed`] and [`bars`]: endless, deterministic, realistic data for tests and benchmarks.
//! * [`import`]: files of real venues and vendors as packages, one by one or merged by time.
//!
//! This crate knows no stream, no socket and no clock of its own; it prints nothing.

pub mod bars;
pub mod book;
pub mod feed;
pub mod import;
mod random;
pub mod records;

pub use book::Book;
pub use records::*;
