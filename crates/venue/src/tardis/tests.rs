use super::*;
use tapedb_market::{Entry, OrderAction, PackageKind, Side};

fn parse(lines: &[&str]) -> Result<Vec<(String, String, AnyRecord)>, String> {
    let (mut parser, mut rows, mut record) = (Parser::new(false, false), Vec::new(), AnyRecord::default());
    for line in lines {
        parser
            .parse(line.as_bytes(), &mut record)
            .map_err(|bad| format!("{:?} {}", bad.column, bad.expected))?;
        while let Some(time) = parser.queued(&mut record) {
            rows.push((time.to_string(), parser.symbol.clone(), record.clone()));
        }
    }
    parser.finish();
    while let Some(time) = parser.queued(&mut record) {
        rows.push((time.to_string(), parser.symbol.clone(), record.clone()));
    }
    Ok(rows)
}

const TRADES: &str = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount";
const QUOTES: &str = "exchange,symbol,timestamp,local_timestamp,ask_amount,ask_price,bid_price,bid_amount";
const CHANGES: &str = "exchange,symbol,timestamp,local_timestamp,is_snapshot,side,price,amount";

#[test]
fn identifiers_of_trades_are_kept_whatever_they_are() {
    let rows = parse(&[
        TRADES,
        "binance-futures,BTCUSDT,1582329602111000,1582329602418379,42377944,buy,9682,0.132",
        "bitmex,XBTUSD,1583020803145000,1583020803307160,ccc3c1fa-212c-e8b0-1706-9b9c4f3d5ecf,sell,8531.5,2152",
        "deribit,BTC-PERPETUAL,1583020803145000,1583020803307160,ETH-123,unknown,1,2",
    ])
    .unwrap();
    let AnyRecord::Package(package) = &rows[0].2 else { panic!("{rows:?}") };
    assert_eq!((rows[0].0.as_str(), rows[0].1.as_str()), ("2020-02-22T00:00:02.418379Z", "BTCUSDT"));
    assert_eq!(package.source_time.unwrap().to_string(), "2020-02-22T00:00:02.111Z");
    assert!(
        matches!(package.entries[0], Entry::Trade(trade) if trade.id == Some(42_377_944) && trade.exchange.unwrap().as_str() == "BINUSDM")
    );
    let AnyRecord::MarketByPrice(uuid) = &rows[1].2 else { panic!("{rows:?}") };
    assert_eq!(
        (uuid.trade_id_high, uuid.trade_id),
        (Some(0xccc3_c1fa_212c_e8b0), Some(0x1706_9b9c_4f3d_5ecf))
    );
    assert_eq!((uuid.action, uuid.side), (Some(OrderAction::Trade), Some(Side::Ask)));
    let AnyRecord::MarketByPrice(text) = &rows[2].2 else { panic!("{rows:?}") };
    assert_eq!((text.trade_id_text.as_deref(), text.side), (Some("ETH-123"), None));
}

