use super::*;
use crate::record::AnyRecord;
use tapedb_schema::Timestamp;

fn records(parser: &mut Parser, out: &mut Messages, text: &str) -> Vec<AnyRecord> {
    out.begin(Timestamp(1_618_677_543_000_000_000), text);
    parser.frame(text, out).unwrap_or_else(|bad| panic!("{text}: {bad:?}"));
    std::iter::from_fn(|| out.take()).map(|message| message.record).collect()
}

fn connected() -> (Parser, Messages) {
    let (mut parser, mut out) = (Parser::default(), Messages::new("BITFINEX", false));
    for text in [
        r#"{"event":"conf","status":"OK","flags":65536}"#,
        r#"{"event":"subscribed","channel":"ticker","chanId":1,"symbol":"tDOGUSD","pair":"DOGUSD"}"#,
        r#"{"event":"subscribed","channel":"book","chanId":2,"symbol":"tDOGUSD","prec":"P0","freq":"F0","len":"100","pair":"DOGUSD"}"#,
        r#"{"event":"subscribed","channel":"trades","chanId":3,"symbol":"tBFTUSD","pair":"BFTUSD"}"#,
    ] {
        assert!(records(&mut parser, &mut out, text).is_empty());
    }
    (parser, out)
}

#[test]
fn a_hole_in_the_numbers_is_a_gap_of_every_symbol() {
    let (mut parser, mut out) = connected();
    assert_eq!(records(&mut parser, &mut out, "[2,[[10,1,5],[11,2,-3]],1]").len(), 1);
    assert!(records(&mut parser, &mut out, r#"[1,"hb",2]"#).is_empty());
    let found = records(&mut parser, &mut out, "[2,[10,0,1],5]");
    let [AnyRecord::Gap(gap), AnyRecord::Gap(_), AnyRecord::Package(package)] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((gap.first_missing, gap.last_missing, gap.messages), (Some(3), Some(4), Some(2)));
    assert_eq!(package.sequence, Some(5));
    assert!(matches!(package.entries[0], Entry::Level2Update(update) if update.size.is_none()));
    assert_eq!((out.counters().checks_passed, out.counters().checks_failed), (1, 1));
}

#[test]
fn a_trade_is_one_message_and_long_numbers_of_tickers_stay_texts() {
    let (mut parser, mut out) = connected();
    let te = records(&mut parser, &mut out, r#"[3,"te",[669899159,1618665870435,-166.391496,0.076989],1]"#);
    let AnyRecord::Package(package) = &te[0] else { panic!("{te:?}") };
    let Entry::Trade(trade) = package.entries[0] else { panic!("{package:?}") };
    assert_eq!((trade.aggressor, trade.size.to_string()), (Some(Aggressor::Sell), "166.391496".into()));
    assert!(
        records(&mut parser, &mut out, r#"[3,"tu",[669899159,1618665870435,-166.391496,0.076989],2]"#)
            .is_empty()
    );
    let text = "[1,[278200,1.7023900800000002,282030,2.2626931299999997,-66440,-0.1903,282780,32.2,402510,231840],3]";
    let found = records(&mut parser, &mut out, text);
    let AnyRecord::Ticker(ticker) = &found[0] else { panic!("{found:?}") };
    let texts: Vec<_> = ticker.attributes.iter().map(|attribute| attribute.value.as_str()).collect();
    assert_eq!(texts, ["-66440", "-0.1903", "1.7023900800000002", "2.2626931299999997"]);
    assert_eq!((ticker.bid_size, out.counters().rounded_numbers), (None, 0));
}

#[test]
fn frames_of_unknown_channels_are_refused() {
    let (mut parser, mut out) = connected();
    out.begin(Timestamp(0), "[9,[1,1,1],1]");
    assert!(parser.frame("[9,[1,1,1],1]", &mut out).is_err());
}

#[test]
fn books_of_orders_are_orders() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("BITFINEX", false));
    let subscribed = r#"{"event":"subscribed","channel":"book","chanId":5,"symbol":"tBTCUSD","prec":"R0","freq":"F0","len":"25","pair":"BTCUSD"}"#;
    records(&mut parser, &mut out, subscribed);
    let mut orders = |text: &str| {
        let text_of = |record: AnyRecord| {
            let AnyRecord::Order(order) = record else { panic!("{record:?}") };
            let price = order.price.map_or(String::new(), |price| price.to_string());
            let size = order.size.map_or(String::new(), |size| size.to_string());
            let side = order.side.map_or(String::new(), |side| format!("{side:?}"));
            format!("{:?} {side} {price} {size} {}", order.action, order.event_end)
        };
        records(&mut parser, &mut out, text).into_iter().map(text_of).collect::<Vec<_>>()
    };
    let snapshot = orders("[5,[[34006738527,8744.9,0.25603413],[34005204210,8745,-1e-8]]]");
    assert_eq!(
        snapshot,
        ["Clear    false", "Add Bid 8744.9 0.25603413 false", "Add Ask 8745 0.00000001 true"]
    );
    assert_eq!(orders("[5,[34006738527,8744.8,0.2]]"), ["Modify Bid 8744.8 0.2 true"]);
    assert_eq!(orders("[5,[34006738528,8744.7,0.3]]"), ["Add Bid 8744.7 0.3 true"]);
    assert_eq!(orders("[5,[34006738527,0,1]]"), ["Delete Bid   true"]);
    assert_eq!(orders("[5,[34006738527,8744.8,0.2]]"), ["Add Bid 8744.8 0.2 true"]);
    assert_eq!(orders("[5,[]]"), ["Clear    true"]);
    // A channel of funding has rates in place of prices.
    let funding =
        subscribed.replace("tBTCUSD", "fUSD").replace(r#","pair":"BTCUSD""#, "").replace("5,", "6,");
    records(&mut parser, &mut out, &funding);
    assert!(records(&mut parser, &mut out, "[6,[[1,2,0.0001,30]]]").is_empty());
    assert_eq!(out.counters().unknown_kinds["book of funding"], 1);
}
