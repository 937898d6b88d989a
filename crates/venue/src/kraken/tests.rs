use super::*;
use crate::record::AnyRecord;
use tapedb_market::GapCause;

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
    // A new best ask pushes the last one out; both parts of an update are one message.
    let two = r#"[0,{"a":[["0.05001","1.00000000","1534614248.7"]]},{"b":[["0.05000","0.00000000","1534614248.8"]],"c":"1"},"book-10","XBT/USD"]"#;
    let found = records(&mut parser, &mut out, two);
    let AnyRecord::Package(package) = &found[0] else { panic!("{found:?}") };
    assert_eq!(package.entries.len(), 2);
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
