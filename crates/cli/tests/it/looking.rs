//! `streams`, `desc`, `symbols`, `create`, `delete` and `generate`; wrong usage.

use crate::support::Place;
use std::process::Command;

#[test]
fn generates_and_describes() {
    let place = Place::new();
    let text = place.run("generate --stream feed --messages 2k").good();
    assert!(text.starts_with("2,000 messages written"), "{text}");
    let bars = place.run("generate --stream bars --kind bars --messages 100 --contracts 4 --json").json();
    assert_eq!((&bars[0]["written"], &bars[0]["stream"]["symbols"]), (&100.into(), &4.into()));

    let table = place.run("streams").good();
    let names: Vec<&str> = table.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["name", "bars", "feed"]);
    let objects = place.run("streams --json").json();
    assert_eq!((&objects[1]["messages"], &objects[1]["durability"]), (&2000.into(), &"async".into()));
    assert_eq!(objects[0]["from"], "2024-01-02T14:30:00Z");

    let symbols = place.run("symbols bars").good();
    assert_eq!(symbols, "S000000\nS000001\nS000002\nS000003\n");
    assert_eq!(place.run("symbols bars --json").json()[3]["symbol"], "S000003");
    assert_eq!(place.run("desc feed --json").json()[0]["message_types"][0], "Package");
}

#[test]
fn more_data_continue_after_the_last_message() {
    let place = Place::new();
    place.run("generate --stream bars --kind bars --messages 20 --interval 1s").good();
    place.run("generate --stream bars --kind bars --messages 20 --interval 1s").good();
    let times: Vec<String> =
        place.run("read bars --symbols S000000").good().lines().map(|line| line[..20].into()).collect();
    assert_eq!(
        times,
        ["2024-01-02T14:30:00Z", "2024-01-02T14:30:01Z", "2024-01-02T14:30:02Z", "2024-01-02T14:30:03Z"]
    );
    let error = place.run("generate --stream bars --messages 20").bad(1);
    assert!(error.contains("Package"), "{error}");
}

#[test]
fn a_description_makes_the_same_stream() {
    let place = Place::new();
    place.run("generate --stream feed --messages 10").good();
    let text = place.run("desc feed").good();
    let schema = place.path("feed.schema");
    std::fs::write(&schema, &text).unwrap();
    let line = format!("create copy --durability sync --late refuse --schema {}", schema.display());
    assert_eq!(place.run(&line).good(), "created stream \"copy\"\n");
    let objects = place.run("desc copy --json").json();
    assert_eq!(objects[0]["schema"], place.run("desc feed --json").json()[0]["schema"]);
    assert_eq!((&objects[0]["durability"], &objects[0]["late"]), (&"sync".into(), &"refuse".into()));
    assert!(place.run(&line).bad(1).contains("there is a stream \"copy\" already"));
    // A transient stream, which other processes cannot read.
    place.run(&format!("create memory --durability transient --schema {}", schema.display())).good();
    assert_eq!(place.run("desc memory --json").json()[0]["durability"], "transient");
    assert!(place.run("read memory").bad(1).contains("in the memory of the process that writes it"));
    // The stream takes messages of the schema.
    place.run("generate --stream copy --messages 10").good();
    assert_eq!(place.totals("feed"), place.totals("copy"));
}

#[test]
fn deletes_only_after_confirmation() {
    let place = Place::new();
    place.run("generate --stream feed --messages 10").good();
    assert!(place.run("delete feed").bad(1).contains("--yes"));
    assert_eq!(place.messages("feed"), 10);
    assert_eq!(place.run("delete feed --yes --json").json()[0]["deleted"], "feed");
    assert!(place.run("delete feed --yes").bad(1).contains("no stream \"feed\""));
    assert_eq!(place.run("streams").good().lines().count(), 1);
}

