//! Streams, messages, histograms and charts.

use crate::support::{Place, append};
use serde_json::{Value, json};

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn streams_are_listed_and_described() {
    let place = Place::new();
    place.ticks("us/ticks", 10);
    let streams = place.get("/api/streams").json();
    let row = &streams["streams"][0];
    assert_eq!(
        (&row["name"], &row["messages"], &row["durability"]),
        (&json!("us/ticks"), &json!("10"), &json!("async"))
    );
    assert_eq!((&row["first_time"], &row["last_time"]), (&json!("0"), &json!("9000000000")));
    assert_eq!((&row["may"], &row["types"]), (&json!(["read", "write", "admin"]), &json!(["Tick"])));
    let stream = place.get("/api/streams/us%2Fticks").json();
    assert_eq!(
        (&stream["symbols"], &stream["versions"], &stream["spaces"]),
        (&json!(2), &json!(1), &json!(1))
    );
    assert_eq!(
        stream["types"][0]["fields"][1],
        json!({ "name": "size", "type": "i32", "nullable": false, "doc": "" })
    );
    assert!(stream["schema"].as_str().unwrap().contains("message Tick"));
    assert_eq!(
        place.get("/api/streams/us%2Fticks/symbols").json(),
        json!({ "symbols": ["A", "B"], "more": false })
    );
    assert_eq!(place.get("/api/streams/us%2Fticks/symbols?prefix=B&limit=5").json()["symbols"], json!(["B"]));
    assert_eq!(
        place.get("/api/streams/us%2Fticks/symbols?limit=1").json(),
        json!({ "symbols": ["A"], "more": true })
    );
}

#[test]
fn messages_come_in_pages() {
    let place = Place::new();
    place.ticks("ticks", 25);
    let page = place.get("/api/streams/ticks/messages?limit=2").json();
    let first = json!({
        "time": "0", "symbol": "A", "type": "Tick", "sequence": "0", "space": 0, "body": { "price": 0.0, "size": 2, "id": "0" }
    });
    assert_eq!(page["messages"][0], first);
    for order in ["asc", "desc"] {
        let (mut seen, mut position) = (Vec::new(), String::new());
        loop {
            let path = format!("/api/streams/ticks/messages?symbols=B&limit=5&order={order}{position}");
            let page = place.get(&path).json();
            let messages = page["messages"].as_array().unwrap();
            seen.extend(
                messages.iter().map(|message| message["sequence"].as_str().unwrap().parse::<u64>().unwrap()),
            );
            let Some(next) = page["next"].as_str() else { break };
            let encoded: String = next.bytes().map(|byte| format!("%{byte:02x}")).collect();
            position = format!("&position={encoded}");
        }
        let mut expected: Vec<u64> = (0..25).filter(|number| number % 2 == 1).collect();
        if order == "desc" {
            expected.reverse();
        }
        assert_eq!(seen, expected, "{order}");
    }
    let range = "/api/streams/ticks/messages?from=1970-01-01T00:00:05Z&to=7000000000";
    assert_eq!(place.get(range).json()["messages"].as_array().unwrap().len(), 2);
    assert_eq!(place.get("/api/streams/ticks/messages?types=Tock").status, 400);
    assert_eq!(place.get("/api/streams/ticks/messages?position=x").status, 400);
}

#[test]
fn histograms_count_all_messages() {
    let place = Place::new();
    place.ticks("ticks", 1000);
    let counts = place.get("/api/streams/ticks/histogram?buckets=10").json();
    assert_eq!(numbers(&counts["counts"]).iter().sum::<f64>(), 1000.0);
    assert_eq!(counts["counts"].as_array().unwrap().len(), 10);
    let of = place.get("/api/streams/ticks/histogram?buckets=2&from=0&to=100000000000&symbols=A").json();
    assert_eq!(of["counts"], json!([25, 25]));
}

#[test]
fn charts_show_values_or_pixels() {
    let place = Place::new();
    let stream = place.ticks("ticks", 100);
    let chart = place.get("/api/streams/ticks/chart?symbol=A&pixels=100").json();
    assert_eq!((&chart["raw"], chart["time"].as_array().unwrap().len()), (&json!(true), 50));
    assert_eq!((&chart["last"][1], &chart["volume"][1]), (&json!(2.0), &json!(2.0)));
    append(&stream, 100..10_000);
    let chart = place.get("/api/streams/ticks/chart?symbol=A&pixels=100").json();
    assert_eq!(chart["raw"], json!(false));
    assert_eq!(numbers(&chart["count"]).iter().sum::<f64>(), 5000.0);
    assert_eq!((&chart["min"][0], &chart["max"][99]), (&json!(0.0), &json!(9998.0)));
    assert_eq!(place.get("/api/streams/ticks/chart?symbol=Z").status, 404);
    assert_eq!(place.get("/api/streams/ticks/chart?symbol=A&field=colour").status, 400);
    assert_eq!(
        place.get("/api/streams/ticks/chart?symbol=A&field=id&pixels=100").json()["last"][0],
        json!(98.0)
    );
    assert_eq!(place.get("/api/streams/ticks/book?symbol=A").status, 400, "it has no books");
}