#[test]
fn rows_of_one_message_are_one_package() {
    let row = |local: u64, snapshot: bool, side: &str, price: &str, size: &str| {
        format!("deribit,BTC-PERPETUAL,1585699200245000,{local},{snapshot},{side},{price},{size}")
    };
    let lines = [
        CHANGES.to_string(),
        row(1_585_699_200_355_684, true, "ask", "6421.5", "18640"),
        row(1_585_699_200_355_684, true, "bid", "6421", "10"),
        row(1_585_699_200_355_684, false, "bid", "6421", "0"),
        row(1_585_699_200_355_685, false, "bid", "6420", "7"),
    ];
    let rows = parse(&lines.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let packages: Vec<_> = rows.iter().map(|row| row.2.as_package().unwrap()).collect();
    let shapes: Vec<_> = packages.iter().map(|package| (package.kind, package.entries.len())).collect();
    assert_eq!(shapes, [(PackageKind::Snapshot, 2), (PackageKind::Update, 1), (PackageKind::Update, 1)]);
    assert!(matches!(packages[1].entries[0], Entry::Level2Update(update) if update.size.is_none()));
}

#[test]
fn a_snapshot_beyond_a_message_goes_on_in_the_next() {
    let mut lines = vec![CHANGES.to_string()];
    lines.extend(
        (1..=30_001).map(|price| format!("deribit,X,1585699200245000,1585699200355684,true,ask,{price},1")),
    );
    let rows = parse(&lines.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let kinds: Vec<_> =
        rows.iter().map(|row| row.2.as_package().map(|p| (p.kind, p.entries.len())).unwrap()).collect();
    assert_eq!(kinds, [(PackageKind::Snapshot, 30_000), (PackageKind::Update, 1)]);
}

#[test]
fn snapshots_leave_out_levels_that_are_not_there() {
    let header = "exchange,symbol,timestamp,local_timestamp,asks[0].price,asks[0].amount,bids[0].price,bids[0].amount,asks[1].price,asks[1].amount,bids[1].price,bids[1].amount";
    let row = "binance-futures,BTCUSDT,1598918403696000,1598918403810979,11657.08,1.714,11657.07,10.896,11657.54,5.4,,";
    let rows = parse(&[header, row]).unwrap();
    let package = rows[0].2.as_package().unwrap();
    assert_eq!((package.kind, package.entries.len()), (PackageKind::Snapshot, 3));
    assert!(matches!(package.entries[0], Entry::Level2Snapshot(level) if level.side == Side::Bid));
}

#[test]
fn bad_rows_say_where() {
    let bad = |header: &str, row: &str| parse(&[header, row]).unwrap_err();
    assert!(parse(&["exchange,symbol"]).unwrap_err().starts_with("Some(0) the header"));
    assert!(
        bad(QUOTES, "bitmex,X,1582329602111,1582329602418379,1,2,1,1").starts_with("Some(9) a time in micro")
    );
    assert!(bad(QUOTES, "bitmex,X,1582329602111000,1582329602418379,1,2,1").contains("one more column"));
    assert!(
        bad(QUOTES, "bitmex,X,1582329602111000,1582329602418379,1,2,1,1,9").contains("the end of the line")
    );
    assert!(bad(QUOTES, "a-long-exchange,X,1582329602111000,1,1,2,1,1").starts_with("Some(0) an exchange"));
    assert!(bad(TRADES, "bitmex,X,1582329602111000,1582329602418379,1,no,1,1").contains("side as buy"));
    assert!(bad(CHANGES, "bitmex,X,1582329602111000,1582329602418379,1,bid,1,1").contains("is_snapshot"));
}

#[test]
fn liquidations_are_no_trades_and_tickers_keep_every_column() {
    let mut parser = Parser::new(false, true);
    let mut record = AnyRecord::default();
    let row = "bitmex,XBTUSD,1582329602111000,1582329602418379,ccc3c1fa-212c-e8b0,sell,9000.5,100";
    for line in [TRADES, row] {
        parser.parse(line.as_bytes(), &mut record).map_err(|bad| bad.expected).unwrap();
    }
    assert!(parser.queued(&mut record).is_some());
    let AnyRecord::Liquidation(liquidation) = &record else { panic!("{record:?}") };
    assert_eq!(
        (liquidation.side, liquidation.id_text.as_deref()),
        (Some(Side::Ask), Some("ccc3c1fa-212c-e8b0"))
    );
    let header = "exchange,symbol,timestamp,local_timestamp,funding_timestamp,funding_rate,predicted_funding_rate,open_interest,last_price,index_price,mark_price";
    let row = "bitmex,XBTUSD,1582329602111000,1582329602418379,1582329600000000,0.0001,-0.0002,,9000.5,9001.12345678901234567,9000.9";
    let rows = parse(&[header, row]).unwrap();
    let AnyRecord::Ticker(ticker) = &rows[0].2 else { panic!("{rows:?}") };
    assert_eq!((ticker.open_interest, ticker.index), (None, None));
    let attributes: Vec<_> =
        ticker.attributes.iter().map(|each| (each.name.as_str(), each.value.as_str())).collect();
    assert_eq!(
        attributes,
        [("predicted_funding_rate", "-0.0002"), ("index_price", "9001.12345678901234567")]
    );
    assert_eq!(ticker.next_funding.unwrap().nanos(), 1_582_329_600_000_000_000);
    let header = "exchange,symbol,timestamp,local_timestamp,type,strike_price,expiration,open_interest,last_price,bid_price,bid_amount,bid_iv,ask_price,ask_amount,ask_iv,mark_price,mark_iv,underlying_index,underlying_price,delta,gamma,vega,theta,rho";
    let row = "deribit,BTC-9JUN20-9875-P,1591574399413000,1591574400196008,put,9875,1591689600000000,0.1,0.0295,0.0205,3,54.74,0.024,25.1,71.92,0.0216,60.74,SYN.BTC-9JUN20,9757.25,-0.6,0.00052,3.5,-60.1,-1.7";
    let rows = parse(&[header, row]).unwrap();
    let AnyRecord::Ticker(ticker) = &rows[0].2 else { panic!("{rows:?}") };
    assert_eq!((ticker.ask_size.unwrap().to_string(), ticker.attributes.len()), ("25.1".into(), 13));
}
