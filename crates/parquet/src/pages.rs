//! Looks at what the pages of a file state before they are read.
//!
//! A page states how long it is when it is expanded, and how many values it has. Few bytes may stand for gigabytes: zeros that are
//! compressed, or one value that all rows share. The `parquet` crate takes both as they are; [`check`] bounds them, and says how
//! many rows may be read at once. That pages are no longer than they state is seen when they are [read](crate::reading).

use crate::thrift::{I32, STRUCT, Walk};
use parquet::basic::Type;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Most bytes of a page when it is expanded. Most writers make pages of 1 MiB.
const PAGE_BYTES_MAX: i64 = 256 << 20;

/// Most bytes of the largest pages of all columns together: those of one row group are open at the same time.
const PAGES_BYTES_MAX: i64 = 2 << 30;

/// Most values of a column in a row group, where rows have several.
const VALUES_MAX: i64 = 256 << 20;

/// Longest values of a fixed length: those of messages are not longer.
const FIXED_BYTES_MAX: i32 = 4 << 20;

/// Rows that are read at once, at most: their values fit into the processor's cache.
const ROWS_MAX: i64 = 8192;

/// Bytes that such rows have at most, as far as the pages state it.
const ROWS_BYTES_MAX: i64 = 64 << 20;

/// Rows of a batch where texts are not views, so that rows that share a text have it each.
const WHOLE_TEXTS_ROWS: i64 = 64;

/// Bytes of a text among values: it lies in its page.
const TEXT_BYTES: i64 = 16;

/// Bytes of a page's header that are read at first, and at most.
const HEADER_BYTES: usize = 64 << 10;
const HEADER_BYTES_MAX: usize = 16 << 20;

/// Kind of a page that is of no column: it is skipped when pages are read.
const INDEX: i32 = 1;

/// Kind of a dictionary.
const DICTIONARY: i32 = 2;

/// What the header of a page states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Page {
    kind: i32,
    header_bytes: u64,
    expanded_bytes: i32,
    bytes: i32,
    values: i32,
}

/// What the pages of a column chunk state.
#[derive(Debug, Clone, Default)]
pub struct Chunk {
    largest_page: i64,
    /// Of data, not of a dictionary.
    values: i64,
    /// Bytes of each page when it is expanded, in order.
    pub expanded_bytes: Vec<usize>,
}

/// How rows are read so that they take bounded memory.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Rows that may be read at once.
    pub rows_max: usize,
    /// The same where rows that share a text have it each.
    pub rows_of_whole_texts_max: usize,
}

/// Checks the pages of all columns.
///
/// # Errors
/// What is larger than it may be, or damaged.
pub fn check(file: &File, metadata: &ParquetMetaData) -> Result<Bounds, String> {
    let (mut rows_max, mut page_max) = (ROWS_MAX, 1);
    for (number, group) in metadata.row_groups().iter().enumerate() {
        let (mut pages_bytes, mut row_bytes) = (0, 0);
        for column in group.columns() {
            let name = column.column_path().string();
            let place = |what: String| format!("row group {number}, column {name:?}: {what}");
            let chunk = chunk(file, column).map_err(place)?;
            pages_bytes += chunk.largest_page;
            page_max = page_max.max(chunk.largest_page);
            row_bytes += bytes_of_row(group, column, &chunk).map_err(place)?;
        }
        if pages_bytes > PAGES_BYTES_MAX {
            return Err(format!(
                "the largest pages of all columns of row group {number} have {pages_bytes} bytes when they are expanded; the limit is \
                 {PAGES_BYTES_MAX}: write smaller pages"
            ));
        }
        rows_max = rows_max.min(ROWS_BYTES_MAX / row_bytes.max(1));
    }
    let rows_of_whole_texts_max = rows_max.min(WHOLE_TEXTS_ROWS).min(ROWS_BYTES_MAX / page_max);
    Ok(Bounds {
        rows_max: rows_max.max(1) as usize,
        rows_of_whole_texts_max: rows_of_whole_texts_max.max(1) as usize,
    })
}

/// What the pages of a column chunk state.
///
/// # Errors
/// What is larger than it may be, or damaged.
pub fn chunk(file: &File, column: &ColumnChunkMetaData) -> Result<Chunk, String> {
    walk(file, range(column)?)
}

