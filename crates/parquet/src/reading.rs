//! Gives pages to the `parquet` crate, each after a look at what it holds.
//!
//! The crate makes room for as many values as a dictionary states, and for as many lengths of texts as their encoding states; and it
//! expands some pages without a limit ([`Expander`]). Here a page that has more than it states, or states more than it can have, is an
//! error that names its row group and column.

use crate::expand::Expander;
use crate::{delta, pages};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescriptor;
use std::fs::File;
use std::sync::Arc;

/// A reader of all rows of a file as record batches of at most so many rows, with the columns of `schema`.
///
/// # Errors
/// When the metadata contradicts itself, or the first pages cannot be read.
pub fn rows(
    file: File,
    metadata: &Arc<ParquetMetaData>,
    schema: &arrow_schema::Schema,
    rows_max: usize,
) -> Result<ParquetRecordBatchReader> {
    let columns = metadata.file_metadata().schema_descr();
    let levels: FieldLevels =
        parquet_to_arrow_field_levels(columns, ProjectionMask::all(), Some(schema.fields()))?;
    let chunks = Chunks { file: Arc::new(file), metadata: metadata.clone() };
    ParquetRecordBatchReader::try_new_with_row_groups(&levels, &chunks, rows_max, None)
}

/// The column chunks of all row groups.
struct Chunks {
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
}

impl RowGroups for Chunks {
    fn num_rows(&self) -> usize {
        let rows =
            self.metadata.row_groups().iter().map(|group| usize::try_from(group.num_rows()).unwrap_or(0));
        rows.fold(0, usize::saturating_add)
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        let (file, metadata) = (self.file.clone(), self.metadata.clone());
        Ok(Box::new(ChunksOfColumn { file, metadata, column, next: 0 }))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.metadata.row_groups().iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The chunks of one column, group by group.
struct ChunksOfColumn {
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
    column: usize,
    /// The next row group.
    next: usize,
}

impl Iterator for ChunksOfColumn {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = self.metadata.row_groups().get(self.next)?;
        let place = Place::of(self.next, group.column(self.column));
        self.next += 1;
        Some(self.open(group, place))
    }
}

impl PageIterator for ChunksOfColumn {}

impl ChunksOfColumn {
    fn open(&self, group: &RowGroupMetaData, place: Place) -> Result<Box<dyn PageReader>> {
        let column = group.column(self.column);
        let rows = usize::try_from(group.num_rows()).map_err(|_| place.error("a negative number of rows"))?;
        let open = |column: &ColumnChunkMetaData| {
            SerializedPageReader::new(self.file.clone(), column, rows, None)
                .map_err(|error| place.error(error))
        };
        let Some(expander) = Expander::of(column.compression_codec()) else {
            let pages = open(column)?;
            return Ok(Box::new(CheckedPages { pages, expanding: None, place }));
        };
        let sizes = pages::chunk(&self.file, column).map_err(|what| place.error(what))?.expanded_bytes;
        // The crate is to give pages as they are.
        let plain = column.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
        let pages = open(&plain)?;
        let expanding = Some((expander, sizes.into_iter()));
        Ok(Box::new(CheckedPages { pages, expanding, place }))
    }
}

/// Where pages are, for errors, and what column they are of.
struct Place {
    group: usize,
    column: Arc<ColumnDescriptor>,
}

impl Place {
    fn of(group: usize, column: &ColumnChunkMetaData) -> Self {
        Self { group, column: column.column_descr_ptr() }
    }

