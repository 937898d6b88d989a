//! `tapedb replay`: targets, speeds, the hash, what is refused.

use crate::importing_venues::capture;
use crate::serving::{Served, remotely, run};
use crate::support::{Place, Run};
use serde_json::Value;
use tapedb_topic::{Folder, Topic};

/// A place with the streams `a` and `b` of the same times and symbols, 40 ms long.
pub fn filled() -> Place {
    let place = Place::new();
    place.run("generate --stream a --messages 2k").good();
    place.run("generate --stream b --messages 2k --seed 1 --start 2024-01-02T14:30:00").good();
    place
}

/// The summary of a replay that prints nothing else.
fn replay(place: &Place, line: &str) -> Value {
    place.run(&format!("replay {line} --json")).json().remove(0)
}

fn hash(summary: &Value) -> String {
    let hash = summary["hash"].as_str().unwrap_or_else(|| panic!("{summary}"));
    assert_eq!(hash.len(), 16, "{summary}");
    hash.to_string()
}

#[test]
fn the_hash_is_the_same_at_every_speed_sealed_or_not_and_through_a_server() {
    let place = filled();
    let first = replay(&place, "a b --output none --speed max");
    assert_eq!((&first["messages"], &first["stopped"]), (&4_000.into(), &false.into()));
    assert_eq!(first["late_us"], Value::Null);
    for speed in ["1x", "100x", "0.5x"] {
        let paced = replay(&place, &format!("a b --output none --speed {speed}"));
        assert_eq!(hash(&paced), hash(&first), "{speed}");
        assert!(paced["late_us"]["p99"].as_f64() > Some(0.0), "{paced}");
        let (took, least) = (paced["seconds"].as_f64().unwrap(), if speed == "100x" { 0.0 } else { 0.03 });
        assert!(took > least, "{speed}: {took}");
    }
    // Of other messages, or the streams in another order, it is another one.
    assert_ne!(hash(&replay(&place, "b a --output none --speed max")), hash(&first));
    let part = replay(&place, "a --output none --speed max --from 2024-01-02T14:30:00.01");
    assert!(part["messages"].as_u64() < Some(2_000) && part["messages"].as_u64() > Some(100), "{part}");
    place.run("seal a").good();
    assert_eq!(hash(&replay(&place, "a b --output none --speed max")), hash(&first), "half sealed");
    place.run("seal b").good();
    assert_eq!(hash(&replay(&place, "a b --output none --speed max")), hash(&first), "sealed");

    let (_served, ready) = Served::start(&place.path("."), &[]);
    for speed in ["1x", "100x", "max"] {
        let line = format!("replay a b --output none --speed {speed} --json");
        let there = run(remotely(&place, &ready, &line)).json().remove(0);
        assert_eq!(hash(&there), hash(&first), "{speed}");
        // Into another stream through the server.
        let line = format!("replay a --into copy-{speed} --speed {speed} --json");
        assert_eq!(run(remotely(&place, &ready, &line)).json()[0]["messages"], 2_000);
    }
    let read = |stream: &str| {
        let line = format!("read {stream} --output none --json");
        let totals = run(remotely(&place, &ready, &line)).json().remove(0);
        (totals["messages"].clone(), totals["checksum"].clone())
    };
    let copies = ["copy-1x", "copy-100x", "copy-max"].map(read);
    assert_eq!(copies, [read("a"), read("a"), read("a")]);
}

#[test]
fn lines_are_those_of_a_read_in_every_format() {
    let place = filled();
    place.run("generate --stream bars --kind bars --messages 50 --interval 1ms").good();
    for output in ["text", "json"] {
        let replayed = place.run(&format!("replay a b --speed 10x --output {output}"));
        assert_eq!(replayed.code, 0, "{}", replayed.err);
        assert_eq!(replayed.out, place.run(&format!("read a b --output {output}")).good());
        assert!(replayed.err.starts_with("replayed 4,000 messages in "), "{}", replayed.err);
        assert!(
            replayed.err.contains(", hash ") && replayed.err.contains("; late by p50 "),
            "{}",
            replayed.err
        );
    }
    let csv = place.run("replay bars --speed max --output csv");
    assert_eq!((csv.code, csv.out), (0, place.run("read bars --output csv").good()));
    let none = place.run("replay bars --speed max --output none").good();
    assert!(none.starts_with("replayed 50 messages in "), "{none}");
    // With --json, lines are JSON and the summary is an object on standard error.
    let json = place.run("replay bars --speed max --json --symbols S000001");
    assert_eq!(json.out, place.run("read bars --symbols S000001 --json").good());
    let summary: Value = serde_json::from_str(&json.err).expect(&json.err);
    assert_eq!(summary["messages"].as_u64(), Some(json.out.lines().count() as u64));
    assert!(place.run("replay a --output arrow").bad(2).contains("arrow"));
}

