//! Brokers as sources and sinks: a real NATS server where one is at hand, and librdkafka's mock cluster with the feature `kafka`.

#[cfg(feature = "kafka")]
mod kafka;
mod killed;
mod nats;
mod support;
