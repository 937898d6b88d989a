//! `tapedb nats`: what it refuses, and a round trip through a server where one is at hand (`crates/brokers/tests` has the kills).

use crate::support::*;

fn place() -> Place {
    let place = Place::new();
    std::fs::write(place.path("schema"), "message Tick { n: i64 }").expect("written");
    let schema = place.path("schema");
    place.run(&format!("create ticks --schema {}", schema.display())).good();
    place
}

#[test]
fn what_cannot_be_reached_or_is_wrong_is_an_error_that_states_what_to_do() {
    let place = place();
    let away = place.run("nats import ticks --jetstream T --server nats://127.0.0.1:1").bad(1);
    assert!(away.contains("127.0.0.1:1") && away.contains("check the address"), "{away}");
    let away = place.run("nats export ticks --jetstream T --server nats://127.0.0.1:1 --json").bad(1);
    assert!(away.contains("check the address"), "{away}");
    let missing = place.run("nats import nothing --jetstream T").bad(1);
    assert!(missing.contains("there is ticks"), "{missing}");
    for (line, why) in [
        ("nats import ticks --jetstream T --server nats://ann:hunter2@h", "TAPEDB_NATS_PASSWORD"),
        ("nats import ticks --jetstream a.b", "no name of a JetStream stream"),
        ("nats import ticks --jetstream T --map price", "NAME=FIELD"),
        ("nats import ticks --jetstream T --map px=price", "no field \"price\""),
        ("nats import ticks --jetstream T --type Bar", "it has Tick"),
        ("nats import ticks --jetstream T --on-bad-record ticks", "a stream of their own"),
        ("nats export ticks --jetstream T --space 3", "no space 3"),
    ] {
        let wrong = place.run(line).bad(2);
        assert!(wrong.contains(why) && !wrong.contains("hunter2"), "{line}: {wrong}");
    }
    let remote = Run::plain("nats import --db tape://127.0.0.1:1 ticks --jetstream T").bad(2);
    assert!(remote.contains("name its directory"), "{remote}");
}