#[test]
fn a_stream_another_database_and_a_topic_get_what_is_replayed() {
    let place = filled();
    let into = replay(&place, "a b --into both --speed max");
    assert_eq!((hash(&into), place.messages("both")), (hash(&replay(&place, "a b --output none")), 4_000));
    let other = place.path("other");
    let refused = place.run(&format!("replay a b --speed max --into-db {}", other.display())).bad(1);
    assert!(refused.contains("--create"), "{refused}");
    let written = replay(&place, &format!("a b --speed max --create --into-db {}", other.display()));
    assert_eq!(hash(&written), hash(&into));
    let there = Run::plain(&format!("replay a b --speed max --output none --json --db {}", other.display()));
    assert_eq!(hash(&there.json()[0]), hash(&into), "the copies have the names of their streams");

    let folder = place.path("topics");
    let topic = || Topic::open(&Folder::at(&folder), "feed");
    assert!(topic().is_err());
    let line = format!("a b --speed 10x --into-topic feed --topic-folder {}", folder.display());
    assert_eq!(hash(&replay(&place, &line)), hash(&into));
    let topic = topic().unwrap();
    assert_eq!(topic.stats().next_sequence, 4_000);
    // A reliable topic waits for its slow subscriber, and loses nothing.
    let mut subscriber = topic.subscriber().open().unwrap();
    let reader = std::thread::spawn(move || {
        let (mut last, mut count) = (tapedb_schema::Timestamp(i64::MIN), 0);
        while count < 4_000 {
            let Some(message) = subscriber.next().unwrap() else {
                std::thread::yield_now();
                continue;
            };
            assert!(message.time() >= last);
            (last, count) = (message.time(), count + 1);
            if count % 100 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        count
    });
    let again = replay(&place, &line.replace("10x", "max"));
    assert_eq!((hash(&again), reader.join().unwrap()), (hash(&into), 4_000));
    // Without --topic-folder it is a topic of the database.
    assert_eq!(replay(&place, "a --speed max --into-topic own")["messages"], 2_000);
    let own = Folder::of_database(place.db()).unwrap();
    assert_eq!(Topic::open(&own, "own").unwrap().stats().next_sequence, 2_000);
    Topic::delete(&own, "own").unwrap();
    let _ = std::fs::remove_dir(own.path());
}

#[test]
fn gaps_are_replayed_as_gaps() {
    let place = Place::new();
    let file = capture(&place, 20, &[7, 8]);
    place.import("", &[&file]).good();
    assert_eq!(replay(&place, "s --into again --speed 1x")["messages"], place.messages("s"));
    let gaps = |stream: &str| place.run(&format!("gaps {stream} --json")).json();
    let of_again: Vec<String> =
        gaps("again").iter().map(|gap| gap.to_string().replace("\"again\"", "\"s\"")).collect();
    let of_s: Vec<String> = gaps("s").iter().map(Value::to_string).collect();
    assert_eq!(of_again, of_s);
    assert!(of_s.iter().any(|gap| gap.to_lowercase().contains("sequence")), "{of_s:?}");
    let lines = place.run("replay s --speed max --output json").out;
    assert_eq!(lines.matches("SEQUENCE_BREAK").count(), 1, "{lines}");
}

#[test]
fn damage_is_reported_and_left_out() {
    let place = filled();
    let log = place.db().join("streams/a/0/00000000000000000000.log");
    let mut bytes = std::fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let run = place.run("replay a --into again --speed max");
    assert!(run.code == 1 && run.err.contains("tapedb: warning: "), "{} {}", run.code, run.err);
    let left = place.messages("again");
    assert!(left > 0 && left < 2_000 && run.out.starts_with("replayed "), "{left} {}", run.out);
}

#[test]
fn wrong_requests_are_refused_and_change_nothing() {
    let place = filled();
    place.run("generate --stream bars --kind bars --messages 50").good();
    for speed in ["0x", "-1x", "fast", "1e3x", "nan", "", "inf"] {
        let run = Run::of(place.command("replay a").arg(format!("--speed={speed}")).output().unwrap());
        assert!(
            run.code == 2 && run.err.contains("write 1x, 10x, 0.5x or max, or pause"),
            "{speed}: {}",
            run.err
        );
    }
    for (line, code, what) in [
        ("a --speed pause", 2, "--control"),
        ("a --create", 2, "--into-db"),
        ("a --topic-folder x", 2, "--into-topic"),
        ("a --into a", 2, "\"a\" cannot be replayed into itself"),
        ("a b --into b", 2, "\"b\" cannot be replayed into itself"),
        ("a bars --into both", 2, "\"a\" and \"bars\" have different record types"),
        ("a bars --into-topic both", 2, "\"a\" and \"bars\" have different record types"),
        ("a --into bars", 1, "another schema"),
        ("a a", 2, "named twice"),
        ("nothing", 1, "nothing"),
        ("a nothing --into both", 1, "nothing"),
        ("a --into-topic both --into x", 2, "--into"),
    ] {
        let run = place
            .run(&format!("replay {line} --speed max").replace("--speed pause --speed max", "--speed pause"));
        assert!(
            run.code == code && run.err.contains(what) && run.out.is_empty(),
            "{line}: {} {}",
            run.code,
            run.err
        );
    }
    // Also by another path to the same database, and through its server.
    let around = place.path("x/../db");
    std::fs::create_dir(place.path("x")).unwrap();
    let run = place.run(&format!("replay a --speed max --into-db {}", around.display()));
    assert!(run.code == 2 && run.err.contains("into itself"), "{}", run.err);
    let (_served, ready) = Served::start(&place.path("."), &[]);
    let run = place.run(&format!("replay a --speed max --into-db tape://{}", ready["tcp"].as_str().unwrap()));
    assert!(run.code == 2 && run.err.contains("into itself"), "{}", run.err);
    assert_eq!(place.messages("a"), 2_000);
    assert_eq!(place.messages("both"), 0);
    assert!(!place.run("streams").out.contains("both"));
}