/// Bytes that the values of a row take in memory, on average.
fn bytes_of_row(
    group: &RowGroupMetaData,
    column: &ColumnChunkMetaData,
    chunk: &Chunk,
) -> Result<i64, String> {
    let value_bytes = match column.column_type() {
        Type::BYTE_ARRAY => TEXT_BYTES,
        Type::INT96 | Type::INT64 | Type::DOUBLE => 8,
        Type::FIXED_LEN_BYTE_ARRAY => match column.column_descr().type_length() {
            length @ 0..=FIXED_BYTES_MAX => i64::from(length).max(16),
            length => return Err(format!("values of {length} bytes; the limit is {FIXED_BYTES_MAX}")),
        },
        _ => 4,
    };
    // Where each row has one value at most, readers take as many as there are rows.
    if column.column_descr().max_rep_level() == 0 {
        return Ok(value_bytes);
    }
    let values = chunk.values.max(column.num_values());
    if values > VALUES_MAX {
        return Err(format!("{values} values in lists; the limit is {VALUES_MAX}: write smaller row groups"));
    }
    Ok((values / group.num_rows().max(1) + 1) * value_bytes)
}

/// Where the pages of a column chunk are.
fn range(column: &ColumnChunkMetaData) -> Result<Range<u64>, String> {
    let begin = match column.dictionary_page_offset() {
        Some(dictionary) if dictionary > 0 => dictionary.min(column.data_page_offset()),
        _ => column.data_page_offset(),
    };
    let (begin, bytes) = (u64::try_from(begin), u64::try_from(column.compressed_size()));
    let end = begin.ok().zip(bytes.ok()).and_then(|(begin, bytes)| Some((begin, begin.checked_add(bytes)?)));
    let (begin, end) = end.ok_or("its place is damaged")?;
    Ok(begin..end)
}

/// Walks over the headers of pages.
fn walk(file: &File, Range { start: mut at, end }: Range<u64>) -> Result<Chunk, String> {
    let mut window = Window { file, start: 0, bytes: Vec::new() };
    let mut chunk = Chunk::default();
    while at < end {
        let page = window.page(at)?.ok_or("the header of a page is damaged")?;
        let Page { kind, header_bytes, expanded_bytes, bytes, values } = page;
        let next = u64::try_from(bytes).ok().and_then(|bytes| at.checked_add(header_bytes + bytes));
        let Some(next) = next.filter(|next| *next <= end) else {
            return Err(format!("a page states {bytes} bytes, which it cannot have"));
        };
        if !(0..=PAGE_BYTES_MAX).contains(&i64::from(expanded_bytes)) {
            return Err(format!(
                "a page has {expanded_bytes} bytes when it is expanded; the limit is {PAGE_BYTES_MAX}: write smaller pages"
            ));
        }
        chunk.largest_page = chunk.largest_page.max(i64::from(expanded_bytes) + i64::from(bytes));
        if kind != INDEX {
            chunk.expanded_bytes.push(expanded_bytes as usize);
        }
        if kind != DICTIONARY {
            chunk.values = chunk.values.saturating_add(values.into());
        }
        at = next;
    }
    Ok(chunk)
}

