//! Captures made here, byte by byte, and read back.

use super::*;
use crate::pcap::fixture::{capture, frame};
use crate::record::AnyRecord;
use std::collections::BTreeMap;
use tapedb_market::{Definition, InstrumentKind, MarketByPrice, Order, OrderAction, Side, StatisticKind};
use tapedb_schema::{Decimal64, Timestamp};

const SENT: u64 = 1_700_000_000_000_000_000;
const END: u8 = 0x80;

/// Bytes that are built field by field.
#[derive(Default, Clone)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn put(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn text(self, text: &str, width: usize) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(width, 0);
        self.put(&bytes)
    }

    fn i64(self, value: i64) -> Self {
        self.put(&value.to_le_bytes())
    }

    fn i32(self, value: i32) -> Self {
        self.put(&value.to_le_bytes())
    }

    fn pad(self, to: usize) -> Vec<u8> {
        let mut bytes = self.0;
        bytes.resize(to, 0);
        bytes
    }
}

fn bytes() -> Bytes {
    Bytes::default()
}

/// A group of entries of one length, whose head has three or eight bytes.
fn group(head_bytes: usize, entries: &[Vec<u8>]) -> Vec<u8> {
    let length = entries.first().map_or(0, Vec::len) as u16;
    let mut group = length.to_le_bytes().to_vec();
    group.resize(head_bytes - 1, 0);
    group.push(entries.len() as u8);
    group.extend(entries.concat());
    group
}

fn message(template: u16, version: u16, root: &[u8], groups: &[Vec<u8>]) -> Vec<u8> {
    let groups = groups.concat();
    let size = (10 + root.len() + groups.len()) as u16;
    let head = [size, root.len() as u16, template, 1, version].map(u16::to_le_bytes).concat();
    [&head[..], root, &groups].concat()
}

fn packet(number: u32, messages: &[Vec<u8>]) -> Vec<u8> {
    [&number.to_le_bytes()[..], &SENT.to_le_bytes(), &messages.concat()].concat()
}

/// The root of an incremental refresh.
fn event(indicator: u8) -> Vec<u8> {
    bytes().i64(SENT as i64 - 9).put(&[indicator]).pad(11)
}

fn level(price: i64, [instrument, orders]: [i32; 2], depth: u8, action: u8, kind: u8) -> Vec<u8> {
    let entry = bytes().i64(price).i32(12).i32(instrument).i32(1).i32(orders);
    entry.put(&[depth, action, kind]).pad(32)
}

type Row = (String, AnyRecord);

fn read_with(
    packets: &[Vec<u8>],
    on_bad_line: OnBadLine,
) -> Result<(Vec<Row>, BTreeMap<String, u64>), ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("feed.pcap");
    let frames = packets.iter().enumerate().map(|(at, packet)| (1_700_000_000, at as u32, frame(packet)));
    let bytes = capture(&frames.collect::<Vec<_>>());
    std::fs::write(&path, &bytes).unwrap();
    let mut source = open(&path, bytes.len() as u64, on_bad_line)?;
    let (mut rows, mut record) = (Vec::new(), AnyRecord::default());
    while let Some(row) = source.next(&mut record)? {
        rows.push((row.symbol.to_string(), record.clone()));
    }
    Ok((rows, source.counters().unknown_kinds.clone()))
}

fn read(messages: &[Vec<u8>]) -> Vec<Row> {
    read_with(&[packet(1, messages)], OnBadLine::Stop).unwrap().0
}

fn price(row: &Row) -> &MarketByPrice {
    match &row.1 {
        AnyRecord::MarketByPrice(change) => change,
        other => panic!("{other:?}"),
    }
}

fn order(row: &Row) -> &Order {
    match &row.1 {
        AnyRecord::Order(order) => order,
        other => panic!("{other:?}"),
    }
}

fn decimal(text: &str) -> Option<Decimal64> {
    text.parse().ok()
}

