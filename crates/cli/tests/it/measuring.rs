//! The demo, and every case of the benchmarks in a small form, so that all keep working. No time is asserted.

use crate::support::{Place, Run};
use serde_json::Value;

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

#[test]
fn the_storage_benchmark_reports_every_case() {
    let place = Place::new();
    let mut command = place.command("bench storage --messages 5k --scale 1k,5k --symbols 20 --runs 3 --json");
    let run = place.start(command.env_remove("TAPEDB_DATA"));
    let rows = crate::support::end(run).json();
    let row = |case: &str| rows.iter().find(|row| row["case"] == case).unwrap_or_else(|| panic!("{case}"));
    for case in [
        "load.async",
        "load.sealed",
        "load.async.1",
        "load.sealed.1",
        "read.rows.1",
        "read.rows.2",
        "read.columns.1",
        "size.bars",
        "chill.bars",
        "read.bars.cold",
        "read.columns.cold",
        "size.bars.cold",
        "load.feed",
        "read.feed.1",
        "size.feed",
        "load.sync",
        "disk.fdatasync",
        "disk.group-commit",
        "open.clean",
        "open.clean.1000",
        "rss.read",
        "read.symbol",
        "merge.50",
    ] {
        check_row(row(case), ("storage", 3));
        assert!(row(case)["min"].as_f64() > Some(0.0), "{case}");
    }
    assert_eq!(row("open.killed")["n"].as_u64(), Some(1));
    assert_eq!(row("size.bars")["unit"], Value::from("bytes/message"));
    assert!(!place.db().exists(), "the benchmark removes its database");
}

/// A row has all fields, and its median is between minimum and maximum.
#[track_caller]
fn check_row(row: &Value, (bench, runs): (&str, u64)) {
    let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row}"));
    let (min, median, max) = (number("min"), number("value"), number("max"));
    assert!(min <= median && median <= max, "{row}");
    assert_eq!((row["n"].as_u64(), row["bench"].as_str()), (Some(runs), Some(bench)));
    assert!(row["machine"].as_str().is_some_and(|line| line.contains("round trip")), "{row}");
    let keys: Vec<&str> = row.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, ["bench", "case", "machine", "max", "metric", "min", "n", "unit", "value"], "{row}");
}

#[test]
fn loading_until_all_is_sealed_is_measured_alone() {
    let place = Place::new();
    let rows = place.run("bench storage --only load.sealed --messages 5k --runs 2 --json").json();
    let cases: Vec<&str> = rows.iter().filter_map(|row| row["case"].as_str()).collect();
    assert_eq!(cases, ["load.async", "load.sealed", "load.async.1", "load.sealed.1"]);
    rows.iter().for_each(|row| check_row(row, ("storage", 2)));
    assert!(!place.db().exists() && !place.path("db.one-core").exists());
}

#[test]
fn recorded_data_are_measured_if_available() {
    let place = Place::new();
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
    let mut command = place.command("bench storage --only recorded --runs 1 --json");
    let run = place.start(command.arg("--data").arg(place.path("data")));
    let rows = crate::support::end(run).json();
    for set in ["quotes", "ticks", "book"] {
        for case in ["import.{}", "import.{}.sealed", "read.{}.1", "size.{}", "read.{}.cold", "size.{}.cold"]
        {
            let case = case.replace("{}", set);
            let row =
                rows.iter().find(|row| row["case"] == case.as_str()).unwrap_or_else(|| panic!("{case}"));
            check_row(row, ("storage", 1));
        }
    }
    // `quotes` are the rows that rivals get, `ticks` are all rows.
    let messages = |set: &str| row_of(&rows, &format!("messages.{set}"), "messages")["value"].as_f64();
    assert_eq!(["quotes", "ticks", "book"].map(messages), [Some(500.0), Some(502.0), Some(1.0)]);
}

#[test]
fn the_study_of_topics_checks_every_level() {
    let place = Place::new();
    for (options, case) in [("", "latency.topic"), ("--copy", "latency.topic.copy")] {
        let line = "bench latency --mode topic --producers 3 --rate 2k --time 50ms --runs 1 --json";
        let rows = place.run(&format!("{line} {options}")).json();
        check_row(row_of(&rows, case, "p50"), ("latency", 1));
        assert_eq!(rows.iter().any(|row| row["metric"] == "copied"), !options.is_empty());
        assert!(!place.db().exists(), "the benchmark removes its database");
    }
}

