//! Files and captures made here, byte by byte, and read back.

use super::*;
use crate::record::AnyRecord;
use tapedb_market::{GapCause, Order, OrderAction, Side, TradingState};

const NANOS: u64 = 34_200_000_000_123;

/// A message: its type, its instrument, then the rest.
fn message(kind: u8, instrument: u16, parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(instrument.to_be_bytes());
    bytes.extend([0, 9]);
    bytes.extend(&NANOS.to_be_bytes()[2..]);
    bytes.extend(parts.concat());
    bytes
}

fn framed(messages: &[Vec<u8>]) -> Vec<u8> {
    let framed = messages.iter().map(|message| {
        let length = (message.len() as u16).to_be_bytes();
        [&length[..], message].concat()
    });
    framed.collect::<Vec<_>>().concat()
}

fn add(order: u64) -> Vec<u8> {
    let parts: [&[u8]; 5] =
        [&order.to_be_bytes(), b"S", &100u32.to_be_bytes(), b"BRK A   ", &4_321_500u32.to_be_bytes()];
    message(b'A', 7, &parts)
}

fn delete(order: u64) -> Vec<u8> {
    message(b'D', 7, &[&order.to_be_bytes()])
}

type Row = (Timestamp, String, AnyRecord);

fn read(name: &str, bytes: &[u8], on_bad_line: OnBadLine) -> Result<Vec<Row>, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let file = ItchFile::of_path(&path).expect("it is of this format");
    let mut source = file.open(&path, bytes.len() as u64, on_bad_line)?;
    let (mut rows, mut record) = (Vec::new(), AnyRecord::default());
    while let Some(row) = source.next(&mut record)? {
        rows.push((row.time, row.symbol.to_string(), record.clone()));
    }
    Ok(rows)
}

fn of_file(messages: &[Vec<u8>]) -> Result<Vec<Row>, ImportError> {
    read("01302019.NASDAQ_ITCH50", &framed(messages), OnBadLine::Stop)
}

fn order(row: &Row) -> &Order {
    match &row.2 {
        AnyRecord::Order(order) => order,
        other => panic!("{other:?}"),
    }
}

#[test]
fn orders_of_a_file_have_its_day_and_their_instruments_name() {
    let attributed = [&add(2)[..], b"UBSS"].concat();
    let attributed = [b"F", &attributed[1..]].concat();
    let executed: [&[u8]; 3] = [&1u64.to_be_bytes(), &40u32.to_be_bytes(), &77u64.to_be_bytes()];
    let replaced: [&[u8]; 4] =
        [&1u64.to_be_bytes(), &3u64.to_be_bytes(), &60u32.to_be_bytes(), &1u32.to_be_bytes()];
    let rows = of_file(&[
        add(1),
        attributed,
        message(b'E', 7, &executed),
        message(b'C', 7, &[&executed.concat(), b"N", &5_000u32.to_be_bytes()]),
        message(b'X', 7, &[&1u64.to_be_bytes(), &5u32.to_be_bytes()]),
        message(b'U', 7, &replaced),
        delete(3),
        message(b'B', 8, &[&77u64.to_be_bytes()]),
    ])
    .unwrap();
    assert!(rows[..7].iter().all(|row| row.1 == "BRK A"));
    assert_eq!(rows[7].1, "#8");
    assert_eq!(rows[0].0.to_string(), "2019-01-30T14:30:00.000000123Z");
    let first = order(&rows[0]);
    assert_eq!((first.action, first.side, first.order_id), (OrderAction::Add, Some(Side::Ask), Some(1)));
    assert_eq!(first.price.unwrap().to_string(), "432.1500");
    assert_eq!((first.match_time, first.participant, first.instrument_id), (None, None, Some(7)));
    assert_eq!(order(&rows[1]).participant.unwrap().as_str(), "UBSS");
    let executed = order(&rows[2]);
    assert_eq!((executed.action, executed.trade_id, executed.price), (OrderAction::Execute, Some(77), None));
    let at_another_price = order(&rows[3]);
    assert_eq!(at_another_price.price.unwrap().to_string(), "0.5000");
    assert_eq!(at_another_price.flags, Some(u32::from(b'N')));
    assert_eq!(order(&rows[4]).size.unwrap().to_string(), "5");
    let replaced = order(&rows[5]);
    assert_eq!((replaced.previous_order_id, replaced.order_id), (Some(1), Some(3)));
    assert_eq!((order(&rows[6]).action, order(&rows[7]).action), (OrderAction::Delete, OrderAction::None));
}

