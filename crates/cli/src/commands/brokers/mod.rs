//! `tapedb nats` and `tapedb kafka`: brokers as sources and sinks of streams.

#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(feature = "nats")]
pub mod nats;
mod shared;
