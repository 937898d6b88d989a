//! `tapedb kafka` and `tapedb nats`: brokers as sources and sinks of streams.

#[cfg_attr(not(feature = "kafka"), path = "no_kafka.rs")]
pub mod kafka;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(any(feature = "kafka", feature = "nats"))]
mod shared;
