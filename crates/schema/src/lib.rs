//! The facts TapeDB stores: record types, their fields and enums, exact decimals, times and short texts.
//!
//! This crate has no row layout, no files and no clock. All layers above share the types defined here.

mod ascii;
mod check;
mod decimal64;
mod digits;
mod error;
mod fixed;
mod scalar;
mod text;
mod time;
mod time_text;
mod types;
mod unit;

pub use ascii::{Ascii, AsciiError, is_valid_ascii};
pub use decimal64::{Decimal64, DecimalError};
pub use digits::format_integer;
pub use error::SchemaError;
pub use fixed::Fixed;
pub use scalar::{MAX_ASCII, MAX_SCALE, Scalar};
pub use text::MAX_TEXT_BYTES;
pub use time::{TimeError, TimeOfDay, Timestamp};
pub use time_text::TimeText;
pub use types::*;
pub use unit::TimeUnit;

/// Bytes that hold the text of any decimal (sign, point and 25 digits), of any time (thirty bytes) and of any number (20 digits), and the
/// pieces of constant length in which they are written.
pub const TEXT_MAX: usize = 40;
