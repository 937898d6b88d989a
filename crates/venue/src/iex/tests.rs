//! Captures made here, byte by byte, and read back.

use super::*;
use crate::pcap::fixture::{capture, frame};
use crate::record::AnyRecord;
use tapedb_market::{Imbalance, MarketByPrice, OrderAction, Side, Status, TradingState};
use tapedb_schema::Timestamp;

const SENT: i64 = 1_492_000_000_000_000_000;

/// A message: its type, its first field, then the rest behind time and symbol.
fn message(kind: u8, code: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![kind, code];
    bytes.extend((SENT - 5).to_le_bytes());
    bytes.extend(b"ZIEXT   ");
    bytes.extend(parts.concat());
    bytes
}

fn packet(first: i64, messages: &[Vec<u8>]) -> Vec<u8> {
    let framed = messages.iter().map(|message| {
        let length = (message.len() as u16).to_le_bytes();
        [&length[..], message].concat()
    });
    let framed = framed.collect::<Vec<_>>().concat();
    let mut bytes = vec![1, 0, 4, 0x80, 1, 0, 0, 0, 7, 0, 0, 0];
    bytes.extend([framed.len() as u16, messages.len() as u16].map(u16::to_le_bytes).concat());
    bytes.extend([0, first, SENT].map(i64::to_le_bytes).concat());
    bytes.extend(framed);
    bytes
}

fn level(kind: u8, flags: u8, size: u32) -> Vec<u8> {
    message(kind, flags, &[&size.to_le_bytes(), &990_500i64.to_le_bytes()])
}

type Row = (i64, String, AnyRecord);

fn read(packets: &[Vec<u8>], on_bad_line: OnBadLine) -> Result<Vec<Row>, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("feed.pcap");
    let frames = packets.iter().enumerate().map(|(at, packet)| (1_492_000_000, at as u32, frame(packet)));
    let bytes = capture(&frames.collect::<Vec<_>>());
    std::fs::write(&path, &bytes).unwrap();
    assert!(is_captured(&path));
    let mut source = open(&path, bytes.len() as u64, on_bad_line)?;
    let (mut rows, mut record) = (Vec::new(), AnyRecord::default());
    while let Some(row) = source.next(&mut record)? {
        rows.push((row.time.nanos(), row.symbol.to_string(), record.clone()));
    }
    Ok(rows)
}

fn of_messages(messages: &[Vec<u8>]) -> Vec<Row> {
    read(&[packet(1, messages)], OnBadLine::Stop).unwrap()
}

fn change(row: &Row) -> &MarketByPrice {
    match &row.2 {
        AnyRecord::MarketByPrice(change) => change,
        other => panic!("{other:?}"),
    }
}

#[test]
fn levels_keep_the_end_of_their_event() {
    let rows = of_messages(&[level(b'8', 0, 100), level(b'5', 1, 0)]);
    let first = change(&rows[0]);
    assert_eq!(
        (first.action, first.side, first.event_end),
        (Some(OrderAction::Modify), Some(Side::Bid), false)
    );
    assert_eq!((first.price.unwrap().to_string().as_str(), first.sequence), ("99.0500", Some(1)));
    assert_eq!((first.match_time, first.source_time), (Some(Timestamp(SENT - 5)), Some(Timestamp(SENT))));
    let last = change(&rows[1]);
    assert_eq!((last.action, last.side, last.event_end), (Some(OrderAction::Delete), Some(Side::Ask), true));
    assert_eq!((rows[1].0, rows[1].1.as_str()), (1_492_000_000_000_000_000, "ZIEXT"));
}

#[test]
fn an_auction_has_its_collars_and_what_they_are_around() {
    let numbers = |values: &[i64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    let parts: [&[u8]; 7] = [
        &500u32.to_le_bytes(),
        &numbers(&[1_000_000, 1_010_000]),
        &70u32.to_le_bytes(),
        b"S",
        &[2],
        &1_492_000_600u32.to_le_bytes(),
        &numbers(&[0, 1_000_100, 900_000, 1_100_000]),
    ];
    let rows = of_messages(&[message(b'A', b'C', &parts), message(b'H', b'P', &[b"LULD"])]);
    let expected = Imbalance {
        auction_type: tapedb_schema::Ascii::new("C").ok(),
        paired_size: "500".parse().ok(),
        reference_price: "100.0000".parse().ok(),
        book_clearing_price: "101.0000".parse().ok(),
        imbalance_size: "70".parse().ok(),
        side: Some(Side::Ask),
        auction_status: Some(b'S'),
        extensions: Some(2),
        auction_time: Some(Timestamp(1_492_000_600_000_000_000)),
        lower_collar: "90.0000".parse().ok(),
        upper_collar: "110.0000".parse().ok(),
        match_time: Some(Timestamp(SENT - 5)),
        source_time: Some(Timestamp(SENT)),
        ..Imbalance::default()
    };
    assert_eq!(rows[0].2, expected.into());
    let AnyRecord::Statistic(collar) = &rows[1].2 else { panic!("{:?}", rows[1]) };
    assert_eq!((collar.price.unwrap().to_string().as_str(), collar.sequence), ("100.0100", Some(1)));
    let AnyRecord::Status(halt) = &rows[2].2 else { panic!("{:?}", rows[2]) };
    let expected = Status {
        state: Some(TradingState::Paused),
        state_code: Some(b'P'.into()),
        text: Some("LULD".into()),
        trading: Some(false),
        match_time: Some(Timestamp(SENT - 5)),
        source_time: Some(Timestamp(SENT)),
        ..Status::default()
    };
    assert_eq!(**halt, expected);
}

#[test]
fn a_publisher_that_begins_again_is_noticed_and_nothing_is_lost() {
    let packets = [
        packet(1, &[level(b'8', 1, 1), level(b'8', 1, 2)]),
        packet(3, &[]),
        packet(1, &[level(b'8', 1, 3)]),
        packet(1, &[level(b'8', 1, 3)]),
        packet(4, &[level(b'8', 1, 4)]),
    ];
    let rows = read(&packets, OnBadLine::Stop).unwrap();
    let names: Vec<_> = rows.iter().map(|row| (row.2.type_name(), row.1.as_str())).collect();
    let (level, notice, gap) = (("MarketByPrice", "ZIEXT"), ("Notice", "IEXG"), ("Gap", "IEXG"));
    assert_eq!(names, [level, level, notice, level, gap, level]);
    assert_eq!(change(&rows[3]).size.unwrap().to_string(), "3");
}

#[test]
fn wrong_messages_are_named_and_longer_ones_are_read() {
    let longer = [level(b'8', 1, 7), b"new".to_vec()].concat();
    let unknown = message(b'~', 0, &[]);
    let rows = of_messages(&[longer, unknown.clone(), level(b'5', 1, 8)]);
    assert_eq!(rows.len(), 2);
    let short = level(b'8', 1, 7)[..29].to_vec();
    let error = read(&[packet(1, std::slice::from_ref(&short))], OnBadLine::Stop).unwrap_err().to_string();
    assert!(error.contains("record 1: expected the length of a message of this type"), "{error}");
    let rows = read(&[packet(1, &[short, unknown, level(b'8', 1, 7)])], OnBadLine::Skip(1)).unwrap();
    assert_eq!((rows.len(), change(&rows[0]).sequence), (1, Some(3)));
}
