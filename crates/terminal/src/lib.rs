//! What the commands and the benchmarks of TapeDB share: output, failures with exit codes, signals, quantities on command lines.
//!
//! Contains no command: `cli` and `bench` depend on it.

mod apart;
pub mod awake;
mod failure;
pub mod location;
pub mod quantity;
pub mod signals;
pub mod ui;

pub use apart::{Apart, Done};
pub use failure::Failure;
pub use ui::Ui;
