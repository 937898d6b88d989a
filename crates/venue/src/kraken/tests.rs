use super::*;
use crate::record::AnyRecord;
use tapedb_market::{BookAction, GapCause};

fn records(parser: &mut Parser, out: &mut Messages, text: &str) -> Vec<AnyRecord> {
    out.begin(Timestamp(1_618_678_133_000_000_000), text);
    parser.frame(text, out).unwrap_or_else(|bad| panic!("{text}: {bad:?}"));
    std::iter::from_fn(|| out.take()).map(|message| message.record).collect()
}

/// The book of the venue's own example of a checksum.
fn snapshot() -> String {
    let level = |i: u32, size: &str| format!(r#"["0.{:05}","0.{size}","1534614248.123678"]"#, i);
    let asks: Vec<String> = (0..10).map(|i| level(5005 + 5 * i, "00000500")).collect();
    let bids =
        [5000, 4995, 4990, 4980, 4975, 4970, 4965, 4960, 4955, 4950].map(|price| level(price, "00000500"));
    format!(r#"[0,{{"as":[{}],"bs":[{}]}},"book-10","XBT/USD"]"#, asks.join(","), bids.join(","))
}

#[test]
fn the_checksum_of_the_venues_example_passes_and_a_wrong_one_is_one_gap() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("KRAKEN", false));
    assert_eq!(records(&mut parser, &mut out, &snapshot()).len(), 1);
    // A level is set to what it is; the checksum is that of the example in the venue's documentation.
    let update = |checksum: u32| {
        format!(
            r#"[0,{{"a":[["0.05005","0.00000500","1534614248.765567"]],"c":"{checksum}"}},"book-10","XBT/USD"]"#
        )
    };
    assert_eq!(records(&mut parser, &mut out, &update(974_947_235)).len(), 1);
    let broken = records(&mut parser, &mut out, &update(974_947_236));
    let [AnyRecord::Package(_), AnyRecord::Gap(gap)] = &broken[..] else { panic!("{broken:?}") };
    assert_eq!((gap.cause, gap.verifiable), (GapCause::FailedChecksum, true));
    // What follows cannot be verified, until there is a snapshot again.
    assert_eq!(records(&mut parser, &mut out, &update(974_947_235)).len(), 1);
    assert_eq!((out.counters().checks_passed, out.counters().checks_failed), (1, 1));
    assert_eq!((out.counters().unverifiable, out.counters().gaps), (1, 1));
    records(&mut parser, &mut out, &snapshot());
    records(&mut parser, &mut out, &update(974_947_235));
    assert_eq!(out.counters().checks_passed, 2);
}

#[test]
fn levels_behind_the_depth_are_dropped_and_absent_ones_deleted_without_effect() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("KRAKEN", false));
    records(&mut parser, &mut out, &snapshot());
    let absent = r#"[0,{"b":[["0.00001","0.00000000","1534614248.7"]],"c":"974947235"},"book-10","XBT/USD"]"#;
    records(&mut parser, &mut out, absent);
    // A new best ask pushes the last one out, which is deleted; both parts of an update are one message.
    let two = r#"[0,{"a":[["0.05001","1.00000000","1534614248.7"]]},{"b":[["0.05000","0.00000000","1534614248.8"]],"c":"1"},"book-10","XBT/USD"]"#;
    let found = records(&mut parser, &mut out, two);
    let AnyRecord::Package(package) = &found[0] else { panic!("{found:?}") };
    let Entry::Level2Update(gone) = package.entries[2] else { panic!("{package:?}") };
    assert_eq!((package.entries.len(), gone.price.to_string(), gone.size), (3, "0.05050".into(), None));
    assert_eq!(package.match_time.unwrap().nanos(), 1_534_614_248_800_000_000);
    assert_eq!(out.counters().checks_passed, 1);
}

#[test]
fn long_conditions_of_trades_are_a_message_of_their_own() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("KRAKEN", false));
    let trade = |misc: &str| {
        format!(r#"[1,[["354.11","0.89","1618678142.557535","s","l","{misc}"]],"trade","XMR/USD"]"#)
    };
    assert_eq!(records(&mut parser, &mut out, &trade("")).len(), 1);
    let two = records(&mut parser, &mut out, &trade("something long"));
    let [AnyRecord::Package(_), AnyRecord::TradeCondition(condition)] = &two[..] else { panic!("{two:?}") };
    assert_eq!(condition.condition, "l,something long");
}

