//! `import` of what crypto venues send: found out by content, checked, resumed, also over a server.

use crate::serving::{Served, remotely, run};
use crate::support::{Place, end, signal};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CHANGES: &str = "exchange,symbol,timestamp,local_timestamp,is_snapshot,side,price,amount\n";

/// A capture of Bybit's book: a snapshot and changes, of which those with these numbers are missing.
pub fn capture(place: &Place, frames: u64, missing: &[u64]) -> PathBuf {
    let mut text = String::from("wss://stream.bybit.com/v5/public/spot <-> 1733011200.5\n");
    for number in (1..=frames).filter(|number| !missing.contains(number)) {
        let (kind, ms) = (if number == 1 { "snapshot" } else { "delta" }, 1_733_011_200_600 + number);
        writeln!(
            text,
            "{}.{:03}: {{\"topic\":\"orderbook.500.X\",\"type\":\"{kind}\",\"ts\":{ms},\"data\":{{\"s\":\"X\",\"b\":[[\"{}\",\"2\"]],\
             \"a\":[],\"u\":{},\"seq\":9}},\"cts\":{ms}}}",
            ms / 1000,
            ms % 1000,
            number % 97 + 1,
            number + 6
        )
        .expect("memory");
    }
    place.gzip("BYBIT.ws.1.0.gz", &text)
}

