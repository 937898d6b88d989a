//! Columns as Arrow record batches, and record batches as messages.
//!
//! [`BatchReader`] reads messages of one record type as [`RecordBatch`](arrow_array::RecordBatch)es, without building
//! rows. [`BatchAppender`] appends the rows of a record batch to a stream: all of them, or none; [`RowEncoder`] is its half that
//! needs no stream. `docs/ARROW.md` has the table of types.
//!
//! This crate has no file, no IPC and no Parquet: it stands on `arrow-array`, `arrow-buffer` and `arrow-schema` alone.

mod append;
mod arrays;
mod cell;
mod decimals;
mod encode;
mod error;
mod header;
mod keys;
mod read;
mod schema_text;
mod slices;
mod tree;
mod types;
mod values;

pub use append::BatchAppender;
pub use encode::{AppendOptions, BatchColumns, EncodedRows, RowEncoder};
pub use error::Error;
pub use header::header_column;
pub use read::{BATCH_ROWS, BATCH_ROWS_MAX, BatchReader, ReadOptions, record_schema};
pub use schema_text::schema_text;
pub use types::{Decimals, TYPE_KEY};
