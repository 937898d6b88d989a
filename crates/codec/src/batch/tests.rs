//! Round trips, damage, truncation, golden bytes, and the format page.

use super::header::LAYOUT;
use super::*;
use proptest::prelude::*;

type Message = (i64, u32, u16, Vec<u8>);

/// The batch of the format page: two trades of symbol 7 and 300, one microsecond apart.
fn golden_batch() -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    builder.push_bytes(1_700_000_000_000_000_000, 7, 2, b"buy").unwrap();
    builder.push_bytes(1_700_000_000_000_001_000, 300, 2, b"sell!").unwrap();
    let mut out = Vec::new();
    builder.finish(1, &mut out);
    assign_sequence(&mut out, 42).unwrap();
    out
}

fn hex_dump(bytes: &[u8]) -> String {
    let line = |(i, row): (usize, &[u8])| {
        let hex: Vec<_> = row.iter().map(|b| format!("{b:02x}")).collect();
        format!("{:04x}  {}\n", i * 16, hex.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect()
}

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format/batch.md")).unwrap()
}

fn build(messages: &[Message]) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for (time, symbol, type_id, body) in messages {
        builder.push_bytes(*time, *symbol, *type_id, body).unwrap();
    }
    let mut out = Vec::new();
    assert_eq!(builder.finish(3, &mut out), out.len());
    out
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let time = prop_oneof![
        Just(5i64),
        0..200i64,
        0..60_000i64,
        0..1i64 << 40,
        any::<i64>(),
        Just(i64::MIN),
        Just(i64::MAX)
    ];
    let symbol = prop_oneof![Just(9u32), 0..256u32, 0..65_536u32, any::<u32>()];
    let type_id = prop_oneof![Just(1u16), 0..256u16, any::<u16>()];
    let body = prop_oneof![
        Just(vec![1, 2, 3]),
        prop::collection::vec(any::<u8>(), 0..20),
        (0..70_000usize).prop_map(|n| vec![7; n])
    ];
    prop_oneof![
        prop::collection::vec((time, symbol, type_id, body), 1..40),
        prop::collection::vec((0..200i64, 0..9u32, Just(1u16), Just(vec![1])), 1..300),
    ]
}

