//! `read`: formats, filters, order; and output that is closed early.

use crate::support::{Place, end};
use serde_json::Value;
use std::io::{BufRead, BufReader};

fn filled() -> Place {
    let place = Place::new();
    place.run("generate --stream feed --messages 3k").good();
    place.run("generate --stream bars --kind bars --messages 200 --interval 1ms").good();
    place
}

#[test]
fn text_is_a_line_for_each_message() {
    let place = filled();
    let text = place.run("read bars --limit 1").good();
    assert!(text.starts_with("2024-01-02T14:30:00Z S000000 Bar open="), "{text}");
    assert_eq!(place.run("read feed").good().lines().count(), 3000);
    let both = place.run("read feed bars").good();
    assert_eq!(both.lines().count(), 3200);
    assert!(both.lines().all(|line| line.starts_with("feed 2024-") || line.starts_with("bars 2024-")));
    let times: Vec<&str> = both.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    let nanos: Vec<String> =
        times.iter().map(|time| format!("{:0<30}", time.trim_end_matches('Z').replace('.', ""))).collect();
    assert!(nanos.is_sorted(), "merged by time");
}

#[test]
fn json_is_canonical() {
    let place = filled();
    let one = place.run("read feed --json --limit 2").json();
    assert_eq!((&one[0]["$type"], &one[0]["kind"]), (&"Package".into(), &"SNAPSHOT".into()));
    assert!(one[0].get("$stream").is_none());
    let both = place.run("read feed bars --output json").json();
    let of = |name: &str| both.iter().filter(|message| message["$stream"] == name).count();
    assert_eq!((of("feed"), of("bars")), (3000, 200));
}

/// Rows and names of the columns of an Arrow IPC stream.
fn arrow_rows(path: &std::path::Path) -> (usize, Vec<String>) {
    let reader = arrow_ipc::reader::StreamReader::try_new(std::fs::File::open(path).unwrap(), None).unwrap();
    let names = reader.schema().fields().iter().map(|field| field.name().clone()).collect();
    (reader.map(|batch| batch.unwrap().num_rows()).sum(), names)
}

#[test]
fn arrow_has_a_row_for_each_message() {
    let place = filled();
    let path = place.path("bars.arrows");
    place.run(&format!("read bars --out {}", path.display())).good();
    let names = ["time", "symbol", "open", "high", "low", "close", "volume"].map(String::from).to_vec();
    assert_eq!(arrow_rows(&path), (200, names));
    for (number, decimals) in ["raw", "38,18"].iter().enumerate() {
        let path = place.path(&format!("feed{number}.arrow"));
        place.run(&format!("read feed --limit 250 --decimals {decimals} --out {}", path.display())).good();
        assert_eq!(arrow_rows(&path).0, 250);
    }
    let output = place.command("read bars --output arrow --limit 3").output().unwrap();
    assert!(output.status.success());
    std::fs::write(place.path("piped.arrows"), output.stdout).unwrap();
    assert_eq!(arrow_rows(&place.path("piped.arrows")).0, 3);

    let error = place.run("read feed bars --output arrow").bad(2);
    assert!(error.contains("Bar, Package are selected; choose one with --types"), "{error}");
    let error = place.run("read bars --output arrow --reverse").bad(2);
    assert!(error.contains("leave out --reverse"), "{error}");
    let output = place.command("read bars --output arrow --decimals 18").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && error.contains("such as 18,4"), "{error}");
    let error = place.run("read bars --output arrow --decimals 9,0").bad(1);
    assert!(error.contains("is not exact in Decimal128(9, 0)"), "{error}");
    assert!(place.run("read bars --decimals raw").bad(2).contains("--decimals is for --output arrow"));
}

#[test]
fn csv_has_a_row_for_each_entry() {
    let place = filled();
    let csv = place.run("read bars --output csv --limit 2").good();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "time,symbol,type,open,high,low,close,volume"));
    assert!(lines[1].starts_with("2024-01-02T14:30:00Z,S000000,Bar,"), "{}", lines[1]);
    assert_eq!(place.run("read bars --output csv --limit 2 --no-header").good().lines().count(), 2);

    let entries: usize = place
        .run("read feed --json")
        .json()
        .iter()
        .map(|message| message["entries"].as_array().unwrap().len())
        .sum();
    let csv = place.run("read feed --output csv").good();
    assert_eq!(csv.lines().count(), entries + 1);
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().all(|line| line.split(',').count() == columns));
    let error = place.run("read feed bars --output csv").bad(2);
    assert!(error.contains("Package of \"feed\" and Bar of \"bars\""), "{error}");
    let chosen = place.run("read feed bars --types Bar --output csv").good();
    assert!(chosen.starts_with("stream,time,symbol,type,open") && chosen.lines().count() == 201);
}

