//! Streams as Parquet files, and files of Parquet and of Arrow IPC as messages.
//!
//! A file has the messages of one record type. [`FileWriter`] writes record batches: row groups in time order, with statistics, a
//! Bloom filter on the symbol, compressed with zstd, and with the stream's name and schema ([`Origin`]), under another name
//! until it is whole. [`ParquetFile`] reads such files and those of others, [`IpcFile`] the same as Arrow IPC; [`Merge`] gives the rows of several
//! files in time order as encoded messages; [`infer`] makes a schema for files that have none.
//!
//! Files of others may hold anything: damage is an error. Memory is bounded by a few pages of each column of the files that are
//! read at the same time; of Arrow by a batch of each.

mod batch_file;
mod delta;
mod empty;
mod error;
mod expand;
mod file;
mod footer;
pub mod infer;
mod ipc_file;
mod merge;
mod origin;
mod pages;
mod reading;
mod thrift;
mod views;
mod write;

pub use batch_file::BatchFile;
pub use error::Error;
pub use file::{Batches, ParquetFile};
pub use ipc_file::{IpcBatches, IpcFile};
pub use merge::{Merge, MergedRow, Source};
pub use origin::Origin;
pub use write::{FileWriter, WriteOptions, Written};
