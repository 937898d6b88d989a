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
