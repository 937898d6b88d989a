//! Recorded market data, if available, in the folder `TAPEDB_DATA`.

use crate::support::Place;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use tapedb_skipped::recorded_data;

#[test]
fn what_a_real_kdb_wrote_is_imported() {
    let Some(data) = recorded_data().map(|data| data.join("kdb")) else { return };
    let place = Place::new();
    for (format, path, messages) in
        [("kdb-log", "tplog", 11_307), ("kdb-hdb", "hdb", 10), ("kdb-splayed", "hdb/2021.01.04/quote", 10)]
    {
        let before = place.messages("quote") + place.messages("s");
        let stream = if format == "kdb-log" { "" } else { "--stream s --tables quote --again import" };
        let mut command = place.command(&format!("import --format {format} {stream}"));
        let run = command.arg(data.join(path)).output().expect("the command runs");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        assert_eq!(place.messages("quote") + place.messages("s") - before, messages, "{path}");
    }
}

#[test]
fn counts_are_those_of_the_manifest() {
    let Some(data) = recorded_data() else { return };
    let rows = manifest(&data);
    for (format, names) in [
        (
            "us-equity-ticks",
            ["us-equity-ticks/aig/20131007_trade.zip", "us-equity-ticks/bac/20131007_trade.zip"],
        ),
        (
            "fx-ticks",
            ["fx-ticks/oanda-eurusd/20140501_quote.zip", "fx-ticks/histdata/quote_tick_data.csv.gz"],
        ),
        (
            "binance-raw-ws",
            ["binance-raw-ws/spot-btcusdt_20240808.gz", "binance-raw-ws/spot-btcusdt_20240809.gz"],
        ),
    ] {
        let place = Place::new();
        let paths = names.map(|name| data.join(name));
        let files: Vec<&Path> = paths.iter().map(std::path::PathBuf::as_path).collect();
        let objects = place.import(&format!("--format {format} --json"), &files).json();
        for (name, object) in names.iter().zip(&objects) {
            assert_eq!(object["messages"], rows[*name], "{name}");
        }
        let sum: u64 = names.iter().map(|name| rows[*name]).sum();
        assert_eq!(
            (&objects[2]["messages"], &place.totals("s")["messages"]),
            (&sum.into(), &sum.into()),
            "{format}"
        );
    }
}

/// Rows of each file.
fn manifest(data: &Path) -> HashMap<String, u64> {
    let text = fs::read_to_string(data.join("MANIFEST.tsv")).unwrap();
    let row = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        Some((columns.first()?.to_string(), columns.get(3)?.parse().ok()?))
    };
    text.lines().filter_map(row).collect()
}
