//! What is exported losslessly and imported again is the same, for every type, in the same order.

use crate::support::{export, fill, import, messages, streams};
use proptest::prelude::*;
use tapedb_parquet::WriteOptions;
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
