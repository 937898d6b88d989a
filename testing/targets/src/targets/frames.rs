//! Frames of crypto venues. The first byte says which venue, the rest are its frames, one a line; or which file of such a venue the rest is.
//!
//! A frame is read again by `serde_json` alone: every price and size of a message is a number of this frame or of one before it.

use super::importers::{CanBeViewed, Folder, read};
use crate::Target;
use serde_json::Value;
use tapedb_market::Entry;
use tapedb_schema::{Decimal64, Timestamp};
use tapedb_venue::{AnyRecord, Format, FrameParser, ImportOptions, OnBadLine, Venue};

/// See the module.
pub const TARGET: Target = Target { name: "frames", run, seed };

/// Names of files, and what they are.
const FILES: [(&str, Format); 5] = [
    ("KRAKEN.ws.1.txt", Format::Capture),
    ("capture.txt", Format::Capture),
    ("binance-futures_trades_BTCUSDT.csv", Format::Tardis),
    ("2024-12-01_XRPUSDT_ob500.data", Format::BybitOb),
    ("l3_snapshot.json", Format::CoinbaseSnapshot),
];

/// Any bytes give messages that can be encoded, or an error that says what was expected.
pub fn run(input: &[u8]) {
    let [choice, bytes @ ..] = input else { return };
    let choice = usize::from(*choice) % (Venue::ALL.len() + FILES.len());
    match Venue::ALL.get(choice) {
        Some(venue) => frames(*venue, bytes),
        None => file(FILES[choice - Venue::ALL.len()], bytes),
    }
}

fn file((name, format): (&str, Format), bytes: &[u8]) {
    let folder = Folder::new();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a temporary file can be written");
    for (on_bad_line, round_numbers) in [(OnBadLine::Stop, false), (OnBadLine::Skip(u64::MAX), true)] {
        let options = ImportOptions { on_bad_line, round_numbers, ..ImportOptions::default() };
        if let Err(error) = read(format, &path, &options) {
            assert!(!error.to_string().is_empty());
        }
    }
}

fn frames(venue: Venue, bytes: &[u8]) {
    let (mut parser, mut numbers) = (FrameParser::new(venue, false), Some(vec![0.0]));
    for (frame, second) in bytes.split(|&byte| byte == b'\n').zip(1_600_000_000..) {
        let time = Timestamp(second * 1_000_000_000);
        if frame.is_empty() {
            parser.opened(time).expect("gaps of symbols that were messages");
        }
        let value = serde_json::from_slice::<Value>(frame).ok();
        for (value, numbers) in value.iter().zip(&mut numbers) {
            collect(value, numbers);
        }
        let read = parser.frame(time, frame);
        while let Some(message) = parser.take() {
            assert!(read.is_ok() || message.record.type_name() == "Gap");
            assert!(!message.symbol.is_empty() && message.time == time);
            message.record.visit(CanBeViewed);
            if value.is_none() && !frame.is_empty() {
                // Numbers beyond those that this reader has.
                numbers = None;
            }
            if let Some(numbers) = &numbers {
                check(&message.record, numbers);
            }
        }
        let counters = parser.take_counters();
        assert!(read.is_ok() || counters.rounded_numbers == 0);
    }
}

/// All numbers of a frame, in quotes or not, without their signs.
fn collect(value: &Value, numbers: &mut Vec<f64>) {
    match value {
        Value::Number(number) => numbers.extend(number.as_f64().map(f64::abs)),
        Value::String(text) => {
            numbers.extend(text.split(',').filter_map(|part| part.parse().ok()).map(f64::abs));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, numbers)),
        Value::Object(fields) => fields.values().for_each(|value| collect(value, numbers)),
        Value::Null | Value::Bool(_) => {}
    }
}

fn check(record: &AnyRecord, numbers: &[f64]) {
    let is_there = |number: Decimal64| {
        let number = number.to_f64().abs();
        let near = |other: &f64| (number - other).abs() <= number * 1e-15;
        assert!(number == f64::INFINITY || numbers.iter().any(near), "{number} is not in the frames");
    };
    match record {
        AnyRecord::Package(package) => {
            for entry in &package.entries {
                let (price, size) = match entry {
                    Entry::Trade(trade) => (Some(trade.price), Some(trade.size)),
                    Entry::Level1(quote) => (quote.price, quote.size),
                    Entry::Level2Snapshot(level) => (Some(level.price), Some(level.size)),
                    Entry::Level2Update(level) => (Some(level.price), level.size),
                    Entry::SequenceRange(_) => (None, None),
                };
                price.into_iter().chain(size).for_each(is_there);
            }
        }
        AnyRecord::MarketByPrice(trade) => trade.price.into_iter().chain(trade.size).for_each(is_there),
        AnyRecord::Order(order) => order.price.into_iter().chain(order.size).for_each(is_there),
        AnyRecord::Liquidation(order) => order.price.into_iter().chain(order.filled).for_each(is_there),
        AnyRecord::IntervalBar(bar) => {
            [bar.open, bar.close, bar.volume].into_iter().flatten().for_each(is_there)
        }
        AnyRecord::Ticker(ticker) => {
            [ticker.bid_price, ticker.ask_size, ticker.last_price].into_iter().flatten().for_each(is_there);
        }
        _ => {}
    }
}