#[test]
fn csv_of_tardis_is_found_out_and_resumed_within_a_message_of_several_rows() {
    let place = Place::new();
    let row = |time: u64, snapshot: bool, price: &str| {
        format!("deribit,BTC-PERPETUAL,1585699200245000,{time},{snapshot},bid,{price},1\n")
    };
    let (first, second) = (1_585_699_200_355_684, 1_585_699_200_355_685);
    let text = [
        CHANGES,
        &row(first, true, "6421"),
        &row(first, true, "6420"),
        &row(second, false, "6421.5"),
        &row(second, false, "oops"),
        &row(second, false, "6422"),
    ];
    let file = place.path("day.csv");
    fs::write(&file, text.concat()).unwrap();
    let error = place.import("", &[&file]).bad(1);
    assert!(error.contains("day.csv, line 5") && error.contains("--on-bad-line skip"), "{error}");
    assert!(place.messages("s") <= 1, "the second message is not whole");
    let totals = place.import("--on-bad-line skip --json", &[&file]).json().remove(1);
    assert_eq!((&totals["messages"], &totals["bad_lines"]), (&3.into(), &1.into()));
    let packages = place.run("read s --json").json();
    let prices = |package: &Value| {
        let entries = package["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["price"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(prices(&packages[0]), ["6421", "6420"]);
    assert_eq!(
        (&packages[1]["cause"], prices(&packages[2])),
        (&"DROPPED".into(), vec!["6421.5".into(), "6422".into()])
    );
    assert!(place.import("", &[&file]).bad(1).contains("imported into this stream before"));
}

#[test]
fn what_is_missing_is_a_gap_and_the_report_has_the_counts() {
    let place = Place::new();
    let file = capture(&place, 20, &[7, 8]);
    let text = place.import("", &[&file]).good();
    assert!(text.contains("16 changes passed, 1 failed") && text.contains("1 frames were no data"), "{text}");
    let messages = place.run("read s --json").json();
    let gaps: Vec<_> = messages.iter().filter(|message| message["cause"] == "SEQUENCE_BREAK").collect();
    assert_eq!((messages.len(), gaps.len()), (19, 1));
    assert_eq!((&gaps[0]["first_missing"], &gaps[0]["last_missing"]), (&13.into(), &14.into()));
    let other = Place::new();
    let totals = other.import("--json", &[&file]).json().remove(1);
    assert_eq!((&totals["checks"]["gaps"], &totals["control"]["connection"]), (&1.into(), &1.into()));
}

#[test]
fn a_killed_import_of_frames_resumes_exactly() {
    const FRAMES: u64 = 200_000;
    let place = Place::new();
    let file = capture(&place, FRAMES, &[5, 150_000]);
    let child = place.start(place.command("import --stream s").arg(&file));
    while place.messages("s") == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, "KILL");
    assert_eq!(end(child).code, -1, "ended by the signal");
    let written = place.messages("s");
    assert!(written > 0 && written < FRAMES, "{written}");
    let totals = place.import("--json", &[&file]).json().remove(1);
    // Two frames are missing, and a gap is where each was.
    assert_eq!((&totals["messages"], &totals["checks"]["gaps"]), (&FRAMES.into(), &2.into()));
    assert!(totals["resumed"].as_u64().unwrap() >= written);
    let whole = Place::new();
    whole.import("--format capture", &[&file]).good();
    assert_eq!(place.totals("s"), whole.totals("s"));
}

#[test]
fn long_numbers_are_bad_lines_or_rounded_on_request() {
    let place = Place::new();
    let trade = |price: &str| {
        format!(
            "1618678142.592855: [1,[[\"{price}\",\"1.5\",\"1618678142.557535\",\"s\",\"l\",\"\"]],\"trade\",\"XMR/USD\"]\n"
        )
    };
    let file = place.path("KRAKEN.ws.1.txt");
    fs::write(&file, [trade("354.1"), trade(&format!("0.{}", "1".repeat(64)))].concat()).unwrap();
    let error = place.import("", &[&file]).bad(1);
    assert!(error.contains("KRAKEN.ws.1.txt, line 2") && error.contains("at most 16 digits"), "{error}");
    let text = place.import("--round-numbers", &[&file]).good();
    assert!(text.contains("1 numbers of more than 16 digits were rounded"), "{text}");
    let trades = place.run("read s --json").json();
    assert_eq!((trades.len(), &trades[1]["entries"][0]["price"]), (2, &"0.1111111111111111".into()));
}

#[test]
fn books_of_archives_are_imported_over_a_server_and_resumed() {
    let place = Place::new();
    let (_served, ready) = Served::start(&place.path("."), &[]);
    let import = |options: &str, file: &Path| {
        let mut command = remotely(&place, &ready, &format!("import {options}"));
        command.arg(file);
        run(command)
    };
    let delta = |number: u64, price: &str| {
        format!(
            "{{\"topic\":\"orderbook.500.X\",\"type\":\"{}\",\"ts\":{},\"data\":{{\"s\":\"X\",\"b\":[[\"{price}\",\"2\"]],\"a\":[],\"u\":{number},\
             \"seq\":9}},\"cts\":1733011200689}}\n",
            if number == 7 { "snapshot" } else { "delta" },
            1_733_011_200_691 + number
        )
    };
    let text = [delta(7, "1.5"), delta(8, "1.6"), delta(9, "x"), delta(10, "1.7")].concat();
    let bybit = place.zip("x.data.zip", "2024-12-01_X_ob500.data", &text);
    assert!(import("--stream bybit", &bybit).bad(1).contains("(2024-12-01_X_ob500.data), line 3"));
    let totals = import("--stream bybit --on-bad-line skip --json", &bybit).json().remove(1);
    // Three changes, and a gap where the bad one was.
    assert_eq!((&totals["messages"], &totals["resumed"]), (&4.into(), &2.into()));

    let order =
        |number: u64, price: &str| format!("[\"{price}\",\"1\",\"60de12d8-f80b-4848-adbc-{number:012x}\"]");
    let book = |bids: &[String]| {
        format!(
            "{{\"product\":\"BTC-USD\",\"level\":3,\"captured_at\":\"2026-08-07T20:04:10Z\",\"sequence\":5,\"bids\":[{}],\"asks\":[]}}",
            bids.join(",")
        )
    };
    let bids: Vec<String> =
        (0..5_000).map(|number| order(number, &format!("{}.5", 60_000 - number))).collect();
    let snapshot = place.gzip("day.json.gz", &book(&bids));
    let totals = import("--stream coinbase --json", &snapshot).json().remove(1);
    assert_eq!((&totals["messages"], &totals["resumed"]), (&5_001.into(), &0.into()));
    assert!(import("--stream coinbase --again skip", &snapshot).good().contains("was there"));
    let all = run(remotely(&place, &ready, "read coinbase --output none --json")).json().remove(0);
    assert_eq!(all["messages"], 5_001);
}
