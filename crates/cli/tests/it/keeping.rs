//! `alter`, `rename`, `seal`, `truncate`, `purge` and `clear`; the settings of `create`.

use crate::support::*;
use serde_json::Value;

fn settings(place: &Place) -> Value {
    place.run("desc feed --json").json().remove(0)["settings"].clone()
}

#[test]
fn settings_are_set_and_altered() {
    let place = Place::new();
    let schema = place.path("schema");
    std::fs::write(&schema, "message Tick { price: f64 }").unwrap();
    let create = format!("create feed --schema {} --keep-for 30d --spaces 2", schema.display());
    place.run(&create).good();
    let found = settings(&place);
    assert_eq!((&found["keep_seconds"], &found["late"]), (&Value::from(2_592_000.0), &Value::from("accept")));
    assert_eq!((&found["seal_after_seconds"], &found["cold_after_seconds"]), (&3600.0.into(), &Value::Null));
    let line = "alter feed --keep-for none --keep-size 1.5GiB --late refuse --seal-after none --cold";
    let said = place.run(line).good();
    assert!(said.contains("late messages refuse") && said.contains("cold after 0s"), "{said}");
    let found = settings(&place);
    assert_eq!((&found["keep_seconds"], &found["keep_bytes"]), (&Value::Null, &Value::from(3u64 << 29)));
    assert_eq!((&found["seal_after_seconds"], &found["cold_after_seconds"]), (&Value::Null, &0.0.into()));
    assert!(place.run("alter feed").bad(2).contains("name a setting"));
    assert!(place.run("alter feeds --cold").bad(1).contains("no stream \"feeds\""));
    assert_eq!(place.run("alter feed --keep-for ever").code, 2);
    // The description of a stream creates an equal one.
    let text = place.run("desc feed").good();
    std::fs::write(&schema, text).unwrap();
    place.run(&create.replace("feed", "other")).good();
}

#[test]
fn sealing_and_renaming_change_no_message() {
    let place = Place::new();
    place.run("generate --stream feed --messages 5k").good();
    let before = place.totals("feed");
    let sealed = place.run("seal feed --json").json().remove(0);
    assert!(sealed["sealed"].as_u64().unwrap() >= 5000, "{sealed}");
    assert!(place.run("seal feed").good().contains("sealed 0 messages"));
    place.run("rename feed us-equities").good();
    assert!(place.run("rename feed x").bad(1).contains("there is us-equities"));
    assert_eq!(place.totals("us-equities"), before);
}

/// Large enough for every encoding of the tier, over several blocks.
#[test]
fn a_large_book_is_unchanged_in_the_cold_tier() {
    let place = Place::new();
    place.run("generate --stream feed --messages 60k").good();
    let before = place.totals("feed");
    place.run("alter feed --cold").good();
    place.run("seal feed").good();
    assert_eq!(place.totals("feed"), before);
    let inspected = place.run("inspect feed").good();
    assert!(inspected.contains("cold"), "{inspected}");
    place.run("check feed").good();
}

#[test]
fn a_symbol_is_renamed() {
    let place = Place::new();
    place.run("generate --stream bars --kind bars --messages 100").good();
    // A symbol without messages is reported.
    let of = |symbol: &str| place.run(&format!("read bars --symbols {symbol}")).out.lines().count();
    let (before, other) = (of("S000001"), of("S000002"));
    assert!(before > 0 && other > 0);
    let text = place.run("rename bars --symbol S000001 NEW").good();
    assert!(text.contains("renamed symbol \"S000001\""), "{text}");
    assert_eq!((of("NEW"), of("S000001"), of("S000002")), (before, 0, other));
    assert!(place.run("symbols bars").good().lines().any(|symbol| symbol == "NEW"));
    assert!(place.run("rename bars --symbol S000001 X").bad(1).contains("no symbol \"S000001\""));
    assert!(place.run("rename bars --symbol NEW S000002").bad(1).contains("already"));
    place.run("check bars").good();
}

#[test]
fn output_of_read_can_be_loaded_and_rewritten() {
    let place = Place::new();
    place.run("generate --stream bars --kind bars --messages 200").good();
    let all = place.run("read bars --output json").good();
    let schema = place.path("schema");
    std::fs::write(&schema, place.run("desc bars").good()).unwrap();
    place.run(&format!("create copy --schema {}", schema.display())).good();
    let file = place.path("bars.jsonl");
    std::fs::write(&file, &all).unwrap();
    let load = format!("load copy {}", file.display());
    assert!(place.run(&load).good().contains("loaded 200 messages"));
    assert_eq!(place.totals("copy"), place.totals("bars"));
    assert_eq!(place.run("load copy --json").json()[0]["messages"], 0);

    // The second minute again, without its first message and with another one twice.
    let (from, to) = ("2024-01-02T14:31:00Z", "2024-01-02T14:32:00Z");
    let minute = place.run(&format!("read copy --from {from} --to {to} --output json")).good();
    let lines: Vec<&str> = minute.lines().collect();
    assert!(lines.len() > 2 && lines.len() < 200);
    let new = [&lines[1..2], &lines[1..]].concat().join("\n");
    std::fs::write(&file, &new).unwrap();
    let rewrite = format!("rewrite copy {} --from {from} --to {to} --yes", file.display());
    assert!(place.run(&rewrite).good().contains(&format!("{} messages", lines.len())));
    let found = place.run(&format!("read copy --from {from} --to {to} --output json")).good();
    assert_eq!(found.trim_end(), new);
    assert_eq!(place.run("read copy").good().lines().count(), 200);
    assert!(place.run("check copy").good().contains("copy"));

    let before = place.totals("copy");
    std::fs::write(&file, &all).unwrap();
    let error = place.run(&rewrite).bad(1);
    assert!(error.contains("line 1 of") && error.contains("nothing was changed"), "{error}");
    std::fs::write(&file, format!("{new}\n\n{{\"symbol\": \"A\"}}\n")).unwrap();
    assert!(place.run(&rewrite).bad(1).contains(&format!("line {} of", lines.len() + 2)));
    assert_eq!(place.totals("copy"), before);
    let error = place.run(&load).bad(1);
    assert!(error.contains(&format!("the {} messages before it are in the stream", lines.len())), "{error}");
    place.run(&format!("rewrite copy --from {to} --to {from}")).bad(2);
    assert!(place.run("load none").bad(1).contains("no stream \"none\""));
}

#[test]
fn messages_are_deleted_only_after_confirmation() {
    let place = Place::new();
    place.run("generate --stream feed --messages 1k").good();
    let summary = place.run("streams --json").json().remove(0);
    let (from, to) = (summary["from"].as_str().unwrap(), summary["to"].as_str().unwrap());
    for command in
        [format!("truncate feed --from {from}"), format!("purge feed --before {to}"), "clear feed".into()]
    {
        assert!(place.run(&command).bad(1).contains("--yes"), "{command}");
    }
    let all = place.totals("feed");
    place.run(&format!("purge feed --before {from} --yes")).good();
    assert_eq!(place.totals("feed"), all);
    assert!(place.run(&format!("purge feed --before {to} --yes")).good().contains("all messages before"));
    assert_ne!(place.totals("feed"), all);
    place.run(&format!("truncate feed --from {to} --yes --json")).json();
    assert_eq!(place.totals("feed")["messages"], 0);
    place.run("clear feed --yes").good();
    assert!(place.run("clear feeds --yes").bad(1).contains("no stream"));
}
