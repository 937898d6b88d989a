//! The demo, and every case of the benchmarks in a small form, so that all keep working. No time is asserted.

use crate::support::{Place, Run};
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn the_demo_prints_its_proof() {
    let place = Place::new();
    let line = "demo --messages 20k --live-rate 20k --live-time 100ms";
    let text = place.run(line).good();
    assert!(!place.db().exists() && text.contains("is removed again"), "{text}");
    assert_eq!(text.matches(" Package ").count(), 6, "the first three and the last three: {text}");
    let text = place.run(&format!("{line} --keep")).good();
    assert!(text.contains("Look around:"), "{text}");
    assert!(text.contains("Proven: every reader saw every message once"), "{text}");
    assert_eq!(text.matches(" ok\n").count(), 4, "{text}");

    // Again in the same database, with JSON output.
    let summary = place.run(&format!("{line} --readers 2 --keep --json")).json().remove(0);
    assert_eq!((summary["readers"].as_u64(), summary["proven"].as_bool()), (Some(2), Some(true)));
    assert!(summary["messages"].as_u64() >= Some(20_000), "{summary}");
    // The demo leaves a normal database.
    assert_eq!(Some(place.messages("demo")), summary["messages"].as_u64());
    assert_eq!(place.totals("demo")["checksum"], summary["checksum"]);
}

#[test]
fn the_demo_replaces_only_streams_of_a_demo() {
    let place = Place::new();
    let line = "demo --messages 1k --live-time 10ms --readers 1 --json";
    place.run("generate --stream feed --messages 10").good();
    place.run("generate --stream demo --messages 10").good();
    assert!(place.run(line).bad(1).contains("not created by a demo"));
    assert_eq!((place.messages("demo"), place.messages("feed")), (10, 10));
    place.run("delete demo --yes").good();
    place.run(&format!("{line} --keep")).good();
    place.run(line).good();
    let left = place.run("streams --json").json();
    assert_eq!((left.len(), place.messages("feed")), (1, 10), "{left:?}");
}

#[test]
fn the_demo_ends_at_a_rate_that_is_too_high() {
    let place = Place::new();
    let summary = place.run("demo --messages 1k --live-rate 1000G --live-time 20ms --json").json().remove(0);
    assert_eq!(summary["proven"].as_bool(), Some(true));
}

/// Command lines with the cases that each reports: see `bench_cases.txt`.
const SMALL: &str = include_str!("bench_cases.txt");

#[test]
fn every_case_of_the_benchmarks_runs_small() {
    let list: Vec<(&str, Vec<&str>)> = SMALL
        .split("\n\n")
        .filter(|block| !block.starts_with('#'))
        .filter_map(|block| block.split_once('\n'))
        .map(|(line, cases)| (line, cases.lines().collect()))
        .collect();
    let help = Run::plain("bench --help").out;
    let commands =
        help.split("Commands:").nth(1).expect("commands").split("Options:").next().expect("commands");
    for command in commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()) {
        let is_listed = |(line, _): &(&str, _)| line.split(' ').nth(1) == Some(command);
        assert!(
            command.is_empty() || command == "help" || list.iter().any(is_listed),
            "{command} is not listed"
        );
    }
    // Most of them wait most of the time.
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((line, expected)) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = run_small(line);
                    assert_eq!(found, *expected, "{line}: bench_cases.txt lists other cases");
                }
            });
        }
    });
}

/// Runs a benchmark and checks its rows; returns the distinct cases in order.
fn run_small(line: &str) -> Vec<String> {
    let place = Place::new();
    let mut command = place.command(&format!("{line} --json"));
    match line.split(' ').nth(1) {
        // They have no database.
        Some("codec") => command = Run::command(&format!("{line} --json")),
        Some("topic") => {
            command = Run::command(&format!("{line} --json"));
            command.arg("--folder").arg(place.path("topics"));
        }
        _ => {}
    }
    let rows = crate::support::end(place.start(command.env_remove("TAPEDB_DATA"))).json();
    let bench = line.split(' ').nth(1).expect("a benchmark");
    let mut cases: Vec<String> = Vec::new();
    for row in &rows {
        check_row(row, bench);
        let case = row["case"].as_str().expect("a case").to_string();
        if cases.last() != Some(&case) {
            cases.push(case);
        }
    }
    assert!(
        !place.db().exists() && !place.path("db.one-core").exists(),
        "the benchmark removes its database"
    );
    cases
}

