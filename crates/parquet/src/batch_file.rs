//! A file of record batches, of either format.

use crate::error::Error;
use crate::file::{Batches, ParquetFile};
use crate::ipc_file::{IpcBatches, IpcFile};
use crate::origin::Origin;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::path::Path;

/// A file of record batches.
#[derive(Debug, Clone)]
pub enum BatchFile {
    /// A Parquet file.
    Parquet(ParquetFile),
    /// An Arrow IPC stream or file.
    Ipc(IpcFile),
}

impl From<ParquetFile> for BatchFile {
    fn from(file: ParquetFile) -> Self {
        Self::Parquet(file)
    }
}

impl From<IpcFile> for BatchFile {
    fn from(file: IpcFile) -> Self {
        Self::Ipc(file)
    }
}

impl BatchFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        match self {
            Self::Parquet(file) => file.path(),
            Self::Ipc(file) => file.path(),
        }
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        match self {
            Self::Parquet(file) => file.schema(),
            Self::Ipc(file) => file.schema(),
        }
    }

    /// The stream that it was exported from; `None`: it comes from elsewhere.
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Parquet(file) => file.origin(),
            Self::Ipc(file) => file.origin(),
        }
    }

    /// How much there is to read, in the units of [`Merge::advance`](crate::Merge::advance): rows of Parquet, bytes of Arrow.
    pub fn length(&self) -> u64 {
        match self {
            Self::Parquet(file) => file.rows(),
            Self::Ipc(file) => file.bytes(),
        }
    }

    pub(crate) fn open_rows(&self) -> Result<OpenFile, Error> {
        Ok(match self {
            Self::Parquet(file) => OpenFile::Parquet(file.batches()?),
            Self::Ipc(file) => OpenFile::Ipc(file.batches()?),
        })
    }
}

/// The rows of a file that is open.
#[derive(Debug)]
pub(crate) enum OpenFile {
    Parquet(Batches),
    Ipc(IpcBatches),
}

impl OpenFile {
    /// The next batch that has rows, and how much of the file was read for it, in the units of [`BatchFile::length`].
    pub(crate) fn next(&mut self) -> Result<Option<(RecordBatch, u64)>, Error> {
        let has_rows =
            |batch: &Result<RecordBatch, Error>| batch.as_ref().map_or(true, |batch| batch.num_rows() > 0);
        match self {
            Self::Parquet(batches) => {
                let batch = batches.find(has_rows).transpose()?;
                Ok(batch.map(|batch| {
                    let rows = batch.num_rows() as u64;
                    (batch, rows)
                }))
            }
            Self::Ipc(batches) => {
                let before = batches.bytes();
                let batch = batches.find(has_rows).transpose()?;
                Ok(batch.map(|batch| (batch, batches.bytes() - before)))
            }
        }
    }
}
