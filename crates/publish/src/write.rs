//! Writes rows as Parquet files: one or more for each partition, by symbol, time and sequence number.

use crate::bounds::metrics;
use crate::columns::{Columns, Ids, Type};
use crate::error::{Error, check_interrupt};
use crate::files::{NewFile, folder};
use crate::flatten::rows_of;
use crate::place::Place;
use crate::rows::{Partition, Rows};
use crate::settings::Options;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use std::sync::Arc;

/// Symbols of a row group for which its Bloom filter has one wrong answer in a hundred.
const SYMBOLS_EXPECTED: u64 = 10_000;

/// Rows between two looks at the size of a file.
const WRITE_ROWS: usize = 16_384;

/// Bytes of a row group after which the next one begins, where rows are large.
const ROW_GROUP_BYTES_MAX: usize = 256 << 20;

/// How the files of a table are written.
#[derive(Debug)]
pub(crate) struct Writer {
    pub columns: Columns,
    ids: Vec<Ids>,
    schema: SchemaRef,
    place: Place,
    /// The folder of the table's files, without a slash at its end.
    location: String,
    options: Options,
    /// Distinguishes the files of this commit from all others.
    commit: String,
    next: usize,
    files: Vec<NewFile>,
}

impl Writer {
    /// Writes files below a folder of the table, called after the commit.
    pub fn new(
        columns: Columns,
        ids: Vec<Ids>,
        (place, location): (Place, &str),
        options: &Options,
        commit: &str,
    ) -> Self {
        let schema = Arc::new(columns.arrow_schema(&ids));
        let location = location.trim_end_matches('/').to_string();
        let (options, commit) = (options.clone(), commit.to_string());
        Self { columns, ids, schema, place, location, options, commit, next: 0, files: Vec::new() }
    }

    /// Writes all rows, and forgets them.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&mut self, rows: &mut Rows) -> Result<(), Error> {
        let with_spaces = self.columns.with_spaces;
        let mut sorted = rows.take(with_spaces);
        while let Some((partition, mut pieces)) = sorted.next() {
            let mut file: Option<Open> = None;
            while let Some(source) = sorted.chunk(&mut pieces)? {
                check_interrupt()?;
                let batch = rows_of(&self.columns, &source, &self.schema)?;
                for first in (0..batch.num_rows()).step_by(WRITE_ROWS) {
                    let count = WRITE_ROWS.min(batch.num_rows() - first);
                    let open = match &mut file {
                        Some(open) => open,
                        None => file.insert(self.open(partition)?),
                    };
                    open.writer.write(&batch.slice(first, count))?;
                    open.rows += count as u64;
                    if open.writer.memory_size() >= ROW_GROUP_BYTES_MAX {
                        open.writer.flush()?;
                    }
                    let bytes = open.writer.bytes_written() + open.writer.in_progress_size();
                    if bytes as u64 >= self.options.file_bytes
                        && let Some(open) = file.take()
                    {
                        self.finish(open)?;
                    }
                }
            }
            if let Some(open) = file {
                self.finish(open)?;
            }
        }
        Ok(())
    }

    /// The files that have been written since the last call.
    pub fn files(&mut self) -> Vec<NewFile> {
        std::mem::take(&mut self.files)
    }

    /// Rows of these files.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// Removes files, which nothing names.
    pub fn discard(&mut self) {
        for file in std::mem::take(&mut self.files) {
            self.place.remove(&file.url);
        }
    }

    fn open(&mut self, partition: Partition) -> Result<Open, Error> {
        let folder = folder(partition, self.options.symbol_buckets > 0);
        let url = format!("{}/{folder}/{}-{:05}.parquet", self.location, self.commit, self.next);
        self.next += 1;
        let draft = self.place.draft(&url)?;
        // Without Arrow's own schema: engines would take its dictionaries for the types of the table.
        let options =
            ArrowWriterOptions::new().with_properties(self.properties()?).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(draft, self.schema.clone(), options)?;
        Ok(Open { url, partition, writer, rows: 0 })
    }

    fn finish(&mut self, open: Open) -> Result<(), Error> {
        let Open { url, partition, mut writer, rows } = open;
        let metadata = writer.finish()?;
        let bytes = writer.bytes_written() as u64;
        writer.inner_mut().finish()?;
        let metrics = metrics(&metadata, &self.columns.columns, &self.ids);
        self.files.push(NewFile { url, partition, rows, bytes, metrics });
        Ok(())
    }

    fn properties(&self) -> Result<WriterProperties, Error> {
        let path = |index: usize| {
            ColumnPath::from(self.columns.columns.get(index).map_or("", |column| &*column.name))
        };
        let [time, nanos, symbol, sequence] = [0, 1, 2, 3].map(path);
        let sorting =
            [2, 1, 3].map(|column_idx| SortingColumn { column_idx, descending: false, nulls_first: false });
        let mut builder = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(self.options.zstd_level)?))
            .set_max_row_group_row_count(Some(self.options.row_group_rows))
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_created_by(format!("TapeDB {}", env!("CARGO_PKG_VERSION")))
            .set_column_bloom_filter_enabled(symbol.clone(), true)
            .set_column_bloom_filter_max_ndv(symbol, SYMBOLS_EXPECTED);
        if self.columns.flattened.is_none() {
            builder = builder.set_sorting_columns(Some(sorting.to_vec()));
        }
        // Neighbouring rows are of one symbol: its times and numbers grow, and its prices hardly change.
        let close = |ty: &Type| matches!(ty, Type::Decimal(precision, _) if *precision <= 18);
        let decimals = self.columns.columns.iter().filter(|column| close(&column.ty));
        let decimals = decimals.map(|column| ColumnPath::from(&*column.name));
        for column in [time, nanos, sequence].into_iter().chain(decimals) {
            builder = builder
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
        Ok(builder.build())
    }
}

/// A file that is being written.
struct Open {
    url: String,
    partition: Partition,
    writer: ArrowWriter<crate::place::Draft>,
    rows: u64,
}
