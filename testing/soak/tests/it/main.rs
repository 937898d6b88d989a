//! Generated types, and random messages through all codecs and back.

mod generated;
mod round_trip;
