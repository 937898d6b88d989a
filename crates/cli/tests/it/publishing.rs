//! `tapedb publish`: once, continuously, after a deletion, and what it refuses.

use crate::support::*;
use std::io::{BufRead, BufReader};

#[test]
fn a_stream_becomes_a_table_and_follows_it() {
    let place = Place::new();
    place.run("generate --stream feed --messages 5k").good();
    let publish =
        format!("publish feed --iceberg lake.feed --catalog folder:{}", place.path("lake").display());
    let status = |place: &Place| place.run(&format!("{publish} --status --json")).json().remove(0);
    // Nothing is sealed yet.
    let none = status(&place);
    assert_eq!((&none["exists"], &none["waiting"]), (&false.into(), &0.into()), "{none}");
    place.run("seal feed").good();
    let plan = place.run(&format!("{publish} --dry-run")).good();
    assert!(
        plan.contains("would be made") && plan.contains("time_ns") && !place.path("lake").exists(),
        "{plan}"
    );
    let published = place.run(&format!("{publish} --json")).json().remove(0);
    assert_eq!((&published["messages"], &published["rows"]), (&5_000.into(), &5_000.into()), "{published}");
    let again = place.run(&publish).good();
    assert!(again.contains("0 messages in 0 commits; 5,000 are in the table"), "{again}");

    // What is sealed later is published by the one that runs, which a signal ends.
    let mut child = place.start(&mut place.command(&format!("{publish} --follow --every 50ms --json")));
    place.run("generate --stream feed --messages 2k").good();
    place.run("seal feed").good();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
    signal(&child, "INT");
    let ended = end(child);
    assert!(matches!(ended.code, 0 | 130), "{} {}", ended.code, ended.err);
    assert!(line.contains("\"table\":\"lake.default.feed\""), "{line}");
    place.run(&publish).good();
    let now = status(&place);
    assert_eq!((&now["messages"], &now["stale"]), (&7_000.into(), &false.into()), "{now}");

    // Another name of a symbol is noticed, and written by a repair.
    let symbol =
        place.run("symbols feed --json").json().remove(0)["symbol"].as_str().expect("a symbol").to_string();
    place.run(&format!("rename feed --symbol {symbol} NEW")).good();
    assert!(status(&place)["stale"] == true);
    let repaired = place.run(&format!("{publish} --repair")).good();
    assert!(repaired.contains("symbols have been renamed; wrote 7,000 rows again"), "{repaired}");
    assert!(status(&place)["stale"] == false);
}

#[test]
fn a_stream_becomes_a_table_of_delta_lake() {
    let place = Place::new();
    place.run("generate --stream feed --messages 5k").good();
    place.run("seal feed").good();
    let publish = format!("publish feed --delta {}", place.path("lake").display());
    let plan = place.run(&format!("{publish} --dry-run")).good();
    assert!(plan.contains("would be made") && plan.contains("time_day") && plan.contains("date"), "{plan}");
    let published = place.run(&format!("{publish} --json")).json().remove(0);
    assert_eq!((&published["messages"], &published["rows"]), (&5_000.into(), &5_000.into()), "{published}");
    assert!(place.path("lake/_delta_log/00000000000000000001.json").exists());
    let status = place.run(&format!("{publish} --status --json")).json().remove(0);
    assert_eq!((&status["messages"], &status["stale"]), (&5_000.into(), &false.into()), "{status}");
    let repaired = place.run(&format!("{publish} --repair --all")).good();
    assert!(repaired.contains("wrote 5,000 rows again"), "{repaired}");
    for (words, text) in [
        ("--delta s3://bucket", "no place of a Delta table"),
        ("--delta LAKE --iceberg lake.feed", "cannot be used with"),
        ("--delta LAKE --symbol-buckets 4", "no buckets"),
        ("", "--iceberg"),
    ] {
        let words = words.replace("LAKE", &place.path("lake").display().to_string());
        let refused = place.run(&format!("publish feed {words}"));
        assert!(refused.code == 2 && refused.err.contains(text), "{words}: {}", refused.err);
    }
}

#[test]
fn following_waits_for_a_place_that_is_away_and_ends_in_order() {
    let place = Place::new();
    place.run("generate --stream feed --messages 1k").good();
    place.run("seal feed").good();
    // A file is where the folder of tables belongs.
    let lake = place.path("lake");
    std::fs::write(&lake, "").expect("a file");
    for (publish, again) in [
        (format!("publish feed --iceberg lake.feed --catalog folder:{}", lake.display()), true),
        (format!("publish feed --delta {}", place.path("lake/delta").display()), false),
    ] {
        let mut child = place.start(&mut place.command(&format!("{publish} --follow --every 50ms --json")));
        let mut warnings = BufReader::new(child.stderr.take().expect("piped"));
        let mut warning = String::new();
        warnings.read_line(&mut warning).expect("a line");
        assert!(warning.contains("trying again"), "{warning}");
        if again {
            std::fs::remove_file(&lake).expect("removed");
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
            assert!(line.contains("\"messages\":1000"), "{line}");
            warning.clear();
            warnings.read_line(&mut warning).expect("a line");
            assert!(warning.contains("is published again"), "{warning}");
        }
        signal(&child, "INT");
        let ended = end(child);
        assert!(matches!(ended.code, 0 | 130), "{} {}", ended.code, ended.err);
        if again {
            std::fs::rename(&lake, place.path("whole")).expect("renamed");
            std::fs::write(&lake, "").expect("a file");
        }
    }
    // What was published is whole.
    std::fs::remove_file(&lake).expect("removed");
    std::fs::rename(place.path("whole"), &lake).expect("renamed");
    let status =
        format!("publish feed --iceberg lake.feed --catalog folder:{} --status --json", lake.display());
    assert_eq!(place.run(&status).json()[0]["messages"], 1_000);
}

#[test]
fn what_cannot_be_published_is_an_error_that_states_what_to_do() {
    let place = Place::new();
    place.run("generate --stream feed --messages 1k").good();
    place.run("seal feed").good();
    let lake = place.path("lake").display().to_string();
    let run = |line: &str| place.run(line);
    assert!(run("publish feed --iceberg lake.feed").err.contains("TAPEDB_CATALOG_LAKE"));
    assert!(run("publish feed --iceberg lake.feed --catalog folder:relative").err.contains("absolute path"));
    let nothing = run(&format!("publish nothing --iceberg lake.feed --catalog folder:{lake}"));
    assert!(nothing.code == 1 && nothing.err.contains("there is feed"), "{}", nothing.err);
    run(&format!("publish feed --iceberg lake.feed --catalog folder:{lake} --json")).json();
    let other = run(&format!("publish feed --iceberg lake.feed --catalog folder:{lake} --symbol-buckets 8"));
    assert!(other.code == 1 && other.err.contains("other options"), "{}", other.err);
    let remote = Run::plain(&format!(
        "publish --db tape://127.0.0.1:1 feed --iceberg lake.feed --catalog folder:{lake}"
    ));
    assert!(remote.code != 0 && remote.err.contains("directory of the database"), "{}", remote.err);
}
