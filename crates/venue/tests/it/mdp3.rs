//! MDP 3.0 of a generator, read back equal; the recorded capture by its counts.

use crate::captures::{Capture, Numbers};
use std::collections::BTreeMap;
use tapedb_market::{MarketByPrice, Order, OrderAction, Side};
use tapedb_schema::{Ascii, Decimal64, Timestamp};
use tapedb_skipped::recorded_data;
use tapedb_venue::{AnyRecord, Format, ImportOptions, Source, detect, discover};

const BEGIN: i64 = 1_700_000_000_000_000_000;

type Row = (i64, String, AnyRecord);

/// A refresh of levels or of orders, in the templates of old and new versions, and the records that it is.
fn message(numbers: &mut Numbers, sent: i64, number: u64) -> (Vec<u8>, Vec<(String, AnyRecord)>) {
    let (template, decimals) = numbers.one_of(&[(32u16, 7), (46, 9), (43, 7), (47, 9)]);
    let is_of_orders = matches!(template, 43 | 47);
    let (indicator, time) = (numbers.next() as u8, sent - 1_000);
    let count = numbers.below(5) as usize;
    // A newer version has longer blocks.
    let longer = numbers.below(3) as usize * 4;
    let (entry_bytes, root_bytes) = (if is_of_orders { 40 } else { 32 } + longer, 11 + longer);
    let mut root = time.to_le_bytes().to_vec();
    root.push(indicator);
    root.resize(root_bytes, 0xEE);
    let (mut body, mut rows) = (Vec::new(), Vec::new());
    for at in 0..count {
        let instrument = numbers.below(50) as u32;
        // A price with two decimals, which are kept as they are.
        let cents = numbers.below(1_000_000) as i64;
        let price = cents * 10i64.pow(decimals - 2);
        let (size, orders) = (numbers.below(5_000) as i32, numbers.below(90) as i32);
        let (depth, action) = (numbers.below(10) as u8, numbers.below(3) as u8);
        let kind = if is_of_orders { numbers.one_of(b"01") } else { numbers.one_of(b"01EF") };
        let side = if matches!(kind, b'0' | b'E') { Side::Bid } else { Side::Ask };
        let mut entry = Vec::new();
        let decimal = |coefficient: i64, exponent| Decimal64::from_parts(coefficient, exponent).ok();
        let flags = u32::from_le_bytes([indicator, action, kind, 0]);
        let exchange = matches!(kind, b'E' | b'F').then(|| Ascii::new("IMPLIED").unwrap());
        let actions = [OrderAction::Add, OrderAction::Modify, OrderAction::Delete];
        let action_of = actions[usize::from(action)];
        let event_end = indicator & 0x80 != 0 && at + 1 == count;
        let record: AnyRecord = if is_of_orders {
            let id = numbers.next();
            entry.extend([id, number].map(u64::to_le_bytes).concat());
            entry.extend(price.to_le_bytes());
            entry.extend(size.to_le_bytes());
            entry.extend(instrument.to_le_bytes());
            entry.extend([action, kind]);
            Order {
                action: action_of,
                side: Some(side),
                order_id: Some(id),
                priority: Some(number),
                price: decimal(cents, -2),
                size: decimal(size.into(), 0),
                event_end,
                snapshot: indicator & 0x20 != 0,
                flags: Some(flags),
                sequence: Some(number),
                match_time: Some(Timestamp(time)),
                source_time: Some(Timestamp(sent)),
                instrument_id: Some(instrument.into()),
                ..Order::default()
            }
            .into()
        } else {
            entry.extend(price.to_le_bytes());
            entry.extend(size.to_le_bytes());
            entry.extend(instrument.to_le_bytes());
            entry.extend(7u32.to_le_bytes());
            entry.extend(orders.to_le_bytes());
            entry.extend([depth + 1, action, kind]);
            let (price, size) = (decimal(cents, -2), decimal(size.into(), 0));
            MarketByPrice {
                action: Some(action_of),
                side: Some(side),
                price,
                size,
                depth: Some(depth.into()),
                event_end,
                snapshot: indicator & 0x20 != 0,
                flags: Some(flags),
                sequence: Some(number),
                match_time: Some(Timestamp(time)),
                source_time: Some(Timestamp(sent)),
                instrument_id: Some(instrument.into()),
                exchange,
                ..MarketByPrice::default()
            }
            .into()
        };
        entry.resize(entry_bytes, 0xDD);
        body.extend(entry);
        rows.push((format!("#{instrument}"), record));
    }
    let size = (10 + root.len() + 3 + body.len()) as u16;
    let mut bytes = [size, root_bytes as u16, template, 1, 9].map(u16::to_le_bytes).concat();
    bytes.extend(root);
    bytes.extend((entry_bytes as u16).to_le_bytes());
    bytes.push(count as u8);
    bytes.extend(body);
    (bytes, rows)
}

