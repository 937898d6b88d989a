//! What all rivals of topics in Rust share: the same records, timetable, checks and commands.
//!
//! A rival is a [`Medium`]; its `main` hands it to [`run`]. The programs in `../../java` do the same in Java.

#![deny(unsafe_code)]

mod latency;
mod medium;
mod probe;
mod program;
mod record;
mod stall;
mod throughput;
mod together;

pub use medium::{Failure, Medium, Publish, Subscribe};
pub use probe::round_trip_ns;
pub use program::{Settings, run};
