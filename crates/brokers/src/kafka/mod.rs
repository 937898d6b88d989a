//! Kafka: topics as sources and sinks.
//!
//! `import` reads partitions from the offsets that the stream has, without a consumer group; `export` writes in transactions that carry
//! how far it is.

#[cfg(feature = "kafka")]
mod client;
#[cfg(feature = "kafka")]
mod export;
#[cfg(feature = "kafka")]
mod import;
#[cfg(feature = "kafka")]
mod position;
// Its tests need no librdkafka, so they run without the feature too.
mod settings;

#[cfg(feature = "kafka")]
pub use export::{ExportOptions, export, export_status};
#[cfg(feature = "kafka")]
pub use import::{ImportOptions, import, import_status};
pub use settings::Settings;
