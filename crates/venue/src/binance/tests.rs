//! Lines and what becomes of them.

use super::*;
use tapedb_schema::Decimal64;

fn parser() -> Parser {
    Capture::of_path(Path::new("x/usdm-btcusdt_20240808.gz"), &ImportOptions::default()).parser()
}

fn parse(parser: &mut Parser, json: &str) -> Result<Package, String> {
    let mut record = AnyRecord::default();
    let line = format!("1723161255030314667 {json}");
    match parser.parse(line.as_bytes(), &mut record) {
        Ok(Parsed::Row(time)) => {
            assert_eq!(time, Timestamp(1_723_161_255_030_314_667));
            match record {
                AnyRecord::Package(package) => Ok(package),
                other => Err(format!("{other:?}")),
            }
        }
        Ok(Parsed::Both(_, row)) => Err(format!("{row:?}")),
        Ok(Parsed::Unknown(kind)) => Err(format!("unknown {kind}")),
        Ok(Parsed::Queued) => Err("queued".into()),
        Err(bad) => Err(format!("{:?} {}", bad.column, bad.expected)),
    }
}

fn number(text: &str) -> Decimal64 {
    text.parse().unwrap()
}

const DIFF: &str = r#"{"e":"depthUpdate","E":1723161256299,"T":1723161256298,"s":"BTCUSDT","U":5,"u":9,"pu":4,"b":[["58710.20","0.014"],["61510.90","0.000"]],"a":[["7","8"]]}"#;

#[test]
fn file_names_tell_exchange_and_symbol() {
    let of = |name: &str| {
        let capture = Capture::of_path(Path::new(name), &ImportOptions::default());
        (capture.exchange.unwrap().to_string(), capture.symbol.unwrap())
    };
    assert_eq!(of("cm-btcusd_perp_20240808.gz"), ("BINCOINM".into(), "BTCUSD_PERP".into()));
    assert_eq!(of("usdm/btcusdt_20240809.gz"), ("BINUSDM".into(), "BTCUSDT".into()));
    assert_eq!(of("cm/spot-btcusdt_20240809.gz"), ("BINANCE".into(), "BTCUSDT".into()));
    assert_eq!(of("spot-btcusdt_20240808.gz"), ("BINANCE".into(), "BTCUSDT".into()));
    assert_eq!(of("ethusdt_20240808.gz"), ("BINANCE".into(), "ETHUSDT".into()));
}

#[test]
fn file_names_tell_the_day() {
    let start = |name: &str| Capture::of_path(Path::new(name), &ImportOptions::default()).start();
    assert_eq!(start("cm-btcusd_perp_20240808.gz").to_string(), "2024-08-07T00:00:00Z");
    for name in ["cm-btcusd_perp.gz", "spot-btcusdt_20241308.gz", "spot-btcusdt.gz", "x"] {
        assert_eq!(start(name), Timestamp::MIN, "{name}");
    }
}

