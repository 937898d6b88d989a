//! Kafka: topics as sources and sinks.
//!
//! [`import`](import()) reads partitions from the offsets that the stream has, without a consumer group; [`export`](export()) writes in
//! transactions that carry how far it is.

mod client;
mod export;
mod import;
mod position;
mod settings;

pub use export::{ExportOptions, export, export_status};
pub use import::{ImportOptions, import, import_status};
pub use settings::Settings;
