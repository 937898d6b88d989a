//! Benchmarks through a server, as in TimeBase's studies: history for many consumers, pairs of producers and consumers at full
//! speed, and latency at a given rate. Server, producers and consumers are worker processes.

mod common;
pub mod floor;
pub mod jobs;
pub mod latency;
pub mod live;
mod percentiles;
pub mod read;
mod serving;
mod transport;

pub use percentiles::{Latencies, add_one, histogram, latencies, wait_until};
pub use serving::{Serving, socket_of};
pub use transport::Transport;
