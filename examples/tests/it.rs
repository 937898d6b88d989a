//! Runs the examples as programs, one after the other, as a reader would.

use std::path::Path;
use std::process::Command;
use std::thread;

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("a program that starts");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}{errors}");
    text
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn what_was_recorded_is_replayed() {
    let home = tempfile::tempdir().expect("a directory");
    let database = home.path().join("my.tapedb");
    let recorded = run(env!("CARGO_BIN_EXE_record"), &[text(&database), "1000"]);
    assert_eq!(recorded, "recorded 1000 trades; the stream has 1000\n");

    // Prices are 187.00 to 187.49, twenty times each; a hundred shares each time.
    let all = run(env!("CARGO_BIN_EXE_replay"), &[text(&database)]);
    assert_eq!(all, "1000 trades, turnover 18724500.00\nvolume 100000\n");
    // Every second trade: 187.00, 187.02, …
    let some = run(env!("CARGO_BIN_EXE_replay"), &[text(&database), "AAPL"]);
    assert_eq!(some, "500 trades, turnover 9362000.00\nvolume 50000\n");
}

#[test]
fn history_continues_live() {
    let home = tempfile::tempdir().expect("a directory");
    let database = home.path().join("my.tapedb");
    run(env!("CARGO_BIN_EXE_record"), &[text(&database), "100"]);
    let reader = {
        let database = database.clone();
        thread::spawn(move || run(env!("CARGO_BIN_EXE_live"), &[text(&database), "150"]))
    };
    run(env!("CARGO_BIN_EXE_record"), &[text(&database), "50"]);
    let found = reader.join().expect("a reader that ends");
    let counts = found.lines().last().expect("a line").replace(',', "");
    let numbers: Vec<u64> = counts.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers.iter().sum::<u64>(), 150, "{found}");
    assert!(found.contains("MSFT 187.49"), "{found}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_topic_delivers_every_quote() {
    let home = tempfile::tempdir().expect("a directory");
    let found = run(env!("CARGO_BIN_EXE_topic"), &[text(home.path()), "10000"]);
    assert_eq!(found, "received 10000 quotes, the last with bid 187.49\n");
}

#[test]
fn examples_are_short() {
    for (name, text) in [
        ("record.rs", include_str!("../record.rs")),
        ("replay.rs", include_str!("../replay.rs")),
        ("live.rs", include_str!("../live.rs")),
        ("topic.rs", include_str!("../topic.rs")),
    ] {
        let lines = text.lines().count();
        assert!(lines < 60, "{name} has {lines} lines");
    }
}
