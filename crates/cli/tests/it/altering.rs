//! `alter --schema`: changes are shown, losses are refused unless they are allowed.

use crate::support::*;

const FIRST: &str = "enum Side { BUY, SELL, CROSS } message Tick { price: i32, side: Side, note: string? }";

struct Altered(Place);

impl Altered {
    fn new() -> Self {
        let place = Place::new();
        std::fs::write(place.path("first"), FIRST).unwrap();
        std::fs::write(
            place.path("ticks"),
            r#"{"symbol":"A","timestamp":"2026-01-02T00:00:00Z","price":15,"side":"CROSS","note":null}"#,
        )
        .unwrap();
        place.run(&format!("create s --schema {}", place.path("first").display())).good();
        place.run(&format!("load s {}", place.path("ticks").display())).good();
        Self(place)
    }

    fn alter(&self, schema: &str, options: &str) -> Run {
        std::fs::write(self.0.path("next"), schema).unwrap();
        self.0.run(&format!("alter s --schema {} {options}", self.0.path("next").display()))
    }

    fn schema(&self) -> String {
        self.0.run("desc s").good()
    }
}

#[test]
fn a_change_without_loss_is_shown_and_made() {
    let altered = Altered::new();
    let next = "enum Side { BUY, SELL, CROSS, SHORT } message Tick { price: i64, side: Side, note: string?, size: u32 = 100 }";
    let shown = altered.alter(next, "--dry-run").good();
    assert!(shown.contains("Tick.price is converted: i32 becomes i64\n"), "{shown}");
    assert!(shown.contains("Tick.size is added: u32, 100 in stored messages\n"), "{shown}");
    assert!(shown.contains("nothing was changed") && !altered.schema().contains("size: u32"), "{shown}");
    let made = altered.alter(next, "--late refuse").good();
    assert!(made.contains("changed the schema") && made.contains("late messages refuse"), "{made}");
    assert!(altered.schema().contains("size: u32 = 100"));
    let read = altered.0.run("read s --output json").good();
    assert!(read.contains(r#""price":15"#) && read.contains(r#""size":100"#), "{read}");
    let again = altered.alter(next, "").good();
    assert!(again.contains("no field and no record type changes"), "{again}");
}

#[test]
fn a_loss_is_refused_unless_its_kind_is_allowed() {
    let altered = Altered::new();
    let before = altered.schema();
    let next = "enum Side { BUY, SELL } message Tick { side: Side?, note: string = \"-\" }";
    let refused = altered.alter(next, "--json").bad(1);
    for part in [
        "Tick.side (symbols CROSS read as null)",
        "Tick.note (nulls cannot",
        "Tick.price (its values",
        "fields,nulls,symbols",
    ] {
        assert!(refused.contains(part), "{refused} lacks {part}");
    }
    let dry = altered.alter(next, "--dry-run --json").json().remove(0);
    assert_eq!(
        (&dry["dry_run"], &dry["changes"][2]["losses"][0]["kind"]),
        (&true.into(), &"fields".into()),
        "{dry}"
    );
    let partly = altered.alter(next, "--allow-loss fields,symbols --json").bad(1);
    assert!(partly.contains("add --allow-loss nulls;") && !partly.contains("Tick.price"), "{partly}");
    assert_eq!(altered.schema(), before);
    assert!(altered.alter(next, "--allow-loss fields,everything").err.contains("not a kind of loss"));
    altered.alter(next, "--allow-loss fields,nulls,symbols").good();
    let read = altered.0.run("read s --output json").good();
    assert!(read.contains(r#""note":"-""#) && !read.contains("CROSS"), "{read}");

    // A conversion without a rule is refused even with --allow-loss.
    let refused = altered.alter("message Tick { note: u8 }", "--allow-loss all").bad(1);
    assert!(refused.contains("note") && refused.contains("nothing was changed"), "{refused}");
    assert!(altered.alter("message Tack { x: u8 }", "--allow-loss all").bad(1).contains("Tick"));
    assert!(altered.alter("message Tick {", "").bad(1).contains("line 1"));
}

#[test]
fn a_stream_without_messages_loses_none() {
    let place = Place::new();
    std::fs::write(place.path("first"), FIRST).unwrap();
    std::fs::write(place.path("next"), "message Tick { price: i64 }").unwrap();
    place.run(&format!("create s --schema {}", place.path("first").display())).good();
    place.run(&format!("alter s --schema {}", place.path("next").display())).good();
    assert!(place.run("alter s --dry-run").code == 2);
    assert!(place.run("alter s").bad(2).contains("--schema FILE"));
}
