//! What clients receive.

use crate::place::{Place, at, code, number, set, snapshot, trade, update, whole};
use serde_json::{Value, json};
use tapedb_market::{
    Aggressor, BidAsk, Entry, Gap, Liquidation, MarketByPrice, Order, OrderAction, Package, Side, Trade,
};

fn texts(messages: &[Value], names: &[&str]) -> Vec<String> {
    let of =
        |message: &Value| names.iter().map(|name| message[*name].to_string()).collect::<Vec<_>>().join(" ");
    messages.iter().map(of).collect()
}

#[test]
fn trades_and_book_changes_are_those_of_tardis_machine() {
    let place = Place::new(&["feed"]);
    let sold = Trade {
        price: number("7996.50"),
        size: number("0.00000001"),
        aggressor: Some(Aggressor::Sell),
        id: Some(u64::MAX),
        exchange: code("BINUSDM"),
        ..Trade::default()
    };
    let old = Trade { condition: code("HISTORY"), ..sold };
    let package = Package {
        source_time: Some(at(-2)),
        match_time: Some(at(-3)),
        entries: vec![Entry::Trade(sold), Entry::Trade(old), set(code("BINUSDM"), Side::Ask, "7997", "5")],
        ..Package::default()
    };
    place.append(0, "a\"ü", at(0), &package);
    let entries = vec![
        whole(code("BINUSDM"), Side::Ask, "2", "3"),
        whole(code("BINUSDM"), Side::Bid, "1.5", "4"),
        whole(code("OTHER"), Side::Bid, "1.6", "4"),
        whole(code("BINUSDM"), Side::Bid, "1.0", "5"),
    ];
    place.append(0, "B", at(1), &snapshot(entries));
    place.append(0, "B", at(2), &update(vec![set(code("BINUSDM"), Side::Bid, "1.5", "0")]));
    let option = r#"{"exchange":"binance-futures","symbols":[],"dataTypes":["trade","book_change"]}"#;
    let expected = json!([
        {"type": "trade", "symbol": "a\"ü", "exchange": "binance-futures", "id": "18446744073709551615", "price": 7996.50, "amount": 1e-8,
            "side": "sell", "timestamp": "2024-01-02T14:29:59.997Z", "localTimestamp": "2024-01-02T14:30:00Z"},
        {"type": "book_change", "symbol": "a\"ü", "exchange": "binance-futures", "isSnapshot": false, "bids": [],
            "asks": [{"price": 7997, "amount": 5}], "timestamp": "2024-01-02T14:29:59.998Z", "localTimestamp": "2024-01-02T14:30:00Z"},
        {"type": "book_change", "symbol": "B", "exchange": "binance-futures", "isSnapshot": true,
            "bids": [{"price": 1.5, "amount": 4}, {"price": 1.0, "amount": 5}], "asks": [{"price": 2, "amount": 3}],
            "timestamp": "2024-01-02T14:30:00.001Z", "localTimestamp": "2024-01-02T14:30:00.001Z"},
        {"type": "book_change", "symbol": "B", "exchange": "binance-futures", "isSnapshot": false,
            "bids": [{"price": 1.5, "amount": 0}], "asks": [], "timestamp": "2024-01-02T14:30:00.002Z", "localTimestamp": "2024-01-02T14:30:00.002Z"},
    ]);
    assert_eq!(Value::from(place.receive(option)), expected);
    // By the stream's name, all venues are there.
    let all = place.receive(r#"{"exchange":"feed","dataTypes":["book_change"],"symbols":["B"]}"#);
    assert_eq!(all[0]["bids"].as_array().map(Vec::len), Some(3));
    assert_eq!(all[0]["exchange"], "feed");
}

#[test]
fn several_options_are_merged_by_time_each_with_its_symbols_range_and_types() {
    let place = Place::new(&["x", "y", "z"]);
    place.fill(0, "A", 10);
    place.fill(0, "B", 10);
    place.fill(1, "A", 10);
    place.fill(2, "A", 10);
    let options = r#"[
        {"exchange": "x", "symbols": ["A"], "dataTypes": ["trade"], "from": "2024-01-02T14:30:00.002Z", "to": "2024-01-02T14:30:00.004Z"},
        {"exchange": "y", "dataTypes": ["trade"], "from": "2024-01-02T14:30:00.003Z", "to": "2024-01-02T14:30:00.005Z"},
        {"exchange": "y", "dataTypes": ["book_change"]}
    ]"#;
    let found = texts(&place.receive(options), &["exchange", "symbol", "price"]);
    assert_eq!(found, ["\"x\" \"A\" 2.5", "\"x\" \"A\" 3.5", "\"y\" \"A\" 3.5", "\"y\" \"A\" 4.5"]);
    assert!(place.receive(r#"{"exchange":"binance","dataTypes":["trade"]}"#).is_empty());
    assert!(place.receive(r#"{"exchange":"x","dataTypes":["trade"],"symbols":["none"]}"#).is_empty());
    assert!(place.receive(r#"{"exchange":"x","dataTypes":[]}"#).is_empty());
}

#[test]
fn snapshots_come_at_each_change_or_after_intervals() {
    let place = Place::new(&["feed"]);
    let entries = vec![
        whole(None, Side::Bid, "10", "1"),
        whole(None, Side::Bid, "9", "2"),
        whole(None, Side::Ask, "11", "3"),
    ];
    place.append(0, "A", at(0), &snapshot(entries));
    // Below the depth of quotes; then no change at all; then the best bid goes.
    place.append(0, "A", at(5), &update(vec![set(None, Side::Bid, "9", "4")]));
    place.append(0, "A", at(6), &update(vec![set(None, Side::Ask, "11.00", "3.0")]));
    place.append(0, "A", at(7), &update(vec![set(None, Side::Bid, "10", "0")]));
    place.append(0, "A", at(25), &update(vec![trade(None, "1", "1")]));
    let of = |name: &str| {
        let option = format!(r#"{{"exchange":"feed","dataTypes":["{name}"]}}"#);
        texts(&place.receive(&option), &["name", "bids", "asks", "timestamp", "localTimestamp"])
    };
    let line = |name: &str, bids: &str, ask: &str, at: &str, local: &str| {
        let bids: Vec<String> = bids
            .split(' ')
            .map(|level| {
                let (price, amount) = level.split_once('x').unwrap();
                format!(r#"{{"amount":{amount},"price":{price}}}"#)
            })
            .collect();
        format!(
            r#""{name}" [{}] [{{"amount":{ask}}}] "2024-01-02T14:30:00{at}Z" "2024-01-02T14:30:00{local}Z""#,
            bids.join(",")
        )
    };
    let ask = r#"3,"price":11"#;
    let quotes = of("quote");
    assert_eq!(quotes[0], line("quote", "10x1", ask, "", ""));
    assert_eq!(quotes[1..], [line("quote", "9x4", ask, ".007", ".007")]);
    assert_eq!(of("book_snapshot_2_0ms").len(), 3);
    // Of two intervals of 10 ms, written with the first message after the interval.
    assert_eq!(of("book_snapshot_3_10ms"), [line("book_snapshot_3_10ms", "9x4", ask, ".007", ".025")]);
    let message = &place.receive(r#"{"exchange":"feed","dataTypes":["book_snapshot_3_10ms"]}"#)[0];
    assert_eq!(
        (&message["type"], &message["depth"], &message["interval"]),
        (&"book_snapshot".into(), &3.into(), &10.into())
    );
}

#[test]
fn gaps_are_disconnects_where_they_are_asked_for_and_books_are_unknown_after_them() {
    let place = Place::new(&["feed"]);
    let whole = |price: &str| snapshot(vec![whole(None, Side::Bid, price, "1")]);
    place.append(0, "A", at(0), &whole("1"));
    place.append(0, "B", at(0), &whole("1"));
    place.append(0, "B", at(1), &Gap::default());
    place.append(0, "channel 3", at(2), &Gap::default());
    place.append(0, "A", at(3), &update(vec![set(None, Side::Bid, "2", "1")]));
    place.append(0, "A", at(4), &whole("3"));
    let option = |more: &str| format!(r#"{{"exchange":"feed","dataTypes":["quote"],"symbols":["A"]{more}}}"#);
    let with = place.receive(&option(r#","withDisconnectMessages":true"#));
    let kinds = texts(&with, &["type", "bids", "localTimestamp"]);
    assert_eq!(
        kinds,
        [
            r#""book_snapshot" [{"amount":1,"price":1}] "2024-01-02T14:30:00Z""#,
            r#""disconnect" null "2024-01-02T14:30:00.002Z""#,
            r#""book_snapshot" [{"amount":1,"price":3}] "2024-01-02T14:30:00.004Z""#,
        ]
    );
    assert_eq!(
        with[1],
        json!({"type": "disconnect", "exchange": "feed", "localTimestamp": "2024-01-02T14:30:00.002Z"})
    );
    assert_eq!(place.receive(&option("")).len(), 2);
    let all = r#"{"exchange":"feed","dataTypes":[],"withDisconnectMessages":true}"#;
    assert_eq!(place.receive(&format!("[{all},{all}]")).len(), 2, "each gap once");
}

#[test]
fn orders_changes_at_a_price_and_liquidations_are_messages_too() {
    let place = Place::new(&["feed"]);
    let (price, size) = (Some(number("10.5")), Some(number("3")));
    let order = Order { order_id: Some(1), side: Some(Side::Bid), price, size, ..Order::default() };
    place.append(0, "A", at(0), &Order { action: OrderAction::Clear, ..Order::default() });
    place.append(0, "A", at(1), &order);
    place.append(
        0,
        "A",
        at(2),
        &Order { action: OrderAction::Execute, size: Some(number("1")), trade_id: Some(9), ..order.clone() },
    );
    let level = BidAsk { bid_price: price, bid_size: size, ..BidAsk::default() };
    let ask = BidAsk { ask_price: Some(number("11")), ask_size: size, ..BidAsk::default() };
    place.append(0, "M", at(3), &MarketByPrice { levels: vec![level, ask], ..MarketByPrice::default() });
    let change = MarketByPrice {
        action: Some(OrderAction::Delete),
        side: Some(Side::Ask),
        price,
        ..MarketByPrice::default()
    };
    place.append(0, "M", at(4), &change);
    let traded = MarketByPrice {
        action: Some(OrderAction::Trade),
        size,
        trade_id_text: Some("t\\1".into()),
        ..change
    };
    place.append(0, "M", at(5), &traded);
    place.append(
        0,
        "A",
        at(6),
        &Liquidation { price, size, side: Some(Side::Ask), ..Liquidation::default() },
    );
    let option = r#"{"exchange":"feed","dataTypes":["trade","book_change","quote","liquidation"]}"#;
    let found = texts(&place.receive(option), &["type", "symbol", "id", "side", "bids", "asks"]);
    assert_eq!(
        found,
        [
            r#""book_snapshot" "A" null null [{"amount":3,"price":10.5}] []"#,
            r#""trade" "A" "9" "sell" null null"#,
            r#""book_snapshot" "A" null null [{"amount":2,"price":10.5}] []"#,
            r#""book_change" "M" null null [{"amount":3,"price":10.5}] [{"amount":3,"price":11}]"#,
            r#""book_snapshot" "M" null null [{"amount":3,"price":10.5}] [{"amount":3,"price":11.0}]"#,
            r#""book_change" "M" null null [] [{"amount":0,"price":10.5}]"#,
            r#""trade" "M" "t\\1" "sell" null null"#,
            r#""liquidation" "A" null "sell" null null"#,
        ]
    );
}
