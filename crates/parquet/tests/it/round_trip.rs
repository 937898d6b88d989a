//! What is exported losslessly and imported again is the same, for every type, in the same order.

use crate::support::{export, fill, import, messages, streams};
use proptest::prelude::*;
use tapedb_parquet::{ParquetFile, WriteOptions};
use tapedb_testing::sample::schema;

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_type_comes_back(seed in any::<u64>(), all_types in any::<bool>(), row_group_rows in 1usize..50) {
        let (directory, stream, copy) = streams(schema(if all_types { seed & !3 } else { seed }));
        fill(&stream, seed, 60);
        let options = WriteOptions { row_group_rows, ..WriteOptions::default() };
        let files = export(&stream, directory.path(), &options);
        prop_assert_eq!(files.iter().map(|(_, written)| written.rows).sum::<u64>(), 60);
        let paths: Vec<_> = files.into_iter().map(|(path, _)| path).collect();
        import(&copy, &paths);
        prop_assert_eq!(messages(&copy), messages(&stream));
    }
}

/// They have the types of others, and header columns have names of their own.
#[test]
fn fields_with_the_names_of_header_columns() {
    let schema = "message M { sequence: string?, stream: f64, space: bool }
        message N { sequence: u64, message_sequence: string }";
    let (directory, stream, copy) = streams(schema.parse().unwrap());
    fill(&stream, 9, 300);
    let files = export(&stream, directory.path(), &WriteOptions::default());
    for (path, _) in &files {
        let file = ParquetFile::open(path).unwrap();
        let mut names: Vec<_> = file.schema().fields().iter().map(|field| field.name()).collect();
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
    import(&copy, &files.into_iter().map(|(path, _)| path).collect::<Vec<_>>());
    assert_eq!(messages(&copy), messages(&stream));
}

#[test]
fn records_without_fields_and_what_contains_itself() {
    let schema = "record Nothing { } record Leaf { x: string?, nothing: record<Nothing> }
        message Tree {
            id: u16, children: array<record<Tree>>, either: record<Nothing|Leaf>?,
            many: array<record<Nothing>?>
        }
        message Pulse { }";
    let (directory, stream, copy) = streams(schema.parse().unwrap());
    fill(&stream, 7, 200);
    let files = export(&stream, directory.path(), &WriteOptions::default());
    import(&copy, &files.into_iter().map(|(path, _)| path).collect::<Vec<_>>());
    assert_eq!(messages(&copy), messages(&stream));
    assert_eq!(messages(&copy).len(), 200);
}
