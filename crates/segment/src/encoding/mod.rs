//! Encodings of one column of one block.
//!
//! A column of a block is up to [`COUNT_MAX`] values. Rows of one symbol lie together in a *run*, in order of time;
//! `runs` gives the end of each run, ascending, the last one equal to the number of values (an empty slice means one
//! run). Differences are taken within a run only, so the jump from one symbol's prices to the next costs nothing.
//!
//! Encoders choose by the data; the choice is stored in the bytes. Decoders never panic on any bytes,
//! never allocate more than the caller's `count`, and report where they stopped ([`EncodingError`]).

mod bits;
mod bytes;
mod cold;
mod cold_sample;
mod delta;
mod dictionary;
mod error;
mod floats;
mod former;
mod groups;
mod habit;
mod ints;
mod lag;
mod packed;
mod run_length;
mod runs;
mod scaled;
mod split;
mod strings;
mod strip;
mod strips;

pub use bits::{decode_bits, encode_bits};
pub use error::EncodingError;
pub use floats::{Float, FloatEncoding, FloatHabit, decode_floats, encode_floats, encode_floats_again};
pub(crate) use former::misread;
pub(crate) use groups::{GROUP, bounds};
pub use habit::Habit;
#[cfg(any(test, feature = "trials"))]
pub use ints::every_encoding;
pub use ints::{
    IntEncoding, decode_ints, decode_ints_against, decode_ints_in, encode_ints, encode_ints_again,
    encode_ints_against, estimate_bits, previous_in_run,
};
pub(crate) use ints::{decode_ints_at, estimate_difference_bits};
pub use strings::{StringEncoding, decode_strings, encode_strings};
pub(crate) use strip::{OFFSET_BITS, Strip};
pub(crate) use strips::Strips;

/// The most values that one column of one block may hold.
pub const COUNT_MAX: usize = 65_536;

/// How much reading speed may be given up for size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Tier {
    /// Encodings that decode at a billion values a second or so.
    #[default]
    Hot,
    /// Also those that decode ten times slower, where they are smaller.
    Cold,
}
