use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

fn parser(name: &str) -> Parser {
    Capture::of_path(Path::new(name), &ImportOptions::default()).parser()
}

/// `time symbol type` of each row of a line.
fn rows(parser: &mut Parser, line: &[u8]) -> Result<Vec<String>, String> {
    let mut record = AnyRecord::default();
    match parser.parse(line, &mut record) {
        Ok(_) => {}
        Err(bad) => return Err(format!("{:?} {}", bad.column, bad.expected)),
    }
    let mut rows = Vec::new();
    while let Some(time) = parser.queued(&mut record) {
        rows.push(format!("{time} {} {}", parser.symbol(), record.type_name()));
    }
    Ok(rows)
}

const OPENED: &[u8] = b"wss://ws-feed.pro.coinbase.com <-> 1618677816.8434298";
const UPDATE: &[u8] = br#"1618677817.118783: {"type":"l2update","product_id":"SKL-BTC","changes":[["sell","0.00001306","660.5"]],"time":"2021-04-17T16:43:37.075687Z"}"#;

#[test]
fn a_venue_is_known_by_the_files_name_or_by_the_first_address() {
    let mut named = parser("x/COINBASE.ws.28.0.gz");
    let expected = ["2021-04-17T16:43:37.118783Z SKL-BTC Package"];
    assert_eq!(rows(&mut named, UPDATE).unwrap(), expected);
    let mut other = parser("x/capture.gz");
    assert!(rows(&mut other, UPDATE).unwrap_err().contains("the venue's address"));
    assert_eq!(rows(&mut other, OPENED).unwrap(), [""; 0]);
    assert_eq!(rows(&mut other, UPDATE).unwrap(), expected);
    let mut counters = Counters::default();
    other.count(&mut counters);
    assert_eq!((counters.control_kinds["connection"], counters.unverifiable), (1, 1));
}

/// The name of a file is that of the venue, and the address that of its market.
#[test]
fn the_address_names_the_market() {
    let mut parser = parser("BYBIT.ws.1.0.gz");
    let mut exchange = |path: &str| {
        let opened = format!("wss://stream.bybit.com/v5/public/{path} <-> 1618677817");
        let trade = br#"1618677817.5: {"topic":"publicTrade.BTCUSDT","type":"snapshot","ts":1618677817100,"data":[{"T":1618677817100,"s":"BTCUSDT","S":"Buy","v":"1","p":"2","i":"7"}]}"#;
        let mut record = AnyRecord::default();
        parser.parse(opened.as_bytes(), &mut record).unwrap();
        parser.parse(trade, &mut record).unwrap();
        while parser.queued(&mut record).is_some() {}
        let AnyRecord::MarketByPrice(trade) = record else { panic!("{record:?}") };
        trade.exchange.unwrap().to_string()
    };
    assert_eq!(exchange("linear"), "BYBIT");
    assert_eq!(exchange("spot"), "BYBITSPT");
}

#[test]
fn a_second_connection_is_a_gap_that_cannot_be_verified() {
    let mut parser = parser("COINBASE.ws.28.0.gz");
    rows(&mut parser, OPENED).unwrap();
    rows(&mut parser, UPDATE).unwrap();
    let again = b"wss://ws-feed.pro.coinbase.com <-> 1618677820.5";
    assert_eq!(rows(&mut parser, again).unwrap(), ["2021-04-17T16:43:40.500Z SKL-BTC Gap"]);
}

#[test]
fn gzip_frames_are_unpacked_up_to_a_limit() {
    let literal = |text: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        let bytes: String = encoder.finish().unwrap().iter().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("1618678070.6: b'{bytes}'").into_bytes()
    };
    let mut parser = parser("HUOBI.ws.44.0.gz");
    let trade = br#"{"ch":"market.btcusdt.trade.detail","ts":1618678071000,"tick":{"id":1,"ts":1618678070999,"data":[{"id":100182534526255757567432481,"ts":1618678070999,"tradeId":7,"amount":1.5,"price":2E-4,"direction":"buy"}]}}"#;
    assert_eq!(
        rows(&mut parser, &literal(trade)).unwrap(),
        ["2021-04-17T16:47:50.600Z BTCUSDT MarketByPrice"]
    );
    let bomb = vec![b' '; crate::frame_parser::MAX_FRAME_BYTES + 1];
    assert!(rows(&mut parser, &literal(&bomb)).unwrap_err().contains("at most"), "a bomb");
    assert!(rows(&mut parser, br"1618678070.6: b'\x1f\x8b\x00'").unwrap_err().contains("gzip"));
    assert!(rows(&mut parser, &literal(b"\xff\xfe")).unwrap_err().contains("UTF-8"));
}

#[test]
fn the_unit_of_times_does_not_change_within_a_file() {
    let mut parser = parser("COINBASE.ws.28.0.gz");
    rows(&mut parser, UPDATE).unwrap();
    let micros = String::from_utf8(UPDATE.to_vec()).unwrap().replace("1618677817.118783", "1618677817118783");
    assert!(rows(&mut parser, micros.as_bytes()).unwrap_err().contains("in seconds, as in the lines before"));
    let mut other = Capture::of_path(Path::new("COINBASE.ws.gz"), &ImportOptions::default()).parser();
    assert_eq!(rows(&mut other, micros.as_bytes()).unwrap(), ["2021-04-17T16:43:37.118783Z SKL-BTC Package"]);
    assert_eq!(other.guessed_unit(), Some(TimeUnit::Micros));
    assert!(rows(&mut other, b"17: {}").is_err());
}

#[test]
fn first_lines_tell_captures() {
    assert!(Capture::begins_so(OPENED));
    assert!(Capture::begins_so(b"https://api.kraken.com/0/public/AssetPairs -> 1618678132.358447: {\"e"));
    assert!(!Capture::begins_so(b"https://example.com/ -> 1618678132.358447: {"));
    assert!(!Capture::begins_so(UPDATE));
}