#[test]
fn a_damaged_stream_hides_no_other_and_can_be_deleted() {
    for file in ["stream.tape", "0"] {
        let place = Place::new();
        place.run("generate --stream bad --messages 10").good();
        place.run("generate --stream good --messages 10").good();
        let path = place.db().join("streams/bad").join(file);
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap();
        } else {
            assert!(path.exists(), "{file}");
        }
        std::fs::write(&path, "not what it was ".repeat(100)).unwrap();
        if file == "stream.tape" {
            std::fs::copy(&path, path.with_file_name("stream.tape.copy")).unwrap();
        }
        let run = place.run("streams --json");
        assert_eq!((run.code, run.out.lines().count()), (1, 1), "{file}: {}", run.err);
        assert!(run.out.contains("\"good\"") && run.err.contains("cannot be opened"), "{}", run.err);
        let asked = place.run("delete bad");
        assert!(asked.code == 1 && asked.err.contains("add --yes"), "{}", asked.err);
        let run = place.run("delete bad --yes");
        assert_eq!((run.code, run.out.as_str()), (0, "deleted stream \"bad\"\n"), "{file}: {}", run.err);
        assert!(run.err.starts_with("tapedb: warning: "), "{}", run.err);
        assert_eq!(place.run("streams --json").json().len(), 1);
    }
}

#[test]
fn missing_names_are_reported() {
    let place = Place::new();
    for line in ["streams", "read feed", "tail feed", "desc feed", "symbols feed", "delete feed --yes"] {
        let error = place.run(line).bad(1);
        assert!(error.contains("is not a TapeDB database: there is no such directory"), "{line}: {error}");
    }
    assert!(!place.db().exists(), "looking makes no database");
    place.run("generate --stream feed --messages 10").good();
    let error = place.run("read fed").bad(1);
    assert_eq!(error, "tapedb: there is no stream \"fed\"; there is feed\n");
    let missing = place.run("create x --schema /nonexistent").bad(1);
    assert!(missing.contains("cannot read the schema"), "{missing}");
    std::fs::write(place.path("bad.schema"), "message Tick { price: decimal46 }").unwrap();
    let bad = place.run(&format!("create x --schema {}", place.path("bad.schema").display())).bad(1);
    assert!(bad.contains("bad.schema") && bad.contains("decimal46"), "{bad}");
}

#[test]
fn wrong_usage_is_refused() {
    let place = Place::new();
    place.run("generate --stream feed --messages 10").good();
    for line in [
        "read feed --readers 2",
        "read feed --output none --readers 0",
        "tail feed --output none",
        "generate --stream feed --interval 1s",
        "generate --stream bars --kind bars --rate 5",
        "generate --stream x --exchanges 0",
    ] {
        place.run(line).bad(2);
    }
    for line in ["read", "read feed --from yesterday", "read feed --limit many", "tail feed --for 5", "fly"] {
        let run = place.run(line);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{line}");
        assert!(run.err.starts_with("error: "), "{line}: {}", run.err);
    }
    assert_eq!(place.run("streams --json").json().len(), 1, "nothing was made");
}

#[test]
fn every_command_has_help() {
    let help = |words: &[&str]| {
        let run = Command::new(env!("CARGO_BIN_EXE_tapedb")).args(words).arg("--help").output().unwrap();
        assert!(run.status.success());
        String::from_utf8(run.stdout).unwrap()
    };
    let all = help(&[]);
    for command in [
        "streams", "desc", "symbols", "create", "alter", "rename", "seal", "truncate", "purge", "clear",
        "delete", "check", "inspect", "generate", "import", "load", "rewrite", "read", "tail", "book",
        "gaps", "bars", "replay",
    ] {
        assert!(all.contains(&format!("\n  {command} ")), "{command}");
        let text = help(&[command]);
        assert!(text.contains("Example") && text.contains("--db <DIR"), "{text}");
    }
    assert!(help(&["bench", "storage"]).contains("without validation"));
    assert!(help(&["bench", "codec"]).contains("valgrind"));
    assert!(help(&["demo"]).contains("is replaced"));
}