/// The book of the venue's example for version 1, as version 2 writes it.
fn book_v2(kind: &str, last_zeros: bool) -> String {
    let level = |price: u32| {
        let size = if last_zeros { "0.00000500" } else { "5e-6" };
        let price = format!("0.{price:05}");
        let price = if last_zeros { &price[..] } else { price.trim_end_matches('0') };
        format!(r#"{{"price":{price},"qty":{size}}}"#)
    };
    let asks: Vec<String> = (0..10).map(|i| level(5005 + 5 * i)).collect();
    let bids = [5000, 4995, 4990, 4980, 4975, 4970, 4965, 4960, 4955, 4950].map(level);
    format!(
        r#"{{"channel":"book","type":"{kind}","data":[{{"symbol":"BTC/USD","bids":[{}],"asks":[{}],"checksum":974947235,"timestamp":"2023-10-06T17:35:55.440295Z"}}]}}"#,
        bids.join(","),
        asks.join(",")
    )
}

#[test]
fn books_of_version_2_have_checksums_with_and_without_last_zeros() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("KRAKEN", false));
    let reply = r#"{"method":"subscribe","result":{"channel":"book","depth":10,"snapshot":true,"symbol":"BTC/USD"},"success":true}"#;
    assert!(records(&mut parser, &mut out, reply).is_empty());
    let found = records(&mut parser, &mut out, &book_v2("snapshot", true));
    let [AnyRecord::Package(package)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((package.kind, package.entries.len()), (PackageKind::Snapshot, 20));
    assert_eq!(package.match_time.unwrap().to_string(), "2023-10-06T17:35:55.440295Z");
    // A level behind the depth is dropped.
    let update = r#"{"channel":"book","type":"update","data":[{"symbol":"BTC/USD","bids":[{"price":0.00001,"qty":1.00000000}],"asks":[],"checksum":974947235,"timestamp":"2023-10-06T17:35:56.440295Z"}]}"#;
    let found = records(&mut parser, &mut out, update);
    let [AnyRecord::Package(package)] = &found[..] else { panic!("{found:?}") };
    let [Entry::Level2Update(set), Entry::Level2Update(gone)] = &package.entries[..] else {
        panic!("{package:?}")
    };
    assert_eq!((set.action, gone.action), (BookAction::Set, BookAction::Delete));
    assert_eq!(gone.price.to_string(), "0.00001");
    assert_eq!((out.counters().checks_passed, out.counters().checks_failed), (2, 0));
    // Numbers that were written again have the decimals that the pair has shown before.
    assert_eq!(records(&mut parser, &mut out, &book_v2("snapshot", false)).len(), 1);
    assert_eq!((out.counters().checks_passed, out.counters().checks_failed), (3, 0));
    let wrong = update.replace("974947235", "1");
    let broken = records(&mut parser, &mut out, &wrong);
    assert!(matches!(broken[..], [AnyRecord::Package(_), AnyRecord::Gap(_)]), "{broken:?}");
}