#[test]
fn a_diff() {
    let mut parser = parser();
    let package = parse(&mut parser, &format!(r#"{{"stream":"btcusdt@depth@0ms","data":{DIFF}}}"#)).unwrap();
    assert_eq!(parser.symbol(), "BTCUSDT");
    assert_eq!((package.kind, package.sequence), (PackageKind::Update, Some(9)));
    assert_eq!(package.source_time, Some(Timestamp(1_723_161_256_299_000_000)));
    assert_eq!(package.match_time, Some(Timestamp(1_723_161_256_298_000_000)));
    let exchange = Ascii::new("BINUSDM").ok();
    let set = Level2Update {
        price: number("58710.20"),
        size: Some(number("0.014")),
        exchange,
        ..Default::default()
    };
    let gone = Level2Update {
        action: BookAction::Delete,
        price: number("61510.90"),
        exchange,
        ..Default::default()
    };
    let ask = Level2Update { side: Side::Ask, price: number("7"), size: Some(number("8")), ..set };
    let range = SequenceRange { first: 5, previous: Some(4) };
    assert_eq!(package.entries, [range.into(), set.into(), gone.into(), ask.into()]);
}

#[test]
fn other_ways_to_write_a_frame_say_the_same() {
    let expected = parse(&mut parser(), &format!(r#"{{"stream":"btcusdt@depth","data":{DIFF}}}"#)).unwrap();
    for json in [
        DIFF.to_string(),
        format!(r#"{{"data":{DIFF},"stream":"btcusdt@depth@100ms"}}"#),
        format!(r#"{{ "stream" : "btcusdt@depth" , "data" : {DIFF} }}"#),
    ] {
        assert_eq!(parse(&mut parser(), &json).as_ref(), Ok(&expected), "{json}");
    }
}

#[test]
fn a_ticker_and_a_trade() {
    let mut parser = parser();
    let json = r#"{"stream":"btcusdt@bookTicker","data":{"u":7,"s":"BTCUSDT","b":"0.00","B":"0.00","a":"2.50","A":"3"}}"#;
    let package = parse(&mut parser, json).unwrap();
    assert_eq!((package.sequence, package.source_time), (Some(7), None));
    let [Entry::Level1(bid), Entry::Level1(ask)] = &package.entries[..] else { panic!("{package:?}") };
    assert_eq!(
        (bid.side, bid.price, ask.side, ask.price),
        (Side::Bid, None, Side::Ask, Some(number("2.50")))
    );
    let json = r#"{"stream":"btcusdt@trade","data":{"e":"trade","E":1723161256299,"T":1723161256298,"s":"BTCUSDT","t":3,"p":"4.0","q":"5","X":"MARKET","m":true}}"#;
    let package = parse(&mut parser, json).unwrap();
    let [Entry::Trade(trade)] = &package.entries[..] else { panic!("{package:?}") };
    assert_eq!((trade.id, trade.aggressor), (Some(3), Some(Aggressor::Sell)));
    assert_eq!(trade.condition.unwrap().as_str(), "MARKET");
}

#[test]
fn a_condition_that_has_no_room_is_a_row_of_its_own() {
    for condition in ["INSURANCE_FUND", "é"] {
        let json = format!(
            r#"1723161255 {{"e":"trade","E":1723161256299,"T":1723161256298,"s":"A","t":3,"p":"4","q":"5","X":"{condition}","m":true}}"#
        );
        let mut record = AnyRecord::default();
        let Ok(Parsed::Both(_, row)) = parser().parse(json.as_bytes(), &mut record) else { panic!("{json}") };
        let package = record.as_package().unwrap();
        let [Entry::Trade(trade)] = &package.entries[..] else { panic!("{package:?}") };
        assert_eq!(trade.condition, None);
        let whole = TradeCondition { id: Some(3), condition: condition.into() };
        assert_eq!(row, whole.into());
    }
}

#[test]
fn mark_prices() {
    let row = |json: &str| {
        let line = format!("1723161255030314667 {json}");
        let mut record = AnyRecord::default();
        match (parser().parse(line.as_bytes(), &mut record), record) {
            (Ok(Parsed::Row(_)), AnyRecord::MarkPrice(row)) => *row,
            _ => panic!("{json}"),
        }
    };
    let frame = r#"{"e":"markPriceUpdate","E":1723161256299,"s":"BTCUSDT","p":"11794.15","i":"11784.62","P":"11784.25","r":"0.00038167","T":1723190400000}"#;
    let found = row(&format!(r#"{{"stream":"btcusdt@markPrice@1s","data":{frame}}}"#));
    let expected = MarkPrice {
        mark: number("11794.15"),
        index: Some(number("11784.62")),
        settlement: Some(number("11784.25")),
        funding_rate: Some(number("0.00038167")),
        next_funding: Some(Timestamp(1_723_190_400_000_000_000)),
        source_time: Some(Timestamp(1_723_161_256_299_000_000)),
        exchange: Ascii::new("BINUSDM").ok(),
        average: None,
    };
    assert_eq!(found, expected);
    assert_eq!(row(frame), expected);
    // A delivery contract has no funding.
    let none =
        row(r#"{"e":"markPriceUpdate","E":1723161256299,"s":"A","p":"1","ap":"2","P":"","r":"","T":0}"#);
    assert_eq!((none.funding_rate, none.next_funding, none.settlement), (None, None, None));
    assert_eq!(none.average, Some(number("2")));
}

#[test]
fn the_unit_of_times_is_what_their_size_tells() {
    let ticker = r#" {"e":"bookTicker","u":7,"s":"A","b":"1","B":"1","a":"2","A":"3"}"#;
    let parse = |parser: &mut Parser, time: &str| match parser
        .parse(format!("{time}{ticker}").as_bytes(), &mut AnyRecord::default())
    {
        Ok(Parsed::Row(time)) => Ok(time.to_string()),
        Err(bad) => Err(bad.expected),
        Ok(_) => panic!("{time}"),
    };
    for (time, unit) in [
        ("1723161255030314000", TimeUnit::Nanos),
        ("1723161255030314", TimeUnit::Micros),
        ("1723161255030.314", TimeUnit::Millis),
        ("1723161255.030314", TimeUnit::Seconds),
    ] {
        let mut parser = parser();
        assert_eq!(parse(&mut parser, time).unwrap(), "2024-08-08T23:54:15.030314Z");
        assert_eq!(parser.guessed_unit(), Some(unit).filter(|unit| *unit != TimeUnit::Nanos));
        // What fits another unit than the lines before is no time of this file.
        let other = if unit == TimeUnit::Seconds { "1723161255030" } else { "1723161255" };
        assert!(parse(&mut parser, other).unwrap_err().contains(unit.name()), "{time}");
    }
    for none in ["17", "0", "-1723161255", "50000000000000", "x", ""] {
        assert!(parse(&mut parser(), none).unwrap_err().contains("not before 1973"), "{none}");
    }
    let path = Path::new("x/usdm-btcusdt_20240808.gz");
    let options = ImportOptions { receive_time_unit: Some(TimeUnit::Nanos), ..ImportOptions::default() };
    let mut stated = Capture::of_path(path, &options).parser();
    assert_eq!(parse(&mut stated, "17").unwrap(), "1970-01-01T00:00:00.000000017Z");
}

#[test]
fn times_of_the_venue_may_be_microseconds() {
    let of = |time: &str| {
        let json =
            format!(r#"{{"e":"bookTicker","E":{time},"u":7,"s":"A","b":"1","B":"1","a":"2","A":"3"}}"#);
        parse(&mut parser(), &json).map(|package| package.source_time.unwrap().to_string())
    };
    assert_eq!(of("1723161256299").unwrap(), "2024-08-08T23:54:16.299Z");
    assert_eq!(of("1723161256299001").unwrap(), "2024-08-08T23:54:16.299001Z");
    for none in ["1", "1723161256", "1723161256299001000"] {
        assert!(of(none).unwrap_err().contains("milliseconds or microseconds"), "{none}");
    }
}

#[test]
fn a_snapshot_is_about_the_symbol_around_it() {
    let snapshot = r#"{"lastUpdateId":77,"bids":[["1","2"],["0.5","3"]],"asks":[["3","4"]]}"#;
    let diff = |symbol: &str| format!(r#"{{"stream":"x@depth","data":{}}}"#, DIFF.replace("BTCUSDT", symbol));
    let mut parser = parser();
    let package = parse(&mut parser, snapshot).unwrap();
    assert_eq!(
        (parser.symbol(), package.kind, package.sequence),
        ("BTCUSDT", PackageKind::Snapshot, Some(77))
    );
    let Entry::Level2Snapshot(second) = &package.entries[1] else { panic!("{package:?}") };
    assert_eq!((second.level, second.price), (1, number("0.5")));
    parse(&mut parser, &diff("ETHUSDT")).unwrap();
    parse(&mut parser, snapshot).unwrap();
    assert_eq!(parser.symbol(), "ETHUSDT");
    parse(&mut parser, &diff("XRPUSDT")).unwrap();
    parse(&mut parser, snapshot).unwrap();
    assert_eq!(parser.symbol(), "BTCUSDT");
}

#[test]
fn unknown_kinds_have_a_name() {
    let unknown = |json| parse(&mut parser(), json).unwrap_err();
    assert_eq!(unknown(r#"{"stream":"btcusdt@aggTrade","data":{}}"#), "unknown aggTrade");
    assert_eq!(unknown(r#"{"stream":"btcusdt@depth7@100ms","data":{}}"#), "unknown depth7@100ms");
    assert_eq!(unknown(r#"{"stream":"!markPrice@arr@1s","data":[]}"#), "unknown !markPrice@arr@1s");
    assert_eq!(unknown(r#"{"result":null,"id":1}"#), "unknown without stream and event");
}

#[test]
fn bad_lines_say_where() {
    let mut record = AnyRecord::default();
    let mut bad = |line: &[u8]| match parser().parse(line, &mut record) {
        Err(bad) => format!("{} {}", bad.column.unwrap(), bad.expected),
        _ => panic!("not bad"),
    };
    assert!(bad(b"1723161255 {\"stream\":\"a@trade\",\"data\":{}}").contains("missing field"));
    assert!(bad(b"1723161255 {\"stream\":\"a@other\",\"data\":").contains("EOF"));
    assert!(bad(b"1723161255 {\"stream\":\"a@trade\",\"data\":{\"p\":\"1x\"}}").contains("not a decimal"));
    assert!(bad(b"x {}").starts_with("0 local receive time"));
    assert!(bad(b"99999999999999999999 {}").starts_with("0 local receive time"));
    assert!(bad(b"\xFF\xFE").starts_with("0 local receive time"));
    assert!(bad(b"1723161255 \xFF\xFE").starts_with("11 a JSON frame"));
}

#[test]
fn a_text_shows_that_it_has_frames_of_binance() {
    assert!(Capture::begins_so(b"1723161255030314667 {\"stream\":\"btcusdt@depth@0ms\",\"data\":{}}"));
    assert!(Capture::begins_so(b"1723161255030 {\"e\":\"trade\"}"));
    for other in [
        &b"1723161255030314667 {\"topic\":\"orderbook\"}"[..],
        b"12 {\"e\":\"trade\"}",
        b"x {\"e\":\"",
        b"",
        b"1723161255030314667",
    ] {
        assert!(!Capture::begins_so(other));
    }
}

#[test]
fn liquidations_of_captures() {
    use crate::frames::messages::Messages;
    let mut out = Messages::new("BINUSDM", false);
    let frame = r#"{"e":"forceOrder","E":1568014460893,"o":{"s":"BTCUSDT","S":"SELL","o":"LIMIT","f":"IOC","q":"0.014","p":"9910","ap":"9910.5","X":"FILLED","l":"0.014","z":"0.014","T":1568014460890}}"#;
    for stream in ["btcusdt@forceOrder", "!forceOrder@arr"] {
        let text = format!(r#"{{"stream":"{stream}","data":{frame}}}"#);
        out.begin(Timestamp(1_568_014_460_000_000_000), &text);
        crate::frames::Frames::frame(&mut CaptureFrames::new("BINUSDM"), &text, &mut out).unwrap();
        let message = out.take().unwrap();
        let AnyRecord::Liquidation(liquidation) = message.record else { panic!("{message:?}") };
        assert_eq!(
            (message.symbol.as_str(), liquidation.average_price.unwrap().to_string().as_str()),
            ("BTCUSDT", "9910.5")
        );
        assert_eq!(liquidation.match_time.unwrap().nanos(), 1_568_014_460_890_000_000);
    }
}

#[test]
fn long_numbers_are_refused_or_rounded_and_counted() {
    use crate::frames::messages::Messages;
    let frame = DIFF.replace("0.014", "0.00000000000000001234567890123456789");
    let options = ImportOptions { round_numbers: true, ..ImportOptions::default() };
    let mut rounding = Capture::of_path(Path::new("x/usdm-btcusdt_20240808.gz"), &options).parser();
    assert!(parse(&mut parser(), &frame).unwrap_err().contains("19 digits"));
    let package = parse(&mut rounding, &frame).unwrap();
    let Entry::Level2Update(update) = &package.entries[1] else { panic!("{package:?}") };
    assert_eq!((update.size, package.entries.len()), (Some(number("1.234567890123457E-17")), 4));
    let mut counters = Counters::default();
    rounding.count(&mut counters);
    assert_eq!(counters.rounded_numbers, 1);
    assert!(parse(&mut rounding, &frame.replace("\"u\":9", "\"u\":-9")).is_err());
    for round in [false, true] {
        let mut out = Messages::new("BINUSDM", round);
        out.begin(Timestamp(1_723_161_256_000_000_000), &frame);
        let read = crate::frames::Frames::frame(&mut CaptureFrames::new("BINUSDM"), &frame, &mut out);
        assert_eq!((read.is_ok(), out.counters().rounded_numbers), (round, u64::from(round)));
        assert_eq!(out.take().is_some(), round);
    }
}

/// Partial books of spot, which have no symbol and no time, and of futures, which are written as diffs are.
#[test]
fn partial_books_are_states_of_the_best_levels() {
    let state = |parser: &mut Parser, json: &str| {
        let mut record = AnyRecord::default();
        let line = format!("1723161255030314667 {json}");
        assert!(matches!(parser.parse(line.as_bytes(), &mut record), Ok(Parsed::Row(_))), "{json}");
        let AnyRecord::MarketByPrice(state) = record else { panic!("{record:?}") };
        state
    };
    let mut parser = parser();
    let spot = r#"{"stream":"ethbtc@depth20@100ms","data":{"lastUpdateId":160,"bids":[["0.0024","10"],["0.0023","1"]],"asks":[["0.0026","100"]]}}"#;
    for text in [spot.to_string(), spot.replace("{\"stream", "{ \"stream")] {
        let found = state(&mut parser, &text);
        assert_eq!((parser.symbol(), found.sequence, found.action), ("ETHBTC", Some(160), None));
        let [first, second] = found.levels[..] else { panic!("{found:?}") };
        assert_eq!((first.bid_price, first.ask_size), (Some(number("0.0024")), Some(number("100"))));
        assert_eq!((second.bid_size, second.ask_price), (Some(number("1")), None));
    }
    let futures = DIFF.replace(r#"["61510.90","0.000"]"#, r#"["58710.10","3"]"#);
    let found = state(&mut parser, &format!(r#"{{"stream":"btcusdt@depth5@500ms","data":{futures}}}"#));
    assert_eq!((parser.symbol(), found.sequence, found.levels.len()), ("BTCUSDT", Some(9), 2));
    assert_eq!(found.source_time, Some(Timestamp(1_723_161_256_299_000_000)));
    assert_eq!(parse(&mut parser, r#"{"stream":"btcusdt@depth7","data":{}}"#), Err("unknown depth7".into()));
}
