//! What is in a file, and when it has its name.

use crate::support::{export, fill, streams};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::statistics::Statistics;
use std::fs::File;
use tapedb_parquet::{FileWriter, Origin, ParquetFile, WriteOptions};

const TICKS: &str = "message Tick { price: decimal64, size: u32 }";

#[test]
fn row_groups_are_sorted_and_have_statistics_and_a_bloom_filter() {
    let (directory, stream, _) = streams(TICKS.parse().unwrap());
    fill(&stream, 1, 1000);
    let options = WriteOptions { row_group_rows: 300, ..WriteOptions::default() };
    let (path, written) = export(&stream, directory.path(), &options).remove(0);
    assert_eq!((written.rows, written.row_groups), (1000, 4));
    assert_eq!(written.bytes, path.metadata().unwrap().len());
    let file = File::open(&path).unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    let mut last = i64::MIN;
    for group in metadata.row_groups() {
        let sorting = group.sorting_columns().unwrap();
        assert_eq!((sorting[0].column_idx, sorting[0].descending), (0, false));
        let Some(Statistics::Int64(times)) = group.column(0).statistics() else { panic!("no statistics") };
        assert!(*times.min_opt().unwrap() >= last);
        last = *times.max_opt().unwrap();
        assert!(group.column(1).bloom_filter_offset().is_some());
        assert!(group.columns().iter().all(|column| column.statistics().is_some()));
    }
    assert_eq!(last, 249);
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let filter = builder.get_row_group_column_bloom_filter(0, 1).unwrap().unwrap();
    assert!(filter.check("long symbol name") && !filter.check("no such symbol"));
    let file = ParquetFile::open(&path).unwrap();
    assert_eq!((file.rows(), file.earliest("time"), file.earliest("size")), (1000, Some(0), None));
    assert_eq!(file.origin().unwrap().record, "Tick");
}

#[test]
fn a_file_has_its_name_only_when_it_is_whole() {
    let (directory, stream, _) = streams(TICKS.parse().unwrap());
    let origin = Origin {
        stream: "s".into(),
        schema: TICKS.into(),
        record: "Tick".into(),
        decimals: "raw".into(),
        sequences: false,
    };
    let path = directory.path().join("a.parquet");
    let part = directory.path().join("a.parquet.part");
    let reader = tapedb_arrow::BatchReader::open(
        std::slice::from_ref(&stream),
        stream.cursor(),
        "Tick",
        &Default::default(),
    );
    let schema = arrow_array::RecordBatchReader::schema(&reader.unwrap());
    let create = || FileWriter::create(&path, &schema, &origin, &WriteOptions::default());
    // One that an interrupted program has left.
    std::fs::write(&part, "rest").unwrap();
    let writer = create().unwrap();
    assert!(create().unwrap_err().to_string().contains("another process writes it"));
    assert!(part.exists() && !path.exists());
    drop(writer);
    assert!(!part.exists() && !path.exists());
    create().unwrap().finish().unwrap();
    assert!(path.exists() && !part.exists());
    assert_eq!(ParquetFile::open(&path).unwrap().rows(), 0);
}
