//! Opens a file, and reads its rows as record batches.

use crate::error::Error;
use crate::origin::Origin;
use crate::{empty, footer, pages, reading, views};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef, TimeUnit};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::statistics::Statistics;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_arrow_ipc::guarded;

/// A file whose footer has been read. It is open only while rows are read.
#[derive(Debug, Clone)]
pub struct ParquetFile {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    origin: Option<Origin>,
    /// Whether texts are read as views.
    has_views: bool,
}

impl ParquetFile {
    /// Reads the footer.
    ///
    /// # Errors
    /// When it is no Parquet file, or damaged.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let wrong = |what: String| Error::new(path, what);
        let file = File::open(path).map_err(|error| wrong(format!("cannot open: {error}")))?;
        let footer = footer::read(&file).map_err(wrong)?;
        let read = guarded(|| {
            let metadata = Arc::new(ParquetMetaDataReader::decode_metadata(&footer)?);
            let plain = ArrowReaderMetadata::try_new(metadata.clone(), ArrowReaderOptions::new())?;
            let options = ArrowReaderOptions::new().with_schema(views::schema(plain.schema()));
            let viewed = ArrowReaderMetadata::try_new(metadata, options);
            Ok::<_, ParquetError>(viewed.map_or((plain, false), |viewed| (viewed, true)))
        });
        let (metadata, has_views) = read.map_err(damaged(path))?.map_err(damaged(path))?;
        let entries = metadata.metadata().file_metadata().key_value_metadata();
        let origin = entries.and_then(|entries| Origin::of(entries));
        Ok(Self { path: path.into(), metadata, origin, has_views })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// The stream that it was exported from; `None`: it comes from elsewhere.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Number of rows: those of all row groups, which are what is read, whatever the file states besides.
    pub fn rows(&self) -> u64 {
        let groups = self.metadata.metadata().row_groups().iter();
        let rows = groups.map(|group| u64::try_from(group.num_rows()).unwrap_or(0));
        rows.fold(0, u64::saturating_add)
    }

    /// The earliest value of a column of timestamps, in nanoseconds; `None`: the file does not state it.
    pub fn earliest(&self, column: &str) -> Option<i64> {
        let schema = self.schema();
        let (index, field) = schema.column_with_name(column)?;
        let DataType::Timestamp(unit, _) = field.data_type() else { return None };
        let factor = match unit {
            TimeUnit::Second => 1_000_000_000,
            TimeUnit::Millisecond => 1_000_000,
            TimeUnit::Microsecond => 1_000,
            TimeUnit::Nanosecond => 1,
        };
        // Columns with parts are several leaves.
        let is_flat = |field: &Arc<arrow_schema::Field>| !field.data_type().is_nested();
        if !schema.fields().iter().take(index).all(is_flat) {
            return None;
        }
        let groups = self.metadata.metadata().row_groups().iter();
        let least = groups.map(|group| match group.columns().get(index)?.statistics()? {
            Statistics::Int64(values) => values.min_opt()?.checked_mul(factor),
            _ => None,
        });
        least.collect::<Option<Vec<i64>>>()?.into_iter().min()
    }

    /// Opens the file to read its rows, after a look at what its pages state.
    ///
    /// # Errors
    /// When it cannot be opened, or its pages have more bytes or values than are read.
    pub fn batches(&self) -> Result<Batches, Error> {
        let file = File::open(&self.path).map_err(|error| Error::new(&self.path, error))?;
        let bounds = guarded(|| pages::check(&file, self.metadata.metadata())).and_then(|bounds| bounds);
        let bounds = bounds.map_err(damaged(&self.path))?;
        let rows = if self.has_views { bounds.rows_max } else { bounds.rows_of_whole_texts_max };
        let built = guarded(|| reading::rows(file, self.metadata.metadata(), self.metadata.schema(), rows));
        let reader = built.map_err(damaged(&self.path))?.map_err(damaged(&self.path))?;
        Ok(Batches { path: self.path.clone(), reader: Some(reader), rows: 0 })
    }
}

fn damaged<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> Error {
    move |error| Error::new(path, format!("it is damaged, or of a kind that is not supported: {error}"))
}

/// The rows of a file as record batches, in their order. After an error there is nothing more.
pub struct Batches {
    path: PathBuf,
    reader: Option<ParquetRecordBatchReader>,
    rows: u64,
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("path", &self.path).field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut reader = self.reader.take()?;
        let (path, rows) = (&self.path, self.rows);
        let failed = |error: &dyn std::fmt::Display| {
            Error::new(
                path,
                format!("behind row {rows} it is damaged, or of a kind that is not supported: {error}"),
            )
        };
        let read = guarded(move || {
            let batch = reader.next();
            (reader, batch)
        });
        let (reader, batch) = match read {
            Ok((reader, batch)) => (reader, batch?),
            Err(error) => return Some(Err(failed(&error))),
        };
        match batch.and_then(|batch| empty::emptied(&batch)) {
            Ok(batch) => {
                self.reader = Some(reader);
                self.rows += batch.num_rows() as u64;
                Some(Ok(batch))
            }
            Err(error) => Some(Err(failed(&error))),
        }
    }
}