/// A row has all fields, and its median is between minimum and maximum.
#[track_caller]
fn check_row(row: &Value, bench: &str) {
    let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row}"));
    let (min, median, max) = (number("min"), number("value"), number("max"));
    assert!(min <= median && median <= max, "{row}");
    assert!(row["n"].as_u64() > Some(0) && row["bench"] == bench, "{row}");
    // Losses, failures and processor time may be 0; rates may not.
    let unit = row["unit"].as_str().unwrap_or_default();
    assert!(min > 0.0 || !unit.ends_with("/s"), "{row}");
    assert!(row["machine"].as_str().is_some_and(|line| line.contains("round trip")), "{row}");
    let keys: Vec<&str> = row.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, ["bench", "case", "machine", "max", "metric", "min", "n", "unit", "value"], "{row}");
}

/// A folder `data` with a few recorded rows of each format.
fn recorded(place: &Place) {
    for folder in ["aig", "spy"] {
        std::fs::create_dir_all(place.path("data/us-equity-ticks").join(folder)).unwrap();
    }
    std::fs::create_dir_all(place.path("data/binance-raw-ws")).unwrap();
    let quotes: String =
        (0..500).map(|row| format!("{},491800,{},0,0,Q,1,0\n", 34_200_000 + row, 1 + row % 5)).collect();
    place.zip("data/us-equity-ticks/aig/20131007_quote.zip", "20131007_aig_Quote_Tick.csv", &quotes);
    let trades = "34200000,500000,1,Q,0,0\n34200001,500100,1,Q,0,0\n";
    place.zip("data/us-equity-ticks/spy/20131007_trade.zip", "20131007_spy_Trade_Tick.csv", trades);
    place.gzip(
        "data/binance-raw-ws/spot-btcusdt_20240808.gz",
        "1723161254087896568 {\"stream\":\"btcusdt@trade\",\"data\":{\"e\":\"trade\",\"E\":1723161255343,\
         \"s\":\"BTCUSDT\",\"t\":3735683259,\"p\":\"61837.63000000\",\"q\":\"0.02000000\",\"T\":1723161255342,\
         \"m\":true,\"M\":true}}\n",
    );
}

#[test]
fn recorded_data_are_measured_if_available() {
    let place = Place::new();
    recorded(&place);
    let mut command = place.command("bench storage --only recorded --runs 1 --json");
    let run = place.start(command.arg("--data").arg(place.path("data")));
    let rows = crate::support::end(run).json();
    for set in ["quotes", "ticks", "book"] {
        for case in ["import.{}", "import.{}.sealed", "read.{}.1", "size.{}", "read.{}.cold", "size.{}.cold"]
        {
            let case = case.replace("{}", set);
            let row =
                rows.iter().find(|row| row["case"] == case.as_str()).unwrap_or_else(|| panic!("{case}"));
            check_row(row, "storage");
        }
    }
    // `quotes` are the rows that rivals get, `ticks` are all rows.
    let messages = |set: &str| row_of(&rows, &format!("messages.{set}"), "messages")["value"].as_f64();
    assert_eq!(["quotes", "ticks", "book"].map(messages), [Some(500.0), Some(502.0), Some(1.0)]);
}

