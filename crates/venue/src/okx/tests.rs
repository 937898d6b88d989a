use super::*;
use crate::record::AnyRecord;
use tapedb_market::GapCause;
use tapedb_schema::Timestamp;

fn records(parser: &mut Parser, out: &mut Messages, text: &str) -> Vec<AnyRecord> {
    out.begin(Timestamp(1_652_459_225_000_000_000), text);
    parser.frame(text, out).unwrap_or_else(|bad| panic!("{text}: {bad:?}"));
    std::iter::from_fn(|| out.take()).map(|message| message.record).collect()
}

fn book(action: &str, asks: &str, bids: &str, rest: &str) -> String {
    format!(
        r#"{{"arg":{{"channel":"books","instId":"A-B"}},"action":"{action}","data":[{{"asks":[{asks}],"bids":[{bids}],"ts":"1652459225464",{rest}}}]}}"#
    )
}

#[test]
fn the_checksum_is_over_bids_and_asks_in_turn() {
    // The example of the venue's documentation.
    let (mut parser, mut out) = (Parser::new(Dialect::Okx), Messages::new("OKX", false));
    let (asks, bids) =
        (r#"["3366.8","9","0","1"],["3368","8","0","1"]"#, r#"["3366.1","7","0","1"],["3366","6","0","1"]"#);
    let mut crc = flate2::Crc::new();
    crc.update(b"3366.1:7:3366.8:9:3366:6:3368:8");
    let checksum = crc.sum() as i32;
    records(&mut parser, &mut out, &book("snapshot", asks, bids, &format!(r#""checksum":{checksum}"#)));
    assert_eq!((out.counters().checks_passed, out.counters().checks_failed), (1, 0));
    let wrong = format!(r#""checksum":{}"#, checksum.wrapping_add(1));
    let found = records(&mut parser, &mut out, &book("update", "", "", &wrong));
    let [AnyRecord::Package(package), AnyRecord::Gap(gap)] = &found[..] else { panic!("{found:?}") };
    assert!(package.entries.is_empty());
    assert_eq!(gap.cause, GapCause::FailedChecksum);
}

#[test]
fn without_a_checksum_the_numbers_prove_that_nothing_is_missing() {
    let (mut parser, mut out) = (Parser::new(Dialect::Okx), Messages::new("OKX", false));
    let ids = |previous: i64, number: u64| format!(r#""checksum":0,"seqId":{number},"prevSeqId":{previous}"#);
    let level = r#"["1","2","0","3"]"#;
    records(&mut parser, &mut out, &book("snapshot", level, "", &ids(-1, 10)));
    assert_eq!(records(&mut parser, &mut out, &book("update", level, "", &ids(10, 15))).len(), 1);
    // A number that goes on without a change of the book.
    assert_eq!(records(&mut parser, &mut out, &book("update", "", "", &ids(15, 15))).len(), 1);
    let found = records(&mut parser, &mut out, &book("update", level, "", &ids(16, 17)));
    let [AnyRecord::Gap(gap), AnyRecord::Package(_)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((gap.cause, gap.verifiable), (GapCause::SequenceBreak, true));
    assert_eq!((out.counters().checks_passed, out.counters().checks_failed), (2, 1));
    // With neither there is no proof.
    records(&mut parser, &mut out, &book("update", level, "", r#""checksum":0"#));
    assert_eq!(out.counters().unverifiable, 1);
}

#[test]
fn a_first_list_of_trades_is_marked_as_history() {
    let (mut parser, mut out) = (Parser::new(Dialect::Bitget), Messages::new("BITGET", false));
    let frame = |action: &str| {
        format!(
            r#"{{"action":"{action}","arg":{{"instType":"mc","channel":"trade","instId":"UNIUSDT"}},"data":[["1649290078916","9.977","1","sell"]]}}"#
        )
    };
    let mut condition = |action| {
        let found = records(&mut parser, &mut out, &frame(action));
        let AnyRecord::Package(package) = &found[0] else { panic!("{found:?}") };
        let Entry::Trade(trade) = package.entries[0] else { panic!("{package:?}") };
        assert_eq!(trade.exchange.unwrap().as_str(), "BITGETMC");
        trade.condition.map(|condition| condition.to_string())
    };
    assert_eq!((condition("snapshot"), condition("update")), (Some("HISTORY".into()), None));
}

#[test]
fn markets_of_bitget_are_told_apart_in_version_2_too() {
    let (mut parser, mut out) = (Parser::new(Dialect::Bitget), Messages::new("BITGET", false));
    let mut trade = |kind: &str| {
        let frame = format!(
            r#"{{"action":"update","arg":{{"instType":"{kind}","channel":"trade","instId":"BTCUSDT"}},"data":[{{"ts":"1695709835822","price":"26293.4","size":"0.0013","side":"buy","tradeId":"1000000000"}}],"ts":1695711090682}}"#
        );
        let found = records(&mut parser, &mut out, &frame);
        let AnyRecord::Package(package) = &found[0] else { panic!("{found:?}") };
        let Entry::Trade(trade) = package.entries[0] else { panic!("{package:?}") };
        assert_eq!((trade.id, trade.size.to_string()), (Some(1_000_000_000), "0.0013".into()));
        trade.exchange.unwrap().to_string()
    };
    assert_eq!(
        (trade("SPOT"), trade("USDT-FUTURES"), trade("COIN-FUTURES")),
        ("BITGET".into(), "BITGETMC".into(), "BITGETMC".into())
    );
}
