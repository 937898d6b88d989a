//! DEEP and TOPS of a generator, read back equal; the recorded capture by its counts.

use crate::captures::{Capture, Numbers};
use std::collections::BTreeMap;
use tapedb_market::{BidAsk, MarketByPrice, OrderAction, Side, Statistic, StatisticKind};
use tapedb_schema::{Decimal64, Timestamp};
use tapedb_skipped::recorded_data;
use tapedb_venue::{AnyRecord, Format, ImportOptions, Source, detect, discover};

const BEGIN: i64 = 1_492_000_000_000_000_000;

type Row = (i64, String, AnyRecord);

/// A message of any type that prices have, and the record that it is.
fn message(numbers: &mut Numbers, sent: i64, sequence: u64) -> (Vec<u8>, String, AnyRecord) {
    let kind = numbers.one_of(b"8855TTBQX");
    let symbol = format!("S{}", numbers.below(40));
    let (flags, size, price) =
        (numbers.next() as u8, numbers.next() as u32, numbers.below(10_000_000_000) as i64);
    let time = sent - numbers.below(1_000_000) as i64;
    let mut bytes = vec![kind, flags];
    bytes.extend(time.to_le_bytes());
    bytes.extend(format!("{symbol:8}").bytes());
    let decimal = |value: i64| Decimal64::from_parts(value, -4).ok();
    let whole = |value: u32| Decimal64::from_parts(value.into(), 0).ok();
    let times = (Some(Timestamp(time)), Some(Timestamp(sent)));
    if kind == b'X' {
        bytes[1] = b"QM"[usize::from(flags % 2)];
        bytes.extend(price.to_le_bytes());
        let kind = [StatisticKind::OpeningPrice, StatisticKind::ClosePrice][usize::from(flags % 2)];
        let record = Statistic {
            kind: Some(kind),
            code: Some(bytes[1].into()),
            price: decimal(price),
            sequence: Some(sequence),
            match_time: times.0,
            source_time: times.1,
            ..Statistic::default()
        };
        return (bytes, symbol, record.into());
    }
    let mut record = MarketByPrice {
        flags: Some(flags.into()),
        sequence: Some(sequence),
        match_time: times.0,
        source_time: times.1,
        ..MarketByPrice::default()
    };
    bytes.extend(size.to_le_bytes());
    bytes.extend(price.to_le_bytes());
    (record.price, record.size) = (decimal(price), whole(size));
    match kind {
        b'8' | b'5' => {
            record.side = Some(if kind == b'8' { Side::Bid } else { Side::Ask });
            record.action = Some(if size == 0 { OrderAction::Delete } else { OrderAction::Modify });
            record.event_end = flags % 2 == 1;
        }
        b'T' | b'B' => {
            record.action = Some(if kind == b'T' { OrderAction::Trade } else { OrderAction::None });
            record.trade_id = Some(sequence * 7);
            bytes.extend((sequence * 7).to_le_bytes());
        }
        _ => {
            bytes.extend((price + 1).to_le_bytes());
            bytes.extend((size / 2).to_le_bytes());
            (record.price, record.size, record.event_end) = (None, None, true);
            let bid = if price == 0 { (None, None) } else { (decimal(price), whole(size)) };
            record.levels.push(BidAsk {
                bid_price: bid.0,
                bid_size: bid.1,
                ask_price: decimal(price + 1),
                ask_size: whole(size / 2),
                ..BidAsk::default()
            });
        }
    }
    (bytes, symbol, record.into())
}

/// A capture of two lines, of which each loses packets that the other has, and the rows that it is.
fn generated(packets: u64) -> (Vec<u8>, Vec<Row>) {
    let (mut numbers, mut capture, mut rows) = (Numbers(20_170_425), Capture::new(), Vec::new());
    let mut sequence = 1;
    for packet in 0..packets {
        let sent = BEGIN + packet as i64 * 50_000;
        let count = numbers.below(6);
        let (mut body, mut found) = (Vec::new(), Vec::new());
        for at in 0..count {
            let (bytes, symbol, record) = message(&mut numbers, sent, sequence + at);
            body.extend((bytes.len() as u16).to_le_bytes());
            body.extend(bytes);
            found.push((symbol, record));
        }
        let mut payload = vec![1, 0, 4, 0x80, 1, 0, 0, 0, 9, 0, 0, 0];
        payload.extend([body.len() as u16, count as u16].map(u16::to_le_bytes).concat());
        payload.extend([0, sequence as i64, sent].map(i64::to_le_bytes).concat());
        payload.extend(body);
        sequence += count;
        let shape = (numbers.below(3) as usize, numbers.below(20) as usize);
        let lost = numbers.below(20);
        let mut received = sent + 1_000;
        for line in 0..2 {
            if lost != line {
                capture.add(received, 10_000 + line as u16, &payload, shape);
                for (symbol, record) in std::mem::take(&mut found) {
                    rows.push((received, symbol, record));
                }
            }
            received += 700;
        }
    }
    (capture.0, rows)
}