#[test]
fn trades_and_tickers_of_version_2() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("KRAKEN", false));
    let trades = r#"{"channel":"trade","type":"update","data":[{"symbol":"MATIC/USD","side":"sell","price":0.5117,"qty":40.0,"ord_type":"market","trade_id":4665906,"timestamp":"2023-09-25T07:49:37.708706Z"}]}"#;
    let found = records(&mut parser, &mut out, trades);
    let [AnyRecord::Package(package)] = &found[..] else { panic!("{found:?}") };
    let [Entry::Trade(trade)] = package.entries[..] else { panic!("{package:?}") };
    assert_eq!((trade.size.to_string(), trade.id), ("40.0".into(), Some(4_665_906)));
    let ticker = r#"{"channel":"ticker","type":"snapshot","data":[{"symbol":"ALGO/USD","bid":0.10025,"bid_qty":740.0,"ask":0.10036,"ask_qty":1361.44813783,"last":0.10035,"volume":997038.98383185,"vwap":0.10148,"low":0.09979,"high":0.10285,"change":-0.00017,"change_pct":-0.17}]}"#;
    let found = records(&mut parser, &mut out, ticker);
    let [AnyRecord::Ticker(ticker)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((ticker.ask_size.unwrap().to_string(), ticker.attributes.len()), ("1361.44813783".into(), 3));
    for (frame, kind) in
        [(r#"{"channel":"heartbeat"}"#, "heartbeat"), (r#"{"method":"pong","req_id":1}"#, "pong")]
    {
        assert!(records(&mut parser, &mut out, frame).is_empty());
        assert_eq!(out.counters().control_kinds[kind], 1);
    }
    let refused = records(
        &mut parser,
        &mut out,
        r#"{"error":"Currency pair not supported","method":"subscribe","success":false}"#,
    );
    assert!(matches!(refused[..], [AnyRecord::Notice(_)]));
    records(&mut parser, &mut out, r#"{"channel":"instrument","type":"update","data":{}}"#);
    assert_eq!(out.counters().unknown_kinds["instrument"], 1);
}

/// The same book as orders, one at each price.
fn orders_v2(checksum: u32) -> String {
    let order = |price: u32| {
        format!(
            r#"{{"order_id":"O{price}","limit_price":0.{price:05},"order_qty":0.00000500,"timestamp":"2023-10-06T18:20:56.506266123Z"}}"#
        )
    };
    let asks: Vec<String> = (0..10).map(|i| order(5005 + 5 * i)).collect();
    let bids = [5000, 4995, 4990, 4980, 4975, 4970, 4965, 4960, 4955, 4950].map(order);
    let (bids, asks) = (bids.join(","), asks.join(","));
    format!(
        r#"{{"channel":"level3","type":"snapshot","data":[{{"symbol":"BTC/USD","bids":[{bids}],"asks":[{asks}],"checksum":{checksum}}}]}}"#
    )
}

fn orders_update(bids: &str, asks: &str, checksum: u32) -> String {
    format!(
        r#"{{"channel":"level3","type":"update","data":[{{"checksum":{checksum},"symbol":"BTC/USD","bids":[{bids}],"asks":[{asks}]}}]}}"#
    )
}

fn order_event(event: &str, id: &str, price: &str, size: &str) -> String {
    format!(
        r#"{{"event":"{event}","order_id":"{id}","limit_price":{price},"order_qty":{size},"timestamp":"2023-10-06T18:20:57.506266123Z"}}"#
    )
}

#[test]
fn orders_of_version_2_have_checksums_over_their_queues() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("KRAKEN", false));
    let mut read = |text: &str| {
        let order = |record: AnyRecord| match record {
            AnyRecord::Order(order) => {
                let price = order.price.map_or(String::new(), |price| price.to_string());
                (format!("{:?} {price}", order.action), order.snapshot, order.event_end)
            }
            AnyRecord::Gap(gap) => (format!("{:?}", gap.cause), false, false),
            other => panic!("{other:?}"),
        };
        let found: Vec<_> = records(&mut parser, &mut out, text).into_iter().map(order).collect();
        (found, out.counters().checks_passed, out.counters().checks_failed)
    };
    let reply = r#"{"method":"subscribe","result":{"channel":"level3","depth":10,"snapshot":true,"symbol":"BTC/USD"},"success":true}"#;
    assert!(read(reply).0.is_empty());
    let (found, passed, _) = read(&orders_v2(974_947_235));
    assert_eq!((found.len(), passed), (21, 1));
    assert_eq!(found[0], ("Clear ".into(), true, false));
    assert_eq!(found[20], ("Add 0.05050".into(), true, true));
    // Behind the levels of the subscription.
    let (found, passed, _) =
        read(&orders_update(&order_event("add", "LOW", "0.00001", "1.0"), "", 974_947_235));
    assert_eq!(found, [("Add 0.00001".into(), false, false), ("Delete 0.00001".into(), false, true)]);
    assert_eq!(passed, 2);
    // An order behind the first one of its price, which keeps its place when its size changes.
    let add = order_event("add", "NEW", "0.05005", "0.00000200");
    assert_eq!(read(&orders_update("", &add, 2_826_592_771)).1, 3);
    let modify = order_event("modify", "O5005", "0.05005", "0.00000300");
    assert_eq!(read(&orders_update("", &modify, 394_265_314)).1, 4);
    // Back to what it was, in one part of two changes.
    let back = [
        order_event("delete", "NEW", "0.05005", "0.00000200"),
        order_event("modify", "O5005", "0.05005", "5e-6"),
    ];
    let (found, passed, failed) = read(&orders_update("", &back.join(","), 974_947_235));
    assert_eq!(found, [("Delete 0.05005".into(), false, false), ("Modify 0.05005".into(), false, true)]);
    assert_eq!((passed, failed), (5, 0));
    let (found, _, failed) = read(&orders_update("", "", 1));
    assert_eq!((found, failed), (vec![("FailedChecksum".into(), false, false)], 1));
}
