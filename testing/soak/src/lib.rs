//! Random messages of fifty random schemas through the derives, the interpreter and JSON, and back.
//!
//! * [`generated`]: Rust types for the sample schemas of `tapedb-testing`, written by [`generate`].
//! * [`compiled`]: what those types do with bytes, as plain functions.
//! * [`Soak`]: the round trips.
//!
//! `tests/round_trip.rs` runs a bounded number of messages; the binary, `make soak`, 20 million and more.

pub mod compiled;
pub mod generate;
#[rustfmt::skip]
#[allow(missing_docs)]
pub mod generated;
mod soak;

pub use soak::{Counts, Soak};