fn future(symbol: &str, id: i32) -> Vec<u8> {
    let root = bytes().put(&[END]).i32(7).put(b"A").i64(SENT as i64 - 9).put(&[17, 54, 1, 3, 4]);
    let root = root.text("XCME", 4).text("ES", 6).text("ES", 6).text(symbol, 20).i32(id);
    let root = root.text("FUT", 6).text("FFIXSX", 6).put(&[0xE8, 7, 12, 0xFF, 0xFF]);
    let root = root.text("USD", 3).text("USD", 3).put(b"F").i32(1).i32(3_000);
    let root = root.i64(250_000_000).i64(10_000_000).put(&[0xFF; 3]).text("IPNT", 30);
    let root = root.i64(50_000_000_000).i64(i64::MAX).put(&[0]).i32(5).i32(i32::MAX);
    let root = root.i64(9_000_000_000_000_000_001).i64(i64::MAX).i64(i64::MAX);
    let events = [bytes().put(&[5]).i64(11).pad(9), bytes().put(&[7]).i64(12).pad(9)];
    let feeds = [bytes().text("GBX", 3).put(&[10]).pad(4)];
    let lots = [bytes().put(&[2]).i32(10_000).pad(5)];
    let groups = [group(3, &events), group(3, &feeds), group(3, &[vec![1, 2, 0, 0]]), group(3, &lots)];
    message(54, 9, &root.pad(216), &groups)
}

#[test]
fn levels_of_both_price_scales_and_orders_of_them() {
    let levels =
        [level(4_810_250_000_000, [77, 5], 1, 0, b'0'), level(4_810_500_000_000, [78, i32::MAX], 2, 2, b'F')];
    let orders = [bytes().i64(555).i64(9).i32(3).put(&[2, 1]).pad(24)];
    let old = [level(48_102_500_000, [77, 5], 1, 1, b'1')];
    let rows = read(&[
        future("ESZ4", 77),
        message(46, 9, &event(END), &[group(3, &levels), group(8, &orders)]),
        message(32, 6, &event(0), &[group(3, &old)]),
    ]);
    let symbols: Vec<_> = rows.iter().map(|row| row.0.as_str()).collect();
    assert_eq!(symbols, ["ESZ4", "ESZ4", "#78", "#78", "ESZ4"]);
    let first = price(&rows[1]);
    assert_eq!((first.action, first.side, first.depth), (Some(OrderAction::Add), Some(Side::Bid), Some(0)));
    assert_eq!((first.price, first.size, first.event_end), (decimal("4810.25"), decimal("12"), false));
    assert_eq!(first.flags, Some(0x30_00_80));
    // Levels would be the state of the whole book.
    assert!(first.levels.is_empty());
    assert_eq!(
        (first.match_time, first.source_time),
        (Some(Timestamp(SENT as i64 - 9)), Some(Timestamp(SENT as i64)))
    );
    let implied = price(&rows[2]);
    assert_eq!((implied.exchange.unwrap().as_str(), implied.depth), ("IMPLIED", Some(1)));
    let of_level = order(&rows[3]);
    assert_eq!((of_level.action, of_level.order_id), (OrderAction::Modify, Some(555)));
    assert_eq!((of_level.price, of_level.size), (decimal("4810.50"), decimal("3")));
    assert_eq!((of_level.priority, of_level.event_end, of_level.sequence), (Some(9), true, Some(1)));
    let last = price(&rows[4]);
    assert_eq!((last.action, last.price), (Some(OrderAction::Modify), decimal("4810.25")));
}