/// A capture of two lines, of which each loses packets that the other has, and the rows that it is.
fn generated(packets: u32) -> (Vec<u8>, Vec<Row>) {
    let (mut numbers, mut capture, mut rows) = (Numbers(20_231_114), Capture::new(), Vec::new());
    for number in 1..=packets {
        let sent = BEGIN + i64::from(number) * 50_000;
        let mut payload = number.to_le_bytes().to_vec();
        payload.extend(sent.to_le_bytes());
        let mut found = Vec::new();
        for _ in 0..=numbers.below(3) {
            let (bytes, records) = message(&mut numbers, sent, number.into());
            payload.extend(bytes);
            found.extend(records);
        }
        let shape = (numbers.below(3) as usize, numbers.below(20) as usize);
        // The first packets come on both lines: so it shows that they are one feed.
        let lost = if number < 10 { 9 } else { numbers.below(20) };
        let mut received = sent + 1_000;
        for line in 0..2 {
            if lost != line {
                capture.add(received, 14_310 + line as u16, &payload, shape);
                for (symbol, record) in std::mem::take(&mut found) {
                    rows.push((received, symbol, record));
                }
            }
            received += 700;
        }
    }
    (capture.0, rows)
}

fn each(mut source: Box<dyn Source>, mut take: impl FnMut(i64, &str, &AnyRecord)) {
    let mut record = AnyRecord::default();
    while let Some(row) = source.next(&mut record).unwrap() {
        take(row.time.nanos(), row.symbol, &record);
    }
    assert!(source.counters().unknown_kinds.is_empty());
}

#[test]
fn what_a_generator_writes_is_read_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let (bytes, rows) = generated(5_000);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(detect(&[&path], &ImportOptions::default()).unwrap(), Format::Mdp3);
    let files = discover(Format::Mdp3, &[folder.path()], &ImportOptions::default()).unwrap();
    let mut expected = rows.iter();
    each(files[0].open().unwrap(), |time, symbol, record| {
        let row = expected.next().expect("as many rows");
        assert_eq!((time, symbol, record), (row.0, row.1.as_str(), &row.2));
    });
    assert!(expected.next().is_none() && rows.len() > 10_000);
}

/// Ten thousand packets on two lines that carry the same.
#[test]
fn the_recorded_capture_is_one_feed() {
    let Some(data) = recorded_data() else { return };
    let path = data.join("exchange-pcap/Cme.Mdp3.Sbe.v6.1.pcap.gz");
    assert_eq!(detect(&[&path], &ImportOptions::default()).unwrap(), Format::Mdp3);
    let files = discover(Format::Mdp3, &[data.join("exchange-pcap")], &ImportOptions::default()).unwrap();
    assert_eq!(files.len(), 1);
    let (mut kinds, mut ends) = (BTreeMap::<String, u64>::new(), 0);
    each(files[0].open().unwrap(), |_, symbol, record| {
        assert!(symbol.starts_with('#'), "{symbol}: {record:?}");
        let kind = match record {
            AnyRecord::MarketByPrice(change) => {
                ends += u64::from(change.event_end);
                if change.action == Some(OrderAction::Trade) { "trade" } else { "level" }.into()
            }
            AnyRecord::Statistic(statistic) => format!("{:?}", statistic.kind),
            other => other.type_name().into(),
        };
        *kinds.entry(kind).or_default() += 1;
    });
    // Entries of templates 32, 42 and its orders, 37 and 35, as another reader counts them.
    let of = |kind: &str| kinds.get(kind).copied().unwrap_or_default();
    assert_eq!((of("level"), of("trade"), of("Order")), (14_574, 355, 567));
    let session = ["HighestBid", "LowestOffer", "OpeningPrice", "SessionHigh", "SessionLow"];
    let session = session.map(|kind| of(&format!("Some({kind})")));
    assert_eq!((of("Some(SessionVolume)"), session), (406, [112, 152, 31, 51, 50]));
    assert_eq!((kinds.values().sum::<u64>(), ends), (14_574 + 355 + 567 + 406 + 396, 1_406));
}
