use super::*;
use crate::record::AnyRecord;
use tapedb_market::GapCause;
use tapedb_schema::Timestamp;

fn records(parser: &mut Parser, out: &mut Messages, text: &str) -> Result<Vec<AnyRecord>, BadLine> {
    out.begin(Timestamp(1_618_677_817_000_000_000), text);
    parser.frame(text, out)?;
    Ok(std::iter::from_fn(|| out.take()).map(|message| message.record).collect())
}

fn trade(kind: &str, id: u64) -> String {
    format!(
        r#"{{"type":"{kind}","trade_id":{id},"maker_order_id":"27fff20b-af29-4f45-8744-56dd1ef57dc0","taker_order_id":"x","side":"sell","size":"0.04","price":"14.7775","product_id":"BAND-GBP","sequence":333938798,"time":"2021-04-17T16:43:30.244075Z"}}"#
    )
}

#[test]
fn a_trade_that_is_missing_is_a_gap_before_the_next() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("COINBASE", false));
    let last = records(&mut parser, &mut out, &trade("last_match", 7)).unwrap();
    let [AnyRecord::Package(package)] = &last[..] else { panic!("{last:?}") };
    let Entry::Trade(trade_7) = &package.entries[0] else { panic!("{package:?}") };
    assert_eq!((trade_7.aggressor, trade_7.id), (Some(Aggressor::Buy), Some(7)));
    assert_eq!(trade_7.condition.unwrap().as_str(), "LAST");
    assert_eq!(records(&mut parser, &mut out, &trade("match", 8)).unwrap().len(), 1);
    let broken = records(&mut parser, &mut out, &trade("match", 11)).unwrap();
    let [AnyRecord::Gap(gap), AnyRecord::Package(_)] = &broken[..] else { panic!("{broken:?}") };
    assert_eq!(
        (gap.cause, gap.first_missing, gap.last_missing),
        (GapCause::SequenceBreak, Some(9), Some(10))
    );
    assert_eq!((out.counters().checks_passed, out.counters().checks_failed), (1, 1));
}

