//! Market data in TapeDB: the common records, order books built from them, seeded generators, and
//! readers for real formats.
//!
//! * [`records`]: a [`Package`] of [`Entry`]s (trade, level-1 quote, level-2 snapshot and update) and [`Bar`]s.
//! * [`book`]: a [`Book`] of one venue built from packages.
//! * [`feed`] and [`bars`]: endless, deterministic, realistic data for tests and benchmarks.
//! * [`import`]: files of real venues and vendors as packages, one by one or merged by time.
//!
//! This crate has no streams, no sockets and no clock of its own; it prints nothing.

pub mod bars;
pub mod book;
pub mod feed;
pub mod import;
mod random;
pub mod records;

pub use book::Book;
pub use records::*;
