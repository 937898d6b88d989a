use super::*;
use crate::record::AnyRecord;
use tapedb_schema::Timestamp;

fn records(parser: &mut Parser, out: &mut Messages, text: &str) -> Vec<(String, AnyRecord)> {
    out.begin(Timestamp(1_663_747_970_273_000_000), text);
    parser.frame(text, out).unwrap_or_else(|bad| panic!("{text}: {bad:?}"));
    std::iter::from_fn(|| out.take()).map(|message| (message.symbol, message.record)).collect()
}

#[test]
fn updates_follow_on_each_other_or_a_gap_says_that_they_do_not() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("GATEIO", false));
    let update = |first: u64, last: u64| {
        format!(
            r#"{{"time":1606294781,"time_ms":1606294781236,"channel":"spot.order_book_update","event":"update","result":{{"t":1606294781123,"e":"depthUpdate","E":1606294781,"s":"BTC_USDT","U":{first},"u":{last},"b":[["19137.74","0.0001"]],"a":[["19137.75","0"]]}}}}"#
        )
    };
    let first = records(&mut parser, &mut out, &update(7, 9));
    let (symbol, AnyRecord::Package(package)) = &first[0] else { panic!("{first:?}") };
    assert_eq!((symbol.as_str(), package.entries.len(), package.sequence), ("BTC_USDT", 3, Some(9)));
    assert!(matches!(package.entries[2], Entry::Level2Update(update) if update.size.is_none()));
    assert_eq!(records(&mut parser, &mut out, &update(10, 10)).len(), 1);
    assert!(matches!(records(&mut parser, &mut out, &update(12, 12))[0].1, AnyRecord::Gap(_)));
    assert_eq!((out.counters().checks_passed, out.counters().gaps), (1, 1));
}

#[test]
fn fractions_of_milliseconds_are_kept_and_futures_have_a_sign() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("GATEIO", false));
    let spot = r#"{"time":1606292218,"channel":"spot.trades","event":"update","result":{"id":309143071,"create_time":1606292218,"create_time_ms":"1606292218213.4578","side":"sell","currency_pair":"GT_USDT","amount":"16.4700000000","price":"0.4705000000"}}"#;
    let found = records(&mut parser, &mut out, spot);
    let AnyRecord::Package(package) = &found[0].1 else { panic!("{found:?}") };
    assert_eq!(package.match_time.unwrap().nanos(), 1_606_292_218_213_457_800);
    let futures = r#"{"channel":"futures.trades","event":"update","time":1541503698,"result":[{"size":-108,"id":27753479,"create_time":1545136464,"create_time_ms":1545136464123,"price":"96.4","contract":"BTC_USD"}]}"#;
    let found = records(&mut parser, &mut out, futures);
    let AnyRecord::Package(package) = &found[0].1 else { panic!("{found:?}") };
    let [Entry::Trade(trade)] = package.entries[..] else { panic!("{package:?}") };
    assert_eq!((trade.size.to_string(), trade.aggressor), ("108".into(), Some(Aggressor::Sell)));
    assert_eq!(trade.exchange.unwrap().as_str(), "GATEIOFU");
}

#[test]
fn figures_that_are_too_long_are_attributes_and_subscriptions_no_data() {
    let (mut parser, mut out) = (Parser::default(), Messages::new("GATEIO", false));
    let text = r#"{"time":1606291803,"channel":"spot.tickers","event":"update","result":{"currency_pair":"BTC_USDT","last":"19106.55","lowest_ask":"19108.71","highest_bid":"19106.55","change_percentage":"3.66","base_volume":"2811.3042155865","quote_volume":"53441606.52411221454674732293","high_24h":"19417.74","low_24h":"18434.21"}}"#;
    let found = records(&mut parser, &mut out, text);
    let AnyRecord::Ticker(ticker) = &found[0].1 else { panic!("{found:?}") };
    assert_eq!((ticker.turnover, ticker.attributes.len()), (None, 2));
    let text = r#"{"time":1606291803,"channel":"spot.tickers","event":"subscribe","error":null,"result":{"status":"success"}}"#;
    assert!(records(&mut parser, &mut out, text).is_empty());
    assert_eq!(out.counters().control_kinds["subscribe"], 1);
}