proptest! {
    #[test]
    fn pushed_messages_are_read_back(messages in messages()) {
        let batch = build(&messages);
        let header = check(&batch).unwrap();
        prop_assert_eq!(header.sorted(), messages.is_sorted_by_key(|m| m.0));
        prop_assert_eq!(header.time_min, messages.iter().map(|m| m.0).min().unwrap());
        prop_assert_eq!(header.time_max, messages.iter().map(|m| m.0).max().unwrap());
        let mut rows = Rows::default();
        rows.load(&batch).unwrap();
        prop_assert_eq!(rows.len(), messages.len());
        let are_alike = messages.iter().all(|m| (m.2, m.3.len()) == (messages[0].2, messages[0].3.len()));
        let alike = Alike { symbol_max: messages.iter().map(|m| m.1).max().unwrap(), bodies_start: rows.body(0).start };
        prop_assert_eq!(Alike::of(&header, &batch), are_alike.then_some(alike));
        for (i, (time, symbol, type_id, body)) in messages.iter().enumerate() {
            let row = rows.row(i);
            prop_assert_eq!((row.time, row.symbol, row.type_id), (*time, *symbol, *type_id));
            prop_assert_eq!(&batch[row.body], &body[..]);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut rows = Rows::default();
        prop_assert!(rows.load(&bytes).is_err() && rows.is_empty());
    }

    /// Headers with right checksums and wrong contents: the checks after the checksum.
    #[test]
    fn hostile_headers_never_panic(
        messages in messages(),
        changes in prop::collection::vec((16..80usize, any::<u8>()), 1..4),
        payload_changes in prop::collection::vec((0..4000usize, any::<u8>()), 0..4),
    ) {
        let mut batch = build(&messages);
        for (at, value) in changes {
            batch[at] = value;
        }
        for (at, value) in payload_changes {
            if let Some(byte) = batch.get_mut(HEADER_BYTES + at) {
                *byte = value;
            }
        }
        let first_sequence = u64::from_le_bytes(batch[16..24].try_into().unwrap());
        assign_sequence(&mut batch, first_sequence).unwrap();
        let mut rows = Rows::default();
        if let Ok(header) = BatchHeader::parse(&batch) {
            let is_alike = header.type_width == 0 && header.length_width == 0;
            let loaded = if header.is_columnar() { rows.load_places(&header, &batch) } else { rows.load(&batch) };
            let loaded = loaded.ok();
            let largest = loaded.and_then(|()| rows.symbols().iter().copied().max());
            let alike = Alike::of(&header, &batch).map(|alike| alike.symbol_max);
            prop_assert_eq!(alike, largest.filter(|_| is_alike));
        }
        if rows.load(&batch).is_ok() {
            let header = *rows.header();
            for i in 0..rows.len() {
                let row = rows.row(i);
                prop_assert!(batch.get(row.body).is_some());
                prop_assert!((header.time_min..=header.time_max).contains(&row.time));
            }
        }
    }
}

/// Each column is as narrow as its largest value: at, below and above each width.
#[test]
fn columns_at_the_bounds_of_their_widths_come_back() {
    let widths = [(0u64, 0), (1, 1), (0xff, 1), (0x100, 2), (0xffff, 2), (0x1_0000, 4), (0xffff_ffff, 4)];
    let wide = [(0x1_0000_0000, 8), (u64::MAX, 8)];
    for (range, width) in widths.into_iter().chain(wide) {
        for first in [0, -5, i64::MIN] {
            let last = first.wrapping_add_unsigned(range);
            let symbol = u32::try_from(range).unwrap_or(7);
            let type_id = u16::try_from(range).unwrap_or(7);
            let length = range.min(0x1_0001) as usize;
            let messages = [(first, 0, 0, vec![]), (last.max(first), symbol, type_id, vec![1; length])];
            let batch = build(&messages);
            let (header, mut rows) = (check(&batch).unwrap(), Rows::default());
            if last >= first {
                assert_eq!(header.time_width, width, "{range:#x}");
            }
            if u32::try_from(range).is_ok() {
                assert_eq!(header.symbol_width, width, "{range:#x}");
            }
            rows.load(&batch).unwrap();
            for (i, (time, symbol, type_id, body)) in messages.iter().enumerate() {
                let row = rows.row(i);
                assert_eq!((row.time, row.symbol, row.type_id), (*time, *symbol, *type_id), "{range:#x}");
                assert_eq!(&batch[row.body], &body[..], "{range:#x}");
            }
        }
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let batch = golden_batch();
    for bit in 0..batch.len() * 8 {
        let mut broken = batch.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        assert!(check(&broken).is_err(), "bit {bit}");
    }
}

#[test]
fn every_truncation_is_found() {
    let batch = golden_batch();
    let mut rows = Rows::default();
    for len in 0..batch.len() {
        assert!(check(&batch[..len]).is_err() && rows.load(&batch[..len]).is_err(), "{len} bytes");
    }
    let longer = [&batch[..], &[0]].concat();
    assert_eq!(rows.load(&longer), Err(BatchError::Trailing { offset: batch.len(), have: 1 }));
}

#[test]
fn numbering_changes_sequence_and_header_checksum_only() {
    let before = golden_batch();
    let mut after = before.clone();
    assign_sequence(&mut after, u64::MAX - 2).unwrap();
    assert_eq!(check(&after).unwrap().sequences(), u64::MAX - 2..u64::MAX);
    assert_eq!((&before[..4], &before[8..16], &before[24..]), (&after[..4], &after[8..16], &after[24..]));
    assign_sequence(&mut after, u64::MAX).unwrap();
    assert!(matches!(check(&after), Err(BatchError::Field { field: "first_sequence", .. })));
}

/// The same, sent by a producer as its third batch.
fn golden_batch_of_a_producer() -> Vec<u8> {
    let mut out = golden_batch();
    assign_producer(&mut out, 0x0123_4567_89ab_cdef, 3).unwrap();
    out
}

#[test]
fn a_producer_numbers_its_batches() {
    let (before, after) = (golden_batch(), golden_batch_of_a_producer());
    let header = check(&after).unwrap();
    assert_eq!((header.producer, header.producer_number), (0x0123_4567_89ab_cdef, 3));
    assert_eq!((&before[..4], &before[8..64], &before[80..]), (&after[..4], &after[8..64], &after[80..]));
    let mut out = [0; HEADER_BYTES];
    header.write(&mut out);
    assert_eq!(out, after[..HEADER_BYTES]);
    for (producer, number) in [(0, 3), (7, 0)] {
        let mut half = after.clone();
        assign_producer(&mut half, producer, number).unwrap();
        assert!(matches!(check(&half), Err(BatchError::Field { field: "producer_number", .. })));
    }
    assert!(assign_producer(&mut [0; HEADER_BYTES - 1], 1, 1).is_err());
    assert!(page().contains(&hex_dump(&after)), "docs/format/batch.md must show:\n{}", hex_dump(&after));
}

#[test]
fn refused_messages_leave_no_trace() {
    let mut builder = BatchBuilder::new();
    builder.push_bytes(1, 1, 1, b"kept").unwrap();
    let before = builder.payload_bytes();
    let large = vec![0; MAX_MESSAGE_BYTES + 1];
    let bytes = large.len();
    assert_eq!(builder.push_bytes(2, 1, 1, &large), Err(PushError::MessageTooLarge { bytes }));
    #[derive(Debug, PartialEq)]
    struct Refused;
    impl From<PushError> for Refused {
        fn from(_: PushError) -> Self {
            Self
        }
    }
    let failed = builder.try_push(2, 1, 1, |body| {
        body.push(9);
        Err(Refused)
    });
    assert_eq!((failed, builder.payload_bytes(), builder.len()), (Err(Refused), before, 1));
}

#[test]
fn a_full_builder_says_so_and_still_finishes() {
    let mut builder = BatchBuilder::new();
    let body = vec![5; MAX_MESSAGE_BYTES];
    while builder.push_bytes(1, 1, 1, &body).is_ok() {}
    assert_eq!(builder.push_bytes(1, 1, 1, &body), Err(PushError::BatchFull { count: 3 }));
    let mut batch = Vec::new();
    builder.finish(1, &mut batch);
    assert_eq!(check(&batch).unwrap().count, 3);
    let pushed = (0..).take_while(|&time| builder.push_bytes(time, 1, 1, b"").is_ok()).count();
    assert!(pushed <= MAX_BATCH_MESSAGES && builder.payload_bytes() <= MAX_BATCH_BYTES);
    batch.clear();
    builder.finish(1, &mut batch);
    let mut rows = Rows::default();
    rows.load(&batch).unwrap();
    assert_eq!(rows.len(), pushed);
    assert_eq!(builder.finish(1, &mut batch), 0);
}

#[test]
fn the_page_shows_the_golden_bytes() {
    let dump = hex_dump(&golden_batch());
    assert!(page().contains(&dump), "docs/format/batch.md must show:\n{dump}");
}

#[test]
fn the_page_has_the_real_offsets() {
    let page = page();
    for (offset, bytes, name) in &LAYOUT[..LAYOUT.len() - 1] {
        let row = format!("| {offset} | {bytes} | `{name}` |");
        assert!(page.contains(&row), "docs/format/batch.md lacks the row {row}");
    }
}
