//! Books, heatmaps and gaps of a generated feed.

use crate::support::Place;
use serde_json::{Value, json};
use tapedb_engine::{Durability, StreamOptions};
use tapedb_market::{Entry, Level2Snapshot, Package, PackageKind, Side, Trade};
use tapedb_schema::Timestamp;

/// Twenty seconds of one symbol: each second a snapshot with the best bid at 100 + i, and a trade.
fn place() -> Place {
    let place = Place::new();
    let schema = tapedb_codec::SchemaBuilder::new().with::<Package>().finish();
    let options = StreamOptions { durability: Durability::Async, ..StreamOptions::default() };
    let stream = place.server.database().create_stream("feed", schema, options).unwrap();
    let mut loader = stream.loader().unwrap();
    for second in 0..20i64 {
        let level = |side, price: i64, level| {
            let (price, size) = (price.to_string().parse().unwrap(), "2.5".parse().unwrap());
            Entry::Level2Snapshot(Level2Snapshot { side, level, price, size, ..Level2Snapshot::default() })
        };
        let trade = Trade { price: "100".parse().unwrap(), size: "1".parse().unwrap(), ..Trade::default() };
        let entries = vec![
            level(Side::Bid, 100 + second, 0),
            level(Side::Bid, 99 + second, 1),
            level(Side::Ask, 101 + second, 0),
            Entry::Trade(trade),
        ];
        let package = Package { kind: PackageKind::Snapshot, entries, ..Package::default() };
        loader.append("A", Timestamp(second * 1_000_000_000), &package).unwrap();
    }
    loader.close().unwrap();
    place
}

#[test]
fn a_book_is_that_of_its_time() {
    let place = place();
    let at = |time: &str| place.get(&format!("/api/streams/feed/book?symbol=A&depth=1{time}")).json();
    let book = at("&at=5000000000");
    assert_eq!(book["best"], json!({ "bid": "105", "bid_size": "2.5", "ask": "106", "ask_size": "2.5" }));
    assert_eq!(
        (&book["at"], &book["books"][0]["bids"]),
        (&json!("5000000000"), &json!([["105", "2.5", null]]))
    );
    assert_eq!(at("")["best"]["bid"], "119", "the last one");
    assert_eq!(at("&at=-1")["best"], Value::Null);
}

#[test]
fn a_heatmap_has_a_column_for_each_moment() {
    let place = place();
    let map = place.get("/api/streams/feed/heatmap?symbol=A&columns=10&rows=21&from=0&to=20000000000").json();
    let (times, prices) = (map["times"].as_array().unwrap(), map["prices"].as_array().unwrap());
    assert_eq!((times.len(), prices.len(), &prices[0], &prices[20]), (10, 21, &json!("100"), &json!("120")));
    // The third column ends at six seconds: levels at 104, 105 and 106.
    let column: Vec<f64> =
        map["sizes"][2].as_array().unwrap().iter().map(|size| size.as_f64().unwrap()).collect();
    let there: Vec<usize> = (0..21).filter(|row| column[*row] > 0.0).collect();
    assert_eq!(there, [4, 5, 6]);
    assert_eq!(map["trades"].as_array().unwrap().len(), 20);
    let chart = place.get("/api/streams/feed/chart?symbol=A").json();
    assert_eq!(chart["time"].as_array().unwrap().len(), 20, "trades of packages");
    assert_eq!(place.get("/api/streams/feed/gaps").json()["gaps"], json!([]));
}