/// Frames of each venue, in the order of [`Venue::ALL`], then lines of each file; made up, not recorded. `P` and `Q` are numbers, `N` is a number that goes up.
const FRAMES: [&[&str]; 25] = [
    &[
        r#"{"stream":"btcusdt@depth","data":{"e":"depthUpdate","E":1723161256299,"s":"BTCUSDT","U":N,"u":N,"b":[["P","Q"]],"a":[["P","0"]]}}"#,
        r#"{"stream":"btcusdt@aggTrade","data":{"e":"aggTrade","E":1633998523963,"s":"NKNUSDT","a":1,"p":"P","q":"Q","f":N,"l":N,"T":1633998523963,"m":false}}"#,
        r#"{"stream":"a@kline_1m","data":{"e":"kline","E":1633998523963,"s":"A","k":{"t":1633998480000,"T":1633998539999,"s":"A","o":"P","c":"P","h":"P","l":"P","v":"Q","n":30,"q":"Q"}}}"#,
    ],
    &[
        r#"{"stream":"btcusdt@depth","data":{"e":"depthUpdate","E":1723161256299,"T":1723161256298,"s":"BTCUSDT","U":N,"u":N,"pu":7,"b":[["P","Q"]],"a":[]}}"#,
        r#"{"stream":"btcusdt@bookTicker","data":{"u":7,"s":"BTCUSDT","b":"P","B":"Q","a":"P","A":"Q"}}"#,
    ],
    &[
        r#"{"event":"conf","status":"OK","flags":65536}"#,
        r#"{"event":"subscribed","channel":"book","chanId":2,"symbol":"tDOGUSD","prec":"P0","pair":"DOGUSD"}"#,
        r#"{"event":"subscribed","channel":"trades","chanId":3,"symbol":"tDOGUSD","pair":"DOGUSD"}"#,
        r#"{"event":"subscribed","channel":"ticker","chanId":4,"symbol":"tDOGUSD","pair":"DOGUSD"}"#,
        "[2,[[P,1,Q],[P,2,-Q]],N]",
        "[2,[P,0,1],N]",
        r#"{"event":"subscribed","channel":"book","chanId":5,"symbol":"tDOGUSD","prec":"R0","pair":"DOGUSD"}"#,
        "[5,[[34006738527,P,Q],[34006738528,P,-Q]],N]",
        "[5,[34006738527,P,Q],N]",
        r#"[3,"te",[669899159,1618665870435,-Q,P],N]"#,
        "[4,[P,Q,P,Q,-1,0.1,P,Q,P,P],N]",
        r#"[2,"hb",N]"#,
    ],
    &[
        r#"{"action":"snapshot","arg":{"instType":"sp","channel":"books","instId":"A"},"data":[{"asks":[["P","Q"]],"bids":[],"checksum":1,"ts":"1649290076193"}]}"#,
        r#"{"action":"update","arg":{"instType":"mc","channel":"trade","instId":"A"},"data":[["1649290078916","P","Q","sell"]]}"#,
        r#"{"action":"update","arg":{"instType":"mc","channel":"candle1m","instId":"A"},"data":[["1649290020000","P","P","P","P","Q"]]}"#,
    ],
    &[
        r#"{"table":"orderBookL2","action":"partial","data":[{"symbol":"X","id":7,"side":"Sell","size":Q,"price":P}]}"#,
        r#"{"table":"orderBookL2","action":"update","data":[{"symbol":"X","id":7,"side":"Sell","size":Q}]}"#,
        r#"{"table":"orderBookL2","action":"delete","data":[{"symbol":"X","id":7,"side":"Sell"}]}"#,
        r#"{"table":"trade","action":"insert","data":[{"timestamp":"2021-07-22T22:36:10.014Z","symbol":"X","side":"Buy","size":Q,"price":P,"trdMatchID":"39744121-c20e-44ba-8cc8-a6b8cdf72885"}]}"#,
        r#"{"table":"quote","action":"insert","data":[{"timestamp":"2021-07-22T22:36:10.014Z","symbol":"X","bidSize":Q,"bidPrice":P,"askPrice":P,"askSize":Q}]}"#,
    ],
    &[
        r#"{"data":{"timestamp":"1641343691","microtimestamp":"1641343691244908","bids":[["P","Q"]],"asks":[["P","0.0"]]},"channel":"diff_order_book_bateur","event":"data"}"#,
        r#"{"data":{"id":N,"amount":Q,"amount_str":"Q","price":P,"price_str":"P","type":0,"microtimestamp":"1641343699596000"},"channel":"live_trades_ethusd","event":"trade"}"#,
        r#"{"event":"bts:subscription_succeeded","channel":"x_y","data":{}}"#,
    ],
    &[
        r#"{"topic":"orderbook.500.X","type":"snapshot","ts":1733011200691,"data":{"s":"X","b":[["P","Q"]],"a":[],"u":N,"seq":9},"cts":1733011200689}"#,
        r#"{"topic":"orderbook.500.X","type":"delta","ts":1733011200691,"data":{"s":"X","b":[["P","Q"]],"a":[["P","0"]],"u":N,"seq":9},"cts":1733011200689}"#,
        r#"{"topic":"publicTrade.X","type":"snapshot","ts":1733011200691,"data":[{"T":1733011200690,"s":"X","S":"Buy","v":"Q","p":"P","i":"20f43950-d8dd-5b31-9112-a178eb6023af"}]}"#,
    ],
    &[
        r#"{"type":"snapshot","product_id":"X","asks":[["P","Q"]],"bids":[["P","Q"]]}"#,
        r#"{"type":"l2update","product_id":"X","changes":[["sell","P","Q"],["buy","P","0"]],"time":"2021-04-17T16:43:37.075687Z"}"#,
        r#"{"type":"match","trade_id":N,"side":"sell","size":"Q","price":"P","product_id":"X","sequence":177100030,"time":"2021-04-17T16:43:37.089723Z"}"#,
        r#"{"type":"open","product_id":"X","sequence":N,"time":"2021-04-17T16:43:30.244075Z","side":"buy","order_id":"d50ec984-77a8-460a-b958-66f114b0de9b","remaining_size":"Q","price":"P"}"#,
        r#"{"type":"ticker","sequence":3,"product_id":"X","price":"P","best_bid":"P","best_ask":"P","side":"buy","time":"2021-04-17T16:43:30.244075Z","trade_id":8,"last_size":"Q","volume_30d":"1"}"#,
    ],
    &[
        r#"{"jsonrpc":"2.0","method":"subscription","params":{"channel":"book.X.raw","data":{"type":"snapshot","timestamp":1626993723632,"instrument_name":"X","change_id":N,"bids":[["new",P,Q]],"asks":[]}}}"#,
        r#"{"jsonrpc":"2.0","method":"subscription","params":{"channel":"book.X.raw","data":{"type":"change","timestamp":1626993724318,"prev_change_id":7,"instrument_name":"X","change_id":N,"bids":[["delete",P,0.0]],"asks":[["change",P,Q]]}}}"#,
        r#"{"jsonrpc":"2.0","method":"subscription","params":{"channel":"trades.X.raw","data":[{"instrument_name":"X","trade_id":"ETH-1","trade_seq":N,"timestamp":1626993724318,"direction":"buy","price":P,"amount":Q}]}}"#,
        r#"{"jsonrpc":"2.0","method":"subscription","params":{"channel":"ticker.X.raw","data":{"timestamp":1626993723632,"stats":{"volume":Q,"low":null},"instrument_name":"X","mark_price":P,"last_price":P,"greeks":{"vega":0.2}}}}"#,
    ],
    &[
        r#"{"ch":"market.btcusdt.depth.step0","ts":1618678100688,"tick":{"bids":[[P,Q]],"asks":[[P,1.28E7]],"version":N,"ts":1618678100680}}"#,
        r#"{"ch":"market.btcusdt.trade.detail","ts":1618678071000,"tick":{"id":1,"ts":1618678070999,"data":[{"id":100182534526255757567432481,"ts":1618678070999,"tradeId":N,"amount":Q,"price":P,"direction":"buy"}]}}"#,
        r#"{"ping":1618678073643}"#,
    ],
    &[
        r#"[0,{"as":[["P","Q","1534614248.123678"]],"bs":[["P","Q","1534614248.123678"]]},"book-10","XBT/USD"]"#,
        r#"[0,{"a":[["P","0.0","1534614248.765567","r"]]},{"b":[["P","Q","1534614248.7"]],"c":"974947235"},"book-10","XBT/USD"]"#,
        r#"[1,[["P","Q","1618678142.557535","s","l",""]],"trade","XMR/USD"]"#,
        r#"[2,{"a":["P",35,"Q"],"b":["P",185,"Q"],"c":["P","Q"],"v":["Q","Q"],"p":["1","2"],"t":[640,1353],"l":["P","P"],"h":["P","P"],"o":["P","P"]},"ticker","X/Y"]"#,
        r#"[3,["P","P","1618678142.5","Q","Q"],"spread","X/Y"]"#,
        r#"[4,["1618678142.5","1618678200.0","P","P","P","P","P","Q",3],"ohlc-5","X/Y"]"#,
        r#"{"channel":"book","type":"snapshot","data":[{"symbol":"X/Y","bids":[{"price":P,"qty":Q}],"asks":[],"checksum":1,"timestamp":"2023-10-06T17:35:55.440295Z"}]}"#,
        r#"{"channel":"trade","type":"update","data":[{"symbol":"X/Y","side":"sell","price":P,"qty":Q,"ord_type":"market","trade_id":N,"timestamp":"2023-09-25T07:49:37.708706Z"}]}"#,
    ],
    &[
        r#"{"arg":{"channel":"books","instId":"A-B"},"action":"snapshot","data":[{"asks":[["P","Q","0","1"]],"bids":[],"ts":"1652459225464","checksum":0,"seqId":N,"prevSeqId":-1}]}"#,
        r#"{"arg":{"channel":"books","instId":"A-B"},"action":"update","data":[{"asks":[["P","0","0","0"]],"bids":[["P","Q","0","2"]],"ts":"1652459225464","checksum":-914047754}]}"#,
        r#"{"arg":{"channel":"trades","instId":"A-B"},"data":[{"instId":"A-B","tradeId":"N","px":"P","sz":"Q","side":"buy","ts":"1652459199958"}]}"#,
        r#"{"arg":{"channel":"tickers","instId":"A-B"},"data":[{"instId":"A-B","last":"P","askPx":"P","bidPx":"P","bidSz":"","ts":"1652459223003"}]}"#,
    ],
    &[
        r#"{"stream":"btcusd_perp@depth","data":{"e":"depthUpdate","E":1723161256299,"T":1723161256298,"s":"BTCUSD_PERP","U":N,"u":N,"pu":7,"b":[["P","Q"]],"a":[]}}"#,
        r#"{"stream":"btcusd_perp@forceOrder","data":{"e":"forceOrder","E":1568014460893,"o":{"s":"BTCUSD_PERP","S":"SELL","q":"Q","p":"P","ap":"P","X":"FILLED","z":"Q","T":1568014460890}}}"#,
    ],
    &[
        r#"{"stream":"btcusd@trade","data":{"e":"trade","E":1633998523963,"s":"BTCUSD","t":N,"p":"P","q":"Q","T":1633998523963,"m":false}}"#,
    ],
    &[
        r#"{"time":1606294781,"channel":"spot.order_book_update","event":"update","result":{"t":1606294781123,"s":"A_B","U":N,"u":N,"b":[["P","Q"]],"a":[["P","0"]]}}"#,
        r#"{"channel":"futures.order_book_update","event":"update","result":{"t":1606294781123,"s":"A_B","U":N,"u":N,"b":[{"p":"P","s":Q}],"a":[]}}"#,
        r#"{"channel":"spot.trades","event":"update","result":{"id":N,"create_time":1606292218,"create_time_ms":"1606292218213.4578","side":"sell","currency_pair":"A_B","amount":"Q","price":"P"}}"#,
        r#"{"channel":"spot.book_ticker","event":"update","result":{"t":1606293275123,"u":N,"s":"A_B","b":"P","B":"Q","a":"P","A":"Q"}}"#,
        r#"{"channel":"spot.candlesticks","event":"update","result":{"t":"1606292580","v":"Q","c":"P","h":"P","l":"P","o":"P","n":"1m_A_B","a":"Q"}}"#,
        r#"{"channel":"spot.tickers","event":"update","result":{"currency_pair":"A_B","last":"P","lowest_ask":"P","highest_bid":"P"}}"#,
    ],
    &[
        r#"{"ch":"market.BTC_CW.depth.step0","ts":1618678100688,"tick":{"mrid":N,"bids":[[P,Q]],"asks":[[P,Q]],"version":N,"ts":1618678100680}}"#,
    ],
    &[
        r#"{"ch":"market.BTC-USD.trade.detail","ts":1618678071000,"tick":{"id":1,"ts":1618678070999,"data":[{"id":10018253452625,"ts":1618678070999,"amount":Q,"price":P,"direction":"buy"}]}}"#,
    ],
    &[
        r#"{"feed":"book_snapshot","product_id":"PI_XBTUSD","timestamp":1612269825817,"seq":N,"bids":[{"qty":Q,"price":P}],"asks":[]}"#,
        r#"{"feed":"book","product_id":"PI_XBTUSD","side":"sell","seq":N,"price":P,"qty":Q,"timestamp":1612269953629}"#,
        r#"{"feed":"trade","product_id":"PI_XBTUSD","uid":"05af78ac-a774-478c-a50c-8b9c234e071e","side":"sell","seq":N,"time":1612266317519,"qty":Q,"price":P}"#,
    ],
    &[
        r#"{"type":"message","topic":"/market/level2:A-B","subject":"trade.l2update","data":{"changes":{"asks":[["P","Q","N"]],"bids":[["0","0","N"]]},"sequenceStart":N,"sequenceEnd":N,"time":1663747970273}}"#,
        r#"{"type":"message","topic":"/market/match:A-B","data":{"sequence":"N","side":"sell","price":"P","size":"Q","tradeId":"5c24c5da03aa673885cd67aa","time":"1545913818099033203"}}"#,
        r#"{"type":"message","topic":"/contractMarket/level2:X","data":{"sequence":N,"change":"5000.0,sell,83","timestamp":1551770400000}}"#,
        r#"{"type":"message","topic":"/market/candles:A-B_1hour","data":{"candles":["1589968800","P","P","P","P","Q","Q"],"time":1589970010253893337}}"#,
    ],
    &[
        r#"{"arg":{"channel":"trades","instId":"A-B"},"data":[{"instId":"A-B","tradeId":"N","px":"P","sz":"Q","side":"buy","ts":"1652459199958"}]}"#,
    ],
    &[
        "wss://ws.kraken.com <-> 1618678132.368463",
        r#"1618678142.592855: [1,[["P","Q","1618678142.557535","s","l",""]],"trade","XMR/USD"]"#,
    ],
    &[
        "https://www.bitstamp.net/api/v2/order_book/sgbeur -> 1641343696.2410529: {\"microtimestamp\": \"1641343695572693\", \"bids\": [[\"P\", \"Q\"]], \"asks\": []}",
        "configuration: {}",
        r"1641343697.5: b'\x1f\x8b'",
    ],
    &[
        "exchange,symbol,timestamp,local_timestamp,is_snapshot,side,price,amount",
        "deribit,X,1585699200245000,1585699200355684,true,ask,P,Q",
        "deribit,X,1585699200245000,1585699200355684,false,bid,P,0",
    ],
    &[
        r#"{"topic":"orderbook.500.X","type":"delta","ts":1733011200691,"data":{"s":"X","b":[["P","Q"]],"a":[["P","0"]],"u":N,"seq":9},"cts":1733011200689}"#,
    ],
    &[
        r#"{"product":"BTC-USD","level":3,"captured_at":"2026-08-07T20:04:10Z","sequence":N,"bids":[["P","Q","60de12d8-f80b-4848-adbc-2b17375a9216"]],"asks":[["P","Q","x"]]}"#,
    ],
];

/// All frames of a venue with other numbers each time, some of them once more.
fn seed(number: u64) -> Vec<u8> {
    let kind = number as usize % FRAMES.len();
    let mut bytes = vec![kind as u8];
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let rounds = if kind < Venue::ALL.len() { 1 + number / 17 % 2 } else { 1 };
    let frames = FRAMES[kind].iter().cycle().take(FRAMES[kind].len() * rounds as usize);
    for (frame, count) in frames.zip(7u64..) {
        let mut text = frame.replace("N", "\u{1}");
        for (mark, digits) in
            [("\"P\"", 6), ("P,", 6), ("\"Q\"", 9), ("Q,", 9), ("Q]", 9), ("Q}", 9), ("P}", 6), ("P]", 6)]
        {
            while let Some(at) = text.find(mark) {
                let place = at + mark.find(['P', 'Q']).expect("a mark");
                let number = format!("{}.{:02}", 1 + next() % 10u64.pow(digits), next() % 100);
                text.replace_range(place..=place, &number);
            }
        }
        let text = text.replace('\u{1}', &count.to_string());
        bytes.extend(text.bytes());
        bytes.push(b'\n');
    }
    bytes
}
