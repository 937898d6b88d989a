use super::*;
use crate::record::AnyRecord;
use tapedb_schema::Timestamp;

fn records(parser: &mut Parser, out: &mut Messages, text: &str) -> Vec<AnyRecord> {
    out.begin(Timestamp(1_663_747_970_273_000_000), text);
    parser.frame(text, out).unwrap_or_else(|bad| panic!("{text}: {bad:?}"));
    std::iter::from_fn(|| out.take()).map(|message| message.record).collect()
}

fn changes(first: u64, last: u64, price: &str) -> String {
    format!(
        r#"{{"type":"message","topic":"/market/level2:BTC-USDT","subject":"trade.l2update","data":{{"changes":{{"asks":[["{price}","0.00331","{last}"]],"bids":[]}},"sequenceStart":{first},"sequenceEnd":{last},"symbol":"BTC-USDT","time":1663747970273}}}}"#
    )
}

#[test]
fn a_change_at_price_0_advances_the_sequence_only() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("KUCOIN", false));
    let first = records(&mut parser, &mut out, &changes(7, 8, "18906"));
    let [AnyRecord::Package(package)] = &first[..] else { panic!("{first:?}") };
    assert_eq!((package.entries.len(), package.sequence), (2, Some(8)));
    let second = records(&mut parser, &mut out, &changes(9, 9, "0"));
    let [AnyRecord::Package(package)] = &second[..] else { panic!("{second:?}") };
    assert!(matches!(
        &package.entries[..],
        [Entry::SequenceRange(SequenceRange { first: 9, previous: None })]
    ));
    let third = records(&mut parser, &mut out, &changes(11, 12, "1"));
    let [AnyRecord::Gap(gap), AnyRecord::Package(_)] = &third[..] else { panic!("{third:?}") };
    assert_eq!((gap.first_missing, gap.last_missing), (Some(10), Some(10)));
    assert_eq!((out.counters().checks_passed, out.counters().checks_failed), (1, 1));
}

#[test]
fn trades_and_candles_are_exact() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("KUCOIN", false));
    let text = r#"{"type":"message","topic":"/market/match:BTC-USDT","subject":"trade.l3match","data":{"sequence":"1545896669145","type":"match","symbol":"BTC-USDT","side":"sell","price":"0.08200000000000000000","size":"0.01022222000000000000","tradeId":"5c24c5da03aa673885cd67aa","takerOrderId":"a","makerOrderId":"b","time":"1545913818099033203"}}"#;
    let found = records(&mut parser, &mut out, text);
    let [AnyRecord::MarketByPrice(trade)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(trade.price.unwrap().to_f64(), 0.082);
    assert_eq!(trade.size.unwrap().to_f64(), 0.010_222_22);
    assert_eq!(trade.trade_id_text.as_deref(), Some("5c24c5da03aa673885cd67aa"));
    assert_eq!(trade.match_time.unwrap().nanos(), 1_545_913_818_099_033_203);
    let text = r#"{"type":"message","topic":"/market/candles:BTC-USDT_1hour","subject":"trade.candles.update","data":{"symbol":"BTC-USDT","candles":["1589968800","9786.9","9740.8","9806.1","9732","27.45649579","268280.09830877"],"time":1589970010253893337}}"#;
    let found = records(&mut parser, &mut out, text);
    let [AnyRecord::IntervalBar(bar)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(bar.interval_ns, Some(3_600_000_000_000));
    assert_eq!(
        (bar.close.unwrap().to_string(), bar.high.unwrap().to_string()),
        ("9740.8".into(), "9806.1".into())
    );
}

#[test]
fn books_over_http_are_snapshots() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("KUCOIN", false));
    let body = r#"{"code":"200000","data":{"time":1550653727731,"sequence":"3262786978","bids":[["6500.12","0.45054140"]],"asks":[["6500.16","0.57753524"]]}}"#;
    let url = "https://api.kucoin.com/api/v3/market/orderbook/level2?symbol=BTC-USDT";
    out.begin(Timestamp(1_663_747_970_273_000_000), body);
    parser.answer(url, body, &mut out).unwrap();
    let message = out.take().unwrap();
    let AnyRecord::Package(package) = message.record else { panic!() };
    assert_eq!((message.symbol.as_str(), package.sequence), ("BTC-USDT", Some(3_262_786_978)));
    parser.answer("https://api.kucoin.com/api/v1/symbols", "{}", &mut out).unwrap();
    assert_eq!(out.counters().unknown_kinds["/api/v1/symbols"], 1);
}
