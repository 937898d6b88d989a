//! Record batches out of streams, and back.

mod appending;
mod memory;
mod python;
mod reading;
mod round_trip;
mod support;
