//! The facts TapeDB stores: record types, their fields and enums, exact decimals, times and short texts.
//!
//! This crate knows no bytes of a row, no file and no clock. Everything above it agrees on the types defined here.

mod ascii;
mod check;
mod decimal64;
mod error;
mod fixed;
mod text;
mod time;
mod types;
mod unit;

pub use ascii::{Ascii, AsciiError, is_valid_ascii};
pub use decimal64::{Decimal64, DecimalError};
pub use error::SchemaError;
pub use fixed::Fixed;
pub use text::MAX_TEXT_BYTES;
pub use time::{TimeError, TimeOfDay, Timestamp};
pub use types::*;
pub use unit::TimeUnit;