    fn error(&self, what: impl std::fmt::Display) -> ParquetError {
        let name = self.column.path().string();
        ParquetError::General(format!("row group {}, column {name:?}: {what}", self.group))
    }
}

/// The pages of a column chunk.
struct CheckedPages {
    pages: SerializedPageReader<File>,
    /// How pages are expanded here, and the bytes that each next one states.
    expanding: Option<(Expander, std::vec::IntoIter<usize>)>,
    place: Place,
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(mut page) = self.pages.get_next_page().map_err(|error| self.place.error(error))? else {
            return Ok(None);
        };
        if let Some((expander, sizes)) = &mut self.expanding {
            let size = sizes.next().ok_or_else(|| self.place.error("there are more pages than before"))?;
            page = expanded(page, *expander, size).map_err(|what| self.place.error(what))?;
        }
        check(&page, &self.place.column).map_err(|what| self.place.error(what))?;
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.expanding.as_mut().and_then(|(_, sizes)| sizes.next());
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

/// A page that has so many bytes when it is expanded. Of version 2, its levels are not compressed.
fn expanded(page: Page, expander: Expander, size: usize) -> std::result::Result<Page, String> {
    let expand = |bytes: &[u8], plain: usize| {
        let (levels, values) = bytes.split_at_checked(plain).ok_or("a page is shorter than its levels")?;
        let mut out = Vec::with_capacity(size);
        out.extend_from_slice(levels);
        let left = size.checked_sub(plain).ok_or("a page is shorter than its levels")?;
        // A page without values may have no bytes at all.
        if left > 0 {
            expander.expand(values, left, &mut out)?;
        }
        Ok::<_, String>(out.into())
    };
    Ok(match page {
        Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, statistics } => {
            Page::DataPage {
                buf: expand(&buf, 0)?,
                num_values,
                encoding,
                def_level_encoding,
                rep_level_encoding,
                statistics,
            }
        }
        Page::DataPageV2 {
            buf,
            num_values,
            encoding,
            num_nulls,
            num_rows,
            def_levels_byte_len,
            rep_levels_byte_len,
            is_compressed: true,
            statistics,
        } => Page::DataPageV2 {
            buf: expand(&buf, def_levels_byte_len as usize + rep_levels_byte_len as usize)?,
            num_values,
            encoding,
            num_nulls,
            num_rows,
            def_levels_byte_len,
            rep_levels_byte_len,
            is_compressed: true,
            statistics,
        },
        Page::DictionaryPage { buf, num_values, encoding, is_sorted } => {
            Page::DictionaryPage { buf: expand(&buf, 0)?, num_values, encoding, is_sorted }
        }
        plain @ Page::DataPageV2 { .. } => plain,
    })
}

fn check(page: &Page, column: &ColumnDescriptor) -> std::result::Result<(), String> {
    match page {
        Page::DictionaryPage { buf, num_values, .. } => check_dictionary(buf.len(), *num_values, column),
        Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, .. } => {
            if !are_differences(*encoding) {
                return Ok(());
            }
            let levels = [
                (column.max_rep_level(), *rep_level_encoding),
                (column.max_def_level(), *def_level_encoding),
            ];
            let values = levels.into_iter().try_fold(&buf[..], |bytes, (level_max, encoding)| {
                behind_levels(bytes, level_max, encoding, *num_values)
            });
            check_values(*encoding, values.ok_or("a page is shorter than its levels")?)
        }
        Page::DataPageV2 { buf, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
            if !are_differences(*encoding) {
                return Ok(());
            }
            let levels = *def_levels_byte_len as usize + *rep_levels_byte_len as usize;
            check_values(*encoding, buf.get(levels..).ok_or("a page is shorter than its levels")?)
        }
    }
}

/// Whether the lengths of texts are encoded as differences.
fn are_differences(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY)
}

fn check_values(encoding: Encoding, values: &[u8]) -> std::result::Result<(), String> {
    match encoding {
        // A page of nulls.
        _ if values.is_empty() => Ok(()),
        Encoding::DELTA_BYTE_ARRAY => delta::check_texts(values),
        _ => delta::check_lengths(values),
    }
}

/// What follows levels in a page of version 1; `None`: it is shorter.
#[expect(deprecated, reason = "old files have it")]
fn behind_levels(bytes: &[u8], level_max: i16, encoding: Encoding, values: u32) -> Option<&[u8]> {
    if level_max == 0 {
        return Some(bytes);
    }
    match encoding {
        Encoding::BIT_PACKED => {
            let width = u64::from(u16::BITS - level_max.unsigned_abs().leading_zeros());
            bytes.get(usize::try_from((u64::from(values) * width).div_ceil(8)).ok()?..)
        }
        _ => {
            let (length, rest) = bytes.split_first_chunk()?;
            rest.get(u32::from_le_bytes(*length) as usize..)
        }
    }
}

/// Values of a dictionary stand one after the other, none in less than its type takes.
fn check_dictionary(bytes: usize, values: u32, column: &ColumnDescriptor) -> std::result::Result<(), String> {
    let width = match column.physical_type() {
        Type::BOOLEAN => return Err("a dictionary of bools".into()),
        Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(column.type_length()).unwrap_or(0).max(1),
    };
    match u64::from(values) * width > bytes as u64 {
        true => Err(format!("a dictionary states {values} values, and has {bytes} bytes")),
        false => Ok(()),
    }
}