#[test]
fn trades_come_with_their_orders() {
    let trade = |instrument: i32, orders: i32, aggressor: u8, id: i32| {
        let entry = bytes().i64(4_810_250_000_000).i32(4).i32(instrument).i32(1).i32(orders);
        entry.put(&[aggressor, 0]).i32(id).pad(32)
    };
    let fill = |order: i64, size: i32| bytes().i64(order).i32(size).pad(16);
    let trades = [trade(77, 2, 1, 900), trade(78, 1, 0, 901)];
    let fills = [fill(1, 4), fill(2, 3), fill(3, 1)];
    let volume = [bytes().i32(1_234).i32(77).i32(5).put(&[1]).pad(16)];
    let rows = read(&[
        message(48, 9, &event(1), &[group(3, &trades), group(8, &fills)]),
        message(37, 9, &event(END | 2), &[group(3, &volume)]),
    ]);
    assert_eq!((price(&rows[0]).side, price(&rows[1]).side), (Some(Side::Bid), None));
    let of = |row: &Row| (order(row).order_id, order(row).trade_id, order(row).instrument_id);
    assert_eq!(of(&rows[2]), (Some(1), Some(900), Some(77)));
    assert_eq!(of(&rows[3]), (Some(2), Some(900), Some(77)));
    assert_eq!(of(&rows[4]), (Some(3), Some(901), Some(78)));
    assert_eq!(order(&rows[4]).action, OrderAction::Fill);
    let AnyRecord::Statistic(volume) = &rows[5].1 else { panic!("{:?}", rows[5]) };
    assert_eq!((volume.kind, volume.quantity), (Some(StatisticKind::SessionVolume), decimal("1234")));
}

#[test]
fn a_definition_keeps_every_field() {
    let rows = read(&[future("ESZ4", 77)]);
    let AnyRecord::Definition(found) = &rows[0].1 else { panic!("{:?}", rows[0]) };
    let attribute = |name: &str| {
        let found = found.attributes.iter().find(|attribute| attribute.name == name);
        found.map(|attribute| attribute.value.as_str())
    };
    assert_eq!(attribute("MaturityMonthYear"), Some("2024-12"));
    assert_eq!(attribute("HighLimitPrice"), Some("9000000000.000000001"));
    assert_eq!((attribute("MarketDepth GBX"), attribute("MinLotSize 2")), (Some("10"), Some("1.00")));
    assert_eq!((attribute("InstAttribValue"), attribute("LowLimitPrice")), (Some("513"), None));
    assert_eq!((attribute("OpenInterestQty"), attribute("ClearedVolume")), (Some("5"), None));
    let Definition { kind, tick_size, contract_size, channel_id, .. } = **found;
    assert_eq!((kind, channel_id), (Some(InstrumentKind::Future), Some(310)));
    assert_eq!((tick_size, contract_size), (decimal("0.25"), decimal("50.00")));
    assert_eq!((found.activation, found.expiration), (Some(Timestamp(11)), Some(Timestamp(12))));
}

#[test]
fn snapshots_begin_with_a_clear() {
    let root = bytes().i32(40).i32(1).i32(77).i32(8).i64(SENT as i64 - 9).i64(SENT as i64 - 99);
    let root = root.put(&[0xFF, 0xFF, 17]).i64(5_000_000_000_000).i64(i64::MAX).i64(i64::MAX).pad(59);
    let entry = |value: i64, level: u8, kind: u8| {
        let entry = bytes().i64(value).i32(3).i32(2).put(&[level, 0xFF, 0xFF, 0xFF, 0]);
        entry.put(&[kind]).pad(22)
    };
    let entries = [entry(4_810_000_000_000, 1, b'0'), entry(4_800_000_000_000, 127, b'6')];
    let orders = |part: i32, id: i64| {
        let root = bytes().i32(40).i32(1).i32(77).i32(2).i32(part).i64(SENT as i64 - 9).pad(28);
        let entry = bytes().i64(id).i64(1).i64(4_810_000_000_000).i32(3).put(b"1").pad(29);
        message(53, 9, &root, &[group(3, &[entry])])
    };
    let rows = read(&[message(52, 9, &root, &[group(3, &entries)]), orders(1, 5), orders(2, 6)]);
    let names: Vec<_> = rows.iter().map(|row| row.1.type_name()).collect();
    let expected =
        ["MarketByPrice", "Status", "Statistic", "MarketByPrice", "Statistic", "Order", "Order", "Order"];
    assert_eq!(names, expected);
    assert_eq!((price(&rows[0]).action, price(&rows[0]).snapshot), (Some(OrderAction::Clear), true));
    assert_eq!((price(&rows[3]).action, price(&rows[3]).depth), (Some(OrderAction::Add), Some(0)));
    let AnyRecord::Statistic(settlement) = &rows[4].1 else { panic!("{:?}", rows[4]) };
    assert_eq!(
        (settlement.kind, settlement.price),
        (Some(StatisticKind::SettlementPrice), decimal("4800.00"))
    );
    let of = |row: &Row| (order(row).action, order(row).order_id, order(row).event_end);
    assert_eq!(of(&rows[5]), (OrderAction::Clear, None, false));
    assert_eq!(of(&rows[6]), (OrderAction::Add, Some(5), false));
    assert_eq!(of(&rows[7]), (OrderAction::Add, Some(6), true));
}