#[test]
fn bad_frames_say_what_was_expected_where() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("COINBASE", false));
    let mut bad = |text: &str| {
        let bad = records(&mut parser, &mut out, text).unwrap_err();
        (bad.column.unwrap(), bad.expected)
    };
    let text = r#"{"type":"l2update","product_id":"A","changes":[["buy","1","x"]]}"#;
    let (column, expected) = bad(text);
    assert_eq!(&text[column..=column], "x");
    assert!(expected.starts_with("a decimal"), "{expected}");
    assert!(bad(r#"{"type":"l2update""#).1.contains("EOF"));
    let deep = format!(r#"{{"type":{}"#, "[".repeat(100_000));
    assert!(bad(&deep).1.contains("a frame"));
}

#[test]
fn the_full_channel_is_one_of_orders() {
    use tapedb_market::{OrderAction, Side};
    let (mut parser, mut out) = (Parser::default(), Messages::new("COINBASE", false));
    let frame = |kind: &str, sequence: u64, rest: &str| {
        format!(
            r#"{{"type":"{kind}","product_id":"BTC-USD","sequence":{sequence},"time":"2021-04-17T16:43:30.244075Z","side":"buy",{rest}}}"#
        )
    };
    let id = r#""order_id":"d50ec984-77a8-460a-b958-66f114b0de9b""#;
    let mut orders = |text: String| {
        let text_of = |record: AnyRecord| match record {
            AnyRecord::Order(order) => {
                assert_eq!(order.order_id_high, Some(0xd50e_c984_77a8_460a));
                assert_eq!(order.side, Some(Side::Bid));
                (order.action, order.size.map(|size| size.to_string()), order.sequence)
            }
            AnyRecord::Gap(gap) => (OrderAction::Clear, gap.detail, gap.first_missing),
            other => panic!("{other:?}"),
        };
        records(&mut parser, &mut out, &text).unwrap().into_iter().map(text_of).collect::<Vec<_>>()
    };
    let some = |text: &str| Some(text.to_string());
    let received =
        orders(frame("received", 10, &format!(r#"{id},"size":"1.5","price":"400.1","order_type":"limit""#)));
    assert_eq!(received, [(OrderAction::None, some("1.5"), Some(10))]);
    let open = orders(frame("open", 11, &format!(r#"{id},"remaining_size":"1.5","price":"400.1""#)));
    assert_eq!(open, [(OrderAction::Add, some("1.5"), Some(11))]);
    let maker = id.replace("order_id", "maker_order_id");
    let executed =
        orders(frame("match", 12, &format!(r#"{maker},"trade_id":7,"size":"0.5","price":"400.1""#)));
    assert_eq!(executed, [(OrderAction::Execute, some("0.5"), Some(12))]);
    let change =
        orders(frame("change", 13, &format!(r#"{id},"new_size":"0.7","old_size":"1","price":"400.1""#)));
    assert_eq!(change, [(OrderAction::Modify, some("0.7"), Some(13))]);
    let done = orders(frame(
        "done",
        15,
        &format!(r#"{id},"reason":"canceled","remaining_size":"0.7","price":"400.1""#),
    ));
    assert_eq!(done[0].2, Some(14), "{done:?}");
    assert_eq!(done[1], (OrderAction::Delete, some("0.7"), Some(15)));
    let filled =
        orders(frame("done", 16, &format!(r#"{id},"reason":"filled","remaining_size":"0","price":"400.1""#)));
    assert_eq!(filled, [(OrderAction::None, some("0"), Some(16))]);
    // Without such frames before, a match is a trade.
    let mut alone = Parser::default();
    let text = frame("match", 12, &format!(r#"{maker},"trade_id":7,"size":"0.5","price":"400.1""#));
    assert!(matches!(records(&mut alone, &mut out, &text).unwrap()[..], [AnyRecord::Package(_)]));
}

/// Frames of Advanced Trade as its documentation shows them.
fn advanced(channel: &str, number: u64, event: &str) -> String {
    format!(
        r#"{{"channel":"{channel}","client_id":"","timestamp":"2023-02-09T20:32:50.714964855Z","sequence_num":{number},"events":[{event}]}}"#
    )
}

#[test]
fn levels_and_trades_of_advanced_trade() {
    use tapedb_market::{BookAction, PackageKind};
    let (mut parser, mut out) = (Parser::default(), Messages::new("COINBASE", false));
    let mut read = |text: String| records(&mut parser, &mut out, &text).unwrap();
    let level = |side: &str, time: &str, size: &str| {
        format!(
            r#"{{"side":"{side}","event_time":"{time}","price_level":"21921.73","new_quantity":"{size}"}}"#
        )
    };
    let event = |kind: &str, levels: &[String]| {
        format!(r#"{{"type":"{kind}","product_id":"BTC-USD","updates":[{}]}}"#, levels.join(","))
    };
    let first = "1970-01-01T00:00:00Z";
    let snapshot = [level("bid", first, "0.06317902"), level("offer", first, "2")];
    let found = read(advanced("l2_data", 0, &event("snapshot", &snapshot)));
    let [AnyRecord::Package(package)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((package.kind, package.match_time), (PackageKind::Snapshot, None));
    assert_eq!(package.source_time.unwrap().to_string(), "2023-02-09T20:32:50.714964855Z");
    let [Entry::Level2Snapshot(bid), Entry::Level2Snapshot(ask)] = package.entries[..] else {
        panic!("{package:?}")
    };
    assert_eq!((bid.side, bid.level, ask.side, ask.level), (Side::Bid, 0, Side::Ask, 0));
    assert!(read(advanced("subscriptions", 1, r#"{"subscriptions":{"level2":["BTC-USD"]}}"#)).is_empty());
    let found =
        read(advanced("l2_data", 2, &event("update", &[level("offer", "2023-02-09T20:32:50.7Z", "0")])));
    let [AnyRecord::Package(package)] = &found[..] else { panic!("{found:?}") };
    let [Entry::Level2Update(gone)] = package.entries[..] else { panic!("{package:?}") };
    assert_eq!((package.kind, gone.action, gone.side), (PackageKind::Update, BookAction::Delete, Side::Ask));
    assert_eq!(package.match_time.unwrap().to_string(), "2023-02-09T20:32:50.700Z");

    let trade = r#"{"trade_id":"12","product_id":"ETH-USD","price":"1260.01","size":"0.3","side":"BUY","time":"2019-08-14T20:42:27.265Z"}"#;
    for (kind, condition) in [("snapshot", Some("HISTORY")), ("update", None)] {
        let found = read(advanced(
            "market_trades",
            if kind == "snapshot" { 3 } else { 4 },
            &format!(r#"{{"type":"{kind}","trades":[{trade}]}}"#),
        ));
        let [AnyRecord::Package(package)] = &found[..] else { panic!("{found:?}") };
        let Entry::Trade(trade) = package.entries[0] else { panic!("{package:?}") };
        assert_eq!((trade.aggressor, trade.id), (Some(Aggressor::Sell), Some(12)));
        assert_eq!(trade.condition.as_ref().map(Ascii::as_str), condition);
    }
    let ticker = r#"{"type":"snapshot","tickers":[{"type":"ticker","product_id":"BTC-USD","price":"21932.98","volume_24_h":"16038.28770938","low_24_h":"21835.29","high_24_h":"23011.18","low_52_w":"15460","high_52_w":"48240","price_percent_chg_24_h":"-4.15775596190603","best_bid":"21931.98","best_bid_quantity":"8000.21","best_ask":"21933.98","best_ask_quantity":"8038.07770938"}]}"#;
    let found = read(advanced("ticker", 5, ticker));
    let [AnyRecord::Ticker(ticker)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((ticker.bid_size.unwrap().to_string(), ticker.attributes.len()), ("8000.21".into(), 3));
    let candle = r#"{"type":"snapshot","candles":[{"start":"1688998200","high":"1867.72","low":"1865.63","open":"1867.38","close":"1866.81","volume":"0.20269406","product_id":"ETH-USD"}]}"#;
    let found = read(advanced("candles", 6, candle));
    let [AnyRecord::IntervalBar(bar)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(bar.start.unwrap().to_string(), "2023-07-10T14:10:00Z");
}

/// Numbers count all frames of a connection.
#[test]
fn a_frame_of_advanced_trade_that_is_missing_is_a_gap_of_all_products() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("COINBASE", false));
    let beat = |number| advanced("heartbeats", number, r#"{"current_time":"x","heartbeat_counter":3049}"#);
    for number in [0, 1, 2] {
        assert!(records(&mut parser, &mut out, &beat(number)).unwrap().is_empty());
    }
    let text = beat(5);
    out.begin(Timestamp(1_618_677_817_000_000_000), &text);
    parser.frame(&text, &mut out).unwrap();
    let message = out.take().unwrap();
    let AnyRecord::Gap(gap) = message.record else { panic!("{message:?}") };
    assert_eq!(
        (message.symbol.as_str(), gap.first_missing, gap.last_missing),
        ("COINBASE", Some(3), Some(4))
    );
    // Another connection begins at 0.
    assert!(records(&mut parser, &mut out, &beat(0)).unwrap().is_empty());
    assert!(records(&mut parser, &mut out, &beat(1)).unwrap().is_empty());
    assert_eq!(out.counters().checks_failed, 1);
}
