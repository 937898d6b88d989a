//! `tapedb book` and `tapedb gaps`.

use crate::serving::Served;
use crate::support::{Place, Run};
use serde_json::Value;

fn filled() -> (Place, String) {
    let place = Place::new();
    place.run("generate --stream feed --messages 20k").good();
    let symbol = place.run("symbols feed").good().lines().next().unwrap().to_string();
    (place, symbol)
}

fn book(place: &Place, symbol: &str, more: &str) -> Value {
    place.run(&format!("book feed {symbol} --json {more}")).json().remove(0)
}

#[test]
fn a_book_is_the_same_with_checkpoints() {
    let (place, symbol) = filled();
    let at = "--at 2024-01-02T14:30:00.3Z";
    let [last, then] = ["", at].map(|at| book(&place, &symbol, at));
    let venue = &last["venues"][0];
    assert_eq!(
        (&venue["state"], &venue["kind"], &venue["bid_levels"]),
        (&"seeded".into(), &"prices".into(), &50.into())
    );
    assert_eq!((venue["bids"].as_array().unwrap().len(), &last["checkpoint"]), (10, &Value::Null));
    assert_ne!(then["venues"][0]["bids"], venue["bids"]);

    let written = place.run("book feed --checkpoint --every 2k --json").json().remove(0);
    assert_eq!(written["messages"], 20_000);
    assert!(written["checkpoints"].as_u64().unwrap() > 200, "{written}");
    let again = [("", &last), (at, &then)].map(|(at, before)| {
        let now = book(&place, &symbol, at);
        assert_eq!(
            (&now["venues"][0]["bids"], &now["venues"][0]["asks"]),
            (&before["venues"][0]["bids"], &before["venues"][0]["asks"])
        );
        assert!(
            now["checkpoint"].is_string()
                && now["messages_replayed"].as_u64() < before["messages_replayed"].as_u64()
        );
        now
    });
    assert_eq!(again[1]["best_bid"], then["best_bid"]);
    let rest = place.run("book feed --checkpoint --every 2k").good();
    assert_eq!(rest, "0 checkpoints of books written to feed.books, of 20000 messages\n");
}

#[test]
fn the_ladder_is_a_table_and_wrong_requests_are_refused() {
    let (place, symbol) = filled();
    let text = place.run(&format!("book feed {symbol} --depth 3")).good();
    assert!(text.contains(" prices: seeded, 50 bids and 50 asks, changed 2024-01-02T14:30"), "{text}");
    let table = text.lines().skip_while(|line| !line.starts_with("orders"));
    let table: Vec<&str> = table.take_while(|line| !line.is_empty()).collect();
    assert_eq!(table.len(), 7, "{text}");
    let watched = place.run(&format!("book feed {symbol} --depth 3 --watch --for 1ms")).good();
    assert_eq!(watched, text);
    assert!(place.run("book feed NONE").bad(1).contains("has no symbol"));
    assert_eq!(place.run("book feed").code, 2);
    place.run("generate --stream bars --kind bars --messages 20").good();
    assert!(place.run("book bars S000000").bad(1).contains("Package, Order, MarketByPrice"));
    for every in ["x", "0", "0s"] {
        let refused = place.run(&format!("book feed --checkpoint --every {every}"));
        assert!(refused.code == 2 && refused.err.contains("neither a number of messages"), "{}", refused.err);
    }
}

#[test]
fn a_watched_book_is_printed_again_when_it_changes() {
    let (place, symbol) = filled();
    let mut watch = place.command(&format!("book feed {symbol} --json --watch --for 4s"));
    let child = place.start(&mut watch);
    std::thread::sleep(std::time::Duration::from_secs(1));
    place.run("generate --stream feed --messages 5k --seed 9 --start 2024-01-03").good();
    let watched = Run::of(child.wait_with_output().expect("it ends")).json();
    let last = watched.last().expect("a book");
    assert!(watched.len() > 1 && last["time"].as_str().unwrap().starts_with("2024-01-03"), "{watched:?}");
    assert_eq!(last["venues"][0]["bids"], book(&place, &symbol, "")["venues"][0]["bids"]);
}

#[test]
fn a_server_has_the_same_books() {
    let (place, symbol) = filled();
    place.run("book feed --checkpoint --every 5k").good();
    let mut here = book(&place, &symbol, "");
    let directory = place.db();
    let (_served, ready) = Served::start(directory.parent().unwrap(), &[]);
    let url = format!("tape://{}", ready["tcp"].as_str().unwrap());
    let there = Run::plain(&format!("book feed {symbol} --json --db {url}")).json().remove(0);
    assert!(there["checkpoint"].is_string());
    assert_eq!(there, here.take());
    let written =
        Run::plain(&format!("book feed --checkpoint --every 1k --json --db {url}")).json().remove(0);
    assert!(written["checkpoints"].as_u64().unwrap() > 100, "{written}");
}

#[test]
fn gaps_are_listed_and_what_cannot_be_verified_is_not_complete() {
    let (place, _) = filled();
    let verdict = place.run("gaps feed --json").json().remove(0);
    assert_eq!((&verdict["verdict"], &verdict["messages"]), (&"cannot be verified".into(), &20_000.into()));
    let silent = place.run("gaps feed --silence 5ms").good();
    assert!(silent.lines().next().unwrap().contains(" silence, 0."), "{silent}");
    assert!(silent.lines().last().unwrap().starts_with("verdict: gaps; gaps: "), "{silent}");
    assert!(silent.lines().last().unwrap().ends_with("; messages: 0 numbered, 19,950 not"), "{silent}");
}

