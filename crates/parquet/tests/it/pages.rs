//! Pages that have more than they state, or state more than they have: errors that name row group and column, before there is room for it.

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
use flate2::Compression as GzipLevel;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, GzipLevel as Gzip, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use tapedb_parquet::ParquetFile;

/// Writes a file of one column and three rows, whose pages are these: as they are compressed, and the bytes that they state.
fn write(path: &Path, column: &str, codec: Compression, pages: Vec<(Page, usize)>) {
    let schema = Arc::new(parse_message_type(&format!("message m {{ {column} x; }}")).unwrap());
    let mut chunk = TrackedWrite::new(tempfile::tempfile().unwrap());
    let mut writer = SerializedPageWriter::new(&mut chunk);
    let (mut dictionary_at, mut data_at) = (None, None);
    for (page, expanded) in pages {
        let is_dictionary = matches!(page, Page::DictionaryPage { .. });
        let written = writer.write_page(CompressedPage::new(page, expanded)).unwrap();
        let first = if is_dictionary { &mut dictionary_at } else { &mut data_at };
        first.get_or_insert(written.offset as i64);
    }
    chunk.flush().unwrap();
    let bytes = chunk.bytes_written();
    let mut file = SerializedFileWriter::new(
        File::create(path).unwrap(),
        schema,
        Arc::new(WriterProperties::builder().build()),
    )
    .unwrap();
    let metadata = ColumnChunkMetaData::builder(file.schema_descr().column(0))
        .set_compression(codec)
        .set_encodings(vec![Encoding::PLAIN])
        .set_num_values(3)
        .set_total_compressed_size(bytes as i64)
        .set_total_uncompressed_size(bytes as i64)
        .set_data_page_offset(data_at.unwrap())
        .set_dictionary_page_offset(dictionary_at)
        .build()
        .unwrap();
    let mut group = file.next_row_group().unwrap();
    let close = ColumnCloseResult {
        bytes_written: bytes as u64,
        rows_written: 3,
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    group.append_column(chunk.inner(), close).unwrap();
    group.close().unwrap();
    file.close().unwrap();
}

fn data(buf: Vec<u8>, encoding: Encoding) -> Page {
    let levels = Encoding::RLE;
    Page::DataPage {
        buf: buf.into(),
        num_values: 3,
        encoding,
        def_level_encoding: levels,
        rep_level_encoding: levels,
        statistics: None,
    }
}

/// Reads all rows; returns how many, or what is wrong.
fn read(path: &Path) -> Result<usize, String> {
    let batches = ParquetFile::open(path).and_then(|file| file.batches());
    let batches = batches.map_err(|error| error.to_string())?;
    batches.map(|batch| batch.map(|batch| batch.num_rows()).map_err(|error| error.to_string())).sum()
}

fn check(column: &str, codec: Compression, pages: Vec<(Page, usize)>, says: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.parquet");
    write(&path, column, codec, pages);
    let error = read(&path).unwrap_err();
    assert!(error.contains(says), "{error}");
    assert!(error.contains("x.parquet") && error.contains("row group 0, column \"x\""), "{error}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), GzipLevel::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn lz4_frame(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_page_that_expands_to_more_than_it_states_is_not_expanded() {
    let (three, many) = ([7; 24], vec![0; 64 << 20]);
    let gz = || Compression::GZIP(Gzip::default());
    for (codec, right, wrong) in
        [(gz(), gzip(&three), gzip(&many)), (Compression::LZ4, lz4_frame(&three), lz4_frame(&many))]
    {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("right.parquet");
        write(&path, "required int64", codec, vec![(data(right, Encoding::PLAIN), 24)]);
        assert_eq!(read(&path), Ok(3));
        let says = "a page has more bytes when it is expanded than the 24 it states";
        let page = || data(wrong.clone(), Encoding::PLAIN);
        check("required int64", codec, vec![(page(), 24)], says);
        check(
            "required int64",
            codec,
            vec![(page(), 300 << 20)],
            "314572800 bytes when it is expanded; the limit is",
        );
    }
    check(
        "required int64",
        gz(),
        vec![(data(gzip(&[7; 16]), Encoding::PLAIN), 24)],
        "has 16 bytes when it is expanded",
    );
    check("required int64", gz(), vec![(data(vec![3; 9], Encoding::PLAIN), 24)], "a page cannot be expanded");
}

#[test]
fn a_dictionary_has_room_for_what_it_states() {
    let plain = Compression::UNCOMPRESSED;
    for (column, bytes) in [
        ("required byte_array", 1_000),
        ("required byte_array", 0),
        ("required int64", 1_000),
        ("required fixed_len_byte_array(40)", 1_000),
    ] {
        let dictionary = Page::DictionaryPage {
            buf: vec![0; bytes].into(),
            num_values: i32::MAX as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let pages = vec![(dictionary, bytes), (data(vec![0; 9], Encoding::RLE_DICTIONARY), 9)];
        check(column, plain, pages, "a dictionary states 2147483647 values");
    }
}

#[test]
fn a_page_has_room_for_the_texts_it_states() {
    // Blocks of 128 lengths in 4 parts, 2^40 or 2^32 of them, the first one 0.
    let plain = Compression::UNCOMPRESSED;
    let (huge, large) =
        ([0x80, 1, 4, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0], [0x80, 1, 4, 0x80, 0x80, 0x80, 0x80, 0x10, 0]);
    for lengths in [&huge[..], &large] {
        for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
            let page = || data(lengths.to_vec(), encoding);
            check("required byte_array", plain, vec![(page(), lengths.len())], "texts; the limit is");
            // With levels before them: three that are there.
            let optional = [&[2, 0, 0, 0, 6, 1][..], lengths].concat();
            let page = data(optional.clone(), encoding);
            check("optional byte_array", plain, vec![(page, optional.len())], "texts; the limit is");
        }
    }
    // 1,000 texts that share a megabyte.
    let mut shared = vec![0x80, 1, 4, 0xe8, 7, 0];
    // The first shares nothing; the next mini block is one number of 32 bits and 31 that are the same again.
    shared.extend([0, 0x20, 0, 0, 0]);
    shared.extend((1u32 << 20).to_le_bytes());
    shared.extend([0; 124]);
    shared.extend([0; 35]);
    shared.extend([0x80, 1, 4, 0xe8, 7, 0x80, 0x80, 0x80, 1]);
    let mut page = shared;
    page.extend([0; 1_000]);
    let bytes = page.len();
    let page = data(page, Encoding::DELTA_BYTE_ARRAY);
    check("required byte_array", plain, vec![(page, bytes)], "with what they share");
}

/// What writers make comes back, in every compression and encoding that there is.
#[test]
fn pages_of_all_kinds_are_read() {
    let rows = 3_000;
    let numbers = Int64Array::from_iter((0..rows).map(|row| (row % 7 != 0).then_some(row * row)));
    let texts = |row: i64| (row % 5 != 0).then(|| format!("a text that is {} like others", row / 10));
    let texts = StringArray::from_iter((0..rows).map(texts));
    let lists = (0..rows).map(|row| Some((0..row % 4).map(move |item| (item != 2).then_some(item + row))));
    let lists = ListArray::from_iter_primitive::<arrow_array::types::Int64Type, _, _>(lists);
    let nulls = StringArray::from_iter((0..rows).map(|_| None::<&str>));
    let columns: [(&str, ArrayRef); 4] =
        [("n", Arc::new(numbers)), ("t", Arc::new(texts)), ("l", Arc::new(lists)), ("e", Arc::new(nulls))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Gzip::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ];
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.parquet");
    for codec in codecs {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for encoding in [None, Some(Encoding::DELTA_LENGTH_BYTE_ARRAY), Some(Encoding::DELTA_BYTE_ARRAY)]
            {
                let mut properties = WriterProperties::builder()
                    .set_compression(codec)
                    .set_writer_version(version)
                    .set_data_page_row_count_limit(700)
                    .set_max_row_group_row_count(Some(2_000))
                    .set_dictionary_enabled(encoding.is_none());
                for column in ["t", "e"] {
                    let column = parquet::schema::types::ColumnPath::from(column);
                    properties = match encoding {
                        Some(encoding) => properties.set_column_encoding(column, encoding),
                        None => properties,
                    };
                }
                let file = File::create(&path).unwrap();
                let mut writer =
                    ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
                writer.write(&batch).unwrap();
                writer.close().unwrap();
                let what = format!("{codec:?}, {version:?}, {encoding:?}");
                let mut at = 0;
                for read in ParquetFile::open(&path).unwrap().batches().unwrap().map(Result::unwrap) {
                    let expected = batch.slice(at, read.num_rows());
                    at += read.num_rows();
                    for column in [0, 2] {
                        assert_eq!(read.column(column), expected.column(column), "{what}");
                    }
                    for column in [1, 3] {
                        let (found, expected) = (read.column(column), expected.column(column));
                        assert!(found.as_string_view().iter().eq(expected.as_string::<i32>()), "{what}");
                    }
                }
                assert_eq!(at, rows as usize, "{what}");
            }
        }
    }
}
