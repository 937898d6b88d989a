//! Tables of streams, read back file by file: exactly once, whatever happens.

mod content;
mod delta;
mod delta_log;
mod engines;
mod faults;
mod killed;
mod others;
mod repair;
mod support;
