//! `tapedb nats`: a broker as source and sink of streams.

pub mod nats;
mod shared;