#[test]
fn the_recorded_book_of_orders_is_that_of_two_independent_builders() {
    let Some(data) = tapedb_skipped::recorded_data() else { return };
    let place = Place::new();
    let file = data.join("dbn/esh4-glbx-mdp3-20231225.mbo.dbn.zst");
    assert_eq!(place.import("--format dbn", &[&file]).code, 0);
    place.run("book s --checkpoint --every 10k").good();
    let found = place.run("book s ESH4 --json --depth 1").json().remove(0);
    let venue = &found["venues"][0];
    assert_eq!((&venue["orders"], &venue["state"]), (&11_217.into(), &"seeded".into()));
    assert_eq!(venue["bids"][0], serde_json::json!({ "price": "4810.00", "size": "22", "orders": 22 }));
    assert_eq!(venue["asks"][0], serde_json::json!({ "price": "4810.25", "size": "28", "orders": 18 }));
    assert!(found["checkpoint"].is_string());
}

#[test]
fn bars_are_written_once_and_printed_with_averages() {
    let (place, symbol) = filled();
    let first = place.run("bars feed --every 100ms --json").json().remove(0);
    assert_eq!((&first["stream"], &first["messages"]), (&"feed.bars.100ms".into(), &20_000.into()));
    let (written, trades) = (first["bars_written"].as_u64().unwrap(), first["trades"].as_u64().unwrap());
    assert!(written > 100 && trades > 1_000, "{first}");
    let again = place.run("bars feed --every 100ms --json").json().remove(0);
    assert_eq!((&again["bars_written"], &again["bars_replaced"]), (&0.into(), &0.into()));
    let printed = place.run("bars feed --every 100ms --print --json").json();
    assert_eq!(printed.len() as u64, written);
    assert_eq!(printed.iter().filter_map(|bar| bar["trades"].as_u64()).sum::<u64>(), trades);
    let number =
        |bar: &Value, name: &str| bar[name].as_str().and_then(|text| text.parse::<f64>().ok()).unwrap();
    let bar = printed.iter().find(|bar| bar["symbol"] == symbol.as_str()).unwrap();
    assert_eq!(bar["vwap"].as_f64(), Some(number(bar, "turnover") / number(bar, "volume")));
    assert!(number(bar, "low") <= number(bar, "open") && number(bar, "open") <= number(bar, "high"));

    for (rule, name) in [
        ("--ticks 1k", "feed.bars.ticks-1000"),
        ("--volume 5E2", "feed.bars.volume-500"),
        ("--dollars 1000000.0", "feed.bars.dollars-1000000"),
        ("--quotes --every 60s", "feed.bars.quotes.1m"),
        ("--ticks 3", "feed.bars.ticks-3"),
    ] {
        let made = place.run(&format!("bars feed {rule} --json")).json().remove(0);
        assert_eq!(made["stream"], name);
        let again = place.run(&format!("bars feed {rule} --json")).json().remove(0);
        assert!(made["bars_written"].as_u64() > Some(0) || rule == "--ticks 1k", "{made}");
        assert_eq!((&again["bars_written"], &again["bars_replaced"]), (&0.into(), &0.into()), "{rule}");
    }
    let text = place.run("bars feed --every 1h --print").good();
    assert!(text.lines().all(|line| line.contains(" trades=") && line.contains(" vwap=")), "{text}");
    assert_eq!(place.run("bars feed").code, 2);
    assert_eq!(place.run("bars feed --volume 1 --quotes").code, 2);
    for rule in ["--dollars=-1", "--volume 0", "--ticks 0", "--every 0s"] {
        assert_eq!(place.run(&format!("bars feed {rule}")).code, 2, "{rule}");
    }
    assert_eq!(place.run("bars none --every 1m").code, 1);
}

#[test]
fn live_bars_go_on_with_new_messages_over_a_server() {
    let (place, _) = filled();
    let directory = place.db();
    let (_served, ready) = Served::start(directory.parent().unwrap(), &[]);
    let url = format!("tape://{}", ready["tcp"].as_str().unwrap());
    let line = format!("bars feed --every 10ms --live --for 4s --json --db {url}");
    let child = place.start(&mut Run::command(&line));
    std::thread::sleep(std::time::Duration::from_secs(1));
    Run::plain(&format!("generate --stream feed --messages 5k --db {url}")).good();
    let live = Run::of(child.wait_with_output().expect("it ends")).json().remove(0);
    assert_eq!(live["messages"], 25_000);
    // Those that have not ended are missing, and no other.
    let rest = Run::plain(&format!("bars feed --every 10ms --json --db {url}")).json().remove(0);
    let last = Run::plain(&format!("bars feed --every 10ms --json --db {url}")).json().remove(0);
    assert!(live["bars_written"].as_u64() > rest["bars_written"].as_u64(), "{live} {rest}");
    assert!(rest["bars_written"].as_u64().unwrap() <= 100, "{rest}");
    assert_eq!((&last["bars_written"], &last["bars_replaced"]), (&0.into(), &0.into()));
}