#[test]
fn filters_select() {
    let place = filled();
    let all = place.run("read bars").good();
    let has = |symbol: &str| {
        all.lines().filter(|line| line.contains(symbol)).map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(place.run("read bars --symbols S000003").good(), has("S000003"));
    let count = |line: &str| place.run(line).good().lines().count();
    assert_eq!(count("read bars --symbols S000003,S000004 --limit 7"), 7);
    assert_eq!(count("read bars --from 2024-01-02T14:30:00.005Z --to 2024-01-02T14:30:00.007Z"), 20);
    assert_eq!(count("read feed bars --types Bar"), 200);
    let mut reversed: Vec<String> =
        place.run("read bars --reverse").good().lines().map(String::from).collect();
    reversed.reverse();
    assert!(all.lines().eq(reversed.iter().map(String::as_str)));
    let unknown = place.run("read bars --symbols NONE");
    assert_eq!((unknown.code, unknown.out.as_str()), (0, ""));
    assert!(unknown.err.starts_with("tapedb: warning: no message has symbol \"NONE\""), "{}", unknown.err);
    assert!(place.run("read bars --types Tick").bad(1).contains("Tick"));
}

#[test]
fn none_counts_and_checks() {
    let place = filled();
    let text = place.run("read feed bars --output none").good();
    assert!(
        text.contains("messages  3,200\n") && text.contains("  Bar  200\n") && text.contains("checksum  "),
        "{text}"
    );
    let one = place.totals("feed bars");
    assert_eq!((&one["messages"], &one["types"]["Package"]), (&3200.into(), &3000.into()));
    let three: Value = place.run("read feed bars --output none --json --readers 3").json().remove(0);
    assert_eq!((&three["checksum"], &three["readers"]), (&one["checksum"], &3.into()));
    assert!(place.run("read feed --output none").good().contains(" (1 reader, "));
    assert!(place.run("read feed --output none --readers 2").good().contains(" (2 readers, "));
    assert_ne!(place.totals("bars")["checksum"], one["checksum"]);
}

#[test]
fn the_checksum_is_the_one_described() {
    let place = Place::new();
    place.run("generate --stream bars --kind bars --messages 25").good();
    let db = tapedb_engine::Database::open_read_only(place.db()).unwrap();
    let mut cursor = db.stream("bars").unwrap().cursor().open().unwrap();
    let mut bytes = Vec::new();
    while let Some(message) = cursor.next().unwrap() {
        bytes.extend_from_slice(&message.time().nanos().to_le_bytes());
        bytes.extend_from_slice(message.symbol().as_bytes());
        bytes.extend_from_slice(message.type_name().as_bytes());
        bytes.extend_from_slice(message.body());
    }
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes);
    assert_eq!(place.totals("bars")["checksum"], format!("{crc:08x}"));
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let place = filled();
    let mut child = place.start(&mut place.command("read feed"));
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("Package"));
    let run = end(child);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
}

#[test]
fn damage_is_reported_and_skipped() {
    let place = filled();
    let log = place.db().join("streams/feed/0/00000000000000000000.log");
    let mut bytes = std::fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let run = place.run("read feed");
    assert_eq!(run.code, 1);
    assert!(run.err.contains("tapedb: warning: ") && run.err.contains("messages"), "{}", run.err);
    let lines = run.out.lines().count();
    assert!(lines < 3000 && lines > 0, "{lines} lines, {}", run.err);
}

#[test]
fn reading_starts_at_the_given_position() {
    let place = filled();
    let all = place.run("read feed").good();
    let lines: Vec<&str> = all.lines().collect();
    let last = place.run("read feed --last 7").good();
    assert!(last.lines().eq(lines[2993..].iter().copied()));
    let arrived = place.run("read feed --from-sequence 2990 --limit 4").good();
    assert!(arrived.lines().eq(lines[2990..2994].iter().copied()));
    assert!(place.run("read feed --from-sequence 3001").bad(1).contains("3000 messages"));
    for (line, count) in [("--last 7", 7), ("--last 7 --limit 3", 3), ("--last 3 --limit 7", 3)] {
        let reversed = place.run(&format!("read feed {line} --reverse")).good();
        assert!(reversed.lines().eq(lines.iter().rev().take(count).copied()), "{line}");
    }
    let text = place.run("read feed --last 7 --reverse --output none --json").json().remove(0);
    assert_eq!(text["messages"], 7);
}

#[test]
fn the_name_of_a_file_implies_its_format() {
    let place = filled();
    let read = |options: &str, name: &str| {
        let path = place.path(name);
        let run = place.run(&format!("read bars --limit 3 {options} --out {}", path.display()));
        (run, std::fs::read_to_string(path).unwrap_or_default())
    };
    for (name, form) in [
        ("a.csv", "csv"),
        ("a.CSV", "csv"),
        ("a.json", "json"),
        ("a.jsonl", "json"),
        ("a.txt", "text"),
        ("a", "text"),
    ] {
        let (run, written) = read("", name);
        run.good();
        assert_eq!(written, place.run(&format!("read bars --limit 3 --output {form}")).good(), "{name}");
        let (run, again) = read(&format!("--output {form}"), &format!("again-{name}"));
        run.good();
        assert_eq!(again, written);
    }
    let (run, written) = read("--json", "b.csv");
    run.good();
    assert!(written.starts_with("time,symbol"), "{written}");
    let (run, written) = read("--output json", "c.csv");
    assert!(run.bad(2).contains("implies csv, and --output is json"));
    assert!(written.is_empty() && !place.path("c.csv").exists());
}
