//! Files made here, byte by byte, and read back.

use super::*;
use std::fs;
use tapedb_market::{DefinitionAction, OrderAction, Side, StatisticKind, TradingState};

const TIME: u64 = 1_703_548_799_000_000_000;

/// A record: header, then the body; the length is that of both.
fn record(kind: u8, instrument: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![((HEAD_BYTES + body.len()) / WORD) as u8, kind];
    bytes.extend(1u16.to_le_bytes());
    bytes.extend(instrument.to_le_bytes());
    bytes.extend((TIME - 1_000).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn order(action: u8, price: i64, received: u64) -> Vec<u8> {
    let mut body = 645_u64.to_le_bytes().to_vec();
    body.extend(price.to_le_bytes());
    body.extend(22u32.to_le_bytes());
    body.extend([0b1010_0000, 3, action, b'B']);
    body.extend(received.to_le_bytes());
    body.extend(400i32.to_le_bytes());
    body.extend(17u32.to_le_bytes());
    record(0xA0, 17_077, &body)
}

fn text(text: &str, width: usize) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(width, 0);
    bytes
}

/// Metadata with one mapping, from 2023-12-25 for one day.
fn metadata(version: u8, name: &str) -> Vec<u8> {
    let width = if version == 1 { 22 } else { 71 };
    let mut body = text("GLBX.MDP3", 16);
    body.extend(0u16.to_le_bytes());
    body.extend((TIME - 5_000).to_le_bytes());
    body.extend([0; 16]);
    if version == 1 {
        body.extend([0; 8]);
    }
    body.extend([1, 0, 0]);
    if version > 1 {
        body.extend((width as u16).to_le_bytes());
    }
    body.resize(100, 0);
    body.extend(0u32.to_le_bytes());
    body.extend(1u32.to_le_bytes());
    body.extend(text(name, width));
    body.extend([0; 8]);
    body.extend(1u32.to_le_bytes());
    body.extend(text(name, width));
    body.extend(1u32.to_le_bytes());
    body.extend(20_231_225u32.to_le_bytes());
    body.extend(20_231_226u32.to_le_bytes());
    body.extend(text("17077", width));
    let mut bytes = vec![b'D', b'B', b'N', version];
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// Symbol, time less [`TIME`] and record of every row, and the error at the end.
fn read(bytes: &[u8], on_bad_line: OnBadLine) -> (Vec<(String, i64, AnyRecord)>, Counters, Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.dbn");
    fs::write(&path, bytes).unwrap();
    let (mut rows, mut out) = (Vec::new(), AnyRecord::default());
    let opened = DbnFile::of_path(&path).unwrap().open(&path, bytes.len() as u64, on_bad_line);
    let mut source = match opened {
        Ok(source) => source,
        Err(error) => return (rows, Counters::default(), Some(error.to_string())),
    };
    loop {
        match source.next(&mut out) {
            Ok(Some(row)) => rows.push((row.symbol.to_string(), row.time.nanos() - TIME as i64, out.clone())),
            Ok(None) => return (rows, source.counters().clone(), None),
            Err(error) => return (rows, source.counters().clone(), Some(error.to_string())),
        }
    }
}

fn good(bytes: &[u8]) -> Vec<(String, i64, AnyRecord)> {
    let (rows, _, error) = read(bytes, OnBadLine::Stop);
    assert_eq!(error, None);
    rows
}

#[test]
fn an_order_of_each_version_and_of_a_fragment() {
    let bytes = order(b'A', 4_810_250_000_000, TIME);
    for version in 1..=3 {
        let rows = good(&[metadata(version, "ESH4"), bytes.clone()].concat());
        let [(symbol, 0, AnyRecord::Order(order))] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((symbol.as_str(), order.action, order.side), ("ESH4", OrderAction::Add, Some(Side::Bid)));
        assert_eq!(order.price.unwrap().to_string(), "4810.25");
        assert_eq!((order.size.unwrap().to_string(), order.order_id), ("22".into(), Some(645)));
        assert_eq!((order.event_end, order.snapshot, order.flags), (true, true, Some(0b1010_0000)));
        assert_eq!((order.sequence, order.channel_id, order.publisher_id), (Some(17), Some(3), Some(1)));
        let nanos = |time: Option<Timestamp>| time.map(|time| time.nanos() - TIME as i64);
        assert_eq!((nanos(order.match_time), nanos(order.source_time)), (Some(-1_000), Some(-400)));
        assert_eq!(order.vendor_time, None);
    }
    assert_eq!(good(&bytes)[0].0, "17077", "a fragment has no symbols");
}

#[test]
fn the_symbol_is_that_of_the_day() {
    let next_day = order(b'A', 1, TIME + 86_400_000_000_000);
    let rows = good(&[metadata(3, "ESH4"), order(b'A', 1, TIME), next_day].concat());
    assert_eq!((rows[0].0.as_str(), rows[1].0.as_str()), ("ESH4", "17077"));
    let mut body = vec![1];
    body.extend([text("ES.FUT", 71), vec![1], text("ESM4", 71)].concat());
    body.extend([TIME.to_le_bytes(), u64::MAX.to_le_bytes()].concat());
    let mapping = record(0x16, 17_077, &body);
    let rows = good(&[metadata(3, "ESH4"), mapping, order(b'A', 1, TIME)].concat());
    assert_eq!((rows[0].0.as_str(), rows[1].0.as_str()), ("ESM4", "ESM4"));
}

#[test]
fn undefined_prices_and_times_are_null() {
    let rows = good(&[metadata(2, "ESH4"), order(b'R', i64::MAX, u64::MAX)].concat());
    let [(_, -1_000, AnyRecord::Order(order))] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((order.action, order.price, order.source_time), (OrderAction::Clear, None, None));
}

#[test]
fn the_time_of_sending_behind_a_record_is_kept() {
    let mut bytes = order(b'T', 1, TIME);
    bytes.extend((TIME + 9).to_le_bytes());
    bytes[0] += 2;
    let rows = good(&bytes);
    let AnyRecord::Order(order) = &rows[0].2 else { panic!("{rows:?}") };
    assert_eq!(order.vendor_time, Some(Timestamp(TIME as i64 + 9)));
}

#[test]
fn levels_bars_statistics_and_states() {
    let mut change = 5_000_000_000i64.to_le_bytes().to_vec();
    change.extend(7u32.to_le_bytes());
    change.extend([b'T', b'A', 0x80, 2]);
    change.extend(TIME.to_le_bytes());
    change.extend([1i32.to_le_bytes(), 8i32.to_le_bytes()].concat());
    for level in 0..10i64 {
        change.extend([(4 - level) * 1_000_000_000, i64::MAX].map(i64::to_le_bytes).concat());
        change.extend([10u32, 11, 12, 13].map(u32::to_le_bytes).concat());
    }
    let rows = good(
        &[record(0x0A, 1, &change), record(0x00, 1, &change[..32]), record(0xB1, 1, &change[..64])].concat(),
    );
    let AnyRecord::MarketByPrice(ten) = &rows[0].2 else { panic!("{rows:?}") };
    assert_eq!((ten.levels.len(), ten.depth, ten.sequence), (10, Some(2), Some(8)));
    let level = &ten.levels[9];
    assert_eq!((level.bid_price.unwrap().to_string(), level.ask_price), ("-5.00".into(), None));
    assert_eq!((level.bid_orders, level.ask_orders, level.bid_publisher_id), (Some(12), Some(13), None));
    let AnyRecord::MarketByPrice(trade) = &rows[1].2 else { panic!("{rows:?}") };
    assert_eq!((trade.action, trade.levels.len()), (Some(OrderAction::Trade), 0));
    let AnyRecord::MarketByPrice(best) = &rows[2].2 else { panic!("{rows:?}") };
    assert_eq!((best.sequence, best.levels[0].bid_publisher_id), (None, Some(12)));

    let bar = [1i64, 2, 3, 4].map(|price| price * 1_000_000_000).map(i64::to_le_bytes).concat();
    let rows = good(&record(0x21, 1, &[bar, 9u64.to_le_bytes().to_vec()].concat()));
    let (_, 59_999_999_000, AnyRecord::IntervalBar(bar)) = &rows[0] else { panic!("{rows:?}") };
    assert_eq!(
        (bar.close.unwrap().to_string(), bar.volume.unwrap().to_string()),
        ("4.00".into(), "9".into())
    );

    for (quantity, wide) in [(77i64.to_le_bytes().to_vec(), true), (77i32.to_le_bytes().to_vec(), false)] {
        let mut body = [TIME.to_le_bytes(), u64::MAX.to_le_bytes(), i64::MAX.to_le_bytes()].concat();
        body.extend(quantity);
        body.extend([5u32.to_le_bytes(), 0u32.to_le_bytes()].concat());
        body.extend([9u16.to_le_bytes(), 3u16.to_le_bytes()].concat());
        body.extend([1, 0]);
        body.resize(if wide { 64 } else { 48 }, 0);
        let rows = good(&record(0x18, 1, &body));
        let AnyRecord::Statistic(figure) = &rows[0].2 else { panic!("{rows:?}") };
        assert_eq!((figure.kind, figure.price), (Some(StatisticKind::OpenInterest), None));
        assert_eq!((figure.quantity.unwrap().to_string(), figure.sequence), ("77".into(), Some(5)));
    }

    let mut body = TIME.to_le_bytes().to_vec();
    body.extend([8u16, 1, 0].map(u16::to_le_bytes).concat());
    body.extend([b'N', b'Y', b'~', 0, 0, 0, 0, 0, 0, 0]);
    let rows = good(&record(0x12, 1, &body));
    let AnyRecord::Status(status) = &rows[0].2 else { panic!("{rows:?}") };
    assert_eq!((status.state, status.trading), (Some(TradingState::Halted), Some(false)));
    assert_eq!((status.quoting, status.short_sale_restricted), (Some(true), None));
}

#[test]
fn definitions_keep_what_has_no_field_as_attributes() {
    for (length, symbol, action, decimals) in [(360, 200, 349, 24), (400, 200, 382, 24), (520, 238, 493, 24)]
    {
        let mut body = vec![0xFF; length - HEAD_BYTES];
        let mut put = |at: usize, bytes: &[u8]| body[at - HEAD_BYTES..][..bytes.len()].copy_from_slice(bytes);
        // Undefined: the highest numbers and empty texts.
        let layout = match length {
            360 => layouts::V1,
            400 => layouts::V2,
            _ => layouts::V3,
        };
        for &(_, offset, kind) in layout {
            match kind {
                definition::Kind::Text(width) => put(offset, &vec![0; width]),
                definition::Kind::Char => put(offset, &[0]),
                definition::Kind::Price => put(offset, &i64::MAX.to_le_bytes()),
                _ => {}
            }
        }
        put(16, &TIME.to_le_bytes());
        put(symbol, b"ESH4");
        put(action, b"M");
        put(decimals, &250_000_000i64.to_le_bytes());
        put(layout.iter().find(|field| field.0 == "maturity_month").unwrap().1, &[3]);
        let rows = good(&record(0x13, 17_077, &body));
        let (symbol, 0, AnyRecord::Definition(found)) = &rows[0] else { panic!("{rows:?}") };
        assert_eq!((symbol.as_str(), found.action), ("ESH4", Some(DefinitionAction::Modify)));
        assert_eq!(found.tick_size.unwrap().to_string(), "0.25");
        let attributes: Vec<_> =
            found.attributes.iter().map(|fact| (fact.name.as_str(), fact.value.as_str())).collect();
        let numbers: Vec<_> = attributes.iter().filter(|fact| fact.1 != "-1").collect();
        assert_eq!(numbers, [&("maturity_month", "3")]);
    }
}

#[test]
fn what_is_not_known_is_counted_and_what_is_wrong_is_named() {
    let start = metadata(3, "ESH4");
    let bad = order(b'X', 1, TIME);
    let bytes = [start.clone(), record(0x77, 1, &[0; 8]), bad, order(b'A', 1, TIME)].concat();
    let (rows, counters, error) = read(&bytes, OnBadLine::Stop);
    let offset = start.len() + 24 + 38;
    assert_eq!((rows.len(), counters.unknown_kinds["record type 0x77"]), (0, 1));
    let expected = format!("record 2: expected an action A, C, M, T, F, R or N at byte {offset}");
    assert!(error.as_ref().is_some_and(|error| error.ends_with(&expected)), "{error:?}");
    let (rows, counters, error) = read(&bytes, OnBadLine::Skip(1));
    assert_eq!((rows.len(), counters.bad_lines, error), (1, 1, None));
}

#[test]
fn a_file_cut_anywhere_is_an_error_and_never_passes_for_whole() {
    let bytes = [metadata(2, "ESH4"), order(b'A', 1, TIME), order(b'C', 1, TIME)].concat();
    let whole = [bytes.len() - 112, bytes.len() - 56];
    for length in 1..bytes.len() {
        let (rows, _, error) = read(&bytes[..length], OnBadLine::Skip(u64::MAX));
        assert_eq!(error.is_none(), whole.contains(&length), "{length}: {rows:?} {error:?}");
    }
}

#[test]
fn lengths_and_counts_that_lie_take_no_memory() {
    let mut long = metadata(3, "ESH4");
    long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = read(&long, OnBadLine::Stop).2.unwrap();
    assert!(error.contains("longer than 256 MiB"), "{error}");
    long[4..8].copy_from_slice(&(255u32 << 20).to_le_bytes());
    assert!(read(&long, OnBadLine::Stop).2.unwrap().contains("cut short"));
    for at in [112, 187, 195] {
        let mut counts = metadata(3, "ESH4");
        counts[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(read(&counts, OnBadLine::Stop).2.unwrap().contains("counts are wrong"), "{at}");
    }
    let error = read(b"time,price\n1,2\n", OnBadLine::Stop).2.unwrap();
    assert!(error.contains("record") || error.contains("not a file of dbn"), "{error}");
    let mut next = metadata(3, "ESH4");
    next[3] = 4;
    assert!(read(&next, OnBadLine::Stop).2.unwrap().contains("DBN version 4; versions 1 to 3 are read"));
}

#[cfg(feature = "zstd")]
#[test]
fn several_zstd_frames_are_one_file_and_old_files_are_read() {
    let pack = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let packed =
        [pack(&metadata(3, "ESH4")), pack(&order(b'A', 1, TIME)), pack(&order(b'C', 1, TIME))].concat();
    assert_eq!(good(&packed).len(), 2);
    let (_, _, error) = read(&packed[..packed.len() - 3], OnBadLine::Stop);
    assert!(error.unwrap().contains("cut short"));

    // What version 1 has behind its fixed part, compressed; and 4 bytes before that part.
    let first = metadata(1, "ESH4");
    let mut fixed = b"DBZ\x01".to_vec();
    fixed.extend(&first[8..8 + 50]);
    fixed.extend([1, 1, 0]);
    fixed.resize(96, 0);
    fixed.extend(pack(&first[8 + 100..]));
    let mut old = 0x184D_2A51u32.to_le_bytes().to_vec();
    old.extend((fixed.len() as u32).to_le_bytes());
    old.extend(fixed);
    let without_records = old.clone();
    old.extend(pack(&order(b'A', 1, TIME)));
    assert_eq!(good(&old)[0].0, "ESH4");
    assert!(good(&without_records).is_empty());
}