fn each(mut source: Box<dyn Source>, mut take: impl FnMut(i64, &str, &AnyRecord)) -> Result<(), String> {
    let mut record = AnyRecord::default();
    while let Some(row) = source.next(&mut record).map_err(|error| error.to_string())? {
        take(row.time.nanos(), row.symbol, &record);
    }
    assert!(source.counters().unknown_kinds.is_empty());
    Ok(())
}

#[test]
fn what_a_generator_writes_is_read_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let (bytes, rows) = generated(5_000);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(detect(&[&path], &ImportOptions::default()).unwrap(), Format::Iex);
    let files = discover(Format::Iex, &[folder.path()], &ImportOptions::default()).unwrap();
    let mut expected = rows.iter();
    each(files[0].open().unwrap(), |time, symbol, record| {
        let row = expected.next().expect("as many rows");
        assert_eq!((time, symbol, record), (row.0, row.1.as_str(), &row.2));
    })
    .unwrap();
    assert!(expected.next().is_none() && rows.len() > 10_000);
}

/// All messages of all twelve epochs, and the packet that the file ends in.
#[test]
fn the_recorded_capture_is_read_to_the_packet_that_is_cut() {
    let Some(data) = recorded_data() else { return };
    let folder = data.join("iex");
    let files = discover(Format::Iex, &[&folder], &ImportOptions::default()).unwrap();
    assert_eq!(files.len(), 1);
    assert_eq!(detect(&[files[0].path()], &ImportOptions::default()).unwrap(), Format::Iex);
    let (mut kinds, mut last, mut ends) = (BTreeMap::<String, u64>::new(), i64::MIN, 0);
    let error = each(files[0].open().unwrap(), |time, symbol, record| {
        assert!(time >= last, "{time}");
        last = time;
        assert_ne!(symbol, "");
        let kind = match record {
            AnyRecord::MarketByPrice(change) => {
                ends += u64::from(change.event_end);
                format!("{:?} {:?}", change.action.unwrap(), change.side)
            }
            AnyRecord::Status(status) => match status.text.as_deref() {
                Some(
                    text @ ("operational halt" | "opening process complete" | "closing process complete"),
                ) => text.into(),
                _ if status.short_sale_restricted.is_some() => "short sale".into(),
                _ if symbol == "IEXG" => "system".into(),
                _ => "halt".into(),
            },
            other => other.type_name().into(),
        };
        *kinds.entry(kind).or_default() += 1;
    })
    .unwrap_err();
    assert!(
        error.contains("record 121316") && error.ends_with("the file is cut short or damaged"),
        "{error}"
    );
    let of = |kind: &str| kinds.get(kind).copied().unwrap_or_default();
    // One more begins in the last packet, of which the file has 24 of 30 bytes.
    let levels = |side: &str| of(&format!("Modify Some({side})")) + of(&format!("Delete Some({side})"));
    assert_eq!((levels("Ask"), levels("Bid")), (14_630, 12_949), "{kinds:?}");
    assert_eq!((of("Trade None"), of("None None")), (83_343, 73));
    assert_eq!((of("system"), of("halt")), (44, 93_638), "{kinds:?}");
    assert_eq!((of("operational halt"), of("short sale")), (93_638, 93_636));
    assert_eq!(of("opening process complete") + of("closing process complete"), 59);
    // The epochs, and what the last packet lacks.
    assert_eq!((of("Notice"), of("Gap")), (11, 1));
    assert!(ends > 0);
    println!("{kinds:?}, {ends} ends of events");
}