#[test]
fn columns_of_recorded_data_are_measured_if_available() {
    let place = Place::new();
    recorded(&place);
    let mut command = place.command("bench columns --only quotes,book --runs 1 --json");
    let run = place.start(command.arg("--data").arg(place.path("data")));
    let rows = crate::support::end(run).json();
    for case in
        ["columns.sum.quotes", "arrow.quotes", "size.quotes", "import.quotes", "size.book", "read.book"]
    {
        let row = rows.iter().find(|row| row["case"] == case).unwrap_or_else(|| panic!("{case}"));
        check_row(row, "columns");
    }
}

#[test]
fn the_codec_benchmark_selects_cases() {
    let rows = Run::plain("bench codec --rounds 1 --round-time 20us --case trade.validate --json").json();
    let cases: Vec<&str> = rows.iter().filter_map(|row| row["case"].as_str()).collect();
    assert_eq!(cases, ["trade.validate", "trade", "trade"]);
    assert!(Run::plain("bench codec --case fly").bad(2).contains("the cases are empty.compiled.encode"));
    // A run for valgrind prints nothing.
    assert_eq!(Run::plain("bench codec --case book --laps 2").good(), "");
}

#[test]
fn instructions_are_counted_or_the_program_to_install_is_named() {
    let run = Run::plain("bench codec --instructions --case empty.validate --json");
    if run.code != 0 {
        assert!(run.bad(1).contains("apt install valgrind"));
        return tapedb_skipped::skipped("valgrind is not installed, which counts the instructions");
    }
    let rows = run.json();
    let row = row_of(&rows, "empty.validate", "instructions");
    assert!(row["value"].as_f64() > Some(0.0) && row["min"] == row["max"], "{row}");
}

#[track_caller]
fn row_of<'a>(rows: &'a [Value], case: &str, metric: &str) -> &'a Value {
    let found = rows.iter().find(|row| row["case"] == case && row["metric"] == metric);
    found.unwrap_or_else(|| panic!("no row {case}, {metric}"))
}

#[test]
fn earlier_rows_are_drawn_again_without_a_measurement() {
    let place = Place::new();
    let line = "bench live --messages 4k --pairs 2 --runs 2 --transport tcp --content mixed --json";
    let stored = place.run(line).good();
    assert!(stored.contains("\"n\":2"), "{stored}");
    std::fs::write(place.path("live.json"), &stored).unwrap();
    let mut command = place.command("bench live --runs 0 --json");
    command.arg("--with").arg(place.path("live.json")).arg("--svg").arg(place.path("live.svg"));
    assert_eq!(Run::of(command.output().expect("the command runs")).good(), stored);
    assert!(std::fs::read_to_string(place.path("live.svg")).unwrap().contains("live.pairs.2.mixed"));
    let line =
        "bench latency --rate 2k --time 20ms --runs 1 --transport uds --wait spin --connections 1 --json";
    let mut command = place.command(line);
    command.arg("--svg").arg(place.path("latency.svg"));
    Run::of(command.output().expect("the command runs")).good();
    assert!(std::fs::read_to_string(place.path("latency.svg")).unwrap().contains("latency.stream.uds.spin"));
    assert_eq!(place.run("bench live --pairs 0").code, 2);
    assert_eq!(place.run("bench read --consumers 0").code, 2);
}

#[test]
fn the_shell_carries_out_a_script() {
    let place = Place::new();
    place.run("generate --stream bars --kind bars --messages 1k").good();
    let shell = |commands: &[&str]| {
        let mut command = place.command("shell");
        commands.iter().for_each(|said| {
            command.args(["-c", said]);
        });
        crate::support::end(place.start(&mut command))
    };
    let file = place.path("bars.jsonl");
    let export = format!("export '{}'", file.display());
    let text = shell(&["set stream bars", "tptimea 2", "select 3", &export]).good();
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 1000);
    assert!(text.contains("2000 messages in "), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("Bar")).count(), 3, "{text}");
    assert!(shell(&["set stream nothing", "select"]).bad(1).contains("line 2"));
    assert!(shell(&["tptimea none"]).bad(2).contains("line 1"));
}
