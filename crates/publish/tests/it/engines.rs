//! The smallest of the engines that tables are for read them: DuckDB and pyiceberg, and delta-rs. `make test-engines` runs more of them.

use crate::support::*;
use std::collections::BTreeSet;
use tapedb_arrow::Decimals;
use tapedb_publish::{Options, Publisher, Target};
use tapedb_schema::Timestamp;
use tapedb_skipped::{python, python_has};

/// Engines, by the modules that have them.
const ENGINES: [&str; 3] = ["duckdb_extension_iceberg", "pyiceberg", "deltalake"];

#[test]
fn engines_of_others_read_what_was_published() {
    let engines: Vec<&str> = ENGINES.into_iter().filter(|module| python_has(module)).collect();
    if engines.is_empty() || !python_has("duckdb") || !python_has("pyarrow") {
        return;
    }
    let fixture = Fixture::new(SCHEMA);
    let folder = fixture.folder.path().to_str().unwrap();
    let options = Options {
        scales: [(String::new(), Decimals::Decimal128 { precision: 18, scale: 4 })].into(),
        ..small()
    };
    let catalog = format!("folder:{folder}/iceberg").parse().unwrap();
    let targets = [iceberg(&catalog), Target::delta(&format!("{folder}/delta")).unwrap()];
    let mut publishers = targets
        .map(|target| Publisher::open(&fixture.db, &fixture.stream, "Bar", &target, &options).unwrap());
    // More versions than those between two checkpoints, late messages, and a day that is written again.
    for round in 0..12 {
        fixture.add(100, FIRST + (round * 5) % 11 * DAY / 2);
        publishers.iter_mut().for_each(|publisher| drop(publish(publisher)));
    }
    let deleted = Timestamp(FIRST + DAY)..Timestamp(FIRST + DAY + DAY / 48);
    fixture.stream.delete(deleted, None::<[&str; 0]>).unwrap();
    for publisher in &mut publishers {
        publish(publisher);
        assert!(publisher.repair(false).unwrap().removed > 0);
    }
    let rows = bars(&fixture.stream, u64::MAX);
    let times = rows.iter().map(|row| row.1);
    let symbols: BTreeSet<&String> = rows.iter().map(|row| &row.0).collect();
    let expected = [
        rows.len().to_string(),
        rows.iter().map(|row| row.3.parse::<u64>().unwrap()).sum::<u64>().to_string(),
        times.clone().min().unwrap().to_string(),
        times.max().unwrap().to_string(),
        symbols.len().to_string(),
        rows.iter().map(|row| row.2).sum::<u64>().to_string(),
    ];
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/engines.py");
    let output = python().arg(script).arg(folder).args(&engines).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Vec<String>> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), engines.len());
    for (engine, answer) in engines.iter().zip(&answers) {
        assert_eq!(answer[..6], expected, "{engine}");
        // Prices, exactly and alike.
        assert_eq!(answer[6], answers[0][6], "{engine}");
        assert!(answer[6].contains('.'), "{}", answer[6]);
    }
}
