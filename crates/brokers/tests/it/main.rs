//! Brokers as sources and sinks: a real NATS server where one is at hand.

mod killed;
mod nats;
mod support;
