use super::*;
use crate::record::AnyRecord;
use tapedb_schema::Timestamp;

fn records(parser: &mut Parser, out: &mut Messages, text: &str) -> Vec<AnyRecord> {
    out.begin(Timestamp(1_626_993_370_000_000_000), text);
    parser.frame(text, out).unwrap_or_else(|bad| panic!("{text}: {bad:?}"));
    std::iter::from_fn(|| out.take()).map(|message| message.record).collect()
}

fn levels(action: &str, rows: &str) -> String {
    format!(r#"{{"table":"orderBookL2","action":"{action}","data":[{rows}]}}"#)
}

#[test]
fn updates_and_deletes_find_the_prices_of_their_levels() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("BITMEX", false));
    let partial = r#"{"symbol":"XBTUSD","id":7,"side":"Sell","size":3000,"price":0.00010699}"#;
    records(&mut parser, &mut out, &levels("partial", partial));
    let update = r#"{"symbol":"XBTUSD","id":7,"side":"Sell","size":5}"#;
    let found = records(&mut parser, &mut out, &levels("update", update));
    let AnyRecord::Package(package) = &found[0] else { panic!("{found:?}") };
    let Entry::Level2Update(entry) = package.entries[0] else { panic!("{package:?}") };
    assert_eq!((entry.price.to_string(), entry.size.unwrap().to_string()), ("0.00010699".into(), "5".into()));
    let delete = r#"{"symbol":"XBTUSD","id":7,"side":"Sell"}"#;
    assert!(matches!(records(&mut parser, &mut out, &levels("delete", delete))[..], [AnyRecord::Package(_)]));
    // The level is gone: what names it now shows that an insert is missing.
    let found = records(&mut parser, &mut out, &levels("update", update));
    let [AnyRecord::Gap(gap)] = &found[..] else { panic!("{found:?}") };
    assert!(!gap.verifiable);
    assert_eq!(out.counters().unverifiable, 4);
}

#[test]
fn trades_have_numbers_of_128_bits() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("BITMEX", false));
    let text = r#"{"table":"trade","action":"insert","data":[{"timestamp":"2021-07-22T22:36:10.014Z","symbol":"UNIUSDT","side":"Buy","size":52,"price":17.297,"trdMatchID":"39744121-c20e-44ba-8cc8-a6b8cdf72885"}]}"#;
    let found = records(&mut parser, &mut out, text);
    let [AnyRecord::MarketByPrice(trade)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        (trade.trade_id_high, trade.trade_id),
        (Some(0x3974_4121_c20e_44ba), Some(0x8cc8_a6b8_cdf7_2885))
    );
    assert_eq!((trade.side, trade.snapshot), (Some(Side::Bid), false));
}