#[test]
fn newer_versions_are_read_by_length_and_unknown_templates_are_counted() {
    let longer = |entry: Vec<u8>| [entry, vec![0xAB; 8]].concat();
    let levels = vec![longer(level(4_810_250_000_000, [77, 5], 1, 0, b'0')); 2];
    let mut root = event(END);
    root.extend([0xCD; 5]);
    let (rows, unknown) = read_with(
        &[packet(
            1,
            &[
                message(200, 14, &[1; 20], &[vec![9; 7]]),
                message(46, 14, &root, &[group(3, &levels), group(8, &[])]),
                message(46, 9, &event(END), &[group(3, &[level(0, [77, 5], 1, 4, b'0')])]),
            ],
        )],
        OnBadLine::Stop,
    )
    .unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(price(&rows[1]).price, decimal("4810.25"));
    let counted: Vec<_> = unknown.into_iter().collect();
    let entry = "entry type '0' with update action 4".to_string();
    assert_eq!(counted, [(entry, 1), ("template 200 of version 14".to_string(), 1)]);
}

#[test]
fn lengths_that_lie_are_named_and_never_read() {
    let good = message(46, 9, &event(END), &[group(3, &[level(1, [77, 5], 1, 0, b'0')])]);
    for (at, value) in [(0, 200), (0, 5), (2, 90), (2, 3), (21, 200), (23, 9)] {
        let mut bad = good.clone();
        bad[at] = value;
        let error = read_with(&[packet(1, &[bad])], OnBadLine::Stop).unwrap_err().to_string();
        assert!(error.contains("record 1: expected "), "{at}: {error}");
    }
    for length in 0..good.len() {
        let mut short = good.clone();
        short.truncate(length);
        let _ = read_with(&[packet(1, &[short])], OnBadLine::Skip(9));
    }
}

#[test]
fn what_both_lines_have_comes_once_and_what_neither_has_is_a_gap() {
    let book = |price: i64| {
        message(46, 9, &event(END), &[group(3, &[level(price * 1_000_000_000, [77, 5], 1, 0, b'0')])])
    };
    let of = |number: u32, price: i64| packet(number, &[book(price)]);
    let packets = [of(1, 1), of(1, 1), of(2, 2), of(5, 5), of(2, 2), of(4, 4), of(5, 5), of(1, 9), of(1, 9)];
    let (rows, _) = read_with(&packets, OnBadLine::Stop).unwrap();
    let names: Vec<_> = rows.iter().map(|row| row.1.type_name()).collect();
    let level = "MarketByPrice";
    assert_eq!(names, [level, level, "Gap", level, level, "Notice", level]);
    let AnyRecord::Gap(gap) = &rows[2].1 else { panic!("{:?}", rows[2]) };
    assert_eq!((gap.first_missing, gap.last_missing, rows[2].0.as_str()), (Some(3), Some(4), "CME"));
}
