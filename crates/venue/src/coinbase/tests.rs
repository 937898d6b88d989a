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