#[test]
fn what_is_about_instruments_keeps_every_field() {
    let directory: [&[u8]; 5] =
        [b"ZVZZT   ", b"QN", &100u32.to_be_bytes(), b"NCZ PN 1N", &[0, 0, 0, 2, b'Y']];
    let imbalance: [&[u8]; 4] = [
        &1_000u64.to_be_bytes(),
        &250u64.to_be_bytes(),
        b"BZVZZT   ",
        &[0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x86, 0xA0, b'O', b'1'],
    ];
    let collar: [&[u8]; 2] = [b"ZVZZT   ", &[100u32, 110, 90, 2].map(u32::to_be_bytes).concat()];
    let rows = of_file(&[
        message(b'S', 0, &[b"Q"]),
        message(b'R', 5, &directory),
        message(b'H', 5, &[b"ZVZZT   ", b"H", b" ", b"LUDP"]),
        message(b'h', 5, &[b"ZVZZT   ", b"QT"]),
        message(b'Y', 5, &[b"ZVZZT   ", b"1"]),
        message(b'I', 5, &imbalance),
        message(b'J', 5, &collar),
        message(b'K', 5, &[b"ZVZZT   ", &34_200u32.to_be_bytes(), b"A", &120_000u32.to_be_bytes()]),
        message(b'V', 0, &[&[1u64, 2, 300_000_000].map(u64::to_be_bytes).concat()]),
        message(b'L', 5, &[b"UBSS", b"ZVZZT   ", b"YNA"]),
    ])
    .unwrap();
    assert_eq!(rows[0].1, "NASDAQ");
    assert!(rows[1..8].iter().all(|row| row.1 == "ZVZZT"), "{rows:?}");
    let AnyRecord::Definition(definition) = &rows[1].2 else { panic!("{:?}", rows[1]) };
    let attribute = |name: &str| {
        let found = definition.attributes.iter().find(|attribute| attribute.name == name);
        found.map(|attribute| attribute.value.as_str())
    };
    assert_eq!((attribute("Round Lot Size"), attribute("Issue Sub-Type")), (Some("100"), Some("Z")));
    assert_eq!((attribute("ETP Leverage Factor"), attribute("Inverse Indicator")), (Some("2"), Some("Y")));
    let AnyRecord::Status(halt) = &rows[2].2 else { panic!("{:?}", rows[2]) };
    assert_eq!((halt.state, halt.text.as_deref()), (Some(TradingState::Halted), Some("LUDP")));
    let AnyRecord::Imbalance(imbalance) = &rows[5].2 else { panic!("{:?}", rows[5]) };
    assert_eq!((imbalance.side, imbalance.auction_clearing_price), (Some(Side::Bid), None));
    assert_eq!(imbalance.reference_price.unwrap().to_string(), "10.0000");
    let AnyRecord::Imbalance(collar) = &rows[6].2 else { panic!("{:?}", rows[6]) };
    assert_eq!((collar.extensions, collar.upper_collar.unwrap().to_string()), (Some(2), "0.0110".into()));
    let AnyRecord::Statistic(offering) = &rows[7].2 else { panic!("{:?}", rows[7]) };
    assert_eq!(offering.reference_time.unwrap().to_string(), "2019-01-30T14:30:00Z");
    let AnyRecord::Notice(levels) = &rows[8].2 else { panic!("{:?}", rows[8]) };
    assert!(levels.text.ends_with("level 3 at 3"), "{}", levels.text);
}

#[test]
fn wrong_messages_are_named_and_files_cut_anywhere_are_errors() {
    let bytes = framed(&[add(1), delete(1)]);
    for length in 0..bytes.len() {
        let whole = [0, 38].contains(&length);
        let result = read("01302019.NASDAQ_ITCH50", &bytes[..length], OnBadLine::Stop);
        assert_eq!(result.is_ok(), whole, "{length}");
    }
    let mut bad = add(1);
    bad[19] = b'?';
    let error = of_file(&[add(1), bad.clone()]).unwrap_err().to_string();
    assert!(error.ends_with("record 2: expected a side B or S at byte 59"), "{error}");
    let rows = read("01302019.NASDAQ_ITCH50", &framed(&[bad, add(2)]), OnBadLine::Skip(1)).unwrap();
    assert_eq!(rows.len(), 1);
    // A type from after this program; behind it, all goes on.
    assert_eq!(of_file(&[message(b'~', 7, &[b"new"]), add(1)]).unwrap().len(), 1);
}

