//! Imports and other writers that are killed or interrupted.

use crate::support::{Place, end, signal};
use std::path::Path;
use std::time::Duration;

const TRADES: &str = "--format us-equity-ticks";
/// Rows of each of two files: enough to interrupt the import.
const ROWS: u64 = 300_000;

/// Starts an import, and sends it a signal once it has written a message; the exit code and the messages in the stream.
fn interrupt(place: &Place, files: &[&Path], name: &str) -> (i32, u64) {
    let child = place.start(place.command(&format!("import --stream s {TRADES}")).args(files));
    while place.messages("s") == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, name);
    let code = end(child).code;
    (code, place.messages("s"))
}

#[test]
fn a_killed_import_resumes_exactly() {
    let place = Place::new();
    let (a, b) = (place.trades("aaa", ROWS), place.trades("bbb", ROWS));
    let (code, written) = interrupt(&place, &[&a, &b], "KILL");
    assert_eq!(code, -1, "ended by the signal");
    assert!(written > 0 && written < 2 * ROWS, "{written}");
    // Neither one of the files alone, nor another file, may hide the interrupted import.
    let other = place.trades("ccc", 10);
    for files in [[&*a].as_slice(), &[&other], &[&a, &b, &other]] {
        let run = place.import(&format!("{TRADES} --again skip"), files);
        assert!(run.code == 1 && run.err.contains("was interrupted"), "{}", run.err);
    }
    // Killed again, later, with the files in another order.
    let (code, _) = interrupt(&place, &[&b, &a], "KILL");
    assert_eq!(code, -1);
    let run = place.import(&format!("{TRADES} --json"), &[&b, &a]);
    let totals: serde_json::Value = serde_json::from_str(run.out.lines().last().unwrap()).unwrap();
    assert_eq!((run.code, &totals["messages"]), (0, &(2 * ROWS).into()), "{}", run.err);
    assert!(totals["resumed"].as_u64().unwrap() >= written);

    let whole = Place::new();
    whole.import(TRADES, &[&a, &b]).good();
    assert_eq!(place.totals("s"), whole.totals("s"));
    assert!(place.import(TRADES, &[&b]).bad(1).contains("imported into this stream before"));
}

/// The format is that of the packets; of the two lines each packet is imported once, also across a kill.
#[test]
fn a_killed_import_of_a_capture_resumes_exactly() {
    const PACKETS: u32 = 200_000;
    let place = Place::new();
    let capture = place.capture(PACKETS);
    let child = place.start(place.command("import --stream s").arg(&capture));
    while place.messages("s") == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, "KILL");
    assert_eq!(end(child).code, -1, "ended by the signal");
    let written = place.messages("s");
    assert!(written > 0 && written < u64::from(PACKETS), "{written}");
    let objects = place.import("--json", &[&capture]).json();
    let totals = objects.last().unwrap();
    assert_eq!(totals["messages"], PACKETS);
    assert!(totals["resumed"].as_u64().unwrap() >= written);
    assert_eq!(place.messages("s"), u64::from(PACKETS));
    let whole = Place::new();
    whole.import("--format mdp3", &[&capture]).good();
    assert_eq!(place.totals("s"), whole.totals("s"));
}

#[test]
fn a_killed_import_of_csv_resumes_exactly() {
    use std::fmt::Write as _;
    const ROWS: u64 = 400_000;
    let place = Place::new();
    let mut text = String::from("time,symbol,price\n");
    for row in 0..ROWS {
        writeln!(text, "{},S{},{}.{:02}", 1_706_693_400_000 + row, row % 97, row % 1_000, row % 100).unwrap();
    }
    let file = place.path("ticks.csv");
    std::fs::write(&file, text).unwrap();
    let child = place.start(place.command("import --stream s --yes").arg(&file));
    while place.messages("s") == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, "KILL");
    assert_eq!(end(child).code, -1, "ended by the signal");
    let written = place.messages("s");
    assert!(written > 0 && written < ROWS, "{written}");
    let totals = place.import("--json", &[&file]).json().pop().unwrap();
    assert_eq!(totals["messages"], ROWS);
    assert!(totals["resumed"].as_u64().unwrap() >= written);
    assert_eq!(place.messages("s"), ROWS);
}

#[test]
#[cfg(feature = "parquet")]
fn a_killed_import_of_arrow_resumes_exactly() {
    const ROWS: u64 = 300_000;
    let place = Place::new();
    place.run(&format!("generate --stream bars --kind bars --messages {ROWS}")).good();
    let out = place.path("out");
    place.run(&format!("export bars --format arrow --decimals raw --out {}", out.display())).good();
    let file = out.join("bars.Bar.arrows");
    let child = place.start(place.command("import --stream s").arg(&file));
    while place.messages("s") == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, "KILL");
    assert_eq!(end(child).code, -1, "ended by the signal");
    let written = place.messages("s");
    assert!(written > 0 && written < ROWS, "{written}");
    let totals = place.import("--json", &[&file]).json().pop().unwrap();
    assert_eq!(totals["messages"], ROWS);
    assert!(totals["resumed"].as_u64().unwrap() >= written);
    assert_eq!(place.totals("s")["checksum"], place.totals("bars")["checksum"]);
}

#[test]
fn ctrl_c_keeps_the_messages_written() {
    let place = Place::new();
    let (a, b) = (place.trades("aaa", ROWS), place.trades("bbb", ROWS));
    let (code, written) = interrupt(&place, &[&a, &b], "INT");
    assert_eq!(code, 130);
    assert!(written > 0 && written < 2 * ROWS, "{written}");
    assert_eq!(place.run("streams").code, 0);
    let objects = place.import(&format!("{TRADES} --json"), &[&a, &b]).json();
    assert_eq!(objects[2]["resumed"], written, "all that was written is acknowledged");
    assert_eq!(place.messages("s"), 2 * ROWS);
}

#[test]
fn an_import_does_not_resume_after_other_writers() {
    let place = Place::new();
    let (a, b) = (place.trades("aaa", ROWS), place.trades("bbb", ROWS));
    interrupt(&place, &[&a, &b], "INT");
    place.run("generate --stream s --messages 10").good();
    let before = place.messages("s");
    let error = place.import(TRADES, &[&a, &b]).bad(1);
    assert!(error.contains("the stream differs from the files"), "{error}");
    assert_eq!(place.messages("s"), before);
    place.import(&format!("{TRADES} --again import"), &[&a]).good();
    assert_eq!(place.messages("s"), before + ROWS);
    let error = place.import(TRADES, &[&b]).bad(1);
    assert!(error.contains("a part of"), "{error}");
}

#[test]
fn generate_ends_cleanly() {
    let place = Place::new();
    let child = place.start(&mut place.command("generate --stream feed --messages 1G"));
    while place.messages("feed") == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, "INT");
    let run = end(child);
    assert_eq!((run.code, run.err.as_str()), (130, ""));
    assert_eq!(place.totals("feed")["messages"], place.messages("feed"));
    // A second writer gets an error, a reader does not disturb.
    let child = place.start(&mut place.command("generate --stream feed --messages 1G"));
    while place.messages("feed") == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(50));
    let error = place.run("generate --stream feed --messages 1").bad(1);
    assert!(error.contains("is open for writing elsewhere"), "{error}");
    signal(&child, "TERM");
    assert_eq!(end(child).code, 143);
}
