//! Replays: the same messages in the same order at every speed and into every target, whatever commands come while they run.

mod commands;
mod edges;
mod place;
mod targets;