/// A packet of MoldUDP64.
fn packet(first: u64, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"000010059B".to_vec();
    bytes.extend(first.to_be_bytes());
    bytes.extend((messages.len() as u16).to_be_bytes());
    bytes.extend(framed(messages));
    bytes
}

/// 2023-08-22 09:30 in New York.
const SECONDS: u32 = 1_692_711_000;

#[test]
fn two_lines_of_a_capture_are_one_and_what_is_missing_is_a_gap() {
    use crate::pcap::fixture::{capture, frame};
    let at = |nanos: u32, payload: &[u8]| (SECONDS, nanos, frame(payload));
    let bytes = capture(&[
        at(1, &packet(10, &[add(1), add(2)])),
        at(2, &packet(10, &[add(1), add(2)])),
        at(3, &packet(12, &[])),
        at(4, &packet(15, &[delete(2)])),
        at(5, b"something else"),
        // The publisher begins again.
        at(6, &packet(10, &[add(9)])),
    ]);
    let rows = read("feed.pcap", &bytes, OnBadLine::Stop).unwrap();
    let names: Vec<_> = rows.iter().map(|row| row.2.type_name()).collect();
    assert_eq!(names, ["Order", "Order", "Gap", "Order", "Notice", "Order"]);
    assert_eq!(rows[1].0.nanos() % 1_000_000_000, 1);
    let second = order(&rows[1]);
    assert_eq!((second.order_id, second.sequence), (Some(2), Some(11)));
    assert_eq!(second.match_time.unwrap().to_string(), "2023-08-22T13:30:00.000000123Z");
    let AnyRecord::Gap(gap) = &rows[2].2 else { panic!("{:?}", rows[2]) };
    assert_eq!((gap.first_missing, gap.last_missing, gap.messages), (Some(12), Some(14), Some(3)));
    assert!(gap.verifiable && rows[2].1 == "NASDAQ");
    let AnyRecord::Notice(restart) = &rows[4].2 else { panic!("{:?}", rows[4]) };
    assert_eq!(restart.text, "packet 6: the numbers of the session begin again at 10, where 16 was next");
    assert_eq!(order(&rows[5]).order_id, Some(9));
}

#[test]
fn one_length_of_zero_ends_a_session_and_more_are_damage() {
    let sessions = [framed(&[add(1)]), vec![0, 0], framed(&[add(2)]), vec![0, 0]].concat();
    let name = "01302019.NASDAQ_ITCH50";
    assert_eq!(read(name, &sessions, OnBadLine::Stop).unwrap().len(), 2);
    let lost = [framed(&[add(1)]), vec![0; 4], framed(&[add(2)])].concat();
    let error = read(name, &lost, OnBadLine::Skip(9)).unwrap_err().to_string();
    assert!(error.contains("record 2 at byte") && error.contains("zeros where a message"), "{error}");
}

#[test]
fn a_packet_that_the_capture_cuts_is_a_gap() {
    use crate::pcap::fixture::{capture, frame};
    let whole = frame(&packet(1, &[add(1), add(2)]));
    let cut = whole[..whole.len() - 3].to_vec();
    let rows = read(
        "feed.pcap",
        &capture(&[(SECONDS, 0, frame(&packet(1, &[]))), (SECONDS, 1, cut)]),
        OnBadLine::Stop,
    );
    let rows = rows.unwrap();
    let AnyRecord::Gap(gap) = &rows[1].2 else { panic!("{:?}", rows[1]) };
    assert_eq!((gap.cause, gap.first_missing, gap.messages), (GapCause::Damage, Some(2), Some(1)));
}

#[test]
fn other_captures_are_of_other_formats() {
    use crate::pcap::fixture::{capture, frame};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.pcap");
    std::fs::write(&path, capture(&[(SECONDS, 0, frame(b"0123456789 but no packet of messages"))])).unwrap();
    assert!(ItchFile::of_path(&path).is_none());
}