/// Bytes of a file, read once for several headers that lie in them.
struct Window<'a> {
    file: &'a File,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// The page whose header begins there; `None`: it is none.
    fn page(&mut self, at: u64) -> Result<Option<Page>, String> {
        let inside =
            at.checked_sub(self.start).and_then(|skip| self.bytes.get(usize::try_from(skip).ok()?..));
        if let Some(page) = inside.and_then(page) {
            return Ok(Some(page));
        }
        for bytes in [HEADER_BYTES, HEADER_BYTES_MAX] {
            self.read(at, bytes).map_err(|error| format!("cannot read: {error}"))?;
            if let Some(page) = page(&self.bytes) {
                return Ok(Some(page));
            }
            if self.bytes.len() < bytes {
                break;
            }
        }
        Ok(None)
    }

    fn read(&mut self, at: u64, bytes: usize) -> io::Result<()> {
        self.start = at;
        self.bytes.resize(bytes, 0);
        let mut have = 0;
        while have < bytes {
            match self.file.read_at(&mut self.bytes[have..], at + have as u64) {
                Ok(0) => break,
                Ok(read) => have += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.bytes.truncate(have);
        Ok(())
    }
}

/// The header at the beginning of these bytes; `None`: it is none, or longer.
fn page(bytes: &[u8]) -> Option<Page> {
    let mut walk = Walk::new(bytes);
    let mut page = Page { kind: -1, header_bytes: 0, expanded_bytes: -1, bytes: -1, values: 0 };
    let mut field = 0;
    while let Some(ty) = walk.field(&mut field)? {
        match (field, ty) {
            (1, I32) => page.kind = walk.int32()?,
            (2, I32) => page.expanded_bytes = walk.int32()?,
            (3, I32) => page.bytes = walk.int32()?,
            // The headers of data of version 1, dictionaries and data of version 2, which begin with the number of values.
            (5 | 7 | 8, STRUCT) => page.values = values(&mut walk)?,
            (1..=3 | 5 | 7 | 8, _) => return None,
            _ => walk.skip_field(ty, 0)?,
        }
    }
    page.header_bytes = (bytes.len() - walk.left()) as u64;
    (page.kind >= 0 && page.values >= 0).then_some(page)
}

fn values(walk: &mut Walk<'_>) -> Option<i32> {
    let (mut field, mut values) = (0, 0);
    while let Some(ty) = walk.field(&mut field)? {
        match (field, ty) {
            (1, I32) => values = walk.int32()?,
            (1, _) => return None,
            _ => walk.skip_field(ty, 1)?,
        }
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A file of pages that state these bytes when they are expanded, bytes, and values; and where they are.
    fn pages(pages: &[(u64, u64, u64)]) -> (File, Range<u64>) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"PAR1").unwrap();
        for (expanded_bytes, bytes, values) in pages {
            let mut header = vec![0x15, 0];
            for (before, number) in [(&[0x15][..], expanded_bytes), (&[0x15], bytes), (&[0x2c, 0x15], values)]
            {
                header.extend_from_slice(before);
                let mut rest = number << 1;
                while rest > 0x7f {
                    header.push(rest as u8 | 0x80);
                    rest >>= 7;
                }
                header.push(rest as u8);
            }
            header.extend_from_slice(&[0, 0]);
            file.write_all(&header).unwrap();
            file.write_all(&vec![0xff; *bytes as usize]).unwrap();
        }
        let end = file.metadata().unwrap().len();
        (file, 4..end)
    }

    #[test]
    fn all_pages_are_looked_at() {
        let (file, range) = pages(&[(100, 50_000, 7), (1 << 20, 100_000, 1), (5, 0, 3), (0, 9, 2)]);
        let chunk = walk(&file, range.clone()).unwrap();
        assert_eq!((chunk.largest_page, chunk.values), ((1 << 20) + 100_000, 13));
        assert_eq!(chunk.expanded_bytes, [100, 1 << 20, 5, 0]);
        let error = walk(&file, range.start..range.end - 1).unwrap_err();
        assert!(error.contains("which it cannot have"), "{error}");
        assert!(walk(&file, range.start + 1..range.end).is_err());
        assert_eq!(walk(&file, 9..9).unwrap().values, 0);
        assert!(walk(&file, range.end..range.end + 1).is_err());
    }

    #[test]
    fn pages_that_state_gigabytes_are_refused() {
        let (file, range) = pages(&[(1 << 20, 9, 7), ((256 << 20) + 1, 9, 7)]);
        let error = walk(&file, range).unwrap_err();
        assert!(error.contains("268435457 bytes when it is expanded"), "{error}");
    }

    #[test]
    fn a_header_states_sizes_and_values() {
        // Type 0, 200 bytes expanded, 100 bytes; a data page of 7 values, with an encoding and statistics; and the page itself.
        let header =
            [0x15, 0, 0x15, 0x90, 3, 0x15, 0xc8, 1, 0x2c, 0x15, 14, 0x15, 0, 0x3c, 0x18, 1, 9, 0, 0, 0, 1, 2];
        let expected = Page { kind: 0, header_bytes: 20, expanded_bytes: 200, bytes: 100, values: 7 };
        assert_eq!(page(&header), Some(expected));
        // The same field twice, and one of another type: the crate would read the last one, whatever its type.
        let twice = [&header[..5], &[0x05, 4, 0x90, 3], &header[5..]].concat();
        assert_eq!((page(&twice), page(&[&[0x15, 0, 0x16], &header[3..]].concat())), (None, None));
        for cut in 0..20 {
            assert_eq!(page(&header[..cut]), None, "{cut}");
        }
    }
}