#[test]
fn the_codec_benchmark_reports_every_case() {
    let rows = Run::plain("bench codec --rounds 3 --round-time 20us --json").json();
    let messages = ["empty", "trade", "book"];
    let works = [
        "compiled.encode",
        "compiled.decode",
        "compiled.decode.copy",
        "interpreted.encode",
        "interpreted.decode",
        "interpreted.decode.copy",
        "validate",
        "validate.interpreted",
    ];
    for case in messages.iter().flat_map(|message| works.map(|work| format!("{message}.{work}"))) {
        let row = row_of(&rows, &case, "time");
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row}"));
        let (min, median, max) = (number("min"), number("value"), number("max"));
        assert!(0.0 < min && min <= median && median <= max, "{row}");
        assert_eq!((row["n"].as_u64(), row["bench"].as_str()), (Some(3), Some("codec")));
        assert_eq!(row["unit"], Value::from("ns"));
    }
    for (message, bytes) in messages.iter().zip([0.0, 78.0, 1354.0]) {
        assert_eq!(row_of(&rows, message, "bytes")["value"].as_f64(), Some(bytes), "{message}");
        assert!(row_of(&rows, message, "checksum")["value"].as_f64() > Some(0.0), "{message}");
    }
    assert_eq!(rows.len(), messages.len() * (works.len() + 2));
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
fn the_benchmarks_through_a_server_report_every_case() {
    let place = Place::new();
    for (line, cases) in [
        (
            "bench read --messages 5k --consumers 1,2 --streams 1,3 --loaders 3 --runs 1",
            &[
                "load.remote",
                "load.remote.shm",
                "load.remote.mixed",
                "load.remote.mixed.uds",
                "load.remote.loaders.3",
                "load.remote.connections.3",
                "load.remote.connections.3.shm",
                "read.one-stream.1.mixed",
                "read.one-stream.2.mixed.shm",
                "read.server-cpu.mixed",
                "read.one-stream.1",
                "read.one-stream.2.uds",
                "read.one-stream.2.shm",
                "read.server-cpu",
                "read.streams.1",
                "read.streams.3",
                "read.streams.3.uds",
            ][..],
        ),
        (
            "bench live --messages 4k --pairs 1,2 --runs 1",
            &[
                "live.pairs.1",
                "live.pairs.2.uds",
                "live.pairs.2.shm",
                "live.pairs.1.mixed",
                "live.pairs.2.mixed.shm",
            ],
        ),
        (
            "bench latency --producers 3 --rate 2k --time 100ms --runs 1 --connections 1,3",
            &[
                "latency.stream.tcp",
                "latency.stream.uds",
                "latency.stream.tcp.sent",
                "latency.stream.tcp.connections3",
                "latency.stream.shm.spin.connections3.sent",
                "latency.stream.uds.spin",
                "latency.stream.shm.spin",
                "latency.floor.tcp",
                "latency.floor.uds",
            ],
        ),
        (
            "bench latency --rate 2k --time 100ms --runs 1 --transport uds --wait spin --idle-cursors 20 --connections 1",
            &["latency.stream.uds.spin", "latency.stream.uds.spin.idle20"],
        ),
        (
            "bench tick --runs 1 --updates 40 --rows 40k --restart-rows 20k --subscribers 2",
            &[
                "tick.r1.tplog",
                "tick.r1000.rdbupd",
                "tick.r100.x50.rdbready",
                "tick.r100.x50.tppub",
                "tick.r10.late",
                "tick.r100.s2.rdbrecv.last",
                "tick.r1.kdb.tplog",
                "tick.r1000.kdb.tppub",
                "tick.r100.x50.kdb.rdbrecv",
                "tick.r100.s2.kdb.rdbrecv.first",
                "tick.r1.kdb.late",
                "tick.max.single",
                "tick.max.single.kdb",
                "tick.max.r100.kdb",
            ],
        ),
        (
            "bench tick --runs 1 --updates 100 --cases cpu,restart --restart-rows 20k --transport shm --spin-us 100",
            &["tick.cpu.log", "tick.cpu.log.kdb", "tick.restart"],
        ),
    ] {
        let mut command = place.command(&format!("{line} --json"));
        if line.starts_with("bench latency") {
            command.arg("--svg").arg(place.path("plot.svg"));
        }
        let rows = Run::of(command.output().expect("the command runs")).json();
        for case in cases {
            let row = rows.iter().find(|row| row["case"] == *case).unwrap_or_else(|| panic!("{case}"));
            let bench = line.split_whitespace().nth(1).expect("a benchmark");
            check_row(row, (bench, 1));
        }
        assert!(!place.db().exists(), "the benchmark removes its database");
    }
    let plot = std::fs::read_to_string(place.path("plot.svg")).unwrap();
    assert!(plot.contains("latency.stream.uds.spin.idle20"), "{plot}");
    // Stored rows are printed and drawn again without a measurement.
    let kept = place
        .run("bench live --messages 4k --pairs 2 --runs 2 --transport tcp --content mixed --json")
        .good();
    std::fs::write(place.path("live.json"), &kept).unwrap();
    let mut command = place.command("bench live --runs 0 --json");
    command.arg("--with").arg(place.path("live.json")).arg("--svg").arg(place.path("live.svg"));
    assert_eq!(Run::of(command.output().expect("the command runs")).good(), kept);
    assert!(std::fs::read_to_string(place.path("live.svg")).unwrap().contains("live.pairs.2.mixed"));
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
