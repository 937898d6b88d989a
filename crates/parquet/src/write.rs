//! Writes a file.
//!
//! Invariant: a file has its name only when it is whole and on the disk. Until then it is `NAME.part`, locked by its writer.

use crate::empty;
use crate::error::Error;
use crate::origin::Origin;
use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Bytes of a row group after which the next one begins, so that memory is bounded when rows are large.
const ROW_GROUP_BYTES_MAX: usize = 256 << 20;

/// Rows between two looks at the size of a row group.
const WRITE_ROWS: usize = 8192;

/// Different symbols for which a Bloom filter has one wrong answer in a hundred.
const SYMBOLS_EXPECTED: u64 = 10_000;

/// How a file is written.
#[derive(Debug, Clone, Copy)]
pub struct WriteOptions {
    /// Most rows of a row group.
    pub row_group_rows: usize,
    /// Level of zstd, 1 to 22.
    pub zstd_level: i32,
}

impl Default for WriteOptions {
    /// Row groups of 1,048,576 rows, zstd at level 3.
    fn default() -> Self {
        Self { row_group_rows: 1 << 20, zstd_level: 3 }
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Rows.
    pub rows: u64,
    /// Row groups.
    pub row_groups: usize,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Writes record batches of one schema into a new file.
#[derive(Debug)]
pub struct FileWriter {
    path: PathBuf,
    part: Part,
    writer: ArrowWriter<BufWriter<File>>,
    schema: SchemaRef,
    rows: u64,
}

/// The file while it is written; removed unless it becomes whole.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    /// Holds the lock.
    file: File,
    is_whole: bool,
}

impl FileWriter {
    /// Begins a file of batches of this schema, whose first column is the time.
    ///
    /// # Errors
    /// When another process writes the same file, or it cannot be created.
    pub fn create(
        path: &Path,
        schema: &Schema,
        origin: &Origin,
        options: &WriteOptions,
    ) -> Result<Self, Error> {
        let part = Part::create(path)?;
        let schema = empty::filled_schema(schema);
        let wrong = |error: &dyn std::fmt::Display| Error::new(path, error);
        let properties = properties(&schema, origin, options).map_err(|error| wrong(&error))?;
        let file = part.file.try_clone().map_err(|error| wrong(&error))?;
        let writer = ArrowWriter::try_new(BufWriter::new(file), schema.clone(), Some(properties));
        let writer = writer.map_err(|error| wrong(&error))?;
        Ok(Self { path: path.into(), part, writer, schema, rows: 0 })
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// When the disk is full, or the batch has another schema.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let wrong = |error: &dyn std::fmt::Display| Error::new(&self.path, error);
        let batch = empty::filled(batch, &self.schema).map_err(|error| wrong(&error))?;
        for first in (0..batch.num_rows()).step_by(WRITE_ROWS) {
            let rows = WRITE_ROWS.min(batch.num_rows() - first);
            self.writer.write(&batch.slice(first, rows)).map_err(|error| wrong(&error))?;
            if self.writer.memory_size() >= ROW_GROUP_BYTES_MAX {
                self.writer.flush().map_err(|error| wrong(&error))?;
            }
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Ends the file, syncs it, and gives it its name.
    ///
    /// # Errors
    /// When it cannot be written or named.
    pub fn finish(mut self) -> Result<Written, Error> {
        let wrong = |error: &dyn std::fmt::Display| Error::new(&self.path, error);
        let metadata = self.writer.finish().map_err(|error| wrong(&error))?;
        let bytes = self.writer.bytes_written() as u64;
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let named = self.part.file.sync_all().and_then(|()| fs::rename(&self.part.path, &self.path));
        named.and_then(|()| File::open(directory)?.sync_all()).map_err(|error| wrong(&error))?;
        self.part.is_whole = true;
        Ok(Written { rows: self.rows, row_groups: metadata.num_row_groups(), bytes })
    }
}

impl Part {
    /// A new file, in place of one that an interrupted writer has left.
    fn create(whole: &Path) -> Result<Self, Error> {
        let mut path = whole.as_os_str().to_owned();
        path.push(".part");
        let path = PathBuf::from(path);
        let cannot = |error: &dyn std::fmt::Display| Error::new(&path, format!("cannot create: {error}"));
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(|error| cannot(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(cannot(&"another process writes it")),
            Err(TryLockError::Error(error)) => return Err(cannot(&error)),
        }
        file.set_len(0).map_err(|error| cannot(&error))?;
        Ok(Self { path: path.clone(), file, is_whole: false })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_whole {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn properties(
    schema: &Schema,
    origin: &Origin,
    options: &WriteOptions,
) -> parquet::errors::Result<WriterProperties> {
    // The header's columns come first. Their names are those of no field.
    let column = |index: usize| ColumnPath::from(schema.fields().get(index).map_or("", |field| field.name()));
    let [time, symbol, sequence] = [0, 1, 2].map(column);
    let sorting = SortingColumn { column_idx: 0, descending: false, nulls_first: false };
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(options.zstd_level)?))
        .set_max_row_group_row_count(Some(options.row_group_rows))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_sorting_columns(Some(vec![sorting]))
        .set_key_value_metadata(Some(origin.entries()))
        .set_created_by(format!("TapeDB {}", env!("CARGO_PKG_VERSION")))
        .set_column_bloom_filter_enabled(symbol.clone(), true)
        .set_column_bloom_filter_max_ndv(symbol, SYMBOLS_EXPECTED);
    // Times and sequence numbers grow, and are hardly ever the same.
    for column in std::iter::once(time).chain(origin.sequences.then_some(sequence)) {
        builder = builder
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    Ok(builder.build())
}
