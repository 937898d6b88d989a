//! The targets, one file each.

pub mod arrow_ipc;
pub mod batch;
pub mod batch_columns;
pub mod captures;
pub mod compiled_row;
pub mod dbn;
pub mod evolve;
pub mod frames;
pub mod ilp;
pub mod importers;
pub mod itch;
pub mod json_text;
pub mod kdb;
pub mod log_file;
pub mod log_recovery;
pub mod objects;
pub mod parquet;
pub mod pg_wire;
pub mod row_layout;
pub mod schema_text;
pub mod segment_columns;
pub mod segment_file;
pub mod segment_values;
pub mod symbols_file;
pub mod tables;
pub mod wire;
